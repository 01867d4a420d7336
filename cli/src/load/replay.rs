//! `tautline load replay`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use rustix::process::Pid;
use tautline::loadgen::Resource;
use tautline::loadgen::replica::{
    Bound, CLOSED_TOLERANCE, LivePlant, Meter, Model, OPEN_TOLERANCE, Parameters, Plant, Replay,
    Scope, Shortfall, this_machine,
};

use super::replaying::{Replaying, leeches_for, leeches_of, machine_of, meter};
use super::steps::StepLog;
use super::{life, seconds};
use crate::failure::{Failure, say, tell};
use crate::text::number;

/// Leeches end by themselves so long after the replay should have.
const SPARE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_long_help = MEANING)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ReplayArguments {
    /// What `load model` has written, or a replay has saved.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// With the intensities that were found before, whatever comes of it.
    #[arg(long)]
    open: bool,
    /// How long, seconds.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    length: Duration,
    /// Logical processors that get leeches, one of each kind each, and that are measured. Default: all. May be repeated.
    #[arg(long, value_name = "N")]
    pin: Vec<u32>,
    /// Only these of the model's metrics.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    metrics: Vec<String>,
    /// These leeches, instead of those that move the metrics the most.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    leeches: Vec<Resource>,
    /// Where the model is written to, with the intensities that were found.
    #[arg(long, value_name = "MODEL", conflicts_with = "open")]
    save: Option<PathBuf>,
    /// Where each step is written to, five a second, as JSON lines: what was asked and read, where leeches are, and what the controller takes each to do.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Goes on although the model is of another machine, or has metrics that cannot be had or moved here.
    #[arg(long)]
    anyway: bool,
    /// Exit code 1 if it did not converge.
    #[arg(long)]
    require: bool,
    /// Only the table at the end.
    #[arg(long)]
    quiet: bool,
    /// Who started it: it ends with that process, even one that was gone before it looked.
    #[arg(long, value_name = "PID", hide = true, value_parser = clap::value_parser!(i32).range(1..))]
    parent: Option<i32>,
}

/// What a refusal says besides.
const ANYWAY: &str = " (--anyway goes on)";

const MEANING: &str = "\
First each leech is moved a little, to see what it does to each metric, which takes 3 to 5 seconds; then all metrics
are brought to what is asked together. Metrics are judged by their means over a second. Converged is when those of
the last second were all within 2 % (5 % with --open), and stayed there for a second. Ripple is the standard deviation
of such means, from then on (or from 10 s on); `within` is the share of them that is within the tolerance.";

pub(crate) fn run(arguments: &ReplayArguments) -> Result<(), Failure> {
    let is_interrupted = match arguments.parent.and_then(Pid::from_raw) {
        Some(parent) => life::watch_of(Some(parent))?,
        None => life::watch()?,
    };
    let path = arguments.model.clone();
    let model = life::unless_over(&is_interrupted, move || read(&path))?;
    let (model, meter, resources) = prepare(arguments, model)?;
    let processors = if arguments.pin.is_empty() {
        (0..this_machine().processors).collect()
    } else {
        arguments.pin.clone()
    };
    let found = model.parameters().filter(|_| arguments.open);
    let found = found.map(|parameters| parameters.intensities.clone());
    let length = arguments.length + SPARE;
    let targets = model.targets();
    if is_interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    let log = arguments
        .trace
        .as_deref()
        .map(StepLog::create)
        .transpose()?;
    let replaying = Replaying::begin(meter, &resources, &processors, length, targets, found)?;
    drive(arguments, &model, replaying, log, &is_interrupted)
}

/// What is to be replayed of a model, by what, and with which leeches: whether it can be, before anything is done.
fn prepare(
    arguments: &ReplayArguments,
    model: Model,
) -> Result<(Model, Meter, Vec<Resource>), Failure> {
    let model = select(arguments, model)?;
    check_machine(arguments, &model)?;
    let scope = if arguments.pin.is_empty() {
        Scope::System
    } else {
        Scope::Processors(arguments.pin.clone())
    };
    let names: Vec<String> = model
        .metrics()
        .iter()
        .map(|metric| metric.name.clone())
        .collect();
    let meter = meter(scope, &names)?;
    let model = keep_what_can_be_had(arguments, model, &meter)?;
    let resources = resources(arguments, &model)?;
    Ok((model, meter, resources))
}

/// Whether a model can be replayed on these processors, as far as that is known without doing it.
pub(super) fn check(model: &Path, open: bool, pin: &[u32]) -> Result<(), Failure> {
    let arguments = ReplayArguments {
        model: model.to_owned(),
        open,
        length: Duration::ZERO,
        pin: pin.to_vec(),
        metrics: Vec::new(),
        leeches: Vec::new(),
        save: None,
        trace: None,
        anyway: false,
        require: false,
        quiet: true,
        parent: None,
    };
    match prepare(&arguments, read(model)?) {
        Ok(_) => Ok(()),
        // Nobody else has that option.
        Err(Failure::Error(text)) => Err(Failure::Error(text.replace(ANYWAY, ""))),
        Err(other) => Err(other),
    }
}

