//! Workloads: which messages are sent when, and how long their answers take.
//!
//! ```text
//! Arrivals --when--> Schedule --due--> Drive --Connection--> echo
//! Mix ------what------------------------^  |<----- answers ----
//!                                          v
//!                                     DriveReport: latency from intended times, from sending, lateness
//! ```
//!
//! * **[`Arrivals`]** say when messages are to be sent: constant, Poisson, in bursts, as recorded; or whenever others are answered.
//! * **A [`Mix`]** of [`Content`]s says what they hold: messages of corpora or generators, random bytes of some [`Sizes`]; it may change on the way.
//! * **A [`Workload`]** is some [`StreamKind`]s with arrivals and mix each, as a file or made in a program.
//! * **A `Drive`** (feature `transport`, Linux) sends them over a connection and says what came of it.
//!
//! Nothing but `Drive` reads a clock or knows a socket; seeds determine times and messages.
//!
//! ```
//! use tautline::loadgen::workload::{Corpora, Schedule, Workload};
//!
//! let text = r#"
//!     seconds = 2.5
//!     [[streams]]
//!     name = "signalling"
//!     arrivals = "poisson:1000"
//!     content = "telecom"
//!     [[streams]]
//!     name = "bulk"
//!     arrivals = "constant:10"
//!     content = [{ of = "text" }, { of = "random:65536", weight = 2 }]
//! "#;
//! let workload = Workload::parse(text, &mut Corpora::none())?;
//! let due: Vec<_> = Schedule::new(&workload).collect();
//! assert!((2300..2700).contains(&due.len()));
//! assert!(due.is_sorted_by_key(|due| due.at));
//! # Ok::<(), tautline::loadgen::workload::WorkloadError>(())
//! ```
//!
//! # Coordinated omission
//!
//! A generator that waits for answers, or for the transport to take what it gave, sends less while the system stalls, and times less of the stall (Tene, *How not to measure
//! latency*, 2013). Here messages of open loops have *intended* times that nothing moves: latency counts from these, whenever the message could be sent. What could not even be kept for
//! sending is counted as not sent.

mod arrivals;
mod content;
mod corpora;
#[cfg(all(feature = "transport", any(target_os = "linux", target_os = "android")))]
mod drive;
mod error;
mod file;
mod report;
mod schedule;
mod sizes;

use core::time::Duration;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use self::arrivals::{Arrivals, MAX_OUTSTANDING, RATES, Times};
pub use self::content::{Change, Content, MAX_CONTENTS, Messages, Mix};
pub use self::corpora::Corpora;
#[cfg(all(feature = "transport", any(target_os = "linux", target_os = "android")))]
pub use self::drive::{Drive, DriveConfig, DriveError};
pub use self::error::{Refused, WorkloadError};
pub use self::file::WorkloadFile;
pub use self::report::{DriveReport, Ended, KindReport, Latency, Row, histogram, percentiles};
pub use self::schedule::{Due, Schedule};
pub use self::sizes::Sizes;
/// The crate of the histograms in a [`KindReport`].
pub use hdrhistogram;

use self::error::{shorten, within};
use crate::control::PolicyConfig;

/// The longest message of a workload, bytes: what a session takes by default.
pub const MAX_MESSAGE: usize = 16 << 20;
/// The most kinds of streams.
pub const MAX_KINDS: usize = 64;
/// The most streams, all kinds together.
pub const MAX_STREAMS: u32 = 4096;
/// The longest that a workload goes on: a day.
pub const MAX_DRIVE: Duration = Duration::from_secs(86_400);
/// The most contents of all kinds: a generator may hold a few hundred KiB.
const MAX_ALL_CONTENTS: usize = 512;
/// The longest file, bytes.
const MAX_FILE: u64 = 1 << 20;
/// The longest name of a kind, bytes: with a number behind it, it is the name of a stream (255).
const MAX_NAME: usize = 80;

