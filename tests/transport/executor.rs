//! Who runs the codecs, and when they may run.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::{Arm, CodecId, info};
use tautline::control::{CpuGuardConfig, LoadSource, PolicyConfig};
use tautline::session::{SessionConfig, StreamStats};
use tautline::transport::load::LoadReader;
use tautline::transport::{Node, NodeConfig, Stream};
use tautline::units::CpuLoad;

use super::support::{Pair, accept, listen, next, node, numbered, open, within};

/// Text that compresses, and not too fast.
fn text(len: usize) -> Bytes {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut bytes = Vec::with_capacity(len + 20);
    while bytes.len() < len {
        bytes.extend_from_slice(format!("{} ", rng.u32(..100_000)).as_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

/// Sends a message so many times, and receives it as often.
async fn pass(left: &Stream, right: &Stream, message: &Bytes, times: u64) {
    let sending = async {
        for _ in 0..times {
            within(left.send(message.clone())).await.expect("room");
        }
    };
    let receiving = async {
        for _ in 0..times {
            assert!(next(right).await.as_ref() == Some(message));
        }
    };
    tokio::join!(sending, receiving);
}

/// Heavy codecs run beside the executor: a task that ticks goes on ticking while a block is with
/// one. Were it run on the executor's only thread, there would be about one tick a block.
#[tokio::test(flavor = "current_thread")]
async fn the_executor_goes_on_while_heavy_codecs_work() {
    const BLOCKS: u64 = 10;
    const LEN: usize = 256 << 10;
    for (codec, level) in [(CodecId::ZSTD, 19), (CodecId::XZ, 9), (CodecId::BZIP2, 9)] {
        if info(codec).is_none() {
            continue;
        }
        let session = SessionConfig::default()
            .policy(PolicyConfig::Fixed(Arm::new(codec, level)))
            .block_len(LEN);
        let pair = Pair::tcp(session).await;
        let (left, right) = pair.stream().await;
        let ticks = Arc::new(AtomicU64::new(0));
        let ticking = tokio::spawn({
            let ticks = Arc::clone(&ticks);
            async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    ticks.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let message = text(LEN);
        pass(&left, &right, &message, BLOCKS).await;
        ticking.abort();
        let stats = within(left.stats()).await.expect("statistics");
        let blocks: u64 = stats.arms.iter().map(|arm| arm.blocks).sum();
        assert!(blocks >= BLOCKS, "{stats:?}");
        let ticks = ticks.load(Ordering::Relaxed);
        assert!(
            ticks >= 3 * blocks,
            "{codec}: {ticks} ticks during {blocks} heavy blocks"
        );
    }
}

/// What a task that is always ready sees of the other tasks of its thread: the processor time of the thread between two of its turns, in which
/// each of them had one at most.
#[cfg(target_os = "linux")]
struct Watchdog {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Vec<Duration>>,
}

#[cfg(target_os = "linux")]
impl Watchdog {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let (mut turns, mut last) = (Vec::new(), processor_time());
            poll_fn(|context| {
                turns.push(processor_time().saturating_sub(last));
                if stopped.load(Ordering::Relaxed) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                last = processor_time();
                Poll::Pending
            })
            .await;
            turns
        });
        Self { stop, task }
    }

    /// From the shortest to the longest.
    async fn stop(self) -> Vec<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let mut turns = within(self.task).await.expect("no panic");
        turns.sort_unstable();
        turns
    }
}

#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().expect("not before the start"),
        time.tv_nsec.try_into().expect("below a second"),
    )
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "current_thread")]
async fn no_turn_of_an_executor_is_as_long_as_a_heavy_block() {
    const BLOCKS: u64 = 6;
    const LEN: usize = 256 << 10;
    if info(CodecId::ZSTD).is_none() {
        return;
    }
    let session = SessionConfig::default()
        .policy(PolicyConfig::Fixed(Arm::new(CodecId::ZSTD, 19)))
        .block_len(LEN);
    let pair = Pair::tcp(session).await;
    let (left, right) = pair.stream().await;
    let message = text(LEN);
    let watchdog = Watchdog::start();
    pass(&left, &right, &message, BLOCKS).await;
    let longest = *watchdog.stop().await.last().expect("turns");
    let stats = within(left.stats()).await.expect("statistics");
    let heavy = stats.arms.iter().find(|arm| arm.arm != Arm::IDENTITY);
    let encode = Duration::from_nanos(heavy.expect("zstd:19").encode_nanos / BLOCKS);
    println!("a block is encoded in {encode:?}, the longest turn took {longest:?}");
    assert!(longest < encode / 8, "{longest:?} of {encode:?}");
}

