//! Prints what dictionaries gain and cost on recorded messages, as Markdown tables.
//!
//! ```text
//! cargo run --release --features full --example dictionary_table -- FILE.msgs ...
//! ```
//!
//! The last 2000 messages of a file stand for the first 20 of 100 connections; dictionaries are made
//! of the messages before them. Ratios are of plain bytes to bodies, each message by itself.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use tautline::codecs::{Arm, CodecId, CodecInfo, Codecs, Encoded, supported};
use tautline::corpus::Corpus;
use tautline::dictionary::{Dictionary, TrainConfig, evaluate, rare_bytes, train};

const HELD_OUT: usize = 2000;
const ARMS: [Arm; 5] = [
    Arm::new(CodecId::LZ4, 0),
    Arm::new(CodecId::ZSTD, -1),
    Arm::new(CodecId::ZSTD, 1),
    Arm::new(CodecId::ZSTD, 3),
    Arm::new(CodecId::ZSTD, 19),
];

fn main() -> Result<(), Box<dyn Error>> {
    for name in std::env::args_os().skip(1) {
        let path = Path::new(&name);
        let corpus = Corpus::read(path, None)?;
        let label = path.file_stem().unwrap_or(&name).to_string_lossy();
        let messages = corpus.messages();
        let (samples, held_out) = messages.split_at(messages.len().saturating_sub(HELD_OUT));
        println!("\n## {label}: {} messages to train on\n", samples.len());
        let (arm, best) = best_stateless(held_out)?;
        println!("best without a dictionary: {arm}, {best:.2}\n");
        sizes(samples, held_out)?;
        rule(samples, held_out)?;
        times(samples)?;
    }
    Ok(())
}

fn best_stateless(held_out: &[Bytes]) -> Result<(Arm, f64), Box<dyn Error>> {
    let mut codecs = Codecs::new();
    let plain: usize = held_out.iter().map(Bytes::len).sum();
    let mut best = (Arm::IDENTITY, 1.0);
    for arm in supported().iter().flat_map(CodecInfo::arms) {
        let mut wire = 0;
        for message in held_out {
            wire += match codecs.encode(arm, message, &mut vec![0; message.len()])? {
                Encoded::Written(len) => len,
                Encoded::NotSmaller => message.len(),
            };
        }
        let ratio = plain as f64 / wire as f64;
        if ratio > best.1 {
            best = (arm, ratio);
        }
    }
    Ok(best)
}

fn row(label: &str, dictionary: &Dictionary, held_out: &[Bytes]) -> Result<(), Box<dyn Error>> {
    print!("| {label} | {} |", dictionary.len());
    let mut codecs = Codecs::new();
    let mut cost = 0;
    for arm in ARMS {
        let evaluation = evaluate(&mut codecs, dictionary, held_out, arm)?;
        cost = evaluation.cost;
        let even = evaluation.break_even_messages();
        let even = even.map_or_else(|| "-".to_owned(), |messages| messages.to_string());
        print!(" {:.2} ({even}) |", evaluation.ratio_with());
    }
    println!(" {cost} |");
    Ok(())
}

fn head(first: &str) {
    print!("| {first} | bytes |");
    for arm in ARMS {
        print!(" {arm} |");
    }
    println!(" sent as |\n|---|--:|--:|--:|--:|--:|--:|--:|");
}

fn sizes(samples: &[Bytes], held_out: &[Bytes]) -> Result<(), Box<dyn Error>> {
    head("up to");
    for max_len in [1, 2, 4, 8, 16, 32, 64, 112] {
        let config = TrainConfig::default().with_max_len(max_len << 10);
        row(
            &format!("{max_len} KiB"),
            &train(samples, &config)?,
            held_out,
        )?;
    }
    println!();
    Ok(())
}

