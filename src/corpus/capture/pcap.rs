//! The classic libpcap container: a header of 24 bytes, then a header of 16 bytes before each packet.

use bytes::Bytes;

use super::{Endian, Link, Packet, Packets, header};
use crate::corpus::sink::{Sink, SkipReason};
use crate::corpus::{Format, ParseError};
use crate::units::Time;

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
/// The major version since 1998; the lengths of a record had another order before.
const VERSION: u16 = 2;
/// The longest packet that libpcap writes, whatever the snap length in the file header says.
const LONGEST_PACKET: u32 = 262_144;

pub(in crate::corpus) fn read(input: &Bytes, sink: &mut Sink<'_>) -> Result<(), ParseError> {
    let file = FileHeader::parse(input)?;
    let mut packets = Packets::new(input, sink);
    let mut offset = FILE_HEADER_LEN;
    while offset < input.len() {
        let Some(record) = Record::parse(&file, input, offset)? else {
            packets.skip(SkipReason::CutOff);
            break;
        };
        packets.handle(&Packet {
            offset,
            at: Some(record.at),
            link: file.link,
            bytes: record.bytes,
            original_len: record.original_len,
        })?;
        offset = record.end;
    }
    packets.finish()
}

#[derive(Debug)]
struct FileHeader {
    endian: Endian,
    nanos_per_tick: u64,
    longest_packet: u32,
    link: Link,
}

impl FileHeader {
    fn parse(input: &[u8]) -> Result<Self, ParseError> {
        let bytes = header(input, 0, FILE_HEADER_LEN)?;
        let magic = Endian::Big.u32(bytes, 0).unwrap_or_default();
        let (endian, nanos_per_tick) = match magic {
            0xa1b2_c3d4 => (Endian::Big, 1000),
            0xa1b2_3c4d => (Endian::Big, 1),
            0xd4c3_b2a1 => (Endian::Little, 1000),
            0x4d3c_b2a1 => (Endian::Little, 1),
            found => {
                return Err(ParseError::BadMagic {
                    offset: 0,
                    found,
                    format: Format::Pcap,
                });
            }
        };
        let major = endian.u16(bytes, 4).unwrap_or_default();
        if major != VERSION {
            return Err(ParseError::UnsupportedVersion {
                offset: 4,
                format: Format::Pcap,
                major,
                minor: endian.u16(bytes, 6).unwrap_or_default(),
            });
        }
        let snap_len = endian.u32(bytes, 16).unwrap_or_default();
        // The upper half holds the length of the frame check sequence.
        let link_type = endian.u32(bytes, 20).unwrap_or_default() as u16;
        Ok(Self {
            endian,
            nanos_per_tick,
            longest_packet: snap_len.max(LONGEST_PACKET),
            link: Link::from_type(link_type).ok_or(ParseError::UnsupportedLinkType {
                offset: 20,
                given: link_type,
            })?,
        })
    }
}

#[derive(Debug)]
struct Record<'a> {
    at: Time,
    bytes: &'a [u8],
    original_len: u32,
    end: usize,
}

