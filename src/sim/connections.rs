//! Connections that one node has left and the other has not.
//!
//! ```text
//! A --- connection 3 --> its hello is on its way
//!   xxx connection 2 --> its hello is late
//!   xxx connection 1 --> B, which still reads what A wrote there, and answers to nobody
//! ```
//!
//! B goes on with what it has until a hello has come, of whichever connection, as a process does whose listener hands over a
//! connection once it knows whose it is.

use core::time::Duration;

use bytes::BytesMut;

use super::link::Link;
use super::node::Node;
use super::{End, Fault, NodeConfig, SimError, World};
use crate::session::{Role, SessionError};
use crate::wire::Hello;

/// The connection that node B is on, while node A is on the one in [`World::links`].
#[derive(Debug)]
pub(super) struct Apart {
    pub(super) links: [Link; 2],
    /// What has come over A's; `None` if B has hung up there.
    came: Option<BytesMut>,
}

/// A connection that A has left before its hello came to B.
#[derive(Debug)]
pub(super) struct Late {
    link: Link,
    came: BytesMut,
}

/// Whether a hello is complete; `None` for what will never be one.
fn has_hello(came: &BytesMut) -> Option<bool> {
    Hello::parse(came).ok().map(|hello| hello.is_some())
}

impl World {
    /// Node A connects to node B once more, after the connection before was lost (or as if it had been). B takes it for
    /// what A's hello says it is when that arrives.
    ///
    /// # Errors
    ///
    /// A's session cannot go on over another connection, or is over.
    pub fn reconnect(&mut self) -> Result<(), SessionError> {
        self.apart = None;
        for link in &mut self.links {
            link.renew();
        }
        let [a, b] = &mut self.nodes;
        a.begin_connection();
        b.await_connection();
        a.reconnect(self.now)
    }

    /// As [`Self::reconnect`], but B does not hear of it before A's hello is there: until then it goes on with the connection that it
    /// has, over which everything still comes that A had written before. If B has not heard of the connection before either, that one's hello may
    /// come after this one's.
    ///
    /// # Errors
    ///
    /// See [`Self::reconnect`].
    pub fn reconnect_unheard(&mut self) -> Result<(), SessionError> {
        let [mut forth, mut back] = self.links.each_mut().map(Link::renew);
        forth.end();
        back.cut();
        let came = Some(BytesMut::new());
        if let Some(apart) = &mut self.apart {
            if let Some(came) = core::mem::replace(&mut apart.came, came) {
                self.late.push(Late { link: forth, came });
            }
        } else {
            let links = [forth, back];
            self.apart = Some(Apart { links, came });
        }
        let a = &mut self.nodes[End::A.index()];
        a.begin_connection();
        a.reconnect(self.now)
    }

    /// The process of a node is gone, with its session and everything else, and started anew without one. The other hears of it at once and
    /// loses what was on its way, or, after `lag`, when all has come that was.
    ///
    /// # Errors
    ///
    /// Never for settings with which the world began.
    pub fn crash(&mut self, at: End, lag: Option<Duration>) -> Result<(), SimError> {
        if at == End::B {
            self.apart = None;
            self.late.clear();
        }
        self.inject(match lag {
            None => Fault::Cut,
            Some(lag) => Fault::Part { at, lag },
        });
        let role = match at {
            End::A => Role::Connector,
            End::B => Role::Acceptor,
        };
        self.nodes[at.index()].crash(role, self.now)
    }

    /// Both nodes begin a new session, over a new connection; of the old ones nothing is left.
    ///
    /// # Errors
    ///
    /// A setting of a session or of a guard makes no sense.
    pub fn begin_anew(&mut self, a: NodeConfig, b: NodeConfig) -> Result<(), SimError> {
        let costs = self.nodes[0].costs().clone();
        let new = |role, config| Node::new(role, config, costs.clone(), self.now);
        let (a, b) = (new(Role::Connector, a)?, new(Role::Acceptor, b)?);
        *self.nodes[End::A.index()] = a;
        *self.nodes[End::B.index()] = b;
        for link in &mut self.links {
            link.renew();
        }
        self.apart = None;
        self.late.clear();
        self.happenings.clear();
        Ok(())
    }

    /// The links of connections that A is not on any more.
    pub(super) fn other_links(&self) -> impl Iterator<Item = &Link> {
        let apart = self.apart.iter().flat_map(|apart| &apart.links);
        apart.chain(self.late.iter().map(|late| &late.link))
    }

    /// Does all that node B can do without time passing, if it is on another connection than A.
    pub(super) fn settle_apart(&mut self) -> bool {
        self.take_late();
        self.take_latest();
        let Some(apart) = &mut self.apart else {
            return false;
        };
        let [forth, back] = &mut apart.links;
        let node = &mut self.nodes[End::B.index()];
        forth.advance(self.now);
        forth.receive(self.now, &mut node.arrived);
        node.arrived_all = forth.is_over();
        node.run(self.now, End::B, back, &mut self.happenings);
        true
    }

