//! Limits on what a peer does in a time, and on what its blocks become.

use super::*;
use crate::wire::{BlockHeader, Slot, WireError};

/// The codecs of this build besides identity, each at its default level.
fn arms() -> impl Iterator<Item = Arm> {
    let arms = crate::codecs::supported().iter();
    arms.map(|info| Arm::new(info.id, info.default_level.0))
        .filter(|arm| *arm != Arm::IDENTITY)
}

/// As a peer that opens a stream, has it closed by both sides, and goes on.
fn open_and_close(pair: &mut Pair, number: u32) -> Result<(), SessionError> {
    let stream = StreamId::new(number * 2).expect("in range");
    let mut input = opened_and_closed(stream);
    pair.b.session.handle_input(pair.now, &mut input)?;
    pair.b.session.finish(stream);
    pair.b.take_output(pair.now);
    Ok(())
}

#[test]
fn streams_may_be_opened_in_a_row_and_then_at_the_rate() {
    let limits = limits().max_streams(10).streams_per_second(100);
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits));
    let mut number = 0;
    for _ in 0..100 {
        assert_eq!(open_and_close(&mut pair, number), Ok(()));
        number += 1;
    }
    for _ in 0..1000 {
        pair.now = pair.now + Duration::from_millis(10);
        assert_eq!(open_and_close(&mut pair, number), Ok(()), "at the rate");
        number += 1;
    }
    let refused = open_and_close(&mut pair, number);
    let expected = WireError::FieldTooLarge {
        field: "streams opened in a row",
        given: 101,
        max: 100,
    };
    assert_eq!(expected.code(), GoAwayCode::Limit);
    assert_eq!(refused, Err(SessionError::Peer(expected)));
}

#[test]
fn all_streams_that_may_be_open_may_be_opened_at_once() {
    let limits = limits().max_streams(1000).streams_per_second(1);
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits));
    for _ in 0..1000 {
        pair.open();
    }
    assert_eq!(pair.b.session.closed(), None);
}

/// Lets `b` decode what it has, as if each block took so long.
fn decode(end: &mut End, now: Time, elapsed: Duration) {
    let _ = end.session.handle_input(now, &mut end.input);
    while let Some(job) = end.session.poll_decode() {
        let block = end.worker.decode(job);
        assert_eq!(end.session.handle_decoded(block, elapsed), Ok(()));
    }
}

#[test]
fn a_peer_whose_blocks_take_long_to_decode_is_read_more_slowly() {
    let Some(arm) = arms().next() else { return };
    let limits = limits().decode_time(Some(Duration::from_millis(100)));
    let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)).limits(limits));
    let id = pair.open();
    let text = b"some text that repeats ".repeat(100);
    pair.send(id, &text);
    let first = pair.a.run(pair.now);
    pair.send(id, &text);
    let second = pair.a.run(pair.now);

    // A second's worth may come at once, and this is a little more.
    pair.b.input.extend_from_slice(&first);
    decode(&mut pair.b, pair.now, Duration::from_millis(150));
    let began = pair.now + Duration::from_millis(150);
    assert_eq!(pair.b.session.handle_timeout(began), Ok(()));
    assert!(!pair.b.session.wants_input());
    pair.b.input.extend_from_slice(&second);
    let waiting = pair.b.input.len();
    let before_end = began + Duration::from_millis(499);
    decode(&mut pair.b, before_end, Duration::ZERO);
    assert_eq!(pair.b.input.len(), waiting, "nothing is taken");
    let _ = pair.b.session.handle_timeout(before_end);
    assert!(!pair.b.session.wants_input());

    let end = began + Duration::from_millis(500);
    while let Some(due) = pair.b.session.poll_timeout().filter(|due| *due < end) {
        let _ = pair.b.session.handle_timeout(due.max(before_end));
        assert!(pair.b.session.poll_encode(before_end).is_none());
        assert_ne!(pair.b.session.poll_timeout(), Some(due), "a turn in vain");
    }
    assert_eq!(pair.b.session.poll_timeout(), Some(end), "it is waited for");
    assert_eq!(pair.b.session.handle_timeout(end), Ok(()));
    assert!(pair.b.session.wants_input());
    assert_eq!(pair.b.session.stats().decode_pauses, 1);
    pair.now = end;
    pair.settle();
    assert_eq!(pair.b.payloads(id), [text.as_slice(), &text]);
}

#[test]
fn one_pause_is_never_so_long_that_the_peer_is_taken_for_gone() {
    let Some(arm) = arms().next() else { return };
    let limits = limits().decode_time(Some(Duration::from_millis(1)));
    let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)).limits(limits));
    let id = pair.open();
    pair.send(id, &b"some text that repeats ".repeat(100));
    let wire = pair.a.run(pair.now);
    pair.b.input.extend_from_slice(&wire);
    decode(&mut pair.b, pair.now, Duration::MAX);
    pair.now = pair.now + Duration::from_secs(1);
    assert_eq!(pair.b.session.handle_timeout(pair.now), Ok(()));
    assert!(!pair.b.session.wants_input());
    pair.pass(Duration::from_secs(1));
    assert!(pair.b.session.wants_input());
}

