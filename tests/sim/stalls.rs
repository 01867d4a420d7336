//! Nodes whose scheduler lets them wait now and then, as any machine's does: what comes late by that is no slow link, and what
//! it makes the best choice for a moment is not kept.

use std::time::Duration;

use tautline::control::{PolicyConfig, Processors};
use tautline::generate::Content;
use tautline::sim::{At, Change, End, Experiment, Outcome, Pace, Traffic};
use tautline::units::BytesPerSec;

use crate::common::{megabits, messages};

/// Traffic at half of a link of so many Mbit/s. Every wake takes 20 µs of processor time; about `every` so long, other services
/// leave so little of a processor to a node that those who wake in that moment take about `stall`.
fn stalling(
    content: Content,
    bytes: usize,
    rate: f64,
    every: Duration,
    stall: Duration,
) -> Experiment {
    const HANDLING: Duration = Duration::from_micros(20);
    const MOMENT: Duration = Duration::from_micros(200);
    let pace = BytesPerSec::new(rate * 125e3 / 2.0).expect("a rate");
    let mut experiment = Experiment {
        link: megabits(rate),
        ..Experiment::new(Traffic::new(messages(content, bytes), Pace::Paced(pace)))
    };
    for node in [&mut experiment.a, &mut experiment.b] {
        node.cpu.processors = Processors::new(2.0).expect("above zero");
        node.cpu.handling = HANDLING;
    }
    let mut random = fastrand::Rng::with_seed(7);
    let mut at = Duration::ZERO;
    while at.as_secs_f64() < bytes as f64 / pace.get() {
        at += every.mul_f64(0.5 + random.f64());
        let end = if random.bool() { End::A } else { End::B };
        let busy = 2.0 * stall.div_duration_f64(HANDLING) * (0.5 + random.f64());
        let changes = [(at, busy), (at + MOMENT, 0.0)];
        let changes = changes.map(|(at, busy)| (At::Time(at), Change::Background(end, busy)));
        experiment.changes.extend(changes);
    }
    experiment
}

/// Traffic at half of 10 Mbit/s, on nodes whose wakes take 40 to 400 µs, as it happens: more than what a message takes on the link.
fn noisy(seed: u64) -> Outcome {
    let pace = BytesPerSec::new(5.0 * 125e3).expect("a rate");
    let traffic = Traffic::new(messages(Content::Telecom, 1_600_000), Pace::Paced(pace));
    let mut experiment = Experiment {
        link: megabits(10.0),
        ..Experiment::new(traffic)
    };
    for node in [&mut experiment.a, &mut experiment.b] {
        node.cpu.processors = Processors::new(2.0).expect("above zero");
        node.cpu.handling = Duration::from_micros(40);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    for micros in (0..2_560_000).step_by(500) {
        for end in [End::A, End::B] {
            let busy = (60.0 * random.f64() - 40.0).max(0.0);
            let at = At::Time(Duration::from_micros(micros));
            experiment.changes.push((at, Change::Background(end, busy)));
        }
    }
    experiment.run(PolicyConfig::default()).expect("a run")
}

#[test]
fn a_link_shows_itself_above_the_noise_of_wakes() {
    for seed in 0..5 {
        let outcome = noisy(seed);
        let rate = outcome.sessions[0].link_rate.map(|rate| rate.get() / 125e3);
        println!("seed {seed}: {rate:.2?} Mbit/s");
        let rate = rate.expect("measured");
        assert!((7.0..12.0).contains(&rate), "seed {seed}: {rate:.2} Mbit/s");
    }
}

fn run(content: Content, bytes: usize, rate: f64, every: u64, stall: u64) -> Outcome {
    let (every, stall) = (Duration::from_millis(every), Duration::from_millis(stall));
    let experiment = stalling(content, bytes, rate, every, stall);
    experiment.run(PolicyConfig::default()).expect("a run")
}

#[test]
fn stalls_of_nodes_are_not_taken_for_a_slow_link() {
    for (every, stall) in [(30, 2), (30, 5), (30, 10), (100, 5), (100, 20)] {
        let outcome = run(Content::Telecom, 400_000, 10.0, every, stall);
        let rate = outcome.sessions[0].link_rate.expect("measured").get() / 125e3;
        println!("stalls of {stall} ms every {every} ms: {rate:.2} Mbit/s");
        assert!(
            (6.0..12.0).contains(&rate),
            "{stall} ms every {every} ms: {rate:.2} Mbit/s"
        );
    }
}

#[test]
fn what_a_stall_had_chosen_is_not_kept() {
    for (every, stall) in [(30, 5), (30, 10), (100, 5), (100, 20)] {
        let outcome = run(Content::Events, 1_200_000, 100.0, every, stall);
        let regret = outcome.stream.regret.div_duration_f64(outcome.duration);
        println!("stalls of {stall} ms every {every} ms: regret {regret:.4} of the time");
        assert!(regret < 0.02, "{stall} ms every {every} ms: {regret:.4}");
    }
}
