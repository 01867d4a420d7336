//! SCTP (RFC 9260): a packet holds chunks, and DATA chunks hold messages or fragments of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::{Bytes, BytesMut};

use super::packet::Sctp;
use super::{Endian, Packet};
use crate::corpus::ParseError;
use crate::corpus::sink::{Sink, SkipReason};
use crate::units::Time;

const COMMON_HEADER_LEN: usize = 12;
const CHUNK_HEADER_LEN: usize = 4;
const DATA: u8 = 0;
const DATA_HEADER_LEN: usize = 16;
const FLAG_END: u8 = 1;
const FLAG_BEGIN: u8 = 2;
const FLAG_UNORDERED: u8 = 4;

/// Joins the fragments of messages.
///
/// Fragments of one message have consecutive transmission sequence numbers (TSN). They are joined if
/// they were captured in that order, and the message then has the time of the last one. If one is
/// missing or late, every fragment becomes a message of its own; as it does when the whole would
/// exceed the limit for a message. A copy of a fragment that waits to be joined is skipped.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    // Ordered, so that what is left at the end comes out in the same order on every run.
    partial: BTreeMap<Stream, Partial>,
}

/// A stream of one direction of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stream {
    source: IpAddr,
    destination: IpAddr,
    ports: u32,
    verification_tag: u32,
    id: u16,
    unordered: bool,
}

/// The first fragments of a message. Never empty.
#[derive(Debug)]
struct Partial {
    first_tsn: u32,
    len: usize,
    fragments: Vec<Fragment>,
}

#[derive(Debug)]
struct Fragment {
    offset: usize,
    at: Option<Time>,
    bytes: Bytes,
}

impl Partial {
    /// How far `tsn` is behind the first fragment's.
    fn index(&self, tsn: u32) -> usize {
        tsn.wrapping_sub(self.first_tsn) as usize
    }
}

impl Reassembly {
    /// Takes the messages out of all DATA chunks of one packet.
    pub(super) fn handle(
        &mut self,
        input: &Bytes,
        packet: &Packet<'_>,
        sctp: &Sctp<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), ParseError> {
        let Some((common, mut chunks)) = sctp.segment.split_at_checked(COMMON_HEADER_LEN) else {
            sink.skip(SkipReason::Malformed);
            return Ok(());
        };
        let word = |at| Endian::Big.u32(common, at).unwrap_or_default();
        let stream = Stream {
            source: sctp.source,
            destination: sctp.destination,
            ports: word(0),
            verification_tag: word(4),
            id: 0,
            unordered: false,
        };
        let mut carries_data = false;
        while !chunks.is_empty() {
            let Some((chunk, rest)) = split_chunk(chunks) else {
                sink.skip(SkipReason::Malformed);
                return Ok(());
            };
            chunks = rest;
            if chunk[0] != DATA {
                continue;
            }
            carries_data = true;
            let Some((data_header, user_data)) = chunk
                .split_at_checked(DATA_HEADER_LEN)
                .filter(|(_, user_data)| !user_data.is_empty())
            else {
                sink.skip(SkipReason::Malformed);
                continue;
            };
            let flags = data_header[1];
            let tsn = Endian::Big.u32(data_header, 4).unwrap_or_default();
            let stream = Stream {
                id: Endian::Big.u16(data_header, 8).unwrap_or_default(),
                unordered: flags & FLAG_UNORDERED != 0,
                ..stream
            };
            let fragment = Fragment {
                offset: packet.offset,
                at: packet.at,
                bytes: input.slice_ref(user_data),
            };
            let (begin, end) = (flags & FLAG_BEGIN != 0, flags & FLAG_END != 0);
            if begin && end {
                sink.push_recorded(fragment.offset, fragment.bytes, fragment.at)?;
            } else {
                self.join(stream, tsn, begin, end, fragment, sink)?;
            }
        }
        if !carries_data {
            sink.skip(SkipReason::NoPayload);
        }
        Ok(())
    }

    fn join(
        &mut self,
        stream: Stream,
        tsn: u32,
        begin: bool,
        end: bool,
        fragment: Fragment,
        sink: &mut Sink<'_>,
    ) -> Result<(), ParseError> {
        if let Some(partial) = self.partial.get_mut(&stream) {
            let index = partial.index(tsn);
            if index < partial.fragments.len() {
                sink.skip(SkipReason::Retransmission);
                return Ok(());
            }
            let len = partial.len + fragment.bytes.len();
            if !begin && index == partial.fragments.len() && len <= sink.max_message() {
                partial.len = len;
                partial.fragments.push(fragment);
                return match self.partial.remove(&stream) {
                    Some(whole) if end => join_all(&whole, sink),
                    Some(partial) => {
                        self.partial.insert(stream, partial);
                        Ok(())
                    }
                    None => Ok(()),
                };
            }
        }
        if let Some(broken) = self.partial.remove(&stream) {
            emit_separately(broken.fragments, sink)?;
        }
        if begin {
            let partial = Partial {
                first_tsn: tsn,
                len: fragment.bytes.len(),
                fragments: vec![fragment],
            };
            self.partial.insert(stream, partial);
            Ok(())
        } else {
            emit_separately(vec![fragment], sink)
        }
    }

    /// Hands out the fragments whose message did not become whole.
    pub(super) fn finish(self, sink: &mut Sink<'_>) -> Result<(), ParseError> {
        for partial in self.partial.into_values() {
            emit_separately(partial.fragments, sink)?;
        }
        Ok(())
    }
}

