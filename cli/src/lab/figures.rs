//! What runs have come to, beside what the source says: arithmetic, and nothing else.

use std::collections::BTreeMap;

use tautline::loadgen::Middle;

use super::scenario::{FigureSpec, Metric, Scenario, ShapeSpec, Side};
use crate::figures::median;
use crate::report::lab::{Figure, Finding, Margin, Run, Sample, Shape};
use crate::text::number;

/// How sure the middle of the rounds must be, where there are rounds enough for it (six), before a shape is found.
const SURE: f64 = 0.95;
/// The share of rounds that must say the same before it counts, where they say words, which have no middle.
const ENOUGH: f64 = 0.8;

/// As arms are written.
const IDENTITY: &str = "identity";

/// A figure of one run.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Word(String),
}

/// All figures, and whether the shapes are as they ought to be.
pub(super) fn judge(scenario: &Scenario, runs: &[Run]) -> (Vec<Figure>, Vec<Shape>) {
    let values: BTreeMap<&str, Vec<Option<Value>>> = scenario
        .figures
        .iter()
        .map(|figure| (figure.name.as_str(), by_round(scenario, figure, runs)))
        .collect();
    let of = |name: &str| values.get(name).map_or(&[][..], Vec::as_slice);
    let figures = scenario.figures.iter();
    let figures = figures.map(|figure| show(figure, of(&figure.name)));
    let shapes = scenario.shapes.iter().map(|shape| match &shape.differ {
        Some((one, other)) => find_words(shape, of(one), of(other)),
        None => find(scenario, shape, &of),
    });
    (figures.collect(), shapes.collect())
}

/// Whether another round may tell more: a shape is open, and its figures are known in some round.
pub(super) fn is_open(scenario: &Scenario, runs: &[Run]) -> bool {
    let (_, shapes) = judge(scenario, runs);
    let mut shapes = shapes.iter();
    shapes.any(|shape| shape.finding == Finding::Open && shape.known > 0)
}

/// The figure in each round; `None` where it is not known.
fn by_round(scenario: &Scenario, figure: &FigureSpec, runs: &[Run]) -> Vec<Option<Value>> {
    let other = figure
        .against
        .as_ref()
        .and_then(|name| scenario.figure(name).ok());
    let rounds = runs.iter().map(|run| run.round + 1).max().unwrap_or(0);
    (0..rounds)
        .map(|round| {
            let own = value(figure, runs, round)?;
            let Some(other) = other else {
                return Some(own);
            };
            match (own, value(other, runs, round)?) {
                (Value::Number(own), Value::Number(other)) if other != 0.0 => {
                    Some(Value::Number(100.0 * (own / other - 1.0)))
                }
                _ => None,
            }
        })
        .collect()
}

fn value(figure: &FigureSpec, runs: &[Run], round: u32) -> Option<Value> {
    let run = runs
        .iter()
        .find(|run| run.variant == figure.variant && run.round == round)?;
    let first = run.traffic.first()?;
    let node = figure.node.as_deref().unwrap_or(first.from.as_str());
    let span = Span::of(figure, run, node);
    let is_whole = figure.from_message.is_none() && figure.until_message.is_none();
    let taken = || run.nodes.iter().find(|taken| taken.name == node);
    let number = match &figure.metric {
        Metric::RttMean if is_whole => Some(first.rtt.mean * 1e3),
        Metric::RttMean => {
            let mean = by_message(figure, run).or_else(|| span.rtt_mean());
            mean.map(|mean| mean * 1e3)
        }
        Metric::RttP50 => Some(first.rtt.p50 * 1e3),
        Metric::RttP99 => Some(first.rtt.p99 * 1e3),
        Metric::Rate if is_whole => Some(first.messages as f64 / first.seconds),
        Metric::Rate => span.rate(),
        Metric::CpuLoad if is_whole => taken().map(|taken| taken.cpu / run.seconds),
        Metric::CpuLoad => span.cpu_load(),
        Metric::CpuPerMessage if is_whole => {
            taken().map(|taken| 1e6 * taken.cpu / first.messages as f64)
        }
        Metric::CpuPerMessage => span.cpu_per_message().map(|seconds| 1e6 * seconds),
        Metric::Compressed => span.compressed(&run.arms).map(|share| 100.0 * share),
        Metric::Budget => span
            .mean(|sample| sample.budget)
            .map(|seconds| 1e3 * seconds),
        Metric::Load => span.mean(|sample| Some(sample.load)),
        Metric::Ratio => Some(first.plain_bytes as f64 / first.wire_bytes as f64),
        Metric::Arm => {
            return span.arm(&run.arms).map(Value::Word);
        }
        Metric::Counted(name) => {
            let mut found = run.counted.iter();
            let found = found.find(|(of, metric, _)| of == node && metric == name);
            found.map(|(_, _, value)| *value)
        }
    };
    number
        .filter(|number| number.is_finite())
        .map(Value::Number)
}

