//! The latest decisions, for those who want to see them all.

use core::time::Duration;
use std::collections::VecDeque;

use super::stream::Stream;
use crate::codecs::Arm;
use crate::control::{Choice, Reason, Situation, Texture};
use crate::units::{BytesPerSec, Time};

/// Decisions kept, of about 100 bytes each; of more than that the oldest are lost. Arbitrary: small
/// messages on a fast link take 40 ms to fill it, time enough to fetch them.
pub const MAX_DECISIONS: usize = 4096;

/// One decision and what it was made on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// When.
    pub at: Time,
    /// Name of the stream whose messages begin the block.
    pub stream: String,
    /// Plain bytes that the block was expected to have.
    pub plain_len: usize,
    /// .. of so many that it might have become.
    pub block_len: usize,
    /// What they look like.
    pub texture: Texture,
    /// The arm.
    pub arm: Arm,
    /// Why.
    pub reason: Reason,
    /// What is known of the link's rate.
    pub link_rate: Option<BytesPerSec>,
    /// Wire bytes that had not left for the link yet.
    pub link_backlog: u64,
    /// Plain bytes behind the block.
    pub queued_behind: usize,
    /// Blocks before it without a pause.
    pub run: u32,
    /// Whether the codec budget had anything left.
    pub budget_left: bool,
    /// Whether the peer was short of processor time.
    pub peer_starved: bool,
    /// Estimated cost over that of the cheapest arm.
    pub regret: Duration,
}

impl Decision {
    pub(super) fn new(stream: &Stream, situation: &Situation<'_>, choice: Choice) -> Self {
        Self {
            at: situation.now,
            stream: stream.name.clone(),
            plain_len: situation.plain_len,
            block_len: stream.stats.block_len.unwrap_or(situation.plain_len),
            texture: situation.texture,
            arm: situation.arms[choice.arm],
            reason: choice.reason,
            link_rate: situation.link.link_rate(),
            link_backlog: situation.link_backlog,
            queued_behind: situation.queued_behind,
            run: situation.run,
            budget_left: situation.budget_left,
            peer_starved: situation.peer_starved,
            regret: choice.regret,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Trace {
    on: bool,
    kept: VecDeque<Decision>,
}

impl Trace {
    pub(super) fn switch(&mut self, on: bool) {
        self.on = on;
    }

    pub(super) const fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn extend(&mut self, decision: Option<Decision>) {
        let Some(decision) = decision else { return };
        if self.kept.len() == MAX_DECISIONS {
            self.kept.pop_front();
        }
        self.kept.push_back(decision);
    }

    pub(super) fn take(&mut self) -> VecDeque<Decision> {
        core::mem::take(&mut self.kept)
    }
}
