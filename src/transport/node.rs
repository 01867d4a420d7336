//! A node: what all connections of one process share.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::io;
#[cfg(any(unix, feature = "dictionary-cache"))]
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use super::aside::Aside;
use super::buffers::ReadBuffers;
use super::clock::Clock;
use super::connection::Connection;
use super::dictionaries::{DictionaryStore, Given};
use super::driver::Driver;
use super::faults::{FaultStats, Faults};
use super::guard::{self, Grant};
use super::helm::Steering;
use super::history::HistoryMemory;
use super::listener::Listener;
use super::load::{LoadReadError, LoadReader};
use super::memory::{KnownAs, PeerMemory};
use super::resume::{Another, Carrier, Dial, Redial, Resumable, ResumeConfig};
use super::shared::{Shared, lock};
use super::workers::Workers;
use super::{Address, ConnectError, NodeEvents, PeerIdentity, socket};
use crate::control::{BudgetRate, CpuGuard, CpuGuardConfig, CpuGuardConfigError, PeerKnowledge};
use crate::dictionary::Dictionary;
#[cfg(feature = "dictionary-cache")]
use crate::dictionary::cache::{CacheConfig, CacheStats};
use crate::session::{Role, Session, SessionConfig};
use crate::units::{CpuLoad, Time};
use crate::wire::Hello;

/// Arbitrary: a session each, of some tens of KB.
#[cfg(feature = "quic")]
const MOST_LANES: u32 = 1024;

/// How often the load is measured where no guard says: as the default guard does.
const LOAD_PERIOD: Duration = Duration::from_millis(100);

/// Settings of a node.
#[derive(Debug)]
pub struct NodeConfig {
    session: SessionConfig,
    guard: Option<CpuGuardConfig>,
    load: Option<LoadReader>,
    remembered_peers: usize,
    #[cfg(feature = "dictionary-cache")]
    dictionary_cache: Option<(PathBuf, CacheConfig)>,
    history_memory: HistoryMemory,
    dictionaries: Vec<(String, Dictionary)>,
    resume: Option<ResumeConfig>,
    #[cfg(feature = "eventlog")]
    event_log: Option<crate::eventlog::EventLog>,
    #[cfg(feature = "quic")]
    quic_lanes: u32,
    #[cfg(feature = "tls")]
    tls: (Option<super::ClientTls>, Option<super::ServerTls>),
}

impl Default for NodeConfig {
    /// The default session, and a guard on the load of the node or of its container.
    fn default() -> Self {
        Self {
            session: SessionConfig::default(),
            guard: Some(CpuGuardConfig::default()),
            load: None,
            // Arbitrary: a few MB.
            remembered_peers: 1024,
            #[cfg(feature = "dictionary-cache")]
            dictionary_cache: None,
            history_memory: HistoryMemory::default(),
            dictionaries: Vec::new(),
            resume: None,
            #[cfg(feature = "eventlog")]
            event_log: None,
            #[cfg(feature = "quic")]
            quic_lanes: 32,
            #[cfg(feature = "tls")]
            tls: (None, None),
        }
    }
}

impl NodeConfig {
    /// Settings of every session. Its session id and seed are set at random by the node.
    #[must_use]
    pub fn session(mut self, session: SessionConfig) -> Self {
        self.session = session;
        self
    }

    /// The guard that limits codec time by the processor load; `None` for no limit. Default: a
    /// guard with setpoint 0.80.
    #[must_use]
    pub fn guard(mut self, guard: Option<CpuGuardConfig>) -> Self {
        self.guard = guard;
        self
    }

    /// Where the load is read. Default: as [`LoadReader::detect`] finds.
    #[must_use]
    pub fn load(mut self, reader: LoadReader) -> Self {
        self.load = Some(reader);
        self
    }

    /// Of how many peers the node remembers what it learned of their link and of codecs, a few KB
    /// each, and their dictionaries, where those are in use, so that a new connection to one of them need not learn it again. A peer that connects
    /// from elsewhere is known by its IP address, or by its identity if it has proved one (`tls:` addresses). Those that connect to a Unix socket have no name:
    /// they share what was learned of the content and the codecs, and nothing else. Default 1024; 0
    /// begins every connection anew.
    #[must_use]
    pub fn remembered_peers(mut self, peers: usize) -> Self {
        self.remembered_peers = peers;
        self
    }

