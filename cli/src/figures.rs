//! What follows from measured times, and which policies are judged by which: calculation, and nothing else. `bench` prints it, `report` draws it.

use tautline::control::PolicyConfig;

/// Whether the policy always does the same: what the oracle is the best of.
pub(crate) fn is_static(policy: PolicyConfig) -> bool {
    matches!(policy, PolicyConfig::None | PolicyConfig::Fixed(_))
}

/// Whether what the policy makes of a block depends on it alone.
pub(crate) fn is_stateless(policy: PolicyConfig) -> bool {
    match policy {
        PolicyConfig::Fixed(arm) => arm == arm.alone(),
        policy => is_static(policy),
    }
}

/// The value in the middle, or the mean of the two there; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

/// From the least to the greatest, as a share of the median: how far to trust the median.
pub(crate) fn spread(values: &[f64]) -> Option<f64> {
    let median = median(values).filter(|median| *median > 0.0)?;
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let greatest = values.iter().copied().max_by(f64::total_cmp)?;
    Some((greatest - least) / median)
}

/// The times that the messages of one pass took, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MessageTimes {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl MessageTimes {
    /// From when each message was sent (or due) and received, ns on one clock.
    pub(crate) fn new(sent: &[u64], received: &[u64]) -> Self {
        let mut micros: Vec<f64> = sent
            .iter()
            .zip(received)
            .map(|(sent, received)| received.saturating_sub(*sent) as f64 / 1e3)
            .collect();
        micros.sort_by(f64::total_cmp);
        let count = micros.len();
        // The least value that so many per cent of all do not exceed.
        let percentile = |percent: usize| {
            let place = (count * percent).div_ceil(100).saturating_sub(1);
            micros.get(place).copied().unwrap_or_default()
        };
        Self {
            mean: micros.iter().sum::<f64>() / count.max(1) as f64,
            p50: percentile(50),
            p99: percentile(99),
        }
    }
}

/// A policy's judged times, one for each round.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// Whether it may be the oracle.
    pub(crate) is_static: bool,
    pub(crate) times: Vec<f64>,
}

/// Which of the policies that always do the same has the least median time: what one would have
/// chosen, had one known. Being the best of many noisy medians, it is a little better than any of
/// them would be the next time.
pub(crate) fn oracle(policies: &[Judged]) -> Option<usize> {
    policies
        .iter()
        .enumerate()
        .filter(|(_, policy)| policy.is_static)
        .filter_map(|(number, policy)| Some((number, median(&policy.times)?)))
        .min_by(|(_, left), (_, right)| left.total_cmp(right))
        .map(|(number, _)| number)
}

/// The oracle's median time over the policy's: 1 is as good as the oracle, 0.5 takes twice as long.
pub(crate) fn efficiency(oracle: &Judged, policy: &Judged) -> Option<f64> {
    let own = median(&policy.times).filter(|own| *own > 0.0)?;
    Some(median(&oracle.times)? / own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(is_static: bool, times: &[f64]) -> Judged {
        Judged {
            is_static,
            times: times.to_vec(),
        }
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn the_spread_is_a_share_of_the_median() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[0.0]), None);
        assert_eq!(spread(&[2.0, 3.0, 1.0]), Some(1.0));
    }

    #[test]
    fn message_times_are_told_from_clock_times() {
        let sent: Vec<u64> = (0..100).map(|number| number * 1_000_000).collect();
        let received: Vec<u64> = (0..100)
            .map(|number| number * 1_000_000 + (number + 1) * 1_000)
            .collect();
        let times = MessageTimes::new(&sent, &received);
        assert_eq!((times.mean, times.p50, times.p99), (50.5, 50.0, 99.0));
        let one = MessageTimes::new(&[5_000], &[7_000]);
        assert_eq!((one.mean, one.p50, one.p99), (2.0, 2.0, 2.0));
        assert_eq!(MessageTimes::new(&[], &[]), MessageTimes::default());
    }

    #[test]
    fn the_oracle_is_the_best_static_policy_by_its_median() {
        let policies = [
            judged(true, &[3.0, 3.0, 3.0]),
            judged(true, &[2.0, 2.0, 99.0]),
            judged(false, &[1.0, 1.0, 1.0]),
        ];
        assert_eq!(oracle(&policies), Some(1));
        assert_eq!(oracle(&policies[2..]), None);
    }

    #[test]
    fn efficiency_is_the_oracles_time_over_ones_own() {
        let best = judged(true, &[2.0]);
        assert_eq!(efficiency(&best, &best), Some(1.0));
        assert_eq!(efficiency(&best, &judged(false, &[4.0])), Some(0.5));
        assert_eq!(efficiency(&best, &judged(false, &[])), None);
        assert_eq!(efficiency(&best, &judged(false, &[0.0])), None);
    }
}