/// The mean round trip of the messages that a figure is of, seconds: of whole runs of some messages, which are shorter than what passes between two
/// samples; `None` where there is none of them.
fn by_message(figure: &FigureSpec, run: &Run) -> Option<f64> {
    let from = figure.from_message.unwrap_or(0);
    let until = figure.until_message.unwrap_or(u64::MAX);
    let chunks = run.series.iter();
    let within = chunks.filter(|chunk| chunk.first >= from && chunk.end() <= until);
    let (sum, messages) = within.fold((0.0, 0.0), |(sum, messages), chunk| {
        let more = chunk.messages as f64;
        (sum + chunk.mean * more, messages + more)
    });
    (messages > 0.0).then(|| sum / messages)
}

/// The part of a run that a figure is of: what samples say of its messages.
struct Span<'a> {
    /// Of the node that the figure is of.
    own: Vec<&'a Sample>,
    /// Of the node that sends the first traffic, within the messages; the first is just before.
    sender: Vec<&'a Sample>,
}

impl<'a> Span<'a> {
    fn of(figure: &FigureSpec, run: &'a Run, node: &str) -> Self {
        let from = figure.from_message.unwrap_or(0);
        let until = figure.until_message.unwrap_or(u64::MAX);
        let is_within = |sample: &&Sample| {
            sample
                .messages
                .is_some_and(|count| (from..=until).contains(&count))
        };
        let sender: Vec<&Sample> = run.samples.iter().filter(is_within).collect();
        let (begin, end) = match (sender.first(), sender.last()) {
            (Some(first), Some(last)) => (first.at, last.at),
            _ => (f64::INFINITY, f64::NEG_INFINITY),
        };
        let own = run.samples.iter();
        let own = own.filter(|sample| sample.node == node && (begin..=end).contains(&sample.at));
        Self {
            own: own.collect(),
            sender,
        }
    }

    /// What was added between the ends, of the sender.
    fn added(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let (first, last) = (self.sender.first()?, self.sender.last()?);
        Some(of(last)? - of(first)?)
    }

    fn messages(&self) -> Option<f64> {
        let added = self.added(|sample| sample.messages.map(|count| count as f64));
        added.filter(|added| *added > 0.0)
    }

    fn rtt_mean(&self) -> Option<f64> {
        Some(self.added(|sample| sample.rtt_sum)? / self.messages()?)
    }

    fn rate(&self) -> Option<f64> {
        Some(self.messages()? / self.added(|sample| Some(sample.at))?)
    }

    fn cpu(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.own.first()?, self.own.last()?);
        Some((last.cpu - first.cpu, last.at - first.at))
    }

    fn cpu_load(&self) -> Option<f64> {
        let (cpu, seconds) = self.cpu()?;
        (seconds > 0.0).then(|| cpu / seconds)
    }

    fn cpu_per_message(&self) -> Option<f64> {
        Some(self.cpu()?.0 / self.messages()?)
    }

    fn mean(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.own.iter().filter_map(|sample| of(sample)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Messages that each arm carried.
    fn carried(&self) -> Vec<u64> {
        let (Some(first), Some(last)) = (self.sender.first(), self.sender.last()) else {
            return Vec::new();
        };
        let before = first.arms.iter().copied().chain(std::iter::repeat(0));
        last.arms
            .iter()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before))
            .collect()
    }

    /// The arm that carried most, identity apart, which carries what others cannot make smaller, too.
    fn arm(&self, arms: &[String]) -> Option<String> {
        let carried = self.carried();
        let used = arms.iter().zip(&carried).filter(|(_, count)| **count > 0);
        let most = used.max_by_key(|(arm, count)| (*arm != IDENTITY, **count));
        most.map(|(arm, _)| arm.clone())
    }

    fn compressed(&self, arms: &[String]) -> Option<f64> {
        let carried = self.carried();
        let all: u64 = carried.iter().sum();
        let named = arms.iter().zip(&carried);
        let plain: u64 = named
            .filter(|(arm, _)| *arm == IDENTITY)
            .map(|(_, count)| count)
            .sum();
        (all > 0).then(|| 1.0 - plain as f64 / all as f64)
    }
}

