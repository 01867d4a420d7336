//! Messages that are longer than their receiver takes, and blocks that lie about their length.

use super::resume::{cut, reconnect, resumable};
use super::*;
use crate::wire::{BlockHeader, Check, Place, RecordWriter, Slot, Stop, StopReason};

const LONGEST: usize = 100_000;

fn limited() -> Limits {
    Limits::default().max_message(LONGEST).window(32 << 10)
}

/// Queues a message that is too long, as a peer does that does not know the limit or does not keep it.
fn send_too_long(end: &mut End, id: StreamId, len: usize) {
    let limit = core::mem::replace(&mut end.session.peer.max_message, u64::MAX);
    let sent = end
        .session
        .send(id, Bytes::from(vec![7; len]), RecordKind::Message);
    sent.expect("room");
    end.session.peer.max_message = limit;
}

fn refusal(stream: StreamId, given: usize) -> Event {
    let (given, max) = (given as u64, LONGEST as u64);
    Event::StreamRefused { stream, given, max }
}

fn stopped(stream: StreamId, given: usize) -> SendError {
    let (given, max) = (given as u64, LONGEST as u64);
    SendError::Stopped { stream, given, max }
}

#[test]
fn a_message_that_is_too_long_ends_its_stream_and_no_other() {
    for (policy, len) in policies()
        .into_iter()
        .flat_map(|policy| [(policy, LONGEST + 1), (policy, 1 << 20)])
    {
        let mut pair = Pair::new(&config(policy).limits(limited()));
        let (long, other) = (pair.open(), pair.open());
        pair.send(long, b"first");
        pair.send(other, b"before");
        send_too_long(&mut pair.a, long, len);
        pair.send(long, b"behind it");
        // It is announced, and some of it has come.
        let said = pair.a.run(pair.now);
        pair.b.input.extend_from_slice(&said);
        let answer = pair.b.run(pair.now);
        pair.send(other, b"meanwhile");
        pair.a.input.extend_from_slice(&answer);
        pair.settle();
        pair.send(other, b"after");
        pair.settle();
        assert_eq!(pair.b.payloads(long), [b"first"]);
        assert_eq!(
            pair.b.payloads(other),
            [&b"before"[..], b"meanwhile", b"after"]
        );
        let refused: Vec<_> = pair
            .b
            .events
            .iter()
            .filter(|it| **it == refusal(long, len))
            .collect();
        assert_eq!(refused.len(), 1, "{policy:?}");
        let ended = Event::StreamEnded(long, CloseCode::Aborted(0));
        assert!(pair.b.events.contains(&ended), "{policy:?}");
        // Its sender is told, and may go on to receive on it.
        let again = pair.a.session.send(long, Bytes::new(), RecordKind::Message);
        assert_eq!(again, Err(stopped(long, len)));
        let told = Event::StreamStopped {
            stream: long,
            taken: 1,
            given: len as u64,
            max: LONGEST as u64,
        };
        assert!(pair.a.events.contains(&told), "{policy:?}");
        let answer = Bytes::from_static(b"the other way");
        let sent = pair
            .b
            .session
            .send(long, answer.clone(), RecordKind::Message);
        sent.expect("a direction that is open");
        pair.settle();
        assert_eq!(pair.a.payloads(long), [answer]);
        let stats = [&pair.a, &pair.b].map(|end| end.session.stream_stats(long).expect("a stream"));
        assert_eq!((stats[0].messages_delivered, stats[0].queued_bytes), (1, 0));
        assert_eq!(
            (stats[1].messages_received, stats[1].payload_received),
            (1, 5)
        );
        let held = pair.b.session.stats();
        assert_eq!(held.received_held, 0, "all credit is given back");
        assert!(held.received_most <= 2 * limited().window_len(), "{held:?}");
        pair.a.session.close();
        pair.settle();
        for end in [&pair.a, &pair.b] {
            assert_eq!(end.session.closed(), Some(&Ok(())), "{policy:?}");
        }
    }
}

#[test]
fn a_message_that_is_too_long_is_refused_in_one_record_too() {
    let limits = Limits::default().max_message(1000);
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits));
    let (long, other) = (pair.open(), pair.open());
    for len in [3, 1000, 1001, 4] {
        send_too_long(&mut pair.a, long, len);
    }
    pair.send(other, b"unharmed");
    pair.settle();
    let lens: Vec<_> = pair.b.payloads(long).iter().map(|it| it.len()).collect();
    assert_eq!(lens, [3, 1000]);
    let (given, max) = (1001, 1000);
    let refused = Event::StreamRefused {
        stream: long,
        given,
        max,
    };
    assert!(pair.b.events.contains(&refused));
    assert_eq!(pair.b.payloads(other), [b"unharmed"]);
    assert_eq!(pair.b.session.stats().received_held, 0);
}

