//! Short connections, one after another over a slow link: what the first ones show is all that the next can know.

use tautline::codecs::Arm;
use tautline::control::PolicyConfig;
use tautline::generate::Content;
use tautline::session::SessionConfig;
use tautline::sim::{Experiment, Pace, Traffic};

use crate::common::{megabits, messages};

/// Arms that are best by themselves somewhere on slow links ..
const ALONE: [&str; 7] = [
    "zstd:9", "zstd:15", "zstd:19", "bzip2:9", "xz:1", "xz:3", "xz:6",
];
/// .. and with history.
const WITH_HISTORY: [&str; 4] = [
    "zstd:1+history",
    "zstd:6+history",
    "zstd:9+history",
    "zstd:15+history",
];
const CONNECTIONS: usize = 5;

/// What the best of some arms takes over what each of the connections takes, all with their default settings.
fn efficiencies(content: Content, bytes: usize, rate: f64, arms: &[&str]) -> [f64; CONNECTIONS] {
    let traffic = Traffic::new(messages(content, bytes), Pace::Throughput);
    let mut experiment = Experiment {
        link: megabits(rate),
        ..Experiment::new(traffic)
    };
    let arms = arms.iter().map(|arm| arm.parse().expect("an arm"));
    let arms: Vec<Arm> = arms.collect();
    let oracle = experiment.oracle(&arms).expect("runs");
    let (arm, best) = oracle.best();
    let found = [(); CONNECTIONS].map(|()| {
        let run = experiment.run(PolicyConfig::default()).expect("a run");
        experiment.a.session = SessionConfig::default().knowledge(run.knowledge.clone());
        best.cost().as_secs_f64() / run.cost().as_secs_f64()
    });
    println!("| {content} | {bytes} | {rate} Mbit/s | {arm} | {found:.3?} |");
    found
}

#[test]
fn what_connections_of_one_block_show_is_enough_to_find_the_best_arm() {
    println!("| content | bytes | link | best | first connection, second .. |");
    println!("|---|--:|---|---|---|");
    for content in [Content::Telecom, Content::Events] {
        for bytes in [32 << 10, 64 << 10] {
            let found = efficiencies(content, bytes, 0.1, &ALONE);
            let later = &found[3..];
            assert!(later.iter().all(|share| *share > 0.98), "{found:?}");
        }
    }
}

#[test]
fn a_history_begins_where_the_short_rest_of_a_message_gains_by_it() {
    let all = [&ALONE[..], &WITH_HISTORY].concat();
    // One block of 64 KiB and one of 5: without the first, the second takes as much of the link.
    let found = efficiencies(Content::Metrics, 64 << 10, 0.1, &all);
    let later = &found[1..];
    assert!(later.iter().all(|share| *share > 0.92), "{found:?}");
}

#[test]
fn the_history_that_begins_is_one_for_all_that_follows() {
    let all = [&ALONE[..], &WITH_HISTORY].concat();
    for content in [Content::Telecom, Content::Events, Content::Logs] {
        let found = efficiencies(content, 400 << 10, 1.0, &all);
        let later = &found[2..];
        assert!(later.iter().all(|share| *share > 0.99), "{found:?}");
    }
}

#[test]
fn a_first_connection_sends_little_before_it_knows_a_slow_link() {
    let arms = [
        "lz4",
        "zstd:1",
        "zstd:9",
        "lz4+history",
        "zstd:1+history",
        "zstd:9+history",
    ];
    for (rate, bytes) in [(1.0, 128 << 10), (10.0, 600 << 10), (100.0, 4 << 20)] {
        let contents = [
            Content::Telecom,
            Content::Events,
            Content::Logs,
            Content::Metrics,
        ];
        let first = contents.map(|content| efficiencies(content, bytes, rate, &arms)[0]);
        let mean = first.iter().product::<f64>().powf(0.25);
        println!("{rate} Mbit/s: {mean:.3}");
        // Of 128 KiB an eighth is sent before anything is known.
        let least = if rate > 1.0 { 0.96 } else { 0.86 };
        assert!(mean > least, "{rate} Mbit/s: {first:?}");
    }
}
