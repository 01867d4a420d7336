//! The budget of codec time: a token bucket of nanoseconds, filled at the rate the guard decides.

use core::fmt;
use core::time::Duration;

use super::load::Processors;
use crate::units::{Time, saturating_nanos};

/// Codec time granted for each second of real time, in nanoseconds: 1 000 000 000 is one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetRate(u64);

impl BudgetRate {
    /// No codec time at all.
    pub const ZERO: Self = Self(0);

    /// `nanos` of codec time a second.
    pub const fn from_nanos_per_sec(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The `share` of `processors`, clamped to 0..=1; what is not a number grants nothing.
    pub fn from_share(share: f64, processors: Processors) -> Self {
        // `clamp` keeps NaN, and `as` turns it into zero.
        Self((share.clamp(0.0, 1.0) * processors.get() * 1e9) as u64)
    }

    /// Nanoseconds of codec time a second.
    pub const fn as_nanos_per_sec(self) -> u64 {
        self.0
    }

    /// So much of it.
    pub(super) fn scaled(self, share: f64) -> Self {
        Self((self.0 as f64 * share) as u64)
    }
}

impl fmt::Display for BudgetRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} processors", self.0 as f64 * 1e-9)
    }
}

/// A token bucket of codec time.
///
/// It fills at its rate up to a *burst*, the rate times [`CodecBudget::BURST_WINDOW`]. Whoever finds
/// a positive balance may run one block, whatever it costs: the balance may go negative, and the
/// debt is paid from what comes in before anyone runs again. So, in any window of `w` seconds, the
/// time spent is at most `rate * w + burst + one block`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecBudget {
    state: State,
}

/// ```text
///             set_rate            set_unlimited
/// Unlimited ----------> Limited ----------------> Unlimited
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Unlimited,
    Limited(Bucket),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Bucket {
    rate: BudgetRate,
    /// In billionths of a nanosecond, so that filling is exact in integers. Below zero: a debt.
    balance: i128,
    filled_at: Time,
}

/// Parts of the balance in a nanosecond: the rate is a second's, time comes in nanoseconds.
const PARTS: i128 = 1_000_000_000;

impl CodecBudget {
    /// How much of an unused budget is kept: 2 ms of it. A window of 20 ms, the span in which codec
    /// time must keep to the budget (decisions.md), then sees a tenth more than its share at most,
    /// besides the block that goes into debt.
    pub const BURST_WINDOW: Duration = Duration::from_millis(2);

    /// A budget without a limit.
    pub const fn unlimited() -> Self {
        Self {
            state: State::Unlimited,
        }
    }

    /// A budget of `rate`, empty at `now`.
    pub const fn limited(now: Time, rate: BudgetRate) -> Self {
        Self {
            state: State::Limited(Bucket {
                rate,
                balance: 0,
                filled_at: now,
            }),
        }
    }

    /// The rate at which it fills, or `None` if there is no limit.
    pub const fn rate(&self) -> Option<BudgetRate> {
        match &self.state {
            State::Unlimited => None,
            State::Limited(bucket) => Some(bucket.rate),
        }
    }

    /// Fills at `rate` from `now` on. What was earned so far stays, up to the new burst; so does a
    /// debt. A budget that had no limit starts empty.
    pub fn set_rate(&mut self, now: Time, rate: BudgetRate) {
        match &mut self.state {
            State::Unlimited => *self = Self::limited(now, rate),
            State::Limited(bucket) => {
                bucket.fill(now);
                bucket.rate = rate;
                bucket.balance = bucket.balance.min(bucket.burst());
            }
        }
    }

    /// Takes the limit away, and forgets a debt.
    pub fn set_unlimited(&mut self) {
        self.state = State::Unlimited;
    }

    /// The codec time that may be used now: zero in debt, [`Duration::MAX`] without a limit.
    pub fn available(&mut self, now: Time) -> Duration {
        match &mut self.state {
            State::Unlimited => Duration::MAX,
            State::Limited(bucket) => {
                bucket.fill(now);
                nanos(bucket.balance)
            }
        }
    }

    /// How much of what it may hold is there: 1 is full, or without a limit; 0 is nothing, or debt.
    pub fn fullness(&mut self, now: Time) -> f64 {
        match &mut self.state {
            State::Unlimited => 1.0,
            State::Limited(bucket) => {
                bucket.fill(now);
                let fullness = bucket.balance as f64 / bucket.burst() as f64;
                // No burst at all makes a full bucket of an empty one.
                if bucket.burst() == 0 {
                    0.0
                } else {
                    fullness.clamp(0.0, 1.0)
                }
            }
        }
    }

