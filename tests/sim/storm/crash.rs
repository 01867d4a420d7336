//! A process that is gone, and what the other side then says of its messages.

use core::time::Duration;
use std::collections::BTreeMap;

use tautline::session::SessionError;
use tautline::sim::End;
use tautline::wire::StreamId;

use super::{PATIENCE, Storm, chaos, number};

/// What became of the messages of sessions whose peer had crashed, as they said.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) sessions: u64,
    delivered: u64,
    unknown: u64,
    unsent: u64,
}

impl Told {
    pub(super) fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.delivered += other.delivered;
        self.unknown += other.unknown;
        self.unsent += other.unsent;
    }
}

impl Storm {
    /// One process is gone, with its session and all that it knew. The other hears of it and says truly what has arrived; then both begin a
    /// new session.
    pub(super) fn crash(&mut self) {
        // What the process has taken just now counts as taken.
        self.run(Duration::ZERO);
        if self.closed != [false; 2] {
            return;
        }
        let Some(chaos) = &mut self.chaos else {
            return;
        };
        let at = if chaos.bool() { End::A } else { End::B };
        // What it has written may still arrive, and the end be seen later.
        let lag = chaos.bool();
        let lag = lag.then(|| Duration::from_micros(chaos.u64(..2_000_000)));
        let left = at.other();
        // Whatever happens from now on, nobody else will have received anything there.
        let there = self.received_by(at);
        self.count_dictionaries();
        self.log(&("crash", at, lag));
        self.crashed = Some(at);
        self.world.crash(at, lag).expect("settings as before");
        let name = match at {
            End::A => "crash of a",
            End::B => "crash of b",
        };
        *self.tally.faults.entry(name).or_default() += 1;
        self.check_deliveries(left, &there);
        let told = self.hear();
        match at {
            End::A => assert_eq!(told, SessionError::NotResumed { limit: PATIENCE }),
            End::B => assert_eq!(told, SessionError::Forgotten),
        }
        self.check_deliveries(left, &there);
        self.tally.told.sessions += 1;
        for said in self.world.session(left).deliveries() {
            self.tally.told.delivered += said.delivered;
            self.tally.told.unknown += said.unknown;
            self.tally.told.unsent += said.unsent;
        }
        self.begin_anew(left);
    }

    /// How the other's session ends. Its way to the process that was started anew is no better than others.
    fn hear(&mut self) -> SessionError {
        let limit = self.world.now() + 2 * PATIENCE;
        loop {
            self.run(Duration::from_millis(100));
            if let Some(told) = self.told.take() {
                return told;
            }
            assert!(
                self.world.now() < limit,
                "it hears nothing: {}",
                self.state()
            );
            let cuts = self.chaos.as_mut().is_some_and(|chaos| chaos.u8(..16) == 0);
            if cuts && self.crashed == Some(End::B) {
                self.world.inject(tautline::sim::Fault::Cut);
            }
        }
    }

    /// How many messages of each stream the session at `at` has, taken by its application or not.
    fn received_by(&self, at: End) -> BTreeMap<StreamId, u64> {
        let from = number(at.other());
        let streams = self.sent.keys().filter(|(who, _)| *who == from);
        let count = |id| {
            let taken = self.received.get(&(from, id)).copied().unwrap_or_default();
            let waiting = self.world.session(at).messages_waiting(id);
            (id, taken + waiting.map_or(0, |run| run.count))
        };
        streams.map(|(_, id)| count(*id)).collect()
    }

    /// What a session says became of its messages is true, if so many have come.
    fn check_deliveries(&self, from: End, there: &BTreeMap<StreamId, u64>) {
        let mut said: BTreeMap<_, _> = self
            .world
            .session(from)
            .deliveries()
            .into_iter()
            .map(|said| (said.stream, said))
            .collect();
        for (id, received) in there {
            let sent = self.sent[&(number(from), *id)];
            let Some(said) = said.remove(id) else {
                // It is over, so that everything was delivered.
                assert_eq!(
                    *received, sent,
                    "messages on {id}, of which nothing is said"
                );
                continue;
            };
            let context = format!("{said:?}, {received} were received of {sent}");
            assert!(said.delivered <= *received, "{context}");
            assert!(*received <= said.delivered + said.unknown, "{context}");
            let all = said.delivered + said.unknown + said.unsent;
            assert_eq!(all, sent, "{context}");
        }
        assert!(said.is_empty(), "nothing was sent on these: {said:?}");
    }

    /// Both processes begin a session. One may know what it has learned of the other; the other knows nothing.
    fn begin_anew(&mut self, left: End) {
        let mut configs = self.configs.clone();
        if let Some(chaos) = &mut self.chaos {
            let now = self.world.now();
            let known = self.world.session(left).dictionaries();
            let of_left = if chaos.bool() {
                known
            } else {
                chaos::memory(chaos, now)
            };
            let of_other = chaos::memory(chaos, now);
            for (end, memory) in [(left, of_left), (left.other(), of_other)] {
                let config = &mut configs[number(end)].session;
                *config = config.clone().dictionary_memory(memory);
            }
            let token = chaos.u128(..).to_le_bytes();
            configs[1].session = configs[1].session.clone().resume_token(Some(token));
        }
        let [a, b] = configs;
        self.session += 1;
        self.connects = false;
        self.crashed = None;
        self.expected.clear();
        self.sent.clear();
        self.received.clear();
        self.unread.clear();
        self.open.iter_mut().for_each(Vec::clear);
        self.world.begin_anew(a, b).expect("settings as before");
        self.world.connect();
        self.log(&"a new session");
    }
}
