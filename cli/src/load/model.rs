//! `tautline load model`.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tautline::loadgen::replica::{End, Profile};

use super::seconds;
use crate::failure::{Failure, say};
use crate::text::number;

#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// What `load record` has written.
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Where the model is written to.
    #[arg(long, value_name = "MODEL")]
    out: PathBuf,
    /// The means of so many seconds each, one after the other.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1", conflicts_with = "mean")]
    interval: Duration,
    /// The mean of all of it alone.
    #[arg(long)]
    mean: bool,
    /// What comes after the last interval.
    #[arg(long, default_value = "repeat")]
    end: EndArgument,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EndArgument {
    /// The first.
    Repeat,
    /// The last goes on.
    Hold,
}

pub(crate) fn run(arguments: &ModelArguments) -> Result<(), Failure> {
    let what = arguments.profile.display().to_string();
    let of = |error: &(dyn std::error::Error + 'static)| Failure::of(&what, error);
    let file = File::open(&arguments.profile).map_err(|error| of(&error))?;
    let profile = Profile::read(BufReader::new(file)).map_err(|error| of(&error))?;
    let interval = (!arguments.mean).then_some(arguments.interval);
    let end = match arguments.end {
        EndArgument::Repeat => End::Repeat,
        EndArgument::Hold => End::Hold,
    };
    let model = profile.model(interval, end).map_err(|error| of(&error))?;
    let path = arguments.out.display().to_string();
    fs::write(&arguments.out, model.to_json()?).map_err(|error| Failure::of(&path, &error))?;
    let targets = model.targets();
    if targets.is_constant() {
        say!("{path}: means of {} samples", profile.len())?;
    } else {
        let seconds = targets.interval().as_secs_f64();
        say!(
            "{path}: {} intervals of {seconds} s, of {} samples",
            targets.rows().len(),
            profile.len()
        )?;
    }
    for (index, metric) in model.metrics().iter().enumerate() {
        let values = || targets.rows().iter().map(|row| row[index]);
        let (least, most) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(0.0, f64::max),
        );
        let estimated = if metric.estimated {
            " (an estimate)"
        } else {
            ""
        };
        let range = if targets.is_constant() {
            String::new()
        } else {
            format!(", {} to {}", number(least), number(most))
        };
        let mean = format!("{:>9} {}", number(model.means()[index]), metric.unit);
        say!(
            "  {:<34} mean {}{range}{estimated}",
            metric.name,
            mean.trim_end()
        )?;
    }
    Ok(())
}
