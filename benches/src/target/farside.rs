//! Farside: a server somewhere, or one in this process.

use std::sync::Mutex;
use std::time::Duration;

use farside::server::Config;
use farside::{Builder, Client, Embedded, FabricCounts, Operation, Scan, Statistic, Stats};

use super::scanned::Scanned;
use super::{Answer, Counts, Description, ErrorKind, Link, Reply, ServerCpu, Session, SessionError, Target};

/// A client of a Farside server.
#[derive(Debug)]
pub struct Farside {
    // Before the server, which it takes leave of.
    asking: Mutex<farside::Session>,
    home: Home,
    version: String,
    authority: String,
}

#[derive(Debug)]
enum Home {
    Embedded(Embedded, u64),
    Remote(Client),
}

impl Farside {
    /// Connects to the server that `client` names.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses.
    pub fn connect(client: Builder) -> farside::Result<Self> {
        Self::of(Home::Remote(client.connect_blocking()?))
    }

    /// Starts a server with `memory` bytes in this process, and connects to it as `client` says.
    ///
    /// # Errors
    /// If it does not start.
    pub fn embed(memory: u64, client: Builder) -> farside::Result<Self> {
        let config = Config { memory: Some(memory), ..Config::default() };
        Self::of(Home::Embedded(Embedded::start(config, client)?, memory))
    }

    fn of(home: Home) -> farside::Result<Self> {
        let mut asking = home.client().session()?;
        let statistics = asking.server_stats()?;
        let word = |name| value(&statistics, name).unwrap_or("unknown").to_owned();
        let (version, authority) = (word("farside_version"), word("farside_authority"));
        Ok(Self { asking: Mutex::new(asking), home, version, authority })
    }
}

impl Farside {
    /// Bytes that the server's records and its index take; none if it does not tell.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        let statistics = self.asking.lock().ok()?.server_stats().ok()?;
        let number = |name| value(&statistics, name)?.parse::<u64>().ok();
        let records = number("farside_bytes_used")?.saturating_sub(number("farside_bytes_leased")?);
        Some(records + 8 * number("farside_slots")?)
    }
}

impl Home {
    fn client(&self) -> &Client {
        match self {
            Self::Embedded(embedded, _) => embedded,
            Self::Remote(client) => client,
        }
    }
}

fn value<'a>(statistics: &'a [Statistic], name: &str) -> Option<&'a str> {
    statistics.iter().find(|statistic| statistic.name == name).map(|statistic| statistic.value.as_str())
}

impl Target for Farside {
    type Session<'a> = FarsideSession;

    fn description(&self) -> Description {
        let active = self.home.client().active();
        Description {
            store: "farside".to_owned(),
            version: self.version.clone(),
            place: match &self.home {
                Home::Embedded(_, memory) => format!("in this process, with {} MiB", memory >> 20),
                Home::Remote(_) => format!("at {}", active.peer),
            },
            transport: active.to_string(),
            device: active.device,
            authority: Some(self.authority.clone()),
            counts_fabric: true,
        }
    }

    fn session(&self) -> Result<FarsideSession, SessionError> {
        let session = self.home.client().session().map_err(|error| SessionError(error.to_string()))?;
        Ok(FarsideSession { forwarded: Forwarded::default(), session, failure: None })
    }

    fn server_cpu(&self) -> Option<ServerCpu> {
        let statistics = self.asking.lock().ok()?.server_stats().ok()?;
        let time = |name| value(&statistics, name)?.parse().ok().map(Duration::from_micros);
        let (all, upkeep) =
            (time("farside_cpu_microseconds_total")?, time("farside_upkeep_cpu_microseconds_total")?);
        Some(ServerCpu { serving: all.saturating_sub(upkeep), upkeep })
    }

    fn link(&self) -> Link {
        let statistics = self.asking.lock().ok().and_then(|mut asking| asking.server_stats().ok());
        let instance =
            statistics.and_then(|statistics| Some(value(&statistics, "farside_instance")?.to_owned()));
        Link { reconnects: self.home.client().stats().reconnects, instance }
    }
}

/// One thread's session.
#[derive(Debug)]
pub struct FarsideSession {
    session: farside::Session,
    forwarded: Forwarded,
    failure: Option<farside::Error>,
}

/// The session's bringing forward so far, which it counts apart from operations.
#[derive(Debug, Clone, Copy, Default)]
struct Forwarded {
    slots: u64,
    round_trips: u64,
}

impl FarsideSession {
    fn reply(&mut self, answer: Answer) -> Reply {
        let last = self.session.last_counts();
        Reply { answer, counts: self.with_forwards(counts(last)) }
    }

