//! The calls that have no answer yet, and the bytes of those that wait for the writer. No I/O in here.
//!
//! ```text
//! bytes of the connection    0 ........... written ......... outbox_at ............ end
//!                            in the kernel | in the writer's | in `outbox`: can
//!                                          | hands           | still be taken back
//! ```

use super::call::Answer;
use super::error::CallError;
use farside_protocol::wire::Request;
use std::collections::VecDeque;
use std::io;
use std::time::Instant;
use tokio::sync::oneshot;

/// Who wants to know what became of a call.
#[derive(Debug)]
pub(super) enum Reply {
    /// A call's future.
    Caller(oneshot::Sender<Result<Answer, CallError>>),
    /// Nobody, unless it fails.
    Posted,
    /// Nobody: a keepalive, or a call that has ended by its deadline.
    Nobody,
}

/// What a new call met in the outbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outbox {
    /// Nothing, and no other call is outstanding.
    Alone,
    /// Nothing, so the writer may be asleep.
    WasEmpty,
    /// Others, of which the writer knows.
    HadMore,
}

/// What a call that gets no answer may have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// Nothing.
    None,
    /// Its change may have happened.
    Unknown,
}

/// A call that ended without an answer.
pub(super) type Ended = (Reply, Effect);

#[derive(Debug)]
struct Entry {
    id: u64,
    /// Bytes of its frame.
    len: u64,
    /// Where in the bytes of the connection its frame ends.
    end: u64,
    deadline: Instant,
    changes: bool,
    reply: Reply,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    // By ascending id, which is the order of the frames.
    entries: VecDeque<Entry>,
    next_id: u64,
    outbox: Vec<u8>,
    outbox_at: u64,
    written: u64,
}

impl Outstanding {
    /// Adds a call, and says what it met.
    pub(super) fn push(&mut self, request: &Request<'_>, deadline: Instant, reply: Reply) -> Outbox {
        let met = match (self.entries.is_empty(), self.outbox.is_empty()) {
            (true, true) if self.written == self.outbox_at => Outbox::Alone,
            (_, true) => Outbox::WasEmpty,
            (_, false) => Outbox::HadMore,
        };
        let (id, start) = (self.next_id, self.outbox.len());
        self.next_id += 1;
        request.encode(id, &mut self.outbox);
        let (len, end) = ((self.outbox.len() - start) as u64, self.outbox_at + self.outbox.len() as u64);
        // What a report or a lease of a lost session was about, the server settles when it ends the session.
        let changes =
            matches!(request, Request::Put { .. } | Request::Delete { .. } | Request::FetchAdd { .. });
        self.entries.push_back(Entry { id, len, end, deadline, changes, reply });
        met
    }

    /// Bytes that the kernel has not taken yet.
    pub(super) fn unsent(&self) -> u64 {
        self.outbox_at + self.outbox.len() as u64 - self.written
    }

    /// Hands the bytes in the outbox to the writer, in exchange for an empty buffer.
    pub(super) fn take_outbox(&mut self, empty: Vec<u8>) -> Vec<u8> {
        debug_assert!(empty.is_empty());
        self.outbox_at += self.outbox.len() as u64;
        std::mem::replace(&mut self.outbox, empty)
    }

    /// Writes the outbox with `write`, which returns how many bytes the kernel took, in the place of a writer that
    /// has nothing in its hands. Returns whether all was written; what was not stays for the writer.
    pub(super) fn write_alone(&mut self, write: impl FnOnce(&[u8]) -> io::Result<usize>) -> bool {
        debug_assert_eq!(self.written, self.outbox_at);
        // The writer will meet an error again, and knows what to do.
        let len = write(&self.outbox).unwrap_or(0);
        self.outbox.drain(..len);
        self.outbox_at += len as u64;
        self.written = self.outbox_at;
        self.outbox.is_empty()
    }

    /// Counts `len` bytes that the kernel has taken.
    pub(super) fn wrote(&mut self, len: usize) {
        self.written += len as u64;
    }

    /// Ends the call that answer `id` is for; `None` if there is no such call.
    pub(super) fn answered(&mut self, id: u64) -> Option<Reply> {
        // The first, if the server keeps its word about their order.
        let index = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        self.entries.remove(index).map(|entry| entry.reply)
    }

    /// Ends the calls whose deadline is `now` or earlier. A request that is still in the outbox is taken back; one
    /// that is not stays on the list without a reply, for its answer may come.
    pub(super) fn expire(&mut self, now: Instant, ended: &mut Vec<Ended>) {
        let mut taken_back = false;
        for entry in &mut self.entries {
            let waiting = entry.end - entry.len >= self.outbox_at;
            if entry.deadline > now || (matches!(entry.reply, Reply::Nobody) && !waiting) {
                continue;
            }
            let reply = std::mem::replace(&mut entry.reply, Reply::Nobody);
            let effect = if waiting || !entry.changes { Effect::None } else { Effect::Unknown };
            ended.push((reply, effect));
            taken_back |= waiting;
        }
        if taken_back {
            self.take_back(now);
        }
    }

