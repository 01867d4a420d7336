//! Peers that do not keep to the protocol: raw sockets against a listener that serves others.

use std::time::Duration;

use tautline::codecs::{Arm, CodecId};
use tautline::control::PolicyConfig;
use tautline::session::{Limits, Role, SendError, SessionConfig, SessionError, StreamConfig};
use tautline::transport::{
    Address, Connection, FaultStats, Listener, Node, NodeConfig, RecvError, RequestError,
    SendReaderError, Stream,
};
use tautline::wire::{
    BlockHeader, Check, Close, CloseCode, Control, Define, Frame, GoAway, GoAwayCode, GroupId,
    Hello, MAGIC, MESSAGE_CHARGE, Open, Part, RecordKind, RecordWriter, Slot, Stop, StopReason,
    StreamId, WireError, parse_frame, plain_crc,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Pair, accept, hello, listen, next, node, open, within};

const MAX_MESSAGE: usize = 100_000;
const MAX_BLOCK: usize = 64 << 10;
const WINDOW: u64 = 8 << 10;

/// A listener with a well-behaved connection that must not notice anything.
struct Victim {
    node: Node,
    listener: Listener,
    address: Address,
    client: Stream,
    server: Stream,
    _connections: (Connection, Connection),
}

impl Victim {
    async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Self {
        let session = SessionConfig::default().limits(
            limits
                .max_message(MAX_MESSAGE)
                .max_block(MAX_BLOCK)
                .window(WINDOW),
        );
        let victim = node(session.clone());
        let listener = listen(&victim).await;
        let address = listener.local_address().expect("an address");
        let client = node(session);
        let (client, server) =
            within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
        let connections = (client.expect("a connection"), server.expect("one"));
        Self {
            client: open(&connections.0, "good").await,
            server: accept(&connections.1).await,
            node: victim,
            listener,
            address,
            _connections: connections,
        }
    }

    /// A raw connection and its other end.
    async fn attack(&self) -> (TcpStream, Connection) {
        let socket = TcpStream::connect(self.address.to_string()).await;
        let connection = within(self.listener.accept()).await.expect("a connection");
        (socket.expect("a socket"), connection)
    }

    async fn is_unharmed(&self) {
        for message in ["one", "two"] {
            within(self.client.send(message.into()))
                .await
                .expect("room");
            assert_eq!(next(&self.server).await, Some(message.into()));
        }
    }

    /// What the peer who sends `bytes` is told, and how the session ends here.
    async fn refuses(&self, bytes: &[u8]) -> (GoAway, SessionError) {
        let (mut socket, connection) = self.attack().await;
        socket.write_all(bytes).await.expect("a write");
        let mut answer = Vec::new();
        within(socket.read_to_end(&mut answer))
            .await
            .expect("all of the answer, then an end");
        drop(socket);
        let error = within(connection.closed())
            .await
            .expect_err("a session that failed");
        let accepted = loop {
            match within(connection.accept()).await {
                Ok(Some(_)) => {}
                other => break other.map(|_| ()),
            }
        };
        assert_eq!(accepted, Err(error.clone()), "errors are sticky");
        let opened = within(connection.open("x", StreamConfig::default())).await;
        assert!(opened.is_err());
        self.is_unharmed().await;
        (go_away(&answer), error)
    }

    /// As [`Self::refuses`], for bytes after a handshake.
    async fn refuses_after_hello(&self, bytes: &[u8]) -> (GoAway, WireError) {
        let mut all = hello();
        all.extend_from_slice(bytes);
        let (go_away, error) = self.refuses(&all).await;
        match error {
            SessionError::Peer(error) => {
                assert_eq!(go_away.code, error.code());
                assert_eq!(go_away.detail, error.to_string());
                (go_away, error)
            }
            other => panic!("{other}"),
        }
    }
}

/// The go-away at the end of what the listener's side says.
fn go_away(mut bytes: &[u8]) -> GoAway {
    let (_, len) = Hello::parse(bytes)
        .expect("a well-formed hello")
        .expect("a whole hello");
    bytes = &bytes[len..];
    while let Some(frame) = parse_frame(bytes, 1 << 20, true).expect("a well-formed frame") {
        match frame {
            Frame::Control {
                control: Some(Control::GoAway(go_away)),
                ..
            } => return go_away,
            Frame::Control { len, .. } => bytes = &bytes[len..],
            Frame::Block { header, body_at } => bytes = &bytes[body_at + header.body_len..],
        }
    }
    panic!("no go-away")
}

