//! What the passes have shown: arithmetic, the table, JSON.

use serde_json::json;

use crate::contestants::Kind;
use crate::failure::{Failure, say};
use crate::plan::{Link, Load};

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pass {
    /// From the first message's sending to the last one's receipt.
    pub(crate) seconds: f64,
    /// What the relay carried from the sender: all of the connection, its beginning and end too.
    pub(crate) wire_bytes: u64,
}

/// What one contestant did with one load over one link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) passes: Vec<Pass>,
    /// Why it could not start.
    pub(crate) cannot_run: Option<String>,
    /// Why it did not do what it should, having started.
    pub(crate) failed: Option<String>,
}

impl Outcome {
    pub(crate) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            passes: Vec::new(),
            cannot_run: None,
            failed: None,
        }
    }

    /// Median time; of one that failed, whatever it did before, there is none.
    fn seconds(&self) -> Option<f64> {
        let times = self.passes.iter().map(|pass| pass.seconds);
        match self.failed {
            None => median(times.collect()),
            Some(_) => None,
        }
    }

    fn wire_bytes(&self) -> Option<f64> {
        median(
            self.passes
                .iter()
                .map(|pass| pass.wire_bytes as f64)
                .collect(),
        )
    }

    /// From the least to the greatest time, as a share of the median: how far to trust that.
    fn spread(&self) -> Option<f64> {
        let times = || self.passes.iter().map(|pass| pass.seconds);
        let least = times().min_by(f64::total_cmp)?;
        let greatest = times().max_by(f64::total_cmp)?;
        Some((greatest - least) / self.seconds()?)
    }
}

/// The value in the middle, or the mean of the two there.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(upper, values[values.len() / 2 - 1]))
}

/// The one of a kind with the least median, and that.
fn best(outcomes: &[Outcome], kind: Kind) -> Option<(&Outcome, f64)> {
    outcomes
        .iter()
        .filter(|outcome| outcome.kind == kind)
        .filter_map(|outcome| Some((outcome, outcome.seconds()?)))
        .min_by(|(_, left), (_, right)| left.total_cmp(right))
}

/// A load over a link.
pub(crate) struct Cell<'a> {
    pub(crate) load: &'a Load,
    pub(crate) link: Link,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Cell<'_> {
    pub(crate) fn has_failures(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.failed.is_some())
    }

    /// An object for each contestant.
    pub(crate) fn print_json(&self) -> Result<(), Failure> {
        for line in self.json() {
            say!("{line}")?;
        }
        Ok(())
    }

    fn json(&self) -> Vec<serde_json::Value> {
        let over = |seconds: Option<f64>, kind| {
            let (_, best) = best(&self.outcomes, kind)?;
            Some(seconds? / best)
        };
        let count = self.load.messages.len();
        let object = |outcome: &Outcome| {
            let seconds = outcome.seconds();
            let times: Vec<_> = outcome.passes.iter().map(|pass| pass.seconds).collect();
            json!({
                "corpus": self.load.name, "link_bps": self.link.0, "peer": outcome.name,
                "messages": count, "plain_bytes": self.load.plain_bytes(), "seconds": seconds,
                "times": times, "messages_per_s": seconds.map(|seconds| count as f64 / seconds),
                "wire_bytes": outcome.wire_bytes(), "to_best_peer": over(seconds, Kind::Peer),
                "to_best_sketch": over(seconds, Kind::Sketch), "cannot_run": outcome.cannot_run,
                "failed": outcome.failed,
            })
        };
        self.outcomes.iter().map(object).collect()
    }

    /// The contestants, best first.
    pub(crate) fn print(&self) -> Result<(), Failure> {
        for line in self.lines() {
            say!("{line}")?;
        }
        say!()
    }

    fn lines(&self) -> Vec<String> {
        let peer = best(&self.outcomes, Kind::Peer).map(|(_, seconds)| seconds);
        let sketch = best(&self.outcomes, Kind::Sketch).map(|(_, seconds)| seconds);
        let (count, plain) = (self.load.messages.len(), self.load.plain_bytes());
        let link = match self.link.0 {
            None => "an unlimited link".to_owned(),
            Some(_) => format!("{}/s", self.link),
        };
        let mut lines = vec![
            format!(
                "{} over {link}: {count} messages, {plain} B",
                self.load.name
            ),
            format!(
                "{:<24} {:>10} {:>7} {:>10} {:>10} {:>7} {:>7}",
                "", "median s", "spread", "messages/s", "wire B", "/ peer", "/ sketch"
            ),
        ];
        let mut ran: Vec<_> = self
            .outcomes
            .iter()
            .filter_map(|outcome| Some((outcome, outcome.seconds()?)))
            .collect();
        ran.sort_by(|(_, left), (_, right)| left.total_cmp(right));
        for (outcome, seconds) in ran {
            lines.push(format!(
                "{:<24} {:>10} {:>6.0}% {:>10.0} {:>10.0} {:>7} {:>7}",
                outcome.name,
                digits(seconds),
                100.0 * outcome.spread().unwrap_or_default(),
                count as f64 / seconds,
                outcome.wire_bytes().unwrap_or_default(),
                ratio(Some(seconds), peer),
                ratio(Some(seconds), sketch),
            ));
        }
        for outcome in &self.outcomes {
            let (what, why) = match (&outcome.cannot_run, &outcome.failed) {
                (Some(why), _) => ("cannot run", why),
                (None, Some(why)) => ("failed", why),
                (None, None) => continue,
            };
            lines.push(format!("{} {what}: {why}", outcome.name));
        }
        lines
    }
}

