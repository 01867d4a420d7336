//! One kind of streams while it is driven.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hdrhistogram::Histogram;
use tokio::sync::Notify;

use super::super::report::{KindReport, Latency, histogram};
use super::super::{Messages, StreamKind};
use super::ledger::{Ledger, Waiting};
use super::{DriveConfig, DriveError};
use crate::loadgen::recording::{KindEvents, StreamEvents};
use crate::session::{Rejected, SendError};
use crate::transport::Stream;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream and its messages.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: Stream,
    pub(super) ledger: Mutex<Ledger>,
    /// There is something in the backlog.
    pub(super) kept: Notify,
    /// Something was answered.
    pub(super) answered: Notify,
    events: StreamEvents,
}

#[derive(Debug)]
struct Measures {
    due: u64,
    sent: u64,
    refused: u64,
    answered: u64,
    bytes: u64,
    from_intended: Histogram<u64>,
    from_sending: Histogram<u64>,
    lateness: Histogram<u64>,
}

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) spec: StreamKind,
    pub(super) latency: Latency,
    pub(super) lanes: Vec<Lane>,
    pub(super) messages: Mutex<Messages>,
    /// Messages that a closed loop has begun.
    issued: AtomicU64,
    /// Messages that wait to be sent or for their answers, and bytes of the former.
    outstanding: AtomicUsize,
    backlog: AtomicUsize,
    max_outstanding: usize,
    max_backlog: usize,
    measures: Mutex<Measures>,
    events: KindEvents,
}

impl Kind {
    pub(super) fn new(
        spec: &StreamKind,
        streams: Vec<Stream>,
        messages: Messages,
        config: &DriveConfig,
        events: KindEvents,
    ) -> Result<Self, DriveError> {
        let lanes = streams
            .into_iter()
            .enumerate()
            .map(|(number, stream)| Lane {
                events: events.stream(stream.name(), number),
                stream,
                ledger: Mutex::default(),
                kept: Notify::new(),
                answered: Notify::new(),
            });
        Ok(Self {
            spec: spec.clone(),
            latency: match (spec.has_replies(), config.acknowledged) {
                (true, _) => Latency::Replies,
                (false, true) => Latency::Acknowledged,
                (false, false) => Latency::Nothing,
            },
            lanes: lanes.collect(),
            messages: Mutex::new(messages),
            issued: AtomicU64::new(0),
            outstanding: AtomicUsize::new(0),
            backlog: AtomicUsize::new(0),
            max_outstanding: config.outstanding,
            max_backlog: config.backlog,
            measures: Mutex::new(Measures {
                due: 0,
                sent: 0,
                refused: 0,
                answered: 0,
                bytes: 0,
                from_intended: histogram()?,
                from_sending: histogram()?,
                lateness: histogram()?,
            }),
            events,
        })
    }

