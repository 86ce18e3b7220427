//! One request: its records, keys and values, item by item. All memory is allocated once.

use crate::target::scanned::Scanned;
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
    /// How many records each scan asks for.
    pub lengths: Vec<usize>,
    /// What each scan brought.
    pub scanned: Vec<Scanned>,
    /// How each read or scan ended.
    pub read_answers: Vec<Answer>,
    /// How each write ended.
    pub write_answers: Vec<Answer>,
    /// How each read-modify-write ended.
    pub whole_answers: Vec<Answer>,
}

impl Request {
    /// For up to `batch` operations, whose scans ask for up to `scan_max` records.
    #[must_use]
    pub fn new(batch: usize, keys: &KeyFormat, values: &ValueFormat, scan_max: usize) -> Self {
        let record_len = keys.max_len() + values.max_len();
        // Not `vec![Vec::with_capacity(len); batch]`: clones have no spare room.
        let buffers = |len: usize| (0..batch).map(|_| Vec::with_capacity(len)).collect();
        let answers = || vec![Answer::NotFound; batch];
        Self {
            indexes: Vec::with_capacity(batch),
            records: Vec::with_capacity(batch),
            keys: buffers(keys.max_len()),
            written: buffers(values.max_len()),
            read: buffers(values.max_len()),
            lengths: Vec::with_capacity(batch),
            scanned: (0..batch).map(|_| Scanned::with_capacity(scan_max, record_len)).collect(),
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

    /// Scans from each item on, one after the other: no store here has a call for several.
    pub fn scan(&mut self, session: &mut impl Session) -> Counts {
        let mut counts = Counts::default();
        let scans = self.keys[..self.size()].iter().zip(&self.lengths).zip(&mut self.scanned);
        for (((key, &length), scanned), answer) in scans.zip(&mut self.read_answers) {
            scanned.clear();
            let reply = session.scan(key, length, scanned);
            *answer = reply.answer;
            counts += reply.counts;
        }
        counts
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
