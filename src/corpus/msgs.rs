//! `.msgs`: records of a length, as little-endian `u32`, and so many bytes.

use std::io::{self, Write};

use bytes::Bytes;

use super::ParseError;
use super::sink::Sink;

const LEN_BYTES: usize = 4;

pub(super) fn read(input: &Bytes, sink: &mut Sink<'_>) -> Result<(), ParseError> {
    let mut offset = 0;
    while offset < input.len() {
        let Some((len, start)) = record(input, offset) else {
            return Err(ParseError::Truncated {
                offset,
                needed: LEN_BYTES as u64,
                available: input.len() - offset,
            });
        };
        sink.check(offset, u64::from(len))?;
        let available = input.len() - start;
        if available < len as usize {
            return Err(ParseError::Truncated {
                offset: start,
                needed: u64::from(len),
                available,
            });
        }
        let end = start + len as usize;
        sink.push(offset, input.slice(start..end))?;
        offset = end;
    }
    Ok(())
}

/// Whether records fill `input`, which is not empty, to its last byte. Text never passes: four
/// letters read as a length are hundreds of megabytes.
pub(super) fn tiles(input: &[u8]) -> bool {
    let mut offset = 0;
    while offset < input.len() {
        let Some((len, start)) = record(input, offset) else {
            return false;
        };
        if input.len() - start < len as usize {
            return false;
        }
        offset = start + len as usize;
    }
    offset > 0
}

pub(super) fn write(messages: &[Bytes], mut writer: impl Write) -> io::Result<()> {
    for message in messages {
        let len = u32::try_from(message.len())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        writer.write_all(&len.to_le_bytes())?;
        writer.write_all(message)?;
    }
    writer.flush()
}

/// The length of the record at `offset`, and where its bytes start.
fn record(input: &[u8], offset: usize) -> Option<(u32, usize)> {
    let len = input.get(offset..)?.first_chunk::<LEN_BYTES>()?;
    Some((u32::from_le_bytes(*len), offset + LEN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Format, Limits};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_round_trip(
            messages in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..40), 0..40),
        ) {
            let messages: Vec<Bytes> = messages.into_iter().map(Bytes::from).collect();
            let corpus = Corpus::new("a.msgs", messages.clone());
            let mut written = Vec::new();
            corpus.write_msgs(&mut written).unwrap();
            let read = Corpus::parse("a.msgs", &Bytes::from(written), None).unwrap();
            prop_assert_eq!(read, corpus);
        }
    }

    #[test]
    fn a_cut_anywhere_but_between_records_is_an_error() {
        let input = Bytes::from_static(b"\x02\0\0\0ab\x03\0\0\0cde");
        for cut in 0..=input.len() {
            let parsed = Corpus::parse("a", &input.slice(..cut), Some(Format::Msgs));
            match cut {
                0 | 6 | 13 => assert_eq!(parsed.unwrap().messages().len(), cut.div_ceil(7)),
                _ => assert!(matches!(parsed, Err(ParseError::Truncated { .. }))),
            }
        }
    }

    #[test]
    fn errors_name_offset_and_both_numbers() {
        let input = Bytes::from_static(b"\x01\0\0\0a\x09\0\0\0cde");
        assert!(matches!(
            Corpus::parse("a", &input, Some(Format::Msgs)),
            Err(ParseError::Truncated {
                offset: 9,
                needed: 9,
                available: 3
            })
        ));
        let limits = Limits::default().max_message(8);
        assert!(matches!(
            Corpus::parse_with("a", &input, Some(Format::Msgs), &limits),
            Err(ParseError::MessageTooLong {
                offset: 5,
                given: 9,
                max: 8
            })
        ));
    }

    #[test]
    fn messages_are_slices_of_the_input() {
        let input = Bytes::from_static(b"\x02\0\0\0ab");
        let corpus = Corpus::parse("a", &input, Some(Format::Msgs)).unwrap();
        assert_eq!(corpus.messages()[0].as_ptr(), input[4..].as_ptr());
    }
}
