//! A node: what all connections of one process share.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
#[cfg(feature = "dictionary-cache")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use super::clock::Clock;
use super::connection::Connection;
use super::dictionaries::DictionaryStore;
use super::driver::Driver;
use super::guard::{self, Grant};
use super::history::HistoryMemory;
use super::listener::Listener;
use super::load::{LoadReadError, LoadReader};
use super::memory::{KnownAs, PeerMemory};
use super::shared::{Shared, lock};
use super::{Address, ConnectError, socket};
use crate::control::{BudgetRate, CpuGuard, CpuGuardConfig, CpuGuardConfigError, PeerKnowledge};
#[cfg(feature = "dictionary-cache")]
use crate::dictionary::cache::{CacheConfig, CacheStats};
use crate::session::{CodecWorker, Role, Session, SessionConfig};
use crate::units::CpuLoad;

/// Idle workers kept with their scratch, each up to a few MB: as many as can be at work at once on
/// a small machine. Arbitrary.
const MAX_IDLE_WORKERS: usize = 8;

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
    /// from elsewhere is known by its IP address. Those that connect to a Unix socket have no name:
    /// they share what was learned of the content and the codecs, and nothing else. Default 1024; 0
    /// begins every connection anew.
    #[must_use]
    pub fn remembered_peers(mut self, peers: usize) -> Self {
        self.remembered_peers = peers;
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
    /// Called outside a tokio runtime.
    #[error("a node runs in a tokio runtime, and there is none here")]
    NoRuntime,
}

#[derive(Debug)]
pub(super) struct NodeShared {
    /// As announced to peers.
    window_log: u8,
    workers: Mutex<Vec<CodecWorker>>,
    grants: Mutex<Vec<Weak<Grant>>>,
    state: Mutex<(Option<BudgetRate>, CpuLoad)>,
    peers: Mutex<PeerMemory>,
    pub(super) dictionaries: DictionaryStore,
}

impl NodeShared {
    pub(super) fn take_worker(&self) -> CodecWorker {
        lock(&self.workers)
            .pop()
            .unwrap_or_else(|| CodecWorker::new(self.window_log))
    }

    pub(super) fn put_worker(&self, worker: CodecWorker) {
        let mut workers = lock(&self.workers);
        if workers.len() < MAX_IDLE_WORKERS {
            workers.push(worker);
        }
    }

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
        *lock(&self.state) = (budget, load);
    }
}

/// One end of many connections: settings, codec workers and the guard over the processors.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) shared: Arc<NodeShared>,
    session: Arc<SessionConfig>,
    history_memory: HistoryMemory,
    clock: Clock,
}

impl Node {
    /// Starts a node on the runtime that this is called in.
    ///
    /// # Errors
    ///
    /// There is no runtime, the guard's settings make no sense, or the load cannot be read.
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
        } = config;
        let clock = history_memory.clock();
        #[cfg_attr(
            not(feature = "dictionary-cache"),
            expect(unused_mut, reason = "only a directory puts anything in")
        )]
        let mut dictionaries = DictionaryStore::new(remembered_peers);
        #[cfg(feature = "dictionary-cache")]
        if let Some(cache) = dictionary_cache {
            // Without random numbers a seed that peers might guess: no connection will start anyway.
            let seed = getrandom::u64().unwrap_or_default();
            dictionaries.open(cache, clock.now(), (session.trainer(), seed));
        }
        let reader = match load {
            Some(reader) => Ok(reader),
            None => LoadReader::detect(),
        };
        let budget = guard.is_some().then_some(BudgetRate::ZERO);
        let shared = Arc::new(NodeShared {
            window_log: session.window_log(),
            workers: Mutex::default(),
            grants: Mutex::default(),
            state: Mutex::new((budget, CpuLoad::IDLE)),
            peers: Mutex::new(PeerMemory::new(remembered_peers)),
            dictionaries,
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
            clock,
        })
    }

    /// The processor load as measured last, and the codec budget that follows from it for all
    /// connections together; `None` without a guard.
    pub fn load_and_budget(&self) -> (CpuLoad, Option<BudgetRate>) {
        let (budget, load) = *lock(&self.shared.state);
        (load, budget)
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
        let failed = |source| ConnectError::Io {
            address: address.clone(),
            source,
        };
        let connection = match address {
            Address::Tcp(host) => {
                let stream = connect_tcp(host).await.map_err(failed)?;
                socket::configure(&stream).map_err(failed)?;
                self.start(stream, Role::Connector, address.to_string())?
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path)
                    .await
                    .map_err(failed)?;
                self.start(stream, Role::Connector, address.to_string())?
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
        Listener::bind(self.clone(), address).await
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
        // Who connects comes from another port each time.
        let name = match peer.parse::<SocketAddr>() {
            Ok(address) if role == Role::Acceptor => address.ip().to_string(),
            _ => peer.clone(),
        };
        self.start_known(io, role, peer, KnownAs::Peer(name))
    }

    pub(super) fn start_known<I>(
        &self,
        io: I,
        role: Role,
        peer: String,
        known_as: KnownAs,
    ) -> Result<Connection, ConnectError>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut random = [0; 24];
        getrandom::fill(&mut random).map_err(ConnectError::Random)?;
        let (id, seed) = random.split_at(16);
        let mut session_id = [0; 16];
        session_id.copy_from_slice(id);
        let mut seed_bytes = [0; 8];
        seed_bytes.copy_from_slice(seed);
        let mut config = (*self.session)
            .clone()
            .session_id(session_id)
            .seed(u64::from_le_bytes(seed_bytes));
        let (known_as, knowledge) = known_as.recall(&lock(&self.shared.peers));
        if let Some(knowledge) = knowledge {
            config = config.knowledge(knowledge);
        }
        if let Some(memory) = self.shared.dictionaries.recall(&known_as) {
            config = config.dictionary_memory(memory);
        }
        let shared = Arc::new(Shared::new(config.send_queue_len(), config.window_len()));
        let (config, history) = self.history_memory.admit(config, &shared);
        let mut session = Session::new(role, config, self.clock.now())?;
        history.begin(&mut session);
        let (_, budget) = self.load_and_budget();
        let grant = Arc::new(Grant::new(budget));
        self.shared.add_grant(&grant);
        let driver = Driver::new(
            io,
            session,
            Arc::clone(&shared),
            Arc::clone(&self.shared),
            self.clock,
            (grant, history),
            known_as,
        );
        tokio::spawn(driver);
        Ok(Connection::new(shared, peer))
    }
}

/// Connects to the first address of the host that answers.
async fn connect_tcp(host: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in lookup_host(host).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
