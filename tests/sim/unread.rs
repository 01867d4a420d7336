//! Streams that nobody reads: what they hold of a connection's memory, and what is left to the others.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fastrand::Rng;
use tautline::control::PolicyConfig;
use tautline::session::{Event, Limits, SessionConfig, SessionStats, StreamConfig};
use tautline::sim::{CodecCosts, CpuConfig, End, Happening, LinkConfig, NodeConfig, World};
use tautline::units::{BytesPerSec, Time};
use tautline::wire::StreamId;

/// The longest message, unless a test says otherwise.
const LONGEST: usize = 256 << 10;

/// A sends as fast as it can on many streams; B reads some of them.
struct Overload {
    world: World,
    /// Streams of A, and what is sent on them over and over.
    sent: BTreeMap<StreamId, Bytes>,
    /// Payload bytes that came on a stream, and messages.
    got: BTreeMap<StreamId, (u64, u64)>,
    /// Streams that A has finished.
    ended: BTreeSet<StreamId>,
    most: u64,
}

impl Overload {
    fn new(link: LinkConfig, limits: Limits) -> Self {
        let node = || NodeConfig {
            session: SessionConfig::default()
                .policy(PolicyConfig::None)
                .limits(limits),
            cpu: CpuConfig::default(),
        };
        let costs = CodecCosts::from_fns(|_, _| 1000, |_, _| 1000);
        let mut world = World::new(node(), node(), link, costs).expect("settings that make sense");
        world.connect();
        Self {
            world,
            sent: BTreeMap::new(),
            got: BTreeMap::new(),
            ended: BTreeSet::new(),
            most: 0,
        }
    }

    /// Opens a stream that always has something to send.
    fn open(&mut self, len: usize, reads: bool) -> StreamId {
        let config = StreamConfig::default();
        let id = self.world.open(End::A, "stream", config).expect("a stream");
        self.world.set_reads(End::B, id, reads);
        let message = Bytes::from(vec![id.get() as u8; len]);
        self.sent.insert(id, message);
        self.fill(id);
        id
    }

    fn fill(&mut self, id: StreamId) {
        let Some(message) = self.sent.get(&id) else {
            return;
        };
        while self.world.send(End::A, id, message.clone()).is_ok() {}
    }

    fn stats(&self) -> SessionStats {
        self.world.session(End::B).stats()
    }

    /// Lets so much time pass, with `on_message` for each that came.
    fn pass(&mut self, time: Duration) {
        let until = self.world.now() + time;
        while let Some(happening) = self.world.next(until) {
            match happening {
                Happening::Event(End::A, Event::Drained { stream, .. }) => self.fill(stream),
                // Nothing is said back.
                Happening::Event(End::B, Event::StreamEnded(stream, _)) => {
                    self.world.finish(End::B, stream);
                    self.ended.insert(stream);
                }
                Happening::Event(end, Event::Closed(result)) => panic!("{end:?}: {result:?}"),
                Happening::Message {
                    stream, message, ..
                } => {
                    let (bytes, messages) = self.got.entry(stream).or_default();
                    *bytes += message.payload.len() as u64;
                    *messages += 1;
                }
                _ => {}
            }
        }
        let stats = self.stats();
        assert!(stats.received_most <= stats.received_limit, "{stats:?}");
        self.most = stats.received_most;
    }

    fn messages(&self, id: StreamId) -> u64 {
        self.got.get(&id).map_or(0, |(_, messages)| *messages)
    }

    /// Payload bytes a second of these streams together.
    fn rate(&mut self, of: &[StreamId], time: Duration) -> f64 {
        let bytes = |world: &Self| -> u64 {
            of.iter()
                .filter_map(|id| world.got.get(id))
                .map(|it| it.0)
                .sum()
        };
        let before = bytes(self);
        self.pass(time);
        (bytes(self) - before) as f64 / time.as_secs_f64()
    }
}

