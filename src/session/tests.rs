//! Two sessions joined by pipes, in virtual time that stands still unless a test moves it.

use core::time::Duration;
use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;

use super::*;
use crate::codecs::{Arm, CodecId};
use crate::control::{MajorityConfig, Reason};
use crate::wire::{Close, CloseCode, GroupId};

/// One end with its driver.
struct End {
    session: Session,
    worker: CodecWorker,
    input: BytesMut,
    events: Vec<Event>,
    received: HashMap<StreamId, Vec<Message>>,
    releases: bool,
}

impl End {
    fn new(role: Role, config: SessionConfig) -> Self {
        Self {
            session: Session::new(role, config, Time::ZERO).expect("a valid configuration"),
            worker: CodecWorker::new(20),
            input: BytesMut::new(),
            events: Vec::new(),
            received: HashMap::new(),
            releases: true,
        }
    }

    /// Follows the drain rule once; the bytes to be written.
    fn run(&mut self, now: Time) -> Vec<u8> {
        let mut input = core::mem::take(&mut self.input);
        loop {
            let before = input.len();
            let _ = self.session.handle_input(now, &mut input);
            let mut worked = input.len() != before;
            while let Some(job) = self.session.poll_decode() {
                let block = self.worker.decode(job);
                let _ = self.session.handle_decoded(block, Duration::from_micros(5));
                worked = true;
            }
            if !worked {
                break;
            }
        }
        self.input = input;
        let _ = self.session.handle_timeout(now);
        while let Some(event) = self.session.poll_event() {
            if let Event::Readable(id) = event {
                while let Some(message) = self.session.recv(id) {
                    if self.releases {
                        self.session.release(id, message.charge());
                    }
                    self.received.entry(id).or_default().push(message);
                }
            }
            self.events.push(event);
        }
        while let Some(job) = self.session.poll_encode(now) {
            let block = self.worker.encode(job);
            self.session
                .handle_encoded(now, block, Duration::from_micros(20));
        }
        self.take_output(now)
    }

    fn take_output(&mut self, now: Time) -> Vec<u8> {
        let mut out = Vec::new();
        while self.session.output_len() > 0 {
            let mut slices = [IoSlice::new(&[]); 8];
            let filled = self.session.fill_slices(&mut slices);
            let written: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
            slices[..filled]
                .iter()
                .for_each(|slice| out.extend_from_slice(slice));
            self.session.handle_written(now, written);
        }
        out
    }

    fn payloads(&self, id: StreamId) -> Vec<&[u8]> {
        self.received
            .get(&id)
            .into_iter()
            .flatten()
            .map(|message| message.payload.as_ref())
            .collect()
    }
}

struct Pair {
    a: End,
    b: End,
    now: Time,
}

impl Pair {
    fn new(config: &SessionConfig) -> Self {
        let mut pair = Self::apart(config);
        pair.settle();
        pair
    }

    /// Before the handshake.
    fn apart(config: &SessionConfig) -> Self {
        let mut pair = Self {
            a: End::new(Role::Connector, config.clone()),
            b: End::new(Role::Acceptor, config.clone()),
            now: Time::ZERO,
        };
        pair.a.session.set_budget(Time::ZERO, None);
        pair.b.session.set_budget(Time::ZERO, None);
        pair
    }

    /// What a says takes `delay` to b, and b's answer as long to a.
    fn exchange(&mut self, delay: Duration) {
        let there = self.a.run(self.now);
        self.now = self.now + delay;
        self.b.input.extend_from_slice(&there);
        let back = self.b.run(self.now);
        self.now = self.now + delay;
        self.a.input.extend_from_slice(&back);
        let late = self.a.run(self.now);
        self.b.input.extend_from_slice(&late);
    }

    /// Lets both run until neither has anything to say; the bytes that went from a to b.
    fn settle(&mut self) -> Vec<u8> {
        self.settle_through(|bytes| bytes)
    }

