//! Messages from one session to another, whose sockets are a copy and whose time is made up.

use core::time::Duration;
use std::collections::VecDeque;
use std::hint::black_box;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use tautline::control::PolicyConfig;
use tautline::session::{
    CodecWorker, Message, Outgoing, Role, Session, SessionConfig, StreamConfig,
};
use tautline::units::Time;
use tautline::wire::{RecordKind, StreamId};

use crate::pieces::{Named, Piece, over};

pub(crate) const PIECES: &[Named] = &[
    ("session/64 messages of 64 B", block),
    ("session/message, none", || message(PolicyConfig::None)),
    // Bytes that no codec makes smaller: beside the one above, what deciding costs a session.
    ("session/message, cost", || message(PolicyConfig::default())),
];

struct Pair {
    /// Who connected, and who accepted.
    ends: [Session; 2],
    inputs: [BytesMut; 2],
    worker: CodecWorker,
    stream: StreamId,
    now: Time,
    waiting: VecDeque<Outgoing>,
    taken: VecDeque<Message>,
}

impl Pair {
    fn new(policy: PolicyConfig) -> Self {
        let config = SessionConfig::default().policy(policy);
        let end = |role| {
            let mut session = Session::new(role, config.clone(), Time::ZERO).expect("settings");
            session.set_budget(Time::ZERO, None);
            session
        };
        let mut pair = Self {
            ends: [end(Role::Connector), end(Role::Acceptor)],
            inputs: Default::default(),
            worker: CodecWorker::new(20),
            stream: StreamId::new(0).expect("small"),
            now: Time::ZERO,
            waiting: VecDeque::new(),
            taken: VecDeque::new(),
        };
        pair.exchange();
        pair.stream = pair.ends[0]
            .open("pieces", StreamConfig::default())
            .expect("connected");
        pair.exchange();
        pair
    }

    fn send(&mut self, payload: &Bytes) {
        self.ends[0]
            .send(self.stream, payload.clone(), RecordKind::Message)
            .expect("room");
    }

    /// The same message so many times, handed over at once as a driver does it.
    fn send_all(&mut self, payload: &Bytes, times: usize) {
        let message = Outgoing {
            payload: payload.clone(),
            kind: RecordKind::Message,
            sensitive: false,
        };
        self.waiting.resize(times, message);
        let sent = self.ends[0].send_all(self.stream, &mut self.waiting);
        assert_eq!(sent.expect("open"), times);
    }

    /// Takes all that has arrived; how many messages.
    fn take(&mut self) -> usize {
        let end = &mut self.ends[1];
        end.recv_all(self.stream, &mut self.taken);
        let messages = self.taken.len();
        let charge = self.taken.iter().map(Message::charge).sum();
        self.taken.clear();
        end.release(self.stream, charge);
        messages
    }

    /// Both say what they have to say, once there and once back, 50 µs each.
    fn exchange(&mut self) {
        for from in [0, 1, 0] {
            self.run(from);
            self.now = self.now + Duration::from_micros(50);
        }
        self.run(1);
    }

    /// Follows the drain rule of a session, and copies its output to the other's input.
    fn run(&mut self, at: usize) {
        let (now, session) = (self.now, &mut self.ends[at]);
        session
            .handle_input(now, &mut self.inputs[at])
            .expect("honest");
        while let Some(job) = session.poll_decode() {
            let decoded = self.worker.decode(job);
            session
                .handle_decoded(decoded, Duration::from_micros(5))
                .expect("honest");
        }
        session.handle_timeout(now).expect("in time");
        while session.poll_event().is_some() {}
        while let Some(job) = session.poll_encode(now) {
            let encoded = self.worker.encode(job);
            session.handle_encoded(now, encoded, Duration::from_micros(20));
        }
        while session.output_len() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let filled = session.fill_slices(&mut slices);
            let mut written = 0;
            for slice in &slices[..filled] {
                self.inputs[1 - at].extend_from_slice(slice);
                written += slice.len();
            }
            session.handle_written(now, written);
        }
    }
}

/// One message for each time: 64 are sent and arrive together.
fn block() -> Piece {
    let mut pair = Pair::new(PolicyConfig::None);
    let payload = Bytes::from_static(&[0xaa; 64]);
    Box::new(move |times| {
        for _ in 0..times / 64 {
            pair.send_all(&payload, 64);
            pair.exchange();
            assert_eq!(black_box(pair.take()), 64);
        }
    })
}

/// A message of 256 B alone.
fn message(policy: PolicyConfig) -> Piece {
    let mut pair = Pair::new(policy);
    let mut rng = fastrand::Rng::with_seed(1);
    let payload: Bytes = std::iter::repeat_with(|| rng.u8(..)).take(256).collect();
    over(move || {
        pair.send(&payload);
        pair.exchange();
        assert_eq!(black_box(pair.take()), 1);
    })
}