fn link(megabits: f64, delay_ms: u64) -> LinkConfig {
    LinkConfig {
        rate: BytesPerSec::new(megabits * 125e3),
        delay: Duration::from_millis(delay_ms),
        ..LinkConfig::default()
    }
}

fn limits(memory: usize) -> Limits {
    Limits::default()
        .max_message(LONGEST)
        .connection_memory(memory)
}

/// The rate of `read` streams with messages of `len`, beside so many that nobody reads; these begin first, in
/// between, or last.
fn beside(unread: usize, order: usize, link: LinkConfig, memory: usize, len: usize) -> f64 {
    let mut world = Overload::new(link, limits(memory));
    let mut read = Vec::new();
    for at in 0..2 {
        if order != at {
            read.extend((0..2).map(|_| world.open(len, true)));
        }
        if order != 1 - at {
            for number in 0..unread {
                world.open(1 + 997 * number % 40_000, false);
            }
        }
    }
    // They come to hold what they can.
    world.pass(Duration::from_secs(4));
    let rate = world.rate(&read, Duration::from_secs(4));
    let stats = world.stats();
    println!(
        "unread {unread} order {order} memory {memory} messages {len}: {rate:.0} B/s, most held {}, waits {}",
        world.most, stats.peer_credit_waits
    );
    rate / read.len() as f64
}

#[test]
fn streams_that_are_read_keep_their_rate_beside_hundreds_that_are_not() {
    let cases = [
        (link(50.0, 10), 4 << 20, 60_000),
        (link(10.0, 40), 4 << 20, 60_000),
        (link(100.0, 1), 4 << 20, LONGEST),
        (link(200.0, 20), 16 << 20, LONGEST),
    ];
    for (link, memory, long) in cases {
        for len in [100, 3000, long] {
            let alone = beside(0, 0, link, memory, len);
            for order in 0..2 {
                let rate = beside(400, order, link, memory, len);
                assert!(
                    rate > 0.9 * alone,
                    "{rate} of {alone} B/s with messages of {len} bytes"
                );
            }
        }
    }
}

/// Streams that were read under pressure and then left hold what they had; who comes later finds enough.
#[test]
fn streams_that_were_read_and_left_slow_only_themselves() {
    let (link, memory) = (link(50.0, 10), 16 << 20);
    let mut world = Overload::new(link, limits(memory));
    for number in 0..400 {
        world.open(1 + 997 * number % 40_000, false);
    }
    world.pass(Duration::from_secs(4));
    let waits = world.stats().peer_credit_waits;
    assert!(waits >= 400, "{waits}");
    let alone = beside(0, 0, link, memory, 3000) * 2.0;
    for round in 0..20 {
        let read: Vec<_> = (0..5).map(|_| world.open(3000, true)).collect();
        world.pass(Duration::from_secs(1));
        let rate = world.rate(&read, Duration::from_secs(1));
        // What was given cannot be taken back: after many of them each message has to be asked for.
        let least = if round < 3 { 0.9 } else { 0.05 };
        assert!(rate > least * alone, "round {round}: {rate} of {alone} B/s");
        for id in read {
            world.world.set_reads(End::B, id, false);
        }
    }
}

#[test]
fn new_streams_with_long_first_messages_begin_and_end_under_pressure() {
    for long in [70_000, LONGEST] {
        let mut world = Overload::new(link(100.0, 5), limits(2 << 20));
        for number in 0..300 {
            // Some are inside a long message, too.
            world.open(if number % 3 == 0 { long } else { 500 }, false);
        }
        world.pass(Duration::from_secs(3));
        assert_eq!(world.messages(StreamId::new(0).expect("a number")), 0);
        for round in 0..20 {
            let config = StreamConfig::default();
            let ids: Vec<_> = (0..5)
                .map(|_| {
                    let id = world.world.open(End::A, "late", config).expect("a stream");
                    let message = Bytes::from(vec![round; long]);
                    world.world.send(End::A, id, message).expect("room");
                    id
                })
                .collect();
            world.pass(Duration::from_secs(1));
            for id in ids {
                assert_eq!(world.messages(id), 1, "round {round}");
            }
        }
    }
}

