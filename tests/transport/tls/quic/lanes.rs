//! Streams in groups go on streams of QUIC of their own: what arrives, what is held up, and who may begin how many.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use quinn::{RecvStream, SendStream, TransportConfig};
use tautline::session::{Limits, SessionConfig, SessionError, StreamConfig};
use tautline::transport::{
    Address, Connection, Listener, Node, NodeConfig, OpenStreamError, Stream,
};
use tautline::wire::{Control, GoAwayCode, GroupId, Open, StreamId, WireError};

use super::super::super::support::{accept, hello, next, number, numbered, payloads, within};
use super::super::authority::{Authority, pair, server_node};
use super::network::Network;
use super::{ALPN, close, listen_quic, pair_over, raw, resumable};

async fn try_open(connection: &Connection, group: u8) -> Result<Stream, OpenStreamError> {
    let config = StreamConfig::default().group(GroupId(group));
    within(connection.open(&format!("group {group}"), config)).await
}

async fn open_in(connection: &Connection, group: u8) -> Stream {
    try_open(connection, group).await.expect("a stream")
}

async fn lanes(connection: &Connection) -> u32 {
    within(connection.stats())
        .await
        .expect("open")
        .further_lanes
}

async fn send(stream: &Stream, message: Bytes) {
    within(stream.send(message)).await.expect("room");
}

/// Both ends of streams that this side opens, one in each group.
async fn both_ends(from: &Connection, to: &Connection, groups: &[u8]) -> Vec<(Stream, Stream)> {
    let mut here = Vec::new();
    let mut there = Vec::new();
    for group in groups {
        here.push(open_in(from, *group).await);
    }
    for _ in groups {
        there.push(accept(to).await);
    }
    // They come by their lanes, in any order.
    let order: Vec<_> = here.iter().map(Stream::id).collect();
    there.sort_by_key(|stream| order.iter().position(|id| *id == stream.id()));
    here.into_iter().zip(there).collect()
}

fn quiet(limits: Limits) -> SessionConfig {
    SessionConfig::default().limits(limits)
}

fn config(lanes: u32) -> NodeConfig {
    NodeConfig::default().guard(None).quic_lanes(lanes)
}

