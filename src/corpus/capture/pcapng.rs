//! The pcapng container: sections of blocks. Each section has its own byte order and interfaces, and
//! each interface its own link type, snap length and resolution of time.

use bytes::Bytes;

use super::{Endian, Link, Packet, Packets, header};
use crate::corpus::sink::{Sink, SkipReason};
use crate::corpus::{Format, ParseError};
use crate::units::Time;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete since 2004, and as good as an enhanced packet block.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const VERSION: u16 = 1;
/// Type and length before a block's body, and the length again behind it.
const BLOCK_HEAD_LEN: usize = 8;
const BLOCK_TAIL_LEN: usize = 4;
/// As much as tells the byte order of a section, and as little as a block can have.
const SHORTEST_BLOCK: u32 = 12;
const SHORTEST_SECTION_HEADER: u32 = 28;
const SHORTEST_INTERFACE: u32 = 20;
/// Longer than any packet; what is longer is taken for damage. Arbitrary.
const LONGEST_BLOCK: u32 = 64 << 20;

const OPTION_END: u16 = 0;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;

pub(in crate::corpus) fn read(input: &Bytes, sink: &mut Sink<'_>) -> Result<(), ParseError> {
    let mut packets = Packets::new(input, sink);
    let mut section = None;
    let mut offset = 0;
    // Do-while, so that an input without a section header is never sound.
    loop {
        let block = match Block::parse(input, offset, section.as_ref()) {
            Err(ParseError::Truncated { .. }) if section.is_some() => {
                packets.skip(SkipReason::CutOff);
                break;
            }
            other => other?,
        };
        match (block.kind, &mut section) {
            (SECTION_HEADER, section) => *section = Some(block.section()?),
            (INTERFACE_DESCRIPTION, Some(section)) => {
                section.interfaces.push(block.interface()?);
            }
            (PACKET | SIMPLE_PACKET | ENHANCED_PACKET, Some(section)) => {
                match block.packet(section) {
                    Ok(packet) => packets.handle(&packet)?,
                    Err(reason) => packets.skip(reason),
                }
            }
            // Names, statistics, secrets: nothing of the messages. And before the first section,
            // `Block::parse` accepts nothing else.
            _ => {}
        }
        offset = block.end;
        if offset == input.len() {
            break;
        }
    }
    packets.finish()
}

#[derive(Debug)]
struct Section {
    endian: Endian,
    interfaces: Vec<Interface>,
}

#[derive(Debug)]
struct Interface {
    link: Option<Link>,
    /// Zero: no limit.
    snap_len: u32,
    /// The unit of times: a power of ten or, if the top bit is set, of two; both negative.
    resolution: u8,
    /// What to add to times, in seconds.
    offset: i64,
}

impl Interface {
    /// The time that is `ticks` of this interface, if it is between 1970 and 2554.
    fn time(&self, ticks: u64) -> Option<Time> {
        const NANOS_PER_SEC: u128 = 1_000_000_000;
        let exponent = u32::from(self.resolution & 0x7f);
        let ticks = u128::from(ticks);
        let nanos = if self.resolution & 0x80 != 0 {
            (ticks * NANOS_PER_SEC) >> exponent
        } else if exponent <= 9 {
            ticks * 10_u128.pow(9 - exponent)
        } else {
            // A unit too small for 128 bits makes all times zero.
            let per_nano = 10_u128.checked_pow(exponent - 9);
            per_nano.map_or(0, |per_nano| ticks / per_nano)
        };
        // At most 2^64 s on either side, so far below 2^127 ns.
        let nanos = i128::try_from(nanos).ok()? + i128::from(self.offset) * 1_000_000_000;
        u64::try_from(nanos).ok().map(Time::from_nanos)
    }
}

#[derive(Debug)]
struct Block<'a> {
    offset: usize,
    kind: u32,
    endian: Endian,
    body: &'a [u8],
    end: usize,
}

impl<'a> Block<'a> {
    /// The block at `offset`, which is the first of the file if there is no section.
    fn parse(
        input: &'a [u8],
        offset: usize,
        section: Option<&Section>,
    ) -> Result<Self, ParseError> {
        let bad_magic = |offset, found| ParseError::BadMagic {
            offset,
            found,
            format: Format::PcapNg,
        };
        let head = header(input, offset, SHORTEST_BLOCK as usize)?;
        let big = |at| Endian::Big.u32(head, at).unwrap_or_default();
        // Its type reads the same in both byte orders.
        let endian = match (big(0), section) {
            (SECTION_HEADER, _) => match big(8) {
                BYTE_ORDER_MAGIC => Endian::Big,
                found if found.swap_bytes() == BYTE_ORDER_MAGIC => Endian::Little,
                found => return Err(bad_magic(offset + 8, found)),
            },
            (_, Some(section)) => section.endian,
            (found, None) => return Err(bad_magic(offset, found)),
        };
        let kind = endian.u32(head, 0).unwrap_or_default();
        let len = endian.u32(head, 4).unwrap_or_default();
        let shortest = match kind {
            SECTION_HEADER => SHORTEST_SECTION_HEADER,
            INTERFACE_DESCRIPTION => SHORTEST_INTERFACE,
            _ => SHORTEST_BLOCK,
        };
        if len % 4 != 0 || !(shortest..=LONGEST_BLOCK).contains(&len) {
            return Err(ParseError::BadLength {
                offset: offset + 4,
                given: len,
                min: shortest,
                max: LONGEST_BLOCK,
            });
        }
        let block = header(input, offset, len as usize)?;
        let body_end = block.len() - BLOCK_TAIL_LEN;
        let tail = endian.u32(block, body_end).unwrap_or_default();
        if tail != len {
            return Err(ParseError::LengthMismatch {
                offset: offset + body_end,
                head: len,
                tail,
            });
        }
        Ok(Self {
            offset,
            kind,
            endian,
            body: &block[BLOCK_HEAD_LEN..body_end],
            end: offset + block.len(),
        })
    }

