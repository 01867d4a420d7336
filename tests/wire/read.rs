//! Each part of the format against its vectors.

use bytes::Bytes;
use tautline::codecs::{
    CodecId, Codecs, DecodeContext, DecodeError, DecodeLimits, info, supports_context,
};
use tautline::wire::{
    Check, Frame, Hello, LaneNumber, Record, RecordReader, RecordWriter, WireError, parse_frame,
    plain_crc,
};

use super::MAX_BLOCK;
use super::show::{show_error, show_frame, show_hello, show_record};
use super::vectors::{Vector, hex, unhex, vectors};

#[test]
fn hellos_read_as_the_vectors_say() {
    for vector in vectors("hello.txt") {
        let (name, bytes) = (vector.name(), vector.bytes("hex"));
        let got = match Hello::parse(&bytes) {
            Ok(Some((hello, len))) => {
                assert_eq!(len, bytes.len(), "{name}");
                for cut in 0..len {
                    assert_eq!(Hello::parse(&bytes[..cut]), Ok(None), "{name} cut at {cut}");
                }
                let mut again = Vec::new();
                hello.put(&mut again);
                assert!(again == bytes || vector.says("reencode", "no"), "{name}");
                show_hello(&hello)
            }
            Ok(None) => "more".to_owned(),
            Err(error) => show_error(&error),
        };
        assert_eq!(vector.expected(), [got], "{name}");
    }
}

#[test]
fn lanes_begin_as_the_vectors_say() {
    for vector in vectors("lanes.txt") {
        let (name, bytes) = (vector.name(), vector.bytes("hex"));
        let most = vector.number("most").unwrap_or(32);
        let parse = |bytes: &[u8]| LaneNumber::parse(bytes, most.try_into().expect("a number"));
        let got = match parse(&bytes) {
            Ok(Some((lane, len))) => {
                assert_eq!(len, bytes.len(), "{name}");
                for cut in 0..len {
                    assert_eq!(parse(&bytes[..cut]), Ok(None), "{name} cut at {cut}");
                }
                let mut again = Vec::new();
                lane.put(&mut again);
                assert_eq!(again, bytes, "{name}");
                assert_eq!(LaneNumber::new(lane.get()), Some(lane));
                format!("lane={}", lane.get())
            }
            Ok(None) => "more".to_owned(),
            Err(error) => show_error(&error),
        };
        assert_eq!(vector.expected(), [got], "{name}");
    }
    assert_eq!(LaneNumber::new(0), None);
}

#[test]
fn blocks_and_control_frames_read_as_the_vectors_say() {
    for vector in vectors("blocks.txt")
        .into_iter()
        .chain(vectors("control.txt"))
    {
        if vector.values("plain").next().is_none() {
            check_frame(&vector);
        } else {
            check_chain(&vector);
        }
    }
}

fn check_frame(vector: &Vector) {
    let (name, bytes) = (vector.name(), vector.bytes("hex"));
    let max_body = vector.number("max").unwrap_or(MAX_BLOCK);
    let with_check = !vector.says("checks", "off");
    let parse = |bytes: &[u8]| parse_frame(bytes, max_body, with_check);
    let got = match parse(&bytes) {
        Ok(Some(frame)) => {
            assert_eq!(frame_len(&frame), bytes.len(), "{name}");
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{name} cut at {cut}");
            }
            let mut again = Vec::new();
            match &frame {
                Frame::Block { header, body_at } => {
                    header.put(&mut again, with_check);
                    again.extend_from_slice(&bytes[*body_at..]);
                }
                Frame::Control { control, .. } => {
                    if let Some(control) = control {
                        control.put(&mut again);
                    }
                }
            }
            assert!(again == bytes || vector.says("reencode", "no"), "{name}");
            show_frame(&frame)
        }
        Ok(None) => "more".to_owned(),
        Err(error) => show_error(&error),
    };
    assert_eq!(vector.expected(), [got], "{name}");
}

pub(super) fn frame_len(frame: &Frame) -> usize {
    match frame {
        Frame::Block { header, body_at } => body_at + header.body_len,
        Frame::Control { len, .. } => *len,
    }
}

fn check_chain(vector: &Vector) {
    let mut check = Check::default();
    let got: Vec<_> = vector
        .values("plain")
        .map(|plain| {
            let crc = plain_crc(&unhex(plain));
            let chain = check.advance(crc);
            let short = chain & 0xffff;
            format!("chain crc={crc:#x} chain={chain:#x} short={short:#x}")
        })
        .collect();
    assert_eq!(vector.expected(), got, "{}", vector.name());
}

