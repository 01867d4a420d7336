//! The lanes of a connection: sessions of their own on streams of QUIC of their own (docs/quic.md, "Lanes").
//!
//! ```text
//! handles --open, accept--> Lanes --begins, takes in, resumes--> a driver for each lane
//!                             ^                                            |
//!                             +---- connected, lost, closing, closed ------+
//! ```
//!
//! Each side opens its streams in lanes that it has begun itself, so that both may begin one for the same group at once. The
//! first lane begins first and ends last; what ends it otherwise ends all, and the other way round.

mod arriving;
mod ending;
mod member;

use core::future::Future as _;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use bytes::BytesMut;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use self::member::{FirstLane, FurtherLane};
use super::carrier::{QuicCarrier, SendWindow};
use crate::control::PeerKnowledge;
use crate::session::{
    DecodeTime, LaneBudget, OpenRate, Role, SessionConfig, SessionError, SessionStats,
};
use crate::transport::guard::Grant;
use crate::transport::node::{Known, random_name};
use crate::transport::resume::{Another, Arrivals, Carrier};
use crate::transport::shared::{Command, LaneCommand, Phase, Shared, lock};
use crate::transport::{ConnectError, Node};
use crate::units::Time;
use crate::wire::{GroupId, LaneNumber};

/// A lane beside the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LaneId {
    /// Whether this side has begun it.
    is_own: bool,
    number: LaneNumber,
}

/// ```text
/// Begins --handshake--> Stands --session closed--> Over
///    `----------------lost----------------------'
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Begins,
    Stands,
    Over,
}

type Door = UnboundedSender<(QuicCarrier, BytesMut)>;

#[derive(Debug)]
struct Entry {
    /// `None` before its hello has come, and when it is over.
    lane: Option<Arc<Shared>>,
    /// Where its carriers on further connections come in.
    door: Option<Door>,
    /// The connection that it is on, or was on last, by number.
    link: u64,
    standing: Standing,
    /// Whether there was ever a stream in it.
    is_used: bool,
}

/// The QUIC connection that there is.
#[derive(Debug)]
struct Link {
    connection: quinn::Connection,
    window: Arc<SendWindow>,
    /// Lanes begun or opened again by this side on it.
    opened: u32,
    /// What takes the peer's lanes in.
    task: AbortHandle,
}

#[derive(Debug)]
struct State {
    link: Option<Link>,
    /// The number of the latest.
    links: u64,
    entries: HashMap<LaneId, Entry>,
    /// Of lanes that this side has begun.
    groups: HashMap<GroupId, LaneId>,
    begun: u32,
    ended: Vec<Arc<Shared>>,
    done: SessionStats,
    budget: LaneBudget,
    next_stream: u32,
    opens: OpenRate,
    decodes: DecodeTime,
    /// When lanes were last used, the first by `None`.
    used: HashMap<Option<LaneId>, Option<Time>>,
    is_closing: bool,
    /// The first lane is over.
    is_over: bool,
    /// .. and how, as long as others are not.
    result: Option<Result<(), SessionError>>,
    /// What a lane gave the connection up for.
    cause: Option<SessionError>,
}

impl State {
    /// Lanes that are not over.
    fn live(&self) -> impl Iterator<Item = &Arc<Shared>> {
        self.entries.values().filter_map(|it| it.lane.as_ref())
    }
}

