//! The messages of the demonstration: one task sends a stream's, one receives them and takes the time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tautline::generate::Generator;
use tautline::session::SendError;
use tautline::transport::{RecvError, Stream};

use super::phase::{PHASES, Traffic};
use crate::failure::Failure;

/// Message times are told apart up to a minute.
const MAX_MICROS: u64 = 60_000_000;

/// What is known of one stream's messages; both ends are in this process and share it.
#[derive(Debug)]
pub(super) struct Gauge {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// When each message under way was sent.
    sent: VecDeque<Instant>,
    phase: Times,
    second: Times,
}

/// Times of messages, and how many and how long they were.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub(super) micros: Histogram<u64>,
    pub(super) bytes: u64,
}

impl Times {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            micros: Histogram::new_with_bounds(1, MAX_MICROS, 2)?,
            bytes: 0,
        })
    }

    fn record(&mut self, time: Duration, len: usize) {
        self.micros
            .saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1));
        self.bytes += len as u64;
    }

    fn take(&mut self) -> Self {
        let taken = self.clone();
        self.micros.reset();
        self.bytes = 0;
        taken
    }

    pub(super) fn messages(&self) -> u64 {
        self.micros.len()
    }

    pub(super) fn mean(&self) -> Duration {
        Duration::from_micros(self.micros.mean() as u64)
    }

    pub(super) fn p99(&self) -> Duration {
        Duration::from_micros(self.micros.value_at_quantile(0.99))
    }
}

impl Gauge {
    pub(super) fn new() -> Result<Self, Failure> {
        let inner = Inner {
            sent: VecDeque::new(),
            phase: Times::new()?,
            second: Times::new()?,
        };
        Ok(Self {
            inner: Mutex::new(inner),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_sent(&self) {
        self.lock().sent.push_back(super::now());
    }

    fn on_received(&self, len: usize) {
        let mut inner = self.lock();
        if let Some(sent) = inner.sent.pop_front() {
            let time = sent.elapsed();
            inner.phase.record(time, len);
            inner.second.record(time, len);
        }
    }

    /// What was received since this was last asked.
    pub(super) fn take_recent(&self) -> Times {
        self.lock().second.take()
    }

    /// What was received since the phase began; a new one begins.
    pub(super) fn take_phase(&self) -> Times {
        self.lock().phase.take()
    }
}

/// Sends a stream's messages at its pace for as long as it is polled; waits where the stream is full.
pub(super) async fn send(
    stream: &Stream,
    traffic: &Traffic,
    phase: &AtomicUsize,
    gauge: &Gauge,
    seed: u64,
) -> Result<(), SendError> {
    let mut generators = [
        Generator::new(traffic.content, seed),
        Generator::new(traffic.other, seed.wrapping_add(1)),
    ];
    let mut due = super::now();
    loop {
        let swapped = PHASES[phase.load(Ordering::Relaxed)].swapped;
        let Some(message) = generators[usize::from(swapped)].next() else {
            return Ok(());
        };
        let now = super::now();
        if due > now {
            tokio::time::sleep_until(due.into()).await;
        } else {
            // What could not be sent in time is not made up for.
            due = due.max(now.checked_sub(Duration::from_millis(20)).unwrap_or(now));
        }
        due += Duration::from_secs_f64(message.len() as f64 / traffic.bytes_per_sec);
        gauge.on_sent();
        stream.send(message).await?;
    }
}

pub(super) async fn receive(stream: Stream, gauge: Arc<Gauge>) -> Result<(), RecvError> {
    while let Some(message) = stream.recv().await? {
        gauge.on_received(message.payload.len());
    }
    Ok(())
}
