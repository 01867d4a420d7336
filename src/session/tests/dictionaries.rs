//! Dictionaries, from the first messages to the next session's first block.

use super::*;
use crate::control::BudgetRate;
use crate::dictionary::{
    Acceptance, AcceptancePolicy, Dictionary, DictionaryId, TrainConfig, TrainerConfig, train,
};
use crate::generate::{Content, Generator};
use crate::wire::{
    Define, DictionaryAnswer, DictionaryFrame, DictionaryNews, DictionaryVerdict, Slot, WireError,
};

const ARM: Arm = Arm::new(CodecId::ZSTD, 3).with_dictionary();

fn messages(content: Content, seed: u64, count: usize) -> Vec<Vec<u8>> {
    let generator = Generator::new(content, seed);
    generator.take(count).map(|it| it.to_vec()).collect()
}

fn quick() -> TrainerConfig {
    TrainerConfig {
        min_messages: 300,
        interval: Duration::ZERO,
        ..TrainerConfig::default()
    }
}

pub(super) fn accepting(policy: PolicyConfig) -> SessionConfig {
    config(policy)
        .accept_dictionaries(AcceptancePolicy::new(Acceptance::Always))
        .train_dictionaries(Some(quick()))
}

fn stats(end: &End) -> DictionaryStats {
    end.session.stats().dictionaries
}

fn send_all(pair: &mut Pair, id: StreamId, messages: &[Vec<u8>]) -> usize {
    let mut wire = 0;
    for message in messages {
        pair.send(id, message);
        wire += pair.settle().len();
    }
    wire
}

/// A dictionary of such messages.
pub(super) fn made_of(content: Content, seed: u64) -> Dictionary {
    train(&messages(content, seed, 1000), &TrainConfig::default()).expect("much in common")
}

/// The memory of a node that has sent with `dictionary`, and of one that has received it.
fn memories(dictionary: &Dictionary) -> (DictionaryMemory, DictionaryMemory) {
    let (mut sent, mut received) = <(DictionaryMemory, DictionaryMemory)>::default();
    let settings = (quick(), 1);
    sent.adopt(
        Time::ZERO,
        "test",
        dictionary.clone(),
        Duration::ZERO,
        settings,
    );
    received.receive(dictionary.clone());
    (sent, received)
}

fn pair_of(a: SessionConfig, b: SessionConfig) -> Pair {
    let mut pair = Pair {
        a: End::new(Role::Connector, a),
        b: End::new(Role::Acceptor, b),
        now: Time::ZERO,
    };
    pair.a.session.set_budget(Time::ZERO, None);
    pair.b.session.set_budget(Time::ZERO, None);
    pair.settle();
    pair
}

#[test]
fn what_is_trained_is_brought_over_and_used() {
    let all = messages(Content::Telecom, 1, 1500);
    let mut pair = Pair::new(&accepting(PolicyConfig::Fixed(ARM)));
    let id = pair.open();
    send_all(&mut pair, id, &all[..500]);
    let made = stats(&pair.a);
    assert_eq!((made.trained, made.offered, made.accepted), (1, 1, 1));
    assert_eq!((made.warm, made.refused), (0, 0));
    assert_eq!(stats(&pair.b).received, 1);
    let with = send_all(&mut pair, id, &all[500..]);
    assert!(stats(&pair.a).blocks_sent >= 1000);
    assert_eq!(pair.b.payloads(id), all);

    let mut pair = Pair::new(&accepting(PolicyConfig::Fixed(ARM.alone())));
    let id = pair.open();
    send_all(&mut pair, id, &all[..500]);
    let without = send_all(&mut pair, id, &all[500..]);
    assert_eq!(stats(&pair.a).trainings, 0, "who would use it");
    assert!(
        3 * with < 2 * without,
        "{with} with a dictionary, {without} without"
    );
}

