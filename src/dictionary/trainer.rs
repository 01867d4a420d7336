//! When to train, what to adopt, when to let go.
//!
//! ```text
//!              enough distinct messages            it pays for itself
//! collecting ---------------------------> training --------------------> live
//!     ^                                      |                            |
//!     |      too little in common, or it does not pay: wait twice as long |
//!     +--------------------------------------+                            |
//!     +-------------------------------------------------------------------+
//!        the ratio has fallen, or it has lived its time: collect anew; what is live stays so
//!        until another is better, or it is worth nothing any more
//! ```
//!
//! The ratio is that of messages that were sent with the dictionary alone. Where too few are, as with histories
//! that only begin with it, some of the latest are tried with it now and then.

use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;

use super::evaluate::evaluate_sent;
use super::recent::RecentMessages;
use super::{
    Dictionary, DictionaryId, Evaluation, Reservoir, TrainConfig, TrainError, dictionary_arms,
    evaluate, train,
};
use crate::codecs::{Arm, Codecs, EncodeError};
use crate::units::Time;

/// One in so many messages is kept from training, to judge by. Arbitrary.
const HELD_OUT_SHARE: usize = 5;
/// Recorded messages after which drift is believed. Arbitrary: a few seconds of signalling.
const DRIFT_MESSAGES: u64 = 200;
/// The recent ratio forgets half of what it knows after so many plain bytes. Arbitrary: some 700
/// small messages.
const DRIFT_MEMORY: f64 = 128.0 * 1024.0;
/// Waiting doubles with each training that came to nothing, so often at most.
const MAX_DOUBLINGS: u32 = 8;

/// How a [`Trainer`] goes about it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrainerConfig {
    /// The arm that dictionaries are judged with. Default zstd 3, or lz4 in a build without zstd.
    pub arm: Arm,
    /// How dictionaries are made.
    pub train: TrainConfig,
    /// Bytes of messages kept as the sample. Default 512 KiB: 32 times a dictionary of the default
    /// length (zstd's manual advises 100 times, most of the gain is there before).
    pub sample_bytes: usize,
    /// Messages longer than that are passed over. Default 16 KiB: they compress well alone.
    pub max_message: usize,
    /// Distinct messages in the sample before anything is trained. Default 500, arbitrary.
    pub min_messages: usize,
    /// Messages that a dictionary must have paid for itself after. Default 10 000, arbitrary.
    pub horizon: u64,
    /// How many times over it must have. Default 2: once for it, once for what the estimate may be wrong.
    pub margin: f64,
    /// A ratio below so much of what it was at adoption is drift. Default 0.8: an aged dictionary of
    /// Bluesky's event stream fell to 0.7.
    pub drift: f64,
    /// Dictionaries that live at once; the oldest goes first. Default 2: one to write with, and one
    /// that messages under way still need.
    pub max_live: usize,
    /// A dictionary is retired after so long however good it is. Default a day, arbitrary: what was in
    /// common should not be kept for ever.
    pub time_to_live: Duration,
    /// Time between two trainings at least, and between two looks whether a dictionary still serves, which bounds what
    /// they take. Default 10 s, against about 0.1 s for a training and 0.005 s for a look.
    pub interval: Duration,
}

impl Default for TrainerConfig {
    fn default() -> Self {
        Self {
            arm: dictionary_arms().next().unwrap_or(Arm::IDENTITY),
            train: TrainConfig::default(),
            sample_bytes: 512 << 10,
            max_message: 16 << 10,
            min_messages: 500,
            horizon: 10_000,
            margin: 2.0,
            drift: 0.8,
            max_live: 2,
            time_to_live: Duration::from_secs(24 * 3600),
            interval: Duration::from_secs(10),
        }
    }
}

/// Why a dictionary is no longer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retirement {
    /// Better ones are live.
    Superseded,
    /// It has lived its time.
    Expired,
    /// Messages of late are no smaller with it.
    Worthless,
}

