//! LMDB in this process: a B+tree in a file that is mapped, here one of memory (`/dev/shm`).
//!
//! A read is a transaction of its own, as is a write; a batch is one of all its items. Commits are not synced: what is
//! compared is memory. Its keys are in order, so its scans are range scans, which Farside's are not.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, MdbError, WithoutTls};
use tempfile::TempDir;

use super::scanned::Scanned;
use super::{Answer, Counts, Description, ErrorKind, Reply, ServerCpu, Session, SessionError, Target};

/// Longest key, bytes.
pub const KEY_MAX: usize = 511;

/// An environment in a directory of its own, which goes with it.
#[derive(Debug)]
pub struct Lmdb {
    env: Env<WithoutTls>,
    table: Database<Bytes, Bytes>,
    directory: TempDir,
}

impl Lmdb {
    /// An empty one that may grow to `memory` bytes.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn new(memory: u64) -> Result<Self, SessionError> {
        let of_memory = Path::new("/dev/shm");
        let directory =
            if of_memory.is_dir() { tempfile::tempdir_in(of_memory) } else { tempfile::tempdir() };
        let directory = directory
            .map_err(|error| SessionError(format!("cannot create a directory for LMDB: {error}")))?;
        let failed = |error: heed::Error| {
            SessionError(format!("cannot open LMDB in {}: {error}", directory.path().display()))
        };
        let env = open(directory.path(), memory).map_err(failed)?;
        let mut transaction = env.write_txn().map_err(failed)?;
        let table = env.create_database(&mut transaction, None).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(Self { env, table, directory })
    }
}

#[expect(unsafe_code, reason = "heed leaves the conditions of a mapped file to its users")]
fn open(directory: &Path, memory: u64) -> heed::Result<Env<WithoutTls>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    // 1024 threads at most, and whatever measures beside them.
    options.map_size(usize::try_from(memory).unwrap_or(usize::MAX)).max_readers(1100);
    // SAFETY: the file is in a new directory that no one else writes to, and goes with this process; that it may be damaged
    // if the machine stops, as commits are not synced, matters to nobody.
    unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD) };
    // SAFETY: as above; it is opened once.
    unsafe { options.open(directory) }
}

impl Target for Lmdb {
    type Session<'a> = LmdbSession<'a>;

    fn description(&self) -> Description {
        let heed::LmdbVersion { major, minor, patch, .. } = heed::lmdb_version();
        Description {
            store: "lmdb".to_owned(),
            version: format!("{major}.{minor}.{patch}"),
            place: format!("in this process, in {}", self.directory.path().display()),
            transport: "none: direct calls, commits not synced".to_owned(),
            device: None,
            authority: None,
            counts_fabric: false,
        }
    }

    fn session(&self) -> Result<Self::Session<'_>, SessionError> {
        Ok(LmdbSession { store: self, failure: None })
    }

    fn server_cpu(&self) -> Option<ServerCpu> {
        None
    }
}

/// One thread's handle to [`Lmdb`].
#[derive(Debug)]
pub struct LmdbSession<'a> {
    store: &'a Lmdb,
    failure: Option<heed::Error>,
}

impl LmdbSession<'_> {
    fn failed(&mut self, error: heed::Error) -> Answer {
        let kind = match &error {
            heed::Error::Mdb(MdbError::MapFull) => ErrorKind::Full,
            heed::Error::Mdb(MdbError::BadValSize) => ErrorKind::TooLarge,
            heed::Error::Mdb(MdbError::Corrupted | MdbError::PageNotFound) => ErrorKind::Corrupt,
            _ => ErrorKind::Unavailable,
        };
        self.failure = Some(error);
        Answer::Failed(kind)
    }

    fn read<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut found: impl FnMut(usize, Option<&[u8]>),
    ) -> heed::Result<()> {
        let transaction = self.store.env.read_txn()?;
        for (item, key) in keys.iter().enumerate() {
            found(item, self.store.table.get(&transaction, key.as_ref())?);
        }
        Ok(())
    }

    fn write<'i>(&self, items: impl IntoIterator<Item = (&'i [u8], &'i [u8])>) -> heed::Result<()> {
        let mut transaction = self.store.env.write_txn()?;
        for (key, value) in items {
            self.store.table.put(&mut transaction, key, value)?;
        }
        transaction.commit()
    }
}

