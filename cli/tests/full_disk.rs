//! `tautline monitor` whose disk is full: what it says, what goes on, and what the file has in the end.
//!
//! The disk is of its own, of 1 MiB, and nobody else sees it. Where that is not to be had, the tests say so and judge nothing.
#![cfg(target_os = "linux")]

mod support;

use std::process::Command;

use crate::support::text;

/// All but a page of the disk is taken before, and given back (all of it, some or none) once that was told. Then the monitor goes on until it writes again, or for two seconds.
const SCRIPT: &str = r#"
disk=$1; program=$2; out=$3; frees=$4; format=$5; shift 5
mount -t tmpfs -o size=1m none "$disk" || exit 77
head -c 1044480 /dev/zero > "$disk/filler"
"$program" monitor --quiet --only system --pid $$ --hz 500 --out "$disk/samples.$format" "$@" 2> "$out/err" > "$out/out" &
monitor=$!
until grep -q 'cannot write' "$out/err"; do sleep 0.05; done
case $frees in
all)
    rm "$disk/filler"
    until grep -q 'written again' "$out/err"; do sleep 0.05; done ;;
some)
    truncate -s 1000000 "$disk/filler"
    until grep -q 'more was written' "$out/err"; do sleep 0.05; done ;;
none)
    sleep 2 ;;
esac
kill -INT $monitor
wait $monitor
echo "code $?"
cp "$disk/samples.$format" "$out/samples"
"#;

struct Ended {
    code: String,
    said: String,
    summary: String,
    file: Vec<u8>,
}

/// `None` if there can be no such disk.
fn monitored(format: &str, frees: &str, more: &[&str]) -> Option<Ended> {
    let folder = tempfile::tempdir().expect("a directory");
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("room");
    let output = Command::new("timeout")
        .args(["60", "unshare", "--user", "--map-root-user", "--mount"])
        .args(["sh", "-c", SCRIPT, "sh"])
        .arg(&disk)
        .arg(env!("CARGO_BIN_EXE_tautline"))
        .arg(folder.path())
        .args([frees, format])
        .args(more)
        .output();
    let output = match output {
        Ok(output) if output.status.code() != Some(77) => output,
        other => {
            eprintln!("skipped: no disk of its own may be had here: {other:?}");
            return None;
        }
    };
    let out = text(&output.stdout);
    let Some(code) = out.strip_prefix("code ") else {
        let said = text(&output.stderr);
        // Where there is no unshare, or it is not allowed.
        if said.contains("unshare") || said.contains("timeout: failed") {
            eprintln!("skipped: no disk of its own may be had here: {said}");
            return None;
        }
        panic!("{out}{said}");
    };
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("a file");
    Some(Ended {
        code: code.trim().to_owned(),
        said: text(&read("err")),
        summary: text(&read("out")),
        file: read("samples"),
    })
}

