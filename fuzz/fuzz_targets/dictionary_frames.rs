//! Dictionaries on their way. Of an even first byte: sequences of dictionary frames and blocks into a session that takes dictionaries of
//! anybody, read byte by byte: an operation, a number, a length and so many bytes, again and again. Of an odd one: operations on two
//! sessions that offer dictionaries to each other (`exchange.rs`).

#![no_main]

mod disorder;
mod drain;
mod exchange;
#[expect(dead_code, reason = "resume.rs does more with it")]
mod pair;
mod script;

use bytes::BytesMut;
use drain::drain;
use libfuzzer_sys::fuzz_target;
use script::Script;
use tautline::codecs::{Arm, CodecId, Codecs, Encoded};
use tautline::dictionary::{Acceptance, AcceptancePolicy, DictionaryId};
use tautline::session::{CodecWorker, Role, Session, SessionConfig};
use tautline::units::Time;
use tautline::wire::{
    BlockHeader, Control, Define, DictionaryAnswer, DictionaryFrame, DictionaryNews, DictionaryVerdict, GroupId, Open, Slot,
    StreamId,
};

fn config() -> SessionConfig {
    SessionConfig::default().checksums(false).accept_dictionaries(AcceptancePolicy::new(Acceptance::Always))
}

fn news(number: u64, what: DictionaryNews) -> Control {
    Control::Dictionary(DictionaryFrame { number, what })
}

/// An offer of content as this codec makes it, and the first piece, which is all of it unless it is long.
fn offer(out: &mut Vec<u8>, number: u64, content: &[u8], codec: CodecId, rest: bool) {
    let mut wire = vec![0; content.len()];
    let (codec, wire) = match Codecs::new().encode(Arm::new(codec, 1), content, &mut wire) {
        Ok(Encoded::Written(len)) => (codec, &wire[..len]),
        _ => (CodecId::IDENTITY, content),
    };
    let hash = *DictionaryId::of(content).as_bytes();
    let len = content.len() as u64;
    news(number, DictionaryNews::Offer { hash, len, codec, wire_len: wire.len() as u64 }).put(out);
    if rest {
        wire.chunks(1000).for_each(|piece| news(number, DictionaryNews::Piece(piece.to_vec())).put(out));
    }
}

fn put(out: &mut Vec<u8>, op: u8, number: u8, bytes: &[u8]) {
    let upper = op >> 4;
    let number = u64::from(number).max(1);
    let slot = Slot::new(upper).expect("four bits");
    match op & 15 {
        // Its pieces follow, or it is for other frames to bring them.
        0 => offer(out, number, bytes, CodecId::from_wire(upper), true),
        1 => offer(out, number, bytes, CodecId::from_wire(upper), false),
        // The name of something else, or a length that is not its own.
        2 => {
            let (len, wire_len) = (bytes.len() as u64 * 3, bytes.len() as u64);
            news(number, DictionaryNews::Offer { hash: [op; 32], len, codec: CodecId::from_wire(upper), wire_len }).put(out);
        }
        3 if !bytes.is_empty() => news(number, DictionaryNews::Piece(bytes.to_vec())).put(out),
        4 => news(number, DictionaryNews::Retire).put(out),
        5 => {
            let verdict = match upper % 3 {
                0 => DictionaryVerdict::Held,
                1 => DictionaryVerdict::Wanted,
                _ => DictionaryVerdict::Refused,
            };
            Control::DictionaryAnswer(DictionaryAnswer { number, verdict }).put(out);
        }
        6 | 7 => {
            let codec = CodecId::from_wire(bytes.first().copied().unwrap_or(3));
            let history = (op & 1 != 0).then(|| bytes.get(1).copied().unwrap_or(17));
            // Of no dictionary, if a third byte says so.
            let dictionary = if bytes.len() > 2 { 0 } else { number };
            Control::Define(Define { slot, codec, group: GroupId(0), history, dictionary }).put(out);
        }
        8 => {
            let Some(stream) = StreamId::new(number as u32 * 2) else { return };
            Control::Open(Open { stream, group: GroupId(upper), window: 0, name: String::new() }).put(out);
        }
        9 => out.extend_from_slice(bytes),
        // A block, of a new epoch and with its plain length if the operation says so.
        what => {
            let body = if bytes.is_empty() { &[0][..] } else { bytes };
            let epoch = (what == 11).then_some(number);
            let plain_len = (what == 12).then_some(number as usize * 16);
            let header = BlockHeader { slot: Some(slot), epoch, plain_len, body_len: body.len(), check: 0 };
            header.put(out, false);
            out.extend_from_slice(body);
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    if script.byte() & 1 == 0 {
        return frames(script);
    }
    // One wrong block in 65 536 passes its check by chance; with other payloads it would have to be that lucky again.
    let mut found = None;
    for salt in [0, 1, 77] {
        let Some(what) = exchange::exchange(&mut Script(script.0), salt) else { return };
        found = Some(what);
    }
    panic!("whatever the payload: {found:?}");
});

/// What one session makes of frames.
fn frames(mut script: Script<'_>) {
    let Ok(peer) = Session::new(Role::Connector, config(), Time::ZERO) else { return };
    let Ok(mut session) = Session::new(Role::Acceptor, config(), Time::ZERO) else { return };
    let mut slices = [std::io::IoSlice::new(&[]); 4];
    let filled = peer.fill_slices(&mut slices);
    let mut bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
    while let Some(op) = script.next() {
        let number = script.byte();
        // Up to 2048, which is what short blocks and pieces take.
        let len = match usize::from(script.byte()) {
            len @ 0..=127 => len,
            len => (len - 127) * 16,
        };
        let (content, rest) = script.0.split_at(len.min(script.0.len()));
        script.0 = rest;
        put(&mut bytes, op, number, content);
    }
    let mut worker = CodecWorker::new(20);
    let mut input = BytesMut::from(&bytes[..]);
    drain(&mut session, &mut worker, &mut input);
}
