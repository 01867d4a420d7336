//! The `tautline` program: a demonstration, an echo, a sender, a bench, message containers, dictionaries, a monitor,
//! leeches, a lab of all of these, and reports of what they have found.

#[cfg(unix)]
mod bench;
mod busy;
mod corpus;
mod demo;
mod dict;
mod echo;
mod events;
mod explain;
mod failure;
mod figures;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod monitor;
#[cfg(target_os = "linux")]
mod others;
#[cfg(unix)]
mod process;
mod rate;
mod report;
mod send;
mod terminal;
mod text;
mod tls;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Message transport that chooses per message whether and how to compress.
#[derive(Debug, Parser)]
#[command(name = "tautline", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Both nodes in one process over a link that changes: watch what is chosen.
    Demo(demo::DemoArguments),
    /// Sends every message back to where it came from.
    Echo(echo::EchoArguments),
    /// Sends the messages of files to an echo and compares what comes back.
    Send(send::SendArguments),
    /// Compares policies over links of chosen rates: time, processor time, bytes.
    #[cfg(unix)]
    Bench(bench::BenchArguments),
    /// One end of a bench.
    #[cfg(unix)]
    #[command(hide = true)]
    BenchNode(bench::NodeArguments),
    /// Events of a running process's transport: rows as they come, times of messages by stage.
    Events(events::EventsArguments),
    /// What a running process's transport does, second by second.
    Top(events::TopArguments),
    /// Message containers: what is in them, and conversion.
    Corpus(corpus::CorpusArguments),
    /// Counts what hardware and kernel do for processes and processors.
    #[cfg(target_os = "linux")]
    Monitor(monitor::MonitorArguments),
    /// Load: leeches that take a resource from others, and the load of a system recorded and made again by them.
    #[cfg(target_os = "linux")]
    Load(load::LoadArguments),
    /// Nodes, links, loads, monitor and traffic together, as a scenario says.
    #[cfg(target_os = "linux")]
    Lab(lab::LabArguments),
    /// One node of a lab.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    LabNode,
    /// What bench, monitor, events, labs and traces have written, as one HTML page with plots.
    Report(report::ReportArguments),
    /// Dictionaries: made of messages, looked into, checked.
    Dict(dict::DictArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    // These need no runtime.
    let command = match command {
        Command::Corpus(arguments) => return corpus::run(arguments),
        Command::Dict(arguments) => return dict::run(arguments),
        Command::Report(arguments) => return report::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Monitor(arguments) => return monitor::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Load(arguments) => return load::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Lab(arguments) => return lab::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::LabNode => return lab::run_node(),
        other => other,
    };
    #[cfg(unix)]
    if let Command::BenchNode(arguments) = command {
        return bench::run_node(arguments);
    }
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::of("the runtime does not start", &error))?;
    let result = runtime.block_on(async {
        match command {
            Command::Demo(arguments) => demo::run(arguments).await,
            Command::Echo(arguments) => echo::run(arguments).await,
            Command::Send(arguments) => send::run(arguments).await,
            #[cfg(unix)]
            Command::Bench(arguments) => bench::run(arguments).await,
            #[cfg(unix)]
            Command::BenchNode(_) => Ok(()),
            Command::Events(arguments) => events::run(arguments).await,
            Command::Top(arguments) => events::run_top(arguments).await,
            Command::Corpus(_) | Command::Dict(_) | Command::Report(_) => Ok(()),
            #[cfg(target_os = "linux")]
            Command::Monitor(_) | Command::Load(_) | Command::Lab(_) | Command::LabNode => Ok(()),
        }
    });
    // Codec work that is still going on is of no use to anybody.
    runtime.shutdown_background();
    result
}
