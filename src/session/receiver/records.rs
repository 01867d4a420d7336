//! Records of a block that was decoded: messages of their streams, whole or in parts.

use std::collections::VecDeque;

use bytes::Bytes;

use super::pinned::is_pinning;
use crate::session::credit::RecvCredit;
use crate::session::event::Event;
use crate::session::partial::Partial;
use crate::session::stream::{Message, RecvStream, Stream, Streams};
use crate::wire::{CloseCode, MESSAGE_CHARGE, Part, Record, RecordKind, Run, StreamId, WireError};

/// The stream that a block begins with, and how much of the block is its.
#[derive(Debug, Default)]
pub(super) struct FirstStream {
    stream: Option<StreamId>,
    messages: usize,
    bytes: usize,
    is_alone: bool,
}

impl FirstStream {
    /// Whether the block has messages of several streams: then one that is read would not free the
    /// memory that all of them hold while another is not, so small payloads must be copied. Those that the first
    /// stream has already are copied once another shows.
    pub(super) fn is_mixed(
        &mut self,
        record: &Record,
        pinned: usize,
        streams: &mut Streams,
    ) -> bool {
        match self.stream {
            None => {
                self.stream = Some(record.stream);
                self.is_alone = true;
            }
            Some(first) if self.is_alone && record.stream != first => {
                self.is_alone = false;
                if is_pinning(self.bytes, pinned) {
                    if let Some(stream) = streams.find(first) {
                        stream.recv.queue.copy_last(self.messages);
                    }
                }
            }
            Some(_) => {}
        }
        if self.is_alone {
            self.messages += usize::from(!record.more);
            self.bytes += record.payload.len();
        }
        !self.is_alone
    }

    /// More whole messages of the stream of the record before.
    const fn on_run(&mut self, run: &Run) {
        if self.is_alone {
            self.messages += run.messages();
            self.bytes += run.payload();
        }
    }
}

/// Delivers the whole messages that follow one of their stream, as [`deliver_record`] would each of them: whatever there
/// is to be said of a record, it leaves to that.
pub(super) fn deliver_run(
    stream: &mut Stream,
    plain: &mut Bytes,
    first: &mut FirstStream,
    (max_message, pinned): (u64, usize),
    credit: &mut RecvCredit,
) -> Result<(), WireError> {
    let recv = &mut stream.recv;
    if recv.partial.is_some() || recv.queue.is_empty() || recv.drops() || recv.in_parts {
        return Ok(());
    }
    let room = (recv.limit - recv.received).min(credit.room());
    let mut run = Run::take_from(plain, max_message, room);
    first.on_run(&run);
    if !first.is_alone && is_pinning(run.plain_len(), pinned) {
        run.copy();
    }
    let taken = run.charge() as u64;
    recv.on_received(taken);
    credit.on_received(taken)?;
    recv.queue_bytes += run.payload() as u64;
    stream.stats.messages_received += run.messages() as u64;
    stream.stats.payload_received += run.payload() as u64;
    recv.queue.push_run(run);
    Ok(())
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// It is in its stream's queue.
    Queued,
    /// It is kept or dropped, and the stream's window may have to grow.
    ToCredit,
    /// Its message is too long, and the peer is to be told so.
    Refused,
}

