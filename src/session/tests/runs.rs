//! Runs of small messages, which are taken and delivered many at once, and whatever cuts them.

use super::*;
use crate::session::{Outgoing, OutgoingQueue};

fn outgoing(payload: impl Into<Bytes>) -> Outgoing {
    Outgoing::new(payload.into())
}

/// Mostly short messages without a kind of their own.
fn random_message(rng: &mut Rng, number: u64) -> Outgoing {
    let len = match rng.u8(..50) {
        0 => rng.usize(1000..6000),
        1..=5 => 0,
        6..=9 => rng.usize(200..1100),
        _ => rng.usize(1..120),
    };
    let kind = match rng.u8(..40) {
        0 => RecordKind::Request {
            correlation: number,
        },
        1 => RecordKind::Reply {
            correlation: number,
        },
        2 => RecordKind::Part(Part::Last),
        _ => RecordKind::Message,
    };
    Outgoing {
        payload: (0..len).map(|_| rng.u8(..16)).collect::<Vec<u8>>().into(),
        kind,
        sensitive: rng.u8(..30) == 0,
    }
}

/// Whatever stands among them, and wherever a window, the connection's credit, a block or a turn ends: all arrive, in
/// order, and both ends count the same.
#[test]
fn runs_arrive_as_they_were_sent_wherever_they_are_cut() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let policies = policies();
        let policy = policies[rng.usize(..policies.len())];
        let limits = Limits::default()
            .max_message(8000)
            .window(rng.usize(4096..40_000) as u64)
            .connection_memory(rng.usize(70_000..300_000));
        let config = config(policy)
            .limits(limits)
            .block_len(rng.usize(4096..70_000));
        let mut pair = Pair::new(&config);
        let ids: Vec<_> = (0..rng.usize(1..4)).map(|_| pair.open()).collect();
        let mut sent: HashMap<StreamId, Vec<Outgoing>> = HashMap::new();
        let mut number = 0;
        for _ in 0..12 {
            for _ in 0..rng.usize(1..4) {
                let id = ids[rng.usize(..ids.len())];
                let count = rng.usize(1..400);
                let new: Vec<_> = (0..count)
                    .map(|_| {
                        number += 1;
                        random_message(&mut rng, number)
                    })
                    .collect();
                let mut messages: OutgoingQueue = new.iter().cloned().collect();
                sent.entry(id).or_default().extend(new);
                assert_eq!(pair.a.session.send_all(id, &mut messages), Ok(count));
                assert!(messages.is_empty(), "there is room for all");
            }
            pair.pass(Duration::from_millis(1));
        }
        for _ in 0..200 {
            pair.pass(Duration::from_millis(5));
        }
        for (id, sent) in &sent {
            let received = &pair.b.received[id];
            assert_eq!(received.len(), sent.len(), "seed {seed}");
            for (received, sent) in received.iter().zip(sent) {
                assert_eq!(
                    (&received.payload, received.kind),
                    (&sent.payload, sent.kind)
                );
            }
            let payload: usize = sent.iter().map(|it| it.payload.len()).sum();
            let there = pair.a.session.stream_stats(*id).expect("open");
            let here = pair.b.session.stream_stats(*id).expect("open");
            let counts = (sent.len() as u64, payload as u64);
            assert_eq!((there.messages_sent, there.payload_sent), counts);
            assert_eq!((here.messages_received, here.payload_received), counts);
            let drained = pair.a.events.iter().map(|event| match event {
                Event::Drained { stream, bytes } if stream == id => *bytes,
                _ => 0,
            });
            let queued: usize = sent.iter().map(Outgoing::queued_len).sum();
            assert_eq!(drained.sum::<usize>(), queued, "all the room is given back");
        }
    }
}

#[test]
fn messages_without_room_stay_with_who_sends_them() {
    let mut pair = Pair::new(&SessionConfig::default().send_queue(1000));
    let id = pair.open();
    let mut messages: OutgoingQueue = (0..50_u8).map(|at| outgoing(vec![at; 68])).collect();
    assert_eq!(pair.a.session.send_all(id, &mut messages), Ok(10));
    assert_eq!(messages.len(), 40);
    assert_eq!(pair.a.session.send_all(id, &mut messages), Ok(0));
    pair.settle();
    assert_eq!(pair.a.session.send_all(id, &mut messages), Ok(10));
    pair.settle();
    let firsts = pair.b.payloads(id).into_iter().map(|payload| payload[0]);
    assert!(firsts.eq(0..20), "in order");
    // An empty queue takes any message, but only one of such.
    let mut long: OutgoingQueue = [outgoing(vec![1; 5000]), outgoing("x")]
        .into_iter()
        .collect();
    assert_eq!(pair.a.session.send_all(id, &mut long), Ok(1));
    assert_eq!((long.pop_front(), long.len()), (Some(outgoing("x")), 0));
}

