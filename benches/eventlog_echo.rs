//! What event logs cost a transport: echo throughput with none, with one that is off, with all events on, and with a reader beside one that is
//! off, has one event on, every third of the others too, or all (the source's five configurations, Stöß 2005, figure 5.7).
//!
//! Contestants take turns in one run, each with its own two nodes, client and server each on a runtime and thread of its own, over TCP on
//! loopback, each pinned to a processor of its own or both to one, readers too; ratios are of rounds next to each other. Where a contestant lies in memory makes a hundredth either way: they are made anew many times, in another order, and
//! a ratio is the median of those that each making had in the middle.
//!
//! `cargo bench --features eventlog --bench eventlog_echo [-- --quick]`

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark measures time and prints it"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tautline::control::PolicyConfig;
use tautline::eventlog::{EventId, EventLog, Route};
use tautline::session::{SessionConfig, StreamConfig};
use tautline::transport::{Address, Connection, Node, NodeConfig, Stream, events};
use tokio::runtime::Runtime;

#[path = "support/log_lines.rs"]
mod log_lines;
#[path = "support/pin.rs"]
mod pin;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The client's processor. Left to the scheduler, echoes are of two kinds, by whether both ends are on one, and which kind is chance.
const CLIENT: usize = 0;

/// How often a reader looks: as the source's (Stöß 2005, section 5.3).
const PERIOD: Duration = Duration::from_millis(20);

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    /// There is no log.
    None,
    /// There is one, and no event is on.
    Off,
    All,
    /// Nothing is on, and that is read meanwhile.
    ReadOff,
    /// One event of a few for each block, and all rows are read meanwhile.
    ReadBlocks,
    /// .. and every third of all others.
    ReadThird,
    /// .. and all of them.
    Read,
}

const UNREAD: [Recording; 3] = [Recording::None, Recording::Off, Recording::All];
const READ: [Recording; 5] = [
    Recording::None,
    Recording::ReadOff,
    Recording::ReadBlocks,
    Recording::ReadThird,
    Recording::Read,
];

impl Recording {
    /// How often `event` is recorded: every so many times.
    fn every(self, event: EventId) -> Option<u32> {
        match self {
            Self::None | Self::Off | Self::ReadOff => None,
            Self::All | Self::Read => Some(1),
            Self::ReadBlocks => (event == events::BLOCK_WRITTEN).then_some(1),
            Self::ReadThird if event == events::BLOCK_WRITTEN => Some(1),
            Self::ReadThird => Some(3),
        }
    }

    fn is_read(self) -> bool {
        !matches!(self, Self::None | Self::Off | Self::All)
    }
}

/// What is echoed.
struct Traffic {
    name: &'static str,
    len: usize,
    /// Messages under way.
    window: usize,
    policy: PolicyConfig,
}

struct Contestant {
    recording: Recording,
    client: Runtime,
    stream: Stream,
    _connection: Connection,
    log: Option<EventLog>,
}

impl Contestant {
    fn new(recording: Recording, policy: PolicyConfig, server: usize) -> Result<Self, Error> {
        let log = match recording {
            Recording::None => None,
            _ => Some(EventLog::new(&events::config(events::DEFAULT_RING))?),
        };
        for event in events::all() {
            if let (Some(log), Some(every)) = (&log, recording.every(event)) {
                log.route(event, None, Some(Route::to(events::LOG).every(every)))?;
            }
        }
        let config = {
            let log = log.clone();
            move || {
                let session = SessionConfig::default().policy(policy);
                let config = NodeConfig::default().session(session).guard(None);
                match &log {
                    Some(log) => config.event_log(log.clone()),
                    None => config,
                }
            }
        };
        let (address, bound) = mpsc::channel();
        let of_server = config.clone();
        thread::spawn(move || -> Result<(), Error> {
            pin::pin(server);
            runtime()?.block_on(async {
                let node = Node::new(of_server())?;
                let listener = node.listen(&"127.0.0.1:0".parse()?).await?;
                address.send(listener.local_address()?)?;
                let connection = listener.accept().await?;
                let Some(stream) = connection.accept().await? else {
                    return Ok(());
                };
                while let Some(message) = stream.recv().await? {
                    stream.send(message.payload).await?;
                }
                Ok(())
            })
        });
        let address: Address = bound.recv()?;
        let client = runtime()?;
        let (connection, stream) = client.block_on(async {
            let node = Node::new(config())?;
            let connection = node.connect(&address).await?;
            let stream = connection.open("echo", StreamConfig::default()).await?;
            Ok::<_, Error>((connection, stream))
        })?;
        Ok(Self {
            recording,
            client,
            stream,
            _connection: connection,
            log,
        })
    }