    fn section(&self) -> Result<Section, ParseError> {
        let major = self.endian.u16(self.body, 4).unwrap_or_default();
        if major != VERSION {
            return Err(ParseError::UnsupportedVersion {
                offset: self.offset + BLOCK_HEAD_LEN + 4,
                format: Format::PcapNg,
                major,
                minor: self.endian.u16(self.body, 6).unwrap_or_default(),
            });
        }
        Ok(Section {
            endian: self.endian,
            interfaces: Vec::new(),
        })
    }

    fn interface(&self) -> Result<Interface, ParseError> {
        // The shortest block has both fields, so neither is missing.
        let fixed = header(self.body, 0, 8)?;
        let link_type = self.endian.u16(fixed, 0).unwrap_or_default();
        let mut interface = Interface {
            link: Link::from_type(link_type),
            snap_len: self.endian.u32(fixed, 4).unwrap_or_default(),
            resolution: 6,
            offset: 0,
        };
        for (code, value) in self.options(fixed.len()) {
            match (code, value) {
                (OPTION_TIME_RESOLUTION, [resolution, ..]) => interface.resolution = *resolution,
                (OPTION_TIME_OFFSET, value) => {
                    interface.offset = self.endian.i64(value, 0).unwrap_or_default();
                }
                _ => {}
            }
        }
        Ok(interface)
    }

    /// The options from `at` in the body on, up to the end mark or the first that is damaged.
    fn options(&self, mut at: usize) -> impl Iterator<Item = (u16, &'a [u8])> {
        let (body, endian) = (self.body, self.endian);
        std::iter::from_fn(move || {
            let code = endian.u16(body, at).filter(|code| *code != OPTION_END)?;
            let len = usize::from(endian.u16(body, at + 2)?);
            let value = body.get(at + 4..at + 4 + len)?;
            at += 4 + len.next_multiple_of(4);
            Some((code, value))
        })
    }

