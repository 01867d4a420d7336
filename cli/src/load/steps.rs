//! What a replay does from step to step, in a file of JSON lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use tautline::loadgen::replica::{LivePlant, Plant, Replay, Step};

use crate::failure::Failure;

/// Of the file.
const VERSION: u64 = 1;

/// The first line.
#[derive(Serialize)]
struct Header<'a> {
    tautline_replay: u64,
    metrics: &'a [String],
    leeches: &'a [String],
}

/// Each of the others.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    step: Step,
    /// Processor time that each leech has taken in it, as a share.
    taken: Vec<f64>,
}

/// Such a file as it is written.
pub(crate) struct StepLog {
    path: String,
    file: BufWriter<File>,
    has_begun: bool,
}

impl StepLog {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let what = path.display().to_string();
        let file = File::create(path).map_err(|error| Failure::of(&what, &error))?;
        Ok(Self {
            path: what,
            file: BufWriter::new(file),
            has_begun: false,
        })
    }

    /// The step that was done last.
    pub(crate) fn add(&mut self, plant: &LivePlant, replay: &Replay) -> Result<(), Failure> {
        if !self.has_begun {
            self.has_begun = true;
            self.line(&Header {
                tautline_replay: VERSION,
                metrics: plant.metrics(),
                leeches: plant.actuators(),
            })?;
        }
        self.line(&Line {
            step: replay.step(),
            taken: plant.taken(),
        })
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes);
        written.map_err(|error| Failure::of(&self.path, &error))
    }

    /// All of it is in the file.
    pub(crate) fn close(mut self) -> Result<(), Failure> {
        let flushed = self.file.flush();
        flushed.map_err(|error| Failure::of(&self.path, &error))
    }
}
