//! The credit of the connection: what its streams may hold together.

use super::model::check_memory;
use super::*;

/// The least memory beside a message of 64 KiB: 8 KiB for whatever comes, 4 KiB for windows.
const LONGEST: usize = 64 << 10;
const MEMORY: usize = LONGEST + (16 << 10);

fn small(memory: usize) -> SessionConfig {
    config(PolicyConfig::None).limits(
        Limits::default()
            .max_message(LONGEST)
            .connection_memory(memory),
    )
}

/// The application at b takes nothing.
struct Unread {
    pair: Pair,
    unread: Vec<StreamId>,
}

impl Unread {
    /// So many streams have sent so much each, which nobody has taken.
    fn new(config: &SessionConfig, streams: usize, each: usize) -> Self {
        let mut pair = Pair::new(config);
        let unread: Vec<_> = (0..streams).map(|_| pair.open()).collect();
        pair.b.releases = false;
        for id in &unread {
            (0..each / 1000).for_each(|_| pair.send(*id, &[1; 1000]));
        }
        pair.settle();
        Self { pair, unread }
    }

    fn check(&mut self) {
        check_memory(&self.pair.a.session);
        check_memory(&self.pair.b.session);
    }

    fn waits(&self) -> u64 {
        self.pair.a.session.stats().credit_waits
    }

    /// Stands for an application that takes and releases on this stream alone.
    fn release(&mut self, id: StreamId) {
        let taken: usize = self
            .pair
            .b
            .received
            .get(&id)
            .into_iter()
            .flatten()
            .map(Message::charge)
            .sum();
        // More than was taken is never released.
        if taken > 0 {
            self.pair.b.session.release(id, taken);
        }
    }

    /// The application takes all that it left, and all of it arrives.
    fn read_all(&mut self) {
        self.pair.b.releases = true;
        for id in self.unread.clone() {
            self.release(id);
            self.pair.b.session.want(id);
        }
        self.pair.settle();
        for id in &self.unread {
            assert_eq!(self.pair.b.payloads(*id).len(), 20, "{id}");
        }
    }
}

#[test]
fn what_is_held_stays_within_the_memory_and_all_of_it_arrives() {
    let mut world = Unread::new(&small(MEMORY), 50, 20_000);
    world.check();
    let stats = world.pair.b.session.stats();
    assert!(stats.received_held > 7 << 10, "{}", stats.received_held);
    assert!(stats.received_most <= MEMORY as u64);
    assert!(stats.peer_credit_waits > 0);
    assert_eq!(stats.received_limit, MEMORY as u64);
    world.read_all();
    world.check();
    let held = world.pair.b.session.stats().received_held;
    assert_eq!(held, 0);
}

#[test]
fn a_new_stream_with_a_long_first_message_begins_and_ends_while_it_is_waited_for() {
    let mut world = Unread::new(&small(MEMORY), 50, 20_000);
    for round in 0..20_u8 {
        let id = world.pair.open();
        world.pair.send(id, &vec![round; LONGEST]);
        world.pair.settle();
        assert_eq!(world.pair.b.payloads(id).len(), 0, "nobody waits yet");
        let starved = Event::Starved(id);
        assert!(world.pair.b.events.contains(&starved), "it is asked for");
        world.pair.b.session.want(id);
        world.pair.settle();
        assert_eq!(world.pair.b.payloads(id), [vec![round; LONGEST]]);
        world.check();
        world.release(id);
        world.pair.settle();
    }
}

#[test]
fn many_that_are_waited_for_take_turns() {
    let mut world = Unread::new(&small(MEMORY), 50, 20_000);
    let ids: Vec<_> = (0..20).map(|_| world.pair.open()).collect();
    for id in &ids {
        world.pair.send(*id, &vec![7; LONGEST - 5000]);
    }
    world.pair.settle();
    for id in &ids {
        world.pair.b.session.want(*id);
    }
    // There is room for one at a time.
    for count in 1..=ids.len() {
        world.pair.settle();
        let come: Vec<_> = ids
            .iter()
            .filter(|id| !world.pair.b.payloads(**id).is_empty())
            .copied()
            .collect();
        assert_eq!(come.len(), count);
        world.check();
        for id in come {
            world.release(id);
        }
    }
}

/// A stream that is read beside others that nobody reads comes to have a window of the connection's credit.
#[test]
fn a_window_that_was_set_stays_as_it_is() {
    let limits = Limits::default().max_message(LONGEST).window(4096);
    let config = config(PolicyConfig::None).limits(limits.connection_memory(LONGEST + (100 << 10)));
    let mut world = Unread::new(&config, 50, 20_000);
    let id = world.pair.open();
    for _ in 0..50 {
        (0..10).for_each(|_| world.pair.send(id, &[5; 1000]));
        world.pair.settle();
        world.pair.b.session.want(id);
        world.release(id);
        world.pair.b.received.remove(&id);
        // It grows by what came in a round trip.
        world.pair.now = world.pair.now + Duration::from_millis(1);
        world.pair.settle();
        world.check();
    }
    assert!(world.waits() > 50);
}

#[test]
fn a_stream_that_is_dropped_drains_whatever_the_others_hold() {
    let mut world = Unread::new(&small(MEMORY), 50, 20_000);
    let id = world.pair.open();
    (0..300).for_each(|_| world.pair.send(id, &[5; 1000]));
    world.pair.a.session.finish(id);
    world.pair.b.session.discard(id);
    world.pair.settle();
    let ended = Event::StreamEnded(id, CloseCode::Finished);
    assert!(world.pair.b.events.contains(&ended));
    world.check();
}

