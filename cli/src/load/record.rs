//! `tautline load record`.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use tautline::loadgen::replica::{
    CONTEXT_SWITCHES, CPU_LOAD, MEMORY_LATENCY, Meter, PAGE_FAULTS, Profile, Scope, this_machine,
};
use tautline::pmu::{Pace, Recording};

use super::replaying::Turns;
use super::seconds;
use crate::failure::{Failure, say, tell};
use crate::monitor::watch_for_signals;
use crate::text::number;

/// Without hardware counters, these are what can be had; with them, those of the monitor's sets are there, too.
const DEFAULT: [&str; 4] = [CPU_LOAD, PAGE_FAULTS, CONTEXT_SWITCHES, MEMORY_LATENCY];

#[derive(Debug, Args)]
#[command(after_long_help = MEANING)]
pub(crate) struct RecordArguments {
    /// A process, with its threads.
    #[arg(long, value_name = "PID", conflicts_with_all = ["cpu", "all", "from"])]
    pid: Option<u32>,
    /// A logical processor. May be repeated.
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "from"])]
    cpu: Vec<u32>,
    /// All processors together. The default.
    #[arg(long, conflicts_with = "from")]
    all: bool,
    /// What the monitor has recorded (JSON lines), instead.
    #[arg(long, value_name = "RECORDING")]
    from: Option<PathBuf>,
    /// How long, seconds. Default: until interrupted.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    length: Option<Duration>,
    /// How long each value is of, seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    interval: Duration,
    /// What to record. Default: cpu-load, page-faults-per-second, context-switches-per-second, memory-latency (an estimate).
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Where the profile is written to.
    #[arg(long, value_name = "PROFILE")]
    out: PathBuf,
}

const MEANING: &str = "\
Metrics are those of the monitor's sets (`tautline monitor --list`), cpu-load, and memory-latency. The last is an
estimate: on each processor, a thread walks through 64 KiB twice in a millisecond and times that; each walk counts for
the time since the one before, and none for more than one and a half times what the quickest tenth takes. It takes 2 to
4 % of the processor, and context switches contain its own.

What the machine lacks is named with the reason, and the rest is recorded; with --metrics, the exit code is 1 if any
of them is missing.";

pub(crate) fn run(arguments: &RecordArguments) -> Result<(), Failure> {
    let names: Vec<String> = if arguments.metrics.is_empty() {
        DEFAULT.map(str::to_owned).to_vec()
    } else {
        arguments.metrics.clone()
    };
    let profile = match &arguments.from {
        Some(path) => of_recording(arguments, path, &names)?,
        None => live(arguments, &names)?,
    };
    for lacking in profile.missing() {
        tell!("not recorded: {}: {}", lacking.name, lacking.reason);
    }
    let path = arguments.out.display().to_string();
    let file = File::create(&arguments.out).map_err(|error| Failure::of(&path, &error))?;
    profile
        .write(BufWriter::new(file))
        .map_err(|error| Failure::of(&path, &error))?;
    say!("{} samples in {path}", profile.len())?;
    if !profile.is_empty() {
        let model = profile.model(None, tautline::loadgen::replica::End::Hold)?;
        for (metric, mean) in model.metrics().iter().zip(model.means()) {
            let estimated = if metric.estimated {
                " (an estimate)"
            } else {
                ""
            };
            say!(
                "  {:<34} mean {:>9} {}{estimated}",
                metric.name,
                number(*mean),
                metric.unit
            )?;
        }
    }
    let lacks = |name: &String| {
        profile
            .missing()
            .iter()
            .any(|lacking| lacking.name == *name)
    };
    if let Some(name) = arguments.metrics.iter().find(|name| lacks(name)) {
        return Err(Failure::Error(format!(
            "{name} was asked for and is not recorded"
        )));
    }
    Ok(())
}

fn of_recording(
    arguments: &RecordArguments,
    path: &Path,
    names: &[String],
) -> Result<Profile, Failure> {
    let what = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::of(&what, &error))?;
    let recording =
        Recording::read(BufReader::new(file)).map_err(|error| Failure::of(&what, &error))?;
    tell!("a recording does not say where it was made: taken to be this machine");
    Profile::of_recording(recording, this_machine(), names, arguments.interval)
        .map_err(|error| Failure::of(&what, &error))
}

fn live(arguments: &RecordArguments, names: &[String]) -> Result<Profile, Failure> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    watch_for_signals(&is_interrupted)?;
    let scope = match arguments.pid {
        Some(process) => Scope::Process(process),
        None if arguments.cpu.is_empty() => Scope::System,
        None => Scope::Processors(arguments.cpu.clone()),
    };
    let clock = Pace::new(arguments.interval);
    let mut meter = Meter::new(scope, names, clock.now())?;
    let mut profile = Profile::new(
        this_machine(),
        meter.scope(),
        meter.metrics().to_vec(),
        meter.missing().to_vec(),
    )?;
    let mut turns = Turns::new(arguments.interval, meter.turns());
    let begun = turns.now();
    let mut readings = vec![f64::NAN; meter.metrics().len()];
    meter.measure(begun, &mut readings);
    loop {
        let (now, is_reading) = turns.wait();
        if is_reading {
            meter.measure(now, &mut readings);
            profile.push(now.saturating_since(begun), &readings)?;
        } else {
            meter.tick(now);
        }
        let is_end = arguments
            .length
            .is_some_and(|length| now.saturating_since(begun) >= length);
        if is_end || is_interrupted.load(Ordering::Relaxed) || meter.is_over() {
            return Ok(profile);
        }
    }
}