    fn take_back(&mut self, now: Instant) {
        let outbox = std::mem::take(&mut self.outbox);
        let outbox_at = self.outbox_at;
        self.entries.retain_mut(|entry| {
            let Some(start) = (entry.end - entry.len).checked_sub(outbox_at) else { return true };
            if entry.deadline <= now {
                return false;
            }
            self.outbox.extend_from_slice(&outbox[start as usize..(start + entry.len) as usize]);
            entry.end = outbox_at + self.outbox.len() as u64;
            true
        });
    }

    /// The earliest deadline of a call that somebody waits for.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let waited_for = self.entries.iter().filter(|entry| !matches!(entry.reply, Reply::Nobody));
        waited_for.map(|entry| entry.deadline).min()
    }

    /// Ends all calls since the connection broke, and begins a new connection's bytes.
    pub(super) fn broke(&mut self, ended: &mut Vec<Ended>) {
        for entry in self.entries.drain(..) {
            // A server cannot have executed a request that it cannot have read whole.
            let effect =
                if entry.changes && entry.end <= self.written { Effect::Unknown } else { Effect::None };
            ended.push((entry.reply, effect));
        }
        // Ids go on, so that an answer from one connection never fits a call on another.
        *self = Self { next_id: self.next_id, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_protocol::Key;
    use farside_protocol::wire::{Condition, FrameHeader, HEADER_LEN};
    use std::time::Duration;

    fn key() -> Key<'static> {
        Key::new(b"key").unwrap()
    }

    fn get() -> Request<'static> {
        Request::Get { key: key() }
    }

    fn delete() -> Request<'static> {
        Request::Delete { key: key(), condition: Condition::Always }
    }

    fn ids(mut bytes: &[u8]) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() {
            let header = FrameHeader::decode(header).unwrap();
            ids.push(header.id);
            bytes = &rest[header.body_len as usize..];
        }
        ids
    }

    fn effects(ended: &[Ended]) -> Vec<Effect> {
        ended.iter().map(|(_, effect)| *effect).collect()
    }

    #[test]
    fn an_answer_ends_its_call_once() {
        let mut calls = Outstanding::default();
        let deadline = Instant::now();
        assert_eq!(calls.push(&get(), deadline, Reply::Posted), Outbox::Alone);
        assert_eq!(calls.push(&get(), deadline, Reply::Posted), Outbox::HadMore);
        assert_eq!(ids(&calls.take_outbox(Vec::new())), [0, 1]);
        assert_eq!(calls.push(&get(), deadline, Reply::Posted), Outbox::WasEmpty);
        assert!(calls.answered(1).is_some());
        assert!(calls.answered(1).is_none());
        assert!(calls.answered(7).is_none());
        assert!(calls.answered(0).is_some());
        assert!(calls.answered(2).is_some());
    }

    #[test]
    fn an_expired_call_is_taken_back_while_it_waits_and_unknown_once_it_is_under_way() {
        let mut calls = Outstanding::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        calls.push(&delete(), now, Reply::Posted);
        calls.push(&get(), now, Reply::Posted);
        calls.take_outbox(Vec::new());
        calls.push(&delete(), now, Reply::Posted);
        calls.push(&delete(), later, Reply::Posted);
        calls.push(&get(), now, Reply::Posted);
        calls.push(&get(), later, Reply::Posted);
        let mut ended = Vec::new();
        calls.expire(now, &mut ended);
        assert_eq!(effects(&ended), [Effect::Unknown, Effect::None, Effect::None, Effect::None]);
        assert_eq!(calls.next_deadline(), Some(later));
        assert_eq!(ids(&calls.take_outbox(Vec::new())), [3, 5], "those that had not expired are still sent");
        // Late answers find their calls, which nobody waits for.
        assert!(matches!(calls.answered(0), Some(Reply::Nobody)));
        ended.clear();
        calls.expire(now, &mut ended);
        assert!(ended.is_empty(), "no call ends twice");
        calls.expire(later, &mut ended);
        assert_eq!(effects(&ended), [Effect::Unknown, Effect::None]);
        assert_eq!(calls.next_deadline(), None);
    }

    #[test]
    fn when_the_connection_breaks_only_changes_that_went_out_whole_are_unknown() {
        let mut calls = Outstanding::default();
        let deadline = Instant::now();
        for request in [delete(), get(), delete()] {
            calls.push(&request, deadline, Reply::Posted);
        }
        let sent = calls.take_outbox(Vec::new());
        calls.push(&delete(), deadline, Reply::Posted);
        calls.wrote(sent.len() - 1);
        let mut ended = Vec::new();
        calls.broke(&mut ended);
        assert_eq!(effects(&ended), [Effect::Unknown, Effect::None, Effect::None, Effect::None]);
        assert_eq!(calls.unsent(), 0);
        calls.push(&get(), deadline, Reply::Posted);
        assert_eq!(ids(&calls.take_outbox(Vec::new())), [4], "ids are not used twice");
    }

    #[test]
    fn what_the_kernel_has_not_taken_is_counted() {
        let mut calls = Outstanding::default();
        calls.push(&get(), Instant::now(), Reply::Posted);
        let len = calls.take_outbox(Vec::new()).len();
        calls.push(&get(), Instant::now(), Reply::Posted);
        assert_eq!(calls.unsent(), 2 * len as u64);
        calls.wrote(len);
        assert_eq!(calls.unsent(), len as u64);
    }
}
