//! What is known of the way to the peer, and what this end spends on a block besides its codec.

use super::config::SessionConfig;
use crate::codecs::{Arm, typical};
use crate::control::{PeerBudget, PeerKnowledge, SocketSample};
use crate::units::{Time, saturating_nanos};

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
        known.codecs.model.restart(now);
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
        let typical = typical(arm).map_or(0.0, |row| row.at(plain_len as f64).decode_nanos);
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

/// The time from one block to the next that is not its codec's, while there is more to send and
/// the socket takes it.
#[derive(Debug, Default)]
pub(super) struct Overhead {
    pub(super) nanos: f64,
    pub(super) emitted_at: Option<Time>,
}

/// Weight of a new time in the overhead.
const OVERHEAD_GAIN: f64 = 0.1;
/// More than so many times what is known, and this much, ns, is somebody else's doing.
const MOST_OVERHEAD: f64 = 3.0;
const OVERHEAD_SLACK: f64 = 50e3;

impl Overhead {
    pub(super) fn on_decision(&mut self, now: Time, was_blocked: bool) {
        let Some(since) = self.emitted_at.take().filter(|_| !was_blocked) else {
            return;
        };
        let given = saturating_nanos(now.saturating_since(since)) as f64;
        let given = given.min(MOST_OVERHEAD * self.nanos + OVERHEAD_SLACK);
        self.nanos += OVERHEAD_GAIN * (given - self.nanos);
    }
}
