//! A whole session, fed by peers who keep to no limit.

use core::time::Duration;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use tautline::codecs::{Arm, CodecId, supports_context};
use tautline::control::PolicyConfig;
use tautline::session::{
    CodecWorker, Limits, Role, SendError, Session, SessionConfig, SessionError, StreamConfig,
};
use tautline::units::Time;
use tautline::wire::{Hello, RecordKind, StreamId};

use super::malloc::peak;

const MESSAGES: usize = 1 << 20;
const BLOCK: usize = 64 << 10;
const HISTORIES: usize = 1 << 20;
const LONGEST: usize = 128 << 10;
/// Messages, of which one that is not whole may have twice its bytes reserved; 16 blocks on their way, encoded and plain;
/// and histories: as `Limits::connection_memory` says.
const LIMIT: usize = MESSAGES + LONGEST + 16 * 2 * BLOCK + HISTORIES;

fn config(limits: Limits) -> SessionConfig {
    SessionConfig::default()
        .limits(limits.decode_memory(Some(HISTORIES)))
        .history_log(17)
}

fn strict() -> Limits {
    Limits::default()
        .max_message(LONGEST)
        .max_block(BLOCK)
        .window(64 << 10)
        .max_streams(64)
        .connection_memory(MESSAGES)
}

/// One that sends whatever it can of `policy`, and thinks that it may: bytes with which it begins, for an acceptor with `limits`
/// if it `keeps` to them.
fn peer(policy: PolicyConfig, limits: Limits, keeps: bool) -> Vec<u8> {
    let now = Time::ZERO;
    let acceptor = Session::new(Role::Acceptor, config(limits), now).expect("settings");
    let mut hello = output(acceptor);
    if !keeps {
        let (mut said, _) = Hello::parse(&hello).expect("well-formed").expect("whole");
        said.max_message = 16 << 20;
        said.max_block = 1 << 20;
        said.max_streams = 1000;
        said.window = 1 << 40;
        said.credit = None;
        hello.clear();
        said.put(&mut hello);
    }
    let settings = SessionConfig::default()
        .policy(policy)
        .send_queue(8 << 20)
        .block_len(if keeps { BLOCK } else { 1 << 20 });
    let mut session = Session::new(Role::Connector, settings, now).expect("settings");
    session.set_budget(now, None);
    let mut input = BytesMut::from(&hello[..]);
    session.handle_input(now, &mut input).expect("a handshake");
    let mut worker = CodecWorker::new(20);
    let mut out = Vec::new();
    for number in 0..80_usize {
        let Ok(id) = session.open("s", StreamConfig::default()) else {
            break;
        };
        let len = [0, 1, 300, LONGEST, 1 << 20][number % 5];
        for _ in 0..if len < 1000 { 300 } else { 3 } {
            let message = Bytes::from(vec![0; len]);
            match session.send(id, message, RecordKind::Message) {
                Ok(()) | Err(SendError::TooLong { .. } | SendError::Full(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        while let Some(job) = session.poll_encode(now) {
            let block = worker.encode(job);
            session.handle_encoded(now, block, Duration::from_micros(20));
        }
        write(&mut session, &mut out);
    }
    out
}

fn write(session: &mut Session, out: &mut Vec<u8>) {
    while session.output_len() > 0 {
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = session.fill_slices(&mut slices);
        let before = out.len();
        slices[..filled]
            .iter()
            .for_each(|slice| out.extend_from_slice(slice));
        let written = out.len() - before;
        session.handle_written(Time::ZERO, written);
    }
}

fn output(mut session: Session) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut session, &mut out);
    out
}

/// The most that a session takes to which a peer says `bytes`, and how it ends. Nobody reads.
fn feed(bytes: &[u8], limits: Limits) -> (usize, Option<SessionError>) {
    let mut outcome = None;
    let most = peak(|| {
        let now = Time::ZERO;
        let mut session = Session::new(Role::Acceptor, config(limits), now).expect("settings");
        let mut worker = CodecWorker::new(20);
        let mut said = Vec::new();
        let mut input = BytesMut::new();
        // As a socket gives them.
        for piece in bytes.chunks(16 << 10) {
            input.extend_from_slice(piece);
            loop {
                let before = input.len();
                let _ = session.handle_input(now, &mut input);
                let mut done = Vec::new();
                while let Some(job) = session.poll_decode() {
                    done.push(worker.decode(job));
                }
                let progressed = !done.is_empty() || input.len() != before;
                for block in done {
                    let _ = session.handle_decoded(block, Duration::ZERO);
                }
                let _ = session.poll_encode(now);
                while session.poll_event().is_some() {}
                said.clear();
                write(&mut session, &mut said);
                if !progressed {
                    break;
                }
            }
            let stats = session.stats();
            assert!(stats.received_most <= stats.received_limit, "{stats:?}");
            if let Some(Err(error)) = session.closed() {
                outcome = Some(error.clone());
                break;
            }
        }
        // All that it was sent is to be had.
        for number in (0..200).step_by(2) {
            let id = StreamId::new(number).expect("a number");
            while session.recv(id).is_some() {}
        }
    });
    (most, outcome)
}

fn policies() -> Vec<PolicyConfig> {
    let codecs = [
        CodecId::LZ4,
        CodecId::SNAPPY,
        CodecId::ZSTD,
        CodecId::DEFLATE,
        CodecId::BZIP2,
        CodecId::XZ,
    ];
    let plain = codecs.map(|codec| PolicyConfig::Fixed(Arm::new(codec, 0)));
    let with = codecs
        .into_iter()
        .filter(|codec| supports_context(*codec))
        .map(|codec| PolicyConfig::Fixed(Arm::new(codec, 0).with_history()));
    [PolicyConfig::None]
        .into_iter()
        .chain(plain)
        .chain(with)
        .collect()
}

#[test]
fn whatever_a_peer_says_a_session_takes_no_more_than_its_limits_and_a_mebibyte() {
    let mut most_of_all = 0;
    let mut rng = Rng::with_seed(3);
    for policy in policies() {
        for keeps in [true, false] {
            let bytes = peer(policy, strict(), keeps);
            let (most, end) = feed(&bytes, strict());
            println!(
                "{policy:?}, keeps to limits: {keeps}: {} bytes, {most} held, {end:?}",
                bytes.len()
            );
            assert!(keeps == end.is_none(), "{policy:?}: {end:?}");
            assert!(most <= LIMIT + (1 << 20), "{policy:?}: {most} of {LIMIT}");
            most_of_all = most_of_all.max(most);
            for _ in 0..20 {
                let mut bytes = bytes[..bytes.len().min(500_000)].to_vec();
                for _ in 0..rng.usize(1..5) {
                    let at = rng.usize(..bytes.len());
                    bytes[at] = rng.u8(..);
                }
                bytes.truncate(rng.usize(100..=bytes.len()));
                let (most, _) = feed(&bytes, strict());
                assert!(most <= LIMIT + (1 << 20), "{policy:?}: {most} of {LIMIT}");
                most_of_all = most_of_all.max(most);
            }
        }
    }
    println!("{most_of_all} bytes at most, the limits come to {LIMIT}");
}

/// The same bytes, to a session that lets its peer do as it likes: so the measure sees what limits keep out.
#[test]
fn without_limits_the_same_bytes_take_more() {
    let all = Limits::default()
        .max_message(16 << 20)
        .max_block(1 << 20)
        .window(1 << 30)
        .connection_memory(1 << 30);
    let bytes = peer(
        PolicyConfig::Fixed(Arm::new(CodecId::ZSTD, 0)),
        strict(),
        false,
    );
    let (most, end) = feed(&bytes, all);
    println!("{} bytes, {most} held, {end:?}", bytes.len());
    assert_eq!(end, None);
    assert!(most > 4 * (LIMIT + (1 << 20)), "{most}");
}
