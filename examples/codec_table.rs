//! Prints what every arm of this build gains and costs, as a Markdown table.
//!
//! ```text
//! cargo run --release --all-features --example codec_table [-- FILE.msgs ...]
//! ```
//!
//! A `.msgs` file holds messages, each as a 32-bit little-endian length and that many bytes. They
//! are joined in order and cut into chunks of 256 B, 1 KiB and 16 KiB. Without a file, the text is
//! generated log lines. What does not shrink counts as sent plain. Times are the smallest of several
//! rounds, a few milliseconds a cell: good for ranks, not for gaps under a quarter.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tautline::codecs::{Arm, CodecInfo, Codecs, Encoded, supported};

#[path = "../benches/support/log_lines.rs"]
mod log_lines;

const SIZES: [usize; 3] = [256, 1024, 16 * 1024];
/// A round takes about so long; rounds are repeated [`ROUNDS`] times.
const ROUND_NANOS: u64 = 1_000_000;
const ROUNDS: u32 = 5;
/// The chunks of a cell are spread over the text; more than the lower number even if a round takes
/// longer then.
const CHUNKS: (usize, usize) = (4, 256);
/// Enough for the largest number of the largest chunks.
const GENERATED_LEN: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut corpora = Vec::new();
    for name in std::env::args_os().skip(1) {
        let path = Path::new(&name);
        let label = path.file_stem().unwrap_or(&name).to_string_lossy();
        corpora.push((label.into_owned(), join_messages(&std::fs::read(path)?)?));
    }
    if corpora.is_empty() {
        let text = log_lines::log_lines(GENERATED_LEN, 1);
        corpora.push(("log lines".to_owned(), text));
    }
    println!(
        "| codec | corpus | chunk B | ratio | encode MB/s | decode MB/s | encode ns | decode ns |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for arm in supported().iter().flat_map(CodecInfo::arms) {
        let mut codecs = Codecs::new();
        for (label, text) in &corpora {
            for size in SIZES {
                if let Some(cell) = measure(&mut codecs, arm, text, size)? {
                    print_row(arm, label, size, &cell);
                }
            }
        }
    }
    Ok(())
}

/// The messages of a `.msgs` file, one after another.
fn join_messages(mut file: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut joined = Vec::with_capacity(file.len());
    while let Some((len, rest)) = file.split_first_chunk() {
        let len = u32::from_le_bytes(*len) as usize;
        let (message, rest) = rest
            .split_at_checked(len)
            .ok_or_else(|| format!("a message of {len} bytes, but only {} left", rest.len()))?;
        joined.extend_from_slice(message);
        file = rest;
    }
    if file.is_empty() {
        Ok(joined)
    } else {
        Err("the last length is cut short".into())
    }
}

/// An arm at a chunk size.
struct Cell {
    ratio: f64,
    encode_nanos: f64,
    /// `None` where no chunk shrank.
    decode_nanos: Option<f64>,
}

fn print_row(arm: Arm, label: &str, size: usize, cell: &Cell) {
    let rate = |nanos: f64| format!("{:.0}", size as f64 * 1e3 / nanos);
    let (decode_rate, decode_nanos) = match cell.decode_nanos {
        Some(nanos) => (rate(nanos), format!("{nanos:.0}")),
        None => ("-".to_owned(), "-".to_owned()),
    };
    println!(
        "| {arm} | {label} | {size} | {:.2} | {} | {decode_rate} | {:.0} | {decode_nanos} |",
        cell.ratio,
        rate(cell.encode_nanos),
        cell.encode_nanos,
    );
}

/// `None` if the text has no chunk of this size.
fn measure(
    codecs: &mut Codecs,
    arm: Arm,
    text: &[u8],
    size: usize,
) -> Result<Option<Cell>, Box<dyn Error>> {
    let mut wire = vec![0; 2 * size + 64];
    let all: Vec<_> = text.chunks_exact(size).collect();
    let Some(first) = all.first() else {
        return Ok(None);
    };
    let once = fastest(3, || codecs.encode(arm, first, &mut wire).map(drop))?;
    let count = ((ROUND_NANOS / once.max(1)) as usize).clamp(CHUNKS.0, CHUNKS.1);
    let chunks: Vec<_> = all.iter().step_by(all.len().div_ceil(count)).collect();

    let encode_nanos = fastest(ROUNDS, || {
        chunks
            .iter()
            .try_for_each(|chunk| codecs.encode(arm, chunk, &mut wire).map(drop))
    })?;

    let mut sent = 0;
    let mut wires = Vec::new();
    for chunk in &chunks {
        match codecs.encode(arm, chunk, &mut wire)? {
            Encoded::Written(len) => {
                sent += len;
                wires.push(wire[..len].to_vec());
            }
            Encoded::NotSmaller => sent += size,
        }
    }
    let mut plain = vec![0; size];
    let decode_nanos = fastest(ROUNDS, || {
        wires
            .iter()
            .try_for_each(|wire| codecs.decode_exact(arm.codec, wire, &mut plain))
    })?;
    Ok(Some(Cell {
        ratio: (chunks.len() * size) as f64 / sent as f64,
        encode_nanos: encode_nanos as f64 / chunks.len() as f64,
        decode_nanos: (!wires.is_empty()).then(|| decode_nanos as f64 / wires.len() as f64),
    }))
}

/// Nanoseconds of the fastest of `rounds` calls.
#[expect(
    clippy::disallowed_methods,
    reason = "a measuring program reads the clock"
)]
fn fastest<E>(rounds: u32, mut work: impl FnMut() -> Result<(), E>) -> Result<u64, E> {
    let mut best = u64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_nanos() as u64);
    }
    Ok(best)
}
