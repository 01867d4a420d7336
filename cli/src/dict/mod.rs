//! `tautline dict`: dictionaries made of messages, looked into, checked.

mod train;
mod worth;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tautline::codecs::{Arm, Codecs, supported, takes_dictionary};
use tautline::corpus::{Corpus, Format};
use tautline::dictionary::cache::CacheEntry;
use tautline::dictionary::{Dictionary, DictionaryId, DictionaryKind, MAX_DICTIONARY_LEN};

use crate::failure::{Failure, say};
use crate::text;

/// Shorter runs of text say nothing.
const LEAST_TEXT: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct DictArguments {
    #[command(subcommand)]
    command: DictCommand,
}

#[derive(Debug, Subcommand)]
enum DictCommand {
    /// Makes a dictionary of the messages in files or directories, and says what it is worth on some
    /// that it was not made of.
    Train(train::TrainArguments),
    /// Prints name, size and kind of dictionaries.
    Show {
        /// Files that hold a dictionary each, also those of a cache directory.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The text in them as well: what whoever gets a dictionary can read.
        #[arg(long)]
        text: bool,
        /// One JSON object a file.
        #[arg(long)]
        json: bool,
    },
    /// Writes the dictionary in a file of a node's cache as it is, for `NodeConfig::dictionary` or another program.
    Export {
        /// A file of a cache directory, or one that holds a dictionary.
        file: PathBuf,
        /// Where to write it.
        #[arg(short, long)]
        output: PathBuf,
    },
    /// Checks a dictionary: its name, that the codecs can use it, what it is worth.
    Verify {
        /// A file that holds a dictionary.
        file: PathBuf,
        /// The name that it should have (64 hexadecimal digits).
        #[arg(long)]
        id: Option<DictionaryId>,
        /// Messages to try it on: files or directories as `corpus info` takes them.
        #[arg(long)]
        corpus: Vec<PathBuf>,
        /// What the messages are tried with.
        #[arg(long, value_delimiter = ',', default_value = "zstd:3,lz4")]
        arms: Vec<Arm>,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: DictArguments) -> Result<(), Failure> {
    match arguments.command {
        DictCommand::Train(arguments) => train::run(&arguments),
        DictCommand::Show { files, text, json } => {
            files.iter().try_for_each(|file| show(file, text, json))
        }
        DictCommand::Export { file, output } => write(&output, &read(&file, None)?),
        DictCommand::Verify {
            file,
            id,
            corpus,
            arms,
            json,
        } => verify(&file, id, &corpus, &arms, json),
    }
}

/// The dictionary in a file, one of a cache directory or one that holds nothing else; no more of it is read than a dictionary may have.
fn read(file: &Path, id: Option<DictionaryId>) -> Result<Dictionary, Failure> {
    let name = file.display().to_string();
    let mut content = Vec::new();
    File::open(file)
        .and_then(|open| {
            open.take(CacheEntry::MOST_FILE_LEN as u64 + 1)
                .read_to_end(&mut content)
        })
        .map_err(|error| Failure::of(&name, &error))?;
    // In a cache, files are called by what they hold.
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    if let Some(named) = stem.and_then(|stem| stem.parse().ok()) {
        match CacheEntry::parse(id.unwrap_or(named), &content) {
            Ok(Some(entry)) => return Ok(entry.dictionary),
            Ok(None) => {}
            Err(error) => return Err(Failure::of(&name, &error)),
        }
    }
    let dictionary = match id {
        Some(id) => Dictionary::verified(id, content, MAX_DICTIONARY_LEN),
        None => Dictionary::new(content),
    };
    dictionary.map_err(|error| Failure::of(&name, &error))
}

/// Whole or not at all: a reader may be waiting for it.
fn write(output: &Path, dictionary: &Dictionary) -> Result<(), Failure> {
    let mut unfinished = output.to_owned().into_os_string();
    unfinished.push(".unfinished");
    std::fs::write(&unfinished, dictionary.content())
        .and_then(|()| std::fs::rename(&unfinished, output))
        .map_err(|error| Failure::of(&output.display().to_string(), &error))
}

fn messages(files: &[PathBuf], format: Option<Format>) -> Result<Vec<bytes::Bytes>, Failure> {
    let mut messages = Vec::new();
    for file in files {
        messages.extend_from_slice(Corpus::read(file, format)?.messages());
    }
    Ok(messages)
}

const fn kind(dictionary_kind: DictionaryKind) -> &'static str {
    match dictionary_kind {
        DictionaryKind::Zstd => "zstd",
        _ => "raw",
    }
}

fn describe(dictionary: &Dictionary) -> Value {
    json!({
        "id": dictionary.id().to_string(),
        "bytes": dictionary.len(),
        "kind": kind(dictionary.kind()),
    })
}

fn show(file: &Path, with_text: bool, as_json: bool) -> Result<(), Failure> {
    let dictionary = read(file, None)?;
    let texts = if with_text {
        texts(dictionary.content())
    } else {
        Vec::new()
    };
    if as_json {
        let mut row = describe(&dictionary);
        row["file"] = file.display().to_string().into();
        if with_text {
            row["text"] = texts.into();
        }
        return say!("{row}");
    }
    say!("{}", file.display())?;
    print(&dictionary)?;
    texts.iter().try_for_each(|text| say!("    {text}"))
}

fn print(dictionary: &Dictionary) -> Result<(), Failure> {
    say!("  name  {}", dictionary.id())?;
    say!("  size  {}", text::bytes(dictionary.len() as u64))?;
    let kind = if dictionary.kind() == DictionaryKind::Zstd {
        "zstd: statistics, then text"
    } else {
        "raw: text only"
    };
    say!("  kind  {kind}")
}

/// The runs of printable ASCII.
fn texts(content: &[u8]) -> Vec<String> {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    content
        .split(|byte| !is_text(byte))
        .filter(|run| run.len() >= LEAST_TEXT)
        .map(|run| String::from_utf8_lossy(run).into_owned())
        .collect()
}

fn verify(
    file: &Path,
    id: Option<DictionaryId>,
    corpus: &[PathBuf],
    arms: &[Arm],
    as_json: bool,
) -> Result<(), Failure> {
    let dictionary = read(file, id)?;
    let mut codecs = Codecs::new();
    let mut usable = Vec::new();
    for info in supported().iter().filter(|info| takes_dictionary(info.id)) {
        codecs
            .check_dictionary(info.id, &dictionary)
            .map_err(|error| Failure::of(&file.display().to_string(), &error))?;
        usable.push(info.id.to_string());
    }
    let messages = messages(corpus, None)?;
    let worth = if messages.is_empty() {
        Vec::new()
    } else {
        worth::of(&mut codecs, &dictionary, &messages, arms)?
    };
    if as_json {
        let mut row = describe(&dictionary);
        row["usable"] = usable.into();
        row["worth"] = worth.iter().map(worth::json).collect();
        return say!("{row}");
    }
    print(&dictionary)?;
    say!("  usable with {}", usable.join(", "))?;
    if worth.is_empty() {
        Ok(())
    } else {
        worth::print(&worth)
    }
}