#[test]
fn nothing_is_trained_without_a_budget_and_all_is_delivered() {
    let all = messages(Content::Telecom, 1, 1500);
    let mut pair = Pair::new(&accepting(PolicyConfig::Fixed(ARM)));
    pair.a.session.set_budget(pair.now, Some(BudgetRate::ZERO));
    let id = pair.open();
    for some in all[..1000].chunks(100) {
        send_all(&mut pair, id, some);
        pair.pass(Duration::from_secs(2));
    }
    let made = stats(&pair.a);
    assert_eq!((made.trainings, made.trained, made.offered), (0, 0, 0));
    assert_eq!(pair.b.payloads(id), all[..1000]);

    // A quarter of a processor.
    let budget = BudgetRate::from_nanos_per_sec(250_000_000);
    pair.a.session.set_budget(pair.now, Some(budget));
    for some in all[1000..].chunks(100) {
        send_all(&mut pair, id, some);
        pair.pass(Duration::from_secs(2));
    }
    let made = stats(&pair.a);
    assert_eq!((made.trained, made.offered, made.accepted), (1, 1, 1));
    assert!(made.blocks_sent > 0, "{made:?}");
    assert_eq!(pair.b.payloads(id), all);
}

#[test]
fn the_next_session_begins_with_it_and_says_so_in_a_few_bytes() {
    let dictionary = made_of(Content::Telecom, 1);
    let (sent, received) = memories(&dictionary);
    for arm in [ARM, ARM.alone().with_history()] {
        let config = accepting(PolicyConfig::Fixed(arm));
        let mut pair = pair_of(
            config.clone().dictionary_memory(sent.clone()),
            config.clone().dictionary_memory(received.clone()),
        );
        assert_eq!(stats(&pair.a).warm, 1);
        let few = messages(Content::Telecom, 2, 20);
        let id = pair.open();
        let warm = send_all(&mut pair, id, &few);
        assert_eq!(pair.b.payloads(id), few);
        assert_eq!(stats(&pair.a).offered, 0, "it is there");
        let memory = pair.b.session.dictionaries();
        assert_eq!(memory.received(), core::slice::from_ref(&dictionary));

        let mut cold = Pair::new(&config.train_dictionaries(None));
        let id = cold.open();
        let cold = send_all(&mut cold, id, &few);
        assert!(5 * warm < 4 * cold, "{arm}: {warm}, {cold} without");
    }
}

#[test]
fn a_dictionary_that_the_peer_has_lost_is_brought_again() {
    let (sent, _) = memories(&made_of(Content::Telecom, 1));
    let (_, other) = memories(&made_of(Content::Logs, 1));
    let config = accepting(PolicyConfig::Fixed(ARM));
    let mut pair = pair_of(
        config.clone().dictionary_memory(sent),
        config.dictionary_memory(other),
    );
    assert_eq!(stats(&pair.a).warm, 0, "it holds another");
    let all = messages(Content::Telecom, 2, 50);
    let id = pair.open();
    send_all(&mut pair, id, &all);
    let made = stats(&pair.a);
    assert_eq!((made.offered, made.accepted, made.trained), (1, 1, 0));
    assert!(made.blocks_sent > 30, "{made:?}");
    assert_eq!(pair.b.payloads(id), all);
}

#[test]
fn who_takes_none_is_offered_none() {
    let all = messages(Content::Telecom, 1, 600);
    let policies = [
        (Acceptance::Never, true, 0),
        (Acceptance::Authenticated, false, 0),
        (Acceptance::Authenticated, true, 1),
        (Acceptance::Always, false, 1),
    ];
    for (from, authenticated, accepted) in policies {
        let b = accepting(PolicyConfig::None)
            .accept_dictionaries(AcceptancePolicy::new(from))
            .authenticated(authenticated);
        let mut pair = pair_of(accepting(PolicyConfig::Fixed(ARM)), b);
        let id = pair.open();
        send_all(&mut pair, id, &all);
        let made = stats(&pair.a);
        assert_eq!(made.accepted, accepted, "{from:?} {authenticated}");
        assert_eq!(made.offered, accepted, "{from:?} {authenticated}");
        assert_eq!(pair.b.payloads(id), all);
    }
}

