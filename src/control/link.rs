//! The path to the peer: round trip, rate at which the socket takes bytes, rate of the link.

use core::time::Duration;

use super::doubt::{Doubt, SHOWN_BY_BLOCKS};
use super::estimate::CostEstimator;
use super::floor::Floor;
use crate::units::{BytesPerSec, Time, saturating_nanos};

/// Weight of a new round trip in the smoothed one (RFC 6298).
const RTT_GAIN: f64 = 1.0 / 8.0;
/// How long a minimum stays: long enough to meet an empty queue, short enough to follow a changed
/// route. Arbitrary; BBR uses the same.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Weight of a new rate sample; three samples carry most of the weight.
const RATE_GAIN: f64 = 0.3;

/// Round trip times from probes and acknowledgements, the peer's own delay subtracted.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    smoothed: Option<f64>,
    current_min: Option<(Time, Duration)>,
    previous_min: Option<Duration>,
}

impl RttEstimator {
    /// Takes in a round trip.
    pub fn record(&mut self, now: Time, rtt: Duration) {
        let nanos = saturating_nanos(rtt) as f64;
        self.smoothed = Some(
            self.smoothed
                .map_or(nanos, |old| old + RTT_GAIN * (nanos - old)),
        );
        self.record_min(now, rtt);
    }

    /// Keeps what is known, as if it had been measured at `now`: on a clock that may be another.
    pub fn restart(&mut self, now: Time) {
        self.current_min = self.min().map(|min| (now, min));
        self.previous_min = None;
    }

    /// Takes in that something was there and back within `rtt`, perhaps after it had waited for its turn: the least is no longer.
    pub fn record_at_most(&mut self, now: Time, rtt: Duration) {
        if self.min().is_some_and(|min| rtt < min) {
            self.record_min(now, rtt);
        }
    }

    fn record_min(&mut self, now: Time, rtt: Duration) {
        match &mut self.current_min {
            Some((since, min)) if now.saturating_since(*since) < MIN_RTT_WINDOW => {
                *min = (*min).min(rtt);
            }
            current => self.previous_min = current.replace((now, rtt)).map(|(_, min)| min),
        }
    }

    /// The smoothed round trip, queueing included; `None` before the first.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
            .map(|nanos| Duration::from_nanos(nanos as u64))
    }

    /// The shortest round trip of the last 10 to 20 seconds: propagation without queueing.
    pub fn min(&self) -> Option<Duration> {
        let current = self.current_min.map(|(_, min)| min);
        match (current, self.previous_min) {
            (Some(current), Some(previous)) => Some(current.min(previous)),
            (current, previous) => current.or(previous),
        }
    }
}

/// How well the link was supplied with bytes while it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fed {
    /// It was idle in between: the rate is the application's.
    Idle,
    /// Something was always under way, perhaps not enough: the rate is a lower bound.
    Overlapping,
    /// Messages waited, and yet the link ran dry, or the receiver was behind it all the time: one of the
    /// ends is the bottleneck, and the link faster.
    EndBound,
    /// More waited all the time: the rate is the link's.
    Backlogged,
}

impl Fed {
    /// The worse supplied of the two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.min(other)
    }
}

/// What is known of a link's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkRate {
    /// Nothing yet.
    Unknown,
    /// The link was never seen busy; so much has passed.
    AtLeast(BytesPerSec),
    /// Measured.
    About(BytesPerSec),
}

/// How little may be taken for granted of a link whose rate is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Caution {
    /// What goes out is no more than may be sent ahead of acknowledgements: it is soon known better.
    #[default]
    None,
    /// Several blocks go out of what waited, and no connection before has shown much.
    Flight,
}

