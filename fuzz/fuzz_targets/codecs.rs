//! Raw bytes into every decoder, with dirty output buffers of the fuzzer's choosing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline::codecs::{Codecs, supported};

fuzz_target!(|input: (u16, &[u8])| {
    let (room, wire) = input;
    let mut codecs = Codecs::new();
    let mut plain = vec![0xa5; usize::from(room)];
    for info in supported() {
        if let Ok(len) = codecs.decode(info.id, wire, &mut plain) {
            assert!(len <= plain.len());
        }
    }
});
