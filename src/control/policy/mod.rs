//! Which arm carries the next block. A policy keeps its state per stream; a choice is made per
//! block, so with one message a block the thesis's policies are its procedure to the letter.

pub(crate) mod cost;
mod majority;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use fastrand::Rng;

use self::cost::{ArmReport, Backlog, BlockClass, Cost, CostConfig, Sample};
use self::majority::Majority;
use super::arms::Arms;
use super::estimate::{DecodeEstimates, StreamEstimates};
use super::knowledge::{CodecKnowledge, Prices};
use super::link::{Caution, LinkEstimator, RttEstimator};
use super::texture::Texture;
use crate::codecs::{Arm, ParseArmError};
use crate::units::{Time, saturating_nanos};

/// How arms are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PolicyConfig {
    /// The arm with which messages arrive soonest, by live estimates of every stage of their way.
    Cost(CostConfig),
    /// Identity only.
    None,
    /// One arm for all (thesis 7.2.5, "one algorithm").
    Fixed(Arm),
    /// All arms in turn (thesis 7.2.5, "round robin").
    RoundRobin,
    /// The arm that was best in the rounds before, and now and then each of the others (thesis
    /// 7.2.5, "majority distribution").
    Majority(MajorityConfig),
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self::Cost(CostConfig::default())
    }
}

/// Settings of the majority policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MajorityConfig {
    /// How long a round lasts. Default: 100 blocks; the thesis leaves it to the system.
    pub round: Round,
    /// Share of the blocks that each arm other than the best one gets. Default 0.01 (thesis 7.2.5).
    pub others: f64,
}

impl Default for MajorityConfig {
    fn default() -> Self {
        Self {
            round: Round::Messages(100),
            others: 0.01,
        }
    }
}

/// The length of a round (thesis definition 21 and section 7.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// So many messages.
    Messages(u32),
    /// So much time.
    Time(Duration),
}

impl fmt::Display for PolicyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost(_) => f.pad("cost"),
            Self::None => f.pad("none"),
            Self::Fixed(arm) => f.pad(&arm.to_string()),
            Self::RoundRobin => f.pad("round_robin"),
            Self::Majority(_) => f.pad("majority"),
        }
    }
}

impl FromStr for PolicyConfig {
    type Err = ParsePolicyError;

    /// Reads `cost`, `none`, `round_robin`, `majority`, or an arm such as `zstd:3` or `fixed:zstd:3`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "cost" => Ok(Self::Cost(CostConfig::default())),
            "none" => Ok(Self::None),
            "round_robin" => Ok(Self::RoundRobin),
            "majority" => Ok(Self::Majority(MajorityConfig::default())),
            arm => match arm.strip_prefix("fixed:").unwrap_or(arm).parse() {
                Ok(arm) => Ok(Self::Fixed(arm)),
                Err(source) => Err(ParsePolicyError {
                    text: text.to_owned(),
                    source,
                }),
            },
        }
    }
}

/// A text that names no policy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is neither a policy (cost, none, majority, round_robin) nor a codec: {source}")]
pub struct ParsePolicyError {
    text: String,
    source: ParseArmError,
}

/// All that a policy may look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    /// The time.
    pub now: Time,
    /// Plain length of the block to be sent, bytes.
    pub plain_len: usize,
    /// The arms.
    pub arms: &'a Arms,
    /// Arms with history whose contexts stand ready.
    pub live: &'a [Arm],
    /// Arms whose contexts there is no memory for, so that their blocks would go without history.
    pub roomless: &'a [Arm],
    /// What both ends have of such messages already.
    pub prior: Prior,
    /// What the block's bytes look like; looked at only for policies that ask for it.
    pub texture: Texture,
    /// Plain bytes that wait behind the block.
    pub queued_behind: usize,
    /// Blocks before this one without a pause.
    pub run: u32,
    /// Wire bytes that have not left for the link yet.
    pub link_backlog: u64,
    /// Time that this end spends on a block besides encoding, ns.
    pub overhead_nanos: f64,
    /// .. what of that it is at work, ns.
    pub at_work_nanos: f64,
    /// .. and on one that a worker encodes ([`MAX_INLINE`](crate::control::MAX_INLINE)), ns.
    pub handover_nanos: f64,
    /// How many times its processor time encoding takes while others run.
    pub stretch: f64,
    /// .. while others of the session are encoded beside it.
    pub stretch_beside: f64,
    /// Blocks without history that are encoded at once, at most.
    pub encoders: usize,
    /// What the arms have shown on all streams of the connection.
    pub(crate) shared: &'a CodecKnowledge,
    /// What processor time costs while budgets are short.
    pub(crate) prices: Prices,
    /// Whether the peer is short of processor time.
    pub peer_starved: bool,
    /// Codec time that one block may take here and at the peer, ns; `None` without a limit.
    pub affordable: Affordable,
    /// What decoding costs the peer.
    pub decode: &'a DecodeEstimates,
    /// The link ..
    pub link: &'a LinkEstimator,
    /// .. and what of it may be taken for granted.
    pub(crate) caution: Caution,
    /// The round trip.
    pub rtt: &'a RttEstimator,
    /// Whether codec time is left in the budget.
    pub budget_left: bool,
}

