//! What is built before the link can take it.

use super::*;
use crate::control::{Fed, LinkRate};
use crate::wire::Frame;

/// Frames of blocks in bytes that end with a whole frame.
fn blocks(mut bytes: &[u8]) -> usize {
    let mut blocks = 0;
    while let Ok(Some(frame)) = parse_frame(bytes, 256 << 10, true) {
        let len = match frame {
            Frame::Block { header, body_at } => {
                blocks += 1;
                body_at + header.body_len
            }
            Frame::Control { len, .. } => len,
        };
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty(), "whole frames");
    blocks
}

impl End {
    /// Has everything encoded that the session gives out; the bytes that then wait to be written.
    fn encode_all(&mut self, now: Time) -> Vec<u8> {
        while let Some(job) = self.session.poll_encode(now) {
            let block = self.worker.encode(job);
            self.session
                .handle_encoded(now, block, Duration::from_micros(20));
        }
        let mut slices = [IoSlice::new(&[]); 64];
        let filled = self.session.fill_slices(&mut slices);
        slices[..filled]
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect()
    }
}

#[cfg(feature = "zstd")]
#[test]
fn an_application_that_is_held_back_has_no_more_than_a_longest_block_built_in_advance() {
    let mut pair = Pair::new(&config(PolicyConfig::default()).send_queue(512 << 10));
    let id = pair.open();
    let link = &mut pair.a.session.path.known.link;
    for _ in 0..20 {
        link.record_delivery(1_250_000, Duration::from_secs(1), Fed::Backlogged);
    }
    let mut number = 0;
    let message =
        |number: u32| Bytes::from(format!("message {number} of those that wait for room"));
    let session = &mut pair.a.session;
    while session
        .send(id, message(number), RecordKind::Message)
        .is_ok()
    {
        number += 1;
    }
    let waiting = pair.a.encode_all(pair.now);
    assert!(waiting.len() < 128 << 10, "{} bytes", waiting.len());
    // Not one by one: a heavy arm may be hidden behind several blocks of a light one.
    assert!(blocks(&waiting) > 1);
    pair.settle();
    assert_eq!(pair.b.payloads(id).len(), number as usize);
}

#[test]
fn of_a_backlog_no_more_than_one_block_waits_for_a_busy_link() {
    for policy in policies() {
        let mut pair = Pair::new(&config(policy));
        let id = pair.open();
        let link = &mut pair.a.session.path.known.link;
        for _ in 0..20 {
            link.record_delivery(1_250_000, Duration::from_secs(1), Fed::Backlogged);
        }
        // Several messages, and less than half of what the queue takes.
        for number in 0..4000_u32 {
            pair.send(id, format!("message {number} of a long backlog").as_bytes());
        }
        // The socket takes nothing.
        let waiting = pair.a.encode_all(pair.now);
        pair.a.session.handle_blocked(pair.now);
        assert_eq!(blocks(&waiting), 1, "{policy:?}");
        assert_eq!(pair.a.encode_all(pair.now), waiting, "{policy:?}");
        // It takes a byte, so that the block is on its way: one more may be built behind it, and no third.
        pair.a.session.handle_written(pair.now, 1);
        let rest = pair.a.encode_all(pair.now);
        assert!(blocks(&rest[waiting.len() - 1..]) <= 1, "{policy:?}");
        assert_eq!(pair.a.encode_all(pair.now), rest, "{policy:?}");
        pair.b.input.extend_from_slice(&waiting[..1]);
        pair.b.input.extend_from_slice(&rest);
        pair.a.session.handle_written(pair.now, rest.len());
        pair.settle();
        assert_eq!(pair.b.payloads(id).len(), 4000, "{policy:?}");
    }
}

#[test]
fn on_a_fast_link_blocks_that_wait_for_their_turn_to_be_written_do_not_show_a_busy_one() {
    let mut pair = Pair::new(&config(PolicyConfig::None).send_queue(1 << 20));
    let id = pair.open();
    let link = &mut pair.a.session.path.known.link;
    link.record_delivery(1_000_000, Duration::from_millis(1), Fed::Overlapping);
    for round in 0..100 {
        for _ in 0..32 {
            pair.send(id, &[7; 4000]);
        }
        pair.now = pair.now + Duration::from_millis(1);
        // Those that follow the first one are built before that is written; acknowledged are they one by one.
        let bytes = pair.a.encode_all(pair.now);
        assert!(blocks(&bytes) > 1);
        pair.a.session.handle_written(pair.now, bytes.len());
        for part in bytes.chunks(66_000) {
            pair.b.input.extend_from_slice(part);
            let back = pair.b.run(pair.now);
            pair.a.input.extend_from_slice(&back);
            pair.a.run(pair.now);
            pair.now = pair.now + Duration::from_millis(1);
        }
        pair.settle();
        let rate = pair.a.session.path.known.link.rate();
        assert!(matches!(rate, LinkRate::AtLeast(_)), "{round}: {rate:?}");
    }
    assert_eq!(pair.b.payloads(id).len(), 3200);
}

/// What waits to be written of 2 MiB, and what the socket may hold unsent, once `bytes` were seen to pass in 10 ms.
fn ahead(bytes: u64) -> (usize, u32) {
    let mut pair = Pair::new(&config(PolicyConfig::None));
    let id = pair.open();
    let link = &mut pair.a.session.path.known.link;
    link.record_delivery(bytes, Duration::from_millis(10), Fed::Overlapping);
    for _ in 0..32 {
        pair.send(id, &vec![7; 64 << 10]);
    }
    let waiting = pair.a.encode_all(pair.now);
    (waiting.len(), pair.a.session.unsent_limit())
}

#[test]
fn more_blocks_wait_in_front_of_a_link_that_was_seen_to_be_fast() {
    let (waiting, unsent) = ahead(100_000);
    assert!(waiting < 129 << 10, "{waiting} bytes");
    assert_eq!(unsent, 128 << 10);
    let (waiting, unsent) = ahead(10_000_000);
    assert!((256 << 10..321 << 10).contains(&waiting), "{waiting} bytes");
    assert_eq!(unsent, 512 << 10);
}