#[test]
fn one_that_is_longer_than_the_peer_takes_is_kept_back_and_counted() {
    let (sent, _) = memories(&made_of(Content::Telecom, 1));
    let policy = AcceptancePolicy {
        max_len: 1000,
        ..AcceptancePolicy::new(Acceptance::Always)
    };
    let config = accepting(PolicyConfig::Fixed(ARM));
    let mut pair = pair_of(
        config.clone().dictionary_memory(sent),
        config.accept_dictionaries(policy),
    );
    let id = pair.open();
    let all = messages(Content::Telecom, 1, 50);
    send_all(&mut pair, id, &all);
    assert_eq!((stats(&pair.a).refused, stats(&pair.a).offered), (1, 0));
    assert_eq!(pair.b.payloads(id), all);
}

#[test]
fn drift_brings_a_new_one_and_the_room_of_the_oldest() {
    let policy = AcceptancePolicy {
        max_held: 2,
        ..AcceptancePolicy::new(Acceptance::Always)
    };
    let config = accepting(PolicyConfig::Fixed(ARM)).accept_dictionaries(policy);
    let mut pair = Pair::new(&config);
    let id = pair.open();
    let mut sent = Vec::new();
    for (seed, content) in (1..).zip([
        Content::Telecom,
        Content::Logs,
        Content::Events,
        Content::Telecom,
    ]) {
        let all = messages(content, seed, 1500);
        for some in all.chunks(100) {
            send_all(&mut pair, id, some);
            // Trainings are paid for over time.
            pair.pass(Duration::from_secs(2));
        }
        sent.extend(all);
    }
    let made = stats(&pair.a);
    assert!(made.drifts >= 2 && made.accepted >= 3, "{made:?}");
    assert!(made.retired + 2 >= made.accepted, "{made:?}");
    let held = pair.b.session.dictionaries();
    assert!(held.received().len() <= 2);
    assert_eq!(pair.b.payloads(id), sent);
}

#[test]
fn the_default_policy_finds_the_dictionary_and_uses_it() {
    let (sent, received) = memories(&made_of(Content::Telecom, 1));
    // Without history, which is better still.
    let config = accepting(PolicyConfig::default()).history_memory(0);
    let mut pair = pair_of(
        config.clone().dictionary_memory(sent),
        config.dictionary_memory(received),
    );
    let id = pair.open();
    let all = messages(Content::Telecom, 2, 400);
    for message in &all {
        pair.send(id, message);
        // A slow link.
        pair.exchange(Duration::from_millis(5));
    }
    pair.settle();
    let arms = pair.a.session.stream_stats(id).expect("open").arms;
    let with: u64 = arms
        .iter()
        .filter(|it| it.arm.dictionary)
        .map(|it| it.messages)
        .sum();
    assert!(with > 200, "{with} of 400: {arms:?}");
    assert_eq!(pair.b.payloads(id), all);
}

#[test]
fn streams_of_a_class_make_and_use_dictionaries_together() {
    let config = |policy| {
        accepting(policy)
            .traffic_class("orders/eu/*", "eu")
            .traffic_class("orders/*", "orders")
    };
    // The other side has no rules and need not.
    let mut pair = pair_of(
        config(PolicyConfig::Fixed(ARM)),
        accepting(PolicyConfig::Fixed(ARM)),
    );
    let all = messages(Content::Telecom, 1, 600);
    let names = ["orders/1", "orders/2", "orders/3", "orders/eu/1", "other"];
    let ids = names.map(|name| {
        let id = pair.a.session.open(name, StreamConfig::default());
        id.expect("an open session")
    });
    pair.settle();
    // Too few by each stream, enough by the three together.
    for (number, message) in all.iter().enumerate() {
        pair.send(ids[number % 3], message);
        pair.settle();
    }
    for (id, seed) in [(ids[3], 2), (ids[4], 3)] {
        send_all(&mut pair, id, &messages(Content::Telecom, seed, 10));
    }
    let made = stats(&pair.a);
    assert_eq!((made.trained, made.accepted), (1, 1), "{made:?}");
    let memory = pair.a.session.dictionaries();
    let classes: Vec<_> = memory
        .sent()
        .map(|(name, own)| (name, own.count()))
        .collect();
    assert_eq!(classes, [("orders", 1), ("eu", 0), ("other", 0)]);
    // A stream that comes later has it at once.
    let id = pair.a.session.open("orders/4", StreamConfig::default());
    let id = id.expect("an open session");
    let before = stats(&pair.a).blocks_sent;
    send_all(&mut pair, id, &messages(Content::Telecom, 4, 10));
    assert_eq!(stats(&pair.a).blocks_sent, before + 10);
}

