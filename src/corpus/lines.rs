//! Lines of text; JSON lines are cut the same way.

use bytes::Bytes;

use super::ParseError;
use super::sink::{Sink, SkipReason};

const BOM: &[u8] = b"\xef\xbb\xbf";

pub(super) fn read(input: &Bytes, sink: &mut Sink<'_>) -> Result<(), ParseError> {
    for (offset, line) in split(input) {
        if line.is_empty() {
            sink.skip(SkipReason::EmptyLine);
        } else {
            sink.push(offset, input.slice_ref(line))?;
        }
    }
    Ok(())
}

/// The lines of `input` without their ends, each with its offset.
pub(super) fn split(input: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut offset = input.len() - without_bom(input).len();
    without_bom(input)
        .split_inclusive(|byte| *byte == b'\n')
        .map(move |line| {
            let start = offset;
            offset += line.len();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            (start, line.strip_suffix(b"\r").unwrap_or(line))
        })
}

/// `input` without the byte order mark that some editors put before UTF-8.
pub(super) fn without_bom(input: &[u8]) -> &[u8] {
    input.strip_prefix(BOM).unwrap_or(input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Format};

    #[test]
    fn line_ends_are_cut_and_empty_lines_counted() {
        let input = Bytes::from_static(b"\xef\xbb\xbfone\r\n\ntwo \xff\n\r\nlast");
        let corpus = Corpus::parse("a.csv", &input, None).unwrap();
        assert_eq!(corpus.format(), Format::Lines);
        assert_eq!(
            corpus.messages(),
            [&b"one"[..], &b"two \xff"[..], &b"last"[..]]
        );
        assert_eq!(corpus.skipped().count(SkipReason::EmptyLine), 2);
    }

    #[test]
    fn nothing_makes_no_messages() {
        let corpus = Corpus::parse("a.txt", &Bytes::new(), None).unwrap();
        assert!(corpus.messages().is_empty());
    }
}
