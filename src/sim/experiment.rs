//! Experiments on given traffic: what a policy makes of it, and what would have been best.

use core::time::Duration;

use bytes::Bytes;

use super::{CodecCosts, End, Happening, LinkConfig, Memo, NodeConfig, SimError, World};
use crate::codecs::{Arm, info};
use crate::control::{PeerKnowledge, PolicyConfig};
use crate::session::{
    Decision, DictionaryMemory, Event, OpenError, SendError, SessionError, SessionStats,
    StreamConfig, StreamStats,
};
use crate::units::{BytesPerSec, CpuLoad, Time};
use crate::wire::StreamId;

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each as soon as the stream's queue takes it. What counts is the time for all of them.
    Throughput,
    /// Each when the one before was delivered. What counts is the mean time of a message.
    Latency,
    /// Each when it is due at so many plain bytes a second, or once the queue takes it. What counts
    /// is the mean time of a message from when it was due.
    Paced(BytesPerSec),
}

/// Messages, and when they are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The messages in order.
    pub messages: Vec<Bytes>,
    /// When they are sent.
    pub pace: Pace,
}

impl Traffic {
    /// Traffic of these messages.
    pub fn new(messages: impl IntoIterator<Item = Bytes>, pace: Pace) -> Self {
        Self {
            messages: messages.into_iter().collect(),
            pace,
        }
    }

    fn plain_bytes(&self) -> u64 {
        let lens = self.messages.iter().map(|message| message.len() as u64);
        lens.sum()
    }
}

/// When something changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Just before the message of this number (the first is 0) is handed to the session.
    Message(usize),
    /// So long after the first message was sent.
    Time(Duration),
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Both directions of the link: what is on the wire keeps its time, what waits is sent anew.
    Link(LinkConfig),
    /// How many processors of a node other services keep busy.
    Background(End, f64),
}

/// Traffic from A to B on one stream, and the conditions that it meets.
///
/// Every run is the same for the same policy.
///
/// ```
/// # #[cfg(all(feature = "lz4", feature = "zstd"))]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bytes::Bytes;
/// use tautline::codecs::Arm;
/// use tautline::control::PolicyConfig;
/// use tautline::sim::{Experiment, LinkConfig, Pace, Traffic};
/// use tautline::units::BytesPerSec;
///
/// let messages = (0..500).map(|n| Bytes::from(format!("reading {n} of sensor {}: all well", n % 7)));
/// let experiment = Experiment {
///     link: LinkConfig {
///         rate: BytesPerSec::new(12_500.0),
///         ..LinkConfig::default()
///     },
///     ..Experiment::new(Traffic::new(messages, Pace::Throughput))
/// };
/// let outcome = experiment.run(PolicyConfig::default())?;
/// let oracle = experiment.oracle(&[Arm::IDENTITY, "lz4".parse()?, "zstd:3".parse()?])?;
/// println!("{:.2} of the best, {}", outcome.efficiency(&oracle), oracle.best().0);
/// assert!(outcome.efficiency(&oracle) > 0.1);
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "lz4", feature = "zstd")))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The node that sends. Its session's policy is not used: a run names one.
    pub a: NodeConfig,
    /// The node that receives.
    pub b: NodeConfig,
    /// The link at first.
    pub link: LinkConfig,
    /// What codecs cost.
    pub costs: CodecCosts,
    /// The messages.
    pub traffic: Traffic,
    /// What changes on the way.
    pub changes: Vec<(At, Change)>,
    /// Time between the handshake and the first message. Default (`None`): 1 s if a node has a guard,
    /// whose budget begins at zero; else none.
    pub warm_up: Option<Duration>,
    /// What blocks became in earlier runs; changes nothing but the real time that a run takes.
    pub memo: Memo,
}

/// Enough for a guard's budget to rise to where the load lets it (ten periods of 100 ms).
const GUARD_WARM_UP: Duration = Duration::from_secs(1);
/// Virtual time without a delivery after which a run is given up.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Messages that one entry of the timeline is about.
const WINDOW: usize = 100;