    fn is_measured(&self) -> bool {
        self.latency != Latency::Nothing
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    pub(super) fn has_room(&self) -> bool {
        self.outstanding() < self.max_outstanding
            && self.backlog.load(Ordering::Relaxed) < self.max_backlog
    }

    /// Whether a closed loop may begin one more message.
    pub(super) fn issue(&self) -> bool {
        let most = self.spec.message_count().unwrap_or(u64::MAX);
        self.issued.fetch_add(1, Ordering::Relaxed) < most
    }

    /// Messages that were due and have no room, or no time left.
    pub(super) fn refuse(&self, count: u64) {
        let mut measures = lock(&self.measures);
        measures.due += count;
        measures.refused += count;
        drop(measures);
        self.events.unsent(count);
    }

    /// Sends a message of an open loop that is due, or keeps it for sending, if there is room.
    pub(super) fn offer(
        &self,
        stream: u32,
        intended: u64,
        payload: Bytes,
        now: u64,
    ) -> Result<(), SendError> {
        let Some(lane) = self.lanes.get(stream as usize) else {
            return Ok(());
        };
        if !self.has_room() {
            self.refuse(1);
            return Ok(());
        }
        {
            let mut measures = lock(&self.measures);
            measures.due += 1;
            let lateness = now.saturating_sub(intended);
            measures.lateness.saturating_record(lateness);
        }
        lane.events.due(intended, now);
        let mut ledger = lock(&lane.ledger);
        let mut payload = payload;
        if ledger.is_free() {
            let len = payload.len();
            if self.is_measured() {
                ledger.expect(intended, Some(now), &payload);
            }
            match lane.stream.try_send(payload) {
                Ok(()) => {
                    if self.is_measured() {
                        self.outstanding.fetch_add(1, Ordering::Relaxed);
                    }
                    drop(ledger);
                    lane.events.sent(intended, || now, len);
                    self.count_sent(len);
                    return Ok(());
                }
                Err(error) => {
                    if self.is_measured() {
                        ledger.unexpect();
                    }
                    match error {
                        SendError::Full(Rejected(back)) => payload = back,
                        other => return Err(other),
                    }
                }
            }
        }
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        self.backlog.fetch_add(payload.len(), Ordering::Relaxed);
        lane.events.late(intended, payload.len());
        ledger.keep(intended, payload);
        drop(ledger);
        lane.kept.notify_one();
        Ok(())
    }

    /// Sends the oldest message of a lane's backlog; whether there was one. `now` tells the time.
    pub(super) async fn send_kept(
        &self,
        lane: &Lane,
        now: impl Fn() -> u64,
    ) -> Result<bool, SendError> {
        let (intended, payload, number) = {
            let mut ledger = lock(&lane.ledger);
            let Some(pending) = ledger.next() else {
                return Ok(false);
            };
            let number = self
                .is_measured()
                .then(|| ledger.expect(pending.intended, None, &pending.payload));
            (pending.intended, pending.payload, number)
        };
        let len = payload.len();
        lane.stream.send(payload).await?;
        lane.events.sent(intended, &now, len);
        let mut ledger = lock(&lane.ledger);
        match number {
            Some(number) => ledger.set_sent(number, now()),
            None => {
                self.outstanding.fetch_sub(1, Ordering::Relaxed);
            }
        }
        ledger.sent();
        drop(ledger);
        self.backlog.fetch_sub(len, Ordering::Relaxed);
        self.count_sent(len);
        Ok(true)
    }

    /// Sends a message of a closed loop.
    pub(super) async fn send_next(
        &self,
        lane: &Lane,
        now: impl Fn() -> u64,
    ) -> Result<(), SendError> {
        let payload = lock(&self.messages).next(now());
        let len = payload.len();
        let at = now();
        lock(&self.measures).due += 1;
        lane.events.due(at, at);
        lock(&lane.ledger).expect(at, Some(at), &payload);
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        lane.stream.send(payload).await?;
        lane.events.sent(at, now, len);
        self.count_sent(len);
        Ok(())
    }

    fn count_sent(&self, len: usize) {
        let mut measures = lock(&self.measures);
        measures.sent += 1;
        measures.bytes += len as u64;
    }

    /// Takes down that a message was answered.
    pub(super) fn answered(&self, lane: &Lane, waiting: Waiting, now: u64) {
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
        let sent = waiting.sent.unwrap_or(now);
        lane.events.answered(waiting.intended, sent, now);
        let mut measures = lock(&self.measures);
        measures.answered += 1;
        let intended = now.saturating_sub(waiting.intended);
        measures.from_intended.saturating_record(intended);
        let sending = now.saturating_sub(sent);
        measures.from_sending.saturating_record(sending);
    }

    pub(super) fn report(&self, is_over: bool) -> KindReport {
        let measures = lock(&self.measures);
        let left = measures.due.saturating_sub(measures.sent);
        let not_sent = if is_over { left } else { measures.refused };
        let answered = measures.answered;
        KindReport {
            name: self.spec.name().to_owned(),
            streams: self.spec.stream_count(),
            arrivals: self.spec.arrivals().to_string(),
            rate: self.spec.arrivals().rate(),
            due: measures.due,
            sent: measures.sent,
            not_sent,
            queued: left.saturating_sub(not_sent),
            answered,
            unanswered: if self.is_measured() {
                measures.sent.saturating_sub(answered)
            } else {
                0
            },
            bytes: measures.bytes,
            latency: self.latency,
            from_intended: measures.from_intended.clone(),
            from_sending: measures.from_sending.clone(),
            lateness: measures.lateness.clone(),
        }
    }
}
