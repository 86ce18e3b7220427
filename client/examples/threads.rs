//! A session for each thread, all over one connection, and the figures of what they did.
//!
//! ```text
//! cargo run --release -p farside --example threads
//! ```

use farside::{Client, Operation};
use std::thread;
use std::time::Instant;

const THREADS: usize = 4;
const KEYS: usize = 1000;
const OPERATIONS: usize = 20_000;

fn main() -> farside::Result<()> {
    let farside = farside::embedded()?;
    let began = Instant::now();
    thread::scope(|scope| {
        let client = farside.client();
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || work(client, seed))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let seconds = began.elapsed().as_secs_f64();

    // Sessions add their figures to their client's when they end.
    let stats = farside.stats();
    println!("{:.0} operations/s over {}", (THREADS * OPERATIONS) as f64 / seconds, farside.active());
    for operation in [Operation::Get, Operation::Put] {
        let figures = &stats[operation];
        let trips = figures.counts.fabric.round_trips as f64 / figures.count as f64;
        println!("{}: {} operations, {trips:.2} round trips each", operation.name(), figures.count);
    }
    assert_eq!(stats[Operation::Get].count + stats[Operation::Put].count, (THREADS * OPERATIONS) as u64);
    Ok(())
}

/// Half GET, half PUT, all threads on the same keys.
fn work(client: &Client, seed: usize) -> farside::Result<()> {
    let mut session = client.session()?;
    for i in 0..OPERATIONS {
        let key = format!("key/{}", (i * 7919 + seed * 104_729) % KEYS);
        if i % 2 == 0 {
            session.get(&key)?;
        } else {
            session.put(&key, seed.to_le_bytes())?;
        }
    }
    Ok(())
}