#[test]
fn who_lacks_credit_for_a_message_that_is_too_long_is_told_before_it_begins() {
    const MEMORY: usize = LONGEST + (64 << 10);
    let limits = Limits::default()
        .max_message(LONGEST)
        .connection_memory(MEMORY);
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limits));
    let (unread, long) = (pair.open(), pair.open());
    pair.b.releases = false;
    (0..100).for_each(|_| pair.send(unread, &[1; 1000]));
    pair.settle();
    send_too_long(&mut pair.a, long, LONGEST + 1);
    pair.settle();
    assert!(pair.b.events.contains(&refusal(long, LONGEST + 1)));
    let again = pair.a.session.send(long, Bytes::new(), RecordKind::Message);
    assert_eq!(again, Err(stopped(long, LONGEST + 1)));
    pair.b.releases = true;
    pair.b.session.release(unread, MEMORY);
    pair.b.session.want(unread);
    pair.settle();
    assert_eq!(pair.b.payloads(unread).len(), 100);
    assert_eq!(pair.b.session.closed(), None);
}

#[test]
fn a_block_that_is_being_encoded_when_its_stream_is_stopped_goes_before_the_close() {
    for policy in policies() {
        let mut pair = Pair::new(&config(policy).limits(limited()));
        let id = pair.open();
        send_too_long(&mut pair.a, id, LONGEST + 1);
        let first = pair.a.run(pair.now);
        pair.b.input.extend_from_slice(&first);
        let stop = pair.b.run(pair.now);
        pair.send(id, b"behind it");
        let job = pair.a.session.poll_encode(pair.now);
        pair.a.input.extend_from_slice(&stop);
        let mut input = core::mem::take(&mut pair.a.input);
        let heard = pair.a.session.handle_input(pair.now, &mut input);
        assert_eq!(heard, Ok(()));
        pair.a.session.close();
        if let Some(job) = job {
            let block = pair.a.worker.encode(job);
            let took = Duration::from_micros(20);
            pair.a.session.handle_encoded(pair.now, block, took);
        }
        pair.settle();
        for end in [&pair.a, &pair.b] {
            assert_eq!(end.session.closed(), Some(&Ok(())), "{policy:?}");
        }
    }
}

#[test]
fn what_was_refused_stays_refused_over_the_next_connection() {
    for heard in [true, false] {
        let mut pair = resumable();
        let limit = pair.b.session.config.limits.max_message;
        let (id, other) = (pair.open(), pair.open());
        pair.send(id, b"first");
        send_too_long(&mut pair.a, id, limit + 1);
        pair.send(id, b"behind it");
        pair.send(other, b"second");
        let said = pair.a.run(pair.now);
        pair.b.input.extend_from_slice(&said);
        let stop = pair.b.run(pair.now);
        if heard {
            pair.a.input.extend_from_slice(&stop);
            pair.a.run(pair.now);
        }
        cut(&mut pair);
        reconnect(&mut pair);
        pair.send(other, b"third");
        pair.settle();
        assert_eq!(pair.b.payloads(id), [b"first"], "{heard}");
        assert_eq!(pair.b.payloads(other), [&b"second"[..], b"third"]);
        let is_stop = |event: &&Event| matches!(event, Event::StreamStopped { .. });
        assert_eq!(pair.a.events.iter().filter(is_stop).count(), 1, "{heard}");
        let ended = Event::StreamEnded(id, CloseCode::Aborted(0));
        assert!(pair.b.events.contains(&ended), "{heard}");
        let deliveries = pair.a.session.deliveries();
        let of = deliveries.iter().find(|it| it.stream == id);
        let of = of.expect("a stream that is not over");
        assert_eq!((of.delivered, of.unknown, of.unsent), (1, 0, 2), "{heard}");
        assert_eq!(pair.b.session.stats().received_held, 0, "{heard}");
    }
}

#[test]
fn a_message_that_nobody_wants_is_not_kept_while_it_comes() {
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limited()));
    let id = pair.open();
    pair.send(id, &vec![1; LONGEST]);
    pair.send(id, b"more");
    let said = pair.a.run(pair.now);
    pair.b.input.extend_from_slice(&said);
    let answer = pair.b.run(pair.now);
    pair.a.input.extend_from_slice(&answer);
    assert!(pair.b.session.stats().received_held > 0);
    pair.b.session.discard(id);
    assert_eq!(pair.b.session.stats().received_held, 0);
    let before = pair.b.session.stats().received_most;
    pair.settle();
    let stats = pair.b.session.stats();
    assert_eq!((stats.received_held, stats.received_most), (0, before));
    let stream = pair.b.session.stream_stats(id).expect("a stream");
    assert_eq!(stream.payload_received, LONGEST as u64 + 4);
}

