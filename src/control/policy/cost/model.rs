//! What each arm does with each class of blocks, learned from blocks that were sent and from shadow
//! encodes.
//!
//! Blocks differ from one another far more than arms do, so ratios of different blocks do not
//! compare. What is kept is a *level* for each class (how compressible its blocks are of late) and a
//! *strength* for each arm (how much of that it finds), with
//!
//! ```text
//! ln ratio(arm, block) = strength(arm) * level(block)
//! ```
//!
//! A block sent with an arm says its level; a shadow encode of the same block says another arm's
//! strength. A change of content moves the level, and with it what is expected of every arm.
//! With history a block has its level by itself and what the history adds to that ([`Added`]), which is learned from
//! blocks whose shadow says what they are by themselves.
//!
//! Times are kept as factors on the arm's typical cost at the block's length
//! ([`TypicalRow`]), so that fixed and per-byte cost keep their proportion.

mod added;
mod decay;
mod expect;
mod speed;

use self::added::Added;
use self::expect::KnownLevel;
pub(crate) use self::expect::{Content, Expected, Known, Models};
pub(crate) use self::speed::Speed;
use crate::codecs::{Arm, Length, Typical, typical, typical_dictionary_level, typical_level};
use crate::control::Texture;
use crate::few::push_few;
use crate::units::Time;

/// Weight of a new block of at least [`FULL_WEIGHT`] in a class's level: three blocks carry two thirds.
/// Arbitrary: a change of content is followed within a few blocks, one odd block is not.
const LEVEL_GAIN: f32 = 0.3;
/// Single small messages differ more, and many of them come within the time of one large block.
/// Arbitrary: 25 of them.
const LEAST_LEVEL_GAIN: f32 = 0.04;
/// Plain length from which on a block counts fully, bytes. Arbitrary.
const FULL_WEIGHT: f32 = 8192.0;
/// Blocks so much less compressible by their length alone than others of their class say nothing. Arbitrary:
/// what they show would be magnified fourfold, chance with it.
const LEAST_SCALE: f64 = 0.25;
/// Weight of a new shadow in an arm's strength. Arbitrary, as for levels.
const STRENGTH_GAIN: f32 = 0.3;
/// Weight of a new time in a factor. Arbitrary; less than for levels, since times vary more.
const TIME_GAIN: f32 = 0.2;
/// A single time counts for at most so many times the estimate: one that was interrupted must not
/// condemn an arm. Arbitrary.
const MAX_TIME_JUMP: f32 = 3.0;
/// Levels below this say nothing about strengths: the block is as good as incompressible (5 %).
/// Arbitrary.
const LEAST_LEVEL: f32 = 0.05;

/// Weight of a pair in the strength of an arm with history, and how far that may be from the typical one,
/// as a factor. Arbitrary, both.
const PAIR_GAIN: f32 = 0.1;
const NEAR_TYPICAL: f32 = 1.4;
/// .. and so much of what it differs by is taken to be the arm's. Arbitrary.
const OWN_SHARE: f32 = 0.7;

/// Length that stands for blocks up to 128 B. Arbitrary; the other classes have their geometric middle.
const SHORTEST_LEN: f64 = 112.0;

/// No block's logarithm of the ratio is taken to be more: 256 KiB, the longest by default, in two bytes.
const MOST_LN_RATIO: f32 = 12.0;
/// The length within a class makes a block no more compressible than this, times. Arbitrary.
const MOST_SCALE: f64 = 2.0;
/// Samples are counted up to here, which an `f32` still counts by ones.
const MOST_SAMPLES: f32 = 1e6;
/// A level that is off by this share of what is known is a change of content; of this level at least.
/// Arbitrary, both.
const CHANGE: f32 = 0.35;
const CHANGE_OF: f32 = 0.2;
/// Times of other streams' blocks count as so many of a stream's own at most. Arbitrary: a single one, which may be off
/// by half, must not count for more than many.
const MOST_INHERITED: f32 = 3.0;
/// Bounds of an arm's strength, where one divides by it and where it is measured. Arbitrary; the
/// strongest in the table is under 2.
const LEAST_STRENGTH: f32 = 0.1;
const MOST_STRENGTH: f32 = 5.0;

/// Blocks that are alike: of about the same length and texture, and encoded with history, with a dictionary
/// or with neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockClass {
    size: u8,
    texture: Texture,
    history: bool,
    dictionary: bool,
}