/// What a [`Trainer`] has decided.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TrainerEvent {
    /// Use this dictionary from now on.
    Adopted {
        /// The dictionary.
        dictionary: Dictionary,
        /// What it was worth on held-out messages; `None` for one from elsewhere.
        evaluation: Option<Evaluation>,
    },
    /// Encode nothing more with this one; what is under way still needs it.
    Retired {
        /// The dictionary.
        id: DictionaryId,
        /// Why.
        why: Retirement,
    },
}

/// What a [`Trainer`] has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrainerStats {
    /// Trainings given out.
    pub trainings: u64,
    /// Dictionaries adopted.
    pub adopted: u64,
    /// Dictionaries that did not pay for themselves.
    pub rejected: u64,
    /// Trainings that gave none.
    pub failed: u64,
    /// Times that a dictionary was tried on messages of late.
    pub checks: u64,
    /// Times that drift was noticed.
    pub drifts: u64,
    /// Dictionaries retired.
    pub retired: u64,
}

/// A training to be done, or a dictionary to be tried on messages of late. Run it where it may take a while, and give the result to
/// [`Trainer::handle_trained`].
#[derive(Debug)]
pub struct TrainJob {
    samples: Vec<Bytes>,
    held_out: Vec<Bytes>,
    /// `None` if nothing is to be trained, only the incumbent to be tried.
    config: Option<TrainConfig>,
    arm: Arm,
    incumbent: Option<Dictionary>,
}

/// A [`TrainJob`] that was run.
#[derive(Debug)]
pub struct Trained {
    result: Result<Judged, NotTrained>,
    is_check: bool,
}

#[derive(Debug)]
struct Judged {
    /// What was trained.
    new: Option<(Dictionary, Evaluation)>,
    incumbent: Option<(DictionaryId, Evaluation)>,
}

/// Why a training gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTrained {
    /// No dictionary came out.
    #[error(transparent)]
    Train(TrainError),
    /// It could not be tried.
    #[error("{0}")]
    Evaluate(String),
}

impl From<EncodeError> for NotTrained {
    fn from(error: EncodeError) -> Self {
        Self::Evaluate(error.to_string())
    }
}

impl TrainJob {
    /// Bytes of the messages to train on and judge by; time goes with them, about 0.1 µs a byte.
    pub fn bytes(&self) -> usize {
        self.samples
            .iter()
            .chain(&self.held_out)
            .map(Bytes::len)
            .sum()
    }

    /// Whether nothing is trained, only a dictionary tried.
    pub const fn is_check(&self) -> bool {
        self.config.is_none()
    }

    /// Trains, and tries the dictionary on messages that it has not seen.
    pub fn run(self, codecs: &mut Codecs) -> Trained {
        Trained {
            is_check: self.is_check(),
            result: self.judge(codecs),
        }
    }

    fn judge(self, codecs: &mut Codecs) -> Result<Judged, NotTrained> {
        let (held_out, arm) = (&self.held_out, self.arm);
        let new = match &self.config {
            Some(config) => {
                let dictionary = train(&self.samples, config).map_err(NotTrained::Train)?;
                let evaluation = evaluate(codecs, &dictionary, held_out, arm)?;
                Some((dictionary, evaluation))
            }
            None => None,
        };
        let incumbent = match self.incumbent {
            Some(old) => Some((old.id(), evaluate_sent(codecs, &old, held_out, arm)?)),
            None => None,
        };
        Ok(Judged { new, incumbent })
    }
}

impl Trained {
    /// Why there is no dictionary, if there is none.
    pub fn error(&self) -> Option<&NotTrained> {
        self.result.as_ref().err()
    }
}

/// Looks after the dictionaries of one class of traffic, without clock or thread.
///
/// Offer it messages ([`offer`](Self::offer)) and say what dictionaries made of them
/// ([`record`](Self::record)); take jobs ([`poll_job`](Self::poll_job)), run them, bring the results
/// ([`handle_trained`](Self::handle_trained)); take decisions ([`poll_event`](Self::poll_event)).
///
/// A trainer serves one trust domain: give it nothing of another, and nothing sensitive.
#[derive(Clone, Debug)]
pub struct Trainer {
    config: TrainerConfig,
    sample: Reservoir,
    training: bool,
    /// No training before this.
    not_before: Time,
    doublings: u32,
    /// No look whether the current dictionary still serves before this; messages for it, and how many were sent
    /// with a dictionary since the last.
    check_at: Time,
    recent: RecentMessages,
    recorded: u64,
    /// The newest first.
    live: VecDeque<Live>,
    events: VecDeque<TrainerEvent>,
    stats: TrainerStats,
}