#[test]
fn drift_is_noticed_while_all_goes_with_history() {
    for policy in [
        PolicyConfig::default(),
        PolicyConfig::Fixed(ARM.alone().with_history()),
    ] {
        let mut pair = Pair::new(&accepting(policy));
        let id = pair.open();
        let mut sent = Vec::new();
        for (seed, content) in (1..).zip([Content::Telecom, Content::Logs]) {
            let all = messages(content, seed, 3000);
            for some in all.chunks(100) {
                send_all(&mut pair, id, some);
                // Trainings and looks are paid for over time.
                pair.pass(Duration::from_secs(2));
            }
            let made = stats(&pair.a);
            assert_eq!(made.trained, seed, "{policy}: {made:?}");
            assert_eq!(made.drifts, seed - 1, "{policy}: {made:?}");
            sent.extend(all);
        }
        let made = stats(&pair.a);
        assert!(made.checks > 0, "{policy}: {made:?}");
        assert_eq!(made.accepted, 2, "{policy}: {made:?}");
        assert_eq!(pair.b.payloads(id), sent);
    }
}

/// Messages of which most would be in the sample and a dictionary, were they allowed to be.
#[test]
fn what_is_sensitive_and_what_other_groups_say_is_never_learned_from() {
    for arm in [ARM, ARM.alone().with_history()] {
        let mut pair = Pair::new(&accepting(PolicyConfig::Fixed(arm)));
        let own = pair.open();
        let config = StreamConfig::default().group(GroupId(1));
        let other = pair
            .a
            .session
            .open("test", config)
            .expect("an open session");
        let mut secrets = messages(Content::Logs, 1, 1200).into_iter();
        for some in secrets.by_ref().take(600) {
            let payload = Bytes::from(some);
            let sent = pair
                .a
                .session
                .send_sensitive(own, payload, RecordKind::Message);
            sent.expect("room");
            pair.settle();
        }
        send_all(&mut pair, other, &secrets.collect::<Vec<_>>());
        let made = stats(&pair.a);
        assert_eq!((made.trainings, made.memory), (0, 0), "{arm}: {made:?}");
        let memory = pair.a.session.dictionaries();
        assert_eq!(memory.sent().count(), 0, "{arm}: no class, so no sample");

        // Among others of the same stream's name, they are still left out.
        let all = messages(Content::Telecom, 2, 500);
        for (message, secret) in all.iter().zip(messages(Content::Logs, 2, 500)) {
            pair.send(own, message);
            pair.send(other, &secret);
            let payload = Bytes::from(secret);
            let sent = pair
                .a
                .session
                .send_sensitive(own, payload, RecordKind::Message);
            sent.expect("room");
            pair.settle();
        }
        let memory = pair.a.session.dictionaries();
        let dictionaries: Vec<_> = memory.sent().flat_map(|(_, own)| own).collect();
        assert_eq!(dictionaries.len(), 1, "{arm}");
        let content = dictionaries[0].content();
        let of_logs = train(&messages(Content::Logs, 2, 500), &TrainConfig::default());
        let of_logs = of_logs.expect("much in common");
        let shared = of_logs.content().windows(16).skip(300);
        let found = shared.filter(|it| content.windows(16).any(|own| own == *it));
        assert_eq!(
            found.count(),
            0,
            "{arm}: logs in what signalling has in common"
        );
    }
}

#[test]
fn other_groups_use_no_dictionary_and_begin_no_history_with_one() {
    let (sent, received) = memories(&made_of(Content::Telecom, 1));
    let few = messages(Content::Telecom, 2, 20);
    for arm in [ARM, ARM.alone().with_history()] {
        let config = accepting(PolicyConfig::Fixed(arm));
        let mut bytes = [None, Some(0), Some(1)].map(|group| {
            let (sent, received) = (sent.clone(), received.clone());
            let mut pair = match group {
                None => Pair::new(&config),
                Some(_) => pair_of(
                    config.clone().dictionary_memory(sent),
                    config.clone().dictionary_memory(received),
                ),
            };
            let own = StreamConfig::default().group(GroupId(group.unwrap_or(1)));
            let id = pair.a.session.open("test", own).expect("an open session");
            pair.settle();
            let wire = send_all(&mut pair, id, &few);
            assert_eq!(pair.b.payloads(id), few);
            if group == Some(1) {
                assert_eq!(stats(&pair.a).blocks_sent, 0, "{arm}");
            }
            wire
        });
        let [cold, own, other] = &mut bytes;
        assert!(5 * *own < 4 * *cold, "{arm}: it is of use in group 0");
        assert_eq!(cold, other, "{arm}: and changes not a byte in group 1");
    }
}

