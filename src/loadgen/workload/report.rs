//! What a drive has found.

use core::fmt::Write as _;
use core::time::Duration;

use hdrhistogram::Histogram;

/// What became of the messages of a workload, or has so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DriveReport {
    /// Each kind of streams, in the order of the workload.
    pub kinds: Vec<KindReport>,
    /// For how long messages were sent; the wait for the last answers is not part of it.
    pub sending: Duration,
    /// How it ended.
    pub ended: Ended,
    /// Messages one by one, in the order of their answers: as many as were asked for.
    pub rows: Vec<Row>,
    /// How many there were beyond these.
    pub rows_left_out: u64,
}

/// How a drive ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It has not.
    Not,
    /// Its time was over, or all its messages were sent.
    Done,
    /// It was stopped.
    Stopped,
    /// The connection failed, or what came back was not what was sent.
    Lost(String),
}

/// What a latency ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Latency {
    /// The same bytes have come back.
    Replies,
    /// The peer's session has acknowledged the message; seen within 5 ms, and acknowledgements may wait for others for 10 ms.
    Acknowledged,
    /// Nothing: messages are not answered, and their session does not count what is acknowledged. Of these there is only how fast they went.
    Nothing,
}

/// What became of the messages of one kind of streams. Times in histograms are nanoseconds, up to an hour, to three digits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KindReport {
    /// What it is called.
    pub name: String,
    /// How many streams it has.
    pub streams: u32,
    /// Its arrivals, as they are written.
    pub arrivals: String,
    /// Messages a second that were wanted in the mean; `None` of a closed loop.
    pub rate: Option<f64>,
    /// Messages that were to be sent; all that were sent, of a closed loop.
    pub due: u64,
    /// Messages that the streams' queues took.
    pub sent: u64,
    /// Messages that were due and were not sent: there was no room to keep them for sending, or none in the streams' queues until the end. They are in no histogram, which are too good by that.
    pub not_sent: u64,
    /// Messages that were due and wait for room in the streams' queues; none at the end.
    pub queued: u64,
    /// Messages whose latency is known.
    pub answered: u64,
    /// Messages that were sent and were not answered by the end (or yet). They are in no histogram of latencies either.
    pub unanswered: u64,
    /// Bytes of messages sent.
    pub bytes: u64,
    /// What latencies end with.
    pub latency: Latency,
    /// From when messages were to be sent to their answers: what who sends at such times sees, whatever held the message up. In a closed loop the same as `from_sending`.
    pub from_intended: Histogram<u64>,
    /// From when the stream's queue took messages to their answers: what a generator shows that waits while it cannot send.
    pub from_sending: Histogram<u64>,
    /// How late the generator itself was: from when a message was to be sent to when it was given to its stream. It is part of `from_intended`, and not the transport's. Empty for closed loops.
    pub lateness: Histogram<u64>,
}

impl KindReport {
    /// Messages sent a second.
    pub fn reached(&self, sending: Duration) -> f64 {
        self.sent as f64 / sending.as_secs_f64().max(1e-9)
    }
}

/// One message. Times are nanoseconds from the drive's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its kind of streams, by index in the workload.
    pub kind: u32,
    /// Its length, bytes.
    pub len: u32,
    /// When it was to be sent.
    pub intended: u64,
    /// When its stream's queue took it.
    pub sent: u64,
    /// When it was answered.
    pub answered: u64,
}

/// The highest time that histograms tell apart: an hour.
const MAX_NANOS: u64 = 3_600_000_000_000;

/// An empty histogram like those of a [`KindReport`], nanoseconds.
///
/// # Errors
///
/// Its bounds cannot be: never.
pub fn histogram() -> Result<Histogram<u64>, hdrhistogram::CreationError> {
    Histogram::new_with_bounds(1, MAX_NANOS, 3)
}

/// The percentiles of a histogram in the text form of `HdrHistogram` (`.hgrm`), which its plotters read; values are divided by `unit` (1e6 shows nanoseconds as milliseconds).
pub fn percentiles(histogram: &Histogram<u64>, unit: f64) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut total = 0;
    for step in histogram.iter_quantiles(5) {
        total += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        let value = step.value_iterated_to().min(histogram.max()) as f64 / unit;
        let left = if quantile < 1.0 {
            format!("{:>14.2}", 1.0 / (1.0 - quantile))
        } else {
            format!("{:>14}", "Infinity")
        };
        // Writing to a text does not fail.
        let _ = writeln!(text, "{value:>12.3} {quantile:.12} {total:>10} {left}");
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n\
         #[Max     = {:>12.3}, Total count    = {:>12}]\n\
         #[Buckets = {:>12}, SubBuckets     = {:>12}]",
        histogram.mean() / unit,
        histogram.stdev() / unit,
        histogram.max() as f64 / unit,
        histogram.len(),
        histogram.buckets(),
        2 * histogram.distinct_values() / (usize::from(histogram.buckets()) + 1),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_rise_and_end_with_all() {
        let mut histogram = histogram().unwrap();
        (1..=10_000).for_each(|micros| histogram.saturating_record(micros * 1000));
        let text = percentiles(&histogram, 1e6);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .take_while(|line| !line.starts_with('#'))
            .map(|line| {
                let numbers = line.split_whitespace().take(3);
                numbers.map(|number| number.parse().unwrap()).collect()
            })
            .collect();
        assert!(rows.len() > 20);
        assert!(rows.is_sorted_by(|one, next| one[0] <= next[0] && one[1] <= next[1]));
        let [value, quantile, count] = rows[rows.len() - 1][..] else {
            panic!("{text}");
        };
        assert!((value - 10.0).abs() < 0.02, "{text}");
        assert_eq!((quantile, count), (1.0, 10_000.0), "{text}");
        assert!(text.contains("SubBuckets     =         2048]"), "{text}");
        assert!(text.contains("#[Max     =") && text.contains("Total count    =        10000"));
        assert!(text.lines().any(|line| line.ends_with("Infinity")));
    }

    #[test]
    fn an_hour_and_more_is_an_hour() {
        let mut histogram = histogram().unwrap();
        histogram.saturating_record(u64::MAX);
        assert!(histogram.max() >= MAX_NANOS);
        assert!(percentiles(&super::histogram().unwrap(), 1e6).contains("Total count"));
    }
}