/// Streams of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamKind {
    name: String,
    streams: u32,
    arrivals: Arrivals,
    mix: Mix,
    policy: Option<PolicyConfig>,
    replies: bool,
    messages: Option<u64>,
}

impl StreamKind {
    #[cfg(test)]
    fn of_zeros(name: &str, arrivals: &str) -> Self {
        let corpora = &mut Corpora::none();
        let arrivals = Arrivals::parse(arrivals, corpora).expect("arrivals");
        let content = Content::parse("zeros:10", corpora).expect("content");
        Self::new(name, arrivals, Mix::of(content))
    }

    /// One stream that is answered, without a policy of its own.
    pub fn new(name: impl Into<String>, arrivals: Arrivals, mix: Mix) -> Self {
        Self {
            name: name.into(),
            streams: 1,
            arrivals,
            mix,
            policy: None,
            replies: true,
            messages: None,
        }
    }

    /// How many streams its messages go to in turn. Default: 1.
    #[must_use]
    pub const fn streams(mut self, count: u32) -> Self {
        self.streams = count;
        self
    }

    /// The policy of its streams. Default: the session's.
    #[must_use]
    pub const fn policy(mut self, policy: Option<PolicyConfig>) -> Self {
        self.policy = policy;
        self
    }

    /// Whether the peer answers each message with the same bytes, in order on each stream, as `tautline echo` does. If not, what comes is thrown away. Default: it does.
    #[must_use]
    pub const fn replies(mut self, does: bool) -> Self {
        self.replies = does;
        self
    }

    /// How many messages there are at most. Default: no bound.
    #[must_use]
    pub const fn messages(mut self, count: Option<u64>) -> Self {
        self.messages = count;
        self
    }

    /// What it is called; its streams are called so with a number behind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many streams there are.
    pub const fn stream_count(&self) -> u32 {
        self.streams
    }

    /// When its messages are to be sent.
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// What they hold.
    pub const fn mix(&self) -> &Mix {
        &self.mix
    }

    /// The policy of its streams.
    pub const fn stream_policy(&self) -> Option<PolicyConfig> {
        self.policy
    }

    /// Whether the peer answers each message.
    pub const fn has_replies(&self) -> bool {
        self.replies
    }

    /// How many messages there are at most.
    pub const fn message_count(&self) -> Option<u64> {
        self.messages
    }

    fn check(&self) -> Result<(), (&'static str, Refused)> {
        let refused = |key, reason: &str| Err((key, Refused::new(reason)));
        if self.name.is_empty()
            || self.name.len() > MAX_NAME
            || self.name.chars().any(char::is_control)
        {
            return refused(
                "name",
                "a name has 1 to 80 bytes, and no control characters",
            );
        }
        within(
            "streams:",
            f64::from(self.streams),
            1.0,
            f64::from(MAX_STREAMS),
        )
        .map_err(|error| ("count", error))?;
        if self.messages == Some(0) {
            return refused("messages", "there must be one at least");
        }
        if !self.arrivals.is_open() && !self.replies {
            return refused("arrivals", "a closed loop needs replies");
        }
        Ok(())
    }
}

/// Kinds of streams, how long their messages are sent, and the seed of all that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    kinds: Vec<StreamKind>,
    length: Duration,
    seed: u64,
}