impl BlockClass {
    /// Powers of four: up to 128 B, 512 B, 2 KiB, 8 KiB, 32 KiB, 128 KiB and beyond.
    pub(crate) fn of(plain_len: usize, texture: Texture) -> Self {
        let mut size = 0;
        while size < 6 && plain_len > 128 << (2 * u32::from(size)) {
            size += 1;
        }
        Self {
            size,
            texture,
            history: false,
            dictionary: false,
        }
    }

    /// The class that blocks of this one are in for `arm`: by whether it has a history or a dictionary.
    pub(crate) const fn of_arm(self, arm: Arm) -> Self {
        let (history, dictionary) = (arm.history, arm.dictionary);
        Self {
            history,
            dictionary,
            ..self
        }
    }

    const fn without_history(self) -> Self {
        Self {
            history: false,
            ..self
        }
    }

    fn level_of_records(self, plain_len: Length) -> f64 {
        if self.dictionary {
            typical_dictionary_level(plain_len)
        } else {
            typical_level(plain_len)
        }
    }

    /// Whether its blocks are worth a shadow of their own.
    pub(crate) const fn is_large(self) -> bool {
        self.size >= 4
    }

    fn typical_len(self) -> Length {
        match self.size {
            0 => Length::of(SHORTEST_LEN),
            size => Length::of_fours(size),
        }
    }

    /// How compressible a block of `plain_len` bytes is against one of the class's typical length.
    fn scale(self, plain_len: Length) -> f64 {
        match self.texture {
            // Among the shortest, what a message is counts for more than its length.
            Texture::Records if self.size > 0 => {
                let usual = self.level_of_records(self.typical_len());
                (self.level_of_records(plain_len) / usual).min(MOST_SCALE)
            }
            Texture::Records | Texture::Runs | Texture::Noise => 1.0,
        }
    }

    /// How far above expectation the level of content never seen may be. Arbitrary.
    const fn level_doubt(self) -> f64 {
        match self.texture {
            Texture::Runs => 2.0,
            Texture::Records => 0.7,
            Texture::Noise => 0.25,
        }
    }

    /// The level to begin with: for records the table's, otherwise arbitrary.
    fn typical_level(self) -> f64 {
        match self.texture {
            Texture::Runs => 5.0,
            Texture::Records => self.level_of_records(self.typical_len()),
            Texture::Noise => 0.02,
        }
    }
}

/// What one arm has shown in one class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArmModel {
    arm: Arm,
    /// Strength in the typical table; zero if not known.
    typical: f32,
    strength: f32,
    /// Shadow encodes that the strength was learned from.
    strengths: f32,
    /// Factor on the typical time to encode, and samples, when it was timed last.
    encode: f32,
    encodes: f32,
    /// .. which was at this pace of all arms ([`Speed::pace`]).
    pace: f32,
    /// Factor on the typical time to decode on this machine, and samples.
    decode: f32,
    decodes: f32,
    measured_at: Time,
    /// The class's blocks when it was measured last.
    measured_block: u64,
}

#[derive(Clone, Debug)]
struct ClassModel {
    class: BlockClass,
    level: f32,
    levels: f32,
    /// What a history adds to blocks of the class.
    added: Added,
    blocks: u64,
    arms: Vec<ArmModel>,
}

/// What a block, or a shadow encode of one, has shown: looked up once for all models that learn it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    now: Time,
    arm: Arm,
    class: BlockClass,
    plain_len: usize,
    len: Length,
    /// What is typical of the arm at this length.
    typical: Typical,
    ln_ratio: f32,
    encode_nanos: u64,
    /// Only shadow encodes are decoded here.
    decode_nanos: Option<u64>,
}

impl Sample {
    /// `arm` made so many bytes of a block of `class` in so much time; `None` of an unknown codec.
    pub(crate) fn new(
        now: Time,
        arm: Arm,
        class: BlockClass,
        (plain_len, wire_len): (usize, usize),
        encode_nanos: u64,
    ) -> Option<Self> {
        let len = Length::of(plain_len as f64);
        Some(Self {
            now,
            arm,
            class: class.of_arm(arm),
            plain_len,
            len,
            typical: typical(arm)?.at(len),
            ln_ratio: ln_ratio(plain_len, wire_len),
            encode_nanos,
            decode_nanos: None,
        })
    }

    /// The same, with the time that decoding took.
    pub(crate) const fn decoded(self, decode_nanos: Option<u64>) -> Self {
        Self {
            decode_nanos,
            ..self
        }
    }

