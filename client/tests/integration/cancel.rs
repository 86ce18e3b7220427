//! Futures dropped at any await point leave the table usable and nothing leased.

use crate::ways::Way;
use farside::{AccessPath, Client, PutOptions, Session};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

type Operation = fn(&Client, usize) -> Pin<Box<dyn Future<Output = ()> + '_>>;

/// Each on a key of its own, with values of a size that was not used before: so that one-sided updates have to
/// wait for blocks.
const OPERATIONS: [Operation; 6] = [
    |client, size| Box::pin(async move { drop(client.get(key("get", size)).await) }),
    |client, size| Box::pin(async move { drop(client.put(key("put", size), vec![1; size]).await) }),
    |client, size| {
        Box::pin(async move {
            let options = PutOptions::new().if_absent().ttl(Duration::from_secs(60));
            drop(client.put_with(key("absent", size), vec![2; size], options).await);
        })
    },
    |client, size| Box::pin(async move { drop(client.delete(key("put", size)).await) }),
    |client, size| Box::pin(async move { drop(client.fetch_add(long_key(size), 1).await) }),
    |client, size| {
        Box::pin(async move {
            let items: Vec<_> = (0..5).map(|i| (format!("many/{size}/{i}"), vec![i; size])).collect();
            drop(client.put_many(&items).await);
        })
    },
];

fn key(name: &str, size: usize) -> String {
    format!("{name}/{size}")
}

/// Counters are all of one size: here the key makes the size of the block.
fn long_key(size: usize) -> Vec<u8> {
    vec![7; size.min(4096)]
}

/// Polls `future` at most `polls` times, and tells whether it ended.
fn poll_times(future: impl Future<Output = ()>, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..polls).any(|poll| {
        if poll > 0 {
            thread::sleep(Duration::from_micros(200));
        }
        future.as_mut().poll(&mut context) == Poll::Ready(())
    })
}

/// Sizes that no other poll count and operation has; each step is another size class.
fn sizes(polls: usize, number: usize) -> impl Iterator<Item = usize> {
    (0..6).map(move |step| 40 << step | (polls * OPERATIONS.len() + number))
}

const POLLS: usize = 4;

#[test]
fn a_future_dropped_at_any_poll_leaves_the_table_usable() {
    for way in Way::all() {
        let farside = way.start();
        let client = way.builder().address(&farside.address()).connect_blocking().unwrap();
        let mut dropped = 0;
        for polls in 0..POLLS {
            for (number, operation) in OPERATIONS.iter().enumerate() {
                for size in sizes(polls, number) {
                    dropped += usize::from(!poll_times(operation(&client, size), polls));
                }
            }
        }
        let unpolled = OPERATIONS.len() * sizes(0, 0).count();
        assert!(dropped > unpolled, "{way:?}: {dropped} dropped, {unpolled} of them before their first poll");

        // Whatever the dropped ones did or not, the same client and others can go on.
        for mut session in [client.session().unwrap(), farside.session().unwrap()] {
            for size in (0..POLLS).flat_map(|polls| (0..OPERATIONS.len()).flat_map(move |n| sizes(polls, n)))
            {
                go_on(&mut session, size);
            }
        }
        drop(client);
        if farside.active().updates == AccessPath::OneSided {
            wait_until_nothing_is_leased(&mut farside.session().unwrap());
        }
    }
}

fn go_on(session: &mut Session, size: usize) {
    for name in ["get", "put", "absent"] {
        let old = session.get(key(name, size)).unwrap().map(|value| value.to_vec());
        assert!(old.is_none_or(|old| old.len() == size && old.iter().all(|byte| *byte == old[0])));
        session.put(key(name, size), "new").unwrap();
        assert_eq!(session.get(key(name, size)).unwrap().as_deref(), Some(&b"new"[..]));
        assert!(session.delete(key(name, size)).unwrap());
    }
    let before = session.fetch_add(long_key(size), 1).unwrap();
    assert!(before <= 1 && session.delete(long_key(size)).unwrap());
}

/// Blocks that were on their way when their operation was dropped are given back too.
fn wait_until_nothing_is_leased(session: &mut Session) {
    let patience = Instant::now() + Duration::from_secs(5);
    loop {
        let statistics = session.server_stats().unwrap();
        let leased = statistics.iter().find(|figure| figure.name == "farside_bytes_leased").unwrap();
        if leased.value == "0" {
            return;
        }
        assert!(Instant::now() < patience, "{} bytes are still leased", leased.value);
        thread::sleep(Duration::from_millis(10));
    }
}
