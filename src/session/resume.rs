//! A session that outlives its connections.
//!
//! ```text
//!             lost, or broken on the way
//! connected ------------------------------> waiting --another connection--> its handshake
//!     ^                                        |  ^                            |     |
//!     |                                        |  +----------- lost -----------+     |
//!     +------------------------------------------------------- resumed --------------+
//!                                              +--too long, or forgotten by the peer--> closed
//! ```
//!
//! Each side says in its hello how many numbered frames of the session have taken effect here; the other puts what
//! came after them back into its queues. Histories, slots and dictionaries belong to a connection and begin anew.

use super::dictionaries::DictionaryMemory;
use super::error::SessionError;
use super::event::Event;
use super::path::Path;
use super::retained::{Piece, Released, Unreceived};
use super::stream::{SendState, Streams};
use super::{Ending, Session, State, hello};
use crate::units::Time;
use crate::wire::{
    Control, GoAway, GoAwayCode, Hello, MESSAGE_CHARGE, Open, Resume, Role, StreamId, Window,
    WireError,
};

/// Connections of the session that may break one after another, by what the peer sends on them, with nothing received
/// between; as many more as it takes until that has gone on for as long as an outage may last. Arbitrary: a peer that errs does it each
/// time, and damage on the way may be frequent for a while. Those that break before both have said hello don't count: that is over when the
/// outage is.
const MOST_FRUITLESS: u32 = 8;

/// The session is without a connection.
#[derive(Clone, Copy, Debug)]
struct Outage {
    /// When it is given up.
    until: Time,
    /// Until when the peer of the new connection must have said who it is, if there is one.
    handshake: Option<Time>,
}

/// What a session needs to go on over another connection.
#[derive(Debug, Default)]
pub(super) struct Resumption {
    /// The session's name, once both sides have agreed that it may go on.
    token: Option<[u8; 16]>,
    /// Connections after the first that were begun.
    connection: u64,
    /// Numbered frames received over connections before this one.
    received: u64,
    outage: Option<Outage>,
    /// Connections in a row that the peer's faults ended without anything received, and since when.
    fruitless: u32,
    fruitless_since: Option<Time>,
    /// Bytes sent and received over connections before this one.
    pub(super) wire_before: (u64, u64),
    /// What the connection that was lost last has still to carry: what is wrong with it.
    farewell: Vec<u8>,
}

/// What became of the messages of a stream, as far as this side knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The stream.
    pub stream: StreamId,
    /// Its name.
    pub name: String,
    /// Messages that the peer has acknowledged: its session has them.
    pub delivered: u64,
    /// Messages that were sent at least in part after those, of which nothing is known.
    pub unknown: u64,
    /// Messages after those, of which nothing was sent, or that the peer has [refused](super::Event::StreamStopped).
    pub unsent: u64,
}

impl Resumption {
    /// What this side's hello says: nothing before a token is agreed on.
    fn hello(&self) -> Option<Resume> {
        self.token.map(|token| Resume {
            token,
            connection: self.connection,
            received: self.received,
        })
    }
}

impl Session {
    /// Whether the session can go on over another connection when this one is lost.
    pub const fn is_resumable(&self) -> bool {
        self.resumption.token.is_some() && !matches!(self.state, State::Closed(_))
    }

    /// Whether there is a connection, and its handshake is over.
    pub const fn is_connected(&self) -> bool {
        matches!(self.state, State::Established | State::Draining)
            && self.resumption.outage.is_none()
    }