    fn settle_through(&mut self, mut tamper: impl FnMut(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let from_a = tamper(self.a.run(self.now));
            self.b.input.extend_from_slice(&from_a);
            let from_b = self.b.run(self.now);
            self.a.input.extend_from_slice(&from_b);
            let quiet = from_a.is_empty() && from_b.is_empty();
            all.extend_from_slice(&from_a);
            if quiet {
                return all;
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.settle();
    }

    fn open(&mut self) -> StreamId {
        let id = self
            .a
            .session
            .open("test", StreamConfig::default())
            .expect("an open session");
        self.settle();
        id
    }

    fn send(&mut self, id: StreamId, payload: &[u8]) {
        self.a
            .session
            .send(id, Bytes::copy_from_slice(payload), RecordKind::Message)
            .expect("room");
    }
}

fn config(policy: PolicyConfig) -> SessionConfig {
    SessionConfig::default()
        .policy(policy)
        .send_queue(64 << 20)
        .max_message(32 << 20)
}

fn random_payload(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.u8(..10) {
        0 => 0,
        1 => rng.usize(1..4),
        2..=6 => rng.usize(4..600),
        7 | 8 => rng.usize(600..5000),
        _ => rng.usize(60_000..300_000),
    };
    let alphabet = if rng.bool() { 4 } else { 255 };
    (0..len).map(|_| rng.u8(..alphabet)).collect()
}

fn policies() -> Vec<PolicyConfig> {
    let mut policies = vec![
        PolicyConfig::None,
        PolicyConfig::RoundRobin,
        PolicyConfig::default(),
    ];
    policies.extend(crate::codecs::supported().iter().map(|info| {
        PolicyConfig::Fixed(Arm {
            codec: info.id,
            level: info.default_level,
        })
    }));
    policies
}

#[test]
fn whatever_is_sent_arrives_in_order_with_every_policy() {
    for policy in policies() {
        let mut pair = Pair::new(&config(policy));
        let mut rng = Rng::with_seed(11);
        let ids: Vec<_> = (0..3).map(|_| pair.open()).collect();
        let mut sent: HashMap<StreamId, Vec<Vec<u8>>> = HashMap::new();
        for round in 0..30 {
            for _ in 0..rng.usize(1..8) {
                let id = ids[rng.usize(..ids.len())];
                let payload = random_payload(&mut rng);
                pair.send(id, &payload);
                sent.entry(id).or_default().push(payload);
            }
            pair.pass(Duration::from_micros(100 * round));
        }
        for (id, payloads) in &sent {
            assert_eq!(pair.b.payloads(*id), *payloads, "{policy:?} {id}");
        }
        pair.a.session.close();
        pair.settle();
        assert_eq!(pair.a.session.closed(), Some(&Ok(())), "{policy:?}");
        assert_eq!(pair.b.session.closed(), Some(&Ok(())), "{policy:?}");
    }
}

#[test]
fn both_sides_open_and_send() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let a = pair
        .a
        .session
        .open("from a", StreamConfig::default())
        .expect("open");
    let b = pair
        .b
        .session
        .open("from b", StreamConfig::default())
        .expect("open");
    pair.settle();
    assert_eq!(pair.b.session.stream_name(a), Some("from a"));
    assert_eq!(pair.a.session.stream_name(b), Some("from b"));
    for id in [a, b] {
        let request = RecordKind::Request { correlation: 7 };
        pair.a
            .session
            .send(id, Bytes::from_static(b"ping"), request)
            .expect("room");
        pair.b
            .session
            .send(
                id,
                Bytes::from_static(b"pong"),
                RecordKind::Reply { correlation: 7 },
            )
            .expect("room");
    }
    pair.settle();
    for id in [a, b] {
        assert_eq!(
            pair.b.received[&id][0].kind,
            RecordKind::Request { correlation: 7 }
        );
        assert_eq!(
            pair.a.received[&id][0].kind,
            RecordKind::Reply { correlation: 7 }
        );
    }
}

#[test]
fn a_lone_small_message_costs_at_most_six_bytes() {
    for len in [0, 1, 64, 192, 1000, 2047] {
        let mut pair =
            Pair::new(&config(PolicyConfig::None).probe_interval(Duration::from_secs(3600)));
        let id = pair.open();
        pair.send(id, b"establish");
        pair.settle();
        pair.send(id, &vec![7; len]);
        let wire = pair.settle();
        assert!(wire.len() <= len + 6, "{len} bytes became {}", wire.len());
    }
}

#[test]
fn a_lone_message_leaves_at_once_and_a_backlog_in_blocks() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    let before = pair.a.session.stats().blocks_sent;
    pair.send(id, b"alone");
    let job = pair.a.session.poll_encode(pair.now);
    assert!(
        job.is_none() && pair.a.session.output_len() > 0,
        "no timer is waited for"
    );
    pair.settle();
    for _ in 0..1000 {
        pair.send(id, &[5; 100]);
    }
    pair.settle();
    let blocks = pair.a.session.stats().blocks_sent - before - 1;
    assert!((2..=3).contains(&blocks), "100 kB left in {blocks} blocks");
    assert_eq!(pair.b.payloads(id).len(), 1001);
}

