//! `tautline dict`, as a user runs it.

mod support;

use std::path::{Path, PathBuf};

use crate::support::{json_lines, run, text};

/// Log lines that have much in common, and a secret in each.
fn lines(folder: &Path, count: u32) -> PathBuf {
    let file = folder.join("lines.txt");
    let line = |number: u32| {
        let secret = u64::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        format!(
            "2026-05-01 INFO gateway: request accepted user={} token={secret:016x} status=200 route=/v1/items",
            number % 9
        )
    };
    let lines = (0..count).map(line).collect::<Vec<_>>().join("\n");
    std::fs::write(&file, lines).expect("room");
    file
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn trained(folder: &Path, more: &[&str]) -> (PathBuf, serde_json::Value) {
    let (corpus, output) = (lines(folder, 1000), folder.join("d.dict"));
    let arguments = [
        "dict",
        "train",
        as_text(&corpus),
        "--output",
        as_text(&output),
        "--json",
    ];
    let rows = json_lines(&run(&[&arguments[..], more].concat()));
    assert_eq!(rows.len(), 1);
    (output, rows[0].clone())
}

#[test]
fn what_is_trained_is_shown_and_verified() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (output, row) = trained(folder.path(), &[]);
    assert_eq!(
        (&row["samples"], &row["kind"]),
        (&800.into(), &"zstd".into())
    );
    for worth in row["worth"].as_array().expect("a list") {
        let ratio = |key: &str| worth[key].as_f64().expect("a number");
        assert_eq!(worth["messages"], 200);
        assert!(
            ratio("ratio_with") > 1.5 * ratio("ratio_without"),
            "{worth}"
        );
        assert!(worth["break_even_messages"].as_u64().expect("pays") < 100);
    }
    let id = row["id"].as_str().expect("text");
    assert_eq!(
        row["bytes"],
        std::fs::metadata(&output).expect("written").len()
    );

    let shown = json_lines(&run(&[
        "dict",
        "show",
        "--json",
        "--text",
        as_text(&output),
    ]));
    assert_eq!(
        (&shown[0]["id"], &shown[0]["bytes"]),
        (&row["id"], &row["bytes"])
    );
    let texts = shown[0]["text"].to_string();
    assert!(texts.contains("request accepted"), "{texts}");
    // Nothing of a single line's own.
    assert!(!texts.contains("9e3779b9"), "{texts}");

    let corpus = folder.path().join("lines.txt");
    let verify = ["dict", "verify", as_text(&output), "--id", id];
    let more = ["--corpus", as_text(&corpus), "--arms", "lz4,zstd:19"];
    let out = run(&[&verify[..], &more].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let out = text(&out.stdout);
    for word in [id, "usable with lz4, zstd", "zstd:19", "1000 messages"] {
        assert!(out.contains(word), "{out}");
    }
    let rows = json_lines(&run(&[&verify[..], &["--json"]].concat()));
    assert_eq!(rows[0]["usable"], serde_json::json!(["lz4", "zstd"]));
}

#[test]
fn the_tables_fit_a_terminal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (output, _) = trained(folder.path(), &["--raw", "--max-len", "500"]);
    assert!(std::fs::metadata(&output).expect("written").len() <= 500);
    let corpus = folder.path().join("lines.txt");
    for out in [
        run(&["dict", "show", as_text(&output)]),
        run(&[
            "dict",
            "verify",
            as_text(&output),
            "--corpus",
            as_text(&corpus),
        ]),
        run(&["dict", "train", as_text(&corpus), "-o", as_text(&output)]),
    ] {
        let out = text(&out.stdout);
        assert!(out.lines().all(|line| line.chars().count() <= 110), "{out}");
        assert!(out.contains("kind"), "{out}");
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (output, row) = trained(folder.path(), &[]);
    let other = row["id"]
        .as_str()
        .expect("text")
        .replace(['0', '1', '2', '3'], "e");
    let (damaged, long) = (folder.path().join("damaged"), folder.path().join("long"));
    let mut bytes = std::fs::read(&output).expect("written");
    // Inside zstd's tables.
    bytes[8..60].fill(0xFF);
    std::fs::write(&damaged, bytes).expect("room");
    std::fs::write(&long, vec![7; 200_000]).expect("room");
    let few = folder.path().join("few.txt");
    std::fs::write(&few, "one\ntwo\n").expect("room");
    let missing = folder.path().join("missing");
    let below_a_file = few.join("below");
    let corpus = folder.path().join("lines.txt");
    for (arguments, word) in [
        (
            vec!["verify", as_text(&output), "--id", &other],
            "has the name",
        ),
        (
            vec!["verify", as_text(&damaged)],
            "cannot use the dictionary",
        ),
        (vec!["show", as_text(&long)], "the limit is 114688"),
        (vec!["show", as_text(&missing)], "missing"),
        (
            vec!["train", as_text(&few), "-o", as_text(&missing)],
            "distinct messages",
        ),
        (
            vec!["train", as_text(&corpus), "-o", as_text(&below_a_file)],
            "below",
        ),
        (
            vec![
                "verify",
                as_text(&output),
                "--corpus",
                as_text(&corpus),
                "--arms",
                "snappy",
            ],
            "takes no dictionary",
        ),
    ] {
        let out = run(&[&["dict"], &arguments[..]].concat());
        let error = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(word), "{error}");
    }
    assert!(!missing.exists());
}

#[test]
fn what_a_node_keeps_in_its_cache_is_shown_and_taken_out() {
    use tautline::dictionary::Dictionary;
    use tautline::dictionary::cache::{CacheConfig, DictionaryCache};

    let folder = tempfile::tempdir().expect("a temporary folder");
    let (trained, row) = trained(folder.path(), &[]);
    let content = std::fs::read(&trained).expect("written");
    let dictionary = Dictionary::new(content.clone()).expect("a dictionary");
    let directory = folder.path().join("cache");
    let mut cache = DictionaryCache::open(&directory, CacheConfig::default()).expect("a cache");
    let now = std::time::UNIX_EPOCH;
    cache.store(&dictionary, "orders", now).expect("room");
    let mut files = std::fs::read_dir(&directory).expect("a directory");
    let kept = files.next().expect("a file").expect("readable").path();

    let shown = json_lines(&run(&["dict", "show", "--json", as_text(&kept)]));
    assert_eq!(
        (&shown[0]["id"], &shown[0]["bytes"]),
        (&row["id"], &row["bytes"])
    );
    let taken = folder.path().join("taken.dict");
    let out = run(&["dict", "export", as_text(&kept), "-o", as_text(&taken)]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(std::fs::read(&taken).expect("written"), content);

    // One that is not what its name says.
    let mut damaged = std::fs::read(&kept).expect("readable");
    *damaged.last_mut().expect("bytes") ^= 1;
    std::fs::write(&kept, damaged).expect("room");
    let out = run(&["dict", "export", as_text(&kept), "-o", as_text(&taken)]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains(as_text(&kept)), "{out:?}");
}