    /// Whether there is no connection, nor one that is being tried.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(
            self.resumption.outage,
            Some(Outage {
                handshake: None,
                ..
            })
        )
    }

    /// Whether the handshake of a further connection is under way.
    pub(super) const fn is_resuming(&self) -> bool {
        matches!(
            self.resumption.outage,
            Some(Outage {
                handshake: Some(_),
                ..
            })
        )
    }

    pub(super) fn outage_due(&self) -> Option<Time> {
        let outage = self.resumption.outage?;
        Some(
            outage
                .handshake
                .map_or(outage.until, |at| at.min(outage.until)),
        )
    }

    /// The name under which the session may be resumed; a secret. `None` before it is agreed on, or if it cannot be.
    pub const fn resume_token(&self) -> Option<[u8; 16]> {
        if matches!(self.state, State::Closed(_)) {
            return None;
        }
        self.resumption.token
    }

    /// Both sides can resume: the acceptor has said by which name.
    pub(super) fn agree_on_resuming(&mut self, granted: Option<Resume>) {
        let token = match self.role {
            Role::Connector => granted.map(|resume| resume.token),
            Role::Acceptor => self.config.resume_token,
        };
        let Some(token) = token else { return };
        self.resumption.token = Some(token);
        self.sender.retained.begin(self.config.retransmit_memory);
        self.receiver.acknowledge_all();
    }

    /// What this side's first hello says of resuming.
    pub(super) const fn granted(config: &super::SessionConfig, role: Role) -> Option<Resume> {
        match (role, config.resume_token) {
            (Role::Acceptor, Some(token)) if config.retransmit_memory > 0 => Some(Resume {
                token,
                connection: 0,
                received: 0,
            }),
            _ => None,
        }
    }

    /// The connection is lost; whether the session waits for another.
    pub(super) fn lose(&mut self, cause: SessionError) -> bool {
        let waits = self.disconnect(match &cause {
            SessionError::Peer(fault) => Some(fault),
            _ => None,
        });
        if waits {
            self.events.push_back(Event::Disconnected(cause));
        }
        waits
    }

    /// `fault` is what the peer has done, if the connection ends for that.
    fn disconnect(&mut self, fault: Option<&WireError>) -> bool {
        if !self.is_resumable() || matches!(self.state, State::Handshaking { .. }) {
            return false;
        }
        let resumption = &mut self.resumption;
        if self.receiver.frames() > 0 {
            resumption.fruitless = 0;
            resumption.fruitless_since = None;
        }
        if fault.is_some() && resumption.outage.is_none() {
            resumption.fruitless = resumption.fruitless.saturating_add(1);
            let since = *resumption.fruitless_since.get_or_insert(self.now);
            let is_long = self.now.saturating_since(since) >= self.config.resume_within;
            if resumption.fruitless > MOST_FRUITLESS && is_long {
                return false;
            }
        }
        let until = resumption
            .outage
            .map_or(self.now + self.config.resume_within, |outage| outage.until);
        resumption.outage = Some(Outage {
            until,
            handshake: None,
        });
        resumption.farewell.clear();
        if let Some(fault) = fault {
            let said = Control::Fault(fault_of(fault));
            let output = &mut self.sender.output;
            output.put_small(|out| said.put(out));
            output.copy_into(&mut resumption.farewell);
        }
        resumption.received += self.receiver.frames();
        resumption.wire_before.0 += self.sender.output.position();
        resumption.wire_before.1 += self.receiver.wire_bytes;
        // Both ends have what histories carried: those of the next connection may begin with it.
        let mut left = DictionaryMemory::default();
        self.leave_histories(&mut left);
        self.sender
            .disconnect(core::mem::take(&mut left.recalled[0]));
        self.receiver.disconnect(&self.config.dictionaries, left);
        self.path.blocked_since = None;
        self.ending.input_ended = false;
        true
    }

    /// What is still to be written on the connection that [`Event::Disconnected`] has spoken of last: what was under way, and
    /// why it ends, so that the peer knows. Empty if it is nothing that the peer has done.
    pub fn take_farewell(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.resumption.farewell)
    }

    /// Connections in a row that ended by what the peer sent on them, with nothing received: whoever connects again waits the longer
    /// the more there were.
    pub const fn fruitless_connections(&self) -> u32 {
        self.resumption.fruitless
    }

    /// Why a connection that names this session must not carry it on, and what to answer; `None` if it may, or if its hello has
    /// to come first. `input` is what came over it.
    pub fn refusal(&self, input: &[u8]) -> Option<(SessionError, Vec<u8>)> {
        let (hello, _) = Hello::parse(input).ok()??;
        let resume = hello
            .resume
            .filter(|it| Some(it.token) == self.resumption.token)?;
        let error = self.check_is_later(&resume).err()?;
        let mut answer = Vec::new();
        let credit = self.credit.initial();
        super::hello(self.role, &self.config, credit).put(&mut answer);
        Control::Fault(fault_of(&error)).put(&mut answer);
        Some((SessionError::Peer(error), answer))
    }

    /// A connection that was delayed on the way must not take the place of a later one.
    fn check_is_later(&self, resume: &Resume) -> Result<(), WireError> {
        let (field, given) = ("connection of the session", resume.connection);
        let min = self.resumption.connection + 1;
        if self.role == Role::Acceptor && given < min {
            return Err(WireError::FieldTooSmall { field, given, min });
        }
        Ok(())
    }

    /// Begins another connection of this session, whatever became of the one before; the acceptor's driver does so
    /// when a hello says the session's token ([`Self::resume_token`]). Then everything is as at the beginning: bytes
    /// from the peer begin with its hello, and the output with this side's.
    ///
    /// # Errors
    ///
    /// The session cannot go on over another connection, or is over.
    pub fn reconnect(&mut self, now: Time) -> Result<(), SessionError> {
        self.check_open()?;
        self.now = self.now.max(now);
        if !self.is_waiting() && !self.disconnect(None) {
            return Err(SessionError::ConnectionLost);
        }
        let resumption = &mut self.resumption;
        if self.role == Role::Connector {
            resumption.connection += 1;
        }
        if let Some(outage) = &mut resumption.outage {
            outage.handshake = Some(now + self.config.limits.handshake_time);
        }
        self.receiver.end_input(0);
        self.probe_reply = None;
        self.last_probe = None;
        self.last_ack = None;
        self.heard_at = now;
        let knowledge = core::mem::take(&mut self.path.known);
        self.config.knowledge = Some(Box::new(knowledge));
        self.path = Path::new(&mut self.config, now);
        let credit = self.restart_credit();
        let mut hello = hello(self.role, &self.config, credit);
        hello.dictionaries = self.receiver.dictionaries.hello();
        hello.resume = self.resumption.hello();
        self.sender.output.put_small(|out| hello.put(out));
        Ok(())
    }

    /// The peer's hello of a further connection.
    pub(super) fn resume(&mut self, hello: &Hello) -> Result<(), WireError> {
        self.check_hello(hello)?;
        // One that could not read this side's hello names no session.
        let resume = hello
            .resume
            .ok_or(WireError::MissingField { field: "resume" })?;
        if Some(resume.token) != self.resumption.token {
            return self.on_forgotten();
        }
        self.check_is_later(&resume)?;
        if self.role == Role::Acceptor {
            self.resumption.connection = resume.connection;
        }
        let streams = &mut self.streams;
        let unreceived = self
            .sender
            .retained
            .reconnect(resume.received, |it| on_released(it, streams))?;
        self.resumption.outage = None;
        self.sender.credit.begin(hello.credit);
        self.agree_on_memory(hello);
        self.sent_since_probe = true;
        self.events.push_back(Event::Resumed);
        self.send_again(unreceived);
        self.give_credit(None);
        // The peer may have had everything before, and no acknowledgement comes for nothing.
        self.end_if_both_gone();
        Ok(())
    }

    /// The peer does not know the session any more.
    fn on_forgotten(&mut self) -> Result<(), WireError> {
        if self.role == Role::Acceptor {
            return Err(WireError::Unexpected {
                what: "a hello of another session",
            });
        }
        self.resumption.outage = None;
        // Who has heard and said goodbye is allowed to forget.
        let is_over = self.ending.both_gone();
        self.ending.sent_go_away = false;
        let (code, result) = if is_over {
            (GoAwayCode::Done, Ok(()))
        } else {
            (GoAwayCode::SessionLost, Err(SessionError::Forgotten))
        };
        self.put_go_away(code, "");
        self.end(result);
        Ok(())
    }

    /// Puts back what the peer has not received, and what it must know of streams.
    fn send_again(&mut self, unreceived: Unreceived) {
        for piece in unreceived.pieces.into_iter().rev() {
            put_back(piece, &mut self.streams);
        }
        for id in unreceived.opens {
            let Some(stream) = self.streams.peek(id) else {
                continue;
            };
            let open = Control::Open(Open {
                stream: id,
                group: stream.send.group,
                window: 0,
                name: stream.name.clone(),
            });
            self.put_control(&open);
        }
        for id in unreceived.closes {
            if let Some(stream) = self.streams.find(id) {
                stream.send.unacked -= 1;
                stream.send.state = SendState::Finishing;
            }
        }
        // What the peer has refused it is not sent again.
        for id in self.streams.ids() {
            let stream = self.streams.find(id);
            if let Some(stream) = stream.filter(|stream| stream.send.stopped.is_some()) {
                stream.send.drop_queue();
            }
        }
        self.sender.forget_turns();
        self.ending.sent_go_away &= !unreceived.go_away;
        self.finishing.clear();
        let room = self.window_room();
        for id in self.streams.ids() {
            let Some(stream) = self.streams.find(id) else {
                continue;
            };
            let (send, recv) = (&mut stream.send, &mut stream.recv);
            send.is_ready = false;
            send.deficit = 0;
            send.forget_credit();
            self.sender.on_sendable(id, send);
            // The last one may have been lost, or not have been said.
            recv.new_limit(room);
            let window = Window {
                stream: id,
                limit: recv.limit,
            };
            let raised = recv.limit > self.config.limits.window_len() && recv.ended.is_none();
            if raised {
                self.put_control(&Control::Window(window));
            }
            self.put_stop(id);
            self.finish_if_drained(id);
        }
        self.go_away_if_drained();
    }

    /// The time of [`Self::outage_due`] has come.
    pub(super) fn handle_outage(&mut self, now: Time) -> Result<(), SessionError> {
        let Some(outage) = self.resumption.outage else {
            return Ok(());
        };
        if now >= outage.until {
            let limit = self.config.resume_within;
            self.ending.input_ended = true;
            self.end(if self.ending.both_gone() {
                Ok(())
            } else {
                Err(SessionError::NotResumed { limit })
            });
            return self.check_open();
        }
        if outage.handshake.is_some_and(|at| now >= at) {
            let limit = self.config.limits.handshake_time;
            self.lose(SessionError::HandshakeTimeout { limit });
        }
        Ok(())
    }

    /// Frames of this connection were acknowledged.
    pub(super) fn release_retained(&mut self, frames: u64) {
        if self.sender.retained.is_on() {
            let streams = &mut self.streams;
            self.sender
                .retained
                .acknowledge(frames, |it| on_released(it, streams));
            self.end_if_both_gone();
        }
    }

    /// What became of the messages of every stream that is not over: all of those of streams that are were delivered.
    /// Known only of sessions that can go on over another connection ([`Self::is_resumable`]).
    pub fn deliveries(&self) -> Vec<Delivery> {
        let ids = self.streams.ids().into_iter();
        let mut all: Vec<_> = ids
            .filter_map(|id| {
                let stream = self.streams.peek(id)?;
                let sent = stream.stats.messages_sent;
                let delivered = stream.stats.messages_delivered;
                let unsent = stream.send.queue.len() as u64;
                let begun = u64::from(stream.send.front_sent > 0 && unsent > 0);
                let unsent = match stream.send.stopped {
                    Some(_) => sent.saturating_sub(delivered),
                    None => unsent - begun,
                };
                Some(Delivery {
                    stream: id,
                    name: stream.name.clone(),
                    delivered,
                    unknown: sent.saturating_sub(delivered + unsent),
                    unsent,
                })
            })
            .collect();
        all.retain(|it| it.delivered + it.unknown + it.unsent > 0);
        all
    }
}