    /// A dictionary for what is sent of `class`, which is a stream's name by default ([`SessionConfig::traffic_class`]): made before, by
    /// `tautline dict train` for example, or by another node ([`Connection::dictionaries`]). Connections to peers of which
    /// the node knows no dictionary for the class begin with it; like all dictionaries, it is offered to those that it may
    /// go to ([`SessionConfig::accept_dictionaries`]), and gives way to one that turns out better. Without effect while
    /// [`SessionConfig::train_dictionaries`] is off. Of several for a class, the one given last comes first. Default: none.
    #[must_use]
    pub fn dictionary(mut self, class: impl Into<String>, dictionary: Dictionary) -> Self {
        self.dictionaries.push((class.into(), dictionary));
        self
    }

    /// Whether sessions outlive their connections: a connector connects again when it loses one, and an acceptor waits
    /// for it. Every message still arrives once and in order; if the other side does not come back, or has lost the
    /// session, [`Connection::deliveries`] says what became of messages. It takes both sides, and a [`Listener`] that
    /// lives on. `None`, the default: a session ends with its connection.
    ///
    /// The acceptor tells the connector a secret by which it knows it again: who can read the connection can take the
    /// session over.
    #[must_use]
    pub const fn resume(mut self, resume: Option<ResumeConfig>) -> Self {
        self.resume = resume;
        self
    }

    /// The memory that histories from block to block may hold, all connections of the node together, and those of
    /// other nodes that are given the same; a single connection holds no more than
    /// [`SessionConfig::history_memory`] each way. Default: 256 MiB.
    #[must_use]
    pub fn history_memory(mut self, memory: HistoryMemory) -> Self {
        self.history_memory = memory;
        self
    }
}

#[cfg(feature = "dictionary-cache")]
impl NodeConfig {
    /// A directory that keeps dictionaries, so that the first connection of the next run begins with them. It
    /// belongs to this node's trust domain, and is read once, when the node starts. One that is full, read-only
    /// or gone costs nothing but its use: see [`Node::dictionary_cache_stats`]. Default: none, so that
    /// dictionaries live as long as the node remembers their peer.
    #[must_use]
    pub fn dictionary_cache(mut self, directory: impl Into<PathBuf>, config: CacheConfig) -> Self {
        self.dictionary_cache = Some((directory.into(), config));
        self
    }
}

#[cfg(feature = "eventlog")]
impl NodeConfig {
    /// Where the node records what its connections, codec workers and guard do, once that is switched on: an area with the events of
    /// [`events::config`](super::events::config). Several nodes may have the same. While its events are off, a connection looks once a round whether that has changed. Default: none.
    #[must_use]
    pub fn event_log(mut self, log: crate::eventlog::EventLog) -> Self {
        self.event_log = Some(log);
        self
    }
}

#[cfg(feature = "quic")]
impl NodeConfig {
    /// How many lanes each side of a connection over QUIC may begin: streams of QUIC, each for the streams that this side opens in one
    /// [group](crate::session::StreamConfig::group) other than 0, so that a packet that is lost holds up those alone (docs/quic.md).
    /// Streams in groups beyond that share the first lane, as all do over other carriers. Lanes share what a connection is allowed,
    /// so that the first has half of some of it. Default 32, at most 1024; 0: none, and none of the peer's.
    #[must_use]
    pub const fn quic_lanes(mut self, lanes: u32) -> Self {
        self.quic_lanes = if lanes < MOST_LANES {
            lanes
        } else {
            MOST_LANES
        };
        self
    }
}

#[cfg(feature = "tls")]
impl NodeConfig {
    /// What the node connects to `tls:` and `quic:` addresses with. Default: nothing, so that it does not.
    #[must_use]
    pub fn client_tls(mut self, tls: super::ClientTls) -> Self {
        self.tls.0 = Some(tls);
        self
    }

