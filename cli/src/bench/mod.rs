//! `tautline bench`: policies compared over links of chosen rates.
//!
//! ```text
//!  bench (relay or namespaces, busy threads, tables)
//!    | JSON lines                        | JSON lines
//!  sender's process ---- the link ---- receiver's process
//! ```
//!
//! Each pass is a connection of its own. The policies take turns within a round, so that what else
//! happens on the machine hits all of them alike.

pub(crate) mod clock;
mod member;
mod netns;
mod node;
mod plan;
mod protocol;
mod receiver;
mod report;
mod sender;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tautline::control::PolicyConfig;
use tautline::corpus::Format;
use tautline::relay::{LinkConfig, Relay};
use tautline::units::BytesPerSec;
use tokio::signal::unix::{SignalKind, signal};

use self::member::Member;
use self::netns::Namespaces;
pub(crate) use self::node::{NodeArguments, run as run_node};
pub(crate) use self::plan::order;
use self::plan::{Link, Mode, Take};
use self::protocol::{Command, Loaded, Pass, Reply};
use self::report::{Cell, Row};
use crate::busy::BusyProcessors;
use crate::failure::Failure;
use crate::terminal::progress;

/// For what is neither a pass nor as long as one: a node's start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Sends messages from one process to another over links of chosen rates, with one policy after the
/// other, and compares what it took. What arrives is compared with what was sent.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(after_long_help = MEANING)]
pub(crate) struct BenchArguments {
    /// Files or directories of messages.
    #[arg(long, required = true, num_args = 1..)]
    corpus: Vec<PathBuf>,
    /// msgs, lines, jsonl, json, dir, pcap or pcapng; found out from the content by default.
    #[arg(long)]
    format: Option<Format>,
    /// How much of each corpus: its first messages (500) or bytes (64KiB, 1MB). Default: all.
    #[arg(long)]
    take: Option<Take>,
    /// The links' rates: 100kbit, 10Mbit, 1Gbit, or none for as fast as this machine can.
    #[arg(long, value_delimiter = ',', default_value = "none")]
    link: Vec<Link>,
    /// Propagation delay in one direction, ms.
    #[arg(long, default_value = "0", value_parser = milliseconds)]
    delay: Duration,
    /// throughput (as fast as back-pressure lets it), latency (one message at a time), or paced:RATE
    /// (on a schedule; 50% of the link's rate in plain bytes, 10Mbit, or 500 messages a second).
    #[arg(long, value_delimiter = ',', default_value = "throughput")]
    mode: Vec<Mode>,
    /// cost, majority, `round_robin`, none, a codec such as zstd:3 or zstd:3+history, static (each codec at
    /// a few levels), history (those that carry it), or all.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    policy: Vec<String>,
    /// Threads that keep processors busy meanwhile.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    busy_cores: u16,
    /// How often each policy takes its turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Which policy begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object for each pass, and no tables.
    #[arg(long)]
    json: bool,
    /// The link between two network namespaces, shaped by the kernel, instead of the relay: as root,
    /// with `ip` and `tc`.
    #[arg(long)]
    netns: bool,
    /// New nodes for each pass: nothing is remembered of a peer.
    #[arg(long)]
    cold: bool,
    /// Do not limit codec time by the processor load.
    #[arg(long)]
    no_guard: bool,
    /// The longest that a pass may take, seconds; the bench fails if one does. The wait for a new
    /// guard's budget, 1 s at most, is none of it.
    #[arg(long, default_value = "120", value_parser = seconds)]
    pass_limit: Duration,
}

const MEANING: &str = "\
Lists (--link 100kbit,10Mbit --mode throughput,latency) run every combination. Each pass is a new
connection; the nodes stay, one for each policy that learns, until the corpus, link or mode changes.

time      from the first message's sending until the last one's receipt
message   the mean from a message's sending (throughput, latency: the call that sends it, which may
          have to wait for room; paced: when it was due) until its receipt; p50 and p99 likewise
spread    from the least to the greatest time judged, over the median
cpu       processor time of the sender's and the receiver's process during the pass
effic.    the oracle's time over the policy's. In throughput mode the time for all messages is
          judged, otherwise the mean message time. The oracle is the static choice (none, or a codec)
          whose median is least; as the best of many, a lucky one.

