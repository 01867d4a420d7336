//! Blocks that are with codecs: put out in the order in which they were made, whichever is done first.
//!
//! ```text
//! decided --> the first of a wave --> others with the same arm, while enough waits --> all put out --> decided
//! ```
//!
//! Only blocks that stand by themselves are encoded beside one another: a history must have seen the block before.

use core::time::Duration;
use std::collections::VecDeque;

use super::Wanted;
use crate::codecs::Arm;
use crate::control::{Choice, LinkRate, PARALLEL_FROM, Texture};
use crate::few::push_back_few;
use crate::session::block::{Gathered, Member};
use crate::session::dictionaries::DictionaryUse;
use crate::session::history::SlotUse;
use crate::session::job::EncodedBlock;
use crate::session::stream::Company;
use crate::units::{Time, saturating_nanos};

/// A block that is being encoded.
#[derive(Debug)]
pub(super) struct Encoding {
    pub(super) number: u64,
    pub(super) arm: Arm,
    pub(super) texture: Texture,
    pub(super) decided: Time,
    pub(super) likely: Duration,
    /// Whether no other is encoded beside it.
    pub(super) is_alone: bool,
    /// Where it goes, if it has a history.
    pub(super) slot: Option<SlotUse>,
    /// .. and plain bytes that this begins with, if it begins with this block.
    pub(super) primed: Option<usize>,
    /// .. or if it is encoded with a dictionary.
    pub(super) dictionary: Option<DictionaryUse>,
    pub(super) gathered: Gathered,
}

/// How fast blocks are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// One after another: there may be a history, or what is sent ahead on a link of unknown rate is measured out.
    OneByOne,
    /// As fast as they come.
    Any,
    /// A link is busy with each for so long.
    Link {
        each: Duration,
        /// Whether what is known of it decides on each.
        decided: bool,
    },
}

impl Pace {
    /// .. of a block of `plain_len` bytes that shrinks by `ratio`, where whoever decides goes by the link or does not.
    pub(super) fn of(rate: LinkRate, plain_len: usize, ratio: f64, is_adaptive: bool) -> Self {
        match rate {
            LinkRate::About(rate) => {
                let nanos = rate.nanos_for(plain_len as f64 / ratio);
                Self::Link {
                    each: Duration::from_nanos(nanos as u64),
                    decided: is_adaptive,
                }
            }
            _ if is_adaptive => Self::OneByOne,
            _ => Self::Any,
        }
    }

    /// How many blocks that take `likely` are to be encoded at once, at most `most`.
    fn keeps_up(self, likely: Duration, most: usize) -> usize {
        let enough = match self {
            Self::OneByOne => 1,
            Self::Any => u64::MAX,
            Self::Link { each, .. } => {
                saturating_nanos(likely).div_ceil(saturating_nanos(each).max(1))
            }
        };
        enough.clamp(1, most as u64) as usize
    }

    const fn is_decided(self) -> bool {
        matches!(self, Self::Link { decided: true, .. })
    }
}

/// What became of one.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) block: EncodedBlock,
    pub(super) encode: Duration,
    /// Since when the time is none of the codec's.
    pub(super) since: Time,
}

/// Where there is nothing to decide on, blocks go on like this for so many times as many as are encoded at once. Arbitrary: only when all are out
/// others get their turn, and until then fewer and fewer are with their codecs.
const LONG_WAVE: usize = 8;

/// A decision that holds for several blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wave {
    pub(super) choice: Choice,
    company: Company,
    texture: Texture,
    plain_len: usize,
    /// How many are encoded at once, and how many more may be made.
    width: usize,
    left: usize,
}

impl Wave {
    /// Whether a block like this is another of the wave.
    pub(super) fn goes_on(&self, company: Company, wanted: &Wanted) -> bool {
        self.company == company
            && self.texture == wanted.texture
            && wanted.plain_len >= self.plain_len / 2
    }
}

#[derive(Debug)]
pub(super) struct Encodings {
    /// In the order in which they were made.
    blocks: VecDeque<(Encoding, Option<Finished>)>,
    wave: Option<Wave>,
    /// How many the driver encodes at once.
    most: usize,
    next: u64,
    /// Where blocks keep whose messages they have.
    spare: Vec<Vec<Member>>,
}

impl Default for Encodings {
    fn default() -> Self {
        Self {
            blocks: VecDeque::new(),
            wave: None,
            most: 1,
            next: 0,
            spare: Vec::new(),
        }
    }
}

impl Encodings {
    pub(super) const fn set_most(&mut self, most: usize) {
        self.most = if most == 0 { 1 } else { most };
    }

    /// How many blocks are encoded at once, at most.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// How many are with a codec, or wait for one before them.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether another block may be made.
    pub(super) fn has_room(&self) -> bool {
        self.is_empty() || self.wave.is_some_and(|wave| self.len() < wave.width)
    }

    /// What was decided, if it holds for the next block too.
    pub(super) fn wave(&self) -> Option<Wave> {
        self.wave.filter(|_| !self.is_empty())
    }

    /// No more are made before those that there are have been put out.
    pub(super) const fn end_wave(&mut self) {
        self.wave = None;
    }

    /// A number for the next block, and room for its members.
    pub(super) fn begin(&mut self) -> (u64, Vec<Member>) {
        self.next += 1;
        (self.next, self.spare.pop().unwrap_or_default())
    }

    /// A block was made of what was `wanted`. If it is the first one, and stands by itself, others may follow with the same choice:
    /// as many as it takes to keep `pace`.
    pub(super) fn push(
        &mut self,
        mut encoding: Encoding,
        choice: Choice,
        wanted: &Wanted,
        pace: Pace,
    ) {
        if let Some(wave) = &mut self.wave {
            wave.left -= 1;
        } else if self.is_empty() && encoding.likely > PARALLEL_FROM {
            let width = pace.keeps_up(encoding.likely, self.most);
            let all = match width {
                ..=1 => 1,
                width if pace.is_decided() => width,
                width => width * LONG_WAVE,
            };
            self.wave = Some(Wave {
                choice,
                company: encoding.gathered.company,
                texture: wanted.texture,
                plain_len: wanted.plain_len,
                width,
                left: all - 1,
            });
        }
        self.wave = self.wave.filter(|wave| wave.left > 0);
        encoding.is_alone = self.is_empty() && self.wave.is_none();
        push_back_few(&mut self.blocks, (encoding, None), 1);
    }

    /// The block of a number, unless it was forgotten.
    pub(super) fn find(&mut self, number: u64) -> Option<&mut (Encoding, Option<Finished>)> {
        let mut blocks = self.blocks.iter_mut();
        blocks.find(|(encoding, _)| encoding.number == number)
    }

    /// The next one to be put out, if its codec is done with it.
    pub(super) fn pop_finished(&mut self) -> Option<(Encoding, Finished)> {
        let (_, finished) = self.blocks.front_mut()?;
        let finished = finished.take()?;
        let (encoding, _) = self.blocks.pop_front()?;
        if self.is_empty() {
            self.end_wave();
        }
        Some((encoding, finished))
    }

    /// A block is out: where it kept its members is free.
    pub(super) fn recycle(&mut self, members: Vec<Member>) {
        self.spare.push(members);
    }

    /// The connection is gone.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.end_wave();
    }
}
