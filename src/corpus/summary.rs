//! The figures of a corpus.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::{Corpus, Format, Skipped};

/// Count and lengths of the messages of a corpus, and what was skipped. Lengths are in bytes;
/// median and 99th percentile are lengths of actual messages (nearest rank). All are zero for a
/// corpus without messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The name of the corpus.
    pub name: String,
    /// The format it was read in.
    pub format: Format,
    /// How many messages there are.
    pub messages: usize,
    /// The sum of their lengths.
    pub bytes: u64,
    /// The length of the shortest message.
    pub min: usize,
    /// The mean length.
    pub mean: f64,
    /// The median length.
    pub median: usize,
    /// The length that 99 of 100 messages do not exceed.
    pub p99: usize,
    /// The length of the longest message.
    pub max: usize,
    /// From the earliest recorded time to the latest; `None` where no times were recorded.
    pub recorded: Option<Duration>,
    /// What was left out.
    pub skipped: Skipped,
    /// SCTP fragments that stand as messages of their own.
    pub unjoined_fragments: u64,
}

impl Summary {
    pub(super) fn of(corpus: &Corpus) -> Self {
        let mut lens: Vec<usize> = corpus.messages().iter().map(Bytes::len).collect();
        lens.sort_unstable();
        let bytes = lens.iter().map(|len| *len as u64).sum();
        let times = || corpus.iter().filter_map(|(at, _)| at);
        Self {
            name: corpus.name().to_owned(),
            format: corpus.format(),
            messages: lens.len(),
            bytes,
            min: lens.first().copied().unwrap_or(0),
            mean: bytes as f64 / lens.len().max(1) as f64,
            median: nearest_rank(&lens, 50),
            p99: nearest_rank(&lens, 99),
            max: lens.last().copied().unwrap_or(0),
            recorded: times()
                .max()
                .zip(times().min())
                .map(|(latest, earliest)| latest.saturating_since(earliest)),
            skipped: corpus.skipped().clone(),
            unjoined_fragments: corpus.unjoined_fragments(),
        }
    }
}

/// The smallest of `sorted` that `percent` of them do not exceed, or zero.
fn nearest_rank(sorted: &[usize], percent: usize) -> usize {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// A table of two aligned columns, without a line end after the last row.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![
            ("messages".to_owned(), self.messages.to_string()),
            ("bytes".to_owned(), self.bytes.to_string()),
            ("min".to_owned(), self.min.to_string()),
            ("mean".to_owned(), format!("{:.1}", self.mean)),
            ("median".to_owned(), self.median.to_string()),
            ("p99".to_owned(), self.p99.to_string()),
            ("max".to_owned(), self.max.to_string()),
        ];
        if let Some(recorded) = self.recorded {
            rows.push((
                "seconds recorded".to_owned(),
                format!("{:.3}", recorded.as_secs_f64()),
            ));
        }
        if self.unjoined_fragments > 0 {
            rows.push((
                "unjoined fragments".to_owned(),
                self.unjoined_fragments.to_string(),
            ));
        }
        for (reason, count) in self.skipped.iter() {
            rows.push((format!("skipped: {reason}"), count.to_string()));
        }
        let labels = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let values = rows.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
        write!(f, "{} ({})", self.name, self.format)?;
        for (label, value) in rows {
            write!(f, "\n  {label:labels$}  {value:>values$}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::SkipReason;

    #[test]
    fn figures_are_those_of_the_lengths() {
        let lens = (1..=200).rev();
        let messages = lens.map(|len| Bytes::from(vec![0; len])).collect();
        let summary = Corpus::new("made", messages).summary();
        assert_eq!((summary.messages, summary.bytes), (200, 20_100));
        assert_eq!((summary.min, summary.max), (1, 200));
        assert_eq!((summary.median, summary.p99), (100, 198));
        assert!((summary.mean - 100.5).abs() < 1e-9);
        assert_eq!(summary.recorded, None);
    }

    #[test]
    fn an_empty_corpus_is_all_zeros() {
        let summary = Corpus::new("empty", Vec::new()).summary();
        assert_eq!((summary.messages, summary.median, summary.p99), (0, 0, 0));
        assert!(summary.mean.abs() < f64::EPSILON);
    }

    #[test]
    fn the_table_is_aligned_and_the_json_plain() {
        let input = Bytes::from_static(b"one\n\nfour\n");
        let summary = Corpus::parse("a.txt", &input, None).unwrap().summary();
        assert_eq!(
            summary.to_string(),
            "a.txt (lines)\n  \
               messages               2\n  \
               bytes                  7\n  \
               min                    3\n  \
               mean                 3.5\n  \
               median                 3\n  \
               p99                    4\n  \
               max                    4\n  \
               skipped: empty line    1"
        );
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["skipped"]["empty_line"], 1);
        assert_eq!(json["format"], "lines");
        assert_eq!(summary.skipped.count(SkipReason::EmptyLine), 1);
    }
}