/// All cells in one table: the best peer and sketch of each, and what the crate did beside them.
pub(crate) fn print_summary(cells: &[Cell]) -> Result<(), Failure> {
    for line in summary(cells) {
        say!("{line}")?;
    }
    Ok(())
}

fn summary(cells: &[Cell]) -> Vec<String> {
    let mut own: Vec<&str> = Vec::new();
    for outcome in cells.iter().flat_map(|cell| &cell.outcomes) {
        if outcome.kind == Kind::Own && !own.contains(&outcome.name.as_str()) {
            own.push(&outcome.name);
        }
    }
    let mut heading = vec![
        "corpus, link".to_owned(),
        "best peer, s".to_owned(),
        "best sketch, s".to_owned(),
    ];
    for name in &own {
        heading.extend([
            format!("{name}, s"),
            "/ peer".to_owned(),
            "/ sketch".to_owned(),
        ]);
    }
    let rule = format!("|---|{}", "--:|".repeat(heading.len() - 1));
    let mut lines = vec![row(&heading), rule];
    for cell in cells {
        let named = |kind| match best(&cell.outcomes, kind) {
            Some((outcome, seconds)) => format!("{} ({})", digits(seconds), outcome.name),
            None => "-".to_owned(),
        };
        let least = |kind| best(&cell.outcomes, kind).map(|(_, seconds)| seconds);
        let mut parts = vec![
            format!("{} {}", cell.load.name, cell.link),
            named(Kind::Peer),
            named(Kind::Sketch),
        ];
        for name in &own {
            let outcome = cell.outcomes.iter().find(|outcome| outcome.name == *name);
            let time = outcome.and_then(Outcome::seconds);
            parts.extend([
                time.map_or_else(|| "-".to_owned(), digits),
                ratio(time, least(Kind::Peer)),
                ratio(time, least(Kind::Sketch)),
            ]);
        }
        lines.push(row(&parts));
    }
    lines
}

fn row(parts: &[String]) -> String {
    format!("| {} |", parts.join(" | "))
}

/// Three that count.
fn digits(seconds: f64) -> String {
    let places = match seconds {
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        0.01.. => 4,
        _ => 5,
    };
    format!("{seconds:.places$}")
}

