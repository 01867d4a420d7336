//! Raw bytes into every reader of message containers.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tautline::corpus::{Corpus, Format};

fuzz_target!(|input: &[u8]| {
    let bytes = Bytes::copy_from_slice(input);
    let _ = Corpus::parse("fuzz", &bytes, None);
    for format in Format::ALL {
        let _ = Corpus::parse("fuzz", &bytes, Some(*format));
    }
});