impl Workload {
    /// These kinds of streams, for ten seconds, with a seed of 1.
    ///
    /// # Errors
    ///
    /// No kind, more than [`MAX_KINDS`], more than [`MAX_STREAMS`] streams in all, a name that is empty, too long or there twice, or a closed loop without replies.
    pub fn new(kinds: Vec<StreamKind>) -> Result<Self, WorkloadError> {
        let count = kinds.len();
        if count == 0 || count > MAX_KINDS {
            let reason =
                format!("{count} kinds of streams, of which there must be 1 to {MAX_KINDS}");
            return Err(WorkloadError::value("streams")(Refused::new(reason)));
        }
        let mut names = HashSet::new();
        for (place, kind) in kinds.iter().enumerate() {
            kind.check().map_err(|(key, error)| {
                WorkloadError::value(format!("streams[{place}].{key}"))(error)
            })?;
            if !names.insert(kind.name()) {
                let reason = format!("there are two called \"{}\"", shorten(kind.name()));
                let key = format!("streams[{place}].name");
                return Err(WorkloadError::value(key)(Refused::new(reason)));
            }
        }
        let streams: u64 = kinds.iter().map(|kind| u64::from(kind.streams)).sum();
        if streams > u64::from(MAX_STREAMS) {
            let reason = format!("{streams} in all, of which there may be {MAX_STREAMS}");
            return Err(WorkloadError::value("streams")(Refused::new(reason)));
        }
        let contents: usize = kinds.iter().map(|kind| kind.mix.content_count()).sum();
        if contents > MAX_ALL_CONTENTS {
            let reason =
                format!("{contents} contents in all, of which there may be {MAX_ALL_CONTENTS}");
            return Err(WorkloadError::value("streams")(Refused::new(reason)));
        }
        Ok(Self {
            kinds,
            length: Duration::from_secs(10),
            seed: 1,
        })
    }

    /// Reads a file of TOML; files that it names are those of its directory. See docs/load.md for what it holds.
    ///
    /// # Errors
    ///
    /// It cannot be read, is no workload, or says what cannot be: with the key and what is allowed.
    pub fn read(path: &Path) -> Result<Self, WorkloadError> {
        let failure = |source| WorkloadError::Io {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        // One byte more than is taken: then it is too long.
        let file = File::open(path).map_err(failure)?.take(MAX_FILE + 1);
        { file }.read_to_string(&mut text).map_err(failure)?;
        let directory = path.parent().unwrap_or_else(|| Path::new(""));
        Self::parse(&text, &mut Corpora::in_directory(directory)).map_err(|source| {
            WorkloadError::File {
                path: path.to_owned(),
                source: Box::new(source),
            }
        })
    }

    /// From the text of a file.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub fn parse(text: &str, corpora: &mut Corpora<'_>) -> Result<Self, WorkloadError> {
        if text.len() as u64 > MAX_FILE {
            return Err(WorkloadError::TooLong { max: MAX_FILE });
        }
        let file: WorkloadFile =
            toml::from_str(text).map_err(|error| WorkloadError::Syntax(error.to_string()))?;
        file.load(corpora)
    }

    /// How long messages are sent, [`MAX_DRIVE`] at most. Default: 10 s.
    #[must_use]
    pub fn length(mut self, length: Duration) -> Self {
        self.length = length.min(MAX_DRIVE);
        self
    }

    /// The seed of all that is drawn. Default: 1.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The kinds of streams.
    pub fn kinds(&self) -> &[StreamKind] {
        &self.kinds
    }

    /// How long messages are sent.
    pub const fn drive_length(&self) -> Duration {
        self.length
    }

    /// The seed of all that is drawn.
    pub const fn drive_seed(&self) -> u64 {
        self.seed
    }

    /// No message is longer, bytes: what [`Limits::max_message`](crate::session::Limits::max_message) of both ends must allow.
    pub fn longest(&self) -> usize {
        let lens = self.kinds.iter().map(|kind| kind.mix.longest());
        lens.max().unwrap_or(0)
    }

    /// The seed of the arrivals of a kind, and that of its messages.
    fn seeds(&self, kind: usize) -> (u64, u64) {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let mut seeds = (0, 0);
        for _ in 0..=kind {
            seeds = (rng.u64(..), rng.u64(..));
        }
        seeds
    }

    /// The messages of a kind, as a `Drive` sends them.
    pub fn messages(&self, kind: usize) -> Option<Messages> {
        let mix = self.kinds.get(kind)?.mix();
        Some(mix.messages(self.seeds(kind).1))
    }
}
