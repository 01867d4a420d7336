//! What becomes of every kind of frame that is malformed, oversized, early, late, duplicated or forged: one table.

use tautline::dictionary::{Acceptance, AcceptancePolicy, DictionaryId};
use tautline::session::{Limits, SessionConfig, SessionError, StreamConfig};
use tautline::transport::{Connection, FaultStats, Listener, Node, Stream};
use tautline::wire::{
    Check, Control, DictionaryOffer, Features, Frame, GoAwayCode, Hello, Role, WireError,
    parse_frame, plain_crc,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::hostile::{block, go_away};
use super::support::{listen, node, within};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It cannot be read.
    Malformed,
    /// Something in it is above a limit.
    Oversized,
    /// Before what it needs has come.
    Early,
    /// After what it needs is over.
    Late,
    Duplicated,
    /// It can be read, and what it says is not so.
    Forged,
}
use Fault::{Duplicated, Early, Forged, Late, Malformed, Oversized};

const FAULTS: [Fault; 6] = [Malformed, Oversized, Early, Late, Duplicated, Forged];
const FRAMES: [&str; 14] = [
    "hello",
    "short block",
    "long block",
    "tiny block",
    "probe",
    "probe reply",
    "ack",
    "open",
    "close",
    "window",
    "go-away",
    "define",
    "dictionary",
    "dictionary answer",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// An error of this name blames the peer, who is told with this code.
    Refused(&'static str, GoAwayCode),
    /// The protocol allows it, and the session goes on.
    Borne,
    /// The peer has ended the session.
    Gone,
}
use Outcome::{Borne, Gone, Refused};

struct Row {
    frame: &'static str,
    fault: Fault,
    /// Instead of the hello, or after it.
    is_first: bool,
    bytes: Vec<u8>,
    outcome: Outcome,
}

const PROTOCOL: GoAwayCode = GoAwayCode::Protocol;
const LIMIT: GoAwayCode = GoAwayCode::Limit;
const INTEGRITY: GoAwayCode = GoAwayCode::Integrity;
const UNEXPECTED: Outcome = Refused("Unexpected", PROTOCOL);
const UNKNOWN: Outcome = Refused("Unknown", PROTOCOL);
const TRUNCATED: Outcome = Refused("Truncated", PROTOCOL);
const TOO_SMALL: Outcome = Refused("FieldTooSmall", PROTOCOL);
const TOO_LARGE: Outcome = Refused("FieldTooLarge", LIMIT);
const CHECKSUM: Outcome = Refused("Checksum", INTEGRITY);

/// The victim has opened this stream, sent one message on it and has more to send than the peer lets it.
const THEIRS: u8 = 1;
const MAX_MESSAGE: usize = 100_000;

fn hello() -> Hello {
    Hello {
        role: Role::Connector,
        versions: (1, 1),
        session: [7; 16],
        codecs: Vec::new(),
        offered: Features(Features::CHECKSUMS.0 | Features::HISTORY.0 | Features::DICTIONARIES.0),
        required: Features::default(),
        max_message: 1 << 20,
        max_block: 1 << 16,
        max_streams: 100,
        window: 1 << 16,
        history_memory: 1 << 20,
        dictionaries: DictionaryOffer::default(),
        resume: None,
    }
}

fn hello_with(change: impl FnOnce(&mut Hello)) -> Vec<u8> {
    let mut hello = hello();
    change(&mut hello);
    let mut bytes = Vec::new();
    hello.put(&mut bytes);
    bytes
}

// ---- frames, written by hand: encoders do not write what is wrong

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number > 127 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

fn control(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xe0 | kind];
    out.extend(varint(body.len() as u64));
    out.extend_from_slice(body);
    out.extend(plain_crc(&out).to_le_bytes());
    out
}