fn show(figure: &FigureSpec, values: &[Option<Value>]) -> Figure {
    let numbers: Vec<f64> = numbers(values);
    let is_change = figure.against.is_some();
    let digits = |value: f64| {
        if is_change {
            format!("{value:+.1}")
        } else {
            number(value)
        }
    };
    let ours = match median(&numbers) {
        Some(median) => digits(median),
        None => common_word(values).unwrap_or_else(|| "-".to_owned()),
    };
    let source = match (&figure.source_text, figure.source) {
        (Some(text), _) => text.clone(),
        (None, Some(value)) if is_change => format!("{value:+}"),
        (None, Some(value)) => format!("{value}"),
        (None, None) => "-".to_owned(),
    };
    let least = numbers.iter().copied().reduce(f64::min);
    Figure {
        name: figure.name.clone(),
        unit: if is_change { "%" } else { figure.metric.unit() }.to_owned(),
        source,
        ours,
        range: least.zip(numbers.iter().copied().reduce(f64::max)),
        rounds: values
            .iter()
            .map(|value| match value {
                Some(Value::Number(value)) => digits(*value),
                Some(Value::Word(word)) => word.clone(),
                None => "-".to_owned(),
            })
            .collect(),
    }
}

fn numbers(values: &[Option<Value>]) -> Vec<f64> {
    let numbers = values.iter().filter_map(|value| match value {
        Some(Value::Number(value)) => Some(*value),
        _ => None,
    });
    numbers.collect()
}

/// The word that most rounds have.
fn common_word(values: &[Option<Value>]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for value in values.iter().flatten() {
        if let Value::Word(word) = value {
            *counts.entry(word).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(word, _)| word.to_owned())
}

/// Round by round, so that what else happens on the machine hits both sides; found by the middle of all rounds, since a shape is of what is typical: how many
/// rounds say so is their noise, too.
fn find<'a>(
    scenario: &Scenario,
    shape: &ShapeSpec,
    of: &impl Fn(&str) -> &'a [Option<Value>],
) -> Shape {
    let named = [&shape.less, &shape.than].map(|side| match side {
        Some(Side::Figure(name)) => Some(name.as_str()),
        _ => None,
    });
    let side = |side: &Option<Side>, round: usize| match side {
        Some(Side::Number(value)) => Some(*value),
        Some(Side::Figure(name)) => match of(name).get(round) {
            Some(Some(Value::Number(value))) => Some(*value),
            _ => None,
        },
        None => None,
    };
    let rounds = named.iter().flatten().map(|name| of(name).len()).max();
    let margins = (0..rounds.unwrap_or(0))
        .filter_map(|round| Some(side(&shape.than, round)? - side(&shape.less, round)?));
    let margins: Vec<f64> = margins.collect();
    let middle = Middle::of(&margins, SURE);
    let finding = match middle {
        Some(middle) if middle.low > 0.0 => Finding::Agrees,
        Some(middle) if middle.high <= 0.0 => Finding::Differs,
        _ => Finding::Open,
    };
    let unit = || {
        let figure = scenario.figure(named.iter().flatten().next()?).ok()?;
        let is_change = figure.against.is_some();
        Some(if is_change {
            "points"
        } else {
            figure.metric.unit()
        })
    };
    Shape {
        say: shape.say.clone(),
        finding,
        agreeing: margins.iter().filter(|margin| **margin > 0.0).count() as u32,
        known: margins.len() as u32,
        margin: middle.map(|middle| Margin {
            middle: middle.value,
            low: middle.low,
            high: middle.high,
            confidence: middle.confidence,
            unit: unit().unwrap_or_default().to_owned(),
        }),
    }
}

/// Of figures that are words, and ought to be others.
fn find_words(shape: &ShapeSpec, one: &[Option<Value>], other: &[Option<Value>]) -> Shape {
    let rounds = one.iter().zip(other);
    let differ = rounds.filter_map(|(one, other)| Some(one.as_ref()? != other.as_ref()?));
    let differ: Vec<bool> = differ.collect();
    let known = differ.len();
    let agreeing = differ.iter().filter(|differ| **differ).count();
    let part = |count: usize| count as f64 / known.max(1) as f64;
    let finding = if known == 0 {
        Finding::Open
    } else if part(agreeing) >= ENOUGH {
        Finding::Agrees
    } else if part(known - agreeing) >= ENOUGH {
        Finding::Differs
    } else {
        Finding::Open
    };
    Shape {
        say: shape.say.clone(),
        finding,
        agreeing: agreeing as u32,
        known: known as u32,
        margin: None,
    }
}

#[cfg(test)]
mod tests;
