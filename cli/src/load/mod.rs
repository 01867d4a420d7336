//! `tautline load`: load that takes resources from others.

mod life;
mod list;
mod run;
mod spec;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Load: leeches that take a resource from others.
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    #[command(subcommand)]
    command: LoadCommand,
}

#[derive(Debug, Subcommand)]
enum LoadCommand {
    /// Takes resources for some time: processor, caches, memory, translations, branches, page faults, context switches.
    Run(run::RunArguments),
}

pub(crate) fn run(arguments: &LoadArguments) -> Result<(), Failure> {
    match &arguments.command {
        LoadCommand::Run(arguments) => run::run(arguments),
    }
}
