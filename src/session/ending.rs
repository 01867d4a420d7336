//! The end of streams and sessions: drained, said, heard, or lost.

use super::stream::{SendState, Stopped, Stream};
use super::{Event, Session, SessionError, State};
use crate::units::Time;
use crate::wire::{
    Close, CloseCode, Control, GoAway, GoAwayCode, Stop, StopReason, StreamId, Unused, WireError,
};

/// What a direction ends with that the peer has stopped. It has said why, so that the number means nothing.
const STOPPED: CloseCode = CloseCode::Aborted(0);

impl Session {
    pub(super) fn end_if_lost(&mut self) {
        let lost = self.ending.input_ended && self.receiver.is_idle();
        if lost && !self.is_waiting() && !self.lose(SessionError::ConnectionLost) {
            self.end(Err(SessionError::ConnectionLost));
        }
    }

    /// When a session that is not used is closed.
    pub(super) fn idle_due(&self) -> Option<Time> {
        let limit = self.config.limits.idle_time?;
        let is_idle = self.state == State::Established && self.is_connected();
        let is_idle = is_idle && self.sender.is_idle() && self.receiver.is_idle();
        is_idle.then_some(self.used_at + limit)
    }

    pub(super) fn close_if_idle(&mut self, now: Time) {
        if self.idle_due().is_none_or(|due| now < due) {
            return;
        }
        // What waits for the peer or the application is still to be used.
        let waits = |stream: &Stream| !stream.send.queue.is_empty() || stream.recv.held() > 0;
        if self.streams.iter().any(waits) {
            self.used_at = now;
        } else {
            self.close();
        }
    }

    pub(super) fn finish_if_drained(&mut self, id: StreamId) {
        // A block with the stream's last messages may be with a codec: its close must come after.
        let Some(stream) = self.streams.find(id) else {
            return;
        };
        if stream.send.state != SendState::Finishing {
            return;
        }
        if !stream.send.queue.is_empty() || self.sender.is_encoding() {
            self.finishing.push(id);
        } else {
            stream.send.state = SendState::Finished;
            let code = stream.send.stopped.map_or(CloseCode::Finished, |_| STOPPED);
            let unused = core::mem::take(&mut stream.send.own);
            if unused > 0 {
                self.put_control(&Control::Unused(Unused { amount: unused }));
            }
            // A stream that the peer opened before it heard the go-away is finished by that.
            if !self.ending.sent_go_away {
                self.put_control(&Control::Close(Close { stream: id, code }));
            }
            self.streams.remove_if_over(id);
        }
    }

    /// Tells the peer that nothing more is taken on a stream, if it is open yet.
    pub(super) fn put_stop(&mut self, id: StreamId) {
        let Some(stream) = self.streams.peek(id) else {
            return;
        };
        let given = stream.recv.refused.filter(|_| stream.recv.ended.is_none());
        if let Some(given) = given {
            self.put_control(&Control::Stop(Stop {
                stream: id,
                messages: stream.stats.messages_received,
                reason: StopReason::TooLong { given },
            }));
        }
    }

    /// The peer takes nothing more on a stream. It says so again over each connection of the session.
    pub(super) fn on_stop(&mut self, stop: Stop) -> Result<(), WireError> {
        let (id, StopReason::TooLong { given }) = (stop.stream, stop.reason);
        let max = self.peer.max_message;
        if given <= max {
            return Err(WireError::FieldTooSmall {
                field: "length of a message that is too long",
                given,
                min: max.saturating_add(1),
            });
        }
        let Some(stream) = self.streams.find(id) else {
            return self.check_was_open(id);
        };
        if stop.messages > stream.stats.messages_sent {
            return Err(WireError::FieldTooLarge {
                field: "messages taken of a stream",
                given: stop.messages,
                max: stream.stats.messages_sent,
            });
        }
        let send = &mut stream.send;
        if send.stopped.is_some() {
            return Ok(());
        }
        send.stopped = Some(Stopped { given, dropped: 0 });
        stream.stats.messages_delivered = stop.messages;
        let bytes = self.sender.drop_queue(id, send);
        if send.state == SendState::Open {
            send.state = SendState::Finishing;
        }
        if bytes > 0 {
            self.events.push_back(Event::Drained { stream: id, bytes });
        }
        self.events.push_back(Event::StreamStopped {
            stream: id,
            taken: stop.messages,
            given,
            max,
        });
        self.finish_if_drained(id);
        self.go_away_if_drained();
        Ok(())
    }

    pub(super) fn go_away_if_drained(&mut self) {
        let waits = self.state != State::Draining || self.ending.sent_go_away;
        if waits || !self.is_connected() || !self.sender.is_idle() {
            return;
        }
        let waiting = self
            .streams
            .iter()
            .any(|stream| !stream.send.queue.is_empty());
        if !waiting {
            self.put_go_away(GoAwayCode::Done, "");
            self.end_if_both_gone();
        }
    }

    pub(super) fn put_go_away(&mut self, code: GoAwayCode, detail: &str) {
        if !self.ending.sent_go_away {
            self.ending.sent_go_away = true;
            self.put_control(&Control::GoAway(GoAway {
                code,
                detail: detail.to_owned(),
            }));
        }
    }

    pub(super) fn end_if_both_gone(&mut self) {
        // Who is to resume must not forget before the peer has everything.
        if self.ending.both_gone() && self.sender.retained.is_empty() {
            if self.is_resumable() {
                // The last word is an acknowledgement: without it the peer would not let go.
                let ack = self.receiver.ack(self.now);
                self.put_control(&Control::Ack(ack));
            }
            self.end(Ok(()));
        }
    }

    pub(super) fn end(&mut self, result: Result<(), SessionError>) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(result.clone());
            self.events.push_back(Event::Closed(result));
        }
    }

    pub(super) fn check_open(&self) -> Result<(), SessionError> {
        match &self.state {
            State::Closed(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn fail_on(&mut self, result: Result<(), WireError>) -> Result<(), SessionError> {
        let Err(error) = result else { return Ok(()) };
        let (code, detail) = (error.code(), error.to_string());
        let error = SessionError::Peer(error);
        if self.lose(error.clone()) {
            return Ok(());
        }
        self.put_go_away(code, &detail);
        self.end(Err(error.clone()));
        Err(error)
    }
}
