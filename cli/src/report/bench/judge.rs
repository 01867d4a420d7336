//! What follows from the passes of one corpus: with the terminal's own arithmetic.

use tautline::control::PolicyConfig;

use super::Condition;
use super::read::{CorpusPasses, Pass, PolicyPasses};
use crate::figures::{self, Judged, is_stateless, is_static};

/// What a policy does, as far as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Always the same, and what it makes of a block depends on that alone: what efficiency is over.
    Stateless,
    /// Always the same, with history.
    History,
    /// It chooses.
    Adaptive,
    /// Not known to this version: never what others are measured by.
    Unknown,
}

impl Class {
    fn of(name: &str) -> Self {
        match name.parse::<PolicyConfig>() {
            Ok(policy) if is_stateless(policy) => Self::Stateless,
            Ok(policy) if is_static(policy) => Self::History,
            Ok(_) => Self::Adaptive,
            Err(_) => Self::Unknown,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stateless => "static",
            Self::History => "static, history",
            Self::Adaptive => "adaptive",
            Self::Unknown => "not known to this version",
        }
    }

    /// Whether it is what the comparison is made for.
    pub(super) const fn chooses(self) -> bool {
        matches!(self, Self::Adaptive | Self::Unknown)
    }
}

/// A policy's figures with one corpus.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) class: Class,
    /// One for each pass, in seconds.
    pub(super) judged: Judged,
    /// Over the best static stateless arm, and over the best static one.
    pub(super) efficiency: Option<f64>,
    pub(super) efficiency_of_all: Option<f64>,
    pub(super) passes: Vec<Pass>,
    /// Mean share of the plain bytes, largest first.
    pub(super) codecs: Vec<(String, f64)>,
    /// Of its blocks, those that left as they were because the codec budget was spent.
    pub(super) out_of_budget: f64,
}

impl Policy {
    pub(super) fn time(&self) -> f64 {
        figures::median(&self.judged.times).unwrap_or_default()
    }

    /// The least and the greatest judged time.
    pub(super) fn range(&self) -> (f64, f64) {
        let times = self.judged.times.iter().copied();
        times.fold((f64::INFINITY, 0.0), |(least, greatest), time| {
            (least.min(time), greatest.max(time))
        })
    }

    pub(super) fn median(&self, value: impl Fn(&Pass) -> f64) -> f64 {
        let values: Vec<f64> = self.passes.iter().map(value).collect();
        figures::median(&values).unwrap_or_default()
    }
}

/// A corpus with its policies, best first.
pub(super) struct Compared {
    pub(super) name: String,
    pub(super) messages: u64,
    pub(super) plain_bytes: u64,
    pub(super) policies: Vec<Policy>,
    /// Places among the policies: the best static stateless arm, and the best static one.
    pub(super) best: Option<usize>,
    pub(super) best_of_all: Option<usize>,
}

impl Compared {
    /// The time that efficiency is over.
    pub(super) fn reference(&self) -> Option<f64> {
        let time = self.policies[self.best?].time();
        (time > 0.0).then_some(time)
    }
}

pub(super) fn compare(condition: &Condition, corpus: CorpusPasses) -> Compared {
    let judges_total = condition.judges_total();
    let mut policies: Vec<Policy> = corpus
        .policies
        .into_iter()
        .map(|passes| policy(passes, judges_total))
        .collect();
    policies.sort_by(|left, right| left.time().total_cmp(&right.time()));
    let oracle = |is_candidate: fn(Class) -> bool| {
        let candidates: Vec<Judged> = policies
            .iter()
            .map(|policy| Judged {
                is_static: is_candidate(policy.class),
                times: policy.judged.times.clone(),
            })
            .collect();
        figures::oracle(&candidates)
    };
    let best = oracle(|class| class == Class::Stateless);
    let best_of_all = oracle(|class| !class.chooses());
    let efficiencies: Vec<[Option<f64>; 2]> = policies
        .iter()
        .map(|policy| {
            [best, best_of_all]
                .map(|best| figures::efficiency(&policies[best?].judged, &policy.judged))
        })
        .collect();
    for (policy, [efficiency, of_all]) in policies.iter_mut().zip(efficiencies) {
        policy.efficiency = efficiency;
        policy.efficiency_of_all = of_all;
    }
    Compared {
        name: corpus.name,
        messages: corpus.messages,
        plain_bytes: corpus.plain_bytes,
        policies,
        best,
        best_of_all,
    }
}

fn policy(passes: PolicyPasses, judges_total: bool) -> Policy {
    let class = Class::of(&passes.name);
    let count = passes.passes.len().max(1) as f64;
    let mut codecs: Vec<_> = passes
        .codecs
        .into_iter()
        .map(|(name, sum)| (name, sum / count))
        .collect();
    codecs.sort_by(|left, right| right.1.total_cmp(&left.1));
    let times = passes.passes.iter().map(|pass| {
        if judges_total {
            pass.seconds
        } else {
            pass.mean / 1e6
        }
    });
    Policy {
        class,
        judged: Judged {
            is_static: !class.chooses(),
            times: times.collect(),
        },
        efficiency: None,
        efficiency_of_all: None,
        name: passes.name,
        passes: passes.passes,
        codecs,
        out_of_budget: passes.out_of_budget as f64 / passes.blocks.max(1) as f64,
    }
}

/// The mean of ratios: the one that does not depend on which of both is the reference.
pub(super) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values
        .iter()
        .filter(|value| **value > 0.0)
        .map(|value| value.ln())
        .collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_policies() {
        for (name, class) in [
            ("none", Class::Stateless),
            ("zstd:3", Class::Stateless),
            ("lz4", Class::Stateless),
            ("zstd:1+history", Class::History),
            ("cost", Class::Adaptive),
            ("majority", Class::Adaptive),
            ("round_robin", Class::Adaptive),
            ("of tomorrow", Class::Unknown),
        ] {
            assert_eq!(Class::of(name), class, "{name}");
        }
    }

    #[test]
    fn the_geometric_mean_is_of_ratios() {
        let mean = geometric_mean(&[0.5, 2.0]).expect("of two");
        assert!((mean - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[0.0]), None);
    }
}
