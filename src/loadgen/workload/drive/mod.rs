//! A workload over a connection.

mod clock;
mod kind;
mod ledger;
mod pacer;

use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use self::clock::Clock;
use self::kind::{Kind, Lane, lock};
use super::report::{DriveReport, Ended, Latency, Row};
use super::{Schedule, Workload};
#[cfg(feature = "eventlog")]
use crate::eventlog::EventLog;
use crate::loadgen::recording::DriveEvents;
use crate::session::StreamConfig;
use crate::transport::{Connection, OpenStreamError, Stream};
use crate::units::saturating_nanos;

/// From when the streams are open to the start: time for the threads to be there.
const LEAD: Duration = Duration::from_millis(2);
/// How often it is looked whether all is over, and what was acknowledged.
const LOOK: Duration = Duration::from_millis(5);
/// How long a closed loop waits for an answer before it looks whether it is to stop.
const CLOSED_LOOK: Duration = Duration::from_millis(50);

/// How a workload is driven.
#[derive(Clone, Debug)]
pub struct DriveConfig {
    outstanding: usize,
    backlog: usize,
    patience: Duration,
    acknowledged: bool,
    rows: usize,
    #[cfg(feature = "eventlog")]
    event_log: Option<EventLog>,
}

impl Default for DriveConfig {
    fn default() -> Self {
        Self {
            outstanding: 65_536,
            backlog: 64 << 20,
            patience: Duration::from_secs(5),
            acknowledged: false,
            rows: 0,
            #[cfg(feature = "eventlog")]
            event_log: None,
        }
    }
}

impl DriveConfig {
    /// How many messages of each open kind may wait to be sent or for their answers; what is due beyond is counted as not sent. Default: 65 536 (some 40 bytes each, besides what waits to be sent).
    #[must_use]
    pub fn outstanding(mut self, messages: usize) -> Self {
        self.outstanding = messages.clamp(1, 16 << 20);
        self
    }

    /// How many bytes of messages of each open kind may wait for room in the queues of its streams, but for the last message; what is due beyond is counted as not sent. Default: 64 MiB.
    #[must_use]
    pub fn backlog(mut self, bytes: usize) -> Self {
        self.backlog = bytes.clamp(1, 1 << 30);
        self
    }

    /// How long answers are waited for after the last message; and how long messages that were due in time may still be sent when the generator has fallen behind. Default: 5 s.
    #[must_use]
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// That both nodes may resume sessions ([`NodeConfig::resume`](crate::transport::NodeConfig::resume)), so that it is known what the peer has acknowledged: kinds without replies then have
    /// latencies until that. Default: no.
    #[must_use]
    pub const fn acknowledged(mut self, is_known: bool) -> Self {
        self.acknowledged = is_known;
        self
    }

    /// How many messages are kept one by one for [`DriveReport::rows`], 32 bytes each; 64 Mi at most. Default: none.
    #[must_use]
    pub fn rows(mut self, most: usize) -> Self {
        self.rows = most.min(64 << 20);
        self
    }

    /// Where it records what becomes of its messages, once that is switched on: an area with the events of [`events::config`](crate::loadgen::events::config), which may be its node's. Default: none.
    #[cfg(feature = "eventlog")]
    #[must_use]
    pub fn event_log(mut self, log: EventLog) -> Self {
        self.event_log = Some(log);
        self
    }

    #[cfg(feature = "eventlog")]
    fn events(&self) -> Result<DriveEvents, DriveError> {
        let log = self.event_log.as_ref();
        log.map_or(Ok(DriveEvents::default()), |log| {
            DriveEvents::new(log).ok_or(DriveError::EventLog)
        })
    }

    #[cfg(not(feature = "eventlog"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "it is called as where there are event logs"
    )]
    const fn events(&self) -> Result<DriveEvents, DriveError> {
        Ok(DriveEvents)
    }
}

