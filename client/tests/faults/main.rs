//! What clients do when the server is stopped, killed, or comes back. The server is this program started anew,
//! for it has to be another process; hence a main function in place of the usual test harness.

#[path = "../rdma/mod.rs"]
mod rdma;
mod restarts;
mod server;
mod stopped;
mod storm;
mod ways;
mod writer;

use farside::{AccessPath, Client, Error, ErrorKind, Session};
use libtest_mimic::{Arguments, Failed, Trial};
use pollster::block_on;
use server::Process;
use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use ways::Way;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    server::perhaps_run(&arguments);
    writer::perhaps_run(&arguments);
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    let trials = vec![
        trial("reads_go_on_while_the_server_is_stopped", reads_go_on_while_the_server_is_stopped),
        trial("what_needs_a_stopped_server_ends_by_its_deadline", what_needs_a_stopped_server_ends),
        trial("a_batch_waits_for_a_stopped_server_as_one", a_batch_waits_for_a_stopped_server_as_one),
        trial("the_end_of_a_client_is_bounded", the_end_of_a_client_is_bounded),
        trial("a_client_survives_its_server", a_client_survives_its_server),
        trial("a_server_that_is_gone_is_unavailable", a_server_that_is_gone_is_unavailable),
        trial(
            "killed_writers_lose_nothing_and_leave_nothing",
            storm::killed_writers_lose_nothing_and_leave_nothing,
        ),
        trial(
            "a_table_in_a_folder_outlives_servers_that_are_killed",
            restarts::a_table_in_a_folder_outlives_servers_that_are_killed,
        ),
        trial(
            "a_restart_waits_for_a_stopped_client_and_for_no_idle_one",
            restarts::a_restart_waits_for_a_stopped_client_and_for_no_idle_one,
        ),
        trial(
            "a_writer_stopped_past_its_lease_changes_nothing_by_its_old_session",
            stopped::a_writer_stopped_past_its_lease_changes_nothing_by_its_old_session,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn connect(address: &str, way: Way, deadline: Duration) -> Client {
    let builder = Client::builder().address(address).transport(way.transport()).deadline(deadline);
    builder.connect_blocking().unwrap()
}

const HASTY: Duration = Duration::from_millis(300);
/// By then a client knows that its server was killed.
const NOTICED: Duration = Duration::from_millis(100);
const SHORT_LEASE: Duration = Duration::from_secs(1);
const PATIENT: Duration = Duration::from_secs(10);

/// How long `operation` took.
fn timed<T>(operation: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (operation(), began.elapsed())
}

fn reads_go_on_while_the_server_is_stopped() {
    for way in Way::one_sided() {
        let server = Process::start_with_lease(way, SHORT_LEASE);
        let client = connect(server.address(), way, PATIENT);
        let mut session = client.session().unwrap();
        for key in 0..100u32 {
            session.put(key.to_le_bytes(), [7; 100]).unwrap();
            // A queue pair that connects needs the server.
            assert!(block_on(client.get(key.to_le_bytes())).unwrap().is_some());
        }
        server.stop();
        // Reads do not depend on the session's lease.
        let stopped = Instant::now();
        while stopped.elapsed() < SHORT_LEASE * 2 {
            assert_eq!(session.get(7u32.to_le_bytes()).unwrap().as_deref(), Some(&[7; 100][..]), "{way:?}");
        }
        for key in 0..100u32 {
            assert_eq!(session.get(key.to_le_bytes()).unwrap().as_deref(), Some(&[7; 100][..]), "{way:?}");
            assert!(block_on(client.get(key.to_le_bytes())).unwrap().is_some());
        }
        assert_eq!(session.get("absent").unwrap(), None);
        if way == Way::Shm {
            // Updates too, for as long as there are blocks.
            session.put(7u32.to_le_bytes(), [8; 100]).unwrap();
            assert_eq!(session.get(7u32.to_le_bytes()).unwrap().as_deref(), Some(&[8; 100][..]));
        }
        server.go_on();
        for key in 0..100u32 {
            session.put(key.to_le_bytes(), [9; 100]).unwrap();
        }
    }
}

fn what_needs_a_stopped_server_ends() {
    for way in Way::one_sided() {
        let server = Process::start(way);
        let tcp = connect(server.address(), Way::Tcp, HASTY);
        let near = connect(server.address(), way, HASTY);
        let mut near_session = near.session().unwrap();
        block_on(tcp.with_deadline(PATIENT).put("k", "v")).unwrap();
        server.stop();
        let mut session = tcp.session().unwrap();
        // No block was ever leased, so none can be had: and nothing can have happened.
        let no_block = match near.active().updates {
            AccessPath::OneSided => ErrorKind::Deadline,
            AccessPath::TwoSided => ErrorKind::Indeterminate,
        };
        for (kind, (outcome, time)) in [
            (ErrorKind::Deadline, timed(|| session.get("k").map(drop))),
            (ErrorKind::Indeterminate, timed(|| session.put("k", "w").map(drop))),
            (ErrorKind::Indeterminate, timed(|| session.fetch_add("n", 1).map(drop))),
            (ErrorKind::Deadline, timed(|| session.ping().map(drop))),
            (ErrorKind::Deadline, timed(|| block_on(tcp.get("k")).map(drop))),
            (no_block, timed(|| near_session.put("k", "w").map(drop))),
        ] {
            assert_eq!(outcome.unwrap_err().kind(), kind, "{way:?}");
            assert!(time >= HASTY - HASTY / 10 && time < HASTY * 5, "{way:?}: {time:?}");
        }
        // Its memory is there still, or a queue pair to it would have to be connected first.
        let (outcome, time) = timed(|| block_on(near.put("k", "w")));
        let kind = outcome.unwrap_err().kind();
        assert!(kind == ErrorKind::Deadline || way != Way::Shm && kind == ErrorKind::Unavailable, "{kind:?}");
        assert!(time < HASTY * 5, "{way:?}: {time:?}");
        server.go_on();
        // Of another key: a PUT of "k" that was indeterminate may yet be done.
        let patient = near.with_deadline(PATIENT);
        block_on(patient.put("other", "x")).unwrap();
        assert_eq!(block_on(patient.get("other")).unwrap().as_deref(), Some(&b"x"[..]));
    }
}

fn a_batch_waits_for_a_stopped_server_as_one() {
    const ITEMS: u32 = 20;
    let server = Process::start(Way::Tcp);
    let client = connect(server.address(), Way::Tcp, PATIENT);
    let mut session = client.session().unwrap();
    let items: Vec<_> = (0..ITEMS).map(|key| (key.to_le_bytes(), [7; 100])).collect();
    let keys: Vec<_> = items.iter().map(|(key, _)| key).collect();
    let deadlines = |session: &mut Session| {
        let stored = session.put_many(&items);
        let mut late = stored.iter().filter(|put| matches!(put, Err(error) if is_late(error))).count();
        session
            .get_many(&keys, |_, value| late += usize::from(matches!(&value, Err(error) if is_late(error))));
        late
    };
    assert_eq!(deadlines(&mut session), 0);
    server.stop();
    session.set_deadline(HASTY);
    let (late, took) = timed(|| deadlines(&mut session));
    assert_eq!(late, 2 * items.len(), "each item has its own answer");
    assert!(took < HASTY * ITEMS / 2, "two batches of {ITEMS} waited {took:?} in all, each item {HASTY:?}");
    server.go_on();
    session.set_deadline(PATIENT);
    assert_eq!(deadlines(&mut session), 0);
}

fn the_end_of_a_client_is_bounded() {
    for way in Way::all() {
        let server = Process::start(way);
        let client = connect(server.address(), way, HASTY);
        let mut session = client.with_deadline(PATIENT).session().unwrap();
        block_on(client.with_deadline(PATIENT).put("k", "v")).unwrap();
        for key in 0..100u32 {
            session.put(key.to_le_bytes(), "v").unwrap();
        }
        session.set_deadline(HASTY);
        server.stop();
        let ((), time) = timed(|| {
            drop(session);
            drop(client);
        });
        server.go_on();
        assert!(time < Duration::from_secs(2), "{way:?}: {time:?}");
    }
}

fn a_client_survives_its_server() {
    for way in Way::all() {
        let server = Process::start(way);
        let client = connect(server.address(), way, PATIENT);
        let mut session = client.session().unwrap();
        session.put("k", "old").unwrap();
        block_on(client.put("c", "old")).unwrap();
        let address = server.kill();
        std::thread::sleep(NOTICED);
        // One that nobody polls keeps no other waiting.
        let mut idle = pin!(client.get("c"));
        assert!(idle.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Operations wait for a server that comes back before their deadline.
        let next = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            Process::start_at(way, &address)
        });
        assert_eq!(session.get("k").unwrap(), None, "{way:?}: another server, another table");
        let _server = next.join().unwrap();
        session.put("k", "new").unwrap();
        assert_eq!(session.get("k").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(block_on(idle).unwrap(), None);
        block_on(client.put("c", "new")).unwrap();
        assert_eq!(block_on(client.get("c")).unwrap().as_deref(), Some(&b"new"[..]));
        block_on(client.ping()).unwrap();
    }
}

fn a_server_that_is_gone_is_unavailable() {
    for way in Way::all() {
        let server = Process::start(way);
        let client = connect(server.address(), way, HASTY);
        let mut session = client.with_deadline(PATIENT).session().unwrap();
        session.put("k", "v").unwrap();
        session.set_deadline(HASTY);
        block_on(client.with_deadline(PATIENT).put("k", "v")).unwrap();
        server.kill();
        std::thread::sleep(NOTICED);
        for (outcome, time) in [
            timed(|| session.get("k").map(drop)),
            timed(|| session.put("k", "w").map(drop)),
            timed(|| session.ping().map(drop)),
            timed(|| block_on(client.get("k")).map(drop)),
            timed(|| block_on(client.delete("k")).map(drop)),
        ] {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable, "{way:?}");
            assert!(time < HASTY * 5, "{way:?}: {time:?}");
        }
    }
}

fn is_late(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Deadline | ErrorKind::Indeterminate)
}