fn stream() -> StreamId {
    StreamId::new(0).expect("a number")
}

fn open_frame() -> Vec<u8> {
    let mut out = Vec::new();
    Control::Open(Open {
        stream: stream(),
        group: GroupId::default(),
        window: 0,
        name: "x".into(),
    })
    .put(&mut out);
    out
}

/// A block that holds one message.
fn message(len: usize) -> Vec<u8> {
    let mut plain = Vec::new();
    RecordWriter::default().put_whole(&mut plain, stream(), RecordKind::Message, None);
    plain.resize(plain.len() + len, 5);
    plain
}

pub(super) fn block(slot: u8, body: &[u8], plain_len: Option<usize>, check: u32) -> Vec<u8> {
    let mut out = Vec::new();
    BlockHeader {
        slot: Slot::new(slot),
        epoch: None,
        plain_len,
        body_len: body.len(),
        check,
    }
    .put(&mut out, true);
    out.extend_from_slice(body);
    out
}

fn good_block(body: &[u8]) -> Vec<u8> {
    block(0, body, None, Check::default().advance(plain_crc(body)))
}

#[tokio::test]
async fn strangers_are_told_that_they_are() {
    let victim = Victim::new().await;
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0; 5000],
        &[0xff; 8],
    ] {
        let (go_away, error) = victim.refuses(bytes).await;
        assert_eq!(go_away.code, GoAwayCode::Version);
        let mut given = [0; 4];
        given.copy_from_slice(&bytes[..4]);
        let expected = WireError::WrongMagic {
            given,
            expected: MAGIC,
        };
        assert_eq!(error, SessionError::Peer(expected));
    }
}

#[tokio::test]
async fn another_version_is_refused_with_both() {
    let victim = Victim::new().await;
    let mut bytes = hello();
    (bytes[4], bytes[5]) = (9, 5);
    let (go_away, error) = victim.refuses(&bytes).await;
    assert_eq!(go_away.code, GoAwayCode::Version);
    let expected = WireError::Version {
        peer_min: 5,
        peer_max: 9,
        min: 1,
        max: 1,
    };
    assert_eq!(error, SessionError::Peer(expected));
    for number in ["5", "9", "1"] {
        assert!(go_away.detail.contains(number), "{}", go_away.detail);
    }
}

#[tokio::test]
async fn corrupted_blocks_are_told_as_undecodable() {
    let victim = Victim::new().await;
    for info in tautline::codecs::supported() {
        if info.id == CodecId::IDENTITY {
            continue;
        }
        let mut bytes = open_frame();
        bytes.extend(block(info.id.to_wire(), &[0xfe; 300], Some(5000), 0));
        let (go_away, error) = victim.refuses_after_hello(&bytes).await;
        assert_eq!(go_away.code, GoAwayCode::Undecodable, "{}", info.id);
        assert!(
            matches!(error, WireError::Undecodable { wire_len: 300, .. }),
            "{}: {error}",
            info.id
        );
    }
}

#[tokio::test]
async fn unknown_codecs_and_slots_are_refused() {
    let victim = Victim::new().await;
    let mut bytes = Vec::new();
    Control::Define(Define {
        slot: Slot::new(9).expect("a slot"),
        codec: CodecId::from_wire(99),
        group: GroupId::default(),
        history: None,
        dictionary: 0,
    })
    .put(&mut bytes);
    let (go_away, error) = victim.refuses_after_hello(&bytes).await;
    assert_eq!(go_away.code, GoAwayCode::Protocol);
    let (what, given) = ("codec", 99);
    assert_eq!(error, WireError::Unknown { what, given });

    let (go_away, error) = victim
        .refuses_after_hello(&block(12, b"body", None, 0))
        .await;
    assert_eq!(go_away.code, GoAwayCode::Protocol);
    let (what, given) = ("slot", 12);
    assert_eq!(error, WireError::Unknown { what, given });
}

