//! Two sessions joined by pipes, in virtual time that stands still unless a test moves it.

use core::time::Duration;
use std::collections::HashMap;
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;

use super::*;
use crate::codecs::{Arm, CodecId};
use crate::control::{MajorityConfig, Reason};
use crate::wire::{
    Blocked, Close, CloseCode, Credit, Frame, GroupId, Part, Unused, WireError, parse_frame,
};

mod ahead;
mod credit;
#[cfg(all(feature = "generate", feature = "zstd", feature = "lz4"))]
mod dictionaries;
#[cfg(all(feature = "generate", feature = "zstd", feature = "lz4"))]
mod groups;
mod held;
#[cfg(all(feature = "generate", feature = "zstd", feature = "lz4"))]
mod history;
mod limits;
mod limits_in_time;
mod messages;
mod model;
#[cfg(all(feature = "generate", feature = "zstd", feature = "lz4"))]
mod observed;
mod parallel;
#[cfg(all(feature = "generate", feature = "zstd", feature = "lz4"))]
mod recalled;
mod refused;
mod resume;
mod runs;

/// One end with its driver.
struct End {
    session: Session,
    worker: CodecWorker,
    input: BytesMut,
    events: Vec<Event>,
    received: HashMap<StreamId, Vec<Message>>,
    releases: bool,
    encode_time: Duration,
    /// Blocks that are encoded at once are done in the order that this makes.
    shuffles: Rng,
}

impl End {
    fn new(role: Role, config: SessionConfig) -> Self {
        Self {
            session: Session::new(role, config, Time::ZERO).expect("a valid configuration"),
            worker: CodecWorker::new(20),
            input: BytesMut::new(),
            events: Vec::new(),
            received: HashMap::new(),
            releases: true,
            encode_time: Duration::from_micros(20),
            shuffles: Rng::with_seed(5),
        }
    }

    /// Follows the drain rule once; the bytes to be written.
    fn run(&mut self, now: Time) -> Vec<u8> {
        let mut input = core::mem::take(&mut self.input);
        loop {
            let before = input.len();
            let _ = self.session.handle_input(now, &mut input);
            let mut worked = input.len() != before;
            while let Some(job) = self.session.poll_decode() {
                let block = self.worker.decode(job);
                let _ = self.session.handle_decoded(block, Duration::from_micros(5));
                worked = true;
            }
            if !worked {
                break;
            }
        }
        self.input = input;
        let _ = self.session.handle_timeout(now);
        while let Some(job) = self.session.poll_dictionary(now) {
            let work = self.worker.dictionary(job);
            let taken = Duration::from_millis(20);
            let _ = self.session.handle_dictionary(now, work, taken);
        }
        while let Some(event) = self.session.poll_event() {
            if let Event::Readable(id) = event {
                while let Some(message) = self.session.recv(id) {
                    if self.releases {
                        self.session.release(id, message.charge());
                    }
                    self.received.entry(id).or_default().push(message);
                }
            }
            if let (Event::Starved(id), true) = (&event, self.releases) {
                self.session.want(*id);
            }
            self.events.push(event);
        }
        loop {
            let polled = core::iter::from_fn(|| self.session.poll_encode(now));
            let mut jobs: Vec<_> = polled.collect();
            if jobs.is_empty() {
                break;
            }
            self.shuffles.shuffle(&mut jobs);
            for job in jobs {
                let block = self.worker.encode(job);
                self.session.handle_encoded(now, block, self.encode_time);
            }
        }
        self.take_output(now)
    }

    fn take_output(&mut self, now: Time) -> Vec<u8> {
        let mut out = Vec::new();
        while self.session.output_len() > 0 {
            let mut slices = [IoSlice::new(&[]); 8];
            let filled = self.session.fill_slices(&mut slices);
            let written: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
            slices[..filled]
                .iter()
                .for_each(|slice| out.extend_from_slice(slice));
            self.session.handle_written(now, written);
        }
        out
    }

    fn payloads(&self, id: StreamId) -> Vec<&[u8]> {
        self.received
            .get(&id)
            .into_iter()
            .flatten()
            .map(|message| message.payload.as_ref())
            .collect()
    }
}

struct Pair {
    a: End,
    b: End,
    now: Time,
}

impl Pair {
    fn new(config: &SessionConfig) -> Self {
        let mut pair = Self::apart(config);
        pair.settle();
        pair
    }

    /// Before the handshake.
    fn apart(config: &SessionConfig) -> Self {
        let mut pair = Self {
            a: End::new(Role::Connector, config.clone()),
            b: End::new(Role::Acceptor, config.clone()),
            now: Time::ZERO,
        };
        pair.a.session.set_budget(Time::ZERO, None);
        pair.b.session.set_budget(Time::ZERO, None);
        pair
    }

    /// What a says takes `delay` to b, and b's answer as long to a.
    fn exchange(&mut self, delay: Duration) {
        let there = self.a.run(self.now);
        self.now = self.now + delay;
        self.b.input.extend_from_slice(&there);
        let back = self.b.run(self.now);
        self.now = self.now + delay;
        self.a.input.extend_from_slice(&back);
        let late = self.a.run(self.now);
        self.b.input.extend_from_slice(&late);
    }

    /// Lets both run until neither has anything to say; the bytes that went from a to b.
    fn settle(&mut self) -> Vec<u8> {
        self.settle_through(|bytes| bytes)
    }

    fn settle_through(&mut self, mut tamper: impl FnMut(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let from_a = tamper(self.a.run(self.now));
            self.b.input.extend_from_slice(&from_a);
            let from_b = self.b.run(self.now);
            self.a.input.extend_from_slice(&from_b);
            let quiet = from_a.is_empty() && from_b.is_empty();
            all.extend_from_slice(&from_a);
            if quiet {
                return all;
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.settle();
    }

    fn open(&mut self) -> StreamId {
        let id = self
            .a
            .session
            .open("test", StreamConfig::default())
            .expect("an open session");
        self.settle();
        id
    }

    fn send(&mut self, id: StreamId, payload: &[u8]) {
        self.a
            .session
            .send(id, Bytes::copy_from_slice(payload), RecordKind::Message)
            .expect("room");
    }
}

fn config(policy: PolicyConfig) -> SessionConfig {
    SessionConfig::default()
        .policy(policy)
        .send_queue(64 << 20)
        .limits(limits())
}

fn limits() -> Limits {
    Limits::default().max_message(32 << 20)
}

fn random_payload(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.u8(..10) {
        0 => 0,
        1 => rng.usize(1..4),
        2..=6 => rng.usize(4..600),
        7 | 8 => rng.usize(600..5000),
        _ => rng.usize(60_000..300_000),
    };
    let alphabet = if rng.bool() { 4 } else { 255 };
    (0..len).map(|_| rng.u8(..alphabet)).collect()
}

fn policies() -> Vec<PolicyConfig> {
    let mut policies = vec![
        PolicyConfig::None,
        PolicyConfig::RoundRobin,
        PolicyConfig::default(),
    ];
    policies.extend(
        crate::codecs::supported()
            .iter()
            .map(|info| PolicyConfig::Fixed(Arm::new(info.id, info.default_level.0))),
    );
    policies
}

/// What a peer says that opens a stream and closes it at once.
fn opened_and_closed(stream: StreamId) -> BytesMut {
    let mut frames = Vec::new();
    let open = Open {
        stream,
        group: GroupId(0),
        window: 0,
        name: String::new(),
    };
    Control::Open(open).put(&mut frames);
    let code = CloseCode::Finished;
    Control::Close(Close { stream, code }).put(&mut frames);
    BytesMut::from(frames.as_slice())
}
