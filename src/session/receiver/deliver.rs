//! Blocks whose turn has come: their records to their streams.

use std::collections::VecDeque;

use bytes::Bytes;

use super::pinned::is_pinning;
use super::records::{
    Alike, Delivered, FirstStream, deliver_alike, deliver_record, delivered_by, tell_run,
};
use super::{BlockState, Group, Inbound, Receiver};
use crate::session::credit::RecvCredit;
use crate::session::event::Event;
use crate::session::observer::{MessageRun, Observation, Observations};
use crate::session::stream::Streams;
use crate::wire::{BlockHeader, Control, GroupId, StreamId, WireError};

impl Receiver {
    /// The next control frame whose turn has come, after the blocks before it were delivered.
    pub(in crate::session) fn deliver(
        &mut self,
        streams: &mut Streams,
        credit: &mut RecvCredit,
        events: &mut VecDeque<Event>,
    ) -> Result<Option<Control>, WireError> {
        loop {
            match self.inbound.front() {
                None
                | Some(Inbound::Block {
                    state: BlockState::Decoding { .. },
                    ..
                }) => return Ok(None),
                Some(_) => {}
            }
            match self.inbound.pop_front() {
                Some(Inbound::Control(control)) => {
                    self.frames += u64::from(control.is_numbered());
                    if self.acknowledges_all && control.is_numbered() {
                        self.first_unacked_at.get_or_insert(self.last_input_at);
                    }
                    return Ok(Some(control));
                }
                Some(Inbound::Block {
                    number,
                    header,
                    group,
                    is_closed,
                    state:
                        BlockState::Plain {
                            bytes,
                            pinned,
                            crc,
                            decode,
                        },
                }) => {
                    let company = (group, is_closed);
                    let plain = (bytes, pinned, crc);
                    self.told
                        .tell(Observations::BLOCK_DECODED, || Observation::BlockDecoded {
                            block: number,
                            plain_len: plain.0.len(),
                            decode,
                        });
                    self.deliver_block(&header, company, plain, streams, credit, events)?;
                }
                _ => return Ok(None),
            }
        }
    }

    /// A control frame that was handed out was refused: it has not taken effect, and is to come again on another connection.
    pub(in crate::session) fn take_back(&mut self, is_numbered: bool) {
        self.frames -= u64::from(is_numbered);
    }

    fn deliver_block(
        &mut self,
        header: &BlockHeader,
        (group_id, is_closed): (GroupId, bool),
        (mut plain, pinned, crc): (Bytes, usize, u32),
        streams: &mut Streams,
        credit: &mut RecvCredit,
        events: &mut VecDeque<Event>,
    ) -> Result<(), WireError> {
        let at = self
            .groups
            .iter()
            .position(|(id, _)| *id == group_id)
            .unwrap_or_else(|| {
                self.groups.push((group_id, Group::default()));
                self.groups.len() - 1
            });
        let group = &mut self.groups[at].1;
        if self.with_check {
            group.check.verify(crc, header.check, header.check_bits())?;
        }
        if plain.is_empty() {
            return Err(WireError::Unexpected {
                what: "a block without a record",
            });
        }
        let max_message = self.limits.max_message as u64;
        let block_len = plain.len();
        let mut first = FirstStream::default();
        let mut run: Option<MessageRun> = None;
        loop {
            let continues = |id: StreamId| {
                streams
                    .peek(id)
                    .is_some_and(|stream| stream.recv.partial.is_some())
            };
            let Some(mut record) = group.reader.next(&mut plain, continues)? else {
                break;
            };
            if is_closed && !streams.is_in(record.stream, group_id) {
                return Err(WireError::Unexpected {
                    what: "a message in a history of another group",
                });
            }
            if first.is_mixed(&record, pinned, streams) && is_pinning(record.payload.len(), pinned)
            {
                record.payload = Bytes::copy_from_slice(&record.payload);
            }
            let part = self
                .told
                .wants(Observations::MESSAGES_DECODED)
                .then(|| delivered_by(&record, streams))
                .flatten();
            let id = record.stream;
            let delivered = deliver_record(record, max_message, streams, credit, events)?;
            let alike = if delivered == Delivered::Queued {
                let (reader, lens) = (&group.reader, (max_message, pinned));
                deliver_alike(id, &mut plain, (reader, &mut first), lens, streams, credit)?
            } else {
                if delivered == Delivered::Refused {
                    self.to_stop.push(id);
                }
                if self.to_credit.last() != Some(&id) {
                    self.to_credit.push(id);
                }
                Alike::default()
            };
            let is_taken = |_: &_| {
                // What is queued needs no looking for its stream.
                delivered == Delivered::Queued
                    || streams
                        .peek(id)
                        .is_some_and(|stream| stream.recv.refused.is_none())
            };
            if let Some((stream, bytes)) = part.filter(is_taken) {
                if let Some(done) = run.take_if(|run| run.stream != stream) {
                    tell_run(&self.told, self.blocks, done, streams);
                }
                let run = run.get_or_insert(MessageRun {
                    stream,
                    first: 0,
                    count: 0,
                    bytes: 0,
                });
                run.count += 1 + alike.messages as u64;
                run.bytes += bytes + alike.bytes as u64;
            }
        }
        if let Some(run) = run {
            tell_run(&self.told, self.blocks, run, streams);
        }
        self.blocks += 1;
        self.frames += 1;
        self.unacked_plain += block_len as u64;
        if self.first_unacked_at.is_none() {
            self.first_unacked_at = Some(self.last_block_at);
        }
        Ok(())
    }
}
