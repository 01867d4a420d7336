//! What the passes have shown: arithmetic, the table, JSON.

use std::time::Duration;

use serde_json::json;

use crate::contestants::Kind;
use crate::failure::{Failure, say};
use crate::plan::{Link, Load};
use crate::wanted::{Reached, Want, What, judgement};

/// One connection's messages one way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pass {
    /// From the first message's sending to the last one's receipt.
    pub(crate) seconds: f64,
    /// What the relay carried from the sender: all of the connection, its beginning and end too.
    pub(crate) wire_bytes: u64,
    /// Of processors that both ends had, from the connection's beginning to its end.
    pub(crate) cpu_seconds: Option<f64>,
    /// Bytes of memory that processes besides this one took at most.
    pub(crate) elsewhere: u64,
}

/// What one contestant did with one load over one link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) passes: Vec<Pass>,
    /// How long messages took that were asked one by one, of all turns.
    pub(crate) trips: Vec<Duration>,
    /// Bytes that a pass took, or why that is not known.
    pub(crate) memory: Option<Result<u64, String>>,
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
            trips: Vec::new(),
            memory: None,
            cannot_run: None,
            failed: None,
        }
    }

    pub(crate) fn has_run(&self) -> bool {
        self.cannot_run.is_none() && self.failed.is_none()
    }

    /// The median of what passes say; of one that failed, whatever it did before, there is none.
    fn middle(&self, of: impl Fn(&Pass) -> Option<f64>) -> Option<f64> {
        if !self.has_run() {
            return None;
        }
        median(self.passes.iter().filter_map(of).collect())
    }

    fn seconds(&self) -> Option<f64> {
        self.middle(|pass| Some(pass.seconds))
    }

    fn wire_bytes(&self) -> Option<f64> {
        self.middle(|pass| Some(pass.wire_bytes as f64))
    }

    fn cpu_seconds(&self) -> Option<f64> {
        self.middle(|pass| pass.cpu_seconds)
    }

    /// From the least to the greatest time, as a share of the median: how far to trust that.
    fn spread(&self) -> Option<f64> {
        let times = || self.passes.iter().map(|pass| pass.seconds);
        let least = times().min_by(f64::total_cmp)?;
        let greatest = times().max_by(f64::total_cmp)?;
        Some((greatest - least) / self.seconds()?)
    }

    /// Seconds in which such a share of messages came back.
    fn trip(&self, share: f64) -> Option<f64> {
        if !self.has_run() {
            return None;
        }
        let mut trips = self.trips.clone();
        trips.sort_unstable();
        let rank = (share * trips.len() as f64).ceil() as usize;
        Some(trips.get(rank.saturating_sub(1))?.as_secs_f64())
    }

    fn memory(&self) -> Option<f64> {
        Some(*self.memory.as_ref()?.as_ref().ok()? as f64)
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
            let cpu = outcome.cpu_seconds();
            json!({
                "corpus": self.load.name, "link_bps": self.link.0, "peer": outcome.name,
                "messages": count, "plain_bytes": self.load.plain_bytes(), "seconds": seconds,
                "times": times, "messages_per_s": seconds.map(|seconds| count as f64 / seconds),
                "wire_bytes": outcome.wire_bytes(), "to_best_peer": over(seconds, Kind::Peer),
                "to_best_sketch": over(seconds, Kind::Sketch), "trips": outcome.trips.len(),
                "trip_p50_s": outcome.trip(0.5), "trip_p99_s": outcome.trip(0.99),
                "cpu_seconds": cpu, "cpu_s_per_gb": cpu.map(|cpu| self.per_gb(cpu)),
                "memory_bytes": outcome.memory(), "cannot_run": outcome.cannot_run,
                "failed": outcome.failed,
            })
        };
        self.outcomes.iter().map(object).collect()
    }

    /// Seconds for all messages as seconds for 10^9 bytes of them.
    fn per_gb(&self, seconds: f64) -> f64 {
        1e9 * seconds / self.load.plain_bytes().max(1) as f64
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
                "{:<18} {:>9} {:>7} {:>10} {:>10} {:>7} {:>8} {:>8} {:>7} {:>9} {:>9}",
                "",
                "median s",
                "spread",
                "messages/s",
                "wire B",
                "/ peer",
                "/ sketch",
                "CPU s/GB",
                "MiB",
                "p50 ms",
                "p99 ms",
            ),
        ];
        let mut ran: Vec<_> = self
            .outcomes
            .iter()
            .filter_map(|outcome| Some((outcome, outcome.seconds()?)))
            .collect();
        ran.sort_by(|(_, left), (_, right)| left.total_cmp(right));
        for (outcome, seconds) in ran {
            let millis = |share| outcome.trip(share).map(|seconds| digits(1e3 * seconds));
            let cpu = outcome.cpu_seconds().map(|cpu| digits(self.per_gb(cpu)));
            lines.push(format!(
                "{:<18} {:>9} {:>6.0}% {:>10.0} {:>10.0} {:>7} {:>8} {:>8} {:>7} {:>9} {:>9}",
                outcome.name,
                digits(seconds),
                100.0 * outcome.spread().unwrap_or_default(),
                count as f64 / seconds,
                outcome.wire_bytes().unwrap_or_default(),
                ratio(Some(seconds), peer),
                ratio(Some(seconds), sketch),
                or_dash(cpu),
                or_dash(outcome.memory().map(mebibytes)),
                or_dash(millis(0.5)),
                or_dash(millis(0.99)),
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
        for outcome in &self.outcomes {
            if let Some(Err(why)) = &outcome.memory {
                lines.push(format!("{}: no memory measured: {why}", outcome.name));
            }
        }
        lines
    }

    /// The least time that any peer has in which such a share of messages came back.
    fn best_trip(&self, share: f64) -> Option<f64> {
        let peers = self.outcomes.iter().filter(|it| it.kind == Kind::Peer);
        let trips = peers.filter_map(|outcome| outcome.trip(share));
        trips.min_by(f64::total_cmp)
    }

    /// What is wanted of one contestant here, and what it has reached.
    fn wants(&self, name: &str) -> Vec<Want> {
        let Some(own) = self.outcomes.iter().find(|outcome| outcome.name == name) else {
            return Vec::new();
        };
        let peer = best(&self.outcomes, Kind::Peer);
        let of_peer = |of: fn(&Outcome) -> Option<f64>| peer.and_then(|(peer, _)| of(peer));
        let ratios = [
            (What::Time, own.seconds(), of_peer(Outcome::seconds)),
            (What::Median, own.trip(0.5), self.best_trip(0.5)),
            (What::Percentile99, own.trip(0.99), self.best_trip(0.99)),
            (
                What::Processor,
                own.cpu_seconds(),
                of_peer(Outcome::cpu_seconds),
            ),
        ];
        let want = |(what, own_has, peer_has): (What, Option<f64>, Option<f64>)| {
            let reached = match (own_has, peer_has) {
                (Some(own), Some(peer)) => Reached::Ratio(own / peer),
                (None, Some(_)) if own.failed.is_some() => Reached::Failed,
                _ => Reached::Unmeasured,
            };
            Want::new(self.load, self.link, what, reached)
        };
        ratios.map(want).into()
    }

    /// What one contestant's row of the summary says, and what it is ordered by.
    fn summed(&self, name: &str) -> Option<(f64, Vec<String>)> {
        let own = self.outcomes.iter().find(|outcome| outcome.name == name)?;
        let seconds = own.seconds();
        let peer = best(&self.outcomes, Kind::Peer);
        let sketch = best(&self.outcomes, Kind::Sketch);
        let best_seconds = peer.map(|(_, seconds)| seconds);
        let of_peer = |of: fn(&Outcome) -> Option<f64>| peer.and_then(|(peer, _)| of(peer));
        let named = |best: Option<(&Outcome, f64)>| {
            let text =
                best.map(|(outcome, seconds)| format!("{} ({})", digits(seconds), outcome.name));
            or_dash(text)
        };
        let parts = vec![
            format!("{} {}", self.load.name, self.link),
            or_dash(seconds.map(digits)),
            named(peer),
            ratio(seconds, best_seconds),
            ratio(own.trip(0.5), self.best_trip(0.5)),
            ratio(own.trip(0.99), self.best_trip(0.99)),
            or_dash(own.cpu_seconds().map(|cpu| digits(self.per_gb(cpu)))),
            ratio(own.cpu_seconds(), of_peer(Outcome::cpu_seconds)),
            or_dash(own.memory().map(mebibytes)),
            ratio(own.memory(), of_peer(Outcome::memory)),
            named(sketch),
            ratio(seconds, sketch.map(|(_, seconds)| seconds)),
        ];
        let order = seconds.zip(best_seconds);
        let order = order.map_or(f64::INFINITY, |(seconds, best)| seconds / best);
        Some((order, parts))
    }
}

/// Of the summary.
const HEADING: [&str; 12] = [
    "corpus, link",
    "s",
    "best peer, s",
    "/ peer",
    "p50 / peers",
    "p99 / peers",
    "CPU s/GB",
    "/ that peer",
    "MiB",
    "/ that peer",
    "best sketch, s",
    "/ sketch",
];

/// For each of the crate's own contestants where it falls short of what is wanted, and all cells in one table, those first that take
/// longest beside the best peer.
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
    let mut lines = Vec::new();
    for name in own {
        lines.extend([name.to_owned(), String::new()]);
        let wants: Vec<_> = cells.iter().flat_map(|cell| cell.wants(name)).collect();
        lines.extend(judgement(&wants));
        lines.extend([String::new(), row(&HEADING)]);
        lines.push(format!("|---|{}", "--:|".repeat(HEADING.len() - 1)));
        let mut rows: Vec<_> = cells.iter().filter_map(|cell| cell.summed(name)).collect();
        rows.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        lines.extend(rows.iter().map(|(_, parts)| row(parts)));
        lines.push(String::new());
    }
    lines
}

