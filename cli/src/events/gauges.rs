//! What processes say of their messages, as gauges of the monitor: read from their event logs beside it, so that it waits for none of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use tautline::pmu::{Gauge, GaugeHandle};

use super::PERIOD;
use super::analysis::{Analysis, Figures, Stage};
use super::source::Source;
use crate::failure::{Failure, tell};

/// Messages since the beginning.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

/// What was last; not a number before there was any.
struct Levels {
    message: GaugeHandle,
    round_trip: GaugeHandle,
}

/// Reads logs until it is dropped; what is switched on for it is switched off again then.
pub(crate) struct MessageGauges {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u64, Failure>>>,
}

impl MessageGauges {
    /// None without processes. Of these together: `messages-sent` and `messages-received` count, `message-seconds` is the mean from `send` until acknowledged of what was
    /// acknowledged last, `round-trip-seconds` the mean of what connections know of theirs.
    ///
    /// # Errors
    ///
    /// One of them has no event log, or none that may be read and set.
    pub(crate) fn start(processes: &[u32]) -> Result<(Self, Vec<Gauge>), Failure> {
        let attach = |process: &u32| Ok((Source::attach(*process, Some(1))?, Analysis::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        if processes.is_empty() {
            let thread = None;
            return Ok((Self { is_over, thread }, Vec::new()));
        }
        let sources: Result<Vec<_>, Failure> = processes.iter().map(attach).collect();
        let counts = Arc::new(Counts::default());
        let count = |name, of: fn(&Counts) -> &AtomicU64| {
            let counts = Arc::clone(&counts);
            Gauge::count(name, move |_| {
                Some(of(&counts).load(Ordering::Relaxed) as f64)
            })
        };
        let (message, message_handle) = Gauge::supplied("message-seconds");
        let (round_trip, round_trip_handle) = Gauge::supplied("round-trip-seconds");
        let gauges = vec![
            count("messages-sent", |counts| &counts.sent),
            count("messages-received", |counts| &counts.received),
            message,
            round_trip,
        ];
        let levels = Levels {
            message: message_handle,
            round_trip: round_trip_handle,
        };
        let (sources, ends) = (sources?, Arc::clone(&is_over));
        let thread = thread::spawn(move || read(sources, &counts, &levels, &ends));
        let thread = Some(thread);
        Ok((Self { is_over, thread }, gauges))
    }

    /// Reads no more, and says how many events were lost.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let lost = self.end()?;
        if lost > 0 {
            tell!("tautline: {lost} events were lost, and their messages are in no count");
        }
        Ok(())
    }

    fn end(&mut self) -> Result<u64, Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        let panicked = |_| Failure::Error("the reader of event logs has panicked".to_owned());
        ended.map_or(Ok(0), |ended| ended.map_err(panicked)?)
    }
}

impl Drop for MessageGauges {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn read(
    mut sources: Vec<(Source, Analysis)>,
    counts: &Counts,
    levels: &Levels,
    is_over: &AtomicBool,
) -> Result<u64, Failure> {
    while !is_over.load(Ordering::Relaxed) {
        let mut passes = Vec::with_capacity(sources.len());
        for (source, analysis) in &mut sources {
            for row in source.next()? {
                analysis.take(source, &row);
            }
            passes.push(analysis.take_figures());
        }
        tell(&passes, counts, levels);
        thread::sleep(PERIOD);
    }
    Ok(sources.iter().map(|(source, _)| source.lost()).sum())
}

fn tell(passes: &[Figures], counts: &Counts, levels: &Levels) {
    let streams = || passes.iter().flat_map(|figures| figures.streams.values());
    let add = |to: &AtomicU64, messages: u64| to.fetch_add(messages, Ordering::Relaxed);
    add(&counts.sent, streams().map(|stream| stream.sent).sum());
    add(
        &counts.received,
        streams().map(|stream| stream.received).sum(),
    );
    let sent = passes
        .iter()
        .filter_map(|figures| figures.stages.get(&Stage::Sent));
    let (seconds, messages) = sent.fold((0.0, 0.0), |(seconds, messages), times| {
        let of = times.messages() as f64;
        (seconds + of * times.mean().as_secs_f64(), messages + of)
    });
    if messages > 0.0 {
        levels.message.set(seconds / messages);
    }
    let round_trips = passes.iter().flat_map(|figures| figures.paths.values());
    let round_trips: Vec<f64> = round_trips
        .filter_map(|path| Some(path.rtt?.as_secs_f64()))
        .collect();
    // Of none there is no mean, and no value.
    let sum: f64 = round_trips.iter().sum();
    levels.round_trip.set(sum / round_trips.len() as f64);
}