/// The rate at which the socket takes bytes, and that of the link behind it.
#[derive(Clone, Debug)]
pub struct LinkEstimator {
    send_rate: Option<f64>,
    busy_rate: Option<f64>,
    /// How long the link was busy while that was measured.
    busy_time: Duration,
    lower_bound: Option<f64>,
    passage: Option<Passage>,
    floor: Floor,
    lone: CostEstimator,
    /// The rate that they last showed: once compressed, blocks may be too much alike to show it again.
    lone_rate: Option<f64>,
    /// Lone flights in a row that were far off the line.
    outliers: u32,
    /// One-way times of lone flights, for their minimum.
    one_way: RttEstimator,
    /// What it is taken for while nothing better is known.
    assumed: f64,
    /// Wire bytes of blocks that were acknowledged.
    carried: u64,
    /// What passed of late, bytes per second; halved every [`PASSING_HALF_LIFE`].
    passing: f64,
    /// What the last lone flight showed that was long on the link.
    slow_flight: Option<f64>,
    /// Falling rates are hardly believed: they may be the peer's, short of processor time.
    distrust_falls: bool,
    /// News that an end was the bottleneck since the rate was last raised for it, and how much of it
    /// there must be: more each time that the link showed it had been raised in vain.
    news: u32,
    news_needed: u32,
    /// Whether it was raised since the link last showed its rate.
    raised: bool,
    early: Early,
    doubt: Doubt,
}

/// The fastest of single blocks, and the rate that it has shown at least: nearer to the truth or too much, as the least round trip is known.
#[derive(Clone, Copy, Debug)]
struct Passage {
    bytes: usize,
    rtt: Duration,
    /// Bytes per second; less the older it is.
    shown: f64,
    /// Whether it took no longer than the least round trip, as far as that can be told: then this is only what is surely passed.
    is_unseen: bool,
}

impl Passage {
    /// `None` if nothing passed.
    fn new(bytes: usize, rtt: Duration, rtt_min: Duration) -> Option<Self> {
        Some(Self {
            bytes,
            rtt,
            shown: rate_of(beyond_least(bytes as u64), time_on_link(rtt, rtt_min))?,
            is_unseen: rtt.saturating_sub(rtt_min) <= rtt_min / UNSEEN,
        })
    }

    /// The rate that a link probably has over which it took no time: more where all goes back and forth faster.
    fn likely(&self) -> f64 {
        let most = rate_of(UNDER_WAY, self.rtt).unwrap_or(0.0);
        beyond(self.shown, most.min(MEMORY))
    }

    /// No more than it shows where the least round trip is `rtt_min`.
    fn with(self, rtt_min: Duration) -> Self {
        Self::new(self.bytes, self.rtt, rtt_min).map_or(self, |this| Self {
            shown: this.shown.min(self.shown),
            ..this
        })
    }
}

/// Of the bytes of a block, those that its round trip has on the link and the least one has not: what it took longer is theirs alone.
fn beyond_least(bytes: u64) -> u64 {
    bytes.saturating_sub(LEAST_ROUND).max(bytes / BEYOND_LEAST)
}

/// How long a block was on the link at most that was acknowledged after `rtt`.
fn time_on_link(rtt: Duration, rtt_min: Duration) -> Duration {
    rtt.saturating_sub(rtt_min).max(rtt_min / LEAST_PASSAGE)
}

/// What passed a busy link before its rate was known.
#[derive(Clone, Copy, Debug, Default)]
struct Early {
    bytes: f64,
    span: Duration,
    /// How often a rate was shown.
    shown: u32,
}

impl Early {
    fn add(&mut self, rate: f64, span: Duration) {
        self.bytes += rate * span.as_secs_f64();
        self.span += span;
        self.shown += 1;
    }

    /// Bytes per second; 0 if nothing has passed.
    fn rate(&self) -> f64 {
        self.bytes / self.span.as_secs_f64().max(1e-9)
    }
}

impl Default for LinkEstimator {
    fn default() -> Self {
        Self {
            send_rate: None,
            busy_rate: None,
            busy_time: Duration::ZERO,
            lower_bound: None,
            passage: None,
            floor: Floor::default(),
            lone: CostEstimator::default(),
            lone_rate: None,
            outliers: 0,
            one_way: RttEstimator::default(),
            assumed: ASSUMED,
            carried: 0,
            passing: 0.0,
            slow_flight: None,
            distrust_falls: false,
            news: 0,
            news_needed: 1,
            raised: false,
            early: Early::default(),
            doubt: Doubt::default(),
        }
    }
}

