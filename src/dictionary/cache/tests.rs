use super::*;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn dictionary(number: u8) -> Dictionary {
    Dictionary::new(vec![number; 1000]).expect("a length between")
}

fn open(folder: &tempfile::TempDir, max_bytes: u64) -> DictionaryCache {
    let config = CacheConfig::default().with_max_bytes(max_bytes);
    DictionaryCache::open(folder.path().join("cache"), config).expect("a directory")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn what_is_stored_is_there_for_the_next_run() {
    let folder = folder();
    let mut cache = open(&folder, 1 << 20);
    assert_eq!(cache.newest("orders", at(0)).expect("readable"), None);
    for (number, class) in [(1, "orders"), (2, "orders"), (3, "logs")] {
        let now = at(100 + u64::from(number));
        cache.store(&dictionary(number), class, now).expect("room");
    }
    let mut cache = open(&folder, 1 << 20);
    let entry = cache.newest("orders", at(200)).expect("readable");
    let entry = entry.expect("two were stored");
    assert_eq!(entry.dictionary, dictionary(2));
    assert_eq!((entry.class.as_str(), entry.created), ("orders", at(102)));
    assert_eq!(cache.names().expect("readable").len(), 3);
    cache.remove(&dictionary(2).id()).expect("writable");
    cache.remove(&dictionary(2).id()).expect("gone already");
    let entry = cache.newest("orders", at(200)).expect("readable");
    assert_eq!(entry.expect("one is left").dictionary, dictionary(1));
    assert_eq!(
        cache.load(&dictionary(2).id(), at(1)).expect("readable"),
        None
    );
}

#[test]
fn those_used_least_lately_go_first() {
    let folder = folder();
    let mut cache = open(&folder, 3200);
    for number in 1..=3 {
        let now = at(u64::from(number));
        cache.store(&dictionary(number), "c", now).expect("room");
    }
    assert!(
        cache
            .load(&dictionary(1).id(), at(10))
            .expect("readable")
            .is_some()
    );
    cache.store(&dictionary(4), "c", at(11)).expect("room");
    let mut is_there = |number| {
        let found = cache.load(&dictionary(number).id(), at(12));
        found.expect("readable").is_some()
    };
    assert_eq!([1, 2, 3, 4].map(&mut is_there), [true, false, true, true]);
    assert_eq!(cache.stats().evicted, 1);
    let mut tiny = open(&folder, 1000);
    assert!(matches!(
        tiny.store(&dictionary(5), "c", at(13)),
        Err(CacheError::TooLarge { max: 1000, .. })
    ));
    assert_eq!(tiny.stats().failed, 1);
}

#[test]
fn damaged_files_are_removed_and_counted() {
    let folder = folder();
    let mut cache = open(&folder, 1 << 20);
    let id = dictionary(1).id();
    let path = cache.path_of(&id);
    for at_byte in [0, 6, 13, 14, 16, 20, 500] {
        cache.store(&dictionary(1), "c", at(1)).expect("room");
        let mut bytes = fs::read(&path).expect("there");
        bytes[at_byte] ^= 1;
        fs::write(&path, bytes).expect("writable");
        assert_eq!(cache.load(&id, at(2)).expect("readable"), None, "{at_byte}");
        assert!(!path.exists());
    }
    for bytes in [&b""[..], b"TLDC", &vec![7; 300_000]] {
        fs::write(&path, bytes).expect("writable");
        assert_eq!(cache.load(&id, at(2)).expect("readable"), None);
    }
    assert_eq!(cache.stats().damaged, 10);
    // One that is damaged is written anew.
    fs::write(&path, "nonsense").expect("writable");
    cache.store(&dictionary(1), "c", at(3)).expect("room");
    assert!(cache.load(&id, at(4)).expect("readable").is_some());
}

#[test]
fn one_that_is_damaged_does_not_hide_those_before_it() {
    let folder = folder();
    let mut cache = open(&folder, 1 << 20);
    for number in 1..=3 {
        let now = at(u64::from(number));
        cache.store(&dictionary(number), "c", now).expect("room");
    }
    for number in [2, 3] {
        let path = cache.path_of(&dictionary(number).id());
        let mut bytes = fs::read(&path).expect("there");
        bytes[500] ^= 1;
        fs::write(&path, bytes).expect("writable");
    }
    let entry = cache.newest("c", at(9)).expect("readable");
    assert_eq!(entry.expect("one is whole").dictionary, dictionary(1));
    let stats = cache.stats();
    assert_eq!((stats.damaged, stats.hits, stats.misses), (2, 1, 0));
}

#[test]
fn files_of_absurd_lengths_and_directories_do_not_disturb() {
    let folder = folder();
    let mut cache = open(&folder, 2000);
    for number in 1..=5 {
        let path = cache.path_of(&dictionary(number).id());
        let file = File::create(path).expect("writable");
        // Where files cannot be as long, they are shorter.
        let _ = file
            .set_len(i64::MAX as u64)
            .or_else(|_| file.set_len(1 << 40));
    }
    fs::create_dir(cache.path_of(&dictionary(6).id())).expect("writable");
    cache.store(&dictionary(7), "c", at(1)).expect("room");
    assert_eq!(cache.names().expect("readable"), [dictionary(7).id()]);
    assert!(matches!(
        cache.store(&dictionary(6), "c", at(2)),
        Err(CacheError::Io { .. })
    ));
    let entry = cache.newest("c", at(3)).expect("readable");
    assert_eq!(entry.expect("there").dictionary, dictionary(7));
}

#[test]
fn other_files_and_unfinished_ones_do_not_disturb() {
    let folder = folder();
    let mut cache = open(&folder, 2000);
    let directory = folder.path().join("cache");
    fs::write(directory.join("README"), [0; 5000]).expect("writable");
    let unfinished = directory.join("x.1.1.unfinished");
    File::create(&unfinished)
        .and_then(|file| file.set_modified(at(100)))
        .expect("writable");
    cache.store(&dictionary(1), "c", at(200)).expect("room");
    assert!(unfinished.exists(), "somebody may still be writing");
    cache.store(&dictionary(2), "c", at(100_000)).expect("room");
    assert!(!unfinished.exists() && directory.join("README").exists());
    assert_eq!(cache.names().expect("readable"), [dictionary(2).id()]);
}

#[test]
fn directories_that_are_none_and_classes_too_long_are_errors() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "x").expect("writable");
    for directory in [file.clone(), file.join("below")] {
        let opened = DictionaryCache::open(directory, CacheConfig::default());
        assert!(matches!(opened, Err(CacheError::Io { .. })));
    }
    let mut cache = open(&folder, 1 << 20);
    assert!(matches!(
        cache.store(&dictionary(1), &"c".repeat(256), at(1)),
        Err(CacheError::ClassTooLong { given: 256, .. })
    ));
    fs::remove_dir_all(folder.path().join("cache")).expect("writable");
    assert!(matches!(
        cache.store(&dictionary(1), "c", at(1)),
        Err(CacheError::Io { .. })
    ));
    assert!(cache.newest("c", at(1)).is_err());
    assert_eq!(cache.load(&dictionary(1).id(), at(1)).expect("gone"), None);
}

