//! Two sessions, the link between them and their processors in virtual time.
//!
//! Real codecs make the sizes; their times come from a table (or a measurement, or any function),
//! stretched by what else runs on the processors. Same configuration, same results, on any machine.
//!
//! An [`Experiment`] sends given messages under a policy, and finds the arm that would have been best.
//! A [`World`] is for everything else: who sends what when is then yours. A [`Decider`] decides and learns
//! without either.

mod clock;
mod connections;
mod costs;
mod cpu;
mod decision;
mod experiment;
mod fault;
mod link;
mod node;

use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;

use self::connections::{Apart, Late};
pub use self::costs::CodecCosts;
pub use self::cpu::CpuConfig;
pub use self::decision::Decider;
pub use self::experiment::{
    At, Change, Experiment, ExperimentError, Oracle, Outcome, Pace, Traffic, Window,
};
pub use self::fault::Fault;
use self::link::Link;
pub use self::link::LinkConfig;
use self::node::Node;
pub use crate::codecs::memo::Memo;
use crate::control::{CpuGuardConfigError, PolicyConfig};
use crate::session::{
    ConfigError, Decision, Event, Message, Role, SendError, Session, SessionConfig, StreamConfig,
};
use crate::units::{CpuLoad, Time};
use crate::wire::{RecordKind, StreamId};

/// One of the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The node that connected.
    A,
    /// The node that accepted.
    B,
}