/// What a link is taken for before anything is known of it, bytes per second: 1 Gbit/s. Arbitrary:
/// slow enough that cheap codecs pay, so that a slow link is not filled with plain bytes before it
/// shows itself.
const ASSUMED: f64 = 125e6;
/// .. at most while several blocks go out and no connection before has shown much: 400 Mbit/s before anything has passed ..
const FLIGHT_RATE: f64 = 50e6;
/// .. and then so many times what has passed. Of 25 to 125 MB/s, and 2 to any times, these lose least on slow links and fast ones
/// together (docs/benchmarks.md, "A first connection").
const FLIGHT_BEYOND: f64 = 4.0;
/// Growth of the assumed rate with each round trip that finds the codec to be the bottleneck.
const GROWTH: f64 = 2.0;
/// .. up to so many times what has passed. Arbitrary: beyond the ratio of most codecs.
const MOST_BEYOND: f64 = 20.0;
/// Growth of a measured rate likewise, if the link is fast and the acknowledgement covers a span so
/// long that it would show one that is any slower than the codec ..
const RISE: f64 = 1.25;
/// .. on a link that is taken for faster than `FAST`, bytes per second: there it is the ends that are slow, mostly,
/// and little comes between two acknowledgements. Arbitrary.
const FAST_RISE: f64 = 2.0;
const FAST: f64 = 375e6;
const CLEAR_SPAN: Duration = Duration::from_millis(1);
/// News of which so much may be needed for a rise. Arbitrary.
const MOST_NEWS: u32 = 16;
/// .. or if the codec fills this share of what the link is taken for, and yet the link runs dry.
/// Not above 1 / `RISE`, or what is known could run away from a link that is slower.
const FILLED: f64 = 0.8;
/// Faster than any link; memory to memory.
const MOST_ASSUMED: f64 = 100e9;
/// What a socket of this machine passes at best, bytes per second: between this and what has passed lies the rate of a fast link
/// that was never seen busy.
const MEMORY: f64 = 10e9;
/// A first rate is known after so long under backlog; after twice that if more has passed before by [`FAR`] ([`FIRST_SHOWN`]); and after so
/// long on a link that is [`FAST`]: there it is the ends that are slow, mostly, and it makes little difference. Arbitrary.
const FIRST_SPAN: Duration = CLEAR_SPAN;
const FIRST_FAST_SPAN: Duration = Duration::from_millis(16);
/// .. where more has passed before, the rate must show so many times with nothing faster in between, or over so long: somebody else may have had
/// the processors once, which takes milliseconds. Arbitrary.
const FIRST_SHOWN: u32 = 2;
const BEYOND_STALLS: Duration = Duration::from_millis(20);
/// What a lower bound loses with each sample below it, so that it does not outlive its link.
const BOUND_DECAY: f64 = 0.98;
/// Lone blocks from which on their slope is trusted. Arbitrary.
const MIN_LONE: f64 = 6.0;
/// Share of their variation that it must explain, so that queueing is not taken for a rate. Arbitrary.
const MIN_EXPLAINED: f64 = 0.5;
/// A block's time on the link is not known better than to this part of the round trip.
const LEAST_PASSAGE: u32 = 10;
/// Bytes that are on the link in the least round trip, too: a probe and its reply, less an acknowledgement. Some tens, by what they report; arbitrary above those.
const LEAST_ROUND: u64 = 64;
/// .. and of shorter blocks this part is more than those. Arbitrary.
const BEYOND_LEAST: u64 = 5;
/// No more bytes are taken to be under way within a least round trip where nothing is known: what links as short as that are built for. Arbitrary.
const UNDER_WAY: u64 = 64 << 10;
/// .. and what schedulers make of one may be this part of it. Arbitrary.
const UNSEEN: u32 = 3;
/// Time on the link from which on a lone flight shows the rate by itself. Arbitrary: above what
/// timers and schedulers add.
const CLEAR_SERIALISATION: Duration = Duration::from_millis(3);
/// A rate from lone flights that is so close to what has passed at least is not refuted by it.
const SAME: f64 = 0.8;
/// A lone flight is off the line if it is off by so many standard deviations ..
const OUTLIER: f64 = 3.0;
/// .. and by so much, ns: what the smallest packet's time on a fast link may vary by. Arbitrary.
const OUTLIER_NANOS: f64 = 5e3;
/// .. and by so many ns longer, more than wakes add, on what must be another link. Arbitrary.
const OTHER_LINK_NANOS: f64 = 200e3;
/// So many in a row are taken for chance.
const MAX_OUTLIERS: u32 = 4;
/// How long what passed counts as what can pass.
const PASSING_HALF_LIFE: Duration = Duration::from_millis(5);
/// Weight of a rate that falls while the peer is short of processor time.
const DISTRUST: f64 = 0.1;
/// A rate over this time counts fully; over less, what timers and schedulers do to it counts too.
const FULL_SAMPLE: Duration = Duration::from_millis(4);
const LEAST_WEIGHT: f64 = 0.05;
/// What links carry in one piece, mostly: an Ethernet frame's payload over TCP, bytes.
const PACKET: u64 = 1448;
/// A rate under backlog that is off by this factor is a changed link, and counts for more.
const CHANGE: f64 = 1.7;
/// .. and a passage that is faster by this one.
const FAR: f64 = 4.0;
/// Weight of such a sample.
const CHANGE_GAIN: f64 = 0.7;

