//! Connections of a block or two, one after another over a slow link: what the first ones show is all that the next can know.

use tautline::codecs::Arm;
use tautline::control::PolicyConfig;
use tautline::generate::Content;
use tautline::session::SessionConfig;
use tautline::sim::{Experiment, Pace, Traffic};

use crate::common::{megabits, messages};

/// Arms that are best by themselves somewhere on slow links.
const ARMS: [&str; 7] = [
    "zstd:9", "zstd:15", "zstd:19", "bzip2:9", "xz:1", "xz:3", "xz:6",
];
const CONNECTIONS: usize = 5;

/// What the best arm without history takes over what each of the connections takes, all with their default settings.
fn efficiencies(content: Content, bytes: usize, rate: f64) -> [f64; CONNECTIONS] {
    let traffic = Traffic::new(messages(content, bytes), Pace::Throughput);
    let mut experiment = Experiment {
        link: megabits(rate),
        ..Experiment::new(traffic)
    };
    let arms: Vec<Arm> = ARMS.map(|arm| arm.parse().expect("an arm")).to_vec();
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
    println!("| content | bytes | link | best alone | first connection, second .. |");
    println!("|---|--:|---|---|---|");
    for content in [Content::Telecom, Content::Events] {
        for bytes in [32 << 10, 64 << 10] {
            let found = efficiencies(content, bytes, 0.1);
            let later = &found[2..];
            assert!(later.iter().all(|share| *share > 0.98), "{found:?}");
        }
    }
}
