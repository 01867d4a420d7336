//! The memory for histories that the connections of a process share.

use core::time::Duration;
use std::sync::{Arc, Mutex, Weak};

use super::clock::Clock;
use super::shared::{Command, Shared, lock};
use crate::control::{HistoryShares, HistoryUse, HolderId};
use crate::session::{Session, SessionConfig};
use crate::units::Time;

/// How often memory moves. Arbitrary: often against the ten seconds for which what was granted stays.
const PERIOD: Duration = Duration::from_secs(1);
/// A connection that goes short asks for memory no more often.
const ASK_INTERVAL: Duration = Duration::from_millis(10);

/// Memory for histories from block to block, shared by all connections of the nodes that are given it.
///
/// Half of it is for what they send: it goes where it saves most bytes, and connections that are idle for a minute
/// hold none. Half of it is for what they receive: a new connection announces a part of what is left to its
/// peer, and none when there is too little; such a peer sends its blocks each by itself. See
/// [`HistoryShares`] for the rules.
///
/// ```
/// use tautline::transport::{HistoryMemory, NodeConfig};
///
/// let memory = HistoryMemory::new(64 << 20);
/// let config = NodeConfig::default().history_memory(memory.clone());
/// assert_eq!(memory.stats().connections, 0);
/// # drop(config);
/// ```
#[derive(Clone, Debug)]
pub struct HistoryMemory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    shares: HistoryShares,
    members: Vec<Member>,
    /// When memory last moved; several nodes may see to it.
    moved: Option<Time>,
}

#[derive(Debug)]
struct Member {
    id: HolderId,
    usage: Arc<Mutex<Usage>>,
    session: Weak<Shared>,
    /// Further lanes are no connections of their own.
    is_connection: bool,
}

/// What a connection's driver last said of its histories.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    uses: HistoryUse,
    at: Time,
    received: usize,
}

/// What histories hold, all connections together, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryMemoryStats {
    /// What there is.
    pub budget: usize,
    /// What connections may hold for what they send, and what they hold.
    pub sent_granted: usize,
    /// See `sent_granted`.
    pub sent_held: usize,
    /// What was announced to peers, and what is held for what they send.
    pub received_announced: usize,
    /// See `received_announced`.
    pub received_held: usize,
    /// Connections that there are.
    pub connections: usize,
}

impl Default for HistoryMemory {
    /// 256 MiB. Arbitrary: what a few hundred busy connections can use.
    fn default() -> Self {
        Self::new(256 << 20)
    }
}

impl HistoryMemory {
    /// So many bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                clock: Clock::start(),
                state: Mutex::new(State {
                    shares: HistoryShares::new(bytes),
                    members: Vec::new(),
                    moved: None,
                }),
            }),
        }
    }

    /// What is held. A connection says what it holds whenever it has done something.
    pub fn stats(&self) -> HistoryMemoryStats {
        let mut state = lock(&self.inner.state);
        let mut received_held = 0;
        state.hear(|usage| received_held += usage.received);
        let shares = state.shares.stats();
        HistoryMemoryStats {
            budget: shares.budget,
            sent_granted: shares.sent_granted,
            sent_held: shares.sent_held,
            received_announced: shares.received_announced,
            received_held,
            connections: state.members.iter().filter(|it| it.is_connection).count(),
        }
    }

    /// The clock of the nodes that share it.
    pub(super) fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// A session begins: its part, and its settings with it.
    pub(super) fn admit(
        &self,
        config: SessionConfig,
        session: &Arc<Shared>,
    ) -> (SessionConfig, HistoryPart) {
        let now = self.inner.clock.now();
        let usage = Arc::new(Mutex::default());
        let mut state = lock(&self.inner.state);
        let (id, terms) = state.shares.admit(now, config.history_lens());
        state.members.push(Member {
            id,
            usage: Arc::clone(&usage),
            session: Arc::downgrade(session),
            is_connection: !session.is_further_lane(),
        });
        let part = HistoryPart {
            memory: self.clone(),
            id,
            usage,
            first: terms.sent,
            progress: 0,
            asked: None,
        };
        (config.with_history_received(terms.received), part)
    }

    /// Has memory move for as long as it is used.
    pub(super) fn watch(&self, runtime: &tokio::runtime::Handle) {
        runtime.spawn(watch(Arc::downgrade(&self.inner)));
    }
}

