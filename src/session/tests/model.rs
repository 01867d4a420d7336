//! Two sessions beside a model of what they are for: queues that lose, repeat and exchange nothing, whatever becomes of
//! the connections. Operations are drawn by proptest; what fails is kept in `proptest-regressions/`.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The longest message that is sent, bytes.
const LONGEST: usize = 70_000;

#[derive(Clone, Copy, Debug)]
enum Op {
    Open {
        who: usize,
        policy: usize,
    },
    Send {
        who: usize,
        stream: usize,
        len: usize,
        sensitive: bool,
    },
    Finish {
        who: usize,
        stream: usize,
    },
    SetPolicy {
        who: usize,
        stream: usize,
        policy: usize,
    },
    /// The application takes messages and is done with them, or leaves them where they are.
    Release {
        who: usize,
        on: bool,
    },
    /// One end does what there is to do; what it says arrives, but is not read yet.
    Run {
        who: usize,
    },
    Settle,
    Pass {
        millis: u64,
    },
    /// The connection ends; of what is there and not read, each end still gets so many bytes.
    Cut {
        left: usize,
    },
    Reconnect,
    Close {
        who: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let (who, stream, policy) = (0..2_usize, 0..6_usize, 0..20_usize);
    let len = prop_oneof![4 => 0..300_usize, 2 => 300..6000_usize, 1 => 6000..70_000_usize];
    prop_oneof![
        3 => (who.clone(), policy.clone()).prop_map(|(who, policy)| Op::Open { who, policy }),
        12 => (who.clone(), stream.clone(), len, proptest::bool::weighted(0.1))
            .prop_map(|(who, stream, len, sensitive)| Op::Send { who, stream, len, sensitive }),
        1 => (who.clone(), stream.clone()).prop_map(|(who, stream)| Op::Finish { who, stream }),
        1 => (who.clone(), stream, policy)
            .prop_map(|(who, stream, policy)| Op::SetPolicy { who, stream, policy }),
        1 => (who.clone(), any::<bool>()).prop_map(|(who, on)| Op::Release { who, on }),
        5 => who.clone().prop_map(|who| Op::Run { who }),
        2 => Just(Op::Settle),
        2 => (0..50_u64).prop_map(|millis| Op::Pass { millis }),
        2 => (0..5000_usize).prop_map(|left| Op::Cut { left }),
        3 => Just(Op::Reconnect),
        1 => who.prop_map(|who| Op::Close { who }),
    ]
}

/// What an application knows of a stream.
#[derive(Debug, Default)]
struct Queues {
    sent: [Vec<Vec<u8>>; 2],
    finished: [bool; 2],
}

/// What both applications know.
#[derive(Debug, Default)]
struct Model {
    streams: BTreeMap<StreamId, Queues>,
    closed: [bool; 2],
}

impl Model {
    /// The streams that an application has heard of, in the order of their numbers.
    fn stream(&self, end: &End, at: usize) -> Option<StreamId> {
        let own = end.session.role == Role::Connector;
        let known: Vec<_> = self
            .streams
            .keys()
            .filter(|id| {
                id.is_connectors() == own || end.events.contains(&Event::StreamOpened(**id))
            })
            .collect();
        known.get(at % known.len().max(1)).map(|id| **id)
    }

    /// What a send must come to; `None` while a go-away of the other side may be on its way.
    fn takes(&self, who: usize, id: StreamId) -> Option<bool> {
        let taken = !self.closed[who] && !self.streams[&id].finished[who];
        (!taken || !self.closed[1 - who]).then_some(taken)
    }

