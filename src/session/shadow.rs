//! Blocks that are encoded once more, with other arms and off their way, to learn what those would
//! have made of them.
//!
//! ```text
//! Idle --planned with a block--> Waiting --block encoded--> Ready --given out--> Running --result--> Idle
//! ```

use core::time::Duration;

use super::job::{ShadowJob, ShadowedBlock};
use crate::codecs::Arm;
use crate::control::{BlockClass, BudgetRate, Sent};
use crate::dictionary::Dictionary;
use crate::units::{CpuLoad, Time, saturating_nanos};
use crate::wire::StreamId;

/// Share of one processor, or of a smaller codec budget, that shadows may take over time. Arbitrary.
const SHARE: f64 = 0.1;
/// Idle share of the processors from which on shadows get all of their share, and what of it they get
/// without any. Arbitrary.
const IDLE_ENOUGH: f64 = 0.3;
const LEAST_IDLE: f64 = 0.1;
/// Processor time that they may have saved up: three of the heaviest encodes of a 64 KiB block.
const MOST_SAVED_NANOS: f64 = 100e6;
/// What a session begins with: one of the heaviest, or all of the others.
const FIRST_NANOS: f64 = 20e6;

/// The block being shadowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) stream: StreamId,
    /// Whether it is (nearly) all the stream's own.
    pub(super) own: bool,
    pub(super) class: BlockClass,
    pub(super) sent: Sent,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Waiting(Subject, ShadowJob),
    Ready(Subject, ShadowJob),
    Running(Subject),
}

#[derive(Debug)]
pub(super) struct Shadows {
    state: State,
    saved_nanos: f64,
    filled_at: Option<Time>,
    /// Arms planned for the block that is being built.
    pub(super) planned: Vec<usize>,
    spare: Vec<u8>,
    pub(super) encoded: u64,
    pub(super) nanos: u64,
}

impl Default for Shadows {
    fn default() -> Self {
        Self {
            state: State::Idle,
            saved_nanos: FIRST_NANOS,
            filled_at: None,
            planned: Vec::new(),
            spare: Vec::new(),
            encoded: 0,
            nanos: 0,
        }
    }
}

impl Shadows {
    /// The processor time that there is for shadows now; `None` while one is under way.
    /// Little of it on processors that are busy with other things.
    pub(super) fn allowance_nanos(
        &mut self,
        now: Time,
        load: CpuLoad,
        budget: Option<BudgetRate>,
    ) -> Option<f64> {
        let since = self.filled_at.replace(now).unwrap_or(now);
        let passed = saturating_nanos(now.saturating_since(since)) as f64;
        let granted = budget.map_or(1.0, |rate| rate.as_nanos_per_sec() as f64 * 1e-9);
        let idle = ((1.0 - load.get()) / IDLE_ENOUGH).clamp(LEAST_IDLE, 1.0);
        self.saved_nanos =
            (self.saved_nanos + passed * SHARE * idle * granted.min(1.0)).min(MOST_SAVED_NANOS);
        (matches!(self.state, State::Idle) && self.saved_nanos > 0.0).then_some(self.saved_nanos)
    }

    /// Takes a copy of a block in `parts` that is to be tried with `arms`; it waits for its own encode
    /// if it has one.
    pub(super) fn begin<'a>(
        &mut self,
        subject: Subject,
        (arms, dictionary): (Vec<Arm>, Option<Dictionary>),
        parts: impl Iterator<Item = &'a [u8]>,
        encodes: bool,
    ) {
        let mut plain = core::mem::take(&mut self.spare);
        plain.clear();
        parts.for_each(|part| plain.extend_from_slice(part));
        let job = ShadowJob {
            arms,
            plain,
            dictionary,
        };
        self.state = if encodes {
            State::Waiting(subject, job)
        } else {
            State::Ready(subject, job)
        };
    }

    /// Whether the block that is being encoded will be tried without history and dictionary too.
    pub(super) fn pairs(&self) -> bool {
        match &self.state {
            State::Waiting(_, job) => job.arms.iter().any(|arm| *arm == arm.alone()),
            State::Idle | State::Ready(..) | State::Running(_) => false,
        }
    }

    /// The block that waits has been encoded: its level by itself is known if it went out compressed, or its
    /// wire bytes with a history.
    pub(super) fn on_encoded(&mut self, level: Option<f32>, with_history: Option<usize>) {
        self.state = match core::mem::take(&mut self.state) {
            State::Waiting(mut subject, job) => {
                subject.sent.level = level;
                subject.sent.with_history = with_history;
                State::Ready(subject, job)
            }
            other => other,
        };
    }

    /// The block that waits will not be sent as it was built.
    pub(super) fn cancel(&mut self) {
        if matches!(self.state, State::Waiting(..)) {
            self.state = State::Idle;
        }
    }

    pub(super) fn take_job(&mut self) -> Option<ShadowJob> {
        match core::mem::take(&mut self.state) {
            State::Ready(subject, job) => {
                self.state = State::Running(subject);
                Some(job)
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// The result has come: what it is of, and the processor time it took.
    pub(super) fn on_shadowed(&mut self, block: &mut ShadowedBlock) -> Option<(Subject, Duration)> {
        let State::Running(subject) = core::mem::take(&mut self.state) else {
            return None;
        };
        self.spare = core::mem::take(&mut block.plain);
        let taken = block.taken();
        self.encoded += block.results.len() as u64;
        self.nanos = self.nanos.saturating_add(saturating_nanos(taken));
        self.saved_nanos -= saturating_nanos(taken) as f64;
        Some((subject, taken))
    }
}
