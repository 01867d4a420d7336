//! Raw bytes into every decoder, with dirty output buffers of the fuzzer's choosing; and, in two blocks,
//! into every decoder with history.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline::codecs::{Codecs, DecodeContext, supported};

fuzz_target!(|input: (u16, &[u8])| {
    let (room, wire) = input;
    let mut codecs = Codecs::new();
    let mut plain = vec![0xa5; usize::from(room)];
    for info in supported() {
        if let Ok(len) = codecs.decode(info.id, wire, &mut plain) {
            assert!(len <= plain.len());
        }
        if let Ok(mut context) = DecodeContext::new(info.id, 15, &wire[wire.len() / 2..]) {
            for block in wire.chunks(wire.len() / 2 + 1) {
                if let Ok(len) = context.decode(block, &mut plain) {
                    assert!(len <= plain.len());
                }
            }
        }
    }
});