#[test]
fn records_read_as_the_vectors_say() {
    for vector in vectors("records.txt") {
        let name = vector.name();
        let blocks: Vec<_> = vector.values("hex").map(unhex).collect();
        let (records, error) = read_records(&blocks);
        let mut got: Vec<_> = records.iter().flatten().map(show_record).collect();
        got.extend(error.as_ref().map(show_error));
        assert_eq!(vector.expected(), got, "{name}");
        for cut in 0..blocks[0].len() {
            // Payloads end where their block does, so a cut may be good: it must not panic.
            let (cut_records, _) = read_records(&[blocks[0][..cut].to_vec()]);
            assert!(
                cut_records[0].len() <= records[0].len(),
                "{name} cut at {cut}"
            );
        }
        if error.is_none() && !vector.says("reencode", "no") {
            assert_eq!(write_records(&records), blocks, "{name}");
        }
    }
}

/// The records of each block of a group, until the first error.
pub(super) fn read_records(blocks: &[Vec<u8>]) -> (Vec<Vec<Record>>, Option<WireError>) {
    let mut reader = RecordReader::default();
    let mut unfinished = Vec::new();
    let mut blocks_read = Vec::new();
    for block in blocks {
        let mut plain = Bytes::copy_from_slice(block);
        blocks_read.push(Vec::new());
        loop {
            match reader.next(&mut plain, |id| unfinished.contains(&id)) {
                Ok(Some(record)) => {
                    unfinished.retain(|id| *id != record.stream);
                    if record.more {
                        unfinished.push(record.stream);
                    }
                    blocks_read.last_mut().expect("pushed").push(record);
                }
                Ok(None) => break,
                Err(error) => return (blocks_read, Some(error)),
            }
        }
    }
    (blocks_read, None)
}

/// Whole messages as blocks; the last of each block goes to its end.
pub(super) fn write_records(blocks: &[Vec<Record>]) -> Vec<Vec<u8>> {
    let mut writer = RecordWriter::default();
    let write = |records: &Vec<Record>| {
        let mut plain = Vec::new();
        for (at, record) in records.iter().enumerate() {
            let kind = record.kind.expect("a whole message");
            let len = (at + 1 < records.len()).then_some(record.payload.len());
            writer.put_whole(&mut plain, record.stream, kind, len);
            plain.extend_from_slice(&record.payload);
        }
        plain
    };
    blocks.iter().map(write).collect()
}

#[test]
fn bodies_decode_as_the_vectors_say() {
    for vector in vectors("codecs.txt") {
        let name = vector.name();
        let codec = CodecId::from_wire(vector.number("codec").expect("a codec") as u8);
        if info(codec).is_none() && codec.name().is_some() {
            println!("skipped, {codec} is not part of this build: {name}");
            continue;
        }
        let expected = vector.bytes("plain");
        let mut plain = vec![0xee; vector.number("room").unwrap_or(expected.len())];
        let window_log = vector.number("window_log").unwrap_or(20) as u8;
        let mut codecs = Codecs::with_limits(DecodeLimits { window_log });
        let got = match codecs.decode(codec, &vector.bytes("hex"), &mut plain) {
            Ok(len) => {
                assert_eq!(hex(&plain[..len]), hex(&expected), "{name}");
                "plain"
            }
            Err(DecodeError::UnknownCodec { .. }) => "error=Unknown",
            Err(_) => "error=Undecodable",
        };
        assert_eq!(vector.expected(), [got], "{name}");
    }
}

#[test]
fn bodies_with_history_decode_as_the_vectors_say() {
    for vector in vectors("contexts.txt") {
        let name = vector.name();
        let codec = CodecId::from_wire(vector.number("codec").expect("a codec") as u8);
        if !supports_context(codec) {
            println!("skipped, {codec} is not part of this build: {name}");
            continue;
        }
        let window_log = vector.number("window_log").unwrap_or(17) as u8;
        let mut context =
            DecodeContext::new(codec, window_log, &vector.bytes("prime")).expect("a context");
        let mut got = Vec::new();
        for (body, plain) in vector.values("hex").zip(vector.values("plain")) {
            let mut back = vec![0xee; vector.number("room").unwrap_or(plain.len() / 2)];
            let Ok(len) = context.decode(&unhex(body), &mut back) else {
                got.push("error=Undecodable");
                break;
            };
            assert_eq!(hex(&back[..len]), plain, "{name}");
            got.push("plain");
        }
        assert_eq!(vector.expected(), got, "{name}");
    }
}
