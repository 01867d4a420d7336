//! Prints what history is worth: ratio, time and memory of contexts by arm, block size and window;
//! and what it is best to do when the arm changes every few blocks.
//!
//! ```text
//! cargo run --release --all-features --example context_table [-- [--rows] FILE ...]
//! ```
//!
//! With `--rows` it prints the figures that the crate carries of arms with history instead, in the order of
//! their sources: over the corpora, the median of the times to encode and to decode and the mean
//! strength (the ratio's logarithm, in hundredths of that of zstd 1) in blocks of [`ROW_LENGTHS`]; the
//! slowest time to encode in those of [`PRIOR_LENGTHS`]; what a context takes to begin, to encode and to decode;
//! the median of the logarithm of zstd 1's ratio. Blocks are cut to the byte from the messages joined, the window is the default one.
//!
//! A file is anything that the corpus readers take; without one, the traffic is made up signalling. Each
//! corpus is passed once, at most [`MAX_BYTES`] of it, in blocks of one message or of as many, each
//! with a length of two bytes before it, as fill the size. Times are the smallest of [`ROUNDS`]
//! passes with contexts restarted between: good for ranks, not for gaps under a quarter.

use std::error::Error;
use std::time::Instant;

use tautline::codecs::{Arm, DecodeContext, EncodeContext};
use tautline::corpus::Corpus;
use tautline::generate::{Content, Generator};
use tautline::wire::MAX_PRIME;

const ARMS: [&str; 10] = [
    "lz4",
    "deflate:1",
    "deflate:6",
    "zstd:-5",
    "zstd:-3",
    "zstd:1",
    "zstd:3",
    "zstd:6",
    "zstd:9",
    "zstd:15",
];
/// A single message, then messages to so many bytes.
const BLOCK_SIZES: [usize; 4] = [0, 2 << 10, 16 << 10, 64 << 10];
const WINDOW_LOGS: [u8; 4] = [15, 17, 19, 20];
/// What changes places with what.
const SWITCHES: [[&str; 2]; 5] = [
    ["lz4", "zstd:1"],
    ["zstd:-3", "zstd:3"],
    ["zstd:1", "zstd:6"],
    ["zstd:1", "deflate:6"],
    ["zstd:3", "zstd:9"],
];
const SWITCH_EVERY: [usize; 3] = [4, 16, 64];
const PRIMES: [usize; 3] = [16 << 10, 32 << 10, 128 << 10];
const SWITCH_WINDOW_LOG: u8 = 17;
/// Every arm with history that the default policy has, and those between.
const ROW_ARMS: [&str; 18] = [
    "lz4",
    "zstd:-7",
    "zstd:-5",
    "zstd:-3",
    "zstd:-1",
    "zstd:1",
    "zstd:2",
    "zstd:3",
    "zstd:4",
    "zstd:5",
    "zstd:6",
    "zstd:7",
    "zstd:9",
    "zstd:12",
    "zstd:15",
    "zstd:19",
    "deflate:1",
    "deflate:6",
];
const ROW_LENGTHS: [usize; 3] = [256, 4 << 10, 64 << 10];
const PRIOR_LENGTHS: [usize; 2] = [256, 16 << 10];
const ROW_WINDOW_LOG: u8 = 19;
const ROUNDS: u32 = 3;
const BEGINS: u32 = 5;
/// Plain bytes used, so that the strongest level ends within seconds.
const MAX_BYTES: usize = 1 << 20;
const GENERATED: usize = 6000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut corpora = Vec::new();
    let mut rows = false;
    for argument in std::env::args_os().skip(1) {
        if argument == "--rows" {
            rows = true;
        } else {
            corpora.push(Corpus::read(argument, None)?);
        }
    }
    if corpora.is_empty() {
        let messages = Generator::new(Content::Telecom, 1).take(GENERATED);
        corpora.push(Corpus::new("made-up signalling", messages.collect()));
    }
    if rows {
        return print_rows(&corpora);
    }
    println!("Ratio, encode MB/s, decode MB/s; in blocks of one message also ns a message.\n");
    print!("| corpus | arm | block |");
    for log in WINDOW_LOGS {
        print!(" window 2^{log} |");
    }
    print!("\n|---|---|--:|");
    println!("{}", "---|".repeat(WINDOW_LOGS.len()));
    for corpus in &corpora {
        for arm in ARMS {
            for size in BLOCK_SIZES {
                let blocks = blocks(corpus, size);
                print!("| {} | {arm} | {} |", corpus.name(), label(size));
                for window_log in WINDOW_LOGS {
                    let cell = pass(arm.parse()?, window_log, &blocks)?;
                    print!(
                        " {:.2} {:.0}/{:.0}",
                        cell.ratio, cell.encode_rate, cell.decode_rate
                    );
                    if size == 0 {
                        let nanos = |rate: f64| cell.mean_len * 1e3 / rate;
                        print!(
                            " ({:.0}/{:.0} ns)",
                            nanos(cell.encode_rate),
                            nanos(cell.decode_rate)
                        );
                    }
                    print!(" |");
                }
                println!();
            }
        }
    }
    print_memory()?;
    print_switches(&corpora)
}

