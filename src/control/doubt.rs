//! Whether a link is slow, or an end was not scheduled for a while when it seemed so.

use core::time::Duration;

use crate::units::{Time, saturating_nanos};

/// A padded probe takes so long on a link that is as fast as it is taken for: more than schedulers add, mostly ..
const PADDED_NANOS: f64 = 1e6;
/// .. as far as so many bytes allow it: fewer say no more than any block does, more are no control frame ..
const PADDING: (f64, f64) = (512.0, 4000.0);
/// .. and not at all if it would be less or more than this.
const LEAST_PADDED_NANOS: f64 = 125e3;
const MOST_PADDED_NANOS: f64 = 4e6;
/// Time from one to the next, so that they take no more than a hundredth of the link.
const INTERVAL: Duration = Duration::from_millis(100);
/// .. and altogether, they are no more than one byte in so many that a connection sends.
const SHARE: u64 = 50;
/// A rate from which on padding says nothing, bytes per second: there a whole block is to show whether it is more.
pub(super) const SHOWN_BY_BLOCKS: f64 = PADDING.1 * 1e9 / LEAST_PADDED_NANOS;
/// So many must show a rate that is no higher before it is believed.
const CONFIRMATIONS: u32 = 2;
/// A plain block that shows a rate takes no longer than such a part of what all blocks since the last one have cost, over all connections ..
const CHECK_SHARE: f64 = 0.05;
/// .. and no longer than this, ns.
const LONGEST_CHECK: f64 = 1e6;
/// Each that shows no more than is known, beyond those that a rate in doubt is believed after, halves that part; so often at most. All three arbitrary.
const MOST_HALVED: u32 = 4;
/// A rate that is lower than this much of what it was has fallen ..
const FALLEN: f64 = 0.8;
/// .. and one that is higher than so many times what it was has risen. Both arbitrary.
const RISEN: f64 = 1.25;

/// Doubt about a rate that has fallen, or that is the first.
///
/// An end that was not scheduled looks like a slow link. Where compressed blocks of a hundred bytes pass, none of them takes the link long enough to show
/// that it was not: so a few probes are made longer, as many as it takes to be sure, while the link has nothing else to carry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// Padded probes that are still to show no higher rate.
    probes: u32,
    /// .. and plain blocks, on a link that is too fast for those.
    blocks: u32,
    asked: Option<Time>,
    /// Bytes of padding on this connection.
    padded: u64,
    /// The highest rate since it fell last, bytes per second.
    highest: f64,
    /// What blocks have cost since one was plain to show the rate.
    since_check: Duration,
    /// Such blocks in a row that have shown nothing higher.
    in_vain: u32,
}

impl Doubt {
    /// The rate is `rate` now, and was `before`; 0 if it was not known.
    pub(super) fn on_rate(&mut self, before: f64, rate: f64) {
        self.highest = self.highest.max(before);
        if rate < FALLEN * self.highest || before == 0.0 {
            self.probes = CONFIRMATIONS;
            self.blocks = CONFIRMATIONS;
            self.in_vain = 0;
            self.highest = rate;
        }
    }

    /// Another connection begins: what is left of the one before is taken as it is, rather than have the first message wait; but for
    /// what a block in a run shows, behind which others wait anyhow. Connections that are short by themselves have such blocks together.
    pub(super) fn restart(&mut self) {
        *self = Self {
            blocks: 1,
            since_check: self.since_check,
            in_vain: self.in_vain,
            ..Self::default()
        };
    }

    /// Whether a plain block may go out to show the rate that takes so long, ns.
    pub(super) fn allows(&self, nanos: f64) -> bool {
        let beyond = self.in_vain.saturating_sub(CONFIRMATIONS - 1);
        let share = CHECK_SHARE / f64::from(1 << beyond.min(MOST_HALVED));
        nanos <= (share * saturating_nanos(self.since_check) as f64).min(LONGEST_CHECK)
    }

