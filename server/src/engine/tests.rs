use super::*;
use crate::config::{Config, Socket};
use crate::server::Server;

#[test]
fn an_operation_allocates_nothing() {
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        socket: Socket::Off,
        memory: Some(8 << 20),
        threads: Some(1),
        ..Config::default()
    };
    let running = Server::start(config).unwrap();
    let mut engine = Engine::new(running.state());
    let (mut out, keys) = (Vec::new(), (0..100).map(|i| format!("key-{i}")).collect::<Vec<_>>());
    let mut round = |engine: &mut Engine| {
        for key in &keys {
            let key = Key::new(key.as_bytes()).unwrap();
            let record = Record { key, value: &[7; 100], expires_at_ms: 0, flags: 0 };
            out.clear();
            assert!(matches!(engine.put(&record, Condition::Always, 1, &mut out), Answer::Done(Status::Ok)));
            assert!(matches!(engine.get(key, 2, &mut out), Answer::Done(Status::Ok)));
            // As a connection does once its answers are written.
            engine.settle_due();
        }
    };
    // The stock is filled a few times, and buffers grow to their sizes.
    for _ in 0..20 {
        round(&mut engine);
    }
    let counted = allocation_counter::measure(|| {
        for _ in 0..20 {
            round(&mut engine);
        }
    });
    let per_batch = counted.count_total as usize / (20 * keys.len() / STOCK_BLOCKS);
    // Memory is leased, and given back, in batches: the books on that may allocate, the operations do not.
    assert!(per_batch <= 4, "{} allocations for 2000 puts and 2000 gets", counted.count_total);
}