#[test]
fn compressible_blocks_get_small_and_incompressible_ones_do_not_grow() {
    for info in crate::codecs::supported() {
        let arm = Arm {
            codec: info.id,
            level: info.default_level,
        };
        if arm == Arm::IDENTITY {
            continue;
        }
        let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)));
        let id = pair.open();
        let text = b"attach request accepted ".repeat(1000);
        pair.send(id, &text);
        let wire = pair.settle().len();
        assert!(
            wire * 5 < text.len(),
            "{arm}: {} bytes became {wire}",
            text.len()
        );
        let mut noise = vec![0; 20_000];
        Rng::with_seed(5).fill(&mut noise);
        pair.send(id, &noise);
        let wire = pair.settle().len();
        assert!(
            wire < noise.len() + 60,
            "{arm}: {} bytes became {wire}",
            noise.len()
        );
        let stats = pair.a.session.stream_stats(id).expect("a stream");
        assert_eq!(stats.not_smaller, 1, "{arm}");
        assert_eq!(pair.b.payloads(id), [text.as_slice(), &noise]);
    }
}

#[test]
fn a_closed_session_has_delivered_what_was_queued() {
    let mut pair = Pair::new(&config(PolicyConfig::default()));
    let id = pair.open();
    for number in 0..500_u32 {
        pair.send(id, &number.to_le_bytes().repeat(300));
    }
    pair.a.session.close();
    assert!(matches!(
        pair.a.session.send(id, Bytes::new(), RecordKind::Message),
        Err(SendError::Closed(_))
    ));
    pair.settle();
    assert_eq!(pair.b.payloads(id).len(), 500);
    assert_eq!(pair.b.session.closed(), Some(&Ok(())));
    assert_eq!(pair.a.session.closed(), Some(&Ok(())));
    assert!(
        pair.b
            .events
            .contains(&Event::StreamEnded(id, CloseCode::Finished))
    );
}

#[test]
fn a_consumer_that_stops_holds_up_only_its_own_stream() {
    let mut pair = Pair::new(&config(PolicyConfig::None).window(64 << 10));
    let (slow, other) = (pair.open(), pair.open());
    pair.b.releases = false;
    for _ in 0..100 {
        pair.send(slow, &[1; 10_000]);
    }
    pair.settle();
    let arrived: usize = pair
        .b
        .payloads(slow)
        .iter()
        .map(|payload| payload.len())
        .sum();
    assert!(
        arrived <= 64 << 10,
        "{arrived} bytes came in a window of 64 KiB"
    );
    pair.b.releases = true;
    for _ in 0..100 {
        pair.send(other, &[2; 10_000]);
    }
    pair.settle();
    assert_eq!(pair.b.payloads(other).len(), 100);
    let charge = arrived + pair.b.payloads(slow).len() * 32;
    pair.b.session.release(slow, charge);
    pair.settle();
    assert_eq!(pair.b.payloads(slow).len(), 100);
}

#[test]
fn a_message_longer_than_the_window_comes_in_parts() {
    let mut pair = Pair::new(&config(PolicyConfig::None).window(16 << 10));
    let id = pair.open();
    let long: Vec<u8> = (0..3_000_000_u32)
        .map(|number| ((number * 31) >> 3) as u8)
        .collect();
    pair.send(id, &long);
    pair.send(id, b"after");
    pair.settle();
    assert_eq!(pair.b.payloads(id), [long.as_slice(), b"after"]);
}

#[test]
fn a_peer_that_never_acknowledges_is_waited_for_no_longer_than_a_second() {
    let mut pair = Pair::new(&SessionConfig::default().send_queue(1 << 20));
    pair.a.session.set_budget(pair.now, None);
    let id = pair.open();
    for number in 0..100_u8 {
        pair.send(id, &[number; 1000]);
    }
    // Nothing of what the peer says comes through.
    let first = pair.a.run(pair.now).len();
    assert_eq!(pair.a.run(pair.now).len(), 0);
    assert!(
        pair.a.session.has_queued(),
        "{first} bytes and then a pause"
    );
    let until = pair.a.session.poll_timeout().expect("a time to go on");
    assert!(until <= pair.now + Duration::from_secs(1));
    let rest = pair.a.run(pair.now + Duration::from_secs(1)).len();
    assert!(rest > 0, "it goes on without");
}