fn print_rows(corpora: &[Corpus]) -> Result<(), Box<dyn Error>> {
    let cut = |len: usize| -> Vec<Vec<Vec<u8>>> {
        let joined = corpora.iter().map(|corpus| corpus.messages().concat());
        let texts = joined.map(|text| text[..text.len().min(MAX_BYTES)].to_vec());
        let blocks = texts.map(|text| text.chunks_exact(len).map(<[u8]>::to_vec).collect());
        blocks.filter(|blocks: &Vec<_>| blocks.len() > 1).collect()
    };
    let measure = |arm: Arm, corpora: &[Vec<Vec<u8>>]| -> Result<Vec<Cell>, Box<dyn Error>> {
        let cells = corpora.iter();
        cells
            .map(|blocks| pass(arm, ROW_WINDOW_LOG, blocks))
            .collect()
    };
    let row_blocks = ROW_LENGTHS.map(cut);
    let prior_blocks = PRIOR_LENGTHS.map(cut);
    let mut levels = Vec::new();
    for blocks in &row_blocks {
        let cells = measure("zstd:1".parse()?, blocks)?;
        levels.push(cells.iter().map(|cell| cell.ratio.ln()).collect::<Vec<_>>());
    }
    let medians: Vec<_> = levels.iter().cloned().map(median).collect();
    println!("zstd 1: {medians:.2?}");
    for arm in ROW_ARMS {
        let arm: Arm = arm.parse()?;
        let (mut encode, mut decode, mut strength) = (Vec::new(), Vec::new(), Vec::new());
        for (blocks, levels) in row_blocks.iter().zip(&levels) {
            let cells = measure(arm, blocks)?;
            let nanos = |rate: fn(&Cell) -> f64| {
                median(
                    cells
                        .iter()
                        .map(|cell| cell.mean_len * 1e3 / rate(cell))
                        .collect(),
                )
            };
            encode.push(nanos(|cell| cell.encode_rate));
            decode.push(nanos(|cell| cell.decode_rate));
            let strengths = cells.iter().zip(levels);
            let sum: f64 = strengths.map(|(cell, level)| cell.ratio.ln() / level).sum();
            strength.push(100.0 * sum / cells.len() as f64);
        }
        let mut slowest = Vec::new();
        for blocks in &prior_blocks {
            let cells = measure(arm, blocks)?;
            let nanos = cells
                .iter()
                .map(|cell| cell.mean_len * 1e3 / cell.encode_rate);
            slowest.push(nanos.fold(0.0, f64::max));
        }
        let (encode_begin, decode_begin) = begin(arm, &row_blocks[ROW_LENGTHS.len() - 1])?;
        println!(
            "{arm}: {encode:.0?} {decode:.0?} {strength:.0?}; slowest {slowest:.0?}; begins {encode_begin:.0} {decode_begin:.0}"
        );
    }
    Ok(())
}