fn read(path: &Path) -> Result<Model, Failure> {
    let what = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::of(&what, &error))?;
    Model::read(file).map_err(|error| Failure::of(&what, &error))
}

fn select(arguments: &ReplayArguments, model: Model) -> Result<Model, Failure> {
    if arguments.metrics.is_empty() {
        return Ok(model);
    }
    let mut indices = Vec::new();
    for name in &arguments.metrics {
        let index = model
            .metrics()
            .iter()
            .position(|metric| metric.name == *name);
        let index =
            index.ok_or_else(|| Failure::Error(format!("the model has no metric {name}")))?;
        indices.push(index);
    }
    if arguments.open {
        return Err(Failure::Error(
            "--open replays all that was found: not with --metrics".to_owned(),
        ));
    }
    Ok(model.only(&indices)?)
}

fn check_machine(arguments: &ReplayArguments, model: &Model) -> Result<(), Failure> {
    let Some(recorded) = machine_of(model, arguments.open) else {
        return Err(Failure::Error(
            "the model has no intensities: replay it without --open first, with --save".to_owned(),
        ));
    };
    let differences: Vec<String> = recorded
        .differences(&this_machine())
        .iter()
        .map(ToString::to_string)
        .collect();
    refuse(arguments, "another machine", &differences)
}

/// What stands against a replay: said, and the end of it unless it is to go on anyway.
fn refuse(arguments: &ReplayArguments, what: &str, reasons: &[String]) -> Result<(), Failure> {
    if reasons.is_empty() {
        return Ok(());
    }
    let text = format!("{what}: {}", reasons.join("; "));
    if arguments.anyway {
        tell!("{text}");
        return Ok(());
    }
    Err(Failure::Error(format!("{text}{ANYWAY}")))
}

fn keep_what_can_be_had(
    arguments: &ReplayArguments,
    model: Model,
    meter: &Meter,
) -> Result<Model, Failure> {
    let missing = meter.missing().iter();
    let missing: Vec<String> = missing
        .map(|lacking| format!("{}: {}", lacking.name, lacking.reason))
        .collect();
    refuse(arguments, "metrics that cannot be had here", &missing)?;
    if missing.is_empty() {
        return Ok(model);
    }
    let has = |name: &str| meter.metrics().iter().any(|metric| metric.name == name);
    let kept: Vec<usize> = (0..model.metrics().len())
        .filter(|index| has(&model.metrics()[*index].name))
        .collect();
    let parameters = model.parameters().cloned();
    let model = model.only(&kept)?;
    Ok(match parameters {
        Some(parameters) if arguments.open => model.with_parameters(parameters)?,
        _ => model,
    })
}

fn resources(arguments: &ReplayArguments, model: &Model) -> Result<Vec<Resource>, Failure> {
    if let (true, Some(parameters)) = (arguments.open, model.parameters()) {
        return leeches_of(&parameters.actuators);
    }
    if !arguments.leeches.is_empty() {
        return Ok(arguments.leeches.clone());
    }
    let metrics = model.metrics().iter().map(|metric| metric.name.as_str());
    let (found, unmoved) = leeches_for(metrics);
    let unmoved: Vec<String> = unmoved.into_iter().map(str::to_owned).collect();
    refuse(
        arguments,
        "metrics that no leech is known to move",
        &unmoved,
    )?;
    if found.is_empty() {
        return Err(Failure::Error("no leech is left".to_owned()));
    }
    Ok(found)
}

