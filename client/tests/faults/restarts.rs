//! Servers with their table in a folder, killed while several processes write to it, and started again on it.

use crate::server::Process;
use crate::ways::Way;
use crate::writer::{KEYS, Told, Writer, first_of, key, spread, update};
use crate::{PATIENT, connect};
use farside::Session;
use farside_protocol::{Class, record};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Rounds, unless `FARSIDE_RESTARTS` says how many.
const RESTARTS: u64 = 20;
/// Where all memory is the server's to change.
const RESTARTS_OVER_TCP: u64 = 5;
const RESTARTS_OVER_RDMA: u64 = 3;
/// Updates of a writer before its server is killed.
const UPDATES_MAX: u64 = 400;
const UPDATES_MAX_OVER_RDMA: u64 = 60;
/// And after it has found the next one.
const MORE: u64 = 5;
/// How long there is no server.
const GAP_MS_MAX: u64 = 20;
/// Rounds after which it is looked whether memory has leaked.
const ACCOUNT_EVERY: u64 = 5;

fn restarts(way: Way) -> u64 {
    let asked = std::env::var("FARSIDE_RESTARTS").ok().map(|text| text.parse().expect("a number"));
    asked.unwrap_or(match way {
        Way::Shm => RESTARTS,
        Way::Tcp => RESTARTS_OVER_TCP,
        Way::Verbs(_) => RESTARTS_OVER_RDMA,
    })
}

fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// What one writer's keys may hold, after what it has said.
struct Possible {
    values: BTreeMap<String, Vec<Option<Vec<u8>>>>,
    /// The number of its next update.
    next: u64,
}

impl Possible {
    fn of(writer: u64) -> Self {
        let keys = (0..KEYS).map(|at| key(writer << 20 | at));
        Self { values: keys.map(|key| (key, vec![None])).collect(), next: first_of(writer) }
    }

    fn told(&mut self, told: &[Told]) {
        for told in told {
            self.apply(*told);
        }
    }

    fn apply(&mut self, told: Told) {
        let (key, value) = update(self.next);
        let values = self.values.get_mut(&key).expect("all keys are there");
        match told {
            Told::Done => *values = vec![value],
            Told::Indeterminate => values.push(value),
            Told::Failed => {}
        }
        self.next += 1;
    }

    /// Checks what is there, and that it has the version it had before or one that no record ever had. Returns the bytes
    /// that it takes.
    fn check(&mut self, session: &mut Session, versions: &mut HashMap<u64, u64>, round: u64) -> u64 {
        let (mut bytes, keys) = (0, self.values.keys().cloned().collect::<Vec<_>>());
        session.get_many(&keys, |number, value| {
            let (key, value) = (&keys[number], value.unwrap());
            if let Some(value) = &value {
                bytes += Class::holding(record::len(key.len(), value.len())).unwrap().size() as u64;
                // Values begin with the number of their update.
                let number = u64::from_le_bytes(*value.first_chunk().unwrap());
                let same = *versions.entry(value.version().to_bits()).or_insert(number);
                assert_eq!(same, number, "round {round}, {key}: a version came twice");
            }
            let (value, values) = (value.map(|value| value.to_vec()), self.values.get_mut(key).unwrap());
            assert!(values.contains(&value), "round {round}, {key}: {:?}", value.map(|value| value.len()));
            *values = vec![value];
        });
        bytes
    }
}

pub(crate) fn a_table_in_a_folder_outlives_servers_that_are_killed() {
    for way in Way::all() {
        kill_servers(way);
    }
}

