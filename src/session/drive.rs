//! A session as its driver sees it: inputs with their times, and outputs to be polled.

use core::time::Duration;
use std::io::IoSlice;

use bytes::BytesMut;

use super::dictionaries::{DictionaryJob, DictionaryWork};
use super::error::SessionError;
use super::event::Event;
use super::job::{
    DecodeJob, DecodedBlock, EncodeJob, EncodedBlock, JobTime, ShadowJob, ShadowedBlock,
};
use super::observer::{Observation, Observations};
use super::receiver::Taken;
use super::retained::Frame;
use super::sender::unsent_limit;
use super::{Session, State};
use crate::control::{BudgetRate, HistoryUse, SocketSample};
use crate::units::{CpuLoad, Time, earliest, saturating_nanos};
use crate::wire::{Control, Hello, Probe, ProbeReply, WireError};

/// An acknowledgement travels with other output rather than alone if the last one is so long ago.
/// Arbitrary: its bytes and time do not show at 500 a second.
const ACK_SPACING: Duration = Duration::from_millis(2);

/// A peer that is silent because the question has not left yet is looked at again so much later. Arbitrary.
const SILENCE_AGAIN: Duration = Duration::from_millis(100);

/// Bytes waiting to be written above which acknowledgements and probe replies wait too: a peer
/// that sends and does not read must not make the output grow. Arbitrary, above what a block or two leave there.
const MAX_UNREAD: usize = 256 << 10;

impl Session {
    // ---- inputs

    /// Takes in bytes from the peer; whole frames are removed from the front of `input`, the rest
    /// stays for the next call. Stops early while [`Self::wants_input`] is false: call it again
    /// after the decode jobs were run, or at [`Self::poll_timeout`].
    ///
    /// # Errors
    ///
    /// The session is over; the error is sticky, and the peer's go-away is in the output.
    pub fn handle_input(&mut self, now: Time, input: &mut BytesMut) -> Result<(), SessionError> {
        self.check_open()?;
        self.now = self.now.max(now);
        if self.is_waiting() {
            return Ok(());
        }
        self.receiver.decode_time.on_time(now);
        if self.receiver.begin_input(now, input) {
            self.heard_at = now;
        }
        let result = self.take_input(now, input);
        self.receiver.end_input(input.len());
        self.fail_on(result)
    }

    fn take_input(&mut self, now: Time, input: &mut BytesMut) -> Result<(), WireError> {
        let is_first = matches!(self.state, State::Handshaking { .. });
        if is_first || self.is_resuming() {
            let Some((hello, len)) = Hello::parse(input)? else {
                return Ok(());
            };
            bytes::Buf::advance(input, len);
            self.receiver.wire_bytes += len as u64;
            if is_first {
                self.establish(&hello)?;
            } else {
                self.resume(&hello)?;
            }
        }
        while self.receiver.wants_input() && self.is_connected() {
            match self.receiver.take_frame(now, input)? {
                Taken::Nothing => break,
                Taken::Control(Control::Probe(Probe { id, .. })) => {
                    self.probe_reply = Some((id, now));
                }
                Taken::Control(Control::ProbeReply(reply)) => self.on_probe_reply(now, &reply),
                Taken::Control(Control::Ack(ack)) => self.on_ack(now, &ack)?,
                Taken::Control(Control::DictionaryAnswer(answer)) => {
                    self.sender.dictionaries.on_answer(answer)?;
                }
                Taken::Ordered | Taken::Control(_) => {}
            }
            self.deliver()?;
        }
        self.put_dictionary_answers();
        let given = self.sender.output.len();
        let max = self.config.limits.output;
        if given > max {
            let (field, max) = ("bytes waiting for the peer to read", max as u64);
            return Err(WireError::FieldTooLarge {
                field,
                given: given as u64,
                max,
            });
        }
        Ok(())
    }

    /// The socket has nothing to read for now. Said again before the next bytes come, it changes nothing;
    /// without it, the peer takes this end for one that is slower than the link.
    pub fn handle_dry(&mut self, now: Time) {
        self.receiver.on_dry(now);
    }

