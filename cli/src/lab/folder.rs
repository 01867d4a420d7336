//! The result folder.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tautline::loadgen::{CacheInfo, CacheKind, Topology};

use super::protocol::Word;
use crate::failure::Failure;
use crate::report::lab::{Line, Row};

/// Where everything goes.
pub(super) struct Folder {
    path: PathBuf,
    lines: File,
}

impl Folder {
    /// # Errors
    ///
    /// It is there and not empty, unless that is no matter; or it cannot be made.
    pub(super) fn create(path: &Path, force: bool) -> Result<Self, Failure> {
        let of = |error: &std::io::Error| Failure::of(&path.display().to_string(), error);
        let is_taken = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(of(&error)),
        };
        if is_taken && !force {
            return Err(Failure::Error(format!(
                "{}: the folder is not empty (--force writes into it all the same)",
                path.display()
            )));
        }
        fs::create_dir_all(path.join("runs")).map_err(|error| of(&error))?;
        let lines = File::create(path.join("lab.jsonl")).map_err(|error| of(&error))?;
        Ok(Self {
            path: path.to_owned(),
            lines,
        })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let path = self.file(name);
        fs::write(&path, content).map_err(|error| Failure::of(&path.display().to_string(), &error))
    }

    /// A line of `lab.jsonl`, which is whole after each.
    pub(super) fn row(&mut self, row: Row) -> Result<(), Failure> {
        let line = serde_json::to_string(&Line::new(row))? + "\n";
        let written = self.lines.write_all(line.as_bytes());
        written.map_err(|error| Failure::of(&self.file("lab.jsonl").display().to_string(), &error))
    }

    /// The files of one run of what has this name among files: what nodes say, and where the monitor's samples go.
    pub(super) fn run(&self, name: &str, round: u32) -> Result<(RunFile, PathBuf), Failure> {
        let stem = format!("runs/{name}.{}", round + 1);
        let path = self.file(&format!("{stem}.jsonl"));
        let file = File::create(&path)
            .map_err(|error| Failure::of(&path.display().to_string(), &error))?;
        let samples = self.file(&format!("{stem}.monitor.jsonl"));
        Ok((RunFile(BufWriter::new(file)), samples))
    }
}

/// What nodes say in one run, a line each.
pub(super) struct RunFile(BufWriter<File>);

impl RunFile {
    pub(super) fn word(&mut self, node: &str, word: &Word) -> Result<(), Failure> {
        let mut line = serde_json::to_value(word)?;
        if let Value::Object(line) = &mut line {
            line.insert("node".to_owned(), json!(node));
        }
        writeln!(self.0, "{line}").map_err(|error| Failure::of("a run's file", &error))
    }

    pub(super) fn close(mut self) -> Result<(), Failure> {
        self.0
            .flush()
            .map_err(|error| Failure::of("a run's file", &error))
    }
}

/// What this machine is, for people: name and value.
pub(super) fn machine(topology: &Topology) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut say = |name: &str, value: String| rows.push((name.to_owned(), value));
    if let Some(name) = processor_name() {
        say("processor", name);
    }
    let allowed: Vec<String> = topology.allowed().iter().map(ToString::to_string).collect();
    say(
        "processors",
        format!(
            "{} online, of which the lab may use {}",
            topology.processors.len(),
            allowed.join(", ")
        ),
    );
    for cache in &topology.caches {
        say(&cache_name(cache), cache_words(cache));
    }
    if topology.caches.is_empty() {
        say(
            "caches",
            "the system shows none: those of leeches are assumed".to_owned(),
        );
    }
    if let Ok(kernel) = fs::read_to_string("/proc/sys/kernel/osrelease") {
        say("kernel", kernel.trim().to_owned());
    }
    if let Ok(load) = fs::read_to_string("/proc/loadavg") {
        let words: Vec<&str> = load.split_whitespace().take(3).collect();
        say("load average before", words.join(", "));
    }
    say("tautline", env!("CARGO_PKG_VERSION").to_owned());
    rows
}

fn cache_name(cache: &CacheInfo) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "D",
        CacheKind::Instruction => "I",
        CacheKind::Unified => "",
    };
    format!("L{}{kind}", cache.level)
}

fn cache_words(cache: &CacheInfo) -> String {
    format!("{} KiB ({})", cache.geometry.size() / 1024, cache.source)
}

fn processor_name() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.filter(|name| !name.is_empty())
}
