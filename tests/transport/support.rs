//! Pairs of connected nodes, and payloads from a seed.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
#[cfg(all(feature = "generate", feature = "zstd"))]
use tautline::dictionary::{Acceptance, AcceptancePolicy, TrainerConfig};
use tautline::session::{Role, SessionConfig, StreamConfig};
use tautline::transport::{Address, Connection, Listener, Node, NodeConfig, Stream};
use tautline::wire::{DictionaryOffer, Features, Hello};

/// More than anything here takes on the slowest machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits for what must come.
///
/// # Panics
///
/// If it does not.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("it hangs: nothing came within a minute")
}

pub(crate) fn node(session: SessionConfig) -> Node {
    Node::new(NodeConfig::default().session(session).guard(None)).expect("a node")
}

/// Settings with which a dictionary is soon made and used, and taken of whom `from` says.
#[cfg(all(feature = "generate", feature = "zstd"))]
pub(crate) fn quick_dictionaries(from: Acceptance) -> SessionConfig {
    let mut quick = TrainerConfig::default();
    quick.min_messages = 200;
    SessionConfig::default()
        .policy("zstd:3+dictionary".parse().expect("an arm"))
        .accept_dictionaries(AcceptancePolicy::new(from))
        .train_dictionaries(Some(quick))
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carrier {
    Tcp,
    #[cfg(unix)]
    Unix,
    Duplex,
}

pub(crate) const CARRIERS: &[Carrier] = &[
    Carrier::Tcp,
    #[cfg(unix)]
    Carrier::Unix,
    Carrier::Duplex,
];

/// Two ends of one connection.
pub(crate) struct Pair {
    pub(crate) client: Connection,
    pub(crate) server: Connection,
}

impl Pair {
    pub(crate) async fn tcp(session: SessionConfig) -> Self {
        Self::over(Carrier::Tcp, session).await
    }

    pub(crate) async fn over(carrier: Carrier, session: SessionConfig) -> Self {
        let (left, right) = (node(session.clone()), node(session));
        match carrier {
            Carrier::Tcp => {
                let listener = listen(&right).await;
                Self::through(&left, &listener).await
            }
            #[cfg(unix)]
            Carrier::Unix => {
                let dir = tempfile::tempdir().expect("a directory");
                let address = Address::Unix(dir.path().join("socket"));
                let listener = right.listen(&address).await.expect("a listener");
                Self::through(&left, &listener).await
            }
            Carrier::Duplex => {
                let (a, b) = tokio::io::duplex(10_000);
                let client = left.start(a, Role::Connector, "b".into()).expect("a start");
                let server = right.start(b, Role::Acceptor, "a".into()).expect("a start");
                within(client.established()).await.expect("a handshake");
                Self { client, server }
            }
        }
    }

    async fn through(node: &Node, listener: &Listener) -> Self {
        let address = listener.local_address().expect("an address");
        let (client, server) =
            within(async { tokio::join!(node.connect(&address), listener.accept()) }).await;
        Self {
            client: client.expect("a connection"),
            server: server.expect("a connection"),
        }
    }

    /// Both ends of a new stream.
    pub(crate) async fn stream(&self) -> (Stream, Stream) {
        let client = open(&self.client, "s").await;
        (client, accept(&self.server).await)
    }
}

pub(crate) async fn listen(node: &Node) -> Listener {
    let address = "127.0.0.1:0".parse().expect("an address");
    node.listen(&address).await.expect("a listener")
}

pub(crate) async fn open(connection: &Connection, name: &str) -> Stream {
    within(connection.open(name, StreamConfig::default()))
        .await
        .expect("a stream")
}

pub(crate) async fn accept(connection: &Connection) -> Stream {
    within(connection.accept())
        .await
        .expect("a session that goes on")
        .expect("a stream")
}

/// The next message's bytes; `None` at the end.
pub(crate) async fn next(stream: &Stream) -> Option<Bytes> {
    within(stream.recv())
        .await
        .expect("a stream that goes on")
        .map(|message| message.payload)
}

/// Messages of up to `max_len` bytes, some of which compress well and some not at all.
pub(crate) fn payloads(seed: u64, count: usize, max_len: usize) -> impl Iterator<Item = Bytes> {
    let mut rng = Rng::with_seed(seed);
    (0..count).map(move |number| {
        // A third is small: most messages are.
        let max = if number % 3 == 0 { 300 } else { max_len };
        let mut bytes = vec![0; rng.usize(..=max)];
        match rng.u8(..3) {
            0 => rng.fill(&mut bytes),
            1 => bytes.fill_with(|| b"abc "[rng.usize(..4)]),
            _ => {
                let text = format!("attach request {number} accepted; ");
                for (byte, from) in bytes.iter_mut().zip(text.bytes().cycle()) {
                    *byte = from;
                }
            }
        }
        bytes.into()
    })
}

/// A message that says its number and nothing else of interest.
pub(crate) fn numbered(number: u32, len: usize) -> Bytes {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(len.max(4), number as u8);
    bytes.into()
}

pub(crate) fn number(payload: &[u8]) -> u32 {
    u32::from_le_bytes(payload[..4].try_into().expect("four bytes"))
}

/// The bytes with which a connector without codecs begins, for peers made by hand.
pub(crate) fn hello() -> Vec<u8> {
    let mut out = Vec::new();
    Hello {
        role: Role::Connector,
        versions: (1, 1),
        session: [7; 16],
        codecs: Vec::new(),
        offered: Features::CHECKSUMS,
        required: Features::default(),
        max_message: 1 << 20,
        max_block: 1 << 16,
        max_streams: 100,
        window: 1 << 16,
        credit: None,
        history_memory: 0,
        dictionaries: DictionaryOffer::default(),
        resume: None,
    }
    .put(&mut out);
    out
}
