//! The link, the load and what is sent change under a running connection: the decisions follow, over real sockets.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::Arm;
use tautline::control::{CpuGuardConfig, PolicyConfig};
use tautline::generate::{Content, Generator};
use tautline::relay::{LinkConfig, Relay};
use tautline::session::{Decision, SessionConfig, StreamConfig};
use tautline::transport::load::{LoadReader, LoadSource, LoadSupply};
use tautline::transport::{Connection, Node, NodeConfig, Stream};
use tautline::units::{BytesPerSec, CpuLoad};
use tokio::sync::mpsc;

use crate::support::within;

fn link(mbit: f64) -> LinkConfig {
    LinkConfig {
        // Little of what left before a change is still on its way after it.
        queue: Some(16 << 10),
        ..LinkConfig::with_rate(BytesPerSec::new(mbit * 125_000.0).expect("above zero"))
    }
}

/// Waits until the decisions of a while are as they should be on the link of the moment, and what that is taken for.
async fn follows(connection: &Connection, settled: impl Fn(f64, f64) -> bool) {
    let mut last = (0.0, 0.0);
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let decisions = connection.take_decisions().await.expect("an open session");
        if decisions.len() >= 3 {
            last = summary(&decisions);
            if settled(last.0, last.1) {
                return;
            }
        }
    }
    panic!("not followed: {last:?} Mbit/s, share of heavy arms");
}

/// Mean of what the link was taken for, Mbit/s, and the share of decisions for heavy arms.
fn summary(decisions: &VecDeque<Decision>) -> (f64, f64) {
    let rates: Vec<f64> = decisions
        .iter()
        .filter_map(|decision| decision.link_rate)
        .map(|rate| rate.get() / 125_000.0)
        .collect();
    let heavy = decisions.iter().filter(|decision| is_heavy(decision.arm));
    (
        rates.iter().sum::<f64>() / rates.len().max(1) as f64,
        heavy.count() as f64 / decisions.len().max(1) as f64,
    )
}

/// A node that says what it decides, and is told how busy its processors are, connected through a relay to itself, and a stream whose
/// messages' lengths are told when they have come.
struct Through {
    relay: Relay,
    load: LoadSupply,
    connection: Connection,
    stream: Stream,
    arrived: mpsc::UnboundedReceiver<usize>,
}

impl Through {
    async fn new(link: LinkConfig) -> Self {
        Self::guarded(link, None).await
    }

