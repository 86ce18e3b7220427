//! What a thread does that counts nanoseconds: a session, a buffer of its own, and the counts of each operation.
//!
//! ```text
//! cargo run --release -p farside --example session_hot_path
//! ```

use std::time::Instant;

const KEYS: u32 = 10_000;
const ROUNDS: u32 = 20;

fn main() -> farside::Result<()> {
    let farside = farside::embedded()?;
    let mut session = farside.session()?;
    for key in 0..KEYS {
        session.put(key.to_le_bytes(), [0x5a; 64])?;
    }

    // A GET of a key that was met just before is one READ: no second look, no allocation, lock or system call.
    session.get(7u32.to_le_bytes())?.expect("stored above");
    session.get(7u32.to_le_bytes())?.expect("stored above");
    let get = session.last_counts().fabric;
    println!("GET: {} round trip, {} READ, {} bytes", get.round_trips, get.reads, get.bytes_read);
    assert_eq!((get.round_trips, get.reads), (1, 1));

    // An UPDATE is one round trip, a WRITE and a compare-and-swap.
    session.put(7u32.to_le_bytes(), [0xa5; 64])?;
    let put = session.last_counts().fabric;
    println!("PUT: {} round trip, {} WRITE, {} CAS", put.round_trips, put.writes, put.cas);
    assert_eq!((put.round_trips, put.writes, put.cas), (1, 1, 1));

    let mut buffer = Vec::with_capacity(64);
    let began = Instant::now();
    for _ in 0..ROUNDS {
        for key in 0..KEYS {
            session.get_into(key.to_le_bytes(), &mut buffer)?.expect("stored above");
        }
    }
    let each = began.elapsed() / (ROUNDS * KEYS);
    println!("{each:?} for each GET of 64 bytes, over {}", session.active());
    Ok(())
}
