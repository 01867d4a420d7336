//! From the first byte of a packet to the payload of its transport protocol.

use std::net::IpAddr;

use etherparse::err::LenError;
use etherparse::err::packet::SliceError;
use etherparse::{
    EtherType, LaxSlicedPacket, LenSource, NetSlice, SlicedPacket, TransportSlice, ip_number,
};

use super::Endian;
use crate::corpus::SkipReason;

/// How packets start, by the link types of the tcpdump registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// An Ethernet header, perhaps with VLAN tags.
    Ethernet,
    /// The header that Linux puts before packets of its `any` device.
    CookedV1,
    /// The second version of that header.
    CookedV2,
    /// No header: IP starts at once.
    Ip,
    /// The address family as a word, of either byte order.
    Loopback,
}

impl Link {
    pub(super) const fn from_type(link_type: u16) -> Option<Self> {
        Some(match link_type {
            0 | 108 => Self::Loopback,
            1 => Self::Ethernet,
            // 12 and 14 are what some systems write for 101.
            12 | 14 | 101 | 228 | 229 => Self::Ip,
            113 => Self::CookedV1,
            276 => Self::CookedV2,
            _ => return None,
        })
    }
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    /// The payload of a TCP segment or UDP datagram.
    Message(&'a [u8]),
    /// An SCTP packet.
    Sctp(Sctp<'a>),
}

/// An SCTP packet and the hosts between which it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sctp<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) segment: &'a [u8],
}

/// The payload of `packet`, or why there is none. `is_whole`: it was not cut when it was captured.
pub(super) fn payload(
    link: Link,
    packet: &[u8],
    is_whole: bool,
) -> Result<Payload<'_>, SkipReason> {
    let start = Start::of(link, packet)?;
    let sliced = match start.slice() {
        Ok(sliced) => sliced,
        Err(error) if is_whole && leaves_length_to_hardware(&error) => {
            return start.offloaded().ok_or(SkipReason::Malformed);
        }
        Err(_) => return Err(SkipReason::Malformed),
    };
    let (source, destination, ip): (IpAddr, IpAddr, _) = match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
            ip.payload(),
        ),
        Some(NetSlice::Ipv6(ip)) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
            ip.payload(),
        ),
        _ => return Err(SkipReason::NotIp),
    };
    if ip.fragmented {
        return Err(SkipReason::IpFragment);
    }
    match sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => Ok(Payload::Message(tcp.payload())),
        Some(TransportSlice::Udp(udp)) => Ok(Payload::Message(udp.payload())),
        None if ip.ip_number == ip_number::SCTP => Ok(Payload::Sctp(Sctp {
            source,
            destination,
            segment: ip.payload,
        })),
        _ => Err(SkipReason::OtherTransport),
    }
}

/// Whether an IPv4 packet has zero for a length: what a host hands to an interface that cuts TCP
/// into segments itself, and what is captured there.
fn leaves_length_to_hardware(error: &SliceError) -> bool {
    matches!(
        error,
        SliceError::Len(LenError {
            len: 0,
            len_source: LenSource::Ipv4HeaderTotalLen,
            ..
        })
    )
}