impl LinkEstimator {
    /// Takes in that the socket took `bytes` within `time` (thesis definition 22).
    pub fn record_send(&mut self, bytes: u64, time: Duration) {
        if let Some(rate) = BytesPerSec::from_transfer(bytes, time) {
            smooth(&mut self.send_rate, rate.get());
        }
    }

    /// Takes in that `bytes` reached the peer within `time`, on a link that was `fed` meanwhile.
    pub fn record_delivery(&mut self, bytes: u64, time: Duration, fed: Fed) {
        let Some(rate) = rate_of(bytes, time) else {
            return;
        };
        if time >= CLEAR_SPAN {
            let passed = time.as_secs_f64() / PASSING_HALF_LIFE.as_secs_f64();
            let surely = rate_of(bytes.saturating_sub(PACKET), time).unwrap_or(0.0);
            self.passing = surely.max(self.passing * (-passed).exp2());
        }
        match fed {
            Fed::Idle => {}
            Fed::Overlapping | Fed::EndBound => {
                // What came while the receiver woke seems to have come at once.
                let surely = rate_of(bytes, time + self.floor.added()).unwrap_or(rate);
                self.lower_bound = Some(
                    self.lower_bound
                        .map_or(surely, |bound| surely.max(bound * BOUND_DECAY)),
                );
                if let Some(passage) = &mut self.passage {
                    passage.shown *= BOUND_DECAY;
                }
                let passed = self.in_packets(rate, bytes, time);
                self.raise(passed, time);
                if fed == Fed::EndBound {
                    // A link that is taken for slower than it is keeps the codec busy in vain, and
                    // would never show its rate: assume more until it does.
                    let most = (self.bound().unwrap_or(rate) * MOST_BEYOND).max(ASSUMED);
                    self.assumed = (self.assumed * GROWTH).min(most);
                    let clear = |known: &&mut f64| {
                        rate > FILLED * **known || (time >= CLEAR_SPAN && **known >= ASSUMED / 2.0)
                    };
                    if let Some(known) = self.busy_rate.as_mut().filter(clear) {
                        self.news += 1;
                        if self.news >= self.news_needed {
                            self.news = 0;
                            self.raised = true;
                            let rise = if *known > FAST { FAST_RISE } else { RISE };
                            *known = (*known * rise).min(MOST_ASSUMED);
                        }
                    }
                }
            }
            Fed::Backlogged => self.record_busy(self.in_packets(rate, bytes, time), time),
        }
    }