    /// Something was read, and for so long since [`Self::handle_dry`] the driver was not waiting for it but was busy, or ready and had no
    /// processor. Without it the peer takes what kept this end from reading for a slow link.
    pub fn handle_awake(&mut self, busy: Duration) {
        self.receiver.on_awake(busy);
    }

    /// Whether the driver has said [`Self::handle_dry`] and nothing has come since.
    pub const fn is_dry(&self) -> bool {
        self.receiver.is_dry()
    }

    /// Whether more bytes from the peer should be read now.
    pub fn wants_input(&self) -> bool {
        let connected = !matches!(self.state, State::Closed(_)) && !self.is_waiting();
        connected && self.receiver.wants_input()
    }

    /// So many blocks may be encoded at once, at least 1, which is the default: those that stand by themselves and take long
    /// ([`PARALLEL_FROM`](crate::control::PARALLEL_FROM)), of messages that wait. They may be given back in any order.
    pub const fn set_encoders(&mut self, most: usize) {
        self.sender.set_encoders(most);
    }

    /// Takes in a block that was encoded, which took `time`.
    pub fn handle_encoded(&mut self, now: Time, block: EncodedBlock, time: impl Into<JobTime>) {
        if self.is_over() {
            return;
        }
        let (streams, path) = (&mut self.streams, &mut self.path);
        self.sender
            .on_encoded(now, block, time.into(), streams, path);
        self.after_output();
    }

    /// Takes in what other arms made of a block.
    pub fn handle_shadowed(&mut self, now: Time, block: ShadowedBlock) {
        self.sender
            .on_shadowed(now, block, &mut self.streams, &mut self.path);
    }

    /// Takes in what came of work on dictionaries, which took `elapsed`.
    ///
    /// # Errors
    ///
    /// The peer has sent what is no dictionary, or another one than it said: the session is over.
    pub fn handle_dictionary(
        &mut self,
        now: Time,
        work: DictionaryWork,
        elapsed: Duration,
    ) -> Result<(), SessionError> {
        self.check_open()?;
        let result = self.take_dictionary_work(now, work, elapsed);
        self.put_dictionary_answers();
        self.take_dictionary_events();
        self.fail_on(result)
    }

    /// Takes in a block that was decoded in `elapsed`.
    ///
    /// # Errors
    ///
    /// The block did not decode or broke the protocol: the session is over.
    pub fn handle_decoded(
        &mut self,
        block: DecodedBlock,
        elapsed: Duration,
    ) -> Result<(), SessionError> {
        self.check_open()?;
        let result = self
            .receiver
            .on_decoded(block, elapsed)
            .and_then(|()| self.deliver());
        self.fail_on(result)
    }

    /// The socket has taken `written` bytes of the output.
    ///
    /// # Panics
    ///
    /// If that is more than there was: the driver's mistake.
    pub fn handle_written(&mut self, now: Time, written: usize) {
        self.sender.on_written(now, written, &mut self.path);
        if written > 0 {
            self.wrote_at = now;
            self.path.blocked_since = None;
        }
    }

    /// The socket takes no more bytes for now, and output is left. Said again before
    /// [`Self::handle_written`], it changes nothing.
    pub fn handle_blocked(&mut self, now: Time) {
        self.path.blocked_since.get_or_insert(now);
        self.path.was_blocked = true;
    }

    /// How many bytes the socket should take before they are on their way: 128 KiB, so that the link has something to send while
    /// the next block is being encoded; on a slow link fewer, so that decisions are not made long before they matter, and more on one that
    /// was seen to be so fast that a write costs more than its bytes.
    pub fn unsent_limit(&self) -> u32 {
        let limit = unsent_limit(&self.path.known.link);
        u32::try_from(limit).unwrap_or(u32::MAX)
    }

    /// Takes in what the system says of the socket.
    pub fn handle_socket_sample(&mut self, now: Time, sample: SocketSample) {
        self.path.on_socket_sample(now, sample);
    }

