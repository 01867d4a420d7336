//! Input that cannot be true: clocks that stand or jump, peers that report nonsense, codecs that cost
//! something else than they did. Nothing panics, all is delivered, and what is known stays finite.

use std::cell::Cell;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tautline::codecs::{CodecId, prior_decode_nanos, prior_encode_nanos};
use tautline::control::PolicyConfig;
use tautline::generate::{Content, Generator};
use tautline::session::{
    CodecWorker, Event, Role, SendError, Session, SessionConfig, StreamConfig,
};
use tautline::sim::{CodecCosts, End, Experiment, Happening, NodeConfig, Pace, Traffic, World};
use tautline::units::Time;
use tautline::wire::{Control, DecodeReport, ProbeReply, RecordKind, StreamId};

use crate::common::megabits;

/// One session, driven by hand.
struct Side {
    session: Session,
    worker: CodecWorker,
    input: BytesMut,
    got: Vec<Bytes>,
}

impl Side {
    fn new(role: Role, now: Time) -> Self {
        let mut session = Session::new(role, SessionConfig::default(), now).expect("valid");
        session.set_budget(now, None);
        Self {
            session,
            worker: CodecWorker::new(20),
            input: BytesMut::new(),
            got: Vec::new(),
        }
    }

    /// Follows the drain rule once. Codec work takes `elapsed`, whatever the clock says.
    fn run(&mut self, now: Time, elapsed: Duration) -> Vec<u8> {
        loop {
            let before = self.input.len();
            self.session
                .handle_input(now, &mut self.input)
                .expect("open");
            let mut worked = self.input.len() != before;
            while let Some(job) = self.session.poll_decode() {
                let block = self.worker.decode(job);
                self.session.handle_decoded(block, elapsed).expect("valid");
                worked = true;
            }
            if !worked {
                break;
            }
        }
        self.session.handle_timeout(now).expect("open");
        while let Some(event) = self.session.poll_event() {
            if let Event::Readable(id) = event {
                while let Some(message) = self.session.recv(id) {
                    self.session.release(id, message.charge());
                    self.got.push(message.payload);
                }
            }
        }
        let mut out = Vec::new();
        loop {
            let mut worked = false;
            while let Some(job) = self.session.poll_encode(now) {
                let block = self.worker.encode(job);
                self.session.handle_encoded(now, block, elapsed);
                worked = true;
            }
            if let Some(job) = self.session.poll_shadow() {
                let mut block = self.worker.shadow(job, || now);
                for result in &mut block.results {
                    result.encode = elapsed;
                }
                self.session.handle_shadowed(now, block);
            }
            while self.session.output_len() > 0 {
                let mut slices = [IoSlice::new(&[]); 8];
                let filled = self.session.fill_slices(&mut slices);
                let parts = slices[..filled].iter();
                let written = parts.map(|slice| out.extend_from_slice(slice)).count();
                assert!(written > 0);
                let written = slices[..filled].iter().map(|slice| slice.len()).sum();
                self.session.handle_written(now, written);
                worked = true;
            }
            if !worked {
                return out;
            }
        }
    }
}

/// What is strange about a conversation.
struct Strange<'a> {
    /// The time of each round.
    clock: &'a dyn Fn(u64) -> Time,
    /// The time that codec work takes.
    elapsed: Duration,
    /// What the peer says besides.
    says: &'a dyn Fn(u64) -> Option<Control>,
}

