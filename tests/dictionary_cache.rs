//! A cache directory that several processes use, and one that takes no more. Children are this program
//! again, with one of the ignored tests below and the directory as their own.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tautline::dictionary::Dictionary;
use tautline::dictionary::cache::{CacheConfig, CacheError, DictionaryCache};

const COUNT: u64 = 40;
/// Room for a quarter of them.
const MAX_BYTES: u64 = COUNT * 10_000 / 4;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn dictionary(number: u64) -> Dictionary {
    Dictionary::new(number.to_le_bytes().repeat(1240)).expect("a length between")
}

fn open(directory: &Path) -> DictionaryCache {
    let config = CacheConfig::default().with_max_bytes(MAX_BYTES);
    DictionaryCache::open(directory, config).expect("a directory")
}

fn child(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--ignored", "--exact", test])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Stores and loads what the others store and load too; whatever is found is whole.
fn work(directory: &Path, seed: u64) {
    let mut cache = open(directory);
    for round in 0..COUNT * 5 {
        let number = (round * 7 + seed * 13) % COUNT;
        let dictionary = dictionary(number);
        if round % 2 == 0 {
            cache
                .store(&dictionary, "class", at(round))
                .expect("room, whoever else is here");
        } else if let Some(entry) = cache.load(&dictionary.id(), at(round)).expect("readable") {
            assert_eq!(entry.dictionary, dictionary);
        }
        let _ = cache.newest("class", at(round)).expect("readable");
    }
    assert_eq!(cache.stats().damaged, 0);
}

#[test]
#[ignore = "a child of the test below"]
fn a_process_among_others() {
    work(Path::new("."), u64::from(std::process::id()));
}

#[test]
fn several_processes_and_threads_share_a_directory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let children: Vec<Child> = (0..2)
        .map(|_| child("a_process_among_others", folder.path()).spawn())
        .collect::<Result<_, _>>()
        .expect("they start");
    let directory = folder.path();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(move || work(directory, seed));
        }
    });
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }
}

/// A limit on the size of files, which the system answers like a full disk in the midst of a write.
#[test]
#[cfg(target_os = "linux")]
fn a_full_directory_is_an_error_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = child("a_process_without_room", folder.path());
    let mut shell = Command::new("sh");
    // Signal 25 (SIGXFSZ) would end the child before the write could fail.
    shell
        .args(["-c", "ulimit -f 4; trap '' 25; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(folder.path())
        .stdout(Stdio::null());
    assert!(shell.status().expect("it starts").success());
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 0);
}

#[test]
#[ignore = "a child of the test above"]
fn a_process_without_room() {
    let mut cache = open(Path::new("."));
    for number in 0..3 {
        let stored = cache.store(&dictionary(number), "class", at(number));
        assert!(
            matches!(stored, Err(CacheError::NoRoom { .. })),
            "{stored:?}"
        );
    }
    assert_eq!((cache.stats().failed, cache.stats().stored), (3, 0));
}

/// Root may write anywhere, but nobody may make files in /proc, where they do not exist, and in /sys, where it is not permitted.
#[test]
#[cfg(target_os = "linux")]
fn a_directory_that_cannot_be_written_can_still_be_asked() {
    let mut cache = open(Path::new("/proc/self/task"));
    assert!(cache.newest("class", at(1)).expect("readable").is_none());
    let stored = cache.store(&dictionary(1), "class", at(1));
    assert!(matches!(stored, Err(CacheError::Io { .. })), "{stored:?}");
    assert_eq!(cache.stats().failed, 1);

    if !Path::new("/sys/kernel").is_dir() {
        eprintln!("not tried where it is not permitted: there is no /sys");
        return;
    }
    let mut cache = open(Path::new("/sys/kernel"));
    assert!(cache.newest("class", at(1)).expect("readable").is_none());
    assert_read_only(cache.store(&dictionary(1), "class", at(1)));
    assert_eq!((cache.stats().failed, cache.stats().stored), (1, 0));
}

#[track_caller]
fn assert_read_only(result: Result<(), CacheError>) {
    let Err(CacheError::ReadOnly { path, source }) = result else {
        panic!("{result:?}");
    };
    assert!(
        path.extension().is_some_and(|it| it == "dict"),
        "{}",
        path.display()
    );
    let kinds = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem];
    assert!(kinds.contains(&source.kind()), "{source:?}");
}

/// A mount that is read-only to root too, in a namespace of its own, so that nothing is left of it.
#[test]
#[cfg(target_os = "linux")]
fn a_read_only_directory_gives_what_it_holds_and_says_that_it_takes_no_more() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut cache = open(folder.path());
    for number in 0..2 {
        let stored = cache.store(&dictionary(number), "class", at(number));
        stored.expect("room");
    }
    std::fs::write(path_in(folder.path(), 2), "damaged").expect("writable");
    let mount = "mount --bind . \"$PWD\" && mount -o remount,bind,ro \"$PWD\" && cd \"$PWD\" && ";
    let in_namespace = |command: &str| {
        let mut shell = Command::new("unshare");
        shell
            .args(["-r", "-m", "sh", "-c", &format!("{mount}{command}")])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        shell
    };
    // It can be mounted so, or there is nothing to be seen here.
    let tried = in_namespace("! touch x").output();
    if !tried.as_ref().is_ok_and(|it| it.status.success()) {
        eprintln!("not run: this system lets nobody mount a directory read-only: {tried:?}");
        return;
    }
    let program = child("a_process_that_may_only_read", folder.path());
    let mut shell = in_namespace("exec \"$0\" \"$@\"");
    shell.arg(program.get_program()).args(program.get_args());
    assert!(shell.status().expect("it starts").success());
    assert_eq!(cache.names().expect("readable").len(), 3, "as it was");
}

fn path_in(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{}.dict", dictionary(number).id()))
}

#[test]
#[ignore = "a child of the test above"]
fn a_process_that_may_only_read() {
    let mut cache = open(Path::new("."));
    // What is there is found, its use cannot be noted, and it need not be stored again.
    let newest = cache.newest("class", at(9)).expect("readable");
    assert_eq!(newest.expect("two are there").dictionary, dictionary(1));
    let entry = cache.load(&dictionary(0).id(), at(9)).expect("readable");
    assert_eq!(entry.expect("it is there").dictionary, dictionary(0));
    let again = cache.store(&dictionary(0), "class", at(9));
    assert!(again.is_ok(), "{again:?}");
    // What is damaged stays, and is passed over each time.
    for damaged in 1..3 {
        let entry = cache.load(&dictionary(2).id(), at(9)).expect("readable");
        assert_eq!((entry, cache.stats().damaged), (None, damaged));
    }
    assert_read_only(cache.store(&dictionary(3), "class", at(9)));
    assert_read_only(cache.remove(&dictionary(0).id()));
    // Nor can one make room for another.
    let config = CacheConfig::default().with_max_bytes(15_000);
    let mut small = DictionaryCache::open(".", config).expect("a directory");
    assert_read_only(small.store(&dictionary(3), "class", at(9)));
    assert_eq!((cache.stats().failed, small.stats().failed), (2, 1));
    assert_eq!(small.stats().evicted, 0);
}
