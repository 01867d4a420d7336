//! Every kind of frame with every kind of fault, and what is to become of it.

use tautline::dictionary::DictionaryId;
use tautline::wire::{
    BlockHeader, Check, DictionaryOffer, Features, GoAwayCode, Hello, Role, Slot, plain_crc,
};

use crate::hostile::block;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
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

pub(super) const FAULTS: [Fault; 6] = [Malformed, Oversized, Early, Late, Duplicated, Forged];
pub(super) const FRAMES: [&str; 19] = [
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
    "stop",
    "credit",
    "blocked",
    "unused",
    "fault",
];
/// The numbers of those that are control frames.
const KINDS: [u8; 15] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// An error of this name blames the peer, who is told with this code.
    Refused(&'static str, GoAwayCode),
    /// The protocol allows it, and the session goes on.
    Borne,
    /// Its stream ends, and nothing else.
    Stopped,
    /// The peer has ended the session.
    Gone,
}
use Outcome::{Borne, Gone, Refused, Stopped};

pub(super) struct Row {
    pub(super) frame: &'static str,
    pub(super) fault: Fault,
    /// Instead of the hello, or after it.
    pub(super) is_first: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) outcome: Outcome,
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
const BAD_VARINT: Outcome = Refused("BadVarint", PROTOCOL);
const NOT_TEXT: Outcome = Refused("NotText", PROTOCOL);
const TRAILING: Outcome = Refused("TrailingBytes", PROTOCOL);
const UNDECODABLE: Outcome = Refused("Undecodable", GoAwayCode::Undecodable);
const STRANGER: Outcome = Refused("WrongMagic", GoAwayCode::Version);

/// The victim has opened this stream, sent one message on it and has more to send than the peer lets it.
const THEIRS: u8 = 1;
pub(super) const MAX_MESSAGE: usize = 100_000;

fn hello() -> Hello {
    Hello {
        role: Role::Connector,
        versions: (1, 1),
        session: [7; 16],
        codecs: Vec::new(),
        offered: Features(
            Features::CHECKSUMS.0
                | Features::HISTORY.0
                | Features::DICTIONARIES.0
                | Features::RESUME.0,
        ),
        required: Features::default(),
        max_message: PEERS_LONGEST,
        max_block: 1 << 16,
        max_streams: 100,
        window: 1 << 16,
        credit: Some(1 << 20),
        history_memory: 1 << 20,
        dictionaries: DictionaryOffer::default(),
        resume: None,
    }
}

/// The longest message that the peer takes.
const PEERS_LONGEST: u64 = 1 << 20;

