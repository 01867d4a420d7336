//! Dictionaries from one connection to the next.

use std::path::Path;

use tautline::dictionary::Acceptance;
use tautline::dictionary::cache::CacheConfig;
use tautline::generate::{Content, Generator};
use tautline::session::DictionaryStats;
use tautline::transport::{Connection, Listener, Node, NodeConfig};
use tautline::wire::{
    Control, DictionaryFrame, DictionaryNews, DictionaryOffer, Features, Hello, Role,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::support::{accept, listen, next, open, quick_dictionaries as session, within};

fn node(from: Acceptance, directory: Option<&Path>) -> Node {
    let mut config = NodeConfig::default().session(session(from)).guard(None);
    if let Some(directory) = directory {
        config = config.dictionary_cache(directory, CacheConfig::default());
    }
    Node::new(config).expect("a node")
}

async fn stats(connection: &Connection) -> DictionaryStats {
    within(connection.stats()).await.expect("open").dictionaries
}

/// Sends messages on a new connection until `enough`; what the sender has done with dictionaries then.
async fn send_until(
    client: &Node,
    listener: &Listener,
    seed: u64,
    mut enough: impl FnMut(&DictionaryStats) -> bool,
) -> DictionaryStats {
    let address = listener.local_address().expect("an address");
    let (from, to) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    let (from, to) = (from.expect("a connection"), to.expect("a connection"));
    let stream = open(&from, "orders").await;
    let received = accept(&to).await;
    let mut made = DictionaryStats::default();
    within(async {
        for message in Generator::new(Content::Telecom, seed) {
            stream.send(message.clone()).await.expect("room");
            assert_eq!(next(&received).await.expect("a message"), message);
            made = stats(&from).await;
            if enough(&made) {
                break;
            }
        }
    })
    .await;
    let (closed, _) = within(async { tokio::join!(from.close(), to.close()) }).await;
    closed.expect("a clean close");
    made
}

fn in_use(made: &DictionaryStats) -> bool {
    made.blocks_sent > 0
}

#[tokio::test]
async fn the_second_connection_starts_warm() {
    let (client, server) = (
        node(Acceptance::Always, None),
        node(Acceptance::Always, None),
    );
    let listener = listen(&server).await;
    let first = send_until(&client, &listener, 1, in_use).await;
    assert_eq!((first.warm, first.trained, first.accepted), (0, 1, 1));
    let second = send_until(&client, &listener, 2, |_| true).await;
    assert_eq!((second.warm, second.offered), (1, 0));
    assert_eq!(second.blocks_sent, 1, "the first message has gone with it");
}

#[tokio::test]
async fn a_dictionary_that_one_node_has_made_is_given_to_another() {
    let (client, server) = (
        node(Acceptance::Always, None),
        node(Acceptance::Always, None),
    );
    let listener = listen(&server).await;
    send_until(&client, &listener, 1, in_use).await;
    let address = listener.local_address().expect("an address");
    let (from, to) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    let (from, _to) = (from.expect("a connection"), to.expect("a connection"));
    let _stream = open(&from, "orders").await;
    let made = within(from.dictionaries()).await.expect("open");
    let [(class, dictionary)] = &made[..] else {
        panic!("{} dictionaries", made.len());
    };
    assert_eq!(class, "orders");

    let given = |class: &str| {
        let config = NodeConfig::default().session(session(Acceptance::Always));
        let config = config.guard(None).dictionary(class, dictionary.clone());
        Node::new(config).expect("a node")
    };
    // A server that has never seen it.
    let stranger = node(Acceptance::Always, None);
    let listener = listen(&stranger).await;
    let first = send_until(&given("orders"), &listener, 2, in_use).await;
    assert_eq!((first.trained, first.offered), (0, 1), "{first:?}");
    // Another class of traffic makes its own.
    let other = send_until(&given("prices"), &listener, 3, in_use).await;
    assert_eq!(other.trained, 1, "{other:?}");
}

#[tokio::test]
async fn histories_begin_with_what_the_connection_before_has_carried() {
    let node = |from, recalls| {
        let session = session(from)
            .policy("zstd:3+history".parse().expect("an arm"))
            .recall_history(recalls);
        Node::new(NodeConfig::default().session(session).guard(None)).expect("a node")
    };
    for (from, recalls, expected) in [
        (Acceptance::Always, true, 1),
        (Acceptance::Always, false, 0),
        (Acceptance::Authenticated, true, 0),
        (Acceptance::Never, true, 0),
    ] {
        let (client, server) = (node(from, recalls), node(Acceptance::Always, true));
        let listener = listen(&server).await;
        let mut sent = 0;
        let first = send_until(&client, &listener, 1, |_| {
            sent += 1;
            sent == 20
        })
        .await;
        assert_eq!(first.recalled, 0);
        let second = send_until(&client, &listener, 2, |_| true).await;
        assert_eq!(second.recalled, expected, "{from:?} {recalls}");
        // Another that begins with nothing, at a server that has something.
        let other = node(from, recalls);
        let third = send_until(&other, &listener, 3, |_| true).await;
        assert_eq!(third.recalled, 0);
    }
}

#[tokio::test]
async fn nodes_that_start_again_find_it_in_their_directories() {
    let directories = [0, 1].map(|_| tempfile::tempdir().expect("a directory"));
    let [ours, theirs] = directories
        .each_ref()
        .map(|it| it.path().join("dictionaries"));
    let stored = |node: &Node| node.dictionary_cache_stats().expect("a cache").stored;
    let address = {
        let client = node(Acceptance::Always, Some(&ours));
        let server = node(Acceptance::Always, Some(&theirs));
        let listener = listen(&server).await;
        send_until(&client, &listener, 1, in_use).await;
        // Files are written beside the way.
        within(async {
            while stored(&client) + stored(&server) < 2 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
        listener.local_address().expect("an address")
    };
    let client = node(Acceptance::Always, Some(&ours));
    let server = node(Acceptance::Always, Some(&theirs));
    // The same place, since that is the name that the peer goes by.
    let listener = within(async {
        loop {
            if let Ok(listener) = server.listen(&address).await {
                break listener;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let again = send_until(&client, &listener, 2, |_| true).await;
    assert_eq!((again.warm, again.offered, again.blocks_sent), (1, 0, 1));
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_counted_and_done_without() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a file, not a directory");
    std::fs::write(&file, b"").expect("room");
    let client = node(Acceptance::Always, Some(&file));
    let server = node(Acceptance::Always, None);
    assert_eq!(
        client.dictionary_cache_stats().expect("asked for").failed,
        1
    );
    assert!(server.dictionary_cache_stats().is_none());
    let listener = listen(&server).await;
    let first = send_until(&client, &listener, 1, in_use).await;
    assert_eq!(first.accepted, 1);
    let second = send_until(&client, &listener, 2, |_| true).await;
    assert_eq!(second.warm, 1, "it lives in memory");

    // Gone while it is in use.
    let gone = directory.path().join("gone");
    let client = node(Acceptance::Always, Some(&gone));
    std::fs::remove_dir(&gone).expect("empty");
    send_until(&client, &listener, 3, in_use).await;
    within(async {
        while client.dictionary_cache_stats().expect("asked for").failed == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn strangers_are_not_given_and_may_not_give_any() {
    let (client, server) = (
        node(Acceptance::Always, None),
        node(Acceptance::Authenticated, None),
    );
    let listener = listen(&server).await;
    let mut count = 0;
    let counted = std::cell::RefCell::new(&mut count);
    let made = send_until(&client, &listener, 1, |_| {
        **counted.borrow_mut() += 1;
        **counted.borrow() == 300
    })
    .await;
    assert_eq!((made.trainings, made.offered), (0, 0));

    // One who offers all the same.
    let address = listener.local_address().expect("an address").to_string();
    let mut socket = TcpStream::connect(address).await.expect("a socket");
    let mut bytes = Vec::new();
    Hello {
        role: Role::Connector,
        versions: (1, 1),
        session: [7; 16],
        codecs: Vec::new(),
        offered: Features(Features::CHECKSUMS.0 | Features::DICTIONARIES.0),
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
    .put(&mut bytes);
    let what = DictionaryNews::Offer {
        hash: [1; 32],
        len: 100,
        codec: tautline::codecs::CodecId::IDENTITY,
        wire_len: 100,
    };
    Control::Dictionary(DictionaryFrame { number: 1, what }).put(&mut bytes);
    socket.write_all(&bytes).await.expect("room");
    let victim = within(listener.accept()).await.expect("a connection");
    assert!(
        within(victim.accept()).await.is_err(),
        "it has broken the protocol"
    );
}
