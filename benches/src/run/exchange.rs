//! How a worker's figures leave its thread: once a second, without locks or memory from the allocator.

use std::sync::mpsc::{Receiver, Sender, SyncSender};

use super::worker::End;
use crate::measure::interval::Interval;
use crate::target::{Answer, Counts};
use crate::workload::mix::Operation;

/// Length of an interval, nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// What workers tell the collector.
#[derive(Debug)]
pub enum Report {
    /// Figures of an interval that is over.
    Interval {
        /// Which worker.
        thread: usize,
        /// The second since measuring began; none for the warm-up.
        second: Option<u32>,
        /// The figures; to be sent back, cleared, as a spare.
        interval: Box<Interval>,
    },
    /// The worker has ended; it reports nothing more.
    Ended {
        /// Which worker.
        thread: usize,
        /// How.
        end: End,
    },
}

/// A worker's end of the exchange.
#[derive(Debug)]
pub struct Exchange {
    thread: usize,
    outbox: SyncSender<Report>,
    current: Box<Interval>,
    spare: Option<Box<Interval>>,
    returned: Receiver<Box<Interval>>,
    measure_from: u64,
    /// The second that `current` ends with; none while warming up.
    second: Option<u32>,
    /// When that second is over.
    boundary: u64,
}

impl Exchange {
    /// The ends of `threads` workers and of the collector: what workers report, and where to send each one's
    /// intervals back.
    #[must_use]
    pub fn new(
        threads: usize,
        blank: &Interval,
    ) -> (Vec<Self>, Receiver<Report>, Vec<Sender<Box<Interval>>>) {
        // Room for all intervals there are and each worker's last word: sending never waits.
        let (outbox, reports) = std::sync::mpsc::sync_channel(3 * threads);
        let (workers, returns) = (0..threads)
            .map(|thread| {
                let (give_back, returned) = std::sync::mpsc::channel();
                let worker = Self {
                    thread,
                    outbox: outbox.clone(),
                    current: Box::new(blank.clone()),
                    spare: Some(Box::new(blank.clone())),
                    returned,
                    measure_from: 0,
                    second: None,
                    boundary: 0,
                };
                (worker, give_back)
            })
            .unzip();
        (workers, reports, returns)
    }

    /// Sets when the warm-up ends.
    pub fn begin(&mut self, measure_from: u64) {
        (self.measure_from, self.boundary) = (measure_from, measure_from);
    }

    /// Whether operations that end now are measured, and not warm-up.
    #[must_use]
    pub fn measuring(&self) -> bool {
        self.second.is_some()
    }

    /// To be called with the end of each request, before it is noted: closes the interval when its time is over.
    pub fn roll(&mut self, end: u64) {
        if end >= self.boundary {
            self.close(end);
        }
    }

    #[cold]
    fn close(&mut self, end: u64) {
        // Without a spare, as the collector lags, the figures are kept and count for the second now beginning. The
        // first time, when they are warm-up, the spare is always there.
        if let Some(fresh) = self.spare.take().or_else(|| self.returned.try_recv().ok()) {
            self.send(fresh);
        }
        let second = (end - self.measure_from) / SECOND;
        self.second = Some(u32::try_from(second).unwrap_or(u32::MAX));
        self.boundary = self.measure_from + (second + 1) * SECOND;
    }

    fn send(&mut self, fresh: Box<Interval>) {
        let interval = std::mem::replace(&mut self.current, fresh);
        let report = Report::Interval { thread: self.thread, second: self.second, interval };
        // A collector that is gone has no use for it.
        let _ = self.outbox.send(report);
    }

    /// Notes how a request ended that took `service` ns and started `delay` ns late.
    pub fn note(
        &mut self,
        operation: Operation,
        service: u64,
        delay: u64,
        counts: Counts,
        answers: &[Answer],
    ) {
        let stats = self.current.get_mut(operation);
        stats.counts += counts;
        let done_before = stats.done;
        for answer in answers {
            match answer {
                Answer::Done => stats.done += 1,
                Answer::NotFound => stats.not_found += 1,
                Answer::Failed(kind) => stats.failed[*kind as usize] += 1,
            }
        }
        if stats.done - done_before == answers.len() as u64 {
            stats.service.record(service);
            if let Some(response) = &mut stats.response {
                response.record(service + delay);
            }
        }
    }

