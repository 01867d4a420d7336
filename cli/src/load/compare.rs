//! `tautline load compare`: two commands by turns, and whether the second takes longer.
//!
//! ```text
//!  pairs of runs --Comparison--> finding    (without load)
//!  replay of a model beside: pairs of runs --Comparison--> finding    (under it)
//! ```

mod command;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tautline::loadgen::{CompareConfig, Comparison, Finding};

use self::command::Runner;
use super::{life, replay, seconds};
use crate::failure::{Failure, say};
use crate::report::compare::{Phase, amount, change, check, write};

/// How long a replay may take to say what became of it.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The confidence of what is printed.
const CONFIDENCE: f64 = 0.95;

/// Two commands by turns, without load and under that of a model: whether the second takes longer, and by how much.
#[derive(Debug, Args)]
#[command(after_long_help = MEANING)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct CompareArguments {
    /// The two commands, with `--` between them.
    #[arg(last = true, required = true, value_name = "FIRST -- SECOND")]
    commands: Vec<OsString>,
    /// A model (`load model`, `load replay --save`): all is done once more while it is replayed.
    #[arg(long, value_name = "MODEL")]
    under: Option<PathBuf>,
    /// Replays with the intensities that were found before, whatever comes of it.
    #[arg(long, requires = "under")]
    open: bool,
    /// Logical processors that get leeches. Default: all. May be repeated.
    #[arg(long, value_name = "N", requires = "under")]
    pin: Vec<u32>,
    /// How long the replay has to settle, seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10", requires = "under")]
    settle: Duration,
    /// Judges by the last number that a command prints on stdout (less is better) instead of the time that it takes.
    #[arg(long)]
    value: bool,
    /// Logical processors that both commands run on. Default: all. Commands of one thread vary the least on one: processors
    /// differ. May be repeated.
    #[arg(long, value_name = "N")]
    on: Vec<u32>,
    /// The least difference that counts, per cent.
    #[arg(long, value_name = "PERCENT", value_parser = per_cent, default_value = "1.5")]
    least: f64,
    /// Pairs of runs at most, for each phase.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(12..=100_000))]
    pairs: u32,
    /// How long a phase may take, seconds. After that what there is is said.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    length: Duration,
    /// How long a run may take, seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    run_limit: Duration,
    /// Which of each pair comes first.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Exit code 1 unless the second is found to be no slower, in every phase.
    #[arg(long)]
    require: bool,
    /// A line of JSON for each phase, with all runs, and nothing else.
    #[arg(long)]
    json: bool,
    /// One HTML page with plots.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

const MEANING: &str = "\
Each command runs once before it counts. Then both run by turns, in pairs of which each begins with the one that is
drawn, until it is sure that the second is slower or faster by what counts (--least), or that it is neither, or --pairs or
--for are over. What changes slowly on the machine falls on both runs of a pair; of pairs the ratio counts by its rank
among the others, so that single runs that something held up do not carry it.

A command that fails, cannot be started or takes longer than --run-limit ends the comparison: exit code 1. What it has
started is ended with it then, and when the comparison is interrupted; what it leaves behind after its end goes on.

  tautline load compare --out page.html -- ./before --rounds 100 -- ./after --rounds 100
  tautline load compare --under production.json --value -- ./rtt old -- ./rtt new";

fn per_cent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.01..=100.0).contains(&share) => Ok(share),
        _ => Err("per cent, from 0.01 to 100".to_owned()),
    }
}

pub(crate) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let is_over = life::watch()?;
    let (first, second) = split(&arguments.commands)?;
    let runner = |words: &[OsString]| {
        Runner::new(words, arguments.value, arguments.run_limit).on(&arguments.on)
    };
    let (first, second) = (runner(first)?, runner(second)?);
    // A model is refused now, not after minutes without it; but for what can be read only once.
    if let Some(model) = arguments.under.as_deref().filter(|path| !is_pipe(path)) {
        replay::check(model, arguments.open, &arguments.pin)?;
    }
    // As is a page that has no place.
    if let Some(path) = &arguments.out {
        check(path)?;
    }
    let (alone, medians) = phase(arguments, &is_over, "without load", &first, &second, None)?;
    print(arguments, &alone, medians)?;
    let mut phases = vec![alone];
    if let Some(model) = &arguments.under {
        let name = format!("under {}", model.display());
        let mut load = Load::start(arguments, model)?;
        load.settle(arguments.settle, &is_over)?;
        let (mut found, medians) =
            phase(arguments, &is_over, &name, &first, &second, Some(&mut load))?;
        found.load = load.end();
        print(arguments, &found, medians)?;
        phases.push(found);
    }
    if let Some(path) = &arguments.out {
        write(path, &phases)?;
    }
    let is_fine = |phase: &Phase| matches!(phase.finding.as_str(), "same" | "faster");
    match phases.iter().find(|phase| !is_fine(phase)) {
        Some(phase) if arguments.require => Err(Failure::Error(format!(
            "{}: {}",
            phase.under,
            phase.words()
        ))),
        _ => Ok(()),
    }
}

fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file())
}

/// The two commands: `--` may be a word of neither.
fn split(words: &[OsString]) -> Result<(&[OsString], &[OsString]), Failure> {
    let mut parts = words.split(|word| word == "--");
    match (parts.next(), parts.next(), parts.next()) {
        (Some(first), Some(second), None) if !first.is_empty() && !second.is_empty() => {
            Ok((first, second))
        }
        _ => Err(Failure::Error(
            "two commands are compared: tautline load compare -- FIRST -- SECOND".to_owned(),
        )),
    }
}