/// Ten times as much comes as is taken: what is held stays where it is, and each stream goes at the pace of its reader.
#[test]
fn with_ten_times_as_much_as_is_taken_each_stream_has_the_pace_of_its_reader() {
    let mut world = Overload::new(link(100.0, 5), limits(8 << 20));
    let slow: Vec<_> = (0..300).map(|_| world.open(2000, false)).collect();
    let fast: Vec<_> = (0..2).map(|_| world.open(2000, true)).collect();
    let mut taken = vec![0_u32; slow.len()];
    let step = Duration::from_millis(20);
    let (mut before, mut halves) = (0, [0, 0]);
    for round in 0..500 {
        // A tenth of what the link brings, one message of each stream after the other.
        for at in 0..12 {
            let at = (round * 12 + at) % slow.len();
            taken[at] += u32::from(world.world.take_one(End::B, slow[at]).is_some());
        }
        world.pass(step);
        if round % 250 == 249 {
            let all = fast.iter().map(|id| world.messages(*id)).sum::<u64>();
            halves[round / 250] = all - before;
            before = all;
        }
    }
    println!(
        "slow {:?}, fast {halves:?}, most {}",
        &taken[..5],
        world.most
    );
    // 500 rounds of 12 are 20 for each; the first one or two find nothing yet.
    assert!(taken.iter().all(|count| *count >= 18), "{taken:?}");
    let rate = halves[1] as f64 * 2000.0 / 5.0;
    assert!(rate > 0.9 * 0.9 * 12.5e6, "{rate} B/s");
}

#[test]
fn ten_thousand_streams_go_on_in_the_default_memory() {
    let mut world = Overload::new(link(1000.0, 1), Limits::default());
    let config = StreamConfig::default();
    let ids: Vec<_> = (0..10_000)
        .map(|_| {
            world
                .world
                .open(End::A, "one of many", config)
                .expect("a stream")
        })
        .collect();
    for _ in 0..3 {
        for id in &ids {
            let message = Bytes::from_static(&[7; 1000]);
            world.world.send(End::A, *id, message).expect("room");
        }
        world.pass(Duration::from_secs(1));
    }
    // Long ones too: more than all of the memory.
    for id in &ids {
        let message = Bytes::from_static(&[7; 10_000]);
        world.world.send(End::A, *id, message).expect("room");
    }
    world.pass(Duration::from_secs(2));
    assert!(ids.iter().all(|id| world.messages(*id) == 4));
    assert_eq!(world.stats().peer_credit_waits, 0, "nobody had to wait");
    // One of them is as fast as one alone.
    let rate = |world: &mut Overload, id| {
        world.sent.insert(id, Bytes::from(vec![9; 60_000]));
        world.fill(id);
        world.pass(Duration::from_secs(1));
        world.rate(&[id], Duration::from_secs(1))
    };
    let of_many = rate(&mut world, ids[5000]);
    let mut alone = Overload::new(link(1000.0, 1), Limits::default());
    let id = alone.open(60_000, true);
    let alone = rate(&mut alone, id);
    assert!(of_many > 0.99 * alone, "{of_many} of {alone} B/s");
}

/// What a hostile sender of the overload does besides the streams that it keeps full: as many streams as limits allow, each
/// with a message that is read, and then finished.
struct Opener {
    opened: Vec<StreamId>,
    /// The most that there were at once.
    most: usize,
}

impl Opener {
    fn run(&mut self, world: &mut Overload) {
        for _ in 0..OPENED_A_STEP {
            let Ok(id) = world
                .world
                .open(End::A, "one more", StreamConfig::default())
            else {
                break;
            };
            let len = [0, 100, 3000][id.get() as usize / 2 % 3];
            let message = Bytes::from(vec![3; len]);
            world.world.send(End::A, id, message).expect("room");
            world.world.finish(End::A, id);
            self.opened.push(id);
        }
        self.opened.retain(|id| !world.ended.contains(id));
        self.most = self.most.max(self.opened.len());
    }
}

