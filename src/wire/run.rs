//! Whole messages of one stream, as records: received ones that nobody has taken yet, and such as are to be sent. They are counted and moved
//! as one.

use core::ops::AddAssign;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::record::{LENGTH, MESSAGE_CHARGE};
use super::varint::read_varint;

/// How long the payload of the record in front is, and its header, if that is a whole message (no request, reply or part) of
/// the stream of the record before; `None` for any other, and for one that is cut off.
#[inline]
fn front(records: &[u8]) -> Option<(usize, usize)> {
    let (header, len) = match *records {
        [0, ref payload @ ..] => (1, payload.len()),
        [LENGTH, len, ..] if len < 0x80 => (2, usize::from(len)),
        [LENGTH, ref rest @ ..] => {
            let (len, taken) = read_varint(rest).ok()??;
            (1 + taken, usize::try_from(len).ok()?)
        }
        _ => return None,
    };
    (len <= records.len() - header).then_some((header, len))
}

/// Messages that follow one another in a block, none of them a request, reply or part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    records: Bytes,
    messages: usize,
    payload: usize,
}

impl Run {
    /// Takes such messages from the front of `plain`, none of them longer than `longest`, as long as they take no more than `room` of a window.
    #[inline]
    pub(crate) fn take_from(plain: &mut Bytes, longest: u64, mut room: u64) -> Self {
        let bytes: &[u8] = plain;
        let (mut at, mut messages, mut payload) = (0, 0, 0);
        while let Some(most) = room.checked_sub(MESSAGE_CHARGE) {
            let Some((header, len)) = front(&bytes[at..]) else {
                break;
            };
            if len as u64 > most.min(longest) {
                break;
            }
            room = most - len as u64;
            at += header + len;
            messages += 1;
            payload += len;
        }
        Self {
            records: plain.split_to(at),
            messages,
            payload,
        }
    }

    /// How many.
    pub(crate) const fn messages(&self) -> usize {
        self.messages
    }

    /// Their bytes.
    pub(crate) const fn payload(&self) -> usize {
        self.payload
    }

    /// Bytes of a stream's window that they take.
    pub(crate) const fn charge(&self) -> usize {
        self.payload + self.messages * MESSAGE_CHARGE as usize
    }

    /// Bytes of the block that they are.
    pub(crate) fn plain_len(&self) -> usize {
        self.records.len()
    }

    /// They hold the memory of their block no longer.
    pub(crate) fn copy(&mut self) {
        self.records = Bytes::copy_from_slice(&self.records);
    }

    /// The payload of the next one.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Bytes> {
        let (header, len) = front(&self.records)?;
        self.records.advance(header);
        self.messages -= 1;
        self.payload -= len;
        Some(self.records.split_to(len))
    }
}

/// A message has at most so many bytes to be put into a [`Packed`]: two bytes say how long it is.
const MAX_LEN: usize = (1 << 14) - 1;

/// Messages that are to follow one another in a block, none of them a request, reply or part, of the stream of the record before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    records: BytesMut,
    messages: usize,
    payload: usize,
    longest: usize,
    /// Bytes of the last record.
    last: usize,
}

/// The front of a [`Packed`]: some of its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) plain_len: usize,
    pub(crate) messages: usize,
    pub(crate) payload: usize,
}

impl Front {
    /// Bytes of a window or a queue that it takes.
    pub(crate) const fn charge(&self) -> usize {
        self.payload + self.messages * MESSAGE_CHARGE as usize
    }
}

impl AddAssign for Front {
    fn add_assign(&mut self, next: Self) {
        self.plain_len += next.plain_len;
        self.messages += next.messages;
        self.payload += next.payload;
    }
}

