//! As many connections as the processes of a busy host have.

use crate::ways::Way;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Barrier;
use std::thread;

const THREADS: usize = 8;
/// Each is a client's own, and each client is asked for one session.
const CONNECTIONS: usize = 64;
const ROUNDS: u64 = 5;
/// So far is it from one that a connection looks at to the next.
const STRIDE: usize = 7;

fn key(connection: usize) -> [u8; 8] {
    (connection as u64).to_le_bytes()
}

/// All clients and their server are one process here, with more descriptors than one usually may have.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

#[test]
fn sixty_four_connections_see_each_others_puts_and_never_an_older_one() {
    raise_descriptor_limit();
    for way in Way::all() {
        let farside = way.start();
        let address = farside.address();
        let connected = Barrier::new(THREADS);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (address, connected) = (&address, &connected);
                scope.spawn(move || {
                    let connect = |number| {
                        let client = way.builder().address(address).connect_blocking().unwrap();
                        (number, client.session().unwrap(), [0; CONNECTIONS])
                    };
                    let mut sessions: Vec<_> = (thread..CONNECTIONS).step_by(THREADS).map(connect).collect();
                    connected.wait();
                    for round in 1..=ROUNDS {
                        for (own, session, seen) in &mut sessions {
                            session.put(key(*own), round.to_le_bytes()).unwrap();
                            seen[*own] = round;
                            for (other, seen) in
                                seen.iter_mut().enumerate().skip(*own % STRIDE).step_by(STRIDE)
                            {
                                let found = session.get(key(other)).unwrap();
                                let found = found.map_or(0, |value| {
                                    u64::from_le_bytes(value[..].try_into().expect("a whole value"))
                                });
                                assert!(
                                    (*seen..=ROUNDS).contains(&found),
                                    "{way:?}, {own} of {other}: {found} after {seen}"
                                );
                                *seen = found;
                            }
                        }
                    }
                });
            }
        });
    }
}