    /// The level of the block, if an arm of `strength` made this of it; `None` where its length
    /// alone says that there is nothing to be found.
    fn level(&self, strength: f32) -> Option<f32> {
        let scale = self.class.scale(self.len);
        (scale >= LEAST_SCALE).then(|| self.ln_ratio / strength / scale as f32)
    }
}

fn ln_ratio(plain_len: usize, wire_len: usize) -> f32 {
    let ratio = plain_len.max(1) as f32 / wire_len.max(1) as f32;
    ratio.ln().clamp(0.0, MOST_LN_RATIO)
}

/// One set of estimates: a stream's, or a connection's over all streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    classes: Vec<ClassModel>,
}

fn time_factor(nanos: u64, typical: f64) -> Option<f32> {
    let factor = (nanos as f64 / typical) as f32;
    (factor.is_finite() && factor > 0.0).then_some(factor)
}

/// Whether a level is so far from the usual one that the content must be another.
fn is_change(usual: f32, level: f32) -> bool {
    (level - usual).abs() > CHANGE * usual.max(CHANGE_OF)
}

/// Weight of a block's level in that of its class.
fn level_gain(usual: f32, level: f32, plain_len: usize) -> f32 {
    let weight = (plain_len as f32 / FULL_WEIGHT).min(1.0);
    let gain = (LEVEL_GAIN * weight).max(LEAST_LEVEL_GAIN);
    // A level of a large block that is far off is a change of content, not an outlier.
    if is_change(usual, level) {
        gain * (1.0 + weight)
    } else {
        gain
    }
}

fn learn(estimate: &mut f32, samples: &mut f32, sample: f32, gain: f32) {
    let gain = gain.max(1.0 / (*samples + 1.0));
    *estimate += gain * (sample - *estimate);
    *samples = (*samples + 1.0).min(MOST_SAMPLES);
}

fn learn_time(factor: &mut f32, samples: &mut f32, sample: f32) {
    let sample = if *samples >= 2.0 {
        sample.clamp(*factor / MAX_TIME_JUMP, *factor * MAX_TIME_JUMP)
    } else {
        sample
    };
    learn(factor, samples, sample.clamp(1e-3, 1e4), TIME_GAIN);
}

impl ClassModel {
    fn arm(&self, arm: Arm) -> Option<&ArmModel> {
        self.arms.iter().find(|known| known.arm == arm)
    }

    /// What the strengths measured here have in common against the typical ones: only their proportions
    /// are measured, since a level is a level by the strength of the arm that found it.
    fn gauge(&self) -> f32 {
        let known = self
            .arms
            .iter()
            .filter(|arm| arm.strengths > 0.0 && arm.typical > 0.0);
        let (sum, count) = known.fold((1.0, 1.0), |(sum, count), arm| {
            (sum + arm.strength / arm.typical, count + 1.0)
        });
        sum / count
    }

    /// What `arm` has shown here; to begin with what `inherited` has, or else nothing but its `typical` strength and the
    /// machine's speed. Times that were inherited count as a few of this model's own.
    fn arm_mut(
        &mut self,
        arm: Arm,
        typical: f32,
        inherited: Option<&ArmModel>,
        speed: Speed,
    ) -> &mut ArmModel {
        let known = self.arms.iter().position(|known| known.arm == arm);
        let at = known.unwrap_or(self.arms.len());
        if known.is_none() {
            let of = |samples: fn(&ArmModel) -> f32| {
                inherited.map_or(0.0, |known| samples(known).min(MOST_INHERITED))
            };
            let model = ArmModel {
                arm,
                typical,
                strength: inherited.map_or(typical, |known| known.strength),
                strengths: 0.0,
                encode: inherited.map_or(speed.encode, |known| known.encode_factor(speed)),
                encodes: of(|known| known.encodes),
                pace: speed.pace,
                decode: inherited.map_or(speed.decode, |known| known.decode),
                decodes: of(|known| known.decodes),
                measured_at: Time::ZERO,
                measured_block: 0,
            };
            push_few(&mut self.arms, model);
        }
        &mut self.arms[at]
    }

    fn learn_level(&mut self, level: f32, plain_len: usize) {
        let gain = level_gain(self.level, level, plain_len);
        learn(
            &mut self.level,
            &mut self.levels,
            level.min(MOST_LN_RATIO),
            gain,
        );
    }

