//! A writer that is stopped for so long that the server ends its session, and then goes on.

use crate::server::Process;
use crate::ways::Way;
use crate::writer::{KEYS, Told, Writer, key, spread, update};
use crate::{PATIENT, connect};
use farside::Session;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

const STOPS: u64 = 3;
const UPDATES_MAX: u64 = 300;
/// Updates that a writer makes when it has gone on.
const MORE: u64 = 50;
const LEASE: Duration = Duration::from_secs(2);

/// Of each key the values that it may have.
type Possible = BTreeMap<String, Vec<Option<Vec<u8>>>>;

fn apply(possible: &mut Possible, (key, value): (String, Option<Vec<u8>>), told: Told) {
    let values = possible.get_mut(&key).expect("all keys are there");
    match told {
        Told::Done => *values = vec![value],
        Told::Indeterminate => values.push(value),
        Told::Failed => {}
    }
}

/// Over RDMA: a session that shares memory is not ended while its process lives.
pub(crate) fn a_writer_stopped_past_its_lease_changes_nothing_by_its_old_session() {
    for way in Way::rdma().unwrap_or_default() {
        let server = Process::start_with_lease(way, LEASE);
        let mut observer = connect(server.address(), Way::Tcp, PATIENT).session().unwrap();
        let mut next = 0;
        for stop in 0..STOPS {
            let mut writer = Writer::start(&server, way, next);
            let stopped_at = next + writer.stop_after(spread(stop) % UPDATES_MAX).len() as u64;
            await_end_of_sessions(&mut observer);
            // Twice, so that blocks that were the writer's are others' now.
            let items: Vec<_> = (0..KEYS).map(|number| (key(number), key(number))).collect();
            for _ in 0..2 {
                assert!(observer.put_many(&items).iter().all(Result::is_ok));
            }
            let mut possible: Possible =
                items.iter().map(|(key, value)| (key.clone(), vec![Some(value.clone().into())])).collect();
            writer.go_on();
            let told = writer.kill_after(MORE);
            assert!(told.contains(&Told::Done), "it goes on by a new session");
            // Whatever is said of the update that was under way: it took effect before all these keys were put, or
            // after.
            let under_way = Told::Indeterminate;
            let all = [under_way].into_iter().chain(told[1..].iter().copied()).chain([under_way]);
            next = stopped_at + told.len() as u64 + 1;
            (stopped_at..next).zip(all).for_each(|(number, told)| apply(&mut possible, update(number), told));
            let keys: Vec<_> = possible.keys().collect();
            observer.get_many(&keys, |number, found| {
                let (key, found) = (keys[number], found.unwrap().map(|value| value.to_vec()));
                assert!(possible[key].contains(&found), "{way:?}, stop {stop}, {key}: {found:?}");
            });
        }
    }
}

/// Waits until the server has ended all sessions over RDMA.
fn await_end_of_sessions(observer: &mut Session) {
    let patience = Instant::now() + PATIENT * 6;
    loop {
        let statistics = observer.server_stats().unwrap();
        let sessions =
            statistics.iter().find(|figure| &*figure.name == "farside_sessions{transport=\"verbs\"}");
        if sessions.expect("a figure").value == "0" {
            return;
        }
        assert!(Instant::now() < patience, "a silent session is not ended");
        thread::sleep(Duration::from_millis(20));
    }
}