    /// Takes a connection that A has left already, once its hello is there, unless B has had a later one: it cannot know better.
    fn take_late(&mut self) {
        let now = self.now;
        for late in &mut self.late {
            late.link.advance(now);
            late.link.receive(now, &mut late.came);
        }
        let is_here = |late: &Late| has_hello(&late.came) == Some(true);
        if let Some(at) = self.late.iter().position(is_here) {
            let Late { link, came } = self.late.swap_remove(at);
            if self.nodes[End::B.index()].refuses(&came) {
                return;
            }
            let mut back = Link::new(link.config);
            back.cut();
            let links = [link, back];
            if let Some(apart) = &mut self.apart {
                apart.links = links;
            } else {
                // A finds that it was left.
                self.links[End::B.index()].end();
                self.apart = Some(Apart { links, came: None });
            }
            self.nodes[End::B.index()].take_connection(came);
        }
        let may_come = |late: &Late| has_hello(&late.came).is_some() && !late.link.is_lost();
        self.late.retain(may_come);
    }

    /// Takes the connection that A is on, once its hello is there.
    fn take_latest(&mut self) {
        let Some(apart) = &mut self.apart else {
            return;
        };
        let [forth, back] = &mut self.links;
        let Some(came) = &mut apart.came else {
            forth.receive(self.now, &mut BytesMut::new());
            return;
        };
        forth.receive(self.now, came);
        match has_hello(came) {
            Some(false) => {}
            Some(true) => {
                let came = core::mem::take(came);
                self.apart = None;
                self.nodes[End::B.index()].take_connection(came);
            }
            None => {
                // It is closed without a word, and concerns nobody else.
                apart.came = None;
                back.end();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::session::{Event, SessionConfig, StreamConfig};
    use crate::sim::{CodecCosts, Happening, LinkConfig};
    use crate::wire::StreamId;

    fn world(delay: Duration) -> World {
        let session = SessionConfig::default().retransmit_memory(1 << 20);
        let node = |session| NodeConfig {
            session,
            ..NodeConfig::default()
        };
        let accepts = session.clone().resume_token(Some([7; 16]));
        let link = LinkConfig {
            delay,
            ..LinkConfig::default()
        };
        let costs = CodecCosts::from_fns(|_, _| 1000, |_, _| 1000);
        let mut world = World::new(node(session), node(accepts), link, costs).expect("settings");
        world.connect();
        world
    }

    /// What comes within a while: messages, and whether B is told of something about its connection.
    fn run(world: &mut World, time: Duration) -> (usize, Vec<Event>) {
        let until = world.now() + time;
        let (mut messages, mut events) = (0, Vec::new());
        while let Some(happening) = world.next(until) {
            match happening {
                Happening::Message { .. } => messages += 1,
                Happening::Event(End::B, event) => events.push(event),
                _ => {}
            }
        }
        (messages, events)
    }

    fn send(world: &mut World, stream: StreamId) {
        let message = Bytes::from(vec![7; 100]);
        world.send(End::A, stream, message).expect("room");
    }

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn what_was_written_arrives_after_the_writer_has_left_and_the_hello_ends_it() {
        let mut world = world(10 * MILLI);
        let stream = world
            .open(End::A, "s", StreamConfig::default())
            .expect("one");
        run(&mut world, 100 * MILLI);
        send(&mut world, stream);
        run(&mut world, MILLI);
        let lag = Duration::from_secs(3600);
        world.inject(Fault::Part { at: End::A, lag });
        run(&mut world, MILLI);
        world.reconnect_unheard().expect("a session that can");
        // The message is on the old connection, the hello not there yet.
        let (messages, events) = run(&mut world, 9 * MILLI);
        assert_eq!((messages, world.session(End::B).is_connected()), (1, true));
        assert!(!events.contains(&Event::Resumed), "{events:?}");
        let (messages, events) = run(&mut world, 100 * MILLI);
        assert_eq!(messages, 0, "the same message again");
        assert!(events.contains(&Event::Resumed), "{events:?}");
        send(&mut world, stream);
        assert_eq!(run(&mut world, 100 * MILLI).0, 1);
    }

    #[test]
    fn a_hello_that_comes_after_a_later_one_is_refused_and_costs_nothing() {
        let mut world = world(10 * MILLI);
        let stream = world
            .open(End::A, "s", StreamConfig::default())
            .expect("one");
        run(&mut world, 100 * MILLI);
        world.set_link(LinkConfig {
            delay: Duration::from_secs(1),
            ..LinkConfig::default()
        });
        world.reconnect_unheard().expect("a session that can");
        run(&mut world, MILLI);
        world.set_link(LinkConfig::default());
        world.reconnect_unheard().expect("a session that can");
        assert_eq!(world.late.len(), 1);
        send(&mut world, stream);
        assert_eq!(run(&mut world, 500 * MILLI).0, 1);
        assert!(world.session(End::B).is_connected());
        run(&mut world, 600 * MILLI);
        let connected = [End::A, End::B].map(|end| world.session(end).is_connected());
        assert_eq!((world.late.len(), connected), (0, [true; 2]));
        send(&mut world, stream);
        assert_eq!(run(&mut world, 100 * MILLI).0, 1);
    }
}