impl<'a> Record<'a> {
    /// The record at `offset`, or `None` if the input ends inside it.
    fn parse(
        file: &FileHeader,
        input: &'a [u8],
        offset: usize,
    ) -> Result<Option<Self>, ParseError> {
        let Ok(bytes) = header(input, offset, RECORD_HEADER_LEN) else {
            return Ok(None);
        };
        let word = |at| file.endian.u32(bytes, at).unwrap_or_default();
        let captured_len = word(8);
        if captured_len > file.longest_packet {
            return Err(ParseError::BadLength {
                offset: offset + 8,
                given: captured_len,
                min: 0,
                max: file.longest_packet,
            });
        }
        let start = offset + RECORD_HEADER_LEN;
        let Ok(captured) = header(input, start, captured_len as usize) else {
            return Ok(None);
        };
        // 2^32 s and 2^32 ticks of a microsecond stay far below 2^64 ns.
        let nanos = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * file.nanos_per_tick;
        Ok(Some(Self {
            at: Time::from_nanos(nanos),
            bytes: captured,
            original_len: word(12),
            end: start + captured.len(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::builders::{PcapFile, ethernet, ipv4, udp};
    use super::*;
    use crate::corpus::{Corpus, Limits};

    fn parse(input: &[u8]) -> Result<Corpus, ParseError> {
        Corpus::parse("a", &Bytes::copy_from_slice(input), Some(Format::Pcap))
    }

    #[test]
    fn both_byte_orders_and_both_resolutions_are_read() {
        let packet = ethernet(&[], 0x0800, &ipv4(17, &udp(b"hello")));
        for endian in [Endian::Little, Endian::Big] {
            for (nanos, expected) in [(false, 3_000_004_000), (true, 3_000_000_004)] {
                let mut file = PcapFile::new(endian, nanos, 1);
                file.packet(3, 4, &packet);
                let corpus = parse(&file.bytes).unwrap();
                assert_eq!(corpus.messages(), ["hello"]);
                assert_eq!(corpus.time(0), Some(Time::from_nanos(expected)));
            }
        }
    }

    #[test]
    fn a_cut_anywhere_keeps_what_is_whole() {
        let packet = ethernet(&[], 0x0800, &ipv4(17, &udp(b"hello")));
        let mut file = PcapFile::new(Endian::Little, false, 1);
        let mut ends = vec![FILE_HEADER_LEN];
        for second in 0..3 {
            file.packet(second, 0, &packet);
            ends.push(file.bytes.len());
        }
        for cut in 0..=file.bytes.len() {
            let parsed = parse(&file.bytes[..cut]);
            if cut < FILE_HEADER_LEN {
                assert!(matches!(
                    parsed,
                    Err(ParseError::Truncated { offset: 0, needed: 24, available }) if available == cut
                ));
                continue;
            }
            let corpus = parsed.unwrap();
            let whole = ends[1..].iter().filter(|end| **end <= cut).count();
            assert_eq!(corpus.messages().len(), whole);
            let cut_off = u64::from(!ends.contains(&cut));
            assert_eq!(corpus.skipped().count(SkipReason::CutOff), cut_off);
        }
    }

    #[test]
    fn a_damaged_file_header_is_an_error() {
        let file = PcapFile::new(Endian::Big, false, 1).bytes;
        let with = |at: usize, bytes: &[u8]| {
            let mut file = file.clone();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            parse(&file).unwrap_err()
        };
        assert!(matches!(
            with(0, &[1, 2, 3, 4]),
            ParseError::BadMagic {
                found: 0x0102_0304,
                ..
            }
        ));
        assert!(matches!(
            with(4, &[0, 3]),
            ParseError::UnsupportedVersion { major: 3, .. }
        ));
        assert!(matches!(
            with(22, &[0, 105]),
            ParseError::UnsupportedLinkType { given: 105, .. }
        ));
    }

    #[test]
    fn an_absurd_packet_length_is_an_error_and_a_damaged_packet_is_not() {
        let good = ethernet(&[], 0x0800, &ipv4(17, &udp(b"hello")));
        let mut damaged = good.clone();
        damaged[14] = 0x41; // an IPv4 header of one word
        let mut file = PcapFile::new(Endian::Little, false, 1);
        file.packet(0, 0, &damaged);
        file.packet(0, 0, &good);
        let corpus = parse(&file.bytes).unwrap();
        assert_eq!(corpus.messages(), ["hello"]);
        assert_eq!(corpus.skipped().count(SkipReason::Malformed), 1);

        let offset = FILE_HEADER_LEN + 8;
        file.bytes[offset..offset + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            parse(&file.bytes),
            Err(ParseError::BadLength {
                offset: 32,
                given: u32::MAX,
                ..
            })
        ));
    }

    #[test]
    fn a_packet_that_was_captured_short_is_told_from_a_malformed_one() {
        let packet = ethernet(&[], 0x0800, &ipv4(17, &udp(b"hello")));
        let mut file = PcapFile::new(Endian::Little, false, 1);
        file.short_packet(&packet[..packet.len() - 2], packet.len());
        let corpus = parse(&file.bytes).unwrap();
        assert_eq!(corpus.skipped().count(SkipReason::ShortCapture), 1);
        assert_eq!(corpus.skipped().total(), 1);
    }

    #[test]
    fn limits_hold_for_packets_too() {
        let mut file = PcapFile::new(Endian::Little, false, 101);
        file.packet(0, 0, &ipv4(17, &udp(b"hello")));
        let input = Bytes::from(file.bytes);
        let limits = Limits::default().max_message(4);
        assert!(matches!(
            Corpus::parse_with("a", &input, None, &limits),
            Err(ParseError::MessageTooLong {
                offset: 24,
                given: 5,
                max: 4
            })
        ));
    }
}
