//! Prints which arm would carry some traffic best over links from 0.1 Mbit/s to 10 Gbit/s, and how
//! near the default policy comes to it.
//!
//! ```text
//! cargo run --release --all-features --example what_would_win [-- FILE]
//! ```
//!
//! A file is anything that the corpus readers take: a `.msgs` container, lines, JSON, a capture, a
//! directory. At most [`MAX_BYTES`] of it are used. Without one, the traffic is made up: signalling of
//! a mobile network. Links and processors are simulated, one processor a node with nothing else to
//! do; what the codecs cost is measured here first.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tautline::codecs::{Arm, info};
use tautline::control::PolicyConfig;
use tautline::corpus::Corpus;
use tautline::generate::{Content, Generator};
use tautline::sim::{CodecCosts, Experiment, LinkConfig, Pace, Traffic};
use tautline::units::{BytesPerSec, Time};

const ARMS: [&str; 11] = [
    "identity",
    "lz4",
    "snappy",
    "zstd:-3",
    "zstd:1",
    "zstd:3",
    "zstd:9",
    "zstd:19",
    "deflate:6",
    "bzip2:9",
    "xz:1",
];
const MEGABITS: [f64; 6] = [0.1, 1.0, 10.0, 100.0, 1e3, 1e4];
const GENERATED: usize = 20_000;
/// Plain bytes used, so that the strongest levels end within seconds.
const MAX_BYTES: usize = 4 << 20;

#[expect(
    clippy::disallowed_methods,
    reason = "a measuring program reads the clock"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let corpus = match std::env::args_os().nth(1) {
        Some(path) => Corpus::read(path, None)?,
        None => Corpus::new(
            "made-up signalling",
            Generator::new(Content::Telecom, 1)
                .take(GENERATED)
                .collect(),
        ),
    };
    let name = corpus.name().to_owned();
    let messages = first_bytes(corpus.into_messages());
    let plain: usize = messages.iter().map(Bytes::len).sum();
    let arms: Vec<Arm> = ARMS
        .iter()
        .map(|text| text.parse::<Arm>())
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .filter(|arm| info(arm.codec).is_some())
        .collect();
    let began = Instant::now();
    let clock = || Time::from_nanos(began.elapsed().as_nanos() as u64);
    let costs = CodecCosts::measured(&messages, &arms, clock)?;
    println!(
        "{name}: {} messages, {plain} bytes; costs of {} arms measured in {:.1?}",
        messages.len(),
        arms.len(),
        began.elapsed()
    );
    for pace in [Pace::Throughput, Pace::Latency] {
        println!();
        println!("{}", title(pace));
        println!();
        println!("| link | best | its time | uncompressed | default policy | of the best |");
        println!("|--:|---|--:|--:|--:|--:|");
        let began = Instant::now();
        let mut experiment = Experiment {
            costs: costs.clone(),
            ..Experiment::new(Traffic::new(messages.iter().cloned(), pace))
        };
        for megabits in MEGABITS {
            experiment.link = LinkConfig {
                rate: BytesPerSec::new(megabits * 125e3),
                ..LinkConfig::default()
            };
            let oracle = experiment.oracle(&arms)?;
            let (arm, best) = oracle.best();
            let none = experiment.run(PolicyConfig::None)?;
            let default = experiment.run(PolicyConfig::default())?;
            println!(
                "| {megabits} Mbit/s | {arm} | {} | {} | {} | {:.3} |",
                shown(best.cost()),
                shown(none.cost()),
                shown(default.cost()),
                default.efficiency(&oracle)
            );
        }
        let runs = MEGABITS.len() * (arms.len() + 2);
        println!();
        let took = began.elapsed();
        let rate = (runs * messages.len()) as f64 / took.as_secs_f64() / 1e3;
        println!(
            "({runs} runs in {took:.1?}: {rate:.0} messages in a millisecond, their encoding by real codecs included)"
        );
    }
    Ok(())
}

const fn title(pace: Pace) -> &'static str {
    match pace {
        Pace::Throughput => "All messages as fast as they go: time for all.",
        Pace::Latency | Pace::Paced(_) => "One message at a time: mean time of a message.",
    }
}

fn first_bytes(messages: Vec<Bytes>) -> Vec<Bytes> {
    let mut left = MAX_BYTES;
    messages
        .into_iter()
        .take_while(|message| {
            let fits = message.len() <= left;
            left = left.saturating_sub(message.len());
            fits
        })
        .collect()
}

fn shown(time: Duration) -> String {
    format!("{time:.3?}")
}