/// What the rule of distinct messages costs, and what zstd's own trainer makes.
fn rule(samples: &[Bytes], held_out: &[Bytes]) -> Result<(), Box<dyn Error>> {
    head("at least");
    for min_sources in [1, 2, 3, 5, 10] {
        let config = TrainConfig::default().with_min_sources(min_sources);
        let dictionary = train(samples, &config)?;
        row(&format!("{min_sources} messages"), &dictionary, held_out)?;
    }
    let lens: Vec<_> = samples.iter().map(Bytes::len).collect();
    let mut content = vec![0; TrainConfig::default().max_len];
    let len = zstd_safe::train_from_buffer(&mut content[..], &samples.concat(), &lens)
        .map_err(zstd_safe::get_error_name)?;
    content.truncate(len);
    let dictionary = Dictionary::new(content)?;
    row("zstd's trainer, no rule", &dictionary, held_out)?;
    let rare = rare_bytes(dictionary.content(), samples, 3);
    println!("\nof the last one's bytes, {rare} are in a substring of fewer than 3 messages\n");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "an example may read the clock")]
fn times(samples: &[Bytes]) -> Result<(), Box<dyn Error>> {
    let joined = samples.concat();
    let chunks: Vec<_> = joined.chunks_exact(256).take(256).collect();
    let began = Instant::now();
    let dictionary = train(samples, &TrainConfig::default())?;
    let took = began.elapsed();
    let looked_at = joined.len().min(TrainConfig::default().max_sample_bytes);
    println!("training: {took:.1?} for {looked_at} bytes\n");
    println!(
        "| arm | without: encode, decode ns at 256 B | with | first call, µs | KB to encode, decode |\n|---|--:|--:|--:|--:|"
    );
    for arm in ARMS {
        let mut codecs = Codecs::new();
        let began = Instant::now();
        codecs.encode_with(arm, &dictionary, chunks[0], &mut [0; 256])?;
        let first = began.elapsed().as_nanos() / 1000;
        let (mut cells, mut best) = (Vec::new(), [[f64::MAX; 2]; 2]);
        for _ in 0..20 {
            for (with, best) in [false, true].into_iter().zip(&mut best) {
                cells.clear();
                let began = Instant::now();
                for chunk in &chunks {
                    let mut wire = [0; 256];
                    let encoded = if with {
                        codecs.encode_with(arm, &dictionary, chunk, &mut wire)?
                    } else {
                        codecs.encode(arm, chunk, &mut wire)?
                    };
                    if let Encoded::Written(len) = encoded {
                        cells.push((wire, len));
                    }
                }
                best[0] = best[0].min(began.elapsed().as_nanos() as f64 / chunks.len() as f64);
                let began = Instant::now();
                for (wire, len) in &cells {
                    let mut back = [0; 256];
                    if with {
                        codecs.decode_with(arm.codec, &dictionary, &wire[..*len], &mut back)?;
                    } else {
                        codecs.decode(arm.codec, &wire[..*len], &mut back)?;
                    }
                }
                let count = cells.len().max(1) as f64;
                best[1] = best[1].min(began.elapsed().as_nanos() as f64 / count);
            }
        }
        let [[e0, d0], [e1, d1]] = best;
        let [to_encode, to_decode] = memory(arm, &dictionary, chunks[0])?;
        println!(
            "| {arm} | {e0:.0}, {d0:.0} | {e1:.0}, {d1:.0} | {first} | {to_encode}, {to_decode} |"
        );
    }
    let mut best = f64::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        for chunk in &chunks {
            lz4_flex::block::compress_into_with_dict(chunk, &mut [0; 512], dictionary.content())?;
        }
        best = best.min(began.elapsed().as_nanos() as f64 / chunks.len() as f64);
    }
    println!("\nlz4_flex encodes the same with the same dictionary in {best:.0} ns");
    Ok(())
}

/// Kilobytes that a shelf of codecs has after one message in each direction.
fn memory(arm: Arm, dictionary: &Dictionary, plain: &[u8]) -> Result<[usize; 2], Box<dyn Error>> {
    let mut wire = vec![0; plain.len()];
    let mut encoding = Codecs::new();
    let encoded = encoding.encode_with(arm, dictionary, plain, &mut wire)?;
    let mut decoding = Codecs::new();
    if let Encoded::Written(len) = encoded {
        decoding.decode_with(
            arm.codec,
            dictionary,
            &wire[..len],
            &mut vec![0; plain.len()],
        )?;
    }
    Ok([encoding.memory() / 1000, decoding.memory() / 1000])
}