    /// The codec time owed: zero unless in debt.
    pub fn debt(&mut self, now: Time) -> Duration {
        match &mut self.state {
            State::Unlimited => Duration::ZERO,
            State::Limited(bucket) => {
                bucket.fill(now);
                nanos(bucket.balance.saturating_neg())
            }
        }
    }

    /// Takes `cost` if anything at all is available, going into debt by the rest; says whether.
    #[must_use = "if false, nothing was taken"]
    pub fn try_spend(&mut self, now: Time, cost: Duration) -> bool {
        let granted = !self.available(now).is_zero();
        if granted {
            self.spend(now, cost);
        }
        granted
    }

    /// Takes `cost`, which has been used already (a block whose time was measured, a decode that
    /// could not be put off), going into debt if need be.
    pub fn spend(&mut self, now: Time, cost: Duration) {
        if let State::Limited(bucket) = &mut self.state {
            bucket.fill(now);
            let cost = i128::try_from(cost.as_nanos()).unwrap_or(i128::MAX);
            bucket.balance = bucket.balance.saturating_sub(cost.saturating_mul(PARTS));
        }
    }
}

/// What one block may take of a limited budget beyond what has been saved, as time at the budget's rate,
/// ns: a tenth of the 20 ms in which codec time is to keep to it.
const MAX_OVERDRAFT_NANOS: f64 = 2e6;

/// The processor time that one block may take of `budget`: what is saved and a little more, so that no
/// window of 20 ms sees much more than its share, ns. `None` without a limit, or with one of a
/// processor and more, which one block at a time cannot exceed.
pub(crate) fn affordable_nanos(budget: &mut CodecBudget, now: Time) -> Option<f64> {
    let rate = budget.rate()?.as_nanos_per_sec() as f64 * 1e-9;
    let saved = budget.available(now).as_nanos() as f64;
    (rate < 1.0).then_some(saved + MAX_OVERDRAFT_NANOS * rate)
}

impl Bucket {
    fn burst(&self) -> i128 {
        i128::from(self.rate.0) * i128::from(saturating_nanos(CodecBudget::BURST_WINDOW))
    }

    fn fill(&mut self, now: Time) {
        // Callers on several threads may bring their times slightly out of order: those earn nothing,
        // and must not let the same time be earned twice. Anything further back is a clock that
        // jumped, and waiting until it catches up could take for ever.
        let stale = self.filled_at.saturating_since(now);
        if !stale.is_zero() {
            if stale > CodecBudget::BURST_WINDOW {
                self.filled_at = now;
            }
            return;
        }
        let elapsed = i128::from(saturating_nanos(now.saturating_since(self.filled_at)));
        self.filled_at = now;
        // Neither factor is above 2^64, hence no overflow.
        let earned = i128::from(self.rate.0).saturating_mul(elapsed);
        self.balance = self.balance.saturating_add(earned).min(self.burst());
    }
}

