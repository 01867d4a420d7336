//! `tautline send`: sends the messages of files to an echo, compares what comes back, and prints what
//! it cost.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use hdrhistogram::Histogram;
use serde_json::json;
use tautline::control::{ArmReport, BudgetRate, PolicyConfig};
use tautline::corpus::{Corpus, Format};
use tautline::session::{Limits, SessionConfig, SessionStats, StreamConfig, StreamStats};
use tautline::transport::{Address, Connection, Node, NodeConfig, Stream};
use tautline::units::CpuLoad;
use tokio::sync::Semaphore;

use crate::events::EventLogArguments;
use crate::explain::{self, Explain};
use crate::failure::{Failure, say};
use crate::rate::Rate;
use crate::text;
use crate::tls::TlsArguments;
use crate::trace::{self, Trace};

/// Round trips are told apart up to an hour.
const MAX_RTT_MICROS: u64 = 3_600_000_000;

#[derive(Debug, Args)]
pub(crate) struct SendArguments {
    /// Where the echo listens: HOST:PORT, tls:HOST:PORT, quic:HOST:PORT or unix:PATH.
    #[arg(long, default_value = "127.0.0.1:7000")]
    connect: Address,
    /// Files or directories of messages.
    #[arg(long, required = true, num_args = 1..)]
    corpus: Vec<PathBuf>,
    /// msgs, lines, jsonl, json, dir, pcap or pcapng; found out from the content by default.
    #[arg(long)]
    format: Option<Format>,
    /// Messages a second, or bits a second with a unit: 500, 64kbit, 10Mbit. As fast as they are
    /// echoed by default.
    #[arg(long)]
    rate: Option<Rate>,
    /// cost, majority, `round_robin`, none, or a codec such as zstd:3.
    #[arg(long, default_value = "cost")]
    policy: PolicyConfig,
    /// Messages on their way at once; 1 measures round trips without a queue.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    in_flight: u32,
    /// How often each file is sent.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Do not limit codec time by the processor load.
    #[arg(long)]
    no_guard: bool,
    #[command(flatten)]
    event_log: EventLogArguments,
    /// Say what the policy expects of each codec and level for a block like the latest, and why it
    /// takes it or not: those that come near the one taken, or =all. With --json always all.
    #[arg(
        long,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "near"
    )]
    explain: Option<Explain>,
    /// Write each decision to this file as a line of JSON, while it runs; - is stdout, where all
    /// else is then JSON too.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// One JSON object a file, and one for all.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tls: TlsArguments,
    /// The name to look for in the echo's certificate, if not the host of its address.
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
}

/// What the messages of one file did.
struct Report {
    name: String,
    messages: u64,
    bytes: u64,
    time: Duration,
    wire: u64,
    rtts: Histogram<u64>,
    stream: StreamStats,
    session: SessionStats,
}

