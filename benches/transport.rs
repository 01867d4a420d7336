//! What the transport costs with compression out of the way (policy `none`), against tokio-util's
//! `LengthDelimitedCodec` over the same kind of socket, in the same run.
//!
//! Echo round trips and one-way messages a second, over TCP on loopback, client and server each on
//! a runtime and thread of its own. Rounds of the contestants are interleaved and every ratio is the
//! median of the ratios of rounds that ran next to each other, since machines are noisy.
//!
//! `cargo bench --bench transport [-- --quick] [-- --flavor current|multi] [-- --only echo|oneway]
//! [-- --size BYTES]`

#![expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the clock; the core that is measured does not"
)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::SinkExt;
use hdrhistogram::Histogram;
use tautline::control::PolicyConfig;
use tautline::session::{Limits, SessionConfig, StreamConfig};
use tautline::transport::{Address, Connection, Node, NodeConfig, Stream};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Frames = Framed<TcpStream, LengthDelimitedCodec>;

/// As nodes have it.
const DEFAULT_LONGEST: usize = 16 << 20;
const SIZES: [usize; 5] = [64, 256, 1 << 10, 16 << 10, 64 << 10];
/// Buffers of the baseline, both ways: eight times the default of tokio-util, which is slower.
const FRAMED_BUFFER: usize = 64 << 10;
/// Messages that are given, and taken, at once by who does so.
const AT_ONCE: usize = 64;
/// The message that ends a one-way round; shorter than every size measured.
const END: &[u8] = b"!";

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let plan = Plan::from_args(&args)?;
    for flavor in [Flavor::Current, Flavor::Multi] {
        if plan.flavor.is_none_or(|only| only == flavor) {
            run(flavor, &plan)?;
        }
    }
    Ok(())
}

/// How tokio runs the client and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavor {
    Current,
    Multi,
}

impl Flavor {
    fn runtime(self) -> std::io::Result<Runtime> {
        match self {
            Self::Current => tokio::runtime::Builder::new_current_thread(),
            Self::Multi => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                builder.worker_threads(2);
                builder
            }
        }
        .enable_all()
        .build()
    }
}

/// How much is measured.
#[derive(Clone, Debug)]
struct Plan {
    rounds: usize,
    echoes: usize,
    /// Messages of a one-way round, and the bytes that they have at most.
    messages: usize,
    bytes: usize,
    flavor: Option<Flavor>,
    only: Option<String>,
    size: Option<usize>,
}

impl Plan {
    fn from_args(args: &[String]) -> Result<Self, Error> {
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let value = |flag: &str| {
            let at = args.iter().position(|arg| arg == flag)?;
            args.get(at + 1).cloned()
        };
        // Cargo says `--bench` to measure; without it, this is only to show that it runs.
        let (rounds, echoes, messages, bytes) = if has("--test") || !has("--bench") {
            (1, 10, 100, 1 << 20)
        } else if has("--quick") {
            (3, 500, 100_000, 32 << 20)
        } else {
            (9, 1500, 400_000, 256 << 20)
        };
        Ok(Self {
            rounds,
            echoes,
            messages,
            bytes,
            flavor: match value("--flavor").as_deref() {
                None => None,
                Some("current") => Some(Flavor::Current),
                Some("multi") => Some(Flavor::Multi),
                Some(other) => return Err(format!("no flavor {other}").into()),
            },
            only: value("--only"),
            size: value("--size").map(|size| size.parse()).transpose()?,
        })
    }

    /// The longest message that is sent, or what is allowed by default: with others, windows are others too.
    fn longest(&self) -> usize {
        self.size.unwrap_or(0).max(DEFAULT_LONGEST)
    }

    fn wants(&self, what: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == what)
    }
}