    /// What was found of blocks by themselves and of what a history adds to them, if both were.
    fn found(&self) -> Option<(f32, f32)> {
        let added = self.added.found()?;
        (self.levels > 0.0).then_some((self.level, added))
    }

    /// Takes in a block with history of which nobody knows what it is by itself: its level, and what was expected of that, `alone` and `added`.
    fn learn_with_history(&mut self, level: f32, (alone, added): (f32, f32), sample: &Sample) {
        let class = self.class;
        let scale = class.scale(sample.len) as f32;
        let added_scale = class.added_scale(sample.len) as f32;
        if self.levels == 0.0 {
            self.level = alone;
        }
        let usual = scale * alone + added_scale * added;
        let gain = level_gain(usual, level, sample.plain_len).max(1.0 / (1.0 + self.levels));
        let surprise = gain * (level - usual) / added_scale;
        let rest = self.added.learn_surprise(surprise, added, alone) * added_scale;
        if scale >= LEAST_SCALE as f32 {
            let becomes = self.level + rest / scale;
            self.level = becomes.clamp(0.0, MOST_LN_RATIO);
            // There is nothing less than nothing in a block: the rest is the history's.
            self.added
                .shift((becomes - self.level) * scale / added_scale);
        } else {
            self.added.shift(rest / added_scale);
        }
        self.levels = (self.levels + 1.0).min(MOST_SAMPLES);
    }
}

impl ArmModel {
    /// The factor on its typical time to encode: less than when it was timed, if all arms have become faster since. (If they have become
    /// slower, that may be the one in use alone; an arm that is tried shows it itself, one that is not never does.)
    fn encode_factor(&self, speed: Speed) -> f32 {
        self.encode * (speed.pace / self.pace).min(1.0)
    }

    fn learn_times(&mut self, sample: &Sample, speed: Speed) {
        self.encode = self.encode_factor(speed);
        self.pace = speed.pace;
        let typical = &sample.typical;
        if let Some(factor) = time_factor(sample.encode_nanos, typical.encode_nanos) {
            learn_time(&mut self.encode, &mut self.encodes, factor);
        }
        let decode = sample
            .decode_nanos
            .and_then(|nanos| time_factor(nanos, typical.decode_nanos));
        if let Some(factor) = decode {
            learn_time(&mut self.decode, &mut self.decodes, factor);
        }
        self.measured_at = sample.now;
    }
}

impl Model {
    fn class(&self, class: BlockClass) -> Option<&ClassModel> {
        self.classes.iter().find(|known| known.class == class)
    }

    fn class_mut(&mut self, class: BlockClass) -> &mut ClassModel {
        let known = self.classes.iter().position(|known| known.class == class);
        let at = known.unwrap_or(self.classes.len());
        if known.is_none() {
            let model = ClassModel {
                class,
                level: 0.0,
                levels: 0.0,
                added: Added::default(),
                blocks: 0,
                arms: Vec::new(),
            };
            push_few(&mut self.classes, model);
        }
        &mut self.classes[at]
    }

    /// Dates everything as measured at `now`: on a clock that may be another.
    pub(crate) fn restart(&mut self, now: Time) {
        for class in &mut self.classes {
            for arm in &mut class.arms {
                arm.measured_at = now;
            }
        }
    }

    /// Blocks of this class that were sent.
    pub(crate) fn blocks(&self, class: BlockClass) -> u64 {
        self.class(class).map_or(0, |known| known.blocks)
    }

    /// The level of a class and from how many blocks it was learned, from the class itself or the
    /// nearest one of the same texture.
    fn level(&self, class: BlockClass) -> Option<KnownLevel> {
        if let Some(known) = self.class(class).filter(|known| known.levels > 0.0) {
            return Some(KnownLevel {
                level: f64::from(known.level),
                levels: f64::from(known.levels),
                distance: 0,
            });
        }
        let known = self
            .classes
            .iter()
            .filter(|known| {
                let alike = BlockClass {
                    size: class.size,
                    ..known.class
                };
                alike == class && known.levels > 0.0
            })
            .min_by_key(|known| known.class.size.abs_diff(class.size))?;
        Some(KnownLevel {
            level: f64::from(known.level) * class.typical_level() / known.class.typical_level(),
            levels: f64::from(known.levels),
            distance: known.class.size.abs_diff(class.size),
        })
    }