impl Experiment {
    /// Default nodes and link.
    pub fn new(traffic: Traffic) -> Self {
        Self {
            a: NodeConfig::default(),
            b: NodeConfig::default(),
            link: LinkConfig::default(),
            costs: CodecCosts::default(),
            traffic,
            changes: Vec::new(),
            warm_up: None,
            memo: Memo::default(),
        }
    }

    /// Sends all messages under a policy; each is compared on delivery.
    ///
    /// # Errors
    ///
    /// A setting makes no sense, a message is longer than B receives, or nothing arrives any more. A
    /// message that arrives changed, or a session that ends, is this crate's bug.
    pub fn run(&self, policy: PolicyConfig) -> Result<Outcome, ExperimentError> {
        Run::begin(self, policy)?.finish(policy)
    }

    /// Runs each arm alone and finds the best: by duration in throughput, else by the mean time of a
    /// message. Of equals, the first.
    ///
    /// # Errors
    ///
    /// There are no arms, this build does not have one of them, or see [`Self::run`].
    pub fn oracle(&self, arms: &[Arm]) -> Result<Oracle, ExperimentError> {
        let mut runs = Vec::with_capacity(arms.len());
        for &arm in arms {
            if !info(arm.codec).is_some_and(|info| info.accepts(arm.level)) {
                return Err(ExperimentError::UnknownArm(arm));
            }
            runs.push((arm, self.run(PolicyConfig::Fixed(arm))?));
        }
        runs.sort_by_key(|(_, outcome)| outcome.cost());
        if runs.is_empty() {
            return Err(ExperimentError::NoArms);
        }
        Ok(Oracle { runs })
    }

    fn warm_up(&self) -> Duration {
        let guarded = self.a.cpu.guard.is_some() || self.b.cpu.guard.is_some();
        let default = if guarded {
            GUARD_WARM_UP
        } else {
            Duration::ZERO
        };
        self.warm_up.unwrap_or(default)
    }
}

/// What each arm alone makes of the traffic.
#[derive(Clone, Debug)]
pub struct Oracle {
    runs: Vec<(Arm, Outcome)>,
}

impl Oracle {
    /// The best arm, and its run.
    pub fn best(&self) -> &(Arm, Outcome) {
        &self.runs[0]
    }

    /// All arms, from the best to the worst.
    pub fn runs(&self) -> &[(Arm, Outcome)] {
        &self.runs
    }
}

/// What became of the traffic. Times are virtual; those of codecs are as they passed, stretched by
/// other work on the processors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The policy.
    pub policy: PolicyConfig,
    /// When messages were sent.
    pub pace: Pace,
    /// Messages delivered: all.
    pub messages: usize,
    /// Their bytes.
    pub plain_bytes: u64,
    /// Bytes that the link carried from A to B meanwhile, all told.
    pub wire_bytes: u64,
    /// From the first send to the last delivery.
    pub duration: Duration,
    /// Each message's time from when it was due or sent to its delivery.
    pub times: Vec<Duration>,
    /// Processor time that A took to encode.
    pub encode_time: Duration,
    /// Time that B took to decode.
    pub decode_time: Duration,
    /// The stream at A at the end.
    pub stream: StreamStats,
    /// The sessions of A and B at the end.
    pub sessions: [SessionStats; 2],
    /// What happened in every hundred messages.
    pub timeline: Vec<Window>,
    /// A's decisions, if its session keeps them ([`SessionConfig::trace`](crate::session::SessionConfig::trace)),
    /// their times counted from the first send.
    pub decisions: Vec<Decision>,
    /// What A knows of B at the end, for a run that is not to begin with nothing.
    pub knowledge: PeerKnowledge,
    /// The dictionaries of A and B once the connection was closed, and what it has carried, likewise.
    pub dictionaries: [DictionaryMemory; 2],
}