#[cfg(any(test, feature = "sim"))]
impl<'a> Situation<'a> {
    /// An empty block at time zero, of which all `arms` may be chosen: nothing waits, no history has begun, and nobody is short of anything.
    pub(crate) fn quiet(arms: &'a Arms, known: &'a crate::control::PeerKnowledge) -> Self {
        Situation {
            now: Time::ZERO,
            plain_len: 0,
            arms,
            live: &[],
            roomless: &[],
            prior: Prior::Nothing,
            texture: Texture::default(),
            queued_behind: 0,
            run: 0,
            link_backlog: 0,
            overhead_nanos: 0.0,
            at_work_nanos: 0.0,
            handover_nanos: 0.0,
            stretch: 1.0,
            stretch_beside: 1.0,
            encoders: 1,
            shared: &known.codecs,
            prices: Prices::default(),
            peer_starved: false,
            affordable: Affordable::default(),
            decode: &known.decode,
            link: &known.link,
            caution: Caution::None,
            rtt: &known.rtt,
            budget_left: true,
        }
    }
}

/// What both ends have of a stream's messages before there is any history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Prior {
    #[default]
    Nothing,
    /// What connections before have carried last: histories begin with it.
    Recalled,
    /// A dictionary: histories begin with it, and blocks may be encoded with it.
    Dictionary,
}

/// Codec time that one block may take, ns; `None` without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Affordable {
    pub encode_nanos: Option<f64>,
    pub decode_nanos: Option<f64>,
}

/// What a policy chose, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Number of the arm.
    pub arm: usize,
    /// Why.
    pub reason: Reason,
    /// Estimated cost, and how much that is over the best arm's; zero from policies that do not estimate.
    pub expected: Duration,
    /// See `expected`.
    pub regret: Duration,
}

/// Of a policy that knows only identity.
const PLAIN: Choice = Choice::new(0, Reason::Only);

impl Choice {
    const fn new(arm: usize, reason: Reason) -> Self {
        Self {
            arm,
            reason,
            expected: Duration::ZERO,
            regret: Duration::ZERO,
        }
    }

    /// Whether the block goes plain to show if the link is faster than it is taken for.
    pub(crate) fn is_check(&self, plain_len: usize) -> bool {
        let is_long = plain_len >= cost::CHECK_LEN;
        self.arm == 0 && self.reason == Reason::Explored && is_long
    }
}

/// A block that was sent, as it is learned from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentBlock {
    /// The time.
    pub now: Time,
    /// Number of the arm that encoded it, be it in vain.
    pub arm: usize,
    /// Its plain length, bytes.
    pub plain_len: usize,
    /// What the arm made of it, bytes; the plain length if that was not smaller.
    pub wire_len: usize,
    /// Time to encode it.
    pub encode: Duration,
    /// What its bytes look like.
    pub texture: Texture,
    /// Whether it has a history and a shadow will say what it is without.
    pub is_paired: bool,
}

impl SentBlock {
    /// What models learn of it, given which arm it went out with; `None` of an unknown codec.
    pub(crate) fn sample(&self, arm: Arm) -> Option<Sample> {
        let class = BlockClass::of(self.plain_len, self.texture);
        let lens = (self.plain_len, self.wire_len);
        Sample::new(self.now, arm, class, lens, saturating_nanos(self.encode))
    }
}

/// Why an arm was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The policy knows no other.
    Only,
    /// It was its turn.
    Turn,
    /// It costs least by the estimates.
    Cheapest,
    /// It costs hardly more than the cheapest, and was in use.
    Kept,
    /// It was the best of the rounds before.
    Best,
    /// It is tried so that its estimate stays true.
    Explored,
    /// The codec budget was exhausted, or too small for a cheaper arm.
    Budget,
    /// A cheaper arm would cost a peer too much that is short of processor time.
    PeerStarved,
    /// The messages are sensitive: they go as they are.
    Sensitive,
}

