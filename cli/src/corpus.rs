//! `tautline corpus`: what containers hold, and conversion to `.msgs`.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tautline::corpus::{Corpus, Format};

use crate::failure::{Failure, say};

#[derive(Debug, Args)]
pub(crate) struct CorpusArguments {
    #[command(subcommand)]
    command: CorpusCommand,
}

#[derive(Debug, Subcommand)]
enum CorpusCommand {
    /// Prints count and lengths of the messages in files or directories.
    Info {
        /// `.msgs`, text, JSON lines or array, a directory, pcap or pcapng.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// msgs, lines, jsonl, json, dir, pcap or pcapng; found out from the content by default.
        #[arg(long)]
        format: Option<Format>,
        /// One JSON object a file.
        #[arg(long)]
        json: bool,
    },
    /// Writes the messages of a file or directory as `.msgs`.
    Import {
        /// What to read.
        file: PathBuf,
        /// What to write; replaced if it exists.
        #[arg(long, short)]
        output: PathBuf,
        /// msgs, lines, jsonl, json, dir, pcap or pcapng; found out from the content by default.
        #[arg(long)]
        format: Option<Format>,
    },
}

pub(crate) fn run(arguments: CorpusArguments) -> Result<(), Failure> {
    match arguments.command {
        CorpusCommand::Info {
            files,
            format,
            json,
        } => {
            for (number, file) in files.iter().enumerate() {
                let summary = Corpus::read(file, format)?.summary();
                if json {
                    say!("{}", serde_json::to_string(&summary)?)?;
                } else {
                    if number > 0 {
                        say!()?;
                    }
                    say!("{summary}")?;
                }
            }
            Ok(())
        }
        CorpusCommand::Import {
            file,
            output,
            format,
        } => {
            let corpus = Corpus::read(&file, format)?;
            let failed = |error: std::io::Error| Failure::of(&output.display().to_string(), &error);
            let writer = BufWriter::new(File::create(&output).map_err(failed)?);
            corpus.write_msgs(writer).map_err(failed)?;
            say!(
                "{} messages to {}",
                corpus.messages().len(),
                output.display()
            )
        }
    }
}
