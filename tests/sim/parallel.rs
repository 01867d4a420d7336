//! Several blocks encoded at once, where a codec is what takes longest.

use tautline::codecs::Arm;
use tautline::control::{PolicyConfig, Processors};
use tautline::generate::Content;
use tautline::session::SessionConfig;
use tautline::sim::{Experiment, NodeConfig, Outcome, Pace, Traffic};

use crate::common::{megabits, messages};

/// A sender with so many encoders on so many processors; the second of two connections, which knows what the first has learned.
fn run(
    policy: PolicyConfig,
    session: &SessionConfig,
    (encoders, processors): (usize, f64),
    (content, bytes, rate): (Content, usize, f64),
) -> Outcome {
    let run = |session: SessionConfig| {
        let mut a = NodeConfig {
            session,
            ..NodeConfig::default()
        };
        a.cpu.encoders = encoders;
        a.cpu.processors = Processors::new(processors).expect("above zero");
        let mut b = NodeConfig::default();
        b.cpu.processors = Processors::new(8.0).expect("above zero");
        let traffic = Traffic::new(messages(content, bytes), Pace::Throughput);
        let experiment = Experiment {
            a,
            b,
            link: megabits(rate),
            ..Experiment::new(traffic)
        };
        experiment.run(policy).expect("a run")
    };
    let first = run(session.clone());
    run(session.clone().knowledge(first.knowledge))
}

fn stateless() -> SessionConfig {
    let arms = [
        "snappy", "lz4", "zstd:-1", "zstd:1", "zstd:3", "zstd:6", "zstd:9", "xz:3",
    ];
    let arms = arms.map(|arm| arm.parse::<Arm>().expect("an arm"));
    SessionConfig::default().arms(arms.to_vec())
}

#[test]
fn where_encoding_takes_longest_several_encoders_are_as_many_times_as_fast() {
    for arm in ["zstd:9", "xz:3"] {
        let policy = PolicyConfig::Fixed(arm.parse().expect("an arm"));
        let of = |encoders| {
            let traffic = (Content::Telecom, 12_000_000, 10_000.0);
            run(policy, &SessionConfig::default(), (encoders, 6.0), traffic)
        };
        let [one, two, four] = [1, 2, 4]
            .map(of)
            .map(|outcome| outcome.duration.as_secs_f64());
        println!("{arm}: {one:.3} s, {two:.3}, {four:.3}");
        assert!(one / two > 1.8, "{arm}: {one} and {two}");
        // All of a wave must be out before the next.
        assert!(one / four > 2.8, "{arm}: {one} and {four}");
    }
}

#[test]
fn the_decision_reckons_with_encoders_and_with_processors_that_are_not_there() {
    let mut gains = Vec::new();
    for rate in [30.0, 100.0, 300.0, 1000.0] {
        for content in [Content::Telecom, Content::Events] {
            let of = |encoders, processors| {
                let traffic = (content, 8_000_000, rate);
                let encoders = (encoders, processors);
                run(PolicyConfig::default(), &stateless(), encoders, traffic)
            };
            let seconds = |outcome: &Outcome| outcome.duration.as_secs_f64();
            let [one, four, crowded] = [of(1, 6.0), of(4, 6.0), of(4, 1.0)];
            let alone = of(1, 1.0);
            println!(
                "{content} at {rate} Mbit/s: one {:.3} s, four {:.3}; on one processor {:.3} and {:.3}; wire {} and {}",
                seconds(&one),
                seconds(&four),
                seconds(&alone),
                seconds(&crowded),
                one.wire_bytes,
                four.wire_bytes,
            );
            let [one, four] = [one, four].map(|outcome| seconds(&outcome));
            let [alone, crowded] = [alone, crowded].map(|outcome| seconds(&outcome));
            assert!(four < 1.005 * one, "{content} at {rate}: {one} and {four}");
            assert!(
                crowded < 1.06 * alone,
                "{content} at {rate}, one processor: {alone} and {crowded}"
            );
            gains.push(one / four);
        }
    }
    let most = gains.into_iter().fold(0.0, f64::max);
    assert!(most > 1.25, "{most}");
}
