//! What was sent and is not acknowledged, to be sent again over another connection.
//!
//! Kept are messages, not frames: another connection has other histories, and its frames are made anew.

use std::collections::VecDeque;

use super::outgoing::Outgoing;
use crate::wire::{StreamId, WireError};

/// What a piece counts beside its bytes: the entry itself and what keeps the payload alive. Arbitrary, about that.
const PIECE_CHARGE: usize = 128;

/// A numbered frame that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A block of so many pieces.
    Block(u32),
    Open(StreamId),
    Close(StreamId),
    GoAway,
    /// It means nothing beyond its connection.
    Passing,
}

/// A message, or a part of one, that a block carries.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) stream: StreamId,
    pub(super) message: Outgoing,
    pub(super) from: usize,
    pub(super) len: usize,
}

impl Piece {
    /// Whether its message ends with it.
    pub(super) fn finishes(&self) -> bool {
        self.from + self.len == self.message.payload.len()
    }

    const fn charge(&self) -> usize {
        self.len + PIECE_CHARGE
    }
}

/// What need not be kept any longer.
#[derive(Debug)]
pub(super) enum Released {
    Piece(Piece),
    Close(StreamId),
}

/// What the peer has not received, in the order in which it was sent.
#[derive(Debug, Default)]
pub(super) struct Unreceived {
    pub(super) opens: Vec<StreamId>,
    pub(super) pieces: Vec<Piece>,
    pub(super) closes: Vec<StreamId>,
    pub(super) go_away: bool,
}

#[derive(Debug, Default)]
pub(super) struct Retained {
    /// Bytes that may wait for acknowledgement; 0 keeps nothing.
    limit: usize,
    bytes: usize,
    frames: VecDeque<Frame>,
    pieces: VecDeque<Piece>,
    /// Pieces of the block that is being made, and of those that are made and not put out.
    open: u32,
    made: VecDeque<u32>,
    /// Frames of the session that the peer has received for certain.
    received: u64,
    /// .. when the connection began.
    received_before: u64,
}