#[test]
fn a_full_queue_gives_the_message_back() {
    let mut pair = Pair::new(&SessionConfig::default().send_queue(1000));
    let id = pair.open();
    let big = Bytes::from(vec![0; 5000]);
    pair.a
        .session
        .send(id, big.clone(), RecordKind::Message)
        .expect("an empty queue takes any message");
    assert_eq!(
        pair.a
            .session
            .send(id, Bytes::from_static(b"x"), RecordKind::Message),
        Err(SendError::Full(Rejected(Bytes::from_static(b"x"))))
    );
    pair.settle();
    let drained = pair.a.events.iter().map(|event| match event {
        Event::Drained { stream, bytes } if *stream == id => *bytes,
        _ => 0,
    });
    assert_eq!(drained.sum::<usize>(), 5032);
    pair.a
        .session
        .send(id, big, RecordKind::Message)
        .expect("room again");
}

#[test]
fn limits_are_told_before_anything_is_sent() {
    let mut pair = Pair::new(&SessionConfig::default().max_message(100).max_streams(2));
    let id = pair.open();
    assert_eq!(
        pair.a
            .session
            .send(id, Bytes::from(vec![0; 101]), RecordKind::Message),
        Err(SendError::TooLong {
            given: 101,
            max: 100
        })
    );
    pair.open();
    assert_eq!(
        pair.a.session.open("third", StreamConfig::default()),
        Err(OpenError::TooMany { open: 2, max: 2 })
    );
    assert!(matches!(
        pair.a
            .session
            .open(&"n".repeat(256), StreamConfig::default()),
        Err(OpenError::NameTooLong {
            given: 256,
            max: 255
        })
    ));
}

#[test]
fn finished_streams_make_room_for_new_ones() {
    let mut pair = Pair::new(&SessionConfig::default().max_streams(3));
    for round in 0..50_u8 {
        let id = pair.open();
        pair.send(id, &[round]);
        pair.a.session.finish(id);
        pair.settle();
        pair.b.session.finish(id);
        pair.settle();
        assert_eq!(pair.b.payloads(id), [[round]]);
        assert_eq!(pair.a.session.recv(id), None);
        assert_eq!(pair.b.session.recv(id), None);
        assert_eq!(
            pair.a.session.stream_stats(id).map(|_| ()),
            None,
            "the stream is forgotten"
        );
    }
}

#[test]
fn streams_that_are_closed_but_not_read_make_room_as_well() {
    let mut pair = Pair::new(&SessionConfig::default().max_streams(1));
    let first = pair.a.session.open("first", StreamConfig::default());
    let first = first.expect("an open session");
    pair.send(first, b"unread");
    pair.a.session.finish(first);
    // As the other end does whose application is late.
    let wire = pair.a.run(pair.now);
    let mut input = BytesMut::from(wire.as_slice());
    let result = pair.b.session.handle_input(pair.now, &mut input);
    assert_eq!(result, Ok(()));
    pair.b.session.finish(first);
    let back = pair.b.take_output(pair.now);
    pair.a.input.extend_from_slice(&back);
    pair.a.run(pair.now);
    let second = pair.a.session.open("second", StreamConfig::default());
    assert!(second.is_ok(), "the first is over for its opener");
    pair.settle();
    assert_eq!(pair.b.session.closed(), None);
    assert_eq!(pair.b.payloads(first), [b"unread"]);
}

