//! The forms of two reports, as they are kept in `golden/`. `FARSIDE_BLESS=1 cargo test -p farside-bench` rewrites
//! them; look at what changed.

use super::merge::{MergeError, merge};
use super::*;
use crate::report::csv::csv;
use crate::report::table::table;
use crate::report::ycsb::ycsb;

fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/golden").join(name);
    if std::env::var_os("FARSIDE_BLESS").is_some() {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("the golden file is there");
    assert_eq!(text, kept, "{name} is not what it was");
}

#[test]
fn tables_are_as_kept_and_narrow() {
    for (name, report) in [("good.txt", sample::good()), ("bad.txt", sample::bad())] {
        let text = table(&report);
        golden(name, &text);
        let figures =
            text.lines().skip_while(|line| !line.contains("p99.99")).take_while(|line| !line.is_empty());
        assert!(figures.clone().count() >= 4 && figures.clone().all(|line| line.chars().count() <= 100));
    }
}

#[test]
fn csv_and_ycsb_are_as_kept() {
    golden("good.csv", &csv(&sample::good()));
    golden("bad.ycsb", &ycsb(&sample::bad()));
}

#[test]
fn json_reads_back() {
    for report in [sample::good(), sample::bad()] {
        let text = report.to_json();
        let read: Report = serde_json::from_str(&text).expect("our own JSON");
        assert_eq!(read, report);
        let value: serde_json::Value = serde_json::from_str(&text).expect("our own JSON");
        assert_eq!(value["phases"][1]["kinds"][0]["service"]["p50"], 5399);
        assert_eq!(value["phases"][0]["kinds"][0]["per_operation"]["round_trips"], 3.001);
        assert_eq!(value["succeeded"], report.succeeded());
    }
}

#[test]
fn only_a_flawless_report_succeeds() {
    assert!(sample::good().succeeded());
    let flaws: [fn(&mut PhaseReport); 5] = [
        |phase| phase.warm_up_problems = 1,
        |phase| phase.gave_up = true,
        |phase| phase.kinds[0].mismatched = 1,
        |phase| (phase.kinds[0].done, phase.kinds[0].not_found) = (0, 10_000),
        |phase| phase.kinds[0].failed = [(ErrorKind::Full, 1)].into(),
    ];
    for flaw in flaws {
        let mut report = sample::good();
        flaw(&mut report.phases[1]);
        assert!(!report.succeeded());
    }
    let mut report = sample::good();
    report.phases[1].kinds[0].not_found = 1;
    assert!(report.succeeded(), "not found is not an error");
    assert!(table(&report).contains("run: 1 of 10,001 reads found nothing: was the store loaded with"));
}

#[test]
fn a_replaced_server_is_told_loudly_and_verifies_nothing() {
    let mut report = sample::good();
    report.phases[1].server_replaced = true;
    assert!(table(&report).contains("run: NOT COMPARABLE: the server was replaced"), "{}", table(&report));
    assert!(report.to_json().contains("\"comparable\": false"));
    assert!(report.succeeded(), "each operation was done");
    report.workload.verified = true;
    assert!(!report.succeeded());
}

#[test]
fn processor_time_is_charged_to_gets_only_where_nothing_else_ran() {
    let mut phase = sample::good().phases.remove(1);
    assert_eq!(phase.server_cpu_per_one_sided_get(), None);
    phase.kinds.truncate(1);
    assert_eq!(phase.server_cpu_per_one_sided_get(), Some(200.0));
    phase.kinds[0].counts.two_sided = 10_000;
    assert_eq!(phase.server_cpu_per_one_sided_get(), None);
}

fn client(index: u64, later_ms: u64) -> Report {
    let mut report = sample::good();
    (report.driver.clients, report.driver.client_count) = (vec![index], 2);
    for phase in &mut report.phases {
        phase.started_at_ms += later_ms;
    }
    report
}

#[test]
fn processes_merge_into_one_run() {
    let (merged, notes) = merge(vec![client(1, 0), client(0, 40)]).expect("two of one run");
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!((merged.driver.threads, &merged.driver.clients), (4, &vec![0, 1]));
    let run = &merged.phases[1];
    assert_eq!((run.operations, run.throughput), (40_000, 20_000.0));
    assert_eq!(
        (run.kinds[0].done, run.kinds[0].service.count(), run.kinds[0].counts.reads),
        (20_000, 20_000, 20_040)
    );
    assert_eq!(run.kinds[0].service.quantile(0.5), 5399);
    let first = &run.series[0];
    assert_eq!(
        (run.series.len(), first.operations, first.kinds[0].p99_ns, first.kinds[0].max_ns),
        (2, 20_000, None, 3000)
    );
}

#[test]
fn seconds_are_aligned_by_the_clock() {
    let (merged, notes) = merge(vec![client(0, 0), client(1, 1100)]).expect("two of one run");
    let operations: Vec<u64> = merged.phases[0].series.iter().map(|row| row.operations).collect();
    assert_eq!(operations, [5000, 10_000, 5000]);
    assert_eq!(notes.len(), 2, "neither phase overlapped enough: {notes:?}");
    assert!(
        notes[0].starts_with("load: the processes ran at the same time for 29 % of the time only"),
        "{notes:?}"
    );
}

#[test]
fn what_does_not_belong_together_is_refused() {
    assert!(matches!(merge(Vec::new()), Err(MergeError::Nothing)));
    assert!(matches!(merge(vec![client(1, 0), client(1, 0)]), Err(MergeError::SameClient(1))));
    let mut other = client(1, 0);
    other.workload.seed = 43;
    let error = merge(vec![client(0, 0), other]).expect_err("another seed");
    assert!(error.to_string().starts_with("the reports are of different runs: the workload is"), "{error}");
    let (_, notes) = merge(vec![client(0, 0)]).expect("one of two");
    assert_eq!(notes, ["only 1 of the run's 2 processes are in these reports"]);
}
