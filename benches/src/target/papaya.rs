//! The reference: a concurrent map in this process, get and copy, without any fabric.

use std::hash::{BuildHasherDefault, Hasher};

use ::papaya::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::scanned::Scanned;
use super::{Answer, Counts, Description, Reply, ServerCpu, Session, SessionError, Target};

type Map = HashMap<Box<[u8]>, Box<[u8]>, BuildHasherDefault<KeyHasher>>;

/// Farside's key hash, so that the two maps differ in everything but that.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A [`HashMap`] from keys to values in this process.
#[derive(Debug, Default)]
pub struct Papaya {
    map: Map,
}

impl Papaya {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Target for Papaya {
    type Session<'a> = PapayaSession<'a>;

    fn description(&self) -> Description {
        Description {
            store: "papaya".to_owned(),
            version: "0.2".to_owned(),
            place: "in this process".to_owned(),
            transport: "none: direct calls".to_owned(),
            device: None,
            authority: None,
            counts_fabric: false,
        }
    }

    fn session(&self) -> Result<Self::Session<'_>, SessionError> {
        Ok(PapayaSession { map: &self.map })
    }

    fn server_cpu(&self) -> Option<ServerCpu> {
        None
    }
}

/// One thread's handle to [`Papaya`].
#[derive(Debug)]
pub struct PapayaSession<'a> {
    map: &'a Map,
}

impl PapayaSession<'_> {
    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> Answer {
        let map = self.map.pin();
        let Some(value) = map.get(key) else { return Answer::NotFound };
        into.clear();
        into.extend_from_slice(value);
        Answer::Done
    }

    fn write(&self, key: &[u8], value: &[u8]) -> Answer {
        self.map.pin().insert(key.into(), value.into());
        Answer::Done
    }
}

impl Session for PapayaSession<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Reply {
        Reply { answer: self.read(key, value), counts: Counts::default() }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Reply {
        Reply { answer: self.write(key, value), counts: Counts::default() }
    }

    fn get_many(&mut self, keys: &[Vec<u8>], values: &mut [Vec<u8>], answers: &mut [Answer]) -> Counts {
        for ((key, value), answer) in keys.iter().zip(values).zip(answers) {
            *answer = self.read(key, value);
        }
        Counts::default()
    }

    fn put_many(&mut self, keys: &[Vec<u8>], values: &[Vec<u8>], answers: &mut [Answer]) -> Counts {
        for ((key, value), answer) in keys.iter().zip(values).zip(answers) {
            *answer = self.write(key, value);
        }
        Counts::default()
    }

    /// Its first `length` records: a map cannot be iterated over from a key on. So each scan passes the same ones, which are
    /// soon in the processor's caches: what an iteration with copies costs at least.
    fn scan(&mut self, _key: &[u8], length: usize, found: &mut Scanned) -> Reply {
        for (key, value) in self.map.pin().iter().take(length) {
            found.push(key, value);
        }
        let answer = if found.is_empty() { Answer::NotFound } else { Answer::Done };
        Reply { answer, counts: Counts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_and_says_what_is_missing() {
        let papaya = Papaya::new();
        let mut session = papaya.session().expect("a map in this process always opens");
        let mut value = Vec::new();
        assert_eq!(session.get(b"k", &mut value).answer, Answer::NotFound);
        assert_eq!(session.put(b"k", b"one").answer, Answer::Done);
        assert_eq!(session.get(b"k", &mut value).answer, Answer::Done);
        assert_eq!(value, b"one");
    }

    #[test]
    fn batches_answer_item_by_item() {
        let papaya = Papaya::new();
        let mut session = papaya.session().expect("a map in this process always opens");
        let mut answers = [Answer::NotFound; 2];
        session.put_many(&[b"a".to_vec()], &[b"1".to_vec()], &mut answers[..1]);
        let mut values = vec![Vec::new(); 2];
        session.get_many(&[b"b".to_vec(), b"a".to_vec()], &mut values, &mut answers);
        assert_eq!(answers, [Answer::NotFound, Answer::Done]);
        assert_eq!(values[1], b"1");
    }
}
