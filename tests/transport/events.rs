//! What the transport records in an event log.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::CodecId;
use tautline::control::{BudgetRate, CpuGuardConfig, LoadSource};
use tautline::eventlog::{EventLog, Reader, Route, Row};
use tautline::session::{SessionConfig, SessionStats, StreamConfig, StreamStats};
use tautline::transport::events::{self, Event, Messages};
use tautline::transport::load::LoadReader;
use tautline::transport::{Address, Connection, Node, NodeConfig, Stream};
use tautline::units::CpuLoad;

use super::support::{accept, next, node, numbered, open, payloads, within};

/// Both nodes record here.
fn log() -> EventLog {
    // Nothing is to be lost.
    EventLog::new(&events::config(1 << 21).writers(32)).expect("room")
}

fn switch(log: &EventLog, route: Option<Route>) {
    for event in events::all() {
        log.route(event, None, route).expect("known");
    }
}

const ALL: Option<Route> = Some(Route::to(events::LOG));

fn recording(log: &EventLog, session: SessionConfig) -> Node {
    let config = NodeConfig::default().session(session).guard(None);
    Node::new(config.event_log(log.clone())).expect("a node")
}

/// Two ends of one connection.
async fn join(left: &Node, right: &Node, address: &Address) -> (Connection, Connection) {
    let listener = right.listen(address).await.expect("a listener");
    let address = listener.local_address().expect("an address");
    let (client, server) =
        within(async { tokio::join!(left.connect(&address), listener.accept()) }).await;
    (client.expect("a connection"), server.expect("a connection"))
}

/// .. whose nodes record in one log.
async fn pair(log: &EventLog, address: &Address) -> (Connection, Connection) {
    let node = || recording(log, SessionConfig::default());
    join(&node(), &node(), address).await
}

fn tcp() -> Address {
    "127.0.0.1:0".parse().expect("an address")
}

/// Rows by their times.
fn rows(reader: &mut Reader) -> Vec<Row> {
    let mut rows = Vec::new();
    reader.pass(&mut rows).expect("of this process");
    assert_eq!(reader.stats().lost, 0);
    assert_eq!(reader.unrecorded().expect("there"), 0);
    rows.sort_by_key(|row| row.stamp);
    rows
}

