//! Blocks that are encoded beside one another, and done in any order.

use super::*;
use crate::control::PARALLEL_FROM;

/// What encoding a block takes here.
const LONG: Duration = Duration::from_millis(2);

fn pair(policy: PolicyConfig, encoders: usize) -> (Pair, StreamId) {
    let mut pair = Pair::new(&config(policy));
    pair.a.session.set_encoders(encoders);
    let id = pair.open();
    (pair, id)
}

/// Lines that get smaller, of one length.
fn text(number: usize, len: usize) -> Vec<u8> {
    let line = format!(
        "{number:06} GET /index.html HTTP/1.1 200 {}\n",
        number * 7919
    );
    line.bytes().cycle().take(len).collect()
}

/// Sends messages of nearly a block each.
fn send_blocks(pair: &mut Pair, id: StreamId, count: usize) -> Vec<Vec<u8>> {
    let messages: Vec<_> = (0..count).map(|number| text(number, 60_000)).collect();
    for message in &messages {
        pair.send(id, message);
    }
    messages
}

/// All blocks that the session gives out to be encoded now.
fn jobs(pair: &mut Pair) -> Vec<EncodeJob> {
    core::iter::from_fn(|| pair.a.session.poll_encode(pair.now)).collect()
}

fn done(pair: &mut Pair, job: EncodeJob) {
    let block = pair.a.worker.encode(job);
    pair.a.session.handle_encoded(pair.now, block, LONG);
}

/// What is out arrives, and is not read yet.
fn deliver(pair: &mut Pair) {
    let out = pair.a.take_output(pair.now);
    pair.b.input.extend_from_slice(&out);
}

fn fixed(codec: CodecId, level: i8) -> PolicyConfig {
    PolicyConfig::Fixed(Arm::new(codec, level))
}

/// One block after another has been encoded, so that it is known how long they take.
fn learn(pair: &mut Pair, id: StreamId) {
    for number in 0..3 {
        pair.send(id, &text(number, 60_000));
        let first = jobs(pair);
        assert_eq!(first.len(), 1, "nothing follows");
        for job in first {
            done(pair, job);
        }
        pair.settle();
    }
    pair.b.received.clear();
}

#[cfg(feature = "deflate")]
#[test]
fn what_stands_by_itself_is_encoded_at_once_and_goes_out_in_order() {
    let (mut pair, id) = pair(fixed(CodecId::DEFLATE, 9), 4);
    learn(&mut pair, id);
    let messages = send_blocks(&mut pair, id, 10);
    let mut taken = 0;
    while taken < messages.len() {
        let wave = jobs(&mut pair);
        assert!(wave.iter().all(|job| job.likely() > PARALLEL_FROM));
        assert_eq!(wave.len(), 4.min(messages.len() - taken));
        taken += wave.len();
        let mut wave = wave.into_iter();
        let first = wave.next();
        for job in wave.rev() {
            done(&mut pair, job);
        }
        assert_eq!(pair.a.session.output_len(), 0, "the first is not done");
        assert_eq!(jobs(&mut pair).len(), 0, "nor is another decided on");
        if let Some(job) = first {
            done(&mut pair, job);
        }
        assert!(pair.a.session.output_len() > 0);
        deliver(&mut pair);
    }
    pair.settle();
    assert_eq!(pair.b.payloads(id), messages);
    pair.a.session.finish(id);
    pair.a.session.close();
    pair.settle();
    assert_eq!(pair.b.session.closed(), Some(&Ok(())));
}

#[cfg(feature = "deflate")]
#[test]
fn a_driver_with_one_encoder_and_short_blocks_get_one_at_a_time() {
    for (encoders, time) in [(1, LONG), (0, LONG), (4, PARALLEL_FROM / 2)] {
        let (mut pair, id) = pair(fixed(CodecId::DEFLATE, 9), encoders);
        let messages = send_blocks(&mut pair, id, 20);
        // What is typical of it is long; then it is known.
        for round in 0.. {
            let wave = jobs(&mut pair);
            if wave.is_empty() {
                break;
            }
            assert!(
                wave.len() == 1 || (encoders == 4 && round < 8),
                "{encoders} {round}"
            );
            for job in wave {
                let block = pair.a.worker.encode(job);
                pair.a.session.handle_encoded(pair.now, block, time);
            }
            deliver(&mut pair);
        }
        pair.settle();
        assert_eq!(pair.b.payloads(id), messages);
    }
}

