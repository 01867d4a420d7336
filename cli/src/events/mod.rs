//! `tautline events` and `tautline top`: what a running process's transport, leeches and drives do, from its event log.

mod accounts;
mod analysis;
mod counters;
mod describe;
mod gauges;
mod own;
mod report;
mod source;
mod top;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use self::analysis::Analysis;
pub(crate) use self::analysis::Stage;
pub(crate) use self::gauges::MessageGauges;
pub(crate) use self::own::{EventLogArguments, shared};
use self::source::Source;
pub(crate) use self::top::{TopArguments, run as run_top};
use crate::failure::{Failure, say, tell};

/// How often a log is read: a ring of the default length takes 800 000 rows a second then.
const PERIOD: Duration = Duration::from_millis(10);

#[derive(Debug, Args)]
pub(crate) struct EventsArguments {
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    /// Prints rows as they come.
    Dump(DumpArguments),
    /// Times of messages by stage, throughput, what each domain was charged, rows lost, and how long logs should be.
    Analyse(AnalyseArguments),
}

#[derive(Debug, Args)]
struct DumpArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// A JSON object a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct AnalyseArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Whose events, and which.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("log").required(true).args(["pid", "file"]))]
pub(crate) struct SourceArguments {
    /// A running process of this user that shares its event log. All events are switched on meanwhile, and as they were after.
    #[arg(long)]
    pid: Option<u32>,
    /// A log in a file: what it has now.
    file: Option<PathBuf>,
    /// So many seconds, instead of until Ctrl-C.
    #[arg(long, value_name = "SECONDS", conflicts_with = "file", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Only every N-th event of each kind and stream, in each thread.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "file")]
    every: u32,
    /// Switch nothing: see what is recorded anyway.
    #[arg(long, conflicts_with_all = ["file", "every"])]
    passive: bool,
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl SourceArguments {
    fn open(&self) -> Result<Source, Failure> {
        match (self.pid, &self.file) {
            (Some(pid), _) => Source::attach(pid, (!self.passive).then_some(self.every)),
            (None, Some(file)) => Source::open(file),
            (None, None) => Err(Failure::Error("neither a process nor a file".to_owned())),
        }
    }
}

pub(crate) async fn run(arguments: EventsArguments) -> Result<(), Failure> {
    match arguments.command {
        EventsCommand::Dump(arguments) => dump(arguments).await,
        EventsCommand::Analyse(arguments) => analyse(arguments).await,
    }
}

/// Reads until the time is over, the user has enough, or the process is gone; `take` is given rows in the order of their times.
async fn follow(
    source: &mut Source,
    limit: Option<Duration>,
    mut take: impl FnMut(&mut Source, Vec<source::Timed>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !source.is_live() {
        let rows = source.all()?;
        return take(source, rows);
    }
    let end = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let interrupted = asked_to_end();
    tokio::pin!(end, interrupted);
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut end => break,
            () = &mut interrupted => break,
            _ = ticks.tick() => {
                let rows = source.next()?;
                take(source, rows)?;
                if source.is_over() {
                    break;
                }
            }
        }
    }
    let rows = source.all()?;
    take(source, rows)
}

/// Whoever asks the program to end: what it has switched on is to be off again.
#[cfg(unix)]
async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::hangup()];
    let [Ok(mut terminate), Ok(mut hang_up)] = kinds.map(signal) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}

#[cfg(not(unix))]
async fn asked_to_end() {
    let _ = tokio::signal::ctrl_c().await;
}

async fn dump(arguments: DumpArguments) -> Result<(), Failure> {
    let mut source = arguments.source.open()?;
    let result = follow(&mut source, arguments.source.seconds, |source, rows| {
        for row in rows {
            let line = describe::line(source, &row, arguments.json);
            say!("{line}")?;
        }
        Ok(())
    })
    .await;
    let lost = source.lost();
    // Back to what it was, before anything else may fail.
    drop(source);
    result?;
    if lost > 0 {
        tell!("tautline: {lost} rows were overwritten before they were read");
    }
    Ok(())
}

async fn analyse(arguments: AnalyseArguments) -> Result<(), Failure> {
    let mut source = arguments.source.open()?;
    let mut analysis = Analysis::default();
    let result = follow(&mut source, arguments.source.seconds, |source, rows| {
        // What comes before is of some threads alone, and whoever divides by time or asks what became of a message is told wrongly.
        let since = source.whole_since();
        for row in rows.iter().filter(|row| row.at >= since) {
            analysis.take(source, row);
        }
        Ok(())
    })
    .await;
    let sizes = source.sizes();
    let figures = analysis.take_figures();
    let named = accounts::named(&figures.accounts, &mut source);
    drop(source);
    result?;
    report::print(&figures, &named, sizes, arguments.json)
}