/// The first chunk with its header, and what follows its padding.
fn split_chunk(chunks: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(Endian::Big.u16(chunks, 2)?);
    if len < CHUNK_HEADER_LEN {
        return None;
    }
    let chunk = chunks.get(..len)?;
    // The padding of the last chunk may be missing.
    let rest = chunks.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some((chunk, rest))
}

fn join_all(whole: &Partial, sink: &mut Sink<'_>) -> Result<(), ParseError> {
    let mut message = BytesMut::with_capacity(whole.len);
    let (mut offset, mut at) = (0, None);
    for fragment in &whole.fragments {
        message.extend_from_slice(&fragment.bytes);
        (offset, at) = (fragment.offset, fragment.at);
    }
    sink.push_recorded(offset, message.freeze(), at)
}

fn emit_separately(fragments: Vec<Fragment>, sink: &mut Sink<'_>) -> Result<(), ParseError> {
    sink.count_unjoined(fragments.len());
    for fragment in fragments {
        sink.push_recorded(fragment.offset, fragment.bytes, fragment.at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::builders::{PcapFile, ipv4, sctp, sctp_data};
    use super::*;
    use crate::corpus::{Corpus, Limits};

    const WHOLE: u8 = FLAG_BEGIN | FLAG_END;

    /// A corpus from packets that hold these chunks each, one a second.
    fn corpus(packets: &[&[Vec<u8>]]) -> Corpus {
        corpus_with(packets, &Limits::default())
    }

    fn corpus_with(packets: &[&[Vec<u8>]], limits: &Limits) -> Corpus {
        let mut file = PcapFile::new(Endian::Little, false, 101);
        for (second, chunks) in (0..).zip(packets) {
            file.packet(second, 0, &ipv4(132, &sctp(&chunks.concat())));
        }
        Corpus::parse_with("a", &Bytes::from(file.bytes), None, limits).unwrap()
    }

    fn data(flags: u8, tsn: u32, user_data: &[u8]) -> Vec<u8> {
        sctp_data(flags, tsn, 7, user_data)
    }

    #[test]
    fn each_data_chunk_of_a_packet_is_a_message() {
        let heartbeat = vec![4, 0, 0, 4];
        let corpus = corpus(&[
            &[
                heartbeat.clone(),
                data(WHOLE, 1, b"one"),
                data(WHOLE, 2, b"two"),
            ],
            &[heartbeat],
            &[data(WHOLE | FLAG_UNORDERED, 3, b"three")],
        ]);
        assert_eq!(corpus.messages(), ["one", "two", "three"]);
        assert_eq!(corpus.skipped().count(SkipReason::NoPayload), 1);
        assert_eq!(corpus.skipped().total(), 1);
    }

    #[test]
    fn fragments_in_order_are_joined_across_wrapping_numbers() {
        let corpus = corpus(&[
            &[data(FLAG_BEGIN, u32::MAX, b"be")],
            &[data(0, 0, b"gin"), sctp_data(WHOLE, 9, 8, b"other stream")],
            &[data(FLAG_END, 1, b"ning")],
        ]);
        assert_eq!(corpus.messages(), ["other stream", "beginning"]);
        assert_eq!(corpus.time(1), Some(Time::from_nanos(2_000_000_000)));
        assert_eq!(corpus.unjoined_fragments(), 0);
    }

    #[test]
    fn copies_of_waiting_fragments_are_skipped() {
        let corpus = corpus(&[
            &[data(FLAG_BEGIN, 1, b"a")],
            &[data(FLAG_BEGIN, 1, b"a")],
            &[data(0, 2, b"b")],
            &[data(0, 2, b"b")],
            &[data(FLAG_END, 3, b"c")],
        ]);
        assert_eq!(corpus.messages(), ["abc"]);
        assert_eq!(corpus.skipped().count(SkipReason::Retransmission), 2);
    }

    #[test]
    fn fragments_out_of_order_stand_alone() {
        let corpus = corpus(&[
            &[data(FLAG_END, 9, b"end only")],
            &[data(FLAG_BEGIN, 11, b"begin")],
            &[data(FLAG_END, 13, b"gap before")],
            &[data(FLAG_BEGIN, 20, b"never ended")],
            &[data(FLAG_BEGIN, 30, b"nor this")],
        ]);
        assert_eq!(
            corpus.messages(),
            ["end only", "begin", "gap before", "never ended", "nor this"]
        );
        assert_eq!(corpus.unjoined_fragments(), 5);
    }

    #[test]
    fn a_whole_above_the_limit_stays_in_fragments() {
        let packets: &[&[Vec<u8>]] =
            &[&[data(FLAG_BEGIN, 1, b"123")], &[data(FLAG_END, 2, b"456")]];
        let limits = Limits::default().max_message(5);
        assert_eq!(corpus_with(packets, &limits).messages(), ["123", "456"]);
    }

    #[test]
    fn damaged_chunks_are_counted_and_the_rest_is_kept() {
        let corpus = corpus(&[
            &[data(WHOLE, 1, b"kept"), vec![0, 3, 0, 99]],
            &[vec![0, 3, 0, 3]],
            &[vec![0, 3, 0, 16], vec![0; 12], data(WHOLE, 2, b"kept too")],
            &[vec![0, 3]],
        ]);
        assert_eq!(corpus.messages(), ["kept", "kept too"]);
        assert_eq!(corpus.skipped().count(SkipReason::Malformed), 4);
    }
}
