//! Captures and packets built by hand, for the tests of the readers. Checksums are left at zero: no
//! reader looks at them.

use super::Endian;

const PORTS: [u8; 4] = [0x13, 0x88, 0x17, 0x70];

pub(super) fn ethernet(vlan_types: &[u16], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![2; 12];
    for vlan_type in vlan_types {
        packet.extend(vlan_type.to_be_bytes());
        packet.extend([0, 42]);
    }
    packet.extend(ether_type.to_be_bytes());
    packet.extend(payload);
    packet
}

pub(super) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_with(&[], 0, protocol, payload)
}

/// With `options`, of a multiple of four bytes, and the word of flags and fragment offset.
pub(super) fn ipv4_with(options: &[u8], flags: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let words = 5 + options.len() / 4;
    let total = (words * 4 + payload.len()) as u16;
    let mut packet = vec![0x40 | words as u8, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(flags.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(options);
    packet.extend(payload);
    packet
}

pub(super) fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    ipv6_with(next_header, payload)
}

/// With a payload that may start with extension headers, the first of kind `next_header`.
pub(super) fn ipv6_with(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend([0xfd; 32]);
    packet.extend(payload);
    packet
}

pub(super) fn udp(payload: &[u8]) -> Vec<u8> {
    let mut packet = PORTS.to_vec();
    packet.extend((payload.len() as u16 + 8).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// With one word of options.
pub(super) fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut packet = PORTS.to_vec();
    packet.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x18, 1, 0, 0, 0, 0, 0]);
    packet.extend([1, 1, 1, 0]);
    packet.extend(payload);
    packet
}

pub(super) fn sctp(chunks: &[u8]) -> Vec<u8> {
    let mut packet = PORTS.to_vec();
    packet.extend([9, 9, 9, 9, 0, 0, 0, 0]);
    packet.extend(chunks);
    packet
}

/// A DATA chunk, padded.
pub(super) fn sctp_data(flags: u8, tsn: u32, stream: u16, user_data: &[u8]) -> Vec<u8> {
    let mut chunk = vec![0, flags];
    chunk.extend((user_data.len() as u16 + 16).to_be_bytes());
    chunk.extend(tsn.to_be_bytes());
    chunk.extend(stream.to_be_bytes());
    chunk.extend([0, 0, 0, 0, 0, 60]);
    chunk.extend(user_data);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

fn put(bytes: &mut Vec<u8>, endian: Endian, words: &[u32]) {
    for word in words {
        bytes.extend(match endian {
            Endian::Little => word.to_le_bytes(),
            Endian::Big => word.to_be_bytes(),
        });
    }
}

fn half_words(endian: Endian, first: u16, second: u16) -> u32 {
    match endian {
        Endian::Little => u32::from(second) << 16 | u32::from(first),
        Endian::Big => u32::from(first) << 16 | u32::from(second),
    }
}

pub(super) struct PcapFile {
    pub(super) bytes: Vec<u8>,
    endian: Endian,
}

impl PcapFile {
    pub(super) fn new(endian: Endian, nanos: bool, link_type: u32) -> Self {
        let mut bytes = Vec::new();
        let magic = if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let version = half_words(endian, 2, 4);
        put(
            &mut bytes,
            endian,
            &[magic, version, 0, 0, 65_535, link_type],
        );
        Self { bytes, endian }
    }

    pub(super) fn packet(&mut self, second: u32, tick: u32, packet: &[u8]) {
        let len = packet.len() as u32;
        put(&mut self.bytes, self.endian, &[second, tick, len, len]);
        self.bytes.extend(packet);
    }

    pub(super) fn short_packet(&mut self, captured: &[u8], original_len: usize) {
        let lens = [0, 0, captured.len() as u32, original_len as u32];
        put(&mut self.bytes, self.endian, &lens);
        self.bytes.extend(captured);
    }
}

pub(super) struct PcapNgFile {
    pub(super) bytes: Vec<u8>,
    endian: Endian,
    boundaries: Vec<usize>,
}

impl PcapNgFile {
    pub(super) fn new(endian: Endian) -> Self {
        let mut file = Self {
            bytes: Vec::new(),
            endian,
            boundaries: Vec::new(),
        };
        file.section(endian);
        file
    }

    /// Where blocks end.
    pub(super) fn boundaries(&self) -> &[usize] {
        &self.boundaries
    }

    pub(super) fn section(&mut self, endian: Endian) {
        self.endian = endian;
        let mut body = Vec::new();
        let version = half_words(endian, 1, 0);
        put(
            &mut body,
            endian,
            &[0x1a2b_3c4d, version, u32::MAX, u32::MAX],
        );
        self.block(0x0a0d_0d0a, &body);
    }

    pub(super) fn interface(&mut self, link_type: u16, snap_len: u32, options: &[(u16, &[u8])]) {
        let mut body = Vec::new();
        let link = half_words(self.endian, link_type, 0);
        put(&mut body, self.endian, &[link, snap_len]);
        for (code, value) in options {
            let head = half_words(self.endian, *code, value.len() as u16);
            put(&mut body, self.endian, &[head]);
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        if !options.is_empty() {
            put(&mut body, self.endian, &[0]);
        }
        self.block(1, &body);
    }

    pub(super) fn enhanced(&mut self, interface: u32, ticks: u64, packet: &[u8]) {
        let mut body = Vec::new();
        let len = packet.len() as u32;
        let words = [interface, (ticks >> 32) as u32, ticks as u32, len, len];
        put(&mut body, self.endian, &words);
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        self.block(6, &body);
    }

    pub(super) fn simple(&mut self, packet: &[u8]) {
        let mut body = Vec::new();
        put(&mut body, self.endian, &[packet.len() as u32]);
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        self.block(3, &body);
    }

    /// A block of any kind, its body padded already.
    pub(super) fn block(&mut self, kind: u32, body: &[u8]) {
        let len = body.len() as u32 + 12;
        put(&mut self.bytes, self.endian, &[kind, len]);
        self.bytes.extend(body);
        put(&mut self.bytes, self.endian, &[len]);
        self.boundaries.push(self.bytes.len());
    }
}
