//! What a carrier that keeps no order does with whole frames: they are lost, come twice, change places or come again later.

use std::collections::VecDeque;

use tautline::wire::{Frame, Hello, parse_frame};

/// Frames that may come again.
const KEPT: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disorder {
    Lose,
    Repeat,
    /// It comes after the next one.
    Swap,
    /// After it, so many frames from before once more.
    Replay(usize),
}

/// Which frames it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Any,
    Blocks,
    /// Offers, pieces, retirements and answers.
    Dictionaries,
}

impl Which {
    fn fits(self, frame: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Blocks => frame[0] < 0xe0,
            Self::Dictionaries => matches!(frame[0], 0xe9 | 0xea),
        }
    }
}

/// One direction of a connection, frame by frame.
#[derive(Debug, Default)]
pub struct Frames {
    /// The hello has been said.
    begun: bool,
    /// How many frames to let pass before, and what then.
    pending: Option<(usize, Which, Disorder)>,
    held: Option<Vec<u8>>,
    kept: VecDeque<Vec<u8>>,
}

impl Frames {
    /// Another connection begins.
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    pub const fn has_begun(&self) -> bool {
        self.begun
    }

    pub fn disturb(&mut self, after: usize, which: Which, disorder: Disorder) {
        self.pending = Some((after, which, disorder));
    }

    /// Takes what one end has said, whole frames, and gives what becomes of it; whether something did.
    pub fn carry(&mut self, said: &[u8]) -> (Vec<u8>, bool) {
        let (mut out, mut rest, mut disturbed) = (Vec::with_capacity(said.len()), said, false);
        if !self.begun && !rest.is_empty() {
            let (_, len) = Hello::parse(rest).expect("a session's hello").expect("all of it");
            out.extend_from_slice(&rest[..len]);
            rest = &rest[len..];
            self.begun = true;
        }
        while !rest.is_empty() {
            let parsed = parse_frame(rest, 1 << 24, true).expect("a session's frame");
            let len = match parsed.expect("all of it") {
                Frame::Block { header, body_at } => body_at + header.body_len,
                Frame::Control { len, .. } => len,
            };
            let (frame, behind) = rest.split_at(len);
            rest = behind;
            let was_held = self.held.take();
            disturbed |= self.pass(frame, &mut out);
            out.extend(was_held.into_iter().flatten());
            self.kept.truncate(KEPT - 1);
            self.kept.push_front(frame.to_vec());
        }
        (out, disturbed)
    }

    fn pass(&mut self, frame: &[u8], out: &mut Vec<u8>) -> bool {
        let disorder = match &mut self.pending {
            Some((0, which, disorder)) if which.fits(frame) => *disorder,
            Some((after, which, _)) => {
                *after -= usize::from(which.fits(frame));
                out.extend_from_slice(frame);
                return false;
            }
            None => {
                out.extend_from_slice(frame);
                return false;
            }
        };
        self.pending = None;
        match disorder {
            Disorder::Lose => {}
            Disorder::Repeat => out.extend_from_slice(&frame.repeat(2)),
            Disorder::Swap => self.held = Some(frame.to_vec()),
            Disorder::Replay(count) => {
                out.extend_from_slice(frame);
                let count = count.min(self.kept.len());
                self.kept.range(..count).rev().for_each(|again| out.extend_from_slice(again));
            }
        }
        true
    }
}
