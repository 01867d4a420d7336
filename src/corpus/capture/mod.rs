//! Network captures: the payloads of transport protocols as messages.
//!
//! The containers are read here, so that errors carry offsets and a damaged packet does not end the
//! capture; the packets' own headers are read with `etherparse`, all but SCTP.
//!
//! A packet that cannot be read is counted and skipped. A record that runs past the end of the file is
//! too: it is what a capture looks like whose program was stopped. A length that no sound writer
//! would have written is an error, since the next record cannot be found behind it.

mod packet;
mod pcap;
mod pcapng;
mod sctp;

#[cfg(test)]
mod builders;

use bytes::Bytes;

pub(super) use self::pcap::read as read_pcap;
pub(super) use self::pcapng::read as read_pcapng;

use self::packet::{Link, Payload};
use self::sctp::Reassembly;
use super::ParseError;
use super::sink::{Sink, SkipReason};
use crate::units::Time;

/// One captured packet.
#[derive(Clone, Copy, Debug)]
struct Packet<'a> {
    /// Where its record stands in the input.
    offset: usize,
    at: Option<Time>,
    link: Link,
    /// The captured bytes, a part of the input.
    bytes: &'a [u8],
    /// How long it was before it was captured.
    original_len: u32,
}

/// What both containers hand their packets to.
#[derive(Debug)]
struct Packets<'a, 'limits> {
    input: &'a Bytes,
    sink: &'a mut Sink<'limits>,
    sctp: Reassembly,
}

impl<'a, 'limits> Packets<'a, 'limits> {
    fn new(input: &'a Bytes, sink: &'a mut Sink<'limits>) -> Self {
        Self {
            input,
            sink,
            sctp: Reassembly::default(),
        }
    }

    /// Takes the messages out of `packet`. Fails only when a limit is exceeded.
    fn handle(&mut self, packet: &Packet<'_>) -> Result<(), ParseError> {
        let is_whole = packet.bytes.len() >= packet.original_len as usize;
        match packet::payload(packet.link, packet.bytes, is_whole) {
            Ok(Payload::Message([])) => self.sink.skip(SkipReason::NoPayload),
            Ok(Payload::Message(message)) => {
                let message = self.input.slice_ref(message);
                self.sink.push_recorded(packet.offset, message, packet.at)?;
            }
            Ok(Payload::Sctp(segment)) => {
                self.sctp.handle(self.input, packet, &segment, self.sink)?;
            }
            // The wrong length may be the capture's fault, not the sender's.
            Err(SkipReason::Malformed) if !is_whole => self.sink.skip(SkipReason::ShortCapture),
            Err(reason) => self.sink.skip(reason),
        }
        Ok(())
    }

    fn skip(&mut self, reason: SkipReason) {
        self.sink.skip(reason);
    }

    /// Call at the end of the capture.
    fn finish(self) -> Result<(), ParseError> {
        self.sctp.finish(self.sink)
    }
}

/// The byte order of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endian {
    Little,
    Big,
}

impl Endian {
    /// The number at `at`, if it is there.
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        })
    }

    fn i64(self, bytes: &[u8], at: usize) -> Option<i64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => i64::from_le_bytes(bytes),
            Self::Big => i64::from_be_bytes(bytes),
        })
    }
}

/// The first `len` bytes from `offset`, which must all be there.
fn header(input: &[u8], offset: usize, len: usize) -> Result<&[u8], ParseError> {
    let rest = input.get(offset..).unwrap_or_default();
    rest.get(..len).ok_or(ParseError::Truncated {
        offset,
        needed: len as u64,
        available: rest.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::builders::{PcapFile, PcapNgFile, ethernet, ipv4, ipv6, sctp, sctp_data, tcp, udp};
    use super::*;
    use crate::corpus::{Corpus, Format};
    use proptest::prelude::*;

    /// Captures with something of everything, for damaging.
    fn captures() -> [(Format, Vec<u8>); 2] {
        let fragments = [sctp_data(2, 1, 1, b"first"), sctp_data(1, 2, 1, b"last")].concat();
        let packets = [
            ethernet(&[0x8100], 0x0800, &ipv4(17, &udp(b"datagram"))),
            ethernet(&[], 0x86dd, &ipv6(6, &tcp(b"segment"))),
            ethernet(&[], 0x0800, &ipv4(132, &sctp(&fragments))),
        ];
        let mut pcap = PcapFile::new(Endian::Big, true, 1);
        let mut pcapng = PcapNgFile::new(Endian::Little);
        pcapng.interface(1, 0, &[(9, &[6])]);
        for packet in &packets {
            pcap.packet(1, 1, packet);
            pcapng.enhanced(0, 1, packet);
            pcapng.simple(packet);
        }
        [(Format::Pcap, pcap.bytes), (Format::PcapNg, pcapng.bytes)]
    }

    #[test]
    fn sound_captures_yield_every_message() {
        for (format, input) in captures() {
            let corpus = Corpus::parse("a", &Bytes::from(input), None).unwrap();
            assert_eq!(corpus.format(), format);
            assert_eq!(corpus.messages()[0], "datagram");
            assert_eq!(corpus.messages().last().unwrap(), "firstlast");
            assert_eq!(corpus.skipped().total(), 0);
        }
    }

    proptest! {
        #[test]
        fn damaged_captures_never_panic(
            damage in proptest::collection::vec(
                (any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        ) {
            for (format, mut input) in captures() {
                for (at, byte) in &damage {
                    let at = at.index(input.len());
                    input[at] = *byte;
                }
                if let Ok(corpus) = Corpus::parse("a", &Bytes::from(input), Some(format)) {
                    prop_assert!(corpus.messages().iter().all(|message| message.len() < 600));
                }
            }
        }
    }
}
