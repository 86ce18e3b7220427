//! Carrying out an operation of the model through the client library.

use farside::server::Config;
use farside::{
    Client, Condition, Delete, Embedded, Error, ErrorKind, Put, PutOptions, Session, TransportChoice, Value,
};
use farside_tests::content::Content;
use farside_tests::operation::{Operation, Outcome, Version};
use std::net::IpAddr;
use std::time::Duration;

/// A way to the server: a transport, and the capabilities it is denied.
pub(crate) type Way = (TransportChoice, &'static str);

/// Both reads and updates one-sided.
pub(crate) const SHM: Way = (TransportChoice::Shm, "");
/// Updates two-sided.
pub(crate) const SHM_WITHOUT_ATOMICS: Way = (TransportChoice::Shm, "atomic");
/// Both two-sided.
pub(crate) const TCP: Way = (TransportChoice::Tcp, "");
/// Reads one-sided, and updates if the server's device has atomics.
pub(crate) const VERBS: Way = (TransportChoice::Verbs, "");
/// Updates two-sided, and made by the server's device if it has atomics.
pub(crate) const VERBS_WITHOUT_ATOMICS: Way = (TransportChoice::Verbs, "atomic");

/// Addresses of RDMA devices to test on, with commas between them.
const RDMA_VARIABLE: &str = "FARSIDE_TEST_RDMA";

/// Set where servers on those devices bound WRITEs by memory windows.
const WINDOWS_VARIABLE: &str = "FARSIDE_TEST_WINDOWS";

/// The RDMA devices to test `what` on.
pub(crate) fn rdma_devices(what: &str) -> Vec<IpAddr> {
    match std::env::var(RDMA_VARIABLE) {
        Ok(list) => list.split(',').map(|address| address.parse().unwrap()).collect(),
        Err(_) => {
            eprintln!("SKIPPED {what}: {RDMA_VARIABLE} names no device to test on");
            Vec::new()
        }
    }
}

/// For a server of a small table, on an RDMA device or none.
pub(crate) fn config(rdma: Option<IpAddr>) -> Config {
    // A short quarantine, so that blocks come round within the test.
    Config {
        memory: Some(32 << 20),
        quarantine: Duration::from_millis(20),
        rdma: rdma.map(|address| (address, 0).into()),
        memory_windows: rdma.is_some() && std::env::var_os(WINDOWS_VARIABLE).is_some(),
        ..Config::default()
    }
}

pub(crate) fn serve(rdma: Option<IpAddr>) -> Embedded {
    Embedded::start(config(rdma), Client::builder()).unwrap()
}

pub(crate) fn connect(farside: &Embedded, (transport, denied): Way) -> Client {
    let builder = Client::builder().address(&farside.address()).transport(transport).deny(denied);
    // Long, for a machine that is busy with other things.
    builder.deadline(Duration::from_secs(30)).connect_blocking().unwrap()
}

/// What came of an operation.
pub(crate) struct Answer {
    pub(crate) outcome: Outcome<Content>,
    /// The version that the key was said to have if the operation's condition did not hold.
    pub(crate) current: Option<Version>,
}

impl From<Outcome<Content>> for Answer {
    fn from(outcome: Outcome<Content>) -> Self {
        Self { outcome, current: None }
    }
}

/// Whoever can be asked for an operation. Nothing but the outcomes of the model may come of it, or an error.
pub(crate) trait Target {
    async fn perform(&mut self, key: &[u8], operation: &Operation<Content>) -> Result<Answer, Error>;

    /// The one operation that the model does without.
    async fn delete_if(&mut self, key: &[u8], version: Version) -> Delete;
}

/// Whoever can be asked for several operations at once.
pub(crate) trait Batches: Target {
    /// GETs.
    async fn get_together(&mut self, keys: &[&str]) -> Vec<Result<Answer, Error>>;

    /// PUTs.
    async fn put_together(&mut self, items: &[(&str, &[u8])]) -> Vec<Result<Answer, Error>>;
}

macro_rules! perform {
    ($target:expr, $key:expr, $operation:expr, $($wait:tt)*) => {
        Ok(match $operation {
            Operation::Get => looked_up($target.get($key)$($wait)*?),
            Operation::Put { value, .. }
            | Operation::PutIfAbsent { value, .. }
            | Operation::CompareExchange { value, .. } => {
                let options = PutOptions::new().condition(condition($operation));
                stored($operation, $target.put_with($key, bytes(value), options)$($wait)*?)
            }
            Operation::FetchAdd { delta } => match $target.fetch_add($key, *delta as i64)$($wait)* {
                Ok(previous) => Outcome::Added { previous: previous as u64, version: None }.into(),
                Err(error) if error.kind() == ErrorKind::Invalid => Outcome::NotACounter.into(),
                Err(error) => return Err(error),
            },
            Operation::Delete => match $target.delete($key)$($wait)*? {
                true => Outcome::Deleted.into(),
                false => Outcome::NotFound.into(),
            },
        })
    };
}

impl Target for Session {
    async fn perform(&mut self, key: &[u8], operation: &Operation<Content>) -> Result<Answer, Error> {
        perform!(self, key, operation,)
    }

    async fn delete_if(&mut self, key: &[u8], version: Version) -> Delete {
        Session::delete_if(self, key, farside::Version::from_bits(version.0)).unwrap()
    }
}

impl Batches for Session {
    async fn get_together(&mut self, keys: &[&str]) -> Vec<Result<Answer, Error>> {
        let mut answers: Vec<_> = keys.iter().map(|_| None).collect();
        self.get_many(keys, |number, value| answers[number] = Some(value.map(looked_up)));
        answers.into_iter().map(|answer| answer.expect("each has an answer")).collect()
    }

    async fn put_together(&mut self, items: &[(&str, &[u8])]) -> Vec<Result<Answer, Error>> {
        self.put_many(items).into_iter().map(|put| put.map(stored_blindly)).collect()
    }
}

impl Target for Client {
    async fn perform(&mut self, key: &[u8], operation: &Operation<Content>) -> Result<Answer, Error> {
        perform!(self, key, operation, .await)
    }

    async fn delete_if(&mut self, key: &[u8], version: Version) -> Delete {
        Client::delete_if(self, key, farside::Version::from_bits(version.0)).await.unwrap()
    }
}

impl Batches for Client {
    async fn get_together(&mut self, keys: &[&str]) -> Vec<Result<Answer, Error>> {
        self.get_many(keys).await.into_iter().map(|value| value.map(looked_up)).collect()
    }

    async fn put_together(&mut self, items: &[(&str, &[u8])]) -> Vec<Result<Answer, Error>> {
        self.put_many(items).await.into_iter().map(|put| put.map(stored_blindly)).collect()
    }
}

pub(crate) fn told(version: farside::Version) -> Version {
    Version(version.to_bits())
}

pub(crate) fn bytes(value: &Content) -> &[u8] {
    let Content::Bytes(bytes) = value else { panic!("only FETCH-ADD makes a counter") };
    bytes
}

fn found<B: AsRef<[u8]>>(value: &Value<B>) -> Outcome<Content> {
    let content = match value.counter() {
        Some(count) => Content::Counter(count as u64),
        None => Content::Bytes(value.to_vec()),
    };
    Outcome::Found { value: content, version: Some(told(value.version())) }
}

fn looked_up<B: AsRef<[u8]>>(value: Option<Value<B>>) -> Answer {
    value.map_or(Outcome::NotFound, |value| found(&value)).into()
}

fn stored_blindly(version: Option<farside::Version>) -> Answer {
    Outcome::Stored { version: version.map(told) }.into()
}

pub(crate) fn stored(operation: &Operation<Content>, put: Put) -> Answer {
    let (outcome, current) = match put {
        Put::Stored { version } => (Outcome::Stored { version: Some(told(version)) }, None),
        Put::Absorbed => (Outcome::Stored { version: None }, None),
        Put::Mismatch { current } if matches!(operation, Operation::PutIfAbsent { .. }) => {
            (Outcome::Exists, current.map(told))
        }
        Put::Mismatch { current } => (Outcome::Mismatch, current.map(told)),
    };
    Answer { outcome, current }
}

/// On what it depends that an operation stores its value.
pub(crate) fn condition(operation: &Operation<Content>) -> Condition {
    match operation {
        Operation::PutIfAbsent { .. } => Condition::Absent,
        Operation::CompareExchange { expected, .. } => {
            Condition::Version(farside::Version::from_bits(expected.0))
        }
        _ => Condition::Always,
    }
}
