//! What goes on in a soak: nodes, connections through relays that cut them, streams that come and go, and messages whose
//! echo must be what was sent.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tautline::control::PolicyConfig;
use tautline::dictionary::{Acceptance, AcceptancePolicy, TrainerConfig};
use tautline::generate::{Content, Generator};
use tautline::relay::{LinkConfig, Relay, RelayFault};
use tautline::session::{Limits, SessionConfig, StreamConfig};
use tautline::transport::{Address, Connection, Listener, Node, NodeConfig, ResumeConfig, Stream};
use tautline::wire::GroupId;
use tokio::task::JoinSet;

/// What a soak is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Streams that are open at any time, on all connections together.
    pub(crate) streams: usize,
    pub(crate) connections: usize,
    /// Messages between two faults, in the mean.
    pub(crate) messages_per_fault: u64,
    /// Messages of a connection's life, in the mean.
    pub(crate) messages_per_connection: u64,
    pub(crate) seed: u64,
}

/// What has happened so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Messages that went there and came back.
    pub(crate) messages: AtomicU64,
    /// Their bytes, one way.
    pub(crate) bytes: AtomicU64,
    pub(crate) streams_opened: AtomicU64,
    pub(crate) streams_ended: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) faults: AtomicU64,
    /// Connections that a cut ended while they were begun, so that no connector has them, or that were dropped before anything came
    /// back: what was sent on them may not have come ..
    begun_in_vain: AtomicU64,
    /// .. and those that the accepting side had and that nobody used: no more than these.
    never_used: AtomicU64,
    stops: AtomicBool,
}

impl Tally {
    /// Streams that go on are finished, and no new ones opened.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Relaxed);
    }

    fn stops(&self) -> bool {
        self.stops.load(Relaxed)
    }

    fn check(&self) -> Result<(), Failure> {
        let [unused, vain] =
            [&self.never_used, &self.begun_in_vain].map(|count| count.load(Relaxed));
        if unused <= vain {
            return Ok(());
        }
        Err(format!(
            "{unused} connections were lost that nobody had used, and {vain} were begun in vain"
        ))
    }
}

/// What should not have happened.
pub(crate) type Failure = String;

fn failed(what: &str, error: &impl Display) -> Failure {
    format!("{what}: {error}")
}

/// Policies of streams, of every kind and with every codec that the crate was built with.
fn policies() -> Vec<PolicyConfig> {
    let mut all = vec![
        PolicyConfig::default(),
        PolicyConfig::None,
        PolicyConfig::RoundRobin,
    ];
    let arms = [
        "lz4:0",
        "lz4:0+history",
        "lz4:0+dictionary",
        "snappy:0",
        "zstd:-3",
        "zstd:1+history",
        "zstd:3+dictionary",
        "deflate:1",
        "deflate:1+history",
    ];
    all.extend(
        arms.iter()
            .filter_map(|arm| arm.parse::<PolicyConfig>().ok()),
    );
    all
}

/// Messages to choose from, made once: so that what is measured is not how they are made.
fn payloads(seed: u64) -> Vec<Bytes> {
    let of = |content, count| Generator::new(content, seed).take(count);
    let mut all: Vec<_> = of(Content::Telecom, 600).collect();
    all.extend(of(Content::Events, 200));
    all.extend(of(Content::Logs, 100));
    all.extend(of(Content::Metrics, 20));
    // Of several blocks, and what does not compress.
    all.extend(of(Content::Text, 1).map(|text| text.slice(..100_000.min(text.len()))));
    all.extend(
        of(Content::Media, 1).flat_map(|media| [media.slice(..3000), media.slice(3000..3400)]),
    );
    all.push(Bytes::new());
    all
}

fn node() -> Result<Node, Failure> {
    // Small windows and queues: with a thousand streams they are most of the memory, and what grows is seen sooner.
    let limits = Limits::default().window(64 << 10);
    let session = SessionConfig::default()
        .limits(limits)
        .send_queue(32 << 10)
        .accept_dictionaries(AcceptancePolicy::new(Acceptance::Always))
        .train_dictionaries(Some(TrainerConfig::default()))
        .heartbeat(Some(Duration::from_secs(1)))
        .dead_after(Some(Duration::from_secs(5)));
    // The last word of a close may be lost in a cut, and who said it waits that long for the question.
    let resume = ResumeConfig::default()
        .within(Duration::from_secs(10))
        .wait(Duration::from_millis(1), Duration::from_millis(50))
        .memory(4 << 20);
    let config = NodeConfig::default()
        .session(session)
        .guard(None)
        .resume(Some(resume));
    Node::new(config).map_err(|error| failed("a node", &error))
}

/// What everything of a soak shares.
struct Soak {
    plan: Plan,
    tally: Arc<Tally>,
    node: Node,
    payloads: Vec<Bytes>,
    policies: Vec<PolicyConfig>,
}

