//! Sessions that go on over another connection when theirs is lost.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tautline::codecs::{Arm, CodecId};
use tautline::control::PolicyConfig;
use tautline::relay::{LinkConfig, Relay, RelayFault};
use tautline::session::{Delivery, SessionConfig, SessionError, StreamConfig};
use tautline::transport::{Address, Connection, Listener, Node, NodeConfig, ResumeConfig, Stream};
use tautline::units::BytesPerSec;
use tautline::wire::GoAwayCode;

use super::support::{accept, listen, numbered, open, within};

/// How often something is done to the connection: `RESUME_FAULTS` sets it.
const FAULTS: u64 = 60;
/// How often the server is killed: `RESUME_KILLS` sets it.
const KILLS: u64 = 4;
/// What decides which faults there are, and when: `RESUME_SEED` sets it. What they find there is the system's.
const SEED: u64 = 1;
/// A word to end with.
const LAST: &[u8] = b"the last one";

#[expect(clippy::disallowed_methods, reason = "how long to look for what fails")]
fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(default)
}

/// Says the seed if the test fails.
struct Seed(u64);

impl Seed {
    fn rng() -> (Self, Rng) {
        let seed = setting("RESUME_SEED", SEED);
        (Self(seed), Rng::with_seed(seed))
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with RESUME_SEED={}", self.0);
        }
    }
}

/// Another link: as it was, slower, or further.
fn other_link(rng: &mut Rng) -> LinkConfig {
    let rate = 10_f64.powf(6.0 + 2.0 * rng.f64());
    let link = match rng.u8(..4) {
        0 => LinkConfig::default(),
        _ => BytesPerSec::new(rate).map_or_else(LinkConfig::default, LinkConfig::with_rate),
    };
    LinkConfig {
        delay: Duration::from_micros(rng.u64(..5000)),
        ..link
    }
}

/// Does something to the connections, and says what.
fn fail(relay: &Relay, rng: &mut Rng) -> &'static str {
    let (forward, bit) = (rng.bool(), rng.u64(..));
    let at = rng.u64(..);
    let (name, fault) = match rng.u8(..50) {
        0 | 1 => ("silence", RelayFault::Silence { forward }),
        2..=9 => ("damage", RelayFault::Damage { forward, bit }),
        10 | 11 => {
            relay.set_link(other_link(rng));
            return "link";
        }
        12 | 13 => {
            let (len, writes) = (rng.usize(1..64), rng.u64(..500));
            let short = RelayFault::Short {
                forward,
                len,
                writes,
            };
            ("short writes", short)
        }
        14..=17 => ("half-open", RelayFault::HalfOpen { client: forward }),
        18..=20 => {
            let with = rng.u64(1..).to_le_bytes();
            ("garble", RelayFault::Garble { forward, at, with })
        }
        21 | 22 => ("truncate", RelayFault::Truncate { forward, at }),
        _ => ("cut", RelayFault::Cut),
    };
    relay.inject(fault);
    name
}

fn resume() -> ResumeConfig {
    ResumeConfig::default()
        .within(Duration::from_secs(50))
        .wait(Duration::from_millis(1), Duration::from_millis(20))
        .memory(1 << 20)
}

fn node(resume: ResumeConfig) -> Node {
    let session = SessionConfig::default()
        .heartbeat(Some(Duration::from_millis(100)))
        .dead_after(Some(Duration::from_millis(400)));
    let config = NodeConfig::default().session(session).guard(None);
    Node::new(config.resume(Some(resume))).expect("a node")
}

fn address(listener: &Listener) -> SocketAddr {
    socket_of(&listener.local_address().expect("an address"))
}

fn socket_of(address: &Address) -> SocketAddr {
    address.to_string().parse().expect("of TCP")
}

fn relay_to(target: SocketAddr) -> (Relay, Address) {
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let relay = Relay::start(any, target, LinkConfig::default()).expect("a relay");
    let tcp = relay.local_addr().tcp().expect("a TCP address");
    (relay, tcp.into())
}