async fn watch(memory: Weak<Inner>) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(memory) = memory.upgrade() else {
            return;
        };
        let changes = lock(&memory.state).rebalance(memory.clock.now());
        for (connection, bytes) in changes {
            connection.push(Command::HistoryMemory { bytes });
        }
    }
}

impl State {
    /// Takes in what the drivers have said.
    fn hear(&mut self, mut also: impl FnMut(&Usage)) {
        for member in &self.members {
            let usage = *lock(&member.usage);
            self.shares.report(usage.at, member.id, usage.uses);
            also(&usage);
        }
    }

    fn rebalance(&mut self, now: Time) -> Vec<(Arc<Shared>, usize)> {
        let early = |moved| now.saturating_since(moved) < PERIOD / 2;
        if self.moved.is_some_and(early) {
            return Vec::new();
        }
        self.moved = Some(now);
        self.hear(|_| ());
        let changes = self.shares.rebalance(now);
        let connection = |id| {
            let member = self.members.iter().find(|member| member.id == id)?;
            member.session.upgrade()
        };
        changes
            .into_iter()
            .filter_map(|(id, bytes)| Some((connection(id)?, bytes)))
            .collect()
    }
}

/// A connection's part of the memory.
#[derive(Debug)]
pub(super) struct HistoryPart {
    memory: HistoryMemory,
    id: HolderId,
    usage: Arc<Mutex<Usage>>,
    /// What it may hold to begin with.
    first: usize,
    /// How far the session had come when it was last looked at.
    progress: u64,
    asked: Option<Time>,
}

impl HistoryPart {
    /// The session begins.
    pub(super) fn begin(&self, session: &mut Session) {
        session.set_history_memory(self.first);
        self.say(Time::ZERO, session);
    }

    /// The handshake is over.
    pub(super) fn on_established(&self, session: &Session) {
        if session.history_received().0 == 0 {
            let mut state = lock(&self.memory.inner.state);
            state.shares.release_received(self.id);
        }
    }

    /// Says what the session holds if it has done something, and asks for more if it goes short.
    pub(super) fn update(&mut self, now: Time, session: &mut Session) {
        let progress = session.progress();
        if progress == self.progress {
            return;
        }
        self.progress = progress;
        let uses = self.say(now, session);
        let asks = |asked| now.saturating_since(asked) >= ASK_INTERVAL;
        if uses.wanted > uses.limit && self.asked.is_none_or(asks) {
            self.asked = Some(now);
            let bytes = {
                let mut state = lock(&self.memory.inner.state);
                state.shares.report(now, self.id, uses);
                state.shares.ask(now, self.id)
            };
            if bytes != uses.limit {
                self.set(now, session, bytes);
            }
        }
    }

    /// The session may hold so much from now on.
    pub(super) fn set(&self, now: Time, session: &mut Session, bytes: usize) {
        session.set_history_memory(bytes);
        let uses = self.say(now, session);
        let mut state = lock(&self.memory.inner.state);
        state.shares.report(now, self.id, uses);
    }

    fn say(&self, now: Time, session: &Session) -> HistoryUse {
        let uses = session.history_use(now);
        *lock(&self.usage) = Usage {
            uses,
            at: now,
            received: session.history_received().1,
        };
        uses
    }
}

impl Drop for HistoryPart {
    fn drop(&mut self) {
        let mut state = lock(&self.memory.inner.state);
        state.members.retain(|member| member.id != self.id);
        state.shares.leave(self.id);
    }
}
