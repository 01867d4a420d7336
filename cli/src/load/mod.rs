//! `tautline load`: load that takes resources from others, that of a system recorded and made again, and messages at times of their own.

mod compare;
mod drive;
pub(crate) mod life;
mod list;
mod model;
mod record;
mod replay;
mod replaying;
mod run;
mod spec;
mod steps;

use std::time::Duration;

use clap::{Args, Subcommand};

pub(crate) use self::life::{interrupted, watch};
pub(crate) use self::replaying::{Replaying, leeches_for, leeches_of, machine_of, meter};
pub(crate) use self::spec::LeechSpec;
use crate::failure::Failure;

/// Load: leeches that take a resource from others, and the load of a system recorded and made again by them.
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    #[command(subcommand)]
    command: LoadCommand,
}

#[derive(Debug, Subcommand)]
enum LoadCommand {
    /// Takes resources for some time: processor, caches, memory, translations, branches, page faults, context switches.
    Run(run::RunArguments),
    /// Records how metrics of a process, of processors or of the whole system go with time.
    Record(record::RecordArguments),
    /// Makes a model of a profile: what a replay is to reach.
    Model(model::ModelArguments),
    /// Makes the metrics of this machine what a model says, with leeches.
    Replay(replay::ReplayArguments),
    /// Runs two commands by turns and says whether the second takes longer: without load, and under that of a model.
    Compare(compare::CompareArguments),
    /// Sends messages to an echo at times of their own (Poisson, in bursts, as recorded ..), and says how long their answers take from these.
    Drive(drive::DriveArguments),
}

pub(crate) fn run(arguments: &LoadArguments) -> Result<(), Failure> {
    match &arguments.command {
        LoadCommand::Run(arguments) => run::run(arguments),
        LoadCommand::Record(arguments) => record::run(arguments),
        LoadCommand::Model(arguments) => model::run(arguments),
        LoadCommand::Replay(arguments) => replay::run(arguments),
        LoadCommand::Compare(arguments) => compare::run(arguments),
        LoadCommand::Drive(arguments) => drive::run(arguments),
    }
}

/// Seconds, a tenth at least.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("seconds, from 0.1 to 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_within_a_day() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for text in ["0", "-1", "x", "nan", "1e9"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