/// The message of this number on the stream of this number.
fn payload(stream: u64, number: u64) -> Bytes {
    let mut rng = Rng::with_seed(stream << 32 | number);
    let len = if rng.u8(..20) == 0 {
        30_000
    } else {
        rng.usize(..400)
    };
    let word = rng.u64(..50);
    let text = format!("message {number} of stream {stream}, which says {word}; ");
    text.bytes().cycle().take(text.len() + len).collect()
}

/// Sends back what comes, on every stream.
async fn echo(server: Connection) {
    let mut streams = tokio::task::JoinSet::new();
    while let Ok(Some(stream)) = server.accept().await {
        streams.spawn(async move {
            while let Ok(Some(message)) = stream.recv().await {
                if stream.send(message.payload).await.is_err() {
                    return;
                }
            }
        });
    }
    while streams.join_next().await.is_some() {}
}

/// Sends and checks what comes back, until `stops`; how many messages made their way.
async fn exchange(stream: Stream, name: u64, stops: Arc<AtomicBool>) -> u64 {
    let sending = async {
        let mut sent = 0;
        while !stops.load(Ordering::Relaxed) {
            within(stream.send(payload(name, sent)))
                .await
                .expect("an open stream");
            sent += 1;
        }
        within(stream.send(LAST.into()))
            .await
            .expect("an open stream");
        sent
    };
    let receiving = async {
        for number in 0_u64.. {
            let message = within(stream.recv()).await.expect("a session that goes on");
            let message = message.expect("more messages").payload;
            if message == LAST {
                return number;
            }
            assert!(
                message == payload(name, number),
                "message {number} of {name} is {:?}",
                String::from_utf8_lossy(&message[..message.len().min(60)])
            );
        }
        unreachable!("numbers do not end")
    };
    let (sent, received) = tokio::join!(sending, receiving);
    assert_eq!(sent, received);
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_arrives_once_and_in_order_however_often_the_connection_breaks() {
    let faults = setting("RESUME_FAULTS", FAULTS);
    let (seed, mut rng) = Seed::rng();
    let (left, right) = (node(resume()), node(resume()));
    let listener = listen(&right).await;
    let (relay, through) = relay_to(address(&listener));
    let (client, server) = tokio::join!(left.connect(&through), listener.accept());
    let (client, server) = (client.expect("a connection"), server.expect("a connection"));
    let echo = tokio::spawn(echo(server.clone()));
    let watched = server.clone();
    let server_ends = tokio::spawn(async move {
        let ended = watched.closed().await;
        assert_eq!(ended, Ok(()), "{:?}", watched.deliveries());
    });
    let policies = [
        PolicyConfig::default(),
        PolicyConfig::None,
        PolicyConfig::RoundRobin,
        PolicyConfig::Fixed(Arm::new(CodecId::LZ4, 0).with_history()),
        PolicyConfig::Fixed(Arm::new(CodecId::ZSTD, 3).with_history()),
        PolicyConfig::Fixed(Arm::new(CodecId::ZSTD, 1)),
    ];
    let stops = Arc::new(AtomicBool::new(false));
    let mut streams = Vec::new();
    for (name, policy) in (0..).zip(policies) {
        let config = StreamConfig::default().policy(policy);
        let stream = within(client.open("s", config)).await.expect("a stream");
        streams.push(tokio::spawn(exchange(stream, name, Arc::clone(&stops))));
    }
    let mut kinds = BTreeMap::new();
    for _ in 0..faults {
        tokio::time::sleep(Duration::from_micros(rng.u64(..15_000))).await;
        *kinds.entry(fail(&relay, &mut rng)).or_insert(0) += 1;
    }
    relay.set_link(LinkConfig::default());
    stops.store(true, Ordering::Relaxed);
    let mut messages = 0;
    for stream in streams {
        messages += within(stream).await.expect("no panic");
    }
    let stats = relay.stats();
    let (connections, cut) = (stats.connections, stats.cut);
    println!(
        "seed {}, {faults} faults {kinds:?}: {cut} connections cut of {connections}, {messages} messages there and back",
        seed.0
    );
    assert!(connections > faults / 8 && cut > faults / 8 && messages > 100);
    within(client.close()).await.expect("a clean close");
    within(server_ends).await.expect("a clean close");
    assert_eq!(client.deliveries(), []);
    within(echo).await.expect("no panic");
}

/// A server in a runtime of its own, which ends as a process does: with all its sockets, and without a word.
struct Process {
    runtime: tokio::runtime::Runtime,
    listener: Arc<Listener>,
}

impl Process {
    fn start(address: &Address) -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(async { node(resume()).listen(address).await });
        if let Ok(listener) = listener {
            let listener = Arc::new(listener);
            return Some(Self { runtime, listener });
        }
        runtime.shutdown_background();
        None
    }

    /// The system may take a moment to let go of the address.
    fn restart(address: &Address) -> Self {
        loop {
            if let Some(process) = Self::start(address) {
                return process;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Counts what comes on every stream, by its name, over whichever connections.
    fn count(&self) -> Counts {
        let counts = Counts::default();
        let (listener, counted) = (Arc::clone(&self.listener), Arc::clone(&counts));
        self.runtime.spawn(async move {
            while let Ok(connection) = listener.accept().await {
                tokio::spawn(count(connection, Arc::clone(&counted)));
            }
        });
        counts
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(within(future))
    }

    fn kill(self) {
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

#[test]
fn a_peer_that_was_started_anew_has_lost_the_session_and_both_applications_are_told() {
    let client_runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let on_client = |future| client_runtime.block_on(within(future));
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let first = Process::start(&any.into()).expect("a listener");
    let address = first.listener.local_address().expect("an address");
    let client_node = client_runtime.block_on(async { node(resume()) });
    let client = client_runtime
        .block_on(within(client_node.connect(&address)))
        .expect("a connection");
    let server = first.run(first.listener.accept()).expect("a connection");
    let stream = client_runtime.block_on(open(&client, "s"));
    on_client(stream.send(numbered(1, 100))).expect("room");
    let received = first.run(accept(&server));
    first.run(received.recv()).expect("a message");
    let acknowledged = async {
        while stream.stats().await.expect("a stream").messages_delivered == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    client_runtime.block_on(within(acknowledged));
    first.kill();
    on_client(stream.send(numbered(2, 100))).expect("room");
    let second = Process::restart(&address);
    let told = client_runtime.block_on(within(client.closed()));
    assert_eq!(told, Err(SessionError::Forgotten));
    let deliveries = client.deliveries();
    assert_eq!(deliveries.len(), 1, "{deliveries:?}");
    assert_eq!(deliveries[0].delivered, 1);
    assert_eq!(deliveries[0].unknown + deliveries[0].unsent, 1);
    let there = second.run(second.listener.accept()).expect("a connection");
    let told = second.run(there.closed());
    let is_lost = |error: &SessionError| matches!(error, SessionError::GoneAway { code, .. } if *code == GoAwayCode::SessionLost);
    assert!(told.as_ref().is_err_and(is_lost), "{told:?}");
}

const STREAMS: usize = 3;
type Counts = Arc<[AtomicU64; STREAMS]>;

async fn count(server: Connection, counts: Counts) {
    while let Ok(Some(stream)) = server.accept().await {
        let counts = Arc::clone(&counts);
        tokio::spawn(async move {
            let name: usize = stream.name().parse().expect("a number");
            let mut number = 0;
            while let Ok(Some(message)) = stream.recv().await {
                assert!(message.payload == payload(name as u64, number));
                number += 1;
                counts[name].store(number, Ordering::SeqCst);
            }
        });
    }
}

/// Sends until the session is over; how many messages were taken.
async fn send_until_over(stream: Stream, name: u64) -> u64 {
    let mut sent = 0;
    while stream.send(payload(name, sent)).await.is_ok() {
        sent += 1;
    }
    sent
}

/// What the server's session has, and its application has not taken yet, dies unseen: so that it has what was acknowledged
/// shows in virtual time alone (tests/sim/storm/crash.rs).
#[test]
fn however_often_the_server_is_killed_the_client_is_told_no_lie_about_its_messages() {
    let (seed, mut rng) = Seed::rng();
    let kills = setting("RESUME_KILLS", KILLS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let mut server = Process::start(&any.into()).expect("a listener");
    let address = server.listener.local_address().expect("an address");
    let (mut told, mut arrived, mut cut) = ([0; 3], 0, 0);
    for _ in 0..kills {
        let counts = server.count();
        let (relay, through) = runtime.block_on(async { relay_to(socket_of(&address)) });
        let client_node = runtime.block_on(async { node(resume()) });
        let client = runtime.block_on(within(client_node.connect(&through)));
        let client = client.expect("a connection");
        let sending: Vec<_> = (0..STREAMS as u64)
            .map(|name| {
                let stream = runtime.block_on(open(&client, &name.to_string()));
                runtime.spawn(send_until_over(stream, name))
            })
            .collect();
        for _ in 0..rng.u8(..6) {
            let pause = Duration::from_micros(rng.u64(..30_000));
            runtime.block_on(async { tokio::time::sleep(pause).await });
            if rng.bool() {
                relay.inject(RelayFault::Cut);
            }
        }
        server.kill();
        server = Process::restart(&address);
        let ended = runtime.block_on(within(client.closed()));
        assert_eq!(ended, Err(SessionError::Forgotten));
        let deliveries = client.deliveries();
        for (name, sending) in sending.into_iter().enumerate() {
            let sent = runtime.block_on(within(sending)).expect("no panic");
            let received = counts[name].load(Ordering::SeqCst);
            arrived += received;
            let of_it = |said: &&Delivery| said.name == name.to_string();
            let Some(said) = deliveries.iter().find(of_it) else {
                assert_eq!(received, 0, "nothing is said of stream {name}");
                continue;
            };
            assert!(
                received <= said.delivered + said.unknown,
                "{said:?}, {received} received"
            );
            assert!(
                said.delivered + said.unknown + said.unsent <= sent,
                "{said:?} of {sent}"
            );
            told[0] += said.delivered;
            told[1] += said.unknown;
            told[2] += said.unsent;
        }
        cut += relay.stats().cut;
    }
    let [delivered, unknown, unsent] = told;
    println!(
        "seed {}, {kills} kills, {cut} connections cut before: {arrived} messages taken there, said to be delivered {delivered}, unknown {unknown}, unsent {unsent}",
        seed.0
    );
    assert!(kills < KILLS || delivered > 0);
}

#[tokio::test]
async fn a_session_whose_peer_does_not_come_back_is_given_up_after_its_limit() {
    let limit = Duration::from_millis(300);
    let client_node = node(resume().within(limit));
    let first = node(resume().within(limit));
    let listener = listen(&first).await;
    let (relay, through) = relay_to(address(&listener));
    let client = within(client_node.connect(&through))
        .await
        .expect("a connection");
    let server = within(listener.accept()).await.expect("a connection");
    let stream = open(&client, "s").await;
    within(stream.send(numbered(1, 100))).await.expect("room");
    within(accept(&server).await.recv())
        .await
        .expect("a message");
    drop(relay);
    for end in [&client, &server] {
        assert_eq!(
            within(end.closed()).await,
            Err(SessionError::NotResumed { limit })
        );
    }
}

#[tokio::test]
async fn without_it_on_both_sides_a_session_ends_with_its_connection() {
    for (here, there) in [(true, false), (false, true)] {
        let node = |on: bool| {
            if on {
                node(resume())
            } else {
                super::support::node(SessionConfig::default())
            }
        };
        let right = node(there);
        let listener = listen(&right).await;
        let (relay, through) = relay_to(address(&listener));
        let client = within(node(here).connect(&through))
            .await
            .expect("a connection");
        let server = within(listener.accept()).await.expect("a connection");
        relay.inject(RelayFault::Cut);
        for end in [&client, &server] {
            assert_eq!(
                within(end.closed()).await,
                Err(SessionError::ConnectionLost)
            );
        }
    }
}
