//! The bench's hold on its two nodes' processes.

use std::time::Duration;

use super::protocol::{Command, Reply};
use crate::failure::Failure;
use crate::process::{Lines, Process};

/// A node's process. Dropped, it is killed.
pub(super) struct Member {
    role: &'static str,
    process: Process,
    replies: Lines,
}

impl Member {
    /// Starts this program again in a `role`, behind the words of `prefix` (`ip netns exec NAME`).
    pub(super) fn start(
        role: &'static str,
        prefix: &[String],
        arguments: &[String],
    ) -> Result<Self, Failure> {
        let words = ["bench-node", role].map(str::to_owned);
        let arguments = [&words[..], arguments].concat();
        let what = format!("the {role}'s process");
        let (process, replies) = Process::start(&what, prefix, &arguments)?;
        Ok(Self {
            role,
            process,
            replies,
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
            self.process.tell(command).await?;
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
