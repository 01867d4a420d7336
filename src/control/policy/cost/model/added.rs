//! What a history adds to blocks of one class, beside what they are by themselves.
//!
//! Blocks of one content differ two- to threefold, so that those sent with history and those sent without say
//! little of each other. What is compared is one block: it went out with history, and a shadow says what it is by
//! itself. The difference hardly varies within a content, and less than the quotient does (docs/decisions.md).

use super::{BlockClass, CHANGE, MOST_LN_RATIO};
use crate::codecs::{Length, typical_history_level, typical_level};
use crate::control::Texture;

/// Pairs that count, and the least weight of a new one: five of them carry two thirds. Arbitrary.
const MOST_PAIRS: f32 = 10.0;
const PAIR_GAIN: f32 = 0.2;
/// .. and of those of other streams so many. Arbitrary.
const INHERITED_PAIRS: f32 = 4.0;
/// What a block with history counts as against a pair, where nobody knows what it is by itself. Arbitrary.
const UNPAIRED: f32 = 0.5;
/// What is typical counts as so many pairs: over contents it varies by half of itself, over blocks of one by a fourth.
const TYPICAL_PAIRS: f32 = 0.3;
/// Of what is known, so much is forgotten with each block without history. Arbitrary: two thirds in 256 blocks.
const FORGOTTEN: f32 = 1.0 / 256.0;
/// How far above the typical one it may be, as a share of that: about a standard deviation over the corpora.
const DOUBT: f64 = 0.5;
/// .. and for blocks other than of records. Arbitrary.
const OTHER_DOUBT: f64 = 0.25;
/// Contents with less to find than this do not differ by that. Arbitrary: of a picture in blocks, one has next to nothing and
/// another twice this.
const LEAST_BESIDE: f32 = 0.5;
/// Share of a block's surprise that goes to the history while nothing is known of it. Arbitrary.
const SHARE: f32 = 0.5;

/// What a history adds, and from what one knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Added {
    level: f32,
    pairs: f32,
    /// Blocks with history of which no shadow was made.
    unpaired: f32,
    /// What the blocks were by themselves.
    beside: f32,
}

/// What is to be reckoned with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExpectedAdded {
    pub(super) level: f64,
    /// How far above that it may be.
    pub(super) doubt: f64,
    /// How many pairs that was learned from, as a share of all that count.
    pub(super) paired: f64,
}

/// What a history typically adds to a block of this length.
fn added_to(plain_len: Length) -> f64 {
    (typical_history_level(plain_len) - typical_level(plain_len)).max(0.0)
}

impl BlockClass {
    /// What a history typically adds to the class's blocks; nothing to runs, of which there is nothing left, and to
    /// noise.
    pub(super) fn typical_added(self) -> f64 {
        match self.texture {
            Texture::Records => added_to(self.typical_len()),
            Texture::Runs | Texture::Noise => 0.0,
        }
    }

    fn added_doubt(self) -> f64 {
        match self.texture {
            Texture::Records => DOUBT * self.typical_added(),
            Texture::Runs | Texture::Noise => OTHER_DOUBT,
        }
    }

    /// What a history adds to a block of `plain_len` bytes against one of the class's typical length.
    pub(super) fn added_scale(self, plain_len: Length) -> f64 {
        match self.texture {
            Texture::Records if self.size > 0 => {
                (added_to(plain_len) / added_to(self.typical_len())).min(super::MOST_SCALE)
            }
            Texture::Records | Texture::Runs | Texture::Noise => 1.0,
        }
    }
}

impl Added {
    pub(super) fn is_known(&self) -> bool {
        self.pairs + self.unpaired > 0.0
    }

    /// How much of what is known holds for content with this level by itself: another content's histories may add
    /// more or less.
    fn share_of(&self, alone: f32) -> f32 {
        let off = (alone - self.beside) / (CHANGE * self.beside.max(LEAST_BESIDE));
        1.0 / (1.0 + off * off)
    }

    /// For content with the level `alone` by itself and whose histories add `typical` as far as one knows nothing; learned
    /// in a class that is `distance` away.
    pub(super) fn expected(
        &self,
        class: BlockClass,
        alone: f64,
        typical: f64,
        distance: u8,
    ) -> ExpectedAdded {
        let share = self.share_of(alone as f32);
        let known = share * (self.pairs + UNPAIRED * self.unpaired);
        let paired = if distance > 0 {
            0.0
        } else {
            share * self.pairs
        };
        // Other lengths say something, but not much.
        let known = f64::from(if distance > 0 { known.min(1.0) } else { known });
        let prior = f64::from(TYPICAL_PAIRS);
        ExpectedAdded {
            level: (known * f64::from(self.level) + prior * typical) / (known + prior),
            doubt: class.added_doubt() / (1.0 + known),
            paired: f64::from(paired / MOST_PAIRS),
        }
    }

    /// As a stream begins with what its connection knows of others.
    pub(super) fn inherited(&self) -> Self {
        Self {
            pairs: self.pairs.min(INHERITED_PAIRS),
            ..*self
        }
    }

    /// The same with the level of blocks of another length, `scale` times this one and theirs by themselves `alone` times.
    pub(super) fn scaled(&self, scale: f32, alone: f32) -> Self {
        Self {
            level: self.level * scale,
            beside: self.beside * alone,
            ..*self
        }
    }

    /// A block that by itself has the level `alone` was sent with history, which added `added`.
    pub(super) fn learn_pair(&mut self, alone: f32, added: f32) {
        let gain = (1.0 / (1.0 + self.pairs)).max(PAIR_GAIN);
        self.level += gain * (added.clamp(0.0, MOST_LN_RATIO) - self.level);
        self.beside += gain * (alone - self.beside);
        self.pairs = (self.pairs + 1.0).min(MOST_PAIRS);
    }

    /// What blocks with history are to be compared with: what was found, not what is expected of other content.
    pub(super) fn found(&self) -> Option<f32> {
        self.is_known().then_some(self.level)
    }

    /// A block was sent with history whose level is off by `surprise`, and nobody knows what it is by itself; its
    /// class's level is `alone`, and `expected` what the history was taken to add. Takes its share and returns the rest.
    pub(super) fn learn_surprise(&mut self, surprise: f32, expected: f32, alone: f32) -> f32 {
        if !self.is_known() {
            self.level = expected;
            self.beside = alone;
        }
        let before = self.level;
        self.shift(surprise * SHARE / (1.0 + self.pairs).powi(2));
        if self.pairs < 1.0 {
            self.beside += PAIR_GAIN * (alone - self.beside);
        }
        self.unpaired = (self.unpaired + 1.0).min(MOST_PAIRS);
        surprise - (self.level - before)
    }

    pub(super) fn shift(&mut self, by: f32) {
        self.level = (self.level + by).clamp(0.0, MOST_LN_RATIO);
    }

    /// A block was sent without history.
    pub(super) fn age(&mut self) {
        self.pairs *= 1.0 - FORGOTTEN;
        self.unpaired *= 1.0 - FORGOTTEN;
    }
}
