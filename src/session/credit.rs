//! The credit of a connection: what its streams may hold here together, and who gets what is left of it.
//!
//! ```text
//! connection_memory = general | windows | messages
//! ```
//!
//! Most of it is *general*: the peer sends on whatever stream it likes, and gets back what the application has taken. Streams
//! that nobody reads may come to hold all of that. The rest is given to one stream each, when the peer says that the
//! stream waits: *windows* to those whose application takes what comes, *messages* to those that it waits for, as much
//! as the message in front still takes, so that each message that was begun on it can be finished. Nothing of this costs
//! anything before the general credit is used up.

use core::time::Duration;
use std::collections::VecDeque;

use super::stream::{RecvStream, Streams, WindowRoom};
use super::{Event, Session};
use crate::units::Time;
use crate::wire::{Blocked, Control, Credit, MESSAGE_CHARGE, StreamId, Unused, WireError};

/// What has come back of the general credit is said once it is this part of it. Arbitrary.
const WORTH_SAYING: u64 = 8;
/// A stream's window is at most this part of what is left for windows, and so is a message that is waited for and longer than
/// that: those that come later must find something (dynamic thresholds, Choudhury and Hahne 1998). Arbitrary: with the default
/// memory, the first may be as large as a stream's window.
const SHARE: u64 = 4;
/// A stream with a window of its own is given more once this part of it was taken ..
const RENEWAL: u64 = 4;
/// .. or so many bytes. Both arbitrary: a block.
const MOST_UNSAID: u64 = 64 << 10;
/// A stream's first window of its own, bytes, as long as there is plenty. It grows where both the peer waits for credit and
/// the application for messages, to some times what came in a round trip (the autotuning of QUIC's and HTTP/2's windows).
/// Arbitrary: a quarter of a block.
const FIRST_WINDOW: u64 = 16 << 10;
/// .. and what part of what is left it is at most, so that ten thousand streams find something.
const FIRST_SHARE: u64 = 1024;
/// .. and at least.
const LEAST_WINDOW: u64 = 1 << 10;
/// A window grows to so many times what came in a round trip: what waits on its way makes the round of a credit longer than the
/// round trip of a probe. Arbitrary; with 3, streams stay below the rate of the link in the simulator.
const TIMES: f64 = 8.0;
/// A round trip is taken to be as long at least: who sends, who takes and who says so all have their time. Arbitrary.
const LEAST_RTT: Duration = Duration::from_millis(1);

/// How the memory of a connection is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) general: u64,
    pub(super) windows: u64,
    pub(super) messages: u64,
}

impl Shares {
    const fn all(&self) -> u64 {
        self.general + self.windows + self.messages
    }
}

/// The receiver's account: all counts are since the session began, as for a stream's window.
#[derive(Debug)]
pub(super) struct RecvCredit {
    shares: Shares,
    /// What the peer was given, less what it gave back.
    given: u64,
    received: u64,
    released: u64,
    /// What streams have of the part for messages.
    promised: u64,
    /// .. of which so much is still to be given: they were given it on another connection, on which it did not come.
    owed: u64,
    /// Streams that are waited for, whose messages found no room yet.
    line: VecDeque<StreamId>,
    /// The most that was held at once.
    pub(super) most_held: u64,
    /// How often the peer said that a stream waits.
    pub(super) peer_waits: u64,
}

/// What a stream that had to wait has of the credit.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each holds or not whatever the others do"
)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamCredit {
    /// What it was given for itself on this connection.
    given: u64,
    /// What the message in front still takes, if the peer waits for it.
    blocked: Option<u64>,
    /// The application waits for a message.
    wanted: bool,
    in_line: bool,
    /// What it may hold ahead of the application; 0 without a window of its own.
    window: u64,
    /// About how much it has of that.
    lent: u64,
    /// The application has waited for messages, and the peer for credit, since the window was judged last.
    was_empty: bool,
    was_short: bool,
    /// When it was, and what had been released then.
    since: (Time, u64),
    promise: Option<Promise>,
}

/// Credit for the rest of a message.
#[derive(Clone, Copy, Debug)]
struct Promise {
    /// Up to which of the stream's bytes.
    end: u64,
    amount: u64,
    /// What of it is still to be given, on this connection.
    owed: u64,
}