#[test]
fn workers_know_whose_tables_they_have_yet_to_make() {
    let (sent, received) = memories(&made_of(Content::Telecom, 1));
    let config = accepting(PolicyConfig::Fixed(ARM));
    let mut pair = pair_of(
        config.clone().dictionary_memory(sent),
        config.dictionary_memory(received),
    );
    let id = pair.open();
    let mut worker = CodecWorker::default();
    for number in 0..3 {
        pair.send(id, &messages(Content::Telecom, number, 1)[0]);
        let session = &mut pair.a.session;
        let job = session.poll_encode(pair.now).expect("a message");
        assert_eq!(worker.must_prepare_encoder(&job), number == 0);
        let block = worker.encode(job);
        session.handle_encoded(pair.now, block, Duration::ZERO);
        let bytes = pair.a.take_output(pair.now);
        let session = &mut pair.b.session;
        let mut input = BytesMut::from(&bytes[..]);
        session
            .handle_input(pair.now, &mut input)
            .expect("in order");
        let job = session.poll_decode().expect("a block");
        assert_eq!(worker.must_prepare_decoder(&job), number == 0);
        let block = worker.decode(job);
        let taken = session.handle_decoded(block, Duration::ZERO);
        taken.expect("decoded");
    }
}

// ---- a peer that does what it may not

/// Each is read, and what it asks for is done, before the next comes.
fn put(end: &mut End, controls: &[Control]) {
    for control in controls {
        let mut bytes = Vec::new();
        control.put(&mut bytes);
        end.input.extend_from_slice(&bytes);
        end.run(Time::ZERO);
    }
}

fn news(number: u64, what: DictionaryNews) -> Control {
    Control::Dictionary(DictionaryFrame { number, what })
}

fn offer(number: u64, id: DictionaryId, len: usize) -> Control {
    offer_as(number, id, len as u64, CodecId::IDENTITY, len as u64)
}

fn offer_as(number: u64, id: DictionaryId, len: u64, codec: CodecId, wire_len: u64) -> Control {
    let hash = *id.as_bytes();
    let what = DictionaryNews::Offer {
        hash,
        len,
        codec,
        wire_len,
    };
    news(number, what)
}

fn piece(number: u64, bytes: &[u8]) -> Control {
    news(number, DictionaryNews::Piece(bytes.to_vec()))
}

fn define(dictionary: u64, codec: CodecId, history: Option<u8>) -> Control {
    Control::Define(Define {
        slot: Slot::new(13).expect("in range"),
        codec,
        group: GroupId(0),
        history,
        dictionary,
    })
}

/// What becomes of the peer of one that says this.
fn outcome(controls: &[Control]) -> Option<WireError> {
    let mut pair = Pair::new(&accepting(PolicyConfig::None));
    put(&mut pair.b, controls);
    match pair.b.session.closed() {
        None => None,
        Some(Err(SessionError::Peer(error))) => Some(error.clone()),
        other => panic!("{other:?}"),
    }
}

fn code(controls: &[Control]) -> Option<GoAwayCode> {
    outcome(controls).map(|error| error.code())
}

