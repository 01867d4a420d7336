//! Building blocks: records of waiting messages, gathered or by reference.

use bytes::{Bytes, BytesMut};

use super::observer::MessageRun;
use super::outgoing::{Entry, MAX_COPIED, Outgoing};
use super::retained::Retained;
use super::sender::SendCredit;
use super::stream::{Company, SendStream};
use crate::wire::{Front, MESSAGE_CHARGE, Packed, Place, RecordKind, RecordWriter, StreamId};

/// A block that lacks less than this part of what it may have is full enough. Arbitrary: a few messages of the longest that are copied.
const NEARLY_FULL: usize = 16;

/// What messages that follow one another may take.
#[derive(Clone, Copy, Debug)]
struct AlikeLimits {
    /// Of the block.
    room: usize,
    window: usize,
    /// So much payload is enough.
    most: usize,
}

impl AlikeLimits {
    /// Whether a message of so many bytes may follow `before`, and something behind it.
    const fn take(&self, before: Front, len: usize) -> bool {
        before.plain_len + len < self.room
            && before.charge() + len + MESSAGE_CHARGE as usize <= self.window
            && before.payload < self.most
    }

    /// What may be taken of messages that stand together, of which the last one is not if nothing follows.
    fn front_of(&self, packed: &Packed, is_followed: bool) -> Front {
        let all = packed.whole(is_followed);
        // Header and payload of the last are longer than its payload.
        if all.plain_len <= self.room && all.charge() <= self.window && all.payload <= self.most {
            return all;
        }
        packed.front_while(all.messages, |before, len| self.take(before, len))
    }
}

/// How much of a block is one stream's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) stream: StreamId,
    pub(super) messages: u32,
    pub(super) plain: usize,
    /// What left the stream's queue, as it was counted there.
    pub(super) drained: usize,
    /// The number of the stream's first message that is not in the block.
    pub(super) next: u64,
}

impl Member {
    /// Its messages.
    pub(super) fn run(&self) -> MessageRun {
        let count = u64::from(self.messages);
        MessageRun {
            stream: self.stream,
            first: self.next.saturating_sub(count),
            count,
            bytes: (self.drained as u64).saturating_sub(count * MESSAGE_CHARGE),
        }
    }
}

/// Whose messages a block has, once it is built.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) members: Vec<Member>,
    pub(super) plain_len: usize,
    pub(super) company: Company,
}

/// A block being built.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    /// Record headers and copied payloads.
    pub(super) bytes: Vec<u8>,
    /// Payloads by reference, and after how many of `bytes` they stand.
    pub(super) shared: Vec<(usize, Bytes)>,
    pub(super) members: Vec<Member>,
    pub(super) plain_len: usize,
    /// What all its messages have in common.
    pub(super) company: Company,
    by_reference: bool,
    /// Numbers blocks, so that a stream knows whether it has a place among the members.
    number: u64,
}

impl BlockBuilder {
    /// Begins a block in `buffer`. With `by_reference`, long payloads are not copied.
    pub(super) fn begin(&mut self, mut buffer: Vec<u8>, company: Company, by_reference: bool) {
        buffer.clear();
        self.bytes = buffer;
        self.shared.clear();
        self.members.clear();
        self.plain_len = 0;
        self.company = company;
        self.by_reference = by_reference;
        self.number += 1;
    }

