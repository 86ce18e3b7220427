//! How many messages each end of a [`Pipe`](super::pipe) may send. No I/O in here.
//!
//! A SEND needs a receive that the peer has posted, or it fails (RoCE tries again, iWARP ends the connection). So each
//! message tells how many receives its sender has posted since the beginning, and nobody sends more messages than that.
//! An end that has nothing to say tells it in a message without bytes, an *announcement*, when half of its receives
//! are news to the peer.
//!
//! *No deadlock.* The last credit is for announcements alone. An announcement grants half of the receives at once, so
//! the peer can send, and what it sends grants anew the receive that the announcement took. Each announcement answers
//! at least [`ANNOUNCED_AT`] messages, so they die out.

/// Receives that each end keeps posted, but for those whose bytes nobody has read yet.
pub(super) const RECEIVES: u32 = 16;

/// Receives that are announced when no message tells of them.
const ANNOUNCED_AT: u32 = RECEIVES / 2;

/// What a message begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// Messages before it, modulo 2^32: a device that lost or repeated one would be found out.
    number: u32,
    /// Receives that its sender has posted, modulo 2^32.
    posted: u32,
}

impl Header {
    pub(super) const fn to_word(self) -> u64 {
        (self.number as u64) << 32 | self.posted as u64
    }

    pub(super) const fn from_word(word: u64) -> Self {
        Self { number: (word >> 32) as u32, posted: word as u32 }
    }
}

/// A message that the peer must not have sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Breach {
    #[error("message {found} came for message {expected}")]
    Number { expected: u32, found: u32 },
    #[error("a message tells of more receives than there can be, or of fewer than the one before")]
    Receives,
    #[error("an announcement announces nothing")]
    Idle,
}

/// One end's account. All numbers are modulo 2^32.
#[derive(Debug)]
pub(super) struct Credits {
    /// Messages sent.
    sent: u32,
    /// Receives that the peer has told of.
    granted: u32,
    /// Messages received.
    received: u32,
    /// Receives posted.
    posted: u32,
    /// Those of them that the peer knows of.
    announced: u32,
}

impl Credits {
    /// Of the end that connects, whose peer has posted all its receives before. It sends first, for an iWARP device
    /// takes the connection as made only then: an announcement is due at once.
    pub(super) const fn of_client() -> Self {
        Self { sent: 0, granted: RECEIVES, received: 0, posted: RECEIVES, announced: 0 }
    }

    /// Of the end that accepts.
    pub(super) const fn of_server() -> Self {
        Self { sent: 0, granted: 0, received: 0, posted: RECEIVES, announced: RECEIVES }
    }

    const fn left(&self) -> u32 {
        self.granted.wrapping_sub(self.sent)
    }

    /// Whether a message with bytes may be sent.
    pub(super) const fn may_send(&self) -> bool {
        self.left() > 1
    }

    /// Whether an announcement is due, and may be sent.
    pub(super) const fn must_announce(&self) -> bool {
        self.posted.wrapping_sub(self.announced) >= ANNOUNCED_AT && self.left() > 0
    }

    /// Accounts for a message that is sent, which begins with this.
    pub(super) const fn send(&mut self) -> Header {
        let header = Header { number: self.sent, posted: self.posted };
        self.sent = self.sent.wrapping_add(1);
        self.announced = self.posted;
        header
    }

    /// Accounts for a message that came, with bytes or none.
    pub(super) fn receive(&mut self, header: Header, is_empty: bool) -> Result<(), Breach> {
        if header.number != self.received {
            return Err(Breach::Number { expected: self.received, found: header.number });
        }
        self.received = self.received.wrapping_add(1);
        let more = header.posted.wrapping_sub(self.granted);
        // It has posted again at most what was sent to it.
        if more > RECEIVES || header.posted.wrapping_sub(self.sent) > RECEIVES {
            return Err(Breach::Receives);
        }
        if is_empty && more == 0 {
            return Err(Breach::Idle);
        }
        self.granted = header.posted;
        Ok(())
    }

