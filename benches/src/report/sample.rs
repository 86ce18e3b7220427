//! A report with known figures, for the tests of its forms.

use super::*;
use crate::measure::series::RowKind;

fn latencies(from_ns: u64, step_ns: u64) -> Latencies {
    let mut latencies = Latencies::new();
    (0..10_000).for_each(|i| latencies.record(from_ns + i * step_ns));
    latencies
}

fn kind(operation: Operation, from_ns: u64, counts: Counts) -> KindReport {
    KindReport {
        operation,
        done: 10_000,
        not_found: 0,
        failed: BTreeMap::new(),
        mismatched: 0,
        records: 0,
        service: latencies(from_ns, 1),
        response: None,
        counts,
    }
}

fn series(kinds: &[KindReport]) -> Vec<Row> {
    (0..2)
        .map(|second| Row {
            second,
            operations: 5000 * kinds.len() as u64,
            kinds: kinds
                .iter()
                .map(|kind| RowKind {
                    operation: kind.operation,
                    done: 5000,
                    failed: kind.failures(),
                    p50_ns: Some(1000 + u64::from(second)),
                    p99_ns: Some(2000),
                    max_ns: 3000 + u64::from(second),
                })
                .collect(),
        })
        .collect()
}

fn phase(name: Kind, kinds: Vec<KindReport>) -> PhaseReport {
    PhaseReport {
        name,
        started_at_ms: 1_700_000_000_000,
        elapsed_ns: 2_000_000_000,
        operations: 10_000 * kinds.len() as u64,
        throughput: 5_000.0 * kinds.len() as f64,
        series: series(&kinds),
        kinds,
        unissued: 0,
        warm_up_problems: 0,
        gave_up: false,
        interrupted: false,
        reconnects: 0,
        server_replaced: false,
        server_cpu_ns: Some(2_000_000),
        server_upkeep_ns: Some(5_000_000),
        problems: Vec::new(),
    }
}

/// A load and a run of workload A without anything to complain of.
pub(super) fn good() -> Report {
    let insert = Counts {
        round_trips: 30_010,
        reads: 20_000,
        writes: 10_000,
        cas: 20_005,
        bytes: 12_000_000,
        ..Counts::default()
    };
    let read = Counts {
        round_trips: 10_020,
        reads: 10_020,
        bytes: 10_720_000,
        hint_misses: 20,
        ..Counts::default()
    };
    let update = Counts {
        round_trips: 10_000,
        writes: 10_000,
        cas: 10_000,
        bytes: 10_900_000,
        forwards: 10_000,
        upkeep_round_trips: 10_150,
        ..Counts::default()
    };
    Report {
        format: FORMAT,
        version: "0.1.0".to_owned(),
        host: Host {
            name: "bench1".to_owned(),
            cpu: "AMD EPYC 9654 96-Core Processor".to_owned(),
            cores: 2,
            kernel: "Linux 6.1.0".to_owned(),
        },
        store: Description {
            store: "farside".to_owned(),
            version: "0.1.0".to_owned(),
            place: "in this process".to_owned(),
            transport: "shm: one-sided reads and updates".to_owned(),
            device: None,
            authority: Some("coherent".to_owned()),
            counts_fabric: true,
        },
        workload: WorkloadFacts {
            name: "a".to_owned(),
            mix: "50 % read, 50 % update".to_owned(),
            distribution: "zipfian (0.99, scrambled)".to_owned(),
            scans: None,
            records: 10_000,
            keys: "user<hash>".to_owned(),
            values: "1000 B in one value (10 x 100 B)".to_owned(),
            value_bytes: 1000,
            seed: 42,
            verified: false,
        },
        driver: DriverFacts {
            threads: 2,
            batch: 1,
            target: None,
            warm_up_s: 0.0,
            clients: vec![0],
            client_count: 1,
            clock_ns: 9,
        },
        phases: vec![
            phase(Kind::Load, vec![kind(Operation::Insert, 3000, insert)]),
            phase(Kind::Run, vec![kind(Operation::Read, 400, read), kind(Operation::Update, 900, update)]),
        ],
    }
}

/// An open loop against a struggling store, with all that can be complained of.
pub(super) fn bad() -> Report {
    let mut report = good();
    report.workload.verified = true;
    report.driver = DriverFacts {
        threads: 1,
        batch: 8,
        target: Some(100_000),
        warm_up_s: 2.0,
        clients: vec![1],
        client_count: 3,
        clock_ns: 9,
    };
    report.store.device = Some("mlx5_0 port 1".to_owned());
    let phase = &mut report.phases[1];
    for kind in &mut phase.kinds {
        kind.response = Some(latencies(1_000_000, 5000));
    }
    phase.kinds[0].not_found = 3;
    phase.kinds[0].mismatched = 5;
    phase.kinds[1].failed = [(ErrorKind::Full, 7), (ErrorKind::Deadline, 2)].into();
    phase.unissued = 1234;
    phase.warm_up_problems = 1;
    phase.gave_up = true;
    phase.interrupted = true;
    phase.reconnects = 2;
    phase.server_replaced = true;
    phase.problems =
        vec!["READ of user1: the value is older than one this thread has written or read before".into()];
    report
}
