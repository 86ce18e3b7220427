//! The HDR interval log: one histogram for each second and kind of operation, written while the phase runs.
//!
//! `HistogramLogAnalyzer` and `HistogramLogProcessor` read it; values are nanoseconds. Tags are `run.READ`, and
//! `run.READ.response` for the response times of an open loop.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use crate::measure::histogram::Latencies;
use crate::measure::interval::Interval;
use crate::run::phase::Kind;

/// Writes the log of one job to `writer`.
pub struct HdrLog<W: Write> {
    writer: W,
    serializer: V2DeflateSerializer,
    started: SystemTime,
}

impl<W: Write> HdrLog<W> {
    /// Begins the log.
    ///
    /// # Errors
    /// If `writer` fails.
    pub fn begin(mut writer: W, started: SystemTime) -> io::Result<Self> {
        let mut serializer = V2DeflateSerializer::new();
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("[farside-bench: nanoseconds; tags are phase.operation]")
            .with_start_time(started)
            .with_base_time(started)
            .begin_log_with(&mut writer, &mut serializer)?;
        writer.flush()?;
        Ok(Self { writer, serializer, started })
    }

    /// Adds the figures of one second, which began at `from`.
    ///
    /// # Errors
    /// If `writer` fails.
    pub fn second(&mut self, phase: Kind, from: SystemTime, interval: &Interval) -> io::Result<()> {
        let offset = from.duration_since(self.started).unwrap_or_default();
        // The header is written already; this writer adds lines only.
        let mut log =
            IntervalLogWriterBuilder::new().begin_log_with(&mut self.writer, &mut self.serializer)?;
        for (operation, stats) in interval.iter() {
            line(&mut log, &format!("{phase}.{operation}"), offset, &stats.service)?;
            if let Some(response) = &stats.response {
                line(&mut log, &format!("{phase}.{operation}.response"), offset, response)?;
            }
        }
        // Whoever looks at the log of a run, or ends it hard, finds whole seconds.
        self.writer.flush()
    }
}

fn line<W: Write>(
    log: &mut IntervalLogWriter<'_, '_, W, V2DeflateSerializer>,
    tag: &str,
    offset: Duration,
    latencies: &Latencies,
) -> io::Result<()> {
    log.write_histogram(latencies.as_hdr(), offset, Duration::from_secs(1), Tag::new(tag)).map_err(|error| {
        match error {
            IntervalLogWriterError::IoError(error) => error,
            IntervalLogWriterError::SerializeError(error) => io::Error::other(error),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::mix::{Mix, Operation};
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn what_is_logged_is_read_back() {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let mut bytes = Vec::new();
        let mut log = HdrLog::begin(&mut bytes, started).expect("memory takes all");
        let mut interval = Interval::new(&Mix::LOAD, true);
        let stats = interval.get_mut(Operation::Insert);
        stats.service.record(1000);
        stats.response.as_mut().expect("an open loop").record(2000);
        log.second(Kind::Load, started + Duration::from_secs(3), &interval).expect("memory takes all");
        drop(log);

        let mut seen = Vec::new();
        for entry in IntervalLogIterator::new(&bytes) {
            if let LogEntry::Interval(entry) = entry.expect("a line of the log") {
                let encoded = entry.encoded_histogram();
                use base64::Engine;
                let raw = base64::engine::general_purpose::STANDARD.decode(encoded).expect("base64");
                let histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut raw.as_slice()).expect("a histogram");
                let tag = entry.tag().expect("every line is tagged").as_str().to_owned();
                seen.push((tag, entry.start_timestamp().as_secs(), histogram.max()));
            }
        }
        assert_eq!(seen, [("load.INSERT".to_owned(), 3, 1000), ("load.INSERT.response".to_owned(), 3, 2000)]);
    }
}
