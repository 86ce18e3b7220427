//! The synchronous client of one thread, for those who count nanoseconds.

use crate::batch;
use crate::core::Core;
use crate::error::Result;
use crate::perform::{Own, perform};
use crate::scan::{Scan, next_page};
use crate::shared::Shared;
use crate::stats::{Counts, Operation, Stats};
use crate::task::{Attempt, Deadline, DeleteTask, FetchAddTask, GetTask, Into, Outcome, PutTask, Task};
use crate::value::{Condition, Delete, Meta, Put, PutOptions, Statistic, Value, expires_at_ms};
use crate::{Active, Client};
use farside_protocol::{Key, Record, Version};
use farside_transport::channel::block_on;
use farside_transport::clock;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A thread's own way to the table, made by [`Client::session`]: synchronous, and warm operations over shared
/// memory allocate nothing, take no lock and make no system call. ("Warm": the key was used before and its size
/// class has been; once in 64 updates slots are brought forward, and once in about a hundred the server is told
/// about blocks, which does allocate.)
///
/// Keys and values are anything that is bytes. Dropping a session settles what it owes and gives its unused
/// blocks back; a session that pauses should [`flush`](Session::flush).
///
/// ```
/// let farside = farside::embedded()?;
/// let mut session = farside.session()?;
/// session.put("user:1", "Ada")?;
/// assert_eq!(session.get("user:1")?.as_deref(), Some(&b"Ada"[..]));
/// assert!(session.delete("user:1")?);
/// assert_eq!(session.get("user:1")?, None);
/// # Ok::<(), farside::Error>(())
/// ```
pub struct Session {
    core: Core,
    shared: Arc<Shared>,
    deadline: Duration,
    /// Values that the server sent, in place of the buffer that READs go to.
    answer: Vec<u8>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("active", &self.active()).field("deadline", &self.deadline).finish()
    }
}

/// Carries a task out: at once if it can be, else with waits.
#[inline]
fn run<'a, T: Task<'a>>(
    core: &mut Core,
    shared: &Arc<Shared>,
    limit: Duration,
    task: &mut T,
) -> Result<T::Answer> {
    core.begin(task.operation());
    let deadline = Deadline::after(limit);
    let mut outcome = Outcome::unknown();
    match core.attempt(task, deadline.first_slice(), &mut outcome) {
        Attempt::Done => outcome.take(),
        attempt => finish(core, shared, deadline, task, attempt),
    }
}

#[cold]
fn finish<'a, T: Task<'a>>(
    core: &mut Core,
    shared: &Arc<Shared>,
    deadline: Deadline,
    task: &mut T,
    attempt: Attempt,
) -> Result<T::Answer> {
    block_on(perform(&mut Own(core), shared, task, deadline, attempt))
}

impl Session {
    pub(crate) fn new(core: Core, shared: Arc<Shared>, deadline: Duration) -> Self {
        Self { core, shared, deadline, answer: Vec::new() }
    }

    /// The key's value, lent until the session is used again.
    #[inline]
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Value<&[u8]>>> {
        let key = Key::new(key.as_ref())?;
        let mut task = GetTask::new(key, Into::Lent { answer: &mut self.answer });
        let found = run(&mut self.core, &self.shared, self.deadline, &mut task)?;
        let (meta, lent) = (task.meta, task.lent);
        Ok(found.then(|| {
            let bytes = match lent {
                Some(lent) => &self.core.incoming()[lent],
                None => &self.answer[..],
            };
            Value::new(bytes, meta)
        }))
    }

    /// Copies the key's value to `buffer`, in place of what is in it, and tells the rest. An absent key leaves
    /// `buffer` as it is.
    ///
    /// ```
    /// # let farside = farside::embedded()?;
    /// # let mut session = farside.session()?;
    /// session.put("key", "value")?;
    /// let mut buffer = Vec::with_capacity(64);
    /// assert!(session.get_into("key", &mut buffer)?.is_some());
    /// assert_eq!(buffer, b"value");
    /// assert!(session.get_into("absent", &mut buffer)?.is_none());
    /// # Ok::<(), farside::Error>(())
    /// ```
    #[inline]
    pub fn get_into(&mut self, key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<Option<Meta>> {
        let mut task = GetTask::new(Key::new(key.as_ref())?, Into::Buffer(buffer));
        let found = run(&mut self.core, &self.shared, self.deadline, &mut task)?;
        Ok(found.then_some(task.meta))
    }

    /// Looks several keys up and hands each answer, with the number of its key, to `each`, in any order. An error of
    /// one key does not keep the others from being looked up. They are under way together.
    ///
    /// ```
    /// # let farside = farside::embedded()?;
    /// # let mut session = farside.session()?;
    /// session.put("a", "1")?;
    /// let mut found = 0;
    /// session.get_many(&["a", "b"], |_, value| {
    ///     found += usize::from(matches!(value, Ok(Some(_))));
    /// });
    /// assert_eq!(found, 1);
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub fn get_many<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        each: impl FnMut(usize, Result<Option<Value<&[u8]>>>),
    ) {
        batch::get_many(&mut self.core, &self.shared, self.deadline, keys, each);
    }