    /// What a history adds to a class's blocks, from the class itself or the nearest one of the same texture, and how many
    /// classes away that is.
    fn added(&self, class: BlockClass) -> Option<(Added, u8)> {
        let known = self
            .classes
            .iter()
            .filter(|known| known.class.texture == class.texture && known.added.is_known())
            .min_by_key(|known| known.class.size.abs_diff(class.size))?;
        let distance = known.class.size.abs_diff(class.size);
        if distance == 0 {
            return Some((known.added, 0));
        }
        let of = known.class;
        let scale = if of.typical_added() > 0.0 {
            class.typical_added() / of.typical_added()
        } else {
            1.0
        };
        let alone = class.typical_level() / of.typical_level();
        Some((known.added.scaled(scale as f32, alone as f32), distance))
    }

    fn arm(&self, class: BlockClass, arm: Arm) -> Option<&ArmModel> {
        self.class(class)?.arm(arm)
    }

    /// The factor on `arm`'s typical time to encode a block of `class`; `None` if it was never timed there.
    fn timed_factor(&self, class: BlockClass, arm: Arm, speed: Speed) -> Option<f32> {
        let known = self.arm(class, arm)?;
        (known.encodes > 0.0).then(|| known.encode_factor(speed))
    }

    /// .. that of this block was expected to take.
    pub(crate) fn expected_factor(&self, sample: &Sample, speed: Speed) -> Option<f32> {
        self.timed_factor(sample.class, sample.arm, speed)
    }

    /// How long `arm`, of which this is typical, will likely take for a block of `class`, ns.
    pub(crate) fn likely_encode_nanos(
        &self,
        class: BlockClass,
        arm: Arm,
        typical: &Typical,
        speed: Speed,
    ) -> f64 {
        let factor = self.timed_factor(class, arm, speed).unwrap_or(speed.encode);
        typical.encode_nanos * f64::from(factor)
    }
}

/// How the block whose shadow was encoded went out itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) arm: Arm,
    /// Its level by itself, unless it went out as it was or with history.
    pub(crate) level: Option<f32>,
    /// Its wire bytes with a history that is old enough to say something.
    pub(crate) with_history: Option<usize>,
}

impl Model {
    /// Takes in a block that was sent, and says what its level was. The strengths that
    /// this model does not have come from `shared`. Of a block with history that is half of a pair, the level is learned
    /// once its shadow has come.
    pub(crate) fn record_sent(
        &mut self,
        sample: &Sample,
        is_paired: bool,
        shared: Option<&Self>,
        speed: Speed,
    ) -> Option<f32> {
        let (arm, typical) = (sample.arm, sample.typical.strength as f32);
        let inherited = shared.and_then(|shared| shared.arm(sample.class, arm));
        let class = self.count(sample.class);
        if arm == Arm::IDENTITY {
            return None;
        }
        let blocks = class.blocks;
        let model = class.arm_mut(arm, typical, inherited, speed);
        model.learn_times(sample, speed);
        model.measured_block = blocks;
        let strength = model.strength.max(LEAST_STRENGTH);
        if sample.class.history {
            if !is_paired {
                let level = sample.ln_ratio / strength;
                self.learn_with_history(sample, level, shared, speed);
            }
            return None;
        }
        let level = sample.level(strength)?;
        class.learn_level(level, sample.plain_len);
        Some(level)
    }

    /// Takes in a block of `class` that went as it was.
    pub(crate) fn record_plain(&mut self, class: BlockClass) {
        self.count(class.of_arm(Arm::IDENTITY));
    }

    /// The class of another block.
    fn count(&mut self, class: BlockClass) -> &mut ClassModel {
        let class = self.class_mut(class);
        class.blocks += 1;
        class.added.age();
        class
    }

    /// What is known of a class without history, here or else in `shared`.
    fn content(&self, class: BlockClass, shared: Option<&Self>, speed: Speed) -> Content {
        let nothing = Self::default();
        let models = Models {
            own: self,
            shared: shared.unwrap_or(&nothing),
            speed,
        };
        models.content(class)
    }

    /// The class without history, with what `shared` knows of what that would add.
    fn content_mut(&mut self, class: BlockClass, shared: Option<&Self>) -> &mut ClassModel {
        let known = shared.and_then(|shared| shared.class(class));
        let content = self.class_mut(class);
        if !content.added.is_known() {
            content.added = known.map_or_else(Added::default, |known| known.added.inherited());
        }
        content
    }

