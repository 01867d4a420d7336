//! Blocks whose turn has come: their records to their streams.

use std::collections::VecDeque;

use bytes::Bytes;

use super::pinned::is_pinning;
use super::records::{Delivered, FirstStream, deliver_record, deliver_run};
use super::{BlockState, Group, Inbound, Receiver};
use crate::session::credit::RecvCredit;
use crate::session::event::Event;
use crate::session::observer::{MessageRun, Observations, Told};
use crate::session::stream::{Stream, Streams};
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
                    let observer = self.told.of(Observations::BLOCK_DECODED);
                    if let (Some(observer), Some(decode)) = (observer, decode) {
                        observer.block_decoded(number, plain.0.len(), decode);
                    }
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
        let mut run: Option<Run> = None;
        let is_told = self.told.wants(Observations::MESSAGES_DECODED);
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
            let id = record.stream;
            let stream = streams.find(id).ok_or(WireError::Unexpected {
                what: "a message on a stream that is not open",
            })?;
            let before = is_told.then(|| Totals::of(stream));
            let delivered = deliver_record(record, max_message, stream, credit, events)?;
            if delivered == Delivered::Queued {
                let lens = (max_message, pinned);
                deliver_run(stream, &mut plain, &mut first, lens, credit)?;
            } else {
                if delivered == Delivered::Refused {
                    self.to_stop.push(id);
                }
                if self.to_credit.last() != Some(&id) {
                    self.to_credit.push(id);
                }
            }
            if let Some(before) = before {
                let now = Totals::of(stream);
                match &mut run {
                    Some(run) if run.stream == id => run.now = now,
                    _ => {
                        if let Some(done) = run.replace(Run::new(id, before, now)) {
                            done.tell(&self.told, self.blocks);
                        }
                    }
                }
            }
        }
        if let Some(done) = run {
            done.tell(&self.told, self.blocks);
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

/// What a stream has received so far.
#[derive(Clone, Copy, Debug)]
struct Totals {
    messages: u64,
    bytes: u64,
}

impl Totals {
    const fn of(stream: &Stream) -> Self {
        Self {
            messages: stream.stats.messages_received,
            bytes: stream.stats.payload_received,
        }
    }
}

/// Messages of one stream that a block has brought, one after another.
#[derive(Clone, Copy, Debug)]
struct Run {
    stream: StreamId,
    before: Totals,
    now: Totals,
}

impl Run {
    const fn new(stream: StreamId, before: Totals, now: Totals) -> Self {
        Self {
            stream,
            before,
            now,
        }
    }

    fn tell(&self, told: &Told, block: u64) {
        let Self {
            stream,
            before,
            now,
        } = *self;
        if now.messages == before.messages {
            return;
        }
        if let Some(observer) = told.of(Observations::MESSAGES_DECODED) {
            let messages = MessageRun {
                stream,
                first: before.messages,
                count: now.messages - before.messages,
                bytes: now.bytes - before.bytes,
            };
            observer.messages_decoded(block, messages);
        }
    }
}
