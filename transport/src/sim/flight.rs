//! A chain under way: its steps broken into the pieces that execute each at once.

use super::{ClientId, Conduct, Rng};
use farside_hashtable::{Chain, Lost, Step};

/// A part of a step that executes at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Which step of the chain.
    pub(super) step: usize,
    /// The first word, counted from where the step begins.
    pub(super) from: usize,
    /// Words.
    pub(super) words: usize,
    /// The bits of each word that it moves: all, or some bytes.
    pub(super) mask: u64,
}

/// How a chain ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Completes,
    /// An error takes the place of its completion after so many pieces.
    FailsAfter(usize),
    /// Its user hears no more of it after so many pieces.
    SilentAfter(usize),
}

/// A posted chain.
pub(super) struct Flight {
    pub(super) id: u64,
    pub(super) client: ClientId,
    pub(super) shard: usize,
    /// Its steps; the words found are filled in as they are executed.
    pub(super) chain: Chain,
    pub(super) pieces: Vec<Piece>,
    /// The piece to execute next.
    pub(super) next: usize,
    /// The step of the world before which nothing of it happens.
    pub(super) held_until: u64,
    pub(super) fate: Fate,
    /// What its user will be told when it polls.
    pub(super) outcome: Option<Result<(), Lost>>,
    /// Whether its user still waits for it.
    pub(super) awaited: bool,
    pub(super) incoming: Vec<u8>,
    pub(super) outgoing: Vec<u8>,
}

/// What a flight does when its turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    Execute(Piece),
    Complete,
    Fail,
    FallSilent,
}

impl Flight {
    /// What comes next; `None` if nothing does by itself.
    pub(super) fn turn(&self) -> Option<Turn> {
        match self.fate {
            Fate::FailsAfter(pieces) if self.awaits_word() && self.next == pieces => Some(Turn::Fail),
            Fate::SilentAfter(pieces) if self.next == pieces => Some(Turn::FallSilent),
            _ => match self.pieces.get(self.next) {
                Some(piece) => Some(Turn::Execute(*piece)),
                None if self.fate == Fate::Completes && self.awaits_word() => Some(Turn::Complete),
                None => None,
            },
        }
    }

    fn awaits_word(&self) -> bool {
        self.awaited && self.outcome.is_none()
    }

    /// Whether it can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        !self.awaited && self.next == self.pieces.len()
    }

    /// Drops what it has not executed.
    pub(super) fn cut(&mut self) {
        self.pieces.truncate(self.next);
    }
}

/// Most pieces of one step, unless it goes word by word.
const PIECES_MAX: usize = 4;

/// Breaks the steps of `chain` into pieces, those of a step in the order in which they will execute.
pub(super) fn break_up(chain: &Chain, conduct: &Conduct, rng: &mut Rng) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (step, access) in chain.iter().enumerate() {
        let begin = pieces.len();
        let (words, is_read) = match *access {
            Step::Read { len, .. } => (len as usize / 8, true),
            Step::Write { len, .. } => (len as usize / 8, false),
            Step::CompareSwap { .. } => {
                pieces.push(Piece { step, from: 0, words: 1, mask: !0 });
                continue;
            }
        };
        let mut from = 0;
        for end in cuts(words, conduct, rng) {
            pieces.push(Piece { step, from, words: end - from, mask: !0 });
            from = end;
        }
        if is_read && conduct.split_words && rng.one_in(2) {
            split_a_word(&mut pieces, begin, rng);
        }
        if conduct.reorder {
            rng.shuffle(&mut pieces[begin..]);
        }
    }
    pieces
}

/// The ends of the pieces of a step of `words` words, ascending, the last one `words`.
fn cuts(words: usize, conduct: &Conduct, rng: &mut Rng) -> Vec<usize> {
    if !conduct.tear || words < 2 {
        return vec![words];
    }
    if rng.one_in(16) {
        return (1..=words).collect();
    }
    let mut ends = vec![words];
    // Between link and body, or between two lines of a window, is where a cut matters most.
    if rng.one_in(2) {
        ends.push(if words > 8 { 8 * (1 + rng.index(words / 8)) } else { 1 });
    }
    for _ in 0..rng.index(PIECES_MAX - 1) {
        ends.push(1 + rng.index(words - 1));
    }
    ends.retain(|end| *end <= words);
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Takes the first word out of one of the pieces from `begin` on and moves its bytes in two turns.
fn split_a_word(pieces: &mut Vec<Piece>, begin: usize, rng: &mut Rng) {
    let at = begin + rng.index(pieces.len() - begin);
    let Piece { step, from, words, .. } = pieces[at];
    let low = (1 << (8 * (1 + rng.below(7)))) - 1;
    let low = if rng.one_in(2) { low } else { !low };
    pieces[at] = Piece { step, from, words: 1, mask: low };
    if words > 1 {
        pieces.push(Piece { step, from: from + 1, words: words - 1, mask: !0 });
    }
    pieces.push(Piece { step, from, words: 1, mask: !low });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Chain {
        Chain::from_iter([Step::write(4096, 56), Step::compare_swap(4096, 0, 1), Step::read(4096, 256, 0)])
    }

    /// Whatever the conduct, each bit of each step's words moves exactly once and no step begins before its
    /// predecessor has ended.
    #[test]
    fn pieces_cover_every_step_once_and_in_order() {
        let rng = &mut Rng::new(3);
        for _ in 0..2000 {
            let conduct = Conduct {
                tear: rng.one_in(2),
                reorder: rng.one_in(2),
                split_words: rng.one_in(2),
                ..Conduct::CALM
            };
            let pieces = break_up(&chain(), &conduct, rng);
            assert!(pieces.is_sorted_by_key(|piece| piece.step));
            for (step, words) in [7, 1, 32].into_iter().enumerate() {
                let mut covered = vec![0u64; words];
                for piece in pieces.iter().filter(|piece| piece.step == step) {
                    for word in &mut covered[piece.from..piece.from + piece.words] {
                        assert_eq!(*word & piece.mask, 0, "{pieces:?}");
                        *word |= piece.mask;
                    }
                }
                assert!(covered.iter().all(|word| *word == !0), "{pieces:?}");
            }
        }
    }

    #[test]
    fn a_calm_fabric_moves_each_step_whole() {
        assert_eq!(break_up(&chain(), &Conduct::CALM, &mut Rng::new(1)).len(), 3);
    }
}