    /// Stores a value, whatever was there. Answers with its version; `None`: another unconditional change came
    /// right behind it (see [`Put::Absorbed`]).
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Version>> {
        Ok(self.put_with(key, value, PutOptions::new())?.version())
    }

    /// Stores a value as `options` say.
    #[inline]
    pub fn put_with(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: PutOptions,
    ) -> Result<Put> {
        let record = Record::new(Key::new(key.as_ref())?, value.as_ref())?;
        let expires_at_ms = expires_at_ms(options.ttl, clock::wall_ms);
        let mut task = PutTask { record: Record { expires_at_ms, ..record }, condition: options.condition };
        run(&mut self.core, &self.shared, self.deadline, &mut task)
    }

    /// Stores a value if the key is absent.
    pub fn put_if_absent(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Put> {
        self.put_with(key, value, PutOptions::new().if_absent())
    }

    /// Stores a value if the key's version is `version`, as a GET or an earlier PUT told it.
    ///
    /// ```
    /// use farside::Put;
    /// # let farside = farside::embedded()?;
    /// # let mut session = farside.session()?;
    /// session.put("stock", "7")?;
    /// let seen = session.get("stock")?.expect("stored").version();
    /// assert!(matches!(session.compare_exchange("stock", seen, "6")?, Put::Stored { .. }));
    /// assert!(matches!(session.compare_exchange("stock", seen, "5")?, Put::Mismatch { .. }));
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub fn compare_exchange(
        &mut self,
        key: impl AsRef<[u8]>,
        version: Version,
        value: impl AsRef<[u8]>,
    ) -> Result<Put> {
        self.put_with(key, value, PutOptions::new().if_version(version))
    }

    /// Stores several values, whatever was there, and answers item by item as [`Session::put`]. Two-sided ones are
    /// under way together; of two items with one key either may be the last.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        items: &[(K, V)],
    ) -> Vec<Result<Option<Version>>> {
        batch::put_many(&mut self.core, &self.shared, self.deadline, items)
    }

    /// Deletes a key. Answers whether this operation deleted it.
    #[inline]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.delete_on(key.as_ref(), Condition::Always)? == Delete::Deleted)
    }

    /// Deletes a key if its version is `version`.
    pub fn delete_if(&mut self, key: impl AsRef<[u8]>, version: Version) -> Result<Delete> {
        self.delete_on(key.as_ref(), Condition::Version(version))
    }

    #[inline]
    fn delete_on(&mut self, key: &[u8], condition: Condition) -> Result<Delete> {
        let mut task = DeleteTask { key: Key::new(key)?, condition };
        run(&mut self.core, &self.shared, self.deadline, &mut task)
    }

    /// Adds `delta` to a counter, and answers with what it was before, as [`std::sync::atomic::AtomicI64`] does.
    /// An absent key counts from 0.
    ///
    /// ```
    /// # let farside = farside::embedded()?;
    /// # let mut session = farside.session()?;
    /// assert_eq!(session.fetch_add("visits", 1)?, 0);
    /// assert_eq!(session.fetch_add("visits", 1)?, 1);
    /// assert_eq!(session.get("visits")?.expect("counted").counter(), Some(2));
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub fn fetch_add(&mut self, key: impl AsRef<[u8]>, delta: i64) -> Result<i64> {
        let mut task = FetchAddTask { key: Key::new(key.as_ref())?, delta };
        run(&mut self.core, &self.shared, self.deadline, &mut task)
    }

    /// Hands the live keys of the next page of `scan` to `each`, with their values. Answers whether the scan goes on. It
    /// can also be gone on with after an error.
    pub fn scan(&mut self, scan: &mut Scan, each: impl FnMut(&[u8], Value<&[u8]>)) -> Result<bool> {
        let deadline = Deadline::after(self.deadline);
        self.core.begin(Operation::Scan);
        block_on(next_page(&mut Own(&mut self.core), &self.shared, scan, deadline, each))
    }

    /// Asks the server's CPU for an answer; how long it took.
    pub fn ping(&mut self) -> Result<Duration> {
        block_on(self.shared.ping(self.deadline))
    }

    /// The server's figures.
    pub fn server_stats(&mut self) -> Result<Vec<Statistic>> {
        block_on(self.shared.server_stats(self.deadline))
    }

    /// Does now what is otherwise done in batches: slots are brought forward, and the server is told about
    /// blocks. For a session that will not be used for a while.
    pub fn flush(&mut self) {
        self.core.flush();
    }

    /// The longest time for each operation.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Sets the longest time for each operation. At first it is the client's.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// The transport in use, and why.
    pub fn active(&self) -> Active {
        self.core.connection().active().clone()
    }

    /// What the last operation did on the fabric.
    #[inline]
    pub fn last_counts(&self) -> Counts {
        self.core.last_counts()
    }

    /// The figures of this session since it was made.
    pub fn stats(&self) -> &Stats {
        &self.core.stats
    }

    /// The client that this session was made by, for asynchronous operations beside it.
    pub fn client(&self) -> Client {
        Client::of(Arc::clone(&self.shared))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.core.flush();
        self.shared.session_ended(&self.core.stats);
    }
}
