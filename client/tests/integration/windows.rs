//! Memory windows, by which a server bounds what its clients WRITE over RDMA.

use crate::rdma;
use crate::ways::{Way, config};
use farside::Embedded;
use farside::server::Config;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A server with windows; none if the device has no windows, which it says.
fn start(address: IpAddr) -> Option<Embedded> {
    let config = Config { rdma: Some((address, 0).into()), memory_windows: true, ..config() };
    let started = Embedded::start(config, Way::Verbs(address).builder());
    started
        .inspect_err(|error| {
            assert!(error.to_string().contains("has no memory windows of type 2"), "{error}");
            eprintln!("SKIPPED over {address}: {error}");
        })
        .ok()
}

fn windows(farside: &Embedded) -> u64 {
    let statistics = pollster::block_on(farside.server_stats()).unwrap();
    let windows = statistics.iter().find(|figure| figure.name == "farside_memory_windows").unwrap();
    windows.value.parse().unwrap()
}

#[test]
fn blocks_have_windows_for_as_long_as_a_session_leases_them() {
    for farside in rdma::devices().into_iter().flatten().filter_map(start) {
        assert_eq!(windows(&farside), 0);
        let mut sessions = [farside.session().unwrap(), farside.session().unwrap()];
        for round in 0..20u32 {
            for key in 0..50u32 {
                for session in &mut sessions {
                    session.put(key.to_le_bytes(), round.to_le_bytes()).unwrap();
                    let value = session.get(key.to_le_bytes()).unwrap();
                    assert_eq!(value.as_deref(), Some(&round.to_le_bytes()[..]));
                }
            }
        }
        let held = windows(&farside);
        assert!((1..2000).contains(&held), "{held} windows after 2000 PUTs");
        drop(sessions);
        let began = Instant::now();
        while windows(&farside) > 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "{} windows are left", windows(&farside));
        }
    }
}
