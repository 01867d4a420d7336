//! How long a connection keeps an executor's thread from its other tasks. A watchdog is always ready to run, so that between two of its turns each of
//! the others had one at most; it says for how much processor time of the thread. One row for each end: a way of sending, over TCP on loopback, sender and
//! receiver each on an executor of one thread, whose codec workers are beside it.
//!
//! Processor time, not time: who else had the processor is not the connection's doing. To look costs the watchdog some 0.3 µs a turn, which is in it.
//!
//! `cargo bench --bench stalls [-- --quick]` (Linux)

#![cfg(target_os = "linux")]

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tautline::control::PolicyConfig;
use tautline::session::{SessionConfig, StreamConfig};
use tautline::transport::{Address, Node, NodeConfig, Stream};
use tokio::runtime::Runtime;

#[path = "support/log_lines.rs"]
mod log_lines;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The message that asks whether all is there; shorter than the others.
const END: &[u8] = b"!";

struct Way {
    policy: &'static str,
    block_len: usize,
    message_len: usize,
    /// Of random bytes, instead of log lines.
    is_random: bool,
}

const fn way(policy: &'static str, block_len: usize, message_len: usize) -> Way {
    Way {
        policy,
        block_len,
        message_len,
        is_random: false,
    }
}

const WAYS: [Way; 13] = [
    way("none", 64 << 10, 200),
    way("none", 64 << 10, 64 << 10),
    way("none", 256 << 10, 1 << 20),
    way("lz4", 64 << 10, 200),
    way("lz4", 256 << 10, 256 << 10),
    way("zstd:1", 64 << 10, 200),
    way("zstd:3+history", 64 << 10, 200),
    way("zstd:19", 256 << 10, 256 << 10),
    way("xz:6", 256 << 10, 256 << 10),
    way("cost", 64 << 10, 200),
    way("cost", 64 << 10, 64 << 10),
    way("cost", 64 << 10, 4 << 20),
    Way {
        is_random: true,
        ..way("cost", 64 << 10, 64 << 10)
    },
];

fn main() -> Result<(), Error> {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    // Cargo says `--bench` to measure; without it, this is only to show that it runs.
    let time = if has("--test") || !has("--bench") {
        Duration::from_millis(20)
    } else if has("--quick") {
        Duration::from_millis(300)
    } else {
        Duration::from_secs(2)
    };
    println!(
        "The turn that a moment of the thread's processor time is in, us: median, 99 %, 99.9 %, the longest"
    );
    println!(
        "{:<46} {:<8} {:>9} {:>8} {:>8} {:>8} {:>9}",
        "way", "end", "turns", "p50", "p99", "p99.9", "longest"
    );
    for way in &WAYS {
        let [sender, receiver] = measure(way, time)?;
        let what = if way.is_random { "random" } else { "text" };
        let name = format!(
            "{}, {} of {} B, blocks of {} KiB",
            way.policy,
            what,
            way.message_len,
            way.block_len >> 10
        );
        print(&name, "sender", sender);
        print("", "receiver", receiver);
    }
    Ok(())
}

fn print(name: &str, end: &str, mut gaps: Vec<u64>) {
    gaps.sort_unstable();
    let total: u64 = gaps.iter().sum();
    let of_time = |share: f64| {
        let mut left = total as f64 * share;
        let found = gaps.iter().find(|nanos| {
            left -= **nanos as f64;
            left <= 0.0
        });
        found.copied().unwrap_or(0) as f64 / 1e3
    };
    println!(
        "{name:<46} {end:<8} {:>9} {:>8.1} {:>8.1} {:>8.1} {:>9.1}",
        gaps.len(),
        of_time(0.5),
        of_time(0.99),
        of_time(0.999),
        of_time(1.0),
    );
}

fn processor_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The processor time of this thread between its turns, ns, until it is to stop.
async fn watch(stop: Arc<AtomicBool>) -> Vec<u64> {
    let mut gaps = Vec::with_capacity(1 << 23);
    let mut last = processor_nanos();
    poll_fn(|context| {
        let now = processor_nanos();
        if gaps.len() < gaps.capacity() {
            gaps.push(now - last);
        }
        if stop.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        // Behind all who are ready now, unlike a task that yields, which waits until nobody is.
        context.waker().wake_by_ref();
        last = processor_nanos();
        Poll::Pending
    })
    .await;
    gaps
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn node(way: &Way) -> Result<Node, Error> {
    let session = SessionConfig::default()
        .policy(way.policy.parse::<PolicyConfig>()?)
        .block_len(way.block_len);
    Ok(Node::new(
        NodeConfig::default().session(session).guard(None),
    )?)
}

/// The gaps at the sender and at the receiver.
fn measure(way: &'static Way, time: Duration) -> Result<[Vec<u64>; 2], Error> {
    let (send_address, address) = mpsc::channel::<Address>();
    let receiver = thread::spawn(move || -> Result<Vec<u64>, Error> {
        runtime()?.block_on(async move {
            let listener = node(way)?.listen(&"127.0.0.1:0".parse()?).await?;
            send_address.send(listener.local_address()?)?;
            let connection = listener.accept().await?;
            let stream = connection.accept().await?.ok_or("a stream is wanted")?;
            let stop = Arc::new(AtomicBool::new(false));
            let watchdog = tokio::spawn(watch(Arc::clone(&stop)));
            while let Some(message) = stream.recv().await? {
                if message.payload == END {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            let gaps = watchdog.await?;
            stream.send(Bytes::from_static(END)).await?;
            connection.closed().await.ok();
            Ok(gaps)
        })
    });
    let address = address.recv()?;
    let sender = runtime()?.block_on(async move {
        let connection = node(way)?.connect(&address).await?;
        let stream = connection.open("s", StreamConfig::default()).await?;
        let content = content(way);
        let stop = Arc::new(AtomicBool::new(false));
        let watchdog = tokio::spawn(watch(Arc::clone(&stop)));
        let sending = tokio::spawn(send(stream, content, way, time));
        let stream = sending.await??;
        stop.store(true, Ordering::Relaxed);
        let gaps = watchdog.await?;
        stream.send(Bytes::from_static(END)).await?;
        stream.recv().await?;
        connection.close().await.ok();
        Ok::<_, Error>(gaps)
    })?;
    let receiver = receiver.join().map_err(|_| "the receiver has panicked")??;
    Ok([sender, receiver])
}

fn content(way: &Way) -> Bytes {
    const LEN: usize = 8 << 20;
    if way.is_random {
        let mut bytes = vec![0; LEN];
        fastrand::Rng::with_seed(1).fill(&mut bytes);
        bytes.into()
    } else {
        log_lines::log_lines(LEN, 1).into()
    }
}

async fn send(stream: Stream, content: Bytes, way: &Way, time: Duration) -> Result<Stream, Error> {
    let until = tokio::time::Instant::now() + time;
    let mut at = 0;
    while tokio::time::Instant::now() < until {
        if at + way.message_len > content.len() {
            at = 0;
        }
        stream.send(content.slice(at..at + way.message_len)).await?;
        at += way.message_len;
    }
    Ok(stream)
}
