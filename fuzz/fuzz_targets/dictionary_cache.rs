//! A cache directory in any state, by a sequence of operations: files of any bytes under any name, damaged, cut off and
//! exchanged for directories, a directory that is full, read-only or gone, between what two programs with limits of their own do with
//! it. Whatever it gives is whole, what it writes keeps to the size, and what it cannot do is an error that says why and leaves nothing behind.
//!
//! The input is read byte by byte. Set `TMPDIR` to a directory in memory: each write is synced.

#![no_main]

mod script;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use script::Script;
use tautline::dictionary::cache::{CacheConfig, CacheEntry, CacheError, DictionaryCache, MAX_CLASS_LEN};
use tautline::dictionary::{Dictionary, DictionaryId};
use tautline::envelope::{EnvelopeDecoder, EnvelopeEncoder};

const MAX_LEN: usize = 2000;
/// Here nobody may make files, not even root.
const READ_ONLY: &str = "/sys/kernel";

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

/// Does something while no file may be longer than a cache's header, which the system answers as if there were no space left.
#[cfg(target_os = "linux")]
fn without_room<T>(what: impl FnOnce() -> T) -> T {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Limit {
        soft: u64,
        hard: u64,
    }
    unsafe extern "C" {
        fn getrlimit(resource: i32, limit: *mut Limit) -> i32;
        fn setrlimit(resource: i32, limit: *const Limit) -> i32;
        fn signal(number: i32, handler: usize) -> usize;
    }
    const RLIMIT_FSIZE: i32 = 1;
    const SIGXFSZ: i32 = 25;
    const SIG_IGN: usize = 1;
    let mut before = Limit { soft: 0, hard: 0 };
    // SAFETY: structures of two words, as 64-bit Linux has them, and numbers. The signal would end this process instead of failing the write.
    let set = unsafe {
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &mut before) + setrlimit(RLIMIT_FSIZE, &Limit { soft: 16, ..before })
    };
    let done = what();
    // SAFETY: as above.
    let set_back = unsafe { setrlimit(RLIMIT_FSIZE, &before) };
    assert_eq!((set, set_back), (0, 0), "a soft limit may be set");
    done
}

/// One of two programs that use the directory.
struct User {
    cache: DictionaryCache,
    config: CacheConfig,
    requests: u64,
}

impl User {
    fn open(directory: &Path, config: CacheConfig) -> Option<Self> {
        let cache = DictionaryCache::open(directory, config).ok()?;
        Some(Self { cache, config, requests: 0 })
    }

    fn store(&mut self, directory: &Path, script: &mut Script<'_>, is_full: bool) {
        let (dictionary, class, now) = (script.dictionary(), script.class(), script.time());
        let before = self.cache.stats();
        let mut store = || self.cache.store(&dictionary, &class, now);
        let result = if is_full { without_room(store) } else { store() };
        let after = self.cache.stats();
        assert_eq!(after.failed - before.failed, u64::from(result.is_err()));
        if after.stored > before.stored {
            assert!(result.is_ok() && !is_full && size(directory) <= self.config.max_bytes);
        }
        let is_read_only = directory.read_link().is_ok_and(|it| it == Path::new(READ_ONLY) && it.is_dir());
        match &result {
            Ok(()) => {
                assert!(!is_read_only);
                let entry = self.cache.load(&dictionary.id(), now).expect("just stored").expect("just stored");
                self.requests += 1;
                assert_eq!(entry.dictionary, dictionary);
            }
            Err(CacheError::TooLarge { given, max }) => assert!(given > max && *max == self.config.max_bytes),
            Err(CacheError::Dictionary(_)) => assert!(dictionary.len() > self.config.max_len),
            Err(CacheError::ClassTooLong { given, .. }) => assert_eq!(*given, class.len()),
            Err(CacheError::ReadOnly { .. }) => assert!(is_read_only),
            Err(CacheError::NoRoom { .. }) => assert!(is_full && !is_read_only),
            Err(CacheError::Io { .. }) => assert!(!is_read_only),
            Err(other) => panic!("{other}"),
        }
        // By its ending as well: a script can give a file this process's number for a name.
        let own = format!(".{}.", std::process::id());
        let is_own = |name: &str| name.contains(&own) && name.ends_with(".unfinished");
        let left = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut left = left.filter(|it| is_own(&it.file_name().to_string_lossy()));
        assert!(left.next().is_none(), "left behind after {result:?}");
    }

    fn check(&self) {
        let stats = self.cache.stats();
        assert!(stats.hits + stats.misses + stats.failed >= self.requests, "{stats:?}");
    }
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
    // The other has less room, some of the time for nothing at all.
    let mut other = config;
    other.max_bytes = config.max_bytes / 4;
    let (Some(one), Some(other)) = (User::open(&directory, config), User::open(&directory, other)) else { return };
    let mut users = [one, other];
    let mut is_full = false;
    while let Some(op) = script.next() {
        let user = &mut users[usize::from(op >> 7)];
        let cache = &mut user.cache;
        match (op & 127) % 11 {
            0..=2 => user.store(&directory, &mut script, is_full),
            3 => {
                let id = script.dictionary().id();
                user.requests += 1;
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
                    // For the other, too.
                    for user in &mut users {
                        user.requests += 1;
                        let found = user.cache.load(&id, script.time());
                        assert!(!matches!(found, Ok(Some(_))), "removed");
                    }
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
            10 => match script.byte() % 4 {
                0 => is_full = !is_full,
                1 => {
                    clear(&directory);
                    let _ = std::os::unix::fs::symlink(READ_ONLY, &directory);
                }
                // It ends, and begins again if it can.
                2 => {
                    user.check();
                    if let Some(again) = User::open(&directory, user.config) {
                        *user = again;
                    }
                }
                // What was to be below is a file's name now.
                _ => {
                    clear(&directory);
                    let _ = fs::write(&directory, "x");
                    assert!(matches!(DictionaryCache::open(directory.join("below"), config), Err(CacheError::Io { .. })));
                }
            },
            _ => disturb(&directory, &mut script),
        }
    }
    users.iter().for_each(User::check);
    clear(&directory);
});
