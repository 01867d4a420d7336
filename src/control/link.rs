//! The path to the peer: round trip, rate at which the socket takes bytes, rate of the link.

use core::time::Duration;

use super::estimate::CostEstimator;
use crate::units::{BytesPerSec, Time, saturating_nanos};

/// Weight of a new round trip in the smoothed one (RFC 6298).
const RTT_GAIN: f64 = 1.0 / 8.0;
/// How long a minimum stays: long enough to meet an empty queue, short enough to follow a changed
/// route. Arbitrary; BBR uses the same.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Weight of a new rate sample; three samples carry most of the weight.
const RATE_GAIN: f64 = 0.3;

/// Round trip times from probes and acknowledgements, the peer's own delay subtracted.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    smoothed: Option<f64>,
    latest: Duration,
    current_min: Option<(Time, Duration)>,
    previous_min: Option<Duration>,
    samples: u64,
}

impl RttEstimator {
    /// Takes in a round trip.
    pub fn record(&mut self, now: Time, rtt: Duration) {
        let nanos = saturating_nanos(rtt) as f64;
        self.smoothed = Some(
            self.smoothed
                .map_or(nanos, |old| old + RTT_GAIN * (nanos - old)),
        );
        self.latest = rtt;
        self.samples += 1;
        match &mut self.current_min {
            Some((since, min)) if now.saturating_since(*since) < MIN_RTT_WINDOW => {
                *min = (*min).min(rtt);
            }
            current => self.previous_min = current.replace((now, rtt)).map(|(_, min)| min),
        }
    }

    /// The smoothed round trip, queueing included; `None` before the first.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
            .map(|nanos| Duration::from_nanos(nanos as u64))
    }

    /// The shortest round trip of the last 10 to 20 seconds: propagation without queueing.
    pub fn min(&self) -> Option<Duration> {
        let current = self.current_min.map(|(_, min)| min);
        match (current, self.previous_min) {
            (Some(current), Some(previous)) => Some(current.min(previous)),
            (current, previous) => current.or(previous),
        }
    }

    /// The latest round trip as it was; `None` before the first.
    pub fn latest(&self) -> Option<Duration> {
        (self.samples > 0).then_some(self.latest)
    }

    /// How many round trips were taken in.
    pub const fn samples(&self) -> u64 {
        self.samples
    }
}

/// The rate at which the socket takes bytes, and that of the link behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkEstimator {
    send_rate: Option<f64>,
    busy_rate: Option<f64>,
    lone: CostEstimator,
}

impl LinkEstimator {
    /// Takes in that the socket took `bytes` within `time` (thesis definition 22).
    pub fn record_send(&mut self, bytes: u64, time: Duration) {
        if let Some(rate) = BytesPerSec::from_transfer(bytes, time) {
            smooth(&mut self.send_rate, rate.get());
        }
    }

    /// Takes in that `bytes` reached the peer within `time`. When the link had pauses because
    /// there was nothing to send (`app_limited`), the rate is only a lower bound.
    pub fn record_delivery(&mut self, bytes: u64, time: Duration, app_limited: bool) {
        let Some(rate) = BytesPerSec::from_transfer(bytes, time) else {
            return;
        };
        match self.busy_rate {
            None if app_limited => {}
            Some(known) if app_limited && rate.get() <= known => {}
            _ => smooth(&mut self.busy_rate, rate.get()),
        }
    }

    /// Takes in the round trip of a block of `bytes` that had the link to itself: its time grows
    /// with its bytes by the link's rate.
    pub fn record_lone(&mut self, bytes: usize, rtt: Duration) {
        self.lone.record(bytes, rtt);
    }

    /// The rate at which the socket takes bytes (the thesis's `t_sr`); `None` before it was measured.
    pub fn send_rate(&self) -> Option<BytesPerSec> {
        self.send_rate.and_then(BytesPerSec::new)
    }

    /// The link's rate; `None` before it was measured. Measured under backlog where there was one,
    /// else from how much longer larger blocks take.
    pub fn link_rate(&self) -> Option<BytesPerSec> {
        self.busy_rate
            .and_then(BytesPerSec::new)
            .or_else(|| BytesPerSec::new(1e9 / self.lone.slope()?))
    }
}

fn smooth(estimate: &mut Option<f64>, sample: f64) {
    *estimate = Some(estimate.map_or(sample, |old| old + RATE_GAIN * (sample - old)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_forgets_a_route_that_is_gone() {
        let mut rtt = RttEstimator::default();
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        rtt.record(at(0), Duration::from_millis(1));
        for secs in 1..40 {
            rtt.record(at(secs), Duration::from_millis(50));
        }
        assert_eq!(rtt.min(), Some(Duration::from_millis(50)));
    }

    #[test]
    fn pauses_of_the_application_do_not_look_like_a_slow_link() {
        let mut link = LinkEstimator::default();
        link.record_delivery(1_000_000, Duration::from_millis(100), false);
        link.record_delivery(1000, Duration::from_millis(100), true);
        assert!((link.link_rate().expect("measured").get() - 1e7).abs() < 1.0);
    }

    #[test]
    fn lone_blocks_of_different_lengths_show_the_rate() {
        let mut link = LinkEstimator::default();
        for bytes in [200_usize, 1400, 90, 700] {
            link.record_lone(bytes, Duration::from_nanos(200_000 + 80 * bytes as u64));
        }
        assert!((link.link_rate().expect("measured").get() - 12.5e6).abs() < 1e3);
    }
}
