//! The lab's hold on a node's process.

use std::time::Duration;

use tokio::sync::mpsc;

use super::protocol::{Order, Word};
use crate::failure::Failure;
use crate::process::Process;

/// A node's start, its guard's budget among it.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The longest line of a node, bytes.
const MAX_LINE: usize = 4 << 20;

/// A node's process. Dropped, it is killed.
pub(super) struct Member {
    pub(super) name: String,
    process: Process,
}

/// What a node says, and when its process has ended `None`.
pub(super) type Words = mpsc::UnboundedReceiver<(String, Option<Word>)>;
pub(super) type WordSender = mpsc::UnboundedSender<(String, Option<Word>)>;

impl Member {
    /// Starts this program again as a node; what it says goes to `words`, with its name.
    pub(super) fn start(name: &str, words: WordSender) -> Result<Self, Failure> {
        let what = format!("node `{name}`");
        let (process, mut lines) = Process::start(&what, &[], &["lab-node".to_owned()])?;
        let owner = name.to_owned();
        tokio::spawn(async move {
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
            process,
        })
    }

    pub(super) fn process(&self) -> Option<u32> {
        self.process.id()
    }

    pub(super) async fn tell(&mut self, order: &Order) -> Result<(), Failure> {
        let told = self.process.tell(order).await;
        told.map_err(|failure| failure.within(&format!("node `{}`", self.name)))
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
