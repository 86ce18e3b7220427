//! `farside ping`: how long a round trip to the server's CPU takes.

use super::{CommandError, connect};
use crate::cli::{Cli, Ping};
use crate::output;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a sleep lasts before the signals are looked at again.
const NAP: Duration = Duration::from_millis(20);

#[derive(Serialize, PartialEq, Debug)]
struct Report {
    transport: String,
    pings: usize,
    failed: usize,
    min_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    max_us: f64,
}

pub(crate) fn run(cli: &Cli, ping: &Ping) -> Result<ExitCode, CommandError> {
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGINT, SIGTERM] {
        signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)?;
    }
    let client = connect(cli)?;
    let mut session = client.session()?;
    let mut times = Vec::new();
    let mut failed = 0;
    let mut sent = 0;
    while (ping.count == 0 || sent < ping.count) && signal.load(Ordering::Relaxed) == 0 {
        if sent > 0 && !sleep(ping.interval, &signal) {
            break;
        }
        sent += 1;
        match session.ping() {
            Ok(time) => times.push(time),
            Err(error) => {
                output::note(format_args!("ping {sent}: {error}"));
                failed += 1;
            }
        }
    }
    let report = Report::new(client.active().to_string(), times, failed);
    if cli.json {
        output::json(&report)?;
    } else {
        output::line(report.text())?;
    }
    Ok(match signal.load(Ordering::Relaxed) {
        0 if report.failed == 0 => ExitCode::SUCCESS,
        0 => ExitCode::FAILURE,
        number => ExitCode::from(128 + number as u8),
    })
}

/// Sleeps, and says whether no signal came.
fn sleep(time: Duration, signal: &AtomicUsize) -> bool {
    let until = Instant::now() + time;
    while signal.load(Ordering::Relaxed) == 0 {
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return true,
            left => thread::sleep(left.min(NAP)),
        }
    }
    false
}

impl Report {
    fn new(transport: String, mut times: Vec<Duration>, failed: usize) -> Self {
        times.sort_unstable();
        // The smallest time that at least this share of all does not exceed.
        let share = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        Self {
            transport,
            pings: times.len(),
            failed,
            min_us: share(0),
            p50_us: share(50),
            p90_us: share(90),
            p99_us: share(99),
            max_us: share(100),
        }
    }

    fn text(&self) -> String {
        let Self { transport, pings, failed, min_us, p50_us, p90_us, p99_us, max_us } = self;
        let mut text = format!("transport {transport}\n{pings} pings, {failed} failed");
        if *pings > 0 {
            text += &format!(
                "\nround trip in us: min {min_us:.1}, p50 {p50_us:.1}, p90 {p90_us:.1}, p99 {p99_us:.1}, max \
                 {max_us:.1}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let times = (1..=200).rev().map(Duration::from_micros).collect();
        let report = Report::new("tcp".into(), times, 0);
        let shares = [report.min_us, report.p50_us, report.p90_us, report.p99_us, report.max_us];
        assert_eq!(shares.map(f64::round), [1.0, 100.0, 180.0, 198.0, 200.0]);
    }

    #[test]
    fn no_answer_at_all_prints_no_times() {
        let report = Report::new("tcp".into(), Vec::new(), 3);
        assert_eq!(report.text(), "transport tcp\n0 pings, 3 failed");
    }

    #[test]
    fn a_signal_ends_the_sleep() {
        assert!(sleep(Duration::from_millis(1), &AtomicUsize::new(0)));
        assert!(!sleep(Duration::from_secs(60), &AtomicUsize::new(2)));
    }
}