    /// Takes messages of one stream until `room` plain bytes are used, the stream has nothing more
    /// that may be sent, or `quantum` payload bytes were taken. Says whether the block is complete:
    /// its last record has no length and nothing may follow.
    pub(super) fn take(
        &mut self,
        (writer, retained, credit): (&mut RecordWriter, &mut Retained, &mut SendCredit),
        stream: StreamId,
        send: &mut SendStream,
        room: usize,
        quantum: usize,
        no_others: bool,
    ) -> bool {
        let before = self.plain_len;
        let mut member = Member {
            stream,
            messages: 0,
            plain: 0,
            drained: 0,
            next: 0,
        };
        let mut payload = 0;
        let mut complete = false;
        while !complete {
            if !retained.is_on() {
                let most = quantum.saturating_sub(payload);
                payload +=
                    self.take_alike((&mut *writer, &mut *credit), send, room, most, &mut member);
            }
            if self.is_nearly_full(room, send) {
                complete = true;
                break;
            }
            if payload >= quantum || !send.can_send(credit.left()) {
                break;
            }
            let front_room = send.front_room(credit.left());
            let front_charge = send.front_charge();
            let Some((front, is_followed)) = send.queue.front() else {
                break;
            };
            if front.sensitive != self.company.sensitive {
                break;
            }
            let remaining = front.payload.len() - send.front_sent;
            let left = room.saturating_sub(self.plain_len);
            if self.plain_len > 0 && (left == 0 || (remaining > left && remaining <= room)) {
                complete = true;
                break;
            }
            let take = remaining
                .min(room)
                .min(left.max(1))
                .min(front_room.map_or(0, |room| usize::try_from(room).unwrap_or(usize::MAX)));
            let finishes = take == remaining;
            let place = match (send.front_sent, finishes) {
                (0, true) => Place::Whole,
                (0, false) => Place::First {
                    message_len: front.payload.len() as u64,
                },
                (_, false) => Place::Middle,
                (_, true) => Place::Last,
            };
            complete = take == left || (finishes && !is_followed && no_others);
            let payload_len = (!complete).then_some(take);
            let header_at = self.bytes.len();
            writer.put(&mut self.bytes, stream, front.kind, place, payload_len);
            self.plain_len += self.bytes.len() - header_at + take;
            self.put_payload(front, send.front_sent, take);
            if retained.is_on() {
                retained.push_piece(stream, front, (send.front_sent, take));
                send.unacked += 1;
            }
            payload += take;
            member.drained += take;
            let taken = take as u64 + front_charge;
            send.sent += taken;
            credit.take(send, taken);
            send.queued_bytes -= take;
            if finishes {
                member.messages += 1;
                member.drained += MESSAGE_CHARGE as usize;
                send.queued_bytes -= MESSAGE_CHARGE as usize;
                send.front_sent = 0;
                send.queue.pop_front();
            } else {
                send.front_sent += take;
            }
        }
        member.plain = self.plain_len - before;
        if member.plain > 0 {
            self.add_member(member, send);
        }
        complete
    }

    /// Takes whole messages that are copied and have others of their kind behind them, as the loop in [`Self::take`] would
    /// each, and leaves it whatever else there is. Their payload bytes.
    fn take_alike(
        &mut self,
        (writer, credit): (&mut RecordWriter, &mut SendCredit),
        send: &mut SendStream,
        room: usize,
        most: usize,
        member: &mut Member,
    ) -> usize {
        let Some(window) = send.front_room(credit.left()) else {
            return 0;
        };
        if send.front_sent > 0 {
            return 0;
        }
        let window = usize::try_from(window + MESSAGE_CHARGE).unwrap_or(usize::MAX);
        let mut taken = Front::default();
        while let Some((entry, is_followed)) = send.queue.front_entry_mut() {
            let limits = AlikeLimits {
                room: room.saturating_sub(self.plain_len),
                window: window - taken.charge(),
                most: most.saturating_sub(taken.payload),
            };
            let front = match entry {
                Entry::One(message) => {
                    if !is_followed || !self.is_alike(message, &limits) {
                        break;
                    }
                    self.put_alike(message, writer, member.stream)
                }
                Entry::Packed(packed) if writer.is_at(member.stream) => {
                    if self.company.sensitive {
                        break;
                    }
                    let front = limits.front_of(packed, is_followed);
                    self.put_records(packed.split_front(front));
                    front
                }
                Entry::Packed(_) => break,
            };
            if front.messages == 0 {
                break;
            }
            send.queue.on_front_taken(front.messages);
            self.plain_len += front.plain_len;
            taken += front;
        }
        let queued = taken.charge();
        send.queued_bytes -= queued;
        send.sent += queued as u64;
        credit.take(send, queued as u64);
        member.messages += taken.messages as u32;
        member.drained += queued;
        taken.payload
    }

