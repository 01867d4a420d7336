//! The node's guard: reads the load, runs the PID loop, and shares the codec budget among connections.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::clock::Clock;
use super::load::LoadReader;
use super::node::NodeShared;
use crate::control::{BudgetRate, CpuGuard};
use crate::units::{CpuLoad, saturating_nanos};

/// What the guard says to a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) rate: Option<BudgetRate>,
    pub(super) load: CpuLoad,
}

/// What one connection is granted, and what it has used.
#[derive(Debug)]
pub(super) struct Grant {
    granted: watch::Sender<Granted>,
    /// A sum, and nothing else is known by it.
    spent_nanos: AtomicU64,
}

impl Grant {
    pub(super) fn new(rate: Option<BudgetRate>) -> Self {
        let load = CpuLoad::new(0.0);
        Self {
            granted: watch::Sender::new(Granted { rate, load }),
            spent_nanos: AtomicU64::new(0),
        }
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

/// Divides the node's rate among the connections that have work for codecs; the others are granted
/// what they would get if they began.
fn share(rate: BudgetRate, load: CpuLoad, grants: &[Arc<Grant>], spent: &[u64]) {
    let active = spent.iter().filter(|spent| **spent > 0).count() as u64;
    for (grant, spent) in grants.iter().zip(spent) {
        let sharers = if *spent > 0 { active } else { active + 1 };
        let part = rate.as_nanos_per_sec() / sharers;
        grant.set(Some(BudgetRate::from_nanos_per_sec(part)), load);
    }
}
