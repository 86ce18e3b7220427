//! The report as a page with plots: one file, no scripts, nothing loaded from elsewhere.

use super::format::{count, latency};
use super::svg::{Line, Scale, chart};
use super::table::table;
use super::{PhaseReport, Report};
use crate::measure::histogram::Latencies;
use crate::measure::series::{Row, RowKind};
use crate::workload::mix::Operation;

const STYLE: &str = "
:root { color-scheme: light dark; --grid: #8883; --text: #555; }
@media (prefers-color-scheme: dark) { :root { --text: #bbb; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { font-size: 12.5px; line-height: 1.45; overflow-x: auto; }
h2 { margin: 2rem 0 0; font-size: 1.1rem; }
svg { width: 100%; height: auto; }
svg text { font-size: 11px; fill: var(--text); }
.grid { stroke: var(--grid); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.legend span { margin-right: 1.2rem; }
.legend i { display: inline-block; width: 1.4rem; border-top: 3px solid; margin-right: .4rem; vertical-align: middle; }
.legend i.dashed { border-top-style: dashed; }
";

/// The shares that the percentile plot shows: its axis counts nines, -log10(1 - share).
const SHARES: [(f64, &str); 6] = [
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
];

/// Points of a percentile line.
const STEPS: u32 = 120;

/// The whole page.
#[must_use]
pub fn html(report: &Report) -> String {
    let title = escape(&format!("farside-bench: {}, workload {}", report.store.store, report.workload.name));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<pre>{}</pre>\n",
        escape(&table(report))
    );
    for phase in &report.phases {
        let name = phase.name;
        let seconds = seconds(phase);
        section(&mut page, &format!("{name}: operations a second"), &throughput(phase), |lines| {
            chart(lines, &seconds, Scale::Linear, |value| count(value as u64))
        });
        section(&mut page, &format!("{name}: p99 of each second"), &tail(phase), |lines| {
            chart(lines, &seconds, Scale::Logarithmic, latency)
        });
        let shares: Vec<(f64, String)> = SHARES.map(|(share, label)| (nines(share), label.to_owned())).into();
        section(&mut page, &format!("{name}: latency by percentile"), &percentiles(phase), |lines| {
            chart(lines, &shares, Scale::Logarithmic, latency)
        });
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn section(page: &mut String, title: &str, lines: &[Line], draw: impl Fn(&[Line]) -> String) {
    let svg = draw(lines);
    if svg.is_empty() {
        return;
    }
    let legend: String = lines
        .iter()
        .map(|line| {
            let class = if line.dashed { " class=\"dashed\"" } else { "" };
            format!("<span><i{class} style=\"color: {}\"></i>{}</span>", line.color, escape(&line.name))
        })
        .collect();
    page.push_str(&format!("<h2>{title}</h2>\n<p class=\"legend\">{legend}</p>\n{svg}"));
}

/// The seconds that were measured in full: the rest of one would look like a slump. All, if none was.
fn whole_seconds(phase: &PhaseReport) -> &[Row] {
    let whole =
        phase.series.iter().take_while(|row| u64::from(row.second + 1) * 1_000_000_000 <= phase.elapsed_ns);
    match whole.count() {
        0 => &phase.series,
        whole => &phase.series[..whole],
    }
}

/// Up to eleven marks over the seconds of the phase.
fn seconds(phase: &PhaseReport) -> Vec<(f64, String)> {
    let last = whole_seconds(phase).last().map_or(1, |row| row.second + 1);
    let step = last.div_ceil(10).max(1);
    let mut marks: Vec<u32> = (0..last).step_by(step as usize).collect();
    marks.push(last);
    marks.into_iter().map(|second| (f64::from(second), format!("{second} s"))).collect()
}

/// A line for each kind, through the middle of each second.
fn over_time(phase: &PhaseReport, value: impl Fn(&RowKind) -> Option<f64>) -> Vec<Line> {
    phase
        .kinds
        .iter()
        .map(|kind| {
            let points = whole_seconds(phase).iter().filter_map(|row| {
                let of_kind = row.kinds.iter().find(|row| row.operation == kind.operation)?;
                Some((f64::from(row.second) + 0.5, value(of_kind)?))
            });
            line(kind.operation, "", false, points.collect())
        })
        .collect()
}

fn throughput(phase: &PhaseReport) -> Vec<Line> {
    over_time(phase, |row| Some(row.done as f64))
}

fn tail(phase: &PhaseReport) -> Vec<Line> {
    over_time(phase, |row| row.p99_ns.filter(|_| row.done > 0).map(|ns| ns as f64))
}

fn percentiles(phase: &PhaseReport) -> Vec<Line> {
    let (from, to) = (nines(SHARES[0].0), nines(SHARES[SHARES.len() - 1].0));
    let points = |latencies: &Latencies| -> Vec<(f64, f64)> {
        // No percentile is shown that fewer than one measurement lies above.
        let most = nines(1.0 - 1.0 / latencies.count().max(1) as f64);
        (0..=STEPS)
            .map(|step| from + (to - from) * f64::from(step) / f64::from(STEPS))
            .filter(|&place| place <= most)
            .map(|place| (place, latencies.quantile(1.0 - 10_f64.powf(-place)) as f64))
            .collect()
    };
    let mut lines = Vec::new();
    for kind in &phase.kinds {
        match &kind.response {
            None => lines.push(line(kind.operation, "", false, points(&kind.service))),
            Some(response) => {
                lines.push(line(kind.operation, " service", false, points(&kind.service)));
                lines.push(line(kind.operation, " response", true, points(response)));
            }
        }
    }
    lines
}

fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

fn line(operation: Operation, suffix: &str, dashed: bool, points: Vec<(f64, f64)>) -> Line {
    let color = match operation {
        Operation::Read => "#2a78d6",
        Operation::Update => "#eb6834",
        Operation::Insert => "#1baf7a",
        Operation::ReadModifyWrite => "#8a63d2",
        Operation::Scan => "#c8a415",
    };
    Line { name: operation.to_string() + suffix, color, dashed, points }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn each_phase_has_its_three_plots() {
        let page = html(&sample::good());
        assert_eq!(page.matches("<svg").count(), 6);
        assert!(page.contains("<h2>run: latency by percentile</h2>") && page.ends_with("</html>\n"));
        assert!(!page.contains("user<hash>") && page.contains("user&lt;hash&gt;"));
    }

    #[test]
    fn response_times_are_dashed() {
        let lines = percentiles(&sample::bad().phases[1]);
        let names: Vec<(&str, bool)> = lines.iter().map(|line| (line.name.as_str(), line.dashed)).collect();
        let expected = [
            ("READ service", false),
            ("READ response", true),
            ("UPDATE service", false),
            ("UPDATE response", true),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn percentiles_end_where_the_measurements_do() {
        let lines = percentiles(&sample::good().phases[1]);
        let (place, highest) = *lines[0].points.last().expect("points");
        assert!((3.9..=4.0).contains(&place), "10,000 measurements tell four nines, not {place}");
        assert!(highest >= 10_000.0);
    }

    #[test]
    fn the_rest_of_a_second_is_not_drawn() {
        let mut phase = sample::good().phases.remove(1);
        assert_eq!(whole_seconds(&phase).len(), 2);
        phase.elapsed_ns -= 1;
        assert_eq!(whole_seconds(&phase).len(), 1);
        phase.elapsed_ns = 5;
        assert_eq!(whole_seconds(&phase).len(), 2, "a short phase has nothing else to show");
    }

    #[test]
    fn merged_seconds_have_no_tail() {
        let mut phase = sample::good().phases.remove(1);
        phase.series.iter_mut().flat_map(|row| &mut row.kinds).for_each(|kind| kind.p99_ns = None);
        assert!(tail(&phase).iter().all(|line| line.points.is_empty()));
    }
}
