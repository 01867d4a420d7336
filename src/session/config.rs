//! Settings of a session and of a stream.

use core::time::Duration;

use super::dictionaries::{DictionaryConfig, DictionaryMemory};
use super::history::WINDOW_LOGS;
use super::limits::Limits;
use crate::codecs::{Arm, CodecId, dictionary_arms, measured_arms};
use crate::control::{PeerKnowledge, PolicyConfig};
use crate::dictionary::{AcceptancePolicy, TrainerConfig};
use crate::wire::GroupId;

/// Settings of a session. All lengths are bytes.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    pub(super) session_id: [u8; 16],
    pub(super) seed: u64,
    pub(super) policy: PolicyConfig,
    pub(super) arms: Vec<Arm>,
    pub(super) rotation: Option<Vec<Arm>>,
    pub(super) knowledge: Option<Box<PeerKnowledge>>,
    pub(super) trace: bool,
    pub(super) checksums: bool,
    pub(crate) limits: Limits,
    pub(super) block_len: usize,
    pub(super) send_queue: usize,
    pub(super) window_log: u8,
    pub(super) history_memory: usize,
    pub(super) history_log: u8,
    pub(super) dictionaries: DictionaryConfig,
    pub(super) probe_interval: Duration,
    pub(super) ack_delay: Duration,
    pub(super) resume_token: Option<[u8; 16]>,
    pub(super) retransmit_memory: usize,
    pub(super) resume_within: Duration,
    pub(super) heartbeat: Option<Duration>,
    pub(super) dead_after: Option<Duration>,
}

impl Default for SessionConfig {
    /// Arbitrary where the setter gives no reason.
    fn default() -> Self {
        Self {
            session_id: [0; 16],
            seed: 0,
            policy: PolicyConfig::default(),
            arms: measured_arms()
                .chain(history_arms())
                .chain(dictionary_arms())
                .collect(),
            rotation: Some(default_rotation()),
            knowledge: None,
            trace: false,
            checksums: true,
            limits: Limits::default(),
            block_len: 64 << 10,
            send_queue: 256 << 10,
            window_log: 20,
            history_memory: 8 << 20,
            history_log: 19,
            dictionaries: DictionaryConfig::default(),
            probe_interval: Duration::from_millis(100),
            ack_delay: Duration::from_millis(10),
            resume_token: None,
            retransmit_memory: 0,
            resume_within: Duration::from_secs(30),
            heartbeat: Some(Duration::from_secs(10)),
            dead_after: Some(Duration::from_secs(30)),
        }
    }
}

/// Arms with history: levels from the fastest to the strongest that are worth their memory.
fn history_arms() -> impl Iterator<Item = Arm> {
    let zstd = [-5, -3, -1, 1, 3, 6, 9, 15, 19].map(|level| Arm::new(CodecId::ZSTD, level));
    [Arm::new(CodecId::LZ4, 0)]
        .into_iter()
        .chain(zstd)
        .filter(|arm| crate::codecs::supports_context(arm.codec))
        .map(Arm::with_history)
}

/// A few levels of every family in this build, from fast to strong. The thesis's policies give each of
/// them some blocks whether it pays or not, so there are not many.
fn default_rotation() -> Vec<Arm> {
    [
        Arm::new(CodecId::LZ4, 0),
        Arm::new(CodecId::SNAPPY, 0),
        Arm::new(CodecId::ZSTD, -3),
        Arm::new(CodecId::ZSTD, 1),
        Arm::new(CodecId::ZSTD, 3),
        Arm::new(CodecId::ZSTD, 9),
        Arm::new(CodecId::DEFLATE, 6),
        Arm::new(CodecId::BZIP2, 9),
        Arm::new(CodecId::XZ, 1),
    ]
    .into_iter()
    .filter(|arm| crate::codecs::info(arm.codec).is_some())
    .collect()
}

impl SessionConfig {
    /// The session's name, chosen at random by the driver. Default: zeros.
    #[must_use]
    pub const fn session_id(mut self, id: [u8; 16]) -> Self {
        self.session_id = id;
        self
    }

