//! What small messages hold that an application keeps, or leaves where they are, while large ones come and go: counted by the allocator,
//! over sockets.
#![cfg(feature = "transport")]

#[path = "support/counting.rs"]
mod counting;

use bytes::Bytes;
use tautline::control::PolicyConfig;
use tautline::session::{SessionConfig, StreamConfig};
use tautline::transport::{Connection, Node, NodeConfig, Stream};

use self::counting::held;

const LARGE: usize = 60_000;
const ROUNDS: usize = 300;
/// Buffers in use, and what grows in steps.
const BESIDES: usize = 512 << 10;

async fn stream(client: &Connection, server: &Connection, name: &str) -> (Stream, Stream) {
    let out = client.open(name, StreamConfig::default()).await;
    let taken = server.accept().await.expect("no failure");
    (out.expect("room for it"), taken.expect("a stream"))
}

async fn pass(from: &Stream, to: &Stream, payload: &Bytes) -> Bytes {
    from.send(payload.clone()).await.expect("room");
    let message = to.recv().await.expect("no failure").expect("a message");
    assert_eq!(message.payload, *payload);
    message.payload
}

/// What is held more after `count` small messages of `len` bytes, one at a time, with a large one behind each that is read and dropped.
async fn held_by_small_ones(count: usize, len: usize, large: usize, are_taken: bool) -> usize {
    let session = SessionConfig::default().policy(PolicyConfig::None);
    let node = Node::new(NodeConfig::default().guard(None).session(session)).expect("settings");
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = node.listen(&address).await.expect("a listener");
    let address = listener.local_address().expect("an address");
    let (client, server) = tokio::join!(node.connect(&address), listener.accept());
    let (client, server) = (client.expect("a connection"), server.expect("one"));
    let small = stream(&client, &server, "small").await;
    let bulk = stream(&client, &server, "bulk").await;
    let (one, large) = (Bytes::from(vec![1; len]), Bytes::from(vec![7; large]));
    let mut kept = Vec::with_capacity(count);
    for _ in 0..20 {
        pass(&small.0, &small.1, &one).await;
        pass(&bulk.0, &bulk.1, &large).await;
    }
    let before = held(..);
    for _ in 0..count {
        if are_taken {
            kept.push(pass(&small.0, &small.1, &one).await);
        } else {
            small.0.send(one.clone()).await.expect("room");
        }
        if !large.is_empty() {
            pass(&bulk.0, &bulk.1, &large).await;
        }
    }
    let more = held(..).saturating_sub(before);
    let how = if are_taken { "kept" } else { "not taken" };
    println!(
        "{count} messages of {len} B {how}, {} B behind each: {more} bytes held",
        large.len()
    );
    assert!(kept.iter().all(|it| *it == one));
    more
}

/// One after the other: what is held is the process's.
#[test]
fn small_messages_do_not_hold_what_large_ones_were_read_into() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        for are_taken in [true, false] {
            for len in [1, 1000] {
                let more = held_by_small_ones(ROUNDS, len, LARGE, are_taken).await;
                assert!(
                    more <= ROUNDS * (len + 200) + BESIDES,
                    "{len}, {are_taken}: {more}"
                );
            }
        }
        // With nothing behind them they would share their buffers.
        let more = held_by_small_ones(10_000, 1, 0, true).await;
        assert!(more <= 10_000 * 200 + BESIDES, "{more}");
    });
}
