//! History from block to block.

use super::super::receiver::Receiver;
use super::super::recent::RECENT_MEMORY;
use super::*;
use crate::codecs::supports_context;
use crate::generate::{Content, Generator};
use crate::wire::{MAX_PRIME, Slot};

fn arms() -> Vec<Arm> {
    crate::codecs::supported()
        .iter()
        .filter(|info| supports_context(info.id))
        .map(|info| Arm::new(info.id, info.default_level.0).with_history())
        .collect()
}

fn telecom(count: usize) -> Vec<Vec<u8>> {
    let generator = Generator::new(Content::Telecom, 5);
    generator
        .take(count)
        .map(|message| message.to_vec())
        .collect()
}

/// Sends messages one by one; the bytes that it took.
fn one_by_one(pair: &mut Pair, id: StreamId, messages: &[Vec<u8>]) -> usize {
    let mut wire = 0;
    for message in messages {
        pair.send(id, message);
        wire += pair.settle().len();
    }
    wire
}

#[test]
fn small_messages_get_small_once_others_have_gone_before() {
    let messages = telecom(1000);
    let plain: usize = messages.iter().map(Vec::len).sum();
    for arm in arms() {
        let wire = |arm| {
            let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)));
            let id = pair.open();
            let wire = one_by_one(&mut pair, id, &messages);
            assert_eq!(pair.b.payloads(id), messages, "{arm}");
            let stats = pair.a.session.stats();
            let held = pair.b.session.stats().history_received;
            assert_eq!(stats.history_sent > 0, arm.history, "{arm}");
            assert_eq!(held > 0, arm.history, "{arm}");
            wire
        };
        let (with, alone) = (wire(arm), wire(arm.alone()));
        println!("{arm}: {plain} bytes became {with}, {alone} without history");
        assert!(2 * with < alone, "{arm}: {with} of {alone}");
    }
}

#[test]
fn any_mixture_of_arms_delivers_what_was_sent() {
    let mut rng = Rng::with_seed(8);
    let mut all = arms();
    all.extend([Arm::IDENTITY, Arm::new(CodecId::ZSTD, 1).with_history()]);
    all.extend(arms().into_iter().map(Arm::alone));
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    let mut sent = Vec::new();
    for _ in 0..600 {
        let arm = all[rng.usize(..all.len())];
        pair.a.session.set_policy(id, PolicyConfig::Fixed(arm));
        for _ in 0..rng.usize(1..4) {
            let payload = random_payload(&mut rng);
            pair.send(id, &payload);
            sent.push(payload);
        }
        if rng.bool() {
            pair.settle();
        }
    }
    pair.settle();
    assert_eq!(pair.b.payloads(id), sent);
}

#[test]
fn contexts_keep_to_the_memory_of_the_tighter_side() {
    let messages = telecom(200);
    for (here, there) in [(0, 8 << 20), (8 << 20, 0), (8 << 20, 1000), (1000, 8 << 20)] {
        for arm in arms() {
            let policy = PolicyConfig::Fixed(arm);
            let mut pair = Pair {
                a: End::new(Role::Connector, config(policy).history_memory(here)),
                b: End::new(Role::Acceptor, config(policy).history_memory(there)),
                now: Time::ZERO,
            };
            pair.a.session.set_budget(Time::ZERO, None);
            pair.settle();
            let id = pair.open();
            one_by_one(&mut pair, id, &messages);
            assert_eq!(pair.b.payloads(id), messages, "{arm}, {here} and {there}");
            let held = pair.a.session.stats().history_sent as usize;
            assert!(held <= here.max(1), "{arm}: {held} of {here}");
        }
    }
    // Two do not fit, so they take turns.
    let (large, small) = (arms()[0], *arms().last().expect("some"));
    let room = [large, small]
        .map(|arm| crate::codecs::context_memory_estimate(arm, 15).0)
        .into_iter()
        .max()
        .expect("two");
    let room = room + RECENT_MEMORY + MAX_PRIME;
    let mut pair = Pair::new(
        &config(PolicyConfig::None)
            .history_memory(room)
            .history_log(15),
    );
    let id = pair.open();
    for (number, message) in messages.iter().enumerate() {
        let arm = if number / 5 % 2 == 0 { large } else { small };
        pair.a.session.set_policy(id, PolicyConfig::Fixed(arm));
        pair.send(id, message);
        pair.settle();
    }
    assert_eq!(pair.b.payloads(id), messages);
    assert!(pair.a.session.stats().history_sent > 0);
}