    /// The rate of `bytes` that passed within `time`; but no other than is known where packets explain it, which come at once: what
    /// begins in the last one of the bytes before seems to take no time, and what ends in one that others share waits for them.
    fn in_packets(&self, rate: f64, bytes: u64, time: Duration) -> f64 {
        let Some(known) = self.busy_rate else {
            return rate;
        };
        let least = rate_of(bytes.saturating_sub(PACKET), time).unwrap_or(0.0);
        let most = rate_of(bytes.saturating_add(PACKET), time).unwrap_or(rate);
        let nearest = known.clamp(least, most);
        if is_change(known, rate) && !is_change(known, nearest) {
            nearest
        } else {
            rate
        }
    }

    /// Something passed faster than the link is taken for: another link altogether, or the chance of a few microseconds.
    fn raise(&mut self, rate: f64, time: Duration) {
        if let Some(known) = self.busy_rate.filter(|known| rate > *known) {
            let weight = if rate > FAR * known {
                1.0
            } else {
                weight_of(time)
            };
            self.busy_rate = Some(known + RATE_GAIN * weight * (rate - known));
        }
    }

    /// Takes in the rate, measured over `time`, at which the path up to the next proxy is busy: the whole
    /// of it is no faster.
    pub fn record_first_hop(&mut self, rate: BytesPerSec, time: Duration) {
        let rate = rate.get().min(MOST_ASSUMED);
        if rate < self.likely_rate() {
            // Nor did what passed before pass now.
            self.passing = self.passing.min(rate);
            self.record_busy(rate, time);
        }
    }

    fn record_busy(&mut self, rate: f64, time: Duration) {
        // What passes has room to.
        let rate = rate.max(self.passing);
        let Some(known) = self.busy_rate else {
            // A first rate stands for long where little else shows one: not from a moment.
            self.early.add(rate, time);
            let Early { span, shown, .. } = self.early;
            let mean = self.early.rate();
            let is_known = match (mean > FAST, self.is_contradicted(mean)) {
                (true, _) => span >= FIRST_FAST_SPAN,
                (false, true) => {
                    span >= FIRST_SPAN * 2 && (shown >= FIRST_SHOWN || span >= BEYOND_STALLS)
                }
                (false, false) => span >= FIRST_SPAN,
            };
            if is_known {
                self.busy_rate = Some(mean);
                self.busy_time = span;
                self.doubt.on_rate(0.0, mean);
            }
            return;
        };
        if core::mem::take(&mut self.raised) && rate < known {
            self.news_needed = (self.news_needed * 2).min(MOST_NEWS);
        } else if rate > known {
            self.news_needed = 1;
        }
        let changed = is_change(known, rate);
        let distrusted = self.distrust_falls && rate < known;
        let trust = if distrusted { DISTRUST } else { 1.0 };
        let weight = weight_of(time) * trust;
        let gain = if changed { CHANGE_GAIN } else { RATE_GAIN };
        self.busy_time = self.busy_time.saturating_add(time);
        // What was measured within less time than this counts for less, too.
        let share = time.as_secs_f64() / self.busy_time.as_secs_f64();
        let gain = (gain * weight).max(share.min(CHANGE_GAIN) * trust);
        let now = known + gain * (rate - known);
        self.busy_rate = Some(now);
        self.doubt.on_rate(known, now);
        if changed && weight >= 1.0 {
            self.lower_bound = None;
            self.passage = None;
            self.floor = Floor::default();
            self.lone = CostEstimator::default();
            self.lone_rate = None;
        }
    }

    /// Whether the peer is short of processor time: then a rate that falls is its own doing, and to
    /// compress more would make it fall further.
    pub fn set_distrust_falls(&mut self, distrust: bool) {
        self.distrust_falls = distrust;
    }

    /// Takes in the time that one or more blocks, `bytes` in all, took to the peer, on a link that they
    /// had to themselves from the first write to the last arrival: it grows with the bytes by the
    /// link's rate. The time may contain anything that stays the same, such as the difference of two clocks.
    pub fn record_flight(&mut self, now: Time, bytes: usize, one_way: Duration) {
        self.record_lone(now, bytes, one_way);
        self.one_way.record(now, one_way);
        let least = self.one_way.min().unwrap_or(one_way);
        let on_link = one_way.saturating_sub(least);
        // So long that no scheduler or timer explains it.
        if on_link > CLEAR_SERIALISATION {
            if let Some(rate) = rate_of(bytes as u64, on_link) {
                // A peer that was not scheduled looks the same, but not twice; once is believed where it fits what is known.
                let again = self
                    .slow_flight
                    .replace(rate)
                    .is_some_and(|last| rate < last * 2.0 && last < rate * 2.0);
                let fits = match self.busy_rate {
                    Some(known) => !is_change(known, rate),
                    None => !self.is_contradicted(rate),
                };
                if again || fits {
                    self.record_busy(rate, on_link);
                }
            }
        } else {
            self.slow_flight = None;
        }
    }

