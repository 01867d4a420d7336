//! Loads on nodes' processors: leeches are threads of the lab, and end with it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline::loadgen::replica::{End, Model, Plant, Schedule, Scope, this_machine};
use tautline::loadgen::{Leech, LeechConfig};

use super::scenario::{LoadSpec, When};
use crate::failure::Failure;
use crate::load::{LeechSpec, Replaying, leeches_for, leeches_of, machine_of, meter};
use crate::report::lab::LoadTaken;

/// A load of a scenario, where it is to be.
pub(super) struct Load {
    spec: LoadSpec,
    when: When,
    processors: Vec<u32>,
    /// No leech goes on for longer.
    length: Duration,
    state: State,
    taken: Vec<LoadTaken>,
    began: (f64, u64),
}

enum State {
    Waiting,
    Leeches(Vec<Leech>),
    Replay(Replayed),
    Over,
}

impl Load {
    /// On these processors, for so long at most.
    pub(super) fn new(spec: &LoadSpec, processors: Vec<u32>, length: Duration) -> Self {
        Self {
            spec: spec.clone(),
            when: spec.when(),
            processors,
            length,
            state: State::Waiting,
            taken: Vec::new(),
            began: (0.0, 0),
        }
    }

    /// Begins if it has no time to begin at: before traffic does.
    pub(super) fn settle(&mut self, folder: &Path) -> Result<(), Failure> {
        if self.when.from.is_none() {
            self.start(folder, (0.0, 0))?;
        }
        Ok(())
    }

    /// Begins and ends when it is time; `now` is in seconds and messages.
    pub(super) fn look(&mut self, folder: &Path, now: (f64, u64)) -> Result<(), Failure> {
        let has_come = |moment: Option<super::scenario::Moment>| {
            moment.is_some_and(|moment| moment.has_come(now.0, now.1))
        };
        match self.state {
            State::Waiting if has_come(self.when.from) => self.start(folder, now)?,
            State::Leeches(_) | State::Replay(_) if has_come(self.when.until) => self.stop(now),
            _ => {}
        }
        if let State::Replay(replay) = &self.state
            && let Some(error) = replay.failure()
        {
            return Err(self.failed(&error));
        }
        Ok(())
    }

    fn failed(&self, reason: &str) -> Failure {
        Failure::Error(format!("load `{}`: {reason}", self.spec.name))
    }

    fn start(&mut self, folder: &Path, now: (f64, u64)) -> Result<(), Failure> {
        self.began = now;
        self.state = match &self.spec.leech {
            Some(leech) => State::Leeches(self.leeches(leech)?),
            None => State::Replay(self.replay(folder)?),
        };
        Ok(())
    }

    fn leeches(&self, leech: &str) -> Result<Vec<Leech>, Failure> {
        let spec: LeechSpec = leech.parse().map_err(|error: String| self.failed(&error))?;
        let on_each = self.processors.iter().map(|&processor| {
            let mut config = LeechConfig::new(spec.resource)
                .intensity(spec.intensity)
                .processor(processor)
                .length(self.length);
            if self.spec.gives_way {
                config = config.gives_way();
            }
            Leech::start(config)
                .map_err(|error| Failure::of(&format!("load `{}`", self.spec.name), &error))
        });
        on_each.collect()
    }

    fn replay(&self, folder: &Path) -> Result<Replayed, Failure> {
        let what = format!("load `{}`", self.spec.name);
        let asked = match (&self.spec.replica, &self.spec.model) {
            (Some(replica), _) => Asked {
                metrics: replica.metrics.clone(),
                targets: Schedule::new(
                    Duration::from_secs_f64(replica.interval),
                    End::Repeat,
                    replica.rows.clone(),
                )
                .map_err(|error| Failure::of(&what, &error))?,
                open: None,
            },
            (None, Some(path)) => {
                let path = folder.join(path);
                let what = format!("{what}: {}", path.display());
                let file = File::open(&path).map_err(|error| Failure::of(&what, &error))?;
                let model = Model::read(file).map_err(|error| Failure::of(&what, &error))?;
                self.of_model(&model)?
            }
            (None, None) => return Err(self.failed("nothing to do")),
        };
        Replayed::start(asked, self.processors.clone(), self.length)
            .map_err(|reason| self.failed(&reason))
    }

