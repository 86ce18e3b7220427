//! What a server counts, and how it tells.

use crate::session::Via;
use crate::shard::Shard;
use crate::state::State;
use farside_hashtable::heap::Usage;
use farside_protocol::wire::Statistic;
use farside_protocol::{ErrorKind, SlotIndex, SlotState, SlotWord};
use farside_transport::verbs::Listener;
use parking_lot::Mutex;
use rustix::process::Pid;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Display;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a client can ask.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Get,
    Put,
    Delete,
    FetchAdd,
    Scan,
    Lease,
    Report,
    Fence,
    Ping,
    Stats,
}

const KINDS: [(Kind, &str); 10] = [
    (Kind::Get, "get"),
    (Kind::Put, "put"),
    (Kind::Delete, "delete"),
    (Kind::FetchAdd, "fetch_add"),
    (Kind::Scan, "scan"),
    (Kind::Lease, "lease"),
    (Kind::Report, "report"),
    (Kind::Fence, "fence"),
    (Kind::Ping, "ping"),
    (Kind::Stats, "stats"),
];

/// How a request was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Done.
    Ok,
    /// The key is absent.
    Absent,
    /// The condition does not hold.
    Mismatch,
    /// It failed.
    Failed(ErrorKind),
}

const STATUSES: usize = 3 + ERROR_KINDS;
const ERROR_KINDS: usize = 9;

impl Status {
    const fn index(self) -> usize {
        match self {
            Self::Ok => 0,
            Self::Absent => 1,
            Self::Mismatch => 2,
            Self::Failed(kind) => 2 + kind as usize,
        }
    }

    fn name(index: usize) -> &'static str {
        match index {
            0 => "ok",
            1 => "absent",
            2 => "mismatch",
            error => ErrorKind::from_code(error as u16 - 2).map_or("error", ErrorKind::name),
        }
    }
}

const VIAS: usize = Via::ALL.len();

/// What one thread has done: only it writes, so that counting costs an addition. On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    requests: [[[AtomicU64; STATUSES]; KINDS.len()]; VIAS],
}