/// A peer made by hand: its blocks are plain.
struct Raw {
    end: End,
    check: Check,
    writer: RecordWriter,
}

impl Raw {
    /// .. that has opened two streams, 0 and 2.
    fn new() -> (Self, [StreamId; 2]) {
        let config = config(PolicyConfig::None).limits(limited());
        let mut raw = Self {
            end: End::new(Role::Acceptor, config),
            check: Check::default(),
            writer: RecordWriter::default(),
        };
        let mut bytes = Vec::new();
        let mut hello = hello(Role::Connector, &SessionConfig::default(), 0);
        hello.credit = None;
        hello.put(&mut bytes);
        let ids = [0, 2].map(|number| StreamId::new(number).expect("a number"));
        for stream in ids {
            let open = Open {
                stream,
                group: GroupId(0),
                window: 0,
                name: String::new(),
            };
            Control::Open(open).put(&mut bytes);
        }
        raw.hear(&bytes);
        (raw, ids)
    }

    /// What is answered to the bytes.
    fn hear(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.end.input.extend_from_slice(bytes);
        self.end.run(Time::ZERO)
    }

    fn block(&mut self, plain: &[u8], plain_len: Option<usize>) -> Vec<u8> {
        let mut out = Vec::new();
        BlockHeader {
            slot: Slot::new(0),
            epoch: None,
            plain_len,
            body_len: plain.len(),
            check: self.check.advance(crate::wire::plain_crc(plain)),
        }
        .put(&mut out, true);
        out.extend_from_slice(plain);
        out
    }

    /// A fragment, the first one of a message of so many bytes, or another.
    fn fragment(&mut self, id: StreamId, first: Option<u64>, more: bool, len: usize) -> Vec<u8> {
        let place = match first {
            Some(message_len) => Place::First { message_len },
            None if more => Place::Middle,
            None => Place::Last,
        };
        let mut plain = Vec::new();
        self.writer
            .put(&mut plain, id, RecordKind::Message, place, None);
        plain.resize(plain.len() + len, 5);
        self.block(&plain, None)
    }

    fn message(&mut self, id: StreamId, payload: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        self.writer
            .put_whole(&mut plain, id, RecordKind::Message, None);
        plain.extend_from_slice(payload);
        self.block(&plain, None)
    }

    fn held(&self) -> u64 {
        let stats = self.end.session.stats();
        stats.received_held + stats.undelivered
    }

    fn error(&self) -> Option<WireError> {
        match self.end.session.closed() {
            Some(Err(SessionError::Peer(error))) => Some(error.clone()),
            _ => None,
        }
    }
}

fn frames(mut bytes: &[u8]) -> Vec<Control> {
    let mut found = Vec::new();
    while let Ok(Some(frame)) = parse_frame(bytes, 1 << 20, true) {
        match frame {
            Frame::Control { control, len } => {
                found.extend(control);
                bytes = &bytes[len..];
            }
            Frame::Block { header, body_at } => bytes = &bytes[body_at + header.body_len..],
        }
    }
    found
}

#[test]
fn who_goes_on_sending_what_is_refused_has_its_window_and_no_more() {
    for announced in [LONGEST as u64 + 1, 1 << 30, u64::MAX] {
        let (mut raw, [long, other]) = Raw::new();
        let first = raw.fragment(long, Some(announced), true, 2000);
        let answer = frames(&raw.hear(&first));
        let stop = Control::Stop(Stop {
            stream: long,
            messages: 0,
            reason: StopReason::TooLong { given: announced },
        });
        assert!(answer.contains(&stop), "{answer:?}");
        let mut sent = 2032;
        let window = raw.end.session.config.limits.window_len();
        while sent + 2000 <= window {
            let more = raw.fragment(long, None, true, 2000);
            let answer = frames(&raw.hear(&more));
            assert!(
                !answer
                    .iter()
                    .any(|it| matches!(it, Control::Window(_) | Control::Stop(_))),
                "{answer:?}"
            );
            sent += 2000;
            let message = raw.message(other, b"unharmed");
            raw.hear(&message);
            assert_eq!(raw.held(), 0);
            assert_eq!(raw.error(), None);
        }
        assert!(raw.end.payloads(other).len() > 10);
        let more = raw.fragment(long, None, true, 2000);
        raw.hear(&more);
        let (given, max) = (sent + 2000, window);
        let field = "window used";
        assert_eq!(
            raw.error(),
            Some(WireError::FieldTooLarge { field, given, max })
        );
    }
}