    /// The time of [`Self::poll_timeout`] has come, or any other time.
    ///
    /// # Errors
    ///
    /// The handshake took too long.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), SessionError> {
        self.check_open()?;
        self.now = self.now.max(now);
        // A connection may be over before another block is decided on: what has passed is time for the next one's shadows.
        if self.path.is_of_use {
            let (load, budget) = (self.sender.load, self.sender.budget.rate());
            self.path.known.codecs.shadow_time.fill(now, load, budget);
        }
        self.receiver.decode_time.on_time(now);
        self.handle_outage(now)?;
        self.handle_silence(now)?;
        self.close_if_idle(now);
        if let State::Handshaking { deadline } = self.state {
            if now >= deadline {
                let error = SessionError::HandshakeTimeout {
                    limit: self.config.limits.handshake_time,
                };
                self.end(Err(error.clone()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The connection has ended: no more bytes come from the peer. What has come and is still being
    /// decoded takes effect first.
    pub fn handle_eof(&mut self) {
        if self.is_waiting() {
            return;
        }
        self.ending.input_ended = true;
        self.end_if_lost();
    }

    /// Ends the session now, whatever is still under way.
    pub fn abort(&mut self) {
        self.end(Err(SessionError::ConnectionLost));
    }

    /// Grants codec time at a rate, or with `None` without limit. A session begins with none (thesis
    /// 7.2.7, initial values).
    pub fn set_budget(&mut self, now: Time, rate: Option<BudgetRate>) {
        // A guard begins with nothing, before it has measured anything: that says nothing of this end.
        self.states_budget = self.has_budget || rate != Some(BudgetRate::ZERO);
        self.has_budget = true;
        let old = self.sender.budget.rate();
        if old != rate {
            let changed = Observation::BudgetChanged { old, new: rate };
            self.sender
                .told
                .tell(Observations::BUDGET_CHANGED, || changed);
        }
        match rate {
            Some(rate) => self.sender.budget.set_rate(now, rate),
            None => self.sender.budget.set_unlimited(),
        }
    }

    /// Takes in this side's processor load, to be told to the peer.
    pub fn set_load(&mut self, load: CpuLoad) {
        self.sender.load = load;
    }

    /// Sets the memory that histories of what this side sends may hold from now on, bytes, at most
    /// [`SessionConfig::history_memory`](super::SessionConfig::history_memory). Those that were not used for
    /// longest give way, at the peer too; one that a block is being encoded with does so after it.
    pub fn set_history_memory(&mut self, bytes: usize) {
        if !self.is_over() {
            self.sender.limit_history(bytes);
        }
    }

    /// What histories of what this side sends hold, and what they are worth.
    pub fn history_use(&self, now: Time) -> HistoryUse {
        self.sender.history_use(now)
    }

    /// Memory that the peer may have held here for what it sends, bytes, and how much of it is; 0 if no histories
    /// were agreed on.
    pub fn history_received(&self) -> (usize, usize) {
        let history = &self.receiver.history;
        (history.limit(), history.memory())
    }

    // ---- outputs

    /// A block to be decoded, if there is one. Several may be under way; results may come in any order.
    pub fn poll_decode(&mut self) -> Option<DecodeJob> {
        self.receiver.take_job()
    }

    /// Queues what is due for writing and gives out a block to be encoded, if there is one: no more are under
    /// way at a time than [`Self::set_encoders`] says, and of those with a history one.
    pub fn poll_encode(&mut self, now: Time) -> Option<EncodeJob> {
        self.now = self.now.max(now);
        if !self.is_connected() {
            return None;
        }
        self.put_due_control(now);
        self.put_dictionary_frames(now);
        let blocks = self.sender.inflight.blocks_sent();
        self.sender
            .fill(now, &mut self.streams, &mut self.path, &mut self.events);
        if self.sender.inflight.blocks_sent() != blocks {
            self.after_output();
        }
        self.put_blocked();
        if self.sender.wants_probe {
            self.put_due_control(now);
        }
        self.sender.take_job()
    }

    /// A block to be encoded with other arms, if there is one: off the way of messages, on a processor
    /// that has nothing better to do. Only one is under way at a time; it may be dropped.
    pub fn poll_shadow(&mut self) -> Option<ShadowJob> {
        self.sender.take_shadow()
    }

    /// Work on dictionaries, if there is any: off the way of messages, and off the executor's thread. It may
    /// be dropped, and then is not asked for again.
    pub fn poll_dictionary(&mut self, now: Time) -> Option<DictionaryJob> {
        if self.state != State::Established {
            return None;
        }
        let arrived = self.receiver.dictionaries.poll_job();
        let budget = self.sender.budget.rate();
        let job = arrived.or_else(|| self.sender.dictionaries.poll_job(now, budget));
        self.take_dictionary_events();
        job
    }

    /// Whether messages wait for their block or a block for its codec: decisions are due, and
    /// [`Self::handle_socket_sample`] is worth its cost.
    pub fn has_queued(&self) -> bool {
        self.is_connected() && !self.sender.is_idle()
    }

    /// Whether only what comes from outside, or time, can give it more to do: no messages wait, no output and no event, and it is not
    /// about to end.
    pub fn is_settled(&self) -> bool {
        self.state == State::Established
            && self.is_connected()
            && !self.ending.sent_go_away
            && self.sender.is_idle()
            && self.sender.output.len() == 0
            && self.events.is_empty()
    }

    /// Bytes that wait to be written.
    pub fn output_len(&self) -> usize {
        self.sender.output.len()
    }

    /// Fills `slices` with what is to be written next, in order, and returns how many were filled.
    pub fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.sender.output.fill_slices(slices)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] and [`Self::poll_encode`] must be called at the latest; `None`
    /// if only input or the application can change anything.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Handshaking { deadline } => Some(deadline),
            State::Closed(_) => None,
            State::Established | State::Draining if !self.is_connected() => self.outage_due(),
            State::Established | State::Draining => {
                // Written out: this is asked for at the end of each turn of the driver.
                let silence = self.silence_due();
                let due = silence.map(|due| due.max(self.now + SILENCE_AGAIN));
                let due = earliest(due, self.ack_due());
                let due = earliest(due, self.probe_due());
                let due = earliest(due, self.sender.held_until());
                let due = earliest(due, self.sender.piece_at);
                let due = earliest(due, self.receiver.decode_time.paused_until());
                earliest(due, self.idle_due())
            }
        }
    }

    /// Grows with everything that brings the session nearer to its end: frames in order, both ways.
    pub const fn progress(&self) -> u64 {
        self.receiver.frames() + self.sender.inflight.sent()
    }

    /// Whether the session is over, and how.
    pub fn closed(&self) -> Option<&Result<(), SessionError>> {
        match &self.state {
            State::Closed(result) => Some(result),
            _ => None,
        }
    }

    // ---- inner workings

    /// Whether its last word is said.
    const fn is_over(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// When the acknowledgement of what was received must leave; not while the peer reads nothing.
    fn ack_due(&self) -> Option<Time> {
        let reads = self.sender.output.len() <= MAX_UNREAD;
        self.receiver
            .ack_due(self.config.ack_delay, self.last_ack)
            .filter(|_| reads)
    }

    /// When the peer is to be asked whether it is there.
    fn heartbeat_due(&self) -> Option<Time> {
        let due = self.heard_at + self.config.heartbeat?;
        self.sender.inflight.can_probe().then_some(due)
    }

    /// When a connection without a word from the peer counts as lost.
    fn silence_due(&self) -> Option<Time> {
        let inflight = &self.sender.inflight;
        if inflight.can_probe() {
            return None;
        }
        // A question that has not left may wait for a link that takes nothing any more.
        let asked = inflight.probe_written().unwrap_or(self.wrote_at);
        Some(self.heard_at.max(asked) + self.config.dead_after?)
    }

    fn handle_silence(&mut self, now: Time) -> Result<(), SessionError> {
        let is_due = self.silence_due().is_some_and(|due| now >= due);
        let Some(limit) = self
            .config
            .dead_after
            .filter(|_| is_due && self.is_connected())
        else {
            return self.check_open();
        };
        // On a slow link the question may not have left yet, but then something leaves.
        let has_left = self.sender.link_backlog(now, &self.path) == 0;
        if has_left || now >= self.wrote_at + limit {
            let cause = SessionError::Silent { limit };
            if !self.lose(cause.clone()) {
                self.end(Err(cause));
            }
        }
        self.check_open()
    }

    fn probe_due(&self) -> Option<Time> {
        let due = match self.last_probe {
            Some(last) if !self.sender.wants_probe => last + self.config.probe_interval,
            _ => Time::ZERO,
        };
        let due = (self.sent_since_probe && self.sender.inflight.can_probe()).then_some(due);
        earliest(due, self.heartbeat_due())
    }

    /// Bytes by which a probe is to be longer, to show what the link is while it has nothing else to carry.
    fn padding(&self, now: Time) -> usize {
        let inflight = &self.sender.inflight;
        let is_idle = inflight.can_probe() && inflight.unacked() == 0;
        let is_idle = is_idle && self.sender.is_idle() && self.sender.output.len() == 0;
        if !is_idle || !self.path.is_of_use {
            return 0;
        }
        let sent = self.sender.output.position();
        let padding = self.path.known.link.padding(now, sent);
        padding.unwrap_or(0).min(Probe::MOST_PADDING)
    }

    /// Probes and their replies first, then acknowledgements; all of them ahead of data.
    fn put_due_control(&mut self, now: Time) {
        let reads = self.sender.output.len() <= MAX_UNREAD;
        let probed = self.probe_reply.take_if(|_| reads);
        // Who probes may be waiting for an acknowledgement.
        let replied = probed.is_some();
        if let Some((id, received)) = probed {
            let reply = ProbeReply {
                id,
                received_nanos: received.as_nanos(),
                held_nanos: saturating_nanos(now.saturating_since(received)),
                load_permille: ((self.sender.load.get() * 1000.0) as u64)
                    .min(ProbeReply::FULL_LOAD),
                codec_budget: self
                    .sender
                    .budget
                    .rate()
                    .filter(|_| self.states_budget)
                    .map_or(0, |rate| rate.as_nanos_per_sec().max(1)),
                decoded: self.receiver.decode_reports(),
            };
            self.put_control(&Control::ProbeReply(reply));
        }
        let padding = self.padding(now);
        if padding > 0 || self.probe_due().is_some_and(|due| now >= due) {
            if let Some(id) = self.sender.inflight.new_probe() {
                self.put_control(&Control::Probe(Probe { id, padding }));
                let position = self.sender.output.position();
                self.sender.inflight.on_probe(id, padding, position);
                if padding > 0 {
                    self.path.known.link.on_padded_probe(now, padding);
                }
                self.last_probe = Some(now);
                self.sent_since_probe = false;
                self.sender.wants_probe = false;
            }
        }
        if let Some(due) = self.ack_due() {
            let spaced = self
                .last_ack
                .is_none_or(|last| now.saturating_since(last) >= ACK_SPACING);
            let rides_along = spaced && !self.sender.is_idle();
            if now >= due || rides_along || replied {
                let ack = self.receiver.ack(now);
                self.put_control(&Control::Ack(ack));
                self.last_ack = Some(now);
            }
        }
    }

    pub(super) fn put_control(&mut self, control: &Control) {
        if self.is_over() {
            return;
        }
        let frame = match control {
            Control::Open(open) => Frame::Open(open.stream),
            Control::Close(close) => Frame::Close(close.stream),
            Control::GoAway(_) => Frame::GoAway,
            _ => Frame::Passing,
        };
        if control.is_numbered() {
            self.sender.retained.push(frame);
        }
        if let (true, Frame::Close(id)) = (self.sender.retained.is_on(), frame) {
            if let Some(stream) = self.streams.find(id) {
                stream.send.unacked += 1;
            }
        }
        if self.is_waiting() || self.is_resuming() {
            // What is kept goes over the next connection; the rest is said anew.
            return;
        }
        if control.is_numbered() {
            self.sender.inflight.on_control();
        }
        self.sender.output.put_small(|out| control.put(out));
    }

    /// Blocks were put out: streams may have been drained, and the session with them.
    fn after_output(&mut self) {
        self.sent_since_probe = true;
        let finishing = core::mem::take(&mut self.finishing);
        for id in finishing {
            self.finish_if_drained(id);
        }
        self.go_away_if_drained();
    }
}
