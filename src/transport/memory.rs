//! What a node remembers of its peers from one connection to the next.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use crate::control::PeerKnowledge;

/// Whom knowledge is remembered of.
#[derive(Debug)]
pub(super) enum KnownAs {
    /// One peer, or several that are much alike: those behind one IP address.
    Peer(String),
    /// Peers that nothing tells apart, by where they come in. The next one sends what the others did,
    /// but its processors are not theirs, nor is its link where a proxy stands in between.
    Anybody(String),
}

impl KnownAs {
    /// One that has connected from `address`: from another port each time.
    pub(super) fn connector(address: &str) -> Self {
        match address.parse::<SocketAddr>() {
            Ok(address) => Self::Peer(address.ip().to_string()),
            Err(_) => Self::Peer(address.to_owned()),
        }
    }

    /// The name in the memory, and what is known of who comes under it.
    pub(super) fn recall(self, memory: &PeerMemory) -> (String, Option<PeerKnowledge>) {
        match self {
            Self::Peer(name) => {
                let known = memory.recall(&name);
                (name, known)
            }
            Self::Anybody(place) => {
                // Not the name of the peer that is met by connecting there.
                let name = format!("anybody at {place}");
                let known = memory.recall(&name).map(PeerKnowledge::without_peer);
                (name, known)
            }
        }
    }
}

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
