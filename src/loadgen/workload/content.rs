//! What messages hold.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;

use super::MAX_MESSAGE;
use super::corpora::Corpora;
use super::error::{Refused, shorten, within};
use super::sizes::Sizes;
use crate::corpus::Corpus;
use crate::generate::{self, Generator};
use crate::units::saturating_nanos;

/// The most contents of a mix at a time, and the most changes.
pub const MAX_CONTENTS: usize = 64;
/// The longest that [`generate`] makes, and a little more.
const LONGEST_GENERATED: usize = 1 << 20;

/// Where the bytes of messages come from. As text:
///
/// | text | messages |
/// |---|---|
/// | `telecom`, `logs`, .. | those of a [generator](crate::generate) |
/// | `random:SIZES` | random bytes, of [these lengths](Sizes) |
/// | `zeros:SIZES` | bytes of all bits zero |
/// | `FILE` | those of a [corpus](crate::corpus), one after the other, and again |
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    of: Of,
}

#[derive(Clone, Debug, PartialEq)]
enum Of {
    Generated(generate::Content),
    Corpus(Arc<Corpus>),
    Random(Sizes),
    Zeros(Sizes),
}

impl Content {
    /// Messages of a generator.
    pub const fn generated(content: generate::Content) -> Self {
        Self {
            of: Of::Generated(content),
        }
    }

    /// The messages of a corpus, one after the other, and again when it ends.
    ///
    /// # Errors
    ///
    /// It has none, or one that is longer than [`MAX_MESSAGE`].
    pub fn corpus(corpus: Arc<Corpus>) -> Result<Self, Refused> {
        Sizes::like(&corpus)?;
        Ok(Self {
            of: Of::Corpus(corpus),
        })
    }

    /// Random bytes, which no codec makes smaller.
    pub const fn random(sizes: Sizes) -> Self {
        Self {
            of: Of::Random(sizes),
        }
    }

    /// Bytes of all bits zero.
    pub const fn zeros(sizes: Sizes) -> Self {
        Self {
            of: Of::Zeros(sizes),
        }
    }

    /// As it is written ([`Self`]); files are asked of `corpora`.
    ///
    /// # Errors
    ///
    /// It is none, or cannot be.
    pub fn parse(text: &str, corpora: &mut Corpora<'_>) -> Result<Self, Refused> {
        if let Ok(content) = text.parse() {
            return Ok(Self::generated(content));
        }
        match text.split_once(':') {
            Some(("random", sizes)) => Ok(Self::random(Sizes::parse(sizes, corpora)?)),
            Some(("zeros", sizes)) => Ok(Self::zeros(Sizes::parse(sizes, corpora)?)),
            _ => {
                let corpus = corpora.get(text).map_err(|error| {
                    let names: Vec<&str> =
                        generate::Content::ALL.iter().map(|known| known.name()).collect();
                    Refused::new(format!(
                        "\"{}\" is neither content ({}, random:SIZES, zeros:SIZES) nor a file of messages: {error}",
                        shorten(text),
                        names.join(", ")
                    ))
                })?;
                Self::corpus(corpus)
            }
        }
    }

    /// No message is longer, bytes.
    pub fn longest(&self) -> usize {
        match &self.of {
            Of::Generated(_) => LONGEST_GENERATED,
            Of::Corpus(corpus) => {
                let lens = corpus.messages().iter().map(Bytes::len);
                lens.max().unwrap_or(0)
            }
            Of::Random(sizes) | Of::Zeros(sizes) => sizes.longest(),
        }
    }
}

/// As it is read, but for the path of a file.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Of::Generated(content) => write!(f, "{content}"),
            Of::Corpus(corpus) => f.write_str(&shorten(corpus.name())),
            Of::Random(sizes) => write!(f, "random:{sizes}"),
            Of::Zeros(sizes) => write!(f, "zeros:{sizes}"),
        }
    }
}

/// When the content of a mix changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// With this message of the kind of streams, the first being 0.
    Message(u64),
    /// With the first message that is intended so long after the start, or later.
    Time(Duration),
}

/// Contents by weight, which may change on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    phases: Vec<Phase>,
}

#[derive(Clone, Debug, PartialEq)]
struct Phase {
    from: Change,
    /// With the sum of the weights up to here.
    contents: Vec<(f64, Content)>,
}