    /// Accounts for a receive that is posted again.
    pub(super) const fn post(&mut self) {
        self.posted = self.posted.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// One end, as [`Pipe`](super::super::pipe) and who reads from it use the account.
    struct End {
        credits: Credits,
        /// Receives that wait for messages.
        ready: u32,
        /// Messages with bytes that nobody has read.
        unread: VecDeque<u32>,
        said: u32,
        heard: u32,
    }

    impl End {
        fn new(credits: Credits) -> Self {
            Self { credits, ready: RECEIVES, unread: VecDeque::new(), said: 0, heard: 0 }
        }

        fn say(&mut self, wire: &mut VecDeque<(Header, Option<u32>)>) -> bool {
            let may = self.credits.may_send();
            if may {
                wire.push_back((self.credits.send(), Some(self.said)));
                self.said += 1;
            }
            may
        }

        fn announce(&mut self, wire: &mut VecDeque<(Header, Option<u32>)>) {
            if self.credits.must_announce() {
                wire.push_back((self.credits.send(), None));
            }
        }

        fn take(&mut self, (header, bytes): (Header, Option<u32>)) {
            self.ready = self.ready.checked_sub(1).expect("a message found no receive");
            self.credits.receive(header, bytes.is_none()).unwrap();
            match bytes {
                Some(bytes) => self.unread.push_back(bytes),
                None => self.post(),
            }
        }

        fn read(&mut self) -> bool {
            let Some(bytes) = self.unread.pop_front() else { return false };
            assert_eq!(bytes, self.heard, "in order");
            self.heard += 1;
            self.post();
            true
        }

        fn post(&mut self) {
            self.ready += 1;
            self.credits.post();
        }
    }

    /// Two ends, and what is under way from each.
    struct Both {
        ends: [End; 2],
        wires: [VecDeque<(Header, Option<u32>)>; 2],
    }

    impl Both {
        fn new() -> Self {
            let ends = [End::new(Credits::of_client()), End::new(Credits::of_server())];
            let mut both = Self { ends, wires: Default::default() };
            both.ends[0].announce(&mut both.wires[0]);
            both
        }

        /// One thing of those that can happen at `end`; whether it did.
        fn step(&mut self, end: usize, what: u8) -> bool {
            let (me, wire) = (&mut self.ends[end], &mut self.wires[end]);
            let done = match what {
                0 => me.say(wire),
                1 => me.read(),
                _ => self.wires[1 - end].pop_front().map(|message| me.take(message)).is_some(),
            };
            self.ends[end].announce(&mut self.wires[end]);
            done
        }
    }

    proptest! {
        /// Whoever says, reads and delivers when: each message finds a receive, and none is a breach.
        #[test]
        fn each_message_finds_a_receive_and_none_is_stuck(
            steps in prop::collection::vec((0..2usize, 0..3u8), 0..2000),
        ) {
            let mut both = Both::new();
            for (end, what) in steps {
                both.step(end, what);
            }
            // Both have much to say, and both read.
            for end in [0, 1] {
                let goal = both.ends[end].said + 1000;
                while both.ends[end].said < goal {
                    let moved = [(end, 0), (end, 2), (1 - end, 2), (1 - end, 1), (end, 1), (1 - end, 0)];
                    let moved = moved.map(|(end, what)| both.step(end, what));
                    prop_assert!(moved.contains(&true), "stuck");
                }
            }
            // When nobody says anything more, all is heard and the last announcements die out.
            while [0, 1].map(|end| both.step(end, 2) | both.step(end, 1)).contains(&true) {}
            for end in [0, 1] {
                prop_assert_eq!(both.ends[end].said, both.ends[1 - end].heard);
                prop_assert!(both.ends[end].credits.may_send(), "and either can go on");
            }
        }

        /// One says much, the other only reads.
        #[test]
        fn who_only_listens_keeps_the_other_going(
            end in 0..2usize,
            lags in prop::collection::vec(0..40u32, 1..20),
        ) {
            let mut both = Both::new();
            for _ in 0..3 {
                both.step(1, 2);
            }
            for lag in lags.into_iter().cycle().take(200) {
                for _ in 0..lag {
                    both.step(end, 0);
                }
                while both.step(1 - end, 2) | both.step(1 - end, 1) | both.step(end, 2) {}
                prop_assert!(both.ends[end].credits.may_send());
            }
        }

        /// What a peer makes up is a breach, or grants no more than it can have posted.
        #[test]
        fn nobody_is_granted_more_than_there_can_be(
            words in prop::collection::vec((0..4u32, any::<u32>(), any::<bool>()), 1..100),
        ) {
            let mut credits = Credits::of_client();
            for (number, (guess, anything, is_empty)) in words.into_iter().enumerate() {
                let posted = if guess == 0 { anything } else { credits.sent + guess * RECEIVES / 2 };
                let header = Header { number: number as u32, posted };
                if credits.receive(header, is_empty).is_err() {
                    break;
                }
                prop_assert!(credits.left() <= RECEIVES);
                if credits.may_send() {
                    credits.send();
                }
            }
        }
    }

    #[test]
    fn the_client_speaks_first() {
        let (client, server) = (Credits::of_client(), Credits::of_server());
        assert!(client.must_announce() && client.may_send());
        assert!(!server.must_announce() && !server.may_send());
    }

    #[test]
    fn a_breach_is_told_from_what_may_come() {
        let header = |number, posted| Header { number, posted };
        let told = |header, is_empty| Credits::of_server().receive(header, is_empty);
        assert_eq!(told(header(0, RECEIVES), true), Ok(()));
        assert_eq!(told(header(1, RECEIVES), true), Err(Breach::Number { expected: 0, found: 1 }));
        assert_eq!(told(header(0, RECEIVES + 1), false), Err(Breach::Receives));
        assert_eq!(told(header(0, u32::MAX), false), Err(Breach::Receives));
        assert_eq!(told(header(0, 0), true), Err(Breach::Idle));
        assert_eq!(Header::from_word(header(7, 9).to_word()), header(7, 9));
    }

    #[test]
    fn counts_go_round() {
        let (mut client, mut server) = (Credits::of_client(), Credits::of_server());
        let far = u32::MAX - 3;
        (client.sent, client.received, client.announced) = (far, far, far);
        client.posted = far.wrapping_add(RECEIVES);
        client.granted = far.wrapping_add(RECEIVES);
        (server.sent, server.received, server.granted) = (far, far, far);
        (server.posted, server.announced) = (far.wrapping_add(RECEIVES), far.wrapping_add(RECEIVES));
        for _ in 0..100 {
            for is_empty in [true, false] {
                if is_empty && !client.must_announce() {
                    continue;
                }
                assert!(is_empty || client.may_send());
                server.receive(client.send(), is_empty).unwrap();
                server.post();
            }
            if server.must_announce() {
                client.receive(server.send(), true).unwrap();
                client.post();
            }
        }
        assert!(client.sent < 1000);
    }
}