/// The lanes of a connection.
#[derive(Debug)]
pub(super) struct Lanes {
    node: Node,
    role: Role,
    known_as: String,
    first: Weak<Shared>,
    /// The first lane's.
    grant: Arc<Grant>,
    /// How many each side may begin.
    most: u32,
    idle_limit: Option<Duration>,
    /// Held by who begins one.
    begins: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// Lets the session of `shared` have further lanes, if `io` can carry some; `config` is then the first's.
pub(in crate::transport) fn join(
    node: &Node,
    io: &dyn core::any::Any,
    role: Role,
    config: &mut SessionConfig,
    known_as: &str,
    (shared, grant): (&Arc<Shared>, &Arc<Grant>),
) {
    if node.quic_lanes == 0 || !io.is::<QuicCarrier>() {
        return;
    }
    let limits = config.limits_set();
    let lanes = Lanes {
        node: node.clone(),
        role,
        known_as: known_as.to_owned(),
        first: Arc::downgrade(shared),
        grant: Arc::clone(grant),
        most: node.quic_lanes,
        idle_limit: limits.idle_limit(),
        begins: tokio::sync::Mutex::new(()),
        state: Mutex::new(State {
            link: None,
            links: 0,
            entries: HashMap::new(),
            groups: HashMap::new(),
            begun: 0,
            ended: Vec::new(),
            done: SessionStats::default(),
            budget: LaneBudget::divide(config, 2 * node.quic_lanes as usize),
            next_stream: 0,
            opens: OpenRate::new(&limits),
            decodes: DecodeTime::new(&limits),
            used: HashMap::new(),
            is_closing: false,
            is_over: false,
            result: None,
            cause: None,
        }),
    };
    let first = FirstLane(Arc::new(lanes));
    // Shared by nobody yet.
    let _ = shared.lane.set(Arc::new(first));
}

impl Lanes {
    /// The lane for streams that this side opens in a group, once it stands; `None` for the first.
    async fn of_group(self: &Arc<Self>, group: GroupId) -> Option<Arc<Shared>> {
        let begins = match self.lane_of(group) {
            Some(lane) => return standing(lane).await,
            None => self.begins.lock().await,
        };
        let lane = if let Some(lane) = self.lane_of(group) {
            lane
        } else {
            let first = self.first.upgrade()?;
            let ask = |reply| Command::Lane(LaneCommand::Knowledge { reply });
            let knowledge = first.ask(ask).await?;
            self.begin(group, *knowledge)?
        };
        drop(begins);
        standing(lane).await
    }

    fn lane_of(&self, group: GroupId) -> Option<Arc<Shared>> {
        let state = lock(&self.state);
        let id = state.groups.get(&group)?;
        state.entries.get(id)?.lane.clone()
    }

    /// Begins a lane, unless there are too many: by this side's settings, or for the peer.
    fn begin(self: &Arc<Self>, group: GroupId, knowledge: PeerKnowledge) -> Option<Arc<Shared>> {
        let first = self.first.upgrade()?;
        let (id, link, carrier) = {
            let mut state = lock(&self.state);
            let links = state.links;
            let (begun, is_closing) = (state.begun, state.is_closing);
            let link = state.link.as_mut()?;
            // Numbers stay below what the peer allows at once, also where lanes were lost that had just begun.
            if is_closing || begun >= self.most || begun > link.opened {
                return None;
            }
            let streams = open_now(&link.connection)?;
            link.opened += 1;
            let number = LaneNumber::new(begun + 1)?;
            let carrier = QuicCarrier::further(
                (&link.connection, &link.window),
                streams,
                first,
                Some(number),
            );
            let id = LaneId {
                is_own: true,
                number,
            };
            state.begun += 1;
            state.groups.insert(group, id);
            (id, links, carrier)
        };
        let started = self.start(id, link, carrier, BytesMut::new(), knowledge);
        if started.is_err() {
            lock(&self.state).groups.remove(&group);
        }
        started.ok()
    }