    /// Charges what was brought forward since the last operation to this one, apart from its own steps.
    fn with_forwards(&mut self, counts: Counts) -> Counts {
        let Stats { forwards: slots, upkeep: FabricCounts { round_trips, .. }, .. } = *self.session.stats();
        let before = std::mem::replace(&mut self.forwarded, Forwarded { slots, round_trips });
        Counts {
            forwards: slots - before.slots,
            upkeep_round_trips: round_trips - before.round_trips,
            ..counts
        }
    }

    fn failed(&mut self, error: farside::Error) -> Answer {
        let kind = kind(&error);
        self.failure = Some(error);
        Answer::Failed(kind)
    }

    fn scan_pages(&mut self, key: &[u8], length: usize, found: &mut Scanned) -> farside::Result<()> {
        let mut scan = Scan::new("")?.at(key)?;
        while found.len() < length && !scan.is_done() {
            scan = scan.with_page(u16::try_from(length - found.len()).unwrap_or(u16::MAX));
            self.session.scan(&mut scan, |key, value| found.push(key, &value))?;
        }
        Ok(())
    }

    /// What a batch did: the operations of this kind since `before`.
    fn batch_counts(&mut self, operation: Operation, before: Counts) -> Counts {
        let after = counts(self.session.stats()[operation].counts);
        self.with_forwards(after.since(&before))
    }
}

fn counts(counts: farside::Counts) -> Counts {
    let farside::Counts { fabric, two_sided, hint_misses, .. } = counts;
    Counts {
        round_trips: fabric.round_trips + two_sided,
        reads: fabric.reads,
        writes: fabric.writes,
        cas: fabric.cas,
        bytes: fabric.bytes_read + fabric.bytes_written,
        retries: fabric.retries,
        two_sided,
        hint_misses,
        ..Counts::default()
    }
}

fn kind(error: &farside::Error) -> ErrorKind {
    match error.kind() {
        farside::ErrorKind::Full => ErrorKind::Full,
        farside::ErrorKind::TooLarge => ErrorKind::TooLarge,
        farside::ErrorKind::Deadline => ErrorKind::Deadline,
        farside::ErrorKind::Indeterminate => ErrorKind::Indeterminate,
        farside::ErrorKind::Unavailable => ErrorKind::Unavailable,
        farside::ErrorKind::Refused => ErrorKind::Refused,
        farside::ErrorKind::Incompatible => ErrorKind::Incompatible,
        farside::ErrorKind::Corrupt => ErrorKind::Corrupt,
        // Invalid, and kinds that are newer than this program.
        _ => ErrorKind::Invalid,
    }
}

impl Session for FarsideSession {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Reply {
        let answer = match self.session.get_into(key, value) {
            Ok(Some(_)) => Answer::Done,
            Ok(None) => Answer::NotFound,
            Err(error) => self.failed(error),
        };
        self.reply(answer)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Reply {
        let answer = match self.session.put(key, value) {
            Ok(_) => Answer::Done,
            Err(error) => self.failed(error),
        };
        self.reply(answer)
    }

    fn get_many(&mut self, keys: &[Vec<u8>], values: &mut [Vec<u8>], answers: &mut [Answer]) -> Counts {
        let before = counts(self.session.stats()[Operation::Get].counts);
        let failure = &mut self.failure;
        self.session.get_many(keys, |item, found| {
            answers[item] = match found {
                Ok(Some(value)) => {
                    values[item].clear();
                    values[item].extend_from_slice(&value);
                    Answer::Done
                }
                Ok(None) => Answer::NotFound,
                Err(error) => {
                    let kind = kind(&error);
                    *failure = Some(error);
                    Answer::Failed(kind)
                }
            };
        });
        self.batch_counts(Operation::Get, before)
    }

    fn put_many(&mut self, keys: &[Vec<u8>], values: &[Vec<u8>], answers: &mut [Answer]) -> Counts {
        let before = counts(self.session.stats()[Operation::Put].counts);
        let items: Vec<(&[u8], &[u8])> =
            keys.iter().map(Vec::as_slice).zip(values.iter().map(Vec::as_slice)).collect();
        for (answer, stored) in answers.iter_mut().zip(self.session.put_many(&items)) {
            *answer = match stored {
                Ok(_) => Answer::Done,
                Err(error) => self.failed(error),
            };
        }
        self.batch_counts(Operation::Put, before)
    }

    fn scan(&mut self, key: &[u8], length: usize, found: &mut Scanned) -> Reply {
        let before = counts(self.session.stats()[Operation::Scan].counts);
        let answer = match self.scan_pages(key, length, found) {
            Ok(()) if found.is_empty() => Answer::NotFound,
            Ok(()) => Answer::Done,
            Err(error) => self.failed(error),
        };
        Reply { answer, counts: self.batch_counts(Operation::Scan, before) }
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.as_ref().map(ToString::to_string)
    }
}