impl Promise {
    /// What of it another connection begins with, if any of it came; `received` bytes of the stream have.
    fn carried_over(self, received: u64) -> Option<Self> {
        let begins = self.end - self.amount;
        let came = received.saturating_sub(begins).min(self.amount);
        (came > 0).then_some(Self {
            owed: self.amount - came,
            ..self
        })
    }
}

impl RecvCredit {
    pub(super) const fn new(shares: Shares) -> Self {
        Self {
            given: shares.general,
            shares,
            received: 0,
            released: 0,
            promised: 0,
            owed: 0,
            line: VecDeque::new(),
            most_held: 0,
            peer_waits: 0,
        }
    }

    /// What the peer begins with on a new connection, which is to be told.
    pub(super) const fn initial(&self) -> u64 {
        self.given - self.received
    }

    pub(super) const fn limit(&self) -> u64 {
        self.shares.all()
    }

    pub(super) const fn held(&self) -> u64 {
        self.received - self.released
    }

    /// Nothing that was given before holds on another connection. But messages that have come in part were promised their rest, or
    /// they would hold what others wait for: `promises` are theirs.
    fn restart(&mut self, promises: impl Iterator<Item = Promise>) {
        (self.promised, self.owed) = promises.fold((0, 0), |(promised, owed), promise| {
            (promised + promise.amount, owed + promise.owed)
        });
        let came = self.promised - self.owed;
        let elsewhere = self.held().saturating_sub(came);
        self.given = self.received + self.shares.general.saturating_sub(elsewhere);
        self.line.clear();
    }

    /// Counts what came.
    ///
    /// # Errors
    ///
    /// It is more than was given.
    pub(super) fn on_received(&mut self, bytes: u64) -> Result<(), WireError> {
        self.received += bytes;
        if self.received > self.given {
            return Err(WireError::FieldTooLarge {
                field: "credit of the connection used",
                given: self.received,
                max: self.given,
            });
        }
        self.most_held = self.most_held.max(self.held());
        Ok(())
    }

    /// What the peer may still send.
    pub(super) const fn room(&self) -> u64 {
        self.given - self.received
    }

    /// What may be held when all comes that was given.
    const fn exposed(&self) -> u64 {
        self.given - self.released
    }

    fn left_of(&self, part: u64) -> u64 {
        let given = self.promised - self.owed;
        let left = (part + given).saturating_sub(self.exposed());
        left.min(self.all_left())
    }

    fn general_left(&self) -> u64 {
        self.left_of(self.shares.general)
    }

    fn windows_left(&self) -> u64 {
        self.left_of(self.shares.general + self.shares.windows)
    }

    fn messages_left(&self) -> u64 {
        let left = self.shares.messages.saturating_sub(self.promised);
        left.min(self.all_left())
    }

    fn all_left(&self) -> u64 {
        self.limit().saturating_sub(self.exposed() + self.owed)
    }

    /// What must always hold.
    #[cfg(test)]
    pub(super) fn is_sound(&self) -> bool {
        self.received <= self.given
            && self.exposed() + self.owed <= self.limit()
            && self.owed <= self.promised
            && self.promised <= self.shares.messages
    }

    /// Whether a stream was promised what it needs now, on another connection: it has what is owed to it then.
    fn pay(&mut self, recv: &mut RecvStream, needs: u64) -> bool {
        let owed = recv.credit.promise.as_mut();
        let Some(promise) = owed.filter(|promise| promise.owed > 0 && needs <= promise.owed) else {
            return false;
        };
        self.owed -= promise.owed;
        self.promised -= promise.owed - needs;
        promise.amount -= promise.owed - needs;
        promise.end = recv.received + needs;
        promise.owed = 0;
        recv.credit.lent = recv.held() + needs;
        recv.credit.blocked = None;
        true
    }

    /// Whether streams must do with what they are given each by itself.
    fn is_short(&self) -> bool {
        self.general_left() < self.shares.general / 4
    }

    /// Whether the applications are not far behind the peer.
    fn holds_little(&self) -> bool {
        self.held() < self.shares.general / 4
    }

    /// What streams held that are not there any more.
    fn take_back(&mut self, streams: &mut Streams) {
        self.released += core::mem::take(&mut streams.let_go);
        self.promised -= core::mem::take(&mut streams.promises_let_go);
    }
}

impl RecvStream {
    /// Counts a message or a fragment that took so much of the window.
    pub(super) fn on_received(&mut self, bytes: u64) {
        self.credit.blocked = None;
        self.credit.was_empty |= self.complete() == self.released;
        self.received += bytes;
    }