    async fn guarded(link: LinkConfig, guard: Option<CpuGuardConfig>) -> Self {
        let session = SessionConfig::default()
            .policy(PolicyConfig::default())
            .trace(true)
            .send_queue(1 << 20);
        let reader = LoadReader::open(LoadSource::Supplied, "/".as_ref()).expect("a reader");
        let load = reader.supply().expect("of its own");
        load.set(CpuLoad::IDLE);
        let config = NodeConfig::default().guard(guard).load(reader);
        let node = Node::new(config.session(session)).expect("a node");
        let listener = node
            .listen(&"127.0.0.1:0".parse().expect("an address"))
            .await
            .expect("a free port");
        let target: std::net::SocketAddr = listener
            .local_address()
            .expect("bound")
            .to_string()
            .parse()
            .expect("a socket address");
        let any: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
        let relay = Relay::start(any, target, link).expect("a free port");
        let tautline::relay::RelayAddr::Tcp(address) = *relay.local_addr() else {
            panic!("a TCP address");
        };
        let (told, arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let connection = listener.accept().await.expect("a connection");
            let stream = connection.accept().await.expect("open").expect("a stream");
            while let Ok(Some(message)) = stream.recv().await {
                if told.send(message.payload.len()).is_err() {
                    return;
                }
            }
        });
        node.budget_settled().await;
        let connection = node.connect(&address.into()).await.expect("a peer");
        let stream = connection
            .open("traffic", StreamConfig::default())
            .await
            .expect("open");
        Self {
            relay,
            load,
            connection,
            stream,
            arrived,
        }
    }

    /// Each once the one before has come.
    async fn one_by_one(&mut self, messages: &[Bytes]) {
        for message in messages {
            self.stream.send(message.clone()).await.expect("open");
            assert_eq!(self.arrived.recv().await, Some(message.len()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_follow_a_link_that_changes() {
    within(async {
        let Through {
            relay,
            connection,
            stream,
            arrived: _arrived,
            load: _,
        } = Through::new(link(100.0)).await;
        let messages: Vec<Bytes> = Generator::new(Content::Telecom, 5).take(5000).collect();
        let sender = tokio::spawn(async move {
            for message in messages.iter().cycle() {
                if stream.send(message.clone()).await.is_err() {
                    return;
                }
            }
        });
        follows(&connection, |rate, _| rate > 10.0).await;
        relay.set_link(link(1.0));
        // A slow link is worth a heavy codec ..
        follows(&connection, |rate, heavy| rate < 10.0 && heavy > 0.5).await;
        relay.set_link(link(1000.0));
        // .. and a fast one is not.
        follows(&connection, |rate, heavy| rate > 50.0 && heavy < 0.5).await;
        sender.abort();
    })
    .await;
}

/// Pieces of long messages.
fn pieces(content: Content, len: usize) -> Vec<Bytes> {
    let long = Generator::new(content, 7).take(8);
    long.flat_map(|long| {
        (0..long.len() / len)
            .map(|piece| long.slice(piece * len..(piece + 1) * len))
            .collect::<Vec<_>>()
    })
    .collect()
}

const LEARNING: usize = 100;
const JUDGED: usize = 100;

/// Sends one kind of messages after the other over a new connection; of which kind most decisions were wrong, if any.
async fn misjudged() -> Option<String> {
    let mut through = Through::new(link(1.0)).await;
    let zeros = pieces(Content::Zeros, 1500);
    let telecom: Vec<Bytes> = Generator::new(Content::Telecom, 5).take(400).collect();
    let media = pieces(Content::Media, 1500);
    for (what, messages, helps) in [
        ("telecom", &telecom, true),
        ("media", &media, false),
        ("telecom again", &telecom, true),
        // Last, since blocks of twenty bytes show nothing of the link: what follows them is for the simulator.
        ("zeros", &zeros, true),
    ] {
        through.one_by_one(&messages[..LEARNING]).await;
        let _ = through.connection.take_decisions().await;
        through
            .one_by_one(&messages[LEARNING..LEARNING + JUDGED])
            .await;
        let decisions = through.connection.take_decisions().await;
        let decisions = decisions.expect("an open session");
        // What costs a hundredth of the link's time and more does not pay where nothing becomes shorter.
        let wrong = decisions.iter().filter(|decision| {
            let nanos = tautline::codecs::prior_encode_nanos(decision.arm, 1500);
            if helps {
                decision.arm == Arm::IDENTITY
            } else {
                nanos > 120_000
            }
        });
        let (wrong, all) = (wrong.count(), decisions.len());
        assert!(all >= JUDGED, "{what}: {all} decisions");
        if wrong * 2 >= all {
            let last = decisions.back();
            return Some(format!("{what}: {wrong} of {all}, the last {last:?}"));
        }
    }
    None
}

/// The new best has the majority within 100 messages after a change of what is sent (step by step: each message is a block of its own, on a
/// link so slow that what is best does not depend on how busy the machine is). What the link is taken for does, at first: of three connections two
/// must do so (beside five others like it, one in ten does not).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_follow_what_is_sent_within_a_hundred_messages() {
    within(three_of_five(|| async {
        misjudged().await.map_or(Ok(()), Err)
    }))
    .await;
}

/// Messages of 16 KiB and little more, each of many of telecom signalling.
fn batches(count: usize) -> Vec<Bytes> {
    let mut telecom = Generator::new(Content::Telecom, 5);
    let batch = |_| {
        let mut batch = Vec::new();
        while batch.len() < 16_384 {
            batch.extend_from_slice(&telecom.next().expect("endless"));
        }
        Bytes::from(batch)
    };
    (0..count).map(batch).collect()
}

/// Whether an arm takes more time for a batch than zstd at level 4 and less usually does.
fn is_heavy(arm: Arm) -> bool {
    tautline::codecs::prior_encode_nanos(arm, 16_384) > 200_000
}

/// What must be so of most that is decided once a change was followed.
type IsRight = fn(Arm) -> bool;

/// Of the plain bytes of decisions, the share with a right arm.
fn right_share(decisions: &[Decision], is_right: IsRight) -> f64 {
    let bytes = |of: &dyn Fn(&&Decision) -> bool| {
        let counted = decisions.iter().filter(of);
        counted.map(|decision| decision.plain_len).sum::<usize>() as f64
    };
    bytes(&|decision| is_right(decision.arm)) / bytes(&|_| true).max(1.0)
}

/// The first right decision with which a majority of ten begins, and how long after the first of all that is.
fn majority(decisions: &[Decision], is_right: IsRight) -> Option<(usize, Duration)> {
    let found = decisions
        .windows(10)
        .position(|window| is_right(window[0].arm) && right_share(window, is_right) > 0.5)?;
    let passed = decisions[found].at.saturating_since(decisions[0].at);
    Some((found, passed))
}

impl Through {
    /// Sends batches one by one after a change: what was decided on the first hundred, which it takes to follow, and on those that are judged.
    async fn followed(
        &mut self,
        what: &str,
        messages: &[Bytes],
        is_right: IsRight,
    ) -> Result<(), String> {
        let (learning, judged) = messages.split_at(LEARNING);
        let mut all = Vec::new();
        let mut share = 0.0;
        for part in [learning, judged] {
            self.one_by_one(part).await;
            let decisions = self.connection.take_decisions().await;
            let decisions = Vec::from(decisions.expect("an open session"));
            assert!(decisions.len() >= part.len(), "{what}: {}", decisions.len());
            share = right_share(&decisions, is_right);
            all.extend(decisions);
        }
        let found = majority(&all, is_right);
        println!(
            "| {what} | {found:?} of {} blocks | {share:.3} |",
            all.len()
        );
        if share > 0.5 {
            return Ok(());
        }
        Err(format!("{what}: {share:.3}, the last {:?}", all.last()))
    }
}

/// Of five connections three must do as `one` says: what the link is taken for at first depends on what else the machine does.
async fn three_of_five<T: Future<Output = Result<(), String>>>(one: impl Fn() -> T) {
    let mut failed = Vec::new();
    let mut followed = 0;
    while followed < 3 {
        match one().await {
            Ok(()) => followed += 1,
            Err(what) => failed.push(what),
        }
        assert!(failed.len() < 3, "{failed:?}");
    }
}

async fn follows_link() -> Result<(), String> {
    let mut through = Through::new(link(100.0)).await;
    let messages = batches(LEARNING + 50);
    through.one_by_one(&messages[..LEARNING]).await;
    for (rate, is_right) in [
        // A batch takes 131 ms as it is, 37 with lz4 and 17 with zstd:9 and history ..
        (1.0, is_heavy as IsRight),
        // .. and here 0.13 ms as it is, less than a heavy arm takes to encode it.
        (1000.0, |arm| !is_heavy(arm)),
    ] {
        let _ = through.connection.take_decisions().await;
        through.relay.set_link(link(rate));
        let what = format!("{rate} Mbit/s");
        through.followed(&what, &messages, is_right).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_best_has_the_majority_a_hundred_messages_after_a_change_of_the_link() {
    within(three_of_five(follows_link)).await;
}

async fn follows_load() -> Result<(), String> {
    // On which what is best without a limit does not depend on how fast the machine is.
    let slow = link(2.0);
    let mut through = Through::guarded(slow, Some(CpuGuardConfig::default())).await;
    let messages = batches(LEARNING + 30);
    through.one_by_one(&messages[..LEARNING]).await;
    for (load, is_right) in [
        // Nothing is granted ..
        (CpuLoad::FULL, (|arm| arm == Arm::IDENTITY) as IsRight),
        // .. and all of it again.
        (CpuLoad::IDLE, |arm| arm != Arm::IDENTITY),
    ] {
        let _ = through.connection.take_decisions().await;
        through.load.set(load);
        let what = format!("load {:.1}", load.get());
        through.followed(&what, &messages, is_right).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_best_has_the_majority_a_hundred_messages_after_a_change_of_the_load() {
    within(three_of_five(follows_load)).await;
}

/// Decisions on what waits, since a change of the link, until there are so many.
async fn decided(connection: &Connection, count: usize) -> Vec<Decision> {
    let mut decisions = Vec::new();
    while decisions.len() < count {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let more = connection.take_decisions().await;
        decisions.extend(more.expect("an open session"));
    }
    decisions
}

/// Time from the first decision to the last.
fn lasted(decisions: &[Decision]) -> Duration {
    let ends = decisions.first().zip(decisions.last());
    ends.map_or(Duration::ZERO, |(first, last)| {
        last.at.saturating_since(first.at)
    })
}

async fn follows_link_under_backlog() -> Result<(), String> {
    let Through {
        relay,
        connection,
        stream,
        arrived: _arrived,
        load: _,
    } = Through::new(link(1000.0)).await;
    let sender = tokio::spawn(async move {
        let messages: Vec<Bytes> = Generator::new(Content::Telecom, 5).take(5000).collect();
        for message in messages.iter().cycle() {
            if stream.send(message.clone()).await.is_err() {
                return;
            }
        }
    });
    decided(&connection, 500).await;
    for (rate, is_right, showing) in [
        // A fall shows once the link is late: until then, blocks that nothing can change any more fill what room sockets have.
        (1.0, is_heavy as IsRight, Duration::from_millis(50)),
        (1000.0, |arm| !is_heavy(arm), Duration::ZERO),
    ] {
        relay.set_link(link(rate));
        tokio::time::sleep(showing).await;
        let stats = connection.stats().await.expect("an open session");
        let queued = stats.wire_sent.saturating_sub(relay.stats().forward);
        let drained = showing + Duration::from_secs_f64(queued as f64 / (rate * 125_000.0));
        let limit = 2 * drained + Duration::from_millis(250);
        let mut decisions = decided(&connection, 40).await;
        // Blocks that were decided on before are many where they are short.
        while majority(&decisions, is_right).is_none() && lasted(&decisions) < limit {
            decisions.extend(decided(&connection, 10).await);
        }
        let Some((found, passed)) = majority(&decisions, is_right) else {
            return Err(format!("{rate} Mbit/s: {:?}", decisions.last()));
        };
        println!("| {rate} Mbit/s | {found} blocks, {passed:?}; {drained:?} for {queued} bytes |");
        if passed > limit {
            return Err(format!("{rate} Mbit/s: after {passed:?}, not {drained:?}"));
        }
    }
    sender.abort();
    Ok(())
}

/// Blocks that were encoded before anything showed the change cannot be decided on again. Of 18 connections beside five other programs on two
/// processors, 16 had followed within 100 ms from when those had left: what is borne is so much more as a driver that waits for a processor takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_backlog_the_new_best_has_the_majority_soon_after_what_was_queued_has_left() {
    within(three_of_five(follows_link_under_backlog)).await;
}