    /// Begins the session of a lane.
    fn start(
        self: &Arc<Self>,
        id: LaneId,
        link: u64,
        io: QuicCarrier,
        input: BytesMut,
        knowledge: PeerKnowledge,
    ) -> Result<Arc<Shared>, ConnectError> {
        let shared = self.node.new_shared();
        if let Some(identity) = self
            .first
            .upgrade()
            .and_then(|it| it.identity.get().copied())
        {
            shared.identity.get_or_init(|| identity);
        }
        let place = FurtherLane {
            lanes: Arc::downgrade(self),
            first: Weak::clone(&self.first),
            id,
        };
        // Shared by nobody yet.
        let _ = shared.lane.set(Arc::new(place));
        let token = random_name()?;
        let (session, seed) = (
            random_name()?,
            getrandom::u64().map_err(ConnectError::Random)?,
        );
        let (door, another) = if self.node.resume.is_some() {
            let (door, arrivals) = Arrivals::of_lane(token);
            (Some(door), Another::Arriving(arrivals))
        } else {
            (None, Another::None)
        };
        let (config, live, is_closing) = {
            let mut state = lock(&self.state);
            if state.is_over {
                return Err(ConnectError::Handshake {
                    address: self.known_as.clone(),
                    source: SessionError::ConnectionLost,
                });
            }
            let mut config = state
                .budget
                .take()
                .session_id(session)
                .seed(seed)
                .knowledge(knowledge);
            if door.is_some() {
                config = config.resume_token(Some(token));
            }
            let entry = Entry {
                lane: Some(Arc::clone(&shared)),
                door,
                link,
                standing: Standing::Begins,
                is_used: id.is_own,
            };
            state.entries.insert(id, entry);
            state.used.insert(Some(id), None);
            (config, state.live().count() as u64, state.is_closing)
        };
        let carrier = Carrier { io, input, another };
        let began = self.node.clock.now();
        // Until the guard measures next, as much as each has if all have work.
        let grant = Arc::new(self.grant.divided(live + 1));
        let known = Known {
            known_as: self.known_as.clone(),
            grant,
        };
        let driven = self
            .node
            .drive_session(carrier, (self.role, config, began), &shared, known);
        if let Err(error) = driven {
            let mut state = lock(&self.state);
            state.entries.remove(&id);
            state.used.remove(&Some(id));
            return Err(error);
        }
        if is_closing {
            shared.push(Command::Close);
        }
        Ok(shared)
    }

    /// The first lane is on this connection from now on, and the others follow.
    fn follow(self: &Arc<Self>, carrier: &QuicCarrier) {
        let (connection, window) = carrier.link();
        connection.set_receive_window(super::settings::LANES_WINDOW.into());
        let mut state = lock(&self.state);
        state.links += 1;
        let number = state.links;
        let serving = arriving::serve(
            Arc::downgrade(self),
            connection.clone(),
            Arc::clone(window),
            number,
        );
        let link = Link {
            connection: connection.clone(),
            window: Arc::clone(window),
            opened: 0,
            task: tokio::spawn(serving).abort_handle(),
        };
        if let Some(before) = state.link.replace(link) {
            before.task.abort();
            // Lanes may not have noticed.
            super::carrier::sever(&before.connection);
        }
        let mut standing: Vec<_> = state
            .entries
            .iter()
            .filter(|(id, entry)| id.is_own && entry.standing == Standing::Stands)
            .map(|(id, _)| *id)
            .collect();
        standing.sort_by_key(|id| id.number);
        for id in standing {
            self.open_again(&mut state, id);
        }
    }

    /// Brings a lane that this side has begun to the connection that there is.
    fn open_again(&self, state: &mut State, id: LaneId) {
        let links = state.links;
        let (Some(link), Some(first)) = (&mut state.link, self.first.upgrade()) else {
            return;
        };
        let Some(entry) = state.entries.get_mut(&id) else {
            return;
        };
        let Some(door) = entry.door.clone().filter(|_| entry.link < links) else {
            return;
        };
        entry.link = links;
        link.opened += 1;
        let (connection, window) = (link.connection.clone(), Arc::clone(&link.window));
        let carrier = move |streams| {
            let carrier =
                QuicCarrier::further((&connection, &window), streams, first, Some(id.number));
            // One that is over needs none.
            let _ = door.send((carrier, BytesMut::new()));
        };
        // At once, so that what is begun anew takes no other's place.
        if let Some(streams) = open_now(&link.connection) {
            carrier(streams);
        } else {
            let connection = link.connection.clone();
            tokio::spawn(async move {
                if let Ok(streams) = connection.open_bi().await {
                    carrier(streams);
                }
            });
        }
    }
}

/// Waits until a lane stands; `None` if it never does.
async fn standing(lane: Arc<Shared>) -> Option<Arc<Shared>> {
    let mut phase = lane.phase.subscribe();
    let reached = phase.wait_for(|phase| *phase != Phase::Handshaking).await;
    let stands = matches!(reached.as_deref(), Ok(Phase::Established));
    drop(reached);
    stands.then_some(lane)
}

/// Opens a stream, if the peer allows another one.
fn open_now(connection: &quinn::Connection) -> Option<(quinn::SendStream, quinn::RecvStream)> {
    let opening = pin!(connection.open_bi());
    match opening.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(opened) => opened.ok(),
        Poll::Pending => None,
    }
}
