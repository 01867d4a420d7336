//! Blocks that are encoded once more, with other arms and off their way, to learn what those would
//! have made of them.
//!
//! ```text
//! Idle --planned with a block--> Waiting --block encoded--> Ready --given out--> Running --result--> Idle
//! ```

use core::time::Duration;

use super::job::{ShadowJob, ShadowedBlock};
use crate::codecs::Arm;
use crate::control::{BlockClass, Sent};
use crate::dictionary::Dictionary;
use crate::units::saturating_nanos;
use crate::wire::StreamId;

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

#[derive(Debug, Default)]
pub(super) struct Shadows {
    state: State,
    /// Arms planned for the block that is being built.
    pub(super) planned: Vec<usize>,
    spare: Vec<u8>,
    pub(super) encoded: u64,
    pub(super) nanos: u64,
}

impl Shadows {
    /// Whether none is under way.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
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
        Some((subject, taken))
    }
}