#[derive(Clone, Debug)]
struct Live {
    dictionary: Dictionary,
    /// When it has lived its time.
    until: Time,
    /// Plain to wire when it was adopted, or as it has been accepted since; `None` until the first
    /// messages have shown it.
    ratio: Option<f64>,
    messages: u64,
    plain: f64,
    wire: f64,
    drifted: bool,
}

impl Live {
    fn recent_ratio(&self) -> f64 {
        self.plain / self.wire.max(1.0)
    }

    fn forget_recent(&mut self) {
        (self.messages, self.plain, self.wire) = (0, 0.0, 0.0);
        self.drifted = false;
    }
}

impl Trainer {
    /// One that has seen nothing. The seed decides which messages are the sample: peers should not
    /// know it.
    pub fn new(config: TrainerConfig, seed: u64) -> Self {
        Self {
            sample: Reservoir::new(seed, config.sample_bytes, config.max_message),
            config,
            training: false,
            not_before: Time::ZERO,
            doublings: 0,
            check_at: Time::ZERO,
            recent: RecentMessages::default(),
            recorded: 0,
            live: VecDeque::new(),
            events: VecDeque::new(),
            stats: TrainerStats::default(),
        }
    }

    /// Begins with a dictionary from elsewhere, a cache for example, that is `age` old already. What it
    /// is worth shows with the first messages.
    pub fn adopt(&mut self, now: Time, dictionary: Dictionary, age: Duration) {
        let left = self.config.time_to_live.saturating_sub(age);
        if !left.is_zero() && self.live(&dictionary.id()).is_none() {
            self.make_live(now + left, dictionary, None);
        }
    }

    /// The dictionary to encode with.
    pub fn current(&self) -> Option<&Dictionary> {
        self.live.front().map(|live| &live.dictionary)
    }

    /// The live dictionary of this name.
    pub fn live(&self, id: &DictionaryId) -> Option<&Dictionary> {
        let dictionaries = self.live.iter().map(|live| &live.dictionary);
        dictionaries.into_iter().find(|it| it.id() == *id)
    }

    /// All live dictionaries, the newest first.
    pub fn dictionaries(&self) -> impl Iterator<Item = &Dictionary> {
        self.live.iter().map(|live| &live.dictionary)
    }

    /// Takes in what another trainer of the same class has seen: its sample, and those of its dictionaries
    /// that are not live here.
    pub fn absorb(&mut self, now: Time, other: &Self) {
        for message in other.sample.messages() {
            self.offer(message);
        }
        for live in other.live.iter().rev() {
            if live.until > now && self.live(&live.dictionary.id()).is_none() {
                self.make_live(live.until, live.dictionary.clone(), None);
            }
        }
    }

    /// The job that was given out last will not come back.
    pub(crate) fn forget_job(&mut self) {
        self.training = false;
        self.recent.take();
    }

    /// What was done so far.
    pub const fn stats(&self) -> TrainerStats {
        self.stats
    }

    /// A message that may become part of the sample. It must not be sensitive. Costs the hash of its
    /// bytes, and a copy of the few that are kept; while there is nothing to train, at most a copy of some.
    pub fn offer(&mut self, message: &[u8]) {
        if self.is_collecting() {
            self.sample.offer(message);
        } else {
            self.recent.offer(message, self.config.max_message);
        }
    }