impl Phase {
    fn new(from: Change, contents: Vec<(f64, Content)>) -> Result<Self, Refused> {
        if contents.is_empty() || contents.len() > MAX_CONTENTS {
            return Err(Refused::new(format!(
                "{} contents, of which there must be 1 to {MAX_CONTENTS}",
                contents.len()
            )));
        }
        let mut sum = 0.0;
        let add = |(weight, content)| {
            sum += within("a weight of", weight, 1e-9, 1e9)?;
            Ok((sum, content))
        };
        let contents = contents.into_iter().map(add);
        Ok(Self {
            from,
            contents: contents.collect::<Result<_, Refused>>()?,
        })
    }
}

impl Mix {
    /// One content, always.
    pub fn of(content: Content) -> Self {
        Self {
            phases: vec![Phase {
                from: Change::Message(0),
                contents: vec![(1.0, content)],
            }],
        }
    }

    /// Each message of a content that is drawn by these weights.
    ///
    /// # Errors
    ///
    /// No contents, more than [`MAX_CONTENTS`], or a weight that is not above zero.
    pub fn weighted(contents: Vec<(f64, Content)>) -> Result<Self, Refused> {
        let phase = Phase::new(Change::Message(0), contents)?;
        Ok(Self {
            phases: vec![phase],
        })
    }

    /// From then on others. Changes come in the order in which they are given: each waits for those before.
    ///
    /// # Errors
    ///
    /// As for [`Self::weighted`]; or there are more than [`MAX_CONTENTS`] changes.
    pub fn then(mut self, from: Change, contents: Vec<(f64, Content)>) -> Result<Self, Refused> {
        if self.phases.len() > MAX_CONTENTS {
            return Err(Refused::new(format!("more than {MAX_CONTENTS} changes")));
        }
        self.phases.push(Phase::new(from, contents)?);
        Ok(self)
    }

    /// How many contents there are, with those of all changes.
    pub fn content_count(&self) -> usize {
        self.phases.iter().map(|phase| phase.contents.len()).sum()
    }

    /// No message is longer, bytes.
    pub fn longest(&self) -> usize {
        let contents = self.phases.iter().flat_map(|phase| &phase.contents);
        let lens = contents.map(|(_, content)| content.longest());
        lens.max().unwrap_or(0)
    }

    /// The messages, which the seed determines.
    pub fn messages(&self, seed: u64) -> Messages {
        let mut rng = Rng::with_seed(seed);
        let mut zeros = 0;
        let phases = self.phases.iter();
        let phases = phases.map(|phase| {
            let sources = phase.contents.iter().map(|(until, content)| {
                let source = match &content.of {
                    Of::Generated(content) => {
                        Source::Generated(Box::new(Generator::new(*content, rng.u64(..))))
                    }
                    Of::Corpus(corpus) => Source::Corpus(Arc::clone(corpus), 0),
                    Of::Random(sizes) => Source::Random(sizes.clone()),
                    Of::Zeros(sizes) => {
                        zeros = zeros.max(sizes.longest());
                        Source::Zeros(sizes.clone())
                    }
                };
                (*until, source)
            });
            (phase.from, sources.collect())
        });
        let phases = phases.collect();
        Messages {
            phases,
            now: 0,
            count: 0,
            zeros: Bytes::from(vec![0; zeros.min(MAX_MESSAGE)]),
            rng,
        }
    }
}

#[derive(Debug)]
enum Source {
    Generated(Box<Generator>),
    Corpus(Arc<Corpus>, usize),
    Random(Sizes),
    Zeros(Sizes),
}

/// The messages of a [`Mix`], one after the other.
#[derive(Debug)]
pub struct Messages {
    phases: Vec<(Change, Vec<(f64, Source)>)>,
    now: usize,
    count: u64,
    zeros: Bytes,
    rng: Rng,
}

impl Messages {
    /// The next one, which is intended for this time, nanoseconds from the start.
    pub fn next(&mut self, at: u64) -> Bytes {
        self.skip(at);
        let Some((_, sources)) = self.phases.get_mut(self.now) else {
            return Bytes::new();
        };
        let sum = sources.last().map_or(0.0, |(until, _)| *until);
        // Not drawn where there is nothing to choose.
        let drawn = if sources.len() > 1 {
            self.rng.f64() * sum
        } else {
            0.0
        };
        let place = sources.partition_point(|(until, _)| *until <= drawn);
        let last = sources.len().saturating_sub(1);
        let Some((_, source)) = sources.get_mut(place.min(last)) else {
            return Bytes::new();
        };
        match source {
            Source::Generated(generator) => generator.next().unwrap_or_default(),
            Source::Corpus(corpus, index) => {
                let messages = corpus.messages();
                let message = messages.get(*index).cloned().unwrap_or_default();
                *index = (*index + 1) % messages.len().max(1);
                message
            }
            Source::Random(sizes) => {
                let mut message = vec![0; sizes.draw(&mut self.rng)];
                self.rng.fill(&mut message);
                message.into()
            }
            Source::Zeros(sizes) => {
                let len = sizes.draw(&mut self.rng).min(self.zeros.len());
                self.zeros.slice(..len)
            }
        }
    }