impl Outcome {
    /// What counts at this pace: the duration in throughput, else the mean time of a message.
    pub fn cost(&self) -> Duration {
        match self.pace {
            Pace::Throughput => self.duration,
            Pace::Latency | Pace::Paced(_) => self.mean(),
        }
    }

    /// The best arm's cost over this one's: 1 is as good, more is better than any arm alone.
    pub fn efficiency(&self, oracle: &Oracle) -> f64 {
        let best = oracle.best().1.cost();
        if self.cost() == best {
            return 1.0;
        }
        best.as_secs_f64() / self.cost().as_secs_f64()
    }

    /// The mean time of a message; zero without any.
    pub fn mean(&self) -> Duration {
        let sum: Duration = self.times.iter().sum();
        u32::try_from(self.times.len()).map_or(Duration::ZERO, |len| {
            sum.checked_div(len).unwrap_or_default()
        })
    }

    /// The time that the share `quantile` (0 to 1) of the messages did not exceed; zero without any.
    pub fn quantile(&self, quantile: f64) -> Duration {
        let mut times = self.times.clone();
        let rank = (quantile.clamp(0.0, 1.0) * times.len() as f64).ceil() as usize;
        let at = rank.saturating_sub(1);
        if at >= times.len() {
            return Duration::ZERO;
        }
        *times.select_nth_unstable(at).1
    }

    /// The share of the messages that an arm carried.
    pub fn share(&self, arm: Arm) -> f64 {
        let counts = self.stream.arms.iter().map(|arm| (arm.arm, arm.messages));
        share(counts, arm)
    }
}

/// What happened while so many messages were delivered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Window {
    /// Number of the first of them.
    pub first: usize,
    /// When the last of them was delivered, after the first send.
    pub until: Duration,
    /// Messages that left A in this time, by the arm that carried them.
    pub arms: Vec<(Arm, u64)>,
    /// A's smoothed round trip at the end.
    pub rtt: Option<Duration>,
    /// The processor loads of A and B in their latest periods.
    pub loads: [CpuLoad; 2],
}

impl Window {
    /// The share of the messages that an arm carried.
    pub fn share(&self, arm: Arm) -> f64 {
        share(self.arms.iter().copied(), arm)
    }
}

fn share(counts: impl Iterator<Item = (Arm, u64)> + Clone, arm: Arm) -> f64 {
    let all: u64 = counts.clone().map(|(_, messages)| messages).sum();
    let own: u64 = counts
        .filter(|(known, _)| *known == arm)
        .map(|(_, messages)| messages)
        .sum();
    own as f64 / all.max(1) as f64
}

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A setting makes no sense.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The stream could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The oracle was asked about no arm.
    #[error("there are no arms to compare")]
    NoArms,
    /// This build does not have the arm.
    #[error("{0} is not part of this build")]
    UnknownArm(Arm),
    /// The session did not take a message.
    #[error("message {message} was not sent: {error}")]
    NotSent {
        /// Its number.
        message: usize,
        /// Why.
        error: SendError,
    },
    /// What was delivered is not what was sent.
    #[error("message {message} was delivered changed")]
    Differs {
        /// Its number.
        message: usize,
    },
    /// A session ended before all was delivered.
    #[error("the session at {end:?} ended after {delivered} messages: {how:?}")]
    Ended {
        /// Whose.
        end: End,
        /// Messages delivered before.
        delivered: usize,
        /// How it ended.
        how: Result<(), SessionError>,
    },
    /// Nothing happens any more, or not within a day.
    #[error("nothing was delivered within {waited:?} after {delivered} messages")]
    Stalled {
        /// Messages delivered before.
        delivered: usize,
        /// The virtual time that passed since.
        waited: Duration,
    },
}

/// Timers' tokens are numbers of changes, but for the one of the next message that is due.
const DUE: u64 = u64::MAX;

