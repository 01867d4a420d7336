//! Whether two counters that a log has tell the same of a load, at thresholds 1 and 3: blocks that a socket took and payload that was delivered, every
//! 20 ms, 500 times (Stöß 2005, section 5.3.3: IPC and references to shared memory; section 5.3.1: how many rows an interval has).
//!
//! `cargo bench --features eventlog --bench eventlog_correlation [-- --quick]`

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark measures time and prints it"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use tautline::control::PolicyConfig;
use tautline::eventlog::{EventId, EventLog, Route};
use tautline::session::{SessionConfig, StreamConfig};
use tautline::transport::{Address, Node, NodeConfig, events};
use tokio::runtime::{Builder, Runtime};

#[path = "support/log_lines.rs"]
mod log_lines;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The source's.
const PERIOD: Duration = Duration::from_millis(20);
const SAMPLES: usize = 500;
/// Lengths of files in the source's load are 500 bytes to 1 MiB; here messages, in the memory of a stream.
const SHORTEST: f64 = 500.0;
const LONGEST: f64 = 100_000.0;

/// What an interval had.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    blocks: u64,
    block_rows: usize,
    payload: u64,
    payload_rows: usize,
}

/// Bursts of messages of all lengths, whose size and distance change every few hundred milliseconds: the same of each seed, but for the time they take.
async fn load(
    address: Address,
    node: Node,
    is_over: Arc<AtomicBool>,
    seed: u64,
) -> Result<(), Error> {
    let connection = node.connect(&address).await?;
    let stream = connection.open("load", StreamConfig::default()).await?;
    let text = Bytes::from(log_lines::log_lines(LONGEST as usize, 7));
    let mut rng = Rng::with_seed(seed);
    while !is_over.load(Ordering::Relaxed) {
        let (burst, pause) = (rng.usize(1..24), rng.u64(1..4));
        let phase = Instant::now();
        let length = Duration::from_millis(rng.u64(100..400));
        while phase.elapsed() < length && !is_over.load(Ordering::Relaxed) {
            for _ in 0..rng.usize(1..=burst) {
                let len = SHORTEST * (LONGEST / SHORTEST).powf(rng.f64());
                stream.send(text.slice(..len as usize)).await?;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
    Ok(())
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// One run: what `samples` intervals had, with every `threshold`-th delivery recorded.
fn run(threshold: u32, samples: usize, seed: u64) -> Result<Vec<Sample>, Error> {
    let log = EventLog::new(&events::config(events::DEFAULT_RING))?;
    let route = Route::to(events::LOG);
    log.route(events::BLOCK_WRITTEN, None, Some(route))?;
    log.route(
        events::MESSAGE_DELIVERED,
        None,
        Some(route.every(threshold)),
    )?;
    let node = {
        let log = log.clone();
        move || {
            let session = SessionConfig::default().policy(PolicyConfig::None);
            let config = NodeConfig::default().session(session).guard(None);
            Node::new(config.event_log(log.clone()))
        }
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let (address, bound) = mpsc::channel();
    let server = node.clone();
    thread::spawn(move || -> Result<(), Error> {
        runtime()?.block_on(async {
            let listener = server()?.listen(&"127.0.0.1:0".parse()?).await?;
            address.send(listener.local_address()?)?;
            let connection = listener.accept().await?;
            let Some(stream) = connection.accept().await? else {
                return Ok(());
            };
            while stream.recv().await?.is_some() {}
            Ok(())
        })
    });
    let address = bound.recv()?;
    let client = {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || {
            runtime()?.block_on(async { load(address, node()?, is_over, seed).await })
        })
    };
    let mut reader = log.reader();
    let mut rows = Vec::new();
    let mut all = Vec::with_capacity(samples);
    // The first is of what there was before.
    let begun = Instant::now();
    for number in 0..=samples as u32 {
        thread::sleep((begun + PERIOD * (number + 5)).saturating_duration_since(Instant::now()));
        rows.clear();
        reader.pass(&mut rows)?;
        let mut sample = Sample::default();
        for row in &rows {
            let counter = row.counter.unwrap_or_default();
            if is(row.event, events::BLOCK_WRITTEN) {
                sample.blocks += counter;
                sample.block_rows += 1;
            } else {
                sample.payload += counter;
                sample.payload_rows += 1;
            }
        }
        if number > 0 {
            all.push(sample);
        }
    }
    is_over.store(true, Ordering::Relaxed);
    client.join().map_err(|_| "the load has panicked")??;
    assert_eq!(reader.stats().lost, 0, "rings are long enough");
    Ok(all)
}

fn is(event: Option<EventId>, other: EventId) -> bool {
    event == Some(other)
}

/// Pearson's.
fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for pair in pairs {
        let (dx, dy) = (pair.0 - x, pair.1 - y);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    xy / (xx * yy).sqrt()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Error> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    let (samples, repeats) = match (is_test, quick) {
        (true, _) => (10, 1),
        (_, true) => (100, 3),
        _ => (SAMPLES, 5),
    };
    println!(
        "Blocks that a socket took and payload delivered, {samples} samples of {} ms, medians of {repeats} runs, which take turns\n",
        PERIOD.as_millis()
    );
    println!(
        "| deliveries recorded | correlation of a sample's | of ten samples' sums | least and most of the runs | rows an interval: of blocks, mean and most | of deliveries | payload seen |\n|---|--:|--:|---|---|---|--:|"
    );
    let mut runs = [Vec::new(), Vec::new()];
    for repeat in 0..repeats {
        for (runs, threshold) in runs.iter_mut().zip([1, 3]) {
            runs.push(run(threshold, samples, repeat)?);
        }
    }
    let payload = |run: &Vec<Sample>| run.iter().map(|sample| sample.payload).sum::<u64>() as f64;
    // How much the load sends in its time varies from run to run, and what of it is said per block does not.
    let share = |run: &Vec<Sample>| {
        let blocks: u64 = run.iter().map(|sample| sample.blocks).sum();
        payload(run) / blocks as f64
    };
    let whole = median(runs[0].iter().map(share).collect());
    for (runs, name) in runs.iter().zip(["each", "every third"]) {
        let of = |run: &Vec<Sample>, length: usize| {
            let pairs: Vec<_> = run
                .chunks(length)
                .map(|some| {
                    let blocks: u64 = some.iter().map(|sample| sample.blocks).sum();
                    let payload: u64 = some.iter().map(|sample| sample.payload).sum();
                    (blocks as f64, payload as f64)
                })
                .collect();
            correlation(&pairs)
        };
        let each: Vec<_> = runs.iter().map(|run| of(run, 1)).collect();
        let tens = runs.iter().map(|run| of(run, 10)).collect();
        let rows = |of: fn(&Sample) -> usize| {
            let all = || runs.iter().flatten().map(of);
            let mean = all().sum::<usize>() as f64 / all().count() as f64;
            format!("{mean:.0}, {}", all().max().unwrap_or_default())
        };
        println!(
            "| {name} | {:.3} | {:.3} | {:.3} to {:.3} | {} | {} | {:.3} |",
            median(each.clone()),
            median(tens),
            each.iter().copied().fold(f64::INFINITY, f64::min),
            each.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rows(|sample| sample.block_rows),
            rows(|sample| sample.payload_rows),
            median(runs.iter().map(share).collect()) / whole,
        );
    }
    Ok(())
}
