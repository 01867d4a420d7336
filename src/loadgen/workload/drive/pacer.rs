//! The thread that sends messages of open loops at their times.
//!
//! The runtime's timers count milliseconds, and its threads are what is measured; so a thread of its own sleeps to each time by the kernel's clock (`clock_nanosleep`, without slack) and gives
//! the message to its stream, whose connection it wakes. It does not spin towards the time: where there are few processors, that would take one from who is measured. What it is late by is
//! measured instead, and shown.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::{Due, Schedule, StreamKind};
use super::Shared;
use super::clock::Clock;
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
    crate::thread::wake_in_time();
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

/// What is due by the end and can no longer be sent.
fn count_the_rest(shared: &Shared, first: Due, schedule: &mut Schedule, end: u64) {
    let began = shared.clock.now();
    let specs: Vec<&StreamKind> = shared.kinds.iter().map(|kind| &kind.spec).collect();
    let is_enough = || {
        shared.stop.load(Ordering::Relaxed) || shared.clock.now().saturating_sub(began) > COUNTING
    };
    let counts = rest(first, schedule, end, &specs, is_enough);
    for (kind, count) in shared.kinds.iter().zip(counts) {
        kind.refuse(count);
    }
}

/// How many messages of each kind are due from `first` to the end. Of very many, those that are not counted when it is enough are estimated by the mean rates.
fn rest(
    first: Due,
    schedule: &mut Schedule,
    end: u64,
    specs: &[&StreamKind],
    is_enough: impl Fn() -> bool,
) -> Vec<u64> {
    /// So many are counted before it is looked whether that is enough.
    const LOOK: u64 = 1 << 16;
    let mut counts = vec![0_u64; specs.len()];
    // What is left of those kinds that have an end of their own.
    let most = specs.iter().map(|spec| spec.message_count());
    let mut left: Vec<u64> = most.map(|most| most.unwrap_or(u64::MAX)).collect();
    let mut due = Some(first);
    let mut counted = 0_u64;
    while let Some(Due {
        kind, at, index, ..
    }) = due
    {
        if let (Some(count), Some(left), Some(spec)) =
            (counts.get_mut(kind), left.get_mut(kind), specs.get(kind))
        {
            *count += 1;
            if let Some(most) = spec.message_count() {
                *left = most.saturating_sub(index + 1);
            }
        }
        counted += 1;
        if counted % LOOK == 0 && is_enough() {
            let seconds = end.saturating_sub(at) as f64 * 1e-9;
            for ((count, left), spec) in counts.iter_mut().zip(&left).zip(specs) {
                if let Some(rate) = spec.arrivals().rate() {
                    *count = count.saturating_add(((rate * seconds) as u64).min(*left));
                }
            }
            return counts;
        }
        due = schedule.next();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::super::Workload;
    use super::*;

    /// Ten seconds of it, of which the first thousand messages were sent.
    fn overdue(is_enough: bool) -> Vec<u64> {
        let kinds = vec![
            StreamKind::of_zeros("a", "constant:50000"),
            StreamKind::of_zeros("b", "poisson:20000"),
            StreamKind::of_zeros("c", "bursty:10000,5ms,0.2"),
            StreamKind::of_zeros("d", "constant:30000").messages(Some(70_000)),
            StreamKind::of_zeros("e", "constant:100").messages(Some(3)),
            StreamKind::of_zeros("f", "closed:4"),
        ];
        let length = Duration::from_secs(10);
        let workload = Workload::new(kinds).unwrap().length(length);
        let mut schedule = Schedule::new(&workload);
        let first = schedule.by_ref().nth(1000).unwrap();
        let specs: Vec<&StreamKind> = workload.kinds().iter().collect();
        let end = saturating_nanos(length);
        rest(first, &mut schedule, end, &specs, || is_enough)
    }

    #[test]
    fn what_is_very_overdue_is_estimated_and_near_what_counting_says() {
        let counted = overdue(false);
        // All but the thousand, and nothing of a closed loop.
        assert!((498_000..500_000).contains(&counted[0]), "{counted:?}");
        assert!((69_000..70_000).contains(&counted[3]), "{counted:?}");
        assert_eq!(counted[5], 0);
        let estimated = overdue(true);
        for (kind, (counted, estimated)) in counted.iter().zip(&estimated).enumerate() {
            let off = counted.abs_diff(*estimated) as f64 / (*counted).max(1) as f64;
            // Bursts are not the mean for long.
            let bound = if kind == 2 { 0.1 } else { 0.02 };
            assert!(off < bound, "kind {kind}: {estimated} for {counted}");
        }
        assert!(estimated != counted, "nothing was estimated");
    }

    #[test]
    fn what_is_a_little_overdue_is_counted() {
        let workload = Workload::new(vec![StreamKind::of_zeros("a", "constant:1000")]).unwrap();
        let workload = workload.length(Duration::from_secs(3));
        let mut schedule = Schedule::new(&workload);
        let first = schedule.by_ref().nth(1000).unwrap();
        let specs: Vec<&StreamKind> = workload.kinds().iter().collect();
        let end = saturating_nanos(workload.drive_length());
        assert_eq!(rest(first, &mut schedule, end, &specs, || true), [2000]);
    }
}