const STEP: Duration = Duration::from_millis(20);
/// Of the 1000 a second that its limits allow: one more each second, and the session ends.
const OPENED_A_STEP: usize = 19;
/// Bytes that an honest sender with a pace sends in a step.
const PACED: usize = 1000;

/// Hostile and honest senders on one connection, all but the paced of which would each take all of it. Fair is what max-min fairness
/// gives: a stream that wants less than the others (its pace, or its reader's) all that it wants, and each of the others the
/// same part of what those leave of the capacity, which is what one stream gets alone. Those that nobody reads have no share.
fn overload(honest_first: bool) {
    let link = link(80.0, 5);
    let bounds = limits(8 << 20).max_streams(500).streams_per_second(1000);
    let mut alone = Overload::new(link, bounds);
    let one = alone.open(3000, true);
    alone.pass(Duration::from_secs(2));
    let capacity = alone.rate(&[one], Duration::from_secs(2));

    let mut world = Overload::new(link, bounds);
    let (mut paced, mut greedy) = (Vec::new(), Vec::new());
    let mut begin_honest = |world: &mut Overload| {
        for _ in 0..8 {
            let config = StreamConfig::default();
            paced.push(world.world.open(End::A, "paced", config).expect("a stream"));
            greedy.push(world.open([300, 3000][greedy.len() % 2], true));
        }
    };
    if honest_first {
        begin_honest(&mut world);
    }
    let mut read = Vec::new();
    for number in 0..200 {
        let len = [0, 1, 997 * number % 40_000, LONGEST][number % 4];
        world.open(len, false);
    }
    for len in [0, 1, 40, LONGEST] {
        read.extend((0..6).map(|_| world.open(len, true)));
    }
    let slow: Vec<_> = (0..20).map(|_| world.open(20_000, false)).collect();
    if !honest_first {
        world.pass(Duration::from_secs(1));
        begin_honest(&mut world);
    }

    let mut opener = Opener {
        opened: Vec::new(),
        most: 0,
    };
    let bytes = |world: &Overload, id| world.got.get(&id).map_or(0, |it| it.0);
    let mut before = BTreeMap::new();
    let mut taken = 0;
    let (rounds, warm) = (300, 100);
    for round in 0..rounds {
        if round == warm {
            before.clone_from(&world.got);
        }
        for id in &paced {
            let message = Bytes::from(vec![1; PACED]);
            // What its queue has no room for is its loss.
            let _ = world.world.send(End::A, *id, message);
        }
        // One of those who have a slow reader has a message taken: 10 kB/s for each, a tenth of its share and less.
        if round % 5 == 0 {
            let id = slow[round / 5 % slow.len()];
            let message = world.world.take_one(End::B, id);
            taken += message.map_or(0, |it| it.payload.len() * usize::from(round >= warm));
        }
        opener.run(&mut world);
        world.pass(STEP);
    }
    let seconds = STEP.as_secs_f64() * f64::from(rounds as u32 - warm as u32);
    let rate =
        |id: &StreamId| (bytes(&world, *id) - before.get(id).map_or(0, |it| it.0)) as f64 / seconds;
    let full: BTreeSet<_> = read.iter().chain(&greedy).copied().collect();
    let others = world.got.keys().filter(|id| !full.contains(id));
    let modest = others.map(rate).sum::<f64>() + taken as f64 / seconds;
    let share = (capacity - modest) / full.len() as f64;
    let pace = PACED as f64 / STEP.as_secs_f64();
    let least = |of: &[StreamId]| of.iter().map(rate).fold(f64::MAX, f64::min);
    let (of_paced, of_greedy) = (least(&paced), least(&greedy));
    println!(
        "honest first {honest_first}: capacity {capacity:.0} B/s, {modest:.0} of the modest, {share:.0} for each other; paced {of_paced:.0} of {pace:.0}, \
         greedy {of_greedy:.0}, hostile {:.0} in all, {} streams opened, at most {} at once, {} bytes held at most",
        read.iter().map(rate).sum::<f64>(),
        world.ended.len(),
        opener.most,
        world.most
    );
    assert!(world.ended.len() > 2000, "{}", world.ended.len());
    assert!(pace < share, "{pace} of {share}");
    assert!(of_paced >= 0.9 * pace, "{of_paced} of {pace}");
    assert!(of_greedy >= 0.9 * share, "{of_greedy} of {share}");
}

