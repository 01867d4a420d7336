//! What many streams and many connections hold, counted by the allocator and, where the system says it, by
//! the process's resident memory, since zstd allocates with C's `malloc`.
#![cfg(all(
    feature = "transport",
    feature = "generate",
    feature = "lz4",
    feature = "zstd"
))]

#[path = "support/counting.rs"]
mod counting;

use bytes::Bytes;
use tautline::codecs::{Arm, CodecId};
use tautline::control::PolicyConfig;
use tautline::generate::{Content, Generator};
use tautline::session::{Role, SessionConfig, StreamConfig};
use tautline::transport::{Connection, HistoryMemory, Node, NodeConfig, Stream};

use self::counting::held;

/// Resident bytes, where the system says.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

fn messages(count: usize) -> Vec<Bytes> {
    let generator = Generator::new(Content::Telecom, 5);
    generator.take(count).collect()
}

async fn connect(left: &Node, right: &Node) -> (Connection, Connection) {
    let (a, b) = tokio::io::duplex(64 << 10);
    let a = left
        .start(a, Role::Connector, "right".to_owned())
        .expect("settings");
    let b = right
        .start(b, Role::Acceptor, "left".to_owned())
        .expect("settings");
    a.established().await.expect("a handshake");
    b.established().await.expect("a handshake");
    (a, b)
}

const STREAMS: usize = 10_000;
const ROUNDS: usize = 10;
const MOST_MEMORY: usize = 256 << 20;

fn ten_thousand_streams() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let messages = messages(1000);
    let (held_before, resident_before) = (held(..), resident());
    runtime.block_on(async {
        let node = Node::new(NodeConfig::default().guard(None)).expect("settings");
        let (a, b) = connect(&node, &node).await;
        let mut out = Vec::with_capacity(STREAMS);
        for number in 0..STREAMS {
            let stream = a.open(&format!("stream-{number}"), StreamConfig::default()).await;
            out.push(stream.expect("room for it"));
        }
        let greedy = a.open("greedy", StreamConfig::default()).await;
        let greedy = greedy.expect("room for it");
        let receive = async {
            let mut streams: Vec<Stream> = Vec::with_capacity(STREAMS);
            for _ in 0..STREAMS {
                streams.push(b.accept().await.expect("no failure").expect("a stream"));
            }
            let greedy = b.accept().await.expect("no failure").expect("a stream");
            // Nothing starves: every stream gets every message, in its order, however much one sends.
            let all = async {
                for round in 0..ROUNDS {
                    for (number, stream) in streams.iter().enumerate() {
                        let message = stream.recv().await.expect("no failure").expect("a message");
                        assert_eq!(message.payload, messages[(number + round) % messages.len()]);
                    }
                }
            };
            let swallow = async {
                while greedy.recv().await.expect("no failure").is_some() {}
            };
            tokio::select! {
                () = all => {},
                () = swallow => unreachable!("it goes on"),
            }
            (streams, greedy)
        };
        let send = async {
            for round in 0..ROUNDS {
                for (number, stream) in out.iter().enumerate() {
                    let message = &messages[(number + round) % messages.len()];
                    stream.send(message.clone()).await.expect("room");
                }
            }
        };
        let greed = async {
            let much = Bytes::from(messages.concat());
            loop {
                greedy.send(much.clone()).await.expect("room");
            }
        };
        let (streams, _greedy) = tokio::select! {
            (streams, ()) = async { tokio::join!(receive, send) } => streams,
            () = greed => unreachable!("it goes on"),
        };
        let stats = (a.stats().await.expect("open"), b.stats().await.expect("open"));
        let counted = held(..) - held_before;
        let resident = resident().zip(resident_before).map(|(now, before)| now.saturating_sub(before));
        println!(
            "{STREAMS} streams, both ends: {counted} bytes counted, {resident:?} resident, histories {} and {}",
            stats.0.history_sent, stats.1.history_received
        );
        assert!(counted + (stats.0.history_sent + stats.1.history_received) as usize <= MOST_MEMORY);
        assert!(resident.is_none_or(|resident| resident <= MOST_MEMORY), "{resident:?}");
        drop(streams);
    });
}

