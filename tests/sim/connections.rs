//! Many connections of a few messages each, one after the other.

use tautline::control::{PeerKnowledge, PolicyConfig};
use tautline::dictionary::{Acceptance, AcceptancePolicy, TrainerConfig};
use tautline::generate::{Content, Generator};
use tautline::session::{DictionaryMemory, SessionConfig};
use tautline::sim::{Experiment, LinkConfig, NodeConfig, Outcome, Pace, Traffic};
use tautline::units::BytesPerSec;

const CONNECTIONS: usize = 20;
const MESSAGES: usize = 20;

/// What each connection did, each beginning with what the one before has learned, and left if that is recalled.
fn connections(messages: &[bytes::Bytes], policy: PolicyConfig, recalls: bool) -> Vec<Outcome> {
    let mut trainer = TrainerConfig::default();
    trainer.min_messages = usize::MAX;
    let config = SessionConfig::default()
        .accept_dictionaries(AcceptancePolicy::new(Acceptance::Always))
        .train_dictionaries(Some(trainer))
        .recall_history(recalls);
    let mut knowledge = PeerKnowledge::default();
    let mut memories = <[DictionaryMemory; 2]>::default();
    let mut outcomes = Vec::new();
    for some in messages.chunks(MESSAGES) {
        let [sent, received] = memories.clone();
        let node = |session: SessionConfig, memory| NodeConfig {
            session: session.dictionary_memory(memory),
            ..NodeConfig::default()
        };
        let traffic = Traffic::new(some.iter().cloned(), Pace::Latency);
        let experiment = Experiment {
            a: node(config.clone().knowledge(knowledge), sent),
            b: node(config.clone(), received),
            link: LinkConfig {
                rate: BytesPerSec::new(1.25e6),
                ..LinkConfig::default()
            },
            ..Experiment::new(traffic)
        };
        let outcome = experiment.run(policy).expect("a run");
        knowledge = outcome.knowledge.clone();
        memories.clone_from(&outcome.dictionaries);
        outcomes.push(outcome);
    }
    outcomes
}

fn bytes(outcomes: &[Outcome]) -> u64 {
    outcomes.iter().map(|it| it.sessions[0].wire_sent).sum()
}

#[test]
fn what_is_recalled_spares_new_connections_more_than_a_tenth() {
    let generator = Generator::new(Content::Telecom, 3);
    let messages: Vec<_> = generator.take(CONNECTIONS * MESSAGES).collect();
    for policy in ["zstd:3+history", "cost"] {
        let policy: PolicyConfig = policy.parse().expect("a policy");
        let [with, without] = [true, false].map(|recalls| connections(&messages, policy, recalls));
        let later = |all: &[Outcome]| {
            all[1..]
                .iter()
                .map(|it| it.sessions[0].dictionaries.recalled)
                .sum()
        };
        let counts: [u64; 2] = [later(&with), later(&without)];
        assert_eq!(counts, [CONNECTIONS as u64 - 1, 0]);
        let (with, without) = (bytes(&with), bytes(&without));
        println!("{policy:?}: {with} bytes of {without}");
        assert!(10 * with < 9 * without, "{with} bytes of {without}");
    }
}

#[test]
fn the_rate_of_the_link_is_known_from_one_connection_to_the_next() {
    // All of one length: by themselves they show no rate.
    let messages: Vec<_> = Generator::new(Content::Logs, 3)
        .map(|message| message.iter().copied().cycle().take(200).collect())
        .take(CONNECTIONS * MESSAGES)
        .collect();
    let all = connections(&messages, PolicyConfig::default(), true);
    for outcome in &all[1..] {
        let rate = outcome.sessions[0].link_rate.expect("measured").get();
        assert!((rate / 1.25e6 - 1.0).abs() < 0.02, "{rate}");
        let plain: f64 = outcome.share(tautline::codecs::Arm::IDENTITY);
        assert!(plain < 0.1, "{plain} went as it is");
    }
}