/// Pairs of runs until it is known what they say, and both medians.
fn phase(
    arguments: &CompareArguments,
    is_over: &AtomicBool,
    name: &str,
    first: &Runner,
    second: &Runner,
    mut load: Option<&mut Load>,
) -> Result<(Phase, Option<(f64, f64)>), Failure> {
    let mut comparison = Comparison::new(CompareConfig {
        least: arguments.least / 100.0,
        most_pairs: arguments.pairs as usize,
        seed: arguments.seed,
    });
    // What is read from a disk once is in memory then.
    first.run(is_over)?;
    second.run(is_over)?;
    let began = now();
    while comparison.finding() == Finding::Open
        && !comparison.is_over()
        && began.elapsed() < arguments.length
    {
        let (one, other) = if comparison.first_begins() {
            let one = first.run(is_over)?;
            (one, second.run(is_over)?)
        } else {
            let other = second.run(is_over)?;
            (first.run(is_over)?, other)
        };
        if !comparison.record(one, other) {
            return Err(Failure::Error(format!(
                "{one} and {other} have no ratio: what a command prints last must be more than 0"
            )));
        }
        if let Some(load) = &mut load {
            load.check()?;
        }
    }
    let effect = comparison.effect(CONFIDENCE);
    let finding = match comparison.finding() {
        Finding::Slower => "slower",
        Finding::Faster => "faster",
        Finding::Same => "same",
        Finding::Open => "open",
    };
    let phase = Phase {
        tautline_compare: 1,
        under: name.to_owned(),
        first: first.to_string(),
        second: second.to_string(),
        unit: if arguments.value {
            "what is printed"
        } else {
            "seconds"
        }
        .to_owned(),
        pairs: comparison.pairs().to_vec(),
        ratio: effect.map(|effect| effect.ratio),
        low: effect.map(|effect| effect.low),
        high: effect.map(|effect| effect.high),
        confidence: CONFIDENCE,
        least: arguments.least / 100.0,
        finding: finding.to_owned(),
        load: None,
    };
    Ok((phase, comparison.medians()))
}

fn print(
    arguments: &CompareArguments,
    phase: &Phase,
    medians: Option<(f64, f64)>,
) -> Result<(), Failure> {
    if arguments.json {
        return say!("{}", serde_json::to_string(phase)?);
    }
    say!("{}: {}", phase.under, phase.words())?;
    if let Some((first, second)) = medians {
        say!(
            "  medians of {} pairs: first {}, second {}",
            phase.pairs.len(),
            amount(first, &phase.unit),
            amount(second, &phase.unit)
        )?;
    }
    if let (Some(ratio), Some(low), Some(high)) = (phase.ratio, phase.low, phase.high) {
        say!(
            "  second against first: {} (from {} to {}, {:.0} %)",
            change(ratio),
            change(low),
            change(high),
            100.0 * phase.confidence
        )?;
    }
    if let Some(load) = &phase.load {
        say!("  the load: {load}")?;
    }
    Ok(())
}

/// The replay of a model in a process of its own: it ends with this one, whatever ends that.
struct Load {
    child: Child,
}

impl Load {
    fn start(arguments: &CompareArguments, model: &PathBuf) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        // As long as it may take at most.
        let most = arguments.settle + arguments.length + 4 * arguments.run_limit;
        command.args(["load", "replay", "--quiet", "--for"]);
        command.arg(most.as_secs_f64().min(86_400.0).to_string());
        // Told, since asking is too late if this program is killed at once.
        command.args(["--parent", &std::process::id().to_string()]);
        for processor in &arguments.pin {
            command.args(["--pin", &processor.to_string()]);
        }
        if arguments.open {
            command.arg("--open");
        }
        command.arg(model);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::of("the replay does not start", &error))?;
        Ok(Self { child })
    }

    /// It has this time to become what it is to be.
    fn settle(&mut self, time: Duration, is_over: &AtomicBool) -> Result<(), Failure> {
        let began = now();
        while began.elapsed() < time {
            if is_over.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            self.check()?;
            pause(Duration::from_millis(50));
        }
        Ok(())
    }

    /// It has said why on stderr.
    fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(Failure::Error(format!(
                "the replay of the model has ended: {status}"
            ))),
        }
    }

    /// Ends it, and says whether the load was what it was to be, in its words.
    fn end(mut self) -> Option<String> {
        let stdout = self.child.stdout.take()?;
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok()?;
        let began = now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() > LAST_WORDS {
                return None;
            }
            pause(Duration::from_millis(5));
        }
        let lines = io::read_to_string(stdout).ok()?;
        let lines = lines.lines().filter(|line| {
            ["all within", "not all within", "out of reach"]
                .iter()
                .any(|beginning| line.starts_with(beginning))
        });
        let said: Vec<_> = lines.collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a program that measures time")]
fn now() -> Instant {
    Instant::now()
}

fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_two() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(Into::into).collect() };
        let two = words("a -x -- b");
        let (first, second) = split(&two).expect("two commands");
        assert_eq!((first.len(), second.len()), (2, 1));
        for wrong in ["a", "a --", "-- b", "a -- b -- c", "--"] {
            assert!(split(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_counts_is_a_share() {
        assert_eq!(per_cent("1.5"), Ok(1.5));
        for wrong in ["0", "-1", "nan", "inf", "x", "101"] {
            assert!(per_cent(wrong).is_err(), "{wrong}");
        }
    }
}