/// What 1000 connections of one process did, their messages encoded with `arm`.
fn thousand_connections(arm: Arm, budget: usize) {
    const CONNECTIONS: usize = 1000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // Long enough for a history to fill.
    let small = messages(1200);
    let messages: Vec<Bytes> = small.chunks(20).map(|some| some.concat().into()).collect();
    runtime.block_on(async {
        let memory = HistoryMemory::new(budget);
        let node = |memory: HistoryMemory| {
            let session = SessionConfig::default().policy(PolicyConfig::Fixed(arm));
            let config = NodeConfig::default().guard(None).session(session);
            Node::new(config.history_memory(memory)).expect("settings")
        };
        // With no memory for histories: what connections take besides.
        let mut besides = 0;
        for budget in [0, budget] {
            let memory = if budget == 0 {
                HistoryMemory::new(0)
            } else {
                memory.clone()
            };
            let (left, right) = (node(memory.clone()), node(memory.clone()));
            let (held_before, resident_before) = (held(..), resident());
            let mut connections = Vec::with_capacity(CONNECTIONS);
            for _ in 0..CONNECTIONS {
                let (a, b) = connect(&left, &right).await;
                let out = a.open("stream", StreamConfig::default()).await;
                let out = out.expect("room for it");
                let back = b.accept().await.expect("no failure").expect("a stream");
                connections.push((a, b, out, back));
            }
            for message in &messages {
                for (_, _, out, back) in &connections {
                    out.send(message.clone()).await.expect("room");
                    back.send(message.clone()).await.expect("room");
                }
                for (_, _, out, back) in &connections {
                    for stream in [back, out] {
                        let got = stream.recv().await.expect("no failure").expect("a message");
                        assert_eq!(got.payload, message);
                    }
                }
            }
            let counted = held(..) - held_before;
            let resident = resident().zip(resident_before).map(|(now, before)| now.saturating_sub(before));
            let stats = memory.stats();
            let mut reported = 0;
            for (a, b, ..) in &connections {
                for end in [a, b] {
                    let stats = end.stats().await.expect("open");
                    reported += (stats.history_sent + stats.history_received) as usize;
                }
            }
            println!("{arm}: {counted} bytes counted, {resident:?} resident, {reported} reported by sessions, {stats:?}");
            assert_eq!(stats.connections, 2 * CONNECTIONS);
            let granted = stats.sent_granted + stats.received_announced;
            assert!(granted <= budget, "{granted}");
            // What contexts like them usually take is exact to a tenth.
            assert!(reported <= budget + budget / 10, "{reported} of {budget}");
            let said = stats.sent_held + stats.received_held;
            assert!(said.abs_diff(reported) <= reported / 10 + (64 << 10), "{said}, {reported}");
            if budget == 0 {
                assert_eq!(reported, 0);
                besides = counted;
            } else {
                assert!(reported > budget / 8, "{reported} of {budget} is of use");
                // LZ4's contexts are all Rust's, zstd's are C's.
                if arm.codec == CodecId::LZ4 {
                    let histories = counted.saturating_sub(besides);
                    let off = histories.abs_diff(reported);
                    // Besides, sessions that have histories keep books on them.
                    assert!(off <= reported / 8, "{histories}, {reported}");
                }
            }
            for (a, b, out, back) in connections {
                drop((out, back));
                let (a, b) = tokio::join!(a.close(), b.close());
                a.and(b).expect("a clean end");
            }
            assert_eq!(memory.stats().connections, 0);
        }
    });
}

/// What a connection holds at each end while nothing happens on it, once it has carried so many messages each way.
fn idle_connections(policy: PolicyConfig, count: usize) {
    const FIRST: usize = 100;
    const CONNECTIONS: usize = 300;
    const MOST: usize = 32 << 10;
    /// A binary logarithm.
    const LARGE: usize = 17;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let messages = messages(count);
    runtime.block_on(async {
        let session = SessionConfig::default().policy(policy);
        let node = || {
            let config = NodeConfig::default().guard(None).session(session.clone());
            Node::new(config.history_memory(HistoryMemory::new(0))).expect("settings")
        };
        let (left, right) = (node(), node());
        let address = "127.0.0.1:0".parse().expect("an address");
        let listener = right.listen(&address).await.expect("a listener");
        let address = listener.local_address().expect("an address");
        // What is made once for all, and a second round of what stays with it. The memory that codecs work in is the process's, and may first be needed
        // in any round, by as many workers as are busy at once: it is counted apart.
        let mut before = (0, 0);
        let mut all = Vec::new();
        for connections in [FIRST, CONNECTIONS] {
            before = (held(..LARGE), held(LARGE..));
            for _ in 0..connections {
                let (a, b) = tokio::join!(left.connect(&address), listener.accept());
                let (a, b) = (a.expect("a connection"), b.expect("a connection"));
                b.established().await.expect("a handshake");
                let out = a
                    .open("stream", StreamConfig::default())
                    .await
                    .expect("room");
                let back = b.accept().await.expect("no failure").expect("a stream");
                for message in &messages {
                    out.send(message.clone()).await.expect("room");
                    back.send(message.clone()).await.expect("room");
                    for stream in [&back, &out] {
                        let got = stream.recv().await.expect("no failure").expect("a message");
                        assert_eq!(got.payload, message);
                    }
                }
                all.push((a, b, out, back));
            }
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        let each = || held(..LARGE).saturating_sub(before.0) / CONNECTIONS / 2;
        // Where a whole machine was taken its time, what is given back is so later.
        for _ in 0..10 {
            if each() > MOST {
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            }
        }
        let (each, large) = (each(), held(LARGE..).saturating_sub(before.1));
        println!("{policy:?}, {count} messages each way: {each} bytes for an end that is idle, and {large} for all of them");
        assert!(each <= MOST, "{each} bytes for an end that is idle");
        assert!(large <= (CONNECTIONS / 2) << LARGE, "{large} bytes: connections have some of their own");
    });
}

/// In this order: what is resident is a process's, and what was freed may stay so.
#[test]
fn many_streams_and_many_connections_hold_no_more_than_they_may() {
    idle_connections(PolicyConfig::default(), 0);
    idle_connections(PolicyConfig::None, 200);
    idle_connections(PolicyConfig::default(), 200);
    ten_thousand_streams();
    thousand_connections(Arm::new(CodecId::LZ4, 0).with_history(), 64 << 20);
    thousand_connections(Arm::new(CodecId::ZSTD, 1).with_history(), 256 << 20);
}
