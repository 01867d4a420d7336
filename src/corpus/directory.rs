//! A directory of files, each of them a message.

use std::fs;
use std::path::Path;

use super::sink::{Sink, SkipReason};
use super::{Limits, ReadError, read_file};

pub(super) fn read(path: &Path, limits: &Limits, sink: &mut Sink<'_>) -> Result<(), ReadError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(ReadError::io(path))? {
        names.push(entry.map_err(ReadError::io(path))?.file_name());
    }
    names.sort_unstable();
    let mut left = limits.input_len;
    for name in names {
        let file = path.join(name);
        // Follows links: what counts is what a reader of the name would get.
        let metadata = fs::metadata(&file).map_err(ReadError::io(&file))?;
        if !metadata.is_file() {
            sink.skip(SkipReason::NotAFile);
            continue;
        }
        // Before reading, so that a file that is too long costs nothing.
        sink.check(0, metadata.len())
            .map_err(ReadError::parse(&file))?;
        let message = read_file(&file, left)?;
        left -= message.len() as u64;
        sink.push(0, message).map_err(ReadError::parse(&file))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Format, ParseError};

    #[test]
    fn files_are_messages_in_the_order_of_their_names() {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in [("b", "second"), ("a", "first"), ("c", "")] {
            fs::write(directory.path().join(name), content).unwrap();
        }
        fs::create_dir(directory.path().join("d")).unwrap();
        let corpus = Corpus::read(directory.path(), None).unwrap();
        assert_eq!(corpus.format(), Format::Directory);
        assert_eq!(corpus.messages(), ["first", "second", ""]);
        assert_eq!(corpus.skipped().count(SkipReason::NotAFile), 1);
    }

    #[test]
    fn limits_hold_over_all_files() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a"), "123").unwrap();
        fs::write(directory.path().join("b"), "456").unwrap();
        let read = |limits| Corpus::read_with(directory.path(), None, &limits);
        assert!(matches!(
            read(Limits::default().max_input(5)),
            Err(ReadError::Parse {
                source: ParseError::InputTooLong { given: 3, max: 2 },
                ..
            })
        ));
        assert!(matches!(
            read(Limits::default().max_message(2)),
            Err(ReadError::Parse {
                source: ParseError::MessageTooLong { given: 3, .. },
                ..
            })
        ));
        assert!(read(Limits::default().max_input(6)).is_ok());
    }
}