#[test]
fn what_the_system_says_has_a_variant() {
    let of = |kind: ErrorKind| CacheError::of(Path::new("x"), kind.into());
    for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
        assert!(matches!(of(kind), CacheError::NoRoom { .. }));
    }
    for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
        assert!(matches!(of(kind), CacheError::ReadOnly { .. }));
    }
}

#[test]
#[cfg(feature = "lz4")]
fn envelopes_find_their_dictionaries_here() {
    use crate::envelope::{EnvelopeDecoder, EnvelopeEncoder, EnvelopeError};

    let folder = folder();
    let mut cache = open(&folder, 1 << 20);
    let text = b"words that are in the dictionary and in the message too".as_slice();
    let dictionary = Dictionary::new(text).expect("a length between");
    let arm = "lz4".parse().expect("an arm");
    let mut encoder = EnvelopeEncoder::default();
    let envelope = encoder
        .encode_with(arm, &dictionary, text)
        .expect("encodes");
    let mut decoder = EnvelopeDecoder::default();
    assert!(matches!(
        decoder.decode(&envelope, &mut cache.resolver(at(1))),
        Err(EnvelopeError::NoSuchDictionary { .. })
    ));
    cache.store(&dictionary, "c", at(1)).expect("room");
    let plain = decoder.decode(&envelope, &mut cache.resolver(at(2)));
    assert_eq!(plain.expect("found"), text);
    assert_eq!((cache.stats().hits, cache.stats().misses), (1, 1));
}

#[test]
#[cfg(feature = "lz4")]
fn names_that_several_files_share_are_said_to_be_ambiguous() {
    use crate::codecs::DecodeLimits;
    use crate::envelope::{EnvelopeDecoder, EnvelopeEncoder, EnvelopeError, NameForm};

    let folder = folder();
    let mut cache = open(&folder, 1 << 20);
    // The first two of `dictionary 0`, `dictionary 1` and so on whose SHA-256 share four bytes.
    let contents = [&b"dictionary 76850"[..], b"dictionary 80023"];
    let [one, other] = contents.map(|it| Dictionary::new(it).expect("a length between"));
    let message = contents[0].repeat(4);
    let arm = "lz4".parse().expect("an arm");
    let mut encoder = EnvelopeEncoder::new(NameForm::Short, DecodeLimits::default());
    let envelope = encoder.encode_with(arm, &one, &message).expect("encodes");
    let mut decoder = EnvelopeDecoder::default();
    for dictionary in [&one, &other] {
        cache.store(dictionary, "c", at(1)).expect("room");
    }
    let answer = decoder.decode(&envelope, &mut cache.resolver(at(2)));
    assert!(
        matches!(
            answer,
            Err(EnvelopeError::Resolve(ResolveError::Ambiguous {
                count: 2,
                ..
            }))
        ),
        "{answer:?}"
    );
    // With one of them gone the other is meant.
    cache.remove(&other.id()).expect("writable");
    let plain = decoder.decode(&envelope, &mut cache.resolver(at(3)));
    assert_eq!(plain.expect("found"), message);
}