impl Packed {
    /// Room for so many bytes of records.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            records: BytesMut::with_capacity(capacity),
            ..Self::default()
        }
    }

    /// Appends a copy of a message; false, and nothing done, if it is too long.
    #[inline]
    pub(crate) fn push(&mut self, payload: &[u8]) -> bool {
        let len = payload.len();
        let before = self.records.len();
        if len < 0x80 {
            self.records.put_slice(&[LENGTH, len as u8]);
        } else if len <= MAX_LEN {
            self.records
                .put_slice(&[LENGTH, len as u8 | 0x80, (len >> 7) as u8]);
        } else {
            return false;
        }
        self.records.put_slice(payload);
        self.last = self.records.len() - before;
        self.messages += 1;
        self.payload += len;
        self.longest = self.longest.max(len);
        true
    }

    /// How many.
    pub(crate) const fn messages(&self) -> usize {
        self.messages
    }

    /// No message is longer; one by itself is as long.
    pub(crate) const fn longest(&self) -> usize {
        if self.messages == 1 {
            self.payload
        } else {
            self.longest
        }
    }

    /// Bytes of a window or a queue that they take.
    pub(crate) const fn charge(&self) -> usize {
        self.payload + self.messages * MESSAGE_CHARGE as usize
    }

    /// Bytes that they are in a block.
    pub(crate) fn plain_len(&self) -> usize {
        self.records.len()
    }

    /// The payloads.
    pub(crate) fn payloads(&self) -> Payloads<'_> {
        Payloads(&self.records)
    }

    /// All of it, or all but the last message.
    pub(crate) fn whole(&self, with_last: bool) -> Front {
        let all = Front {
            plain_len: self.records.len(),
            messages: self.messages,
            payload: self.payload,
        };
        let last = front(&self.records[all.plain_len - self.last..]);
        match last {
            Some((header, len)) if !with_last => Front {
                plain_len: all.plain_len - header - len,
                messages: all.messages - 1,
                payload: all.payload - len,
            },
            _ => all,
        }
    }

    /// As many messages from the front, `most` at most, as `takes` says of each length, with what is in front of it.
    pub(crate) fn front_while(&self, most: usize, takes: impl Fn(Front, usize) -> bool) -> Front {
        let mut found = Front::default();
        while found.messages < most {
            match front(&self.records[found.plain_len..]) {
                Some((header, len)) if takes(found, len) => {
                    found.plain_len += header + len;
                    found.messages += 1;
                    found.payload += len;
                }
                _ => break,
            }
        }
        found
    }

    /// Takes the records of `front` out.
    pub(crate) fn split_front(&mut self, front: Front) -> BytesMut {
        self.messages -= front.messages;
        self.payload -= front.payload;
        if front.plain_len == self.records.len() {
            // Nothing is left that would share its memory.
            return core::mem::take(&mut self.records);
        }
        self.records.split_to(front.plain_len)
    }

    /// .. as what they were.
    #[cfg(feature = "transport")]
    pub(crate) fn split_off_front(&mut self, front: Front) -> Self {
        let records = self.split_front(front);
        let last = Payloads(&records).last().map_or(0, <[u8]>::len);
        Self {
            last: if last < 0x80 { 2 } else { 3 } + last,
            records,
            messages: front.messages,
            payload: front.payload,
            longest: self.longest,
        }
    }

    /// The payload of the next one.
    pub(crate) fn pop_front(&mut self) -> Option<Bytes> {
        let (header, len) = front(&self.records)?;
        self.records.advance(header);
        self.messages -= 1;
        self.payload -= len;
        Some(self.records.split_to(len).freeze())
    }
}

/// The payloads of a [`Packed`].
#[derive(Clone, Debug)]
pub(crate) struct Payloads<'a>(&'a [u8]);

