//! `tautline dict train`.

use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use tautline::codecs::{Arm, Codecs};
use tautline::corpus::Format;
use tautline::dictionary::{Reservoir, TrainConfig, train};

use super::{describe, messages, print, worth, write};
use crate::failure::{Failure, say};
use crate::text;

#[derive(Debug, Args)]
pub(super) struct TrainArguments {
    /// Messages: files or directories as `corpus info` takes them.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where the dictionary goes; replaced if it exists.
    #[arg(long, short)]
    output: PathBuf,
    /// msgs, lines, jsonl, json, dir, pcap or pcapng; found out from the content by default.
    #[arg(long)]
    format: Option<Format>,
    /// Bytes of the dictionary at most.
    #[arg(long, value_name = "BYTES", default_value_t = TrainConfig::default().max_len)]
    max_len: usize,
    /// Eight bytes in a row enter only if so many distinct messages have them.
    #[arg(long, value_name = "N", default_value_t = TrainConfig::default().min_sources)]
    min_sources: u32,
    /// Bytes of messages to train on at most: a uniform sample of the distinct ones.
    #[arg(long, value_name = "BYTES", default_value_t = TrainConfig::default().max_sample_bytes)]
    sample: usize,
    /// Messages longer than that are passed over.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 10)]
    max_message: usize,
    /// Text only, without zstd's statistics in front.
    #[arg(long)]
    raw: bool,
    /// The last so many of a hundred messages are not trained on but judged by.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(0..=90))]
    held_out: u8,
    /// What it is judged with.
    #[arg(long, value_delimiter = ',', default_value = "zstd:3,lz4")]
    arms: Vec<Arm>,
    /// Which messages are the sample.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &TrainArguments) -> Result<(), Failure> {
    let messages = messages(&arguments.files, arguments.format)?;
    let held_out = messages.len() * usize::from(arguments.held_out) / 100;
    let (older, held_out) = messages.split_at(messages.len() - held_out);
    let mut reservoir = Reservoir::new(arguments.seed, arguments.sample, arguments.max_message);
    for message in older {
        reservoir.offer(message);
    }
    let samples: Vec<Bytes> = reservoir.messages().cloned().collect();
    let mut config = TrainConfig::default()
        .with_max_len(arguments.max_len)
        .with_min_sources(arguments.min_sources);
    config.max_sample_bytes = arguments.sample;
    config.with_statistics = !arguments.raw;
    let dictionary = train(&samples, &config)?;
    let worth = if held_out.is_empty() {
        Vec::new()
    } else {
        worth::of(&mut Codecs::new(), &dictionary, held_out, &arguments.arms)?
    };
    write(&arguments.output, &dictionary)?;
    if arguments.json {
        let mut row = describe(&dictionary);
        row["file"] = arguments.output.display().to_string().into();
        row["samples"] = samples.len().into();
        row["sample_bytes"] = reservoir.bytes().into();
        row["worth"] = worth.iter().map(worth::json).collect();
        return say!("{row}");
    }
    say!(
        "{} from {} of {} messages, {}",
        arguments.output.display(),
        samples.len(),
        older.len(),
        text::bytes(reservoir.bytes() as u64)
    )?;
    print(&dictionary)?;
    if worth.is_empty() {
        Ok(())
    } else {
        worth::print(&worth)
    }
}