    /// Counts a message that is not made, because it could not be sent.
    pub fn skip(&mut self, at: u64) {
        while let Some((from, _)) = self.phases.get(self.now + 1) {
            let is_there = match from {
                Change::Message(first) => self.count >= *first,
                Change::Time(first) => at >= saturating_nanos(*first),
            };
            if !is_there {
                break;
            }
            self.now += 1;
        }
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> Content {
        Content::parse(text, &mut Corpora::none()).unwrap()
    }

    #[test]
    fn contents_are_drawn_by_weight() {
        let mix = Mix::weighted(vec![
            (3.0, content("zeros:10")),
            (1.0, content("random:20")),
        ]);
        let mut messages = mix.unwrap().messages(1);
        let long = (0..40_000).filter(|at| messages.next(*at).len() == 20);
        let share = long.count() as f64 / 40_000.0;
        // A standard error is 0.0022.
        assert!((share - 0.25).abs() < 0.012, "{share}");
    }

    #[test]
    fn content_changes_with_a_message_and_with_time() {
        let one = |text| vec![(1.0, content(text))];
        let mix = Mix::of(content("zeros:1"))
            .then(Change::Message(3), one("zeros:2"))
            .unwrap()
            .then(Change::Time(Duration::from_micros(1)), one("zeros:3"))
            .unwrap();
        let mut messages = mix.messages(1);
        let lens: Vec<usize> = [0, 100, 2000, 2000, 2100]
            .map(|at| messages.next(at).len())
            .into();
        // Time has come at the third, but the second change waits for the first.
        assert_eq!(lens, [1, 1, 1, 3, 3]);
        let mut messages = mix.messages(1);
        let lens: Vec<usize> = (0..5).map(|_| messages.next(0).len()).collect();
        assert_eq!(lens, [1, 1, 1, 2, 2]);
        let mut messages = mix.messages(1);
        (0..3).for_each(|_| messages.skip(0));
        assert_eq!(messages.next(0).len(), 2);
        assert_eq!(mix.longest(), 3);
    }

    #[test]
    fn a_seed_determines_the_messages() {
        let mix = Mix::weighted(vec![
            (1.0, content("telecom")),
            (1.0, content("random:lognormal,300,1")),
        ])
        .unwrap();
        let some = |seed| -> Vec<Bytes> {
            let mut messages = mix.messages(seed);
            (0..200).map(|at| messages.next(at)).collect()
        };
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
    }

    #[test]
    fn a_corpus_goes_round() {
        let corpus = Corpus::new("three", vec!["a".into(), "bb".into(), "ccc".into()]);
        let mut corpora = Corpora::with(move |_, _| Ok(corpus.clone()));
        let content = Content::parse("three.msgs", &mut corpora).unwrap();
        let mut messages = Mix::of(content).messages(1);
        let lens: Vec<usize> = (0..5).map(|at| messages.next(at).len()).collect();
        assert_eq!(lens, [1, 2, 3, 1, 2]);
        let mut empty = Corpora::with(|_, _| Ok(Corpus::new("none", Vec::new())));
        let error = Content::parse("none.msgs", &mut empty).unwrap_err();
        assert!(error.to_string().contains("no messages"), "{error}");
        let error = Content::parse("noise", &mut Corpora::none()).unwrap_err();
        assert!(error.to_string().contains("telecom, metrics"), "{error}");
    }

    #[test]
    fn generated_messages_are_no_longer_than_said() {
        for generated in generate::Content::ALL {
            let content = Content::generated(*generated);
            let mut messages = Mix::of(content.clone()).messages(1);
            for at in 0..20 {
                assert!(messages.next(at).len() <= content.longest());
            }
        }
        assert!(Mix::weighted(Vec::new()).is_err());
        assert!(Mix::weighted(vec![(0.0, content("logs"))]).is_err());
        assert!(Mix::weighted(vec![(f64::NAN, content("logs"))]).is_err());
    }
}
