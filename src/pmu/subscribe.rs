//! Samples for who acts on them, as they come: the closed loop (Jägemar 2018, section 5.4.3).

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::group::Count;
use super::store::{Layout, Sample, SampleHead};

/// A sample that stands by itself.
#[derive(Clone, Debug)]
pub struct OwnedSample {
    layout: Arc<Layout>,
    head: SampleHead,
    counts: Box<[Count]>,
    gauges: Box<[f64]>,
}

impl OwnedSample {
    /// The sample.
    pub fn sample(&self) -> Sample<'_> {
        Sample {
            layout: &self.layout,
            head: self.head,
            counts: &self.counts,
            gauges: &self.gauges,
        }
    }
}

/// Samples as they come, for another thread.
///
/// Who takes them too slowly loses the newest, and [`Self::lost`] says how many: the monitor waits for nobody.
#[derive(Debug)]
pub struct Subscription {
    samples: Receiver<OwnedSample>,
    lost: Arc<AtomicU64>,
}

impl Subscription {
    /// The next sample, waited for at most so long; `None` if none came, or the monitor is gone.
    pub fn next(&self, at_most: Duration) -> Option<OwnedSample> {
        self.samples.recv_timeout(at_most).ok()
    }

    /// The next sample, if there is one.
    pub fn try_next(&self) -> Option<OwnedSample> {
        self.samples.try_recv().ok()
    }

    /// Samples that there was no room for.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The other end.
#[derive(Debug)]
pub(super) struct Subscriber {
    samples: SyncSender<OwnedSample>,
    lost: Arc<AtomicU64>,
}

pub(super) fn pair(room: usize) -> (Subscriber, Subscription) {
    let (sender, samples) = sync_channel(room);
    let lost = Arc::new(AtomicU64::new(0));
    let subscriber = Subscriber {
        samples: sender,
        lost: Arc::clone(&lost),
    };
    (subscriber, Subscription { samples, lost })
}

impl Subscriber {
    /// Whether there is still somebody to say it to.
    pub(super) fn say(
        &self,
        layout: &Arc<Layout>,
        head: SampleHead,
        counts: &[Count],
        gauges: &[f64],
    ) -> bool {
        let sample = OwnedSample {
            layout: Arc::clone(layout),
            head,
            counts: counts.into(),
            gauges: gauges.into(),
        };
        match self.samples.try_send(sample) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}