fn drive(
    arguments: &ReplayArguments,
    model: &Model,
    mut replaying: Replaying,
    mut log: Option<StepLog>,
    is_interrupted: &AtomicBool,
) -> Result<(), Failure> {
    let (mut printed, mut named) = (0, Vec::new());
    let mut was_holding = arguments.open;
    loop {
        let Some(elapsed) = replaying.turn() else {
            continue;
        };
        let Replaying { plant, replay, .. } = &replaying;
        if let Some(log) = &mut log {
            log.add(plant, replay)?;
        }
        if !arguments.quiet {
            if replay.is_holding() && !was_holding {
                was_holding = true;
                say!(
                    "{:5.1} s  what each leech does is known",
                    elapsed.as_secs_f64()
                )?;
            }
            if elapsed.as_secs() > printed {
                printed = elapsed.as_secs();
                line(model, replay, elapsed)?;
            }
            for shortfall in replay.shortfalls() {
                if !named.contains(&shortfall.metric) {
                    named.push(shortfall.metric);
                    say!("         {}", short(model, plant, shortfall))?;
                }
            }
        }
        if elapsed >= arguments.length || is_interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    if let Some(log) = log {
        log.close()?;
    }
    let Replaying { plant, replay, .. } = &replaying;
    summary(arguments, model, plant, replay)?;
    save(arguments, model, plant, replay)?;
    if is_interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    if arguments.require && replay.outcome().converged.is_none() {
        return Err(Failure::Error("it did not converge".to_owned()));
    }
    Ok(())
}

fn line(model: &Model, replay: &Replay, elapsed: Duration) -> Result<(), Failure> {
    let parts = model.metrics().iter().zip(replay.last_second());
    let parts = parts.map(|(metric, (asked, reached))| {
        let ratio = reached / asked;
        format!(
            "{} {} of {} ({ratio:.3})",
            metric.name,
            number(*reached),
            number(*asked)
        )
    });
    let parts: Vec<_> = parts.collect();
    say!("{:5.1} s  {}", elapsed.as_secs_f64(), parts.join("  "))
}

fn short(model: &Model, plant: &LivePlant, shortfall: &Shortfall) -> String {
    let name = model
        .metrics()
        .get(shortfall.metric)
        .map_or("?", |metric| metric.name.as_str());
    let bounds: Vec<String> = shortfall
        .bounds
        .iter()
        .filter_map(|(actuator, bound)| {
            let leech = plant.actuators().get(*actuator)?;
            Some(match bound {
                Bound::Lower => format!("leech {leech} is off"),
                Bound::Upper => format!("leech {leech} takes all it can"),
            })
        })
        .collect();
    let why = if bounds.is_empty() {
        "no leech moves it any further without the others".to_owned()
    } else {
        bounds.join(", ")
    };
    format!(
        "out of reach: {name}: asked {}, reached {}; {why}",
        number(shortfall.asked),
        number(shortfall.reached)
    )
}

fn summary(
    arguments: &ReplayArguments,
    model: &Model,
    plant: &LivePlant,
    replay: &Replay,
) -> Result<(), Failure> {
    let outcome = replay.outcome();
    let tolerance = if arguments.open {
        OPEN_TOLERANCE
    } else {
        CLOSED_TOLERANCE
    };
    say!(
        "{:<34} {:>9} {:>9} {:>7} {:>9} {:>7} {:>7} {:>7}",
        "metric",
        "asked",
        "reached",
        "ratio",
        "converged",
        "ripple",
        "worst",
        "within"
    )?;
    let time = |time: Option<Duration>| {
        time.map_or_else(
            || "never".to_owned(),
            |time| format!("{:.1} s", time.as_secs_f64()),
        )
    };
    for (metric, found) in model.metrics().iter().zip(&outcome.metrics) {
        let ratio = found
            .ratio()
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.4}"));
        say!(
            "{:<34} {:>9} {:>9} {ratio:>7} {:>9} {:>6.2}% {:>6.2}% {:>6.0}%{}",
            metric.name,
            number(found.asked),
            number(found.reached),
            time(found.converged),
            100.0 * found.ripple,
            100.0 * found.worst,
            100.0 * found.within,
            if metric.estimated {
                "  (an estimate)"
            } else {
                ""
            }
        )?;
    }
    let percent = 100.0 * tolerance;
    match outcome.converged {
        Some(time) => say!(
            "all within {percent:.0} % after {:.1} s; judged for {} s since",
            time.as_secs_f64(),
            outcome.windows
        )?,
        None => say!(
            "not all within {percent:.0} % at once; judged for {} s",
            outcome.windows
        )?,
    }
    for (metric, found) in model.metrics().iter().zip(&outcome.metrics) {
        if found.noise > tolerance {
            say!(
                "{}: noise {:.1} % from second to second, above the {percent:.0} % that are asked: it is held no nearer than that",
                metric.name,
                100.0 * found.noise
            )?;
        }
    }
    for shortfall in replay.shortfalls() {
        say!("{}", short(model, plant, shortfall))?;
    }
    if let Some(parameters) = replay.parameters() {
        let row = parameters.rows().last().map_or(&[][..], Vec::as_slice);
        let parts = plant.actuators().iter().zip(row);
        let parts: Vec<_> = parts
            .map(|(name, intensity)| format!("{name} {intensity:.4}"))
            .collect();
        say!("intensities: {}", parts.join(", "))?;
    }
    Ok(())
}

fn save(
    arguments: &ReplayArguments,
    model: &Model,
    plant: &LivePlant,
    replay: &Replay,
) -> Result<(), Failure> {
    let Some(path) = &arguments.save else {
        return Ok(());
    };
    let Some(intensities) = replay.parameters() else {
        return Err(Failure::Error(
            "nothing to save: it ended before anything was found".to_owned(),
        ));
    };
    let model = model.clone().with_parameters(Parameters {
        machine: this_machine(),
        actuators: plant.actuators().to_vec(),
        intensities,
    })?;
    let what = path.display().to_string();
    fs::write(path, model.to_json()?).map_err(|error| Failure::of(&what, &error))?;
    let remark = if replay.outcome().converged.is_none() {
        ", of a replay that did not converge"
    } else {
        ""
    };
    say!("saved in {what}{remark}")
}
