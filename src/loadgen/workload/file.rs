//! A workload's file.

use core::fmt;
use core::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::arrivals::Arrivals;
use super::content::{Change, Content, Mix};
use super::corpora::Corpora;
use super::error::{Refused, WorkloadError, within};
use super::{MAX_DRIVE, StreamKind, Workload};
use crate::control::PolicyConfig;

/// What a workload's file says, and what another file may hold under a key of its own; [`Self::load`] makes a [`Workload`] of it.
///
/// ```toml
/// seconds = 30                       # 10 if nothing is said
/// seed = 7                           # 1
///
/// [[streams]]
/// name = "signalling"
/// count = 4                          # streams; 1
/// arrivals = "poisson:5000"          # of all of them together
/// content = "telecom"                # or [{ of = "telecom", weight = 3 }, { of = "random:1400" }]
/// policy = "cost"                    # the session's
/// replies = true                     # the peer is an echo; true
/// messages = 100000                  # at most; no bound
/// [[streams.then]]                   # from then on others
/// from_message = 10000               # or from_second = 5.0
/// content = "media"
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    seconds: Option<f64>,
    seed: Option<u64>,
    streams: Vec<KindFile>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindFile {
    name: String,
    count: Option<u32>,
    arrivals: String,
    content: ContentFile,
    policy: Option<String>,
    replies: Option<bool>,
    messages: Option<u64>,
    #[serde(default)]
    then: Vec<ThenFile>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThenFile {
    from_message: Option<u64>,
    from_second: Option<f64>,
    content: ContentFile,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WeightedFile {
    of: String,
    #[serde(default = "one")]
    weight: f64,
}

const fn one() -> f64 {
    1.0
}

/// A text, or a list of tables with weights.
#[derive(Clone, Debug)]
struct ContentFile(Vec<WeightedFile>);

impl<'de> Deserialize<'de> for ContentFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = ContentFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("content, as \"telecom\", or a list as [{ of = \"telecom\", weight = 3 }, { of = \"media\" }]")
            }

            fn visit_str<E>(self, text: &str) -> Result<ContentFile, E> {
                Ok(ContentFile(vec![WeightedFile {
                    of: text.to_owned(),
                    weight: one(),
                }]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ContentFile, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(ContentFile)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl ContentFile {
    fn load(&self, corpora: &mut Corpora<'_>) -> Result<Vec<(f64, Content)>, Refused> {
        let contents = self.0.iter();
        let contents = contents.map(|one| Ok((one.weight, Content::parse(&one.of, corpora)?)));
        contents.collect()
    }
}

impl WorkloadFile {
    /// The workload that it says; files are asked of `corpora`.
    ///
    /// # Errors
    ///
    /// It says what cannot be: with the key and what is allowed.
    pub fn load(&self, corpora: &mut Corpora<'_>) -> Result<Workload, WorkloadError> {
        let kinds = self.streams.iter().enumerate().map(|(place, kind)| {
            kind.load(corpora).map_err(|(key, error)| {
                WorkloadError::value(format!("streams[{place}].{key}"))(error)
            })
        });
        // Before anything is kept of them, for there may be any number.
        let kinds: Vec<StreamKind> = kinds
            .take(super::MAX_KINDS + 1)
            .collect::<Result<_, WorkloadError>>()?;
        let mut workload = Workload::new(kinds)?;
        if let Some(seed) = self.seed {
            workload = workload.seed(seed);
        }
        if let Some(seconds) = self.seconds {
            let seconds = within("a length of", seconds, 0.001, MAX_DRIVE.as_secs_f64());
            let seconds = seconds.map_err(WorkloadError::value("seconds"))?;
            workload = workload.length(Duration::from_secs_f64(seconds));
        }
        Ok(workload)
    }
}

impl KindFile {
    fn load(&self, corpora: &mut Corpora<'_>) -> Result<StreamKind, (String, Refused)> {
        let at = |key: &str| {
            let key = key.to_owned();
            move |error| (key, error)
        };
        let arrivals = Arrivals::parse(&self.arrivals, corpora).map_err(at("arrivals"))?;
        let contents = self.content.load(corpora).map_err(at("content"))?;
        let mut mix = Mix::weighted(contents).map_err(at("content"))?;
        for (place, then) in self.then.iter().enumerate() {
            let key = format!("then[{place}]");
            let from = then.from().map_err(at(&key))?;
            let contents = then.content.load(corpora);
            let contents = contents.map_err(at(&format!("{key}.content")))?;
            mix = mix.then(from, contents).map_err(at(&key))?;
        }
        let policy = self.policy.as_deref().map(str::parse::<PolicyConfig>);
        let policy = policy
            .transpose()
            .map_err(|error| at("policy")(Refused::new(error.to_string())))?;
        Ok(StreamKind::new(self.name.clone(), arrivals, mix)
            .streams(self.count.unwrap_or(1))
            .policy(policy)
            .replies(self.replies.unwrap_or(true))
            .messages(self.messages))
    }
}

impl ThenFile {
    fn from(&self) -> Result<Change, Refused> {
        match (self.from_message, self.from_second) {
            (Some(message), None) => Ok(Change::Message(message)),
            (None, Some(second)) => {
                let second = within("from_second", second, 0.0, MAX_DRIVE.as_secs_f64())?;
                Ok(Change::Time(Duration::from_secs_f64(second)))
            }
            _ => Err(Refused::new("either from_message or from_second")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Workload, WorkloadError> {
        Workload::parse(text, &mut Corpora::none())
    }

    const WHOLE: &str = r#"
        seconds = 30
        seed = 7
        [[streams]]
        name = "signalling"
        count = 4
        arrivals = "poisson:5000"
        content = [{ of = "telecom", weight = 3 }, { of = "random:1400" }]
        policy = "zstd:3"
        messages = 100000
        [[streams.then]]
        from_message = 10000
        content = "media"
        [[streams.then]]
        from_second = 5.5
        content = "zeros:64-128"
        [[streams]]
        name = "bulk"
        arrivals = "constant:10"
        content = "text"
        replies = false
    "#;

    #[test]
    fn all_that_a_file_may_say_is_taken() {
        let workload = parse(WHOLE).unwrap();
        assert_eq!(workload.drive_length(), Duration::from_secs(30));
        assert_eq!(workload.drive_seed(), 7);
        let [first, second] = workload.kinds() else {
            panic!("{workload:?}");
        };
        assert_eq!((first.name(), first.stream_count()), ("signalling", 4));
        assert_eq!(first.arrivals(), &Arrivals::poisson(5000.0).unwrap());
        assert_eq!(first.message_count(), Some(100_000));
        assert!(first.has_replies() && !second.has_replies());
        assert_eq!(first.stream_policy(), "zstd:3".parse().ok());
        let mut messages = workload.messages(0).unwrap();
        (0..10_000).for_each(|_| messages.skip(0));
        assert_eq!(messages.next(0).len(), 65_536);
        assert!((64..=128).contains(&messages.next(5_500_000_000).len()));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_key() {
        let with = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            parse(&WHOLE.replacen(from, to, 1)).unwrap_err().to_string()
        };
        for (from, to, words) in [
            ("seconds = 30", "seconds = -1", &["seconds: ", "86400"][..]),
            ("seconds = 30", "second = 3", &["unknown field", "seconds"]),
            ("name = \"bulk\"", "", &["missing field `name`"]),
            ("\"bulk\"", "\"signalling\"", &["streams[1].name", "two"]),
            ("\"bulk\"", "\"\"", &["streams[1].name", "1 to 80"]),
            ("count = 4", "count = 0", &["streams[0].count", "1 to 4096"]),
            ("count = 4", "count = 4096", &["4097 in all", "4096"]),
            (
                "poisson:5000",
                "often",
                &["streams[0].arrivals", "poisson:RATE"],
            ),
            (
                "constant:10",
                "closed:10",
                &["streams[1].arrivals", "needs replies"],
            ),
            ("\"text\"", "\"prose\"", &["streams[1].content", "telecom"]),
            ("\"text\"", "3", &["content, as \"telecom\""]),
            ("\"text\"", "[]", &["streams[1].content", "1 to 64"]),
            (
                "weight = 3",
                "weight = 0",
                &["streams[0].content", "weight"],
            ),
            ("weight = 3", "wait = 0", &["unknown field", "weight"]),
            ("zstd:3", "gzip", &["streams[0].policy", "majority"]),
            (
                "messages = 100000",
                "messages = 0",
                &["streams[0].messages"],
            ),
            ("from_second = 5.5", "", &["streams[0].then[1]", "either"]),
            (
                "from_second = 5.5",
                "from_second = nan",
                &["then[1]", "0 to"],
            ),
            ("64-128", "128-64", &["then[1].content", "must go up"]),
        ] {
            let error = with(from, to);
            assert!(
                words.iter().all(|word| error.contains(word)),
                "{to}: {error}"
            );
        }
        assert!(parse("").unwrap_err().to_string().contains("streams"));
        assert!(
            parse("streams = []")
                .unwrap_err()
                .to_string()
                .contains("1 to 64")
        );
        let many = "[[streams]]\nname = \"a\"\narrivals = \"poisson:1\"\ncontent = \"logs\"\n";
        let error = parse(&many.repeat(1000)).unwrap_err().to_string();
        assert!(error.contains("1 to 64"), "{error}");
        let long = " ".repeat(super::super::MAX_FILE as usize + 1);
        assert!(matches!(parse(&long), Err(WorkloadError::TooLong { .. })));
    }

    #[test]
    fn files_are_those_of_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("workload.toml");
        let text = "[[streams]]\nname = \"a\"\narrivals = \"poisson:1\"\ncontent = \"some.txt\"\n";
        std::fs::write(&path, text).unwrap();
        let error = Workload::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("workload.toml: streams[0].content") && error.contains("some.txt"),
            "{error}"
        );
        std::fs::write(directory.path().join("some.txt"), "one\ntwo\n").unwrap();
        let workload = Workload::read(&path).unwrap();
        assert_eq!(workload.messages(0).unwrap().next(0), "one");
        let absent = Workload::read(&directory.path().join("absent.toml"));
        assert!(matches!(absent, Err(WorkloadError::Io { .. })));
    }

    proptest! {
        #[test]
        fn whatever_a_file_says_nothing_breaks(
            damage in proptest::collection::vec(
                (any::<proptest::sample::Index>(), any::<char>()), 1..6),
        ) {
            let mut text: Vec<char> = WHOLE.chars().collect();
            for (at, with) in damage {
                let at = at.index(text.len());
                text[at] = with;
            }
            if let Ok(workload) = parse(&text.into_iter().collect::<String>()) {
                prop_assert!(workload.drive_length() <= MAX_DRIVE);
                prop_assert!(workload.kinds().len() <= super::super::MAX_KINDS);
                prop_assert!(workload.longest() <= super::super::MAX_MESSAGE);
            }
        }
    }
}
