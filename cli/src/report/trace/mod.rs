//! Decisions of `send --trace`: arms and the link over time, regret, shares.

mod show;

use serde::{Deserialize, Deserializer};

use super::input::{Input, Kind, Refused, measured};
use super::number::so_many;
use super::page::{Section, clean};
use super::thin::{Line, Spans};
use crate::failure::Failure;

/// Spans of a line, and of the strips: as many as there are places to see.
const LINE_SPANS: usize = 1000;
const STRIP_SPANS: usize = 400;
/// Names of one kind that are counted one by one: many more than there are arms, reasons and textures.
const MAX_NAMES: usize = 512;
/// Streams that are counted one by one; all beyond together.
const MAX_STREAMS: usize = 1000;
/// Times that go back by so much, ns, are another run's.
const BACK: u64 = 1_000_000_000;

/// A line of a trace.
#[derive(Deserialize)]
struct RawDecision {
    at_ns: u64,
    stream: String,
    plain_len: u64,
    arm: String,
    reason: String,
    // Missing is not the same as unknown.
    #[serde(deserialize_with = "Option::deserialize")]
    link_bps: Option<f64>,
    link_backlog: u64,
    queued_behind: u64,
    regret_ns: u64,
    #[serde(default, deserialize_with = "flag")]
    budget_left: Option<bool>,
    #[serde(default, deserialize_with = "flag")]
    peer_starved: Option<bool>,
}

fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    bool::deserialize(deserializer).map(Some)
}

/// What decisions of one name have in common.
#[derive(Clone, Debug, Default)]
struct Tally {
    name: String,
    decisions: u64,
    /// Plain bytes that were expected.
    plain: u64,
    regret_ns: u64,
}

impl Tally {
    fn add(&mut self, raw: &RawDecision) {
        self.decisions += 1;
        self.plain = self.plain.saturating_add(raw.plain_len);
        self.regret_ns = self.regret_ns.saturating_add(raw.regret_ns);
    }
}

/// All of a trace, in memory that does not grow with it.
struct Trace {
    all: Tally,
    first: u64,
    last: u64,
    /// The time before, and how often times went far back from it.
    latest: u64,
    backwards: u64,
    arms: Vec<Tally>,
    reasons: Vec<Tally>,
    streams: Vec<Tally>,
    other_streams: Tally,
    /// How often each arm was taken, by its number.
    over_time: Spans<Vec<u64>>,
    link: Line,
    backlog: Line,
    queued: Line,
    regret: Spans<u64>,
    unknown_link: u64,
    greatest_regret: u64,
    out_of_budget: u64,
    starved: u64,
}

impl Trace {
    fn new() -> Self {
        let line = || Line::new(LINE_SPANS);
        Self {
            all: Tally::default(),
            first: u64::MAX,
            last: 0,
            latest: 0,
            backwards: 0,
            arms: Vec::new(),
            reasons: Vec::new(),
            streams: Vec::new(),
            other_streams: Tally::default(),
            over_time: Spans::new(STRIP_SPANS),
            link: line(),
            backlog: line(),
            queued: line(),
            regret: Spans::new(LINE_SPANS),
            unknown_link: 0,
            greatest_regret: 0,
            out_of_budget: 0,
            starved: 0,
        }
    }

    fn take(&mut self, raw: &RawDecision) -> Result<(), Refused> {
        let at = raw.at_ns;
        let link = raw
            .link_bps
            .map(|link| measured("link_bps", link))
            .transpose()?;
        for (name, count) in [
            ("plain_len", raw.plain_len),
            ("link_backlog", raw.link_backlog),
            ("queued_behind", raw.queued_behind),
        ] {
            measured(name, count as f64)?;
        }
        let arm = tally(&mut self.arms, &raw.arm, MAX_NAMES)
            .ok_or(Refused::TooMany("arms", MAX_NAMES))?;
        self.arms[arm].add(raw);
        let reason = tally(&mut self.reasons, &raw.reason, MAX_NAMES)
            .ok_or(Refused::TooMany("reasons", MAX_NAMES))?;
        self.reasons[reason].add(raw);
        match tally(&mut self.streams, &raw.stream, MAX_STREAMS) {
            Some(stream) => self.streams[stream].add(raw),
            None => self.other_streams.add(raw),
        }
        self.all.add(raw);
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        self.backwards += u64::from(at.saturating_add(BACK) < self.latest);
        self.latest = at;
        let counts = self.over_time.at(at);
        if counts.len() <= arm {
            counts.resize(arm + 1, 0);
        }
        counts[arm] += 1;
        match link {
            Some(link) => self.link.add(at, link),
            None => self.unknown_link += 1,
        }
        self.backlog.add(at, raw.link_backlog as f64);
        self.queued.add(at, raw.queued_behind as f64);
        let regret = self.regret.at(at);
        *regret = regret.saturating_add(raw.regret_ns);
        self.greatest_regret = self.greatest_regret.max(raw.regret_ns);
        self.out_of_budget += u64::from(raw.budget_left == Some(false));
        self.starved += u64::from(raw.peer_starved == Some(true));
        Ok(())
    }
}

/// The number of a name, which may be new; `None` if there is no room for it.
fn tally(known: &mut Vec<Tally>, name: &str, most: usize) -> Option<usize> {
    let name = clean(name, 80);
    if let Some(at) = known.iter().position(|tally| tally.name == name) {
        return Some(at);
    }
    (known.len() < most).then(|| {
        known.push(Tally {
            name,
            ..Tally::default()
        });
        known.len() - 1
    })
}

pub(super) fn section(id: &str, input: &mut Input) -> Result<Section, Failure> {
    let mut trace = Trace::new();
    let cut = input.each(|row: RawDecision| trace.take(&row))?;
    Ok(Section {
        id: id.to_owned(),
        file: input.name().to_owned(),
        kind: Kind::Trace,
        extent: so_many(trace.all.decisions as usize, "decision", "decisions"),
        cut,
        parts: show::parts(&mut trace)?,
    })
}
