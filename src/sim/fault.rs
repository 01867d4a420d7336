//! What can go wrong between the nodes and in them.

use core::time::Duration;

use super::{End, World};

/// Something goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is cut: what is on its way is lost, and both ends are told.
    Cut,
    /// The connection is cut for one end, which is told and loses what is on its way to it. What it has written still arrives; the other end sees
    /// the end after that, and what it writes meanwhile is lost.
    Part {
        /// The end that is told now.
        at: End,
        /// The other end is told no earlier than so much later.
        lag: Duration,
    },
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
    /// Up to eight bytes in a row change of what left an end last and is still on its way.
    Garble {
        /// The end that sent it.
        from: End,
        /// The first of them, modulo their number.
        first: u64,
        /// The bits that change are 1 here.
        pattern: [u8; 8],
    },
    /// What left an end last and is still on its way arrives in part, and nothing after it: the other end sees the end there.
    Truncate {
        /// The end that sent it.
        from: End,
        /// Bytes that arrive, modulo their number.
        left: u64,
    },
    /// A node stands still for a while, and its clock with it: on waking it finds that it is later.
    Sleep {
        /// The node.
        at: End,
        /// For how long.
        time: Duration,
    },
    /// A node's clock is put forward.
    ClockForward {
        /// The node.
        at: End,
        /// By so much.
        by: Duration,
    },
    /// A node's clock is put back: its session hears of earlier times than before.
    ClockBack {
        /// The node.
        at: End,
        /// By so much.
        by: Duration,
    },
    /// A node's clock stands still, and the node does not; then the clock goes on from there.
    ClockStop {
        /// The node.
        at: End,
        /// For how long.
        time: Duration,
    },
}

impl World {
    /// Has something go wrong now; false if there was nothing to damage.
    pub fn inject(&mut self, fault: Fault) -> bool {
        let now = self.now;
        match fault {
            Fault::Cut => {
                let apart = self.apart.iter_mut().flat_map(|apart| &mut apart.links);
                self.links
                    .iter_mut()
                    .chain(apart)
                    .for_each(super::Link::cut);
            }
            Fault::Part { at, lag } => {
                if let (Some(apart), End::B) = (&mut self.apart, at) {
                    // A is not on that connection any more.
                    apart.links[End::A.index()].cut();
                } else {
                    self.links[at.other().index()].cut();
                    self.links[at.index()].end_at(now + lag);
                }
            }
            Fault::Silence { from } => self.links[from.index()].silent = true,
            Fault::Damage { from, bit } => return self.links[from.index()].damage(bit),
            Fault::Garble {
                from,
                first,
                pattern,
            } => return self.links[from.index()].garble(first, pattern),
            Fault::Truncate { from, left } => return self.links[from.index()].truncate(left),
            Fault::Sleep { at, time } => self.nodes[at.index()].sleep(now + time),
            Fault::ClockForward { at, by } => self.nodes[at.index()].clock.forward(now, by),
            Fault::ClockBack { at, by } => self.nodes[at.index()].clock.back(now, by),
            Fault::ClockStop { at, time } => self.nodes[at.index()].clock.stop(now, time),
        }
        true
    }
}
