//! The lab's hold on a node's process.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;

use super::protocol::{Order, Word};
use crate::failure::Failure;

/// A node's start, its guard's budget among it.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The longest line of a node, bytes.
const MAX_LINE: usize = 4 << 20;

/// A node's process. Dropped, it is killed.
pub(super) struct Member {
    pub(super) name: String,
    child: Child,
    stdin: ChildStdin,
}

/// What a node says, and when its process has ended `None`.
pub(super) type Words = mpsc::UnboundedReceiver<(String, Option<Word>)>;
pub(super) type WordSender = mpsc::UnboundedSender<(String, Option<Word>)>;

impl Member {
    /// Starts this program again as a node; what it says goes to `words`, with its name.
    pub(super) fn start(name: &str, words: WordSender) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::of(&format!("node `{name}` does not start"), &error);
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = tokio::process::Command::new(program)
            .arg("lab-node")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The terminal's interrupt is for the lab, which ends its nodes itself.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Error(format!("node `{name}` has no pipes")));
        };
        let owner = name.to_owned();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let word = serde_json::from_str(&line).ok();
                let is_known = word.is_some() && line.len() <= MAX_LINE;
                if !is_known || words.send((owner.clone(), word)).is_err() {
                    break;
                }
            }
            let _ = words.send((owner, None));
        });
        Ok(Self {
            name: name.to_owned(),
            child,
            stdin,
        })
    }

    pub(super) fn process(&self) -> Option<u32> {
        self.child.id()
    }

    pub(super) async fn tell(&mut self, order: &Order) -> Result<(), Failure> {
        let line = serde_json::to_string(order)? + "\n";
        let written = self.stdin.write_all(line.as_bytes()).await;
        written.map_err(|error| Failure::of(&format!("node `{}`", self.name), &error))
    }
}

/// The next word, whoever says it.
///
/// # Errors
///
/// A node has failed or ended, or none says anything within the time.
pub(super) async fn next(
    words: &mut Words,
    limit: Option<Duration>,
) -> Result<(String, Word), Failure> {
    let limit = limit.unwrap_or(START_LIMIT);
    match tokio::time::timeout(limit, words.recv()).await {
        Ok(Some((name, Some(Word::Failed(text))))) => {
            Err(Failure::Error(format!("node `{name}`: {text}")))
        }
        Ok(Some((name, Some(word)))) => Ok((name, word)),
        Ok(Some((name, None))) => Err(Failure::Error(format!("node `{name}` has ended"))),
        Ok(None) => Err(Failure::Error("all nodes have ended".to_owned())),
        Err(_) => Err(Failure::Error(format!(
            "no node says anything for {} s",
            limit.as_secs_f64()
        ))),
    }
}
