//! Raw bytes as a dictionary, as bodies encoded with it, as samples to train on, and as a file of the cache.

#![no_main]

use std::time::UNIX_EPOCH;

use libfuzzer_sys::fuzz_target;
use tautline::codecs::{Codecs, supported};
use tautline::dictionary::cache::{CacheConfig, DictionaryCache};
use tautline::dictionary::{
    AcceptancePolicy, Dictionary, DictionaryId, TrainConfig, rare_bytes, train,
};

fuzz_target!(|input: (u16, Vec<&[u8]>)| {
    let (room, parts) = input;
    let content = parts.first().copied().unwrap_or_default();
    let wire = parts.get(1).copied().unwrap_or_default();

    // Offered by a peer: of a name that is another's, and of its own.
    let wrong = DictionaryId::from_bytes([7; 32]);
    assert!(Dictionary::verified(wrong, content.to_vec(), 1000).is_err());
    let _ = AcceptancePolicy::default().judge(room % 2 == 0, usize::from(room % 7), content.len());
    if let Ok(dictionary) = Dictionary::with_limit(content.to_vec(), 1000) {
        let mut codecs = Codecs::new();
        let mut plain = vec![0xa5; usize::from(room)];
        for info in supported() {
            let _ = codecs.check_dictionary(info.id, &dictionary);
            if let Ok(len) = codecs.decode_with(info.id, &dictionary, wire, &mut plain) {
                assert!(len <= plain.len());
            }
        }
    }

    let config = TrainConfig::default()
        .with_max_len(usize::from(room))
        .with_min_sources(2);
    if let Ok(dictionary) = train(&parts, &config) {
        assert!(dictionary.len() <= usize::from(room));
        let mut raw = config;
        raw.with_statistics = false;
        if let Ok(raw) = train(&parts, &raw) {
            assert_eq!(rare_bytes(raw.content(), &parts, 2), 0);
        }
    }

    // In the cache's own directory, in the place of a dictionary.
    let directory = std::env::temp_dir().join(format!("tautline-fuzz-{}", std::process::id()));
    let Ok(mut cache) = DictionaryCache::open(&directory, CacheConfig::default()) else {
        return;
    };
    let id = DictionaryId::of(content);
    if std::fs::write(directory.join(format!("{id}.dict")), wire).is_ok() {
        if let Ok(Some(entry)) = cache.load(&id, UNIX_EPOCH) {
            assert_eq!(entry.dictionary.id(), id);
        }
        let _ = cache.newest("class", UNIX_EPOCH);
        let _ = cache.remove(&id);
    }
});
