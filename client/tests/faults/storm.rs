//! A storm of kills: a process that updates keys one-sidedly is killed in the middle of it, again and again.

use crate::server::Process;
use crate::ways::Way;
use crate::writer::{KEYS, Told, Writer, key, spread, update};
use crate::{PATIENT, connect};
use farside::{AccessPath, ErrorKind, Session};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Enough that some kill hits each kind of update, and the writers' other work.
const KILLS: u64 = 30;
const UPDATES_MAX: u64 = 3_000;

/// In a guest, which is slow.
const KILLS_OVER_RDMA: u64 = 4;
const UPDATES_MAX_OVER_RDMA: u64 = 500;

/// What is not cleared away then stays for good.
const CLEARED_AWAY: Duration = Duration::from_secs(120);

/// What the table must hold.
type Model = BTreeMap<String, Vec<u8>>;

fn apply(model: &mut Model, (key, value): (String, Option<Vec<u8>>)) {
    match value {
        Some(value) => drop(model.insert(key, value)),
        None => drop(model.remove(&key)),
    }
}

pub(crate) fn killed_writers_lose_nothing_and_leave_nothing() {
    for way in Way::one_sided() {
        match way {
            Way::Verbs(_) => kill_writers(way, KILLS_OVER_RDMA, UPDATES_MAX_OVER_RDMA),
            _ => kill_writers(way, KILLS, UPDATES_MAX),
        }
    }
}

fn kill_writers(way: Way, kills: u64, updates_max: u64) {
    let server = Process::start(way);
    let observer = connect(server.address(), Way::Tcp, PATIENT);
    let mut observer = observer.session().unwrap();
    let before = figures(&mut observer);
    let client = connect(server.address(), way, PATIENT);
    if client.active().updates == AccessPath::TwoSided {
        // A writer's death leaves nothing, and the server keeps blocks for the updates that it makes itself.
        return;
    }
    let mut session = client.session().unwrap();
    let (mut model, mut next) = (Model::new(), 0);
    for kill in 0..kills {
        let told = Writer::start(&server, way, next).kill_after(spread(kill) % updates_max);
        assert!(told.iter().all(|told| *told == Told::Done), "{way:?}, kill {kill}: {told:?}");
        let acknowledged = told.len() as u64;
        (next..next + acknowledged).for_each(|number| apply(&mut model, update(number)));
        // One more was perhaps begun, and perhaps took effect.
        let (begun, attempted) = update(next + acknowledged);
        next += acknowledged + 1;
        for key in (0..KEYS).map(key) {
            let found = session.get(&key).unwrap().map(|value| value.to_vec());
            let is_explained = found.as_ref() == model.get(&key) || key == begun && found == attempted;
            assert!(
                is_explained,
                "{way:?}, kill {kill}, {key}, before update {next}: {:?}",
                found.as_deref().map(summary)
            );
            if key == begun {
                // It can be used again at once, whatever was under way.
                session.put(&key, &key).unwrap();
                model.insert(key.clone(), key.into_bytes());
            }
        }
    }
    println!("{way:?}: {kills} kills at {next} updates");
    assert!(next > kills * 100, "writers were killed at their work");
    for key in (0..KEYS).map(key) {
        session.put(&key, "each can be used again").unwrap();
        assert!(session.delete(&key).unwrap());
    }
    drop((session, client));
    let patience = Instant::now() + CLEARED_AWAY;
    loop {
        have_it_swept(server.address(), way);
        let Err(after) = settles(&mut observer, &before) else { return };
        assert!(Instant::now() < patience, "before: {before:?}\nafter:  {after:?}");
    }
}

/// Waits a while until the figures are `expected`; else says what they are.
fn settles(observer: &mut Session, expected: &[Figure]) -> Result<(), Vec<Figure>> {
    let patience = Instant::now() + Duration::from_secs(5);
    loop {
        let figures = figures(observer);
        if figures == expected {
            return Ok(());
        }
        if Instant::now() > patience {
            return Err(figures);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Takes all memory and gives it back: when there is no more to be had, the server soon looks for some that was lost.
fn have_it_swept(address: &str, way: Way) {
    let mut session = connect(address, way, PATIENT).session().unwrap();
    let filler = vec![0; 100_000];
    let keys = (0..).map(|number| format!("filler/{number}"));
    let full = keys.clone().find_map(|key| session.put(key, &filler).err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::Full);
    keys.take_while(|key| session.delete(key).unwrap()).for_each(drop);
}

/// Of a value its update's number, if it is one of the writers', and its length.
fn summary(value: &[u8]) -> (Option<u64>, usize) {
    (value.first_chunk().copied().map(u64::from_le_bytes), value.len())
}

/// Name and value.
type Figure = (String, String);

/// All that a client can leave behind.
fn figures(observer: &mut Session) -> Vec<Figure> {
    let statistics = observer.server_stats().unwrap();
    let names = [
        "farside_keys",
        "farside_bytes_used",
        "farside_bytes_leased",
        "farside_quarantined_bytes",
        "farside_sessions{transport=\"shm\"}",
        "farside_sessions{transport=\"tcp\"}",
        "farside_sessions{transport=\"verbs\"}",
        "farside_sessions_silent",
        "farside_connections",
    ];
    let figures: Vec<_> = (statistics.into_iter())
        .filter(|figure| names.contains(&&*figure.name))
        .map(|figure| (figure.name, figure.value))
        .collect();
    assert_eq!(figures.len(), names.len(), "{figures:?}");
    figures
}