    /// Notes that scans brought `records`.
    pub fn note_scanned(&mut self, records: u64) {
        self.current.get_mut(Operation::Scan).records += records;
    }

    /// Notes that reads or scans, which `operation` says, returned `mismatched` wrong values.
    pub fn note_mismatched(&mut self, operation: Operation, mismatched: u64) {
        self.current.get_mut(operation).mismatched += mismatched;
    }

    /// Notes that `operations` of the mix have ended.
    pub fn note_ended(&mut self, operations: u64) {
        self.current.operations += operations;
    }

    /// Hands over what is left, and the worker's last word.
    pub fn end(self, end: End) {
        let Self { thread, outbox, current: interval, second, .. } = self;
        let _ = outbox.send(Report::Interval { thread, second, interval });
        let _ = outbox.send(Report::Ended { thread, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::histogram::Latencies;
    use crate::target::ErrorKind;
    use crate::workload::mix::Mix;

    fn pair() -> (Exchange, Receiver<Report>, Sender<Box<Interval>>) {
        let (mut workers, reports, mut returns) = Exchange::new(1, &Interval::new(&Mix::LOAD, true));
        (workers.pop().expect("one worker"), reports, returns.pop().expect("one way back"))
    }

    fn insert(worker: &mut Exchange, end: u64) {
        worker.roll(end);
        worker.note(Operation::Insert, 10, 5, Counts::default(), &[Answer::Done]);
        worker.note_ended(1);
    }

    fn operations(report: Report) -> (Option<u32>, u64) {
        match report {
            Report::Interval { second, interval, .. } => (second, interval.operations),
            Report::Ended { .. } => panic!("the worker has not ended"),
        }
    }

    #[test]
    fn warm_up_and_seconds_are_told_apart() {
        let (mut worker, reports, returns) = pair();
        worker.begin(100);
        insert(&mut worker, 50);
        assert!(!worker.measuring());
        insert(&mut worker, 100);
        assert!(worker.measuring());
        returns.send(Box::new(Interval::new(&Mix::LOAD, true))).expect("the worker lives");
        insert(&mut worker, 100 + 3 * SECOND);
        assert_eq!(operations(reports.recv().expect("the warm-up")), (None, 1));
        assert_eq!(operations(reports.recv().expect("second 0")), (Some(0), 1));
        assert!(reports.try_recv().is_err(), "second 3 is not over");
    }

    #[test]
    fn without_a_spare_nothing_is_lost() {
        let (mut worker, reports, _returns) = pair();
        worker.begin(0);
        for second in 0..4 {
            insert(&mut worker, second * SECOND);
        }
        worker.end(End { at: 4 * SECOND, unissued: 0, problem: None, gave_up: false });
        assert_eq!(operations(reports.recv().expect("an empty warm-up")), (None, 0));
        assert_eq!(operations(reports.recv().expect("all four seconds")), (Some(3), 4));
        assert!(matches!(reports.recv(), Ok(Report::Ended { .. })));
    }

    #[test]
    fn latencies_are_of_successes_only() {
        let (mut worker, ..) = pair();
        let failed = Answer::Failed(ErrorKind::Full);
        worker.note(Operation::Insert, 10, 5, Counts::default(), &[Answer::Done, Answer::Done]);
        worker.note(Operation::Insert, 99, 5, Counts::default(), &[Answer::Done, failed]);
        worker.note(Operation::Insert, 99, 5, Counts::default(), &[Answer::NotFound]);
        let stats = worker.current.get(Operation::Insert).expect("the load inserts");
        assert_eq!((stats.done, stats.not_found, stats.failures()), (3, 1, 1));
        assert_eq!((stats.service.count(), stats.service.max()), (1, 10));
        assert_eq!(stats.response.as_ref().map(Latencies::max), Some(15));
    }
}