/// What a new context that begins with [`MAX_PRIME`] plain bytes takes at either end, ns: it and its first block, less
/// what the second one takes; the median over the corpora. Each has memory that was not used before.
fn begin(arm: Arm, corpora: &[Vec<Vec<u8>>]) -> Result<(f64, f64), Box<dyn Error>> {
    let (mut encode, mut decode) = (Vec::new(), Vec::new());
    let mut used = Vec::new();
    for blocks in corpora {
        let [before, first, second, ..] = blocks.as_slice() else {
            continue;
        };
        let prime = &before[before.len().saturating_sub(MAX_PRIME)..];
        let mut wires =
            [first, second].map(|of| Vec::with_capacity(EncodeContext::bound(of.len())));
        let mut plain = vec![1; first.len().max(second.len())];
        for _ in 0..BEGINS {
            let mut encoder = None;
            let mut nanos = [0.0; 2];
            for ((block, wire), nanos) in
                [first, second].into_iter().zip(&mut wires).zip(&mut nanos)
            {
                wire.clear();
                *nanos = timed(|| {
                    if encoder.is_none() {
                        encoder = Some(EncodeContext::new(arm, ROW_WINDOW_LOG, prime)?);
                    }
                    let encoder = encoder.as_mut().ok_or("no context")?;
                    encoder.encode(block, wire)?;
                    Ok(())
                })? as f64;
            }
            encode.push(nanos[0] - nanos[1]);
            let mut decoder = None;
            for ((block, wire), nanos) in [first, second].into_iter().zip(&wires).zip(&mut nanos) {
                *nanos = timed(|| {
                    if decoder.is_none() {
                        decoder = Some(DecodeContext::new(arm.codec, ROW_WINDOW_LOG, prime)?);
                    }
                    let decoder = decoder.as_mut().ok_or("no context")?;
                    decoder.decode_exact(wire, &mut plain[..block.len()])?;
                    Ok(())
                })? as f64;
            }
            decode.push(nanos[0] - nanos[1]);
            used.push((encoder, decoder));
        }
    }
    Ok((median(encode), median(decode)))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}

fn label(size: usize) -> String {
    match size {
        0 => "message".to_owned(),
        size => format!("{} KiB", size >> 10),
    }
}

