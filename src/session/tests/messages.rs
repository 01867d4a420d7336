//! What is sent arrives, in blocks, in order, in turn.

use super::*;
use crate::control::BudgetRate;
use crate::wire::MESSAGE_CHARGE;

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

/// Each codec of this build but identity, at its usual level.
fn codecs() -> impl Iterator<Item = Arm> {
    let all = crate::codecs::supported().iter();
    let all = all.map(|info| Arm::new(info.id, info.default_level.0));
    all.filter(|arm| *arm != Arm::IDENTITY)
}

#[test]
fn compressible_blocks_get_small_and_incompressible_ones_do_not_grow() {
    for arm in codecs() {
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
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits().window(64 << 10)));
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
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits().window(16 << 10)));
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
fn turns_are_counted_in_bytes() {
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits().window(64 << 20)));
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
fn a_small_message_in_the_slot_of_the_one_before_costs_four_bytes() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    let mut blocks = Vec::new();
    for payload in [&b"hello"[..], b"world", &[7; 31], &[7; 32], b"again"] {
        pair.send(id, payload);
        let bytes = pair.settle();
        let mut rest = bytes.as_slice();
        while let Some(frame) = parse_frame(rest, 1 << 20, true).expect("a frame") {
            let len = match frame {
                Frame::Block { header, body_at } => {
                    let len = body_at + header.body_len;
                    blocks.push(len - payload.len());
                    len
                }
                Frame::Control { len, .. } => len,
            };
            rest = &rest[len..];
        }
    }
    // The first one names its slot and its stream; 32 bytes and a record's head are too long.
    assert_eq!(blocks, [6, 4, 4, 5, 4]);
    assert_eq!(pair.b.payloads(id).len(), 5);
}

fn part(part: Part, payload: &'static str) -> Outgoing {
    Outgoing {
        payload: payload.into(),
        kind: RecordKind::Part(part),
        sensitive: false,
    }
}

#[test]
fn between_the_parts_of_a_message_come_replies_only() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    let send = |pair: &mut Pair, message: Outgoing| {
        let Outgoing { payload, kind, .. } = message;
        pair.a.session.send(id, payload, kind)
    };
    let request = RecordKind::Request { correlation: 1 };
    let reply = RecordKind::Reply { correlation: 2 };
    for last in [Part::Last, Part::GivenUp] {
        assert_eq!(send(&mut pair, part(Part::More, "a")), Ok(()));
        for kind in [RecordKind::Message, request] {
            let refused = pair.a.session.send(id, "no".into(), kind);
            assert_eq!(refused, Err(SendError::InParts(id)));
        }
        assert_eq!(pair.a.session.send(id, "r".into(), reply), Ok(()));
        let refused = pair.a.session.send(id, "no".into(), request);
        assert_eq!(refused, Err(SendError::InParts(id)));
        assert_eq!(send(&mut pair, part(last, "")), Ok(()));
        assert_eq!(pair.a.session.send(id, "m".into(), request), Ok(()));
    }
    pair.settle();
    let kinds = |last| {
        [
            RecordKind::Part(Part::More),
            reply,
            RecordKind::Part(last),
            request,
        ]
    };
    let expected = [kinds(Part::Last), kinds(Part::GivenUp)].concat();
    let received: Vec<_> = pair.b.received[&id].iter().map(|it| it.kind).collect();
    assert_eq!(received, expected);
}

#[test]
fn finishing_inside_a_message_gives_it_up() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    let mut parts: OutgoingQueue = [part(Part::More, "a"), part(Part::More, "b")]
        .into_iter()
        .collect();
    assert_eq!(pair.a.session.send_all(id, &mut parts), Ok(2));
    pair.a.session.finish(id);
    pair.settle();
    let received: Vec<_> = pair.b.received[&id].iter().map(|it| it.kind).collect();
    let more = RecordKind::Part(Part::More);
    assert_eq!(received, [more, more, RecordKind::Part(Part::GivenUp)]);
    let drained = pair.a.events.iter().map(|event| match event {
        Event::Drained { bytes, .. } => *bytes,
        _ => 0,
    });
    let queued = 2 * (1 + MESSAGE_CHARGE as usize);
    assert_eq!(
        drained.sum::<usize>(),
        queued,
        "what nobody reserved is not given back"
    );
}

