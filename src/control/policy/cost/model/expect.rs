//! What is expected of arms for the next block, from a stream's estimates and those of its connection.

use super::added::ExpectedAdded;
use super::decay::decay;
use super::{ArmModel, BlockClass, ClassModel, MOST_LN_RATIO, Model, Speed};
use crate::codecs::{Arm, Length, Typical, Work, strength_deviation};
use crate::control::Texture;
use crate::control::policy::cost::Times;
use crate::units::Time;

/// How far a measured strength is still off, as a standard deviation: once measured, and at best.
/// Arbitrary; zstd:1 has the strength 1.
const MEASURED_DEVIATION: f64 = 0.04;
const LEAST_DEVIATION: f64 = 0.01;
/// Growth of the variance for each block since it was measured. Arbitrary: that of one measurement in
/// 800 blocks.
const VARIANCE_GROWTH: f64 = 2e-6;
/// Factor on the typical time of an arm that was never measured. Arbitrary: one that was measured wins
/// a near tie.
const UNPROVEN_TIME: f64 = 1.25;
/// Runs are not what arms differ in elsewhere: how far an arm's strength may be off on them.
/// Arbitrary, above the widest deviation over the table's corpora (0.13).
const RUNS_DEVIATION: f64 = 0.15;
/// Times in the typical table are medians; with other content they differ by two thirds, as a standard
/// deviation of the logarithm.
const TYPICAL_TIME_DEVIATION: f64 = 0.5;

/// A stream's own blocks may be of so many classes away more than those of other streams and still count
/// before them. Arbitrary.
const NEAR: u8 = 1;

/// The size class of full blocks: up to 128 KiB.
const LARGE: u8 = 5;

/// What is expected of an arm for one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) wire_len: f64,
    /// Wire bytes if the arm is as strong as it may still be.
    pub(crate) least_wire_len: f64,
    pub(crate) encode_nanos: f64,
    pub(crate) least_encode_nanos: f64,
    /// On this machine, until [`Self::at_peer`] says otherwise.
    pub(crate) decode_nanos: f64,
    pub(crate) measured_at: Option<Time>,
    pub(crate) samples: f32,
    /// Whether the arm has no history.
    pub(crate) is_alone: bool,
}

impl Expected {
    /// With so much more to do at either end before it is encoded or decoded.
    pub(crate) const fn later_by(self, begin: Work) -> Self {
        Self {
            encode_nanos: self.encode_nanos + begin.encode_nanos,
            least_encode_nanos: self.least_encode_nanos + begin.encode_nanos,
            decode_nanos: self.decode_nanos + begin.decode_nanos,
            ..self
        }
    }

    /// Processor time if everything that is not known turns out well.
    pub(crate) const fn least_work(&self) -> Work {
        Work {
            encode_nanos: self.least_encode_nanos,
            decode_nanos: self.decode_nanos,
        }
    }

    /// What the arm makes of a block by itself, where it would make `alone` of it without its state: as many bytes, no sooner, decoded
    /// as that is.
    pub(crate) const fn as_by_itself(self, alone: &Self) -> Self {
        Self {
            wire_len: alone.wire_len,
            least_wire_len: alone.least_wire_len,
            encode_nanos: self.encode_nanos.max(alone.encode_nanos),
            least_encode_nanos: self.least_encode_nanos.max(alone.least_encode_nanos),
            decode_nanos: alone.decode_nanos,
            ..self
        }
    }

    /// Decoded within so many ns, if the peer has said so.
    pub(crate) fn at_peer(self, decode_nanos: Option<f64>) -> Self {
        Self {
            decode_nanos: decode_nanos.unwrap_or(self.decode_nanos),
            ..self
        }
    }

    /// As the stages take it.
    pub(crate) const fn times(&self) -> Times {
        Times {
            encode_nanos: self.encode_nanos,
            wire_len: self.wire_len,
            decode_nanos: self.decode_nanos,
            is_alone: self.is_alone,
        }
    }

    /// .. if everything that is not known turns out well.
    pub(crate) const fn least_times(&self) -> Times {
        Times {
            encode_nanos: self.least_encode_nanos,
            wire_len: self.least_wire_len,
            decode_nanos: self.decode_nanos,
            is_alone: self.is_alone,
        }
    }
}

/// How compressible the blocks of a class are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) expected: f64,
    /// As far as it may still be above that.
    pub(crate) most: f64,
}