    /// A block leaves that is expected to cost so much; it may be a plain one that is to show the rate.
    pub(super) fn on_cost(&mut self, cost: Duration, is_check: bool) {
        self.since_check = if is_check {
            Duration::ZERO
        } else {
            self.since_check.saturating_add(cost)
        };
    }

    /// Whether a plain block is to show if the link is faster than `rate`.
    pub(super) fn wants_block(&self, rate: f64) -> bool {
        self.blocks > 0 && rate >= SHOWN_BY_BLOCKS
    }

    /// So many bytes that began with such a block were acknowledged after `rtt`, the least being `rtt_min`, on a link that is taken for `rate`: what the
    /// link is, if that is more.
    pub(super) fn on_block(
        &mut self,
        bytes: u64,
        rtt: Duration,
        rtt_min: Duration,
        rate: f64,
    ) -> Option<f64> {
        let shown = confirm(&mut self.blocks, bytes, (rtt, rtt_min), rate);
        self.in_vain = match shown {
            Some(_) => 0,
            None => self.in_vain.saturating_add(1),
        };
        shown
    }

    /// How long a probe is to be at `now`, beyond what it says, on a link that is taken for `rate` and has nothing else to carry, of a
    /// connection that has `sent` so many bytes.
    pub(super) fn padding(&self, now: Time, rate: f64, sent: u64) -> Option<usize> {
        let is_due = self
            .asked
            .is_none_or(|asked| now.saturating_since(asked) >= INTERVAL);
        let (least, most) = PADDING;
        let len = (rate * PADDED_NANOS * 1e-9).clamp(least, most);
        let shows = (LEAST_PADDED_NANOS..=MOST_PADDED_NANOS).contains(&(len * 1e9 / rate));
        let is_little = (self.padded + len as u64).saturating_mul(SHARE) <= sent;
        (self.probes > 0 && is_due && shows && is_little).then_some(len as usize)
    }

    /// Such a probe leaves.
    pub(super) fn on_probe(&mut self, now: Time, padding: usize) {
        self.asked = Some(now);
        self.padded += padding as u64;
    }

    /// A probe of so many bytes was back after `rtt`, the least being `rtt_min`, on a link that is taken for `rate`: what the
    /// link is, if that is more.
    pub(super) fn on_reply(
        &mut self,
        bytes: usize,
        rtt: Duration,
        rtt_min: Duration,
        rate: f64,
    ) -> Option<f64> {
        confirm(&mut self.probes, bytes as u64, (rtt, rtt_min), rate)
    }
}