/// When each stage of a message was, by the stage's name, and bytes of each.
#[derive(Debug, Default)]
struct Stages(HashMap<&'static str, u64>);

/// The stages of each message, by the connection that it is counted at, its stream and number.
#[derive(Debug, Default)]
struct Seen {
    messages: HashMap<(u32, u32, u64), Stages>,
    /// By connection and block.
    blocks: HashMap<(u32, u64), Stages>,
    bytes: HashMap<(u32, u32, &'static str), u64>,
    plain: HashMap<u32, u64>,
    wire: HashMap<u32, u64>,
    decisions: usize,
}

impl Seen {
    fn of(rows: &[Row]) -> Self {
        let mut seen = Self::default();
        for row in rows {
            let stamp = row.stamp.expect("stamped");
            match Event::of(row).expect("the transport's") {
                Event::Queued { messages, .. } => seen.messages(&messages, "queued", stamp),
                Event::Encoded { messages, block } => {
                    seen.messages(&messages, "encoded", stamp);
                    seen.refer(&messages, "sent in", block);
                }
                Event::Decoded { messages, block } => {
                    seen.messages(&messages, "decoded", stamp);
                    seen.refer(&messages, "came in", block);
                }
                Event::Delivered { messages } => seen.messages(&messages, "delivered", stamp),
                Event::Decided { .. } => seen.decisions += 1,
                Event::BlockEncoded {
                    connection,
                    block,
                    plain_len,
                    wire_len,
                    ..
                } => {
                    seen.block(connection, block, "encoded", stamp);
                    *seen.plain.entry(connection).or_default() += u64::from(plain_len);
                    *seen.wire.entry(connection).or_default() += u64::from(wire_len);
                }
                Event::Written {
                    connection,
                    first,
                    count,
                } => (first..first + count)
                    .for_each(|block| seen.block(connection, block, "written", stamp)),
                Event::Acked {
                    connection,
                    first,
                    count,
                } => (first..first + count)
                    .for_each(|block| seen.block(connection, block, "acked", stamp)),
                Event::Received {
                    connection,
                    block,
                    codec,
                    ..
                } => {
                    seen.block(connection, block, "received", stamp);
                    // Nothing decodes what came as it is.
                    if codec == CodecId::IDENTITY {
                        seen.block(connection, block, "decoded", stamp);
                    }
                }
                Event::BlockDecoded {
                    connection, block, ..
                } => seen.block(connection, block, "decoded", stamp),
                _ => {}
            }
        }
        seen
    }

    fn messages(&mut self, run: &Messages, stage: &'static str, stamp: u64) {
        *self
            .bytes
            .entry((run.connection, run.stream, stage))
            .or_default() += run.bytes;
        for number in run.first..run.first + run.count {
            let key = (run.connection, run.stream, number);
            let twice = self.messages.entry(key).or_default().0.insert(stage, stamp);
            assert_eq!(twice, None, "{key:?} is {stage} once");
        }
    }

    fn refer(&mut self, run: &Messages, what: &'static str, block: u64) {
        for number in run.first..run.first + run.count {
            let key = (run.connection, run.stream, number);
            self.messages.entry(key).or_default().0.insert(what, block);
        }
    }

    fn block(&mut self, connection: u32, block: u64, stage: &'static str, stamp: u64) {
        let stages = self.blocks.entry((connection, block)).or_default();
        let twice = stages.0.insert(stage, stamp);
        assert_eq!(twice, None, "block {block} of {connection} is {stage} once");
    }

    /// When the stages were of a message that was sent, or received.
    fn times(&self, key: (u32, u32, u64), is_sent: bool) -> Option<Vec<u64>> {
        let message = &self.messages[&key].0;
        let (refers, own, of_block): (_, [_; 2], &[_]) = if is_sent {
            (
                "sent in",
                ["queued", "encoded"],
                &["encoded", "written", "acked"],
            )
        } else {
            (
                "came in",
                ["decoded", "delivered"],
                &["received", "decoded"],
            )
        };
        let block = message.get(refers)?;
        let block = &self.blocks.get(&(key.0, *block))?.0;
        let own = own.map(|stage| message.get(stage).copied());
        let of_block = of_block.iter().map(|stage| block.get(stage).copied());
        let order: Vec<_> = if is_sent {
            own.into_iter().chain(of_block).collect()
        } else {
            of_block.chain(own).collect()
        };
        order.into_iter().collect()
    }

    /// Connections that messages were sent on, and received, on this stream.
    fn ends(&self, stream: u32) -> (u32, u32) {
        let with = |stage| {
            let found: HashSet<u32> = self
                .bytes
                .keys()
                .filter(|key| key.1 == stream && key.2 == stage)
                .map(|key| key.0)
                .collect();
            assert_eq!(found.len(), 1, "one end has {stage} of stream {stream}");
            found.into_iter().next().expect("one")
        };
        (with("queued"), with("delivered"))
    }
}

/// Sends messages one way on a few streams, and waits until all of them are taken and acknowledged.
async fn exchange(
    (client, server): (&Connection, &Connection),
    counts: &[(usize, usize)],
) -> Vec<(u32, StreamStats)> {
    let mut stats = Vec::new();
    let mut pairs: Vec<(Stream, Stream)> = Vec::new();
    for number in 0..counts.len() {
        let left = open(client, &format!("stream {number}")).await;
        pairs.push((left, accept(server).await));
    }
    let exchanges = pairs
        .iter()
        .zip(counts)
        .map(|((left, right), (count, len))| async move {
            let send = async {
                for payload in payloads(7, *count, *len) {
                    left.send(payload).await.expect("it goes on");
                }
            };
            let receive = async {
                for _ in 0..*count {
                    next(right).await.expect("a message");
                }
            };
            within(async { tokio::join!(send, receive) }).await;
        });
    for exchange in exchanges {
        exchange.await;
    }
    while within(client.stats()).await.expect("open").frames_unacked > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (left, right) in &pairs {
        let sent = within(left.stats()).await.expect("open");
        let received = within(right.stats()).await.expect("open");
        assert_eq!(sent.payload_sent, received.payload_received);
        stats.push((left.id().get(), sent));
    }
    stats
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_has_every_stage_in_order_and_sums_agree() {
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    #[cfg(unix)]
    let directory = tempfile::tempdir().expect("a directory");
    let addresses = [
        tcp(),
        #[cfg(unix)]
        Address::Unix(directory.path().join("socket")),
    ];
    for address in addresses {
        let (client, server) = pair(&log, &address).await;
        // Some are longer than a block.
        let counts = [(3000, 300), (300, 20_000), (20, 300_000)];
        let stats = exchange((&client, &server), &counts).await;
        let session = within(client.stats()).await.expect("open");
        let rows = rows(&mut reader);
        let seen = Seen::of(&rows);
        for ((stream, stats), (count, _)) in stats.iter().zip(counts) {
            let (from, to) = seen.ends(*stream);
            assert_eq!(stats.messages_sent, count as u64);
            for number in 0..stats.messages_sent {
                for (end, is_sent) in [(from, true), (to, false)] {
                    let times = seen.times((end, *stream, number), is_sent);
                    let times = times.unwrap_or_else(|| panic!("{number} of {stream}: {is_sent}"));
                    assert!(times.is_sorted(), "{number} of {stream}: {times:?}");
                }
            }
            assert!(
                !seen
                    .messages
                    .contains_key(&(from, *stream, stats.messages_sent))
            );
            for (end, stage) in [
                (from, "queued"),
                (from, "encoded"),
                (to, "decoded"),
                (to, "delivered"),
            ] {
                let bytes = seen.bytes[&(end, *stream, stage)];
                assert_eq!(bytes, stats.payload_sent, "{stage} of {stream}");
            }
        }
        let (from, to) = seen.ends(stats[0].0);
        let count = |connection, stage| {
            let of = seen.blocks.iter().filter(|(key, _)| key.0 == connection);
            of.filter(|(_, stages)| stages.0.contains_key(stage))
                .count() as u64
        };
        for stage in ["encoded", "written", "acked"] {
            assert_eq!(count(from, stage), session.blocks_sent, "{stage}");
        }
        let received = within(server.stats()).await.expect("open");
        assert_eq!(count(to, "decoded"), received.blocks_received);
        assert_eq!(seen.decisions as u64, session.blocks_sent);
        let arms = stats.iter().flat_map(|(_, stats)| &stats.arms);
        let plain: u64 = arms.map(|arm| arm.plain_bytes).sum();
        assert_eq!(seen.plain[&from], plain);
        // Control frames come on top.
        assert!(seen.wire[&from] < session.wire_sent);
    }
    let names: Vec<_> = (0..20)
        .map(|number| {
            let domain = tautline::eventlog::Domain::new(number);
            reader.domain_name(domain).expect("there")
        })
        .collect();
    for name in ["node", "others", "stream 0", "stream 2"] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
}

/// Messages each of which is answered before the next.
async fn echoes((left, right): (&Stream, &Stream), count: u32) {
    for number in 0..count {
        within(left.send(numbered(number, 100)))
            .await
            .expect("room");
        let message = next(right).await.expect("a message");
        within(right.send(message)).await.expect("room");
        next(left).await.expect("an answer");
    }
}

#[tokio::test]
async fn with_a_threshold_every_nth_is_recorded() {
    let log = log();
    let mut reader = log.reader();
    let (client, server) = pair(&log, &tcp()).await;
    let left = open(&client, "s").await;
    let right = accept(&server).await;
    let route = Route::to(events::LOG);
    // One thread, so that there is one count of each.
    log.route(events::MESSAGE_QUEUED, None, Some(route.every(3)))
        .expect("known");
    log.route(events::MESSAGE_DELIVERED, None, Some(route))
        .expect("known");
    echoes((&left, &right), 60).await;
    let rows = rows(&mut reader);
    let count = |event| rows.iter().filter(|row| row.event == Some(event)).count();
    // 60 each way, on a stream of one name.
    assert_eq!(count(events::MESSAGE_QUEUED), 40);
    assert_eq!(count(events::MESSAGE_DELIVERED), 120);
    assert_eq!(rows.len(), 160);
}

#[tokio::test]
async fn it_is_switched_on_and_off_in_mid_traffic() {
    let log = log();
    let mut reader = log.reader();
    let (client, server) = pair(&log, &tcp()).await;
    let left = open(&client, "s").await;
    let right = accept(&server).await;
    echoes((&left, &right), 30).await;
    assert!(rows(&mut reader).is_empty(), "nothing was asked for");
    switch(&log, ALL);
    echoes((&left, &right), 50).await;
    switch(&log, None);
    let seen = Seen::of(&rows(&mut reader));
    // Numbers go on from what nobody has recorded.
    let delivered = |number: u64| {
        let all = seen.messages.iter();
        let of = all.filter(|(key, stages)| key.2 == number && stages.0.contains_key("delivered"));
        of.count()
    };
    assert_eq!([delivered(29), delivered(30), delivered(79)], [0, 2, 2]);
    echoes((&left, &right), 30).await;
    assert!(rows(&mut reader).is_empty(), "it is off again");
}

#[tokio::test]
async fn a_node_takes_a_log_of_the_transports_events_only() {
    let config = tautline::eventlog::EventLogConfig::default()
        .event("own", tautline::eventlog::EventKind::Access)
        .log("all", 4096, events::FORMAT);
    let other = EventLog::new(&config).expect("small");
    let node = Node::new(NodeConfig::default().guard(None).event_log(other));
    assert!(matches!(
        node,
        Err(tautline::transport::NodeError::EventLog)
    ));
}

#[tokio::test]
async fn a_node_without_a_log_works_beside_one_that_has() {
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    let recording =
        Node::new(NodeConfig::default().guard(None).event_log(log.clone())).expect("a node");
    let plain = node(SessionConfig::default());
    let listener = plain.listen(&tcp()).await.expect("a listener");
    let address = listener.local_address().expect("an address");
    let (client, server) =
        within(async { tokio::join!(recording.connect(&address), listener.accept()) }).await;
    let (client, server) = (client.expect("a connection"), server.expect("a connection"));
    let stream = within(client.open("s", StreamConfig::default()))
        .await
        .expect("a stream");
    let other = accept(&server).await;
    within(stream.send(Bytes::from_static(b"here")))
        .await
        .expect("room");
    next(&other).await.expect("a message");
    let seen = Seen::of(&rows(&mut reader));
    assert_eq!(seen.messages.len(), 1);
    assert!(seen.bytes.keys().all(|key| key.2 != "delivered"));
}

async fn stats(connection: &Connection) -> SessionStats {
    within(connection.stats()).await.expect("open")
}

#[tokio::test]
async fn loads_and_the_budgets_that_follow_are_recorded_one_from_the_other() {
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    let loads = LoadReader::open(LoadSource::Supplied, "/".as_ref()).expect("a reader");
    let supply = loads.supply().expect("a supply");
    supply.set(CpuLoad::new(0.25));
    let guard = CpuGuardConfig::default().period(Duration::from_millis(5));
    let config = NodeConfig::default().guard(Some(guard)).load(loads);
    let guarded = Node::new(config.event_log(log.clone())).expect("a node");
    // Without a log, so that all budgets are of one connection.
    let (client, _server) = join(&guarded, &node(SessionConfig::default()), &tcp()).await;
    let is_zero = |rate: Option<BudgetRate>| rate == Some(BudgetRate::ZERO);
    // The latest that the rows say, of the node and of the connection.
    let (mut of_node, mut of_connection) = (Some(BudgetRate::ZERO), None);
    let mut changes = [0, 0];
    for (load, is_full) in [(0.25, false), (1.0, true), (0.25, false)] {
        supply.set(CpuLoad::new(load));
        within(async {
            while is_zero(stats(&client).await.budget) != is_full
                || is_zero(guarded.load_and_budget().1) != is_full
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let rows = rows(&mut reader);
        let mut measured = None;
        let mut latest = None;
        for row in &rows {
            match Event::of(row).expect("the transport's") {
                Event::Load { load, budget } => {
                    assert_eq!(measured.unwrap_or(of_node), of_node, "a change has its row");
                    (latest, measured) = (Some(load), Some(budget));
                }
                Event::Budget {
                    connection: None,
                    old,
                    new,
                } => {
                    assert_eq!(old, of_node);
                    assert_eq!(Some(new), measured, "it follows a load");
                    assert_ne!(old, new);
                    of_node = new;
                    changes[0] += 1;
                }
                Event::Budget {
                    connection: Some(_),
                    old,
                    new,
                } => {
                    if changes[1] > 0 {
                        assert_eq!(old, of_connection);
                    }
                    of_connection = new;
                    changes[1] += 1;
                }
                _ => {}
            }
        }
        assert_eq!(latest, Some(load));
        assert_eq!([is_zero(of_node), is_zero(of_connection)], [is_full; 2]);
    }
    assert!(changes.iter().all(|count| *count >= 3), "{changes:?}");
}

#[tokio::test]
async fn what_probes_say_of_the_path_is_what_the_statistics_say() {
    let log = log();
    let mut reader = log.reader();
    log.route(events::PATH_MEASURED, None, ALL).expect("known");
    let session = SessionConfig::default().probe_interval(Duration::from_millis(1));
    let left = recording(&log, session.clone());
    let (client, server) = join(&left, &node(session), &tcp()).await;
    let left = open(&client, "s").await;
    let right = accept(&server).await;
    within(async {
        loop {
            echoes((&left, &right), 1).await;
            let stats = stats(&client).await;
            let rows = rows(&mut reader);
            let Some(row) = rows.last() else {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            };
            let Some(Event::Path {
                rtt,
                rtt_min,
                link_rate,
                ..
            }) = Event::of(row)
            else {
                panic!("{row:?} is of another kind");
            };
            // Acknowledgements, which are no probes, say something of it too.
            let rate = stats.link_rate.map(|rate| rate.get() as u64);
            if rtt.is_some() && (rtt, rtt_min, link_rate) == (stats.rtt, stats.rtt_min, rate) {
                break;
            }
        }
    })
    .await;
}

#[cfg(all(feature = "deflate", feature = "generate", feature = "zstd"))]
mod dictionaries;
#[cfg(all(feature = "deflate", feature = "generate", feature = "zstd"))]
mod encoded;
