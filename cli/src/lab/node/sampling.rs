//! What the node is at, said every so often and whenever traffic ends.

use std::sync::Arc;
use std::time::Duration;

use tautline::transport::Node;
use tokio::sync::Mutex;

use super::drive::Driving;
use super::{cpu_seconds, tell};
use crate::bench::clock::monotonic_nanos;
use crate::failure::Failure;
use crate::lab::protocol::{Sample, Word};

/// Says what the node is at.
#[derive(Clone)]
pub(super) struct Sampler {
    node: Node,
    /// Traffic that goes on, or has ended. Held while a sample is taken, so that they are said in their order.
    drivings: Arc<Mutex<Vec<Arc<Driving>>>>,
}

impl Sampler {
    pub(super) fn new(node: Node) -> Self {
        Self {
            node,
            drivings: Arc::default(),
        }
    }

    pub(super) async fn add(&self, driving: Arc<Driving>) {
        self.drivings.lock().await.push(driving);
    }

    /// A sample now.
    pub(super) async fn say(&self) -> Result<(), Failure> {
        let drivings = self.drivings.lock().await;
        let (load, budget) = self.node.load_and_budget();
        let mut sample = Sample {
            at: monotonic_nanos(),
            cpu: cpu_seconds(),
            load: load.get(),
            budget: budget.map(|budget| budget.as_nanos_per_sec() as f64 / 1e9),
            traffic: Vec::new(),
        };
        for driving in drivings.iter() {
            sample.traffic.extend(driving.sample().await);
            if let Some(word) = driving.switches().await {
                tell(&word)?;
            }
        }
        tell(&Word::Sample(sample))
    }

    /// A sample every so many seconds, until there is nobody to tell.
    pub(super) async fn run(self, period: f64) {
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(period));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            if self.say().await.is_err() {
                return;
            }
        }
    }
}