/// Where a packet is handed to the library. The link headers that are stepped over here are those of
/// which it knows too little: version 2 of the cooked header, devices of unusual types, address
/// families.
#[derive(Clone, Copy, Debug)]
enum Start<'a> {
    Ethernet(&'a [u8]),
    EtherType(EtherType, &'a [u8]),
    Ip(&'a [u8]),
}

impl<'a> Start<'a> {
    fn of(link: Link, packet: &'a [u8]) -> Result<Self, SkipReason> {
        let ether_type = |at, header_len| {
            let ether_type = Endian::Big.u16(packet, at)?;
            Some(Self::EtherType(
                ether_type.into(),
                packet.get(header_len..)?,
            ))
        };
        match link {
            Link::Ethernet => Ok(Self::Ethernet(packet)),
            Link::CookedV1 => ether_type(14, 16).ok_or(SkipReason::Malformed),
            Link::CookedV2 => ether_type(0, 20).ok_or(SkipReason::Malformed),
            Link::Ip => Ok(Self::Ip(packet)),
            Link::Loopback => {
                let (family, rest) = packet.split_first_chunk().ok_or(SkipReason::Malformed)?;
                let family = u32::from_be_bytes(*family);
                // Families are small, so a large one was written in the other byte order.
                let family = if family > 0xffff {
                    family.swap_bytes()
                } else {
                    family
                };
                match family {
                    // IPv4 everywhere; IPv6 on Linux, NetBSD and OpenBSD, FreeBSD, macOS.
                    2 | 10 | 24 | 28 | 30 => Ok(Self::Ip(rest)),
                    _ => Err(SkipReason::NotIp),
                }
            }
        }
    }

    /// The headers and the payload, all lengths agreeing.
    fn slice(self) -> Result<SlicedPacket<'a>, SliceError> {
        match self {
            Self::Ethernet(packet) => SlicedPacket::from_ethernet(packet),
            Self::EtherType(ether_type, packet) => {
                SlicedPacket::from_ether_type(ether_type, packet)
            }
            Self::Ip(packet) => SlicedPacket::from_ip(packet),
        }
    }

    /// The payload of a TCP segment that ends where the packet does, whatever the lengths say.
    fn offloaded(self) -> Option<Payload<'a>> {
        let sliced = match self {
            Self::Ethernet(packet) => LaxSlicedPacket::from_ethernet(packet).ok()?,
            Self::EtherType(ether_type, packet) => {
                LaxSlicedPacket::from_ether_type(ether_type, packet)
            }
            Self::Ip(packet) => LaxSlicedPacket::from_ip(packet).ok()?,
        };
        match sliced.transport {
            Some(TransportSlice::Tcp(tcp)) => Some(Payload::Message(tcp.payload())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::builders::{ethernet, ipv4, ipv4_with, ipv6, ipv6_with, tcp, udp};
    use super::*;

    fn message(link_type: u16, packet: &[u8]) -> Result<Vec<u8>, SkipReason> {
        let link = Link::from_type(link_type).unwrap();
        payload(link, packet, true).map(|payload| match payload {
            Payload::Message(message) => message.to_vec(),
            Payload::Sctp(sctp) => sctp.segment.to_vec(),
        })
    }

    fn prefixed(prefix: &[u8], packet: &[u8]) -> Vec<u8> {
        [prefix, packet].concat()
    }

    #[test]
    fn every_link_type_leads_to_the_payload() {
        let v4 = ipv4(17, &udp(b"four"));
        let v6 = ipv6(6, &tcp(b"six"));
        let cooked_v1 = |ether_type: u16| {
            let mut header = vec![0, 0, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            header.extend(ether_type.to_be_bytes());
            header
        };
        let cooked_v2 = |ether_type: u16| {
            let mut header = ether_type.to_be_bytes().to_vec();
            header.extend([0; 18]);
            header
        };
        let cases = [
            (1, ethernet(&[], 0x0800, &v4), ethernet(&[], 0x86dd, &v6)),
            (
                1,
                ethernet(&[0x8100], 0x0800, &v4),
                ethernet(&[0x88a8, 0x8100], 0x86dd, &v6),
            ),
            (
                113,
                prefixed(&cooked_v1(0x0800), &v4),
                prefixed(&cooked_v1(0x86dd), &v6),
            ),
            (
                276,
                prefixed(&cooked_v2(0x0800), &v4),
                prefixed(&cooked_v2(0x86dd), &v6),
            ),
            (101, v4.clone(), v6.clone()),
            (12, v4.clone(), v6.clone()),
            (14, v4.clone(), v6.clone()),
            (228, v4.clone(), v6.clone()),
            (229, v4.clone(), v6.clone()),
            (
                0,
                prefixed(&[2, 0, 0, 0], &v4),
                prefixed(&[30, 0, 0, 0], &v6),
            ),
            (
                0,
                prefixed(&[0, 0, 0, 2], &v4),
                prefixed(&[0, 0, 0, 28], &v6),
            ),
            (
                108,
                prefixed(&[0, 0, 0, 2], &v4),
                prefixed(&[0, 0, 0, 24], &v6),
            ),
        ];
        for (link_type, four, six) in cases {
            assert_eq!(message(link_type, &four).unwrap(), b"four", "{link_type}");
            assert_eq!(message(link_type, &six).unwrap(), b"six", "{link_type}");
        }
        assert_eq!(Link::from_type(105), None);
    }

    #[test]
    fn padding_behind_the_ip_packet_is_no_payload() {
        let mut packet = ethernet(&[], 0x0800, &ipv4(6, &tcp(b"")));
        packet.extend([0; 6]);
        assert_eq!(message(1, &packet).unwrap(), b"");
    }

    #[test]
    fn segments_that_hardware_was_to_cut_reach_to_the_end_of_the_packet() {
        let mut segment = ipv4(6, &tcp(b"large"));
        segment[2..4].fill(0);
        let mut datagram = ipv4(17, &udp(b"large"));
        datagram[2..4].fill(0);
        let tagged = ethernet(&[0x8100], 0x0800, &segment);
        assert_eq!(message(101, &segment).unwrap(), b"large");
        assert_eq!(message(1, &tagged).unwrap(), b"large");
        assert_eq!(message(101, &datagram), Err(SkipReason::Malformed));
        assert_eq!(
            payload(Link::Ip, &segment, false),
            Err(SkipReason::Malformed)
        );
    }

    #[test]
    fn options_and_extension_headers_are_stepped_over() {
        let v4 = ipv4_with(&[1, 1, 1, 0], 0, 17, &udp(b"options"));
        assert_eq!(message(101, &v4).unwrap(), b"options");
        // Hop-by-hop, then destination options, then UDP.
        let mut extended = vec![60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
        extended.extend(udp(b"extended"));
        assert_eq!(message(101, &ipv6_with(0, &extended)).unwrap(), b"extended");
    }

    #[test]
    fn fragments_are_skipped() {
        // More fragments follow; or an offset.
        for flags in [0x2000, 0x0001] {
            let v4 = ipv4_with(&[], flags, 17, &udp(b"piece"));
            assert_eq!(message(101, &v4), Err(SkipReason::IpFragment));
        }
        let mut fragment = vec![17, 0, 0, 1, 0, 0, 0, 9];
        fragment.extend(udp(b"piece"));
        assert_eq!(
            message(101, &ipv6_with(44, &fragment)),
            Err(SkipReason::IpFragment)
        );
        // A fragment header that says: this is all there is.
        fragment[3] = 0;
        assert_eq!(message(101, &ipv6_with(44, &fragment)).unwrap(), b"piece");
    }

    #[test]
    fn what_is_not_a_transport_payload_is_named() {
        let arp = ethernet(&[], 0x0806, &[0; 28]);
        let lldp = ethernet(&[], 0x88cc, &[2, 7, 4, 0]);
        let icmp = ipv4(1, &[8, 0, 0, 0, 0, 1, 0, 1]);
        let gre = ipv4(47, &[0; 8]);
        assert_eq!(message(1, &lldp), Err(SkipReason::NotIp));
        assert!(message(1, &arp).is_err());
        assert_eq!(message(0, &[7, 0, 0, 0, 1]), Err(SkipReason::NotIp));
        assert_eq!(message(101, &icmp), Err(SkipReason::OtherTransport));
        assert_eq!(message(101, &gre), Err(SkipReason::OtherTransport));
        assert_eq!(message(101, &[0x45]), Err(SkipReason::Malformed));
        assert_eq!(message(113, &[0; 15]), Err(SkipReason::Malformed));
        assert_eq!(message(276, &[8, 0, 0]), Err(SkipReason::Malformed));
        assert_eq!(message(108, &[0, 0]), Err(SkipReason::Malformed));
    }

    #[test]
    fn a_packet_cut_anywhere_has_no_payload() {
        let packet = ethernet(&[0x8100], 0x0800, &ipv4(6, &tcp(b"whole")));
        for cut in 0..packet.len() {
            assert!(message(1, &packet[..cut]).is_err(), "{cut}");
        }
    }
}