The relay and the busy threads run in a process of their own, on the same processors; the relay adds
a few tens of microseconds to each way. A link without limit and delay is the loopback itself. --netns
has no relay, but its shaper lets what comes after a pause through at once, up to 1 ms at the rate or
two packets: it shows throughput truly, and message times below the link's rate without the time that
sending takes. If the bench is killed (signal 9), the namespaces stay: `ip netns list` shows them as
tautline-PID-a and -b.";

fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(millis) if (0.0..=60_000.0).contains(&millis) => {
            Ok(Duration::from_secs_f64(millis / 1e3))
        }
        _ => Err("milliseconds, from 0 to 60000".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("seconds, from 0.1 to 86400".to_owned()),
    }
}

pub(crate) async fn run(arguments: BenchArguments) -> Result<(), Failure> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    // What is dropped with it ends the nodes and removes the namespaces.
    tokio::select! {
        result = compare(&arguments) => result,
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
        _ = terminated.recv() => Err(Failure::Interrupted),
        _ = hung_up.recv() => Err(Failure::Interrupted),
    }
}

async fn compare(arguments: &BenchArguments) -> Result<(), Failure> {
    let policies = plan::policies(&arguments.policy).map_err(Failure::Error)?;
    for (link, mode) in combinations(&arguments.link, &arguments.mode) {
        if mode.sending(link).is_none() {
            let text = format!("{mode} is a share of the link's rate, and {link} has none");
            return Err(Failure::Error(text));
        }
    }
    if arguments.netns && !arguments.delay.is_zero() {
        return Err(Failure::Error(
            "--delay is the relay's: the link of --netns has none".to_owned(),
        ));
    }
    let mut stage = Stage::build(arguments)?;
    let loaded = stage.load().await?;
    let _busy = BusyProcessors::start(arguments.busy_cores.into(), None);
    for (link, mode) in combinations(&arguments.link, &arguments.mode) {
        for (number, corpus) in loaded.iter().enumerate() {
            let cell = Cell {
                corpus,
                link,
                delay: arguments.delay,
                mode,
                busy: arguments.busy_cores.into(),
                rounds: arguments.rounds as usize,
            };
            let rows = stage.fill(&cell, number, &policies).await?;
            if !arguments.json {
                report::print_table(&cell, &policies, &rows)?;
            }
        }
    }
    Ok(())
}

fn combinations(links: &[Link], modes: &[Mode]) -> impl Iterator<Item = (Link, Mode)> {
    let with_modes = |&link| modes.iter().map(move |&mode| (link, mode));
    links.iter().flat_map(with_modes)
}

/// The two nodes' processes and what is between them.
struct Stage<'a> {
    arguments: &'a BenchArguments,
    // In this order: the processes end before the namespaces that they are in.
    sender: Member,
    receiver: Member,
    namespaces: Option<Namespaces>,
    relay: Option<Relay>,
    /// Where the sender connects to.
    address: String,
}

impl<'a> Stage<'a> {
    fn build(arguments: &'a BenchArguments) -> Result<Self, Failure> {
        let namespaces = arguments.netns.then(Namespaces::create).transpose()?;
        let [outer, inner] = namespaces
            .as_ref()
            .map_or_else(|| [Vec::new(), Vec::new()], Namespaces::prefixes);
        let listen = match namespaces {
            Some(_) => vec!["--listen".to_owned(), Namespaces::listen()],
            None => Vec::new(),
        };
        Ok(Self {
            arguments,
            sender: Member::start("sender", &outer, &[])?,
            receiver: Member::start("receiver", &inner, &listen)?,
            namespaces,
            relay: None,
            address: String::new(),
        })
    }

