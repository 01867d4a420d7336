//! Whether one thing takes longer than another, from runs by turns: how much, how surely, and when that is enough.

use core::cmp::Ordering;

/// Runs of each before the first look. Below this, no order of the differences is rare enough.
const FIRST_LOOK: usize = 12;
/// The next look is due when there are so many times as many pairs. Each look is a chance to be wrong.
const LOOK_GROWTH: f64 = 1.3;
/// How sure a difference must be at one look: with ten of them, a run of equals is wrong once in some hundred.
const SURE: f64 = 0.998;
/// How sure it must be that a difference is less than what counts, on each side (two one-sided tests at 5 %: Schuirmann, 1987).
const EQUAL: f64 = 0.90;
/// Up to so many pairs the distribution of ranks is counted out; above, it is as good as normal.
const MOST_EXACT: usize = 60;

/// What is decided by, and when it is given up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareConfig {
    /// A smaller difference does not count, as a share (0.015: 1.5 %). Default: half of 3 %.
    pub least: f64,
    /// Pairs of runs at most. Default: 400.
    pub most_pairs: usize,
    /// Which of each pair comes first.
    pub seed: u64,
}

impl Default for CompareConfig {
    fn default() -> Self {
        Self {
            least: 0.015,
            most_pairs: 400,
            seed: 1,
        }
    }
}

/// How many times as long as the first the second takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The middle of it: the Hodges-Lehmann estimate, the median of all means of two pairs (in logarithms).
    pub ratio: f64,
    /// From ..
    pub low: f64,
    /// .. to, with the confidence asked for.
    pub high: f64,
    /// That confidence.
    pub confidence: f64,
}

/// The middle of numbers, such as differences of pairs, and how surely: the Hodges-Lehmann estimate with the range of Wilcoxon's signed ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Middle {
    /// The median of all means of two of them, each with itself among them.
    pub value: f64,
    /// From ..
    pub low: f64,
    /// .. to.
    pub high: f64,
    /// How often such a range holds the middle of what the numbers are of, 0 to 1. No less than what was asked for, unless there are too few numbers: then
    /// the range is from the least to the greatest, and this is 0 of one number, 0.5 of two, 0.75 of three.
    pub confidence: f64,
}

impl Middle {
    /// Of these numbers, with so much `confidence`, 0 to 1; `None` if there are none, or some are no numbers. Takes memory and time as their square.
    pub fn of(numbers: &[f64], confidence: f64) -> Option<Self> {
        if numbers.is_empty() || numbers.iter().any(|number| !number.is_finite()) {
            return None;
        }
        let mut means = Vec::with_capacity(numbers.len() * (numbers.len() + 1) / 2);
        for (at, one) in numbers.iter().enumerate() {
            let others = numbers[at..].iter();
            means.extend(others.map(|other| f64::midpoint(*one, *other)));
        }
        means.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
        let (beyond, missed) = rank_beyond(numbers.len(), tail);
        Some(Self {
            low: means[beyond],
            high: means[means.len() - 1 - beyond],
            confidence: 1.0 - 2.0 * missed,
            value: median(means)?,
        })
    }
}

/// What the runs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The second takes longer, by no less than what counts.
    Slower,
    /// The second takes less, by no less than what counts.
    Faster,
    /// If there is a difference, it is less than what counts.
    Same,
    /// More runs are needed.
    Open,
}

/// Runs of two things by turns.
///
/// The two runs of a pair follow each other, so that what changes slowly falls on both, and which comes first is drawn. Of pairs the ratio counts, by its
/// rank among the others (Wilcoxon's signed ranks), so that single runs that something held up do not carry it. Looks become rarer as pairs become more.
#[derive(Clone, Debug)]
pub struct Comparison {
    config: CompareConfig,
    random: fastrand::Rng,
    /// Logarithms of the second's over the first's.
    differences: Vec<f64>,
    pairs: Vec<(f64, f64)>,
    next_look: usize,
    finding: Finding,
}

impl Comparison {
    /// Nothing has run yet.
    pub fn new(config: CompareConfig) -> Self {
        Self {
            random: fastrand::Rng::with_seed(config.seed),
            config,
            differences: Vec::new(),
            pairs: Vec::new(),
            next_look: FIRST_LOOK,
            finding: Finding::Open,
        }
    }

    /// Whether the first is the first to run in the next pair.
    pub fn first_begins(&mut self) -> bool {
        self.random.bool()
    }

    /// Takes in what a pair took, in any unit. Pairs without a ratio are left out: returns whether this one counts.
    pub fn record(&mut self, first: f64, second: f64) -> bool {
        let difference = (second / first).ln();
        let counts = first > 0.0 && second > 0.0 && difference.is_finite();
        if counts {
            self.pairs.push((first, second));
            self.differences.push(difference);
        }
        counts
    }