/// What one read for a while and then left would be lost for those that come after.
#[test]
fn credit_of_streams_that_end_comes_back() {
    let mut world = Unread::new(&small(1 << 20), 50, 100_000);
    let before = world.pair.b.session.credit.initial();
    for _ in 0..200 {
        let id = world.pair.open();
        for _ in 0..3 {
            world.pair.send(id, &[9; 3000]);
            world.pair.settle();
            world.pair.b.session.want(id);
            world.pair.settle();
            world.release(id);
        }
        assert_eq!(world.pair.b.payloads(id).len(), 3);
        world.pair.a.session.finish(id);
        world.pair.b.session.finish(id);
        world.pair.settle();
        world.check();
    }
    let after = world.pair.b.session.credit.initial();
    assert!(
        after <= before,
        "{after} bytes are out at the peer and of no use"
    );
}

#[test]
fn without_pressure_nothing_is_said_or_waited_for() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    for _ in 0..2000 {
        let id = pair.open();
        pair.send(id, &vec![3; 20_000]);
        pair.settle();
    }
    assert_eq!(pair.a.session.stats().credit_waits, 0);
    let stats = pair.b.session.stats();
    assert_eq!(stats.peer_credit_waits, 0);
    assert!(stats.received_most < 64 << 10);
}

#[test]
fn a_peer_that_sends_more_than_it_was_given_is_refused() {
    let mut world = Unread::new(&small(MEMORY), 50, 20_000);
    assert!(world.waits() > 0);
    // It helps itself.
    world
        .pair
        .a
        .session
        .sender
        .credit
        .add(1 << 20)
        .expect("a number");
    let streams = &mut world.pair.a.session.streams;
    world.pair.a.session.sender.wake_starved(streams);
    world.pair.settle();
    let refused = Err(SessionError::Peer(WireError::FieldTooLarge {
        field: "credit of the connection used",
        given: 0,
        max: 0,
    }));
    let closed = world.pair.b.session.closed().expect("an end");
    assert_eq!(
        core::mem::discriminant(closed),
        core::mem::discriminant(&refused)
    );
    assert!(
        matches!(
            closed,
            Err(SessionError::Peer(WireError::FieldTooLarge {
                field: "credit of the connection used",
                ..
            }))
        ),
        "{closed:?}"
    );
    check_memory(&world.pair.a.session);
}

/// What a peer says, and what becomes of it.
fn answer(control: &Control) -> Option<SessionError> {
    let mut pair = Pair::new(&small(MEMORY));
    let id = pair.open();
    assert_eq!(id.get(), 0);
    let mut bytes = Vec::new();
    control.put(&mut bytes);
    pair.b.input.extend_from_slice(&bytes);
    pair.b.run(pair.now);
    pair.b.session.closed().and_then(|it| it.clone().err())
}

#[test]
fn absurd_credit_is_refused() {
    let stream = |number| StreamId::new(number).expect("a number");
    let credit = |stream, amount| Control::Credit(Credit { stream, amount });
    let blocked = |stream, needs| {
        Control::Blocked(Blocked {
            stream,
            needs,
            had: 0,
        })
    };
    let field = |error: Option<SessionError>| match error {
        Some(SessionError::Peer(WireError::FieldTooLarge { field, .. })) => field,
        Some(SessionError::Peer(WireError::Unexpected { what })) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(answer(&credit(None, u64::MAX))), "credit");
    assert_eq!(answer(&credit(None, u64::MAX / 2)), None);
    assert_eq!(answer(&credit(Some(stream(0)), u64::MAX)), None);
    assert_eq!(
        field(answer(&credit(Some(stream(90)), 5))),
        "something for a stream that was never open"
    );
    let longest = LONGEST as u64 + 32;
    assert_eq!(answer(&blocked(stream(0), longest)), None);
    // That ends its stream alone.
    assert_eq!(answer(&blocked(stream(0), longest + 1)), None);
    assert_eq!(
        field(answer(&blocked(stream(2), 1))),
        "credit that is asked for on a stream that is not open"
    );
    let had = Control::Blocked(Blocked {
        stream: stream(0),
        needs: 1,
        had: 1,
    });
    assert_eq!(field(answer(&had)), "credit that a stream has had");
    let unused = |amount| Control::Unused(Unused { amount });
    assert_eq!(answer(&unused(10)), None);
    assert_eq!(field(answer(&unused(MEMORY as u64))), "credit given back");
}

#[test]
fn on_another_connection_credit_begins_with_what_is_not_held() {
    let config = small(MEMORY)
        .retransmit_memory(1 << 20)
        .resume_token(Some([9; 16]));
    let mut world = Unread::new(&config, 50, 20_000);
    let held = world.pair.b.session.stats().received_held;
    for _ in 0..3 {
        for end in [&mut world.pair.a, &mut world.pair.b] {
            end.input.clear();
            end.session.reconnect(world.pair.now).expect("a session");
        }
        world.pair.settle();
        world.check();
        let now = world.pair.b.session.stats().received_held;
        assert!(now >= held, "what was held still is");
        assert!(now <= MEMORY as u64);
    }
    // What is waited for comes over this one.
    let id = world.pair.open();
    world.pair.send(id, &vec![1; LONGEST]);
    world.pair.settle();
    world.pair.b.session.want(id);
    world.pair.settle();
    assert_eq!(world.pair.b.payloads(id).len(), 1);
    world.release(id);
    world.read_all();
}