#[test]
fn frames_out_of_order_and_beyond_limits_are_refused() {
    let raw = Dictionary::new(&b"what orders have in common"[..]).expect("long enough");
    let (id, content) = (raw.id(), raw.content().clone());
    let len = content.len();
    let (front, back) = content.split_at(10);
    let whole = [offer(1, id, len), piece(1, front), piece(1, back)];
    let then = |more: &[Control]| code(&[&whole[..], more].concat());
    let protocol = Some(GoAwayCode::Protocol);
    let limit = Some(GoAwayCode::Limit);

    assert_eq!(code(&whole), None);
    assert_eq!(then(&[define(1, CodecId::ZSTD, None)]), None);
    assert_eq!(then(&[define(1, CodecId::ZSTD, Some(17))]), None);
    assert_eq!(then(&[define(2, CodecId::ZSTD, None)]), protocol, "unknown");
    assert_eq!(then(&[define(1, CodecId::IDENTITY, None)]), protocol);
    assert_eq!(then(&[piece(1, front)]), protocol, "it is complete");
    assert_eq!(then(&[offer(1, id, len)]), protocol, "the number is taken");
    assert_eq!(then(&[offer(2, id, len)]), None, "the same once more");
    let retire = |number| news(number, DictionaryNews::Retire);
    assert_eq!(then(&[retire(1)]), None);
    assert_eq!(then(&[retire(1), retire(1)]), protocol);
    assert_eq!(
        then(&[retire(1), define(1, CodecId::ZSTD, None)]),
        protocol,
        "retired"
    );
    let again = [offer(2, id, len), retire(1), define(2, CodecId::LZ4, None)];
    assert_eq!(then(&again), None);

    assert_eq!(code(&[retire(1)]), protocol, "there is none");
    assert_eq!(code(&[piece(1, front)]), protocol, "without an offer");
    assert_eq!(code(&[offer(2, id, len)]), protocol, "not the next number");
    assert_eq!(code(&[offer(1, id, len), piece(2, front)]), protocol);
    assert_eq!(
        code(&[offer(1, id, len), define(1, CodecId::LZ4, None)]),
        protocol
    );
    assert_eq!(code(&[offer(1, id, len), offer(2, id, len)]), protocol);
    let long = [front, back, b"!"].concat();
    assert_eq!(code(&[offer(1, id, len), piece(1, &long)]), limit);
    assert_eq!(code(&[offer(1, id, (112 << 10) + 1)]), limit);
    assert_eq!(code(&[offer(1, id, 7)]), protocol, "too short");
    let lz4 = CodecId::LZ4;
    assert_eq!(code(&[offer_as(1, id, 100, lz4, 101)]), limit);
    assert_eq!(code(&[offer_as(1, id, 100, lz4, 0)]), protocol);
    let other = CodecId::from_wire(77);
    assert_eq!(code(&[offer_as(1, id, 100, other, 50)]), protocol);
    // Four may be held.
    let mut many: Vec<_> = (2..=4).map(|number| offer(number, id, len)).collect();
    assert_eq!(then(&many), None);
    many.push(offer(5, id, len));
    assert_eq!(then(&many), limit);
    let answer = Control::DictionaryAnswer(DictionaryAnswer {
        number: 1,
        verdict: DictionaryVerdict::Held,
    });
    assert_eq!(code(&[answer]), protocol, "nothing was offered");
}

#[test]
fn whatever_is_said_in_whatever_order_does_no_harm() {
    let contents: Vec<Vec<u8>> = (0..3).map(|it| vec![it; 40]).collect();
    let policy = AcceptancePolicy::new(Acceptance::Always);
    let mut good = 0;
    for seed in 0..400 {
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new(&accepting(PolicyConfig::None));
        let (mut number, mut at) = (0, 0);
        for _ in 0..40 {
            // Mostly what would be right now, or there is no second step.
            let content = &contents[rng.usize(..contents.len())];
            let named = if rng.u8(..10) == 0 {
                rng.u64(..6)
            } else {
                number
            };
            let control = match rng.u8(..8) {
                0..=2 => {
                    (number, at) = (number + 1, rng.usize(..contents.len()));
                    offer(number, DictionaryId::of(&contents[at]), 40)
                }
                3 => piece(named, &contents[at]),
                4 => piece(named, &content[..rng.usize(1..40)]),
                5 => news(named.max(1), DictionaryNews::Retire),
                6 => define(named, CodecId::ZSTD, rng.bool().then_some(17)),
                _ => define(named, CodecId::LZ4, None),
            };
            put(&mut pair.b, &[control]);
            let made = stats(&pair.b);
            assert!(made.memory <= 40 * policy.max_held as u64, "seed {seed}");
            good = good.max(made.received);
            if pair.b.session.closed().is_some() {
                break;
            }
        }
    }
    assert!(good > 0, "nothing was ever right");
}

