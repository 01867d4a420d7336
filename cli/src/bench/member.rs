//! The bench's hold on its two nodes' processes.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::protocol::{Command, Reply};
use crate::failure::Failure;

/// A node's process. Dropped, it is killed.
pub(super) struct Member {
    role: &'static str,
    _child: Child,
    stdin: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

impl Member {
    /// Starts this program again in a `role`, behind the words of `prefix` (`ip netns exec NAME`).
    pub(super) fn start(
        role: &'static str,
        prefix: &[String],
        arguments: &[String],
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::of(&format!("the {role}'s process does not start"), &error)
        };
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = match prefix {
            [] => tokio::process::Command::new(program),
            [first, rest @ ..] => {
                let mut command = tokio::process::Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        let mut child = command
            .args(["bench-node", role])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The terminal's interrupt is for the bench, which ends its nodes itself.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Error(format!("the {role} has no pipes")));
        };
        Ok(Self {
            role,
            _child: child,
            stdin,
            replies: BufReader::new(stdout).lines(),
        })
    }

    /// What it answers. The connection to it is of no use after a failure, the limit's among them.
    pub(super) async fn ask(
        &mut self,
        command: &Command,
        limit: Duration,
    ) -> Result<Reply, Failure> {
        let role = self.role;
        let answer = async {
            let line = serde_json::to_string(command)? + "\n";
            self.stdin.write_all(line.as_bytes()).await?;
            match self.replies.next_line().await? {
                Some(line) => Ok(serde_json::from_str(&line)?),
                None => Err(Failure::Error("its process has ended".to_owned())),
            }
        };
        let text = match tokio::time::timeout(limit, answer).await {
            Ok(Ok(Reply::Failed(text)) | Err(Failure::Error(text))) => text,
            Ok(reply) => return reply,
            Err(_) => format!("it took longer than {} s", limit.as_secs_f64()),
        };
        Err(Failure::Error(format!("the {role}: {text}")))
    }

    /// That it answered something else than it was asked.
    pub(super) fn confused(&self) -> Failure {
        Failure::Error(format!("the {} answers something else", self.role))
    }
}