    /// Seed of the policies' draws: same seed and inputs, same bytes out. Default 0.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The policy of streams that do not set their own. Default: cost.
    #[must_use]
    pub const fn policy(mut self, policy: PolicyConfig) -> Self {
        self.policy = policy;
        self
    }

    /// The arms that policies choose from, besides identity. A fixed policy's arm is always among
    /// them. Default: every codec of the build with all levels that differ from their neighbours, and of
    /// those a few for the thesis's policies (see [`Self::rotation`]).
    #[must_use]
    pub fn arms(mut self, arms: Vec<Arm>) -> Self {
        self.arms = arms;
        self.rotation = None;
        self
    }

    /// The arms that `round_robin` takes in turn and `majority` chooses from, besides identity, if not
    /// all of [`Self::arms`]: those policies pay for each arm that there is.
    #[must_use]
    pub fn rotation(mut self, arms: Vec<Arm>) -> Self {
        self.rotation = Some(arms);
        self
    }

    /// What an earlier session with the same peer knew ([`Session::knowledge`]), so that this one need
    /// not begin with nothing. Default: nothing.
    ///
    /// [`Session::knowledge`]: super::Session::knowledge
    #[must_use]
    pub fn knowledge(mut self, knowledge: PeerKnowledge) -> Self {
        self.knowledge = Some(Box::new(knowledge));
        self
    }

    /// Whether the session keeps its latest decisions for [`Session::take_decisions`]; about 100 bytes
    /// each, 4096 at most. Default false.
    ///
    /// [`Session::take_decisions`]: super::Session::take_decisions
    #[must_use]
    pub const fn trace(mut self, on: bool) -> Self {
        self.trace = on;
        self
    }

    /// Whether blocks carry checksums of their plain bytes (2 to 4 bytes a block, 21 ns at 256 B).
    /// They do if both sides want them. Without, what a carrier changes or puts in another order may be taken for something else where
    /// a codec does not notice. Default true.
    #[must_use]
    pub const fn checksums(mut self, on: bool) -> Self {
        self.checksums = on;
        self
    }

