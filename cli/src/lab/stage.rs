//! One run: nodes, links, loads, monitor and traffic, from their beginning to their end.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tautline::relay::{LinkConfig, Relay, RelayAddr};
use tautline::units::BytesPerSec;
use tokio::sync::mpsc;

use super::folder::RunFile;
use super::loads::Load;
use super::member::{Member, Words, next};
use super::protocol::{Driven, Order, Sample, Setup, Word};
use super::scenario::{Carrier, ChangeSpec, LinkSpec, Scenario};
use super::traffic;
use super::watch::Watch;
use crate::bench::clock::monotonic_nanos;
use crate::failure::Failure;
use crate::load::interrupted;
use crate::others::Others;
use crate::rate::Rate;
use crate::report::lab::{self, NodeTaken, Run, Traffic};

/// How often it is looked whether something is due.
const LOOK: Duration = Duration::from_millis(5);
/// What a node has to say that its traffic has ended, beyond the run's limit.
const SPARE: Duration = Duration::from_secs(10);
/// A node that says nothing for so long, seconds, was held up, and its figures with it. Arbitrary.
const SILENCE: f64 = 0.5;
/// Samples of a run that its summary keeps.
const MAX_SAMPLES: usize = 2000;

/// Where a run takes place.
pub(super) struct Place<'a> {
    /// Those that the lab may use.
    pub(super) processors: &'a [u32],
    /// Of the scenario, for files that it names.
    pub(super) beside: &'a Path,
    /// For Unix sockets, of this run alone.
    pub(super) sockets: &'a Path,
    /// Where the monitor writes to.
    pub(super) samples: PathBuf,
    /// The user has enough.
    pub(super) is_over: &'a AtomicBool,
}

/// A link's rate, bits a second; `None` for none.
pub(super) fn link_rate(text: &str) -> Result<Option<f64>, String> {
    match text {
        "none" => Ok(None),
        text => match text.parse() {
            Ok(Rate::Bits(rate)) => Ok(Some(rate)),
            _ => Err(format!(
                "`{text}` is not a link's rate (100kbit, 10Mbit, 1Gbit, none)"
            )),
        },
    }
}

fn link_config(rate: &str, delay_ms: f64, queue_kib: Option<u32>) -> LinkConfig {
    let bits = link_rate(rate).unwrap_or(None);
    LinkConfig {
        rate: bits.and_then(|bits| BytesPerSec::new(bits / 8.0)),
        delay: Duration::from_secs_f64(delay_ms / 1e3),
        queue: queue_kib.map(|kib| kib as usize * 1024),
    }
}

/// The processors of a node, of those that there are.
pub(super) fn processors(places: &[u32], allowed: &[u32]) -> Vec<u32> {
    let mut chosen: Vec<u32> = places
        .iter()
        .filter_map(|place| allowed.get(*place as usize % allowed.len().max(1)).copied())
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// A link while it is there.
struct Wire {
    relay: Relay,
    spec: LinkSpec,
    rate: String,
    delay_ms: f64,
    /// Those that have not come yet.
    changes: Vec<ChangeSpec>,
}

impl Wire {
    fn start(spec: &LinkSpec, target: RelayAddr) -> Result<Self, Failure> {
        let config = link_config(&spec.rate, spec.delay_ms, spec.queue_kib);
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let relay =
            Relay::start(listen, target, config).map_err(|error| Failure::of("a link", &error))?;
        Ok(Self {
            relay,
            spec: spec.clone(),
            rate: spec.rate.clone(),
            delay_ms: spec.delay_ms,
            changes: spec.changes.clone(),
        })
    }

    fn look(&mut self, now: (f64, u64)) {
        let due = |change: &ChangeSpec| change.when().has_come(now.0, now.1);
        while self.changes.first().is_some_and(due) {
            let change = self.changes.remove(0);
            self.rate = change.rate.unwrap_or_else(|| self.rate.clone());
            self.delay_ms = change.delay_ms.unwrap_or(self.delay_ms);
            self.relay
                .set_link(link_config(&self.rate, self.delay_ms, self.spec.queue_kib));
        }
    }
}

/// Runs a scenario once.
pub(super) async fn run(
    scenario: &Scenario,
    place: &Place<'_>,
    file: &mut RunFile,
) -> Result<Run, Failure> {
    let (sender, words) = mpsc::unbounded_channel();
    let mut stage = Stage {
        scenario,
        place,
        members: Vec::new(),
        words,
        wires: HashMap::new(),
        addresses: HashMap::new(),
        begun: 0,
        samples: Vec::new(),
        before: HashMap::new(),
        messages: 0,
    };
    stage.begin(sender).await?;
    let mut loads = stage.loads()?;
    let driven = stage.drive(&mut loads, file).await?;
    stage.finish(loads, driven, file).await
}

struct Stage<'a> {
    scenario: &'a Scenario,
    place: &'a Place<'a>,
    members: Vec<Member>,
    words: Words,
    wires: HashMap<(String, String), Wire>,
    addresses: HashMap<String, String>,
    /// When traffic began, monotonic ns.
    begun: u64,
    samples: Vec<(String, Sample)>,
    /// Processor time of nodes when traffic began, or a sample's length before.
    before: HashMap<String, f64>,
    /// Of the first traffic, so far.
    messages: u64,
}

