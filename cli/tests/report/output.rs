//! Where the page goes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{lines, pass};
use crate::page::Page;
use crate::{events, file, folder, monitor, report, support, trace};

fn good(folder: &Path) -> PathBuf {
    file(
        folder,
        "good.jsonl",
        &lines(&[pass("a.msgs", "none", 0, 0.1)]),
    )
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn files_of_all_kinds_are_one_page_in_their_order() {
    let folder = folder();
    let analysis = file(folder.path(), "events.json", &lines(&[events::analysis()]));
    let decisions = file(
        folder.path(),
        "trace.jsonl",
        &lines(&[trace::decision(1, "lz4", 1)]),
    );
    let recording = file(folder.path(), "m.jsonl", &monitor::recording(3));
    let output = report(
        &[&recording, &decisions, &good(folder.path()), &analysis],
        &[],
    );
    assert!(output.status.success(), "{}", support::text(&output.stderr));
    let page = Page::new(support::text(&output.stdout));
    let places = [
        "<h2 id=\"file1\">Monitor",
        "<h2 id=\"file2\">Decisions",
        "<h2 id=\"file3\">Bench",
        "<h2 id=\"file4\">Events",
    ];
    let places: Vec<_> = places
        .iter()
        .map(|word| page.html.find(word).expect(word))
        .collect();
    assert!(places.is_sorted());
    assert!(page.html.contains(&format!(
        "Made by tautline {} of 4 files.",
        env!("CARGO_PKG_VERSION")
    )));
    // Same files, same page.
    let again = report(
        &[&recording, &decisions, &good(folder.path()), &analysis],
        &["--out", "-"],
    );
    assert_eq!(support::text(&again.stdout), page.html);
}

#[test]
fn a_page_takes_the_place_of_another_in_one_step() {
    let folder = folder();
    let good = good(folder.path());
    let out = file(folder.path(), "out.html", "what was there");
    let link = folder.path().join("link.html");
    std::os::unix::fs::symlink(&out, &link).expect("a link");
    let output = report(&[&good], &["--out", link.to_str().expect("text")]);
    assert!(output.status.success(), "{}", support::text(&output.stderr));
    assert!(output.stdout.is_empty());
    Page::new(std::fs::read_to_string(&out).expect("a page"));
    assert!(link.symlink_metadata().expect("a link").is_symlink());
    assert_eq!(
        names(folder.path()),
        ["good.jsonl", "link.html", "out.html"]
    );
}

#[test]
fn where_no_page_can_be_written_it_is_said() {
    let folder = folder();
    let good = good(folder.path());
    for (out, word) in [
        ("/nowhere/out.html", "No such file"),
        (folder.path().to_str().expect("text"), "a folder"),
    ] {
        let output = report(&[&good], &["--out", out]);
        let error = support::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(out) && error.contains(word), "{error}");
    }
    if Path::new("/dev/full").exists() {
        let output = report(&[&good], &["--out", "/dev/full"]);
        let error = support::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("/dev/full: No space left"), "{error}");
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("a device");
        let output = support::tautline(&["report", good.to_str().expect("text")])
            .stdout(full)
            .output()
            .expect("it runs");
        assert!(support::text(&output.stderr).contains("stdout: No space left"));
    }
}

/// A disk of 64 KiB of its own, which nobody else sees.
#[cfg(target_os = "linux")]
#[test]
fn on_a_full_disk_what_was_there_stays() {
    let folder = folder();
    let good = good(folder.path());
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("room");
    let script = "mount -t tmpfs -o size=64k none \"$1\" || exit 77
        echo before > \"$1/out.html\"
        head -c 57344 /dev/zero > \"$1/filler\"
        \"$2\" report \"$3\" --out \"$1/out.html\"
        echo \"code $?\"; ls \"$1\"; cat \"$1/out.html\"";
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .args([
            disk.as_path(),
            Path::new(env!("CARGO_BIN_EXE_tautline")),
            &good,
        ])
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no unshare here");
        return;
    };
    let (out, error) = (support::text(&output.stdout), support::text(&output.stderr));
    if !out.contains("code ") {
        eprintln!("skipped: no disk of its own may be had here: {error}");
        return;
    }
    assert_eq!(out, "code 1\nfiller\nout.html\nbefore\n", "{error}");
    assert!(
        error.contains("out.html: No space left on device")
            && error.contains("what was there is as it was"),
        "{error}"
    );
}