impl Reason {
    /// All of them; their places are what event logs say.
    #[cfg(any(test, all(feature = "eventlog", feature = "transport")))]
    pub(crate) const ALL: [Self; 9] = [
        Self::Only,
        Self::Turn,
        Self::Cheapest,
        Self::Kept,
        Self::Best,
        Self::Explored,
        Self::Budget,
        Self::PeerStarved,
        Self::Sensitive,
    ];

    /// Its name in traces and other texts for programs; [`Display`](fmt::Display) explains it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::Turn => "turn",
            Self::Cheapest => "cheapest",
            Self::Kept => "kept",
            Self::Best => "best",
            Self::Explored => "explored",
            Self::Budget => "budget",
            Self::PeerStarved => "peer_starved",
            Self::Sensitive => "sensitive",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Only => "the policy knows no other",
            Self::Turn => "it was its turn",
            Self::Cheapest => "it costs least",
            Self::Kept => "hardly dearer than the cheapest, and in use",
            Self::Best => "the best of the rounds before",
            Self::Explored => "tried so that its estimate stays true",
            Self::Budget => "the codec budget was spent",
            Self::PeerStarved => "the peer is short of processor time",
            Self::Sensitive => "the messages are sensitive",
        })
    }
}

/// A policy at work on one stream.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Cost(Box<Cost>),
    None,
    Fixed(Arm),
    RoundRobin { next: usize },
    Majority(Majority),
}

impl Policy {
    /// A policy that has seen nothing yet.
    pub(crate) fn new(config: PolicyConfig) -> Self {
        let kind = match config {
            PolicyConfig::Cost(config) => Kind::Cost(Box::new(Cost::new(config))),
            PolicyConfig::None => Kind::None,
            PolicyConfig::Fixed(arm) => Kind::Fixed(arm),
            PolicyConfig::RoundRobin => Kind::RoundRobin { next: 0 },
            PolicyConfig::Majority(config) => Kind::Majority(Majority::new(config)),
        };
        Self { kind }
    }

    /// Chooses the arm of the next block. With the budget exhausted that is identity.
    pub(crate) fn choose(&mut self, situation: &Situation<'_>, rng: &mut Rng) -> Choice {
        let choice = match &mut self.kind {
            Kind::Cost(cost) => cost.choose(situation),
            Kind::RoundRobin { next } => {
                let arm = *next % situation.arms.electable();
                *next = arm + 1;
                Choice::new(arm, Reason::Turn)
            }
            Kind::Majority(majority) => majority.choose(situation, rng),
            Kind::None | Kind::Fixed(_) => self.only(situation.arms).unwrap_or(PLAIN),
        };
        if choice.arm != 0 && !situation.budget_left {
            return Choice::new(0, Reason::Budget);
        }
        choice
    }

    /// The choice of a policy that always makes the same, while codec time is left.
    pub(crate) fn only(&self, arms: &Arms) -> Option<Choice> {
        match &self.kind {
            Kind::None => Some(PLAIN),
            Kind::Fixed(arm) => {
                let known = arms.position(*arm);
                Some(Choice::new(known.unwrap_or(0), Reason::Only))
            }
            Kind::Cost(_) | Kind::RoundRobin { .. } | Kind::Majority(_) => None,
        }
    }

    /// The arm that the next block will most likely have, by its position: the only one, or the one that was chosen last.
    pub(crate) fn in_use(&self, arms: &Arms) -> Option<usize> {
        match &self.kind {
            Kind::Cost(cost) => cost.current(),
            _ => self.only(arms).map(|choice| choice.arm),
        }
    }

    /// Takes in that so many messages are in a block.
    pub(crate) fn on_sent(&mut self, messages: u32) {
        if let Kind::Majority(majority) = &mut self.kind {
            majority.on_sent(messages);
        }
    }

    /// Takes in what a block that was (nearly) all of this stream has shown.
    pub(crate) fn record_sent(
        &mut self,
        sent: &SentBlock,
        sample: Option<&Sample>,
        shared: &CodecKnowledge,
    ) {
        match (&mut self.kind, sample) {
            (Kind::Majority(majority), _) => majority.record_sent(sent),
            (Kind::Cost(cost), Some(sample)) => {
                shared.record_sent_into(cost.own_mut(), sample, sent.is_paired);
            }
            _ => {}
        }
    }