/// What has come of traffic, and of the monitor.
struct Outcome {
    driven: Vec<Driven>,
    seconds: f64,
    others: Option<f64>,
    counted: super::watch::Counted,
    cut: Option<String>,
}

impl Stage<'_> {
    /// Starts the nodes, and waits until they can be reached.
    async fn begin(&mut self, sender: super::member::WordSender) -> Result<(), Failure> {
        for node in &self.scenario.nodes {
            let mut member = Member::start(&node.name, sender.clone())?;
            let mut spec = node.clone();
            spec.processors = processors(&node.processors, self.place.processors);
            let listen = match node.carrier {
                Carrier::Tcp => "127.0.0.1:0".to_owned(),
                Carrier::Unix => {
                    let number = self.members.len().to_string();
                    let path = self.place.sockets.join(number);
                    format!("unix:{}", path.display())
                }
            };
            let setup = Setup {
                node: spec,
                listen,
                sample: self.scenario.sample,
            };
            member.tell(&Order::Begin(Box::new(setup))).await?;
            self.members.push(member);
        }
        drop(sender);
        while self.addresses.len() < self.members.len() {
            match self.hear(None).await? {
                (name, Word::Ready { address }) => {
                    self.addresses.insert(name, address);
                }
                (name, word) => self.take(name, word),
            }
        }
        Ok(())
    }

    /// The next word of a node, unless the user has enough meanwhile.
    async fn hear(&mut self, limit: Option<Duration>) -> Result<(String, Word), Failure> {
        tokio::select! {
            word = next(&mut self.words, limit) => word,
            () = interrupted(self.place.is_over) => Err(Failure::Interrupted),
        }
    }

    /// The loads that are on, the first of them at work.
    fn loads(&self) -> Result<Vec<Load>, Failure> {
        let length =
            Duration::from_secs_f64(self.scenario.settle + self.scenario.limit) + 2 * SPARE;
        let mut loads = Vec::new();
        for spec in self.scenario.loads.iter().filter(|spec| spec.on) {
            let places = self
                .scenario
                .node(&spec.node)
                .map_or(&[][..], |node| &node.processors);
            let mut on = processors(places, self.place.processors);
            if on.is_empty() {
                on = self.place.processors.to_vec();
            }
            loads.push(Load::new(spec, on, length));
        }
        for load in &mut loads {
            load.settle(self.place.beside)?;
        }
        Ok(loads)
    }

    /// Where a node is reached from another: through the link between them, if there is one that does anything.
    fn address(&mut self, from: &str, to: &str) -> Result<String, Failure> {
        let target = self.addresses.get(to).cloned().unwrap_or_default();
        let Some(spec) = self.scenario.link(from, to) else {
            return Ok(target);
        };
        let is_plain = spec.rate == "none" && spec.delay_ms <= 0.0 && spec.changes.is_empty();
        if is_plain {
            return Ok(target);
        }
        // One relay for each direction of connecting: both ways are a link's own.
        let key = (from.to_owned(), to.to_owned());
        if !self.wires.contains_key(&key) {
            let target = match target.strip_prefix("unix:") {
                Some(path) => RelayAddr::Unix(path.into()),
                None => RelayAddr::Tcp(target.parse()?),
            };
            self.wires.insert(key.clone(), Wire::start(spec, target)?);
        }
        let address = self
            .wires
            .get(&key)
            .and_then(|wire| wire.relay.local_addr().tcp());
        address
            .map(|address| address.to_string())
            .ok_or_else(|| Failure::Error("a link has no address".to_owned()))
    }

    /// All traffic, from its beginning to its end.
    async fn drive(&mut self, loads: &mut [Load], file: &mut RunFile) -> Result<Outcome, Failure> {
        let scenario = self.scenario;
        if !loads.is_empty() {
            self.rest(Duration::from_secs_f64(scenario.settle)).await?;
        }
        let mut orders = Vec::new();
        for (mut order, traffic) in traffic::orders(scenario, self.place.beside)
            .into_iter()
            .zip(&scenario.traffic)
        {
            order.to = self.address(&traffic.from, &traffic.to)?;
            orders.push((traffic.from.clone(), order));
        }
        let watch = self.watch()?;
        let others = Others::begin();
        self.begun = monotonic_nanos();
        for (from, order) in orders {
            let member = self.members.iter_mut().find(|member| member.name == from);
            let member = member.ok_or_else(|| Failure::Error(format!("no node `{from}`")))?;
            member.tell(&Order::Drive(Box::new(order))).await?;
        }
        let mut driven: BTreeMap<String, Driven> = BTreeMap::new();
        let limit = Duration::from_secs_f64(scenario.limit) + SPARE;
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while driven.len() < scenario.traffic.len() {
            if self.place.is_over.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            let now = (self.elapsed(), self.messages);
            for wire in self.wires.values_mut() {
                wire.look(now);
            }
            for load in loads.iter_mut() {
                load.look(self.place.beside, now)?;
            }
            if now.0 > limit.as_secs_f64() {
                return Err(Failure::Error(format!(
                    "traffic has not ended after {} s",
                    limit.as_secs_f64()
                )));
            }
            tokio::select! {
                _ = ticks.tick() => {}
                word = next(&mut self.words, Some(limit)) => {
                    let (name, word) = word?;
                    file.word(&name, &word)?;
                    if let Word::Driven(ended) = word {
                        if scenario.traffic.first().is_some_and(|first| first.name == ended.name) {
                            self.messages = ended.messages;
                        }
                        driven.insert(ended.name.clone(), *ended);
                    } else {
                        self.take(name, word);
                    }
                }
            }
        }
        let seconds = self.elapsed();
        let others = others.end();
        let counted = watch.map_or(Ok(Vec::new()), Watch::stop)?;
        let in_order = scenario.traffic.iter();
        let driven: Vec<Driven> = in_order
            .filter_map(|traffic| driven.remove(&traffic.name))
            .collect();
        let cut = driven.iter().find(|one| one.messages < one.asked);
        let cut = cut.map(|one| {
            format!(
                "traffic `{}` sent {} of {} messages in {} s",
                one.name, one.messages, one.asked, scenario.limit
            )
        });
        Ok(Outcome {
            driven,
            seconds,
            others,
            counted,
            cut,
        })
    }

    fn watch(&self) -> Result<Option<Watch>, Failure> {
        let Some(spec) = &self.scenario.monitor else {
            return Ok(None);
        };
        let of = |member: &Member| Some((member.name.clone(), member.process()?));
        let nodes: Vec<(String, u32)> = self
            .members
            .iter()
            .filter(|member| spec.nodes.is_empty() || spec.nodes.contains(&member.name))
            .filter_map(of)
            .collect();
        Watch::start(spec, nodes, self.place.samples.clone()).map(Some)
    }

    /// Waits, and hears what nodes say meanwhile.
    async fn rest(&mut self, time: Duration) -> Result<(), Failure> {
        let until = tokio::time::Instant::now() + time;
        while let Some(left) = until.checked_duration_since(tokio::time::Instant::now()) {
            match tokio::time::timeout(left, self.hear(Some(time + SPARE))).await {
                Ok(word) => {
                    let (name, word) = word?;
                    self.take(name, word);
                }
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn elapsed(&self) -> f64 {
        monotonic_nanos().saturating_sub(self.begun) as f64 / 1e9
    }

    fn take(&mut self, name: String, word: Word) {
        if let Word::Sample(sample) = word {
            if self.begun == 0 || sample.at < self.begun {
                self.before.insert(name, sample.cpu);
                return;
            }
            let first = self.scenario.traffic.first();
            let of_first = sample
                .traffic
                .iter()
                .find(|one| first.is_some_and(|first| first.name == one.name));
            if let Some(one) = of_first {
                self.messages = self.messages.max(one.messages);
            }
            self.samples.push((name, sample));
        }
    }

    /// Ends all that is there, and says what it was.
    async fn finish(
        mut self,
        mut loads: Vec<Load>,
        outcome: Outcome,
        file: &mut RunFile,
    ) -> Result<Run, Failure> {
        let now = (outcome.seconds, self.messages);
        for load in &mut loads {
            load.stop(now);
        }
        for member in &mut self.members {
            member.tell(&Order::Finish).await?;
        }
        let mut cpu = HashMap::new();
        while cpu.len() < self.members.len() {
            let (name, word) = self.hear(None).await?;
            file.word(&name, &word)?;
            if let Word::Finished { cpu: taken } = word {
                cpu.insert(name, taken);
            } else {
                self.take(name, word);
            }
        }
        Ok(self.summary(loads, outcome, &cpu))
    }

    fn summary(self, loads: Vec<Load>, outcome: Outcome, cpu: &HashMap<String, f64>) -> Run {
        let scenario = self.scenario;
        let traffic = scenario.traffic.iter().zip(&outcome.driven);
        let traffic: Vec<Traffic> = traffic
            .map(|(spec, driven)| Traffic {
                name: spec.name.clone(),
                from: spec.from.clone(),
                to: spec.to.clone(),
                messages: driven.messages,
                asked: driven.asked,
                seconds: driven.seconds,
                plain_bytes: driven.plain_bytes,
                wire_bytes: driven.wire_bytes,
                rtt: driven.rtt,
                switches: driven.switches,
                out_of_budget: driven.out_of_budget,
                arms: driven.arms.clone(),
            })
            .collect();
        let nodes = scenario.nodes.iter().map(|node| {
            let before = self.before.get(&node.name).copied().unwrap_or(0.0);
            NodeTaken {
                name: node.name.clone(),
                processors: processors(&node.processors, self.place.processors),
                cpu: (cpu.get(&node.name).copied().unwrap_or(0.0) - before).max(0.0),
            }
        });
        let nodes: Vec<NodeTaken> = nodes.collect();
        let own: f64 = nodes.iter().map(|node| node.cpu).sum();
        let others = outcome
            .others
            .map(|others| ((others - own) / outcome.seconds.max(1e-9)).max(0.0));
        let arms: Vec<String> = outcome
            .driven
            .first()
            .map(|driven| driven.arms.iter().map(|(name, _)| name.clone()).collect())
            .unwrap_or_default();
        let held_up = silence(&self.samples)
            .filter(|(_, seconds)| *seconds > SILENCE.max(5.0 * scenario.sample))
            .map(|(node, seconds)| {
                format!(
                    "node `{node}` said nothing for {seconds:.1} s: something held the machine up"
                )
            });
        let samples = samples(&self.samples, self.begun, scenario, &arms);
        Run {
            seconds: outcome.seconds,
            cut: outcome.cut.or(held_up),
            others,
            nodes,
            loads: loads.into_iter().flat_map(Load::into_taken).collect(),
            counted: outcome.counted,
            arms,
            samples,
            series: outcome
                .driven
                .into_iter()
                .next()
                .map(|driven| driven.series)
                .unwrap_or_default(),
            traffic,
            ..Run::default()
        }
    }
}

/// The longest time without a sample of a node that had some before and after, seconds.
fn silence(samples: &[(String, Sample)]) -> Option<(&str, f64)> {
    let mut last: HashMap<&str, u64> = HashMap::new();
    let mut longest: Option<(&str, f64)> = None;
    for (name, sample) in samples {
        if let Some(before) = last.insert(name, sample.at) {
            let seconds = sample.at.saturating_sub(before) as f64 / 1e9;
            if longest.is_none_or(|(_, most)| seconds > most) {
                longest = Some((name, seconds));
            }
        }
    }
    longest
}

/// Thinned, if there are too many.
fn samples(
    samples: &[(String, Sample)],
    begun: u64,
    scenario: &Scenario,
    arms: &[String],
) -> Vec<lab::Sample> {
    // Every node's every so many-th, so that none is left out.
    let every = samples.len().div_ceil(MAX_SAMPLES).max(1);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let first = scenario.traffic.first();
    let kept = samples.iter().filter(|(name, _)| {
        let count = seen.entry(name).or_default();
        *count += 1;
        (*count - 1).is_multiple_of(every)
    });
    let kept = kept.map(|(name, sample)| {
        let of_first = sample
            .traffic
            .iter()
            .find(|one| first.is_some_and(|first| first.name == one.name));
        let carried = |arm: &String| {
            let of_arm = of_first?.arms.iter().find(|(name, _)| name == arm);
            of_arm.map(|(_, messages)| *messages)
        };
        lab::Sample {
            at: sample.at.saturating_sub(begun) as f64 / 1e9,
            node: name.clone(),
            cpu: sample.cpu,
            load: sample.load,
            budget: sample.budget,
            messages: of_first.map(|one| one.messages),
            rtt_sum: of_first.map(|one| one.rtt_sum),
            arms: match of_first {
                Some(_) => arms.iter().map(|arm| carried(arm).unwrap_or(0)).collect(),
                None => Vec::new(),
            },
        }
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_those_that_there_are() {
        assert_eq!(processors(&[0, 1], &[3, 5]), [3, 5]);
        assert_eq!(processors(&[0, 1, 2], &[3, 5]), [3, 5]);
        assert_eq!(processors(&[1], &[7]), [7]);
        assert_eq!(processors(&[], &[7, 8]), [] as [u32; 0]);
        assert_eq!(processors(&[4], &[]), [] as [u32; 0]);
    }

    #[test]
    fn a_node_that_was_held_up_is_found() {
        let sample = |name: &str, at: u64| {
            let sample = Sample {
                at: at * 100_000_000,
                ..Sample::default()
            };
            (name.to_owned(), sample)
        };
        let samples = [
            ("a", 1),
            ("b", 1),
            ("a", 2),
            ("b", 2),
            ("b", 3),
            ("a", 90),
            ("b", 4),
        ];
        let samples = samples.map(|(name, at)| sample(name, at));
        let (name, seconds) = silence(&samples).expect("a silence");
        assert_eq!(name, "a");
        assert!((seconds - 8.8).abs() < 1e-9);
        assert_eq!(silence(&samples[..2]), None);
    }

    #[test]
    fn rates_of_links_are_bits() {
        assert_eq!(link_rate("none"), Ok(None));
        assert_eq!(link_rate("2Mbit"), Ok(Some(2e6)));
        for text in ["", "10", "fast"] {
            assert!(link_rate(text).is_err(), "{text}");
        }
    }
}
