//! Dictionaries over a link and processors in virtual time, with traffic that changes.

use std::time::Duration;

use bytes::Bytes;
use tautline::dictionary::{Acceptance, AcceptancePolicy, TrainerConfig};
use tautline::generate::{Content, Generator};
use tautline::session::SessionConfig;
use tautline::sim::{Experiment, LinkConfig, NodeConfig, Outcome, Pace, Traffic};
use tautline::units::BytesPerSec;

fn traffic(parts: &[(Content, usize)]) -> Vec<Bytes> {
    let parts = (1..).zip(parts);
    let all =
        parts.flat_map(|(seed, (content, count))| Generator::new(*content, seed).take(*count));
    all.collect()
}

fn run(messages: Vec<Bytes>, from: Acceptance) -> Outcome {
    let mut trainer = TrainerConfig::default();
    trainer.interval = Duration::from_millis(500);
    let session = SessionConfig::default()
        .history_memory(0)
        .accept_dictionaries(AcceptancePolicy::new(from))
        .train_dictionaries(Some(trainer));
    let node = || NodeConfig {
        session: session.clone(),
        ..NodeConfig::default()
    };
    // A link of 1 Mbit/s that is a quarter full: what a dictionary takes goes in between.
    let rate = |bits: f64| BytesPerSec::new(bits / 8.0).expect("above 0");
    let experiment = Experiment {
        a: node(),
        b: node(),
        link: LinkConfig {
            rate: Some(rate(1e6)),
            ..LinkConfig::default()
        },
        ..Experiment::new(Traffic::new(messages, Pace::Paced(rate(250e3))))
    };
    experiment
        .run("cost".parse().expect("a policy"))
        .expect("all arrives")
}

#[test]
fn traffic_that_changes_gets_another_dictionary_and_none_costs_more_than_it_brings() {
    let parts = [
        (Content::Telecom, 4000),
        (Content::Logs, 4000),
        (Content::Telecom, 1000),
    ];
    let messages = traffic(&parts);
    let with = run(messages.clone(), Acceptance::Always);
    let without = run(messages, Acceptance::Never);
    let made = with.sessions[0].dictionaries;
    println!(
        "{} bytes with dictionaries, {} without: {made:?}",
        with.wire_bytes, without.wire_bytes
    );
    assert_eq!(without.sessions[0].dictionaries.trainings, 0);
    assert!(made.accepted >= 2 && made.drifts >= 1, "{made:?}");
    assert!(made.blocks_sent > 3000, "{made:?}");
    assert_eq!(with.sessions[1].dictionaries.received, made.accepted);
    // Dictionaries and all that is said of them included.
    assert!(10 * with.wire_bytes < 8 * without.wire_bytes);
    // Nor do messages wait for them.
    assert!(with.mean() < without.mean());
    let late = |outcome: &Outcome| outcome.quantile(0.999);
    let piece = Duration::from_millis(2 * 8 * 2100 / 1000);
    assert!(late(&with) < late(&without) + piece, "{:?}", late(&with));
}