    /// A message was encoded with the dictionary `id`: its bytes before and after.
    pub fn record(&mut self, id: &DictionaryId, plain_len: usize, wire_len: usize) {
        let Some(live) = self.live.iter_mut().find(|it| it.dictionary.id() == *id) else {
            return;
        };
        let keep = 0.5_f64.powf(plain_len as f64 / DRIFT_MEMORY);
        live.plain = live.plain * keep + plain_len as f64;
        live.wire = live.wire * keep + wire_len as f64;
        live.messages += 1;
        self.recorded += 1;
        if live.messages >= DRIFT_MESSAGES {
            let recent = live.recent_ratio();
            self.compare(id, recent);
        }
    }

    /// Compares what messages of late become with a dictionary with what they used to.
    fn compare(&mut self, id: &DictionaryId, recent: f64) {
        let Some(live) = self.live.iter_mut().find(|it| it.dictionary.id() == *id) else {
            return;
        };
        let settled = *live.ratio.get_or_insert(recent);
        if recent < settled * self.config.drift && !live.drifted {
            live.drifted = true;
            self.stats.drifts += 1;
            // What was in common before is of no use any more.
            self.sample.clear();
        }
    }

    /// A training to run, if there is one to do now. The next comes after its result.
    pub fn poll_job(&mut self, now: Time) -> Option<TrainJob> {
        self.expire(now);
        if !self.is_collecting() {
            return self.poll_check(now);
        }
        let is_due = !self.training && now >= self.not_before;
        if !is_due || self.sample.len() < self.config.min_messages {
            return None;
        }
        let (mut samples, mut held_out) = (Vec::new(), Vec::new());
        for (number, message) in self.sample.messages().enumerate() {
            if number % HELD_OUT_SHARE == 0 {
                held_out.push(message.clone());
            } else {
                samples.push(message.clone());
            }
        }
        self.training = true;
        self.stats.trainings += 1;
        Some(TrainJob {
            samples,
            held_out,
            config: Some(self.config.train),
            arm: self.config.arm,
            incumbent: self.current().cloned(),
        })
    }

    /// A look whether the current dictionary still serves, if it is time and what is sent does not show it.
    fn poll_check(&mut self, now: Time) -> Option<TrainJob> {
        if self.training || now < self.check_at {
            return None;
        }
        if self.recorded >= DRIFT_MESSAGES {
            self.put_off_check(now);
            return None;
        }
        self.recent.begin();
        if !(self.recent).is_enough(DRIFT_MESSAGES as usize, DRIFT_MEMORY as usize) {
            return None;
        }
        self.training = true;
        self.stats.checks += 1;
        Some(TrainJob {
            samples: Vec::new(),
            held_out: self.recent.take(),
            config: None,
            arm: self.config.arm,
            incumbent: self.current().cloned(),
        })
    }

    fn put_off_check(&mut self, now: Time) {
        self.check_at = now + self.config.interval;
        self.recent.take();
        self.recorded = 0;
    }

    /// Takes the result of a job.
    pub fn handle_trained(&mut self, now: Time, trained: Trained) {
        self.training = false;
        self.put_off_check(now);
        if trained.is_check {
            // One that cannot be tried now is tried again.
            if let Ok(Some((id, worth))) = trained.result.map(|judged| judged.incumbent) {
                self.compare(&id, worth.ratio_with());
            }
            return;
        }
        let adopted = match trained.result {
            Err(_) => {
                self.stats.failed += 1;
                false
            }
            Ok(judged) => self.judge(now, judged),
        };
        self.sample.clear();
        self.doublings = if adopted {
            0
        } else {
            (self.doublings + 1).min(MAX_DOUBLINGS)
        };
        self.not_before = now + self.config.interval.saturating_mul(1 << self.doublings);
    }

    /// A decision, if there is one that was not taken yet.
    pub fn poll_event(&mut self, now: Time) -> Option<TrainerEvent> {
        self.expire(now);
        self.events.pop_front()
    }