/// Where there is always room, and all that is written fits the socket, nothing makes a sender wait: it leaves others their turns of its own accord.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "current_thread")]
async fn turns_are_short_beside_a_sender_that_never_stops() {
    const TOTAL: usize = 192 << 20;
    for len in [1000, 64 << 10, 1 << 20] {
        let session = SessionConfig::default().policy(PolicyConfig::None);
        let pair = Pair::tcp(session).await;
        let (left, right) = pair.stream().await;
        let receiving = tokio::spawn(async move {
            for _ in 0..TOTAL / len {
                assert_eq!(next(&right).await.map(|it| it.len()), Some(len));
            }
        });
        let watchdog = Watchdog::start();
        let sending = tokio::spawn(async move {
            let message = Bytes::from(vec![7; len]);
            for _ in 0..TOTAL / len {
                within(left.send(message.clone())).await.expect("room");
            }
            left
        });
        let left = sending.await.expect("no panic");
        receiving.await.expect("all has come");
        drop(left);
        let turns = watchdog.stop().await;
        let all: Duration = turns.iter().sum();
        // The turn that a moment of the processor's time is in, in the median, and for how many bytes that is.
        let mut left_over = all / 2;
        let median = turns.iter().find(|turn| {
            left_over = left_over.saturating_sub(**turn);
            left_over.is_zero()
        });
        let median = *median.expect("turns");
        let bytes = median.as_secs_f64() / all.as_secs_f64() * TOTAL as f64;
        println!(
            "{len} B: {} turns, {median:?} in the median, {bytes:.0} B",
            turns.len()
        );
        assert!(
            bytes < f64::from(1 << 20),
            "{median:?}, {bytes:.0} B a turn"
        );
    }
}

/// Sends messages, one a block, until the statistics are as wanted.
async fn send_until(left: &Stream, right: &Stream, wanted: impl Fn(&StreamStats) -> bool) {
    within(async {
        let mut at = 0;
        loop {
            at += 1;
            left.send(numbered(at, 2000)).await.expect("room");
            assert_eq!(next(right).await, Some(numbered(at, 2000)));
            if wanted(&left.stats().await.expect("statistics")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

fn encoded(stats: &StreamStats) -> u64 {
    let encoded = stats.arms.iter().filter(|arm| arm.arm != Arm::IDENTITY);
    encoded.map(|arm| arm.blocks).sum()
}

#[tokio::test]
async fn the_guard_takes_compression_away_under_load_and_gives_it_back() {
    if info(CodecId::LZ4).is_none() {
        return;
    }
    let reader = LoadReader::open(LoadSource::Supplied, "/".as_ref()).expect("a reader");
    let supply = reader.supply().expect("a supply");
    supply.set(CpuLoad::new(0.1));
    let session = SessionConfig::default().policy(PolicyConfig::Fixed(Arm::new(CodecId::LZ4, 0)));
    let guard = CpuGuardConfig::default().period(Duration::from_millis(5));
    let guarded = NodeConfig::default()
        .session(session.clone())
        .guard(Some(guard))
        .load(reader);
    let guarded = Node::new(guarded).expect("a node");
    let listener = listen(&node(session)).await;
    let address = listener.local_address().expect("an address");
    let (client, server) =
        within(async { tokio::join!(guarded.connect(&address), listener.accept()) }).await;
    let (client, server) = (client.expect("a connection"), server.expect("one"));
    let left = open(&client, "s").await;
    let right = accept(&server).await;

    send_until(&left, &right, |stats| encoded(stats) > 0).await;
    for _ in 0..2 {
        supply.set(CpuLoad::new(1.0));
        within(async {
            while guarded
                .load_and_budget()
                .1
                .is_none_or(|rate| rate.as_nanos_per_sec() > 0)
            {
                left.send(numbered(0, 2000)).await.expect("room");
                next(&right).await.expect("a message");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let before = within(left.stats()).await.expect("statistics");
        // The connection learns of it a little later, and may have saved up some time.
        send_until(&left, &right, |stats| {
            stats.out_of_budget >= before.out_of_budget + 20
        })
        .await;
        let dry = within(left.stats()).await.expect("statistics");
        send_until(&left, &right, |stats| {
            stats.out_of_budget >= dry.out_of_budget + 20
        })
        .await;
        let after = within(left.stats()).await.expect("statistics");
        assert_eq!(encoded(&after), encoded(&dry), "no budget, no codec");

        supply.set(CpuLoad::new(0.1));
        send_until(&left, &right, |stats| encoded(stats) > encoded(&after) + 20).await;
    }
}