    /// .. a block of `class` that went as it was.
    pub(crate) fn record_plain(&mut self, sent: &SentBlock, class: BlockClass) {
        match &mut self.kind {
            Kind::Majority(majority) => majority.record_sent(sent),
            Kind::Cost(cost) => cost.own_mut().record_plain(class),
            Kind::None | Kind::Fixed(_) | Kind::RoundRobin { .. } => {}
        }
    }

    /// The estimates that this stream keeps of its own, if its policy keeps any.
    pub(crate) fn own_model(&mut self) -> Option<&mut cost::Model> {
        match &mut self.kind {
            Kind::Cost(cost) => Some(cost.own_mut()),
            _ => None,
        }
    }

    /// Arms worth encoding the block that was just chosen for beside its way, in `into`.
    pub(crate) fn plan_shadows(
        &mut self,
        situation: &Situation<'_>,
        allowance_nanos: f64,
        into: &mut Vec<usize>,
    ) {
        into.clear();
        if let Kind::Cost(cost) = &mut self.kind {
            cost.plan_shadows(situation, allowance_nanos, into);
        }
    }

    /// How long the next block may grow of what waits, at most `most` plain bytes: that, with policies that do not estimate.
    pub(crate) fn block_len(
        &mut self,
        situation: &Situation<'_>,
        backlog: Backlog,
        most: usize,
    ) -> usize {
        match &mut self.kind {
            Kind::Cost(cost) => cost.block_len(situation, backlog, most),
            _ => most,
        }
    }

    /// Whether it looks at the link, the processors and the content.
    pub(crate) const fn is_adaptive(&self) -> bool {
        matches!(self.kind, Kind::Cost(_))
    }

    /// Whether it may ever choose an arm with a dictionary, or with a history that begins with one.
    pub(crate) const fn may_use_dictionary(&self) -> bool {
        match &self.kind {
            Kind::Cost(_) => true,
            Kind::Fixed(arm) => arm.dictionary || arm.history,
            Kind::None | Kind::RoundRobin { .. } | Kind::Majority(_) => false,
        }
    }

    /// What is known of each arm; empty from policies that do not estimate.
    pub(crate) fn explain(&self, situation: &Situation<'_>) -> Vec<ArmReport> {
        match &self.kind {
            Kind::Cost(cost) => cost.explain(situation),
            _ => Vec::new(),
        }
    }

    /// Whether a block that another stream began with arm number `arm` may take this stream's
    /// messages along: only if this stream would choose the same.
    pub(crate) fn joins(&self, arm: usize, arms: &[Arm], budget_left: bool) -> bool {
        if !budget_left {
            return arm == 0;
        }
        match &self.kind {
            Kind::None => arm == 0,
            Kind::Fixed(fixed) => arms.get(arm) == Some(fixed),
            // Shares are counted in blocks: a message that rode along would not be counted.
            Kind::RoundRobin { .. } => false,
            // A block with others' content would teach it a ratio that is not its own; identity's is
            // the same for all.
            Kind::Majority(majority) => arm == 0 && majority.best() == Some(0),
            // A stream that has not chosen yet knows no better than the others.
            Kind::Cost(cost) => cost.current().is_none_or(|current| current == arm),
        }
    }
}

/// Time of a message of `plain_len` bytes with arm number `arm` by thesis equation 7.6, ns:
/// compression, sending, half a round trip (propagation, and its wire bytes at the link's rate)
/// and decompression. `None` while the arm was never used; a part not yet measured counts as zero,
/// alike for all arms.
fn transmission_nanos(
    situation: &Situation<'_>,
    estimates: &StreamEstimates,
    arm: usize,
    plain_len: f64,
) -> Option<f64> {
    let estimate = estimates.arm(arm)?;
    let wire = plain_len / estimate.ratio.ratio()?;
    let compression = if arm == 0 {
        0.0
    } else {
        estimate.encode.line()?.nanos(plain_len)
    };
    let sending = situation
        .link
        .send_rate()
        .map_or(0.0, |rate| rate.nanos_for(wire));
    let link = situation
        .link
        .link_rate()
        .map_or(0.0, |rate| rate.nanos_for(wire));
    let propagation = situation
        .rtt
        .min()
        .map_or(0.0, |rtt| rtt.as_nanos() as f64 / 2.0);
    let codec = situation.arms.as_slice().get(arm)?.codec;
    let decompression = situation
        .decode
        .line(codec)
        .map_or(0.0, |line| line.nanos(plain_len));
    // Under backlog the socket takes bytes as fast as the link carries them: the same time seen
    // twice. The slower of the two is the time that passes.
    Some(compression + sending.max(link) + propagation + decompression)
}

#[cfg(test)]
mod contract;