#[tokio::test]
async fn lengths_over_the_limits_are_refused_with_both_numbers() {
    let victim = Victim::new().await;
    // Headers alone: nothing is waited for, nothing reserved.
    let mut long = block(0, &vec![0; MAX_BLOCK + 1], None, 0);
    long.truncate(20);
    let mut bomb = block(1, &[0; 100], Some(1 << 30), 0);
    bomb.truncate(20);
    for (bytes, given) in [(long, MAX_BLOCK as u64 + 1), (bomb, 1 << 30)] {
        let (go_away, error) = victim.refuses_after_hello(&bytes).await;
        assert_eq!(go_away.code, GoAwayCode::Limit);
        let WireError::FieldTooLarge {
            given: told, max, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((told, max), (given, MAX_BLOCK as u64));
        assert!(go_away.detail.contains(&given.to_string()));
        assert!(go_away.detail.contains(&max.to_string()));
    }
}

#[tokio::test]
async fn a_peer_that_overruns_its_window_is_refused() {
    let victim = Victim::new().await;
    let mut bytes = open_frame();
    bytes.extend(good_block(&message(WINDOW as usize)));
    let (go_away, error) = victim.refuses_after_hello(&bytes).await;
    assert_eq!(go_away.code, GoAwayCode::Limit);
    let expected = WireError::FieldTooLarge {
        field: "window used",
        given: WINDOW + MESSAGE_CHARGE,
        max: WINDOW,
    };
    assert_eq!(error, expected);
}

/// Opens two streams, and sends plain blocks on them.
struct Sender {
    socket: TcpStream,
    check: Check,
}

impl Sender {
    async fn send(&mut self, plain: &[u8]) {
        let check = self.check.advance(plain_crc(plain));
        let bytes = block(0, plain, None, check);
        self.socket.write_all(&bytes).await.expect("a write");
    }

    async fn say(&mut self, control: &Control) {
        let mut bytes = Vec::new();
        control.put(&mut bytes);
        self.socket.write_all(&bytes).await.expect("a write");
    }

    /// Reads until it is told to stop.
    async fn stop(&mut self) -> Stop {
        let mut bytes = Vec::new();
        loop {
            self.socket.read_buf(&mut bytes).await.expect("a read");
            let Ok(Some((_, hello))) = Hello::parse(&bytes) else {
                continue;
            };
            let mut rest = &bytes[hello..];
            while let Some(frame) = parse_frame(rest, 1 << 20, true).expect("a frame") {
                match frame {
                    Frame::Control {
                        control: Some(Control::Stop(stop)),
                        ..
                    } => return stop,
                    Frame::Control { len, .. } => rest = &rest[len..],
                    Frame::Block { header, body_at } => rest = &rest[body_at + header.body_len..],
                }
            }
        }
    }
}

#[tokio::test]
async fn a_message_over_the_limit_ends_its_stream_and_no_other() {
    const ANNOUNCED: u64 = MAX_MESSAGE as u64 + 1;
    let victim = Victim::new().await;
    let (mut socket, connection) = victim.attack().await;
    socket.write_all(&hello()).await.expect("a write");
    let mut sender = Sender {
        socket,
        check: Check::default(),
    };
    for number in [0, 2] {
        let open = Open {
            stream: StreamId::new(number).expect("a number"),
            group: GroupId::default(),
            window: 0,
            name: "x".into(),
        };
        sender.say(&Control::Open(open)).await;
    }
    let (long, other) = (accept(&connection).await, accept(&connection).await);
    sender.send(b"\x10\x02before").await;
    assert_eq!(next(&other).await, Some("before".into()));
    sender.send(b"\x10\x00the last one").await;
    // The first of more fragments, of a message of 100 001 bytes.
    let mut first = vec![0x30, 0, 0xa1, 0x8d, 0x06];
    first.resize(1000, 5);
    sender.send(&first).await;
    let too_long = RecvError::TooLong {
        given: ANNOUNCED,
        max: MAX_MESSAGE as u64,
    };
    assert_eq!(next(&long).await, Some("the last one".into()));
    assert_eq!(within(long.recv()).await.err(), Some(too_long.clone()));
    let mut more = vec![0x30, 0];
    more.resize(1000, 5);
    for _ in 0..5 {
        sender.send(&more).await;
        sender.send(b"\x10\x02meanwhile").await;
        assert_eq!(next(&other).await, Some("meanwhile".into()));
    }
    let stop = within(sender.stop()).await;
    assert_eq!(
        stop,
        Stop {
            stream: stream(),
            messages: 1,
            reason: StopReason::TooLong { given: ANNOUNCED },
        }
    );
    let code = CloseCode::Aborted(3);
    let close = Close {
        stream: stream(),
        code,
    };
    sender.say(&Control::Close(close)).await;
    sender.send(b"\x10\x02after").await;
    assert_eq!(next(&other).await, Some("after".into()));
    assert_eq!(within(long.recv()).await.err(), Some(too_long));
    // The other direction goes on.
    within(long.send("an answer".into())).await.expect("room");
    let stats = within(connection.stats()).await.expect("a session");
    assert!(stats.received_most < 3 * WINDOW, "{stats:?}");
    // It is counted once, whatever still comes of the stream, and as nothing else.
    let faults = victim.node.faults();
    let mut expected = FaultStats::default();
    expected.streams_refused = 1;
    assert_eq!(faults, expected);
    victim.is_unharmed().await;
}

#[tokio::test]
async fn who_is_told_to_stop_says_so_to_whoever_sends() {
    const MAX: u64 = 1 << 20;
    let (mut raw, theirs) = tokio::io::duplex(1 << 20);
    let connection = node(SessionConfig::default().policy(PolicyConfig::None))
        .start(theirs, Role::Connector, "raw".into())
        .expect("a start");
    let (mut answer, _) = Hello::parse(&hello()).expect("a hello").expect("all of it");
    answer.role = Role::Acceptor;
    let mut bytes = Vec::new();
    answer.put(&mut bytes);
    raw.write_all(&bytes).await.expect("a write");
    let (stopped, other) = (open(&connection, "x").await, open(&connection, "y").await);
    let long = bytes::Bytes::from(vec![5; 200_000]);
    // It waits for room in the end: the peer's window is short.
    let sending = async {
        loop {
            if let Err(error) = stopped.send(long.clone()).await {
                return error;
            }
        }
    };
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut bytes = Vec::new();
        Control::Stop(Stop {
            stream: stream(),
            messages: 0,
            reason: StopReason::TooLong { given: MAX + 1 },
        })
        .put(&mut bytes);
        raw.write_all(&bytes).await.expect("a write");
    };
    let (error, ()) = within(async { tokio::join!(sending, stopping) }).await;
    let expected = SendError::Stopped {
        stream: stream(),
        given: MAX + 1,
        max: MAX,
    };
    assert_eq!(error, expected);
    assert_eq!(stopped.try_send("x".into()), Err(expected.clone()));
    let mut many = ["x".into()].into();
    assert_eq!(
        within(stopped.send_many(&mut many)).await,
        Err(expected.clone())
    );
    let read = within(stopped.send_reader(&b"x"[..])).await;
    assert!(matches!(read, Err(SendReaderError::Send(error)) if error == expected));
    within(other.send("y".into())).await.expect("room");
    assert!(within(other.stats()).await.is_some(), "the session goes on");
}