    /// Whether it ends here, rather than that records in front of the queue are looked through for how many of them fit.
    fn is_nearly_full(&self, room: usize, send: &SendStream) -> bool {
        let left = room.saturating_sub(self.plain_len);
        left < room / NEARLY_FULL
            && matches!(send.queue.front_entry(), Some(Entry::Packed(packed)) if packed.plain_len() > left)
    }

    fn is_alike(&self, message: &Outgoing, limits: &AlikeLimits) -> bool {
        let longest = if self.by_reference {
            MAX_COPIED
        } else {
            usize::MAX
        };
        let len = message.payload.len();
        matches!(message.kind, RecordKind::Message)
            && message.sensitive == self.company.sensitive
            && len <= longest
            && limits.take(Front::default(), len)
    }

    fn put_alike(
        &mut self,
        message: &Outgoing,
        writer: &mut RecordWriter,
        stream: StreamId,
    ) -> Front {
        let before = self.bytes.len();
        let payload = message.payload.len();
        writer.put_whole(&mut self.bytes, stream, message.kind, Some(payload));
        self.bytes.extend_from_slice(&message.payload);
        Front {
            plain_len: self.bytes.len() - before,
            messages: 1,
            payload,
        }
    }

    fn put_records(&mut self, records: BytesMut) {
        if self.by_reference && records.len() > MAX_COPIED {
            self.shared.push((self.bytes.len(), records.freeze()));
        } else {
            self.bytes.extend_from_slice(&records);
        }
    }

    fn put_payload(&mut self, message: &Outgoing, from: usize, len: usize) {
        if self.by_reference && len > MAX_COPIED {
            self.shared
                .push((self.bytes.len(), message.payload.slice(from..from + len)));
        } else {
            self.bytes
                .extend_from_slice(&message.payload[from..from + len]);
        }
    }

    fn add_member(&mut self, member: Member, send: &mut SendStream) {
        match send.place_in_block {
            (number, at) if number == self.number => {
                let known = &mut self.members[at];
                known.messages += member.messages;
                known.plain += member.plain;
                known.drained += member.drained;
            }
            _ => {
                send.place_in_block = (self.number, self.members.len());
                self.members.push(member);
            }
        }
    }

    /// What was gathered goes elsewhere, and has left `members` for the next block.
    pub(super) fn take_gathered(&mut self, members: Vec<Member>) -> Gathered {
        Gathered {
            members: core::mem::replace(&mut self.members, members),
            plain_len: self.plain_len,
            company: self.company,
        }
    }

    /// A block that was gathered before is the one to be put out; what had room for members here.
    pub(super) fn put_gathered(&mut self, gathered: Gathered) -> Vec<Member> {
        self.plain_len = gathered.plain_len;
        self.company = gathered.company;
        core::mem::replace(&mut self.members, gathered.members)
    }

    /// Whether at least seven eighths of the block are one stream's.
    pub(super) fn is_mostly(&self, stream: StreamId) -> bool {
        self.members
            .iter()
            .any(|member| member.stream == stream && member.plain >= self.plain_len / 8 * 7)
    }

    /// The parts of the block in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        let ends = self
            .shared
            .iter()
            .map(|(end, bytes)| (*end, bytes.as_ref()));
        ends.chain(core::iter::once((self.bytes.len(), [].as_slice())))
            .flat_map(move |(end, shared)| {
                let copied = &self.bytes[at..end];
                at = end;
                [copied, shared]
            })
    }
}