/// The blocks that a sender would make of the messages.
fn blocks(corpus: &Corpus, size: usize) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut block: Vec<u8> = Vec::new();
    let mut total = 0;
    for message in corpus.messages() {
        if size == 0 {
            block.extend_from_slice(message);
            blocks.push(std::mem::take(&mut block));
        } else {
            if !block.is_empty() && block.len() + 2 + message.len() > size {
                blocks.push(std::mem::take(&mut block));
            }
            block.extend_from_slice(&(message.len() as u16).to_le_bytes());
            block.extend_from_slice(message);
        }
        total += message.len();
        if total > MAX_BYTES {
            break;
        }
    }
    if !block.is_empty() {
        blocks.push(block);
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

struct Cell {
    ratio: f64,
    /// Plain megabytes in a second.
    encode_rate: f64,
    decode_rate: f64,
    mean_len: f64,
}

fn pass(arm: Arm, window_log: u8, blocks: &[Vec<u8>]) -> Result<Cell, Box<dyn Error>> {
    let mut encoder = EncodeContext::new(arm, window_log, &[])?;
    let mut decoder = DecodeContext::new(arm.codec, window_log, &[])?;
    let plain_len: usize = blocks.iter().map(Vec::len).sum();
    let mut wire = Vec::with_capacity(EncodeContext::bound(plain_len));
    let mut lens = Vec::with_capacity(blocks.len());
    let encode_nanos = fastest(|| {
        encoder.restart(arm, &[])?;
        wire.clear();
        lens.clear();
        for block in blocks {
            lens.push(encoder.encode(block, &mut wire)?);
        }
        Ok(())
    })?;
    let mut plain = vec![0; blocks.iter().map(Vec::len).max().unwrap_or(0)];
    let decode_nanos = fastest(|| {
        decoder.restart(&[])?;
        let mut rest = wire.as_slice();
        for (block, len) in blocks.iter().zip(&lens) {
            let (body, more) = rest.split_at(*len);
            decoder.decode_exact(body, &mut plain[..block.len()])?;
            rest = more;
        }
        Ok(())
    })?;
    Ok(Cell {
        ratio: plain_len as f64 / wire.len() as f64,
        encode_rate: plain_len as f64 * 1e3 / encode_nanos as f64,
        decode_rate: plain_len as f64 * 1e3 / decode_nanos as f64,
        mean_len: plain_len as f64 / blocks.len() as f64,
    })
}

fn print_memory() -> Result<(), Box<dyn Error>> {
    println!("\nKB held to encode, to decode.\n");
    print!("| arm |");
    for log in WINDOW_LOGS {
        print!(" window 2^{log} |");
    }
    print!("\n|---|");
    println!("{}", "---|".repeat(WINDOW_LOGS.len()));
    for arm in ARMS {
        print!("| {arm} |");
        for window_log in WINDOW_LOGS {
            let arm: Arm = arm.parse()?;
            let mut encoder = EncodeContext::new(arm, window_log, &[])?;
            let mut decoder = DecodeContext::new(arm.codec, window_log, &[])?;
            let mut wire = Vec::new();
            encoder.encode(&[7; 100], &mut wire)?;
            decoder.decode_exact(&wire, &mut [0; 100])?;
            print!(" {} {} |", encoder.memory() / 1000, decoder.memory() / 1000);
        }
        println!();
    }
    Ok(())
}

/// When two arms take turns: contexts that each know their own blocks, or one restarted with the
/// last bytes of all.
fn print_switches(corpora: &[Corpus]) -> Result<(), Box<dyn Error>> {
    println!(
        "\nTwo arms in turns of k blocks, window 2^{SWITCH_WINDOW_LOG}: ratio @ encode MB/s, restarts included.\n"
    );
    print!("| corpus | arms | block | k | each its own |");
    for len in PRIMES {
        print!(" primed with {} KiB |", len >> 10);
    }
    print!("\n|---|---|--:|--:|---|");
    println!("{}", "---|".repeat(PRIMES.len()));
    for corpus in corpora {
        for arms in SWITCHES {
            for size in BLOCK_SIZES {
                let blocks = blocks(corpus, size);
                for every in SWITCH_EVERY {
                    if blocks.len() < 2 * every {
                        continue;
                    }
                    print!(
                        "| {} | {} {} | {} | {every} |",
                        corpus.name(),
                        arms[0],
                        arms[1],
                        label(size)
                    );
                    let parsed = [arms[0].parse()?, arms[1].parse()?];
                    print_cell(&blocks, |wire| keep(parsed, every, &blocks, wire))?;
                    for prime in PRIMES {
                        print_cell(&blocks, |wire| restart(parsed, every, prime, &blocks, wire))?;
                    }
                    println!();
                }
            }
        }
    }
    Ok(())
}

fn print_cell(
    blocks: &[Vec<u8>],
    work: impl Fn(&mut Vec<u8>) -> Result<u64, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let plain_len: usize = blocks.iter().map(Vec::len).sum();
    let mut wire = Vec::with_capacity(EncodeContext::bound(plain_len));
    let mut best = u64::MAX;
    for _ in 0..ROUNDS {
        wire.clear();
        best = best.min(work(&mut wire)?);
    }
    let ratio = plain_len as f64 / wire.len() as f64;
    print!(
        " {ratio:.2} @ {:.0} |",
        plain_len as f64 * 1e3 / best as f64
    );
    Ok(())
}

/// A context for each arm, which sees only its own blocks.
fn keep(
    arms: [Arm; 2],
    every: usize,
    blocks: &[Vec<u8>],
    wire: &mut Vec<u8>,
) -> Result<u64, Box<dyn Error>> {
    let mut contexts = [
        EncodeContext::new(arms[0], SWITCH_WINDOW_LOG, &[])?,
        EncodeContext::new(arms[1], SWITCH_WINDOW_LOG, &[])?,
    ];
    timed(|| {
        for (turn, blocks) in blocks.chunks(every).enumerate() {
            for block in blocks {
                contexts[turn % 2].encode(block, wire)?;
            }
        }
        Ok(())
    })
}

/// A context for each arm, which begins each turn with the last plain bytes of both.
fn restart(
    arms: [Arm; 2],
    every: usize,
    prime: usize,
    blocks: &[Vec<u8>],
    wire: &mut Vec<u8>,
) -> Result<u64, Box<dyn Error>> {
    let plain = blocks.concat();
    let mut sent = 0;
    let mut contexts = [
        EncodeContext::new(arms[0], SWITCH_WINDOW_LOG, &[])?,
        EncodeContext::new(arms[1], SWITCH_WINDOW_LOG, &[])?,
    ];
    timed(|| {
        for (turn, blocks) in blocks.chunks(every).enumerate() {
            let prime = &plain[sent - sent.min(prime)..sent];
            contexts[turn % 2].restart(arms[turn % 2], prime)?;
            for block in blocks {
                contexts[turn % 2].encode(block, wire)?;
                sent += block.len();
            }
        }
        Ok(())
    })
}

/// Nanoseconds of the fastest of [`ROUNDS`] calls.
fn fastest(mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<u64, Box<dyn Error>> {
    let mut best = u64::MAX;
    for _ in 0..ROUNDS {
        best = best.min(timed(&mut work)?);
    }
    Ok(best)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a measuring program reads the clock"
)]
fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<u64, Box<dyn Error>> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_nanos() as u64)
}
