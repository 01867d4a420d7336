//! JSON lines and JSON arrays. The text of a value is kept as it stands; it is checked, not rewritten.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::ParseError;
use super::lines;
use super::sink::{Sink, SkipReason};

pub(super) fn read_lines(input: &Bytes, sink: &mut Sink<'_>) -> Result<(), ParseError> {
    for (offset, line) in lines::split(input) {
        if line.trim_ascii().is_empty() {
            sink.skip(SkipReason::EmptyLine);
            continue;
        }
        let value: &RawValue = serde_json::from_slice(line)
            .map_err(|source| ParseError::InvalidJson { offset, source })?;
        sink.push(offset, input.slice_ref(value.get().as_bytes()))?;
    }
    Ok(())
}

pub(super) fn read_array(input: &Bytes, sink: &mut Sink<'_>) -> Result<(), ParseError> {
    let text = lines::without_bom(input);
    let start = input.len() - text.len();
    // Each element takes two bytes of input and sixteen here, so this is bounded by the input.
    let values: Vec<&RawValue> =
        serde_json::from_slice(text).map_err(|source| ParseError::InvalidJson {
            offset: start + offset_of(text, &source),
            source,
        })?;
    for value in values {
        let message = input.slice_ref(value.get().as_bytes());
        let offset = message.as_ptr() as usize - input.as_ptr() as usize;
        sink.push(offset, message)?;
    }
    Ok(())
}

/// Where in `text` the parser stopped: it counts lines from 1, and columns in bytes.
fn offset_of(text: &[u8], error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    (before + error.column()).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Format};

    #[test]
    fn lines_keep_the_text_of_their_value() {
        let input = Bytes::from_static(b"{\"a\": 1}\r\n  \n [2 ,3]\n\"x\"");
        let corpus = Corpus::parse("a", &input, Some(Format::JsonLines)).unwrap();
        assert_eq!(corpus.messages(), ["{\"a\": 1}", "[2 ,3]", "\"x\""]);
        assert_eq!(corpus.skipped().count(SkipReason::EmptyLine), 1);
    }

    #[test]
    fn a_line_that_is_not_json_is_named_by_its_offset() {
        let input = Bytes::from_static(b"{}\n{} {}\n");
        assert!(matches!(
            Corpus::parse("a", &input, Some(Format::JsonLines)),
            Err(ParseError::InvalidJson { offset: 3, .. })
        ));
    }

    #[test]
    fn array_elements_keep_their_text() {
        let input = Bytes::from_static(b"\xef\xbb\xbf[ {\"a\" : 1.50},\n\"\\u0041\" ,[ ] ]\n");
        let corpus = Corpus::parse("a.json", &input, None).unwrap();
        assert_eq!(corpus.format(), Format::JsonArray);
        assert_eq!(corpus.messages(), ["{\"a\" : 1.50}", "\"\\u0041\"", "[ ]"]);
        assert_eq!(
            Corpus::parse("a.json", &Bytes::from_static(b"[]"), None)
                .unwrap()
                .messages()
                .len(),
            0
        );
    }

    #[test]
    fn a_broken_array_names_where_it_breaks() {
        let input = Bytes::from_static(b"[1,\n2,\n]");
        assert!(matches!(
            Corpus::parse("a", &input, Some(Format::JsonArray)),
            Err(ParseError::InvalidJson { offset: 8, .. })
        ));
        let deep = Bytes::from("[".repeat(100_000));
        assert!(Corpus::parse("a", &deep, Some(Format::JsonArray)).is_err());
    }
}