    /// What has arrived is the beginning of what was sent, or all of it; each end of a stream comes once and last.
    fn compare(&self, ends: [&End; 2], all: bool) {
        for (id, queues) in &self.streams {
            for (who, end) in ends.into_iter().enumerate() {
                let (sent, got) = (&queues.sent[1 - who], end.payloads(*id));
                assert!(
                    got.len() <= sent.len(),
                    "{id}: a message more than was sent"
                );
                assert!(
                    got.iter().zip(sent).all(|(got, sent)| got == sent),
                    "{id}: another message"
                );
                let is_end =
                    |event: &&Event| matches!(event, Event::StreamEnded(ended, _) if ended == id);
                let endings = end.events.iter().filter(is_end).count();
                let finished = queues.finished[1 - who] || self.closed != [false; 2];
                assert!(
                    endings <= usize::from(finished),
                    "{id}: it ended {endings} times"
                );
                let opened = end
                    .events
                    .iter()
                    .filter(|it| **it == Event::StreamOpened(*id))
                    .count();
                assert!(
                    opened <= usize::from(id.is_connectors() != (who == 0)),
                    "{id}: opened {opened} times"
                );
                if all {
                    assert_eq!(got.len(), sent.len(), "{id}: lost");
                    assert!(endings == 1 || !queues.finished[1 - who], "{id}: no end");
                    self.compare_stats(end, *id, [&queues.sent[who], sent]);
                }
            }
        }
    }

    fn compare_stats(&self, end: &End, id: StreamId, [sent, received]: [&Vec<Vec<u8>>; 2]) {
        // Nothing is known of streams that are over, and acknowledgements end with the session.
        let Some(stats) = end
            .session
            .stream_stats(id)
            .filter(|_| self.closed == [false; 2])
        else {
            return;
        };
        let bytes =
            |messages: &Vec<Vec<u8>>| messages.iter().map(|it| it.len() as u64).sum::<u64>();
        assert_eq!(
            (stats.messages_sent, stats.payload_sent),
            (sent.len() as u64, bytes(sent))
        );
        assert_eq!(
            (stats.messages_received, stats.payload_received),
            (received.len() as u64, bytes(received))
        );
        assert_eq!(
            (stats.messages_delivered, stats.queued_bytes),
            (sent.len() as u64, 0)
        );
    }
}

struct World {
    pair: Pair,
    model: Model,
    policies: Vec<PolicyConfig>,
    messages: u8,
}

impl World {
    fn new(window_log: u32, memory_log: u32, beside: usize) -> Self {
        let config = config(PolicyConfig::default())
            .limits(
                limits()
                    .window(1 << window_log)
                    .max_message(LONGEST)
                    .connection_memory(LONGEST + beside),
            )
            .retransmit_memory(1 << memory_log)
            .resume_token(Some([9; 16]));
        let fixed = crate::codecs::supported()
            .iter()
            .map(|info| Arm::new(info.id, info.default_level.0));
        let history = fixed
            .filter(|arm| crate::codecs::supports_context(arm.codec))
            .map(Arm::with_history);
        let mut policies = policies();
        policies.extend(history.map(PolicyConfig::Fixed));
        let mut pair = Pair::new(&config);
        pair.a.session.set_encoders(3);
        pair.a.encode_time = Duration::from_millis(1);
        Self {
            pair,
            model: Model::default(),
            policies,
            messages: 0,
        }
    }

    fn end(&mut self, who: usize) -> &mut End {
        [&mut self.pair.a, &mut self.pair.b][who]
    }

    fn policy(&self, at: usize) -> PolicyConfig {
        self.policies[at % self.policies.len()]
    }

    fn run(&mut self, who: usize) {
        let now = self.pair.now;
        let said = self.end(who).run(now);
        self.end(1 - who).input.extend_from_slice(&said);
    }

