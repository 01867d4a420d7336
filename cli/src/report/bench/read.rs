//! Passes, by condition, corpus and policy.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};

use super::Condition;
use crate::report::input::{Refused, measured};
use crate::report::page::clean;

/// Memory is bounded: a pass takes 80 bytes.
const MAX_PASSES: usize = 2_000_000;
const MAX_CONDITIONS: usize = 256;
const MAX_CORPORA: usize = 1024;
const MAX_POLICIES: usize = 256;
const MAX_CODECS: usize = 256;

/// A line of `bench --json`.
#[derive(Deserialize)]
pub(super) struct RawPass {
    corpus: String,
    // Missing is not the same as no limit.
    #[serde(deserialize_with = "Option::deserialize")]
    link_bps: Option<f64>,
    delay_ms: f64,
    mode: String,
    busy_cores: u64,
    policy: String,
    round: u32,
    messages: u64,
    plain_bytes: u64,
    wire_bytes: u64,
    #[serde(deserialize_with = "number")]
    seconds: f64,
    #[serde(deserialize_with = "number")]
    mean_us: f64,
    #[serde(deserialize_with = "number")]
    p50_us: f64,
    #[serde(deserialize_with = "number")]
    p99_us: f64,
    sender_cpu_s: f64,
    receiver_cpu_s: f64,
    codecs: BTreeMap<String, f64>,
    #[serde(default)]
    blocks: u64,
    #[serde(default)]
    out_of_budget: u64,
    switches: u64,
    regret: f64,
}

/// What is no finite number is written as null: said so, rather than that something is missing.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::deserialize(deserializer)?
        .ok_or_else(|| serde::de::Error::custom("null, where a pass has a number"))
}

/// One policy once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) round: u32,
    pub(super) wire_bytes: u64,
    pub(super) seconds: f64,
    /// Of messages, µs.
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// s.
    pub(super) sender_cpu: f64,
    pub(super) receiver_cpu: f64,
    pub(super) switches: u64,
    /// s.
    pub(super) regret: f64,
}

/// All passes of one policy with one corpus.
#[derive(Debug)]
pub(super) struct PolicyPasses {
    pub(super) name: String,
    pub(super) passes: Vec<Pass>,
    /// Of each codec and level, the shares of plain bytes added up over the passes.
    pub(super) codecs: BTreeMap<String, f64>,
    pub(super) blocks: u64,
    pub(super) out_of_budget: u64,
}

/// The same messages: what has the same name and another length is another corpus.
#[derive(Debug)]
pub(super) struct CorpusPasses {
    pub(super) name: String,
    pub(super) messages: u64,
    pub(super) plain_bytes: u64,
    pub(super) policies: Vec<PolicyPasses>,
}

/// Everything of a file, in the order in which it came first.
#[derive(Default)]
pub(super) struct Results {
    pub(super) conditions: Vec<(Condition, Vec<CorpusPasses>)>,
    passes: usize,
}

impl Results {
    pub(super) const fn passes(&self) -> usize {
        self.passes
    }