/// What a peer says in two steps.
type Said = Box<dyn Fn(&mut Raw, StreamId) -> [Vec<u8>; 2]>;

#[test]
fn a_block_that_lies_about_a_length_ends_the_connection_with_a_typed_error() {
    const LONG: u64 = LONGEST as u64 + 1;
    let wrong_len = WireError::Unexpected {
        what: "fragments longer or shorter than their message",
    };
    let two = |announced, more, len| {
        move |raw: &mut Raw, id| {
            [
                raw.fragment(id, Some(announced), true, 2000),
                raw.fragment(id, None, more, len),
            ]
        }
    };
    let lies: [(Said, WireError); 6] = [
        // Fragments that do not add up, of a message that would be taken and of one that is refused.
        (Box::new(two(3000, true, 2000)), wrong_len.clone()),
        (Box::new(two(3000, false, 500)), wrong_len.clone()),
        (Box::new(two(LONG, false, 500)), wrong_len),
        // A payload that would go beyond its block.
        (
            Box::new(|raw, id| {
                let whole = raw.message(id, b"good");
                let beyond = raw.block(&[8, 0xff, 0xff, 0xff, 0x7f, 1], None);
                [whole, beyond]
            }),
            WireError::FieldTooLarge {
                field: "payload length",
                given: 0x0fff_ffff,
                max: 1,
            },
        ),
        // Plain bytes that are not as many as the header says.
        (
            Box::new(|raw, id| {
                let whole = raw.message(id, b"good");
                [whole, raw.block(&[5; 3000], Some(4000))]
            }),
            WireError::WrongPlainLen {
                declared: 4000,
                actual: 3000,
            },
        ),
        // A block that is longer than any that is taken, of which nothing is waited for.
        (
            Box::new(|raw, id| {
                let whole = raw.message(id, b"good");
                let mut long = raw.block(&vec![5; (256 << 10) + 1], None);
                long.truncate(20);
                [whole, long]
            }),
            WireError::FieldTooLarge {
                field: "body length",
                given: (256 << 10) + 1,
                max: 256 << 10,
            },
        ),
    ];
    for (said, error) in lies {
        let (mut raw, [id, _]) = Raw::new();
        let mut answer = Vec::new();
        for bytes in said(&mut raw, id) {
            assert_eq!(raw.error(), None, "{error}");
            answer = raw.hear(&bytes);
            assert!(raw.held() <= 5000, "{error}");
        }
        assert_eq!(raw.error().as_ref(), Some(&error));
        let code = error.code();
        let said = |control: &Control| matches!(control, Control::GoAway(it) if it.code == code);
        assert!(frames(&answer).iter().any(said), "{error}");
    }
}

#[test]
fn a_stop_that_cannot_be_is_refused_and_one_that_comes_twice_is_not() {
    let stop = |stream, messages, given| {
        let mut frame = Vec::new();
        let reason = StopReason::TooLong { given };
        Control::Stop(Stop {
            stream,
            messages,
            reason,
        })
        .put(&mut frame);
        frame
    };
    let mut pair = Pair::new(&config(PolicyConfig::None).limits(limited()));
    let id = pair.open();
    pair.send(id, b"one");
    pair.settle();
    let long = LONGEST as u64 + 1;
    for _ in 0..2 {
        pair.a.input.extend_from_slice(&stop(id, 1, long));
        pair.settle();
    }
    assert_eq!(pair.a.session.closed(), None);
    // It is over on both sides, and what is late is passed over.
    pair.b.session.finish(id);
    pair.settle();
    pair.a.session.recv(id);
    assert!(pair.a.session.stream_stats(id).is_none());
    pair.a.input.extend_from_slice(&stop(id, 1, long));
    pair.settle();
    assert_eq!(pair.a.session.closed(), None);
    let other = pair.open();
    let never = StreamId::new(40).expect("a number");
    for frame in [
        stop(other, 1, long),
        stop(other, 0, long - 1),
        stop(never, 0, long),
    ] {
        let mut pair = Pair::new(&config(PolicyConfig::None).limits(limited()));
        let (_, _) = (pair.open(), pair.open());
        pair.a.input.extend_from_slice(&frame);
        pair.settle();
        let closed = pair.a.session.closed();
        assert!(
            matches!(closed, Some(Err(SessionError::Peer(_)))),
            "{closed:?}"
        );
    }
}
