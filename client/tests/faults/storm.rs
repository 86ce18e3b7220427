//! A storm of kills: a process that updates keys over shared memory is killed in the middle of it, again and again.

use crate::server::Process;
use crate::{PATIENT, connect};
use farside::{ErrorKind, Session, TransportChoice};
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Before the address of a server that this program is to write to, and the number of its first update.
const WRITE: &str = "--write";

const KILLS: u64 = 30;
/// So many that about half of what a writer leaves outlives the next one, and its memory the quarantine.
const KEYS: u64 = 2_000;

/// Enough that some kill hits each kind of update, and the writers' other work.
const UPDATES_MAX: u64 = 3_000;

/// What is not cleared away then stays for good.
const CLEARED_AWAY: Duration = Duration::from_secs(120);

/// Writes until it is killed, if this program was started for that.
pub(crate) fn perhaps_run(arguments: &[String]) {
    let [_, write, address, first] = arguments else { return };
    if write != WRITE {
        return;
    }
    let mut session = connect(address, TransportChoice::Shm, PATIENT).session().unwrap();
    for number in first.parse().unwrap().. {
        match update(number) {
            (key, Some(value)) => drop(session.put(key, value).unwrap()),
            (key, None) => drop(session.delete(key).unwrap()),
        }
        // The end of a line sends it off: the update is acknowledged.
        println!();
    }
}

fn key(number: u64) -> String {
    format!("key/{number}")
}

/// The update with this number: a key, and the value that is put there, or `None` if it is deleted.
fn update(number: u64) -> (String, Option<Vec<u8>>) {
    // Parts that say nothing about each other.
    let random = spread(number);
    let (at, kind, len) = (random % KEYS, random / KEYS % 100, random / KEYS / 100 % 1_000);
    let len = if kind == 99 { 20_000 } else { 8 + len as usize };
    let value = || number.to_le_bytes().into_iter().cycle().take(len).collect();
    (key(at), (kind >= 20).then(value))
}

/// Numbers that look random, of numbers in sequence (the finalizer of SplitMix64).
fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A process that carries out one update after the other.
struct Writer(Child);

impl Writer {
    fn start(server: &Process, first: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([WRITE, server.address(), &first.to_string()]).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Kills it some time after it acknowledged so many updates. Returns how many it has acknowledged in all.
    fn kill_after(mut self, acknowledged: u64) -> u64 {
        let mut output = self.0.stdout.take().unwrap();
        output.read_exact(&mut vec![0; acknowledged as usize]).expect("it writes until it is killed");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        acknowledged + output.read_to_end(&mut Vec::new()).unwrap() as u64
    }
}

/// Also of a test that fails.
impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the table must hold.
type Model = BTreeMap<String, Vec<u8>>;

fn apply(model: &mut Model, (key, value): (String, Option<Vec<u8>>)) {
    match value {
        Some(value) => drop(model.insert(key, value)),
        None => drop(model.remove(&key)),
    }
}

pub(crate) fn killed_writers_lose_nothing_and_leave_nothing() {
    let server = Process::start();
    let observer = connect(server.address(), TransportChoice::Tcp, PATIENT);
    let mut observer = observer.session().unwrap();
    let before = figures(&mut observer);
    let client = connect(server.address(), TransportChoice::Shm, PATIENT);
    let mut session = client.session().unwrap();
    let (mut model, mut next) = (Model::new(), 0);
    for kill in 0..KILLS {
        let acknowledged = Writer::start(&server, next).kill_after(spread(kill) % UPDATES_MAX);
        (next..next + acknowledged).for_each(|number| apply(&mut model, update(number)));
        // One more was perhaps begun, and perhaps took effect.
        let (begun, attempted) = update(next + acknowledged);
        next += acknowledged + 1;
        for key in (0..KEYS).map(key) {
            let found = session.get(&key).unwrap().map(|value| value.to_vec());
            let is_explained = found.as_ref() == model.get(&key) || key == begun && found == attempted;
            assert!(
                is_explained,
                "kill {kill}, {key}, before update {next}: {:?}",
                found.as_deref().map(summary)
            );
            if key == begun {
                // It can be used again at once, whatever was under way.
                session.put(&key, &key).unwrap();
                model.insert(key.clone(), key.into_bytes());
            }
        }
    }
    assert!(next > KILLS * 100, "writers were killed at their work");
    for key in (0..KEYS).map(key) {
        session.put(&key, "each can be used again").unwrap();
        assert!(session.delete(&key).unwrap());
    }
    drop((session, client));
    let patience = Instant::now() + CLEARED_AWAY;
    loop {
        have_it_swept(server.address());
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
fn have_it_swept(address: &str) {
    let mut session = connect(address, TransportChoice::Shm, PATIENT).session().unwrap();
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
