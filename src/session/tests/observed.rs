//! What is told of histories: the same at both ends, and of each one that has begun that it has ended.

use std::sync::{Arc, Mutex};

use super::dictionaries::{accepting, made_of};
use super::*;
use crate::dictionary::TrainerConfig;
use crate::generate::{Content, Generator};
use crate::wire::Slot;

type Told = (ContextChange, Slot, GroupId, Option<CodecId>);

/// What an end was told of histories, of those of what is received apart.
#[derive(Debug, Default)]
struct Ear([Mutex<Vec<Told>>; 2]);

impl Observer for Ear {
    fn observe(&self, observation: &Observation) {
        if let Observation::Context {
            change,
            received,
            slot,
            group,
            arm,
        } = *observation
        {
            let told = (change, slot, group, arm.map(|arm| arm.codec));
            let of = &self.0[usize::from(received)];
            of.lock().expect("no panic").push(told);
        }
    }
}

/// Who listens at either end.
fn listen(pair: &mut Pair) -> [Arc<Ear>; 2] {
    [&mut pair.a, &mut pair.b].map(|end| {
        let ear = Arc::new(Ear::default());
        end.session.observe(ear.clone());
        ear
    })
}

/// What a receiver is told, too: what both ends have seen is no news to it.
fn unprimed(told: &[Told]) -> Vec<Told> {
    let told = told.iter().copied();
    told.filter(|it| !matches!(it.0, ContextChange::Primed { .. }))
        .collect()
}

/// How many histories of what a sends have been evicted, by both ends.
fn agreed([a, b]: &[Arc<Ear>; 2]) -> usize {
    let sent = a.0[0].lock().expect("no panic");
    let received = b.0[1].lock().expect("no panic");
    assert_eq!(unprimed(&sent), unprimed(&received));
    let mut evicted = 0;
    for told in [&sent, &received] {
        let mut live = HashMap::new();
        evicted = 0;
        for (change, slot, group, _) in told.iter() {
            match change {
                ContextChange::Begun => assert_eq!(live.insert(*slot, *group), None, "{slot:?}"),
                ContextChange::Evicted => {
                    assert_eq!(live.remove(slot), Some(*group), "{slot:?}");
                    evicted += 1;
                }
                _ => assert_eq!(live.get(slot), Some(group), "{slot:?}: {change:?}"),
            }
        }
    }
    evicted
}

#[test]
fn both_ends_are_told_of_every_history_that_gives_way() {
    let mut rng = Rng::with_seed(11);
    // There is no lz4:9: a codec that fails.
    let arms = ["zstd:1", "zstd:3", "lz4", "lz4:9"].map(|arm| {
        let arm: Arm = format!("{arm}+history").parse().expect("an arm");
        arm
    });
    let mut messages = Generator::new(Content::Telecom, 5);
    // Both have little, or only one of them.
    for (here, there) in [(2 << 20, 2 << 20), (8 << 20, 700 << 10), (2 << 20, 8 << 20)] {
        let settings = |memory| {
            let config = config(PolicyConfig::None).history_log(15);
            config.history_memory(memory)
        };
        let mut pair = Pair {
            a: End::new(Role::Connector, settings(here)),
            b: End::new(Role::Acceptor, settings(there)),
            now: Time::ZERO,
        };
        let ears = listen(&mut pair);
        pair.a.session.set_budget(Time::ZERO, None);
        pair.settle();
        let streams = [0, 1, 2].map(|group| {
            let config = StreamConfig::default().group(GroupId(group));
            let id = pair.a.session.open("test", config).expect("open");
            pair.settle();
            id
        });
        for _ in 0..400 {
            let id = streams[rng.usize(..streams.len())];
            let arm = arms[rng.usize(..arms.len())];
            pair.a.session.set_policy(id, PolicyConfig::Fixed(arm));
            if rng.u8(..10) == 0 {
                // It gets no smaller, and goes without its history.
                let noise: Vec<u8> = (0..300).map(|_| rng.u8(..)).collect();
                pair.send(id, &noise);
            } else {
                pair.send(id, &messages.next().expect("no end"));
            }
            pair.settle();
        }
        let of_room = agreed(&ears);
        assert!(of_room > 10, "{here} and {there}: {of_room}");
        // The node needs the memory elsewhere.
        pair.a.session.set_history_memory(0);
        pair.settle();
        let of_grant = agreed(&ears) - of_room;
        assert!(of_grant > 0, "{here} and {there}");
    }
}