    /// What the node listens on `tls:` and `quic:` addresses with; it can be replaced later ([`Node::set_server_tls`]). Default:
    /// nothing, so that it does not.
    #[must_use]
    pub fn server_tls(mut self, tls: super::ServerTls) -> Self {
        self.tls.1 = Some(tls);
        self
    }
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The processor load cannot be read; a guard needs it.
    #[error("the processor load cannot be read: {0}")]
    Load(#[from] LoadReadError),
    /// The guard's settings make no sense.
    #[error(transparent)]
    Guard(#[from] CpuGuardConfigError),
    /// Certificates or keys cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] super::TlsConfigError),
    /// The event log has other events than [`events::config`](super::events::config).
    #[cfg(feature = "eventlog")]
    #[error("the event log does not begin with the transport's events")]
    EventLog,
    /// Called outside a tokio runtime.
    #[error("a node runs in a tokio runtime, and there is none here")]
    NoRuntime,
}

#[derive(Debug)]
pub(super) struct NodeShared {
    pub(super) workers: Workers,
    pub(super) read_buffers: ReadBuffers,
    pub(super) aside: Aside,
    grants: Mutex<Vec<Weak<Grant>>>,
    /// Connections so far.
    connections: AtomicU64,
    state: Mutex<(Option<BudgetRate>, CpuLoad)>,
    peers: Mutex<PeerMemory>,
    pub(super) dictionaries: DictionaryStore,
    resumable: Arc<Resumable>,
    pub(super) faults: Faults,
    pub(super) events: NodeEvents,
    #[cfg(feature = "tls")]
    pub(super) tls: super::tls::NodeTls,
}

impl NodeShared {
    fn add_grant(&self, grant: &Arc<Grant>) {
        let mut grants = lock(&self.grants);
        if grants.len() == grants.capacity() {
            grants.retain(|grant| grant.strong_count() > 0);
        }
        grants.push(Arc::downgrade(grant));
    }

    /// The grants of the connections that there are.
    pub(super) fn grants(&self) -> Vec<Arc<Grant>> {
        let mut grants = lock(&self.grants);
        grants.retain(|grant| grant.strong_count() > 0);
        grants.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn remember(&self, peer: String, knowledge: PeerKnowledge) {
        lock(&self.peers).remember(peer, knowledge);
    }

    pub(super) fn set_state(&self, budget: Option<BudgetRate>, load: CpuLoad) {
        let (old, _) = core::mem::replace(&mut *lock(&self.state), (budget, load));
        self.events.measured(load, budget, old);
    }
}

/// One end of many connections: settings, codec workers and the guard over the processors.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) shared: Arc<NodeShared>,
    pub(super) session: Arc<SessionConfig>,
    history_memory: HistoryMemory,
    pub(super) resume: Option<ResumeConfig>,
    #[cfg(feature = "quic")]
    pub(super) quic_lanes: u32,
    pub(super) clock: Clock,
}

impl Node {
    /// Starts a node on the runtime that this is called in.
    ///
    /// # Errors
    ///
    /// There is no runtime, the guard's settings make no sense, the load cannot be read, or certificates cannot be used.
    pub fn new(config: NodeConfig) -> Result<Self, NodeError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| NodeError::NoRuntime)?;
        let NodeConfig {
            session,
            guard,
            load,
            remembered_peers,
            #[cfg(feature = "dictionary-cache")]
            dictionary_cache,
            history_memory,
            dictionaries,
            resume,
            #[cfg(feature = "eventlog")]
            event_log,
            #[cfg(feature = "quic")]
            quic_lanes,
            #[cfg(feature = "tls")]
            tls,
        } = config;
        #[cfg(feature = "eventlog")]
        let events = match event_log {
            Some(log) => NodeEvents::new(log).ok_or(NodeError::EventLog)?,
            None => NodeEvents::default(),
        };
        #[cfg(not(feature = "eventlog"))]
        let events = NodeEvents;
        let session = match resume {
            Some(resume) => session
                .retransmit_memory(resume.memory)
                .resume_within(resume.within),
            None => session,
        };
        let clock = history_memory.clock();
        let given = Given {
            dictionaries,
            trainer: session.trainer(),
            // Without random numbers a seed that peers might guess: no connection will start anyway.
            seed: getrandom::u64().unwrap_or_default(),
        };
        #[cfg_attr(
            not(feature = "dictionary-cache"),
            expect(unused_mut, reason = "only a directory puts anything in")
        )]
        let mut dictionaries = DictionaryStore::new(remembered_peers, given);
        #[cfg(feature = "dictionary-cache")]
        if let Some(cache) = dictionary_cache {
            dictionaries.open(cache, clock.now());
        }
        let reader = match load {
            Some(reader) => Ok(reader),
            None => LoadReader::detect(),
        };
        let budget = guard.is_some().then_some(BudgetRate::ZERO);
        let shared = Arc::new(NodeShared {
            workers: Workers::new(session.window_log()),
            read_buffers: ReadBuffers::new(),
            aside: Aside::new(session.window_log()),
            grants: Mutex::default(),
            connections: AtomicU64::new(0),
            state: Mutex::new((budget, CpuLoad::IDLE)),
            peers: Mutex::new(PeerMemory::new(remembered_peers)),
            dictionaries,
            resumable: Arc::default(),
            faults: Faults::default(),
            events,
            #[cfg(feature = "tls")]
            tls: super::tls::NodeTls::new(tls.0, tls.1)?,
        });
        match (reader, guard) {
            (Ok(reader), guard) => {
                let guard = guard
                    .map(|guard| CpuGuard::new(guard, reader.processors()))
                    .transpose()?;
                let period = guard.as_ref().map_or(LOAD_PERIOD, CpuGuard::period);
                runtime.spawn(guard::run(
                    Arc::downgrade(&shared),
                    clock,
                    reader,
                    guard,
                    period,
                ));
            }
            (Err(error), Some(_)) => return Err(error.into()),
            // Without a guard the load is only told to peers: they do without.
            (Err(_), None) => {}
        }
        history_memory.watch(&runtime);
        Ok(Self {
            shared,
            session: Arc::new(session),
            history_memory,
            resume,
            #[cfg(feature = "quic")]
            quic_lanes,
            clock,
        })
    }

    /// The processor load as measured last, and the codec budget that follows from it for all
    /// connections together; `None` without a guard.
    pub fn load_and_budget(&self) -> (CpuLoad, Option<BudgetRate>) {
        let (budget, load) = *lock(&self.shared.state);
        (load, budget)
    }

    /// Waits until the guard's budget has stopped rising, for a second at most: it begins with none and raises it step by step, so that who measures before it stands
    /// measures that. On a busy machine there is none, however long one waits.
    pub async fn budget_settled(&self) {
        guard::settled(self).await;
    }

    /// What was wrong with connections and streams so far, of listeners' and those that this side made.
    pub fn faults(&self) -> FaultStats {
        self.shared.faults.stats()
    }

    /// The memory for histories that the node's connections share.
    pub const fn history_memory(&self) -> &HistoryMemory {
        &self.history_memory
    }

    /// What the directory of dictionaries has done, if the node has one ([`NodeConfig::dictionary_cache`]).
    #[cfg(feature = "dictionary-cache")]
    pub fn dictionary_cache_stats(&self) -> Option<CacheStats> {
        self.shared.dictionaries.cache_stats()
    }

    /// Connects and completes the handshake.
    ///
    /// # Errors
    ///
    /// The address cannot be reached, or the handshake fails.
    pub async fn connect(&self, address: &Address) -> Result<Connection, ConnectError> {
        self.connecting(address).await
    }

    /// Without a type of its own: what it awaits and spawns is compiled with the crate, and not with each program that connects.
    fn connecting<'a>(&'a self, address: &'a Address) -> Boxed<'a, Connection> {
        Box::pin(self.connect_here(address))
    }

    async fn connect_here(&self, address: &Address) -> Result<Connection, ConnectError> {
        let failed = |source| ConnectError::Io {
            address: address.clone(),
            source,
        };
        let connection = match address {
            Address::Tcp(host) => {
                let stream = dial_tcp(host.clone()).await.map_err(failed)?;
                let host = host.clone();
                self.connected(stream, address, move || dial_tcp(host.clone()))?
            }
            #[cfg(feature = "tls")]
            Address::Tls(host) => self.connect_tls(host, address).await?,
            #[cfg(feature = "quic")]
            Address::Quic(host) => self.connect_quic(host, address).await?,
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = dial_unix(path.clone()).await.map_err(failed)?;
                let path = path.clone();
                self.connected(stream, address, move || dial_unix(path.clone()))?
            }
        };
        connection.established().await?;
        Ok(connection)
    }

    /// Listens for connections.
    ///
    /// # Errors
    ///
    /// The system refuses the address.
    pub async fn listen(&self, address: &Address) -> Result<Listener, ConnectError> {
        self.binding(address).await
    }

    /// Without a type of its own, likewise.
    fn binding<'a>(&self, address: &'a Address) -> Boxed<'a, Listener> {
        Box::pin(Listener::bind(self.clone(), address))
    }

    /// Begins a session over any byte stream; [`Connection::established`] waits for its handshake.
    /// `peer` names the other end: what was learned of one of that name is used again.
    ///
    /// # Errors
    ///
    /// A session setting makes no sense, or the system has no random numbers.
    pub fn start<I>(&self, io: I, role: Role, peer: String) -> Result<Connection, ConnectError>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let known_as = match role {
            Role::Acceptor => KnownAs::connector(&peer),
            Role::Connector => KnownAs::Peer(peer.clone()),
        };
        let carrier = Carrier::only(io, BytesMut::new());
        self.start_known(carrier, role, peer, known_as)
    }

    /// Where further connections of an accepted session come in.
    fn arrivals<I: Send + 'static>(
        &self,
        identity: Option<PeerIdentity>,
    ) -> Result<Another<I>, ConnectError> {
        let token = random_name()?;
        let arrivals = self.shared.resumable.register(token, identity);
        Ok(Another::Arriving(arrivals))
    }

    /// How a connection is made again when it is lost.
    pub(super) fn redial<I, F>(
        &self,
        dial: impl Fn() -> F + Send + 'static,
    ) -> Result<Another<I>, ConnectError>
    where
        I: 'static,
        F: Future<Output = io::Result<I>> + Send + 'static,
    {
        let Some(config) = self.resume else {
            return Ok(Another::None);
        };
        let seed = getrandom::u64().map_err(ConnectError::Random)?;
        let dial: Dial<I> = Box::new(move || Box::pin(dial()));
        Ok(Another::Dialed(Redial::new(dial, config, seed)))
    }

    /// Begins a session over a connection that this node has made, and that it can make again.
    fn connected<I, F>(
        &self,
        io: I,
        address: &Address,
        dial: impl Fn() -> F + Send + 'static,
    ) -> Result<Connection, ConnectError>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = io::Result<I>> + Send + 'static,
    {
        let another = self.redial(dial)?;
        let carrier = Carrier {
            io,
            input: BytesMut::new(),
            another,
        };
        let peer = address.to_string();
        let known_as = KnownAs::Peer(peer.clone());
        self.start_known(carrier, Role::Connector, peer, known_as)
    }

    /// Takes a connection in: as another one of a session that there is, if its hello says so, otherwise as the first of
    /// a new one. `None` for the former.
    pub(super) async fn accepted<I>(
        &self,
        mut io: I,
        peer: String,
        known_as: KnownAs,
        shared: Arc<Shared>,
    ) -> Option<Result<Connection, ConnectError>>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let began = self.clock.now();
        let identity = shared.identity.get().copied();
        let mut input = BytesMut::new();
        let mut another = Another::None;
        if self.resume.is_some() {
            let limit = self.session.handshake_limit();
            let hello = tokio::time::timeout(limit, read_hello(&mut io, &mut input)).await;
            // Whatever is wrong with it, its session will say; and not, by a name of its own, that it is another one's.
            if let Ok(Some(hello)) = hello {
                if let Some(resume) = hello.resume {
                    let registry = &self.shared.resumable;
                    match registry.attach(&resume.token, identity, io, input) {
                        Ok(()) => return None,
                        Err(back) => (io, input) = back,
                    }
                }
                another = match self.arrivals(identity) {
                    Ok(another) => another,
                    Err(error) => return Some(Err(error)),
                };
            }
        }
        let carrier = Carrier { io, input, another };
        let driven = self.drive(carrier, Role::Acceptor, known_as, &shared, began);
        Some(driven.map(|()| Connection::new(shared, peer)))
    }

    pub(super) fn start_known<I>(
        &self,
        carrier: Carrier<I>,
        role: Role,
        peer: String,
        known_as: KnownAs,
    ) -> Result<Connection, ConnectError>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let shared = self.new_shared();
        self.drive(carrier, role, known_as, &shared, self.clock.now())?;
        Ok(Connection::new(shared, peer))
    }

    pub(super) fn new_shared(&self) -> Arc<Shared> {
        let (queue, window) = (self.session.send_queue_len(), self.session.window_len());
        let memory = self.session.connection_memory_len();
        Arc::new(Shared::new(queue, window, memory))
    }

    /// Begins the session of handles that there are already, on a connection that `began` a while ago.
    pub(super) fn drive<I>(
        &self,
        carrier: Carrier<I>,
        role: Role,
        known_as: KnownAs,
        shared: &Arc<Shared>,
        began: Time,
    ) -> Result<(), ConnectError>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut config = (*self.session)
            .clone()
            .session_id(random_name()?)
            .seed(getrandom::u64().map_err(ConnectError::Random)?);
        if let Another::Arriving(arrivals) = &carrier.another {
            config = config.resume_token(Some(*arrivals.token()));
        }
        let (known_as, knowledge) = known_as.recall(&lock(&self.shared.peers));
        if let Some(knowledge) = knowledge {
            config = config.knowledge(knowledge);
        }
        if let Some(memory) = self.shared.dictionaries.recall(began, &known_as) {
            config = config.dictionary_memory(memory);
        }
        if shared.identity.get().is_some() {
            config = config.authenticated(true);
        }
        let (_, budget) = self.load_and_budget();
        let connection = self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let grant = Arc::new(Grant::new(connection, budget));
        #[cfg(feature = "quic")]
        super::quic::join(
            self,
            &carrier.io,
            role,
            &mut config,
            &known_as,
            (shared, &grant),
        );
        let known = Known { known_as, grant };
        self.drive_session(carrier, (role, config, began), shared, known)
    }

    /// Begins a session with all its settings.
    pub(super) fn drive_session<I>(
        &self,
        carrier: Carrier<I>,
        (role, config, began): (Role, SessionConfig, Time),
        shared: &Arc<Shared>,
        Known { known_as, grant }: Known,
    ) -> Result<(), ConnectError>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (config, history) = self.history_memory.admit(config, shared);
        let mut session = Session::new(role, config, began)?;
        history.begin(&mut session);
        session.set_encoders(self.shared.workers.encoders());
        self.shared.add_grant(&grant);
        let events = self.shared.events.session(role, &known_as, self.clock);
        events.observe(&mut session);
        // Nobody else has set it: a session begins once.
        let _ = shared.events.set(events);
        let driver = Driver::new(
            carrier,
            session,
            Arc::clone(shared),
            Arc::clone(&self.shared),
            self.clock,
            (grant, history),
            known_as,
        );
        tokio::spawn(Steering::new(Arc::clone(shared), Box::pin(driver)));
        Ok(())
    }
}