    /// Has both nodes read the corpora.
    async fn load(&mut self) -> Result<Vec<Loaded>, Failure> {
        let command = Command::Load {
            files: self.arguments.corpus.clone(),
            format: self.arguments.format.map(|format| format.to_string()),
            take: self.arguments.take,
        };
        let limit = self.arguments.pass_limit;
        match (
            self.sender.ask(&command, limit).await?,
            self.receiver.ask(&command, limit).await?,
        ) {
            (Reply::Loaded(sender), Reply::Loaded(receiver)) if sender == receiver => Ok(sender),
            (Reply::Loaded(_), Reply::Loaded(_)) => Err(Failure::Error(
                "the corpora change while they are read".to_owned(),
            )),
            _ => Err(self.sender.confused()),
        }
    }

    /// All rounds of one table.
    async fn fill(
        &mut self,
        cell: &Cell<'_>,
        corpus: usize,
        policies: &[PolicyConfig],
    ) -> Result<Vec<Row>, Failure> {
        if let Some(namespaces) = &self.namespaces {
            namespaces.set(cell.link)?;
        }
        // What was learnt of another link, corpus or mode is no help and no hindrance here.
        self.reset(cell).await?;
        let mut rows = Vec::new();
        for round in 0..cell.rounds {
            let order = order(policies.len(), round, cell.rounds, self.arguments.seed);
            for (place, policy) in order.into_iter().enumerate() {
                if self.arguments.cold && !rows.is_empty() {
                    self.reset(cell).await?;
                }
                let name = policies[policy].to_string();
                progress(&format!(
                    "round {} of {}, {} of {}: {name}",
                    round + 1,
                    cell.rounds,
                    place + 1,
                    policies.len()
                ));
                let row = self.pass(cell, corpus, policy, name, round).await;
                progress("");
                let row = row?;
                if self.arguments.json {
                    row.print_json(cell, policies)?;
                }
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// New nodes that know nothing, and a new link between them.
    async fn reset(&mut self, cell: &Cell<'_>) -> Result<(), Failure> {
        let command = Command::Reset {
            guard: !self.arguments.no_guard,
        };
        self.sender.ask(&command, START_LIMIT).await?;
        let Reply::Ready(Some(address)) = self.receiver.ask(&command, START_LIMIT).await? else {
            return Err(self.receiver.confused());
        };
        self.address = address;
        self.relay = None;
        let is_shaped = cell.link.0.is_some() || !cell.delay.is_zero();
        if is_shaped && self.namespaces.is_none() {
            let target: std::net::SocketAddr = self.address.parse()?;
            let listen = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
            let link = LinkConfig {
                rate: cell.link.0.and_then(|bits| BytesPerSec::new(bits / 8.0)),
                delay: cell.delay,
                ..LinkConfig::default()
            };
            let relay = Relay::start(listen, target, link)
                .map_err(|error| Failure::of("the relay", &error))?;
            if let Some(address) = relay.local_addr().tcp() {
                self.address = address.to_string();
            }
            self.relay = Some(relay);
        }
        Ok(())
    }

    /// One connection.
    async fn pass(
        &mut self,
        cell: &Cell<'_>,
        corpus: usize,
        policy: usize,
        name: String,
        round: usize,
    ) -> Result<Row, Failure> {
        let Some(sending) = cell.mode.sending(cell.link) else {
            return Err(Failure::Error("a share of no rate".to_owned()));
        };
        let what = format!(
            "{} over {}, {}, {name}",
            cell.corpus.name, cell.link, cell.mode
        );
        let in_context = |failure: Failure| failure.within(&what);
        // Not in the pass: its limit is for sending and receiving, and so are its times.
        let prepare = Command::Prepare {
            policy: name.clone(),
        };
        tokio::try_join!(
            self.sender.ask(&prepare, START_LIMIT),
            self.receiver.ask(&prepare, START_LIMIT),
        )
        .map_err(in_context)?;
        let command = Command::Pass(Pass {
            corpus,
            sending,
            policy: name.clone(),
            address: self.address.clone(),
        });
        let limit = self.arguments.pass_limit;
        let replies = tokio::try_join!(
            self.sender.ask(&command, limit),
            self.receiver.ask(&command, limit),
        );
        match replies.map_err(in_context)? {
            (Reply::Sent(sent), Reply::Received(received)) => {
                Ok(Row::new(policy, round, &sent, &received))
            }
            (Reply::Sent(_), _) => Err(self.receiver.confused()),
            _ => Err(self.sender.confused()),
        }
    }
}
