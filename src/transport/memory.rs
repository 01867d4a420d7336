//! What a node remembers of its peers from one connection to the next.

use std::collections::{HashMap, VecDeque};

use crate::control::PeerKnowledge;

/// The latest peers' knowledge, a few KB each.
#[derive(Debug)]
pub(super) struct PeerMemory {
    most: usize,
    known: HashMap<String, PeerKnowledge>,
    /// In the order in which they were last remembered.
    order: VecDeque<String>,
}

impl PeerMemory {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            known: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn recall(&self, peer: &str) -> Option<PeerKnowledge> {
        self.known.get(peer).cloned()
    }

    pub(super) fn remember(&mut self, peer: String, knowledge: PeerKnowledge) {
        if self.most == 0 {
            return;
        }
        if self.known.insert(peer.clone(), knowledge).is_some() {
            self.order.retain(|known| *known != peer);
        }
        self.order.push_back(peer);
        if self.order.len() > self.most {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_met_longest_ago_is_forgotten_first() {
        let mut memory = PeerMemory::new(2);
        for peer in ["a", "b", "a", "c"] {
            memory.remember(peer.to_owned(), PeerKnowledge::default());
        }
        assert!(memory.recall("b").is_none());
        assert!(memory.recall("a").is_some() && memory.recall("c").is_some());
        let mut none = PeerMemory::new(0);
        none.remember("a".to_owned(), PeerKnowledge::default());
        assert!(none.recall("a").is_none());
    }
}
