//! What the peer says: its hello, and the control frames that change the session.

use super::dictionaries::FIRST_DICTIONARY_SLOT;
use super::observer::{Observation, Observations};
use super::{
    Event, HEADER_SLACK, MIN_WINDOW, Peer, Session, SessionError, State, features, receiver,
};
use crate::control::{Arms, BudgetRate};
use crate::units::{CpuLoad, Time};
use crate::wire::{
    Ack, Close, CloseCode, Control, Define, Features, GoAway, GoAwayCode, Hello, Open, ProbeReply,
    Role, StreamId, Window, WireError,
};

/// Load from which on a peer counts as short of processor time: something always waits. Arbitrary.
const SATURATED: f64 = 0.98;

impl Session {
    /// Whether a hello can be that of this session's peer.
    pub(super) fn check_hello(&self, hello: &Hello) -> Result<(), WireError> {
        if hello.role == self.role {
            return Err(WireError::Unexpected {
                what: "a peer that has the same role, or this side itself",
            });
        }
        let offered = features(&self.config);
        if !offered.contains(hello.required) {
            return Err(WireError::Feature {
                required: hello.required.0,
                offered: offered.0,
            });
        }
        let at_least = |field, given: u64, min: u64| {
            if given < min {
                Err(WireError::FieldTooSmall { field, given, min })
            } else {
                Ok(())
            }
        };
        at_least("the peer's longest block", hello.max_block, 4 << 10)?;
        at_least("the peer's window", hello.window, MIN_WINDOW)
    }

    /// Begins to use the histories and dictionaries that both sides have memory for.
    pub(super) fn agree_on_memory(&mut self, hello: &Hello) {
        let both = features(&self.config).common(hello.offered);
        if both.contains(Features::HISTORY) {
            let here = self.config.history_memory;
            let there = usize::try_from(hello.history_memory).unwrap_or(usize::MAX);
            let longest = hello.codecs.iter().map(|peer| peer.window_log).min();
            let log = self.config.history_log.min(longest.unwrap_or(0));
            self.sender.history.begin((here, there), log);
            self.receiver
                .begin_history(self.config.history_received(), self.config.window_log);
        }
        if both.contains(Features::DICTIONARIES) {
            self.sender.dictionaries.begin(&hello.dictionaries);
            self.receiver.dictionaries.begin();
            if self.sender.dictionaries.is_agreed() {
                self.sender.history.leave_slots(FIRST_DICTIONARY_SLOT);
            }
        }
    }

    pub(super) fn establish(&mut self, hello: &Hello) -> Result<(), WireError> {
        self.check_hello(hello)?;
        let both = features(&self.config).common(hello.offered);
        let with_check = both.contains(Features::CHECKSUMS);
        self.peer_codecs = hello.codecs.iter().map(|peer| peer.codec).collect();
        self.agree_on_memory(hello);
        if both.contains(Features::RESUME) {
            self.agree_on_resuming(hello.resume);
        }
        let wanted = &self.config.arms;
        let rotation = self.config.rotation.as_ref().unwrap_or(wanted);
        // A block that goes by itself is lost for the history, which is worth more and begins with the
        // dictionary (measured: docs/benchmarks.md, "New connections").
        let has_history = wanted.iter().any(|it| it.history && self.both_have(*it));
        let arms = Arms::new(rotation, wanted, |arm| {
            self.both_have(arm) && !(arm.dictionary && has_history)
        });
        let peer_block = usize::try_from(hello.max_block).unwrap_or(usize::MAX) - HEADER_SLACK;
        let block_len = self.config.block_len.min(peer_block);
        let lens = (block_len.min(longest_for(hello)), self.config.send_queue);
        self.sender.begin(arms, with_check, lens);
        self.sender.credit.begin(hello.credit);
        self.receiver.begin(with_check);
        self.peer = Peer {
            max_message: hello.max_message,
            max_streams: hello.max_streams,
            window: hello.window,
            session: hello.session,
        };
        self.state = State::Established;
        self.sent_since_probe = true;
        self.events.push_back(Event::Established);
        Ok(())
    }

