//! Lanes that the peer begins, and those that it brings to another connection.

use std::sync::{Arc, Weak};

use bytes::BytesMut;
use tokio::task::JoinSet;

use super::super::carrier::{QuicCarrier, SendWindow};
use super::{Door, Entry, LaneId, Lanes, Standing};
use crate::session::SessionError;
use crate::transport::node::read_hello;
use crate::transport::shared::{Command, LaneCommand, lock};
use crate::wire::{Hello, LaneNumber, WireError};

/// What a stream that says a lane's number is.
enum Admitted {
    New,
    /// Another carrier of one that there is.
    Known(Door),
    /// One that is over here has everything: the first lane will say so.
    Over,
}

/// Takes in what the peer opens on a connection, while that lasts.
pub(super) async fn serve(
    lanes: Weak<Lanes>,
    connection: quinn::Connection,
    window: Arc<SendWindow>,
    link: u64,
) {
    let mut arriving = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = arriving.join_next() => {}
            opened = connection.accept_bi() => {
                let (Ok(streams), Some(lanes)) = (opened, lanes.upgrade()) else {
                    return;
                };
                let (connection, window) = (connection.clone(), Arc::clone(&window));
                arriving.spawn(async move {
                    lanes.take_in((&connection, &window), streams, link).await;
                });
            }
        }
    }
}

impl Lanes {
    async fn take_in(
        self: Arc<Self>,
        of: (&quinn::Connection, &Arc<SendWindow>),
        streams: (quinn::SendStream, quinn::RecvStream),
        link: u64,
    ) {
        let limit = self.node.session.handshake_limit();
        let arriving = self.arrive(of, streams, link);
        let arrived = tokio::time::timeout(limit, arriving).await;
        let arrived = arrived.unwrap_or(Err(SessionError::HandshakeTimeout { limit }));
        if let Err(error) = arrived {
            // What comes of a connection that is lost is that it is lost.
            if of.0.close_reason().is_none() {
                self.fail(&error);
            }
        }
    }

    async fn arrive(
        self: &Arc<Self>,
        of: (&quinn::Connection, &Arc<SendWindow>),
        (send, mut recv): (quinn::SendStream, quinn::RecvStream),
        link: u64,
    ) -> Result<(), SessionError> {
        let number = read_number(&mut recv, self.most).await?;
        let Some(first) = self.first.upgrade() else {
            return Ok(());
        };
        let mut carrier = QuicCarrier::further(of, (send, recv), Arc::clone(&first), None);
        let id = LaneId {
            is_own: false,
            number,
        };
        match self.admit(id, link)? {
            Admitted::New => {}
            Admitted::Known(door) => {
                // One that has just ended needs none.
                let _ = door.send((carrier, BytesMut::new()));
                return Ok(());
            }
            Admitted::Over => return Ok(()),
        }
        // A session begins when its peer's hello is here, so that one whose handshake is cut short has not begun.
        let mut input = BytesMut::new();
        let hello = read_hello(&mut carrier, &mut input).await;
        if hello.is_none() && matches!(Hello::parse(&input), Ok(None)) {
            return Err(WireError::Truncated { what: "lane" }.into());
        }
        let ask = |reply| Command::Lane(LaneCommand::Knowledge { reply });
        if let Some(knowledge) = first.ask(ask).await {
            let started = self.start(id, link, carrier, input, *knowledge);
            if started.is_err() && !first.is_closed() {
                // Without random numbers there is no session.
                return Err(SessionError::ConnectionLost);
            }
        }
        Ok(())
    }

    /// Judges what lane a stream is of.
    fn admit(&self, id: LaneId, link: u64) -> Result<Admitted, WireError> {
        let mut state = lock(&self.state);
        let Some(entry) = state.entries.get_mut(&id) else {
            let entry = Entry {
                lane: None,
                door: None,
                link,
                standing: Standing::Begins,
                is_used: false,
            };
            state.entries.insert(id, entry);
            return Ok(Admitted::New);
        };
        if entry.link >= link {
            return Err(WireError::Unexpected {
                what: "a lane that is there already",
            });
        }
        entry.link = link;
        Ok(match (&entry.lane, &entry.door, entry.standing) {
            (_, _, Standing::Over) => Admitted::Over,
            (Some(_), Some(door), _) => Admitted::Known(door.clone()),
            _ => Admitted::New,
        })
    }
}

/// Reads what a lane begins with.
async fn read_number(recv: &mut quinn::RecvStream, most: u32) -> Result<LaneNumber, SessionError> {
    let mut bytes = Vec::new();
    loop {
        let mut next = [0];
        match recv.read(&mut next).await {
            Ok(Some(1)) => bytes.push(next[0]),
            _ => return Err(WireError::Truncated { what: "lane" }.into()),
        }
        if let Some((number, _)) = LaneNumber::parse(&bytes, most)? {
            return Ok(number);
        }
    }
}