#[test]
fn a_message_that_is_too_long_is_where_it_ends() {
    let limits = Limits::default().max_message(100);
    let mut pair = Pair::new(&SessionConfig::default().limits(limits));
    let id = pair.open();
    let mut messages: OutgoingQueue = [1, 100, 101, 1]
        .map(|len| outgoing(vec![0; len]))
        .into_iter()
        .collect();
    let too_long = SendError::TooLong {
        given: 101,
        max: 100,
    };
    assert_eq!(
        pair.a.session.send_all(id, &mut messages),
        Err(too_long.clone())
    );
    assert_eq!(messages.len(), 2);
    assert_eq!(pair.a.session.send_all(id, &mut messages), Err(too_long));
    pair.settle();
    assert_eq!(pair.b.payloads(id).len(), 2);
    pair.a.session.finish(id);
    let closed = Err(SendError::Closed(id));
    assert_eq!(pair.a.session.send_all(id, &mut messages), closed);
    assert_eq!(messages.len(), 2);
}

/// Messages of 190 bytes: all the same, or such that compress as most do.
fn same(_: usize) -> Outgoing {
    outgoing(vec![7; 190])
}

fn record(number: usize) -> Outgoing {
    let id = Rng::with_seed(number as u64).u64(..);
    let text = format!("{{\"id\":\"{id:020}\",\"text\":\"{id:040x} {number:0110}\"}}");
    outgoing(text.into_bytes())
}

/// Sends so many of them, all at once, and says what the blocks before the last have of them in the mean, bytes.
fn mean_block(pair: &mut Pair, id: StreamId, messages: usize, of: fn(usize) -> Outgoing) -> f64 {
    let before = pair.a.session.stats().blocks_sent;
    let mut queue: OutgoingQueue = (0..messages).map(of).collect();
    assert_eq!(pair.a.session.send_all(id, &mut queue), Ok(messages));
    pair.settle();
    let blocks = pair.a.session.stats().blocks_sent - before;
    messages as f64 * 193.0 / blocks as f64
}

#[test]
fn a_block_ends_with_records_that_stand_together_where_it_is_nearly_full() {
    let config = config(PolicyConfig::None).send_queue(64 << 20);
    let mut pair = Pair::new(&config.limits(Limits::default().window(32 << 20)));
    let id = pair.open();
    let mean = mean_block(&mut pair, id, 20_000, same) / f64::from(64 << 10);
    assert!((0.93..=1.0).contains(&mean), "{mean} of its length");
}

/// .. as far as it is known how long that takes, and the link is as fast.
#[cfg(feature = "zstd")]
#[test]
fn blocks_of_one_arm_with_history_are_cut_to_be_encoded_where_they_are_driven() {
    let policy = |text: &str| text.parse::<PolicyConfig>().expect("a policy");
    let mean_of = |text, micros, link: Option<f64>| {
        let config = config(policy(text)).send_queue(64 << 20);
        let mut pair = Pair::new(&config.limits(Limits::default().window(32 << 20)));
        if let Some(rate) = link {
            pair.a.session.path.known.link.record_delivery(
                rate as u64,
                Duration::from_secs(1),
                crate::control::Fed::Backlogged,
            );
        }
        pair.a.encode_time = Duration::from_micros(micros);
        let id = pair.open();
        for _ in 0..20 {
            mean_block(&mut pair, id, 2000, same);
        }
        mean_block(&mut pair, id, 20_000, same) / f64::from(64 << 10)
    };
    let is_whole = |mean: f64| (0.93..=1.0).contains(&mean);
    let history = "zstd:-1+history";
    let whole = mean_of(history, 60, None);
    assert!(is_whole(whole), "{whole}: it takes no longer");
    let cut = mean_of(history, 140, None);
    assert!((0.45..0.93).contains(&cut), "{cut}");
    let far = mean_of(history, 900, None);
    assert!(is_whole(far), "{far}: it would take many cuts");
    let on_slow_link = mean_of(history, 140, Some(1e4));
    assert!(
        is_whole(on_slow_link),
        "{on_slow_link}: the link takes longer"
    );
    let alone = mean_of("zstd:-1", 140, None);
    assert!(is_whole(alone), "{alone}: each stands by itself");
}

/// .. without a history too, where it is known that to hand blocks to a worker takes longer than one block more.
#[cfg(feature = "zstd")]
#[test]
fn blocks_of_a_policy_that_chooses_are_cut_where_a_worker_would_have_them_for_longer() {
    let mean_of = |handover: u64| {
        let arms = vec!["zstd:-1".parse().expect("an arm")];
        let config = config(PolicyConfig::default())
            .arms(arms)
            .send_queue(64 << 20);
        let mut pair = Pair::new(&config.limits(Limits::default().window(32 << 20)));
        pair.a.encode_time = Duration::from_micros(140);
        let id = pair.open();
        for _ in 0..20 {
            mean_block(&mut pair, id, 2000, record);
        }
        // So far there was no worker.
        let back = Time::ZERO + Duration::from_micros(handover);
        for _ in 0..50 {
            let overhead = &mut pair.a.session.path.known.codecs.overhead;
            overhead.on_returned(back, Time::ZERO, Duration::ZERO, true);
        }
        mean_block(&mut pair, id, 20_000, record) / f64::from(64 << 10)
    };
    let cut = mean_of(100);
    assert!((0.45..0.93).contains(&cut), "{cut}");
    let whole = mean_of(5);
    assert!((0.93..=1.0).contains(&whole), "{whole}");
}