pub(crate) async fn run(mut arguments: SendArguments) -> Result<(), Failure> {
    arguments.json |= arguments.trace.as_deref().is_some_and(trace::is_stdout);
    let corpora = arguments
        .corpus
        .iter()
        .map(|file| Corpus::read(file, arguments.format))
        .collect::<Result<Vec<_>, _>>()?;
    let longest = corpora
        .iter()
        .flat_map(Corpus::messages)
        .map(Bytes::len)
        .max()
        .unwrap_or(0);
    let mut trace = arguments.trace.as_deref().map(Trace::create).transpose()?;
    let session = SessionConfig::default()
        .policy(arguments.policy)
        .trace(trace.is_some())
        .limits(Limits::default().max_message(longest.max(16 << 20)));
    let mut config = NodeConfig::default().session(session);
    if arguments.no_guard {
        config = config.guard(None);
    }
    if let Some(log) = arguments.event_log.open()? {
        config = config.event_log(log);
    }
    let name = arguments.tls_name.as_deref();
    let config = arguments.tls.connecting(&arguments.connect, name, config)?;
    let node = Node::new(config)?;
    let connection = node.connect(&arguments.connect).await?;
    node.budget_settled().await;

    let mut all = Vec::new();
    let mut interrupted = false;
    for corpus in &corpora {
        let (report, result) = send_corpus(&connection, corpus, &arguments, trace.as_mut()).await?;
        report.print(&arguments)?;
        all.push(report);
        match result {
            Ok(()) => {}
            Err(Failure::Interrupted) => {
                interrupted = true;
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    let stats = connection.stats().await.unwrap_or_default();
    print_total(&all, &stats, &arguments)?;
    if interrupted {
        return Err(Failure::Interrupted);
    }
    connection.close().await?;
    Ok(())
}

/// Messages sent and not yet echoed, with the time that each was due.
type Waiting = Mutex<VecDeque<(Instant, Bytes)>>;

/// Sends one file's messages; what was done, and whether all of it was.
async fn send_corpus(
    connection: &Connection,
    corpus: &Corpus,
    arguments: &SendArguments,
    mut trace: Option<&mut Trace>,
) -> Result<(Report, Result<(), Failure>), Failure> {
    let stream = connection
        .open(corpus.name(), StreamConfig::default())
        .await?;
    let before = connection.stats().await.unwrap_or_default();
    let waiting = Waiting::default();
    let room = Semaphore::new(arguments.in_flight as usize);
    let total = corpus.messages().len() as u64 * u64::from(arguments.repeat);
    let mut rtts = Histogram::new_with_bounds(1, MAX_RTT_MICROS, 3)?;
    let mut counts = (0, 0);
    let mut reports = Vec::new();
    let began = now();
    let mut result = tokio::select! {
        sent = send_all(&stream, corpus, arguments, &waiting, &room) => match sent {
            // Sending has ended first: only with an error.
            Err(failure) => Err(failure),
            Ok(never) => match never {},
        },
        received = receive_all(&stream, total, &waiting, &room, &mut rtts, &mut counts) => received,
        never = explain(arguments, &stream, &mut reports) => match never {},
        traced = follow(trace.as_deref_mut(), connection) => match traced {
            Err(failure) => Err(failure),
            Ok(never) => match never {},
        },
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    };
    let time = began.elapsed();
    if let Some(trace) = trace {
        let traced = trace.catch_up(connection).await;
        result = result.and(traced);
    }
    let after = connection.stats().await.unwrap_or_default();
    let (messages, bytes) = counts;
    let mut stream = stream.stats().await.unwrap_or_default();
    if !reports.is_empty() {
        stream.reports = reports;
    }
    let report = Report {
        name: corpus.name().to_owned(),
        messages,
        bytes,
        time,
        wire: after.wire_sent.saturating_sub(before.wire_sent),
        rtts,
        stream,
        session: after,
    };
    Ok((report, result))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program measures what the user sees"
)]
fn now() -> Instant {
    Instant::now()
}

/// Keeps the latest explanation, if that is asked for.
async fn explain(
    arguments: &SendArguments,
    stream: &Stream,
    kept: &mut Vec<ArmReport>,
) -> std::convert::Infallible {
    if arguments.explain.is_some() {
        explain::follow(stream, kept).await
    } else {
        std::future::pending().await
    }
}

/// Writes what is decided, if that is asked for.
async fn follow(
    trace: Option<&mut Trace>,
    connection: &Connection,
) -> Result<std::convert::Infallible, Failure> {
    match trace {
        Some(trace) => trace.follow(connection).await,
        None => std::future::pending().await,
    }
}

/// Sends all messages and then waits forever: the echoes decide when it is over.
async fn send_all(
    stream: &Stream,
    corpus: &Corpus,
    arguments: &SendArguments,
    waiting: &Waiting,
    room: &Semaphore,
) -> Result<std::convert::Infallible, Failure> {
    let mut due = now();
    for _ in 0..arguments.repeat {
        for message in corpus.messages() {
            let mut started = now();
            if let Some(rate) = arguments.rate {
                if due > started {
                    tokio::time::sleep_until(due.into()).await;
                }
                // A message that could not leave in time has waited since it was due.
                started = due;
                due += rate.gap(message.len());
            }
            room.acquire().await?.forget();
            if arguments.rate.is_none() {
                started = now();
            }
            lock(waiting).push_back((started, message.clone()));
            stream.send(message.clone()).await?;
        }
    }
    std::future::pending().await
}

async fn receive_all(
    stream: &Stream,
    total: u64,
    waiting: &Waiting,
    room: &Semaphore,
    rtts: &mut Histogram<u64>,
    counts: &mut (u64, u64),
) -> Result<(), Failure> {
    while counts.0 < total {
        let Some(echo) = stream.recv().await? else {
            return Err(Failure::Error(format!(
                "the echo ended after {} of {total} messages",
                counts.0
            )));
        };
        let Some((started, sent)) = lock(waiting).pop_front() else {
            return Err(Failure::Error(
                "an echo of nothing that was sent".to_owned(),
            ));
        };
        if echo.payload != sent {
            return Err(Failure::Error(format!(
                "message {} came back changed: {} bytes were sent, {} came",
                counts.0,
                sent.len(),
                echo.payload.len()
            )));
        }
        rtts.saturating_record(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        counts.0 += 1;
        counts.1 += sent.len() as u64;
        room.add_permits(1);
    }
    Ok(())
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, VecDeque<(Instant, Bytes)>> {
    waiting
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Report {
    fn print(&self, arguments: &SendArguments) -> Result<(), Failure> {
        let seconds = self.time.as_secs_f64();
        let ratio = (self.wire > 0).then(|| self.bytes as f64 / self.wire as f64);
        let quantile = |quantile| Duration::from_micros(self.rtts.value_at_quantile(quantile));
        let max = Duration::from_micros(self.rtts.max());
        if arguments.json {
            let arms: serde_json::Map<_, _> = self
                .stream
                .arms
                .iter()
                .map(|arm| {
                    let cost = json!({
                        "messages": arm.messages, "blocks": arm.blocks, "plain_bytes": arm.plain_bytes,
                        "wire_bytes": arm.wire_bytes, "encode_ns": arm.encode_nanos,
                    });
                    (arm.arm.to_string(), cost)
                })
                .collect();
            let mut row = json!({
                "corpus": self.name, "messages": self.messages, "plain_bytes": self.bytes,
                "wire_bytes": self.wire, "ratio": ratio, "seconds": seconds,
                "p50_us": quantile(0.5).as_micros() as u64, "p99_us": quantile(0.99).as_micros() as u64,
                "max_us": max.as_micros() as u64, "arms": arms,
                "not_smaller": self.stream.not_smaller, "out_of_budget": self.stream.out_of_budget,
                "switches": self.stream.switches, "regret_ns": self.stream.regret.as_nanos() as u64,
            });
            if arguments.explain.is_some() {
                row["explain"] = explain::json(&self.stream.reports);
                row["block_len"] = json!(self.stream.block_len);
            }
            return say!("{row}");
        }
        say!("{}", self.name)?;
        say!(
            "  {} messages, {} echoed and equal",
            self.messages,
            text::bytes(self.bytes)
        )?;
        say!(
            "  {} on the wire, {}, in {} ({:.0} messages/s)",
            text::bytes(self.wire),
            text::ratio(ratio),
            text::time(self.time),
            self.messages as f64 / seconds.max(1e-9)
        )?;
        let (median, tail) = (quantile(0.5), quantile(0.99));
        say!(
            "  round trip p50 {}, p99 {}, max {}",
            text::time(median),
            text::time(tail),
            text::time(max)
        )?;
        say!("  carried by {}", text::shares(&self.stream.arms, 4))?;
        if let Some((arm, reason)) = self.stream.latest {
            say!("  the last block: {arm}, {reason}")?;
        }
        if self.stream.out_of_budget > 0 {
            say!(
                "  {} blocks were left as they are: the codec budget was spent",
                self.stream.out_of_budget
            )?;
        }
        if let Some(which) = arguments.explain {
            explain::print(which, arguments.policy, &self.stream)?;
            explain::print_path(&self.session, self.stream.regret, self.stream.switches)?;
        }
        Ok(())
    }
}

fn print_total(
    all: &[Report],
    stats: &SessionStats,
    arguments: &SendArguments,
) -> Result<(), Failure> {
    let messages: u64 = all.iter().map(|report| report.messages).sum();
    let bytes: u64 = all.iter().map(|report| report.bytes).sum();
    let wire: u64 = all.iter().map(|report| report.wire).sum();
    let link = stats
        .link_rate
        .map_or_else(|| "not known".to_owned(), |rate| rate.to_string());
    if arguments.json {
        return say!(
            "{}",
            json!({
                "total": { "messages": messages, "plain_bytes": bytes, "wire_bytes": wire },
                "rtt_us": stats.rtt.map(|rtt| rtt.as_micros() as u64),
                "link_bits_per_sec": stats.link_rate.map(|rate| rate.get() * 8.0),
                "encode_ns": stats.encode_nanos, "decode_ns": stats.decode_nanos,
                "budget_ns_per_sec": stats.budget.map(BudgetRate::as_nanos_per_sec),
                "peer_load": stats.peer_load.map(CpuLoad::get), "shadows": stats.shadows, "shadow_ns": stats.shadow_nanos,
            })
        );
    }
    say!(
        "all: {messages} messages, {} as {} on the wire; round trip {}, link {link}",
        text::bytes(bytes),
        text::bytes(wire),
        text::time(stats.rtt.unwrap_or_default())
    )?;
    if arguments.explain.is_some() {
        if all.len() > 1 {
            let regret = all.iter().map(|report| report.stream.regret).sum();
            let switches = all.iter().map(|report| report.stream.switches).sum();
            explain::print_path(stats, regret, switches)?;
        }
        say!(
            "  {} encodes beside the way, to learn of other arms, {} in all",
            stats.shadows,
            text::time(Duration::from_nanos(stats.shadow_nanos))
        )?;
    }
    Ok(())
}