    /// When [`poll_event`](Self::poll_event) may have something to say without anything else happening.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.live.iter().map(|live| live.until).min()
    }

    fn is_collecting(&self) -> bool {
        self.live.front().is_none_or(|live| live.drifted)
    }

    fn judge(&mut self, now: Time, judged: Judged) -> bool {
        let Judged { new, incumbent } = judged;
        let Some((dictionary, evaluation)) = new else {
            return false;
        };
        let (horizon, margin) = (self.config.horizon, self.config.margin);
        // The old one is paid for. It may have been retired meanwhile.
        let old = incumbent.filter(|(id, _)| self.live(id).is_some());
        let saved_already = old.map_or(0.0, |(_, old)| old.saved_per_message());
        let pays = evaluation.gain_over(horizon, margin) > saved_already * horizon as f64;
        let is_known = self.live(&dictionary.id()).is_some();
        if pays && !is_known {
            let until = now + self.config.time_to_live;
            self.make_live(until, dictionary, Some(evaluation));
            return true;
        }
        self.stats.rejected += 1;
        if let Some((id, old)) = old {
            if old.saved_per_message() > 0.0 {
                // This is what it is worth now, and nothing better is to be had.
                for live in self.live.iter_mut().filter(|it| it.dictionary.id() == id) {
                    live.ratio = Some(old.ratio_with());
                    live.forget_recent();
                }
            } else {
                self.retire(Retirement::Worthless, |live| live.dictionary.id() == id);
            }
        }
        false
    }

    fn make_live(&mut self, until: Time, dictionary: Dictionary, evaluation: Option<Evaluation>) {
        self.live.push_front(Live {
            dictionary: dictionary.clone(),
            until,
            ratio: evaluation.map(|it| it.ratio_with()),
            messages: 0,
            plain: 0.0,
            wire: 0.0,
            drifted: false,
        });
        self.stats.adopted += 1;
        self.events.push_back(TrainerEvent::Adopted {
            dictionary,
            evaluation,
        });
        while self.live.len() > self.config.max_live.max(1) {
            if let Some(oldest) = self.live.pop_back() {
                self.say_retired(oldest.dictionary.id(), Retirement::Superseded);
            }
        }
    }

    fn expire(&mut self, now: Time) {
        self.retire(Retirement::Expired, |live| live.until <= now);
    }

    fn retire(&mut self, why: Retirement, is_to_go: impl Fn(&Live) -> bool) {
        while let Some(at) = self.live.iter().position(&is_to_go) {
            if let Some(gone) = self.live.remove(at) {
                self.say_retired(gone.dictionary.id(), why);
            }
        }
    }

    fn say_retired(&mut self, id: DictionaryId, why: Retirement) {
        self.stats.retired += 1;
        self.events.push_back(TrainerEvent::Retired { id, why });
    }
}

#[cfg(all(test, feature = "generate", feature = "zstd"))]
mod tests {
    use super::*;
    use crate::codecs::Encoded;
    use crate::generate::{Content, Generator};

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn offer(trainer: &mut Trainer, content: Content, seed: u64, count: usize) {
        for message in Generator::new(content, seed).take(count) {
            trainer.offer(&message);
        }
    }

    fn train_once(trainer: &mut Trainer, now: Time) {
        let job = trainer.poll_job(now).expect("enough to train on");
        assert!(trainer.poll_job(now).is_none(), "one at a time");
        trainer.handle_trained(now, job.run(&mut Codecs::new()));
    }

    /// Encodes with the current dictionary, as a session would, and says what came of it.
    fn send(trainer: &mut Trainer, content: Content, seed: u64, count: usize) {
        let mut codecs = Codecs::new();
        for message in Generator::new(content, seed).take(count) {
            trainer.offer(&message);
            let dictionary = trainer.current().expect("adopted").clone();
            let mut wire = vec![0; message.len()];
            let arm = trainer.config.arm;
            let len = match codecs.encode_with(arm, &dictionary, &message, &mut wire) {
                Ok(Encoded::Written(len)) => len,
                _ => message.len(),
            };
            trainer.record(&dictionary.id(), message.len(), len);
        }
    }