/// A balance as whole nanoseconds, zero if negative.
fn nanos(balance: i128) -> Duration {
    let nanos = balance.max(0) / PARTS;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn at_millis(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn half_a_processor() -> BudgetRate {
        BudgetRate::from_share(0.5, Processors::ONE)
    }

    #[test]
    fn an_idle_budget_fills_up_to_the_burst() {
        let mut budget = CodecBudget::limited(at_millis(0), half_a_processor());
        assert_eq!(budget.available(at_millis(0)), Duration::ZERO);
        assert_eq!(budget.available(at_millis(2)), MILLI);
        assert_eq!(budget.available(at_millis(1000)), MILLI);
        assert!((budget.fullness(at_millis(1000)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_block_may_go_into_debt_and_the_debt_is_repaid() {
        let mut budget = CodecBudget::limited(at_millis(0), half_a_processor());
        assert!(!budget.try_spend(at_millis(0), MILLI));
        assert!(budget.try_spend(at_millis(2), 6 * MILLI));
        assert_eq!(budget.debt(at_millis(2)), 5 * MILLI);
        assert!(!budget.try_spend(at_millis(12), MILLI));
        assert_eq!(budget.debt(at_millis(12)), Duration::ZERO);
        assert!(budget.try_spend(at_millis(14), MILLI));
    }

    #[test]
    fn a_lower_rate_takes_savings_and_keeps_debts() {
        let mut budget = CodecBudget::limited(at_millis(0), half_a_processor());
        budget.set_rate(at_millis(100), BudgetRate::ZERO);
        assert_eq!(budget.available(at_millis(200)), Duration::ZERO);
        budget.spend(at_millis(200), 5 * MILLI);
        budget.set_rate(at_millis(300), half_a_processor());
        assert_eq!(budget.debt(at_millis(300)), 5 * MILLI);
        assert_eq!(budget.available(at_millis(312)), MILLI);
    }

    #[test]
    fn without_a_limit_everything_is_granted() {
        let mut budget = CodecBudget::unlimited();
        assert!(budget.try_spend(Time::ZERO, Duration::MAX));
        assert_eq!(budget.available(Time::ZERO), Duration::MAX);
        assert_eq!(budget.rate(), None);
        budget.set_rate(at_millis(5), half_a_processor());
        assert_eq!(budget.available(at_millis(5)), Duration::ZERO);
        budget.set_unlimited();
        assert_eq!(budget, CodecBudget::unlimited());
    }

    #[test]
    fn a_clock_that_jumps_earns_at_most_a_burst() {
        let mut budget = CodecBudget::limited(at_millis(1000), half_a_processor());
        assert_eq!(budget.available(at_millis(999)), Duration::ZERO);
        assert_eq!(budget.available(at_millis(1000)), Duration::ZERO);
        assert_eq!(budget.available(at_millis(0)), Duration::ZERO);
        assert_eq!(budget.available(at_millis(2)), MILLI);
        assert_eq!(budget.available(Time::from_nanos(u64::MAX)), MILLI);
        budget.spend(Time::from_nanos(u64::MAX), Duration::MAX);
        assert!(budget.debt(Time::from_nanos(u64::MAX)) > Duration::from_secs(1));
    }

    #[test]
    fn shares_that_make_no_sense_grant_nothing_too_much() {
        assert_eq!(
            BudgetRate::from_share(f64::NAN, Processors::ONE),
            BudgetRate::ZERO
        );
        assert_eq!(
            BudgetRate::from_share(7.0, Processors::ONE).as_nanos_per_sec(),
            1_000_000_000
        );
    }

    proptest! {
        #[test]
        fn over_any_window_no_more_is_spent_than_rate_burst_and_one_block(
            rate in 0_u64..64_000_000_000,
            steps in proptest::collection::vec((0_u64..30_000_000, 0_u64..20_000_000), 1..60),
        ) {
            let rate = BudgetRate::from_nanos_per_sec(rate);
            let mut budget = CodecBudget::limited(Time::ZERO, rate);
            let mut now = Time::ZERO;
            let mut spent: Vec<(Time, u64)> = Vec::new();
            for (wait, cost) in steps {
                now = now + Duration::from_nanos(wait);
                if budget.try_spend(now, Duration::from_nanos(cost)) {
                    spent.push((now, cost));
                }
            }
            let burst = rate.as_nanos_per_sec() as f64
                * CodecBudget::BURST_WINDOW.as_secs_f64();
            for first in 0..spent.len() {
                let mut sum = 0;
                let mut block = 0;
                for (at, cost) in &spent[first..] {
                    sum += cost;
                    block = block.max(*cost);
                    let window = at.saturating_since(spent[first].0).as_secs_f64();
                    let bound = rate.as_nanos_per_sec() as f64 * window + burst + block as f64;
                    prop_assert!(sum as f64 <= bound + 1.0, "{sum} > {bound}");
                }
            }
        }

        #[test]
        fn arbitrary_times_and_rates_never_panic(
            steps in proptest::collection::vec(any::<(u64, u64, u64)>(), 1..30)
        ) {
            let mut budget = CodecBudget::unlimited();
            for (nanos, rate, cost) in steps {
                let now = Time::from_nanos(nanos);
                budget.set_rate(now, BudgetRate::from_nanos_per_sec(rate));
                let _ = budget.try_spend(now, Duration::from_nanos(cost));
                budget.spend(now, Duration::from_nanos(cost));
                let _ = (budget.available(now), budget.debt(now));
            }
        }
    }
}