fn fault_of(error: &WireError) -> GoAway {
    GoAway {
        code: error.code(),
        detail: error.to_string(),
    }
}

fn on_released(released: Released, streams: &mut Streams) {
    let id = match &released {
        Released::Piece(piece) => piece.stream,
        Released::Close(id) => *id,
    };
    let Some(stream) = streams.find(id) else {
        return;
    };
    stream.send.unacked -= 1;
    if let Released::Piece(piece) = released {
        // Of a stream that it has stopped the peer has said how many it has.
        let counts = piece.finishes() && stream.send.stopped.is_none();
        stream.stats.messages_delivered += u64::from(counts);
    }
    if stream.send.unacked == 0 {
        streams.remove_if_over(id);
    }
}

/// Puts a piece back in front of its stream's queue: the last one first.
fn put_back(piece: Piece, streams: &mut Streams) {
    let Some(stream) = streams.find(piece.stream) else {
        return;
    };
    let send = &mut stream.send;
    let charge = MESSAGE_CHARGE as usize;
    send.unacked -= 1;
    let finished = piece.finishes();
    let begins = if piece.from == 0 { MESSAGE_CHARGE } else { 0 };
    send.sent -= piece.len as u64 + begins;
    send.queued_bytes += piece.len;
    send.counted += piece.len;
    if finished {
        send.queued_bytes += charge;
        send.counted += charge;
        send.queue.push_front(piece.message);
    }
    send.front_sent = piece.from;
}

impl Ending {
    pub(super) const fn both_gone(self) -> bool {
        self.sent_go_away && self.peer_gone
    }
}
