//! Sessions that go on over another connection, step by step, and peers that make that hard.

use super::*;
use crate::wire::{Control, Hello, Resume, Role};

pub(super) const TOKEN: [u8; 16] = [9; 16];
pub(super) const WITHIN: Duration = Duration::from_secs(20);

pub(super) fn resumable() -> Pair {
    let config = config(PolicyConfig::None)
        .retransmit_memory(1 << 20)
        .resume_within(WITHIN)
        .resume_token(Some(TOKEN));
    Pair::new(&config)
}

/// The connection ends without a word, and what is on its way is lost.
pub(super) fn cut(pair: &mut Pair) {
    for end in [&mut pair.a, &mut pair.b] {
        end.input.clear();
        end.session.handle_eof();
        end.take_output(pair.now);
        while let Some(event) = end.session.poll_event() {
            end.events.push(event);
        }
    }
}

/// Both begin another connection, and have not heard of each other yet.
pub(super) fn begin(pair: &mut Pair) {
    for end in [&mut pair.a, &mut pair.b] {
        let begun = end.session.reconnect(pair.now);
        begun.expect("a session that goes on");
    }
}

pub(super) fn reconnect(pair: &mut Pair) {
    begin(pair);
    pair.settle();
}

fn hello_of(end: &mut End, now: Time) -> Hello {
    let bytes = end.take_output(now);
    let parsed = Hello::parse(&bytes).expect("a hello");
    parsed.expect("a whole one").0
}

fn put(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    hello.put(&mut bytes);
    bytes
}

/// In place of the acceptor, one that knows nothing of the session hears the hello.
fn ask_another(pair: &mut Pair, asked: &Hello) {
    let anew = config(PolicyConfig::None)
        .retransmit_memory(1 << 20)
        .resume_token(Some([8; 16]));
    pair.b = End::new(Role::Acceptor, anew);
    pair.b.input.extend_from_slice(&put(asked));
    pair.settle();
}

#[test]
fn what_was_on_its_way_arrives_over_the_next_connection() {
    let mut pair = resumable();
    let id = pair.open();
    pair.send(id, b"first");
    pair.settle();
    pair.send(id, b"lost on its way");
    pair.a.run(pair.now);
    cut(&mut pair);
    assert!(!pair.a.session.is_connected() && pair.a.session.is_resumable());
    let wire = |pair: &Pair| {
        let [a, b] = [&pair.a, &pair.b].map(|end| end.session.stats());
        [a.wire_sent, a.wire_received, b.wire_sent, b.wire_received]
    };
    let waiting = wire(&pair);
    assert_eq!(
        waiting[1], waiting[2],
        "what b sent has arrived, and counts once"
    );
    pair.send(id, b"sent without a connection");
    let other = pair
        .a
        .session
        .open("opened without one", StreamConfig::default());
    let other = other.expect("an open session");
    pair.send(other, b"on it");
    pair.a.session.finish(other);
    reconnect(&mut pair);
    let first: [&[u8]; 3] = [b"first", b"lost on its way", b"sent without a connection"];
    assert_eq!(pair.b.payloads(id), first);
    assert_eq!(pair.b.payloads(other), [b"on it"]);
    assert!(
        pair.b
            .events
            .contains(&Event::StreamEnded(other, CloseCode::Finished))
    );
    assert!(pair.a.events.contains(&Event::Resumed) && pair.b.events.contains(&Event::Resumed));
    pair.pass(Duration::from_millis(20));
    assert_eq!(
        pair.a.session.stats().retained,
        0,
        "everything is acknowledged"
    );
    let stats = pair.a.session.stream_stats(id).expect("an open stream");
    assert_eq!((stats.messages_sent, stats.messages_delivered), (3, 3));
}

