//! What stands in each format.

use core::time::Duration;
use std::fs;
use std::io::Seek;

use super::output::overwrite_beginning;
use super::*;
use crate::pmu::reason::{Missing, Place, Reason};
use crate::pmu::{Count, EventSets, SampleHead, Store};
use crate::units::Time;

const SETS: &str = "
    [[sets]]
    name = 'cpi'
    events = ['cycles', 'instructions']
    metrics = { cpi = 'cycles / instructions' }
    [[sets]]
    name = 'faults'
    events = ['page-faults', 'cycles']
";

fn layout() -> Layout {
    Layout::new(
        EventSets::parse(SETS).unwrap(),
        vec![("load".into(), false)],
    )
}

fn preamble() -> Preamble {
    Preamble {
        hz: 100.0,
        slots: 8,
        origin_unix_nanos: 1_700_000_000_000_000_000,
        missing: vec![RecordedMissing::from(&Missing {
            set: "faults".into(),
            name: "cycles".into(),
            place: None,
            reason: Reason::NoPmu,
        })],
    }
}

fn store(layout: &Layout, samples: u64) -> Store {
    let mut store = Store::new(layout, 8);
    for number in 0..samples {
        let set = (number % 2) as usize;
        let head = SampleHead {
            at: Time::from_nanos(10_000_000 * (number + 1)),
            interval: Duration::from_millis(10),
            set,
            place: if set == 0 {
                Place::Cpu(1)
            } else {
                Place::Process(42)
            },
        };
        let count = |count| Count {
            count,
            enabled: 1000,
            running: 1000,
        };
        let half = Count {
            running: 500,
            ..count(300)
        };
        if set == 0 {
            store.push(head, &[half, count(400 + number)], &[f64::NAN]);
        } else {
            store.push(head, &[count(7), Count::ABSENT], &[0.25]);
        }
    }
    store
}

fn encode(format: RecordFormat) -> Vec<u8> {
    let layout = layout();
    let store = store(&layout, 2);
    let mut out = Vec::new();
    let mut encoder = Encoder::begin(format, &layout, &preamble(), &mut out);
    let mut cursor = store.start();
    while let Some(sample) = store.get(&layout, cursor) {
        encoder.sample(&sample, &mut out);
        cursor = cursor.next();
    }
    let probe = ProbeEffect {
        processor: Duration::from_millis(1),
        working: Duration::from_micros(400),
        wall: Duration::from_secs(10),
        missed: 3,
    };
    let epilogue = Epilogue {
        probe: Some(probe),
        interrupts: Some(0.00125),
        lost: 5,
    };
    encoder.finish(&epilogue, &mut out);
    if let Some(beginning) = encoder.patch(out.len() as u64) {
        out[..beginning.len()].copy_from_slice(&beginning);
    }
    out
}

#[test]
fn csv_has_a_row_for_each_sample_and_a_column_for_each_name() {
    let text = String::from_utf8(encode(RecordFormat::Csv)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("# tautline monitor "));
    assert_eq!(
        lines[1],
        "# 100 Hz, 8 slots, times from 1700000000000000000 ns after 1970"
    );
    assert!(lines[2].starts_with("# not counted: cycles of set faults: this machine shows no"));
    let expected = "seconds,interval,set,pid,cpu,share,cycles,instructions,cpi,page-faults,load";
    assert_eq!(lines[3], expected);
    assert_eq!(lines[4], "0.010000000,0.010000000,cpi,,1,0.5,600,400,1.5,,");
    assert_eq!(lines[5], "0.020000000,0.010000000,faults,42,,1,,,,7,0.25");
    assert_eq!(
        lines[6],
        "# 5 samples were overwritten before they were written"
    );
    assert!(lines[7].contains("0.0100 % of one processor") && lines[7].contains("3 ticks"));
    assert!(lines[8].contains("0.125 % of each processor"));
    assert_eq!(lines.len(), 9);
}

#[test]
fn json_lines_have_counts_times_and_what_they_are_scaled_to() {
    let text = String::from_utf8(encode(RecordFormat::JsonLines)).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["tautline_monitor"], 1);
    assert_eq!(
        lines[0]["event_sets"]["sets"][0]["metrics"]["cpi"],
        "cycles / instructions"
    );
    assert_eq!(lines[0]["gauges"][0]["name"], "load");
    assert_eq!(lines[0]["missing"][0]["name"], "cycles");
    let cycles = &lines[1]["events"]["cycles"];
    assert_eq!(
        (cycles["count"].as_u64(), cycles["scaled"].as_f64()),
        (Some(300), Some(600.0))
    );
    assert_eq!(
        (&cycles["enabled_ns"], &cycles["running_ns"]),
        (&1000.into(), &500.into())
    );
    assert_eq!(lines[1]["metrics"]["cpi"], 1.5);
    assert_eq!(
        (&lines[1]["cpu"], &lines[2]["pid"]),
        (&1.into(), &42.into())
    );
    assert!(lines[1]["gauges"].get("load").is_none());
    assert_eq!(lines[2]["gauges"]["load"], 0.25);
    assert!(lines[2]["events"].get("cycles").is_none());
    assert_eq!(
        (&lines[3]["end"], &lines[3]["lost"]),
        (&true.into(), &5.into())
    );
    assert_eq!(lines[3]["probe_share"], 0.0001);
    assert_eq!(lines[3]["interrupt_share"], 0.00125);
}