/// What was not written, why, and what still goes on.
fn tells(ended: &Ended, format: &str) {
    let said = &ended.said;
    let line = said.lines().find(|line| line.contains("cannot write"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(line.starts_with("tautline: cannot write "), "{line}");
    for part in [
        &format!("samples.{format}: No space left on device"),
        "counting goes on",
        "samples stay in memory",
        "writing is tried again",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(
        ended.summary.contains("% of one processor"),
        "what was counted is summed up all the same: {}",
        ended.summary
    );
}

/// Times of the rows of a table, each of which is whole.
fn times(file: &[u8]) -> Vec<f64> {
    let file = std::str::from_utf8(file).expect("text");
    let mut rows = file.lines().filter(|line| !line.starts_with('#'));
    let columns = rows.next().expect("a head").split(',').count();
    let time = |row: &str| {
        assert_eq!(row.split(',').count(), columns, "{row}");
        let first = row.split(',').next().and_then(|it| it.parse().ok());
        first.expect("a time")
    };
    rows.map(time).collect()
}

/// No second is missing of the five between one try and the next, and nothing is there twice.
fn are_gapless(times: &[f64]) {
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let widest = times.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(widest.fold(0.0, f64::max) < 0.9, "{times:?}");
    let span = times.last().copied().unwrap_or(0.0) - times.first().copied().unwrap_or(0.0);
    assert!(span > 4.5, "{span} s");
}

#[test]
fn when_there_is_room_again_a_table_has_all_that_came_meanwhile() {
    let Some(ended) = monitored("csv", "all", &[]) else {
        return;
    };
    tells(&ended, "csv");
    assert_eq!(ended.code, "0", "{}", ended.said);
    assert!(ended.said.contains("tautline: samples are written again"));
    assert!(ended.file.ends_with(b"\n"));
    are_gapless(&times(&ended.file));
}

#[test]
fn when_there_is_room_again_an_array_has_all_that_came_meanwhile() {
    let Some(ended) = monitored("npy", "all", &[]) else {
        return;
    };
    tells(&ended, "npy");
    assert_eq!(ended.code, "0", "{}", ended.said);
    assert!(ended.said.contains("tautline: samples are written again"));
    let (count, record, records) = array(&ended.file);
    assert_eq!(records.len(), count * record, "no part of a record is left");
    let times = records.chunks_exact(record).map(|record| {
        let nanos = record.first_chunk().expect("a time");
        u64::from_le_bytes(*nanos) as f64 * 1e-9
    });
    are_gapless(&times.collect::<Vec<_>>());
}

/// How many records an array says that it has, the bytes of one, and what is behind its head.
fn array(file: &[u8]) -> (usize, usize, &[u8]) {
    let len = file[8..12].try_into().expect("four bytes");
    let len = u32::from_le_bytes(len) as usize;
    let head = std::str::from_utf8(&file[12..12 + len]).expect("text");
    let shape = head.split("'shape': (").nth(1);
    let count = shape.and_then(|rest| rest.split(',').next()?.parse().ok());
    // Of fields such as ('at_ns', '<u8'), the digits after the letter.
    let widths = head.split("'<").skip(1).chain(head.split("'|").skip(1));
    let width = |field: &str| field[1..].split('\'').next()?.parse::<usize>().ok();
    let record = widths.filter_map(width).sum();
    (count.expect("a shape"), record, &file[12 + len..])
}

#[test]
fn what_was_overwritten_while_there_was_no_room_is_counted() {
    let Some(ended) = monitored("csv", "all", &["--slots", "1000"]) else {
        return;
    };
    tells(&ended, "csv");
    assert_eq!(ended.code, "1", "{}", ended.said);
    let said = &ended.said;
    assert!(
        said.contains("samples were overwritten before they could be written: --slots keeps more"),
        "{said}"
    );
    let times = times(&ended.file);
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let file = text(&ended.file);
    assert!(file.contains("samples were overwritten"), "{file}");
}

#[test]
fn a_disk_that_is_full_once_more_is_told() {
    for format in ["csv", "npy"] {
        let Some(ended) = monitored(format, "some", &[]) else {
            return;
        };
        tells(&ended, format);
        assert_eq!(ended.code, "1", "{}", ended.said);
        let said = &ended.said;
        assert!(!said.contains("samples are written again"), "{said}");
        let (first, rest) = said
            .split_once("more was written, but not all")
            .expect("it is told");
        assert!(first.contains("cannot write"), "{said}");
        assert!(rest.contains("No space left on device"), "{said}");
        assert!(ended.file.len() > 16384, "{}", ended.file.len());
        if format == "npy" {
            let (count, record, records) = array(&ended.file);
            assert_eq!(count, records.len() / record, "all that are whole");
        } else {
            assert!(ended.file.ends_with(b"\n"));
        }
    }
}

#[test]
fn a_disk_that_stays_full_ends_with_an_error_and_what_was_written_is_whole() {
    for format in ["csv", "jsonl", "npy"] {
        let Some(ended) = monitored(format, "none", &[]) else {
            return;
        };
        tells(&ended, format);
        assert_eq!(ended.code, "1", "{}", ended.said);
        let said = &ended.said;
        assert!(
            said.contains("samples since then are not in the file"),
            "{said}"
        );
        let len = ended.file.len();
        if format == "npy" {
            assert_eq!(len, 4096, "a page");
            let (count, record, records) = array(&ended.file);
            assert!(count * record <= records.len());
        } else {
            assert!(
                (3000..=4096).contains(&len),
                "a page but for a cut line: {len}"
            );
            assert!(ended.file.ends_with(b"\n"), "{format}");
        }
        if format == "csv" {
            assert!(!times(&ended.file).is_empty());
        }
    }
}