    /// What the pairs say, looked at as rarely as it must be.
    pub fn finding(&mut self) -> Finding {
        let pairs = self.differences.len();
        if self.finding == Finding::Open && (pairs >= self.next_look || self.is_over()) {
            self.next_look = (pairs as f64 * LOOK_GROWTH).ceil() as usize;
            self.finding = self.look();
        }
        self.finding
    }

    /// Whether there have been as many pairs as there may be.
    pub fn is_over(&self) -> bool {
        self.differences.len() >= self.config.most_pairs
    }

    fn look(&self) -> Finding {
        let (Some(sure), Some(equal)) = (self.effect(SURE), self.effect(EQUAL)) else {
            return Finding::Open;
        };
        let most = 1.0 + self.config.least;
        if equal.high < most && equal.low > 1.0 / most {
            Finding::Same
        } else if sure.low > 1.0 && sure.ratio >= most {
            Finding::Slower
        } else if sure.high < 1.0 && sure.ratio <= 1.0 / most {
            Finding::Faster
        } else {
            Finding::Open
        }
    }

    /// How many times as long the second takes, with so much `confidence`, 0 to 1; `None` before there are pairs enough.
    pub fn effect(&self, confidence: f64) -> Option<Effect> {
        if self.differences.len() < FIRST_LOOK {
            return None;
        }
        let middle = Middle::of(&self.differences, confidence)?;
        Some(Effect {
            ratio: middle.value.exp(),
            low: middle.low.exp(),
            high: middle.high.exp(),
            confidence,
        })
    }

    /// What each pair took, in the order of their runs.
    pub fn pairs(&self) -> &[(f64, f64)] {
        &self.pairs
    }

    /// The medians of the first and of the second; `None` before there is a pair.
    pub fn medians(&self) -> Option<(f64, f64)> {
        let of = |pick: fn(&(f64, f64)) -> f64| median(self.pairs.iter().map(pick).collect());
        of(|pair| pair.0).zip(of(|pair| pair.1))
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len().cmp(&0), values.len() % 2) {
        (Ordering::Equal, _) => None,
        (_, 0) => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
}

/// The largest number of means that may lie beyond the limit of an interval of so many `pairs` so that the difference lies
/// beyond it with a probability of no more than `tail`, and that probability. With too few pairs for that it is none, and more.
fn rank_beyond(pairs: usize, tail: f64) -> (usize, f64) {
    let all = pairs * (pairs + 1) / 2;
    if pairs > MOST_EXACT {
        let n = pairs as f64;
        let mean = n * (n + 1.0) / 4.0;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let beyond = mean - normal_quantile(1.0 - tail) * deviation - 0.5;
        return (beyond.max(0.0).floor() as usize, tail);
    }
    // How probable each sum of ranks is where every sign is as likely as the other.
    let mut probable = vec![0.0_f64; all + 1];
    probable[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..=all).rev() {
            let with = if sum >= rank {
                probable[sum - rank]
            } else {
                0.0
            };
            probable[sum] = f64::midpoint(probable[sum], with);
        }
    }
    // As many means as the sum are below the difference: with none it is below all of them.
    let mut found = (0, probable[0]);
    let mut below = probable[0];
    for (sum, share) in probable.iter().enumerate().take(all.div_ceil(2)).skip(1) {
        below += share;
        if below > tail {
            break;
        }
        found = (sum, below);
    }
    found
}