    #[test]
    fn a_dictionary_is_adopted_that_pays_for_itself() {
        let mut trainer = Trainer::new(TrainerConfig::default(), 1);
        offer(&mut trainer, Content::Telecom, 1, 400);
        assert!(trainer.poll_job(at(0)).is_none(), "too few");
        offer(&mut trainer, Content::Telecom, 2, 2000);
        train_once(&mut trainer, at(1));
        let event = trainer.poll_event(at(1));
        let Some(TrainerEvent::Adopted {
            dictionary,
            evaluation: Some(evaluation),
        }) = event
        else {
            panic!("{event:?}");
        };
        assert!(evaluation.ratio_with() > 1.5 * evaluation.ratio_without());
        assert_eq!(trainer.current(), Some(&dictionary));
        assert!(trainer.poll_event(at(2)).is_none());
        assert_eq!(trainer.stats().adopted, 1);
    }

    #[test]
    fn what_does_not_pay_is_not_adopted_and_not_tried_at_once_again() {
        let config = TrainerConfig {
            horizon: 20,
            ..TrainerConfig::default()
        };
        let mut trainer = Trainer::new(config, 1);
        offer(&mut trainer, Content::Telecom, 1, 2000);
        train_once(&mut trainer, at(0));
        assert_eq!((trainer.stats().rejected, trainer.current()), (1, None));
        offer(&mut trainer, Content::Telecom, 2, 2000);
        assert!(trainer.poll_job(at(19)).is_none());
        train_once(&mut trainer, at(20));
        assert!(trainer.poll_job(at(59)).is_none(), "twice as long");

        let mut trainer = Trainer::new(TrainerConfig::default(), 1);
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..1000 {
            trainer.offer(&core::array::from_fn::<_, 100, _>(|_| rng.u8(..)));
        }
        train_once(&mut trainer, at(0));
        assert_eq!((trainer.stats().failed, trainer.current()), (1, None));
    }

    #[test]
    fn drift_is_noticed_and_answered_with_a_new_dictionary() {
        let mut trainer = Trainer::new(TrainerConfig::default(), 1);
        offer(&mut trainer, Content::Telecom, 1, 2000);
        train_once(&mut trainer, at(0));
        let first = trainer.current().expect("adopted").id();
        send(&mut trainer, Content::Telecom, 2, 3000);
        assert_eq!(trainer.stats().drifts, 0, "the same traffic");
        assert!(trainer.poll_job(at(100)).is_none(), "nothing to do");
        send(&mut trainer, Content::Logs, 3, 2000);
        assert_eq!(trainer.stats().drifts, 1);
        train_once(&mut trainer, at(100));
        let second = trainer.current().expect("adopted").id();
        assert_ne!(first, second);
        assert!(trainer.live(&first).is_some(), "messages under way need it");
        // A third, and the first goes.
        send(&mut trainer, Content::Events, 4, 3000);
        train_once(&mut trainer, at(200));
        assert!(trainer.live(&first).is_none());
        let events: Vec<_> = core::iter::from_fn(|| trainer.poll_event(at(200))).collect();
        assert!(events.iter().any(|event| matches!(
            event,
            TrainerEvent::Retired { id, why: Retirement::Superseded } if *id == first
        )));
    }

    /// Messages of which nobody says what they became with the dictionary, a minute apart from the last.
    fn offer_and_look(trainer: &mut Trainer, content: Content, seed: u64, now: Time) {
        assert!(trainer.poll_job(now).is_none(), "nothing to look at yet");
        offer(trainer, content, seed, 2000);
        let job = trainer.poll_job(now).expect("time to look");
        assert!(job.is_check());
        assert!(job.bytes() < 2 * DRIFT_MEMORY as usize);
        assert!(trainer.poll_job(now).is_none(), "one at a time");
        trainer.handle_trained(now, job.run(&mut Codecs::new()));
    }

