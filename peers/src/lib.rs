//! tautline beside what one would use or write instead. The same messages over the same link and
//! sockets, on the same machine, in one run.
//!
//! The program `peers` is all of it. Packages whose dependencies nothing else should have add
//! contestants of their own: [`run`].

mod alone;
mod contestants;
mod failure;
mod plan;
mod stage;
mod table;
mod usage;
mod wanted;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

pub use crate::contestants::{
    Contestant, Family, Inbox, Kind, Messages, Receiver, Sender, Task, Trips, accept, connect,
    gone, listen, now,
};
pub use crate::failure::Failure;

use crate::alone::Asked;
use crate::failure::say;
use crate::plan::{Link, Take};
use crate::stage::{REST, Stage};
use crate::table::Cell;

/// Sends the same messages over the same link with tautline and with what one would use or write
/// instead, in turns, and compares the times until all have arrived. Whatever arrives is compared
/// with what was sent.
#[derive(Debug, Parser)]
#[command(name = "peers", version)]
struct Arguments {
    /// Files or directories of messages. Default: made-up ones of several kinds.
    #[arg(long, num_args = 1..)]
    corpus: Vec<PathBuf>,
    /// How much of each corpus: its first messages (500) or bytes (64KiB, 1MB). Default: all; of
    /// made-up ones 1.25 MB.
    #[arg(long)]
    take: Option<Take>,
    /// The links' rates: 100kbit, 10Mbit, 1Gbit, or none for as fast as this machine can.
    #[arg(long, value_delimiter = ',', num_args = 1.., default_value = "none")]
    link: Vec<Link>,
    /// Contestants or families of them.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<String>,
    /// How often each takes its turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// How many messages are asked one by one each turn, each once the one before has come back: no
    /// more than its link carries in a second. 0: none.
    #[arg(long, default_value_t = 400)]
    trips: usize,
    /// Do not measure memory, for which each has one more turn in a process of its own.
    #[arg(long)]
    no_memory: bool,
    /// Do not limit tautline's codec time by the processor load, to which whoever has just had a turn
    /// adds.
    #[arg(long)]
    no_guard: bool,
    /// One JSON object for each contestant, corpus and link, and no tables.
    #[arg(long)]
    json: bool,
    /// Measure memory, with the corpus at this place: what the program asks itself.
    #[arg(long, hide = true)]
    alone: Option<usize>,
}

impl Arguments {
    /// For a process that measures one pass over the same messages.
    fn same(&self) -> Vec<OsString> {
        let mut same = Vec::new();
        if let Some(take) = self.take {
            same.push(format!("--take={take}").into());
        }
        if self.no_guard {
            same.push("--no-guard".into());
        }
        if !self.corpus.is_empty() {
            same.push("--corpus".into());
            same.extend(self.corpus.iter().map(|file| file.clone().into_os_string()));
        }
        same
    }
}

/// What the help says of contestants.
fn meaning(extra: &[Family]) -> String {
    let names = contestants::families(extra).join(", ");
    let more: Vec<_> = extra.iter().map(described).collect();
    let more = more.concat();
    format!(
        "\
Contestants, all over TCP:

ld:none, ld:lz4, ld:zstd   tokio-util's LengthDelimitedCodec, each message compressed by itself
stream:zstd-LEVEL          one zstd stream, window 2^20, flushed at each message; writes of 8 KiB
sketch:LEVEL[/16KiB]       one zstd stream, window 2^20, flushed at each block of 64 KiB (or 16) of
                           messages: history by hand, with the best level known beforehand
tautline:POLICY            this crate: cost (its default), none, or an arm such as zstd:3+history
{more}
A family's name ({names}) stands for its usual members. Each pass is a new
connection; nodes of tautline stay until the corpus or link changes, and remember their peer.

median s    from the first message's sending until the last one's receipt
spread      from the least to the greatest time, over the median
wire B      all that the sender wrote, from the connection's beginning to its end
/ peer      time over that of the best of all but sketch and tautline, by medians
/ sketch    time over that of the best sketch; as the best of many, a lucky one
CPU s/GB    processor time of both ends, connection and comparison of what came included, but not
            the relay's, for 10^9 bytes of messages
MiB         by how much the memory of a process of its own rises for both ends and the relay, and
            what a server that it needs has
p50, p99    of messages that are asked one by one: until each has come back

The summary has the best peer by time, and its processor time and memory; but of p50 and p99 the
least that any peer has. It begins with what falls short of what is wanted: of messages of less than
1 KiB in the mean .65 of the best peer's time at 1 to 100 Mbit/s and .4 at 1 Gbit/s, elsewhere no more
than its time; no more than the least p50 and p99, nor than that peer's processor time."
    )
}

/// A family's members, and behind them what they are.
fn described(family: &Family) -> String {
    const COLUMN: usize = 27;
    let named = |setting: &&str| format!("{}:{setting}", family.name);
    let members: Vec<_> = family.settings.iter().map(named).collect();
    let members = members.join(", ");
    let margin = format!("\n{}", " ".repeat(COLUMN));
    let meaning = family.meaning.replace('\n', &margin);
    if members.len() < COLUMN {
        format!("{members:<COLUMN$}{meaning}\n")
    } else {
        format!("{members}{margin}{meaning}\n")
    }
}

/// The program, with contestants of the caller's besides its own.
pub fn run(extra: &[Family]) -> ExitCode {
    match arguments(extra).and_then(|arguments| measure(&arguments, extra)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What is asked for. Ends the program if that is help, or wrong.
fn arguments(extra: &[Family]) -> Result<Arguments, Failure> {
    let families = contestants::families(extra);
    let command = Arguments::command()
        .after_long_help(meaning(extra))
        .mut_arg("peer", |it| it.default_values(families));
    Ok(Arguments::from_arg_matches(&command.get_matches())?)
}

fn measure(arguments: &Arguments, extra: &[Family]) -> Result<(), Failure> {
    let contestants =
        contestants::named(&arguments.peer, !arguments.no_guard, extra).map_err(Failure::Error)?;
    let loads = plan::loads(&arguments.corpus, arguments.take, arguments.alone)?;
    if let (Some(_), [load], &[link]) = (arguments.alone, &loads[..], &arguments.link[..]) {
        return say!("{}", alone::measure(load, link, &contestants)?);
    }
    let stage = Stage::build(REST)?;
    let mut cells = Vec::new();
    for &link in &arguments.link {
        for (place, load) in loads.iter().enumerate() {
            let (rounds, trips) = (arguments.rounds as usize, load.trips(arguments.trips, link));
            let mut outcomes = stage.run(load, link, &contestants, rounds, trips);
            if !arguments.no_memory {
                let asked = |peer: &str| Asked {
                    place,
                    link,
                    peer: peer.to_owned(),
                    same: arguments.same(),
                };
                stage.measure_memory(asked, &mut outcomes);
            }
            let cell = Cell {
                load,
                link,
                outcomes,
            };
            if arguments.json {
                cell.print_json()?;
            } else {
                cell.print()?;
            }
            cells.push(cell);
        }
    }
    if !arguments.json {
        table::print_summary(&cells)?;
    }
    if cells.iter().any(Cell::has_failures) {
        let text = "not all did what they should: the tables say who and why";
        return Err(Failure::Error(text.to_owned()));
    }
    Ok(())
}
