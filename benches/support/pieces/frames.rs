//! Headers of blocks and records, and control frames, to bytes and back.

use std::hint::black_box;

use bytes::Bytes;
use tautline::wire::{
    Ack, BlockHeader, Control, RecordKind, RecordReader, RecordWriter, Slot, StreamId, parse_frame,
};

use crate::pieces::{Named, Piece, over};

const MAX_BODY: usize = 64 << 10;
/// A message of this length.
const PAYLOAD: [u8; 64] = [0xaa; 64];

pub(crate) const PIECES: &[Named] = &[
    ("header/put/tiny", || put(tiny())),
    ("header/put/short", || put(short())),
    ("header/put/long", || put(long())),
    ("header/parse/tiny", || parse(tiny())),
    ("header/parse/short", || parse(short())),
    ("header/parse/long", || parse(long())),
    ("record/put", put_record),
    ("record/parse", parse_record),
    ("ack/put", put_ack),
    ("ack/parse", parse_ack),
];

fn tiny() -> BlockHeader {
    BlockHeader {
        slot: None,
        body_len: 20,
        ..short()
    }
}

fn short() -> BlockHeader {
    BlockHeader {
        slot: Slot::new(11),
        epoch: None,
        plain_len: None,
        body_len: 300,
        check: 0xbeef,
    }
}

fn long() -> BlockHeader {
    BlockHeader {
        plain_len: Some(MAX_BODY),
        body_len: 20_000,
        check: 0xdead_beef,
        ..short()
    }
}

fn put(header: BlockHeader) -> Piece {
    let mut out = Vec::with_capacity(64);
    over(move || {
        out.clear();
        black_box(&header).put(&mut out, true);
        black_box(out.as_slice());
    })
}

fn parse(header: BlockHeader) -> Piece {
    let mut bytes = Vec::new();
    header.put(&mut bytes, true);
    bytes.resize(bytes.len() + header.body_len, 0);
    over(move || {
        let frame = parse_frame(black_box(&bytes), MAX_BODY, true);
        assert!(matches!(black_box(frame), Ok(Some(_))));
    })
}

fn stream() -> StreamId {
    StreamId::new(300).expect("small")
}

/// Of the same stream as the one before, and not the last one of its block.
fn put_record() -> Piece {
    let mut out = Vec::with_capacity(64);
    let mut writer = RecordWriter::default();
    let stream = stream();
    over(move || {
        out.clear();
        let len = Some(black_box(PAYLOAD.len()));
        writer.put_whole(&mut out, stream, RecordKind::Message, len);
        black_box(out.as_slice());
    })
}

/// 64 of one stream, over and over.
fn parse_record() -> Piece {
    let mut body = Vec::new();
    let mut writer = RecordWriter::default();
    for _ in 0..64 {
        let len = Some(PAYLOAD.len());
        writer.put_whole(&mut body, stream(), RecordKind::Message, len);
        body.extend_from_slice(&PAYLOAD);
    }
    let body = Bytes::from(body);
    let mut rest = Bytes::new();
    let mut reader = RecordReader::default();
    over(move || {
        if rest.is_empty() {
            rest = body.clone();
        }
        let record = reader.next(&mut rest, |_| false);
        assert!(matches!(black_box(record), Ok(Some(_))));
    })
}

fn ack() -> Control {
    Control::Ack(Ack {
        frames: 12_345,
        wire_bytes: 12_345_678,
        received_nanos: 9_876_543_210_987,
        held_nanos: 150_000,
        waited_nanos: 3_000_000_000,
        decoded: Vec::new(),
    })
}

fn put_ack() -> Piece {
    let (mut out, ack) = (Vec::with_capacity(64), ack());
    over(move || {
        out.clear();
        black_box(&ack).put(&mut out);
        black_box(out.as_slice());
    })
}

fn parse_ack() -> Piece {
    let mut bytes = Vec::new();
    ack().put(&mut bytes);
    over(move || {
        let frame = parse_frame(black_box(&bytes), MAX_BODY, true);
        assert!(matches!(black_box(frame), Ok(Some(_))));
    })
}