    /// What is borne from the peer. Default: [`Limits::default`].
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Plain bytes that a block holds at most, of what waits. Default 64 KiB (decisions.md: larger
    /// blocks hardly compress better). At most what the peer receives. The cost policy builds shorter ones where messages arrive
    /// sooner for it; others build blocks as long as this.
    #[must_use]
    pub const fn block_len(mut self, len: usize) -> Self {
        self.block_len = len;
        self
    }

    /// Payload bytes that wait to be sent on each stream before `send` reports it full. Default 256 KiB.
    #[must_use]
    pub const fn send_queue(mut self, bytes: usize) -> Self {
        self.send_queue = bytes;
        self
    }

    /// Shortest time between two probes; none are sent while nothing else is. Default 100 ms.
    #[must_use]
    pub const fn probe_interval(mut self, interval: Duration) -> Self {
        self.probe_interval = interval;
        self
    }

    /// How long an acknowledgement waits for more blocks or a frame to travel with. Default 10 ms.
    #[must_use]
    pub const fn ack_delay(mut self, delay: Duration) -> Self {
        self.ack_delay = delay;
        self
    }

    /// About how many bytes of messages that were sent are kept until the peer has acknowledged them, so that the
    /// session can go on over another connection when this one is lost ([`Session::reconnect`]); with so many, nothing more is
    /// sent for a while. Default 0: none, and a session ends with its connection. It takes both sides.
    ///
    /// [`Session::reconnect`]: super::Session::reconnect
    #[must_use]
    pub const fn retransmit_memory(mut self, bytes: usize) -> Self {
        self.retransmit_memory = bytes;
        self
    }

    /// The secret name by which the connector may resume the session, chosen at random by the acceptor's driver; the
    /// connector is told it. Default: none, so that sessions accepted end with their connection.
    #[must_use]
    pub const fn resume_token(mut self, token: Option<[u8; 16]>) -> Self {
        self.resume_token = token;
        self
    }

    /// How long a session waits for another connection. Default 30 s.
    #[must_use]
    pub const fn resume_within(mut self, limit: Duration) -> Self {
        self.resume_within = limit;
        self
    }

    /// After how long without a byte from the peer it is asked whether it is there. Default 10 s; `None`: never.
    #[must_use]
    pub const fn heartbeat(mut self, interval: Option<Duration>) -> Self {
        self.heartbeat = interval;
        self
    }

    /// After how long without a byte from the peer, though it was asked ([`Self::heartbeat`]), the connection counts as
    /// lost. Default 30 s; `None`: never.
    #[must_use]
    pub const fn dead_after(mut self, limit: Option<Duration>) -> Self {
        self.dead_after = limit;
        self
    }

    /// Payload bytes that wait on each stream, as set.
    pub const fn send_queue_len(&self) -> usize {
        self.send_queue
    }

    /// Memory for histories from block to block, bytes: so much for those of what this side sends, and as
    /// much for those of what it receives, if [`Limits::decode_memory`] says nothing else. 0: blocks are encoded each by itself.
    /// Default 8 MiB; with the default length of histories a context of zstd takes 1 to 1.6 MB to encode (3.2 from level
    /// 12 on) and 1 MB to decode.
    #[must_use]
    pub const fn history_memory(mut self, bytes: usize) -> Self {
        self.history_memory = bytes;
        self
    }

    /// Memory for histories of what is received ([`Limits::decode_memory`]).
    pub(super) const fn history_received(&self) -> usize {
        match self.limits.decode_memory {
            Some(bytes) => bytes,
            None => self.history_memory,
        }
    }

    /// The same with so much memory for histories of what is received, which a driver may allot.
    #[cfg(feature = "transport")]
    #[must_use]
    pub(crate) const fn with_history_received(mut self, bytes: usize) -> Self {
        self.limits = self.limits.decode_memory(Some(bytes));
        self
    }

    /// Binary logarithm of the longest history of what this side sends, bytes; 10 to 24. Default 19: against
    /// 17, single messages come to 4 to 11 % less (docs/benchmarks.md), and a context to 0.6 MB more at the
    /// sender and 0.4 MB more at the receiver. Shorter ones are taken where memory allows no more.
    #[must_use]
    pub const fn history_log(mut self, log: u8) -> Self {
        self.history_log = log;
        self
    }

    /// Whose dictionaries are taken, and how many of what length. Default: of authenticated peers, four of at
    /// most 112 KiB.
    #[must_use]
    pub const fn accept_dictionaries(mut self, policy: AcceptancePolicy) -> Self {
        self.dictionaries.acceptance = policy;
        self
    }

    /// Whether the carrier has proved who the peer is. Default false; on connections with TLS the transport sets it where it has.
    #[must_use]
    pub const fn authenticated(mut self, is: bool) -> Self {
        self.dictionaries.authenticated = is;
        self
    }

    /// Whether both ends keep the last 32 KiB that histories of group 0 have carried in each direction, so that those of the
    /// next connection between them begin with it, without a byte for it but 8 to 24 in the hello. In memory only, for an
    /// hour, and only where this side takes the peer's dictionaries ([`Self::accept_dictionaries`]; as the
    /// sender, also makes them, [`Self::train_dictionaries`]): messages of one connection then show in the lengths of the
    /// next (docs/security.md). Both ends must want it. Default true.
    #[must_use]
    pub const fn recall_history(mut self, on: bool) -> Self {
        self.dictionaries.recalls = on;
        self
    }

    /// How dictionaries are made of what is sent, one for each class of traffic ([`Self::traffic_class`]), where the peer takes any; `None`
    /// to make none. Collecting costs up to half a megabyte for a class, for at most four
    /// classes, and training 5 % of a processor at most.
    #[must_use]
    pub const fn train_dictionaries(mut self, trainer: Option<TrainerConfig>) -> Self {
        self.dictionaries.trainer = trainer;
        self
    }

    /// Has streams whose names are as `pattern` says make and use dictionaries together, as traffic of `class`. In a
    /// pattern `*` stands for any characters, also none, and all else for itself. May be set up to 64 times: of several
    /// patterns that fit, the one set first counts. A stream that none fits is of the class that is called like
    /// it, so that without any rule each name has dictionaries of its own. Only this side's sending follows from it:
    /// the peer need not have the same.
    #[must_use]
    pub fn traffic_class(mut self, pattern: impl Into<String>, class: impl Into<String>) -> Self {
        self.dictionaries.classes.push(pattern.into(), class.into());
        self
    }

    /// The dictionaries of earlier sessions with the same peer ([`Session::dictionaries`]), so that this one
    /// begins with them. Default: none.
    ///
    /// [`Session::dictionaries`]: super::Session::dictionaries
    #[must_use]
    pub fn dictionary_memory(mut self, memory: DictionaryMemory) -> Self {
        self.dictionaries.memory = Some(Box::new(memory));
        self
    }

    /// How dictionaries are made, as set.
    pub const fn trainer(&self) -> Option<TrainerConfig> {
        self.dictionaries.trainer
    }

    /// Binary logarithm of the longest history that is held to decode, bytes.
    pub const fn window_log(&self) -> u8 {
        self.window_log
    }

    /// Memory for histories of what is sent and of what is received, as set.
    pub const fn history_lens(&self) -> (usize, usize) {
        (self.history_memory, self.history_received())
    }

    /// How long the peer's handshake may take, as set.
    pub const fn handshake_limit(&self) -> Duration {
        self.limits.handshake_time
    }

    /// What all streams of a connection may hold together, as set, bytes.
    pub const fn connection_memory_len(&self) -> u64 {
        self.limits.connection_memory_len() as u64
    }

    /// The window that each stream begins with.
    pub const fn window_len(&self) -> u64 {
        self.limits.window_len()
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let least = |field, given: usize, min: usize| {
            if given < min {
                Err(ConfigError::TooSmall { field, given, min })
            } else {
                Ok(())
            }
        };
        least("block_len", self.block_len, 1 << 10)?;
        least("send_queue", self.send_queue, 1)?;
        self.limits.validate()?;
        least(
            "history_log",
            self.history_log.into(),
            usize::from(*WINDOW_LOGS.start()),
        )?;
        if self.history_log > *WINDOW_LOGS.end() {
            return Err(ConfigError::TooLarge {
                field: "history_log",
                given: self.history_log.into(),
                max: usize::from(*WINDOW_LOGS.end()),
            });
        }
        self.dictionaries.classes.validate()
    }
}

/// A setting that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Below the least value.
    #[error("{field} is {given}, the least is {min}")]
    TooSmall {
        /// The setting.
        field: &'static str,
        /// As set.
        given: usize,
        /// The least value.
        min: usize,
    },
    /// Above the greatest value.
    #[error("{field} is {given}, the most is {max}")]
    TooLarge {
        /// The setting.
        field: &'static str,
        /// As set.
        given: usize,
        /// The greatest value.
        max: usize,
    },
}

