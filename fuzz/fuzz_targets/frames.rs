//! Raw bytes into the hello, frame and record readers.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tautline::wire::{Hello, RecordReader, parse_frame};

fuzz_target!(|bytes: &[u8]| {
    let _ = Hello::parse(bytes);
    for with_check in [false, true] {
        let _ = parse_frame(bytes, 1 << 16, with_check);
    }
    let mut plain = Bytes::copy_from_slice(bytes);
    let mut reader = RecordReader::default();
    let mut continues = false;
    while let Ok(Some(record)) = reader.next(&mut plain, |_| continues) {
        continues = record.more;
    }
});