    /// Echoes a second.
    fn round(&self, traffic: &Traffic, payloads: &[Bytes], echoes: usize) -> Result<f64, Error> {
        let done = Arc::new(AtomicBool::new(false));
        let reader = match &self.log {
            Some(log) if self.recording.is_read() => {
                let (mut reader, done) = (log.reader(), Arc::clone(&done));
                Some(thread::spawn(move || {
                    let mut rows = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        rows.clear();
                        if reader.pass(&mut rows).is_err() {
                            break;
                        }
                        thread::sleep(PERIOD);
                    }
                    reader.stats().lost
                }))
            }
            _ => None,
        };
        let began = Instant::now();
        let stream = &self.stream;
        self.client.block_on(async {
            let mut under_way = 0;
            for number in 0..echoes {
                stream
                    .send(payloads[number % payloads.len()].clone())
                    .await?;
                under_way += 1;
                while under_way == traffic.window {
                    stream.recv().await?.ok_or("the end came early")?;
                    under_way -= 1;
                }
            }
            while under_way > 0 {
                stream.recv().await?.ok_or("the end came early")?;
                under_way -= 1;
            }
            Ok::<_, Error>(())
        })?;
        let rate = echoes as f64 / began.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        if let Some(reader) = reader {
            reader.join().map_err(|_| "the reader has panicked")?;
        }
        Ok(rate)
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn payloads(len: usize) -> Vec<Bytes> {
    let text = Bytes::from(log_lines::log_lines(64 * len, 7));
    (0..64)
        .map(|number| text.slice(number * len..(number + 1) * len))
        .collect()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How often all is measured.
#[derive(Clone, Copy)]
struct Extent {
    makings: usize,
    rounds: usize,
    seconds: f64,
}

/// A line of a table: how many echoes a second there are with the first of `recordings`, and the others' shares of that.
fn line(
    traffic: &Traffic,
    recordings: &[Recording],
    server: usize,
    extent: Extent,
) -> Result<String, Error> {
    let payloads = payloads(traffic.len);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut plain = Vec::new();
    let mut ratios = vec![Vec::new(); recordings.len()];
    for _ in 0..extent.makings {
        let mut order: Vec<_> = (0..recordings.len()).collect();
        rng.shuffle(&mut order);
        let contestants = order
            .iter()
            .map(|at| Contestant::new(recordings[*at], traffic.policy, server))
            .collect::<Result<Vec<_>, _>>()?;
        // How many echoes that is, once it is warm.
        let mut rate = 0.0;
        for contestant in &contestants {
            rate = contestant.round(traffic, &payloads, extent.warm())?;
        }
        let echoes = (rate * extent.seconds) as usize + traffic.window;
        let mut rates = vec![Vec::new(); recordings.len()];
        let mut turns: Vec<_> = (0..recordings.len()).collect();
        for _ in 0..extent.rounds {
            rng.shuffle(&mut turns);
            for &at in &turns {
                let rate = contestants[at].round(traffic, &payloads, echoes)?;
                rates[order[at]].push(rate);
            }
        }
        for (ratios, rates_of) in ratios.iter_mut().zip(&rates) {
            let pairs = rates_of.iter().zip(&rates[0]);
            let mut of_pairs: Vec<_> = pairs.map(|(with, without)| with / without).collect();
            ratios.push(median(&mut of_pairs));
        }
        plain.append(&mut rates[0]);
    }
    let ratios = ratios.iter_mut().skip(1);
    let ratios: Vec<_> = ratios
        .map(|ratios| format!("{:.3}", median(ratios)))
        .collect();
    Ok(format!(
        "| {} | {} | {:.0} | {} |",
        traffic.name,
        traffic.len,
        median(&mut plain),
        ratios.join(" | "),
    ))
}

impl Extent {
    fn warm(self) -> usize {
        if self.seconds < 0.01 { 10 } else { 2000 }
    }

    fn of(is_test: bool, is_quick: bool, makings: usize) -> Self {
        let (makings, rounds, seconds) = match (is_test, is_quick) {
            (true, _) => (1, 1, 0.005),
            (_, true) => (makings / 3, 5, 0.03),
            _ => (makings, 5, 0.06),
        };
        Self {
            makings,
            rounds,
            seconds,
        }
    }
}

fn main() -> Result<(), Error> {
    pin::pin(CLIENT);
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    let none = PolicyConfig::None;
    let default = PolicyConfig::default();
    let traffic = |name, len, window, policy| Traffic {
        name,
        len,
        window,
        policy,
    };
    let all = [
        traffic("one at a time, plain", 64, 1, none),
        traffic("one at a time, plain", 1024, 1, none),
        traffic("64 under way, plain", 64, 64, none),
        traffic("1000 under way, plain", 64, 1000, none),
        traffic("64 under way, default policy", 1024, 64, default),
    ];
    let unread = "off | all events on";
    let read = "off, read every 20 ms | blocks alone, read | .. and every third of the others, read | all, read";
    let tables: [(&str, usize, &str, &[Recording], usize); 3] = [
        ("each end on a processor of its own", 1, unread, &UNREAD, 40),
        ("both ends on one processor", CLIENT, unread, &UNREAD, 40),
        ("both ends and the reader on one", CLIENT, read, &READ, 15),
    ];
    for (place, server, columns, recordings, makings) in tables {
        let extent = Extent::of(is_test, is_quick, makings);
        let Extent {
            makings,
            rounds,
            seconds,
        } = extent;
        println!(
            "Echoes a second on one connection, {place}, and their share of those without an event log: medians of {makings} times {rounds} rounds of {seconds} s\n"
        );
        println!("| echoes | bytes | without | {columns} |");
        println!("|---|--:{}|", "|--:".repeat(recordings.len()));
        for traffic in &all {
            println!("{}", line(traffic, recordings, server, extent)?);
        }
        println!();
    }
    Ok(())
}