    fn act(&mut self, op: Op) {
        match op {
            Op::Open { who, policy } => {
                let config = StreamConfig::default().policy(self.policy(policy));
                let opened = self.end(who).session.open("test", config);
                // One that has heard of the other's close is closed as well.
                assert!(
                    opened.is_ok() || self.model.closed != [false; 2],
                    "{opened:?}"
                );
                assert!(opened.is_err() || !self.model.closed[who]);
                if let Ok(id) = opened {
                    self.model.streams.insert(id, Queues::default());
                }
            }
            Op::Send {
                who,
                stream,
                len,
                sensitive,
            } => self.send(who, stream, len, sensitive),
            Op::Finish { who, stream } => {
                if let Some(id) = self.stream(who, stream) {
                    self.end(who).session.finish(id);
                    self.model.streams.entry(id).or_default().finished[who] = true;
                }
            }
            Op::SetPolicy {
                who,
                stream,
                policy,
            } => {
                if let Some(id) = self.stream(who, stream) {
                    let policy = self.policy(policy);
                    self.end(who).session.set_policy(id, policy);
                }
            }
            Op::Release { who, on } => self.release(who, on),
            Op::Run { who } => self.run(who),
            Op::Settle => self.settle(),
            Op::Pass { millis } => {
                self.pair.now = self.pair.now + Duration::from_millis(millis);
            }
            Op::Cut { left } => {
                for who in 0..2 {
                    let now = self.pair.now;
                    let end = self.end(who);
                    end.input.truncate(left);
                    end.run(now);
                    end.input.clear();
                    end.session.handle_eof();
                    end.run(now);
                }
            }
            Op::Reconnect => self.reconnect(),
            Op::Close { who } => {
                self.end(who).session.close();
                self.model.closed[who] = true;
            }
        }
        self.model.compare([&self.pair.a, &self.pair.b], false);
        for end in [&self.pair.a, &self.pair.b] {
            check_memory(&end.session);
        }
    }

    fn stream(&mut self, who: usize, at: usize) -> Option<StreamId> {
        self.model.stream([&self.pair.a, &self.pair.b][who], at)
    }

    fn send(&mut self, who: usize, stream: usize, len: usize, sensitive: bool) {
        let Some(id) = self.stream(who, stream) else {
            return;
        };
        self.messages = self.messages.wrapping_add(1);
        // Each is another than the one before, and half of them are easy to compress.
        let (number, step) = (self.messages, usize::from(self.messages % 2) * 37 + 1);
        let payload: Vec<u8> = (0..len)
            .map(|at| number.wrapping_add((at * step % 251) as u8))
            .collect();
        let (bytes, kind) = (Bytes::from(payload.clone()), RecordKind::Message);
        let session = &mut self.end(who).session;
        let sent = if sensitive {
            session.send_sensitive(id, bytes, kind)
        } else {
            session.send(id, bytes, kind)
        };
        let taken = sent.is_ok();
        assert!(taken || sent == Err(SendError::Closed(id)), "{sent:?}");
        assert_eq!(self.model.takes(who, id).unwrap_or(taken), taken, "{id}");
        if taken {
            self.model.streams.entry(id).or_default().sent[who].push(payload);
        }
    }

    fn release(&mut self, who: usize, on: bool) {
        let end = self.end(who);
        end.releases = on;
        if on {
            // What was left so far; more than was taken is never released.
            let held: Vec<_> = end.received.keys().copied().collect();
            for id in held {
                end.session.release(id, usize::MAX >> 1);
            }
            let starved = |event: &Event| match event {
                Event::Starved(id) => Some(*id),
                _ => None,
            };
            let starved: Vec<_> = end.events.iter().filter_map(starved).collect();
            for id in starved {
                end.session.want(id);
            }
        }
    }

    fn settle(&mut self) {
        self.run(0);
        self.run(1);
        self.pair.settle();
    }

    fn reconnect(&mut self) {
        let now = self.pair.now;
        for who in 0..2 {
            let end = self.end(who);
            end.input.clear();
            // A session that is over does not go on.
            let begun = end.session.reconnect(now);
            assert!(begun.is_ok() || end.session.closed().is_some(), "{begun:?}");
        }
    }

