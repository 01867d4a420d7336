//! This program again as a process of its own, so that processor time and what the monitor counts of it are its alone: the nodes of a bench and of a lab. What it is to do and
//! what it says are lines, one JSON object each, over its stdin and stdout.

use std::io::BufRead;
use std::process::Stdio;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::failure::Failure;

/// What it says, line by line.
pub(crate) type Lines = tokio::io::Lines<BufReader<ChildStdout>>;

/// Such a process. Dropped, it is killed.
pub(crate) struct Process {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "it is there to be dropped")
    )]
    child: Child,
    stdin: ChildStdin,
}

impl Process {
    /// Starts this program with these arguments, behind the words of `prefix` (`ip netns exec NAME`); `what` it is stands before what fails.
    pub(crate) fn start(
        what: &str,
        prefix: &[String],
        arguments: &[String],
    ) -> Result<(Self, Lines), Failure> {
        let failed = |error: std::io::Error| Failure::of(&format!("{what} does not start"), &error);
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = match prefix {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The terminal's interrupt is for who started it, and ends it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Error(format!("{what} has no pipes")));
        };
        Ok((Self { child, stdin }, BufReader::new(stdout).lines()))
    }

    /// Its number, while it is there.
    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) async fn tell(&mut self, order: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(order)? + "\n";
        Ok(self.stdin.write_all(line.as_bytes()).await?)
    }
}

/// In such a process: the lines that it is told from now on. With the last of them the process ends, wherever it is: who started it has ended, however that was, and nobody
/// is left to hear of it.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    orders
}