impl Session for LmdbSession<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Reply {
        let mut answer = Answer::NotFound;
        let read = self.read(&[key], |_, found| {
            if let Some(found) = found {
                value.clear();
                value.extend_from_slice(found);
                answer = Answer::Done;
            }
        });
        let answer = read.map_or_else(|error| self.failed(error), |()| answer);
        Reply { answer, counts: Counts::default() }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Reply {
        let answer = self.write([(key, value)]).map_or_else(|error| self.failed(error), |()| Answer::Done);
        Reply { answer, counts: Counts::default() }
    }

    fn get_many(&mut self, keys: &[Vec<u8>], values: &mut [Vec<u8>], answers: &mut [Answer]) -> Counts {
        answers.fill(Answer::NotFound);
        let read = self.read(keys, |item, found| {
            if let Some(found) = found {
                values[item].clear();
                values[item].extend_from_slice(found);
                answers[item] = Answer::Done;
            }
        });
        if let Err(error) = read {
            answers.fill(self.failed(error));
        }
        Counts::default()
    }

    fn put_many(&mut self, keys: &[Vec<u8>], values: &[Vec<u8>], answers: &mut [Answer]) -> Counts {
        let items = keys.iter().map(Vec::as_slice).zip(values.iter().map(Vec::as_slice));
        let answer = self.write(items).map_or_else(|error| self.failed(error), |()| Answer::Done);
        answers.fill(answer);
        Counts::default()
    }

    /// From `key` on in the order of keys: a range scan.
    fn scan(&mut self, key: &[u8], length: usize, found: &mut Scanned) -> Reply {
        let scanned = (|| {
            let transaction = self.store.env.read_txn()?;
            for record in
                self.store.table.range(&transaction, &(Bound::Included(key), Bound::Unbounded))?.take(length)
            {
                let (key, value) = record?;
                found.push(key, value);
            }
            Ok(())
        })();
        let answer = match scanned {
            Ok(()) if found.is_empty() => Answer::NotFound,
            Ok(()) => Answer::Done,
            Err(error) => self.failed(error),
        };
        Reply { answer, counts: Counts::default() }
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.as_ref().map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_reads_and_scans_what_was_written() {
        let lmdb = Lmdb::new(16 << 20).expect("a directory");
        let mut session = lmdb.session().expect("a store in this process always opens");
        let (mut value, mut found) = (Vec::new(), Scanned::default());
        assert_eq!(session.get(b"k", &mut value).answer, Answer::NotFound);
        assert_eq!(session.put(b"k", b"one").answer, Answer::Done);
        assert_eq!((session.get(b"k", &mut value).answer, &value[..]), (Answer::Done, &b"one"[..]));
        let (keys, values) = ([b"a".to_vec(), b"z".to_vec()], [b"1".to_vec(), b"2".to_vec()]);
        let mut answers = [Answer::NotFound; 2];
        session.put_many(&keys, &values, &mut answers);
        assert_eq!(answers, [Answer::Done; 2]);
        let mut read = vec![Vec::new(); 2];
        session.get_many(&[b"b".to_vec(), b"z".to_vec()], &mut read, &mut answers);
        assert_eq!((answers, &read[1][..]), ([Answer::NotFound, Answer::Done], &b"2"[..]));
        assert_eq!(session.scan(b"b", 5, &mut found).answer, Answer::Done);
        assert!(found.iter().eq([(&b"k"[..], &b"one"[..]), (b"z", b"2")]));
        assert_eq!(session.put(&[7; KEY_MAX + 1], b"").answer, Answer::Failed(ErrorKind::TooLarge));
        assert!(session.last_failure().is_some());
    }

    #[test]
    fn it_says_when_it_is_full() {
        let lmdb = Lmdb::new(1 << 20).expect("a directory");
        let mut session = lmdb.session().expect("it opens");
        let full = (0..100_u32).map(|key| session.put(&key.to_le_bytes(), &[0; 100_000]).answer);
        assert!(full.into_iter().any(|answer| answer == Answer::Failed(ErrorKind::Full)));
    }
}
