//! Envelopes against their vectors, and against arbitrary bytes.

use bytes::Bytes;
use proptest::prelude::*;
use tautline::codecs::{CodecId, info};
use tautline::dictionary::Dictionary;
use tautline::envelope::{
    EnvelopeDecoder, EnvelopeError, EnvelopeLimits, NameForm, NoDictionaries, ResolveError,
    needed_dictionary,
};

use super::vectors::{Vector, unhex, vectors};

fn show(error: &EnvelopeError) -> String {
    let name = match error {
        EnvelopeError::Version { .. } => "Version",
        EnvelopeError::Unknown { .. } => "Unknown",
        EnvelopeError::Truncated => "Truncated",
        EnvelopeError::BadVarint => "BadVarint",
        EnvelopeError::TooLong { .. } => "TooLong",
        EnvelopeError::NameTooShort { .. } => "NameTooShort",
        EnvelopeError::NoSuchDictionary { .. } => "NoSuchDictionary",
        EnvelopeError::Resolve(ResolveError::Ambiguous { .. }) => "Ambiguous",
        EnvelopeError::Decode(_) => "Undecodable",
        EnvelopeError::Checksum { .. } => "Checksum",
        other => panic!("no vector has {other}"),
    };
    format!("error={name}")
}

fn limits(vector: &Vector) -> EnvelopeLimits {
    let mut limits = EnvelopeLimits::default();
    if let Some(max) = vector.number("max") {
        limits.max_plain = max;
    }
    if vector.says("least_name", "8") {
        limits.least_name = NameForm::Medium;
    }
    limits
}

#[test]
fn envelopes_open_as_the_vectors_say() {
    for vector in vectors("envelope.txt") {
        let (name, envelope) = (vector.name(), Bytes::from(vector.bytes("hex")));
        let codec = CodecId::from_wire(envelope.get(1).copied().unwrap_or_default());
        if codec.name().is_some() && info(codec).is_none() {
            continue;
        }
        let held = vector.values("dictionary").map(unhex);
        let held: Vec<_> = held
            .map(|content| Dictionary::new(content).expect("a length between"))
            .collect();
        let mut decoder = EnvelopeDecoder::new(limits(&vector));
        let got = match decoder.decode(&envelope, &mut &held[..]) {
            Ok(plain) => {
                assert_eq!(plain, vector.bytes("plain"), "{name}");
                for cut in 0..envelope.len() {
                    let short = decoder.decode(&envelope.slice(..cut), &mut &held[..]);
                    assert!(short.is_err(), "{name} cut at {cut}");
                }
                "plain".to_owned()
            }
            Err(error) => show(&error),
        };
        assert_eq!(vector.expected(), [got], "{name}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_or_opened_within_the_limits(
        first in prop_oneof![Just(0x10_u8), Just(0x14), Just(0x18), Just(0x1c), any::<u8>()],
        codec in 0_u8..8,
        rest in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let envelope = Bytes::from([&[first, codec], &rest[..]].concat());
        let dictionary = Dictionary::new(&b"some text to refer to"[..]).expect("a length between");
        let mut decoder = EnvelopeDecoder::new(EnvelopeLimits::new(64));
        for held in [&[][..], &[dictionary]] {
            if let Ok(plain) = decoder.decode(&envelope, &mut &*held) {
                prop_assert!(plain.len() <= 64);
            }
        }
        let _ = decoder.decode(&envelope, &mut NoDictionaries);
        let _ = needed_dictionary(&envelope);
    }
}