    /// Runs the inbound queue as far as blocks are decoded.
    pub(super) fn deliver(&mut self) -> Result<(), WireError> {
        let blocks = self.receiver.blocks;
        while let Some(control) =
            self.receiver
                .deliver(&mut self.streams, &mut self.credit, &mut self.events)?
        {
            let is_numbered = control.is_numbered();
            if let Err(error) = self.on_ordered(control) {
                self.receiver.take_back(is_numbered);
                return Err(error);
            }
        }
        if self.receiver.blocks != blocks {
            self.used_at = self.now;
        }
        let mut to_credit = core::mem::take(&mut self.receiver.to_credit);
        to_credit.drain(..).for_each(|id| self.release(id, 0));
        self.receiver.to_credit = to_credit;
        let to_stop = core::mem::take(&mut self.receiver.to_stop);
        for id in to_stop {
            self.put_stop(id);
        }
        self.end_if_lost();
        Ok(())
    }

    fn on_ordered(&mut self, control: Control) -> Result<(), WireError> {
        match control {
            Control::Open(open) => self.on_open(open),
            Control::Close(close) => self.on_close(close),
            Control::Window(window) => self.on_window(window),
            Control::Credit(credit) => self.on_credit(credit),
            Control::Blocked(blocked) => self.on_blocked(blocked),
            Control::Unused(unused) => self.on_unused(unused),
            Control::Stop(stop) => self.on_stop(stop),
            Control::GoAway(go_away) => self.on_go_away(go_away),
            Control::Define(define) => self.on_define(&define),
            Control::Fault(fault) => {
                self.on_fault(fault);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn on_open(&mut self, open: Open) -> Result<(), WireError> {
        let id = open.stream;
        if self.ending.peer_gone {
            return Err(WireError::Unexpected {
                what: "a stream opened after go-away",
            });
        }
        if id.is_connectors() == (self.role == Role::Connector) {
            return Err(WireError::Unexpected {
                what: "a stream opened with a number of the other side",
            });
        }
        if self.last_peer_stream.is_some_and(|last| id <= last) {
            return Err(WireError::Unexpected {
                what: "a stream opened with a number that was used before",
            });
        }
        self.open_rate.on_open(self.now)?;
        let max = u64::from(self.config.limits.max_streams);
        let given = u64::from(self.streams.count(id.is_connectors())) + 1;
        if given > max {
            return Err(WireError::FieldTooLarge {
                field: "open streams",
                given,
                max,
            });
        }
        self.last_peer_stream = Some(id);
        let send_limit = match open.window {
            0 => self.peer.window,
            given if given < MIN_WINDOW => {
                let (field, min) = ("a stream's window", MIN_WINDOW);
                return Err(WireError::FieldTooSmall { field, given, min });
            }
            given => given,
        };
        self.add_stream(id, open.name, open.group, self.config.policy, send_limit);
        self.events.push_back(Event::StreamOpened(id));
        if self.state != State::Established {
            self.finish(id);
        }
        Ok(())
    }

    /// A slot was defined; what its blocks are decoded with follows it from where it was read.
    fn on_define(&mut self, define: &Define) -> Result<(), WireError> {
        if self.streams.has_group(define.group) {
            Ok(())
        } else {
            Err(WireError::Unknown {
                what: "group",
                given: u64::from(define.group.0),
            })
        }
    }

    pub(super) fn on_close(&mut self, close: Close) -> Result<(), WireError> {
        let Some(stream) = self.streams.find(close.stream) else {
            return Err(WireError::Unexpected {
                what: "a close of a stream that is not open",
            });
        };
        receiver::end(&mut stream.recv, close.code, &mut self.credit)?;
        self.events
            .push_back(Event::StreamEnded(close.stream, close.code));
        self.streams.remove_if_over(close.stream);
        self.give_credit(None);
        Ok(())
    }

    /// A stream that this side finished may be gone while something for it is on the way; one that never was is not.
    pub(super) fn check_was_open(&self, id: StreamId) -> Result<(), WireError> {
        let was_open = if id.is_connectors() == (self.role == Role::Connector) {
            id.get() < self.next_stream
        } else {
            self.last_peer_stream.is_some_and(|last| id <= last)
        };
        if was_open {
            return Ok(());
        }
        Err(WireError::Unexpected {
            what: "something for a stream that was never open",
        })
    }

    pub(super) fn on_window(&mut self, window: Window) -> Result<(), WireError> {
        let Some(stream) = self.streams.find(window.stream) else {
            return self.check_was_open(window.stream);
        };
        let send = &mut stream.send;
        if window.limit < send.limit {
            return Err(WireError::FieldTooSmall {
                field: "window limit",
                given: window.limit,
                min: send.limit,
            });
        }
        send.limit = window.limit;
        self.sender.on_sendable(window.stream, send);
        Ok(())
    }

    /// The peer gives this connection up, for what it says.
    fn on_fault(&mut self, fault: GoAway) {
        let cause = SessionError::GoneAway {
            code: fault.code,
            detail: fault.detail,
        };
        if !self.lose(cause.clone()) {
            self.end(Err(cause));
        }
    }

    pub(super) fn on_go_away(&mut self, go_away: GoAway) -> Result<(), WireError> {
        if self.ending.peer_gone && go_away.code == GoAwayCode::Done {
            return Err(WireError::Unexpected {
                what: "a second go-away that all is done",
            });
        }
        self.ending.peer_gone = true;
        if go_away.code != GoAwayCode::Done {
            // Streams that were open are cut: what ends them is the failed session.
            self.end(Err(SessionError::GoneAway {
                code: go_away.code,
                detail: go_away.detail,
            }));
            return Ok(());
        }
        for id in self.streams.ids() {
            if let Some(stream) = self
                .streams
                .find(id)
                .filter(|stream| stream.recv.ended.is_none())
            {
                receiver::end(&mut stream.recv, CloseCode::Finished, &mut self.credit)?;
                self.events
                    .push_back(Event::StreamEnded(id, CloseCode::Finished));
            }
        }
        self.close();
        self.end_if_both_gone();
        Ok(())
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: &Ack) -> Result<(), WireError> {
        let known = &mut self.path.known;
        let position = self.sender.output.position();
        let first = self.sender.inflight.blocks_acked();
        self.sender
            .inflight
            .on_ack(now, ack, position, &mut known.rtt, &mut known.link)?;
        let count = self.sender.inflight.blocks_acked() - first;
        if count > 0 {
            let told = &self.sender.told;
            if let Some(observer) = told.of(Observations::BLOCKS_ACKNOWLEDGED) {
                observer.blocks_acknowledged(first, count);
            }
        }
        self.sender.flight.release();
        ack.decoded
            .iter()
            .for_each(|report| known.decode.record(now, report));
        self.release_retained(ack.frames);
        Ok(())
    }

    pub(super) fn on_probe_reply(&mut self, now: Time, reply: &ProbeReply) {
        let known = &mut self.path.known;
        self.sender
            .inflight
            .on_probe_reply(now, reply, &mut known.rtt, &mut known.link);
        self.sender
            .told
            .tell(Observations::ROUND_TRIP, || Observation::RoundTrip {
                rtt: known.rtt.smoothed(),
                rtt_min: known.rtt.min(),
                link_rate: known.link.link_rate(),
            });
        known.decode.fade();
        if reply.load_permille > ProbeReply::FULL_LOAD
            || reply.codec_budget > ProbeReply::MOST_BUDGET
        {
            self.sender.inflight.on_absurd();
        }
        let load = CpuLoad::new(reply.load_permille.min(ProbeReply::FULL_LOAD) as f64 / 1000.0);
        self.peer_load = Some(load);
        self.path.peer_saturated = load.get() >= SATURATED;
        let budget = reply.codec_budget.min(ProbeReply::MOST_BUDGET);
        let budget = (budget > 0).then(|| BudgetRate::from_nanos_per_sec(budget));
        self.path.peer_budget.set(now, budget);
        reply
            .decoded
            .iter()
            .for_each(|report| self.path.known.decode.record(now, report));
    }
}

/// The longest plain block that every codec can make of histories that the peer holds. Half of the
/// smallest one: zstd's window is the length rounded up to a power of two, and bzip2's block counts
/// what its run-length stage adds.
fn longest_for(hello: &Hello) -> usize {
    hello
        .codecs
        .iter()
        .filter(|peer| crate::codecs::info(peer.codec).is_some())
        .map(|peer| {
            let window_log = peer.window_log;
            crate::codecs::DecodeLimits { window_log }.window_bytes() / 2
        })
        .min()
        .unwrap_or(usize::MAX)
}