/// Of two requests the peer says that it takes no more than the first.
#[tokio::test]
async fn a_request_that_is_stopped_ends_at_once_and_one_that_was_taken_is_answered() {
    const MAX: u64 = 1 << 20;
    let forever = Duration::from_secs(3600);
    let victim = Victim::new().await;
    let (mut socket, connection) = victim.attack().await;
    socket.write_all(&hello()).await.expect("a write");
    let mut sender = Sender {
        socket,
        check: Check::default(),
    };
    let open = Open {
        stream: stream(),
        group: GroupId::default(),
        window: 0,
        name: "x".into(),
    };
    sender.say(&Control::Open(open)).await;
    let asking = accept(&connection).await;
    within(asking.send("no request".into()))
        .await
        .expect("room");
    let taken = asking.request("taken".into(), forever);
    let stopped = asking.request("stopped".into(), forever);
    let answering = async {
        // All that is sent has left before it is stopped.
        while within(asking.stats()).await.expect("open").messages_sent < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let stop = Stop {
            stream: stream(),
            messages: 2,
            reason: StopReason::TooLong { given: MAX + 1 },
        };
        sender.say(&Control::Stop(stop)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        // A reply to the first.
        sender.send(b"\x90\x00\x00the answer").await;
    };
    let expected = RequestError::Send(SendError::Stopped {
        stream: stream(),
        given: MAX + 1,
        max: MAX,
    });
    let (first, second, ()) = within(async { tokio::join!(taken, stopped, answering) }).await;
    assert_eq!(second, Err(expected.clone()));
    assert_eq!(first, Ok("the answer".into()));
    let again = within(asking.request("again".into(), forever)).await;
    assert_eq!(again, Err(expected));
    let given_up = Close {
        stream: stream(),
        code: CloseCode::Aborted(0),
    };
    sender.say(&Control::Close(given_up)).await;
    assert!(within(asking.recv()).await.is_err());
}

#[tokio::test]
async fn a_message_in_parts_that_is_broken_is_refused() {
    let victim = Victim::new().await;
    let more = RecordKind::Part(Part::More);
    let between = "a message between the parts of another of its stream";
    let correlation = 1;
    for (kind, what) in [
        (RecordKind::Message, between),
        (RecordKind::Request { correlation }, between),
        (
            RecordKind::Part(Part::GivenUp),
            "bytes of a message that is given up",
        ),
    ] {
        let mut records = Vec::new();
        let mut writer = RecordWriter::default();
        for kind in [more, RecordKind::Reply { correlation }, more, kind] {
            writer.put_whole(&mut records, stream(), kind, Some(1));
            records.push(b'x');
        }
        let mut bytes = open_frame();
        bytes.extend(good_block(&records));
        let (go_away, error) = victim.refuses_after_hello(&bytes).await;
        assert_eq!(go_away.code, GoAwayCode::Protocol);
        assert_eq!(error, WireError::Unexpected { what });
    }
    let mut bytes = open_frame();
    let mut part = Vec::new();
    RecordWriter::default().put_whole(&mut part, stream(), more, None);
    bytes.extend(good_block(&part));
    let code = CloseCode::Finished;
    Control::Close(Close {
        stream: stream(),
        code,
    })
    .put(&mut bytes);
    let (_, error) = victim.refuses_after_hello(&bytes).await;
    let what = "a stream that is finished between the parts of a message";
    assert_eq!(error, WireError::Unexpected { what });
}

#[tokio::test]
async fn a_wrong_checksum_is_told_with_both() {
    let victim = Victim::new().await;
    let body = message(100);
    let right = Check::default().advance(plain_crc(&body)) & 0xffff;
    let wrong = right ^ 1;
    let mut bytes = open_frame();
    bytes.extend(block(0, &body, None, wrong));
    let (go_away, error) = victim.refuses_after_hello(&bytes).await;
    assert_eq!(go_away.code, GoAwayCode::Integrity);
    let WireError::Checksum {
        given, computed, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((given & 0xffff, computed & 0xffff), (wrong, right));
}

#[tokio::test]
async fn a_frame_cut_short_ends_the_session_as_lost() {
    let victim = Victim::new().await;
    let mut whole = hello();
    whole.extend(open_frame());
    whole.extend(good_block(&message(500)));
    for len in [0, 1, 7, 20, whole.len() - 500, whole.len() - 1] {
        let (mut socket, connection) = victim.attack().await;
        socket.write_all(&whole[..len]).await.expect("a write");
        socket.shutdown().await.expect("a shutdown");
        let error = within(connection.closed()).await;
        assert_eq!(error, Err(SessionError::ConnectionLost), "{len} bytes");
        victim.is_unharmed().await;
    }
}

#[tokio::test]
async fn silence_is_given_up() {
    let limit = Duration::from_millis(200);
    let victim = Victim::with(Limits::default().handshake_time(limit)).await;
    for bytes in [&[][..], &hello()[..20]] {
        let (mut socket, connection) = victim.attack().await;
        socket.write_all(bytes).await.expect("a write");
        let error = within(connection.closed()).await;
        assert_eq!(error, Err(SessionError::HandshakeTimeout { limit }));
        victim.is_unharmed().await;
        let mut rest = Vec::new();
        // Its end may come as a reset.
        let _ = within(socket.read_to_end(&mut rest)).await;
    }
}

#[tokio::test]
async fn a_peer_that_never_reads_is_given_up_after_its_last_words() {
    // Over a carrier of a few bytes, so that the go-away finds no room.
    let (mut raw, theirs) = tokio::io::duplex(40);
    let connection = node(SessionConfig::default())
        .start(theirs, Role::Acceptor, "raw".into())
        .expect("a start");
    within(raw.write_all(b"GET / HTTP/1.1\r\n"))
        .await
        .expect("a write");
    assert!(within(connection.closed()).await.is_err());
    drop(raw);
}

/// A listener with limits, and where it is.
async fn limited(limits: Limits) -> (Listener, Address) {
    let session = SessionConfig::default().limits(limits);
    let config = NodeConfig::default().guard(None).session(session);
    let node = Node::new(config).expect("a node");
    let listener = listen(&node).await;
    let address = listener.local_address().expect("an address");
    (listener, address)
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_and_counted_until_there_is_room() {
    for (limits, by_address) in [
        (Limits::default().connections(2), false),
        (Limits::default().connections_per_address(2), true),
    ] {
        let (listener, address) = limited(limits).await;
        let client = node(SessionConfig::default());
        let mut pairs = Vec::new();
        for _ in 0..2 {
            let (here, there) =
                within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
            pairs.push((here.expect("room"), there.expect("room")));
        }
        let mut third = TcpStream::connect(address.to_string())
            .await
            .expect("a socket");
        let mut answer = Vec::new();
        // Its end may come as a reset.
        let _ = within(third.read_to_end(&mut answer)).await;
        assert!(answer.is_empty(), "closed without a word");
        let stats = listener.stats();
        assert_eq!((stats.connections, stats.accepted), (2, 2));
        let refused = if by_address { (0, 1) } else { (1, 0) };
        assert_eq!((stats.refused, stats.refused_address), refused);

        // The first goes; what there is goes on, and another one gets in.
        let (here, there) = pairs.swap_remove(0);
        within(here.close()).await.expect("a clean end");
        drop((here, there));
        within(async {
            while listener.stats().connections == 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let (here, there) =
            within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
        assert!(here.is_ok() && there.is_ok());
        let (here, there) = &pairs[0];
        let stream = open(here, "good").await;
        within(stream.send("one".into())).await.expect("room");
        assert_eq!(next(&accept(there).await).await, Some("one".into()));
    }
}

#[tokio::test]
async fn a_socket_that_says_nothing_takes_its_place_no_longer_than_a_handshake() {
    let limits = Limits::default().connections(1);
    let (listener, address) = limited(limits.handshake_time(Duration::from_millis(200))).await;
    let silent = TcpStream::connect(address.to_string()).await;
    let failed = within(listener.accept()).await.expect("a connection");
    assert!(within(failed.closed()).await.is_err());
    within(async {
        while listener.stats().connections > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let client = node(SessionConfig::default());
    let (here, there) =
        within(async { tokio::join!(client.connect(&address), listener.accept()) }).await;
    assert!(here.is_ok() && there.is_ok());
    drop(silent);
}

#[tokio::test]
async fn a_peer_whose_blocks_take_too_long_is_slowed_down_and_loses_nothing() {
    const BATCH: u64 = 40;
    // The first codec of the build; with the least time there is, what it takes exceeds it soon on any machine.
    let mut codecs = tautline::codecs::supported().iter();
    let Some(codec) = codecs.find(|codec| codec.id != CodecId::IDENTITY) else {
        return;
    };
    let arm = Arm::new(codec.id, codec.default_level.0);
    let limits = Limits::default().decode_time(Some(Duration::from_millis(1)));
    let session = SessionConfig::default().policy(PolicyConfig::Fixed(arm));
    let pair = Pair::tcp(session.limits(limits)).await;
    let (left, right) = pair.stream().await;
    let text = bytes::Bytes::from(b"some text that repeats ".repeat(3000));
    loop {
        let sending = async {
            for _ in 0..BATCH {
                left.send(text.clone()).await.expect("room");
            }
        };
        let receiving = async {
            for _ in 0..BATCH {
                assert_eq!(next(&right).await, Some(text.clone()));
            }
        };
        within(async { tokio::join!(sending, receiving) }).await;
        let stats = within(pair.server.stats()).await.expect("a session");
        if stats.decode_pauses > 0 {
            break;
        }
    }
}