fn run(flavor: Flavor, plan: &Plan) -> Result<(), Error> {
    let (send_addresses, addresses) = mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    // Named, so that a profile tells the two apart.
    let server = thread::Builder::new().name("server".into());
    let longest = plan.longest();
    let server = server.spawn(move || -> Result<(), Error> {
        flavor.runtime()?.block_on(async move {
            let listeners = Servers::start(longest).await?;
            send_addresses.send(listeners)?;
            let _ = stopped.await;
            Ok(())
        })
    })?;
    let addresses = addresses.recv()?;
    let plan = plan.clone();
    let runtime = flavor.runtime()?;
    runtime.block_on(async move {
        // On the pool's own threads, where the runtime has any.
        tokio::spawn(async move { measure(flavor, &plan, &addresses).await }).await?
    })?;
    drop(stop);
    server.join().map_err(|_| "the server has panicked")?
}

// ---- servers

/// Where the servers listen.
#[derive(Clone, Debug)]
struct Servers {
    framed: SocketAddr,
    plain: Address,
    checked: Address,
    longest: usize,
}

fn node(checksums: bool, longest: usize) -> Result<Node, Error> {
    let session = SessionConfig::default()
        .limits(Limits::default().max_message(longest))
        .policy(PolicyConfig::None)
        .checksums(checksums);
    Ok(Node::new(
        NodeConfig::default().session(session).guard(None),
    )?)
}

impl Servers {
    async fn start(longest: usize) -> Result<Self, Error> {
        Ok(Self {
            framed: serve_framed(longest).await?,
            plain: serve_tautline(false, longest).await?,
            checked: serve_tautline(true, longest).await?,
            longest,
        })
    }
}

async fn serve_tautline(checksums: bool, longest: usize) -> Result<Address, Error> {
    let listener = node(checksums, longest)?
        .listen(&"127.0.0.1:0".parse()?)
        .await?;
    let address = listener.local_address()?;
    tokio::spawn(async move {
        while let Ok(connection) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(Some(stream)) = connection.accept().await {
                    match stream.name() {
                        "echo" => tokio::spawn(echo_stream(stream)),
                        "fed" => tokio::spawn(sink_messages(stream)),
                        "many" => tokio::spawn(sink_many(stream)),
                        _ => tokio::spawn(sink_stream(stream)),
                    };
                }
            });
        }
    });
    Ok(address)
}

async fn echo_stream(stream: Stream) {
    while let Ok(Some(message)) = stream.recv().await {
        if stream.send(message.payload).await.is_err() {
            break;
        }
    }
}

async fn sink_stream(stream: Stream) {
    while let Ok(Some(message)) = stream.recv().await {
        if message.payload == END && stream.send(Bytes::from_static(END)).await.is_err() {
            break;
        }
    }
}

async fn sink_messages(stream: Stream) {
    let mut messages = stream.messages();
    while let Some(Ok(message)) = next(&mut messages).await {
        if message.payload == END && stream.send(Bytes::from_static(END)).await.is_err() {
            break;
        }
    }
}

async fn sink_many(stream: Stream) {
    let mut messages = Vec::new();
    while stream
        .recv_many(&mut messages, AT_ONCE)
        .await
        .is_ok_and(|count| count > 0)
    {
        for message in messages.drain(..) {
            if message.payload == END && stream.send(Bytes::from_static(END)).await.is_err() {
                return;
            }
        }
    }
}

fn framed(socket: TcpStream, longest: usize) -> std::io::Result<Frames> {
    socket.set_nodelay(true)?;
    let codec = LengthDelimitedCodec::builder()
        .max_frame_length(longest)
        .new_codec();
    let mut frames = Framed::with_capacity(socket, codec, FRAMED_BUFFER);
    frames.set_backpressure_boundary(FRAMED_BUFFER);
    Ok(frames)
}

/// What comes next of a stream of the `futures` crates.
async fn next<S: futures_util::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_next(cx)).await
}

