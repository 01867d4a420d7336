//! A cache directory in any state, by a sequence of operations: files of any bytes under any name, damaged, cut off and
//! exchanged for directories, between what a program does with a cache. Whatever it gives is whole, what it
//! writes keeps to the size, and what it cannot do is an error.
//!
//! The input is read byte by byte. Set `TMPDIR` to a directory in memory: each write is synced.

#![no_main]

mod script;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use script::Script;
use tautline::dictionary::cache::{CacheConfig, CacheEntry, DictionaryCache, MAX_CLASS_LEN};
use tautline::dictionary::{Dictionary, DictionaryId};
use tautline::envelope::{EnvelopeDecoder, EnvelopeEncoder};

const MAX_LEN: usize = 2000;

impl<'a> Script<'a> {
    fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }

    /// One of a few, so that operations meet.
    fn dictionary(&mut self) -> Dictionary {
        let number = self.byte();
        let len = 40 + usize::from(number >> 4) * 150;
        Dictionary::new(vec![number & 7; len]).expect("a length between")
    }

    fn time(&mut self) -> SystemTime {
        let number = u64::from(self.byte());
        let time = match number {
            // The latest that a file can have, and beyond.
            255 => UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64)),
            254 => UNIX_EPOCH.checked_sub(Duration::from_secs(1000)),
            _ => UNIX_EPOCH.checked_add(Duration::from_secs(number * 400)),
        };
        time.unwrap_or(UNIX_EPOCH)
    }

    fn class(&mut self) -> String {
        match self.byte() {
            0..=200 => "orders".to_owned(),
            201..=220 => String::new(),
            221..=240 => "\u{e9}".repeat(MAX_CLASS_LEN / 2),
            _ => "c".repeat(MAX_CLASS_LEN + 1),
        }
    }
}

fn path_of(directory: &Path, id: &DictionaryId) -> PathBuf {
    directory.join(format!("{id}.dict"))
}

/// Puts nothing, whatever was there.
fn clear(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path);
}

/// Does to the directory what no cache does.
fn disturb(directory: &Path, script: &mut Script<'_>) {
    let (what, id) = (script.byte(), script.dictionary().id());
    let path = path_of(directory, &id);
    let is_short = path.metadata().is_ok_and(|it| it.len() < 10_000);
    let _ = match what % 12 {
        1 | 6 if !is_short => Ok(()),
        0 => fs::write(&path, script.bytes()),
        1 => fs::read(&path).and_then(|mut bytes| {
            let at = usize::from(script.byte()) * 8 % bytes.len().max(1);
            bytes[at..].iter_mut().take(1).for_each(|byte| *byte ^= 1 << (what >> 5));
            fs::write(&path, bytes)
        }),
        2 => File::options().write(true).open(&path).and_then(|file| file.set_len(script.byte().into())),
        // A sparse file: what it says is its length is no memory.
        3 => File::create(&path).and_then(|file| file.set_len(1 << (what >> 4).saturating_mul(4).min(62))),
        4 => fs::create_dir(&path),
        5 => std::os::unix::fs::symlink(&path, &path),
        6 => {
            let other = path_of(directory, &script.dictionary().id());
            fs::copy(&path, other).map(|_| ())
        }
        7 => File::create(directory.join(format!("{id}.1.1.unfinished"))).and_then(|file| file.set_modified(script.time())),
        8 => File::options().append(true).open(&path).and_then(|file| file.set_modified(script.time())),
        9 => {
            let name: String = script.bytes().iter().map(|byte| char::from(byte % 127).to_ascii_uppercase()).collect();
            fs::write(directory.join(format!("{}.dict", name.replace(['/', '\0'], "."))), "x")
        }
        10 => {
            clear(directory);
            fs::write(directory, "x")
        }
        _ => {
            clear(directory);
            fs::create_dir(directory)
        }
    };
}

/// Bytes of the files that are the cache's.
fn size(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let is_ours = |path: &PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str());
        path.extension().is_some_and(|it| it == "dict") && name.is_some_and(|name| name.parse::<DictionaryId>().is_ok())
    };
    let paths = entries.flatten().map(|entry| entry.path()).filter(is_ours);
    paths.filter_map(|path| path.metadata().ok()).filter(fs::Metadata::is_file).map(|it| it.len()).sum()
}

fn check(entry: &CacheEntry) {
    let content = entry.dictionary.content();
    assert_eq!(entry.dictionary.id(), DictionaryId::of(content));
    assert!(content.len() <= MAX_LEN && entry.class.len() <= MAX_CLASS_LEN);
}

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    let directory = std::env::temp_dir().join(format!("tautline-fuzz-cache-{}", std::process::id()));
    clear(&directory);
    let mut config = CacheConfig::default();
    config.max_len = MAX_LEN;
    config.max_bytes = 200 + u64::from(script.byte()) * 40;
    let Ok(mut cache) = DictionaryCache::open(&directory, config) else { return };
    let mut requests = 0;
    while let Some(op) = script.next() {
        match op % 10 {
            0..=2 => {
                let (dictionary, class, now) = (script.dictionary(), script.class(), script.time());
                let before = cache.stats().stored;
                let result = cache.store(&dictionary, &class, now);
                if cache.stats().stored > before {
                    assert!(result.is_ok() && size(&directory) <= config.max_bytes);
                }
                if result.is_ok() {
                    let entry = cache.load(&dictionary.id(), now).expect("just stored").expect("just stored");
                    requests += 1;
                    assert_eq!(entry.dictionary, dictionary);
                }
            }
            3 => {
                let id = script.dictionary().id();
                requests += 1;
                if let Ok(Some(entry)) = cache.load(&id, script.time()) {
                    assert_eq!(entry.dictionary.id(), id);
                    check(&entry);
                }
            }
            4 => {
                let class = script.class();
                let newest = cache.newest(&class, script.time());
                let entries = cache.entries();
                if let Ok(Some(entry)) = newest {
                    assert_eq!(entry.class, class);
                    check(&entry);
                } else if let (Ok(None), Ok(entries)) = (newest, &entries) {
                    assert!(entries.iter().all(|entry| entry.class != class), "one was there");
                }
                if let Ok(entries) = &entries {
                    entries.iter().for_each(check);
                    assert!(entries.is_sorted_by_key(|entry| (entry.created, entry.dictionary.id())));
                }
            }
            5 => {
                let id = script.dictionary().id();
                if cache.remove(&id).is_ok() {
                    requests += 1;
                    let found = cache.load(&id, script.time());
                    assert!(!matches!(found, Ok(Some(_))), "removed");
                }
            }
            6 => {
                let (dictionary, arm) = (script.dictionary(), "lz4".parse().expect("an arm of this build"));
                let envelope = EnvelopeEncoder::default().encode_with(arm, &dictionary, &[3; 60]);
                let mut decoder = EnvelopeDecoder::default();
                if let Ok(plain) = decoder.decode(&envelope.expect("encodes"), &mut cache.resolver(script.time())) {
                    assert_eq!(plain, &[3; 60][..]);
                }
            }
            _ => disturb(&directory, &mut script),
        }
    }
    let stats = cache.stats();
    assert!(stats.hits + stats.misses + stats.failed >= requests, "{stats:?}");
    clear(&directory);
});