/// Settings of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamConfig {
    pub(super) policy: Option<PolicyConfig>,
    pub(super) group: GroupId,
    pub(super) priority: i8,
}

impl StreamConfig {
    /// A policy of its own. Default: the session's.
    #[must_use]
    pub const fn policy(mut self, policy: PolicyConfig) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The context group: streams of a connection with the same number share blocks and history, in both
    /// directions. Streams whose messages must not be compressed together (docs/security.md) are given different
    /// ones. Each group has contexts of its own, which share [`SessionConfig::history_memory`]. Over QUIC, the streams that a side opens in a group
    /// other than 0 have a stream of QUIC of their own, so that packets lost by others do not hold them up, and share
    /// with each other alone (docs/quic.md, "Lanes"). Default 0, for all streams.
    #[must_use]
    pub const fn group(mut self, group: GroupId) -> Self {
        self.group = group;
        self
    }

    /// Which streams of this connection go first in this side's direction: blocks are made of what streams of the highest priority have to
    /// send, and of others with the room that is left. Streams of the same share a block by turns. Lower ones get nothing while higher ones have enough to send and the peer takes it;
    /// a message that is longer than a block gives way at its next block. For the other direction the peer says it
    /// ([`Session::set_priority`](super::Session::set_priority)). Over QUIC, among the streams of a lane (docs/quic.md, "Lanes"). Default 0.
    #[must_use]
    pub const fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }
}