#[test]
fn content_that_is_not_what_its_name_says_ends_the_session() {
    let raw = Dictionary::new(&b"what orders have in common"[..]).expect("long enough");
    let mut changed = raw.content().to_vec();
    changed[5] ^= 1;
    let sent = [offer(1, raw.id(), changed.len()), piece(1, &changed)];
    assert!(matches!(
        outcome(&sent),
        Some(WireError::Checksum {
            what: "dictionary",
            ..
        })
    ));
    let garbage = [
        offer_as(1, raw.id(), 26, CodecId::ZSTD, 20),
        piece(1, &[0x55; 20]),
    ];
    assert_eq!(code(&garbage), Some(GoAwayCode::Undecodable));
}

#[test]
fn damaged_tables_are_refused_and_messages_go_without() {
    let mut content = made_of(Content::Telecom, 1).content().to_vec();
    content[8..60].fill(0xFF);
    let broken = Dictionary::new(content).expect("a length between");
    let sent = [
        offer(1, broken.id(), broken.len()),
        piece(1, &broken.content()[..4000]),
    ];
    let mut pair = Pair::new(&accepting(PolicyConfig::None));
    put(&mut pair.b, &sent);
    let rest = broken.content()[4000..].chunks(4000);
    rest.for_each(|some| put(&mut pair.b, &[piece(1, some)]));
    assert_eq!(pair.b.session.closed(), None);
    assert_eq!((stats(&pair.b).received, stats(&pair.b).rejected), (0, 1));
    // The one who offers is told, and goes on.
    let (memory, _) = memories(&broken);
    let config = accepting(PolicyConfig::Fixed(ARM));
    let mut pair = pair_of(config.clone().dictionary_memory(memory), config);
    let id = pair.open();
    let all = messages(Content::Telecom, 2, 50);
    send_all(&mut pair, id, &all);
    assert_eq!(pair.b.payloads(id), all);
    let made = stats(&pair.a);
    assert_eq!((made.refused, made.blocks_sent), (1, 0), "{made:?}");
}

#[test]
fn blocks_that_wait_keep_what_is_retired_behind_them() {
    let dictionary = made_of(Content::Telecom, 1);
    let (sent, received) = memories(&dictionary);
    for arm in [ARM, ARM.alone().with_history()] {
        let config = accepting(PolicyConfig::Fixed(arm));
        let mut pair = pair_of(
            config.clone().dictionary_memory(sent.clone()),
            config.dictionary_memory(received.clone()),
        );
        let id = pair.open();
        let all = messages(Content::Telecom, 2, 4);
        let mut bytes = Vec::new();
        for message in &all {
            pair.send(id, message);
            bytes.extend(pair.a.run(pair.now));
        }
        news(1, DictionaryNews::Retire).put(&mut bytes);
        // All of it is read before anything is decoded.
        let mut input = BytesMut::from(&bytes[..]);
        let session = &mut pair.b.session;
        session
            .handle_input(pair.now, &mut input)
            .expect("in order");
        assert!(input.is_empty());
        assert_eq!(session.stats().dictionaries.memory, 0, "it is forgotten");
        pair.b.run(pair.now);
        assert_eq!(pair.b.session.closed(), None, "{arm}");
        assert_eq!(pair.b.payloads(id), all, "{arm}");
    }
}

#[test]
fn a_peer_without_dictionaries_sees_nothing_of_them() {
    let none = config(PolicyConfig::None)
        .train_dictionaries(None)
        .accept_dictionaries(AcceptancePolicy::new(Acceptance::Never));
    let all = messages(Content::Telecom, 1, 600);
    let mut pair = pair_of(accepting(PolicyConfig::Fixed(ARM)), none.clone());
    let id = pair.open();
    send_all(&mut pair, id, &all);
    assert_eq!(pair.b.payloads(id), all);
    assert_eq!(stats(&pair.a).trainings, 0);
    let mut pair = pair_of(none, accepting(PolicyConfig::None));
    put(&mut pair.a, &[news(1, DictionaryNews::Retire)]);
    assert!(pair.a.session.closed().is_some());
}