#[test]
fn blocks_keep_to_the_histories_that_the_peer_holds() {
    let mut peer = hello(Role::Acceptor, &SessionConfig::default());
    for codec in &mut peer.codecs {
        codec.window_log = 17;
    }
    let text = b"some text that repeats ".repeat(20_000);
    for info in crate::codecs::supported() {
        let arm = Arm {
            codec: info.id,
            level: info.default_level,
        };
        let config = config(PolicyConfig::Fixed(arm)).block_len(250 << 10);
        let mut end = End::new(Role::Connector, config);
        end.session.set_budget(Time::ZERO, None);
        let mut bytes = Vec::new();
        peer.put(&mut bytes);
        end.input.extend_from_slice(&bytes);
        end.run(Time::ZERO);
        let id = end.session.open("s", StreamConfig::default());
        let id = id.expect("an open session");
        let sent = end
            .session
            .send(id, text.clone().into(), RecordKind::Message);
        assert_eq!(sent, Ok(()));
        let mut narrow = CodecWorker::new(17);
        let mut blocks = 0;
        let mut output = BytesMut::from(end.run(Time::ZERO).as_slice());
        let mut receiver = Receiver::new(256 << 10, 16 << 20);
        receiver.begin(true);
        while !output.is_empty() {
            let taken = receiver.take_frame(Time::ZERO, &mut output);
            assert!(matches!(taken, Ok(Taken::Ordered | Taken::Control(_))));
            while let Some(job) = receiver.take_job() {
                assert!(narrow.decode(job).plain_len().is_some(), "{arm}");
                blocks += 1;
            }
        }
        assert!(arm == Arm::IDENTITY || blocks > 1, "{arm}");
    }
}

#[test]
fn a_peer_that_probes_and_does_not_read_costs_no_memory() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let mut probes = Vec::new();
    for id in 0..1000 {
        Control::Probe(Probe { id }).put(&mut probes);
    }
    let mut most = 0;
    for _ in 0..100 {
        let mut input = BytesMut::from(probes.as_slice());
        let result = pair.b.session.handle_input(pair.now, &mut input);
        assert_eq!(result, Ok(()));
        assert!(pair.b.session.poll_encode(pair.now).is_none());
        most = most.max(pair.b.session.output_len());
    }
    assert!(
        most < 100 * 100,
        "{most} bytes wait for a peer that does not read"
    );
}

#[test]
fn what_version_one_does_not_have_is_refused() {
    let refusal = |control: Control| {
        let mut pair = Pair::new(&config(PolicyConfig::None));
        let mut bytes = Vec::new();
        control.put(&mut bytes);
        pair.b.input.extend_from_slice(&bytes);
        pair.b.run(pair.now);
        match pair.b.session.closed() {
            Some(Err(SessionError::Peer(error))) => error.code(),
            other => panic!("{control:?} led to {other:?}"),
        }
    };
    let define = crate::wire::Define {
        slot: crate::wire::Slot::new(9).expect("in range"),
        codec: CodecId::IDENTITY,
        group: GroupId(0),
        carries_context: false,
        dictionary: 0,
    };
    for define in [
        crate::wire::Define {
            group: GroupId(1),
            ..define
        },
        crate::wire::Define {
            carries_context: true,
            ..define
        },
        crate::wire::Define {
            dictionary: 1,
            ..define
        },
        crate::wire::Define {
            codec: CodecId::from_wire(200),
            ..define
        },
    ] {
        assert_eq!(refusal(Control::Define(define)), GoAwayCode::Protocol);
    }
}

#[test]
fn streams_share_the_link_fairly() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let (bulk, small) = (pair.open(), pair.open());
    pair.send(bulk, &vec![1; 10 << 20]);
    for _ in 0..10 {
        pair.send(small, &[2; 100]);
    }
    // One block for what was first in line, one more for both.
    let mut wire = Vec::new();
    for _ in 0..2 {
        assert!(pair.a.session.poll_encode(pair.now).is_none());
        wire.extend(pair.a.take_output(pair.now));
    }
    pair.b.input.extend_from_slice(&wire);
    pair.b.run(pair.now);
    assert_eq!(
        pair.b.payloads(small).len(),
        10,
        "small messages wait for a turn, not for the bulk"
    );
}

#[test]
fn ten_thousand_streams_are_all_served() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let ids: Vec<_> = (0..10_000)
        .map(|_| {
            pair.a
                .session
                .open("s", StreamConfig::default())
                .expect("open")
        })
        .collect();
    pair.settle();
    for id in &ids {
        pair.send(*id, &id.get().to_le_bytes());
    }
    pair.settle();
    for id in &ids {
        assert_eq!(pair.b.payloads(*id), [id.get().to_le_bytes()]);
    }
}