fn ratio(time: Option<f64>, best: Option<f64>) -> String {
    match (time, best) {
        (Some(time), Some(best)) => format!("{:.2}", time / best),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn outcome(name: &str, kind: Kind, times: &[f64]) -> Outcome {
        let passes = times.iter().map(|&seconds| Pass {
            seconds,
            wire_bytes: (seconds * 100.0) as u64,
        });
        Outcome {
            passes: passes.collect(),
            ..Outcome::new(name, kind)
        }
    }

    fn load() -> Load {
        Load {
            name: "some".to_owned(),
            messages: vec![Bytes::from_static(b"12345"); 8].into(),
        }
    }

    fn cell(load: &Load) -> Cell<'_> {
        let mut broken = outcome("ld:zstd", Kind::Peer, &[0.1]);
        broken.failed = Some("message 1 came changed".to_owned());
        let mut absent = outcome("broker", Kind::Peer, &[]);
        absent.cannot_run = Some("not installed".to_owned());
        Cell {
            load,
            link: Link(Some(1e7)),
            outcomes: vec![
                outcome("ld:none", Kind::Peer, &[9.0, 4.0, 5.0]),
                outcome("ld:lz4", Kind::Peer, &[4.0, 4.0, 1.0]),
                outcome("sketch:1", Kind::Sketch, &[2.0, 3.0]),
                outcome("tautline:cost", Kind::Own, &[2.0, 2.0, 3.0]),
                broken,
                absent,
            ],
        }
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
        let outcome = outcome("x", Kind::Peer, &[9.0, 4.0, 5.0]);
        assert_eq!(outcome.spread(), Some(1.0));
        assert_eq!(outcome.wire_bytes(), Some(500.0));
    }

    #[test]
    fn ratios_are_to_the_best_that_did_not_fail() {
        let load = load();
        let rows = cell(&load).json();
        assert_eq!(rows.len(), 6);
        assert_eq!(rows[0]["to_best_peer"], 1.25);
        assert_eq!(rows[1]["to_best_peer"], 1.0);
        assert_eq!(rows[1]["to_best_sketch"], 1.6);
        assert_eq!(rows[3]["seconds"], 2.0);
        assert_eq!(rows[3]["to_best_peer"], 0.5);
        assert_eq!(rows[3]["to_best_sketch"], 0.8);
        assert_eq!(rows[3]["messages_per_s"], 4.0);
        assert_eq!(rows[3]["wire_bytes"], 200.0);
        assert_eq!(rows[3]["times"], json!([2.0, 2.0, 3.0]));
        assert_eq!(rows[4]["seconds"], json!(null));
        assert_eq!(rows[4]["failed"], "message 1 came changed");
        assert_eq!(rows[5]["cannot_run"], "not installed");
        assert!(cell(&load).has_failures());
    }

    #[test]
    fn tables_have_the_best_first_and_name_who_is_missing() {
        let load = load();
        let lines = cell(&load).lines();
        assert!(lines[0].starts_with("some over 10Mbit/s: 8 messages, 40 B"));
        let first: Vec<_> = lines[2].split_whitespace().collect();
        let expected = ["tautline:cost", "2.00", "50%", "4", "200", "0.50", "0.80"];
        assert_eq!(first, expected);
        assert!(lines.contains(&"broker cannot run: not installed".to_owned()));
        assert!(lines.contains(&"ld:zstd failed: message 1 came changed".to_owned()));
        let lines = summary(&[cell(&load)]);
        let expected = "| some 10Mbit | 4.00 (ld:lz4) | 2.50 (sketch:1) | 2.00 | 0.50 | 0.80 |";
        assert_eq!(lines[2], expected);
        assert_eq!(summary(&[]).len(), 2);
    }

    #[test]
    fn three_digits_count() {
        let texts = [12.345, 1.2345, 0.12345, 0.012_345, 0.001_234_5].map(digits);
        assert_eq!(texts, ["12.3", "1.23", "0.123", "0.0123", "0.00123"]);
    }
}
