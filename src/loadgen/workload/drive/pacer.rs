//! The thread that sends messages of open loops at their times.
//!
//! The runtime's timers count milliseconds, and its threads are what is measured; so a thread of its own sleeps to each time by the kernel's clock (`clock_nanosleep`, without slack) and gives
//! the message to its stream, whose connection it wakes. It does not spin towards the time: where there are few processors, that would take one from who is measured. What it is late by is
//! measured instead, and shown.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::{Due, Schedule};
use super::Shared;
use super::clock::{Clock, wake_in_time};
use super::kind::lock;
use crate::units::saturating_nanos;

/// How often it is looked whether it is to stop. Arbitrary.
const LOOK: u64 = 20_000_000;
/// How long it is waited for the reason that a stream takes no more. Arbitrary.
const HEARSAY: u64 = 50_000_000;
/// How long it is counted, one by one, what was due and could not be sent in time.
const COUNTING: u64 = 1_000_000_000;

/// Sends all that is due within `length`; what it falls behind with, for `patience` beyond.
pub(super) fn run(
    shared: &Arc<Shared>,
    mut schedule: Schedule,
    length: Duration,
    patience: Duration,
) {
    wake_in_time();
    let (clock, end) = (shared.clock, saturating_nanos(length));
    // The start lies ahead, and no time before it is told apart from it.
    clock.sleep_until(0);
    while let Some(due) = schedule.next() {
        let Some(kind) = shared.kinds.get(due.kind) else {
            return;
        };
        let now = clock.now();
        if now >= end.saturating_add(saturating_nanos(patience)) {
            count_the_rest(shared, due, &mut schedule, end);
            return;
        }
        if now >= due.at && !kind.has_room() {
            lock(&kind.messages).skip(due.at);
            kind.refuse(1);
            if shared.is_stopped() {
                return;
            }
            continue;
        }
        // Made before it is due.
        let payload = lock(&kind.messages).next(due.at);
        if !sleep_until(shared, clock, due.at) {
            return;
        }
        let now = clock.now();
        if let Err(error) = kind.offer(due.stream, due.at, payload, now) {
            // Who reads from it knows better why, and says so about now.
            if sleep_until(shared, clock, now.saturating_add(HEARSAY)) {
                let lane = kind.lanes.get(due.stream as usize);
                let name = lane.map_or("", |lane| lane.stream.name());
                shared.lose(format!("stream {name}: {error}"));
            }
            return;
        }
    }
    if schedule.is_cut() {
        sleep_until(shared, clock, end);
    }
}

/// Whether it is then; not when it is to stop.
fn sleep_until(shared: &Shared, clock: Clock, at: u64) -> bool {
    loop {
        if shared.is_stopped() {
            return false;
        }
        let now = clock.now();
        if now >= at {
            return true;
        }
        clock.sleep_until(at.min(now.saturating_add(LOOK)));
    }
}

/// What is due by the end and can no longer be sent. Of very many, those that are not counted in time are estimated by the mean rate.
fn count_the_rest(shared: &Shared, first: Due, schedule: &mut Schedule, end: u64) {
    let began = shared.clock.now();
    let mut due = Some(first);
    let mut counted = 0_u64;
    while let Some(Due { kind, at, .. }) = due {
        if let Some(kind) = shared.kinds.get(kind) {
            kind.refuse(1);
        }
        counted += 1;
        let is_long = counted % 65_536 == 0 && shared.clock.now() - began > COUNTING;
        if is_long || shared.stop.load(Ordering::Relaxed) {
            for kind in &shared.kinds {
                let rate = kind.spec.arrivals().rate();
                if let (Some(rate), None) = (rate, kind.spec.message_count()) {
                    kind.refuse((rate * end.saturating_sub(at) as f64 * 1e-9) as u64);
                }
            }
            return;
        }
        due = schedule.next();
    }
}