/// Delivers a message of a stream or keeps a fragment.
///
/// A message that is longer than `max_message` is refused, and with it all that comes after it on its stream: what the peer has
/// announced is known before anything is kept of it, and how long its records are is not in doubt, so that other streams need not suffer.
pub(super) fn deliver_record(
    record: Record,
    max_message: u64,
    stream: &mut Stream,
    credit: &mut RecvCredit,
    events: &mut VecDeque<Event>,
) -> Result<Delivered, WireError> {
    let Record {
        stream: id,
        kind,
        message_len,
        more,
        payload,
    } = record;
    if more && payload.is_empty() {
        return Err(WireError::Unexpected {
            what: "an empty fragment before the last",
        });
    }
    let recv = &mut stream.recv;
    if recv.ended.is_some() {
        return Err(WireError::Unexpected {
            what: "a message on a stream that its sender has closed",
        });
    }
    check_parts(recv, kind, more, &payload)?;
    let charge = if kind.is_some() { MESSAGE_CHARGE } else { 0 };
    let taken = payload.len() as u64 + charge;
    recv.on_received(taken);
    if recv.received > recv.limit {
        return Err(WireError::FieldTooLarge {
            field: "window used",
            given: recv.received,
            max: recv.limit,
        });
    }
    credit.on_received(taken)?;
    let mut delivered = Delivered::ToCredit;
    let mut whole_len = payload.len() as u64;
    if let Some(kind) = kind {
        let given = message_len.unwrap_or(whole_len);
        if given > max_message && recv.refused.is_none() {
            events.push_back(recv.refuse(id, given, max_message));
            delivered = Delivered::Refused;
        }
        if more {
            let mut partial = Partial::new(kind, given);
            if recv.drops() {
                partial.drop_bytes();
            }
            recv.partial = Some(partial);
        }
    }
    let drops = recv.drops();
    let message = match kind {
        Some(kind) if !more => Some(Message { payload, kind }),
        _ => {
            whole_len = recv.partial.as_ref().map_or(0, |it| it.message_len);
            continue_partial(recv, &payload, more)?
        }
    };
    if drops {
        recv.release(taken, credit);
    }
    let Some(message) = message else {
        return Ok(delivered);
    };
    recv.on_message();
    recv.in_parts = message.kind.goes_on(recv.in_parts);
    if recv.refused.is_none() {
        stream.stats.messages_received += 1;
        stream.stats.payload_received += whole_len;
    }
    if drops {
        return Ok(delivered);
    }
    if recv.queue.is_empty() {
        events.push_back(Event::Readable(id));
    }
    recv.queue_bytes += message.payload.len() as u64;
    recv.queue.push_back(message);
    Ok(Delivered::Queued)
}

/// Between the parts of a message comes nothing that an application might take for one of them, and who gives up has no more to say.
fn check_parts(
    recv: &RecvStream,
    kind: Option<RecordKind>,
    more: bool,
    payload: &Bytes,
) -> Result<(), WireError> {
    let what = match kind {
        Some(kind) if recv.in_parts && !kind.may_interrupt_parts() => {
            "a message between the parts of another of its stream"
        }
        Some(RecordKind::Part(Part::GivenUp)) if more || !payload.is_empty() => {
            "bytes of a message that is given up"
        }
        _ => return Ok(()),
    };
    Err(WireError::Unexpected { what })
}

/// Appends a fragment; the message, if it was the last. A fragment too many or too few is an error.
fn continue_partial(
    recv: &mut RecvStream,
    payload: &[u8],
    more: bool,
) -> Result<Option<Message>, WireError> {
    let Some(partial) = &mut recv.partial else {
        return Ok(None);
    };
    partial.push(payload, more)?;
    if more {
        return Ok(None);
    }
    let whole = recv.partial.take();
    Ok(whole.map(|partial| Message {
        kind: partial.kind,
        payload: partial.join(),
    }))
}

/// Ends a stream's receiving direction.
pub(in crate::session) fn end(
    recv: &mut RecvStream,
    code: CloseCode,
    credit: &mut RecvCredit,
) -> Result<(), WireError> {
    if recv.ended.is_some() {
        return Err(WireError::Unexpected {
            what: "a stream that is closed twice",
        });
    }
    if let Some(partial) = recv.partial.take() {
        if code == CloseCode::Finished {
            return Err(WireError::Unexpected {
                what: "a stream that is finished inside a message",
            });
        }
        recv.release(partial.held(), credit);
    }
    if recv.in_parts && code == CloseCode::Finished {
        return Err(WireError::Unexpected {
            what: "a stream that is finished between the parts of a message",
        });
    }
    recv.ended = Some(code);
    recv.end_credit(credit);
    Ok(())
}
