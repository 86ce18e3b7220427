//! Carrying out an operation of the model through the client library.

use farside::{Client, Embedded, ErrorKind, Put, PutOptions, Session, TransportChoice, Value};
use farside_tests::content::Content;
use farside_tests::operation::{Operation, Outcome, Version};
use std::time::Duration;

/// A way to the server: a transport, and the capabilities it is denied.
pub(crate) type Way = (TransportChoice, &'static str);

/// Both reads and updates one-sided.
pub(crate) const SHM: Way = (TransportChoice::Shm, "");
/// Updates two-sided.
pub(crate) const SHM_WITHOUT_ATOMICS: Way = (TransportChoice::Shm, "atomic");
/// Both two-sided.
pub(crate) const TCP: Way = (TransportChoice::Tcp, "");

pub(crate) fn connect(farside: &Embedded, (transport, denied): Way) -> Client {
    let builder = Client::builder().address(&farside.address()).transport(transport).deny(denied);
    // Long, for a machine that is busy with other things.
    builder.deadline(Duration::from_secs(30)).connect_blocking().unwrap()
}

/// Whoever can be asked for an operation. Nothing but the outcomes of the model may come of it.
pub(crate) trait Target {
    async fn perform(&mut self, key: &[u8], operation: &Operation<Content>) -> Outcome<Content>;
}

macro_rules! perform {
    ($target:expr, $key:expr, $operation:expr, $($wait:tt)*) => {
        match $operation {
            Operation::Get => match $target.get($key)$($wait)*.unwrap() {
                Some(value) => found(&value),
                None => Outcome::NotFound,
            },
            Operation::Put { value, .. }
            | Operation::PutIfAbsent { value, .. }
            | Operation::CompareExchange { value, .. } => {
                let Content::Bytes(bytes) = value else { panic!("only FETCH-ADD makes a counter") };
                match $target.put_with($key, bytes, options($operation))$($wait)*.unwrap() {
                    Put::Stored { version } => Outcome::Stored { version: Some(told(version)) },
                    Put::Absorbed => Outcome::Stored { version: None },
                    Put::Mismatch { .. } if matches!($operation, Operation::PutIfAbsent { .. }) => Outcome::Exists,
                    Put::Mismatch { .. } => Outcome::Mismatch,
                }
            }
            Operation::FetchAdd { delta } => match $target.fetch_add($key, *delta as i64)$($wait)* {
                Ok(previous) => Outcome::Added { previous: previous as u64, version: None },
                Err(error) if error.kind() == ErrorKind::Invalid => Outcome::NotACounter,
                Err(error) => panic!("{error}"),
            },
            Operation::Delete => match $target.delete($key)$($wait)*.unwrap() {
                true => Outcome::Deleted,
                false => Outcome::NotFound,
            },
        }
    };
}

impl Target for Session {
    async fn perform(&mut self, key: &[u8], operation: &Operation<Content>) -> Outcome<Content> {
        perform!(self, key, operation,)
    }
}

impl Target for Client {
    async fn perform(&mut self, key: &[u8], operation: &Operation<Content>) -> Outcome<Content> {
        perform!(self, key, operation, .await)
    }
}

fn told(version: farside::Version) -> Version {
    Version(version.to_bits())
}

fn found<B: AsRef<[u8]>>(value: &Value<B>) -> Outcome<Content> {
    let content = match value.counter() {
        Some(count) => Content::Counter(count as u64),
        None => Content::Bytes(value.to_vec()),
    };
    Outcome::Found { value: content, version: Some(told(value.version())) }
}

fn options(operation: &Operation<Content>) -> PutOptions {
    match operation {
        Operation::PutIfAbsent { .. } => PutOptions::new().if_absent(),
        Operation::CompareExchange { expected, .. } => {
            PutOptions::new().if_version(farside::Version::from_bits(expected.0))
        }
        _ => PutOptions::new(),
    }
}
