//! Two sessions whose sockets are a copy and whose time is made up.

use core::time::Duration;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use tautline::session::{CodecWorker, Role, Session, SessionConfig, StreamConfig};
use tautline::units::Time;
use tautline::wire::{RecordKind, StreamId};

/// The two, and a stream from the first to the second.
pub(crate) struct Pair {
    /// Who connected, and who accepted.
    pub(crate) ends: [Session; 2],
    pub(crate) inputs: [BytesMut; 2],
    worker: CodecWorker,
    pub(crate) stream: StreamId,
    pub(crate) now: Time,
}

impl Pair {
    pub(crate) fn new(config: &SessionConfig) -> Self {
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
        };
        pair.exchange();
        let open = pair.ends[0].open("pieces", StreamConfig::default());
        pair.stream = open.expect("connected");
        pair.exchange();
        pair
    }

    pub(crate) fn send(&mut self, payload: &Bytes) {
        let sent = self.ends[0].send(self.stream, payload.clone(), RecordKind::Message);
        sent.expect("room");
    }

    /// Both say what they have to say, once there and once back, 50 µs each.
    pub(crate) fn exchange(&mut self) {
        for from in [0, 1, 0] {
            self.run(from);
            self.now = self.now + Duration::from_micros(50);
        }
        self.run(1);
    }

    /// Follows the drain rule of a session, and copies its output to the other's input.
    fn run(&mut self, at: usize) {
        let (now, session) = (self.now, &mut self.ends[at]);
        let input = &mut self.inputs[at];
        session.handle_input(now, input).expect("honest");
        while let Some(job) = session.poll_decode() {
            let decoded = self.worker.decode(job);
            let taken = session.handle_decoded(decoded, Duration::from_micros(5));
            taken.expect("honest");
        }
        session.handle_timeout(now).expect("in time");
        while session.poll_event().is_some() {}
        while let Some(job) = session.poll_encode(now) {
            let encoded = self.worker.encode(job);
            session.handle_encoded(now, encoded, Duration::from_micros(20));
        }
        let input = &mut self.inputs[1 - at];
        input.reserve(session.output_len());
        while session.output_len() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let filled = session.fill_slices(&mut slices);
            let mut written = 0;
            for slice in &slices[..filled] {
                input.extend_from_slice(slice);
                written += slice.len();
            }
            session.handle_written(now, written);
        }
    }
}
