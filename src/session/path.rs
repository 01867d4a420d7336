//! What is known of the way to the peer.

use super::config::SessionConfig;
use crate::codecs::{Arm, Length, typical};
use crate::control::{PeerBudget, PeerKnowledge, SocketSample};
use crate::units::Time;

/// What is known of the path and the peer; inputs of every decision.
#[derive(Debug, Default)]
pub(super) struct Path {
    pub(super) known: PeerKnowledge,
    pub(super) peer_budget: PeerBudget,
    /// The peer's processors are as good as fully busy.
    pub(super) peer_saturated: bool,
    /// What the system said of the socket last, and when.
    pub(super) socket: Option<(Time, SocketSample)>,
    /// Since when the socket takes no bytes; `None` while it may take some.
    pub(super) blocked_since: Option<Time>,
    /// Whether it refused bytes since the latest block was put out.
    pub(super) was_blocked: bool,
    /// Whether the latest decision depended on what is known.
    pub(super) is_of_use: bool,
}

impl Path {
    /// Begins with what `config` says is known.
    pub(super) fn new(config: &mut SessionConfig, now: Time) -> Self {
        let mut known = config
            .knowledge
            .take()
            .map_or_else(PeerKnowledge::default, |known| *known);
        known.decode.restart();
        known.link.restart();
        known.rtt.restart(now);
        known.codecs.restart(now);
        Self {
            known,
            ..Self::default()
        }
    }

    /// Takes in what the system says of the socket.
    pub(super) fn on_socket_sample(&mut self, now: Time, sample: SocketSample) {
        let before = self.socket.replace((now, sample));
        let rate = before.and_then(|(at, before)| {
            let elapsed = now.saturating_since(at);
            sample.path_rate(&before, elapsed).zip(sample.rtt)
        });
        if let Some((rate, rtt)) = rate {
            self.known.link.record_first_hop(rate, rtt);
        }
    }

    /// Bytes that the system holds back from the link.
    pub(super) fn unsent(&self) -> Option<u64> {
        self.socket.and_then(|(_, sample)| sample.unsent)
    }

    /// What a block costs the peer, as far as known, ns.
    pub(super) fn decode_nanos(&self, arm: Arm, plain_len: usize) -> f64 {
        let typical =
            typical(arm).map_or(0.0, |row| row.at(Length::of(plain_len as f64)).decode_nanos);
        self.known
            .decode
            .nanos(arm.codec, typical)
            .unwrap_or(typical)
    }

    /// Whether to spare the peer's processors, whatever the link says.
    pub(super) fn peer_starved(&self) -> bool {
        self.peer_saturated || self.peer_budget.is_none()
    }
}
