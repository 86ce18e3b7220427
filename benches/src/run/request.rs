//! One request: its records, keys and values, item by item. All memory is allocated once.

use crate::target::{Answer, Counts, Session};
use crate::workload::keys::KeyFormat;
use crate::workload::value::ValueFormat;

/// The buffers of a thread's requests.
#[derive(Debug)]
pub struct Request {
    /// The records, as counted in this process.
    pub indexes: Vec<u64>,
    /// Their numbers.
    pub records: Vec<u64>,
    /// Their keys.
    pub keys: Vec<Vec<u8>>,
    /// Values to write.
    pub written: Vec<Vec<u8>>,
    /// Values read.
    pub read: Vec<Vec<u8>>,
    /// How each read ended.
    pub read_answers: Vec<Answer>,
    /// How each write ended.
    pub write_answers: Vec<Answer>,
    /// How each read-modify-write ended.
    pub whole_answers: Vec<Answer>,
}

impl Request {
    /// For up to `batch` operations.
    #[must_use]
    pub fn new(batch: usize, keys: &KeyFormat, values: &ValueFormat) -> Self {
        // Not `vec![Vec::with_capacity(len); batch]`: clones have no spare room.
        let buffers = |len: usize| (0..batch).map(|_| Vec::with_capacity(len)).collect();
        let answers = || vec![Answer::NotFound; batch];
        Self {
            indexes: Vec::with_capacity(batch),
            records: Vec::with_capacity(batch),
            keys: buffers(keys.max_len()),
            written: buffers(values.max_len()),
            read: buffers(values.max_len()),
            read_answers: answers(),
            write_answers: answers(),
            whole_answers: answers(),
        }
    }

    /// Items in the request.
    #[must_use]
    pub fn size(&self) -> usize {
        self.records.len()
    }

    /// Reads all items. The call of a single one is the plain one.
    pub fn get(&mut self, session: &mut impl Session) -> Counts {
        let size = self.size();
        match (&self.keys[..size], &mut self.read[..size]) {
            ([key], [value]) => {
                let reply = session.get(key, value);
                self.read_answers[0] = reply.answer;
                reply.counts
            }
            (keys, values) => session.get_many(keys, values, &mut self.read_answers[..size]),
        }
    }

    /// Writes all items, likewise.
    pub fn put(&mut self, session: &mut impl Session) -> Counts {
        let size = self.size();
        match (&self.keys[..size], &self.written[..size]) {
            ([key], [value]) => {
                let reply = session.put(key, value);
                self.write_answers[0] = reply.answer;
                reply.counts
            }
            (keys, values) => session.put_many(keys, values, &mut self.write_answers[..size]),
        }
    }

    /// Joins the halves of a read-modify-write: an item is done if both are, and else ends as the first that is not.
    pub fn join(&mut self) {
        for ((whole, read), write) in
            self.whole_answers.iter_mut().zip(&self.read_answers).zip(&self.write_answers)
        {
            *whole = if *read == Answer::Done { *write } else { *read };
        }
    }
}
