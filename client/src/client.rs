//! The asynchronous client.

use crate::Active;
use crate::batch;
use crate::builder::Builder;
use crate::error::Result;
use crate::perform::perform;
use crate::pool::Pooled;
use crate::scan::{Scan, next_page};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::Stats;
use crate::task::{Attempt, Deadline, DeleteTask, FetchAddTask, GetTask, Into, Outcome, PutTask, Task};
use crate::value::{Condition, Delete, Meta, Put, PutOptions, Statistic, Value, expires_at_ms};
use farside_protocol::{Key, Record, Version};
use farside_transport::clock;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A client of one server, for tasks on any executor: it does its I/O on a thread of its own. Clones share one
/// session with the server; the last of them to go, sessions included, ends it.
///
/// Over shared memory an operation runs inside the poll that starts it and hardly ever waits: for blocks to write
/// to, when they run out, and for the server where an operation is two-sided. **Dropping a future is safe at any
/// await point**: no one-sided work is ever left in the middle, blocks that were on their way are kept for the
/// next operation, and a request that was sent has its effect or not, as if the answer had been lost.
///
/// Keys and values are anything that is bytes.
///
/// ```
/// # pollster::block_on(async {
/// # let server = farside::embedded()?;
/// # let address = server.address();
/// let client = farside::Client::connect(&address).await?;
/// client.put("user:1", "Ada").await?;
/// let value = client.get("user:1").await?.expect("it was just stored");
/// assert_eq!(&*value, b"Ada");
/// # Ok::<(), farside::Error>(())
/// # })?;
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    deadline: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("active", &self.active()).field("deadline", &self.deadline).finish()
    }
}