fn kill_servers(way: Way) {
    let (folder, restarts) = (folder(), restarts(way));
    let region_dir = folder.path().join("table");
    let updates_max = if let Way::Verbs(_) = way { UPDATES_MAX_OVER_RDMA } else { UPDATES_MAX };
    let mut server = Process::start_on(way, None, &region_dir);
    let ways = [way, way, Way::Tcp];
    let mut possible: Vec<_> = (0..ways.len() as u64).map(Possible::of).collect();
    let mut versions = HashMap::new();
    for round in 0..restarts {
        let writers =
            ways.iter().zip(&possible).map(|(way, possible)| Writer::start(&server, *way, possible.next));
        let mut writers: Vec<_> = writers.collect();
        for ((number, writer), possible) in (0..).zip(&mut writers).zip(&mut possible) {
            possible.told(&writer.hear(spread(round << 2 | number) % updates_max));
        }
        let address = server.kill();
        let gap = spread(round) % (2 * GAP_MS_MAX);
        thread::sleep(Duration::from_millis(gap.saturating_sub(GAP_MS_MAX)));
        server = Process::start_on(way, Some(&address), &region_dir);
        let goes_on = round % 2 == 0;
        for (writer, possible) in writers.into_iter().zip(&mut possible) {
            possible.told(&writer.kill_after(if goes_on { MORE } else { 0 }));
            // It was perhaps about one more.
            possible.apply(Told::Indeterminate);
        }
        let is_last = round + 1 == restarts;
        if is_last || round % ACCOUNT_EVERY == ACCOUNT_EVERY - 1 {
            // What the killed writers held is free at once.
            server = Process::start_on(way, Some(&server.kill()), &region_dir);
        }
        let mut session = connect(server.address(), Way::Tcp, PATIENT).session().unwrap();
        let check = |possible: &mut Possible| possible.check(&mut session, &mut versions, round);
        let bytes: u64 = possible.iter_mut().map(check).sum();
        if is_last || round % ACCOUNT_EVERY == ACCOUNT_EVERY - 1 {
            assert_eq!(figure(&mut session, "farside_bytes_used"), bytes, "round {round}");
            assert_eq!(figure(&mut session, "farside_bytes_leased"), 0);
            assert_eq!(figure(&mut session, "farside_quarantined_bytes"), 0);
            assert_eq!(figure(&mut session, "farside_recovered_damaged_total"), 0);
        }
    }
    println!("{way:?}: {restarts} servers killed, {} versions seen", versions.len());
    assert!(versions.len() as u64 > restarts, "the writers were at work");
}

fn figure(session: &mut Session, name: &str) -> u64 {
    let statistics = session.server_stats().unwrap();
    let figure = statistics.into_iter().find(|figure| figure.name == name);
    figure.expect("it is listed").value.parse().unwrap()
}

/// Only what shares memory must be waited for: queue pairs end with their server.
pub(crate) fn a_restart_waits_for_a_stopped_client_and_for_no_idle_one() {
    let folder = folder();
    let region_dir = folder.path().join("table");
    let server = Process::start_on(Way::Shm, None, &region_dir);
    let mut idle = connect(server.address(), Way::Shm, PATIENT).session().unwrap();
    idle.put("key", "value").unwrap();
    let mut writer = Writer::start(&server, Way::Shm, first_of(1));
    let mut possible = Possible::of(1);
    possible.told(&writer.stop_after(100));
    let address = server.kill();
    let next = thread::spawn({
        let region_dir = region_dir.clone();
        move || Process::start_on(Way::Shm, Some(&address), &region_dir)
    });
    thread::sleep(Duration::from_millis(500));
    assert!(!next.is_finished(), "it does not wait");
    assert_eq!(holders(&region_dir), [writer.pid()]);
    writer.go_on();
    let server = next.join().unwrap();
    possible.told(&writer.kill_after(MORE));
    possible.apply(Told::Indeterminate);
    assert_eq!(idle.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    let mut session = connect(server.address(), Way::Tcp, PATIENT).session().unwrap();
    possible.check(&mut session, &mut HashMap::new(), 0);
}

/// The processes that have the table in `region_dir` mapped, but for servers.
fn holders(region_dir: &Path) -> Vec<u32> {
    let table = region_dir.join("shard-0");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let maps = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    pids.filter(|pid| maps(pid).contains(table.to_str().unwrap())).collect()
}