    /// The application is done with so much.
    pub(super) fn release(&mut self, bytes: u64, all: &mut RecvCredit) {
        let released = self.released.saturating_add(bytes).min(self.complete());
        let bytes = released - self.released;
        self.released = released;
        self.credit.lent = self.credit.lent.saturating_sub(bytes);
        all.released += bytes;
        let is_over = |promise: &mut Promise| released >= promise.end;
        if let Some(promise) = self.credit.promise.take_if(is_over) {
            all.promised -= promise.amount;
            all.owed -= promise.owed;
        }
    }

    /// A message has come whole: the application has what it waited for.
    pub(super) const fn on_message(&mut self) {
        self.credit.wanted = false;
    }

    /// Nothing more is taken, since a message of so many bytes is too long: it waits for nothing any more.
    pub(super) const fn refuse(&mut self, stream: StreamId, given: u64, max: u64) -> Event {
        self.refused = Some(given);
        self.credit.blocked = None;
        self.credit.wanted = false;
        Event::StreamRefused { stream, given, max }
    }

    /// Nothing more comes: what was given for it comes back by itself.
    pub(super) fn end_credit(&mut self, all: &mut RecvCredit) {
        let promise = self.credit.promise.take();
        self.credit = StreamCredit::default();
        if let Some(promise) = promise {
            all.promised -= promise.owed;
            all.owed -= promise.owed;
            self.credit.promise = Some(Promise {
                end: promise.end.min(self.received),
                amount: promise.amount - promise.owed,
                owed: 0,
            });
        }
        self.release(0, all);
    }

    pub(super) const fn promised(&self) -> u64 {
        match self.credit.promise {
            Some(promise) => promise.amount,
            None => 0,
        }
    }

    /// The window that it should have: some times what comes in a round trip, if both ends have waited; never less than before, nor
    /// more than twice as much.
    fn grown(&mut self, now: Time, rtt: Option<Duration>) -> u64 {
        let credit = &mut self.credit;
        let (since, before) = credit.since;
        let (time, rtt) = (
            now.saturating_since(since),
            rtt.unwrap_or_default().max(LEAST_RTT),
        );
        if !(credit.was_empty && credit.was_short) || time < rtt {
            return credit.window;
        }
        credit.was_empty = false;
        credit.was_short = false;
        credit.since = (now, self.released);
        let taken = (self.released - before) as f64;
        let of_rtt = taken * (rtt.as_secs_f64() / time.as_secs_f64());
        ((TIMES * of_rtt) as u64).clamp(credit.window, 2 * credit.window)
    }

    /// Gives it a window of the connection's credit. Its own, of which half may be untold, must not make that shorter, as far as it may
    /// grow.
    fn set_credit_window(&mut self, window: u64, longest: u64) {
        self.credit.window = window;
        self.window = self.window.max(window.saturating_mul(2).min(longest));
    }

    pub(super) const fn has_trouble(&self) -> bool {
        self.credit.blocked.is_some() || self.credit.window > 0
    }
}

impl Session {
    /// Says that the application waits for a message of a stream of which [`Event::Starved`] told. It is to be said again if the
    /// event comes again. Of a stream that does not lack credit it means nothing.
    pub fn want(&mut self, id: StreamId) {
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        if stream.recv.credit.blocked.is_some() {
            stream.recv.credit.wanted = true;
            self.give_credit(Some(id));
        }
    }

    /// Whether streams have to wait for credit of the connection, so that [`Self::release`] should not.
    pub fn is_short_of_memory(&self) -> bool {
        self.credit.is_short()
    }

    /// Gives what there is to give, to this stream first.
    pub(super) fn give_credit(&mut self, first: Option<StreamId>) {
        self.credit.take_back(&mut self.streams);
        if !self.is_connected() {
            return;
        }
        if let Some(id) = first {
            self.renew(id);
        }
        while let Some(&next) = self.credit.line.front() {
            if !self.serve(next) {
                break;
            }
            self.credit.line.pop_front();
            if let Some(stream) = self.streams.find(next) {
                stream.recv.credit.in_line = false;
            }
        }
        let left = self.credit.general_left();
        if left >= (self.credit.shares.general / WORTH_SAYING).max(1) {
            self.put_credit(None, left);
        }
    }

