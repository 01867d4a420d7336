//! What a connection leaves to the next one with the same peer.

use super::*;
use crate::dictionary::{Acceptance, AcceptancePolicy, TrainConfig, TrainerConfig, train};
use crate::generate::{Content, Generator};

const ARM: Arm = Arm::new(CodecId::ZSTD, 3).with_history();

fn messages(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let generator = Generator::new(Content::Telecom, seed);
    generator.take(count).map(|it| it.to_vec()).collect()
}

/// Nothing is trained, so that what is saved is what was recalled.
fn recalling() -> SessionConfig {
    let trainer = TrainerConfig {
        min_messages: usize::MAX,
        ..TrainerConfig::default()
    };
    config(PolicyConfig::Fixed(ARM))
        .accept_dictionaries(AcceptancePolicy::new(Acceptance::Always))
        .train_dictionaries(Some(trainer))
}

/// A connection's two ends, of which each begins with what it knows.
fn connect(
    number: u8,
    (a, b): (SessionConfig, SessionConfig),
    (of_a, of_b): (DictionaryMemory, DictionaryMemory),
) -> Pair {
    let ids = [[number; 16], [number + 100; 16]];
    let mut pair = Pair {
        a: End::new(
            Role::Connector,
            a.session_id(ids[0]).dictionary_memory(of_a),
        ),
        b: End::new(Role::Acceptor, b.session_id(ids[1]).dictionary_memory(of_b)),
        now: Time::ZERO,
    };
    pair.a.session.set_budget(Time::ZERO, None);
    pair.b.session.set_budget(Time::ZERO, None);
    pair.settle();
    pair
}

fn again(number: u8, memories: (DictionaryMemory, DictionaryMemory)) -> Pair {
    connect(number, (recalling(), recalling()), memories)
}

/// Sends messages one by one; the bytes that it took.
fn send_all(pair: &mut Pair, id: StreamId, messages: &[Vec<u8>]) -> usize {
    let mut wire = 0;
    for message in messages {
        pair.send(id, message);
        wire += pair.settle().len();
    }
    wire
}

fn close(pair: &mut Pair) -> (DictionaryMemory, DictionaryMemory) {
    pair.a.session.close();
    pair.settle();
    memories(pair)
}

fn memories(pair: &Pair) -> (DictionaryMemory, DictionaryMemory) {
    (pair.a.session.dictionaries(), pair.b.session.dictionaries())
}

fn recalled(end: &End) -> u64 {
    end.session.stats().dictionaries.recalled
}

/// A connection that carries these, and what it leaves.
fn after(number: u8, messages: &[Vec<u8>]) -> (DictionaryMemory, DictionaryMemory) {
    let mut pair = again(number, Default::default());
    let id = pair.open();
    send_all(&mut pair, id, messages);
    close(&mut pair)
}

#[test]
fn the_next_connection_begins_with_what_the_last_has_carried() {
    let all = messages(1, 400);
    let mut memories = Default::default();
    let mut wire = Vec::new();
    for (number, some) in (0..).zip(all.chunks(20)) {
        let mut pair = again(number, memories);
        assert_eq!(recalled(&pair.a), u64::from(number > 0), "{number}");
        let id = pair.open();
        wire.push(send_all(&mut pair, id, some));
        assert_eq!(pair.b.payloads(id), some);
        memories = close(&mut pair);
        assert_eq!(pair.a.session.stats().dictionaries.offered, 0);
    }
    let late: usize = wire[10..].iter().sum();
    assert!(late * 3 < wire[0] * 10 * 2, "{wire:?}");
}