#[test]
fn probes_and_acknowledgements_measure_the_path() {
    let delay = Duration::from_millis(3);
    let mut pair = Pair::apart(&config(PolicyConfig::None));
    pair.exchange(delay);
    let id = pair
        .a
        .session
        .open("test", StreamConfig::default())
        .expect("an open session");
    for _ in 0..20 {
        pair.send(id, &[9; 1000]);
        pair.exchange(delay);
    }
    let stats = pair.a.session.stats();
    assert_eq!(stats.rtt_min, Some(2 * delay));
    assert_eq!(stats.rtt, Some(2 * delay));
    assert!(
        stats.blocks_sent >= 20 && stats.frames_unacked < 5,
        "{stats:?}"
    );
    assert_eq!(stats.absurd_reports, 0);
}

#[test]
fn strangers_and_other_versions_are_refused_with_a_reason() {
    let mut end = End::new(Role::Acceptor, SessionConfig::default());
    end.input.extend_from_slice(b"GET / HTTP/1.1\r\n");
    end.run(Time::ZERO);
    let expected = WireError::WrongMagic {
        given: *b"GET ",
        expected: crate::wire::MAGIC,
    };
    assert_eq!(
        end.session.closed(),
        Some(&Err(SessionError::Peer(expected)))
    );

    let mut end = End::new(Role::Acceptor, SessionConfig::default());
    end.input
        .extend_from_slice(&[0x8e, b'T', b'L', b'N', 9, 5, 0, 0]);
    end.run(Time::ZERO);
    assert!(matches!(
        end.session.closed(),
        Some(Err(SessionError::Peer(WireError::Version {
            peer_min: 5,
            peer_max: 9,
            ..
        })))
    ));
    let before = end.session.handle_input(Time::ZERO, &mut BytesMut::new());
    assert_eq!(
        before,
        end.session.handle_input(Time::ZERO, &mut BytesMut::new()),
        "errors are sticky"
    );
    assert!(before.is_err());
}

#[test]
fn a_silent_peer_is_given_up() {
    let mut end = End::new(
        Role::Connector,
        SessionConfig::default().handshake_timeout(Duration::from_secs(2)),
    );
    assert_eq!(
        end.session.poll_timeout(),
        Some(Time::from_nanos(2_000_000_000))
    );
    end.run(Time::from_nanos(2_000_000_000));
    let limit = Duration::from_secs(2);
    assert_eq!(
        end.session.closed(),
        Some(&Err(SessionError::HandshakeTimeout { limit }))
    );
}

#[test]
fn the_peer_learns_why_it_was_refused() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    pair.send(id, &[3; 5000]);
    pair.settle_through(|mut bytes| {
        if bytes.len() > 4000 {
            bytes[2000] ^= 0x10;
        }
        bytes
    });
    assert!(matches!(
        pair.b.session.closed(),
        Some(Err(SessionError::Peer(WireError::Checksum {
            what: "block",
            ..
        })))
    ));
    assert!(matches!(
        pair.a.session.closed(),
        Some(Err(SessionError::GoneAway { code: GoAwayCode::Integrity, detail })) if detail.contains("checksum")
    ));
}

#[test]
fn damage_anywhere_never_changes_what_is_delivered() {
    let policies = [
        PolicyConfig::None,
        PolicyConfig::Majority(MajorityConfig::default()),
        PolicyConfig::RoundRobin,
    ];
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new(&config(policies[rng.usize(..policies.len())]));
        let id = pair.open();
        let sent: Vec<Vec<u8>> = (0..20)
            .map(|_| b"some text that repeats ".repeat(rng.usize(1..60)))
            .collect();
        for payload in &sent {
            pair.send(id, payload);
        }
        let mut at = rng.usize(..2000);
        let bit = rng.u8(..8);
        pair.settle_through(|mut bytes| {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            at = at
                .saturating_sub(bytes.len())
                .max(usize::from(at < bytes.len()) * usize::MAX);
            bytes
        });
        let delivered = pair.b.payloads(id);
        assert!(delivered.len() <= sent.len(), "seed {seed}");
        assert!(
            delivered.iter().zip(&sent).all(|(got, sent)| got == sent),
            "seed {seed}"
        );
    }
}

#[test]
fn random_bytes_after_the_handshake_never_panic() {
    for seed in 0..2000 {
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new(&config(PolicyConfig::None));
        pair.open();
        let mut noise = vec![0; rng.usize(1..300)];
        rng.fill(&mut noise);
        pair.b.input.extend_from_slice(&noise);
        pair.b.run(pair.now);
    }
}

