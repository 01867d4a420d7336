//! The file of counts, and how others are held against it.

use core::fmt;
use core::str::FromStr;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use crate::tools::Tools;

/// More than this share above the baseline fails ..
const MORE: f64 = 0.03;
/// .. or, where the tools are others, this: what a compiler changes here and there passes, what costs a piece a quarter does not.
const MORE_WITH_OTHERS: f64 = 0.25;
/// Less than this share below it should be accepted.
const FEWER: f64 = 0.05;
/// Instructions either way that are nothing, since a compiler may order the shortest pieces otherwise.
const FEW: f64 = 2.0;

/// Instructions of each piece, and what they were read with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) tools: Tools,
    pub(crate) counts: BTreeMap<String, f64>,
}

/// How far counts may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tolerance {
    /// Everything is the same but the source.
    Same,
    /// Another compiler, library, valgrind or processor.
    Others,
    /// Other instructions altogether.
    None,
}

impl Tolerance {
    pub(crate) fn between(before: &Tools, now: &Tools) -> Self {
        if before.target != now.target {
            Self::None
        } else if before == now {
            Self::Same
        } else {
            Self::Others
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let (more, others) = (percent(MORE), percent(MORE_WITH_OTHERS));
        match self {
            Self::Same => write!(f, "up to {more} more pass"),
            Self::Others => write!(
                f,
                "with other tools, up to {others} more pass; `accept` with these makes it {more} again"
            ),
            Self::None => f.write_str("another target: nothing is compared"),
        }
    }
}

/// What became of a piece.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    piece: String,
    before: Option<f64>,
    now: Option<f64>,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    More,
    Fewer,
    /// There is no baseline of it, or no such piece any more.
    Unknown,
    NotCompared,
}

impl Finding {
    pub(crate) fn fails(&self) -> bool {
        matches!(self.verdict, Verdict::More | Verdict::Unknown)
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.verdict == Verdict::Fewer
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: Option<f64>| count.map_or("-".into(), |count| format!("{count:.2}"));
        let change = match (self.before, self.now) {
            (Some(before), Some(now)) => {
                let tenths = (1000.0 * (now / before - 1.0)).round();
                // Not minus nothing.
                format!("{:+.1} %", tenths / 10.0 + 0.0)
            }
            _ => String::new(),
        };
        let word = match self.verdict {
            Verdict::Same | Verdict::NotCompared => "",
            Verdict::More => "  MORE",
            Verdict::Fewer => "  fewer",
            Verdict::Unknown if self.now.is_some() => "  NEW",
            Verdict::Unknown => "  GONE",
        };
        let (piece, before, now) = (&self.piece, count(self.before), count(self.now));
        write!(f, "{piece:<28} {before:>12} {now:>12} {change:>9}{word}")
    }
}

impl Baseline {
    /// Every piece of either, in order.
    pub(crate) fn compare(&self, now: &Self, tolerance: Tolerance) -> Vec<Finding> {
        let names: BTreeSet<&String> = self.counts.keys().chain(now.counts.keys()).collect();
        let finding = |piece: &String| {
            let before = self.counts.get(piece).copied();
            let now = now.counts.get(piece).copied();
            Finding {
                piece: piece.clone(),
                before,
                now,
                verdict: verdict(before, now, tolerance),
            }
        };
        names.into_iter().map(finding).collect()
    }
}

fn verdict(before: Option<f64>, now: Option<f64>, tolerance: Tolerance) -> Verdict {
    let more = match tolerance {
        Tolerance::None => return Verdict::NotCompared,
        Tolerance::Same => MORE,
        Tolerance::Others => MORE_WITH_OTHERS,
    };
    let (Some(before), Some(now)) = (before, now) else {
        return Verdict::Unknown;
    };
    if now > before + FEW.max(more * before) {
        Verdict::More
    } else if tolerance == Tolerance::Same && now < before - FEW.max(FEWER * before) {
        Verdict::Fewer
    } else {
        Verdict::Same
    }
}

impl fmt::Display for Baseline {
    /// As the file is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Instructions each time a piece is done. Written by `cargo run --profile counts --package tautline-counts -- accept`.\n\n[read_with]"
        )?;
        for (name, value) in self.tools.rows() {
            // What these tools say of themselves is plain; a quote in it would end the text.
            let value = value.replace(['"', '\\'], "'");
            writeln!(f, "{name} = \"{value}\"")?;
        }
        writeln!(f, "\n[instructions]")?;
        for (piece, count) in &self.counts {
            writeln!(f, "\"{piece}\" = {count:.2}")?;
        }
        Ok(())
    }
}