impl Client {
    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        let deadline = shared.deadline();
        Self { shared, deadline }
    }

    /// Connects to the server at `address` (`HOST`, `HOST:PORT` or `unix:/PATH`) with the best transport there is.
    pub async fn connect(address: &str) -> Result<Self> {
        Self::builder().address(address).connect().await
    }

    /// A client with other settings than the usual ones.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A session for one thread: synchronous, and faster.
    pub fn session(&self) -> Result<Session> {
        Ok(Session::new(self.shared.session_core(), Arc::clone(&self.shared), self.deadline))
    }

    /// The same client with another longest time for each operation.
    ///
    /// ```
    /// # let client = farside::embedded()?;
    /// use std::time::Duration;
    /// let hasty = client.with_deadline(Duration::from_millis(50));
    /// assert_eq!(hasty.deadline(), Duration::from_millis(50));
    /// # Ok::<(), farside::Error>(())
    /// ```
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { shared: Arc::clone(&self.shared), deadline }
    }

    /// The longest time for each operation.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    async fn run<'a, T: Task<'a>>(&self, task: &mut T) -> Result<T::Answer> {
        let deadline = Deadline::after(self.deadline);
        let mut cores = Pooled::new(&self.shared, task.key());
        let mut outcome = Outcome::unknown();
        match cores.first_attempt(task, &deadline, &mut outcome) {
            Attempt::Done => outcome.take(),
            attempt => perform(&mut cores, &self.shared, task, deadline, attempt).await,
        }
    }

    /// The key's value.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let mut bytes = Vec::new();
        let meta = self.get_into(key, &mut bytes).await?;
        Ok(meta.map(|meta| Value::new(bytes, meta)))
    }

    /// Copies the key's value to `buffer`, in place of what is in it, and tells the rest. An absent key leaves
    /// `buffer` as it is.
    pub async fn get_into(&self, key: impl AsRef<[u8]>, buffer: &mut Vec<u8>) -> Result<Option<Meta>> {
        let mut task = GetTask::new(Key::new(key.as_ref())?, Into::Buffer(buffer));
        Ok(self.run(&mut task).await?.then_some(task.meta))
    }

    /// Looks several keys up and answers item by item: an error of one key says nothing about the others.
    /// They are under way together.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # let client = farside::embedded()?;
    /// client.put("a", "1").await?;
    /// let values = client.get_many(&["a", "b"]).await;
    /// assert_eq!(values[0].as_ref().unwrap().as_deref(), Some(&b"1"[..]));
    /// assert_eq!(values[1], Ok(None));
    /// # Ok::<(), farside::Error>(())
    /// # })?;
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Value>>> {
        batch::get_all(&self.shared, self.deadline, keys).await
    }

    /// Stores a value, whatever was there. Answers with its version; `None`: another unconditional change came
    /// right behind it (see [`Put::Absorbed`]).
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Version>> {
        Ok(self.put_with(key, value, PutOptions::new()).await?.version())
    }

    /// Stores a value as `options` say.
    pub async fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: PutOptions,
    ) -> Result<Put> {
        let record = Record::new(Key::new(key.as_ref())?, value.as_ref())?;
        let expires_at_ms = expires_at_ms(options.ttl, clock::wall_ms);
        let mut task = PutTask { record: Record { expires_at_ms, ..record }, condition: options.condition };
        self.run(&mut task).await
    }

    /// Stores a value if the key is absent.
    pub async fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Put> {
        self.put_with(key, value, PutOptions::new().if_absent()).await
    }

    /// Stores a value if the key's version is `version`, as a GET or an earlier PUT told it.
    pub async fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        version: Version,
        value: impl AsRef<[u8]>,
    ) -> Result<Put> {
        self.put_with(key, value, PutOptions::new().if_version(version)).await
    }

    /// Stores several values, whatever was there, and answers item by item as [`Client::put`]. They are under
    /// way together; of two items with one key either may be the last.
    pub async fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        items: &[(K, V)],
    ) -> Vec<Result<Option<Version>>> {
        batch::put_all(&self.shared, self.deadline, items).await
    }

    /// The live keys of the next page of `scan` with their values; `None`: there are no more.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # let client = farside::embedded()?;
    /// client.put("a", "1").await?;
    /// let (mut scan, mut keys) = (farside::Scan::new("")?, 0);
    /// while let Some(page) = client.scan(&mut scan).await? {
    ///     keys += page.len();
    /// }
    /// assert_eq!(keys, 1);
    /// # Ok::<(), farside::Error>(())
    /// # })?;
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub async fn scan(&self, scan: &mut Scan) -> Result<Option<Vec<(Vec<u8>, Value)>>> {
        if scan.is_done() {
            return Ok(None);
        }
        let mut page = Vec::new();
        let deadline = Deadline::after(self.deadline);
        let mut cores = Pooled::any(&self.shared);
        next_page(&mut cores, &self.shared, scan, deadline, |key, value| {
            page.push((key.into(), value.into_owned()));
        })
        .await?;
        Ok(Some(page))
    }

    /// Deletes a key. Answers whether this operation deleted it.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.delete_on(key.as_ref(), Condition::Always).await? == Delete::Deleted)
    }

    /// Deletes a key if its version is `version`.
    pub async fn delete_if(&self, key: impl AsRef<[u8]>, version: Version) -> Result<Delete> {
        self.delete_on(key.as_ref(), Condition::Version(version)).await
    }

    async fn delete_on(&self, key: &[u8], condition: Condition) -> Result<Delete> {
        self.run(&mut DeleteTask { key: Key::new(key)?, condition }).await
    }

    /// Adds `delta` to a counter, and answers with what it was before, as [`std::sync::atomic::AtomicI64`] does.
    /// An absent key counts from 0.
    pub async fn fetch_add(&self, key: impl AsRef<[u8]>, delta: i64) -> Result<i64> {
        self.run(&mut FetchAddTask { key: Key::new(key.as_ref())?, delta }).await
    }

    /// Asks the server's CPU for an answer; how long it took.
    pub async fn ping(&self) -> Result<Duration> {
        self.shared.ping(self.deadline).await
    }

    /// The server's figures.
    pub async fn server_stats(&self) -> Result<Vec<Statistic>> {
        self.shared.server_stats(self.deadline).await
    }

    /// The transport in use, and why.
    pub fn active(&self) -> Active {
        self.shared.connection().active().clone()
    }

    /// The figures of this client and its clones since it connected, and of those sessions made by it that have
    /// ended. (A session that lives tells its own: [`Session::stats`].)
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}