impl Counters {
    /// Counts a request, on the thread that these counters belong to.
    pub(crate) fn count(&self, via: Via, kind: Kind, status: Status) {
        let cell = &self.requests[via as usize][kind as usize][status.index()];
        cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// All facts and figures.
pub(crate) fn collect(state: &State) -> Vec<Statistic> {
    let mut list = List(Vec::with_capacity(64));
    list.put("farside_version", env!("CARGO_PKG_VERSION"));
    // Told in two halves, so that nobody takes it for a number.
    let (high, low) = ((state.instance >> 64) as u64, state.instance as u64);
    list.put("farside_instance", format_args!("{high:016x}-{low:016x}"));
    list.put("farside_uptime_seconds", state.started.elapsed().as_secs());
    let transports = [("shm", state.socket.is_some()), ("verbs", state.rdma.is_some()), ("tcp", true)];
    let served: Vec<_> = transports.iter().filter(|(_, served)| *served).map(|(name, _)| *name).collect();
    list.put("farside_transports", served.join(","));
    memory(state, &mut list);
    clients(state, &mut list);
    requests(state, &mut list);
    faults(state, &mut list);
    for (name, value) in state.sweeps.list() {
        list.put(name, value);
    }
    let (serving, upkeep) = (state.threads.cpu_us(Role::Serving), state.threads.cpu_us(Role::Upkeep));
    list.put("farside_cpu_microseconds_total", serving + upkeep);
    list.put("farside_upkeep_cpu_microseconds_total", upkeep);
    list.put("farside_process_cpu_microseconds_total", process_cpu_us());
    list.0
}

struct List(Vec<Statistic>);

impl List {
    fn put(&mut self, name: impl Into<String>, value: impl Display) {
        self.0.push(Statistic { name: name.into(), value: value.to_string() });
    }
}

fn memory(state: &State, list: &mut List) {
    let first = &state.shards[0];
    list.put("farside_shards", state.shards.len());
    list.put("farside_authority", first.superblock.authority.name());
    list.put("farside_pages", first.region.pages());
    list.put("farside_quarantine_milliseconds", first.superblock.quarantine_ms);
    list.put("farside_generation", first.superblock.generation);
    if let Some(lock) = &state.region_dir {
        list.put("farside_region_dir", lock.path.display());
    }
    if let Some(recovered) = state.recovered {
        list.put("farside_recovered_keys", recovered.keys);
        list.put("farside_recovered_damaged_total", recovered.damaged);
    }
    let usages: Vec<_> = state.shards.iter().map(|shard| shard.heap.lock().usage()).collect();
    list.put("farside_keys", state.shards.iter().map(|shard| keys(shard)).sum::<u64>());
    list.put("farside_bytes_capacity", usages.iter().map(|usage| usage.capacity).sum::<u64>());
    list.put("farside_bytes_used", usages.iter().map(Usage::used).sum::<u64>());
    list.put("farside_bytes_leased", usages.iter().map(|usage| usage.leased).sum::<u64>());
    list.put("farside_quarantined_bytes", usages.iter().map(|usage| usage.quarantined).sum::<u64>());
    let slots = state.shards.iter().map(|shard| u64::from(shard.superblock.geometry.slots()));
    list.put("farside_slots", slots.sum::<u64>());
}

fn clients(state: &State, list: &mut List) {
    let (counts, silent) = state.sessions.count();
    for (via, count) in Via::ALL.into_iter().zip(counts) {
        list.put(format!("farside_sessions{{transport=\"{}\"}}", via.name()), count);
    }
    list.put("farside_sessions_silent", silent);
    list.put("farside_connections", state.connections.now());
    if let Some(windows) = state.rdma.as_ref().and_then(Listener::windows) {
        list.put("farside_memory_windows", windows);
    }
}

/// What the server itself carried out; a client that does without it counts for itself.
fn requests(state: &State, list: &mut List) {
    for (kind, op) in KINDS {
        for via in Via::ALL {
            for status in 0..STATUSES {
                let cells =
                    state.counters.iter().map(|counters| &counters.requests[via as usize][kind as usize]);
                let total: u64 = cells.map(|cells| cells[status].load(Ordering::Relaxed)).sum();
                if total > 0 {
                    let (status, transport) = (Status::name(status), via.name());
                    let labels = format!(
                        "op=\"{op}\",status=\"{status}\",transport=\"{transport}\",path=\"two-sided\""
                    );
                    list.put(format!("farside_ops_total{{{labels}}}"), total);
                }
            }
        }
    }
}

fn faults(state: &State, list: &mut List) {
    let faults = &state.faults;
    for (kind, fault) in [
        ("accept", &faults.accept),
        ("too_many_connections", &faults.too_many),
        ("handshake", &faults.handshake),
        ("token", &faults.token),
        ("garbage", &faults.garbage),
        ("no_room", &faults.no_room),
        ("slow_reader", &faults.slow_reader),
        ("silent_session", &faults.silent),
        ("damaged_record", &faults.damaged),
    ] {
        list.put(format!("farside_faults_total{{kind=\"{kind}\"}}"), fault.total());
    }
    let ignored = state.shards.iter().map(|shard| shard.heap.lock().ignored());
    let sum = ignored.fold([0; 3], |sum, ignored| {
        [sum[0] + ignored.published, sum[1] + ignored.retired, sum[2] + ignored.returned]
    });
    for (kind, count) in ["published", "retired", "returned"].into_iter().zip(sum) {
        list.put(format!("farside_reports_ignored_total{{kind=\"{kind}\"}}"), count);
    }
}

/// Committed slots, by a walk over the index: 8 bytes a slot at the speed of memory. These are the live keys, and
/// those expired or deleted so lately that their slot is not brought forward yet.
fn keys(shard: &Shard) -> u64 {
    let geometry = shard.superblock.geometry;
    let (mut at, end) = (SlotIndex(0).offset(), SlotIndex(geometry.slots()).offset());
    let (mut piece, mut keys) = ([0; 4096], 0);
    while at < end {
        let len = piece.len().min((end - at) as usize);
        shard.region.read(at, &mut piece[..len]).expect("the index lies in the region");
        let (words, _) = piece[..len].as_chunks::<8>();
        let states = words.iter().map(|word| SlotWord::from_bits(u64::from_le_bytes(*word)).state());
        keys += states.filter(|state| *state == SlotState::Committed).count() as u64;
        at += len as u64;
    }
    keys
}

/// What a thread of the server is there for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connections and their requests.
    Serving,
    /// Keeping the table tidy, whoever asks for what.
    Upkeep,
}

/// The threads of a server, to tell its processor time from that of the program it is embedded in.
#[derive(Default)]
pub(crate) struct Threads(Mutex<Vec<(Role, Pid)>>);

impl Threads {
    /// Adds the calling thread.
    pub(crate) fn register(&self, role: Role) {
        self.0.lock().push((role, gettid()));
    }

    /// Processor time of all that have this role.
    fn cpu_us(&self, role: Role) -> u64 {
        let threads = self.0.lock();
        let these = threads.iter().filter(|(of, _)| *of == role);
        these.filter_map(|(_, thread)| thread_cpu_ns(*thread)).sum::<u64>() / 1000
    }
}

fn thread_cpu_ns(thread: Pid) -> Option<u64> {
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    fs::read_to_string(path).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

fn process_cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}