    /// Takes in that a block of `bytes` was acknowledged after `rtt`, the least being `rtt_min`: what it has beyond a probe and its reply was
    /// on the link for no longer than the difference, whatever else was on its way.
    pub fn record_passage(&mut self, bytes: usize, rtt: Duration, rtt_min: Duration) {
        let Some(this) = Passage::new(bytes, rtt, rtt_min) else {
            return;
        };
        let rate = this.shown;
        if self.busy_rate.is_some() {
            self.raise(rate, time_on_link(rtt, rtt_min));
            return;
        }
        // What was taken for the least round trip may have had to wait for its turn.
        let before = self.passage.map(|passage| passage.with(rtt_min));
        self.passage = before.filter(|before| before.shown >= rate).or(Some(this));
        // What seemed slower was somebody's pause.
        if rate > FAR * self.early.rate() {
            self.early = Early::default();
        }
    }

    /// By how many bytes a probe is to be longer than it need be, to show whether the link is as slow as it seems: to be asked while it
    /// has nothing to carry, of a connection that has `sent` so many bytes.
    pub fn padding(&self, now: Time, sent: u64) -> Option<usize> {
        self.doubt.padding(now, self.busy_rate?, sent)
    }

    /// Such a probe leaves.
    pub fn on_padded_probe(&mut self, now: Time, padding: usize) {
        self.doubt.on_probe(now, padding);
    }

    /// Takes in that such a probe, of `bytes`, was back after `rtt`, the least being `rtt_min`.
    pub fn record_padded(&mut self, bytes: usize, rtt: Duration, rtt_min: Duration) {
        if let Some(known) = &mut self.busy_rate {
            if let Some(rate) = self.doubt.on_reply(bytes, rtt, rtt_min, *known) {
                *known = rate.min(MOST_ASSUMED);
            }
        }
    }

    /// Whether a plain block of so many bytes may go out to show whether the link is faster than it is taken for: not where that is known, where it is
    /// so slow that other blocks show it, or where that takes longer, at a rate no higher than what has passed, than it may.
    pub(crate) fn may_check(&self, plain_len: usize) -> bool {
        let rate = match (self.busy_rate, self.rate()) {
            (Some(known), _) => Some(known).filter(|known| self.doubt.wants_block(*known)),
            (None, LinkRate::AtLeast(bound)) => {
                Some(bound.get()).filter(|bound| *bound >= SHOWN_BY_BLOCKS)
            }
            (None, LinkRate::Unknown | LinkRate::About(_)) => None,
        };
        rate.is_some_and(|rate| self.doubt.allows(plain_len as f64 * 1e9 / rate))
    }

    /// A block leaves that is expected to cost so much; it may be to show whether the link is faster than it is taken for.
    pub(crate) fn on_chosen(&mut self, cost: Duration, is_check: bool) {
        self.doubt.on_cost(cost, is_check);
    }

    /// Takes in that so many bytes, which began with such a block, were acknowledged after `rtt`, the least being `rtt_min`.
    pub(crate) fn record_check(&mut self, bytes: u64, rtt: Duration, rtt_min: Duration) {
        let Some(known) = self.busy_rate else {
            self.record_passage(bytes as usize, rtt, rtt_min);
            return;
        };
        if let Some(rate) = self.doubt.on_block(bytes, rtt, rtt_min, known) {
            self.busy_rate = Some(rate.min(MOST_ASSUMED));
        }
    }

    /// How much longer than the least a one-way time is; `None` before there is a least.
    pub fn queued(&self, one_way: Duration) -> Option<Duration> {
        let least = self.one_way.min()?;
        Some(one_way.saturating_sub(least))
    }