    #[test]
    fn drift_shows_even_where_no_message_goes_with_the_dictionary_alone() {
        let mut trainer = Trainer::new(TrainerConfig::default(), 1);
        offer(&mut trainer, Content::Telecom, 1, 2000);
        train_once(&mut trainer, at(0));
        let first = trainer.current().expect("adopted").id();
        offer(&mut trainer, Content::Telecom, 2, 2000);
        assert!(trainer.poll_job(at(9)).is_none(), "not yet time");
        offer_and_look(&mut trainer, Content::Telecom, 3, at(60));
        assert_eq!((trainer.stats().checks, trainer.stats().drifts), (1, 0));
        offer_and_look(&mut trainer, Content::Logs, 4, at(120));
        assert_eq!((trainer.stats().checks, trainer.stats().drifts), (2, 1));
        offer(&mut trainer, Content::Logs, 5, 2000);
        train_once(&mut trainer, at(180));
        assert_ne!(trainer.current().expect("adopted").id(), first);
        // One from elsewhere is looked at at once, and judged by that.
        let mut other = Trainer::new(TrainerConfig::default(), 2);
        let known = trainer.current().expect("adopted").clone();
        other.adopt(at(0), known, Duration::ZERO);
        offer_and_look(&mut other, Content::Logs, 6, at(0));
        offer_and_look(&mut other, Content::Telecom, 7, at(60));
        assert_eq!((other.stats().checks, other.stats().drifts), (2, 1));
    }

    #[test]
    fn nothing_is_looked_at_that_shows_anyway() {
        let mut trainer = Trainer::new(TrainerConfig::default(), 1);
        offer(&mut trainer, Content::Telecom, 1, 2000);
        train_once(&mut trainer, at(0));
        for minute in 1..10 {
            send(&mut trainer, Content::Telecom, minute, 1000);
            assert!(trainer.poll_job(at(60 * minute)).is_none());
        }
        assert_eq!(trainer.stats().checks, 0);
    }

    #[test]
    fn a_dictionary_ends_with_its_time() {
        let mut trainer = Trainer::new(TrainerConfig::default(), 1);
        offer(&mut trainer, Content::Telecom, 1, 2000);
        train_once(&mut trainer, at(0));
        let day = at(24 * 3600);
        assert_eq!(trainer.poll_timeout(), Some(day));
        assert!(matches!(
            trainer.poll_event(day),
            Some(TrainerEvent::Adopted { .. })
        ));
        assert!(matches!(
            trainer.poll_event(day),
            Some(TrainerEvent::Retired {
                why: Retirement::Expired,
                ..
            })
        ));
        assert_eq!(trainer.current(), None);
        offer(&mut trainer, Content::Telecom, 2, 2000);
        train_once(&mut trainer, day);
        assert!(trainer.current().is_some());
    }

    #[test]
    fn one_from_elsewhere_is_judged_by_its_first_messages() {
        let mut teacher = Trainer::new(TrainerConfig::default(), 1);
        offer(&mut teacher, Content::Telecom, 1, 2000);
        train_once(&mut teacher, at(0));
        let dictionary = teacher.current().expect("adopted");

        let mut trainer = Trainer::new(TrainerConfig::default(), 2);
        let hour = Duration::from_secs(3600);
        trainer.adopt(at(0), dictionary.clone(), 24 * hour);
        assert_eq!(trainer.current(), None, "too old");
        trainer.adopt(at(0), dictionary.clone(), 20 * hour);
        assert_eq!(trainer.poll_timeout(), Some(at(4 * 3600)));
        send(&mut trainer, Content::Telecom, 2, 2000);
        assert_eq!(trainer.stats().drifts, 0);
        send(&mut trainer, Content::Logs, 3, 2000);
        assert_eq!(trainer.stats().drifts, 1);
        train_once(&mut trainer, at(1));
        assert_eq!(trainer.stats().adopted, 2);
    }

    #[test]
    fn where_nothing_better_is_to_be_had_the_old_one_stays() {
        let mut trainer = Trainer::new(TrainerConfig::default(), 1);
        offer(&mut trainer, Content::Telecom, 1, 2000);
        train_once(&mut trainer, at(0));
        let id = trainer.current().expect("adopted").id();
        // As if messages had become larger, though they have not.
        for _ in 0..DRIFT_MESSAGES {
            trainer.record(&id, 200, 199);
        }
        offer(&mut trainer, Content::Telecom, 1, 2000);
        train_once(&mut trainer, at(100));
        assert_eq!(trainer.stats().rejected, 1);
        assert_eq!(trainer.current().map(Dictionary::id), Some(id));
        assert!(!trainer.is_collecting(), "settled");
    }
}