impl End {
    /// The other node.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}

/// Something that the experiment may want to react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A session told its application something.
    Event(End, Event),
    /// A message was delivered (and released at once).
    Message {
        /// Where.
        at: End,
        /// On which stream.
        stream: StreamId,
        /// What.
        message: Message,
    },
    /// A timer set with [`World::set_timer`].
    Timer(u64),
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// Of a session.
    #[error(transparent)]
    Session(#[from] ConfigError),
    /// Of a guard.
    #[error(transparent)]
    Guard(#[from] CpuGuardConfigError),
}

/// What a node is.
#[derive(Clone, Debug, Default)]
pub struct NodeConfig {
    /// The session.
    pub session: SessionConfig,
    /// The processors, and how the codec budget follows from their load.
    pub cpu: CpuConfig,
}

/// Two nodes and the links between them.
#[derive(Debug)]
pub struct World {
    now: Time,
    /// Boxed for their size.
    nodes: [Box<Node>; 2],
    /// From A to B, and from B to A.
    links: [Link; 2],
    /// Node B is on another connection than that.
    apart: Option<Apart>,
    /// Connections that A has left and B has not heard of yet.
    late: Vec<Late>,
    timers: BTreeMap<(Time, u64), u64>,
    timers_set: u64,
    happenings: std::collections::VecDeque<Happening>,
}

impl World {
    /// A world at time zero, its two sessions about to begin their handshake.
    ///
    /// # Errors
    ///
    /// A setting of a session or of a guard makes no sense.
    pub fn new(
        a: NodeConfig,
        b: NodeConfig,
        link: LinkConfig,
        costs: CodecCosts,
    ) -> Result<Self, SimError> {
        Ok(Self {
            now: Time::ZERO,
            nodes: [
                Box::new(Node::new(Role::Connector, a, costs.clone(), Time::ZERO)?),
                Box::new(Node::new(Role::Acceptor, b, costs, Time::ZERO)?),
            ],
            links: [Link::new(link), Link::new(link)],
            apart: None,
            late: Vec::new(),
            timers: BTreeMap::new(),
            timers_set: 0,
            happenings: std::collections::VecDeque::new(),
        })
    }

    /// Lets the nodes remember what blocks became, and recall it: nothing but the real time that
    /// encoding takes changes.
    pub fn remember(&mut self, memo: &Memo) {
        for node in &mut self.nodes {
            node.remember_in(memo.clone());
        }
    }

    /// The time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// A node's session, to be read.
    pub const fn session(&self, end: End) -> &Session {
        &self.nodes[end.index()].session
    }

    /// The latest decisions of a node, if its session keeps them
    /// ([`SessionConfig::trace`]).
    pub fn take_decisions(&mut self, end: End) -> std::collections::VecDeque<Decision> {
        self.nodes[end.index()].session.take_decisions()
    }

    /// Opens a stream from `end`.
    ///
    /// # Errors
    ///
    /// See [`Session::open`].
    pub fn open(
        &mut self,
        end: End,
        name: &str,
        config: StreamConfig,
    ) -> Result<StreamId, crate::session::OpenError> {
        self.nodes[end.index()].session.open(name, config)
    }

    /// Queues a message at `end`.
    ///
    /// # Errors
    ///
    /// See [`Session::send`].
    pub fn send(&mut self, end: End, stream: StreamId, payload: Bytes) -> Result<(), SendError> {
        self.nodes[end.index()]
            .session
            .send(stream, payload, RecordKind::Message)
    }

    /// As [`Self::send`], for a message that nothing else may be compressed with.
    ///
    /// # Errors
    ///
    /// See [`Session::send_sensitive`].
    pub fn send_sensitive(
        &mut self,
        end: End,
        stream: StreamId,
        payload: Bytes,
    ) -> Result<(), SendError> {
        self.nodes[end.index()]
            .session
            .send_sensitive(stream, payload, RecordKind::Message)
    }

    /// Sets the policy of a stream at `end` from now on.
    pub fn set_policy(&mut self, end: End, stream: StreamId, policy: PolicyConfig) {
        self.nodes[end.index()].session.set_policy(stream, policy);
    }

    /// Ends a stream's direction out of `end` once everything queued is sent.
    pub fn finish(&mut self, end: End, stream: StreamId) {
        self.nodes[end.index()].session.finish(stream);
    }

    /// Whether the application at `end` takes the messages of a stream as they come, and waits for them, from now on. It does so at
    /// first.
    pub fn set_reads(&mut self, end: End, stream: StreamId, reads: bool) {
        self.nodes[end.index()].set_reads(end, stream, reads, &mut self.happenings);
    }

    /// Takes one message of a stream that the application does not read by itself ([`Self::set_reads`]), or waits for it.
    pub fn take_one(&mut self, end: End, stream: StreamId) -> Option<Message> {
        self.nodes[end.index()].take_one(stream)
    }

    /// Begins a clean close at `end`.
    pub fn close(&mut self, end: End) {
        self.nodes[end.index()].session.close();
    }

    /// Changes both directions of the link from now on.
    pub fn set_link(&mut self, config: LinkConfig) {
        for link in &mut self.links {
            link.config = config;
        }
    }

    /// Changes how many processors of a node other services keep busy.
    pub fn set_background(&mut self, end: End, busy_processors: f64) {
        let now = self.now;
        self.nodes[end.index()]
            .cpu
            .set_background(now, busy_processors);
    }

    /// The processor load of a node in its latest complete period.
    pub const fn load(&self, end: End) -> CpuLoad {
        self.nodes[end.index()].cpu.load()
    }

    /// Bytes that the link out of `end` has carried, but for what came of a connection after its node had left it.
    pub const fn carried(&self, end: End) -> u64 {
        self.links[end.index()].carried
    }

    /// Keeps all bytes that `end` writes from now on, for [`Self::take_tapped`].
    pub fn tap(&mut self, end: End) {
        self.links[end.index()].tapped.get_or_insert_default();
    }

    /// The bytes that `end` has written since [`Self::tap`] or the last call.
    pub fn take_tapped(&mut self, end: End) -> Vec<u8> {
        let tapped = &mut self.links[end.index()].tapped;
        tapped.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Lets [`Self::next`] return [`Happening::Timer`] with `token` at `at`.
    pub fn set_timer(&mut self, at: Time, token: u64) {
        self.timers_set += 1;
        self.timers
            .insert((at.max(self.now), self.timers_set), token);
    }

    /// Runs to the next happening; `None` if none comes before `until`, where time then stands.
    pub fn next(&mut self, until: Time) -> Option<Happening> {
        loop {
            self.settle();
            if let Some(happening) = self.happenings.pop_front() {
                return Some(happening);
            }
            let Some(at) = self.next_event().filter(|at| *at <= until) else {
                self.now = self.now.max(until);
                return None;
            };
            self.now = self.now.max(at);
            if let Some((&key, _)) = self.timers.first_key_value() {
                if key.0 <= self.now {
                    if let Some(token) = self.timers.remove(&key) {
                        self.happenings.push_back(Happening::Timer(token));
                    }
                }
            }
        }
    }

    fn next_event(&self) -> Option<Time> {
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        let others = self.other_links().filter_map(Link::next_event);
        let links = self.links.iter().filter_map(Link::next_event);
        let nodes = self
            .nodes
            .iter()
            .filter_map(|node| node.next_event(self.now));
        links.chain(others).chain(nodes).chain(timer).min()
    }

    /// Does all that can be done without time passing.
    fn settle(&mut self) {
        for end in [End::A, End::B] {
            let (out, back) = (end.index(), end.other().index());
            self.links[out].advance(self.now);
            if end == End::B && self.settle_apart() {
                continue;
            }
            self.links[back].receive(self.now, &mut self.nodes[out].arrived);
            self.nodes[out].arrived_all = self.links[back].is_over();
            self.nodes[out].run(self.now, end, &mut self.links[out], &mut self.happenings);
        }
    }

    /// Runs until both sessions have completed their handshake.
    ///
    /// # Panics
    ///
    /// If they do not within 10 s of virtual time.
    pub fn connect(&mut self) {
        let limit = self.now + Duration::from_secs(10);
        let mut established = 0;
        while established < 2 {
            match self.next(limit) {
                Some(Happening::Event(_, Event::Established)) => established += 1,
                Some(_) => {}
                None => panic!("no handshake within 10 s of virtual time"),
            }
        }
    }
}
