//! What is known of codecs and the peer beyond one stream: shared by all streams of a connection,
//! and kept for the next connection to the same peer.

use core::time::Duration;

use super::budget::{BudgetRate, CodecBudget, affordable_nanos};
use super::estimate::DecodeEstimates;
use super::failures::Failures;
use super::link::{LinkEstimator, RttEstimator};
use super::policy::cost::{BlockClass, Model, Sample, Sent, Speed};
use super::spending::{Overhead, ShadowTime};
use super::texture::Texture;
use crate::codecs::{Arm, Length, Work, prior_encode_nanos, typical};
use crate::units::{Time, saturating_nanos};

/// What the arms have shown on all streams of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodecKnowledge {
    pub(crate) model: Model,
    pub(crate) speed: Speed,
    pub(crate) overhead: Overhead,
    pub(crate) shadow_time: ShadowTime,
    pub(crate) carried: Carried,
    pub(crate) failures: Failures,
}

/// Plain bytes that connections to a peer carry: what has lasted will last, and a new one goes on for as long as the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    now: u64,
    before: Option<u64>,
}

impl Carried {
    /// Another connection begins.
    const fn restart(&mut self) {
        if self.now > 0 {
            self.before = Some(self.now);
        }
        self.now = 0;
    }

    /// A block leaves.
    pub(crate) const fn on_block(&mut self, plain_len: usize) {
        self.now = self.now.saturating_add(plain_len as u64);
    }

    /// Plain bytes expected after a block of `plain_len`; `None` on a first connection that has carried nothing yet.
    pub(crate) fn after(&self, plain_len: usize) -> Option<u64> {
        let this = self.now.saturating_add(plain_len as u64);
        let left = self.before.map(|before| before.saturating_sub(this));
        left.max((self.now > 0).then_some(self.now))
    }
}

/// A shadow encode: what another arm made of a block that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadowed {
    pub(crate) arm: Arm,
    pub(crate) plain_len: usize,
    pub(crate) wire_len: usize,
    pub(crate) encode: Duration,
    pub(crate) decode: Option<Duration>,
}

impl CodecKnowledge {
    /// Another connection begins, perhaps by another clock.
    pub(crate) fn restart(&mut self, now: Time) {
        self.model.restart(now);
        self.overhead.restart();
        self.shadow_time.restart();
        self.carried.restart();
        self.failures.restart();
    }

    /// How long `arm` will likely take for a block.
    pub(crate) fn likely_encode(&self, arm: Arm, plain_len: usize, texture: Texture) -> Duration {
        let Some(row) = typical(arm) else {
            return Duration::from_nanos(prior_encode_nanos(arm, plain_len));
        };
        let class = BlockClass::of(plain_len, texture).of_arm(arm);
        let typical = row.at(Length::of(plain_len as f64));
        let nanos = self
            .model
            .likely_encode_nanos(class, arm, &typical, self.speed);
        Duration::from_nanos(nanos as u64)
    }

    /// Takes in a block that was sent, and says what its level was; of one that `is_paired` a shadow will say it.
    pub(crate) fn record_sent(&mut self, sample: &Sample, is_paired: bool) -> Option<f32> {
        self.speed.record(sample);
        let known = Some(&self.model).filter(|_| Speed::is_paced_by(sample));
        if let Some(expected) = known.and_then(|known| known.expected_factor(sample, self.speed)) {
            self.speed.record_pace(sample, expected);
        }
        self.model.record_sent(sample, is_paired, None, self.speed)
    }

    /// Takes in a block of `class` that went as it was: that it was one more is all that it shows.
    pub(crate) fn record_plain(&mut self, class: BlockClass) {
        self.model.record_plain(class);
    }

    /// Takes the same into a stream's own estimates.
    pub(crate) fn record_sent_into(&self, own: &mut Model, sample: &Sample, is_paired: bool) {
        own.record_sent(sample, is_paired, Some(&self.model), self.speed);
    }

    /// Takes in a shadow of a block of `class` that went out as `sent` says, for all streams and for
    /// its own one; returns the block's level.
    pub(crate) fn record_shadow(
        &mut self,
        own: Option<&mut Model>,
        now: Time,
        class: BlockClass,
        shadow: &Shadowed,
        sent: Sent,
    ) -> Option<f32> {
        let lens = (shadow.plain_len, shadow.wire_len);
        let encode_nanos = saturating_nanos(shadow.encode);
        let sample = Sample::new(now, shadow.arm, class, lens, encode_nanos)?
            .decoded(shadow.decode.map(saturating_nanos));
        self.speed.record(&sample);
        let level = self.model.record_shadow(&sample, sent, None, self.speed);
        if let Some(own) = own {
            own.record_shadow(&sample, sent, Some(&self.model), self.speed);
        }
        level
    }
}

