//! `report`: pages of data that the program itself has written, and of small data made up, whose figures are computed here by other means.
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod errors;
mod events;
mod hostile;
mod lab;
mod monitor;
mod output;
mod page;
mod trace;

use std::path::{Path, PathBuf};
use std::process::Output;

/// A file with that in it.
fn file(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("room");
    path
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn report(files: &[&Path], more: &[&str]) -> Output {
    let files = files.iter().map(|file| file.to_str().expect("text"));
    let arguments: Vec<&str> = std::iter::once("report")
        .chain(files)
        .chain(more.iter().copied())
        .collect();
    support::run(&arguments)
}

/// The page of files that can be read.
fn page_of(files: &[&Path]) -> page::Page {
    let (page, said) = page_and_said(files);
    assert_eq!(said, "");
    page
}

/// .. and what is said beside it.
fn page_and_said(files: &[&Path]) -> (page::Page, String) {
    let output = report(files, &[]);
    let said = support::text(&output.stderr);
    assert!(output.status.success(), "{said}");
    (page::Page::new(support::text(&output.stdout)), said)
}