async fn serve_framed(longest: usize) -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut frames) = framed(socket, longest) else {
                continue;
            };
            tokio::spawn(async move {
                let Some(Ok(mode)) = next(&mut frames).await else {
                    return;
                };
                let echoes = &mode[..] == b"echo";
                while let Some(Ok(frame)) = next(&mut frames).await {
                    if (echoes || &frame[..] == END) && frames.send(frame.freeze()).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    Ok(address)
}

// ---- contestants

/// How messages are given to a stream, and taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// One by one: `send` and `recv`.
    Each,
    /// As to and from a framed socket: `sink` and `messages`.
    Fed,
    /// [`AT_ONCE`]: `send_many` and `recv_many`.
    Many,
}

/// One who carries messages.
enum Contestant {
    Framed(Box<Frames>),
    Tautline {
        stream: Stream,
        way: Way,
        _keep: Connection,
    },
}

impl Contestant {
    async fn framed(servers: &Servers, mode: &'static str) -> Result<Self, Error> {
        let socket = TcpStream::connect(servers.framed).await?;
        let mut frames = framed(socket, servers.longest)?;
        frames.send(Bytes::from_static(mode.as_bytes())).await?;
        Ok(Self::Framed(Box::new(frames)))
    }

    async fn tautline(servers: &Servers, checksums: bool, mode: &str) -> Result<Self, Error> {
        let address = if checksums {
            &servers.checked
        } else {
            &servers.plain
        };
        let connection = node(checksums, servers.longest)?.connect(address).await?;
        let stream = connection.open(mode, StreamConfig::default()).await?;
        Ok(Self::Tautline {
            stream,
            way: match mode {
                "fed" => Way::Fed,
                "many" => Way::Many,
                _ => Way::Each,
            },
            _keep: connection,
        })
    }

    async fn all(servers: &Servers, mode: &'static str) -> Result<[Self; 3], Error> {
        Ok([
            Self::framed(servers, mode).await?,
            Self::tautline(servers, false, mode).await?,
            Self::tautline(servers, true, mode).await?,
        ])
    }

    /// Sends a message at once and waits for one.
    async fn exchange(&mut self, message: Bytes) -> Result<(), Error> {
        let len = message.len();
        let received = match self {
            Self::Framed(frames) => {
                frames.send(message).await?;
                next(frames.as_mut())
                    .await
                    .ok_or("the server has left")??
                    .len()
            }
            Self::Tautline { stream, .. } => {
                stream.send(message).await?;
                let received = stream.recv().await?.ok_or("the server has left")?;
                received.payload.len()
            }
        };
        assert_eq!(received, len, "the message that came back is another one");
        Ok(())
    }

    async fn one_way(&mut self, message: &Bytes, count: usize) -> Result<(), Error> {
        match self {
            Self::Framed(frames) => {
                for _ in 0..count {
                    frames.feed(message.clone()).await?;
                }
                SinkExt::<Bytes>::flush(frames.as_mut()).await?;
            }
            Self::Tautline { stream, way, .. } => match way {
                Way::Each => {
                    for _ in 0..count {
                        stream.send(message.clone()).await?;
                    }
                }
                Way::Fed => {
                    let mut sink = stream.sink();
                    for _ in 0..count {
                        sink.feed(message.clone()).await?;
                    }
                    sink.flush().await?;
                }
                Way::Many => {
                    let mut left = count;
                    let mut messages = VecDeque::new();
                    while left > 0 {
                        let some = left.min(AT_ONCE);
                        messages.extend(std::iter::repeat_n(message, some).cloned());
                        stream.send_many(&mut messages).await?;
                        left -= some;
                    }
                }
            },
        }
        self.exchange(Bytes::from_static(END)).await
    }
}

// ---- measuring

/// What a round of one contestant has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Echo {
    p50: f64,
    p99: f64,
}

