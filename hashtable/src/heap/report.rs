//! Rule T6: what clients tell about lives, and what of it is believed.

use super::Heap;
use super::chunk::State;
use farside_protocol::Life;

/// What a session tells about lives.
#[derive(Clone, Copy, Default, Debug)]
pub struct Report<'a> {
    /// Leases of this session whose records it published, knowing that it did. One whose outcome it does not know
    /// stays leased, and is resolved when the session ends.
    pub published: &'a [Life],
    /// Records past which the session moved a slot, whoever published them.
    pub retired: &'a [Life],
    /// Leases of this session that it gives back unspent. They rest like retired ones: their words may have been
    /// seen as tentative.
    pub returned: &'a [Life],
}

/// Lives that were ignored in reports: not the current life of any block, or not out any more, or (published,
/// returned) not leased to the sender. A few are normal: what a sweep found first is retired later.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ignored {
    /// Among the published.
    pub published: u64,
    /// Among the retired.
    pub retired: u64,
    /// Among the returned.
    pub returned: u64,
}

impl Heap {
    /// Takes a session's report. It can be repeated without harm, and its lives may be anything.
    ///
    /// A retirement is believed from anyone, also for a life whose publishing is not reported yet: only the winner
    /// of the slot past a record sends one, and that may well be faster than the record's writer.
    pub fn report(&mut self, session: u64, report: &Report<'_>, now_ns: u64) {
        let now_ns = self.advance(now_ns);
        let sender = self.sessions.find_live(session);
        for &life in report.published {
            match self.chunks.current(life) {
                Some((place, State::Leased { by })) if sender == Some(by) => self.publish(place, by),
                _ => self.ignored.published += 1,
            }
        }
        for &life in report.returned {
            match self.chunks.current(life) {
                Some((place, from @ State::Leased { by })) if sender == Some(by) => {
                    self.quarantine(place, from, now_ns);
                }
                _ => self.ignored.returned += 1,
            }
        }
        for &life in report.retired {
            match self.chunks.current(life) {
                Some((place, from @ (State::Leased { .. } | State::Published { .. }))) => {
                    self.quarantine(place, from, now_ns);
                }
                _ => self.ignored.retired += 1,
            }
        }
    }
}