    fn put_credit(&mut self, stream: Option<StreamId>, amount: u64) {
        self.credit.given += amount;
        if let Some(stream) = stream.and_then(|id| self.streams.find(id)) {
            stream.recv.credit.given += amount;
        }
        self.put_control(&Control::Credit(Credit { stream, amount }));
    }

    /// What streams' windows are judged by that need no credit of their own.
    pub(super) fn window_room(&self) -> WindowRoom {
        let rtt = self.path.known.rtt.min().unwrap_or_default();
        let limits = &self.config.limits;
        let most = if self.credit.holds_little() {
            limits.most_window()
        } else {
            0
        };
        WindowRoom {
            now: self.now,
            rtt: rtt.max(LEAST_RTT),
            first: limits.window_len(),
            most,
        }
    }

    /// The most that a stream's own window may be.
    fn most_credit_window(&self) -> u64 {
        let share = self.credit.windows_left() / SHARE;
        share
            .max(LEAST_WINDOW)
            .min(self.config.limits.most_window())
    }

    /// Gives a stream with a window of its own what the application has taken.
    fn renew(&mut self, id: StreamId) {
        let (most, rtt) = (self.most_credit_window(), self.path.known.rtt.smoothed());
        let longest = self.config.limits.most_window();
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        let recv = &mut stream.recv;
        if recv.ended.is_some() || recv.refused.is_some() {
            return;
        }
        if recv.credit.blocked.is_some() {
            self.serve(id);
            return;
        }
        if !self.credit.is_short() {
            recv.credit.window = 0;
            return;
        }
        let window = recv.grown(self.now, rtt).min(most.max(recv.credit.window));
        recv.set_credit_window(window, longest);
        let credit = &mut recv.credit;
        let most = self.credit.windows_left() / 2;
        let amount = credit.window.saturating_sub(credit.lent).min(most);
        if amount >= (credit.window / RENEWAL).clamp(1, MOST_UNSAID) {
            credit.lent += amount;
            self.put_credit(Some(id), amount);
        }
    }

    /// Gives a stream that the peer says is waiting what it may have; false if it has to stand in line.
    fn serve(&mut self, id: StreamId) -> bool {
        let (most, rtt) = (self.most_credit_window(), self.path.known.rtt.smoothed());
        let longest = self.config.limits.most_window();
        let Some(stream) = self.streams.find(id) else {
            return true;
        };
        let recv = &mut stream.recv;
        let Some(needs) = recv.credit.blocked else {
            return true;
        };
        if self.credit.pay(recv, needs) {
            self.put_credit(Some(id), needs);
            return true;
        }
        let wanted = recv.credit.wanted || recv.discards;
        if !wanted && recv.released == 0 {
            return true;
        }
        // All that was sent of it has come, so that this is all it has.
        let held = recv.held();
        let (end, left) = (recv.received + needs, self.credit.windows_left());
        let first = (left / FIRST_SHARE).clamp(LEAST_WINDOW, FIRST_WINDOW);
        let credit = &mut recv.credit;
        let window = match credit.window {
            0 => {
                credit.since = (self.now, recv.released);
                first
            }
            window => window,
        };
        credit.window = window;
        let window = recv.grown(self.now, rtt).min(most);
        recv.set_credit_window(window.max(LEAST_WINDOW), longest);
        let mut amount = window.saturating_sub(held).min(left);
        if amount < needs {
            let all_taken = recv.complete() == recv.released;
            let may_have = wanted || (all_taken && needs <= left / SHARE);
            if !may_have {
                return true;
            }
            // Its message is longer.
            amount = needs;
            if needs > left / SHARE {
                // Who came first is served first, or a long message would wait for ever.
                let turn = self.credit.line.front().is_none_or(|front| *front == id);
                if !turn || needs > self.credit.messages_left() {
                    if !core::mem::replace(&mut recv.credit.in_line, true) {
                        self.credit.line.push_back(id);
                    }
                    return false;
                }
                // With what it has of one before that the application is not done with.
                let (had, owed) = recv
                    .credit
                    .promise
                    .map_or((0, 0), |promise| (promise.amount, promise.owed));
                recv.credit.promise = Some(Promise {
                    end,
                    amount: had + needs,
                    owed,
                });
                self.credit.promised += needs;
            }
        }
        let credit = &mut recv.credit;
        credit.lent = held + amount;
        credit.blocked = None;
        self.put_credit(Some(id), amount);
        true
    }