#[test]
fn both_directions_have_their_own() {
    let all = messages(1, 60);
    let mut pair = again(0, Default::default());
    let id = pair.open();
    for message in &all[..30] {
        let payload = Bytes::from(message.clone());
        let sent = pair.b.session.send(id, payload, RecordKind::Message);
        sent.expect("room");
        pair.settle();
    }
    let mut pair = again(1, close(&mut pair));
    assert_eq!((recalled(&pair.a), recalled(&pair.b)), (0, 1));
    let id = pair.open();
    for message in &all[30..] {
        let payload = Bytes::from(message.clone());
        let sent = pair.b.session.send(id, payload, RecordKind::Message);
        sent.expect("room");
        pair.settle();
    }
    assert_eq!(pair.a.payloads(id), all[30..]);
}

#[test]
fn a_connection_that_is_cut_leaves_what_both_ends_have_seen() {
    for (before, lost) in [(3, 1), (30, 2), (200, 40), (700, 100), (2000, 30)] {
        let all = messages(1, before + lost);
        let mut pair = again(0, Default::default());
        let id = pair.open();
        send_all(&mut pair, id, &all[..before]);
        for message in &all[before..] {
            pair.send(id, message);
            let _ = pair.a.run(pair.now);
        }
        assert_eq!(pair.b.payloads(id).len(), before);
        let mut pair = again(1, memories(&pair));
        // Where nothing was acknowledged at a point, there is nothing in common yet.
        let expected = u64::from(before >= 200);
        assert_eq!(recalled(&pair.a), expected, "{before} {lost}");
        let id = pair.open();
        let few = messages(2, 20);
        send_all(&mut pair, id, &few);
        assert_eq!(pair.b.payloads(id), few, "{before} {lost}");
    }
}

#[test]
fn a_cut_falls_back_to_what_the_connection_itself_began_with() {
    let memories_before = after(0, &messages(1, 40));
    let mut pair = again(1, memories_before);
    let id = pair.open();
    send_all(&mut pair, id, &messages(2, 3));
    for message in messages(3, 3) {
        pair.send(id, &message);
        let _ = pair.a.run(pair.now);
    }
    let pair = again(2, memories(&pair));
    assert_eq!(recalled(&pair.a), 1);
}

#[test]
fn what_one_end_has_forgotten_is_not_begun_with() {
    let few = messages(2, 20);
    let (a, b) = after(0, &messages(1, 40));
    let (_, other) = after(5, &messages(1, 40));
    for memories in [
        (a.clone(), DictionaryMemory::default()),
        (DictionaryMemory::default(), b),
        // Another peer has carried the same, but not with this one.
        (a, other),
    ] {
        let mut pair = again(1, memories);
        assert_eq!(recalled(&pair.a), 0);
        let id = pair.open();
        send_all(&mut pair, id, &few);
        assert_eq!(pair.b.payloads(id), few);
    }
}

#[test]
fn who_takes_no_dictionaries_keeps_nothing_and_is_told_of_nothing() {
    let policy = |from| AcceptancePolicy::new(from);
    for config in [
        recalling().accept_dictionaries(policy(Acceptance::Never)),
        recalling().accept_dictionaries(policy(Acceptance::Authenticated)),
        recalling().recall_history(false),
        recalling().history_memory(0),
    ] {
        for flip in [false, true] {
            let configs = |config: &SessionConfig| {
                if flip {
                    (recalling(), config.clone())
                } else {
                    (config.clone(), recalling())
                }
            };
            let mut pair = connect(0, configs(&config), Default::default());
            let id = pair.open();
            send_all(&mut pair, id, &messages(1, 40));
            let (a, b) = close(&mut pair);
            let (refuses, other) = if flip { (b, a) } else { (a, b) };
            assert_eq!(refuses.history_bytes(), 0);
            let memories = if flip {
                (other, refuses)
            } else {
                (refuses, other)
            };
            let pair = connect(1, configs(&config), memories);
            assert_eq!((recalled(&pair.a), recalled(&pair.b)), (0, 0));
        }
    }
    // One that refuses although it once did not.
    let (a, b) = after(0, &messages(1, 40));
    let never = recalling().accept_dictionaries(policy(Acceptance::Never));
    for configs in [(never.clone(), recalling()), (recalling(), never)] {
        let pair = connect(1, configs, (a.clone(), b.clone()));
        assert_eq!((recalled(&pair.a), recalled(&pair.b)), (0, 0));
    }
    let known = recalling()
        .accept_dictionaries(AcceptancePolicy::default())
        .authenticated(true);
    let pair = connect(1, (known.clone(), known), (a, b));
    assert_eq!(recalled(&pair.a), 1);
}

