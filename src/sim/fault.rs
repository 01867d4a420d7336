//! What can go wrong between the nodes and in them.

use core::time::Duration;

use super::{End, World};
use crate::session::SessionError;

/// Something goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is cut: what is on its way is lost, and both ends are told.
    Cut,
    /// From now on everything out of one end is lost, until there is another connection. Nobody is told.
    Silence {
        /// The end that is not heard any more.
        from: End,
    },
    /// One bit changes of what left an end last and is still on its way.
    Damage {
        /// The end that sent it.
        from: End,
        /// Which bit, modulo their number.
        bit: u64,
    },
    /// A node stands still for a while, and its clock with it: on waking it finds that it is later.
    Sleep {
        /// The node.
        at: End,
        /// For how long.
        time: Duration,
    },
}

impl World {
    /// Has something go wrong now; false if there was nothing to damage.
    pub fn inject(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Cut => self.links.iter_mut().for_each(super::Link::cut),
            Fault::Silence { from } => self.links[from.index()].silent = true,
            Fault::Damage { from, bit } => return self.links[from.index()].damage(bit),
            Fault::Sleep { at, time } => {
                let until = self.now + time;
                self.nodes[at.index()].sleep(until);
            }
        }
        true
    }

    /// Node A connects to node B once more, after the connection before was lost (or as if it had been). B takes it for
    /// what A's hello says it is when that arrives.
    ///
    /// # Errors
    ///
    /// A's session cannot go on over another connection, or is over.
    pub fn reconnect(&mut self) -> Result<(), SessionError> {
        self.links.iter_mut().for_each(super::Link::renew);
        let [a, b] = &mut self.nodes;
        a.begin_connection();
        b.await_connection();
        a.session.reconnect(self.now)
    }
}
