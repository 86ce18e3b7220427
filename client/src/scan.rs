//! SCAN: the live keys of a table, page by page.

use crate::connection::Connection;
use crate::core::ScanStep;
use crate::error::{Error, Result};
use crate::perform::{Cores, PAUSE, pause, reconnect};
use crate::shared::Shared;
use crate::stats::Operation;
use crate::task::Deadline;
use crate::value::{Meta, Value};
use farside_protocol::Key;
use farside_protocol::limits::KEY_LEN_MAX;
use farside_protocol::record::SizeError;
use farside_protocol::wire::{Request, Response, ScanPosition};
use farside_transport::channel::CallError;
use std::sync::Arc;

/// Most keys of a page, unless told otherwise.
const PAGE: u16 = 256;

/// How far a scan has come. It is the caller's: it may be kept, cloned, and gone on with by another session.
///
/// A scan passes each key that is live from its first page to its last, and none that was deleted before it began. Keys
/// that come or go meanwhile are passed or not; one that goes and comes again may be passed twice. The order is that of
/// the index: by hash, not by key, so this is no range scan.
///
/// ```
/// # let farside = farside::embedded()?;
/// let mut session = farside.session()?;
/// for key in ["user:1", "user:2", "stock:1"] {
///     session.put(key, "some value")?;
/// }
/// let (mut scan, mut users) = (farside::Scan::new("user:")?, Vec::new());
/// while session.scan(&mut scan, |key, _value| users.push(key.to_vec()))? {}
/// users.sort();
/// assert_eq!(users, [b"user:1", b"user:2"]);
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan {
    prefix: Box<[u8]>,
    page: u16,
    place: Place,
    /// The table it began on.
    table: Option<u128>,
}

/// Where a scan goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    /// Where this key belongs, in whichever table.
    Key(Box<[u8]>),
    Slot(ScanPosition),
    End,
}

impl Scan {
    /// Of the keys that begin with `prefix`; with an empty one, of all.
    pub fn new(prefix: impl AsRef<[u8]>) -> Result<Self> {
        let prefix = prefix.as_ref();
        if prefix.len() > KEY_LEN_MAX {
            return Err(SizeError::KeyTooLong(prefix.len()).into());
        }
        let place = Place::Slot(ScanPosition::default());
        Ok(Self { prefix: prefix.into(), page: PAGE, place, table: None })
    }

    /// The same from the place of `key` in the table on, to the table's end. That is where the key is looked for, so it is
    /// among the first that are passed if it is live, with those that are beside it by their hashes.
    ///
    /// ```
    /// # let farside = farside::embedded()?;
    /// # let mut session = farside.session()?;
    /// for number in 0..100 {
    ///     session.put(format!("key:{number}"), "some value")?;
    /// }
    /// let (mut scan, mut keys) = (farside::Scan::new("")?.at("key:7")?.with_page(10), 0);
    /// while keys < 10 && session.scan(&mut scan, |_key, _value| keys += 1)? {}
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub fn at(self, key: impl AsRef<[u8]>) -> Result<Self> {
        let key = Key::new(key.as_ref())?;
        Ok(Self { place: Place::Key(key.as_bytes().into()), table: None, ..self })
    }

    /// The same with pages of at most so many keys, one at least; no more records are read for one. A page may have fewer,
    /// or none, and the scan go on.
    #[must_use]
    pub fn with_page(self, keys: u16) -> Self {
        Self { page: keys.max(1), ..self }
    }

    /// Whether all has been passed.
    pub fn is_done(&self) -> bool {
        self.place == Place::End
    }

    /// What the keys begin with.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Most keys of a page.
    pub(crate) fn page(&self) -> u16 {
        self.page
    }

    /// Where it goes on over `connection`, which must lead to the table that it began on; `None`: it is at its end.
    fn position(&mut self, connection: &Connection) -> Result<Option<ScanPosition>> {
        let table = connection.table_id();
        if *self.table.get_or_insert(table) != table {
            return Err(Error::ScanVoid);
        }
        Ok(match &self.place {
            Place::Key(key) => Some(connection.place_of(key)),
            Place::Slot(position) => Some(*position),
            Place::End => None,
        })
    }
}

/// Hands the keys of the next page to `each`. Answers whether the scan goes on.
pub(crate) async fn next_page(
    cores: &mut impl Cores,
    shared: &Arc<Shared>,
    scan: &mut Scan,
    deadline: Deadline,
    mut each: impl FnMut(&[u8], Value<&[u8]>),
) -> Result<bool> {
    let mut round = 0;
    while !scan.is_done() {
        let step = attempt_page(cores, shared, scan, (&deadline, round), &mut each).await;
        match step {
            Ok(None) => round += 1,
            Ok(Some(next)) => {
                scan.place = next.map_or(Place::End, Place::Slot);
                cores.with(|core| core.ended(Operation::Scan, true));
                return Ok(next.is_some());
            }
            Err(error) => {
                cores.with(|core| core.ended(Operation::Scan, false));
                return Err(error);
            }
        }
    }
    Ok(false)
}

/// Attempts a page. `None`: nothing of it was passed, and it is to be attempted again.
async fn attempt_page(
    cores: &mut impl Cores,
    shared: &Arc<Shared>,
    scan: &mut Scan,
    (deadline, round): (&Deadline, u32),
    each: &mut impl FnMut(&[u8], Value<&[u8]>),
) -> Result<Option<Option<ScanPosition>>> {
    let connection = cores.with(|core| Arc::clone(core.connection()));
    let Some(from) = scan.position(&connection)? else { return Ok(Some(None)) };
    let slice = deadline.slice(round);
    match cores.with(|core| core.scan(from, scan, slice, &mut *each)) {
        ScanStep::Page(next) => return Ok(Some(next)),
        ScanStep::TwoSided => {}
        ScanStep::Later(time) => return pause(shared, time, deadline).await.map(|()| None),
        ScanStep::Unfinished => return pause(shared, PAUSE, deadline).await.map(|()| None),
        ScanStep::Broken => return reconnect(cores, shared, deadline).await.map(|()| None),
    }
    let request = Request::Scan { from, keys_max: scan.page, prefix: &scan.prefix };
    let answer = match connection.call(&request, deadline).await {
        Ok(answer) => answer,
        // The next attempt finds the connection broken.
        Err(CallError::Unavailable { .. }) if connection.is_broken() => return Ok(None),
        Err(error) => {
            let error = connection.call_error(error, deadline);
            return shared.bear(error, deadline).await.map(|()| None);
        }
    };
    match answer.response().map_err(|error| connection.call_error(error.into(), deadline))? {
        Response::Scanned { next, entries } => {
            for entry in entries {
                let meta = Meta::new(entry.version, entry.expires_at_ms, entry.flags);
                each(entry.key.as_bytes(), Value::new(entry.value, meta));
            }
            Ok(Some(next))
        }
        _ => Err(connection.nonsense()),
    }
}