#[test]
fn nothing_sensitive_and_no_other_group_is_left() {
    let all = messages(1, 40);
    let mut pair = again(0, Default::default());
    let id = pair.open();
    for message in &all {
        let payload = Bytes::from(message.clone());
        let sent = pair
            .a
            .session
            .send_sensitive(id, payload, RecordKind::Message);
        sent.expect("room");
        pair.settle();
    }
    let config = StreamConfig::default().group(GroupId(1));
    let other = pair
        .a
        .session
        .open("other", config)
        .expect("an open session");
    pair.settle();
    send_all(&mut pair, other, &all);
    let (a, b) = close(&mut pair);
    assert_eq!((a.history_bytes(), b.history_bytes()), (0, 0));

    // Nor does another group begin with what there is.
    let mut pair = again(2, after(1, &all));
    assert_eq!(recalled(&pair.a), 1);
    let other = pair
        .a
        .session
        .open("other", config)
        .expect("an open session");
    pair.settle();
    let with = send_all(&mut pair, other, &all[..5]);
    let mut pair = again(3, Default::default());
    let other = pair
        .a
        .session
        .open("other", config)
        .expect("an open session");
    pair.settle();
    assert_eq!(with, send_all(&mut pair, other, &all[..5]));
}

#[test]
fn it_is_forgotten_after_an_hour() {
    let (a, b) = after(0, &messages(1, 40));
    let late = |secs| {
        let now = Time::ZERO + Duration::from_secs(secs);
        let mut known = DictionaryMemory::default();
        known.absorb(Time::ZERO, a.clone());
        known.expire(now);
        known.history_bytes()
    };
    assert!(late(3599) > 0);
    assert_eq!(late(3600), 0);
    // Being known to further sessions makes it no younger.
    let mut known = DictionaryMemory::default();
    known.absorb(Time::ZERO, b);
    let half = Time::ZERO + Duration::from_secs(1800);
    let session = Session::new(
        Role::Acceptor,
        recalling().dictionary_memory(known.clone()),
        half,
    );
    known.absorb(half, session.expect("valid").dictionaries());
    known.expire(Time::ZERO + Duration::from_secs(3600));
    assert_eq!(known.history_bytes(), 0);
}

#[test]
fn what_began_with_a_dictionary_leaves_its_end_too() {
    let sample = messages(1, 1000);
    let dictionary = train(&sample, &TrainConfig::default()).expect("much in common");
    let (mut a, mut b) = <(DictionaryMemory, DictionaryMemory)>::default();
    let settings = (TrainerConfig::default(), 1);
    a.adopt(
        Time::ZERO,
        "test",
        dictionary.clone(),
        Duration::ZERO,
        settings,
    );
    b.receive(dictionary.clone());
    let mut pair = again(0, (a, b));
    let id = pair.open();
    let few = messages(2, 10);
    send_all(&mut pair, id, &few);
    let plain: usize = few.iter().map(Vec::len).sum();
    let memories = close(&mut pair);
    let left = memories.1.history_bytes();
    let least = (plain + dictionary.len()).min(crate::wire::MAX_PRIME);
    assert!((least..least + 200).contains(&left), "{left} of {least}");
    let pair = again(1, memories);
    assert_eq!(recalled(&pair.a), 1);
    let known = pair.b.session.dictionaries();
    assert_eq!(known.received(), [dictionary], "kept by itself as before");
}