#[test]
fn what_a_connection_holds_is_told_and_let_go() {
    let mut pair = resumable();
    let id = pair.open();
    pair.pass(Duration::from_millis(20));
    let memory = |end: &End| end.session.stats().memory();
    let (at_first, there) = (memory(&pair.a), memory(&pair.b));
    // Here in the queue, in the output, until it is acknowledged; there until it is taken.
    let payload: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
    pair.send(id, &payload);
    let queued = memory(&pair.a) - at_first;
    assert!((10_000..10_100).contains(&queued), "{queued} bytes");
    assert!(
        pair.a.session.poll_encode(pair.now).is_none(),
        "it is plain"
    );
    let written = memory(&pair.a) - at_first;
    assert!((20_000..20_300).contains(&written), "{written} bytes");
    let bytes = pair.a.take_output(pair.now);
    let retained = memory(&pair.a) - at_first;
    assert!((10_000..10_300).contains(&retained), "{retained} bytes");
    let mut input = BytesMut::from(&bytes[..]);
    pair.b
        .session
        .handle_input(pair.now, &mut input)
        .expect("frames");
    let held = memory(&pair.b) - there;
    assert!((10_000..10_100).contains(&held), "{held} bytes");
    pair.pass(Duration::from_millis(20));
    assert_eq!(pair.b.payloads(id).len(), 1);
    assert_eq!((memory(&pair.a), memory(&pair.b)), (at_first, there));
}

#[test]
fn a_message_cut_in_the_middle_goes_on_where_it_ended() {
    let mut pair = resumable();
    let id = pair.open();
    let long: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
    pair.send(id, &long);
    // One block arrives, the next does not.
    let first = pair.a.run(pair.now);
    pair.b.input.extend_from_slice(&first);
    pair.b.run(pair.now);
    assert!(pair.b.payloads(id).is_empty(), "it has come in part");
    pair.a.run(pair.now);
    cut(&mut pair);
    reconnect(&mut pair);
    assert_eq!(pair.b.payloads(id), [long.as_slice()]);
}

#[test]
fn a_close_is_completed_over_the_next_connection() {
    let mut pair = resumable();
    let id = pair.open();
    pair.send(id, b"the last one");
    pair.a.session.close();
    pair.a.run(pair.now);
    cut(&mut pair);
    assert_eq!(pair.a.session.closed(), None);
    reconnect(&mut pair);
    pair.pass(Duration::from_millis(20));
    assert_eq!(pair.b.payloads(id), [b"the last one"]);
    assert_eq!(pair.a.session.closed(), Some(&Ok(())));
    assert_eq!(pair.b.session.closed(), Some(&Ok(())));
}

#[test]
fn a_peer_that_does_not_come_back_is_waited_for_no_longer_than_set() {
    let mut pair = resumable();
    let id = pair.open();
    pair.send(id, b"first");
    pair.settle();
    pair.pass(Duration::from_millis(20));
    pair.send(id, b"second");
    pair.a.run(pair.now);
    cut(&mut pair);
    pair.send(id, b"third");
    let due = pair.a.session.poll_timeout().expect("a limit");
    assert_eq!(due, pair.now + WITHIN);
    let ended = pair.a.session.handle_timeout(due);
    assert_eq!(ended, Err(SessionError::NotResumed { limit: WITHIN }));
    let deliveries = pair.a.session.deliveries();
    let told = deliveries
        .iter()
        .map(|it| (it.stream, it.delivered, it.unknown, it.unsent));
    assert_eq!(told.collect::<Vec<_>>(), [(id, 1, 1, 1)]);
    assert!(pair.a.session.reconnect(due).is_err());
}

#[test]
fn a_peer_that_knows_the_session_no_more_says_so_by_another_token() {
    let mut pair = resumable();
    pair.open();
    cut(&mut pair);
    pair.a
        .session
        .reconnect(pair.now)
        .expect("a session that goes on");
    let asked = hello_of(&mut pair.a, pair.now);
    assert_eq!(asked.resume.map(|resume| resume.token), Some(TOKEN));
    ask_another(&mut pair, &asked);
    assert_eq!(pair.a.session.closed(), Some(&Err(SessionError::Forgotten)));
    assert!(matches!(
        pair.b.session.closed(),
        Some(Err(SessionError::GoneAway {
            code: GoAwayCode::SessionLost,
            ..
        }))
    ));
}

#[test]
fn a_late_connection_does_not_take_the_place_of_a_newer_one() {
    let mut pair = resumable();
    let id = pair.open();
    cut(&mut pair);
    pair.a
        .session
        .reconnect(pair.now)
        .expect("a session that goes on");
    let late = hello_of(&mut pair.a, pair.now);
    cut(&mut pair);
    reconnect(&mut pair);
    pair.send(id, b"over the newer one");
    pair.settle();
    // Its driver finds the session by its token; the session refuses it, and waits for a better one.
    pair.b
        .session
        .reconnect(pair.now)
        .expect("a session that goes on");
    pair.b.input.clear();
    pair.b.input.extend_from_slice(&put(&late));
    pair.b.run(pair.now);
    assert!(!pair.b.session.is_connected() && pair.b.session.closed().is_none());
    pair.a.session.handle_eof();
    pair.a.run(pair.now);
    reconnect(&mut pair);
    pair.send(id, b"and again");
    pair.settle();
    assert_eq!(
        pair.b.payloads(id),
        [&b"over the newer one"[..], b"and again"]
    );
}