/// What a model knows of the level of a class: from how many blocks, and how many classes away they were.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownLevel {
    pub(super) level: f64,
    pub(super) levels: f64,
    pub(super) distance: u8,
}

/// What blocks of a class are by themselves, from so many of them, and what a history adds, both at the class's typical
/// length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content {
    pub(super) level: f64,
    pub(super) levels: f64,
    pub(super) added: ExpectedAdded,
}

/// A stream's own estimates, and those of its connection behind them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Models<'a> {
    pub(crate) own: &'a Model,
    pub(crate) shared: &'a Model,
    pub(crate) speed: Speed,
}

/// What is known for blocks of one class and length, looked up once for all arms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    own: Option<&'a ClassModel>,
    shared: Option<&'a ClassModel>,
    speed: Speed,
    texture: Texture,
    plain_len: Length,
    level: Level,
    gauge: f64,
}

/// What the blocks of a class have shown of one arm: a stream's own, and its connection's.
struct KnownArm<'a> {
    own: Option<(&'a ClassModel, &'a ArmModel)>,
    shared: Option<(&'a ClassModel, &'a ArmModel)>,
}

impl<'a> KnownArm<'a> {
    /// Where anything was measured that has a weight: by the stream's own blocks, or else by others.
    fn by(&self, weight: fn(&ArmModel) -> f32) -> Option<(&'a ClassModel, &'a ArmModel)> {
        let measured = |known: &(_, &ArmModel)| weight(known.1) > 0.0;
        self.own
            .filter(measured)
            .or_else(|| self.shared.filter(measured))
    }
}

impl Content {
    /// How well it is known from pairs what a history adds, up to 1.
    pub(crate) const fn paired(&self) -> f64 {
        self.added.paired
    }

    /// The level that a block of this class and length is expected to have.
    fn level_of(&self, class: BlockClass, plain_len: Length) -> Level {
        let doubt = class.level_doubt() / (1.0 + self.levels);
        let scale = class.scale(plain_len);
        // No shadow shows what a history adds: as long as one hardly knows, it is tried on the best of hopes.
        let added = if class.history {
            class.added_scale(plain_len) * (self.added.level + self.added.doubt)
        } else {
            0.0
        };
        Level {
            expected: scale * self.level + added,
            most: scale * (self.level + doubt) + added,
        }
    }
}

impl<'a> Models<'a> {
    /// What is known for blocks of `class` with `plain_len` bytes, whose content without history this is.
    pub(crate) fn known(
        &self,
        class: BlockClass,
        plain_len: Length,
        content: &Content,
    ) -> Known<'a> {
        let (own, shared) = (self.own.class(class), self.shared.class(class));
        let measured = |known: &&&ClassModel| known.arms.iter().any(|arm| arm.strengths > 0.0);
        let gauge = own.as_ref().filter(measured).or(shared.as_ref());
        Known {
            own,
            shared,
            speed: self.speed,
            texture: class.texture,
            plain_len,
            level: content.level_of(class, plain_len),
            gauge: gauge.map_or(1.0, |class| f64::from(class.gauge())),
        }
    }

    /// What a history takes to begin of which this is typical, here and at the peer, where that is known.
    pub(crate) fn begin(&self, typical: Work, at_peer: Option<f64>) -> Work {
        let decode = || typical.decode_nanos * f64::from(self.speed.decode);
        Work {
            encode_nanos: typical.encode_nanos * f64::from(self.speed.encode),
            decode_nanos: at_peer.unwrap_or_else(decode),
        }
    }

    /// What is known of a class without history.
    pub(crate) fn content(&self, class: BlockClass) -> Content {
        let (own, shared) = (self.own.level(class), self.shared.level(class));
        // What a stream's own blocks of quite another length were says less than others' of this one.
        let near =
            own.filter(|own| shared.is_none_or(|shared| own.distance <= shared.distance + NEAR));
        let known = near.or(shared);
        let (level, levels) = known.map_or_else(
            || (class.typical_level(), 0.0),
            |known| (known.level, known.levels),
        );
        Content {
            level,
            levels,
            added: self.added(class, level),
        }
    }

    /// What a history is expected to add to blocks of a class with this level.
    fn added(&self, class: BlockClass, level: f64) -> ExpectedAdded {
        let (own, shared) = (self.own.added(class), self.shared.added(class));
        let near = own.filter(|(_, away)| shared.is_none_or(|(_, other)| *away <= other + NEAR));
        let (added, distance) = near.or(shared).unwrap_or_default();
        added.expected(class, level, self.untried_added(class), distance)
    }

    /// What a history adds to blocks to which it never did: in content with little to find in large blocks, it finds
    /// little in others.
    fn untried_added(&self, class: BlockClass) -> f64 {
        let large = BlockClass {
            size: LARGE,
            ..class
        };
        let here = |model: &Model| model.level(large).filter(|known| known.distance == 0);
        let alone = here(self.own).or_else(|| here(self.shared));
        let share = alone.map_or(1.0, |known| known.level / large.typical_level());
        share.min(1.0) * class.typical_added()
    }
}