/// What comes of connecting and listening.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, ConnectError>> + Send + 'a>>;

/// What a session goes by here: the name under which its peer is remembered, and the codec time that it is granted.
pub(super) struct Known {
    pub(super) known_as: String,
    pub(super) grant: Arc<Grant>,
}

/// 128 random bits.
pub(super) fn random_name() -> Result<[u8; 16], ConnectError> {
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(ConnectError::Random)?;
    Ok(name)
}

/// Reads until the peer's hello is there; `None` if what comes is none.
pub(super) async fn read_hello<I: AsyncRead + Unpin>(
    io: &mut I,
    input: &mut BytesMut,
) -> Option<Hello> {
    loop {
        match Hello::parse(input) {
            Ok(Some((hello, _))) => return Some(hello),
            Ok(None) => {}
            Err(_) => return None,
        }
        if io.read_buf(input).await.ok()? == 0 {
            return None;
        }
    }
}

#[cfg(unix)]
async fn dial_unix(path: PathBuf) -> io::Result<tokio::net::UnixStream> {
    tokio::net::UnixStream::connect(path).await
}

async fn dial_tcp(host: String) -> io::Result<TcpStream> {
    let stream = connect_tcp(&host).await?;
    socket::configure(&stream)?;
    Ok(stream)
}

/// Connects to the first address of the host that answers.
pub(super) async fn connect_tcp(host: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in lookup_host(host).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