#[test]
fn streams_of_a_higher_priority_do_not_wait_behind_others() {
    const LEN: usize = 60_000;
    // What is sent on the urgent stream comes before so many of the others' messages.
    let passed = |priority: i8, is_late: bool| {
        let mut pair = Pair::new(&config(PolicyConfig::None));
        let others: Vec<_> = (0..30).map(|_| pair.open()).collect();
        let urgent = if is_late {
            let urgent = pair.open();
            pair.a.session.set_priority(urgent, priority);
            urgent
        } else {
            let config = StreamConfig::default().priority(priority);
            pair.a.session.open("urgent", config).expect("open")
        };
        pair.settle();
        for id in &others {
            pair.send(*id, &vec![1; LEN]);
        }
        // Others are on their way when it comes.
        let before = pair.a.run(pair.now);
        pair.b.input.extend_from_slice(&before);
        pair.send(urgent, b"urgent");
        let count = |pair: &Pair, id: &StreamId| pair.b.received.get(id).map_or(0, Vec::len);
        while count(&pair, &urgent) == 0 {
            pair.b.run(pair.now);
            let more = pair.a.run(pair.now);
            assert!(!more.is_empty(), "it comes");
            // A packet at a time, so that it shows what comes first.
            for packet in more.chunks(1000) {
                pair.b.input.extend_from_slice(packet);
                pair.b.run(pair.now);
                if count(&pair, &urgent) > 0 {
                    break;
                }
            }
        }
        others.iter().map(|id| count(&pair, id)).sum::<usize>()
    };
    assert_eq!(passed(0, false), 30, "by turns it comes last");
    for is_late in [false, true] {
        let before = passed(1, is_late);
        assert!(before < 15, "{before} came before it");
        assert_eq!(passed(-1, is_late), 30);
    }
}

/// What A has sent is at B after a while, and what B answers at A; the acknowledgements among that.
fn acks_after(pair: &mut Pair, within: Duration) -> usize {
    let there = pair.a.run(pair.now);
    pair.now = pair.now + within;
    pair.b.input.extend_from_slice(&there);
    let back = pair.b.run(pair.now);
    pair.a.input.extend_from_slice(&back);
    let (mut bytes, mut acks) = (back.as_slice(), 0);
    while let Ok(Some(frame)) = parse_frame(bytes, 256 << 10, true) {
        let len = match frame {
            Frame::Block { header, body_at } => body_at + header.body_len,
            Frame::Control { len, control } => {
                acks += usize::from(matches!(control, Some(Control::Ack(_))));
                len
            }
        };
        bytes = &bytes[len..];
    }
    acks
}

#[cfg(feature = "zstd")]
#[test]
fn blocks_that_compress_well_are_acknowledged_by_their_plain_bytes() {
    let mut pair = Pair::new(&config(PolicyConfig::Fixed(Arm::new(CodecId::ZSTD, 1))));
    let id = pair.open();
    for _ in 0..20 {
        pair.send(id, b"one of the first");
        pair.pass(Duration::from_millis(20));
    }
    // Some 300 bytes of each message cannot be compressed.
    let mut random = Rng::with_seed(1);
    let mut pass = |noise: usize| {
        let mut sent = 0;
        for _ in 0..40 {
            let mut message = vec![7; 32 << 10];
            random.fill(&mut message[..noise]);
            pair.send(id, &message);
            sent += acks_after(&mut pair, Duration::from_micros(50));
        }
        sent
    };
    // 40 times 32 KiB within 2 ms: by frames there would be one.
    assert_eq!(pass(300), 5);
    // Of blocks that are no longer than an acknowledgement there need not be more.
    assert!(pass(0) <= 2);
}

#[test]
fn acknowledgements_for_the_sake_of_bytes_keep_apart() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    // Beyond the first ones, which are acknowledged at once.
    for _ in 0..20 {
        pair.send(id, b"one of the first");
        pair.pass(Duration::from_millis(20));
    }
    let mut sent = 0;
    // 128 KiB every 20 us.
    for _ in 0..100 {
        pair.send(id, &vec![7; 128 << 10]);
        sent += acks_after(&mut pair, Duration::from_micros(20));
    }
    assert!((9..=11).contains(&sent), "{sent} in 2 ms");
    // The last one is not forgotten.
    pair.pass(Duration::from_micros(200));
    assert_eq!(pair.a.session.stats().frames_unacked, 0);
}

#[test]
fn blocks_without_history_are_decoded_side_by_side_and_delivered_in_order() {
    for arm in codecs() {
        let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)));
        let id = pair.open();
        let sent: Vec<_> = (0..4_u8).map(|number| vec![number; 10_000]).collect();
        let mut input = BytesMut::new();
        for payload in &sent {
            pair.send(id, payload);
            input.extend_from_slice(&pair.a.run(pair.now));
        }
        let b = &mut pair.b;
        b.session.handle_input(pair.now, &mut input).expect("valid");
        let mut jobs: Vec<_> = core::iter::from_fn(|| b.session.poll_decode()).collect();
        assert_eq!(jobs.len(), 4, "{arm}: out at once");
        while let Some(job) = jobs.pop() {
            assert_eq!(b.session.recv(id), None, "{arm}: out of turn");
            let block = b.worker.decode(job);
            let decoded = b.session.handle_decoded(block, Duration::from_micros(5));
            decoded.expect("valid");
        }
        let mut received = MessageQueue::new();
        let waiting = b.session.messages_waiting(id).expect("all of them");
        let run = (waiting.first, waiting.count, waiting.bytes);
        assert_eq!(run, (0, 4, 40_000), "{arm}");
        b.session.recv_all(id, &mut received);
        assert_eq!(b.session.messages_waiting(id), None, "{arm}");
        let received: Vec<_> = received.map(|it| it.payload).collect();
        assert_eq!(received, sent, "{arm}");
    }
}