impl Retained {
    /// Keeps up to about `limit` bytes from now on.
    pub(super) fn begin(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(super) const fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Whether nothing more must be sent before something is acknowledged.
    pub(super) const fn is_full(&self) -> bool {
        self.is_on() && self.bytes >= self.limit
    }

    /// Whether everything was received.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.pieces.is_empty()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// `len` bytes of a message from `from` on were taken into the block that is being made.
    pub(super) fn push_piece(
        &mut self,
        stream: StreamId,
        message: &Outgoing,
        (from, len): (usize, usize),
    ) {
        let piece = Piece {
            stream,
            message: message.clone(),
            from,
            len,
        };
        self.bytes += piece.charge();
        self.pieces.push_back(piece);
        self.open += 1;
    }

    /// The block is made.
    pub(super) fn seal_block(&mut self) {
        let pieces = core::mem::take(&mut self.open);
        if self.is_on() {
            self.made.push_back(pieces);
        }
    }

    /// A frame was put out; blocks that are only made are not among those.
    pub(super) fn push(&mut self, frame: Frame) {
        if self.is_on() {
            self.frames.push_back(frame);
        }
    }

    /// Of the blocks that are made the first was put out.
    pub(super) fn push_block(&mut self) {
        let pieces = self.made.pop_front().unwrap_or_default();
        self.push(Frame::Block(pieces));
    }

    /// The connection is gone, and with it the blocks that were made.
    pub(super) fn disconnect(&mut self) {
        if self.open > 0 {
            self.seal_block();
        }
        while !self.made.is_empty() {
            self.push_block();
        }
    }

    /// The peer has received so many frames of this connection.
    pub(super) fn acknowledge(&mut self, frames: u64, mut released: impl FnMut(Released)) {
        self.release_up_to(self.received_before.saturating_add(frames), &mut released);
    }

    fn release_up_to(&mut self, received: u64, released: &mut impl FnMut(Released)) {
        while self.received < received {
            let Some(frame) = self.frames.pop_front() else {
                return;
            };
            self.received += 1;
            match frame {
                Frame::Block(pieces) => {
                    for piece in self.pieces.drain(..pieces as usize) {
                        self.bytes -= piece.charge();
                        released(Released::Piece(piece));
                    }
                }
                Frame::Close(stream) => released(Released::Close(stream)),
                Frame::Open(_) | Frame::GoAway | Frame::Passing => {}
            }
        }
    }

    /// A new connection begins; the peer says that it has received so many frames of the session. What it has not is
    /// given back and no longer kept.
    ///
    /// # Errors
    ///
    /// It says that it has received less than it had acknowledged, or more than was sent.
    pub(super) fn reconnect(
        &mut self,
        received: u64,
        mut released: impl FnMut(Released),
    ) -> Result<Unreceived, WireError> {
        let (field, max) = ("frames received", self.received + self.frames.len() as u64);
        if received > max {
            let given = received;
            return Err(WireError::FieldTooLarge { field, given, max });
        }
        if received < self.received {
            let (given, min) = (received, self.received);
            return Err(WireError::FieldTooSmall { field, given, min });
        }
        self.release_up_to(received, &mut released);
        self.received_before = received;
        self.bytes = 0;
        let mut unreceived = Unreceived {
            pieces: self.pieces.drain(..).collect(),
            ..Unreceived::default()
        };
        for frame in self.frames.drain(..) {
            match frame {
                Frame::Open(stream) => unreceived.opens.push(stream),
                Frame::Close(stream) => unreceived.closes.push(stream),
                Frame::GoAway => unreceived.go_away = true,
                Frame::Block(_) | Frame::Passing => {}
            }
        }
        Ok(unreceived)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::RecordKind;

    fn stream(number: u32) -> StreamId {
        StreamId::new(number).expect("a stream's number")
    }

    fn put(retained: &mut Retained, pieces: &[(u32, &'static [u8])]) {
        for (number, payload) in pieces {
            let message = Outgoing {
                payload: Bytes::from_static(payload),
                kind: RecordKind::Message,
                sensitive: false,
            };
            retained.push_piece(stream(*number), &message, (0, payload.len()));
        }
        retained.seal_block();
        retained.push_block();
    }

    fn payloads(pieces: &[Piece]) -> Vec<&[u8]> {
        pieces
            .iter()
            .map(|piece| &piece.message.payload[..])
            .collect()
    }

    #[test]
    fn what_was_not_received_comes_back_in_order() {
        let mut retained = Retained::default();
        retained.begin(1 << 20);
        retained.push(Frame::Open(stream(0)));
        put(&mut retained, &[(0, b"a"), (0, b"b")]);
        put(&mut retained, &[(0, b"c")]);
        retained.push(Frame::Close(stream(0)));
        retained.push(Frame::GoAway);
        let mut released = 0;
        retained.acknowledge(1, |_| released += 1);
        assert_eq!(released, 0, "only the open");
        let unreceived = retained
            .reconnect(2, |_| released += 1)
            .expect("a possible count");
        assert_eq!(released, 2, "the first block");
        assert_eq!(unreceived.opens, []);
        assert_eq!(payloads(&unreceived.pieces), [b"c"]);
        assert_eq!(unreceived.closes, [stream(0)]);
        assert!(unreceived.go_away);
        assert!(retained.is_empty());
        assert_eq!(retained.bytes(), 0);
        // Counts of the new connection begin at what was received before.
        put(&mut retained, &[(0, b"c")]);
        retained.acknowledge(1, |_| released += 1);
        assert_eq!(released, 3);
        assert!(retained.is_empty());
    }

    #[test]
    fn a_block_that_was_being_made_is_not_lost() {
        let mut retained = Retained::default();
        retained.begin(1 << 20);
        put(&mut retained, &[(0, b"a")]);
        let message = Outgoing {
            payload: Bytes::from_static(b"bc"),
            kind: RecordKind::Message,
            sensitive: false,
        };
        retained.push_piece(stream(0), &message, (0, 1));
        retained.disconnect();
        let unreceived = retained.reconnect(0, |_| ()).expect("a possible count");
        assert_eq!(payloads(&unreceived.pieces), [&b"a"[..], b"bc"]);
        assert!(!unreceived.pieces[1].finishes());
    }

    #[test]
    fn blocks_that_were_made_and_not_put_out_come_back_in_order() {
        let mut retained = Retained::default();
        retained.begin(1 << 20);
        for payload in [b"a", b"b", b"c"] {
            let message = Outgoing {
                payload: Bytes::from_static(payload),
                kind: RecordKind::Message,
                sensitive: false,
            };
            retained.push_piece(stream(0), &message, (0, 1));
            retained.seal_block();
        }
        // What is put out meanwhile comes before the second.
        retained.push_block();
        retained.push(Frame::Open(stream(1)));
        retained.push_block();
        let mut released = 0;
        retained.acknowledge(2, |_| released += 1);
        assert_eq!(released, 1, "the block before");
        retained.disconnect();
        let unreceived = retained.reconnect(3, |_| released += 1).expect("a count");
        assert_eq!(
            (released, payloads(&unreceived.pieces)),
            (2, vec![&b"c"[..]])
        );
        // Nothing of it is left for the next.
        put(&mut retained, &[(0, b"c")]);
        retained.acknowledge(1, |_| released += 1);
        assert_eq!((released, retained.is_empty()), (3, true));
    }

    #[test]
    fn counts_that_cannot_be_are_refused() {
        let mut retained = Retained::default();
        retained.begin(1 << 20);
        put(&mut retained, &[(0, b"a")]);
        put(&mut retained, &[(0, b"b")]);
        retained.acknowledge(1, |_| ());
        assert!(matches!(
            retained.reconnect(0, |_| ()),
            Err(WireError::FieldTooSmall { min: 1, .. })
        ));
        assert!(matches!(
            retained.reconnect(3, |_| ()),
            Err(WireError::FieldTooLarge { max: 2, .. })
        ));
        assert!(retained.reconnect(2, |_| ()).is_ok());
    }

    #[test]
    fn it_is_full_at_its_limit_until_something_is_acknowledged() {
        let mut retained = Retained::default();
        assert!(!retained.is_full(), "it keeps nothing yet");
        retained.begin(2 * PIECE_CHARGE);
        put(&mut retained, &[(0, b"a")]);
        assert!(!retained.is_full());
        put(&mut retained, &[(0, b"b")]);
        assert!(retained.is_full());
        retained.acknowledge(1, |_| ());
        assert!(!retained.is_full());
    }
}