#[test]
fn honest_streams_keep_their_share_beside_all_kinds_of_hostile_ones() {
    overload(true);
    overload(false);
}

/// The first bytes of a stream wait for nobody: they are there after one way.
#[test]
fn a_new_stream_sends_its_first_bytes_at_once() {
    let mut world = Overload::new(link(1000.0, 50), Limits::default());
    let id = world.open(100, true);
    // The link is known by now.
    world.pass(Duration::from_secs(2));
    world.sent.clear();
    world.pass(Duration::from_secs(1));
    let config = StreamConfig::default();
    let late = world.world.open(End::A, "late", config).expect("a stream");
    assert!(world.messages(id) > 0);
    let message = Bytes::from(vec![1; 200_000]);
    world.world.send(End::A, late, message).expect("room");
    world.pass(Duration::from_millis(56));
    assert_eq!(world.messages(late), 1, "50 ms of way, 2 ms on the link");
}

/// Whatever is read when, nothing stands still for ever, and the memory holds.
#[test]
fn however_streams_are_read_everything_arrives_in_the_end() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let longest = 1 << rng.u32(10..18);
        let more = 1 << rng.u32(10..21);
        let memory = longest + (16 << 10) + rng.usize(..more);
        let limits = Limits::default()
            .max_message(longest)
            .connection_memory(memory)
            .window(1 << rng.u32(12..21));
        let mut world = Overload::new(link(rng.f64() * 200.0 + 1.0, rng.u64(..30)), limits);
        let mut expected: BTreeMap<StreamId, u64> = BTreeMap::new();
        for _ in 0..rng.usize(50..400) {
            match rng.u8(..12) {
                0..=2 => {
                    let config = StreamConfig::default();
                    let id = world.world.open(End::A, "any", config).expect("a stream");
                    world.world.set_reads(End::B, id, rng.bool());
                    expected.insert(id, 0);
                }
                3..=6 => {
                    let Some(id) = rng.choice(expected.keys().copied()) else {
                        continue;
                    };
                    for _ in 0..rng.usize(1..20) {
                        let len = match rng.u8(..8) {
                            0 => longest,
                            1..=3 => rng.usize(..=longest),
                            _ => rng.usize(..300),
                        };
                        let message = Bytes::from(vec![seed as u8; len]);
                        if world.world.send(End::A, id, message).is_ok() {
                            *expected.entry(id).or_default() += 1;
                        }
                    }
                }
                7..=9 => {
                    if let Some(id) = rng.choice(expected.keys().copied()) {
                        world.world.set_reads(End::B, id, rng.bool());
                    }
                }
                _ => world.pass(Duration::from_millis(rng.u64(..400))),
            }
        }
        // A stream that is read goes on, whatever the others hold.
        world.pass(Duration::from_secs(5));
        for id in expected.keys() {
            world.world.set_reads(End::B, *id, true);
        }
        world.pass(Duration::from_secs(300));
        for (id, count) in &expected {
            assert_eq!(world.messages(*id), *count, "seed {seed}, {id}");
        }
        let held = world.stats().received_held;
        assert_eq!(held, 0, "seed {seed}");
        assert!(world.world.now() > Time::ZERO);
    }
}