/// Runs until the tally is told to stop and all that goes on then has ended, or until something fails.
///
/// # Errors
///
/// The first message that did not come back as it was sent, or whatever else failed.
pub(crate) async fn run(plan: Plan, tally: Arc<Tally>) -> Result<(), Failure> {
    let there = node()?;
    let any: Address = SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let listener = there
        .listen(&any)
        .await
        .map_err(|error| failed("a listener", &error))?;
    let target = listener
        .local_address()
        .ok()
        .and_then(|address| address.to_string().parse().ok());
    let target: SocketAddr = target.ok_or("a listener that is nowhere")?;
    let soak = Arc::new(Soak {
        plan,
        tally,
        node: node()?,
        payloads: payloads(plan.seed),
        policies: policies(),
    });

    let mut rng = Rng::with_seed(plan.seed);
    let mut relays = Vec::new();
    let mut connectors = JoinSet::new();
    for _ in 0..plan.connections {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let relay = Relay::start(any, target, LinkConfig::default())
            .map_err(|error| failed("a relay", &error))?;
        let through = relay
            .local_addr()
            .tcp()
            .ok_or("a relay that is nowhere")?
            .into();
        relays.push(relay);
        connectors.spawn(connect_again_and_again(
            Arc::clone(&soak),
            through,
            rng.fork(),
        ));
    }
    let mut helpers = JoinSet::new();
    helpers.spawn(break_connections(Arc::clone(&soak), relays, rng));
    helpers.spawn(serve(Arc::clone(&soak), listener));
    let result = loop {
        tokio::select! {
            done = connectors.join_next() => match done {
                None => break Ok(()),
                Some(done) => if let Err(failure) = joined(done) {
                    break Err(failure);
                }
            },
            // These go on for ever unless they fail.
            Some(done) = helpers.join_next() => if let Err(failure) = joined(done) {
                break Err(failure);
            },
        }
    };
    connectors.shutdown().await;
    helpers.shutdown().await;
    result.and_then(|()| soak.tally.check())
}

fn joined<T>(done: Result<Result<T, Failure>, tokio::task::JoinError>) -> Result<T, Failure> {
    done.unwrap_or_else(|error| Err(failed("a task", &error)))
}

/// Cuts a connection now and then, or lets it fall silent.
async fn break_connections(
    soak: Arc<Soak>,
    relays: Vec<Relay>,
    mut rng: Rng,
) -> Result<(), Failure> {
    let mut next = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let messages = soak.tally.messages.load(Relaxed);
        if messages < next {
            continue;
        }
        next = messages + rng.u64(1..2 * soak.plan.messages_per_fault.max(1));
        let relay = &relays[rng.usize(..relays.len())];
        // A silence takes seconds to be noticed, in which less happens.
        relay.inject(match rng.u8(..20) {
            0 => RelayFault::Silence {
                forward: rng.bool(),
            },
            _ => RelayFault::Cut,
        });
        soak.tally.faults.fetch_add(1, Relaxed);
    }
}

/// Takes every connection in and sends back what comes on its streams.
async fn serve(soak: Arc<Soak>, listener: Listener) -> Result<(), Failure> {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            // What fails before there is a session, as by a cut, its connector tries again.
            accepted = listener.accept() => if let Ok(connection) = accepted {
                served.spawn(echo(Arc::clone(&soak), connection));
            },
            Some(done) = served.join_next() => joined(done)?,
        }
    }
}

async fn echo(soak: Arc<Soak>, connection: Connection) -> Result<(), Failure> {
    // One that a cut ended before it had said whose it is may have been to carry a session on: its connector tries again.
    if connection.established().await.is_err() {
        return Ok(());
    }
    let mut streams = JoinSet::new();
    let mut is_used = false;
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Ok(Some(stream)) => {
                    is_used = true;
                    streams.spawn(echo_stream(stream));
                }
                Ok(None) => break,
                // Its connector may have been cut off before it had a session to go on with.
                Err(_) if !is_used => {
                    soak.tally.never_used.fetch_add(1, Relaxed);
                    return Ok(());
                }
                Err(error) => return Err(failed("the accepting side", &error)),
            },
            Some(done) = streams.join_next() => joined(done)?,
        }
    }
    while let Some(done) = streams.join_next().await {
        joined(done)?;
    }
    Ok(())
}