    /// The packet in a block of any of the three kinds.
    fn packet(&self, section: &Section) -> Result<Packet<'a>, SkipReason> {
        let word = |at| self.endian.u32(self.body, at).ok_or(SkipReason::Malformed);
        let number = match self.kind {
            SIMPLE_PACKET => 0,
            PACKET => self
                .endian
                .u16(self.body, 0)
                .map(u32::from)
                .ok_or(SkipReason::Malformed)?,
            _ => word(0)?,
        };
        let interface = section
            .interfaces
            .get(number as usize)
            .ok_or(SkipReason::UnknownInterface)?;
        let link = interface.link.ok_or(SkipReason::UnknownLinkType)?;
        let (at, captured_len, original_len, start) = if self.kind == SIMPLE_PACKET {
            let original_len = word(0)?;
            let captured_len = match interface.snap_len {
                0 => original_len,
                snap_len => original_len.min(snap_len),
            };
            (None, captured_len, original_len, 4)
        } else {
            let ticks = u64::from(word(4)?) << 32 | u64::from(word(8)?);
            (interface.time(ticks), word(12)?, word(16)?, 20)
        };
        let captured = self.body.get(start..).unwrap_or_default();
        Ok(Packet {
            offset: self.offset,
            at,
            link,
            bytes: captured
                .get(..captured_len as usize)
                .ok_or(SkipReason::Malformed)?,
            original_len,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::builders::{PcapNgFile, ipv4, udp};
    use super::*;
    use crate::corpus::Corpus;

    fn parse(input: &[u8]) -> Result<Corpus, ParseError> {
        Corpus::parse("a", &Bytes::copy_from_slice(input), Some(Format::PcapNg))
    }

    /// Two sections of different byte order, with every kind of packet block.
    fn two_sections() -> (PcapNgFile, Vec<usize>) {
        let packet = |message: &[u8]| ipv4(17, &udp(message));
        let mut ends = Vec::new();
        let mut file = PcapNgFile::new(Endian::Little);
        file.interface(101, 0, &[]);
        file.enhanced(0, 1_000_002, &packet(b"one"));
        ends.push(file.bytes.len());
        file.simple(&packet(b"two"));
        ends.push(file.bytes.len());
        file.section(Endian::Big);
        file.interface(147, 0, &[]);
        file.interface(101, 0, &[(9, &[9]), (14, &5_i64.to_be_bytes())]);
        file.block(5, &[0; 12]);
        file.enhanced(1, 7, &packet(b"three"));
        ends.push(file.bytes.len());
        (file, ends)
    }

    #[test]
    fn sections_interfaces_and_packet_blocks_are_read() {
        let (mut file, _) = two_sections();
        file.enhanced(0, 0, &[1, 2, 3]);
        file.enhanced(2, 0, &[1, 2, 3]);
        let corpus = parse(&file.bytes).unwrap();
        assert_eq!(corpus.messages(), ["one", "two", "three"]);
        let times: Vec<_> = corpus.iter().map(|(at, _)| at).collect();
        assert_eq!(
            times,
            [
                Some(Time::from_nanos(1_000_002_000)),
                None,
                Some(Time::from_nanos(5_000_000_007)),
            ]
        );
        assert_eq!(corpus.skipped().count(SkipReason::UnknownLinkType), 1);
        assert_eq!(corpus.skipped().count(SkipReason::UnknownInterface), 1);
    }

    #[test]
    fn a_cut_anywhere_keeps_what_is_whole() {
        let (file, ends) = two_sections();
        let boundaries = file.boundaries();
        for cut in 0..=file.bytes.len() {
            let parsed = parse(&file.bytes[..cut]);
            if cut < 28 {
                assert!(matches!(
                    parsed,
                    Err(ParseError::Truncated { offset: 0, available, .. }) if available == cut
                ));
                continue;
            }
            let corpus = parsed.unwrap();
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(corpus.messages().len(), whole, "cut at {cut}");
            let cut_off = u64::from(!boundaries.contains(&cut));
            assert_eq!(corpus.skipped().count(SkipReason::CutOff), cut_off);
        }
    }

    #[test]
    fn damaged_blocks_are_errors() {
        let (file, ends) = two_sections();
        let with = |at: usize, bytes: &[u8]| {
            let mut file = file.bytes.clone();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            parse(&file).unwrap_err()
        };
        assert!(matches!(
            with(0, &[6, 0, 0, 0]),
            ParseError::BadMagic { offset: 0, .. }
        ));
        assert!(matches!(
            with(8, &[0; 4]),
            ParseError::BadMagic { offset: 8, .. }
        ));
        assert!(matches!(
            with(12, &[2, 0]),
            ParseError::UnsupportedVersion { major: 2, .. }
        ));
        for given in [0, 11, 13, 16, LONGEST_BLOCK + 4] {
            assert!(matches!(
                with(28 + 4, &given.to_le_bytes()),
                ParseError::BadLength { offset: 32, given: found, min: 20, .. } if found == given
            ));
        }
        assert!(matches!(
            with(ends[0] - 4, &[0; 4]),
            ParseError::LengthMismatch { tail: 0, .. }
        ));
    }

    #[test]
    fn a_damaged_packet_is_skipped() {
        let mut file = PcapNgFile::new(Endian::Little);
        file.interface(101, 0, &[]);
        file.block(ENHANCED_PACKET, &[0; 16]);
        let mut body = [0; 20];
        body[12] = 200; // captured bytes that are not there
        file.block(ENHANCED_PACKET, &body);
        file.block(PACKET, &[]);
        file.block(SIMPLE_PACKET, &[]);
        file.simple(&ipv4(17, &udp(b"sound")));
        let corpus = parse(&file.bytes).unwrap();
        assert_eq!(corpus.messages(), ["sound"]);
        assert_eq!(corpus.skipped().count(SkipReason::Malformed), 4);
    }

    #[test]
    fn the_snap_length_bounds_simple_packets() {
        let mut file = PcapNgFile::new(Endian::Big);
        let packet = ipv4(17, &udp(b"whole"));
        file.interface(101, packet.len() as u32 - 1, &[]);
        let mut body = (packet.len() as u32).to_be_bytes().to_vec();
        body.extend(&packet[..packet.len() - 1]);
        body.resize(body.len().next_multiple_of(4), 0);
        file.block(SIMPLE_PACKET, &body);
        let corpus = parse(&file.bytes).unwrap();
        assert_eq!(corpus.skipped().count(SkipReason::ShortCapture), 1);
    }

    #[test]
    fn every_resolution_of_time_is_understood() {
        let time = |resolution, offset, ticks| {
            Interface {
                link: None,
                snap_len: 0,
                resolution,
                offset,
            }
            .time(ticks)
            .map(Time::as_nanos)
        };
        assert_eq!(time(0, 0, 3), Some(3_000_000_000));
        assert_eq!(time(6, 0, 3), Some(3000));
        assert_eq!(time(9, 0, 3), Some(3));
        assert_eq!(time(12, 0, 3999), Some(3));
        assert_eq!(time(127, 0, u64::MAX), Some(0));
        assert_eq!(time(0x8a, 0, 512), Some(500_000_000));
        assert_eq!(time(0xff, 0, u64::MAX), Some(0));
        assert_eq!(time(0, -2, 3), Some(1_000_000_000));
        assert_eq!(time(0, -4, 3), None);
        assert_eq!(time(0, i64::MAX, u64::MAX), None);
    }
}
