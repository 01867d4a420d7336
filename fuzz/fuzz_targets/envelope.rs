//! Raw bytes as an envelope, with resolvers that know nothing, something, or fail; and messages that
//! must come back.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tautline::codecs::{Arm, supported, takes_dictionary};
use tautline::dictionary::Dictionary;
use tautline::envelope::{
    DictionaryName, EnvelopeDecoder, EnvelopeEncoder, EnvelopeLimits, NoDictionaries, ResolveError,
    Resolver, needed_dictionary,
};

const MAX_PLAIN: usize = 1 << 16;

/// Gives the same dictionary whatever it is asked for, or fails.
struct Stubborn(Option<Dictionary>);

impl Resolver for Stubborn {
    fn resolve(&mut self, _: &DictionaryName) -> Result<Option<Dictionary>, ResolveError> {
        match &self.0 {
            Some(dictionary) => Ok(Some(dictionary.clone())),
            None => Err(ResolveError::Unavailable(std::io::Error::other("gone"))),
        }
    }
}

fuzz_target!(|input: (&[u8], &[u8])| {
    let (content, bytes) = input;
    let dictionary = Dictionary::new(content.to_vec()).ok();
    let held: Vec<Dictionary> = dictionary.iter().cloned().collect();
    let mut decoder = EnvelopeDecoder::new(EnvelopeLimits::new(MAX_PLAIN));
    let envelope = Bytes::copy_from_slice(bytes);
    let _ = needed_dictionary(&envelope);
    for plain in [
        decoder.decode(&envelope, &mut NoDictionaries),
        decoder.decode(&envelope, &mut &held[..]),
        decoder.decode(&envelope, &mut Stubborn(dictionary)),
    ]
    .into_iter()
    .flatten()
    {
        assert!(plain.len() <= MAX_PLAIN);
    }

    if bytes.len() > MAX_PLAIN {
        return;
    }
    let mut encoder = EnvelopeEncoder::default();
    for info in supported() {
        let arm = Arm::new(info.id, info.default_level.0);
        let envelope = encoder.encode(arm, bytes).expect("an arm of this build");
        assert!(envelope.len() <= 6 + bytes.len());
        let back = decoder.decode(&envelope, &mut NoDictionaries);
        assert_eq!(back.expect("just encoded"), bytes);
        let Some(dictionary) = held.first().filter(|_| takes_dictionary(arm.codec)) else {
            continue;
        };
        // What begins like zstd's format may be damaged; then it is refused.
        if let Ok(envelope) = encoder.encode_with(arm, dictionary, bytes) {
            let back = decoder.decode(&envelope, &mut &held[..]);
            assert_eq!(back.expect("just encoded"), bytes);
        }
    }
});