/// What so many bytes show that were there and acknowledged within `rtt`, the least being `rtt_min`, of a link that is taken for `rate`: a higher rate, and
/// `left` to confirm that; or nothing, and there is one less to come.
fn confirm(
    left: &mut u32,
    bytes: u64,
    (rtt, rtt_min): (Duration, Duration),
    rate: f64,
) -> Option<f64> {
    // The least is known no better than this.
    let on_link = rtt.saturating_sub(rtt_min).max(rtt_min / 10);
    let shown = bytes as f64 * 1e9 / saturating_nanos(on_link).max(1) as f64;
    let is_higher = shown > RISEN * rate;
    *left = if is_higher {
        CONFIRMATIONS
    } else {
        left.saturating_sub(1)
    };
    is_higher.then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUCH: u64 = 1 << 30;
    const RTT: Duration = Duration::from_micros(200);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn back_after(bytes: usize, rate: f64) -> Duration {
        RTT + Duration::from_secs_f64(bytes as f64 / rate)
    }

    #[test]
    fn a_rate_that_has_fallen_is_believed_after_two_probes() {
        let mut doubt = Doubt::default();
        assert_eq!(doubt.padding(at(0), 2.5e6, MUCH), None);
        doubt.on_rate(0.0, 2.5e6);
        for millis in [0, 100] {
            let len = doubt.padding(at(millis), 2.5e6, MUCH).expect("in doubt");
            assert_eq!(len, 2500);
            doubt.on_probe(at(millis), len);
            assert_eq!(doubt.padding(at(millis + 99), 2.5e6, MUCH), None);
            assert_eq!(
                doubt.on_reply(len, back_after(len, 2.5e6), RTT, 2.5e6),
                None
            );
        }
        assert_eq!(doubt.padding(at(1000), 2.5e6, MUCH), None);
        // Little by little, too.
        doubt.on_rate(2.5e6, 2.2e6);
        assert_eq!(doubt.padding(at(1000), 2.2e6, MUCH), None);
        doubt.on_rate(2.2e6, 1.9e6);
        assert_eq!(doubt.padding(at(1000), 1.9e6, MUCH), Some(1900));
    }

    #[test]
    fn a_faster_link_shows_itself_step_by_step() {
        let mut doubt = Doubt::default();
        let mut rate = 1e6;
        doubt.on_rate(0.0, rate);
        let mut millis = 0;
        while let Some(len) = doubt.padding(at(millis), rate, MUCH) {
            doubt.on_probe(at(millis), len);
            millis += 100;
            if let Some(shown) = doubt.on_reply(len, back_after(len, 12.5e6), RTT, rate) {
                rate = shown;
            }
        }
        assert!((rate - 12.5e6).abs() < 1e4, "{rate}");
        assert!(millis <= 500, "{millis}");
    }

    #[test]
    fn padding_is_a_small_share_of_what_is_sent() {
        let mut doubt = Doubt::default();
        doubt.on_rate(0.0, 1e6);
        assert_eq!(doubt.padding(at(0), 1e6, 49_999), None);
        assert_eq!(doubt.padding(at(0), 1e6, 50_000), Some(1000));
        doubt.on_probe(at(0), 1000);
        assert_eq!(doubt.padding(at(100), 1e6, 99_999), None);
        assert_eq!(doubt.padding(at(100), 1e6, 100_000), Some(1000));
        doubt.restart();
        doubt.on_rate(0.0, 1e6);
        assert_eq!(doubt.padding(at(100), 1e6, 50_000), Some(1000));
    }

    #[test]
    fn rates_that_padding_cannot_show_are_left_alone() {
        let mut doubt = Doubt::default();
        for rate in [12_500.0, 125e6, f64::MAX, f64::MIN_POSITIVE, 0.0] {
            doubt.on_rate(0.0, rate);
            assert_eq!(doubt.padding(at(0), rate, MUCH), None, "{rate}");
        }
    }

    #[test]
    fn a_fast_rate_is_believed_after_two_blocks() {
        let mut doubt = Doubt::default();
        assert!(!doubt.wants_block(400e6), "nothing is in doubt");
        doubt.on_rate(0.0, 400e6);
        // What probes show is left to those.
        assert!(doubt.wants_block(400e6) && !doubt.wants_block(30e6));
        let block = 64 << 10;
        let shown = doubt.on_block(block, back_after(block as usize, 2e9), RTT, 400e6);
        assert!(shown.is_some_and(|rate| (rate / 2e9 - 1.0).abs() < 0.01));
        for _ in 0..2 {
            assert!(doubt.wants_block(2e9));
            let shown = doubt.on_block(block, back_after(block as usize, 2e9), RTT, 2e9);
            assert_eq!(shown, None);
        }
        assert!(!doubt.wants_block(2e9));
        // The next connection looks once: the rate is another's, perhaps of a moment in which an end had no processor.
        doubt.restart();
        assert!(doubt.wants_block(2e9));
        doubt.on_block(block, back_after(block as usize, 1e9), RTT, 2e9);
        assert!(!doubt.wants_block(2e9));
    }

    #[test]
    fn absurd_times_are_no_rate() {
        let mut doubt = Doubt::default();
        let shown = doubt.on_reply(4000, Duration::ZERO, Duration::ZERO, 1e6);
        assert!(shown.is_none_or(f64::is_finite));
        let shown = doubt.on_reply(4000, Duration::MAX, Duration::ZERO, 1e6);
        assert_eq!(shown, None);
    }
}
