//! The progress bar on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::format::{count, latency};
use crate::measure::series::Row;
use crate::run::phase::Kind;

/// A bar on standard error; silent where that is no terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    by_time: bool,
    done: u64,
}

impl Progress {
    /// For a phase of so many operations, or of so much time; whichever is given first.
    #[must_use]
    pub fn new(phase: Kind, operations: Option<u64>, duration: Option<Duration>) -> Self {
        let length = operations.or(duration.map(|time| time.as_secs()));
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        let template = if length.is_some() {
            "{prefix:>4} [{bar:30}] {percent:>3} %  {elapsed}  {msg}"
        } else {
            "{prefix:>4} {spinner}  {elapsed}  {msg}"
        };
        let style = ProgressStyle::with_template(template).expect("a template of this program");
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(phase.to_string());
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self { bar, by_time: operations.is_none(), done: 0 }
    }

    /// A second is complete.
    pub fn second(&mut self, row: &Row) {
        self.done += row.operations;
        let position = if self.by_time { u64::from(row.second) + 1 } else { self.done };
        self.bar.set_position(position);
        let kinds: Vec<String> = row
            .kinds
            .iter()
            .filter_map(|kind| Some(format!("{} p99 {}", kind.operation, latency(kind.p99_ns? as f64))))
            .collect();
        self.bar.set_message(format!("{} ops/s, {}", count(row.operations), kinds.join(", ")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
