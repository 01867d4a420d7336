//! The credit of the connection at the side that uses it, and the streams that wait for some.

use std::collections::VecDeque;

use super::Sender;
use crate::session::stream::{Priority, SendState, SendStream, Starved, Streams};
use crate::wire::{StreamId, WireError};

/// Entries of streams that do not wait any more, beyond as many as do. Arbitrary.
const MOST_STALE: usize = 64;

#[derive(Debug, Default)]
pub(in crate::session) struct SendCredit {
    /// What is left for all streams; `None` where the peer bounds nothing.
    left: Option<u64>,
    /// Streams that wait, in the order in which they began to, and which wait of theirs it is.
    starved: VecDeque<(StreamId, u32)>,
    /// How many do; other entries are of waits that are over.
    waiting: usize,
    /// Those of which the peer has not been told.
    unsaid: VecDeque<StreamId>,
    /// How often one began to wait.
    pub(in crate::session) waits: u64,
}

impl SendCredit {
    /// A connection begins, on which the peer gives so much.
    pub(in crate::session) fn begin(&mut self, left: Option<u64>) {
        *self = Self {
            left,
            waits: self.waits,
            ..Self::default()
        };
    }

    pub(in crate::session) const fn is_bounded(&self) -> bool {
        self.left.is_some()
    }

    pub(in crate::session) fn left(&self) -> u64 {
        self.left.unwrap_or(u64::MAX)
    }

    /// The peer gives more.
    ///
    /// # Errors
    ///
    /// It bounds nothing, or gives more than there are numbers.
    pub(in crate::session) fn add(&mut self, amount: u64) -> Result<(), WireError> {
        let Some(left) = &mut self.left else {
            return Err(WireError::Unexpected {
                what: "credit of a side that bounds nothing",
            });
        };
        *left = add_credit(*left, amount)?;
        Ok(())
    }

    /// Takes what is sent on a stream of the stream's own credit first.
    pub(in crate::session) fn take(&mut self, send: &mut SendStream, bytes: u64) {
        let own = bytes.min(send.own);
        send.own -= own;
        if let Some(left) = &mut self.left {
            *left -= bytes - own;
        }
    }

    pub(in crate::session) fn take_unsaid(&mut self) -> Option<StreamId> {
        self.unsaid.pop_front()
    }

    /// What was given does not do: the peer, which may have passed over what was said before, must be told again.
    pub(in crate::session) fn say_again(&mut self, id: StreamId, send: &mut SendStream) {
        if send.starved == Starved::Said {
            send.starved = Starved::Unsaid;
            self.unsaid.push_back(id);
        }
    }

    fn push(&mut self, id: StreamId, send: &mut SendStream) {
        send.starved = Starved::Unsaid;
        send.waits = send.waits.wrapping_add(1);
        self.starved.push_back((id, send.waits));
        self.unsaid.push_back(id);
        self.waiting += 1;
        self.waits += 1;
    }
}

/// # Errors
///
/// More than there are numbers.
fn add_credit(left: u64, amount: u64) -> Result<u64, WireError> {
    left.checked_add(amount).ok_or(WireError::FieldTooLarge {
        field: "credit",
        given: amount,
        max: u64::MAX - left,
    })
}

impl SendStream {
    /// Takes credit for this stream alone.
    ///
    /// # Errors
    ///
    /// As [`add_credit`].
    pub(in crate::session) fn add_own(&mut self, amount: u64) -> Result<(), WireError> {
        self.had = add_credit(self.had, amount)?;
        self.own += amount;
        Ok(())
    }

    /// Begins anew on another connection.
    pub(in crate::session) fn forget_credit(&mut self) {
        self.own = 0;
        self.had = 0;
        self.starved = Starved::No;
    }

    /// Whether credit is of use: more can be sent on it.
    pub(in crate::session) fn takes_credit(&self) -> bool {
        self.state != SendState::Finished
    }

    /// What the message in front still takes, if the stream waits for credit and the peer was not told.
    pub(in crate::session) fn say_starved(&mut self) -> Option<u64> {
        if self.starved != Starved::Unsaid {
            return None;
        }
        self.starved = Starved::Said;
        let len = self.queue.front_len()?;
        Some((len - self.front_sent) as u64 + self.front_charge())
    }
}

impl Sender {
    /// Puts a stream in line if it has something that may be sent, or among those that wait for credit.
    pub(in crate::session) fn on_sendable(&mut self, id: StreamId, send: &mut SendStream) {
        if send.is_ready {
            return;
        }
        if send.can_send(self.credit.left()) {
            if send.starved != Starved::No {
                send.starved = Starved::No;
                self.credit.waiting -= 1;
            }
            send.is_ready = true;
            self.ready.push_back((id, send.priority));
        } else if send.starved == Starved::No && send.can_send(u64::MAX) {
            self.credit.push(id, send);
        }
    }

    /// Nothing of what waits on a stream is sent any more; how much of it counted as queued.
    pub(in crate::session) fn drop_queue(&mut self, id: StreamId, send: &mut SendStream) -> usize {
        if core::mem::take(&mut send.is_ready) {
            self.ready.remove(id, send.priority);
        }
        if core::mem::replace(&mut send.starved, Starved::No) != Starved::No {
            self.credit.waiting -= 1;
        }
        send.drop_queue()
    }

    /// Streams of a higher priority go first from here on.
    pub(in crate::session) fn set_priority(
        &mut self,
        id: StreamId,
        send: &mut SendStream,
        priority: Priority,
    ) {
        let before = core::mem::replace(&mut send.priority, priority);
        if send.is_ready && before != priority {
            self.ready.reorder(id, before, priority);
        }
    }

    /// There is more credit for all: who waited may go on, in the order in which they began to wait.
    pub(in crate::session) fn wake_starved(&mut self, streams: &mut Streams) {
        let mut starved = core::mem::take(&mut self.credit.starved);
        for (id, wait) in starved.drain(..) {
            let Some(stream) = streams.find(id) else {
                continue;
            };
            let send = &mut stream.send;
            if send.starved != Starved::No && send.waits == wait {
                self.on_sendable(id, send);
                if send.starved != Starved::No {
                    self.credit.starved.push_back((id, wait));
                }
            }
        }
    }

    /// Forgets waits that are over where there are many of them.
    pub(super) fn forget_stale(&mut self, streams: &Streams) {
        let credit = &mut self.credit;
        if credit.starved.len() > 2 * credit.waiting + MOST_STALE {
            credit.starved.retain(|(id, wait)| {
                streams
                    .peek(*id)
                    .is_some_and(|it| it.send.starved != Starved::No && it.send.waits == *wait)
            });
        }
    }
}