/// A run under way.
struct Run<'a> {
    traffic: &'a Traffic,
    changes: &'a [(At, Change)],
    world: World,
    stream: StreamId,
    began: Time,
    /// What the link from A had carried then.
    carried: u64,
    /// When each message was sent or due.
    sent: Vec<Time>,
    /// Plain bytes sent.
    sent_bytes: u64,
    times: Vec<Duration>,
    timeline: Vec<Window>,
    counted: Vec<(Arm, u64)>,
    decisions: Vec<Decision>,
    /// The message for which the timer is set.
    timer_for: Option<usize>,
    /// Changes before messages up to this one were made.
    changed: usize,
}

impl<'a> Run<'a> {
    fn begin(experiment: &'a Experiment, policy: PolicyConfig) -> Result<Self, ExperimentError> {
        let mut world = World::new(
            experiment.a.clone(),
            experiment.b.clone(),
            experiment.link,
            experiment.costs.clone(),
        )?;
        world.remember(&experiment.memo);
        handshake(&mut world)?;
        let until = world.now() + experiment.warm_up();
        while world.next(until).is_some() {}
        let stream = world.open(End::A, "experiment", StreamConfig::default().policy(policy))?;
        let began = world.now();
        for (number, (at, _)) in experiment.changes.iter().enumerate() {
            if let At::Time(after) = at {
                world.set_timer(began + *after, number as u64);
            }
        }
        Ok(Self {
            traffic: &experiment.traffic,
            changes: &experiment.changes,
            began,
            carried: world.carried(End::A),
            world,
            stream,
            sent: Vec::new(),
            sent_bytes: 0,
            times: Vec::new(),
            timeline: Vec::new(),
            counted: Vec::new(),
            decisions: Vec::new(),
            timer_for: None,
            changed: 0,
        })
    }

    fn finish(mut self, policy: PolicyConfig) -> Result<Outcome, ExperimentError> {
        let messages = self.traffic.messages.len();
        while self.times.len() < messages {
            self.send_what_is_due()?;
            let limit = self.world.now() + PATIENCE;
            match self.world.next(limit) {
                Some(Happening::Message {
                    at: End::B,
                    message,
                    ..
                }) => {
                    self.on_delivery(&message.payload)?;
                }
                Some(Happening::Timer(number)) if number != DUE => {
                    if let Some((_, change)) = self.changes.get(number as usize) {
                        self.change(*change);
                    }
                }
                Some(Happening::Event(end, Event::Closed(how))) => {
                    return Err(ExperimentError::Ended {
                        end,
                        delivered: self.times.len(),
                        how,
                    });
                }
                Some(_) => {}
                None => {
                    return Err(ExperimentError::Stalled {
                        delivered: self.times.len(),
                        waited: PATIENCE,
                    });
                }
            }
        }
        if self.times.len() % WINDOW != 0 {
            self.end_window();
        }
        self.take_decisions();
        let sessions = [End::A, End::B].map(|end| self.world.session(end).stats());
        let knowledge = self.world.session(End::A).knowledge();
        let duration = self.elapsed();
        let wire_bytes = self.world.carried(End::A) - self.carried;
        let stream = self.world.session(End::A).stream_stats(self.stream);
        self.close();
        Ok(Outcome {
            policy,
            pace: self.traffic.pace,
            messages,
            plain_bytes: self.traffic.plain_bytes(),
            wire_bytes,
            duration,
            times: self.times,
            encode_time: Duration::from_nanos(sessions[0].encode_nanos),
            decode_time: Duration::from_nanos(sessions[1].decode_nanos),
            stream: stream.unwrap_or_default(),
            knowledge,
            dictionaries: [End::A, End::B].map(|end| self.world.session(end).dictionaries()),
            sessions,
            timeline: self.timeline,
            decisions: self.decisions,
        })
    }