#[test]
fn npy_is_a_header_of_fixed_length_and_records() {
    let bytes = encode(RecordFormat::Npy);
    assert_eq!(bytes[..8], *b"\x93NUMPY\x02\x00");
    let len = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    assert_eq!((12 + len) % 64, 0);
    let header = core::str::from_utf8(&bytes[12..12 + len]).unwrap();
    assert!(
        header.starts_with("{'descr': [('at_ns', '<u8'), ('interval_ns', '<u8'), ('set', '|S6'), ")
    );
    assert!(header.contains(
        "('page-faults', '<f8'), ('load', '<f8'), ], 'fortran_order': False, 'shape': (2,), }"
    ));
    assert!(header.ends_with('\n'));
    let record = 8 + 8 + 6 + 8 + 8 + 8 * 6;
    let records = &bytes[12 + len..];
    assert_eq!(records.len(), 2 * record);
    let number = |at: usize| f64::from_le_bytes(records[at..at + 8].try_into().unwrap());
    assert_eq!(&records[16..22], b"cpi\0\0\0");
    assert!((number(38) - 0.5).abs() < 1e-12 && (number(46) - 600.0).abs() < 1e-12);
    assert!(number(record + 46).is_nan());
    assert_eq!(records[22..30], (-1_i64).to_le_bytes());
}

#[test]
fn the_header_stays_as_long_however_many_there_are() {
    let layout = layout();
    let mut out = Vec::new();
    let encoder = Encoder::begin(RecordFormat::Npy, &layout, &preamble(), &mut out);
    for bytes in [0, 9, 1_000_000, u64::MAX] {
        let header = encoder.patch(bytes).unwrap();
        assert_eq!(header.len(), out.len());
        assert_eq!(header.last(), Some(&b'\n'));
    }
}

#[test]
fn an_output_goes_on_where_it_stopped_and_counts_what_it_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let layout = layout();
    let mut output = Output::create(&path, RecordFormat::Csv, &layout, &preamble()).unwrap();
    let flushed = output.flush(&store(&layout, 2), &layout).unwrap();
    assert_eq!(
        flushed,
        Flushed {
            samples: 2,
            lost: 0
        }
    );
    let before = fs::read_to_string(&path).unwrap();
    // 8 slots: of 2 to 19 the last 8 are there.
    let store = store(&layout, 20);
    let flushed = output.flush(&store, &layout).unwrap();
    assert_eq!(
        flushed,
        Flushed {
            samples: 10,
            lost: 10
        }
    );
    assert_eq!(output.flush(&store, &layout).unwrap(), flushed);
    let end = output
        .finish(&store, &layout, Some(&Epilogue::default()))
        .unwrap();
    assert_eq!(end, flushed);
    let after = fs::read_to_string(&path).unwrap();
    assert!(after.starts_with(&before));
    let rows = after.lines().filter(|line| line.starts_with("0."));
    assert_eq!(rows.count(), 10);
    assert!(after.contains("# 10 samples were overwritten"));
}

#[test]
fn an_array_is_whole_after_each_flush() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let layout = layout();
    let mut output = Output::create(&path, RecordFormat::Npy, &layout, &preamble()).unwrap();
    for samples in [2, 6] {
        output.flush(&store(&layout, samples), &layout).unwrap();
        let bytes = fs::read(&path).unwrap();
        let header = String::from_utf8_lossy(&bytes).into_owned();
        assert!(header.contains(&format!("'shape': ({samples},)")));
    }
    assert!(matches!(
        Output::create(Path::new("-"), RecordFormat::Npy, &layout, &preamble()),
        Err(OutputError::NotAFile)
    ));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told_and_the_samples_stay_in_the_store() {
    let layout = layout();
    let store = store(&layout, 2);
    let full = Path::new("/dev/full");
    let mut output = Output::create(full, RecordFormat::Csv, &layout, &preamble()).unwrap();
    for _ in 0..2 {
        let error = output.flush(&store, &layout).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
        let OutputError::Write { source, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    }
    assert_eq!(output.flushed(), Flushed::default());
    let memory = output.pending.capacity();
    for _ in 0..100 {
        assert!(output.flush(&store, &layout).is_err());
    }
    assert_eq!(output.pending.capacity(), memory);
}

#[test]
fn what_comes_after_a_beginning_that_could_not_be_written_goes_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "0123456789").unwrap();
    let mut open = fs::File::options();
    let mut file = open.read(true).write(true).open(&path).unwrap();
    overwrite_beginning(&mut file, b"abc").unwrap();
    assert_eq!(file.stream_position().unwrap(), 10);
    assert_eq!(fs::read(&path).unwrap(), b"abc3456789");
    let mut cannot = fs::File::open(&path).unwrap();
    assert!(overwrite_beginning(&mut cannot, b"xyz").is_err());
    assert_eq!(cannot.stream_position().unwrap(), 10);
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let error = Output::create(
        Path::new("/nowhere/a.csv"),
        RecordFormat::Csv,
        &layout(),
        &preamble(),
    );
    assert!(error.unwrap_err().to_string().contains("/nowhere/a.csv"));
}

#[test]
fn formats_are_told_by_the_end_of_the_name() {
    let of = |path: &str| RecordFormat::of(Path::new(path));
    assert_eq!(of("a.csv"), Some(RecordFormat::Csv));
    assert_eq!(of("a.b.jsonl"), Some(RecordFormat::JsonLines));
    assert_eq!(of("x/a.npy"), Some(RecordFormat::Npy));
    assert_eq!((of("a"), of("-"), of("a.parquet")), (None, None, None));
}
