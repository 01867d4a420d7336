use std::fs;
use std::path::Path;

use super::*;
use crate::eventlog::control::Lock;

fn filled(log: &EventLog, rows: u64) {
    log.route(USED, None, Some(Route::to(LOG))).expect("known");
    let mut writer = log.writer("main").expect("free");
    for count in 0..rows {
        writer.record(USED, domain(1), count, domain(2));
    }
}

/// The first area of this process may be another test's: through the file itself.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn path_of(log: &EventLog) -> String {
    let file = log.file().expect("shared");
    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn visit_of(path: &str) -> Visit {
    let control = mapped::control_of(Path::new(path)).expect("an area");
    Visit::begin(control).expect("few of them")
}

#[test]
fn what_is_in_a_file_can_be_read_after_its_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("events");
    let log = EventLog::create(&path, &config(1024, ALL)).expect("room");
    log.name_domain(domain(1), "orders").expect("known");
    filled(&log, 5);
    drop(log);
    let mut reader = open(&path).expect("a log");
    assert_eq!(counters(&pass(&mut reader)), [0, 1, 2, 3, 4]);
    assert_eq!(reader.domain_name(domain(1)).expect("there"), "orders");
    assert_eq!(reader.process().expect("there"), std::process::id());
    // Made anew under a reader: that keeps the old one.
    let log = EventLog::create(&path, &config(2048, ALL)).expect("room");
    filled(&log, 2);
    assert!(pass(&mut reader).is_empty());
    assert_eq!(pass(&mut open(&path).expect("a log")).len(), 2);
}

/// Who finds a log by this process's number finds any that it has: there is to be one at a time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn a_running_process_is_found_by_its_number() {
    let _alone = alone();
    let log = EventLog::shared(&config(1024, ALL)).expect("memory");
    let mut reader = attach(std::process::id()).expect("this process");
    filled(&log, 3);
    assert_eq!(counters(&pass(&mut reader)), [0, 1, 2]);
    let file = log.file().expect("shared");
    assert!(file.set_len(8).is_err(), "sealed");
    let nobody = attach(u32::MAX).expect_err("no such process");
    assert!(matches!(nobody, ReadError::Io(error) if error.kind() == std::io::ErrorKind::NotFound));
}

#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn another_process_says_what_is_recorded_and_undoes_it() {
    let _alone = alone();
    let log = EventLog::shared(&config(1024, ALL)).expect("memory");
    let path = path_of(&log);
    let control = visit_of(&path);
    let mut reader = open(&path).expect("an area");
    let mut writer = log.writer("main").expect("free");
    writer.record(USED, domain(1), 1, domain(0));
    control
        .route(USED, Some(domain(1)), Some(Route::to(LOG).every(2)))
        .expect("known");
    control
        .set_format(LOG, RowFormat::new(Fields::COUNTER, Stamp::Off))
        .expect("fits");
    for counter in 2..6 {
        writer.record(USED, domain(1), counter, domain(0));
        writer.record(USED, domain(2), counter, domain(0));
    }
    assert_eq!(counters(&pass(&mut reader)), [3, 5]);
    control.end().expect("its own");
    assert!(!writer.is_on(USED));
    writer.record(USED, domain(1), 9, domain(0));
    assert!(pass(&mut reader).is_empty());

    let control = mapped::control_of(Path::new(&path)).expect("an area");
    let unknown = control.route(EventId::new(9), None, None);
    assert!(matches!(unknown, Err(SetError::Log(_))));
    let too_long = control.set_format(LogId::new(1), ALL);
    assert!(matches!(too_long, Err(SetError::Log(_))));
}

#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn the_last_visit_puts_back_what_was_before_the_first() {
    let _alone = alone();
    let log = EventLog::shared(&config(1024, ALL)).expect("memory");
    let path = path_of(&log);
    let mut writer = log.writer("main").expect("free");
    log.route(LEFT, None, Some(Route::to(LOG).every(7)))
        .expect("known");
    let every = Some(Route::to(LOG));
    // Whoever ends first: the one that began first, or the one that began last.
    for first_ends_first in [true, false] {
        let first = visit_of(&path);
        first.route(USED, None, every).expect("known");
        let second = visit_of(&path);
        second.route(LEFT, None, None).expect("known");
        let (one, other) = if first_ends_first {
            (first, second)
        } else {
            (second, first)
        };
        one.end().expect("there");
        assert!(writer.is_on(USED) && !writer.is_on(LEFT), "still visited");
        // One more comes while the other is there.
        let third = visit_of(&path);
        drop(other);
        assert!(writer.is_on(USED) && !writer.is_on(LEFT), "still visited");
        drop(third);
        assert!(!writer.is_on(USED) && writer.is_on(LEFT), "as before");
    }
    let mut reader = open(&path).expect("an area");
    for number in 0..14 {
        writer.record(LEFT, domain(1), number, domain(2));
    }
    assert_eq!(counters(&pass(&mut reader)), [6, 13]);

    // One that is killed says nothing more; the next one knows.
    let mut killed = visit_of(&path);
    killed.route(USED, None, every).expect("known");
    killed.has_ended = true;
    drop(killed);
    assert!(writer.is_on(USED));
    visit_of(&path).end().expect("there");
    assert!(!writer.is_on(USED) && writer.is_on(LEFT));
}

