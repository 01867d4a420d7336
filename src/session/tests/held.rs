//! What a message keeps in memory besides itself, where it came in a plain block.

use super::*;

/// What a driver reads at once.
const ROOM: usize = 128 << 10;

/// Two ends, the second of which reads into a buffer that others have read from.
fn reading() -> Pair {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    pair.b.input = BytesMut::with_capacity(ROOM);
    pair.b.input.extend_from_slice(&[0; 1000]);
    let _ = pair.b.input.split();
    pair
}

/// Whether nothing that was read holds the buffer.
fn is_free(pair: &mut Pair) -> bool {
    assert!(pair.b.input.is_empty());
    pair.b.input.try_reclaim(ROOM)
}

fn take_all(pair: &mut Pair, id: StreamId) -> Vec<Bytes> {
    let received = pair.b.received.remove(&id).unwrap_or_default();
    received.into_iter().map(|it| it.payload).collect()
}

#[test]
fn a_small_message_does_not_hold_what_was_read_with_it() {
    let mut pair = reading();
    let (small, bulk) = (pair.open(), pair.open());
    let mut held = Vec::new();
    for len in [1, 10, 100, 1000, 5000, 16_000] {
        pair.send(small, &vec![3; len]);
        pair.settle();
        pair.send(bulk, &vec![7; 60_000]);
        pair.settle();
        held.extend(take_all(&mut pair, small));
        assert_eq!(held.last().map(Bytes::len), Some(len));
        drop(take_all(&mut pair, bulk));
        assert!(is_free(&mut pair), "{len} bytes hold {ROOM}");
    }
    assert!(held.iter().all(|it| it.iter().all(|byte| *byte == 3)));
}

#[test]
fn a_message_that_nobody_takes_does_not_either() {
    let mut pair = reading();
    let id = pair.open();
    pair.send(id, b"one");
    let said = pair.a.run(pair.now);
    let b = &mut pair.b;
    b.input.extend_from_slice(&said);
    let taken = b.session.handle_input(pair.now, &mut b.input);
    taken.expect("honest");
    assert!(is_free(&mut pair));
    let message = pair.b.session.recv(id).expect("it was in the queue");
    assert_eq!(message.payload, "one");
}

#[test]
fn a_message_that_is_not_small_beside_it_is_not_copied() {
    let mut pair = reading();
    let id = pair.open();
    pair.send(id, &vec![3; 17_000]);
    pair.settle();
    let held = take_all(&mut pair, id);
    assert!(!is_free(&mut pair));
    drop(held);
    assert!(is_free(&mut pair));
}

#[test]
fn a_small_message_of_a_block_of_several_streams_does_not_either() {
    let mut pair = reading();
    let (small, large) = (pair.open(), pair.open());
    let parts = [(small, 4000), (large, 20_000), (small, 5000)];
    for (id, len) in parts {
        pair.send(id, &vec![3; len]);
    }
    pair.settle();
    let held = take_all(&mut pair, small);
    assert_eq!(
        held.iter().map(Bytes::len).collect::<Vec<_>>(),
        [4000, 5000]
    );
    let unread = take_all(&mut pair, large);
    assert_eq!(unread.len(), 1);
    assert!(!is_free(&mut pair), "the large one is where it came");
    drop(unread);
    assert!(is_free(&mut pair));
}

#[test]
fn an_input_that_holds_little_more_than_its_frames_is_not_copied_from() {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    pair.send(id, &[3; 5000]);
    let said = pair.a.run(pair.now);
    let mut input = BytesMut::from(said.as_slice());
    let whole = input.as_ptr_range();
    let taken = pair.b.session.handle_input(pair.now, &mut input);
    taken.expect("honest");
    let message = pair.b.session.recv(id).expect("a message");
    assert!(whole.contains(&message.payload.as_ptr()));
}