    fn of_model(&self, model: &Model) -> Result<Asked, Failure> {
        let machine = machine_of(model, self.spec.open)
            .ok_or_else(|| self.failed("the model has no intensities"))?;
        let differences = machine.differences(&this_machine());
        if let Some(first) = differences.first() {
            return Err(self.failed(&format!("the model is of another machine: {first}")));
        }
        let open = model.parameters().filter(|_| self.spec.open);
        Ok(Asked {
            metrics: model
                .metrics()
                .iter()
                .map(|metric| metric.name.clone())
                .collect(),
            targets: model.targets(),
            open: open.map(|found| (found.actuators.clone(), found.intensities.clone())),
        })
    }

    /// Ends it; what it took is kept.
    pub(super) fn stop(&mut self, now: (f64, u64)) {
        let taken = |what: String| LoadTaken {
            name: self.spec.name.clone(),
            what,
            from: self.began,
            until: now,
            ..LoadTaken::default()
        };
        match std::mem::replace(&mut self.state, State::Over) {
            State::Waiting | State::Over => {}
            State::Leeches(leeches) => {
                let asked: Option<LeechSpec> = self
                    .spec
                    .leech
                    .as_ref()
                    .and_then(|leech| leech.parse().ok());
                for (leech, processor) in leeches.into_iter().zip(&self.processors) {
                    let stats = leech.stop();
                    self.taken.push(LoadTaken {
                        processor: Some(*processor),
                        asked: asked.map(|asked| asked.intensity.share()),
                        held: Some(stats.share()),
                        ..taken(format!("leech {}", stats.resource))
                    });
                }
            }
            State::Replay(replay) => {
                let words = replay.stop();
                self.taken.extend(words.into_iter().map(taken));
            }
        }
    }

    /// What it took, each time it was on.
    pub(super) fn into_taken(self) -> Vec<LoadTaken> {
        self.taken
    }
}

/// What a replay is to reach, and with `open` the actuators and intensities that do.
struct Asked {
    metrics: Vec<String>,
    targets: Schedule,
    open: Option<(Vec<String>, Schedule)>,
}

/// A replay in a thread of its own.
struct Replayed {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
    failure: Arc<std::sync::Mutex<Option<String>>>,
}

impl Replayed {
    fn start(asked: Asked, processors: Vec<u32>, length: Duration) -> Result<Self, String> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let failure: Arc<std::sync::Mutex<Option<String>>> = Arc::default();
        let (theirs, reason) = (Arc::clone(&is_stopped), Arc::clone(&failure));
        let thread = std::thread::Builder::new()
            .name("lab-replay".to_owned())
            .spawn(move || match replay(asked, &processors, length, &theirs) {
                Ok(words) => words,
                Err(error) => {
                    if let Failure::Error(text) = error {
                        *reason
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(text);
                    }
                    Vec::new()
                }
            })
            .map_err(|error| error.to_string())?;
        Ok(Self {
            is_stopped,
            thread: Some(thread),
            failure,
        })
    }

    fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// A line for each metric.
    fn stop(mut self) -> Vec<String> {
        self.is_stopped.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for Replayed {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it panicked with, should it ever, has been printed.
            let _ = thread.join();
        }
    }
}

fn replay(
    asked: Asked,
    processors: &[u32],
    length: Duration,
    is_stopped: &AtomicBool,
) -> Result<Vec<String>, Failure> {
    let meter = meter(Scope::Processors(processors.to_vec()), &asked.metrics)?;
    if let Some(missing) = meter.missing().first() {
        return Err(Failure::Error(format!(
            "{} cannot be had here: {}",
            missing.name, missing.reason
        )));
    }
    let (leeches, open) = match asked.open {
        Some((actuators, intensities)) => (leeches_of(&actuators)?, Some(intensities)),
        None => match leeches_for(asked.metrics.iter().map(String::as_str)) {
            (leeches, unmoved) if unmoved.is_empty() => (leeches, None),
            (_, unmoved) => {
                let names = unmoved.join(", ");
                return Err(Failure::Error(format!("no leech is known to move {names}")));
            }
        },
    };
    let mut replaying = Replaying::begin(meter, &leeches, processors, length, asked.targets, open)?;
    while !is_stopped.load(Ordering::Relaxed) {
        replaying.turn();
    }
    let outcome = replaying.replay.outcome();
    let lines = asked.metrics.iter().zip(&outcome.metrics);
    let lines = lines.map(|(name, metric)| {
        let ratio = metric.ratio().map_or_else(
            || "not reached in the time there was".to_owned(),
            |ratio| {
                format!(
                    "reached {ratio:.3} of what was asked, over {} s",
                    outcome.windows
                )
            },
        );
        format!("{name}: {ratio}")
    });
    let mut lines: Vec<String> = lines.collect();
    let names = replaying.plant.actuators().join(", ");
    lines.push(format!("leeches {names}"));
    Ok(lines)
}