/// As those find themselves that come while the last visit ends.
#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn many_that_find_each_other_there_and_nothing_kept_all_begin() {
    let _alone = alone();
    let log = EventLog::shared(&config(1024, ALL)).expect("memory");
    let path = path_of(&log);
    let come = |_| {
        let control = mapped::control_of(Path::new(&path)).expect("an area");
        assert!(control.words.lock(Lock::Shared).expect("locks"));
        control
    };
    let here: Vec<_> = (0..16).map(come).collect();
    std::thread::scope(|scope| {
        let begin = |control| scope.spawn(|| Visit::begin(control).map(drop));
        let beginning: Vec<_> = here.into_iter().map(begin).collect();
        for visit in beginning {
            assert!(matches!(visit.join(), Ok(Ok(()))));
        }
    });
}

#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn visits_of_many_threads_leave_nothing_behind() {
    let _alone = alone();
    let log = EventLog::shared(&config(1024, ALL)).expect("memory");
    let path = path_of(&log);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for round in 0..50 {
                    let visit = visit_of(path);
                    let event = if (thread + round) % 2 == 0 {
                        USED
                    } else {
                        LEFT
                    };
                    visit
                        .route(event, None, Some(Route::to(LOG)))
                        .expect("known");
                    visit.end().expect("there");
                }
            });
        }
    });
    let writer = log.writer("main").expect("free");
    assert!(!writer.is_on(USED) && !writer.is_on(LEFT));
}

#[test]
fn what_is_damaged_is_an_error_and_nothing_worse() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("events");
    let log = EventLog::create(&path, &config(512, ALL)).expect("room");
    filled(&log, 100);
    drop(log);
    let good = fs::read(&path).expect("there");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("room");
        let mut reader = open(&path)?;
        let mut rows = Vec::new();
        for _ in 0..2 {
            reader.pass(&mut rows)?;
        }
        for event in [USED, LEFT] {
            reader.event(event)?;
        }
        reader.domain_name(domain(1))?;
        reader.log(LOG)?;
        Ok::<_, ReadError>(rows.len())
    };
    assert_eq!(read(&good).expect("whole"), 7);
    for length in [0, 7, 8, 127, 128, good.len() - 8, good.len() - 1] {
        assert!(read(&good[..length]).is_err(), "{length} bytes");
    }
    let longer = [&good[..], &[0; 64]].concat();
    assert!(matches!(read(&longer), Err(ReadError::Truncated { .. })));
    let mut refused = 0;
    for at in (0..good.len()).step_by(8) {
        for value in [0, 1, u64::MAX, u64::MAX / 2, 1 << 32, 0x1_0001] {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            match read(&bad) {
                Ok(rows) => assert!(rows <= 2 * 64, "{rows} rows"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 20);
}

#[test]
fn what_is_no_file_is_no_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("there is one").success());
    // Nobody writes to it, and nobody waits for that.
    assert!(matches!(open(&pipe), Err(ReadError::NotALog)));
    assert!(matches!(open(folder.path()), Err(ReadError::Io(_))));
}

#[test]
fn a_file_that_becomes_shorter_under_its_reader_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("events");
    let log = EventLog::create(&path, &config(65536, ALL)).expect("room");
    filled(&log, 5);
    drop(log);
    let mut reader = open(&path).expect("a log");
    let file = fs::OpenOptions::new().write(true).open(&path);
    file.expect("there").set_len(256).expect("shorter");
    assert!(matches!(
        reader.pass(&mut Vec::new()),
        Err(ReadError::Io(_))
    ));
}

/// Whoever may write to the area may set it, to anything.
#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn producers_bear_any_routes_and_formats() {
    use std::os::unix::fs::FileExt;
    let _alone = alone();
    let log = EventLog::shared(&config(512, ALL)).expect("memory");
    let file = log.file().expect("shared");
    let mut writer = log.writer("main").expect("free");
    let words = file.metadata().expect("there").len() / 8;
    // All but what writers keep, of which they have their own copy.
    let control = words - 2 * (8 + 8 + 64);
    for value in [u64::MAX, 1, 0x1_0000, 0xffff_ffff_0000_0001, 0x7f, 0x57f] {
        for at in 16..control {
            file.write_all_at(&value.to_ne_bytes(), at * 8)
                .expect("there");
        }
        for number in 0..100 {
            writer.record(USED, domain(1), number, domain(2));
            writer.record(LEFT, domain(3), number, domain(2));
        }
    }
}
