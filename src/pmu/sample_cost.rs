//! What the system's samples cost: interrupts, which are in no account but that of whoever is interrupted.

use core::time::Duration;
use std::io;

use super::calibrate::chain;
use super::counters::{CounterId, Counters};
use super::sys::Perf;
use crate::thread::monotonic_nanos;
use crate::units::Time;

/// Between samples: short, so that they are much of the time, and longer than one takes on any machine.
const PERIOD: Duration = Duration::from_micros(100);
/// Steps of a loop of a millisecond or so.
const STEPS: usize = 1 << 20;
/// With samples and without, by turns: what a quarter of them is below counts, since the loop may be moved to another processor or have to wait.
const TRIES: usize = 9;

/// Time that one sample of the system's ([`MonitorConfig::period`](super::MonitorConfig::period)) takes of the processor it is of, measured on the one
/// that this thread runs on: how much longer a loop takes when it is interrupted for them. It takes some 20 ms; `None` if it could not be measured.
///
/// # Errors
///
/// The system takes no samples.
pub fn sample_cost() -> io::Result<Option<Duration>> {
    let cpu = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
    let mut counters = Perf::new();
    let sampler = counters.open_sampler(cpu, PERIOD)?;
    measure(&mut counters, sampler)
}

fn measure(counters: &mut Perf, sampler: CounterId) -> io::Result<Option<Duration>> {
    let mut bare = u64::MAX;
    let mut runs = Vec::with_capacity(TRIES);
    for _ in 0..TRIES {
        bare = bare.min(time());
        counters.start(sampler)?;
        let took = time();
        counters.stop(sampler)?;
        let mut count = 0;
        counters.take(sampler, Time::ZERO, &mut |_, _| count += 1)?;
        if count > 0 {
            runs.push((took, count));
        }
    }
    let costs = runs.into_iter();
    let mut costs: Vec<u64> = costs
        .map(|(took, count)| took.saturating_sub(bare) / count)
        .collect();
    costs.sort_unstable();
    let low = costs.get(costs.len() / 4).copied();
    Ok(low.filter(|nanos| *nanos > 0).map(Duration::from_nanos))
}

fn time() -> u64 {
    let begun = monotonic_nanos();
    chain(STEPS);
    monotonic_nanos() - begun
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_takes_more_than_nothing_and_less_than_its_period() {
        // Not every machine lets processors be counted.
        if let Ok(Some(cost)) = sample_cost() {
            assert!(cost >= Duration::from_nanos(100), "{cost:?}");
            assert!(cost < 10 * PERIOD, "{cost:?}");
        }
    }
}