async fn echo_stream(stream: Stream) -> Result<(), Failure> {
    loop {
        match stream.recv().await {
            Ok(Some(message)) => {
                let payload = message.payload.clone();
                if stream.reply(&message, payload).await.is_err() {
                    // The connection is being closed; whether that is right, its connector judges.
                    return Ok(());
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => return Err(failed("what an echo receives", &error)),
        }
    }
}

/// One connection after another, each with its share of streams until it has carried its share of messages.
async fn connect_again_and_again(
    soak: Arc<Soak>,
    through: Address,
    mut rng: Rng,
) -> Result<(), Failure> {
    let streams = (soak.plan.streams / soak.plan.connections).max(1);
    while !soak.tally.stops() {
        // A cut may hit a handshake, before there is a session to go on with.
        let Ok(connection) = soak.node.connect(&through).await else {
            soak.tally.begun_in_vain.fetch_add(1, Relaxed);
            continue;
        };
        soak.tally.connections.fetch_add(1, Relaxed);
        let messages = rng.u64(1..2 * soak.plan.messages_per_connection.max(1));
        let budget = Arc::new(AtomicU64::new(messages));
        let mut slots = JoinSet::new();
        for _ in 0..streams {
            slots.spawn(open_again_and_again(
                Arc::clone(&soak),
                connection.clone(),
                Arc::clone(&budget),
                rng.fork(),
            ));
        }
        let mut is_used = false;
        while let Some(done) = slots.join_next().await {
            is_used |= joined(done)?;
        }
        // Most are closed, some dropped.
        if rng.u8(..4) > 0 {
            connection
                .close()
                .await
                .map_err(|error| failed("a close", &error))?;
        } else if !is_used {
            soak.tally.begun_in_vain.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

/// One stream after another; whether anything came back on one.
async fn open_again_and_again(
    soak: Arc<Soak>,
    connection: Connection,
    budget: Arc<AtomicU64>,
    mut rng: Rng,
) -> Result<bool, Failure> {
    let mut is_used = false;
    while !soak.tally.stops() && budget.load(Relaxed) > 0 {
        let policy = soak.policies[rng.usize(..soak.policies.len())];
        let config = StreamConfig::default()
            .policy(policy)
            .group(GroupId(rng.u8(..3)));
        let stream = connection
            .open("soak", config)
            .await
            .map_err(|error| failed("a stream", &error))?;
        soak.tally.streams_opened.fetch_add(1, Relaxed);
        // Most lives are short.
        let most = 1 << rng.u32(1..11);
        let messages = rng.u64(1..=most);
        is_used |= match rng.u8(..16) {
            0 => {
                ask(&soak, &stream, messages, &mut rng).await?;
                true
            }
            1 => {
                leave(&soak, stream, messages, &mut rng).await?;
                false
            }
            _ => {
                exchange(&soak, &stream, messages, &mut rng).await?;
                true
            }
        };
        soak.tally.streams_ended.fetch_add(1, Relaxed);
        let _ = budget.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(messages)));
    }
    Ok(is_used)
}

impl Soak {
    fn payload(&self, rng: &mut Rng) -> &Bytes {
        &self.payloads[rng.usize(..self.payloads.len())]
    }

    fn count(&self, payload: &Bytes) {
        self.tally.messages.fetch_add(1, Relaxed);
        self.tally.bytes.fetch_add(payload.len() as u64, Relaxed);
    }
}

/// Sends, and compares what comes back.
async fn exchange(
    soak: &Soak,
    stream: &Stream,
    messages: u64,
    rng: &mut Rng,
) -> Result<(), Failure> {
    // Who receives draws the same messages from a generator of its own.
    let (mut sent, mut expected) = (Rng::with_seed(rng.u64(..)), Rng::new());
    expected.seed(sent.get_seed());
    let sending = async {
        for _ in 0..messages {
            let payload = soak.payload(&mut sent).clone();
            // What else is done is drawn from the other one.
            let result = match rng.u8(..64) {
                0..=3 => stream.sensitive().send(payload).await,
                4 => {
                    stream.set_policy(soak.policies[rng.usize(..soak.policies.len())]);
                    stream.send(payload).await
                }
                _ => stream.send(payload).await,
            };
            result.map_err(|error| failed("a message", &error))?;
        }
        stream.finish();
        Ok(())
    };
    let receiving = async {
        for number in 0..messages {
            let message = stream
                .recv()
                .await
                .map_err(|error| failed("an echo", &error))?;
            let payload = soak.payload(&mut expected);
            if message.is_none_or(|message| message.payload != *payload) {
                return Err(format!(
                    "message {number} of {messages} on {} did not come back",
                    stream.id()
                ));
            }
            soak.count(payload);
        }
        match stream.recv().await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(format!("more came back on {} than was sent", stream.id())),
            Err(error) => Err(failed("an echo's end", &error)),
        }
    };
    let (sending, receiving) = tokio::join!(sending, receiving);
    sending.and(receiving)
}

/// Requests one after another.
async fn ask(soak: &Soak, stream: &Stream, messages: u64, rng: &mut Rng) -> Result<(), Failure> {
    // Longer than any soak is kept from going on.
    const LIMIT: Duration = Duration::from_secs(24 * 3600);
    for number in 0..messages.min(20) {
        let payload = soak.payload(rng).clone();
        if rng.u8(..8) == 0 {
            // Nobody waits for this one's reply; it must not be taken for another's.
            let _ = stream.request(payload.clone(), Duration::ZERO).await;
        }
        let reply = stream
            .request(payload.clone(), LIMIT)
            .await
            .map_err(|error| failed("a request", &error))?;
        if reply != payload {
            return Err(format!("reply {number} on {} is another's", stream.id()));
        }
        soak.count(&payload);
    }
    Ok(())
}

/// Sends, and leaves before anything has come back.
async fn leave(soak: &Soak, stream: Stream, messages: u64, rng: &mut Rng) -> Result<(), Failure> {
    for _ in 0..messages.min(20) {
        let payload = soak.payload(rng).clone();
        stream
            .send(payload)
            .await
            .map_err(|error| failed("a message", &error))?;
    }
    Ok(())
}