#[test]
fn both_ends_are_told_of_a_history_that_goes_with_its_dictionary() {
    let arm = Arm::new(CodecId::ZSTD, 3).with_history();
    let config = accepting(PolicyConfig::Fixed(arm));
    // Histories begin with what both have from before, which has ten seconds to live.
    let (trainer, dictionary) = (TrainerConfig::default(), made_of(Content::Telecom, 1));
    let age = trainer.time_to_live.saturating_sub(Duration::from_secs(10));
    let (mut sent, mut received) = <(DictionaryMemory, DictionaryMemory)>::default();
    sent.adopt(Time::ZERO, "test", dictionary.clone(), age, (trainer, 1));
    received.receive(dictionary);
    let mut pair = Pair {
        a: End::new(Role::Connector, config.clone().dictionary_memory(sent)),
        b: End::new(Role::Acceptor, config.dictionary_memory(received)),
        now: Time::ZERO,
    };
    let ears = listen(&mut pair);
    pair.a.session.set_budget(Time::ZERO, None);
    pair.b.session.set_budget(Time::ZERO, None);
    pair.settle();
    let id = pair.open();
    let mut messages = Generator::new(Content::Telecom, 2);
    for expected in [0, 1] {
        for _ in 0..15 {
            pair.send(id, &messages.next().expect("no end"));
            pair.pass(Duration::from_millis(500));
        }
        // There was room for the history itself.
        let retired = pair.a.session.stats().dictionaries.retired;
        let evicted = agreed(&ears) as u64;
        assert_eq!((retired, evicted), (expected, expected));
    }
}

/// In group 0 the history begins anew in its slot, in others the slot is given up, so that the block stays in its group.
#[test]
fn both_ends_are_told_of_a_history_that_begins_anew_since_its_codec_has_failed() {
    let arm = Arm::new(CodecId::ZSTD, 3).with_history();
    for group in [0, 1] {
        let mut pair = Pair::apart(&config(PolicyConfig::Fixed(arm)));
        let ears = listen(&mut pair);
        pair.settle();
        let stream = StreamConfig::default().group(GroupId(group));
        let id = pair.a.session.open("test", stream).expect("open");
        pair.settle();
        for (number, message) in Generator::new(Content::Telecom, 5).take(30).enumerate() {
            pair.send(id, &message);
            if number % 10 == 5 {
                let job = pair.a.session.poll_encode(pair.now).expect("a block");
                let mut block = pair.a.worker.encode(job);
                block.context = None;
                block.result = Err(crate::codecs::EncodeError::UnknownCodec { codec: arm.codec });
                let took = Duration::from_micros(20);
                pair.a.session.handle_encoded(pair.now, block, took);
            }
            pair.settle();
        }
        let expected = if group == 0 { 0 } else { 3 };
        assert_eq!(agreed(&ears), expected, "group {group}");
        let told = ears[0].0[0].lock().expect("no panic");
        let count = |what| told.iter().filter(|it| it.0 == what).count();
        let counts = [count(ContextChange::Begun), count(ContextChange::Reset)];
        assert_eq!(counts, [1 + expected, 3 - expected], "group {group}");
        let primed = told
            .iter()
            .filter(|it| matches!(it.0, ContextChange::Primed { .. }));
        assert_eq!(primed.count(), 3 - expected, "group {group}");
    }
}

/// Of what an end was told.
#[derive(Debug, Default)]
struct Kinds(Mutex<Observations>);

impl Observer for Kinds {
    fn observe(&self, observation: &Observation) {
        let mut kinds = self.0.lock().expect("no panic");
        *kinds = *kinds | observation.kind();
    }
}

#[test]
fn only_what_is_wanted_is_told() {
    let mut pair = Pair::new(&config(PolicyConfig::RoundRobin));
    let id = pair.open();
    let kinds = Arc::new(Kinds::default());
    let told = |pair: &mut Pair| {
        pair.send(id, b"a message");
        pair.settle();
        core::mem::take(&mut *kinds.0.lock().expect("no panic"))
    };
    // Without anybody to tell there is nothing to want.
    pair.a.session.observe_only(Observations::ALL);
    pair.a.session.observe(kinds.clone());
    let sent = Observations::MESSAGES_QUEUED
        | Observations::DECIDED
        | Observations::MESSAGES_ENCODED
        | Observations::BLOCK_ENCODED
        | Observations::BLOCKS_WRITTEN;
    assert!(told(&mut pair).contain(sent), "all, if nobody says what");
    for wanted in [
        Observations::NONE,
        Observations::MESSAGES_ENCODED,
        Observations::DECIDED | Observations::BLOCKS_WRITTEN,
        sent,
    ] {
        pair.a.session.observe_only(wanted);
        assert_eq!(told(&mut pair), wanted);
    }
}

#[test]
fn nothing_is_told_of_what_was_not_decided_or_decoded() {
    let lz4 = Arm::new(CodecId::LZ4, 0);
    for (arm, is_decoded) in [(Arm::IDENTITY, false), (lz4, true)] {
        let mut pair = Pair::new(&config(PolicyConfig::Fixed(arm)));
        let id = pair.open();
        let ears: [Arc<Kinds>; 2] = Default::default();
        pair.a.session.observe(ears[0].clone());
        pair.b.session.observe(ears[1].clone());
        pair.send(id, &[7; 1000]);
        pair.settle();
        let [sent, received] = ears.map(|kinds| *kinds.0.lock().expect("no panic"));
        assert!(sent.contain(Observations::BLOCK_ENCODED));
        assert!(received.contain(Observations::BLOCK_RECEIVED | Observations::MESSAGES_DECODED));
        assert!(!sent.contain(Observations::DECIDED), "there is one way");
        assert_eq!(received.contain(Observations::BLOCK_DECODED), is_decoded);
    }
}