#[test]
fn a_late_connection_is_refused_before_it_ends_the_one_that_there_is() {
    let mut pair = resumable();
    cut(&mut pair);
    begin(&mut pair);
    let late = put(&hello_of(&mut pair.a, pair.now));
    assert_eq!(pair.b.session.refusal(&late[..9]), None, "it is not whole");
    assert_eq!(pair.b.session.refusal(&late), None, "it is the next one");
    cut(&mut pair);
    reconnect(&mut pair);
    let (error, answer) = pair.b.session.refusal(&late).expect("another came later");
    let SessionError::Peer(error @ WireError::FieldTooSmall { .. }) = error else {
        panic!("{error}");
    };
    assert!(pair.b.session.is_connected(), "nothing has happened to it");
    let (hello, len) = Hello::parse(&answer).expect("a hello").expect("whole");
    assert_eq!((hello.role, hello.resume), (Role::Acceptor, None));
    assert_eq!(
        last_words(&answer[len..]),
        (error.code(), error.to_string())
    );
}

/// The fault at the end of frames.
fn last_words(mut frames: &[u8]) -> (GoAwayCode, String) {
    let mut words = None;
    while let Some(frame) = parse_frame(frames, 1 << 20, true).expect("frames") {
        let len = match frame {
            Frame::Control { control, len } => {
                words = control;
                len
            }
            Frame::Block { header, body_at } => body_at + header.body_len,
        };
        frames = &frames[len..];
    }
    match words {
        Some(Control::Fault(fault)) => (fault.code, fault.detail),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_breaks_the_protocol_hears_why_and_the_session_goes_on() {
    let mut pair = resumable();
    let id = pair.open();
    pair.send(id, b"first");
    pair.settle();
    // Something of b's is on its way, half of it written.
    let theirs = pair.b.session.open("theirs", StreamConfig::default());
    let theirs = theirs.expect("an open session");
    let payload = Bytes::from_static(b"under way");
    let sent = pair.b.session.send(theirs, payload, RecordKind::Message);
    sent.expect("room");
    assert!(
        pair.b.session.poll_encode(pair.now).is_none(),
        "it is plain"
    );
    let half = pair.b.session.output_len() / 2;
    let mut slices = [IoSlice::new(&[]); 8];
    let filled = pair.b.session.fill_slices(&mut slices);
    let output: Vec<u8> = slices[..filled]
        .iter()
        .flat_map(|slice| slice.iter().copied())
        .collect();
    pair.b.session.handle_written(pair.now, half);
    pair.a.input.extend_from_slice(&output[..half]);
    let mut nonsense = Vec::new();
    Control::Close(Close {
        stream: StreamId::new(90).expect("a number"),
        code: CloseCode::Finished,
    })
    .put(&mut nonsense);
    pair.b.input.extend_from_slice(&nonsense);
    pair.b.run(pair.now);
    let [Event::Disconnected(SessionError::Peer(error))] = disconnections(&pair.b)[..] else {
        panic!("{:?}", pair.b.events);
    };
    let error = error.clone();
    let words = pair.b.session.take_farewell();
    assert!(words.starts_with(&output[half..]), "what is begun is ended");
    let frames = [&output[..half], &words].concat();
    assert_eq!(last_words(&frames), (error.code(), error.to_string()));
    assert!(pair.b.session.take_farewell().is_empty(), "it is said once");
    pair.a.input.extend_from_slice(&words);
    pair.a.run(pair.now);
    let [Event::Disconnected(SessionError::GoneAway { code, detail })] =
        disconnections(&pair.a)[..]
    else {
        panic!("{:?}", pair.a.events);
    };
    assert_eq!((*code, detail), (error.code(), &error.to_string()));
    assert!(
        pair.a.session.take_farewell().is_empty(),
        "it has done nothing wrong"
    );
    pair.a.input.clear();
    reconnect(&mut pair);
    pair.send(id, b"second");
    pair.settle();
    assert_eq!(pair.b.payloads(id), [&b"first"[..], b"second"]);
    assert_eq!(pair.a.payloads(theirs), [b"under way"]);
}

#[cfg(feature = "zstd")]
#[test]
fn a_session_that_is_over_says_nothing_after_its_last_word() {
    let mut pair = Pair::new(&config("zstd:1+history".parse().expect("an arm")));
    let id = pair.open();
    for _ in 0..20 {
        pair.send(id, &[b'a'; 3000]);
    }
    pair.settle();
    pair.send(id, &[b'b'; 3000]);
    let job = pair.a.session.poll_encode(pair.now).expect("a block");
    pair.a.input.extend_from_slice(&[0xff; 100]);
    let mut input = core::mem::take(&mut pair.a.input);
    let ended = pair.a.session.handle_input(pair.now, &mut input);
    assert!(matches!(ended, Err(SessionError::Peer(_))), "{ended:?}");
    let said = pair.a.session.output_len();
    let block = pair.a.worker.encode(job);
    let took = Duration::from_micros(5);
    pair.a.session.handle_encoded(pair.now, block, took);
    pair.a.session.set_history_memory(0);
    pair.a.session.release(id, 5000);
    pair.a.session.finish(id);
    assert!(pair.a.session.poll_encode(pair.now).is_none());
    assert_eq!(pair.a.session.output_len(), said);
}

fn disconnections(end: &End) -> Vec<&Event> {
    let is_one = |event: &&Event| matches!(event, Event::Disconnected(_));
    end.events.iter().filter(is_one).collect()
}

#[test]
fn counts_that_cannot_be_never_lose_or_repeat_a_message() {
    for lie in [0, 1, 40, u64::MAX] {
        let mut pair = resumable();
        let id = pair.open();
        pair.send(id, b"first");
        pair.settle();
        pair.pass(Duration::from_millis(20));
        cut(&mut pair);
        begin(&mut pair);
        let mut hello = hello_of(&mut pair.b, pair.now);
        let honest = hello.resume.expect("a resumed session");
        hello.resume = Some(Resume {
            received: lie,
            ..honest
        });
        pair.a.input.extend_from_slice(&put(&hello));
        pair.a.run(pair.now);
        assert_eq!(
            pair.a.session.is_connected(),
            lie == honest.received,
            "{lie}"
        );
    }
}

#[test]
fn who_has_said_goodbye_is_allowed_to_forget() {
    for heard in [true, false] {
        let mut pair = resumable();
        pair.settle();
        pair.a.session.close();
        pair.b.session.close();
        // Its own goodbye is lost, with the acknowledgement that would come for it.
        pair.a.run(pair.now);
        let goodbye = pair.b.run(pair.now);
        if heard {
            pair.a.input.extend_from_slice(&goodbye);
            pair.a.run(pair.now);
        }
        assert_eq!(pair.a.session.closed(), None);
        pair.b.input.clear();
        pair.a.session.handle_eof();
        let again = pair.a.session.reconnect(pair.now);
        again.expect("a session that goes on");
        let asked = hello_of(&mut pair.a, pair.now);
        ask_another(&mut pair, &asked);
        let ended = if heard {
            Ok(())
        } else {
            Err(SessionError::Forgotten)
        };
        assert_eq!(pair.a.session.closed(), Some(&ended));
    }
}

#[test]
fn damaged_hellos_do_not_end_a_session_that_may_wait() {
    let mut pair = resumable();
    let id = pair.open();
    for _ in 0..20 {
        cut(&mut pair);
        begin(&mut pair);
        let mut damaged = put(&hello_of(&mut pair.b, pair.now));
        *damaged.last_mut().expect("a hello") ^= 1;
        pair.a.input.extend_from_slice(&damaged);
        pair.a.run(pair.now);
        assert_eq!(pair.a.session.closed(), None);
        assert!(!pair.a.session.is_connected());
    }
    cut(&mut pair);
    reconnect(&mut pair);
    pair.send(id, b"at last");
    pair.pass(Duration::from_millis(20));
    pair.pass(Duration::from_millis(20));
    assert_eq!(pair.b.payloads(id), [b"at last".as_slice()]);
}

#[test]
fn a_peer_that_errs_each_time_is_given_up_when_that_has_lasted_as_long_as_an_outage_may() {
    // What breaks a connection once both have said hello.
    let err = |pair: &mut Pair| {
        let mut nonsense = Vec::new();
        Control::Close(Close {
            stream: StreamId::new(90).expect("a number"),
            code: CloseCode::Finished,
        })
        .put(&mut nonsense);
        pair.b.input.extend_from_slice(&nonsense);
        pair.b.run(pair.now);
    };
    let mut pair = resumable();
    let id = pair.open();
    pair.send(id, b"first");
    pair.settle();
    let (mut lasted, step) = (Duration::ZERO, WITHIN / 20);
    for number in 1..=20 {
        err(&mut pair);
        assert_eq!(pair.b.session.closed(), None, "{number}");
        assert_eq!(pair.b.session.fruitless_connections(), number);
        cut(&mut pair);
        pair.now = pair.now + step;
        lasted += step;
        reconnect(&mut pair);
    }
    assert_eq!(lasted, WITHIN);
    // One message is enough to begin anew.
    pair.send(id, b"second");
    pair.settle();
    err(&mut pair);
    assert_eq!(pair.b.session.closed(), None);
    assert_eq!(pair.b.session.fruitless_connections(), 1);
    for _ in 0..20 {
        cut(&mut pair);
        pair.now = pair.now + step;
        reconnect(&mut pair);
        err(&mut pair);
    }
    let closed = pair.b.session.closed();
    assert!(
        matches!(closed, Some(Err(SessionError::Peer(_)))),
        "{closed:?}"
    );
}

#[test]
fn no_more_is_sent_than_is_kept_until_the_peer_acknowledges() {
    let config = config(PolicyConfig::None)
        .retransmit_memory(200_000)
        .limits(limits().window(16 << 20))
        .resume_token(Some(TOKEN));
    let mut pair = Pair::new(&config);
    let id = pair.open();
    for _ in 0..100 {
        pair.send(id, &vec![7; 20_000]);
    }
    let mut sent = 0;
    for _ in 0..100 {
        sent += pair.a.run(pair.now).len();
    }
    assert!(
        sent > 100_000 && sent < 400_000,
        "{sent} bytes without an acknowledgement"
    );
    assert!(pair.a.session.stats().retained >= 200_000);
    pair.b.input.clear();
    cut(&mut pair);
    reconnect(&mut pair);
    for _ in 0..40 {
        pair.pass(Duration::from_millis(1));
    }
    assert_eq!(pair.b.payloads(id).len(), 100);
}

#[test]
fn a_silent_peer_is_asked_and_then_given_up() {
    let config = config(PolicyConfig::None)
        .heartbeat(Some(Duration::from_secs(1)))
        .dead_after(Some(Duration::from_secs(3)));
    let mut pair = Pair::new(&config);
    pair.open();
    pair.pass(Duration::from_millis(200));
    // One that answers lives on.
    for _ in 0..10 {
        pair.pass(Duration::from_secs(1));
    }
    assert!(pair.a.session.is_connected() && pair.b.session.is_connected());
    let mut asked = 0;
    for _ in 0..6 {
        pair.now = pair.now + Duration::from_secs(1);
        asked += pair.a.run(pair.now).len();
    }
    assert!(asked > 0, "it was asked");
    let limit = Duration::from_secs(3);
    assert_eq!(
        pair.a.session.closed(),
        Some(&Err(SessionError::Silent { limit }))
    );
}

#[test]
fn a_stream_opened_while_the_peer_closes_is_finished_by_its_go_away() {
    for lost in [false, true] {
        let mut pair = resumable();
        let id = pair.a.session.open("test", StreamConfig::default());
        let id = id.expect("an open session");
        pair.send(id, b"sent before it was heard");
        pair.b.session.close();
        if lost {
            pair.a.session.handle_eof();
            pair.a.run(pair.now);
            pair.b.run(pair.now);
            reconnect(&mut pair);
        }
        pair.settle();
        pair.pass(Duration::from_millis(20));
        assert_eq!(pair.b.payloads(id), [b"sent before it was heard"]);
        for end in [&pair.a, &pair.b] {
            assert_eq!(end.session.closed(), Some(&Ok(())), "{lost}");
            let broken =
                |event: &Event| matches!(event, Event::Disconnected(SessionError::Peer(_)));
            assert!(!end.events.iter().any(broken), "{:?}", end.events);
        }
    }
}