    /// Takes in the one-way time of a probe: a few bytes, and what is not the link's rate.
    pub fn record_probe(&mut self, now: Time, one_way: Duration) {
        self.one_way.record(now, one_way);
    }

    /// Takes in the one-way time of a block of `bytes` that probably had the link to itself. One that
    /// was held up somewhere must not bend the line through all others; several in a row are a new line.
    pub fn record_lone(&mut self, now: Time, bytes: usize, one_way: Duration) {
        self.floor.record(now, bytes, one_way);
        if let (Some(rate), Some(bound)) = (self.floor.rate(), &mut self.lower_bound) {
            // A bound that was mistaken is not seen again.
            if rate < SAME * *bound {
                *bound *= BOUND_DECAY;
            }
        }
        let slope = self.lone_rate.map(|rate| 1e9 / rate);
        let expected = (self.lone.weight() >= MIN_LONE).then(|| self.lone.expect(bytes, slope));
        let is_off = expected.flatten().is_some_and(|(expected, deviation)| {
            let off = (saturating_nanos(one_way) as f64 - expected).abs();
            off > OUTLIER * deviation + OUTLIER_NANOS
        });
        if is_off {
            self.outliers += 1;
            if self.outliers <= MAX_OUTLIERS {
                return;
            }
            self.lone = CostEstimator::default();
            self.lone_rate = None;
            let is_later = expected.flatten().is_some_and(|(expected, _)| {
                saturating_nanos(one_way) as f64 > expected + OTHER_LINK_NANOS
            });
            if is_later && !self.distrust_falls {
                self.forget_rate();
            }
        }
        self.outliers = 0;
        self.lone.record(bytes, one_way);
        let trusted = self.lone.weight() >= MIN_LONE && self.lone.explained() >= MIN_EXPLAINED;
        let slope = self.lone.slope().filter(|slope| trusted && *slope > 0.0);
        self.lone_rate = slope.map(|slope| 1e9 / slope).or(self.lone_rate);
    }

    /// Several lone blocks in a row took longer than they would have: what the link carried before says nothing of what it does now, and lone blocks
    /// would take hundreds of them to say otherwise.
    fn forget_rate(&mut self) {
        self.floor = Floor::default();
        self.busy_rate = None;
        self.lower_bound = None;
        self.passage = None;
        self.early = Early::default();
        self.slow_flight = None;
        self.passing = 0.0;
        self.assumed = ASSUMED;
        self.carried = 0;
    }

    /// Forgets what depends on the clocks of one session.
    pub fn restart(&mut self) {
        self.floor = Floor::default();
        self.lone = CostEstimator::default();
        self.outliers = 0;
        let most = self.bound().unwrap_or(0.0) * MOST_BEYOND;
        self.assumed = self.assumed.min(most).max(ASSUMED);
        self.news = 0;
        self.raised = false;
        self.one_way = RttEstimator::default();
        self.passing = 0.0;
        self.slow_flight = None;
        self.distrust_falls = false;
        self.doubt.restart();
    }

    /// So many wire bytes of blocks were acknowledged.
    pub(crate) const fn on_carried(&mut self, bytes: u64) {
        self.carried = self.carried.saturating_add(bytes);
    }

    /// Wire bytes of blocks that were acknowledged, since it was last found to be another link.
    pub(crate) const fn carried(&self) -> u64 {
        self.carried
    }

    /// The rate to reckon with: measured, or assumed.
    pub fn likely_rate(&self) -> f64 {
        self.cautious_rate(Caution::None)
    }

    /// .. where no more than this may be taken for granted.
    pub(crate) fn cautious_rate(&self, caution: Caution) -> f64 {
        match (self.rate(), caution) {
            (LinkRate::About(rate), _) => rate.get(),
            (LinkRate::AtLeast(shown), Caution::None) => self.rate_above(shown, self.assumed),
            (LinkRate::AtLeast(shown), Caution::Flight) => {
                let assumed = self.assumed.min(FLIGHT_BEYOND * shown.get());
                self.rate_above(shown, assumed)
            }
            (LinkRate::Unknown, Caution::None) => self.assumed,
            (LinkRate::Unknown, Caution::Flight) => self.assumed.min(FLIGHT_RATE),
        }
    }