/// The normal distribution's quantile, exact to 1 in 2000 (Abramowitz and Stegun, 26.2.23).
fn normal_quantile(probability: f64) -> f64 {
    let tail = (1.0 - probability).clamp(1e-12, 0.5);
    let t = (-2.0 * tail.ln()).sqrt();
    let over = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let under = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - over / under
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Noise {
        /// Of so much, as a share.
        Even(f64),
        /// One run in ten takes half as long again.
        HeldUp,
        /// The machine becomes slower by a half, and faster again, in the course of some hundred runs.
        Drifting,
    }

    fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    /// What comes of runs of which the second takes `ratio` times as long, and after how many pairs.
    fn compare(seed: u64, ratio: f64, noise: Noise) -> (Finding, usize) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut comparison = Comparison::new(CompareConfig {
            seed,
            ..CompareConfig::default()
        });
        let mut runs = 0;
        while comparison.finding() == Finding::Open && !comparison.is_over() {
            let mut run = |takes: f64| {
                runs += 1;
                takes
                    * match noise {
                        Noise::Even(share) => (share * normal(&mut random)).exp(),
                        Noise::HeldUp => {
                            let held_up = if random.f64() < 0.1 { 1.5 } else { 1.0 };
                            held_up * (0.02 * normal(&mut random)).exp()
                        }
                        Noise::Drifting => {
                            let drift = 1.25 + 0.25 * (f64::from(runs) / 20.0).sin();
                            drift * (0.02 * normal(&mut random)).exp()
                        }
                    }
            };
            let (first, second) = if comparison.first_begins() {
                let first = run(10.0);
                (first, run(10.0 * ratio))
            } else {
                let second = run(10.0 * ratio);
                (run(10.0), second)
            };
            assert!(comparison.record(first, second));
        }
        (comparison.finding(), comparison.pairs().len())
    }

    #[test]
    fn three_per_cent_are_told_from_nothing_under_every_noise() {
        for noise in [
            Noise::Even(0.005),
            Noise::Even(0.03),
            Noise::Even(0.05),
            Noise::HeldUp,
            Noise::Drifting,
        ] {
            for (ratio, right) in [
                (1.0, Finding::Same),
                (1.03, Finding::Slower),
                (1.0 / 1.03, Finding::Faster),
            ] {
                let found: Vec<_> = (0..200).map(|seed| compare(seed, ratio, noise)).collect();
                let is_right = |found: &&(Finding, usize)| found.0 == right;
                let count = found.iter().filter(is_right).count();
                assert!(count >= 190, "{noise:?}, {ratio}: {count} of 200");
            }
        }
    }

    #[test]
    fn an_interval_holds_the_truth_as_often_as_it_says() {
        for pairs in [12, 40, 90] {
            let mut inside = 0;
            for seed in 0..1000 {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut comparison = Comparison::new(CompareConfig::default());
                for _ in 0..pairs {
                    let mut run = |mean: f64| mean * (0.05 * normal(&mut random)).exp();
                    comparison.record(run(3.0), run(3.3));
                }
                let effect = comparison.effect(0.9).expect("pairs enough");
                inside += u32::from(effect.low <= 1.1 && 1.1 <= effect.high);
            }
            assert!((870..=940).contains(&inside), "{pairs} pairs: {inside}");
        }
    }

    #[test]
    fn counted_out_ranks_and_the_normal_distribution_agree() {
        // Tables of Wilcoxon's test: of 20 pairs, 52 on either side at 5 %; of 12, 13.
        assert_eq!(rank_beyond(20, 0.025).0, 52);
        assert_eq!(rank_beyond(12, 0.025).0, 13);
        let exact = rank_beyond(MOST_EXACT, 0.001).0 as f64;
        let normal = rank_beyond(MOST_EXACT + 1, 0.001).0 as f64;
        assert!((normal / exact - 1.0).abs() < 0.1, "{exact} and {normal}");
    }

    #[test]
    fn the_middle_of_few_numbers_is_as_sure_as_they_are_many() {
        let of = |numbers: &[f64]| Middle::of(numbers, 0.95).expect("a middle");
        let few = of(&[2.0, 1.0, 9.0]);
        // Means: 1, 1.5, 2, 5, 5.5 and 9.
        assert_eq!((few.value, few.low, few.high), (3.5, 1.0, 9.0));
        for (numbers, confidence) in [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375)] {
            let middle = of(&vec![4.0; numbers]);
            assert_eq!((middle.value, middle.low, middle.high), (4.0, 4.0, 4.0));
            assert!((middle.confidence - confidence).abs() < 1e-9, "{middle:?}");
        }
        // One far off of fourteen does not carry it; it would of five.
        let far = [-9.0, 1.0, 1.1, 0.9, 1.2];
        let near = far[1..].iter().cycle().take(9);
        let numbers: Vec<f64> = far.iter().chain(near).copied().collect();
        assert!(of(&far).low < 0.0 && of(&numbers).low > 0.0);
        assert!(of(&numbers).confidence >= 0.95);
        assert!(Middle::of(&[], 0.95).is_none() && Middle::of(&[1.0, f64::NAN], 0.95).is_none());
    }

    /// Of five numbers as well as of ninety: what is said of few of them is what ranks make of all signs.
    #[test]
    fn a_middle_is_missed_no_more_often_than_it_says() {
        for count in [3, 5, 7, 15] {
            let mut inside = 0;
            let mut said = 0.0;
            for seed in 0..4000 {
                let mut random = fastrand::Rng::with_seed(seed);
                let numbers: Vec<f64> = (0..count).map(|_| 5.0 + normal(&mut random)).collect();
                let middle = Middle::of(&numbers, 0.95).expect("a middle");
                said = middle.confidence;
                inside += u32::from(middle.low <= 5.0 && 5.0 <= middle.high);
            }
            let share = f64::from(inside) / 4000.0;
            assert!((share - said).abs() < 0.02, "{count}: {share} and {said}");
        }
    }

    #[test]
    fn what_is_no_time_does_not_count() {
        let mut comparison = Comparison::new(CompareConfig::default());
        for (first, second) in [
            (0.0, 1.0),
            (1.0, 0.0),
            (-1.0, -1.0),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
        ] {
            assert!(!comparison.record(first, second), "{first} and {second}");
        }
        assert!(comparison.effect(0.9).is_none() && comparison.medians().is_none());
        assert!(comparison.record(2.0, 3.0));
        assert_eq!(comparison.medians(), Some((2.0, 3.0)));
        assert_eq!(comparison.finding(), Finding::Open);
    }
}
