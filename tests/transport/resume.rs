//! Sessions that go on over another connection when theirs is lost.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tautline::codecs::{Arm, CodecId};
use tautline::control::PolicyConfig;
use tautline::relay::{LinkConfig, Relay, RelayFault};
use tautline::session::{SessionConfig, SessionError, StreamConfig};
use tautline::transport::{Address, Connection, Listener, Node, NodeConfig, ResumeConfig, Stream};
use tautline::wire::GoAwayCode;

use super::support::{accept, listen, numbered, open, within};

/// How often the connection is cut, damaged or silenced: `RESUME_FAULTS` sets it.
const FAULTS: u32 = 60;
/// A word to end with.
const LAST: &[u8] = b"the last one";

#[expect(clippy::disallowed_methods, reason = "how long to look for what fails")]
fn faults() -> u32 {
    let set = std::env::var("RESUME_FAULTS").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(FAULTS)
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
    let address = listener.local_address().expect("an address");
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
    let faults = faults();
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
    let mut rng = Rng::with_seed(1);
    for _ in 0..faults {
        tokio::time::sleep(Duration::from_micros(rng.u64(..15_000))).await;
        let (forward, bit) = (rng.bool(), rng.u64(..));
        relay.inject(match rng.u8(..20) {
            0 => RelayFault::Silence { forward },
            1..=4 => RelayFault::Damage { forward, bit },
            _ => RelayFault::Cut,
        });
    }
    stops.store(true, Ordering::Relaxed);
    let mut messages = 0;
    for stream in streams {
        messages += within(stream).await.expect("no panic");
    }
    let connections = relay.stats().connections;
    println!("{faults} faults, {connections} connections, {messages} messages there and back");
    assert!(connections > u64::from(faults) / 8 && messages > 100);
    within(client.close()).await.expect("a clean close");
    within(server_ends).await.expect("a clean close");
    assert_eq!(client.deliveries(), []);
    within(echo).await.expect("no panic");
}

/// A server in a runtime of its own, which ends as a process does: with all its sockets, and without a word.
struct Process {
    runtime: tokio::runtime::Runtime,
    listener: Listener,
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
            return Some(Self { runtime, listener });
        }
        runtime.shutdown_background();
        None
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
    // The system may take a moment to let go of the address.
    let second = loop {
        if let Some(process) = Process::start(&address) {
            break process;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
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
