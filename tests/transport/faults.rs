//! What becomes of every kind of frame that is malformed, oversized, early, late, duplicated or forged: one table.

mod table;

use std::time::Duration;

use tautline::dictionary::{Acceptance, AcceptancePolicy};
use tautline::session::{Limits, SessionConfig, SessionError, StreamConfig};
use tautline::transport::{
    Connection, FaultStats, Listener, Node, NodeConfig, ResumeConfig, Stream,
};
use tautline::wire::{Control, Frame, GoAwayCode, Hello, WireError, parse_frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use self::table::Outcome::{Borne, Gone, Refused, Stopped};
use self::table::{FAULTS, FRAMES, Fault, MAX_MESSAGE, Outcome, Row, control, hello_with, table};
use super::support::{listen, within};

/// The name of an error's variant.
fn name(error: &WireError) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// The counter that must have gone up by one.
fn counter(stats: &FaultStats, outcome: Outcome) -> u64 {
    match outcome {
        Borne => 0,
        Stopped => stats.streams_refused,
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
    held: Vec<Stream>,
}

impl Attack {
    async fn begin(listener: &Listener, is_first: bool) -> Self {
        let address = listener.local_address().expect("an address");
        let socket = TcpStream::connect(address.to_string()).await;
        let mut socket = socket.expect("a socket");
        if !is_first {
            let hello = socket.write_all(&hello_with(|_| ())).await;
            hello.expect("a write");
        }
        let connection = within(listener.accept()).await.expect("a connection");
        let mut attack = Self {
            socket,
            answer: Vec::new(),
            connection,
            held: Vec::new(),
        };
        if is_first {
            return attack;
        }
        let stream = attack.connection.open("held", StreamConfig::default());
        let stream = within(stream).await.expect("a stream");
        within(stream.send(vec![0; 200_000].into()))
            .await
            .expect("room");
        attack.held.push(stream);
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

/// What the end of an answer says of what was wrong: with the session, or with its connection only.
fn last_words(answer: &[u8], of_connection: bool) -> (GoAwayCode, String) {
    let parsed = Hello::parse(answer).expect("a hello").expect("all of it");
    let mut at = parsed.1;
    let mut words = None;
    while let Some(frame) = parse_frame(&answer[at..], 1 << 20, true).expect("a frame") {
        at += match frame {
            Frame::Control { control, len } => {
                words = control;
                len
            }
            Frame::Block { header, body_at } => body_at + header.body_len,
        };
    }
    assert_eq!(at, answer.len(), "nothing in part");
    match words {
        Some(Control::GoAway(words)) if !of_connection => (words.code, words.detail),
        Some(Control::Fault(words)) if of_connection => (words.code, words.detail),
        other => panic!("{other:?}"),
    }
}

/// Waits until what has gone wrong is counted.
async fn counted(node: &Node, is_it: impl Fn(&FaultStats) -> bool) -> FaultStats {
    within(async {
        loop {
            let stats = node.faults();
            if is_it(&stats) {
                return stats;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

async fn attack(node: &Node, listener: &Listener, row: &Row, goes_on: bool) {
    let what = format!("{}, {:?}: {:02x?}", row.frame, row.fault, row.bytes);
    let before = node.faults();
    let mut attack = Attack::begin(listener, row.is_first).await;
    attack.say(&row.bytes).await;
    match row.outcome {
        Borne | Stopped => {
            attack.say(&control(1, &[77])).await;
            let answers =
                |control: &Control| matches!(control, Control::ProbeReply(reply) if reply.id == 77);
            attack.hear(answers).await;
            let after = node.faults();
            if row.outcome == Stopped {
                assert_counted(&before, &after, row.outcome, &what);
            } else {
                assert_eq!(after, before, "{what}");
            }
            // That it is lost now is counted before the next begins.
            let Attack {
                socket, connection, ..
            } = attack;
            drop(socket);
            if goes_on {
                counted(node, |stats| stats.lost > before.lost).await;
            } else {
                let _ = within(connection.closed()).await;
            }
            return;
        }
        Refused(expected, code) => {
            let mut answer = std::mem::take(&mut attack.answer);
            let read = within(attack.socket.read_to_end(&mut answer)).await;
            read.expect("all of the answer, then an end");
            drop(attack.socket);
            if goes_on {
                let (told, detail) = last_words(&answer, true);
                assert_eq!(told, code, "{what}: {detail}");
                assert!(!detail.is_empty(), "{what}");
                let after = counted(node, |stats| sum(stats) > sum(&before)).await;
                assert_counted(&before, &after, row.outcome, &what);
                return;
            }
            let error = within(attack.connection.closed()).await;
            let Err(SessionError::Peer(error)) = error else {
                panic!("{what} led to {error:?}");
            };
            assert_eq!(
                (name(&error).as_str(), error.code()),
                (expected, code),
                "{what}: {error}"
            );
            let told = last_words(&answer, false);
            assert_eq!(told, (code, error.to_string()), "{what}");
        }
        Gone if goes_on && row.frame == "fault" => {
            let after = counted(node, |stats| sum(stats) > sum(&before)).await;
            assert_counted(&before, &after, row.outcome, &what);
            return;
        }
        Gone => {
            let error = within(attack.connection.closed()).await;
            assert!(
                matches!(error, Err(SessionError::GoneAway { .. })),
                "{what} led to {error:?}"
            );
        }
    }
    assert_counted(&before, &node.faults(), row.outcome, &what);
}

/// Once, and as what it was.
fn assert_counted(before: &FaultStats, after: &FaultStats, outcome: Outcome, what: &str) {
    assert_eq!(
        counter(after, outcome),
        counter(before, outcome) + 1,
        "{what}: {after:?}"
    );
    assert_eq!(sum(after), sum(before) + 1, "{what}: {after:?}");
}

#[tokio::test]
async fn every_fault_of_every_frame_is_refused_told_and_counted_or_borne() {
    let node = Node::new(config()).expect("a node");
    let listener = listen(&node).await;
    for row in table() {
        attack(&node, &listener, &row, false).await;
    }
}

/// The same of sessions that go on: it is the connection that ends, and the peer that hears why.
#[tokio::test]
async fn every_fault_ends_the_connection_and_not_the_session_where_that_goes_on() {
    // A session whose handshake fails has nothing to go on with.
    for row in table().iter().filter(|row| !row.is_first) {
        // The sessions wait, and hold their part of the memory for histories.
        let config = config().resume(Some(ResumeConfig::default()));
        let node = Node::new(config).expect("a node");
        let listener = listen(&node).await;
        attack(&node, &listener, row, true).await;
    }
}

fn config() -> NodeConfig {
    let limits = Limits::default()
        .max_message(MAX_MESSAGE)
        .max_block(64 << 10);
    let session = SessionConfig::default()
        .limits(limits)
        .history_memory(1 << 20)
        .accept_dictionaries(AcceptancePolicy::new(Acceptance::Always));
    NodeConfig::default().session(session).guard(None)
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
                is_there || (frame, fault) == ("hello", Fault::Early),
                "{frame}, {fault:?}"
            );
        }
    }
}