/// What is known of the way to a peer and of its codecs. [`Session::knowledge`] gives it out, and the
/// next session with the same peer begins with it.
///
/// [`Session::knowledge`]: crate::session::Session::knowledge
#[derive(Clone, Debug, Default)]
pub struct PeerKnowledge {
    pub(crate) codecs: CodecKnowledge,
    pub(crate) decode: DecodeEstimates,
    pub(crate) link: LinkEstimator,
    pub(crate) rtt: RttEstimator,
}

impl PeerKnowledge {
    /// What of it holds for any peer with the same traffic: what the codecs make of the content, and
    /// how fast they are here. The way to this one and its processors are forgotten.
    #[must_use]
    pub fn without_peer(self) -> Self {
        Self {
            codecs: self.codecs,
            ..Self::default()
        }
    }
}

/// What processor time costs beyond the objective's price, while a budget is short: here for
/// encoding, at the peer for decoding. In nanoseconds of message time for each nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Prices {
    pub(crate) encode: f64,
    pub(crate) decode: f64,
}

impl Prices {
    /// What so much processor time costs.
    pub(crate) const fn of(self, work: Work) -> f64 {
        self.encode * work.encode_nanos + self.decode * work.decode_nanos
    }

    /// .. where each nanosecond costs so much more.
    pub(crate) const fn raised_by(self, more: f64) -> Self {
        Self {
            encode: more + self.encode,
            decode: more + self.decode,
        }
    }
}

/// The price of a budget: it rises while the budget runs dry and falls while it fills, until what
/// is bought is what there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BudgetPrice(f64);

/// Below this a price is none. Arbitrary: a hundredth of what the time itself counts for.
const LEAST_PRICE: f64 = 0.01;
/// No saving on any link is worth more than this for the same processor time.
/// Arbitrary: 1 µs of a codec against 100 ms of a message.
const MOST_PRICE: f64 = 1e5;
/// Growth of the logarithm for a block that finds the budget empty; as much the other way when full.
/// Arbitrary: tenfold within five blocks.
const PRICE_STEP: f64 = 0.5;

impl BudgetPrice {
    /// Takes in how full the budget is when a block comes.
    pub(crate) fn on_block(&mut self, fullness: f64) {
        if self.0 == 0.0 && fullness >= 0.5 {
            // It stays free.
            return;
        }
        let step = PRICE_STEP * (1.0 - 2.0 * fullness.clamp(0.0, 1.0));
        let price = self.0.max(LEAST_PRICE) * step.exp();
        self.0 = if price <= LEAST_PRICE {
            0.0
        } else {
            price.min(MOST_PRICE)
        };
    }

    pub(crate) const fn get(self) -> f64 {
        self.0
    }
}

/// The peer's codec budget as it last said, and what our blocks have cost of it.
#[derive(Debug)]
pub(crate) struct PeerBudget {
    budget: CodecBudget,
    price: BudgetPrice,
}

impl Default for PeerBudget {
    fn default() -> Self {
        Self {
            budget: CodecBudget::unlimited(),
            price: BudgetPrice::default(),
        }
    }
}

/// What is spent of what the peer grants: what blocks take there is known by its reports alone, and they do not come evenly. Arbitrary.
const SPENT_SHARE: f64 = 0.95;
/// A hundredth of a processor. Arbitrary.
const LEAST_RATE: BudgetRate = BudgetRate::from_nanos_per_sec(10_000_000);

impl PeerBudget {
    /// The peer grants decoding at a rate; `None` if it has no limit.
    pub(crate) fn set(&mut self, now: Time, rate: Option<BudgetRate>) {
        match rate {
            Some(rate) => self.budget.set_rate(now, rate.scaled(SPENT_SHARE)),
            None => self.budget.set_unlimited(),
        }
    }

    /// A block was sent that takes the peer so long to decode.
    pub(crate) fn on_block(&mut self, now: Time, decode_nanos: f64) {
        self.price.on_block(self.budget.fullness(now));
        self.budget
            .spend(now, Duration::from_nanos(decode_nanos as u64));
    }

    pub(crate) const fn price(&self) -> f64 {
        self.price.get()
    }

    /// Whether the peer grants codecs as good as nothing.
    pub(crate) fn is_none(&self) -> bool {
        self.budget.rate().is_some_and(|rate| rate < LEAST_RATE)
    }

    /// What one block may take of it, ns; `None` without a limit.
    pub(crate) fn affordable_nanos(&mut self, now: Time) -> Option<f64> {
        affordable_nanos(&mut self.budget, now)
    }
}