#[test]
fn blocks_that_would_become_far_longer_are_not_decoded() {
    let limits = limits().expansion(100);
    for arm in arms() {
        let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)).limits(limits));
        let mut block = Vec::new();
        BlockHeader {
            slot: Slot::new(arm.codec.to_wire()),
            epoch: None,
            plain_len: Some(100_001),
            body_len: 1000,
            check: 0,
        }
        .put(&mut block, true);
        block.resize(block.len() + 1000, 0);
        let mut input = BytesMut::from(block.as_slice());
        let refused = pair.b.session.handle_input(pair.now, &mut input);
        let expected = WireError::FieldTooLarge {
            field: "plain length for so short a block",
            given: 100_001,
            max: 100_000,
        };
        assert_eq!(refused, Err(SessionError::Peer(expected)), "{arm}");
        assert!(
            pair.b.session.poll_decode().is_none(),
            "before it is decoded"
        );
    }
}

#[test]
fn blocks_that_do_not_say_what_they_become_are_refused_when_they_are_decoded() {
    for arm in arms() {
        let limits = limits().expansion(2);
        let config = config(PolicyConfig::Fixed(arm)).block_len(250 << 10);
        let zeros = vec![0; 200 << 10];
        let mut a = End::new(Role::Connector, config.clone());
        a.session.set_budget(Time::ZERO, None);
        let b = End::new(Role::Acceptor, config.limits(limits));
        let now = Time::ZERO;
        let mut pair = Pair { a, b, now };
        pair.settle();
        let id = pair.open();
        pair.send(id, &zeros);
        pair.settle();
        let Some(Err(SessionError::Peer(error))) = pair.b.session.closed() else {
            panic!("{arm}: {:?}", pair.b.session.closed());
        };
        assert_eq!(error.code(), GoAwayCode::Limit, "{arm}: {error}");
        assert!(pair.b.payloads(id).is_empty(), "{arm}");
    }
}

#[test]
fn zeros_of_every_codec_pass_with_the_limits_as_they_are() {
    for arm in arms() {
        let config = config(PolicyConfig::Fixed(arm)).block_len(255 << 10);
        let mut pair = Pair::new(&config.limits(limits()));
        let id = pair.open();
        let zeros = vec![0; 254 << 10];
        pair.send(id, &zeros);
        pair.settle();
        assert_eq!(pair.b.payloads(id), [&zeros], "{arm}");
    }
}

#[test]
fn a_session_that_is_not_used_is_closed_cleanly() {
    let limits = limits().idle_time(Some(Duration::from_secs(5)));
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits));
    let id = pair.open();
    for _ in 0..3 {
        pair.pass(Duration::from_secs(4));
        pair.send(id, b"used");
        pair.settle();
    }
    assert_eq!(pair.b.payloads(id).len(), 3);
    pair.pass(Duration::from_millis(4999));
    assert_eq!(pair.a.session.closed(), None);
    assert!(pair.a.session.poll_timeout().is_some());
    pair.pass(Duration::from_millis(1));
    assert_eq!(pair.a.session.closed(), Some(&Ok(())));
    assert_eq!(pair.b.session.closed(), Some(&Ok(())));
}

#[test]
fn a_session_whose_messages_wait_is_not_idle() {
    let limits = limits().idle_time(Some(Duration::from_secs(5)));
    let limits = limits.window(4096);
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits));
    let id = pair.open();
    pair.b.releases = false;
    pair.send(id, &[1; 4000]);
    pair.send(id, &[2; 4000]);
    for _ in 0..10 {
        pair.pass(Duration::from_secs(3));
    }
    assert_eq!(pair.a.session.closed(), None);
    assert_eq!(pair.b.session.closed(), None);
}

#[test]
fn what_the_application_has_not_read_is_told() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    pair.b.releases = false;
    pair.send(id, &[1; 1000]);
    pair.settle();
    assert_eq!(pair.b.session.stats().received_held, 1032);
    pair.b.session.release(id, 1032);
    assert_eq!(pair.b.session.stats().received_held, 0);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    for limits in [
        limits().max_message(0),
        limits().max_block(100),
        limits().max_block(1 << 30),
        limits().window(100),
        limits().streams_per_second(0),
        limits().expansion(0),
        limits().decode_time(Some(Duration::ZERO)),
    ] {
        let config = SessionConfig::default().limits(limits);
        let refused = Session::new(Role::Connector, config, Time::ZERO);
        assert!(refused.is_err(), "{limits:?}");
    }
}