/// Why a drive does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DriveError {
    /// A stream cannot be opened.
    #[error("stream {name} cannot be opened")]
    Open {
        /// Its name.
        name: String,
        /// Why not.
        source: OpenStreamError,
    },
    /// The thread that sends cannot be started.
    #[error("no thread to send from")]
    Thread(#[from] std::io::Error),
    /// No histogram can be made.
    #[error("no histogram")]
    Histogram(#[from] hdrhistogram::CreationError),
    /// The log area that it is to record in has other events than those of
    /// [`events::config`](crate::loadgen::events::config).
    #[cfg(feature = "eventlog")]
    #[error("the event log has other events than those of drives")]
    EventLog,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    kinds: Vec<Kind>,
    /// Loops that still send: the pacer, and each stream of closed kinds.
    sending: AtomicUsize,
    stop: AtomicBool,
    lost: Mutex<Option<String>>,
    rows: Mutex<(Vec<Row>, u64)>,
    max_rows: usize,
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn lose(&self, why: String) {
        if !self.is_stopped() {
            lock(&self.lost).get_or_insert(why);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn outstanding(&self) -> usize {
        self.kinds.iter().map(Kind::outstanding).sum()
    }

    fn answered(&self, place: &Place, waiting: ledger::Waiting) {
        let now = self.clock.now();
        if let Some((kind, lane)) = place.find() {
            kind.answered(lane, waiting, now);
        }
        if self.max_rows > 0 {
            let (rows, left_out) = &mut *lock(&self.rows);
            if rows.len() < self.max_rows {
                rows.push(Row {
                    kind: place.kind as u32,
                    len: waiting.len,
                    intended: waiting.intended,
                    sent: waiting.sent.unwrap_or(now),
                    answered: now,
                });
            } else {
                *left_out += 1;
            }
        }
    }
}

/// A workload on its way: a thread that sends messages of open loops at their times, and tasks of the runtime that it was started on. Dropped, it stops.
///
/// ```no_run
/// # use tautline::loadgen::workload::{Drive, DriveConfig, Workload};
/// # use tautline::transport::Connection;
/// # async fn drive(connection: Connection, workload: Workload) -> Result<(), Box<dyn std::error::Error>> {
/// let drive = Drive::start(&connection, &workload, &DriveConfig::default()).await?;
/// drive.over().await;
/// let report = drive.finish().await;
/// for kind in &report.kinds {
///     let p99 = kind.from_intended.value_at_quantile(0.99);
///     println!("{}: {} of {} sent, p99 {p99} ns", kind.name, kind.sent, kind.due);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Drive {
    shared: Arc<Shared>,
    pacer: Option<JoinHandle<()>>,
    tasks: JoinSet<()>,
    patience: Duration,
    /// When the last loop had ended, nanoseconds from the start.
    sent_by: Mutex<Option<u64>>,
}

impl Drive {
    /// Opens the streams of a workload, called `KIND-NUMBER`, and starts to send.
    ///
    /// # Errors
    ///
    /// A stream cannot be opened, there is no thread to be had, or the event log has other events.
    pub async fn start(
        connection: &Connection,
        workload: &Workload,
        config: &DriveConfig,
    ) -> Result<Self, DriveError> {
        let events = config.events()?;
        let mut kinds = Vec::new();
        for (place, spec) in workload.kinds().iter().enumerate() {
            let mut stream_config = StreamConfig::default();
            if let Some(policy) = spec.stream_policy() {
                stream_config = stream_config.policy(policy);
            }
            let mut streams = Vec::new();
            for number in 0..spec.stream_count() {
                let name = format!("{}-{number}", spec.name());
                match connection.open(&name, stream_config).await {
                    Ok(stream) => streams.push(stream),
                    Err(source) => return Err(DriveError::Open { name, source }),
                }
            }
            let messages = spec.mix().messages(workload.seeds(place).1);
            let events = events.kind(spec.name(), place);
            kinds.push(Kind::new(spec, streams, messages, config, events)?);
        }
        let closed = |kind: &&Kind| !kind.spec.arrivals().is_open();
        let closed = kinds.iter().filter(closed).map(|kind| kind.lanes.len());
        let sending = AtomicUsize::new(1 + closed.sum::<usize>());
        let shared = Arc::new(Shared {
            clock: Clock::start_in(LEAD),
            kinds,
            sending,
            stop: AtomicBool::new(false),
            lost: Mutex::new(None),
            rows: Mutex::default(),
            max_rows: config.rows,
        });
        let (length, patience) = (workload.drive_length(), config.patience);
        let (of_pacer, schedule) = (Arc::clone(&shared), Schedule::new(workload));
        let pacer = std::thread::Builder::new()
            .name("tautline-pacer".to_owned())
            .spawn(move || {
                pacer::run(&of_pacer, schedule, length, patience);
                of_pacer.sending.fetch_sub(1, Ordering::Release);
            })?;
        let mut drive = Self {
            shared,
            pacer: Some(pacer),
            tasks: JoinSet::new(),
            patience: config.patience,
            sent_by: Mutex::new(None),
        };
        drive.spawn_all(length);
        Ok(drive)
    }

    fn spawn_all(&mut self, length: Duration) {
        for (kind, spec) in self.shared.kinds.iter().enumerate() {
            for lane in 0..spec.lanes.len() {
                let shared = || Place {
                    shared: Arc::clone(&self.shared),
                    kind,
                    lane,
                };
                self.tasks.spawn(receive(shared()));
                if spec.latency == Latency::Acknowledged {
                    self.tasks.spawn(acknowledge(shared()));
                }
                if spec.spec.arrivals().is_open() {
                    self.tasks.spawn(send_kept(shared()));
                } else {
                    self.tasks.spawn(send_closed(shared(), length));
                }
            }
        }
    }

    /// Waits until all is over: the messages are sent and answered, or patience has an end; or it is stopped; or the connection is lost. Cancel-safe.
    pub async fn over(&self) {
        let shared = &self.shared;
        let patience = saturating_nanos(self.patience);
        while !shared.is_stopped() {
            if shared.sending.load(Ordering::Acquire) == 0 {
                let now = shared.clock.now();
                let since = *lock(&self.sent_by).get_or_insert(now);
                if shared.outstanding() == 0 || now.saturating_sub(since) >= patience {
                    return;
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Has it send nothing more, and wait for nothing: [`Self::over`] returns.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// The streams of a kind, by its index in the workload: what they say of themselves.
    pub fn streams(&self, kind: usize) -> impl Iterator<Item = &Stream> {
        let kind = self.shared.kinds.get(kind);
        let lanes = kind.map_or(&[][..], |kind| &kind.lanes);
        lanes.iter().map(|lane| &lane.stream)
    }

    /// How far it is, without rows. It copies histograms, some hundred kilobytes a kind: for a look every second, not every millisecond.
    pub fn report(&self) -> DriveReport {
        self.report_as(Ended::Not)
    }

    fn report_as(&self, ended: Ended) -> DriveReport {
        let is_over = ended != Ended::Not;
        let sending = (*lock(&self.sent_by)).unwrap_or_else(|| self.shared.clock.now());
        let kinds = self.shared.kinds.iter().map(|kind| kind.report(is_over));
        let (rows, left_out) = {
            let rows = lock(&self.shared.rows);
            // As long as it goes on, they are many to copy.
            (if is_over { rows.0.clone() } else { Vec::new() }, rows.1)
        };
        DriveReport {
            kinds: kinds.collect(),
            sending: Duration::from_nanos(sending),
            ended,
            rows,
            rows_left_out: left_out,
        }
    }

    /// Ends it, if [`Self::over`] has not come, and says what it has found. Its streams are finished.
    pub async fn finish(mut self) -> DriveReport {
        let is_done = lock(&self.sent_by).is_some();
        let was_stopped = self.shared.stop.swap(true, Ordering::Relaxed);
        lock(&self.sent_by).get_or_insert(self.shared.clock.now());
        // It looks every 20 ms.
        while self
            .pacer
            .as_ref()
            .is_some_and(|pacer| !pacer.is_finished())
        {
            sleep(Duration::from_millis(1)).await;
        }
        if let Some(pacer) = self.pacer.take() {
            // It has ended already; a panic of it has been printed.
            let _ = pacer.join();
        }
        self.tasks.shutdown().await;
        let lost = lock(&self.shared.lost).take();
        let ended = match lost {
            Some(why) => Ended::Lost(why),
            None if is_done && !was_stopped => Ended::Done,
            None => Ended::Stopped,
        };
        self.report_as(ended)
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        // The tasks end with their set, and the thread sees this.
        self.stop();
    }
}

/// A stream of a drive.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    kind: usize,
    lane: usize,
}

impl Place {
    fn find(&self) -> Option<(&Kind, &Lane)> {
        let kind = self.shared.kinds.get(self.kind)?;
        Some((kind, kind.lanes.get(self.lane)?))
    }
}

/// Takes what comes back.
async fn receive(place: Place) {
    let shared = &place.shared;
    let Some((kind, lane)) = place.find() else {
        return;
    };
    let name = lane.stream.name();
    loop {
        let received = match lane.stream.recv().await {
            Ok(Some(received)) => received,
            // Who takes messages without an answer may end that direction.
            Ok(None) if kind.latency != Latency::Replies => return,
            Ok(None) => return shared.lose(format!("the peer has ended stream {name}")),
            Err(error) => return shared.lose(format!("stream {name}: {error}")),
        };
        if kind.latency != Latency::Replies {
            continue;
        }
        let answer = lock(&lane.ledger).answer(&received.payload);
        match answer {
            Ok(waiting) => shared.answered(&place, waiting),
            Err(error) => return shared.lose(format!("stream {name}: {error}")),
        }
        lane.answered.notify_one();
    }
}

/// Asks what the peer has acknowledged.
async fn acknowledge(place: Place) {
    let Some((_, lane)) = place.find() else {
        return;
    };
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = 0;
    loop {
        ticks.tick().await;
        let Some(stats) = lane.stream.stats().await else {
            return;
        };
        while known < stats.messages_delivered {
            let Some(waiting) = lock(&lane.ledger).take() else {
                break;
            };
            place.shared.answered(&place, waiting);
            known += 1;
        }
    }
}

/// Sends what had no room in the queue when it was due.
async fn send_kept(place: Place) {
    let shared = &place.shared;
    let Some((kind, lane)) = place.find() else {
        return;
    };
    loop {
        lane.kept.notified().await;
        loop {
            match kind.send_kept(lane, || shared.clock.now()).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let name = lane.stream.name();
                    return shared.lose(format!("stream {name}: {error}"));
                }
            }
        }
    }
}

/// Sends when others are answered.
async fn send_closed(place: Place, length: Duration) {
    let shared = &place.shared;
    if let Some((kind, lane)) = place.find() {
        // The start lies ahead.
        sleep(LEAD).await;
        let end = saturating_nanos(length);
        let outstanding = kind.spec.arrivals().outstanding().unwrap_or(1) as usize;
        while !shared.is_stopped() && shared.clock.now() < end {
            if lock(&lane.ledger).waiting() >= outstanding {
                // Nothing, where there was no answer: look at the time.
                let _ = timeout(CLOSED_LOOK, lane.answered.notified()).await;
                continue;
            }
            if !kind.issue() {
                break;
            }
            if let Err(error) = kind.send_next(lane, || shared.clock.now()).await {
                let name = lane.stream.name();
                shared.lose(format!("stream {name}: {error}"));
                break;
            }
        }
    }
    shared.sending.fetch_sub(1, Ordering::Release);
}