fn row<S: AsRef<str>>(parts: &[S]) -> String {
    let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
    format!("| {} |", parts.join(" | "))
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

/// Three that count.
fn digits(seconds: f64) -> String {
    let places = match seconds {
        100.0.. => 0,
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
            cpu_seconds: Some(seconds / 2.0),
            elsewhere: 0,
        });
        let trips = times
            .iter()
            .map(|&seconds| Duration::from_secs_f64(seconds / 1e3));
        Outcome {
            passes: passes.collect(),
            trips: trips.collect(),
            memory: Some(Ok((times.len() as u64) << 20)),
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
        assert_eq!(rows[3]["trips"], 3);
        assert_eq!(rows[3]["trip_p50_s"], 0.002);
        assert_eq!(rows[3]["trip_p99_s"], 0.003);
        assert_eq!(rows[3]["cpu_seconds"], 1.0);
        assert_eq!(rows[3]["cpu_s_per_gb"], 25_000_000.0);
        assert_eq!(rows[3]["memory_bytes"], 3.0 * 1_048_576.0);
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
        let expected = [
            "tautline:cost",
            "2.00",
            "50%",
            "4",
            "200",
            "0.50",
            "0.80",
            "25000000",
            "3.0",
            "2.00",
            "3.00",
        ];
        assert_eq!(first, expected);
        assert!(lines.contains(&"broker cannot run: not installed".to_owned()));
        assert!(lines.contains(&"ld:zstd failed: message 1 came changed".to_owned()));
        let mut unknown = cell(&load);
        unknown.outcomes[0].memory = Some(Err("no room".to_owned()));
        let line = "ld:none: no memory measured: no room".to_owned();
        assert!(unknown.lines().contains(&line));
    }

    #[test]
    fn the_summary_begins_with_what_takes_longest_beside_the_best_peer() {
        let load = load();
        let mut slower = cell(&load);
        slower.link = Link(None);
        slower.outcomes[3] = outcome("tautline:cost", Kind::Own, &[8.0]);
        let lines = summary(&[cell(&load), slower]);
        let expected = [
            "tautline:cost",
            "",
            "| short of what is wanted | | wanted | reached |",
            "|---|---|--:|--:|",
            "| some none | / peer | 1.00 | 2.000 |",
            "| some none | p50 / peers | 1.00 | 2.000 |",
            "| some none | p99 / peers | 1.00 | 2.000 |",
            "| some none | CPU / that peer | 1.00 | 2.000 |",
            "",
            "4 of 8 met",
            "",
        ];
        assert_eq!(lines[..expected.len()], expected);
        let table = &lines[expected.len()..];
        assert!(table[2].starts_with("| some none | 8.00 | 4.00 (ld:lz4) | 2.00 |"));
        let expected = "| some 10Mbit | 2.00 | 4.00 (ld:lz4) | 0.50 | 0.50 | 0.75 | 25000000 | 0.50 | \
                        3.0 | 1.00 | 2.50 (sketch:1) | 0.80 |";
        assert_eq!(table[3], expected);
        assert_eq!(summary(&[]).len(), 0);
        let mut failed = cell(&load);
        failed.outcomes[3].failed = Some("it stopped".to_owned());
        let lines = summary(&[failed]);
        assert_eq!(lines[4], "| some 10Mbit | / peer | 0.65 | failed |");
        assert_eq!(lines[9], "0 of 4 met");
    }

    #[test]
    fn three_digits_count() {
        let texts = [12.345, 1.2345, 0.12345, 0.012_345, 0.001_234_5].map(digits);
        assert_eq!(texts, ["12.3", "1.23", "0.123", "0.0123", "0.00123"]);
    }
}