/// Sends messages from one side to the other until all have arrived; the sender's session.
fn converse(strange: &Strange<'_>, messages: &[Bytes]) -> (Session, StreamId) {
    let now = (strange.clock)(0);
    let (mut a, mut b) = (
        Side::new(Role::Connector, now),
        Side::new(Role::Acceptor, now),
    );
    let mut stream = None;
    let mut sent = 0;
    for round in 0..20_000 {
        let now = (strange.clock)(round);
        if stream.is_none() {
            stream = a.session.open("strange", StreamConfig::default()).ok();
        }
        while let (Some(id), Some(message)) = (stream, messages.get(sent)) {
            // A little at a time, so that there are many decisions.
            if sent >= b.got.len() + 40 {
                break;
            }
            match a.session.send(id, message.clone(), RecordKind::Message) {
                Ok(()) => sent += 1,
                Err(SendError::Full(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let there = a.run(now, strange.elapsed);
        b.input.extend_from_slice(&there);
        let mut back = b.run(now, strange.elapsed);
        if let Some(control) = (strange.says)(round).filter(|_| stream.is_some()) {
            control.put(&mut back);
        }
        a.input.extend_from_slice(&back);
        if let Some(id) = stream.filter(|_| b.got.len() == messages.len()) {
            assert_eq!(b.got, messages);
            assert_finite(&a.session, id);
            return (a.session, id);
        }
    }
    panic!("{} of {} messages arrived", b.got.len(), messages.len());
}

fn assert_finite(session: &Session, stream: StreamId) {
    let stats = session.stats();
    for rate in [stats.send_rate, stats.link_rate].into_iter().flatten() {
        assert!(rate.get().is_finite() && rate.get() > 0.0, "{rate:?}");
    }
    let stats = session.stream_stats(stream).expect("open");
    for report in &stats.reports {
        assert!(report.ratio.is_finite() && report.ratio > 0.0, "{report:?}");
    }
}

fn telecom(count: usize) -> Vec<Bytes> {
    Generator::new(Content::Telecom, 8).take(count).collect()
}

const STEADY: fn(u64) -> Time = |round| Time::from_nanos(round * 1_000_000);
const NOTHING: fn(u64) -> Option<Control> = |_| None;

#[test]
fn clocks_that_stand_or_jump_do_no_harm() {
    const HOUR: u64 = 3_600_000_000_000;
    let stands = |_| Time::from_nanos(HOUR);
    let forward = |round| Time::from_nanos(round * 1_000_000 + if round > 40 { HOUR } else { 0 });
    let back = |round| Time::from_nanos(round * 1_000_000 + if round > 40 { 0 } else { HOUR });
    let wild = |round: u64| Time::from_nanos(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let clocks: [&dyn Fn(u64) -> Time; 4] = [&stands, &forward, &back, &wild];
    for clock in clocks {
        for elapsed in [Duration::ZERO, Duration::from_micros(5), Duration::MAX] {
            let says = &NOTHING;
            let strange = Strange {
                clock,
                elapsed,
                says,
            };
            converse(&strange, &telecom(3000));
        }
    }
}

#[test]
fn absurd_reports_are_counted_and_do_no_harm() {
    let says = |round: u64| {
        let extreme = |at: u64| match (round / 7 + at) % 4 {
            0 => 0,
            1 => u64::MAX,
            2 => round,
            _ => u64::MAX / 2,
        };
        Some(Control::ProbeReply(ProbeReply {
            id: extreme(0),
            received_nanos: extreme(1),
            held_nanos: extreme(2),
            load_permille: extreme(0),
            codec_budget: extreme(3),
            decoded: [
                CodecId::ZSTD,
                CodecId::LZ4,
                CodecId::SNAPPY,
                CodecId::IDENTITY,
            ]
            .map(|codec| DecodeReport {
                codec,
                blocks: extreme(1),
                plain_bytes: extreme(2),
                nanos: extreme(3),
            })
            .to_vec(),
        }))
    };
    let strange = Strange {
        clock: &STEADY,
        elapsed: Duration::from_micros(5),
        says: &says,
    };
    let (session, _) = converse(&strange, &telecom(3000));
    let absurd = session.stats().absurd_reports;
    println!("{absurd} absurd reports");
    assert!(absurd > 10, "{absurd}");
    let honest = Strange {
        says: &NOTHING,
        ..strange
    };
    let (session, _) = converse(&honest, &telecom(3000));
    assert_eq!(session.stats().absurd_reports, 0);
}

#[test]
fn empty_messages_and_streams_of_one_message_arrive() {
    let strange = Strange {
        clock: &STEADY,
        elapsed: Duration::from_micros(5),
        says: &NOTHING,
    };
    converse(&strange, &vec![Bytes::new(); 2000]);
    converse(&strange, &telecom(1));
    converse(&strange, &[Bytes::new()]);
    for pace in [Pace::Throughput, Pace::Latency] {
        let traffic = Traffic::new(vec![Bytes::new(); 500], pace);
        let outcome = Experiment::new(traffic).run(PolicyConfig::default());
        assert_eq!(outcome.expect("a run").messages, 500);
    }
}

/// Sends 64 KiB text at a time over 100 Mbit/s, with zstd's times multiplied by `factor` after the first
/// half; how long each half took.
fn lying(factor_permille: u64) -> (Duration, Duration) {
    let permille = Arc::new(AtomicU64::new(1000));
    let scaled = |permille: &Arc<AtomicU64>, codec, nanos: u64| {
        if codec == CodecId::ZSTD {
            nanos.saturating_mul(permille.load(Ordering::Relaxed)) / 1000
        } else {
            nanos
        }
    };
    let (encode, decode) = (permille.clone(), permille.clone());
    let costs = CodecCosts::from_fns(
        move |arm, len| scaled(&encode, arm.codec, prior_encode_nanos(arm, len)),
        move |codec, len| scaled(&decode, codec, prior_decode_nanos(codec, len)),
    );
    let node = NodeConfig::default();
    let mut world = World::new(node.clone(), node, megabits(100.0), costs).expect("valid");
    world.connect();
    let stream = world
        .open(End::A, "lie", StreamConfig::default())
        .expect("connected");
    let messages = telecom(60_000);
    let (mut sent, mut got) = (0, 0);
    let began = world.now();
    let mut half = began;
    while got < messages.len() {
        while let Some(message) = messages.get(sent) {
            match world.send(End::A, stream, message.clone()) {
                Ok(()) => sent += 1,
                Err(SendError::Full(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let until = world.now() + Duration::from_secs(10);
        match world.next(until).expect("no starvation") {
            Happening::Message { .. } => {
                got += 1;
                if got == messages.len() / 2 {
                    half = world.now();
                    permille.store(factor_permille, Ordering::Relaxed);
                }
            }
            Happening::Event(..) | Happening::Timer(_) => {}
        }
    }
    let (first, second) = (
        half.saturating_since(began),
        world.now().saturating_since(half),
    );
    (first, second)
}

#[test]
fn a_codec_whose_cost_changes_a_hundredfold_is_left_or_taken_up() {
    let (_, same) = lying(1000);
    let (_, dear) = lying(100_000);
    let (_, cheap) = lying(10);
    println!("half takes {same:?}, with zstd 100 times as dear {dear:?}, as cheap {cheap:?}");
    // What is under way when it becomes dear takes its time: one block, and a shadow or two.
    assert!(dear < 5 * same, "{dear:?}");
    assert!(cheap < same.mul_f64(1.1), "{cheap:?}");
}

#[test]
fn same_seed_same_decisions() {
    let run = |seed| {
        let traffic = Traffic::new(telecom(5000), Pace::Latency);
        let mut experiment = Experiment::new(traffic);
        experiment.a.session = SessionConfig::default().seed(seed).trace(true);
        let outcome = experiment.run(PolicyConfig::default()).expect("a run");
        format!("{:?} {:?}", outcome.decisions, outcome.times)
    };
    let first = run(3);
    assert!(first == run(3), "two runs of one seed decide differently");
}

#[test]
fn loads_and_budgets_beyond_all_bounds_are_clamped_and_counted() {
    let counted = |load_permille, codec_budget| {
        let said = Cell::new(0_u64);
        let says = |_| {
            said.set(said.get() + 1);
            Some(Control::ProbeReply(ProbeReply {
                id: u64::MAX,
                received_nanos: 0,
                held_nanos: 0,
                load_permille,
                codec_budget,
                decoded: Vec::new(),
            }))
        };
        let strange = Strange {
            clock: &STEADY,
            elapsed: Duration::from_micros(5),
            says: &says,
        };
        let (session, _) = converse(&strange, &telecom(3000));
        let stats = session.stats();
        assert!(stats.peer_load.is_some_and(|load| load.get() <= 1.0));
        // How often each counts, but for the first and last few, which are not heard.
        (stats.absurd_reports as f64 / said.get() as f64).round() as u64
    };
    let (load, budget) = (ProbeReply::FULL_LOAD, ProbeReply::MOST_BUDGET);
    // Replies to nothing are absurd by themselves.
    for (load, budget, times) in [
        (load, budget, 1),
        (load + 1, 0, 2),
        (0, budget + 1, 2),
        (u64::MAX, u64::MAX, 2),
    ] {
        assert_eq!(counted(load, budget), times, "{load} {budget}");
    }
}
