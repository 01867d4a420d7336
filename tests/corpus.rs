//! The readers against recorded corpora, where they are present beside the repository: they are
//! measuring material, and not part of it.

#![cfg(feature = "corpus")]

use std::fs;
use std::path::{Path, PathBuf};

use tautline::corpus::{Corpus, Format};

/// The corpora, with the number of messages in each.
const COUNTS: [(&str, usize); 11] = [
    ("telecom-core", 6357),
    ("telecom-volte", 4004),
    ("fix-orders", 635),
    ("weblog", 10_000),
    ("json-metrics", 500),
    ("json-iot", 1368),
    ("kafka-log", 5307),
    ("json-docs", 373),
    ("csv-quakes", 38_095),
    ("jpeg-64k", 60),
    ("bulk-256k", 24),
];

/// The directory of the corpora, or `None`, having said so.
fn corpora() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus");
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: {} is not a directory", path.display());
    None
}

#[test]
fn recorded_corpora_have_their_known_counts() {
    let Some(directory) = corpora() else { return };
    for (name, count) in COUNTS {
        let path = directory.join(name).with_extension("msgs");
        let corpus = Corpus::read(&path, None).unwrap();
        assert_eq!(corpus.format(), Format::Msgs);
        assert_eq!(corpus.messages().len(), count, "{name}");
        assert_eq!(corpus.skipped().total(), 0, "{name}");
        println!("{}", corpus.summary());

        let mut written = Vec::new();
        corpus.write_msgs(&mut written).unwrap();
        assert!(written == fs::read(&path).unwrap(), "{name}");
    }
}

#[test]
fn every_recorded_capture_yields_messages() {
    let Some(directory) = corpora() else { return };
    let mut captures = 0;
    for entry in fs::read_dir(directory.join("captures")).unwrap() {
        let corpus = Corpus::read(entry.unwrap().path(), None).unwrap();
        println!("{}", corpus.summary());
        assert!(matches!(corpus.format(), Format::Pcap | Format::PcapNg));
        assert!(!corpus.messages().is_empty(), "{}", corpus.name());
        assert!((0..corpus.messages().len()).all(|index| corpus.time(index).is_some()));
        captures += 1;
    }
    assert!(captures > 0);
}
