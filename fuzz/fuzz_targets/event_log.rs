//! The memory of an event log as another process may find it: raw bytes, or a log with words changed and its end cut off, before a
//! reader opens it and under one that has. A reader says what is wrong, or hands out no more than there is room for.
//!
//! Set `TMPDIR` to a directory in memory.

#![no_main]

mod script;

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use script::Script;
use tautline::eventlog::{
    Domain, EventId, EventKind, EventLog, EventLogConfig, Fields, LogId, ReadError, Reader, Route,
    RowFormat, Stamp, open,
};

/// Room for rows of one log and thread, bytes.
const RING: usize = 512;
const PASSES: usize = 2;

thread_local! {
    static PLACE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// One file for all inputs.
fn place() -> PathBuf {
    PLACE.with_borrow_mut(|place| {
        let name = format!("tautline-event-log-{}", std::process::id());
        place
            .get_or_insert_with(|| std::env::temp_dir().join(name))
            .clone()
    })
}

/// A log of two threads, with rows of a format and a count that the script says.
fn begin(script: &mut Script<'_>, path: &Path) {
    let fields = [Fields::ALL, Fields::USUAL, Fields::COUNTER, Fields::NONE];
    let stamps = [Stamp::Off, Stamp::Virtual, Stamp::Cycles];
    let fields = fields[usize::from(script.byte()) % fields.len()];
    let stamp = stamps[usize::from(script.byte()) % stamps.len()];
    let format = RowFormat::new(fields, stamp);
    let second = if script.byte() & 1 == 0 {
        format
    } else {
        RowFormat::new(Fields::ALL, Stamp::Off).counting()
    };
    let config = EventLogConfig::default()
        .event("used", EventKind::Access)
        .event("left", EventKind::Exit)
        .log("all", RING, format)
        .log("some", RING, second)
        .domains(3)
        .writers(2);
    let log = EventLog::create(path, &config).expect("room");
    for event in 0..2 {
        let to = Route::to(LogId::new(event));
        log.route(EventId::new(event), None, Some(to)).expect("known");
    }
    for name in ["one", "two"] {
        let mut writer = log.writer(name).expect("free");
        for count in 0..u64::from(script.byte()) {
            let event = EventId::new((count & 1) as u16);
            writer.record_with(event, Domain::new(1), count, Domain::new(2), [count; 3]);
        }
    }
}

/// All that a reader can say.
fn read(reader: &mut Reader) -> Result<(), ReadError> {
    let counts = reader.counts();
    let mut rows = Vec::new();
    for _ in 0..PASSES {
        reader.pass(&mut rows)?;
    }
    reader.unrecorded()?;
    reader.process()?;
    let _ = reader.timebase();
    let mut words = 0;
    for log in 0..counts.logs.min(8) {
        words += reader.log(LogId::new(log as u16))?.1 / 8;
    }
    if counts.logs <= 8 {
        // A row has a word at least, or it is counted and not handed out.
        assert!(rows.len() <= PASSES * words.max(1) * counts.writers);
    }
    for event in 0..counts.events.min(8) {
        reader.event(EventId::new(event as u16))?;
    }
    for domain in 0..counts.domains.min(8) {
        reader.domain_name(Domain::new(domain as u16))?;
    }
    for writer in 0..counts.writers.min(8) {
        reader.writer_name(writer)?;
    }
    Ok(())
}

/// Changes words, or cuts off the end, until the script says that this is enough.
fn damage(script: &mut Script<'_>, path: &Path) {
    let file = OpenOptions::new().write(true).open(path).expect("there");
    let len = file.metadata().expect("there").len();
    while let Some(operation) = script.next() {
        let at = u64::from(u16::from_le_bytes([script.byte(), script.byte()])) * 8 % len.max(8);
        let byte = u64::from(script.byte());
        let value = match operation % 8 {
            0 => return,
            1 => {
                file.set_len(at + byte % 9).expect("room");
                continue;
            }
            2 => byte,
            3 => u64::MAX - byte,
            4 => byte << 32,
            5 => 1 << (byte % 64),
            6 => byte << 16 | byte,
            _ => byte << 56 | byte << 8,
        };
        file.write_all_at(&value.to_ne_bytes(), at).expect("room");
    }
}

fuzz_target!(|input: &[u8]| {
    let path = place();
    let mut script = Script(input);
    if script.byte() & 1 == 1 {
        fs::write(&path, script.0).expect("room");
        if let Ok(mut reader) = open(&path) {
            let _ = read(&mut reader);
        }
        return;
    }
    begin(&mut script, &path);
    let mut before = open(&path).expect("whole");
    if script.byte() & 1 == 1 {
        read(&mut before).expect("whole");
    }
    damage(&mut script, &path);
    let _ = read(&mut before);
    if let Ok(mut after) = open(&path) {
        let _ = read(&mut after);
        damage(&mut script, &path);
        let _ = read(&mut after);
    }
});