impl FromStr for Baseline {
    type Err = Box<dyn Error>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let file: toml::Table = text.parse()?;
        let table = |name: &str| {
            let table = file.get(name).and_then(toml::Value::as_table);
            table.ok_or_else(|| format!("no table [{name}]"))
        };
        let tools = table("read_with")?;
        let tool = |name: &str| {
            let value = tools.get(name).and_then(toml::Value::as_str);
            let value = value.ok_or_else(|| format!("[read_with] has no text {name:?}"))?;
            Ok::<_, Self::Err>(value.to_owned())
        };
        let tools = Tools {
            target: tool("target")?,
            rustc: tool("rustc")?,
            cc: tool("cc")?,
            libc: tool("libc")?,
            valgrind: tool("valgrind")?,
            processor: tool("processor")?,
        };
        let mut counts = BTreeMap::new();
        for (piece, value) in table("instructions")? {
            let count = value.as_float().filter(|count| *count > 0.0);
            let count = count.ok_or_else(|| format!("{piece:?} has no count above 0"))?;
            counts.insert(piece.clone(), count);
        }
        Ok(Self { tools, counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Tools {
        Tools {
            target: "a".into(),
            rustc: "rustc 1 (\"x\")".replace('"', "'"),
            cc: "c".into(),
            libc: "d".into(),
            valgrind: "e".into(),
            processor: String::new(),
        }
    }

    fn baseline(counts: &[(&str, f64)]) -> Baseline {
        Baseline {
            tools: tools(),
            counts: counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        }
    }

    fn verdicts(before: &[(&str, f64)], now: &[(&str, f64)], tolerance: Tolerance) -> Vec<Verdict> {
        let findings = baseline(before).compare(&baseline(now), tolerance);
        findings.iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn a_baseline_reads_back() {
        let written = baseline(&[("header/put, tiny", 17.5), ("x", 12_345.0)]);
        let read: Baseline = written.to_string().parse().expect("its own form");
        assert_eq!(read, written);
    }

    #[test]
    fn what_is_no_baseline_is_refused() {
        let good = baseline(&[("x", 1.0)]).to_string();
        for (from, to) in [
            ("[instructions]", "[others]"),
            ("rustc =", "gcc ="),
            ("= 1.00", "= -1.0"),
            ("= 1.00", "= nan"),
            ("= 1.00", "= \"1\""),
            ("= 1.00", "="),
        ] {
            assert!(good.contains(from));
            assert!(good.replace(from, to).parse::<Baseline>().is_err(), "{to}");
        }
    }

    #[test]
    fn more_fails_and_fewer_is_said() {
        let before = [("a", 1000.0), ("b", 1000.0), ("c", 1000.0), ("d", 1000.0)];
        let now = [("a", 1031.0), ("b", 1029.0), ("c", 951.0), ("d", 949.0)];
        assert_eq!(
            verdicts(&before, &now, Tolerance::Same),
            [Verdict::More, Verdict::Same, Verdict::Same, Verdict::Fewer]
        );
        // Two instructions are nothing, three of twenty are something.
        let (before, now) = ([("a", 20.0), ("b", 20.0)], [("a", 22.0), ("b", 23.0)]);
        assert_eq!(
            verdicts(&before, &now, Tolerance::Same),
            [Verdict::Same, Verdict::More]
        );
    }

    #[test]
    fn pieces_without_baseline_fail_and_so_do_baselines_without_piece() {
        let findings = baseline(&[("a", 1.0)]).compare(&baseline(&[("b", 1.0)]), Tolerance::Same);
        assert!(findings.iter().all(Finding::fails));
        let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(shown[0].ends_with("GONE") && shown[1].ends_with("NEW"));
    }

    #[test]
    fn other_tools_widen_the_bound_and_another_target_ends_it() {
        let now = Tools {
            rustc: "rustc 2".into(),
            ..tools()
        };
        assert_eq!(Tolerance::between(&tools(), &tools()), Tolerance::Same);
        assert_eq!(Tolerance::between(&tools(), &now), Tolerance::Others);
        assert_eq!(
            tools().differences(&now),
            ["rustc: \"rustc 1 ('x')\", now \"rustc 2\""]
        );
        let before = [("a", 1000.0), ("b", 1000.0), ("c", 1000.0)];
        let counts = [("a", 1240.0), ("b", 1260.0), ("c", 500.0)];
        assert_eq!(
            verdicts(&before, &counts, Tolerance::Others),
            [Verdict::Same, Verdict::More, Verdict::Same]
        );
        let elsewhere = Tools {
            target: "b".into(),
            ..now
        };
        assert_eq!(Tolerance::between(&tools(), &elsewhere), Tolerance::None);
        let findings = baseline(&before).compare(&baseline(&counts), Tolerance::None);
        assert!(findings.iter().all(|finding| !finding.fails()));
    }
}