pub(super) fn hello_with(change: impl FnOnce(&mut Hello)) -> Vec<u8> {
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

pub(super) fn control(kind: u8, body: &[u8]) -> Vec<u8> {
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

fn done() -> Vec<u8> {
    control(7, &[0, 0])
}

fn ack(frames: u8) -> Vec<u8> {
    control(3, &[frames, 0, 0, 0, 0, 0])
}

fn window(stream: u8, limit: u64) -> Vec<u8> {
    control(6, &join(&[&[stream], &varint(limit)]))
}

fn stop(stream: u8, messages: u8, reason: u8, given: u64) -> Vec<u8> {
    control(11, &join(&[&[stream, messages, reason], &varint(given)]))
}

fn define(group: u8, codec: u8, dictionary: u8) -> Vec<u8> {
    control(8, &[9, codec, group, 0, dictionary])
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

/// Slots that carry history from block to block, and blocks of `HELLO` in them, of the epochs that are said.
fn carried(blocks: &[(u8, Option<u64>)]) -> Vec<u8> {
    let slot = |slot| control(8, &[slot, 1, 0, 1, 0, 10]);
    let mut out = join(&[&open(0), &slot(9), &slot(10)]);
    let mut check = Check::default();
    // LZ4's way to say literals.
    let body = join(&[&[(HELLO.len() as u8) << 4], HELLO]);
    for (slot, epoch) in blocks {
        let header = BlockHeader {
            slot: Slot::new(*slot),
            epoch: *epoch,
            plain_len: Some(HELLO.len()),
            body_len: body.len(),
            check: check.advance(plain_crc(HELLO)),
        };
        header.put(&mut out, true);
        out.extend_from_slice(&body);
    }
    out
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

#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    fn row(
        &mut self,
        frame: &'static str,
        fault: Fault,
        bytes: impl AsRef<[u8]>,
        outcome: Outcome,
    ) {
        self.0.push(Row {
            frame,
            fault,
            is_first: false,
            bytes: bytes.as_ref().to_vec(),
            outcome,
        });
    }

    /// What comes instead of a hello.
    fn first(
        &mut self,
        frame: &'static str,
        fault: Fault,
        bytes: impl AsRef<[u8]>,
        outcome: Outcome,
    ) {
        self.row(frame, fault, bytes, outcome);
        self.0.last_mut().expect("a row").is_first = true;
    }

    fn blocks(&mut self) {
        let opened = open(0);
        for (name, form) in [
            ("short block", Form::Short),
            ("long block", Form::Long),
            ("tiny block", Form::Tiny),
        ] {
            let good = blocks(&[HELLO, HELLO], form);
            let (one, two) = good.split_at(blocks(&[HELLO], form).len());
            // With a good one before it.
            let then = |plain| join(&[&opened, &blocks(&[HELLO, plain], form)]);
            self.row(name, Malformed, then(CUT_OFF), TRUNCATED);
            self.row(name, Oversized, then(ENDLESS), Stopped);
            self.row(name, Early, &good, UNEXPECTED);
            let closed = join(&[&opened, one, &close(0), two]);
            self.row(name, Late, closed, UNEXPECTED);
            let gone = join(&[&opened, one, &done(), two]);
            self.row(name, Late, gone, UNEXPECTED);
            self.row(name, Duplicated, join(&[&opened, &good, two]), CHECKSUM);
            self.row(name, Forged, damaged(then(HELLO)), CHECKSUM);
        }
        let in_slot = |slot| join(&[&opened, &block(slot, HELLO, None, 0)]);
        self.row("short block", Forged, in_slot(12), UNKNOWN);
        self.row("short block", Malformed, in_slot(1), UNDECODABLE);
        self.row("tiny block", Early, b"\xc0\0\0\x10", UNEXPECTED);

        let name = "long block";
        let (longest, most) = (varint(1 << 30), [100]);
        self.row(name, Malformed, [0x80, 5], TOO_SMALL);
        self.row(name, Malformed, [0x80, 0x80, 0], BAD_VARINT);
        self.row(name, Oversized, join(&[&[0x80], &longest]), TOO_LARGE);
        self.row(
            name,
            Oversized,
            join(&[&[0x81], &longest, &most]),
            TOO_LARGE,
        );
        let longer = block(0, HELLO, Some(HELLO.len() + 1), 0);
        let wrong = Refused("WrongPlainLen", GoAwayCode::Undecodable);
        self.row(name, Forged, longer, wrong);
        let epoch = join(&[&[0x82, 1, 7], &[0; 4], HELLO]);
        self.row(name, Forged, epoch, UNEXPECTED);
        // In a slot that has history: 0 is the epoch of its first block, and each that is said is the next.
        let (first, next) = ((9, None), (9, Some(1)));
        let begun = [first, next, first];
        let then = |epoch| carried(&[&begun[..], &[(9, Some(epoch))]].concat());
        self.row(name, Early, carried(&[next]), UNEXPECTED);
        self.row(name, Early, then(3), UNEXPECTED);
        self.row(name, Late, then(0), UNEXPECTED);
        self.row(name, Duplicated, then(1), UNEXPECTED);
        self.row(name, Duplicated, carried(&[first, next, next]), UNEXPECTED);
        self.row(name, Oversized, then(u64::MAX), UNEXPECTED);
        // Each slot counts for itself.
        let others = carried(&[first, (10, None), next, (10, Some(1)), (9, Some(2))]);
        self.row(name, Duplicated, others, Borne);
        let one_less = carried(&begun[..2]).len();
        let all = carried(&begun);
        let again = join(&[&all, &all[one_less..]]);
        self.row(name, Duplicated, again, CHECKSUM);
    }

    /// What all control frames have.
    fn control_frames(&mut self) {
        for (kind, frame) in KINDS.into_iter().zip(&FRAMES[4..]) {
            let too_long = join(&[&[0xe0 | kind], &varint(4097)]);
            self.row(frame, Oversized, too_long, TOO_LARGE);
            self.row(frame, Malformed, control(kind, &[]), TRUNCATED);
            self.row(frame, Forged, damaged(control(kind, &[])), CHECKSUM);
            // These begin with fields of a byte.
            let fields: &[u8] = match *frame {
                "define" => &[9, 1],
                "dictionary" => &[2],
                _ => &[],
            };
            let number = control(kind, &join(&[fields, &[0x80, 0]]));
            self.row(frame, Malformed, number, BAD_VARINT);
        }
    }

    fn of_the_path(&mut self) {
        let done = done();
        let probe = control(1, &[9]);
        self.row("probe", Late, join(&[&done, &probe]), Borne);
        self.row("probe", Duplicated, twice(&probe), Borne);

        let name = "probe reply";
        let reply = control(2, &[9, 0, 0, 0, 0, 0]);
        let reports = control(2, &[9, 0, 0, 0, 0, 65]);
        self.row(name, Oversized, reports, TOO_LARGE);
        self.row(name, Late, join(&[&done, &reply]), Borne);
        self.row(name, Duplicated, twice(&reply), Borne);
        self.row(name, Forged, reply, Borne);

        let reports = control(3, &[1, 0, 0, 0, 0, 65]);
        self.row("ack", Oversized, reports, TOO_LARGE);
        self.row("ack", Late, join(&[&done, &ack(1)]), Borne);
        self.row("ack", Late, join(&[&ack(1), &ack(0)]), TOO_SMALL);
        self.row("ack", Duplicated, twice(&ack(1)), Borne);
        self.row("ack", Forged, ack(100), TOO_LARGE);
    }

    fn of_streams(&mut self) {
        let (done, opened) = (done(), open(0));
        let inside = join(&[&opened, &blocks(&[BEGUN], Form::Short)]);
        let long_text = join(&[&varint(256), &[b'x'; 256]]);

        let name = "open";
        let with = |rest: &[u8]| control(4, &join(&[&[0], rest]));
        self.row(name, Malformed, with(&[0, 0, 1, 0xff]), NOT_TEXT);
        self.row(name, Malformed, with(&[0, 0, 1, b'x', 0]), TRAILING);
        let named = join(&[&[0, 0], &long_text]);
        self.row(name, Oversized, with(&named), TOO_LARGE);
        self.row(name, Oversized, with(&[0x80, 2, 0, 0]), TOO_LARGE);
        self.row(name, Late, join(&[&done, &opened]), UNEXPECTED);
        self.row(name, Late, join(&[&open(2), &opened]), UNEXPECTED);
        self.row(name, Duplicated, twice(&opened), UNEXPECTED);
        self.row(name, Forged, open(3), UNEXPECTED);
        self.row(name, Forged, with(&[0, 1, 0]), TOO_SMALL);

        let name = "close";
        let with = |code: &[u8]| join(&[&opened, &control(5, &join(&[&[0], code]))]);
        self.row(name, Malformed, with(&[0, 0]), TRAILING);
        self.row(name, Oversized, with(&varint(1 << 32 | 1)), TOO_LARGE);
        self.row(name, Early, close(0), UNEXPECTED);
        self.row(name, Early, join(&[&inside, &close(0)]), UNEXPECTED);
        self.row(name, Late, join(&[&opened, &done, &close(0)]), UNEXPECTED);
        let again = join(&[&opened, &twice(&close(0))]);
        self.row(name, Duplicated, again, UNEXPECTED);
        self.row(name, Forged, close(3), UNEXPECTED);

        let name = "window";
        let further = window(THEIRS, 1 << 17);
        let number = control(6, &join(&[&varint(1 << 28), &[0]]));
        self.row(name, Oversized, number, TOO_LARGE);
        self.row(name, Early, window(0, 1 << 20), UNEXPECTED);
        self.row(name, Late, join(&[&done, &further]), Borne);
        self.row(name, Duplicated, twice(&further), Borne);
        self.row(name, Forged, window(THEIRS, 1 << 10), TOO_SMALL);

        let name = "go-away";
        self.row(name, Malformed, control(7, &[0, 1, 0xff]), NOT_TEXT);
        let said = control(7, &join(&[&[0], &long_text]));
        self.row(name, Oversized, said, TOO_LARGE);
        self.row(name, Early, join(&[&inside, &done]), UNEXPECTED);
        self.row(name, Late, join(&[&done, &control(7, &[4, 0])]), Gone);
        self.row(name, Duplicated, twice(&done), UNEXPECTED);
        self.row(name, Forged, control(7, &[99, 0]), Gone);
    }

    fn of_stops(&mut self) {
        let name = "stop";
        let good = stop(THEIRS, 0, 1, PEERS_LONGEST + 1);
        let body = join(&[&[THEIRS, 0, 1], &varint(PEERS_LONGEST + 1), &[0]]);
        self.row(name, Malformed, control(11, &body), TRAILING);
        self.row(name, Malformed, stop(THEIRS, 0, 0, 9), UNKNOWN);
        self.row(name, Malformed, stop(THEIRS, 0, 2, 9), UNKNOWN);
        let more = stop(THEIRS, 2, 1, PEERS_LONGEST + 1);
        self.row(name, Oversized, more, TOO_LARGE);
        let early = stop(0, 0, 1, PEERS_LONGEST + 1);
        self.row(name, Early, &early, UNEXPECTED);
        let late = join(&[&open(0), &close(0), &early]);
        self.row(name, Late, late, Borne);
        self.row(name, Duplicated, twice(&good), Borne);
        let forged = stop(THEIRS, 0, 1, PEERS_LONGEST);
        self.row(name, Forged, forged, TOO_SMALL);
    }

    fn of_credit(&mut self) {
        let (done, opened) = (done(), open(0));
        let past = varint(1 << 28 | 1);
        let most = varint(u64::MAX);

        let name = "credit";
        let credit = |stream: u8, amount| control(12, &[stream, amount]);
        let theirs = credit(THEIRS + 1, 9);
        self.row(name, Malformed, credit(0, 0), TOO_SMALL);
        self.row(name, Malformed, control(12, &[0, 9, 0]), TRAILING);
        self.row(
            name,
            Oversized,
            control(12, &join(&[&past, &[9]])),
            TOO_LARGE,
        );
        let all = control(12, &join(&[&[0], &most]));
        self.row(name, Oversized, all, TOO_LARGE);
        self.row(name, Early, credit(1, 9), UNEXPECTED);
        self.row(name, Late, join(&[&done, &theirs]), Borne);
        self.row(name, Duplicated, twice(&theirs), Borne);
        self.row(name, Forged, credit(THEIRS + 3, 9), UNEXPECTED);

        let name = "blocked";
        let blocked = |needs: &[u8], had| {
            let body = control(13, &join(&[&[0], needs, &[had]]));
            join(&[&opened, &body])
        };
        self.row(name, Malformed, blocked(&[0], 0), TOO_SMALL);
        self.row(name, Malformed, control(13, &[0, 9, 0, 0]), TRAILING);
        let longest = varint(MAX_MESSAGE as u64 + 33);
        self.row(name, Oversized, blocked(&longest, 0), Stopped);
        self.row(name, Early, control(13, &[0, 9, 0]), UNEXPECTED);
        let late = join(&[&opened, &close(0), &control(13, &[0, 9, 0])]);
        self.row(name, Late, late, UNEXPECTED);
        let again = join(&[&blocked(&[9], 0), &control(13, &[0, 9, 0])]);
        self.row(name, Duplicated, again, Borne);
        self.row(name, Forged, blocked(&[9], 9), TOO_LARGE);

        let name = "unused";
        let unused = control(14, &[9]);
        let more = control(14, &most);
        self.row(name, Malformed, control(14, &[0]), TOO_SMALL);
        self.row(name, Malformed, control(14, &[9, 0]), TRAILING);
        self.row(name, Oversized, &more, TOO_LARGE);
        self.row(name, Early, &more, TOO_LARGE);
        self.row(name, Late, join(&[&done, &unused]), Borne);
        self.row(name, Duplicated, twice(&unused), Borne);
        self.row(name, Forged, join(&[&unused, &more]), TOO_LARGE);
    }

    fn of_faults(&mut self) {
        let name = "fault";
        let fault = control(16, &[4, 0]);
        let long_text = join(&[&[4], &varint(256), &[b'x'; 256]]);
        self.row(name, Malformed, control(16, &[4, 1, 0xff]), NOT_TEXT);
        self.row(name, Malformed, control(16, &[4, 0, 0]), TRAILING);
        self.row(name, Oversized, control(16, &long_text), TOO_LARGE);
        self.row(name, Early, &fault, Gone);
        self.row(name, Late, join(&[&done(), &fault]), Gone);
        self.row(name, Duplicated, twice(&fault), Gone);
        self.row(name, Forged, control(16, &[99, 0]), Gone);
    }

    fn of_slots(&mut self) {
        let name = "define";
        let again = define(0, 1, 0);
        self.row(name, Malformed, control(8, &[9, 1, 0, 2, 0]), UNKNOWN);
        self.row(name, Malformed, control(8, &[16, 1, 0, 0, 0]), UNKNOWN);
        let group = control(8, &[9, 1, 0x80, 2, 0, 0]);
        self.row(name, Oversized, group, TOO_LARGE);
        let history = control(8, &[9, 1, 0, 1, 0, 25]);
        self.row(name, Oversized, history, TOO_LARGE);
        self.row(name, Early, define(5, 1, 0), UNKNOWN);
        self.row(name, Late, join(&[&done(), &again]), Borne);
        self.row(name, Duplicated, twice(&again), Borne);
        self.row(name, Forged, define(0, 1, 1), UNEXPECTED);
        self.row(name, Forged, define(0, 99, 0), UNKNOWN);
    }

    fn of_dictionaries(&mut self) {
        let name = "dictionary";
        let len = CONTENT.len() as u64;
        let good = offer(1, len, CONTENT);
        let held = join(&[&good, &piece(CONTENT)]);
        let retire = control(9, &[2, 1]);
        self.row(name, Malformed, control(9, &[3, 1]), UNKNOWN);
        self.row(name, Malformed, control(9, &[2, 0]), TOO_SMALL);
        self.row(name, Malformed, offer(1, 7, CONTENT), TOO_SMALL);
        self.row(name, Oversized, offer(1, 1 << 20, CONTENT), TOO_LARGE);
        let more = join(&[&good, &piece(&[b'x'; 200])]);
        self.row(name, Oversized, more, TOO_LARGE);
        self.row(name, Early, piece(CONTENT), UNEXPECTED);
        self.row(name, Early, &retire, UNEXPECTED);
        self.row(name, Early, offer(2, len, CONTENT), UNEXPECTED);
        self.row(name, Late, join(&[&held, &piece(CONTENT)]), UNEXPECTED);
        let retired = join(&[&held, &retire, &define(0, 1, 1)]);
        self.row(name, Late, retired, UNEXPECTED);
        self.row(name, Duplicated, twice(&good), UNEXPECTED);
        let again = join(&[&held, &twice(&retire)]);
        self.row(name, Duplicated, again, UNEXPECTED);
        let other = offer(1, len, b"something else");
        self.row(name, Forged, join(&[&other, &piece(CONTENT)]), CHECKSUM);

        let name = "dictionary answer";
        let answer = control(10, &[1, 0]);
        self.row(name, Malformed, control(10, &[1, 3]), UNKNOWN);
        self.row(name, Malformed, control(10, &[0, 0]), TOO_SMALL);
        self.row(name, Early, &answer, UNEXPECTED);
        self.row(name, Late, join(&[&done(), &answer]), UNEXPECTED);
        self.row(name, Duplicated, twice(&answer), UNEXPECTED);
        self.row(name, Forged, &answer, UNEXPECTED);
    }

    fn hellos(&mut self) {
        let good = hello_with(|_| ());
        let early = [
            control(1, &[9]),
            control(2, &[9, 0, 0, 0, 0, 0]),
            ack(0),
            open(0),
            close(0),
            window(0, 9),
            done(),
            define(0, 1, 0),
            offer(1, CONTENT.len() as u64, CONTENT),
            control(10, &[1, 0]),
            stop(0, 0, 1, PEERS_LONGEST + 1),
            control(12, &[0, 9]),
            control(13, &[0, 9, 0]),
            control(14, &[9]),
            control(16, &[4, 0]),
        ];
        for (frame, bytes) in FRAMES[4..].iter().zip(early) {
            self.first(frame, Early, join(&[&bytes, &good]), STRANGER);
        }
        for (frame, form) in [("short block", Form::Short), ("long block", Form::Long)] {
            self.first(frame, Early, blocks(&[HELLO], form), STRANGER);
        }
        self.first("tiny block", Early, b"\xc0\0\0\x10", STRANGER);

        let name = "hello";
        self.first(name, Malformed, damaged(good.clone()), CHECKSUM);
        // The body ends inside its last field, and is checked.
        let mut cut_off = good[..good.len() - 5].to_vec();
        let len = (cut_off.len() - 8) as u16;
        cut_off[6..8].copy_from_slice(&len.to_le_bytes());
        cut_off.extend(plain_crc(&cut_off).to_le_bytes());
        self.first(name, Malformed, cut_off, TRUNCATED);
        self.first(name, Oversized, b"\x8eTLN\x01\x01\xff\xff", TOO_LARGE);
        let version = hello_with(|hello| hello.versions = (9, 9));
        let refused = Refused("Version", GoAwayCode::Version);
        self.first(name, Forged, version, refused);
        let role = hello_with(|hello| hello.role = Role::Acceptor);
        self.first(name, Forged, role, UNEXPECTED);
        let required = hello_with(|hello| hello.required = Features(1 << 40));
        let refused = Refused("Feature", GoAwayCode::Feature);
        self.first(name, Forged, required, refused);
        let window = hello_with(|hello| hello.window = 100);
        self.first(name, Forged, window, TOO_SMALL);

        // A second one is read as a long block of an epoch.
        let again = join(&[&good, &[0; 100]]);
        self.row(name, Late, join(&[&done(), &again]), UNEXPECTED);
        self.row(name, Duplicated, again, UNEXPECTED);
    }
}

pub(super) fn table() -> Vec<Row> {
    let mut table = Table::default();
    table.blocks();
    table.control_frames();
    table.of_the_path();
    table.of_streams();
    table.of_stops();
    table.of_credit();
    table.of_faults();
    table.of_slots();
    table.of_dictionaries();
    table.hellos();
    table.0
}
