//! Two ways to change what others change too: counters, and compare-exchange by version.
//!
//! ```text
//! cargo run -p farside --example counters_and_cas
//! ```

use farside::{Client, Put, Session};
use std::thread;

const THREADS: u64 = 4;
const TIMES: u64 = 250;

fn main() -> farside::Result<()> {
    let farside = farside::embedded()?;
    farside.session()?.put("balance", 0u64.to_le_bytes())?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| work(&farside))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;

    let mut session = farside.session()?;
    let visits = session.get("visits")?.expect("counted").counter();
    let balance = read(&mut session)?.0;
    println!("{} visits, balance {balance}", visits.expect("a counter"));
    assert_eq!(visits, Some((THREADS * TIMES) as i64));
    assert_eq!(balance, THREADS * TIMES * 10);
    Ok(())
}

fn work(client: &Client) -> farside::Result<()> {
    let mut session = client.session()?;
    for _ in 0..TIMES {
        session.fetch_add("visits", 1)?;
        deposit(&mut session, 10)?;
    }
    Ok(())
}

/// Reads, computes, and stores only if nobody was faster; else begins anew.
fn deposit(session: &mut Session, amount: u64) -> farside::Result<()> {
    loop {
        let (balance, version) = read(session)?;
        let new = (balance + amount).to_le_bytes();
        if let Put::Stored { .. } = session.compare_exchange("balance", version, new)? {
            return Ok(());
        }
    }
}

fn read(session: &mut Session) -> farside::Result<(u64, farside::Version)> {
    let value = session.get("balance")?.expect("it is never deleted");
    let bytes = value[..].try_into().expect("always eight bytes");
    Ok((u64::from_le_bytes(bytes), value.version()))
}
