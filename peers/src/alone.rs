//! What one pass takes of memory: in a process of its own, where nobody else has left anything.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::failure::Failure;
use crate::plan::{Link, Load};
use crate::stage::Stage;
use crate::{contestants, usage};

/// The longest that such a process may take: its start, and a pass that takes longest. Arbitrary.
const LIMIT: Duration = Duration::from_secs(150);

/// What the process is told, and its parent's arguments besides.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Which of the corpora.
    pub(crate) place: usize,
    pub(crate) link: Link,
    pub(crate) peer: String,
    /// `--corpus` and such, as the parent got them.
    pub(crate) same: Vec<OsString>,
}

/// Starts the process and has what it found: bytes.
pub(crate) async fn ask(asked: &Asked) -> Result<u64, Failure> {
    let program = std::env::current_exe()?;
    let running = Command::new(program)
        .arg(format!("--alone={}", asked.place))
        .arg(format!("--link={}", asked.link))
        .arg(format!("--peer={}", asked.peer))
        .args(&asked.same)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?
        .wait_with_output();
    let output = tokio::time::timeout(LIMIT, running).await??;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        return Err(Failure::Error(said(&output.stderr)));
    }
    Ok(said(&output.stdout).parse()?)
}

/// What the process does: by how much the memory that it and its contestant's processes have rises
/// above what it was when only the messages were there.
pub(crate) fn measure(
    load: &Load,
    link: Link,
    contestants: &[contestants::Named],
) -> Result<u64, Failure> {
    let unknown = || Failure::Error("the system does not say what memory is taken".to_owned());
    let stage = Stage::build(Duration::ZERO)?;
    usage::forget_peak();
    let before = usage::resident().ok_or_else(unknown)?;
    let outcomes = stage.run(load, link, contestants, 1, 0);
    let mut taken = usage::peak().ok_or_else(unknown)?.saturating_sub(before);
    for outcome in outcomes {
        if let Some(reason) = outcome.cannot_run.or(outcome.failed) {
            return Err(Failure::Error(reason));
        }
        taken += outcome
            .passes
            .iter()
            .map(|pass| pass.elsewhere)
            .sum::<u64>();
    }
    Ok(taken)
}
