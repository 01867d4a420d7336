//! The node's guard: reads the load, runs the PID loop, and shares the codec budget among connections.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::clock::Clock;
use super::load::LoadReader;
use super::node::{Node, NodeShared};
use crate::control::{BudgetRate, CpuGuard};
use crate::units::{CpuLoad, saturating_nanos};

/// How long to wait for a budget at most. An idle machine's stands after four periods of the default guard: the first reading shows nothing, the second gives not half of what
/// there is.
const SETTLING: Duration = Duration::from_secs(1);
/// A budget that has not grown for two of those periods stands.
const REST: Duration = Duration::from_millis(200);
/// How often it is looked at. Arbitrary, well under the period.
const LOOK: Duration = Duration::from_millis(20);

/// Returns when the budget of a node stands, or after [`SETTLING`].
pub(super) async fn settled(node: &Node) {
    let stands = async {
        let (mut most, mut risen) = (0, tokio::time::Instant::now());
        while let (_, Some(budget)) = node.load_and_budget() {
            let budget = budget.as_nanos_per_sec();
            // It follows the load, and never stands quite still.
            if budget > most + most / 10 {
                (most, risen) = (budget, tokio::time::Instant::now());
            } else if most > 0 && risen.elapsed() >= REST {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(SETTLING, stands).await;
}

/// What the guard says to a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) rate: Option<BudgetRate>,
    pub(super) load: CpuLoad,
}

/// What one session is granted, and what it has used.
#[derive(Debug)]
pub(super) struct Grant {
    /// Sessions of one connection share what that is granted.
    connection: u64,
    granted: watch::Sender<Granted>,
    /// A sum, and nothing else is known by it.
    spent_nanos: AtomicU64,
}

impl Grant {
    pub(super) fn new(connection: u64, rate: Option<BudgetRate>) -> Self {
        let load = CpuLoad::new(0.0);
        Self {
            connection,
            granted: watch::Sender::new(Granted { rate, load }),
            spent_nanos: AtomicU64::new(0),
        }
    }

    /// For another session of the same connection, one of so many, until more is known.
    #[cfg(feature = "quic")]
    pub(super) fn divided(&self, sessions: u64) -> Self {
        let Granted { rate, .. } = *self.granted.borrow();
        let part = |rate: BudgetRate| {
            BudgetRate::from_nanos_per_sec(rate.as_nanos_per_sec() / sessions.max(1))
        };
        Self::new(self.connection, rate.map(part))
    }

    /// Sees what is granted now, and whatever is from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<Granted> {
        let mut granted = self.granted.subscribe();
        granted.mark_changed();
        granted
    }

    pub(super) fn spend(&self, time: Duration) {
        self.spent_nanos
            .fetch_add(saturating_nanos(time), Ordering::Relaxed);
    }

    fn set(&self, rate: Option<BudgetRate>, load: CpuLoad) {
        self.granted.send_replace(Granted { rate, load });
    }

    fn take_spent(&self) -> u64 {
        self.spent_nanos.swap(0, Ordering::Relaxed)
    }
}

/// Measures and grants until the node is gone. Without a guard, the load is measured all the same:
/// peers are told of it.
pub(super) async fn run(
    node: Weak<NodeShared>,
    clock: Clock,
    mut reader: LoadReader,
    mut guard: Option<CpuGuard>,
    period: Duration,
) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let Some(node) = node.upgrade() else { return };
        let now = clock.now();
        // A reading that fails once may do the next time; until then the last budget stands.
        let Ok(Some(load)) = reader.read(now) else {
            continue;
        };
        let grants = node.grants();
        let spent: Vec<u64> = grants.iter().map(|grant| grant.take_spent()).collect();
        let total = Duration::from_nanos(spent.iter().sum());
        let Some(guard) = &mut guard else {
            for grant in &grants {
                grant.set(None, load);
            }
            node.set_state(None, load);
            continue;
        };
        let rate = guard.record(now, load, Some(total));
        node.set_state(Some(rate), load);
        share(rate, load, &grants, &spent);
    }
}

fn share(rate: BudgetRate, load: CpuLoad, grants: &[Arc<Grant>], spent: &[u64]) {
    let sessions: Vec<_> = grants
        .iter()
        .zip(spent)
        .map(|(grant, spent)| (grant.connection, *spent > 0))
        .collect();
    for (grant, part) in grants.iter().zip(parts(rate.as_nanos_per_sec(), &sessions)) {
        grant.set(Some(BudgetRate::from_nanos_per_sec(part)), load);
    }
}

/// Divides a rate among the connections that have work for codecs, and a connection's part among those of its sessions that
/// have; the others are granted what they would get if they began.
fn parts(rate: u64, sessions: &[(u64, bool)]) -> Vec<u64> {
    let mut connections: HashMap<u64, u64> = HashMap::new();
    for (connection, is_active) in sessions {
        *connections.entry(*connection).or_default() += u64::from(*is_active);
    }
    let active = connections.values().filter(|active| **active > 0).count() as u64;
    let part = |(connection, is_active): &(u64, bool)| {
        let here = connections.get(connection).copied().unwrap_or_default();
        let connections = if here > 0 { active } else { active + 1 };
        let sessions = if *is_active { here } else { here + 1 };
        rate / connections / sessions
    };
    sessions.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_once_however_many_sessions_it_has() {
        assert_eq!(parts(1200, &[(1, true), (2, true)]), [600, 600]);
        assert_eq!(parts(1200, &[(1, false), (2, true)]), [600, 1200]);
        assert_eq!(parts(1200, &[(1, false), (2, false)]), [1200, 1200]);
        // Three sessions of one, and one of another.
        let sessions = [(1, true), (2, true), (1, true), (1, true)];
        assert_eq!(parts(1200, &sessions), [200, 600, 200, 200]);
        // One that has nothing to do would have its part of its connection's.
        let sessions = [(1, true), (2, true), (1, false)];
        assert_eq!(parts(1200, &sessions), [600, 600, 300]);
        let sessions = [(1, false), (2, true), (1, false)];
        assert_eq!(parts(1200, &sessions), [600, 1200, 600]);
    }
}