async fn measure(flavor: Flavor, plan: &Plan, servers: &Servers) -> Result<(), Error> {
    let sizes = plan.size.map_or(SIZES.to_vec(), |size| vec![size]);
    println!("\n### {flavor:?} thread runtimes, {} rounds\n", plan.rounds);
    if plan.wants("echo") {
        println!(
            "| echo, bytes | framed p50, µs | p99 | tautline p50 | p99 | with checksums p50 | p99 | p50 ratio | with checksums | p99 ratio |"
        );
        println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        let mut contestants = Contestant::all(servers, "echo").await?;
        for size in &sizes {
            echo(plan, *size, &mut contestants).await?;
        }
        println!();
    }
    if plan.wants("oneway") {
        println!(
            "| one way, bytes | framed, 1000/s | fed | with checksums | each sent | with checksums | {AT_ONCE} at once | fed, ratio | with checksums | each sent | with checksums | {AT_ONCE} at once |"
        );
        println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        let mut contestants = [
            Contestant::framed(servers, "sink").await?,
            Contestant::tautline(servers, false, "fed").await?,
            Contestant::tautline(servers, true, "fed").await?,
            Contestant::tautline(servers, false, "sink").await?,
            Contestant::tautline(servers, true, "sink").await?,
            Contestant::tautline(servers, true, "many").await?,
        ];
        for size in &sizes {
            one_way(plan, *size, &mut contestants).await?;
        }
    }
    Ok(())
}

async fn echo(plan: &Plan, size: usize, contestants: &mut [Contestant; 3]) -> Result<(), Error> {
    let message = Bytes::from(vec![7; size]);
    let mut rounds = Vec::new();
    // Round 0 warms up.
    for round in 0..=plan.rounds {
        let mut results = [Echo::default(); 3];
        for at in order::<3>(round) {
            let contestant = &mut contestants[at];
            let mut histogram = Histogram::<u64>::new_with_bounds(100, 10_000_000_000, 3)?;
            for _ in 0..plan.echoes {
                let started = Instant::now();
                contestant.exchange(message.clone()).await?;
                histogram.saturating_record(nanos(started.elapsed()));
            }
            results[at] = Echo {
                p50: histogram.value_at_quantile(0.5) as f64 / 1e3,
                p99: histogram.value_at_quantile(0.99) as f64 / 1e3,
            };
        }
        if round > 0 {
            rounds.push(results);
        }
    }
    let p50 = |at: usize| median(rounds.iter().map(|round| round[at].p50));
    let p99 = |at: usize| median(rounds.iter().map(|round| round[at].p99));
    println!(
        "| {size} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} |",
        p50(0),
        p99(0),
        p50(1),
        p99(1),
        p50(2),
        p99(2),
        median(rounds.iter().map(|round| round[1].p50 / round[0].p50)),
        median(rounds.iter().map(|round| round[2].p50 / round[0].p50)),
        median(rounds.iter().map(|round| round[1].p99 / round[0].p99)),
    );
    Ok(())
}

async fn one_way(plan: &Plan, size: usize, contestants: &mut [Contestant; 6]) -> Result<(), Error> {
    let message = Bytes::from(vec![7; size]);
    let count = plan.messages.min(plan.bytes / size).max(1);
    let mut rounds = Vec::new();
    for round in 0..=plan.rounds {
        let mut results = [0.0; 6];
        for at in order::<6>(round) {
            let started = Instant::now();
            contestants[at].one_way(&message, count).await?;
            results[at] = count as f64 / started.elapsed().as_secs_f64() / 1e3;
        }
        if round > 0 {
            rounds.push(results);
        }
    }
    let rate = |at: usize| median(rounds.iter().map(|round| round[at]));
    let ratio = |at: usize| median(rounds.iter().map(|round| round[at] / round[0]));
    print!("| {size} |");
    (0..6).for_each(|at| print!(" {:.1} |", rate(at)));
    (1..6).for_each(|at| print!(" {:.2} |", ratio(at)));
    println!();
    Ok(())
}

/// Whose turn it is: forwards in one round, backwards in the next.
fn order<const N: usize>(round: usize) -> [usize; N] {
    std::array::from_fn(|at| if round % 2 == 0 { at } else { N - 1 - at })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
