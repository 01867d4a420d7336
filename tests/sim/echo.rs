//! The experiment of the thesis's chapter 7: node A sends, node B sends back, A measures.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tautline::codecs::Arm;
use tautline::control::{CpuGuardConfig, PolicyConfig, Processors};
use tautline::session::{SessionConfig, StreamConfig};
use tautline::sim::{CodecCosts, CpuConfig, End, Happening, LinkConfig, NodeConfig, World};
use tautline::units::Time;
use tautline::wire::StreamId;

/// What to run.
pub(crate) struct Echo {
    pub(crate) policy: PolicyConfig,
    /// Messages on their way at once; 1 is the thesis's.
    pub(crate) in_flight: usize,
    pub(crate) link: LinkConfig,
    pub(crate) processors: f64,
    pub(crate) guard: Option<CpuGuardConfig>,
    pub(crate) seed: u64,
}

impl Default for Echo {
    fn default() -> Self {
        Self {
            policy: PolicyConfig::default(),
            in_flight: 1,
            link: LinkConfig::default(),
            processors: 4.0,
            guard: None,
            seed: 1,
        }
    }
}

/// How often each arm carried a message, in the messages since the entry before.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    pub(crate) arms: Vec<(Arm, u64)>,
}

impl Shares {
    pub(crate) fn of(&self, arm: Arm) -> f64 {
        let all: u64 = self.arms.iter().map(|(_, messages)| messages).sum();
        let own = self
            .arms
            .iter()
            .filter(|(known, _)| *known == arm)
            .map(|(_, messages)| messages)
            .sum::<u64>();
        own as f64 / all.max(1) as f64
    }
}

pub(crate) struct Run {
    pub(crate) world: World,
    stream: StreamId,
    in_flight: usize,
    pub(crate) rtts: Vec<Duration>,
    pub(crate) shares: Vec<Shares>,
    counted: Vec<(Arm, u64)>,
}

/// Messages between two entries of [`Run::shares`].
pub(crate) const STRIDE: usize = 100;

impl Run {
    pub(crate) fn new(echo: &Echo) -> Self {
        let session = SessionConfig::default().policy(echo.policy).seed(echo.seed);
        let cpu = CpuConfig {
            processors: Processors::new(echo.processors).expect("above zero"),
            background: 0.0,
            guard: echo.guard.clone(),
            ..CpuConfig::default()
        };
        let node = NodeConfig { session, cpu };
        let mut world = World::new(node.clone(), node, echo.link, CodecCosts::default())
            .expect("valid settings");
        world.connect();
        let stream = world
            .open(End::A, "echo", StreamConfig::default())
            .expect("connected");
        Self {
            world,
            stream,
            in_flight: echo.in_flight,
            rtts: Vec::new(),
            shares: Vec::new(),
            counted: Vec::new(),
        }
    }

    /// Sends `messages`, each after an answer; every echo is compared. `before` is called with the
    /// number of each message before it is sent.
    pub(crate) fn send(
        &mut self,
        messages: impl IntoIterator<Item = Bytes>,
        mut before: impl FnMut(usize, &mut World),
    ) {
        let mut messages = messages.into_iter();
        let mut waiting: VecDeque<(Time, Bytes)> = VecDeque::new();
        loop {
            while waiting.len() < self.in_flight {
                let Some(message) = messages.next() else {
                    break;
                };
                before(self.rtts.len() + waiting.len(), &mut self.world);
                waiting.push_back((self.world.now(), message.clone()));
                self.world
                    .send(End::A, self.stream, message)
                    .expect("room for what is in flight");
            }
            if waiting.is_empty() {
                return;
            }
            let limit = self.world.now() + Duration::from_secs(100);
            match self.world.next(limit) {
                Some(Happening::Message {
                    at: End::B,
                    stream,
                    message,
                }) => {
                    self.world
                        .send(End::B, stream, message.payload)
                        .expect("room for an echo");
                }
                Some(Happening::Message {
                    at: End::A,
                    message,
                    ..
                }) => {
                    let (sent, payload) = waiting.pop_front().expect("an echo of something");
                    assert_eq!(message.payload, payload, "an echo is what was sent");
                    self.rtts.push(self.world.now().saturating_since(sent));
                    if self.rtts.len() % STRIDE == 0 {
                        self.count_shares();
                    }
                }
                Some(_) => {}
                None => panic!("no echo within 100 s of virtual time"),
            }
        }
    }

    fn count_shares(&mut self) {
        let stats = self
            .world
            .session(End::A)
            .stream_stats(self.stream)
            .expect("an open stream");
        let now: Vec<_> = stats
            .arms
            .iter()
            .map(|arm| (arm.arm, arm.messages))
            .collect();
        let before = |arm: Arm| {
            self.counted
                .iter()
                .find(|(known, _)| *known == arm)
                .map_or(0, |(_, count)| *count)
        };
        let arms = now
            .iter()
            .map(|(arm, count)| (*arm, count - before(*arm)))
            .collect();
        self.shares.push(Shares { arms });
        self.counted = now;
    }

    pub(crate) fn mean_rtt(&self) -> f64 {
        let sum: Duration = self.rtts.iter().sum();
        sum.as_secs_f64() / self.rtts.len() as f64
    }
}