    pub(super) fn take(&mut self, raw: RawPass) -> Result<(), Refused> {
        if self.passes == MAX_PASSES {
            return Err(Refused::TooMany("passes", MAX_PASSES));
        }
        let condition = condition(&raw)?;
        let pass = Pass {
            round: raw.round,
            wire_bytes: raw.wire_bytes,
            seconds: measured("seconds", raw.seconds)?,
            mean: measured("mean_us", raw.mean_us)?,
            p50: measured("p50_us", raw.p50_us)?,
            p99: measured("p99_us", raw.p99_us)?,
            sender_cpu: measured("sender_cpu_s", raw.sender_cpu_s)?,
            receiver_cpu: measured("receiver_cpu_s", raw.receiver_cpu_s)?,
            switches: raw.switches,
            regret: measured("regret", raw.regret)?,
        };
        for (name, count) in [
            ("messages", raw.messages),
            ("plain_bytes", raw.plain_bytes),
            ("wire_bytes", raw.wire_bytes),
            ("blocks", raw.blocks),
            ("out_of_budget", raw.out_of_budget),
        ] {
            measured(name, count as f64)?;
        }
        let corpora = found_or_new(
            &mut self.conditions,
            |(known, _)| *known == condition,
            || (condition.clone(), Vec::new()),
            ("conditions (link, delay, mode, busy cores)", MAX_CONDITIONS),
        )?;
        let name = clean(&raw.corpus, 120);
        let corpus = found_or_new(
            &mut corpora.1,
            |known| {
                known.name == name
                    && known.messages == raw.messages
                    && known.plain_bytes == raw.plain_bytes
            },
            || CorpusPasses {
                name: name.clone(),
                messages: raw.messages,
                plain_bytes: raw.plain_bytes,
                policies: Vec::new(),
            },
            ("corpora", MAX_CORPORA),
        )?;
        let name = clean(&raw.policy, 80);
        let policy = found_or_new(
            &mut corpus.policies,
            |known| known.name == name,
            || PolicyPasses {
                name: name.clone(),
                passes: Vec::new(),
                codecs: BTreeMap::new(),
                blocks: 0,
                out_of_budget: 0,
            },
            ("policies", MAX_POLICIES),
        )?;
        policy.passes.push(pass);
        policy.blocks += raw.blocks;
        policy.out_of_budget += raw.out_of_budget;
        for (codec, share) in raw.codecs {
            let share = measured("codecs", share)?;
            *policy.codecs.entry(clean(&codec, 80)).or_default() += share;
        }
        if policy.codecs.len() > MAX_CODECS {
            return Err(Refused::TooMany("codecs of one policy", MAX_CODECS));
        }
        self.passes += 1;
        Ok(())
    }
}

fn condition(raw: &RawPass) -> Result<Condition, Refused> {
    let is_mode =
        matches!(raw.mode.as_str(), "throughput" | "latency") || raw.mode.starts_with("paced:");
    if !is_mode {
        return Err(Refused::Wrong(format!(
            "mode `{}` is not known (throughput, latency, paced:RATE)",
            raw.mode
        )));
    }
    let link = raw
        .link_bps
        .map(|link| measured("link_bps", link))
        .transpose()?;
    Ok(Condition {
        link,
        delay: measured("delay_ms", raw.delay_ms)?,
        mode: clean(&raw.mode, 40),
        busy: raw.busy_cores,
    })
}

fn found_or_new<'a, T>(
    known: &'a mut Vec<T>,
    is_it: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
    (what, max): (&'static str, usize),
) -> Result<&'a mut T, Refused> {
    let at = match known.iter().position(is_it) {
        Some(at) => at,
        None if known.len() == max => return Err(Refused::TooMany(what, max)),
        None => {
            known.push(new());
            known.len() - 1
        }
    };
    Ok(&mut known[at])
}

/// What makes medians of these passes less than they seem.
pub(super) fn warnings(corpora: &[CorpusPasses]) -> Vec<String> {
    /// More say nothing new.
    const MOST: usize = 5;

    let mut warnings = Vec::new();
    for corpus in corpora {
        let counts: BTreeSet<usize> = corpus
            .policies
            .iter()
            .map(|policy| policy.passes.len())
            .collect();
        if let (Some(least), Some(most)) = (counts.first(), counts.last())
            && least != most
        {
            warnings.push(format!(
                "{}: policies have from {least} to {most} passes: the bench was stopped, or goes on",
                corpus.name
            ));
        }
        for policy in &corpus.policies {
            let rounds: BTreeSet<u32> = policy.passes.iter().map(|pass| pass.round).collect();
            if rounds.len() < policy.passes.len() {
                warnings.push(format!(
                    "{}, {}: a round comes twice: the file holds more than one run, and the figures are of all of them together",
                    corpus.name, policy.name
                ));
            }
        }
    }
    if warnings.len() > MOST {
        let more = warnings.len() - MOST;
        warnings.truncate(MOST);
        warnings.push(format!("and {more} more of that kind"));
    }
    warnings
}