    /// Nothing goes wrong any more.
    fn subside(&mut self) {
        (0..2).for_each(|who| self.release(who, true));
        for _ in 0..1000 {
            self.settle();
            self.pair.now = self.pair.now + Duration::from_millis(15);
            let sessions = [&self.pair.a.session, &self.pair.b.session];
            let kept = sessions
                .iter()
                .any(|it| it.stats().retained > 0 || it.stats().frames_unacked > 0);
            let over = sessions.map(|it| it.closed().is_some());
            match (over, sessions.map(Session::is_connected)) {
                ([true, true], _) => break,
                // The last word was lost: who waits for it has no peer any more, and knows that it need not have.
                ([true, false] | [false, true], _) => {
                    self.pair.now = self.pair.now + Duration::from_secs(31);
                }
                (_, [true, true]) if !kept && self.model.closed == [false; 2] => break,
                (_, [true, true]) => {}
                _ => self.reconnect(),
            }
        }
        self.model.compare([&self.pair.a, &self.pair.b], true);
        if self.model.closed == [false; 2] {
            self.pair.a.session.close();
            // Acknowledgements wait for a while, and for a connection that has nothing to say.
            (0..10).for_each(|_| self.pair.pass(Duration::from_millis(15)));
        }
        for end in [&self.pair.a, &self.pair.b] {
            assert_eq!(end.session.closed(), Some(&Ok(())), "{:?}", end.events);
            let ended = end
                .events
                .iter()
                .filter(|event| matches!(event, Event::Closed(_)))
                .count();
            assert_eq!(ended, 1);
            let broken =
                |event: &Event| matches!(event, Event::Disconnected(SessionError::Peer(_)));
            assert!(!end.events.iter().any(broken), "{:?}", end.events);
        }
    }
}

/// What is held is what all streams hold, and never more than is allowed.
pub(super) fn check_memory(session: &Session) {
    let stats = session.stats();
    let of_streams: u64 = session.streams.iter().map(|it| it.recv.held()).sum();
    assert_eq!(stats.received_held, of_streams);
    assert!(stats.received_most <= stats.received_limit, "{stats:?}");
    assert!(session.credit.is_sound(), "{:?}", session.credit);
    let windows = session.streams.iter().map(|it| it.recv.window);
    let most = session.config.limits.most_window();
    assert!(windows.max().unwrap_or_default() <= most);
}

proptest! {
    // Eight times proptest's number, half a second: most draws are too short to meet what is rare.
    #![proptest_config({
        let default = ProptestConfig::default();
        ProptestConfig { cases: default.cases * 8, ..default }
    })]

    #[test]
    fn sessions_do_what_the_model_does(
        ops in proptest::collection::vec(op(), 0..80), window_log in 12..20_u32, memory_log in 8..20_u32,
        beside in prop_oneof![(16_usize << 10)..(100 << 10), Just(4 << 20)],
    ) {
        let mut world = World::new(window_log, memory_log, beside);
        for op in ops {
            world.act(op);
        }
        world.subside();
    }
}

/// With a memory of 256 bytes, the goodbyes have been heard, and their acknowledgements are lost: the next connection
/// carries nothing that one could come for.
#[test]
fn a_close_that_was_heard_and_not_acknowledged_ends_with_the_next_connection() {
    let open = |who, policy| Op::Open { who, policy };
    let send = |stream, len| Op::Send {
        who: 0,
        stream,
        len,
        sensitive: false,
    };
    let mut ops = vec![open(0, 10), send(0, 300), Op::Pass { millis: 0 }];
    ops.extend(
        [(1, 2), (1, 0), (0, 0), (0, 0), (0, 0), (1, 0), (1, 0)].map(|(who, at)| open(who, at)),
    );
    ops.extend([send(1, 0), Op::Reconnect, open(0, 0), open(1, 0)]);
    ops.extend([
        Op::Close { who: 0 },
        open(1, 0),
        Op::Settle,
        Op::Cut { left: 0 },
    ]);
    let mut world = World::new(12, 8, 4 << 20);
    for op in ops {
        world.act(op);
    }
    world.subside();
}
