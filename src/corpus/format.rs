//! The container formats, and how one is told from another.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};

use super::{lines, msgs};

/// How a container is cut into messages.
///
/// # Detection
///
/// A pcap or pcapng magic number decides. Otherwise the extension of the name does, where it is a
/// known one; for `.json` the content tells an array from lines. Otherwise the shape of the content does: records that fill the input exactly, a JSON array, a first line that
/// is a JSON object or array, UTF-8 without NUL bytes, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Records of a length, as little-endian `u32`, and so many bytes. Name `msgs`.
    Msgs,
    /// Lines of text in any encoding that keeps ASCII; the line ends, `\n` or `\r\n`, are not part of
    /// the messages, and empty lines are skipped. Name `lines`.
    Lines,
    /// Lines that each hold one JSON value; a message is the text of the value. Name `jsonl`.
    JsonLines,
    /// One JSON array; a message is the text of an element. Name `json`.
    JsonArray,
    /// A directory; a message is the content of a file, in the order of the names' bytes. What is
    /// not a file is skipped. Name `dir`.
    Directory,
    /// A libpcap capture, with times in µs or ns, of either byte order: a message is the payload of a
    /// TCP segment or UDP datagram, or the user data of SCTP DATA chunks. Retransmitted TCP segments
    /// are messages again. Name `pcap`.
    Pcap,
    /// A pcapng capture; messages as in [`Format::Pcap`]. Name `pcapng`.
    PcapNg,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Self] = &[
        Self::Msgs,
        Self::Lines,
        Self::JsonLines,
        Self::JsonArray,
        Self::Directory,
        Self::Pcap,
        Self::PcapNg,
    ];

    /// The name, as [`FromStr`] takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msgs => "msgs",
            Self::Lines => "lines",
            Self::JsonLines => "jsonl",
            Self::JsonArray => "json",
            Self::Directory => "dir",
            Self::Pcap => "pcap",
            Self::PcapNg => "pcapng",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that is not one of a [`Format`].
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("no format is called `{given}` (there are msgs, lines, jsonl, json, dir, pcap, pcapng)")]
pub struct ParseFormatError {
    given: String,
}

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|format| format.name() == name);
        found.copied().ok_or_else(|| ParseFormatError {
            given: name.to_owned(),
        })
    }
}

/// The format of `input`, which is called `name`; see [`Format#detection`].
pub(super) fn detect(name: &str, input: &[u8]) -> Option<Format> {
    by_magic(input)
        .or_else(|| by_extension(name, input))
        .or_else(|| by_shape(input))
}

fn by_magic(input: &[u8]) -> Option<Format> {
    match input.first_chunk()? {
        [0xa1, 0xb2, 0xc3, 0xd4]
        | [0xd4, 0xc3, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0x3c, 0x4d]
        | [0x4d, 0x3c, 0xb2, 0xa1] => Some(Format::Pcap),
        [0x0a, 0x0d, 0x0d, 0x0a] => Some(Format::PcapNg),
        _ => None,
    }
}

fn by_extension(name: &str, input: &[u8]) -> Option<Format> {
    let extension = Path::new(name).extension()?.to_str()?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "msgs" => Format::Msgs,
        "txt" | "text" | "log" | "csv" | "tsv" | "lines" => Format::Lines,
        "jsonl" | "ndjson" => Format::JsonLines,
        "json" if !is_json_array(input) && starts_with_json_line(input) => Format::JsonLines,
        "json" => Format::JsonArray,
        "pcap" | "cap" | "dmp" => Format::Pcap,
        "pcapng" | "ntar" => Format::PcapNg,
        _ => return None,
    })
}

fn by_shape(input: &[u8]) -> Option<Format> {
    if msgs::tiles(input) {
        Some(Format::Msgs)
    } else if is_json_array(input) {
        Some(Format::JsonArray)
    } else if starts_with_json_line(input) {
        Some(Format::JsonLines)
    } else if std::str::from_utf8(input).is_ok() && !input.contains(&0) {
        Some(Format::Lines)
    } else {
        None
    }
}

/// Whether all of `input` is one JSON array.
fn is_json_array(input: &[u8]) -> bool {
    let input = lines::without_bom(input);
    input.trim_ascii_start().starts_with(b"[")
        && serde_json::from_slice::<Vec<IgnoredAny>>(input).is_ok()
}

/// Whether the first line that is not blank is a JSON object or array: a lone number or string is
/// more likely text.
fn starts_with_json_line(input: &[u8]) -> bool {
    let mut lines = lines::without_bom(input).split(|byte| *byte == b'\n');
    lines
        .find(|line| !line.trim_ascii().is_empty())
        .is_some_and(|line| {
            matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
                && serde_json::from_slice::<IgnoredAny>(line).is_ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(*format));
        }
        assert!("tar".parse::<Format>().is_err());
    }

    #[test]
    fn magic_beats_extension_and_extension_beats_shape() {
        let detected = |name, input: &[u8]| detect(name, input);
        assert_eq!(
            detected("a.txt", b"\xd4\xc3\xb2\xa1rest"),
            Some(Format::Pcap)
        );
        assert_eq!(detected("a", b"\x0a\x0d\x0d\x0arest"), Some(Format::PcapNg));
        assert_eq!(detected("a.LOG", b"{\"a\":1}\nplain"), Some(Format::Lines));
        assert_eq!(detected("a.msgs", b"\x09\0\0\0cut"), Some(Format::Msgs));
    }

    #[test]
    fn shape_tells_records_json_and_text_apart() {
        let detected = |input: &[u8]| detect("a", input);
        assert_eq!(detected(b"\x01\0\0\0a\x02\0\0\0bb"), Some(Format::Msgs));
        assert_eq!(detected(b" [1, {\"a\": []}]\n"), Some(Format::JsonArray));
        assert_eq!(detected(b"\n[1]\n[2]\n"), Some(Format::JsonLines));
        assert_eq!(detected(b"\xef\xbb\xbf{}\n{}\n"), Some(Format::JsonLines));
        assert_eq!(detected(b"[2026-01-01] started\n"), Some(Format::Lines));
        assert_eq!(detected(b"17\n18\n"), Some(Format::Lines));
        assert_eq!(detected(b"\x00\xff\xfe"), None);
    }

    #[test]
    fn json_extension_leaves_array_or_lines_to_content() {
        assert_eq!(detect("a.json", b"[1]"), Some(Format::JsonArray));
        assert_eq!(detect("a.json", b"{}\n{}"), Some(Format::JsonLines));
        assert_eq!(detect("a.json", b"{\n}"), Some(Format::JsonArray));
        assert_eq!(detect("a.jsonl", b"[1]"), Some(Format::JsonLines));
    }
}
