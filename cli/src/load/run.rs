//! `tautline load run`: leeches for some time.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use tautline::eventlog::EventLog;
use tautline::loadgen::{
    Leech, LeechConfig, LeechError, LeechStats, MAX_LENGTH, MissRatios, NetworkConfig, Resource,
    Topology,
};
use tautline::transport::Address;

use super::spec::{LeechSpec, misses};
use super::{life, list};
use crate::events::EventLogArguments;
use crate::failure::{Failure, say};
use crate::text;

/// The most leeches at a time.
const MAX_LEECHES: usize = 1024;
/// How often it is looked whether all is over.
const LOOK: Duration = Duration::from_millis(50);
/// A share that is further off than this was not held: the target of step 6.
const HELD: f64 = 0.02;

/// Takes resources for some time, each leech a share of one processor.
///
/// The leeches end with the time, with Ctrl-C, and with the program that started this one.
#[derive(Debug, Args)]
#[command(after_long_help = MEANING)]
pub(crate) struct RunArguments {
    /// A leech, its share and its processor, as in cpu, l2:0.3 or cpu:0.5@1. May be repeated; --list shows the kinds.
    #[arg(
        long,
        value_name = "KIND[:INTENSITY][@PROCESSOR]",
        required_unless_present = "list"
    )]
    leech: Vec<LeechSpec>,
    /// Percentages of data accesses that miss L1D and of those that miss the last cache, as in 3.3,22: of leeches l1, l2, llc and memory.
    #[arg(long, value_name = "L1D%,LLC%", value_parser = misses)]
    misses: Option<MissRatios>,
    /// Where a leech network sends messages to: HOST:PORT, tls:HOST:PORT, quic:HOST:PORT or unix:PATH, of a tautline echo, say.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<Address>,
    /// The logical processor of those leeches that name none.
    #[arg(long, value_name = "N")]
    pin: Option<u32>,
    /// How long, seconds.
    #[arg(long = "for", value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    length: Duration,
    /// Shows leeches, processors and caches, and what of them is assumed, and takes nothing.
    #[arg(long)]
    list: bool,
    /// With --list: measures whether the caches show in what loads take (a second or two).
    #[arg(long, requires = "list")]
    calibrate: bool,
    #[command(flatten)]
    event_log: EventLogArguments,
}

const MEANING: &str = "\
An intensity is a share of one processor's time, 0 to 1, held against the leech's own processor time; of a leech load,
against how long its processor was busy with it and all others. Where others want the processor too, it may not be
had; the summary says so.";

fn seconds(text: &str) -> Result<Duration, String> {
    let most = MAX_LENGTH.as_secs_f64();
    match text.parse() {
        Ok(seconds) if (0.0..=most).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("seconds, from 0 to {most}")),
    }
}

pub(super) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    if arguments.list {
        let topology = Topology::of_system(Path::new("/"), arguments.pin);
        return list::print(&topology, arguments.calibrate);
    }
    if arguments.leech.len() > MAX_LEECHES {
        return Err(Failure::Error(format!(
            "{} leeches: there may be {MAX_LEECHES}",
            arguments.leech.len()
        )));
    }
    if arguments.misses.is_some() && !arguments.leech.iter().any(|spec| has_misses(spec.resource)) {
        return Err(Failure::Error(
            "--misses: none of these leeches has miss ratios; l1, l2, llc and memory have"
                .to_owned(),
        ));
    }
    let log = arguments.event_log.open()?;
    let is_over = life::watch()?;
    let mut leeches = Vec::new();
    for spec in &arguments.leech {
        leeches.push((*spec, start(*spec, arguments, log.as_ref())?));
    }
    let is_watched = std::io::stdout().is_terminal();
    let mut before: Vec<LeechStats> = leeches.iter().map(|(_, leech)| leech.stats()).collect();
    let mut looks = 0_u32;
    while !is_over.load(Ordering::Relaxed)
        && !leeches.iter().all(|(_, leech)| leech.stats().is_over)
    {
        std::thread::sleep(LOOK);
        looks += 1;
        if is_watched && looks.is_multiple_of(20) {
            for ((spec, leech), before) in leeches.iter().zip(&mut before) {
                let now = leech.stats();
                say!("{}", line(*spec, &now.since(before)))?;
                *before = now;
            }
        }
    }
    let is_interrupted = is_over.load(Ordering::Relaxed);
    if is_watched {
        say!("in all:")?;
    }
    for (spec, leech) in leeches {
        say!("{}", line(spec, &leech.stop()))?;
    }
    if is_interrupted {
        return Err(Failure::Interrupted);
    }
    Ok(())
}

