//! `tautline lab`: nodes, links, loads, monitor and transport together, as a scenario says.
//!
//! ```text
//!  scenario --variants, by turns--> stage (a run) --> folder: lab.jsonl, runs/, report.html
//!                                     |
//!          nodes (processes)  links (relays)  loads (leeches)  watch (monitor)
//! ```
//!
//! Each run has nodes of its own, so that none knows what another has learnt.

mod figures;
mod folder;
mod loads;
mod member;
mod node;
mod print;
mod protocol;
mod scenario;
mod shipped;
mod sockets;
mod stage;
mod traffic;
mod watch;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use tautline::loadgen::Topology;

use self::folder::Folder;
pub(crate) use self::node::run as run_node;
use self::scenario::{MAX_FILE, Scenario};
use self::sockets::Sockets;
use crate::failure::{Failure, say};
use crate::report::lab as rows;
use crate::terminal::progress;
use crate::text;

/// Runs nodes, links, loads, monitor and traffic together as a scenario says, and writes one result folder.
#[derive(Debug, Args)]
#[command(after_long_help = MEANING)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct LabArguments {
    /// A scenario's file, or the name of one that comes with the program.
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    scenario: Option<String>,
    /// The folder of the results. Default: lab-NAME.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Writes into a folder that is not empty.
    #[arg(long)]
    force: bool,
    /// One round, with fewer messages and shorter times: whether it runs, not what it is.
    #[arg(long)]
    quick: bool,
    /// How often each variant runs, whatever the scenario says.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Only these of the variants.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Shows the scenarios that come with the program, and runs none.
    #[arg(long)]
    list: bool,
    /// Prints the scenario as it would be run, and runs none.
    #[arg(long, conflicts_with = "list")]
    show: bool,
}