#[test]
fn a_large_context_takes_the_room_of_several_small_ones_at_both_ends() {
    let large = Arm::new(CodecId::ZSTD, 1).with_history();
    let small = [1, 6, 9].map(|level| Arm::new(CodecId::DEFLATE, level).with_history());
    if !supports_context(CodecId::DEFLATE) {
        return;
    }
    let there = |arm| crate::codecs::context_memory_estimate(arm, 15).1;
    // At the peer, the large one fits only without any of the small ones.
    let room = there(large) + there(small[0]) / 2 + RECENT_MEMORY + (59 << 10);
    let config_b = config(PolicyConfig::None).history_memory(room);
    let mut pair = Pair {
        a: End::new(Role::Connector, config(PolicyConfig::None).history_log(15)),
        b: End::new(Role::Acceptor, config_b),
        now: Time::ZERO,
    };
    pair.a.session.set_budget(Time::ZERO, None);
    pair.settle();
    let id = pair.open();
    let messages = telecom(400);
    for (number, message) in messages.iter().enumerate() {
        let arm = match number / 5 % 4 {
            3 => large,
            turn => small[turn],
        };
        pair.a.session.set_policy(id, PolicyConfig::Fixed(arm));
        pair.send(id, message);
        pair.settle();
    }
    assert_eq!(pair.b.session.closed(), None);
    assert_eq!(pair.b.payloads(id), messages);
}

#[test]
fn a_block_that_is_lost_repeated_or_changed_ends_the_session() {
    let messages = telecom(60);
    for arm in arms() {
        for tampering in 0..4 {
            let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)));
            let id = pair.open();
            one_by_one(&mut pair, id, &messages[..50]);
            pair.send(id, &messages[50]);
            let bytes = pair.a.run(pair.now);
            let tampered = match tampering {
                0 => Vec::new(),
                1 => [bytes.as_slice(), &bytes].concat(),
                2 => {
                    let mut bytes = bytes.clone();
                    let last = bytes.len() - 1;
                    bytes[last] ^= 0x10;
                    bytes
                }
                _ => bytes.clone(),
            };
            pair.b.input.extend_from_slice(&tampered);
            pair.send(id, &messages[51]);
            pair.settle();
            let closed = pair.b.session.closed().is_some();
            assert_eq!(closed, tampering != 3, "{arm}, {tampering}");
            let got = pair.b.payloads(id);
            assert_eq!(got, messages[..got.len()], "{arm}, {tampering}");
        }
    }
}

/// Messages go in a block each, of one context, and the last two blocks come in the other order: the end that has got
/// them.
fn swapped(arm: Arm, messages: &[Vec<u8>], checksums: bool) -> (End, StreamId) {
    let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)).checksums(checksums));
    let id = pair.open();
    let (before, last) = messages.split_at(messages.len() - 2);
    one_by_one(&mut pair, id, before);
    let mut blocks = Vec::new();
    for message in last {
        pair.send(id, message);
        blocks.push(pair.a.run(pair.now));
    }
    assert!(blocks.iter().all(|block| !block.is_empty()), "{arm}");
    for block in blocks.iter().rev() {
        pair.b.input.extend_from_slice(block);
    }
    pair.settle();
    (pair.b, id)
}

#[test]
fn two_blocks_that_are_swapped_end_the_session() {
    let messages = telecom(100);
    for arm in arms() {
        for count in 3..=messages.len() {
            let (messages, before) = (&messages[..count], count - 2);
            let (b, id) = swapped(arm, messages, true);
            let Some(Err(SessionError::Peer(error))) = b.session.closed() else {
                panic!("{arm}: block {before} and the next one swapped, and nobody minds");
            };
            let found = matches!(
                error,
                WireError::Checksum { .. } | WireError::Undecodable { .. }
            );
            assert!(found, "{arm}: {error}");
            assert_eq!(b.payloads(id), messages[..before], "{arm}, {before}");

            // Without checks nobody promises to notice, but what came before is what was sent.
            let (b, id) = swapped(arm, messages, false);
            let got = b.payloads(id);
            assert!(got.len() <= count, "{arm}, {before}");
            assert_eq!(got[..before], messages[..before], "{arm}, {before}");
        }
    }
}

#[test]
fn epochs_come_one_after_another() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let slot = Slot::new(9).expect("in range");
    let arm = arms()[0];
    let receiver = &mut pair.b.session.receiver;
    let mut header = |epoch| receiver.history.on_header(slot, epoch);
    assert!(header(Some(1)).is_err(), "a slot without history");
    assert!(matches!(header(None), Ok(None)));
    let define = |receiver: &mut Receiver, log| {
        receiver
            .history
            .define(slot, arm.codec, GroupId::default(), log, None)
    };
    define(receiver, Some(17)).expect("agreed on");
    let receiver = &mut pair.b.session.receiver;
    let mut header = |epoch| receiver.history.on_header(slot, epoch);
    assert!(header(Some(1)).is_err(), "nothing has begun");
    assert!(header(None).expect("the first").expect("history").begins);
    assert!(!header(None).expect("the next").expect("history").begins);
    assert!(header(Some(2)).is_err());
    assert!(header(Some(1)).expect("anew").expect("history").begins);
    assert!(header(Some(1)).is_err(), "a replay");
    assert!(define(receiver, Some(25)).is_err());
    assert!(define(receiver, Some(9)).is_err());
    assert!(
        receiver
            .history
            .define(slot, CodecId::IDENTITY, GroupId::default(), Some(17), None)
            .is_err()
    );
}