impl<'a> Iterator for Payloads<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (header, len) = front(self.0)?;
        let (payload, rest) = self.0[header..].split_at(len);
        self.0 = rest;
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{RecordKind, RecordWriter, StreamId};

    /// Records of the stream that the first one names, which is none of them.
    fn records(payloads: &[&[u8]], last_has_length: bool) -> Bytes {
        let stream = StreamId::new(3).expect("in range");
        let (mut writer, mut out) = (RecordWriter::default(), Vec::new());
        writer.put_whole(&mut out, stream, RecordKind::Message, Some(0));
        out.clear();
        for (at, payload) in payloads.iter().enumerate() {
            let len = (last_has_length || at + 1 < payloads.len()).then_some(payload.len());
            writer.put_whole(&mut out, stream, RecordKind::Message, len);
            out.extend_from_slice(payload);
        }
        out.into()
    }

    fn all(mut run: Run) -> Vec<Bytes> {
        let (messages, payload) = (run.messages(), run.payload());
        let taken: Vec<_> = core::iter::from_fn(|| run.pop_front()).collect();
        assert_eq!((run.messages(), run.charge()), (0, 0));
        assert_eq!(taken.len(), messages);
        assert_eq!(taken.iter().map(Bytes::len).sum::<usize>(), payload);
        taken
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let long = [7; 300];
        let payloads: [&[u8]; 5] = [b"a", b"", &long, &[0; 127], &[1; 128]];
        for last_has_length in [false, true] {
            let mut plain = records(&payloads, last_has_length);
            let mut run = Run::take_from(&mut plain, u64::MAX, u64::MAX);
            assert!(plain.is_empty());
            assert_eq!(run.charge(), 556 + 5 * MESSAGE_CHARGE as usize);
            run.copy();
            assert_eq!(all(run), payloads);
        }
    }

    #[test]
    fn it_ends_where_the_room_does_and_before_one_that_is_too_long() {
        let charge = MESSAGE_CHARGE;
        let of = |longest, room| {
            let mut plain = records(&[b"ab", b"cd", b"efg", b""], true);
            let run = Run::take_from(&mut plain, longest, room);
            let taken = run.messages();
            assert_eq!(plain.len(), 15 - run.plain_len());
            assert_eq!(all(run).len(), taken);
            taken
        };
        assert_eq!(of(2, 1000), 2);
        assert_eq!(of(3, 1000), 4);
        assert_eq!(of(3, 7 + 4 * charge), 4);
        assert_eq!(of(3, 6 + 3 * charge), 2);
        assert_eq!(of(3, 7 + 4 * charge - 1), 3, "an empty one takes room, too");
        assert_eq!(of(3, charge + 1), 0);
        assert_eq!(of(3, 0), 0);
    }

    #[test]
    fn whatever_else_there_is_is_left() {
        for (cut, whole) in [(0, 0), (1, 0), (3, 0), (4, 1), (5, 1), (7, 1)] {
            let mut plain = records(&[b"ab", b"cd"], true).slice(..cut);
            let run = Run::take_from(&mut plain, u64::MAX, u64::MAX);
            assert_eq!(run.messages(), whole, "cut at {cut}");
            assert_eq!(plain.len(), cut - run.plain_len());
        }
        // A stream named, more to come, a request, a reply, a part, a reserved flag, a length not in its shortest form.
        for head in [
            [0x18, 0],
            [0x28, 0],
            [0x48, 1],
            [0x88, 1],
            [0xc8, 0],
            [9, 0],
            [8, 0x80],
        ] {
            let mut plain = Bytes::copy_from_slice(&[8, 1, b'a', head[0], head[1], 0, 0]);
            let run = Run::take_from(&mut plain, u64::MAX, u64::MAX);
            assert_eq!((all(run).len(), plain.len()), (1, 4), "{head:?}");
        }
    }
    fn packed(payloads: &[&[u8]]) -> Packed {
        let mut packed = Packed::with_capacity(8);
        assert!(payloads.iter().all(|payload| packed.push(payload)));
        packed
    }

    #[test]
    fn what_is_packed_are_the_records_of_a_block() {
        let long = [7; MAX_LEN];
        let payloads: [&[u8]; 5] = [b"a", b"", &long, &[0; 127], &[1; 128]];
        let mut packed = packed(&payloads);
        assert!(!packed.push(&[0; MAX_LEN + 1]));
        assert!(packed.payloads().eq(payloads));
        assert_eq!((packed.longest(), packed.messages()), (MAX_LEN, 5));
        let mut plain = records(&payloads, true);
        assert_eq!(packed.plain_len(), plain.len());
        let run = Run::take_from(&mut plain.clone(), u64::MAX, u64::MAX);
        assert_eq!(packed.charge(), run.charge());
        assert_eq!(packed.pop_front().as_deref(), Some(payloads[0]));
        plain.advance(3);
        let all = packed.whole(true);
        assert_eq!(packed.split_front(all).freeze(), plain);
        assert_eq!((packed.charge(), packed.pop_front()), (0, None));
    }

    #[cfg(feature = "transport")]
    #[test]
    fn what_is_split_off_can_be_taken_apart_as_all_was() {
        let payloads: [&[u8]; 4] = [b"a", &[2; 130], b"", b"bc"];
        let all = packed(&payloads);
        for taken in 1..=4 {
            let front = all.front_while(taken, |_, _| true);
            let split = all.clone().split_off_front(front);
            assert_eq!(split.whole(true), front);
            let but_last = all.front_while(taken - 1, |_, _| true);
            assert_eq!(split.whole(false), but_last);
        }
    }

    #[test]
    fn any_front_of_what_is_packed_can_be_taken_out() {
        let payloads: [&[u8]; 4] = [b"a", b"bc", b"", &[1; 200]];
        let all = packed(&payloads);
        let front = |messages, plain_len, payload| Front {
            plain_len,
            messages,
            payload,
        };
        assert_eq!(all.whole(true), front(4, 212, 203));
        assert_eq!(all.whole(false), front(3, 9, 3));
        let up_to = |most, longest| all.front_while(most, |_, len| len <= longest);
        assert_eq!(up_to(9, 200), all.whole(true));
        assert_eq!(up_to(3, 200), all.whole(false));
        assert_eq!(up_to(9, 1), front(1, 3, 1));
        let short = all.front_while(9, |before, len| before.plain_len + len < 8);
        assert_eq!(short, front(3, 9, 3));
        for taken in 0..=4 {
            let mut rest = all.clone();
            let front = rest.front_while(taken, |_, _| true);
            let records = rest.split_front(front);
            assert!(Payloads(&records).eq(payloads[..taken].iter().copied()));
            assert!(rest.payloads().eq(payloads[taken..].iter().copied()));
            let left: usize = payloads[taken..].iter().map(|it| it.len()).sum();
            assert_eq!((rest.messages(), rest.payload), (4 - taken, left));
        }
    }
}