const MEANING: &str = "\
The folder gets the scenario, what this machine is, lab.jsonl (a line for each run, figure and shape, which `tautline
report` reads), runs/ (what nodes and monitor said, a file for each run) and report.html.

A figure is the median over the rounds, beside what the source says. A shape is what ought to be, such as that one is
less than the other: it agrees or differs if what one is less by, in the middle of the rounds, is on one side with all
of its range at 95 %, and is open otherwise; scenarios may go on for more rounds then. Machines differ: shapes can be expected to agree, figures cannot. docs/lab.md says more.";

pub(crate) fn run(arguments: &LabArguments) -> Result<(), Failure> {
    if arguments.list {
        return shipped::list();
    }
    let asked = arguments.scenario.as_deref().unwrap_or_default();
    let source = Source::find(asked)?;
    if arguments.show {
        return say!("{}", source.text.trim_end());
    }
    let (mut scenario, mut variants) =
        Scenario::read(&source.text).map_err(|problem| Failure::of(&source.name, &problem))?;
    select(&mut variants, &arguments.only)?;
    if arguments.quick {
        scenario.quicken();
        for (_, one) in &mut variants {
            one.quicken();
        }
    }
    if let Some(rounds) = arguments.rounds {
        scenario.rounds = rounds;
        scenario.most_rounds = None;
    }
    for (name, variant) in &variants {
        for order in traffic::orders(variant, &source.beside) {
            let what = format!(
                "{}: variant `{name}`: traffic `{}`",
                source.name, order.name
            );
            traffic::workload(&order).map_err(|failure| failure.within(&what))?;
        }
    }
    let path = arguments.out.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("lab-{}", source.stem())));
    let is_over = crate::load::watch()?;
    let lab = Lab {
        scenario,
        variants,
        source,
        is_quick: arguments.quick,
        is_over: &is_over,
    };
    let folder = Folder::create(&path, arguments.force)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let result = runtime.block_on(lab.run(folder));
    runtime.shutdown_background();
    result?;
    say!("\nresults in {}", path.display())
}

/// Only those that are named, in their order.
fn select(variants: &mut Vec<(String, Scenario)>, only: &[String]) -> Result<(), Failure> {
    for name in only {
        if !variants.iter().any(|(known, _)| known == name) {
            let names: Vec<&str> = variants.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Failure::Error(format!(
                "no variant `{name}`; there are {}",
                names.join(", ")
            )));
        }
    }
    if !only.is_empty() {
        variants.retain(|(name, _)| only.contains(name));
    }
    Ok(())
}

/// Where a scenario comes from.
struct Source {
    name: String,
    text: String,
    /// Where files are that it names.
    beside: PathBuf,
}

impl Source {
    /// A file, or one of those that come with the program.
    fn find(asked: &str) -> Result<Self, Failure> {
        if let Some(text) = shipped::find(asked) {
            return Ok(Self {
                name: asked.to_owned(),
                text: text.to_owned(),
                beside: PathBuf::from("."),
            });
        }
        let path = Path::new(asked);
        let is_name =
            path.extension().is_none_or(|end| end != "toml") && path.components().count() == 1;
        if is_name && !path.exists() {
            return Err(Failure::Error(format!(
                "`{asked}` is no file, and no scenario of that name comes with the program: --list shows those that do"
            )));
        }
        let of = |error: &std::io::Error| Failure::of(asked, error);
        let file = File::open(path).map_err(|error| of(&error))?;
        let mut bytes = Vec::new();
        let mut limited = file.take(MAX_FILE as u64 + 1);
        limited
            .read_to_end(&mut bytes)
            .map_err(|error| of(&error))?;
        if bytes.len() > MAX_FILE {
            return Err(Failure::Error(format!(
                "{asked}: a scenario of more than {MAX_FILE} bytes"
            )));
        }
        let text = String::from_utf8(bytes).map_err(|error| Failure::of(asked, &error))?;
        let beside = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self {
            name: asked.to_owned(),
            text,
            beside,
        })
    }

    /// What its results are called after: the name, without what a file of scenarios ends with.
    fn stem(&self) -> String {
        let path = Path::new(&self.name);
        let is_toml = path.extension().is_some_and(|end| end == "toml");
        let stem = if is_toml {
            path.file_stem()
        } else {
            path.file_name()
        };
        stem.map_or_else(
            || "results".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    }
}

/// All runs of a scenario.
struct Lab<'a> {
    scenario: Scenario,
    variants: Vec<(String, Scenario)>,
    source: Source,
    is_quick: bool,
    is_over: &'a AtomicBool,
}

impl Lab<'_> {
    async fn run(&self, mut folder: Folder) -> Result<(), Failure> {
        let topology = Topology::of_system(Path::new("/"), None);
        let allowed = topology.allowed();
        let head = self.head(&topology, &allowed);
        folder.write("scenario.toml", self.source.text.as_bytes())?;
        folder.write(
            "machine.json",
            (serde_json::to_string_pretty(&head.machine)? + "\n").as_bytes(),
        )?;
        folder.row(rows::Row::Scenario(Box::new(head.clone())))?;
        print::head(&head)?;
        let sockets = Sockets::create()?;
        let mut runs = Vec::new();
        let rounds = self.scenario.rounds;
        let files = text::file_names(self.variants.iter().map(|(name, _)| name.as_str()));
        let most_rounds = self.scenario.most_rounds.unwrap_or(rounds).max(rounds);
        for round in 0..most_rounds {
            if round >= rounds && !figures::is_open(&self.scenario, &runs) {
                break;
            }
            let order = crate::bench::order(
                self.variants.len(),
                round as usize,
                rounds as usize,
                self.scenario.seed,
            );
            for number in order {
                let (name, variant) = &self.variants[number];
                let (mut file, samples) = folder.run(&files[number], round)?;
                let of_run = sockets.of_run(runs.len())?;
                let place = stage::Place {
                    processors: &allowed,
                    beside: &self.source.beside,
                    sockets: &of_run,
                    samples,
                    is_over: self.is_over,
                };
                let of = rounds.max(round + 1);
                progress(&format!("round {} of {of}: {name}", round + 1));
                let result = stage::run(variant, &place, &mut file).await;
                progress("");
                file.close()?;
                let mut run = result.map_err(|failure| failure.within(name))?;
                name.clone_into(&mut run.variant);
                run.round = round;
                print::run(&run)?;
                folder.row(rows::Row::Run(Box::new(run.clone())))?;
                runs.push(run);
                if self.is_over.load(Ordering::Relaxed) {
                    return Err(Failure::Interrupted);
                }
            }
        }
        let (figures, shapes) = figures::judge(&self.scenario, &runs);
        for figure in &figures {
            folder.row(rows::Row::Figure(figure.clone()))?;
        }
        for shape in &shapes {
            folder.row(rows::Row::Shape(shape.clone()))?;
        }
        rows::write(&folder.file("report.html"), &folder.file("lab.jsonl"))?;
        print::figures(&figures, &shapes)
    }

    fn head(&self, topology: &Topology, allowed: &[u32]) -> rows::Head {
        let mut notes = Vec::new();
        let asked = self.variants.iter().flat_map(|(_, one)| &one.nodes);
        let most = asked.flat_map(|node| &node.processors).max();
        if let Some(most) = most.filter(|most| **most as usize >= allowed.len()) {
            notes.push(format!(
                "the scenario has nodes on {} processors, and the lab may use {}: some nodes share one",
                u64::from(*most) + 1,
                allowed.len()
            ));
        }
        if self.is_quick {
            notes.push(format!(
                "--quick: one round, {} times the messages and times: whether it runs, not what it is",
                self.scenario.quick
            ));
        }
        let rounds = self.scenario.rounds;
        if let Some(most) = self.scenario.most_rounds.filter(|most| *most > rounds) {
            notes.push(format!(
                "{rounds} rounds, and more up to {most} while a shape is open"
            ));
        }
        rows::Head {
            title: self.scenario.title.clone(),
            source: self.scenario.source.clone(),
            quick: self.is_quick,
            rounds: self.scenario.rounds,
            variants: self.variants.iter().map(|(name, _)| name.clone()).collect(),
            machine: folder::machine(topology),
            notes,
            plots: self.scenario.plots.clone(),
        }
    }
}
