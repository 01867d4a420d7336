//! `--trace`: every decision as a JSON line, while they are made.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tautline::session::{Decision, MAX_DECISIONS};
use tautline::transport::Connection;

use crate::failure::{Failure, tell};

/// How often decisions are fetched: small messages on a fast link take 40 ms to make as many as a
/// session keeps.
const PERIOD: Duration = Duration::from_millis(20);

/// Where decisions are written to.
pub(crate) struct Trace {
    out: BufWriter<Box<dyn Write + Send>>,
    path: PathBuf,
    may_lack: bool,
}

/// Whether `path` stands for stdout.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

impl Trace {
    /// # Errors
    ///
    /// The file cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let out: Box<dyn Write + Send> = if is_stdout(path) {
            Box::new(io::stdout())
        } else {
            Box::new(File::create(path).map_err(|error| failure(path, &error))?)
        };
        Ok(Self {
            out: BufWriter::new(out),
            path: path.to_owned(),
            may_lack: false,
        })
    }

    /// Writes what is decided for as long as it is polled.
    pub(crate) async fn follow(&mut self, connection: &Connection) -> Result<Infallible, Failure> {
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            ticks.tick().await;
            self.catch_up(connection).await?;
        }
    }

    /// Writes what was decided since the last time.
    pub(crate) async fn catch_up(&mut self, connection: &Connection) -> Result<(), Failure> {
        let decisions = connection.take_decisions().await.unwrap_or_default();
        if decisions.len() >= MAX_DECISIONS && !self.may_lack {
            self.may_lack = true;
            tell!("tautline: decisions came too fast for the trace: some may be missing in it");
        }
        decisions
            .iter()
            .try_for_each(|decision| writeln!(self.out, "{}", line(decision)))
            .and_then(|()| self.out.flush())
            .map_err(|error| failure(&self.path, &error))
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    if is_stdout(path) && error.kind() == ErrorKind::BrokenPipe {
        return Failure::BrokenPipe;
    }
    Failure::of(&format!("the trace {}", path.display()), error)
}

fn line(decision: &Decision) -> Value {
    json!({
        "at_ns": decision.at.as_nanos(), "stream": decision.stream, "plain_len": decision.plain_len,
        "block_len": decision.block_len,
        "texture": decision.texture.name(), "arm": decision.arm.to_string(), "reason": decision.reason.name(),
        "link_bps": decision.link_rate.map(|rate| rate.get() * 8.0), "link_backlog": decision.link_backlog,
        "queued_behind": decision.queued_behind, "run": decision.run, "budget_left": decision.budget_left,
        "peer_starved": decision.peer_starved,
        "regret_ns": u64::try_from(decision.regret.as_nanos()).unwrap_or(u64::MAX),
    })
}
