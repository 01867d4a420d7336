//! `tautline report`: what the other subcommands have written, as one HTML page with plots.
//!
//! ```text
//!  files --input--> bench, monitor, events, trace, compare, lab --> sections with figures --page--> HTML --out--> file
//!                         |                                  |
//!                       thin (bounded lines)               plot (SVG)
//! ```
//!
//! Nothing here reads a clock: when something was measured is known only if its file says so.

mod bench;
pub(crate) mod compare;
mod error;
mod events;
mod input;
pub(crate) mod lab;
mod monitor;
mod number;
mod out;
mod page;
mod plot;
mod thin;
mod trace;

use std::path::PathBuf;

use clap::Args;

use self::input::{Input, Kind};
use crate::failure::{Failure, tell};

/// One HTML page with plots and tables of what other commands have written. It stands by itself: no script, no other file, no address.
#[derive(Debug, Args)]
#[command(after_long_help = MEANING)]
pub(crate) struct ReportArguments {
    /// What `bench --json`, `monitor --out FILE.jsonl`, `events analyse --json`, `send --trace`, `load compare --json` or `lab` (lab.jsonl) has written.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the page is written to, whole or not at all; - is stdout. Default: stdout, unless that is a terminal.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The page's heading.
    #[arg(long, default_value = "tautline report")]
    title: String,
}

const MEANING: &str = "\
What a file is, is found out from what it contains; each becomes a section. All lines of a file are of one kind.
A last line that was cut is left out, which is said on stderr and on the page; whatever else cannot be read ends
the program with exit code 1, and no page is written.

Lines of plots with many points are thinned: of each short span of time the smallest and the largest value are drawn,
so that no peak is lost, and it is said so. Tables are of all values.";

pub(crate) fn run(arguments: &ReportArguments) -> Result<(), Failure> {
    let target = out::Target::of(arguments.out.as_deref())?;
    let mut sections = Vec::new();
    for (number, path) in arguments.files.iter().enumerate() {
        let mut input = Input::open(path)?;
        let id = format!("file{}", number + 1);
        let section = match input.kind() {
            Kind::Bench => bench::section(&id, &mut input),
            Kind::Monitor => monitor::section(&id, input),
            Kind::Events => events::section(&id, &mut input),
            Kind::Trace => trace::section(&id, &mut input),
            Kind::Compare => compare::section(&id, &mut input),
            Kind::Lab => lab::section(&id, &mut input),
        }?;
        if let Some(cut) = &section.cut {
            tell!("tautline: {cut}");
        }
        sections.push(section);
    }
    let title = page::clean(&arguments.title, 200);
    target.write(page::page(&title, &sections).into_string().as_bytes())
}
