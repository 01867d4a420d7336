//! Sequences of dictionary frames and blocks into a session that takes dictionaries of anybody.

#![no_main]

mod drain;

use bytes::BytesMut;
use drain::drain;
use libfuzzer_sys::fuzz_target;
use tautline::codecs::CodecId;
use tautline::dictionary::{Acceptance, AcceptancePolicy, DictionaryId};
use tautline::session::{CodecWorker, Role, Session, SessionConfig};
use tautline::units::Time;
use tautline::wire::{
    BlockHeader, Control, Define, DictionaryAnswer, DictionaryFrame, DictionaryNews, DictionaryVerdict, GroupId, Slot,
};

fn config() -> SessionConfig {
    SessionConfig::default().checksums(false).accept_dictionaries(AcceptancePolicy::new(Acceptance::Always))
}

/// One frame; the content of an offer comes whole in the pieces after it, unless they are other bytes.
fn put(out: &mut Vec<u8>, (op, number, bytes): (u8, u8, Vec<u8>)) {
    let number = u64::from(number);
    let slot = Slot::new(op >> 4).expect("four bits");
    let news = |what| Control::Dictionary(DictionaryFrame { number: number.max(1), what });
    let control = match op & 7 {
        0 => news(DictionaryNews::Offer {
            hash: *DictionaryId::of(&bytes).as_bytes(),
            len: bytes.len() as u64,
            codec: CodecId::IDENTITY,
            wire_len: bytes.len() as u64,
        }),
        1 => news(DictionaryNews::Offer {
            hash: [op; 32],
            len: bytes.len() as u64 * 3,
            codec: CodecId::from_wire(op >> 4),
            wire_len: bytes.len() as u64,
        }),
        2 if !bytes.is_empty() => news(DictionaryNews::Piece(bytes)),
        3 => news(DictionaryNews::Retire),
        4 => Control::DictionaryAnswer(DictionaryAnswer {
            number: number.max(1),
            verdict: DictionaryVerdict::Held,
        }),
        5 | 6 => Control::Define(Define {
            slot,
            codec: CodecId::from_wire(bytes.first().copied().unwrap_or(3)),
            group: GroupId(0),
            history: (op & 8 != 0).then_some(17),
            dictionary: number,
        }),
        _ => {
            let header =
                BlockHeader { slot: Some(slot), epoch: None, plain_len: None, body_len: bytes.len().clamp(1, 2048), check: 0 };
            header.put(out, false);
            out.extend(bytes.into_iter().chain([0]).take(header.body_len));
            return;
        }
    };
    control.put(out);
}

fuzz_target!(|frames: Vec<(u8, u8, Vec<u8>)>| {
    let Ok(peer) = Session::new(Role::Connector, config(), Time::ZERO) else { return };
    let Ok(mut session) = Session::new(Role::Acceptor, config(), Time::ZERO) else { return };
    let mut slices = [std::io::IoSlice::new(&[]); 4];
    let filled = peer.fill_slices(&mut slices);
    let mut bytes = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
    frames.into_iter().filter(|(_, _, bytes)| bytes.len() <= 2000).for_each(|frame| put(&mut bytes, frame));
    let mut worker = CodecWorker::new(20);
    let mut input = BytesMut::from(&bytes[..]);
    drain(&mut session, &mut worker, &mut input);
});
