//! Against arbitrary bytes, and arbitrary values read back.

use bytes::Bytes;
use proptest::prelude::*;
use tautline::codecs::CodecId;
use tautline::wire::{
    Ack, BlockHeader, Close, CloseCode, Control, DecodeReport, Define, DictionaryAnswer,
    DictionaryFrame, DictionaryNews, DictionaryVerdict, Frame, GoAway, GoAwayCode, GroupId, Hello,
    MAX_SHORT_BODY, MAX_TINY_BODY, Open, Part, Probe, ProbeReply, Record, RecordKind, RecordReader,
    Slot, Stop, StopReason, StreamId, Window, parse_frame, plain_crc,
};

use super::MAX_BLOCK;
use super::read::{frame_len, read_records, write_records};

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = plain_crc(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn arb_stream() -> impl Strategy<Value = StreamId> {
    (0..=StreamId::MAX).prop_map(|number| StreamId::new(number).expect("in range"))
}

fn arb_reports() -> impl Strategy<Value = Vec<DecodeReport>> {
    let report = (any::<u8>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(codec, blocks, plain_bytes, nanos)| DecodeReport {
            codec: CodecId::from_wire(codec),
            blocks,
            plain_bytes,
            nanos,
        },
    );
    prop::collection::vec(report, 0..=64)
}

fn arb_slot() -> impl Strategy<Value = Slot> {
    (0..16_u8).prop_map(|number| Slot::new(number).expect("in range"))
}

fn arb_go_away_code() -> impl Strategy<Value = GoAwayCode> {
    prop_oneof![
        Just(GoAwayCode::Done),
        Just(GoAwayCode::Protocol),
        Just(GoAwayCode::Version),
        Just(GoAwayCode::Feature),
        Just(GoAwayCode::Limit),
        Just(GoAwayCode::Integrity),
        Just(GoAwayCode::Undecodable),
        Just(GoAwayCode::Internal),
        Just(GoAwayCode::SessionLost),
        (8..=u64::MAX).prop_map(GoAwayCode::Other),
    ]
}

fn arb_close_code() -> impl Strategy<Value = CloseCode> {
    prop_oneof![
        Just(CloseCode::Finished),
        (0..u32::MAX).prop_map(CloseCode::Aborted),
    ]
}

fn arb_news() -> impl Strategy<Value = DictionaryNews> {
    let offer = (any::<[u8; 32]>(), any::<u64>(), any::<u8>(), any::<u64>());
    prop_oneof![
        offer.prop_map(|(hash, len, codec, wire_len)| DictionaryNews::Offer {
            hash,
            len,
            codec: CodecId::from_wire(codec),
            wire_len,
        }),
        prop::collection::vec(any::<u8>(), 1..300).prop_map(DictionaryNews::Piece),
        Just(DictionaryNews::Retire),
    ]
}

fn arb_verdict() -> impl Strategy<Value = DictionaryVerdict> {
    prop_oneof![
        Just(DictionaryVerdict::Held),
        Just(DictionaryVerdict::Wanted),
        Just(DictionaryVerdict::Refused),
    ]
}

fn arb_control() -> impl Strategy<Value = Control> {
    let any4 = || (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    prop_oneof![
        (any::<u64>(), 0..=Probe::MOST_PADDING)
            .prop_map(|(id, padding)| Control::Probe(Probe { id, padding })),
        (any4(), any::<u64>(), arb_reports()).prop_map(|(fields, load_permille, decoded)| {
            let (id, received_nanos, held_nanos, codec_budget) = fields;
            Control::ProbeReply(ProbeReply {
                id,
                received_nanos,
                held_nanos,
                load_permille,
                codec_budget,
                decoded,
            })
        }),
        (any4(), any::<u64>(), arb_reports()).prop_map(|(fields, waited_nanos, decoded)| {
            let (frames, wire_bytes, received_nanos, held_nanos) = fields;
            Control::Ack(Ack {
                frames,
                wire_bytes,
                received_nanos,
                held_nanos,
                waited_nanos,
                decoded,
            })
        }),
        (arb_stream(), any::<u8>(), any::<u64>(), ".{0,60}").prop_map(
            |(stream, group, window, name)| Control::Open(Open {
                stream,
                group: GroupId(group),
                window,
                name,
            })
        ),
        (arb_stream(), arb_close_code())
            .prop_map(|(stream, code)| Control::Close(Close { stream, code })),
        (arb_stream(), any::<u64>())
            .prop_map(|(stream, limit)| Control::Window(Window { stream, limit })),
        (arb_stream(), any::<u64>(), any::<u64>()).prop_map(|(stream, messages, given)| {
            Control::Stop(Stop {
                stream,
                messages,
                reason: StopReason::TooLong { given },
            })
        }),
        (arb_go_away_code(), ".{0,60}")
            .prop_map(|(code, detail)| Control::GoAway(GoAway { code, detail })),
        (1..=u64::MAX, arb_news())
            .prop_map(|(number, what)| Control::Dictionary(DictionaryFrame { number, what })),
        (1..=u64::MAX, arb_verdict()).prop_map(|(number, verdict)| {
            Control::DictionaryAnswer(DictionaryAnswer { number, verdict })
        }),
        (
            arb_slot(),
            any::<u8>(),
            any::<u8>(),
            prop::option::of(any::<u8>()),
            any::<u64>()
        )
            .prop_map(|(slot, codec, group, history, dictionary)| Control::Define(
                Define {
                    slot,
                    codec: CodecId::from_wire(codec),
                    group: GroupId(group),
                    history,
                    dictionary,
                }
            )),
    ]
}

/// Headers with checks as their length has them.
fn arb_header() -> impl Strategy<Value = BlockHeader> {
    let lengths = prop_oneof![1..=MAX_SHORT_BODY + 2, 1..=MAX_BLOCK];
    let plain_len = prop::option::of(1..=MAX_BLOCK);
    (
        prop::option::of(arb_slot()),
        prop::option::of(any::<u64>()),
        plain_len,
        lengths,
        any::<u32>(),
    )
        .prop_map(|(slot, mut epoch, mut plain_len, mut body_len, check)| {
            if slot.is_none() {
                (epoch, plain_len) = (None, None);
                body_len = (body_len - 1) % MAX_TINY_BODY + 1;
            }
            let header = BlockHeader {
                slot,
                epoch,
                plain_len,
                body_len,
                check,
            };
            BlockHeader {
                check: check & (u32::MAX >> (32 - header.check_bits())),
                ..header
            }
        })
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_frames_errors_or_too_few(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        max_body in 1_usize..300,
        with_check: bool,
    ) {
        if let Ok(Some(frame)) = parse_frame(&bytes, max_body, with_check) {
            prop_assert!(frame_len(&frame) <= bytes.len());
        }
    }

    #[test]
    fn arbitrary_control_bodies_are_read_or_refused(
        kind in 0_u8..32,
        body in prop::collection::vec(any::<u8>(), 0..100),
        rest in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut bytes = vec![0xe0 | kind, body.len() as u8];
        bytes.extend_from_slice(&body);
        let mut bytes = seal(bytes);
        let len = bytes.len();
        bytes.extend_from_slice(&rest);
        match parse_frame(&bytes, MAX_BLOCK, true) {
            Ok(Some(Frame::Control { control, len: given })) => {
                prop_assert_eq!(given, len);
                if let Some(control) = control {
                    let mut again = Vec::new();
                    control.put(&mut again);
                    if kind <= 3 {
                        // Later fields are passed over.
                        let known = &again[2..again.len() - 4];
                        prop_assert!(body.starts_with(known));
                    } else {
                        prop_assert_eq!(&again[..], &bytes[..len]);
                    }
                }
            }
            Ok(other) => prop_assert!(false, "{:?}", other),
            Err(_) => {}
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_hello(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assume!(!bytes.is_empty() && bytes[0] != 0x8e);
        prop_assert!(Hello::parse(&bytes).is_err());
    }

    #[test]
    fn arbitrary_hello_bodies_are_read_or_refused(
        versions: (u8, u8),
        body in prop::collection::vec(prop_oneof![0_u8..6, any::<u8>()], 0..300),
        sealed in prop::bool::weighted(0.9),
    ) {
        let mut bytes = vec![0x8e, b'T', b'L', b'N', versions.0 | 1, versions.1 & 1];
        bytes.extend_from_slice(&(body.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&body);
        if sealed {
            bytes = seal(bytes);
        }
        if let Ok(Some((_, len))) = Hello::parse(&bytes) {
            prop_assert!(len <= bytes.len());
        }
    }

    #[test]
    fn arbitrary_plain_bytes_are_records_or_refused(
        bytes in prop::collection::vec(prop_oneof![Just(0x18_u8), 0_u8..8, any::<u8>()], 0..200),
        unfinished: bool,
    ) {
        let mut plain = Bytes::from(bytes);
        let mut reader = RecordReader::default();
        loop {
            let before = plain.clone();
            match reader.next(&mut plain, |_| unfinished) {
                Ok(Some(record)) => {
                    let taken = before.len() - plain.len();
                    prop_assert!(taken > record.payload.len());
                    prop_assert!(before[..taken].ends_with(&record.payload));
                    prop_assert_eq!(&before[taken..], &plain[..]);
                }
                Ok(None) => {
                    prop_assert!(plain.is_empty());
                    break;
                }
                Err(_) => {
                    prop_assert_eq!(before, plain);
                    break;
                }
            }
        }
    }

    #[test]
    fn control_frames_read_back(control in arb_control()) {
        let mut bytes = Vec::new();
        control.put(&mut bytes);
        let len = bytes.len();
        prop_assert!(len <= 4096, "{len} bytes");
        prop_assert_eq!(
            parse_frame(&bytes, 1, true),
            Ok(Some(Frame::Control { control: Some(control), len }))
        );
    }

    #[test]
    fn block_headers_read_back(header in arb_header(), with_check: bool) {
        let mut bytes = Vec::new();
        header.put(&mut bytes, with_check);
        let body_at = bytes.len();
        prop_assert_eq!(parse_frame(&bytes, MAX_BLOCK, with_check), Ok(None));
        bytes.resize(body_at + header.body_len, 0);
        let check = if with_check { header.check } else { 0 };
        let header = BlockHeader { check, ..header };
        prop_assert_eq!(
            parse_frame(&bytes, MAX_BLOCK, with_check),
            Ok(Some(Frame::Block { header, body_at }))
        );
    }

    #[test]
    fn whole_records_read_back(
        messages in prop::collection::vec(
            (0_u32..4, 0_u8..6, any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)),
            1..20,
        ),
    ) {
        let records: Vec<_> = messages
            .into_iter()
            .map(|(stream, kind, correlation, payload)| Record {
                stream: StreamId::new(stream).expect("in range"),
                kind: Some(match kind {
                    0 => RecordKind::Message,
                    1 => RecordKind::Request { correlation },
                    2 => RecordKind::Reply { correlation },
                    3 => RecordKind::Part(Part::More),
                    4 => RecordKind::Part(Part::Last),
                    _ => RecordKind::Part(Part::GivenUp),
                }),
                message_len: None,
                more: false,
                payload: payload.into(),
            })
            .collect();
        let records = vec![records];
        let blocks = write_records(&records);
        prop_assert_eq!(read_records(&blocks), (records, None));
    }
}
