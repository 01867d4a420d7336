//! Codec work of a connection: on its own thread while it is short, and on workers.

use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Driver;
use crate::codecs::prior_decode_nanos;
use crate::control::MAX_INLINE;
use crate::session::{
    CodecWorker, DecodedBlock, DictionaryWork, EncodedBlock, JobTime, ShadowedBlock,
};
use crate::thread;
use crate::transport::clock::Stopwatch;
use crate::units::{Time, saturating_nanos};

/// Encoding that is likely to take longer than [`MAX_INLINE`], but no longer than this, stays on its thread, and the
/// executor's other tasks leave it: to hand a block to a worker and back takes about 0.1 ms, and on busy processors much
/// more (docs/benchmarks.md). Meanwhile nothing is read or written, so that it is no more than a few times that.
const MOST_ASIDE: Duration = Duration::from_micros(300);

/// A codec job done elsewhere.
pub(super) enum Done {
    Encoded(EncodedBlock, JobTime),
    Decoded(DecodedBlock, Duration),
    Shadowed(ShadowedBlock),
    Dictionary(DictionaryWork, Duration),
    /// By a codec.
    Panicked,
}

impl<I: AsyncRead + AsyncWrite + Unpin + 'static> Driver<I> {
    pub(super) fn poll_work(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while !self.work.is_empty() {
            let Poll::Ready(Some(done)) = self.work.poll_join_next(cx) else {
                break;
            };
            any = true;
            self.now = self.clock.now();
            let now = self.now;
            match done {
                Ok(Done::Encoded(block, time)) => {
                    self.grant.spend(time.processor);
                    self.session.handle_encoded(now, block, time);
                }
                Ok(Done::Decoded(block, elapsed)) => {
                    self.on_decoded(elapsed);
                    let _ = self.session.handle_decoded(block, elapsed);
                    self.take_input(now);
                }
                Ok(Done::Shadowed(block)) => {
                    self.grant.spend(block.taken());
                    self.session.handle_shadowed(now, block);
                }
                Ok(Done::Dictionary(work, elapsed)) => {
                    self.grant.spend(elapsed);
                    let _ = self.session.handle_dictionary(now, work, elapsed);
                }
                // A codec has panicked, or the runtime shuts down: the session can't go on.
                Ok(Done::Panicked) | Err(_) => self.session.abort(),
            }
        }
        any
    }

    fn hand_over(&mut self, job: impl FnOnce() -> Done + Send + 'static) {
        self.node.workers.hand_over(&mut self.work, job);
    }

    pub(super) fn start_decoding(&mut self) {
        while let Some(job) = self.session.poll_decode() {
            let mut worker = self.node.workers.take();
            let clock = self.clock;
            let prior = prior_decode_nanos(job.codec(), job.likely_plain_len());
            let is_short = prior <= saturating_nanos(MAX_INLINE);
            if is_short && !worker.must_prepare_decoder(&job) {
                let started = clock.now();
                let block = worker.decode(job);
                self.node.workers.put(worker);
                let now = clock.now();
                self.now = now;
                let elapsed = now.saturating_since(started);
                self.on_decoded(elapsed);
                let _ = self.session.handle_decoded(block, elapsed);
                self.take_input(now);
                self.inline += elapsed;
                if self.inline >= self.max_turn {
                    return;
                }
            } else {
                // Who waits for a place needs none yet.
                self.node.workers.put(worker);
                let node = Arc::clone(&self.node);
                let (events, handed) = (self.events.clone(), self.events.handed_over());
                let what = (job.codec(), job.wire_len());
                self.hand_over(move || {
                    let mut worker = node.workers.take();
                    let started = clock.now();
                    let block = worker.decode(job);
                    node.workers.put(worker);
                    let elapsed = clock.now().saturating_since(started);
                    events.worker_decoded(what, elapsed, waited(handed, started));
                    Done::Decoded(block, elapsed)
                });
            }
        }
    }

    pub(super) fn start_encoding(&mut self) {
        let mut goes_on = self.moved_since > 0;
        loop {
            if goes_on && self.session.has_queued() {
                // What a block costs besides its codec shows between two of them.
                self.read_clock();
            }
            goes_on = true;
            let was_put_off = self.put_off.is_some();
            let job = self.put_off.take();
            let Some(job) = job.or_else(|| self.session.poll_encode(self.now)) else {
                return;
            };
            let likely = job.likely();
            let is_helped = self.shared.helm.is_helped();
            if (!was_put_off || is_helped) && self.is_late_for(likely, is_helped) {
                self.put_off = Some(job);
                self.inline = self.max_turn;
                return;
            }
            let mut worker = self.node.workers.take();
            let clock = self.clock;
            // An application that helps may be where its thread can't step aside.
            let steps_aside = self.steps_aside && !is_helped;
            let is_short = likely <= MAX_INLINE || (steps_aside && likely <= MOST_ASIDE);
            if is_short && !worker.must_prepare_encoder(&job) {
                let watch = Stopwatch::start(clock, likely);
                let block = if likely <= MAX_INLINE {
                    worker.encode(job)
                } else {
                    tokio::task::block_in_place(|| worker.encode(job))
                };
                self.node.workers.put(worker);
                let (now, time) = watch.stop();
                self.now = now;
                self.grant.spend(time.processor);
                self.session.handle_encoded(now, block, time);
                self.inline += time.elapsed;
                if self.inline >= self.max_turn {
                    // What there is goes out first.
                    return;
                }
            } else {
                self.node.workers.put(worker);
                let node = Arc::clone(&self.node);
                let (events, handed) = (self.events.clone(), self.events.handed_over());
                let what = (job.arm(), job.plain_len());
                self.hand_over(move || {
                    let mut worker = node.workers.take();
                    let watch = Stopwatch::start(clock, likely);
                    let block = worker.encode(job);
                    node.workers.put(worker);
                    let (_, time) = watch.stop();
                    events.worker_encoded(what, time.processor, waited(handed, watch.started()));
                    Done::Encoded(block, time)
                });
            }
        }
    }

    /// Whether a block that is likely to take so long on this thread is for the next turn: what an application has done before it helped is part of this one.
    fn is_late_for(&self, likely: Duration, is_helped: bool) -> bool {
        let is_long = likely > self.max_turn / 2 && likely <= MAX_INLINE;
        is_long && !self.steps_aside && {
            let so_far = self.clock.now().saturating_since(self.turn_since);
            is_helped || so_far + likely > MAX_INLINE
        }
    }

    /// Encodes a block once more with other arms, where it takes no processor from anyone.
    pub(super) fn start_shadow(&mut self) {
        if let Some(job) = self.session.poll_shadow() {
            let node = Arc::clone(&self.node);
            let clock = self.clock;
            let (events, handed) = (self.events.clone(), self.events.handed_over());
            let plain_len = job.plain_len();
            self.work.spawn(async move {
                let shadow = move |worker: &mut CodecWorker| {
                    let waited = handed.map_or(Duration::ZERO, |at| waited(Some(at), clock.now()));
                    let time = || thread::processor_time().map(|taken| Time::ZERO + taken);
                    let block = worker.shadow(job, || time().unwrap_or_else(|| clock.now()));
                    events.worker_shadowed(plain_len, block.taken(), waited);
                    block
                };
                let block = node.aside.run(shadow).await;
                block.map_or(Done::Panicked, Done::Shadowed)
            });
        }
    }

    /// Makes, packs or checks a dictionary, always off the executor's thread.
    pub(super) fn start_dictionary(&mut self) {
        if let Some(job) = self.session.poll_dictionary(self.now) {
            let node = Arc::clone(&self.node);
            let clock = self.clock;
            let (events, handed) = (self.events.clone(), self.events.handed_over());
            self.hand_over(move || {
                let mut worker = node.workers.take();
                let started = clock.now();
                let work = worker.dictionary(job);
                node.workers.put(worker);
                let elapsed = clock.now().saturating_since(started);
                events.worker_dictionary(elapsed, waited(handed, started));
                Done::Dictionary(work, elapsed)
            });
        }
    }
}

/// How long a job that was `handed` over waited until it was `started`.
fn waited(handed: Option<Time>, started: Time) -> Duration {
    handed.map_or(Duration::ZERO, |at| started.saturating_since(at))
}

/// Whether this runtime has other threads that can take over a thread's tasks.
pub(super) fn steps_aside() -> bool {
    let runtime = tokio::runtime::Handle::current();
    runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread
}

/// How long a connection may keep its thread: with the longest job that stays there ([`MAX_INLINE`]) some 0.1 ms. Where other threads take over
/// what waits, twice as long, since to wake them takes some µs.
pub(in crate::transport) fn max_turn() -> Duration {
    if steps_aside() {
        MAX_INLINE
    } else {
        MAX_INLINE / 2
    }
}