#[test]
fn without_a_budget_nothing_is_compressed() {
    if crate::codecs::info(CodecId::LZ4).is_none() {
        return;
    }
    let mut pair = Pair::new(&config(PolicyConfig::Fixed(Arm::new(CodecId::LZ4, 0))));
    pair.a.session.set_budget(pair.now, Some(BudgetRate::ZERO));
    pair.now = pair.now + Duration::from_secs(1);
    let id = pair.open();
    for _ in 0..10 {
        pair.send(id, &[0; 1000]);
        pair.pass(Duration::from_millis(1));
    }
    let stats = pair.a.session.stream_stats(id).expect("a stream");
    assert_eq!(stats.arms.len(), 1);
    assert_eq!(stats.arms[0].arm, Arm::IDENTITY);
    assert_eq!(stats.out_of_budget, 10);
}

#[test]
fn same_inputs_make_the_same_bytes() {
    let run = || {
        let mut pair = Pair::new(&config(PolicyConfig::default()).seed(99));
        let id = pair.open();
        let mut wire = Vec::new();
        for round in 0..200_u32 {
            pair.send(id, &round.to_le_bytes().repeat(40));
            pair.now = pair.now + Duration::from_micros(50);
            wire.extend(pair.settle());
        }
        wire
    };
    assert!(run() == run());
}

#[test]
fn a_peer_that_asks_and_never_reads_costs_little_memory() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    let mut probes = Vec::new();
    for id in 0..100 {
        Control::Probe(Probe { id }).put(&mut probes);
    }
    let before = pair.b.session.output_len();
    for round in 0..5000_u32 {
        pair.b.input.extend_from_slice(&probes);
        // Blocks want acknowledgements, too.
        pair.a
            .session
            .send(id, Bytes::from_static(b"x"), RecordKind::Message)
            .expect("room");
        pair.now = pair.now + Duration::from_millis(20);
        assert!(pair.a.session.poll_encode(pair.now).is_none());
        let block = pair.a.take_output(pair.now);
        pair.b.input.extend_from_slice(&block);
        let now = pair.now;
        let _ = pair.b.session.handle_input(now, &mut pair.b.input);
        assert!(pair.b.session.poll_encode(now).is_none());
        assert!(
            pair.b.session.poll_timeout().is_none_or(|due| due >= now),
            "a time that has passed is waited for, in round {round}"
        );
        let len = pair.b.session.output_len() - before;
        assert!(len < 300 << 10, "{len} bytes wait in round {round}");
    }
}

#[test]
fn what_came_before_the_connection_was_lost_is_delivered() {
    let mut pair = Pair::new(&config(PolicyConfig::Fixed(Arm::new(CodecId::LZ4, 0))));
    let id = pair.open();
    pair.send(id, &[7; 5000]);
    pair.a.session.close();
    let bytes = pair.a.run(pair.now);
    let mut input = BytesMut::from(bytes.as_slice());
    let b = &mut pair.b;
    b.session.handle_input(pair.now, &mut input).expect("valid");
    b.session.handle_eof();
    // The block is still with a worker, and the go-away behind it.
    while let Some(job) = b.session.poll_decode() {
        assert_eq!(b.session.closed(), None);
        let block = b.worker.decode(job);
        b.session
            .handle_decoded(block, Duration::ZERO)
            .expect("valid");
    }
    b.run(pair.now);
    assert_eq!(b.payloads(id), [[7; 5000]]);
    assert_eq!(b.session.closed(), Some(&Ok(())));
}

#[test]
fn a_stream_may_be_fixed_to_an_arm_that_others_do_not_choose_from() {
    let fixed = Arm::new(CodecId::ZSTD, 12);
    if crate::codecs::info(fixed.codec).is_none() {
        return;
    }
    let mut pair = Pair::new(&config(PolicyConfig::RoundRobin));
    let own = StreamConfig::default().policy(PolicyConfig::Fixed(fixed));
    let own = pair.a.session.open("own", own).expect("an open session");
    let other = pair.open();
    for _ in 0..50 {
        for id in [own, other] {
            pair.send(id, &[1; 500]);
            pair.settle();
        }
    }
    let arms = |id| {
        let stats = pair.a.session.stream_stats(id).expect("a stream");
        stats.arms.iter().map(|arm| arm.arm).collect::<Vec<_>>()
    };
    assert_eq!(arms(own), [fixed]);
    assert!(!arms(other).contains(&fixed));
}