    fn learn_with_history(
        &mut self,
        sample: &Sample,
        level: f32,
        shared: Option<&Self>,
        speed: Speed,
    ) {
        let class = sample.class.without_history();
        // What this model has found itself counts before what others have.
        let found = self.class(class).and_then(ClassModel::found);
        let expected = found.unwrap_or_else(|| {
            let expected = self.content(class, shared, speed);
            let added = self.content_mut(class, shared).added.found();
            let added = added.unwrap_or(expected.added.level as f32);
            (expected.level as f32, added)
        });
        self.content_mut(class, shared)
            .learn_with_history(level, expected, sample);
    }

    /// Takes in both halves of a pair: a block that went out with history in `wire_len` bytes, and what its shadow,
    /// `sample`, says of it by itself.
    fn learn_pair(
        &mut self,
        (arm, wire_len): (Arm, usize),
        sample: &Sample,
        alone: f32,
        shared: Option<&Self>,
        speed: Speed,
    ) {
        let Some(row) = typical(arm) else {
            return;
        };
        let class = sample.class;
        let (scale, added_scale) = (class.scale(sample.len), class.added_scale(sample.len));
        let with_history = class.of_arm(arm);
        let typical = row.at(sample.len).strength as f32;
        let inherited = shared.and_then(|shared| shared.arm(with_history, arm));
        let found = ln_ratio(sample.plain_len, wire_len);
        let expected = self.content(class, shared, speed).added.level as f32;
        let content = self.content_mut(class, shared);
        let usual = content.added.found().unwrap_or(expected) * added_scale as f32;
        let by_itself = alone * scale as f32;
        let model = self
            .class_mut(with_history)
            .arm_mut(arm, typical, inherited, speed);
        let strength = model.strength.max(LEAST_STRENGTH);
        let there = by_itself + usual;
        if there > LEAST_LEVEL {
            // What all arms find more than expected is the history's; their typical strengths hold them where they are.
            let found = (found / there).clamp(typical / NEAR_TYPICAL, typical * NEAR_TYPICAL);
            let target = typical + OWN_SHARE * (found - typical);
            model.strength += PAIR_GAIN * (target - model.strength);
        }
        let added = (found / strength - by_itself) / added_scale as f32;
        self.content_mut(class, shared)
            .added
            .learn_pair(alone, added);
    }

    /// Takes in a shadow encode of a block that went out as `sent` says; returns the block's level,
    /// which the first shadow of a block that went out as it was defines.
    pub(crate) fn record_shadow(
        &mut self,
        sample: &Sample,
        sent: Sent,
        shared: Option<&Self>,
        speed: Speed,
    ) -> Option<f32> {
        let (arm, typical) = (sample.arm, sample.typical.strength as f32);
        let inherited = shared.and_then(|shared| shared.arm(sample.class, arm));
        let class = self.class_mut(sample.class);
        let blocks = class.blocks;
        let usual = class.level.max(LEAST_LEVEL);
        let model = class.arm_mut(arm, typical, inherited, speed);
        model.learn_times(sample, speed);
        model.measured_block = blocks;
        let Some(of_one) = sample.level(1.0) else {
            return sent.level;
        };
        match sent.level {
            Some(level) if level >= LEAST_LEVEL => {
                let strength = (of_one / level).clamp(0.0, MOST_STRENGTH);
                // By what there was to find: a quotient of two small numbers is mostly chance, and too
                // high on average.
                let gain = STRENGTH_GAIN * (level / usual).min(1.0);
                learn(&mut model.strength, &mut model.strengths, strength, gain);
                Some(level)
            }
            Some(_) if of_one < LEAST_LEVEL => {
                // Neither finds anything.
                model.strengths += 1.0;
                sent.level
            }
            reference => {
                // This arm finds what the one that was sent did not, or is the first that was tried.
                let level = of_one / model.strength.max(LEAST_STRENGTH);
                model.strengths += 1.0;
                if reference.is_some() && level > LEAST_LEVEL {
                    let weak = class.arm_mut(sent.arm, 0.0, None, speed);
                    learn(&mut weak.strength, &mut weak.strengths, 0.0, STRENGTH_GAIN);
                }
                class.learn_level(level, sample.plain_len);
                if let (None, Some(wire_len)) = (reference, sent.with_history) {
                    self.learn_pair((sent.arm, wire_len), sample, level, shared, speed);
                }
                Some(level)
            }
        }
    }
}

#[cfg(all(test, feature = "zstd"))]
mod tests;
