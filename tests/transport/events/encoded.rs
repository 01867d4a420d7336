//! Events of codecs at work: workers and contexts.

use tautline::codecs::{Arm, CodecId, EncodeContext, context_memory_estimate};
use tautline::control::{MAX_INLINE, PolicyConfig};
use tautline::eventlog::EventId;
use tautline::generate::{Content, Generator};
use tautline::session::ContextChange;
use tautline::wire::{
    BlockHeader, Control, Define, Features, GroupId, Hello, Open, RecordKind, RecordWriter, Slot,
    StreamId,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::*;
use crate::support::{hello, listen};

fn text(seed: u64, len: usize) -> Bytes {
    let mut text = Vec::new();
    let mut messages = Generator::new(Content::Telecom, seed);
    while text.len() < len {
        text.extend_from_slice(&messages.next().expect("no end"));
    }
    text.truncate(len);
    text.into()
}

/// Of jobs at workers: how long each input was, and how long it took.
pub(super) fn jobs(rows: &[Row], event: EventId) -> Vec<(u64, Duration)> {
    let of_event = rows.iter().filter(|row| row.event == Some(event));
    let jobs = of_event.map(|row| match Event::of(row) {
        Some(Event::Worker { time, .. }) => (row.second.expect("a length"), time),
        other => panic!("{other:?}"),
    });
    jobs.collect()
}

/// Both ends of a stream, whose blocks are of one length and by one codec.
async fn ends(
    log: &EventLog,
    arm: &str,
    block_len: usize,
) -> ((Connection, Stream), (Connection, Stream)) {
    let session = SessionConfig::default()
        .policy(arm.parse().expect("an arm"))
        .block_len(block_len);
    let node = || recording(log, session.clone());
    let (client, server) = join(&node(), &node(), &tcp()).await;
    let left = open(&client, "s").await;
    let right = accept(&server).await;
    ((client, left), (server, right))
}

#[tokio::test]
async fn what_workers_encode_and_decode_is_recorded_beside_the_block() {
    const LEN: usize = 256 << 10;
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    let ((client, left), (server, right)) = ends(&log, "zstd:19", LEN).await;
    for seed in 0..5 {
        let message = text(seed, LEN);
        within(left.send(message.clone())).await.expect("room");
        assert!(next(&right).await == Some(message));
    }
    let rows = rows(&mut reader);
    let (mut encoded, mut wire, mut decoded) = (Vec::new(), HashMap::new(), Vec::new());
    for row in &rows {
        match Event::of(row).expect("the transport's") {
            Event::BlockEncoded {
                plain_len, encode, ..
            } => encoded.push((u64::from(plain_len), encode)),
            Event::Received {
                block, body_len, ..
            } => {
                wire.insert(block, body_len);
            }
            Event::BlockDecoded {
                block,
                plain_len,
                decode,
                ..
            } => decoded.push((plain_len, wire[&block], decode)),
            _ => {}
        }
    }
    let nanos = |all: Duration| all.as_nanos() as u64;
    let all = encoded.iter().map(|block| block.1).sum();
    assert_eq!(nanos(all), stats(&client).await.encode_nanos);
    let all = decoded.iter().map(|block| block.2).sum();
    assert_eq!(nanos(all), stats(&server).await.decode_nanos);
    for job in jobs(&rows, events::WORKER_ENCODED) {
        let block = encoded.iter().position(|block| *block == job);
        encoded.remove(block.unwrap_or_else(|| panic!("{job:?} is of no block")));
    }
    for job in jobs(&rows, events::WORKER_DECODED) {
        let block = decoded.iter().position(|block| (block.1, block.2) == job);
        decoded.remove(block.unwrap_or_else(|| panic!("{job:?} is of no block")));
    }
    // Those that no worker had are the ends of messages.
    let is_short = |len: u64| len < LEN as u64 / 2;
    assert!(encoded.iter().all(|block| is_short(block.0)), "{encoded:?}");
    assert!(decoded.iter().all(|block| is_short(block.0)), "{decoded:?}");
}

/// An application that finds its queue full has the driver have its turn: but not for what takes as long as a turn may.
#[cfg(feature = "lz4")]
#[tokio::test(flavor = "current_thread")]
async fn blocks_that_take_their_time_are_not_encoded_in_an_applications_turn() {
    const TOTAL: usize = 16 << 20;
    // So that a queue is full before its sender leaves others their turn.
    const LEN: usize = 2000;
    let (mut within_turns, mut all) = (0, 0);
    // Of one length or another it takes a third of [`MAX_INLINE`] and more, and no longer than that, on any machine.
    for block_len in [8, 16, 32, 64, 128, 256].map(|len| len << 10) {
        let log = log();
        let mut reader = log.reader();
        log.route(events::BLOCK_ENCODED, None, ALL).expect("known");
        let ((_client, left), (_server, right)) = ends(&log, "lz4", block_len).await;
        let receiving = async {
            for _ in 0..TOTAL / LEN {
                assert!(next(&right).await.is_some());
            }
        };
        let content = text(7, 1 << 20);
        let mut sending = Box::pin(async {
            for number in 0..TOTAL / LEN {
                let at = number * LEN % (content.len() - LEN);
                let message = content.slice(at..at + LEN);
                within(left.send(message)).await.expect("room");
            }
        });
        let mut count_long = || {
            let rows = rows(&mut reader);
            let of_those = rows.iter().filter(|row| match Event::of(row) {
                Some(Event::BlockEncoded { encode, .. }) => {
                    encode > MAX_INLINE / 3 && encode < MAX_INLINE
                }
                _ => false,
            });
            of_those.count()
        };
        let sending = std::future::poll_fn(|cx| {
            all += count_long();
            let polled = sending.as_mut().poll(cx);
            let in_turn = count_long();
            within_turns += in_turn;
            all += in_turn;
            polled
        });
        tokio::join!(sending, receiving);
    }
    println!("{within_turns} of {all}");
    assert!(all > 0);
    // How long a block will take is not always known.
    assert!(10 * within_turns < all, "{within_turns} of {all}");
}

#[tokio::test]
async fn blocks_that_other_arms_were_tried_on_are_recorded() {
    let log = log();
    let mut reader = log.reader();
    log.route(events::WORKER_SHADOWED, None, ALL)
        .expect("known");
    let loads = LoadReader::open(LoadSource::Supplied, "/".as_ref()).expect("a reader");
    let supply = loads.supply().expect("a supply");
    supply.set(CpuLoad::new(0.0));
    let config = NodeConfig::default().guard(None).load(loads);
    let left = Node::new(config.event_log(log.clone())).expect("a node");
    let (client, server) = join(&left, &node(SessionConfig::default()), &tcp()).await;
    let left = open(&client, "s").await;
    let right = accept(&server).await;
    let mut sent = 0;
    within(async {
        while stats(&client).await.shadows == 0 {
            sent += 1;
            left.send(text(sent, 20_000)).await.expect("room");
            next(&right).await.expect("a message");
        }
    })
    .await;
    let mut all = Duration::ZERO;
    within(async {
        loop {
            // One may still be at work.
            let nanos = stats(&client).await.shadow_nanos;
            let rows = rows(&mut reader);
            let jobs = jobs(&rows, events::WORKER_SHADOWED);
            assert!(
                jobs.iter().all(|job| job.0 > 0 && job.0 <= 20_100),
                "{jobs:?}"
            );
            all += jobs.iter().map(|job| job.1).sum::<Duration>();
            if all.as_nanos() == u128::from(nanos) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// What became of the histories in each slot, those of what is received apart.
pub(super) fn contexts(
    rows: &[Row],
    of_received: bool,
) -> HashMap<u8, Vec<(ContextChange, u8, CodecId)>> {
    let mut slots = HashMap::<_, Vec<_>>::new();
    for row in rows {
        match Event::of(row) {
            Some(Event::Context {
                change,
                received,
                slot,
                group,
                arm,
                ..
            }) if received == of_received => {
                slots
                    .entry(slot)
                    .or_default()
                    .push((change, group, arm.codec));
            }
            _ => {}
        }
    }
    slots
}

/// The memory of either end may be what there is too little of.
#[tokio::test]
async fn both_ends_record_the_same_of_histories_that_make_room_for_others() {
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    let large = Arm::new(CodecId::ZSTD, 1).with_history();
    let small = [1, 6, 9].map(|level| Arm::new(CodecId::DEFLATE, level).with_history());
    // The large one fits only without any of the small ones: its past, and what it begins with, come on top.
    let of = |arm| context_memory_estimate(arm, 15);
    let here = of(large).0 + of(small[0]).0 / 2 + (64 << 10) + (32 << 10);
    let there = of(large).1 + of(small[0]).1 / 2 + (64 << 10) + (59 << 10);
    let session = |room| {
        let session = SessionConfig::default().policy(PolicyConfig::None);
        session.history_log(15).history_memory(room)
    };
    for (of_client, of_server) in [(8 << 20, there), (here, 8 << 20)] {
        let (client, server) = join(
            &recording(&log, session(of_client)),
            &recording(&log, session(of_server)),
            &tcp(),
        )
        .await;
        let config = StreamConfig::default().group(GroupId(3));
        let left = within(client.open("s", config)).await.expect("a stream");
        let right = accept(&server).await;
        for (number, message) in Generator::new(Content::Telecom, 5).take(80).enumerate() {
            let arm = match number / 5 % 4 {
                3 => large,
                turn => small[turn],
            };
            left.set_policy(PolicyConfig::Fixed(arm));
            within(left.send(message.clone())).await.expect("room");
            assert_eq!(next(&right).await, Some(message));
        }
        let rows = rows(&mut reader);
        let [mut sent, received] = [false, true].map(|of_received| contexts(&rows, of_received));
        let (mut primed, mut evicted) = (0, 0);
        for (slot, changes) in &mut sent {
            let mut is_live = false;
            for (change, group, _) in &*changes {
                assert_eq!(*group, 3);
                match change {
                    ContextChange::Begun => {
                        assert!(!is_live, "{slot}: {changes:?}");
                        is_live = true;
                    }
                    ContextChange::Primed { bytes } => {
                        assert!(is_live && *bytes > 0, "{slot}: {changes:?}");
                        primed += 1;
                    }
                    ContextChange::Evicted => {
                        assert!(is_live, "{slot}: {changes:?}");
                        is_live = false;
                        evicted += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            // What both ends have seen is no news to the receiver.
            changes.retain(|change| !matches!(change.0, ContextChange::Primed { .. }));
        }
        assert_eq!(sent, received);
        assert!(primed > 0 && evicted > 8, "{sent:?}");
    }
}

/// A peer that begins a history anew, as senders do once a codec of theirs has failed.
#[tokio::test]
async fn a_history_that_begins_anew_is_recorded() {
    let log = log();
    let mut reader = log.reader();
    switch(&log, ALL);
    let listener = listen(&recording(&log, SessionConfig::default())).await;
    let address = listener.local_address().expect("an address").to_string();
    let mut socket = TcpStream::connect(address).await.expect("a socket");
    let (mut hello, _) = Hello::parse(&hello()).expect("well-formed").expect("whole");
    hello.offered = Features::HISTORY;
    let mut bytes = Vec::new();
    hello.put(&mut bytes);
    let slot = Slot::new(9).expect("a slot");
    let stream = StreamId::new(0).expect("a stream");
    Control::Open(Open {
        stream,
        group: GroupId::default(),
        window: 0,
        name: "s".into(),
    })
    .put(&mut bytes);
    let arm = Arm::new(CodecId::ZSTD, 3).with_history();
    Control::Define(Define {
        slot,
        codec: arm.codec,
        group: GroupId::default(),
        history: Some(17),
        dictionary: 0,
    })
    .put(&mut bytes);
    let mut writer = RecordWriter::default();
    let mut before = Vec::new();
    for epoch in [None, Some(1), Some(2)] {
        let mut plain = Vec::new();
        writer.put_whole(&mut plain, stream, RecordKind::Message, None);
        plain.extend_from_slice(&text(3, 500));
        let mut context = EncodeContext::new(arm, 17, &before).expect("a context");
        let mut body = Vec::new();
        let len = context.encode(&plain, &mut body).expect("an encoder");
        BlockHeader {
            slot: Some(slot),
            epoch,
            plain_len: Some(plain.len()),
            body_len: len,
            check: 0,
        }
        .put(&mut bytes, false);
        bytes.extend_from_slice(&body[..len]);
        before.extend_from_slice(&plain);
    }
    socket.write_all(&bytes).await.expect("room");
    let server = within(listener.accept()).await.expect("a connection");
    let right = accept(&server).await;
    for _ in 0..3 {
        assert_eq!(next(&right).await, Some(text(3, 500)));
    }
    let changes = contexts(&rows(&mut reader), true).remove(&9);
    let [begun, reset] = [ContextChange::Begun, ContextChange::Reset];
    let expected = [begun, reset, reset].map(|change| (change, 0, CodecId::ZSTD));
    assert_eq!(changes, Some(expected.to_vec()));
}