impl<'a> Known<'a> {
    /// What is known of `arm`: from the stream's own blocks, and from others'.
    fn of(&self, arm: Arm) -> KnownArm<'a> {
        let find = |class: Option<&'a ClassModel>| class.and_then(|it| Some((it, it.arm(arm)?)));
        KnownArm {
            own: find(self.own),
            shared: find(self.shared),
        }
    }

    /// How strong `arm` is taken to be, and how far off that may be as a standard deviation.
    fn strength(&self, arm: Arm, known: &KnownArm<'_>, typical: &Typical) -> (f64, f64) {
        match known.by(|model| model.strengths) {
            Some((class, model)) => {
                let age = class.blocks.saturating_sub(model.measured_block) as f64;
                let once = MEASURED_DEVIATION / f64::from(model.strengths).sqrt();
                let variance = once.max(LEAST_DEVIATION).powi(2) + VARIANCE_GROWTH * age;
                (f64::from(model.strength), variance.sqrt())
            }
            None => (
                typical.strength * self.gauge,
                match self.texture {
                    Texture::Runs => RUNS_DEVIATION,
                    Texture::Records | Texture::Noise => strength_deviation(arm),
                },
            ),
        }
    }

    fn wire_len(&self, strength: f64, level: f64) -> f64 {
        let ln_ratio = (strength * level).clamp(0.0, f64::from(MOST_LN_RATIO));
        self.plain_len.bytes() * decay(ln_ratio)
    }

    /// What `arm` makes of blocks that are as compressible as they may be, over what is expected of it.
    pub(crate) fn hope(&self, arm: Arm, typical: &Typical) -> f64 {
        let (strength, _) = self.strength(arm, &self.of(arm), typical);
        let wire_len = |level| self.wire_len(strength, level);
        wire_len(self.level.most) / wire_len(self.level.expected).max(1.0)
    }

    /// What is expected of `arm`, of which this is typical at the block's length.
    pub(crate) fn expect(&self, arm: Arm, typical: &Typical) -> Expected {
        let level = self.level;
        let known = self.of(arm);
        let (strength, deviation) = self.strength(arm, &known, typical);
        let timed = known.by(|model| model.encodes).map(|(_, model)| model);
        let (encode, doubt) = match timed {
            Some(model) => {
                let doubt = TYPICAL_TIME_DEVIATION / (1.0 + f64::from(model.encodes));
                (f64::from(model.encode_factor(self.speed)), doubt)
            }
            None => (f64::from(self.speed.encode), TYPICAL_TIME_DEVIATION),
        };
        let decode = known.by(|model| model.decodes);
        let decode = decode.map_or(self.speed.decode, |(_, model)| model.decode);
        // An arm that was never measured must promise a little more than one that was. What it finds
        // too little of costs no more than its time: the block then goes out as it is.
        let unproven = if timed.is_some() {
            0.0
        } else {
            deviation / 2.0
        };
        let doubtful = if timed.is_some() { 1.0 } else { UNPROVEN_TIME };
        let encode_nanos = typical.encode_nanos * encode * doubtful;
        Expected {
            wire_len: self.wire_len((strength - unproven).max(0.0), level.expected),
            least_wire_len: self.wire_len(strength + deviation, level.most),
            encode_nanos,
            least_encode_nanos: encode_nanos * decay(doubt),
            decode_nanos: typical.decode_nanos * f64::from(decode),
            measured_at: timed.map(|model| model.measured_at),
            samples: timed.map_or(0.0, |model| model.encodes),
            is_alone: !arm.history,
        }
    }
}