/// Its check does not match.
fn damaged(mut frame: Vec<u8>) -> Vec<u8> {
    *frame.last_mut().expect("a frame") ^= 1;
    frame
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn twice(frame: &[u8]) -> Vec<u8> {
    join(&[frame, frame])
}

fn open(stream: u8) -> Vec<u8> {
    control(4, &[stream, 0, 0, 1, b'x'])
}

fn close(stream: u8) -> Vec<u8> {
    control(5, &[stream, 0])
}

/// A message on stream 0.
const HELLO: &[u8] = b"\x10\x00hello";
/// The first fragment of a message of 200 bytes on stream 0.
const BEGUN: &[u8] = b"\x30\x00\xc8\x01some of it";
/// The first fragment of one that is longer than messages may be.
const ENDLESS: &[u8] = b"\x30\x00\xff\xff\x7fsome of it";
/// The first byte of a record that names its stream.
const CUT_OFF: &[u8] = b"\x10";

/// Blocks of identity by their plain bytes, the first of which the connection begins with, each in the form that is asked for.
fn blocks(plain: &[&[u8]], form: Form) -> Vec<u8> {
    let mut check = Check::default();
    let mut out = Vec::new();
    for (at, plain) in plain.iter().enumerate() {
        let value = check.advance(plain_crc(plain));
        let [low, high, ..] = value.to_le_bytes();
        match form {
            // There is a block before it.
            Form::Tiny if at > 0 => {
                out.extend([0xc0 | (plain.len() - 1) as u8, low, high]);
                out.extend_from_slice(plain);
            }
            Form::Short | Form::Tiny => out.extend(block(0, plain, None, value)),
            Form::Long => out.extend(block(0, plain, Some(plain.len()), value)),
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
    Tiny,
}

const CONTENT: &[u8] = b"what messages of a class have in common";

fn offer(number: u8, len: u64, content: &[u8]) -> Vec<u8> {
    let mut body = vec![0, number];
    body.extend(varint(len));
    body.push(0);
    body.extend(varint(len));
    body.extend_from_slice(DictionaryId::of(content).as_bytes());
    control(9, &body)
}

fn piece(content: &[u8]) -> Vec<u8> {
    control(9, &join(&[&[1, 1], content]))
}

fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |frame, fault, bytes: Vec<u8>, outcome| {
        rows.push(Row {
            frame,
            fault,
            is_first: false,
            bytes,
            outcome,
        });
    };
    let done = control(7, &[0, 0]);
    let opened = open(0);

    for (name, form) in [
        ("short block", Form::Short),
        ("long block", Form::Long),
        ("tiny block", Form::Tiny),
    ] {
        // With a good one before it.
        let then = |plain| join(&[&opened, &blocks(&[HELLO, plain], form)]);
        row(name, Malformed, then(CUT_OFF), TRUNCATED);
        row(name, Oversized, then(ENDLESS), TOO_LARGE);
        row(name, Early, blocks(&[HELLO, HELLO], form), UNEXPECTED);
        let all = blocks(&[HELLO, HELLO], form);
        let last = blocks(&[HELLO], form).len();
        let closed = join(&[&opened, &all[..last], &close(0), &all[last..]]);
        row(name, Late, closed, UNEXPECTED);
        let gone = join(&[&opened, &all[..last], &done, &all[last..]]);
        row(name, Late, gone, UNEXPECTED);
        let repeated = join(&[&opened, &all, &all[last..]]);
        row(name, Duplicated, repeated, CHECKSUM);
        let mut forged = then(HELLO);
        *forged.last_mut().expect("a payload") ^= 1;
        row(name, Forged, forged, CHECKSUM);
    }
    let slot = |number| join(&[&opened, &block(number, HELLO, None, 0)]);
    row("short block", Forged, slot(12), UNKNOWN);
    row(
        "short block",
        Malformed,
        slot(1),
        Refused("Undecodable", GoAwayCode::Undecodable),
    );
    row("tiny block", Early, b"\xc0\0\0\x10".to_vec(), UNEXPECTED);
    row("long block", Malformed, vec![0x80, 5], TOO_SMALL);
    row(
        "long block",
        Malformed,
        vec![0x84, 0x80, 0],
        Refused("BadVarint", PROTOCOL),
    );
    row(
        "long block",
        Oversized,
        join(&[&[0x81], &varint(1 << 30), &[100]]),
        TOO_LARGE,
    );
    row(
        "long block",
        Oversized,
        join(&[&[0x80], &varint(1 << 30)]),
        TOO_LARGE,
    );
    let longer = block(0, HELLO, Some(HELLO.len() + 1), 0);
    row(
        "long block",
        Forged,
        longer,
        Refused("WrongPlainLen", GoAwayCode::Undecodable),
    );
    let epoch = join(&[&[0x82, 1, 7], &[0; 4], HELLO]);
    row("long block", Forged, epoch, UNEXPECTED);

    // The limits of all control frames.
    for (kind, frame) in (1..).zip(&FRAMES[4..]) {
        let too_long = join(&[&[0xe0 | kind], &varint(4097)]);
        row(frame, Oversized, too_long, TOO_LARGE);
        row(frame, Malformed, control(kind, &[]), TRUNCATED);
        row(frame, Forged, damaged(control(kind, &[])), CHECKSUM);
        // These begin with fields of a byte.
        let fields: &[u8] = match *frame {
            "define" => &[9, 1],
            "dictionary" => &[2],
            _ => &[],
        };
        let number = control(kind, &join(&[fields, &[0x80, 0]]));
        row(frame, Malformed, number, Refused("BadVarint", PROTOCOL));
    }

    let probe = control(1, &[9]);
    row("probe", Late, join(&[&done, &probe]), Borne);
    row("probe", Duplicated, twice(&probe), Borne);

    let reply = control(2, &[9, 0, 0, 0, 0, 0]);
    row(
        "probe reply",
        Oversized,
        control(2, &[9, 0, 0, 0xe9, 7, 0, 0]),
        TOO_LARGE,
    );
    row("probe reply", Late, join(&[&done, &reply]), Borne);
    row("probe reply", Duplicated, twice(&reply), Borne);
    row("probe reply", Forged, reply, Borne);

    let ack = |frames: u8| control(3, &[frames, 0, 0, 0, 0, 0]);
    row(
        "ack",
        Oversized,
        control(3, &[1, 0, 0, 0, 0, 65]),
        TOO_LARGE,
    );
    row("ack", Late, join(&[&done, &ack(1)]), Borne);
    row("ack", Late, join(&[&ack(1), &ack(0)]), TOO_SMALL);
    row("ack", Duplicated, twice(&ack(1)), Borne);
    row("ack", Forged, ack(100), TOO_LARGE);

    row(
        "open",
        Malformed,
        control(4, &[0, 0, 0, 1, 0xff]),
        Refused("NotText", PROTOCOL),
    );
    row(
        "open",
        Malformed,
        control(4, &[0, 0, 0, 1, b'x', 0]),
        Refused("TrailingBytes", PROTOCOL),
    );
    row(
        "open",
        Oversized,
        control(4, &join(&[&[0, 0, 0], &varint(256), &[b'x'; 256]])),
        TOO_LARGE,
    );
    row(
        "open",
        Oversized,
        control(4, &[0, 0x80, 2, 0, 0]),
        TOO_LARGE,
    );
    row("open", Late, join(&[&done, &opened]), UNEXPECTED);
    row("open", Late, join(&[&open(2), &opened]), UNEXPECTED);
    row("open", Duplicated, twice(&opened), UNEXPECTED);
    row("open", Forged, open(3), UNEXPECTED);
    row("open", Forged, control(4, &[0, 0, 1, 0]), TOO_SMALL);

    row(
        "close",
        Malformed,
        join(&[&opened, &control(5, &[0, 0, 0])]),
        Refused("TrailingBytes", PROTOCOL),
    );
    let code = varint(1 << 32 | 1);
    row(
        "close",
        Oversized,
        join(&[&opened, &control(5, &join(&[&[0], &code]))]),
        TOO_LARGE,
    );
    row("close", Early, close(0), UNEXPECTED);
    let inside = join(&[&opened, &blocks(&[BEGUN], Form::Short), &close(0)]);
    row("close", Early, inside, UNEXPECTED);
    row(
        "close",
        Late,
        join(&[&opened, &done, &close(0)]),
        UNEXPECTED,
    );
    row(
        "close",
        Duplicated,
        join(&[&opened, &twice(&close(0))]),
        UNEXPECTED,
    );
    row("close", Forged, close(3), UNEXPECTED);

    let window = |stream, limit| control(6, &join(&[&[stream], &varint(limit)]));
    row(
        "window",
        Oversized,
        control(6, &join(&[&varint(1 << 28), &[0]])),
        TOO_LARGE,
    );
    row("window", Early, window(0, 1 << 20), Borne);
    row(
        "window",
        Late,
        join(&[&done, &window(THEIRS, 1 << 17)]),
        Borne,
    );
    row("window", Duplicated, twice(&window(THEIRS, 1 << 17)), Borne);
    row("window", Forged, window(THEIRS, 1 << 10), TOO_SMALL);

    row(
        "go-away",
        Malformed,
        control(7, &[0, 1, 0xff]),
        Refused("NotText", PROTOCOL),
    );
    row(
        "go-away",
        Oversized,
        control(7, &join(&[&[0], &varint(256), &[b'x'; 256]])),
        TOO_LARGE,
    );
    let inside = join(&[&opened, &blocks(&[BEGUN], Form::Short), &done]);
    row("go-away", Early, inside, UNEXPECTED);
    row("go-away", Late, join(&[&done, &control(7, &[4, 0])]), Gone);
    row("go-away", Duplicated, twice(&done), UNEXPECTED);
    row("go-away", Forged, control(7, &[99, 0]), Gone);

    let define = |group, codec, dictionary| control(8, &[9, codec, group, 0, dictionary]);
    row("define", Malformed, control(8, &[9, 1, 0, 2, 0]), UNKNOWN);
    row("define", Malformed, control(8, &[16, 1, 0, 0, 0]), UNKNOWN);
    row(
        "define",
        Oversized,
        control(8, &[9, 1, 0x80, 2, 0, 0]),
        TOO_LARGE,
    );
    row(
        "define",
        Oversized,
        control(8, &[9, 1, 0, 1, 0, 25]),
        TOO_LARGE,
    );
    row("define", Early, define(5, 1, 0), UNKNOWN);
    row("define", Late, join(&[&done, &define(0, 1, 0)]), Borne);
    row("define", Duplicated, twice(&define(0, 1, 0)), Borne);
    row("define", Forged, define(0, 1, 1), UNEXPECTED);
    row("define", Forged, define(0, 99, 0), UNKNOWN);

    let good = offer(1, CONTENT.len() as u64, CONTENT);
    let held = join(&[&good, &piece(CONTENT)]);
    let retire = control(9, &[2, 1]);
    row("dictionary", Malformed, control(9, &[3, 1]), UNKNOWN);
    row("dictionary", Malformed, control(9, &[2, 0]), TOO_SMALL);
    row("dictionary", Malformed, offer(1, 7, CONTENT), TOO_SMALL);
    row(
        "dictionary",
        Oversized,
        offer(1, 1 << 20, CONTENT),
        TOO_LARGE,
    );
    row(
        "dictionary",
        Oversized,
        join(&[&good, &piece(&[b'x'; 200])]),
        TOO_LARGE,
    );
    row("dictionary", Early, piece(CONTENT), UNEXPECTED);
    row("dictionary", Early, retire.clone(), UNEXPECTED);
    row("dictionary", Early, offer(2, 100, CONTENT), UNEXPECTED);
    row(
        "dictionary",
        Late,
        join(&[&held, &piece(CONTENT)]),
        UNEXPECTED,
    );
    row(
        "dictionary",
        Late,
        join(&[&held, &retire, &define(0, 1, 1)]),
        UNEXPECTED,
    );
    row("dictionary", Duplicated, twice(&good), UNEXPECTED);
    row(
        "dictionary",
        Duplicated,
        join(&[&held, &twice(&retire)]),
        UNEXPECTED,
    );
    let other = join(&[
        &offer(1, CONTENT.len() as u64, b"something else"),
        &piece(CONTENT),
    ]);
    row("dictionary", Forged, other, CHECKSUM);

    let answer = control(10, &[1, 0]);
    row(
        "dictionary answer",
        Malformed,
        control(10, &[1, 3]),
        UNKNOWN,
    );
    row(
        "dictionary answer",
        Malformed,
        control(10, &[0, 0]),
        TOO_SMALL,
    );
    row(
        "dictionary answer",
        Late,
        join(&[&done, &answer]),
        UNEXPECTED,
    );
    row("dictionary answer", Duplicated, twice(&answer), UNEXPECTED);
    row("dictionary answer", Early, answer.clone(), UNEXPECTED);
    row("dictionary answer", Forged, answer, UNEXPECTED);

    // A second hello is read as a long block of an epoch.
    let again = join(&[&hello_with(|_| ()), &[0; 100]]);
    row("hello", Late, join(&[&done, &again]), UNEXPECTED);
    row("hello", Duplicated, again, UNEXPECTED);

    let mut first = |frame, fault, bytes: Vec<u8>, outcome| {
        rows.push(Row {
            frame,
            fault,
            is_first: true,
            bytes,
            outcome,
        });
    };
    let stranger = Refused("WrongMagic", GoAwayCode::Version);
    let early: [&[u8]; 10] = [
        &probe,
        &control(2, &[9, 0, 0, 0, 0, 0]),
        &ack(0),
        &opened,
        &close(0),
        &window(0, 9),
        &done,
        &define(0, 1, 0),
        &good,
        &control(10, &[1, 0]),
    ];
    for (frame, bytes) in FRAMES[4..].iter().zip(early) {
        first(frame, Early, join(&[bytes, &hello_with(|_| ())]), stranger);
    }
    for (frame, form) in [("short block", Form::Short), ("long block", Form::Long)] {
        first(frame, Early, blocks(&[HELLO], form), stranger);
    }
    first("tiny block", Early, b"\xc0\0\0\x10".to_vec(), stranger);
    first("hello", Malformed, damaged(hello_with(|_| ())), CHECKSUM);
    let mut cut_off = hello_with(|_| ());
    // The body ends in the middle of its last field, and is checked.
    let body = cut_off.len() - 4;
    cut_off.truncate(body - 1);
    let len = (cut_off.len() - 8) as u16;
    cut_off[6..8].copy_from_slice(&len.to_le_bytes());
    cut_off.extend(plain_crc(&cut_off).to_le_bytes());
    first("hello", Malformed, cut_off, TRUNCATED);
    first(
        "hello",
        Oversized,
        b"\x8eTLN\x01\x01\xff\xff".to_vec(),
        TOO_LARGE,
    );
    let version = Refused("Version", GoAwayCode::Version);
    first(
        "hello",
        Forged,
        hello_with(|hello| hello.versions = (9, 9)),
        version,
    );
    first(
        "hello",
        Forged,
        hello_with(|hello| hello.role = Role::Acceptor),
        UNEXPECTED,
    );
    let feature = Refused("Feature", GoAwayCode::Feature);
    first(
        "hello",
        Forged,
        hello_with(|hello| hello.required = Features(1 << 40)),
        feature,
    );
    first(
        "hello",
        Forged,
        hello_with(|hello| hello.window = 100),
        TOO_SMALL,
    );
    rows
}

/// The name of an error's variant.
fn name(error: &WireError) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// The counter that must have gone up by one.
fn counter(stats: &FaultStats, outcome: Outcome) -> u64 {
    match outcome {
        Borne => 0,
        Gone => stats.gone_away,
        Refused(name, _) => match name {
            "WrongMagic" | "Version" => stats.strangers,
            "Feature" => stats.features,
            "Unknown" => stats.unknown,
            "Unexpected" => stats.unexpected,
            "FieldTooLarge" => stats.oversized,
            "Checksum" => stats.checksums,
            "Undecodable" | "WrongPlainLen" => stats.undecodable,
            _ => stats.malformed,
        },
    }
}

fn sum(stats: &FaultStats) -> u64 {
    let text = format!("{stats:?}");
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers
        .filter_map(|number| number.parse::<u64>().ok())
        .sum()
}

/// A raw peer, and this side's end of the connection with a stream that waits for its window.
struct Attack {
    socket: TcpStream,
    answer: Vec<u8>,
    connection: Connection,
    _stream: Option<Stream>,
}

impl Attack {
    async fn begin(listener: &Listener, is_first: bool) -> Self {
        let address = listener.local_address().expect("an address");
        let socket = TcpStream::connect(address.to_string()).await;
        let connection = within(listener.accept()).await.expect("a connection");
        let mut attack = Self {
            socket: socket.expect("a socket"),
            answer: Vec::new(),
            connection,
            _stream: None,
        };
        if is_first {
            return attack;
        }
        attack.say(&hello_with(|_| ())).await;
        let stream = attack.connection.open("held", StreamConfig::default());
        let stream = within(stream).await.expect("a stream");
        within(stream.send(vec![0; 200_000].into()))
            .await
            .expect("room");
        attack._stream = Some(stream);
        let opens = |control: &Control| matches!(control, Control::Open(_));
        attack.hear(opens).await;
        attack
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.expect("a write");
    }

    /// Waits for a control frame.
    async fn hear(&mut self, is_it: impl Fn(&Control) -> bool) {
        while !self.has_heard(&is_it) {
            let read = within(self.socket.read_buf(&mut self.answer)).await;
            assert!(read.expect("a read") > 0, "the connection has ended");
        }
    }

    fn has_heard(&self, is_it: impl Fn(&Control) -> bool) -> bool {
        let Some((_, mut at)) = Hello::parse(&self.answer).expect("a hello") else {
            return false;
        };
        while let Some(frame) = parse_frame(&self.answer[at..], 1 << 20, true).expect("a frame") {
            match frame {
                Frame::Control { control, len } => {
                    if control.as_ref().is_some_and(&is_it) {
                        return true;
                    }
                    at += len;
                }
                Frame::Block { header, body_at } => at += body_at + header.body_len,
            }
        }
        false
    }
}

async fn attack(node: &Node, listener: &Listener, row: &Row) {
    let what = format!("{}, {:?}: {:02x?}", row.frame, row.fault, row.bytes);
    let before = node.faults();
    let mut attack = Attack::begin(listener, row.is_first).await;
    attack.say(&row.bytes).await;
    match row.outcome {
        Borne => {
            attack.say(&control(1, &[77])).await;
            let answers =
                |control: &Control| matches!(control, Control::ProbeReply(reply) if reply.id == 77);
            attack.hear(answers).await;
            assert_eq!(node.faults(), before, "{what}");
            // That it is lost now is counted before the next begins.
            let Attack {
                socket, connection, ..
            } = attack;
            drop(socket);
            let _ = within(connection.closed()).await;
            return;
        }
        Refused(expected, code) => {
            let mut answer = std::mem::take(&mut attack.answer);
            let read = within(attack.socket.read_to_end(&mut answer)).await;
            read.expect("all of the answer, then an end");
            drop(attack.socket);
            let error = within(attack.connection.closed()).await;
            let Err(SessionError::Peer(error)) = error else {
                panic!("{what} led to {error:?}");
            };
            assert_eq!(
                (name(&error).as_str(), error.code()),
                (expected, code),
                "{what}: {error}"
            );
            let told = go_away(&answer);
            assert_eq!(
                (told.code, told.detail),
                (code, error.to_string()),
                "{what}"
            );
        }
        Gone => {
            let error = within(attack.connection.closed()).await;
            assert!(
                matches!(error, Err(SessionError::GoneAway { .. })),
                "{what} led to {error:?}"
            );
        }
    }
    let after = node.faults();
    assert_eq!(
        counter(&after, row.outcome),
        counter(&before, row.outcome) + 1,
        "{what}: {after:?}"
    );
    assert_eq!(sum(&after), sum(&before) + 1, "{what}: {after:?}");
}

#[tokio::test]
async fn every_fault_of_every_frame_is_refused_told_and_counted_or_borne() {
    let limits = Limits::default()
        .max_message(MAX_MESSAGE)
        .max_block(64 << 10);
    let session = SessionConfig::default()
        .limits(limits)
        .history_memory(1 << 20)
        .accept_dictionaries(AcceptancePolicy::new(Acceptance::Always));
    let node = node(session);
    let listener = listen(&node).await;
    for row in table() {
        attack(&node, &listener, &row).await;
    }
}

#[test]
fn the_table_of_faults_has_every_cell() {
    let rows = table();
    for frame in FRAMES {
        for fault in FAULTS {
            // Nothing comes before a hello.
            let is_there = rows
                .iter()
                .any(|row| row.frame == frame && row.fault == fault);
            assert!(
                is_there || (frame, fault) == ("hello", Early),
                "{frame}, {fault:?}"
            );
        }
    }
}
