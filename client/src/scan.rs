//! SCAN: the live keys of a table, page by page.

use crate::core::ScanStep;
use crate::error::{Error, Result};
use crate::perform::{Cores, PAUSE, pause, reconnect};
use crate::shared::Shared;
use crate::stats::Operation;
use crate::task::Deadline;
use crate::value::{Meta, Value};
use farside_protocol::limits::KEY_LEN_MAX;
use farside_protocol::record::SizeError;
use farside_protocol::wire::{Request, Response, ScanPosition};
use farside_transport::channel::CallError;
use std::sync::Arc;

/// About how many keys a page has, unless told otherwise.
const PAGE: u16 = 256;

/// How far a scan has come. It is the caller's: it may be kept, cloned, and gone on with by another session.
///
/// A scan passes each key that is live from its first page to its last, and none that was deleted before it began. Keys
/// that come or go meanwhile are passed or not; one that goes and comes again may be passed twice. The order is that of
/// the index: by hash, not by key.
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
    /// `None`: it is at its end.
    position: Option<ScanPosition>,
    /// The table it began on.
    table: Option<u128>,
}

impl Scan {
    /// Of the keys that begin with `prefix`; with an empty one, of all.
    pub fn new(prefix: impl AsRef<[u8]>) -> Result<Self> {
        let prefix = prefix.as_ref();
        if prefix.len() > KEY_LEN_MAX {
            return Err(SizeError::KeyTooLong(prefix.len()).into());
        }
        Ok(Self { prefix: prefix.into(), page: PAGE, position: Some(ScanPosition::default()), table: None })
    }

    /// The same with pages of about so many keys, one at least. A page may have fewer, or none, and the scan go on.
    #[must_use]
    pub fn with_page(self, keys: u16) -> Self {
        Self { page: keys.max(1), ..self }
    }

    /// Whether all has been passed.
    pub fn is_done(&self) -> bool {
        self.position.is_none()
    }

    /// What the keys begin with.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// About how many keys a page has.
    pub(crate) fn page(&self) -> u16 {
        self.page
    }

    /// Sees to it that it goes on in the table that it began on.
    fn check_table(&mut self, table: u128) -> Result<()> {
        let begun = *self.table.get_or_insert(table);
        if begun == table { Ok(()) } else { Err(Error::ScanVoid) }
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
    while let Some(from) = scan.position {
        let step = attempt_page(cores, shared, scan, from, (&deadline, round), &mut each).await;
        match step {
            Ok(None) => round += 1,
            Ok(Some(next)) => {
                scan.position = next;
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
    from: ScanPosition,
    (deadline, round): (&Deadline, u32),
    each: &mut impl FnMut(&[u8], Value<&[u8]>),
) -> Result<Option<Option<ScanPosition>>> {
    let connection = cores.with(|core| Arc::clone(core.connection()));
    scan.check_table(connection.table_id())?;
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