    /// The peer says that a stream waits.
    pub(super) fn on_blocked(&mut self, blocked: Blocked) -> Result<(), WireError> {
        let id = blocked.stream;
        let stream = self.streams.find(id);
        let Some(stream) = stream.filter(|stream| stream.recv.ended.is_none()) else {
            return Err(WireError::Unexpected {
                what: "credit that is asked for on a stream that is not open",
            });
        };
        let (needs, most) = (
            blocked.needs,
            self.config.limits.max_message as u64 + MESSAGE_CHARGE,
        );
        let is_begun = stream.recv.partial.is_some();
        // One that has begun was not too long, unless the stream is refused for it.
        if needs > most && is_begun && stream.recv.refused.is_none() {
            let (field, given, max) = ("what a message needs", needs, most);
            return Err(WireError::FieldTooLarge { field, given, max });
        }
        let (given, max) = (blocked.had, stream.recv.credit.given);
        if given > max {
            let field = "credit that a stream has had";
            return Err(WireError::FieldTooLarge { field, given, max });
        }
        self.credit.peer_waits += 1;
        if stream.recv.refused.is_some() {
            return Ok(());
        }
        if needs > most {
            let max = self.config.limits.max_message as u64;
            self.events
                .push_back(stream.recv.refuse(id, needs - MESSAGE_CHARGE, max));
            self.put_stop(id);
            return Ok(());
        }
        stream.recv.credit.was_short = true;
        if given < max {
            // There is more on its way, after which it may not wait any longer.
            return Ok(());
        }
        stream.recv.credit.blocked = Some(blocked.needs);
        self.give_credit(Some(id));
        // Nobody may have asked yet whether it is waited for.
        if self
            .streams
            .peek(id)
            .is_some_and(|it| it.recv.credit.blocked.is_some())
        {
            self.events.push_back(Event::Starved(id));
        }
        Ok(())
    }

    /// The peer gives back what a stream that has ended had.
    pub(super) fn on_unused(&mut self, unused: Unused) -> Result<(), WireError> {
        let (given, max) = (unused.amount, self.credit.initial());
        if given > max {
            let field = "credit given back";
            return Err(WireError::FieldTooLarge { field, given, max });
        }
        self.credit.given -= given;
        self.give_credit(None);
        Ok(())
    }

    /// What the hello of another connection says.
    pub(super) fn restart_credit(&mut self) -> u64 {
        self.credit.take_back(&mut self.streams);
        let mut promises = Vec::new();
        for id in self.streams.ids() {
            let Some(stream) = self.streams.find(id) else {
                continue;
            };
            let recv = &mut stream.recv;
            let promise = recv.credit.promise;
            recv.credit = StreamCredit {
                promise: promise.and_then(|promise| promise.carried_over(recv.received)),
                ..StreamCredit::default()
            };
            promises.extend(recv.credit.promise);
        }
        self.credit.restart(promises.into_iter());
        self.credit.initial()
    }

    /// The peer gives more.
    pub(super) fn on_credit(&mut self, credit: Credit) -> Result<(), WireError> {
        let Credit { stream, amount } = credit;
        let Some(id) = stream else {
            self.sender.credit.add(amount)?;
            self.sender.wake_starved(&mut self.streams);
            return Ok(());
        };
        if !self.sender.credit.is_bounded() {
            return Err(WireError::Unexpected {
                what: "credit of a side that bounds nothing",
            });
        }
        match self.streams.find(id) {
            Some(stream) if stream.send.takes_credit() => {
                let send = &mut stream.send;
                send.add_own(amount)?;
                self.sender.on_sendable(id, send);
                self.sender.credit.say_again(id, send);
            }
            // It has ended meanwhile.
            _ => {
                self.check_was_open(id)?;
                self.put_control(&Control::Unused(Unused { amount }));
            }
        }
        Ok(())
    }

    /// Tells the peer which streams wait for it, once all is out that they could send.
    pub(super) fn put_blocked(&mut self) {
        if self.sender.is_encoding() || !self.is_connected() {
            return;
        }
        while let Some(id) = self.sender.credit.take_unsaid() {
            let Some(stream) = self.streams.find(id) else {
                continue;
            };
            let had = stream.send.had;
            if let Some(needs) = stream.send.say_starved() {
                self.put_control(&Control::Blocked(Blocked {
                    stream: id,
                    needs,
                    had,
                }));
            }
        }
    }
}