fn has_misses(resource: Resource) -> bool {
    matches!(resource, Resource::Data(_))
}

fn start(
    spec: LeechSpec,
    arguments: &RunArguments,
    log: Option<&EventLog>,
) -> Result<Leech, Failure> {
    let processor = spec.processor.or(arguments.pin);
    let started = match (spec.resource, &arguments.to) {
        (Resource::Network, Some(address)) => {
            let mut config = NetworkConfig::new(address.clone())
                .intensity(spec.intensity)
                .length(arguments.length);
            if let Some(processor) = processor {
                config = config.processor(processor);
            }
            if let Some(log) = log {
                config = config.event_log(log.clone());
            }
            Leech::network(config)
        }
        (resource, _) => {
            let mut config = LeechConfig::new(resource)
                .intensity(spec.intensity)
                .length(arguments.length);
            if let Some(processor) = processor {
                config = config.processor(processor);
            }
            if let (Some(misses), true) = (arguments.misses, has_misses(resource)) {
                config = config.misses(misses);
            }
            if let Some(log) = log {
                config = config.event_log(log.clone());
            }
            Leech::start(config)
        }
    };
    started.map_err(|error| match error {
        LeechError::NoAddress => {
            Failure::Error("leech network: --to says where it sends".to_owned())
        }
        other => Failure::of(&format!("leech {}", spec.resource), &other),
    })
}

/// `cpu            held 0.500 of 0.5, 12345678 operations/s`.
fn line(spec: LeechSpec, stats: &LeechStats) -> String {
    let (asked, held) = (spec.intensity.share(), stats.share());
    let mut parts = vec![format!(
        "{:<16} held {held:.3} of {asked}, {:.0} {}/s",
        spec.resource,
        text::per_second(stats.operations, stats.wall),
        spec.resource.operation()
    )];
    if let Some(nanos) = stats.access_nanos() {
        parts.push(format!("{nanos:.1} ns each"));
    }
    if let Some(misses) = stats.misses {
        parts.push(format!("misses {misses}"));
    }
    if (held - asked).abs() > HELD {
        let missing = stats.wall.mul_f64((asked - held).max(0.0));
        parts.push(why_not(spec.resource, missing, stats.waited));
    }
    parts.join(", ")
}

/// Why a share was not held, of which so much time is `missing`.
fn why_not(resource: Resource, missing: Duration, waited: Option<Duration>) -> String {
    let Some(waited) = waited else {
        return "not held".to_owned();
    };
    let for_processor = format!("it waited {} for a processor", text::time(waited));
    if resource == Resource::Network && waited < missing / 2 {
        return format!("not held: the link or who receives takes no more ({for_processor})");
    }
    format!("not held: {for_processor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_the_peer_does_not_take_is_told_from_one_that_the_processor_does_not_give() {
        let millis = Duration::from_millis;
        let said = |resource, missing, waited: Option<u64>| {
            why_not(resource, millis(missing), waited.map(millis))
        };
        assert_eq!(
            said(Resource::Network, 500, Some(20)),
            "not held: the link or who receives takes no more (it waited 20.0 ms for a processor)"
        );
        assert_eq!(
            said(Resource::Network, 500, Some(400)),
            "not held: it waited 400.0 ms for a processor"
        );
        assert_eq!(
            said(Resource::Cpu, 500, Some(20)),
            "not held: it waited 20.0 ms for a processor"
        );
        assert_eq!(said(Resource::Network, 500, None), "not held");
    }
}