#[cfg(feature = "zstd")]
#[test]
fn blocks_with_history_follow_one_another() {
    let arm: Arm = "zstd:9+history".parse().expect("an arm");
    let (mut pair, id) = pair(PolicyConfig::Fixed(arm), 4);
    let messages = send_blocks(&mut pair, id, 8);
    loop {
        let wave = jobs(&mut pair);
        assert!(wave.len() <= 1);
        if wave.is_empty() {
            break;
        }
        for job in wave {
            done(&mut pair, job);
        }
        deliver(&mut pair);
    }
    pair.settle();
    assert_eq!(pair.b.payloads(id), messages);
}

#[cfg(feature = "zstd")]
#[test]
fn a_block_without_room_for_its_history_is_not_followed_by_one_that_has_it() {
    let arm: Arm = "zstd:9+history".parse().expect("an arm");
    let (mut pair, id) = pair(PolicyConfig::Fixed(arm), 4);
    pair.a.session.set_history_memory(0);
    let messages = send_blocks(&mut pair, id, 8);
    for memory in [8 << 20, 0].into_iter().cycle() {
        let mut wave = jobs(&mut pair);
        let Some(job) = wave.pop() else { break };
        pair.a.session.set_history_memory(memory);
        assert!(wave.is_empty() && jobs(&mut pair).is_empty());
        done(&mut pair, job);
        deliver(&mut pair);
    }
    pair.settle();
    assert_eq!(pair.b.payloads(id), messages);
}

#[cfg(feature = "deflate")]
#[test]
fn sensitive_messages_end_a_wave() {
    let (mut pair, id) = pair(fixed(CodecId::DEFLATE, 9), 4);
    learn(&mut pair, id);
    let secret = text(77, 60_000);
    let mut messages = send_blocks(&mut pair, id, 2);
    let kind = RecordKind::Message;
    let session = &mut pair.a.session;
    let bytes = Bytes::from(secret.clone());
    session.send_sensitive(id, bytes, kind).expect("room");
    messages.push(secret);
    messages.extend(send_blocks(&mut pair, id, 1));
    let mut most = 0;
    loop {
        let wave = jobs(&mut pair);
        most = most.max(wave.len());
        if wave.is_empty() && pair.a.session.output_len() == 0 {
            break;
        }
        for job in wave.into_iter().rev() {
            done(&mut pair, job);
        }
        deliver(&mut pair);
    }
    assert_eq!(most, 2);
    pair.settle();
    assert_eq!(pair.b.payloads(id), messages);
}

#[cfg(feature = "deflate")]
#[test]
fn streams_that_want_something_else_wait_for_the_wave_and_get_their_turn() {
    let (mut pair, id) = pair(fixed(CodecId::DEFLATE, 9), 4);
    let plain = pair.open();
    pair.a.session.set_policy(plain, PolicyConfig::None);
    learn(&mut pair, id);
    let messages = send_blocks(&mut pair, id, 20);
    let wave = jobs(&mut pair);
    assert_eq!(wave.len(), 4);
    pair.send(plain, b"short");
    assert_eq!(jobs(&mut pair).len(), 0);
    for job in wave.into_iter().rev() {
        done(&mut pair, job);
    }
    for _ in 0..3 {
        let next = jobs(&mut pair);
        for job in next {
            done(&mut pair, job);
        }
        deliver(&mut pair);
        pair.b.run(pair.now);
    }
    assert_eq!(pair.b.payloads(plain), [b"short"]);
    assert!(pair.b.payloads(id).len() < messages.len());
    pair.settle();
    assert_eq!(pair.b.payloads(id), messages);
}

#[cfg(feature = "deflate")]
#[test]
fn what_is_lost_with_its_connection_is_sent_again_in_order() {
    let config = config(fixed(CodecId::DEFLATE, 9))
        .retransmit_memory(32 << 20)
        .resume_within(resume::WITHIN)
        .resume_token(Some(resume::TOKEN));
    let mut pair = Pair::new(&config);
    pair.a.session.set_encoders(3);
    let id = pair.open();
    let messages = send_blocks(&mut pair, id, 9);
    let first = jobs(&mut pair);
    assert_eq!(first.len(), 3);
    let mut first = first.into_iter();
    // One is out, one is done behind one that is not.
    let (out, late, behind) = (first.next(), first.next(), first.next());
    for job in out.into_iter().chain(behind) {
        done(&mut pair, job);
    }
    let sent = pair.a.take_output(pair.now);
    pair.b.input.extend_from_slice(&sent);
    pair.b.run(pair.now);
    let late = late.map(|job| pair.a.worker.encode(job));
    resume::cut(&mut pair);
    resume::reconnect(&mut pair);
    // It is of no use any more.
    if let Some(block) = late {
        pair.a.session.handle_encoded(pair.now, block, LONG);
    }
    pair.settle();
    assert_eq!(pair.b.payloads(id), messages);
}