/// Two nodes that may begin so many lanes each, and their ends of a connection.
async fn connected(client: u32, server: u32, session: &SessionConfig) -> (Connection, Connection) {
    let authority = Authority::new();
    let config = |lanes| config(lanes).session(session.clone());
    let server = Node::new(config(server).server_tls(authority.mutual())).expect("a node");
    let listener = listen_quic(&server).await;
    let tls = authority.client().identity(authority.identity("somebody"));
    let client = Node::new(config(client).client_tls(tls)).expect("a node");
    pair(&client, &listener).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_have_lanes_which_both_sides_may_begin_at_once() {
    const GROUPS: u8 = 6;
    let (client, server) = connected(32, 32, &SessionConfig::default()).await;
    // The same groups at both ends, at the same time.
    let opens = |connection: &Connection| {
        let connection = connection.clone();
        let opens = (0..=GROUPS).map(move |group| {
            let connection = connection.clone();
            tokio::spawn(async move {
                let (one, other) =
                    tokio::join!(open_in(&connection, group), open_in(&connection, group));
                [one, other]
            })
        });
        opens.collect::<Vec<_>>()
    };
    let (from_client, from_server) = (opens(&client), opens(&server));
    let mut tasks = tokio::task::JoinSet::new();
    for connection in [&client, &server] {
        for _ in 0..=GROUPS {
            for _ in 0..2 {
                let stream = accept(connection).await;
                tasks.spawn(async move {
                    while let Some(message) = next(&stream).await {
                        send(&stream, message).await;
                    }
                });
            }
        }
    }
    let mut ids = HashSet::new();
    for (seed, opened) in from_client.into_iter().chain(from_server).enumerate() {
        for stream in opened.await.expect("streams") {
            assert!(ids.insert(stream.id()), "{} twice", stream.id());
            tasks.spawn(async move {
                let messages = || payloads(seed as u64, 60, 20_000);
                let sends = async {
                    for message in messages() {
                        send(&stream, message).await;
                    }
                    stream.finish();
                };
                let receives = async {
                    for expected in messages() {
                        assert!(next(&stream).await == Some(expected));
                    }
                    assert_eq!(next(&stream).await, None);
                };
                tokio::join!(sends, receives);
            });
        }
    }
    assert_eq!(ids.len(), usize::from(GROUPS + 1) * 4);
    while let Some(done) = within(tasks.join_next()).await {
        done.expect("what was sent");
    }
    for connection in [&client, &server] {
        let stats = within(connection.stats()).await.expect("open");
        assert_eq!(stats.further_lanes, u32::from(GROUPS) * 2);
        assert!(stats.blocks_sent >= 14 && stats.blocks_received >= 14);
        assert!(connection.peer_identity().is_some());
    }
    close(&client, &server).await;
}

#[tokio::test]
async fn beyond_the_limit_streams_share_the_first_lane() {
    for (client, server, of_client, of_server) in [(3, 2, 2, 2), (1, 9, 1, 1), (0, 5, 0, 0)] {
        let (client, server) = connected(client, server, &SessionConfig::default()).await;
        let groups = [1, 2, 3, 4, 5, 1];
        let mut ends = both_ends(&client, &server, &groups).await;
        assert_eq!(lanes(&client).await, of_client);
        ends.extend(both_ends(&server, &client, &groups).await);
        assert_eq!(lanes(&client).await, of_client + of_server);
        assert_eq!(lanes(&server).await, of_client + of_server);
        for (number, (here, there)) in (0..).zip(&ends) {
            send(here, numbered(number, 3000)).await;
            assert_eq!(next(there).await, Some(numbered(number, 3000)));
            send(there, numbered(number, 30)).await;
            assert_eq!(next(here).await, Some(numbered(number, 30)));
        }
        close(&client, &server).await;
    }
}

/// A lane that has as many streams as the peer allows there leaves the others to the first.
#[tokio::test]
async fn a_lane_that_is_full_leaves_streams_to_the_first() {
    let limits = Limits::default().max_streams(16);
    let (client, server) = connected(2, 2, &quiet(limits)).await;
    let ends = both_ends(&client, &server, &[1; 10]).await;
    assert_eq!(lanes(&client).await, 1);
    // Two for each lane that there may be, and the rest for the first.
    let full = try_open(&client, 1).await.map(drop);
    assert!(matches!(full, Err(OpenStreamError::Open(_))), "{full:?}");
    for (here, there) in &ends {
        send(here, Bytes::from_static(b"still")).await;
        assert_eq!(next(there).await.as_deref(), Some(&b"still"[..]));
    }
    close(&client, &server).await;
}

/// A peer made by hand, on which the first lane stands.
struct ByHand {
    connection: quinn::Connection,
    first: (SendStream, RecvStream),
    server: Connection,
    _listener: Listener,
}

impl ByHand {
    async fn connect(session: SessionConfig, transport: TransportConfig) -> Self {
        let authority = Authority::new();
        let server = server_node(session, authority.server());
        let listener = listen_quic(&server).await;
        let address: Address = listener.local_address().expect("an address");
        let connection = raw(&authority, &address, ALPN, transport).await;
        let connection = connection.expect("a connection");
        let mut first = within(connection.open_bi()).await.expect("a stream");
        first.0.write_all(&hello()).await.expect("room");
        let server = within(listener.accept()).await.expect("a connection");
        within(server.established()).await.expect("a handshake");
        Self {
            connection,
            first,
            server,
            _listener: listener,
        }
    }

    async fn lane(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let mut lane = within(self.connection.open_bi()).await.expect("a stream");
        lane.0.write_all(bytes).await.expect("room");
        lane
    }
}

/// Reads until these bytes have come.
async fn read_until(recv: &mut RecvStream, wanted: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while !all.windows(wanted.len()).any(|bytes| bytes == wanted) {
        let mut some = [0; 4096];
        let len = within(recv.read(&mut some)).await.expect("a stream");
        all.extend(&some[..len.expect("more")]);
    }
    all
}

/// QUIC's own flow control holds the first lane up, as a lost packet would: what its reader does not take. No clock is in it.
#[tokio::test]
async fn a_lane_goes_on_while_another_is_held_up() {
    const LEN: usize = 50_000;
    let mut small = TransportConfig::default();
    small.stream_receive_window(8192_u32.into());
    let mut peer = ByHand::connect(SessionConfig::default(), small).await;
    let mut open = Vec::new();
    Control::Open(Open {
        stream: StreamId::new(0).expect("a stream"),
        group: GroupId(0),
        window: 0,
        name: "first".into(),
    })
    .put(&mut open);
    peer.first.0.write_all(&open).await.expect("room");
    let held_up = accept(&peer.server).await;
    send(&held_up, vec![7; LEN].into()).await;
    while !within(peer.server.stats()).await.expect("open").is_blocked {
        tokio::task::yield_now().await;
    }
    send(&held_up, Bytes::from_static(b"the last word")).await;

    let opening = {
        let server = peer.server.clone();
        tokio::spawn(async move { open_in(&server, 1).await })
    };
    let mut lane = within(peer.connection.accept_bi()).await.expect("a lane");
    let mut number = [0];
    within(lane.1.read_exact(&mut number))
        .await
        .expect("a number");
    assert_eq!(number, [1]);
    lane.0.write_all(&hello()).await.expect("room");
    let other = within(opening).await.expect("a stream");
    for message in ["one", "two", "three"] {
        send(&other, message.into()).await;
        read_until(&mut lane.1, message.as_bytes()).await;
    }
    let stats = within(peer.server.stats()).await.expect("open");
    assert!(stats.is_blocked, "the first lane is held up still");
    assert_eq!(stats.further_lanes, 1);
    let all = read_until(&mut peer.first.1, b"the last word").await;
    assert!(all.len() > LEN);
}

type Judge = fn(&WireError) -> bool;

#[tokio::test]
async fn who_begins_lanes_wrongly_is_told_and_the_connection_ends() {
    let with_hello = |number: u8, then: &[u8]| [&[number], &hello()[..], then].concat();
    // A control frame of a kind that must not be skipped.
    let broken = with_hello(1, &[0xe1, 0x01, 0x05, 0, 0, 0, 0]);
    let cases: [(&str, Vec<Vec<u8>>, Judge); 8] = [
        ("lane 0", vec![vec![0]], |error| {
            matches!(
                error,
                WireError::FieldTooSmall {
                    field: "lane",
                    given: 0,
                    min: 1
                }
            )
        }),
        ("one too many", vec![vec![33]], |error| {
            matches!(
                error,
                WireError::FieldTooLarge {
                    field: "lane",
                    given: 33,
                    max: 32
                }
            )
        }),
        ("no number", vec![vec![0x80, 0]], |error| {
            *error == WireError::BadVarint
        }),
        ("half a number", vec![vec![0x80]], |error| {
            *error == WireError::Truncated { what: "lane" }
        }),
        ("half a hello", vec![vec![1, 0x8e, b'T']], |error| {
            *error == WireError::Truncated { what: "lane" }
        }),
        (
            "no hello",
            vec![b"\x01GET / HTTP/1.1\r\n".to_vec()],
            |error| matches!(error, WireError::WrongMagic { .. }),
        ),
        ("twice", vec![with_hello(1, &[]), vec![1]], |error| {
            matches!(error, WireError::Unexpected { .. })
        }),
        ("a broken frame", vec![broken], |error| {
            matches!(error, WireError::Checksum { .. })
        }),
    ];
    for (name, lanes, is_it) in cases {
        let mut peer = ByHand::connect(SessionConfig::default(), TransportConfig::default()).await;
        let mut streams = Vec::new();
        for bytes in &lanes {
            let mut lane = peer.lane(bytes).await;
            let _ = lane.0.finish();
            streams.push(lane);
        }
        let error = within(peer.server.closed()).await.expect_err(name);
        let SessionError::Peer(error) = error else {
            // The second may be read before the first, whose end is none of a session either.
            panic!("{name}: {error}");
        };
        assert!(is_it(&error), "{name}: {error}");
        // It is told on the first lane, whichever it was.
        read_until(&mut peer.first.1, error.to_string().as_bytes()).await;
    }
}

#[tokio::test]
async fn a_lane_that_says_nothing_is_given_up_with_its_connection() {
    let limit = Duration::from_millis(300);
    let session = || quiet(Limits::default().handshake_time(limit));
    for begun in [&[0x80][..], &[1], &[1, 0x8e]] {
        let mut peer = ByHand::connect(session(), TransportConfig::default()).await;
        let _lane = peer.lane(begun).await;
        let expected = SessionError::HandshakeTimeout { limit };
        assert_eq!(within(peer.server.closed()).await, Err(expected.clone()));
        read_until(&mut peer.first.1, expected.to_string().as_bytes()).await;
    }
    // One that this side has begun, and whose stream waits for it.
    let peer = ByHand::connect(session(), TransportConfig::default()).await;
    let opened = try_open(&peer.server, 1).await.map(drop);
    let expected = SessionError::HandshakeTimeout { limit };
    assert_eq!(within(peer.server.closed()).await, Err(expected));
    assert!(opened.is_err());
}

/// What ends one lane ends all, and their streams say by what.
#[tokio::test]
async fn a_peer_that_goes_away_on_one_lane_is_gone_on_all() {
    let mut peer = ByHand::connect(SessionConfig::default(), TransportConfig::default()).await;
    let mut bytes = [&[1], &hello()[..]].concat();
    Control::Open(Open {
        stream: StreamId::new(0).expect("a stream"),
        group: GroupId(1),
        window: 0,
        name: "s".into(),
    })
    .put(&mut bytes);
    let mut lane = peer.lane(&bytes).await;
    let stream = accept(&peer.server).await;
    let mut go_away = Vec::new();
    Control::GoAway(tautline::wire::GoAway {
        code: GoAwayCode::Internal,
        detail: "on fire".into(),
    })
    .put(&mut go_away);
    lane.0.write_all(&go_away).await.expect("room");
    let expected = SessionError::GoneAway {
        code: GoAwayCode::Internal,
        detail: "on fire".into(),
    };
    assert_eq!(within(peer.server.closed()).await, Err(expected));
    assert!(within(stream.recv()).await.is_err());
    drop(peer.first.0.finish());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_on_every_lane_comes_before_the_end() {
    const COUNT: u32 = 40;
    for by_server in [false, true] {
        let (client, server) = connected(32, 32, &SessionConfig::default()).await;
        let groups = [0, 1, 2, 3];
        let mut ends = both_ends(&client, &server, &groups).await;
        ends.extend(both_ends(&server, &client, &groups).await);
        let (here, there): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let receiving = there.into_iter().chain(here).collect::<Vec<_>>();
        // Both ends of every stream send, and read only afterwards.
        for stream in &receiving {
            for number in 0..COUNT {
                send(stream, numbered(number, 4000)).await;
            }
        }
        let closes = if by_server { &server } else { &client };
        let closing = closes.clone();
        let closing = tokio::spawn(async move { closing.close().await });
        for stream in &receiving {
            for expected in 0..COUNT {
                let message = next(stream).await.expect("a message");
                assert_eq!(number(&message), expected);
            }
            assert_eq!(next(stream).await, None);
        }
        assert_eq!(within(closing).await.expect("an end"), Ok(()));
        for connection in [&client, &server] {
            assert_eq!(within(connection.closed()).await, Ok(()));
            assert!(within(connection.accept()).await.expect("an end").is_none());
            assert!(try_open(connection, 1).await.is_err());
            assert!(try_open(connection, 9).await.is_err());
        }
    }
    // Without handles it closes as well, with all that was sent.
    let (client, server) = connected(32, 32, &SessionConfig::default()).await;
    let stream = open_in(&client, 1).await;
    send(&stream, numbered(7, 100)).await;
    let _nobody_takes_it = open_in(&server, 2).await;
    let received = accept(&server).await;
    drop((stream, client));
    assert_eq!(next(&received).await, Some(numbered(7, 100)));
    assert_eq!(within(server.closed()).await, Ok(()));
}

#[tokio::test]
async fn a_connection_is_idle_when_all_its_lanes_are() {
    let limits = Limits::default().idle_time(Some(Duration::from_millis(150)));
    let (client, server) = connected(32, 32, &quiet(limits)).await;
    let ends = both_ends(&client, &server, &[1]).await;
    let (here, there) = &ends[0];
    // What nobody has read yet is still to be used.
    send(here, numbered(1, 100)).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(next(there).await, Some(numbered(1, 100)));
    assert_eq!(next(there).await, None);
    let ends = within(async { tokio::join!(client.closed(), server.closed()) }).await;
    assert_eq!(ends, (Ok(()), Ok(())));
}

/// Each lane opens fewer than the connection may, and both more.
#[tokio::test]
async fn streams_are_counted_over_all_lanes() {
    let limits = Limits::default().max_streams(200).streams_per_second(1);
    let (client, server) = connected(1, 1, &quiet(limits)).await;
    let accepting = {
        let server = server.clone();
        tokio::spawn(async move { while let Ok(Some(_)) = server.accept().await {} })
    };
    let mut opened = [0, 0];
    'all: for _ in 0..150 {
        for group in [0, 1] {
            loop {
                match try_open(&client, group).await {
                    Ok(stream) => {
                        stream.finish();
                        opened[usize::from(group)] += 1;
                        break;
                    }
                    // Until the server has finished some, too.
                    Err(OpenStreamError::Open(_)) if !is_over(&server) => {
                        tokio::task::yield_now().await;
                    }
                    Err(_) => break 'all,
                }
            }
        }
    }
    let error = within(server.closed()).await.expect_err("too many");
    let SessionError::Peer(WireError::FieldTooLarge { field, max, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!((field, max), ("streams opened in a row", 200));
    assert!(opened[0] < 200 && opened[1] < 200, "{opened:?}");
    within(accepting).await.expect("an end");
}

fn is_over(connection: &Connection) -> bool {
    use futures_util::FutureExt as _;
    connection.closed().now_or_never().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lane_goes_on_over_another_connection() {
    const ROUNDS: u8 = 6;
    let authority = Authority::new();
    let config = || {
        resumable(
            config(32),
            Duration::from_millis(400),
            Duration::from_secs(50),
        )
    };
    let node = Node::new(config().server_tls(authority.mutual())).expect("a node");
    let listener = listen_quic(&node).await;
    let tls = authority.client().identity(authority.identity("somebody"));
    let client = Node::new(config().client_tls(tls)).expect("a node");
    let (client, server, way) = pair_over(&client, &listener).await;
    let mut ends = both_ends(&client, &server, &[0, 1, 2]).await;
    ends.extend(both_ends(&server, &client, &[0, 1, 2]).await);
    let mut sent = 0_u32;
    for round in 0..ROUNDS {
        let lost = round % 2 == 1;
        // Lanes of their own, some of which have just begun when the connection is lost.
        ends.extend(both_ends(&client, &server, &[10 + round]).await);
        let before = way.clients();
        if lost {
            way.network.send_replace(Network::Holds);
        }
        let opening = {
            let (client, server) = (client.clone(), server.clone());
            tokio::spawn(async move {
                tokio::join!(open_in(&client, 50 + round), open_in(&server, 50 + round))
            })
        };
        for (here, there) in &ends {
            for stream in [here, there] {
                for more in 0..3 {
                    send(stream, numbered(sent + more, 2000)).await;
                }
            }
        }
        if lost {
            within(async {
                while way.clients() == before {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
            way.network.send_replace(Network::Carries);
        }
        for (here, there) in &ends {
            for stream in [here, there] {
                for more in 0..3 {
                    assert_eq!(next(stream).await, Some(numbered(sent + more, 2000)));
                }
            }
        }
        sent += 3;
        let (of_client, of_server) = within(opening).await.expect("streams");
        ends.push((of_client, accept(&server).await));
        ends.push((of_server, accept(&client).await));
    }
    assert!(way.clients() > 3);
    assert!(lanes(&client).await >= 4);
    // A connection counts once, however often it was made and however many lanes it has.
    assert_eq!(node.history_memory().stats().connections, 1);
    assert_eq!(listener.stats().connections, 1);
    let ends = within(async { tokio::join!(client.close(), server.closed()) }).await;
    assert_eq!(ends, (Ok(()), Ok(())));
    assert!(client.deliveries().is_empty() && server.deliveries().is_empty());
}

/// What a session that is not resumed leaves behind is said of every lane.
#[tokio::test]
async fn what_became_of_messages_is_known_of_every_lane() {
    let authority = Authority::new();
    let config = || {
        resumable(
            config(32),
            Duration::from_millis(100),
            Duration::from_millis(300),
        )
    };
    let server = Node::new(config().server_tls(authority.server())).expect("a node");
    let listener = listen_quic(&server).await;
    let client = Node::new(config().client_tls(authority.client())).expect("a node");
    let (client, server, way) = pair_over(&client, &listener).await;
    let ends = both_ends(&client, &server, &[0, 1, 2]).await;
    for (here, there) in &ends {
        send(here, numbered(0, 100)).await;
        assert!(next(there).await.is_some());
    }
    way.network.send_replace(Network::Holds);
    for (here, _) in &ends {
        send(here, numbered(1, 100)).await;
    }
    let error = within(client.closed()).await.expect_err("nobody there");
    assert!(matches!(error, SessionError::NotResumed { .. }), "{error}");
    let mut names: Vec<_> = client
        .deliveries()
        .into_iter()
        .map(|it| (it.name, it.delivered + it.unknown + it.unsent))
        .collect();
    names.sort();
    let expected = [0, 1, 2].map(|group| (format!("group {group}"), 2));
    assert_eq!(names, expected);
    assert!(within(server.closed()).await.is_err());
}
