//! Limits, refusals and peers that mean no good.

use super::super::receiver::Taken;
use super::*;
use crate::wire::{Probe, WireError};

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
    let mut pair = Pair::new(
        &SessionConfig::default().limits(Limits::default().max_message(100).max_streams(2)),
    );
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
    let mut pair = Pair::new(&SessionConfig::default().limits(Limits::default().max_streams(3)));
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
    let mut pair = Pair::new(&SessionConfig::default().limits(Limits::default().max_streams(1)));
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
    let mut peer = hello(Role::Acceptor, &SessionConfig::default(), 1 << 20);
    for codec in &mut peer.codecs {
        codec.window_log = 17;
    }
    let text = b"some text that repeats ".repeat(20_000);
    for info in crate::codecs::supported() {
        let arm = Arm::new(info.id, info.default_level.0);
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
        let mut receiver = Receiver::new(Limits::default());
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
        Control::Probe(Probe { id, padding: 0 }).put(&mut probes);
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
        history: None,
        dictionary: 0,
    };
    for define in [
        crate::wire::Define {
            group: GroupId(1),
            ..define
        },
        crate::wire::Define {
            history: Some(17),
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
        SessionConfig::default().limits(Limits::default().handshake_time(Duration::from_secs(2))),
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
fn a_peer_that_asks_and_never_reads_costs_little_memory() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    let mut probes = Vec::new();
    for id in 0..100 {
        Control::Probe(Probe { id, padding: 0 }).put(&mut probes);
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
fn small_messages_of_an_unread_stream_do_not_hold_the_blocks_of_others() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let (unread, read) = (pair.open(), pair.open());
    pair.send(unread, b"x");
    pair.send(read, &vec![3; 60_000]);
    pair.settle();
    let small = &pair.b.received[&unread][0].payload;
    assert!(small.is_unique(), "it has memory of its own");
}

#[test]
fn a_peer_that_opens_and_closes_and_never_reads_is_given_up() {
    let fast = limits().streams_per_second(u32::MAX);
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(fast));
    let mut refused = false;
    for number in 0..2_000_000_u32 {
        let stream = StreamId::new(number * 2).expect("in range");
        let mut bytes = opened_and_closed(stream);
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