    /// Ends the connection as one does, if it has anything to leave to the next.
    fn close(&mut self) {
        let leaves = |end| self.world.session(end).leaves_histories();
        if ![End::A, End::B].into_iter().any(leaves) {
            return;
        }
        self.world.close(End::A);
        let limit = self.world.now() + PATIENCE;
        let mut open = 2;
        while open > 0 {
            match self.world.next(limit) {
                Some(Happening::Event(_, Event::Closed(_))) => open -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    fn send_what_is_due(&mut self) -> Result<(), ExperimentError> {
        let traffic = self.traffic;
        while let Some(message) = traffic.messages.get(self.sent.len()) {
            let number = self.sent.len();
            let now = self.world.now();
            let due = match traffic.pace {
                Pace::Latency if number > self.times.len() => return Ok(()),
                Pace::Throughput | Pace::Latency => now,
                Pace::Paced(rate) => {
                    let nanos = rate.nanos_for(self.sent_bytes as f64);
                    self.began + Duration::from_nanos(nanos as u64)
                }
            };
            if due > now {
                if self.timer_for != Some(number) {
                    self.timer_for = Some(number);
                    self.world.set_timer(due, DUE);
                }
                return Ok(());
            }
            self.change_before(number);
            match self.world.send(End::A, self.stream, message.clone()) {
                Ok(()) => {
                    self.sent.push(due);
                    self.sent_bytes += message.len() as u64;
                }
                Err(SendError::Full(_)) => return Ok(()),
                Err(error) => {
                    return Err(ExperimentError::NotSent {
                        message: number,
                        error,
                    });
                }
            }
        }
        Ok(())
    }

    fn change_before(&mut self, message: usize) {
        if message < self.changed {
            return;
        }
        self.changed = message + 1;
        for (at, change) in self.changes {
            if *at == At::Message(message) {
                self.change(*change);
            }
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Link(config) => self.world.set_link(config),
            Change::Background(end, busy) => self.world.set_background(end, busy),
        }
    }

    fn on_delivery(&mut self, payload: &Bytes) -> Result<(), ExperimentError> {
        let message = self.times.len();
        if self.traffic.messages.get(message) != Some(payload) {
            return Err(ExperimentError::Differs { message });
        }
        let sent = self.sent.get(message).copied().unwrap_or(self.began);
        self.times.push(self.world.now().saturating_since(sent));
        if self.times.len() % WINDOW == 0 {
            self.end_window();
        }
        Ok(())
    }

    /// In time: a session keeps only its latest.
    fn take_decisions(&mut self) {
        let began = self.began;
        let taken = self.world.take_decisions(End::A);
        self.decisions.extend(taken.into_iter().map(|decision| {
            let at = Time::ZERO + decision.at.saturating_since(began);
            Decision { at, ..decision }
        }));
    }

    fn elapsed(&self) -> Duration {
        self.world.now().saturating_since(self.began)
    }

    fn end_window(&mut self) {
        self.take_decisions();
        let session = self.world.session(End::A);
        let stats = session.stream_stats(self.stream).unwrap_or_default();
        let mut arms = Vec::new();
        for arm in &stats.arms {
            let known = self.counted.iter().find(|(known, _)| *known == arm.arm);
            let before = known.map_or(0, |(_, count)| *count);
            if arm.messages > before {
                arms.push((arm.arm, arm.messages - before));
            }
        }
        self.counted = stats
            .arms
            .iter()
            .map(|arm| (arm.arm, arm.messages))
            .collect();
        self.timeline.push(Window {
            first: (self.times.len() - 1) / WINDOW * WINDOW,
            until: self.elapsed(),
            arms,
            rtt: session.stats().rtt,
            loads: [End::A, End::B].map(|end| self.world.load(end)),
        });
    }
}

fn handshake(world: &mut World) -> Result<(), ExperimentError> {
    let limit = world.now() + PATIENCE;
    let mut established = 0;
    while established < 2 {
        match world.next(limit) {
            Some(Happening::Event(_, Event::Established)) => established += 1,
            Some(Happening::Event(end, Event::Closed(how))) => {
                return Err(ExperimentError::Ended {
                    end,
                    delivered: 0,
                    how,
                });
            }
            Some(_) => {}
            None => {
                return Err(ExperimentError::Stalled {
                    delivered: 0,
                    waited: PATIENCE,
                });
            }
        }
    }
    Ok(())
}