#[test]
fn empty_messages_fill_a_queue_too() {
    let mut pair = Pair::new(&SessionConfig::default().send_queue(1000));
    let id = pair.open();
    let sent = (0..1000)
        .take_while(|_| {
            pair.a
                .session
                .send(id, Bytes::new(), RecordKind::Message)
                .is_ok()
        })
        .count();
    assert_eq!(sent, 1000 / 32);
    pair.settle();
    assert_eq!(pair.b.payloads(id).len(), sent);
}

#[test]
fn turns_are_counted_in_bytes() {
    let mut pair = Pair::new(&config(PolicyConfig::None).window(64 << 20));
    let (large, small) = (pair.open(), pair.open());
    for _ in 0..100 {
        pair.send(large, &vec![1; 60_000]);
    }
    for _ in 0..6000 {
        pair.send(small, &[2; 1000]);
    }
    let mut wire = Vec::new();
    while wire.len() < 3 << 20 {
        assert!(pair.a.session.poll_encode(pair.now).is_none());
        wire.extend(pair.a.take_output(pair.now));
    }
    pair.b.releases = true;
    pair.b.input.extend_from_slice(&wire);
    pair.b.run(pair.now);
    let bytes = |id| {
        pair.b
            .payloads(id)
            .iter()
            .map(|payload| payload.len())
            .sum::<usize>() as f64
    };
    let share = bytes(large) / bytes(small);
    assert!((0.8..1.25).contains(&share), "{share}");
}

#[test]
fn without_a_budget_streams_still_share_blocks_and_know_why() {
    if crate::codecs::info(CodecId::LZ4).is_none() {
        return;
    }
    let mut pair = Pair::new(&config(PolicyConfig::Fixed(Arm::new(CodecId::LZ4, 0))));
    let ids: Vec<_> = (0..50).map(|_| pair.open()).collect();
    pair.a.session.set_budget(pair.now, Some(BudgetRate::ZERO));
    pair.now = pair.now + Duration::from_secs(1);
    let before = pair.a.session.stats().blocks_sent;
    for _ in 0..3 {
        for id in &ids {
            pair.send(*id, &[0; 100]);
        }
    }
    pair.settle();
    assert_eq!(pair.a.session.stats().blocks_sent - before, 1);
    for id in ids {
        let stats = pair.a.session.stream_stats(id).expect("a stream");
        assert_eq!(stats.latest, Some((Arm::IDENTITY, Reason::Budget)));
        assert_eq!(
            (stats.arms[0].blocks, stats.arms[0].messages),
            (1, 3),
            "{id}"
        );
    }
}

#[test]
fn small_messages_of_an_unread_stream_do_not_hold_the_blocks_of_others() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let (unread, read) = (pair.open(), pair.open());
    let plain_len = 60_000;
    pair.send(unread, b"x");
    pair.send(read, &vec![3; plain_len]);
    pair.settle();
    let block = pair.b.payloads(read)[0].as_ptr() as usize;
    let small = pair.b.payloads(unread)[0].as_ptr() as usize;
    let within = block.saturating_sub(100)..block + plain_len;
    assert!(!within.contains(&small), "it has memory of its own");
}

#[test]
fn a_peer_that_opens_and_closes_and_never_reads_is_given_up() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let mut refused = false;
    for number in 0..2_000_000_u32 {
        let stream = StreamId::new(number * 2).expect("in range");
        let mut bytes = BytesMut::new();
        let mut frames = Vec::new();
        let open = Open {
            stream,
            group: GroupId(0),
            window: 0,
            name: String::new(),
        };
        Control::Open(open).put(&mut frames);
        Control::Close(Close {
            stream,
            code: CloseCode::Finished,
        })
        .put(&mut frames);
        bytes.extend_from_slice(&frames);
        if pair.b.session.handle_input(pair.now, &mut bytes).is_err() {
            refused = true;
            break;
        }
        pair.b.session.finish(stream);
        while pair.b.session.poll_event().is_some() {}
    }
    assert!(refused, "{} bytes wait", pair.b.session.output_len());
    assert!(pair.b.session.output_len() < 9 << 20);
}
