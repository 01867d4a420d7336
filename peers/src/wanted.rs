//! What the crate's own contestants are wanted to reach beside the best peer, and where they fall short.

use crate::plan::{Link, Load};

/// Messages below this mean length are short: their history is worth most.
const SHORT: f64 = 1024.0;

/// What is judged of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Seconds beside the best peer's.
    Time,
    /// Messages that are asked one by one, beside the least that any peer has.
    Median,
    Percentile99,
    /// Processor time beside the best peer's by seconds.
    Processor,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Time => "/ peer",
            Self::Median => "p50 / peers",
            Self::Percentile99 => "p99 / peers",
            Self::Processor => "CPU / that peer",
        }
    }

    /// The most that the ratio is wanted to be. Short messages profit from what they have in common as far as the link, and not
    /// what is at its ends, takes the time; everywhere else nobody should be better off with a peer.
    fn most(self, load: &Load, link: Link) -> f64 {
        let count = load.messages.len().max(1);
        let is_short = (load.plain_bytes() as f64) < SHORT * count as f64;
        match (self, link.0) {
            (Self::Time, Some(1e6..=1e8)) if is_short => 0.65,
            (Self::Time, Some(1e9)) if is_short => 0.4,
            _ => 1.0,
        }
    }
}

/// A ratio that is wanted of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Want {
    cell: String,
    what: What,
    most: f64,
    reached: Reached,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reached {
    Ratio(f64),
    /// The contestant did not do what it should.
    Failed,
    /// There is nothing to compare.
    Unmeasured,
}

impl Want {
    pub(crate) fn new(load: &Load, link: Link, what: What, reached: Reached) -> Self {
        Self {
            cell: format!("{} {link}", load.name),
            what,
            most: what.most(load, link),
            reached,
        }
    }

    /// By how much it is missed, if it is: how many times what is wanted.
    fn missed_by(&self) -> Option<f64> {
        match self.reached {
            Reached::Ratio(ratio) if ratio <= self.most => None,
            Reached::Ratio(ratio) => Some(ratio / self.most),
            Reached::Failed => Some(f64::INFINITY),
            Reached::Unmeasured => None,
        }
    }
}

/// Those that are missed, the worst first, as a table; then how many are met.
pub(crate) fn judgement(wants: &[Want]) -> Vec<String> {
    let mut missed: Vec<_> = wants
        .iter()
        .filter_map(|want| Some((want.missed_by()?, want)))
        .collect();
    missed.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    let mut lines = Vec::new();
    if !missed.is_empty() {
        lines.push("| short of what is wanted | | wanted | reached |".to_owned());
        lines.push("|---|---|--:|--:|".to_owned());
    }
    for (_, want) in &missed {
        let reached = match want.reached {
            // A thousandth more is more than one.
            Reached::Ratio(ratio) => format!("{:.3}", (1e3 * ratio).ceil() / 1e3),
            Reached::Failed | Reached::Unmeasured => "failed".to_owned(),
        };
        let (cell, what, most) = (&want.cell, want.what.name(), want.most);
        lines.push(format!("| {cell} | {what} | {most:.2} | {reached} |"));
    }
    if !missed.is_empty() {
        lines.push(String::new());
    }
    let is_measured = |want: &&Want| want.reached != Reached::Unmeasured;
    let judged = wants.iter().filter(is_measured).count();
    let unmeasured = match wants.len() - judged {
        0 => String::new(),
        more => format!("; {more} not measured"),
    };
    let met = judged - missed.len();
    lines.push(format!("{met} of {judged} met{unmeasured}"));
    lines
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn load(len: usize) -> Load {
        Load {
            name: "some".to_owned(),
            messages: vec![Bytes::from(vec![0; len]); 4].into(),
        }
    }

    /// In hundredths.
    fn most(what: What, len: usize, link: &str) -> u32 {
        let most = what.most(&load(len), link.parse().expect("a link"));
        (100.0 * most).round() as u32
    }

    #[test]
    fn short_messages_are_wanted_to_gain_where_the_link_takes_the_time() {
        for (link, wanted) in [
            ("100kbit", 100),
            ("1Mbit", 65),
            ("10Mbit", 65),
            ("100Mbit", 65),
            ("1Gbit", 40),
            ("10Gbit", 100),
            ("none", 100),
        ] {
            assert_eq!(most(What::Time, 1023, link), wanted, "{link}");
            assert_eq!(most(What::Time, 1024, link), 100, "{link}");
            for what in [What::Median, What::Percentile99, What::Processor] {
                assert_eq!(most(what, 100, link), 100, "{link}");
            }
        }
    }

    #[test]
    fn what_falls_short_is_told_first_and_the_worst_of_it_in_front() {
        let (short, long) = (load(100), load(5000));
        let want = |load, link, what, reached| Want::new(load, Link(link), what, reached);
        let wants = [
            want(&short, Some(1e7), What::Time, Reached::Ratio(0.66)),
            want(&short, Some(1e9), What::Time, Reached::Ratio(0.4)),
            want(&long, Some(1e7), What::Time, Reached::Ratio(1.0001)),
            want(&long, None, What::Median, Reached::Ratio(0.5)),
            want(&long, None, What::Percentile99, Reached::Ratio(2.5)),
            want(&long, None, What::Processor, Reached::Unmeasured),
            want(&short, Some(1e6), What::Time, Reached::Failed),
        ];
        let expected = [
            "| short of what is wanted | | wanted | reached |",
            "|---|---|--:|--:|",
            "| some 1Mbit | / peer | 0.65 | failed |",
            "| some none | p99 / peers | 1.00 | 2.500 |",
            "| some 10Mbit | / peer | 0.65 | 0.660 |",
            "| some 10Mbit | / peer | 1.00 | 1.001 |",
            "",
            "2 of 6 met; 1 not measured",
        ];
        assert_eq!(judgement(&wants), expected);
        assert_eq!(judgement(&wants[1..2]), ["1 of 1 met"]);
        assert_eq!(judgement(&[]), ["0 of 0 met"]);
    }
}