    /// .. where so much has passed at least, and so much is assumed.
    fn rate_above(&self, shown: BytesPerSec, assumed: f64) -> f64 {
        let unseen = self.passage.filter(|passage| passage.is_unseen);
        let unseen = unseen.map_or(0.0, |passage| passage.likely());
        let faster = if shown.get() > FAST {
            beyond(shown.get(), MEMORY)
        } else {
            shown.get()
        };
        faster.max(unseen).max(assumed)
    }

    /// The rate at which the socket takes bytes (the thesis's `t_sr`); `None` before it was measured.
    pub fn send_rate(&self) -> Option<BytesPerSec> {
        self.send_rate.and_then(BytesPerSec::new)
    }

    /// The link's rate: measured under backlog where there was one, else from how much longer larger
    /// blocks take, or at least what has passed.
    pub fn rate(&self) -> LinkRate {
        if let Some(rate) = self.busy_rate.and_then(BytesPerSec::new) {
            return LinkRate::About(rate);
        }
        // Both are measured, with errors of their own: close to each other they are the same.
        let is_possible =
            |rate: &f64, bound: Option<f64>| bound.is_none_or(|bound| *rate > SAME * bound);
        let floor = self
            .floor
            .rate()
            .filter(|rate| is_possible(rate, self.lower_bound));
        let lone = self
            .lone_rate
            .filter(|rate| is_possible(rate, self.bound()));
        let known = floor.or(lone).map(|rate| rate.min(MOST_ASSUMED));
        if let Some(rate) = known.and_then(BytesPerSec::new) {
            return LinkRate::About(rate);
        }
        let bound = self.bound().and_then(BytesPerSec::new);
        bound.map_or(LinkRate::Unknown, LinkRate::AtLeast)
    }

    /// Whether it was seen to carry so much that it is the ends that are slow, mostly.
    pub(crate) fn is_fast(&self) -> bool {
        let known = self.busy_rate.or(self.bound());
        known.is_some_and(|rate| rate > FAST)
    }

    /// Whether much more has passed than a link of such a rate carries.
    fn is_contradicted(&self, rate: f64) -> bool {
        self.bound().is_some_and(|bound| bound > FAR * rate)
    }

    fn bound(&self) -> Option<f64> {
        match (self.lower_bound, self.passage.map(|passage| passage.shown)) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        }
    }

    /// The link's rate, or what it is at least; `None` before anything was measured.
    pub fn link_rate(&self) -> Option<BytesPerSec> {
        match self.rate() {
            LinkRate::Unknown => None,
            LinkRate::AtLeast(rate) | LinkRate::About(rate) => Some(rate),
        }
    }
}

/// Bytes per second, no faster than any link whatever a peer says; `None` if nothing passed or no time.
fn rate_of(bytes: u64, time: Duration) -> Option<f64> {
    BytesPerSec::from_transfer(bytes, time).map(|rate| rate.get().min(MOST_ASSUMED))
}

/// The rate to reckon with where at least `bound` has passed: the one at which a byte takes what it takes in the mean
/// over all rates from there up to `most`, none of a decade more likely than those of another.
fn beyond(bound: f64, most: f64) -> f64 {
    if bound > 0.0 && bound < most {
        (most / bound).ln() / (1.0 / bound - 1.0 / most)
    } else {
        bound
    }
}

/// What a rate over `time` counts: over a short one, timers and schedulers do as much to it as the link.
fn weight_of(time: Duration) -> f64 {
    (time.as_secs_f64() / FULL_SAMPLE.as_secs_f64()).clamp(LEAST_WEIGHT, 1.0)
}

fn is_change(known: f64, rate: f64) -> bool {
    rate > known * CHANGE || rate < known / CHANGE
}

fn smooth(estimate: &mut Option<f64>, sample: f64) {
    *estimate = Some(estimate.map_or(sample, |old| old + RATE_GAIN * (sample - old)));
}

#[cfg(test)]
mod tests;
