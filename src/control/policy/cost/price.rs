//! What sending one block with an arm costs, in the time that messages wait.
//!
//! Encoding, link and decoding are stages of a pipeline. A block that meets an empty pipeline passes
//! them one after another; under backlog they overlap and the slowest decides. Both follow from how
//! much each stage still has to do when the block comes:
//!
//! ```text
//! e, w, d   encode, link and decode time of the block with the arm
//! o         time that this end spends on a block besides: gathering, checksum, writing, and, if it takes long,
//!           handing it to a worker and back
//! W         time that the link still needs for what was written before
//! F         blocks expected to follow without a pause
//! n         how many are encoded at once: until the first is done, the link has nothing of all
//!
//! h    = min(w, a) * F / (1 + F)       what of `w` passes while this end is at work on the next block, with `a` of `o`
//! x    = max(e + o - W, 0) / n + w - h  how much later those that follow are on the link
//! cost = x + (d + F * max(d - max(x, w), 0)) / (1 + F)
//! ```
//!
//! Encoding is hidden while the link has work (`e + o <= W`); so is the link while this end has, at least for the time that any
//! block takes here; decoding delays those that follow only if
//! it is slower than what comes before it. With `W = F = 0` this is the sum of thesis equation 7.6;
//! in the long run of a backlog it is `max(e, w, d)`, and where this end is the slowest `e + o`, whatever a fast link's rate
//! is taken for. A heavier arm that pays while the link is
//! busy, and a lighter one when it runs dry, make the mixture that balances the stages.

use crate::codecs::Work;
use crate::control::{MAX_INLINE, MOST_CUT, PARALLEL_FROM, Prices};

/// What processor time, bytes and waiting are worth to the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Weight of the time that messages take. Default 1.
    pub latency: f64,
    /// What a byte on the wire costs besides its time, in nanoseconds of message time. Default 0;
    /// a metered link is worth more.
    pub byte_price: f64,
    /// What a nanosecond of processor time costs, encoding or decoding, in nanoseconds of message
    /// time. Default 0.005, so that of arms that are equal but for half a percent the cheaper wins.
    pub cpu_price: f64,
}

impl Default for Objective {
    fn default() -> Self {
        Self {
            latency: 1.0,
            byte_price: 0.0,
            cpu_price: 0.005,
        }
    }
}

impl Objective {
    /// Negative and non-finite prices would make every comparison void.
    pub(super) fn sane(self) -> Self {
        let or = |value: f64, default: f64| {
            if value.is_finite() && value >= 0.0 {
                value
            } else {
                default
            }
        };
        let default = Self::default();
        Self {
            latency: or(self.latency, default.latency),
            byte_price: or(self.byte_price, default.byte_price),
            cpu_price: or(self.cpu_price, default.cpu_price),
        }
    }
}

/// The state of the stages when a block is about to be encoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stages {
    /// Time that a byte takes on the link, ns.
    pub(crate) link_nanos_per_byte: f64,
    /// Time that the link still needs for what was written before, ns.
    pub(crate) link_backlog_nanos: f64,
    /// Time that this end spends on each block besides encoding, ns.
    pub(crate) overhead_nanos: f64,
    /// .. what of that it is at work, ns.
    pub(crate) at_work_nanos: f64,
    /// .. and to hand it to a worker and back, if it takes longer than [`MAX_INLINE`], ns.
    pub(crate) handover_nanos: f64,
    /// .. and to cut it instead, if it takes no longer than [`MOST_CUT`], ns.
    pub(crate) cut_nanos: f64,
    /// How many times its processor time encoding takes.
    pub(crate) stretch: f64,
    /// .. beside others that are encoded at once.
    pub(crate) stretch_beside: f64,
    /// How many blocks of those that wait are encoded at once, if they stand by themselves and take longer than [`PARALLEL_FROM`].
    pub(crate) width: f64,
    /// Blocks expected to follow without a pause.
    pub(crate) followers: f64,
    pub(crate) prices: Prices,
}

/// The times of one block with one arm; encoding as processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    pub(crate) encode_nanos: f64,
    pub(crate) wire_len: f64,
    pub(crate) decode_nanos: f64,
    /// Whether the block stands by itself, and others may be encoded beside it.
    pub(crate) is_alone: bool,
}

impl Times {
    pub(crate) const fn work(&self) -> Work {
        Work {
            encode_nanos: self.encode_nanos,
            decode_nanos: self.decode_nanos,
        }
    }
}

/// Header, checksum and what lower layers add to a block, bytes. Arbitrary within 6 and 60.
const BLOCK_OVERHEAD: f64 = 10.0;

impl Stages {
    /// Time that the block takes on the link, ns.
    pub(crate) fn link_nanos(&self, wire_len: f64) -> f64 {
        (wire_len + BLOCK_OVERHEAD) * self.link_nanos_per_byte
    }

    /// How many blocks are encoded at once with an arm that takes so long.
    pub(crate) fn width_of(&self, encode_nanos: f64, is_alone: bool) -> f64 {
        if is_alone && encode_nanos > PARALLEL_FROM.as_nanos() as f64 {
            self.width
        } else {
            1.0
        }
    }

    /// Time that this end spends on a block besides encoding it, which takes `encode_nanos`, ns.
    pub(crate) fn besides_nanos(&self, encode_nanos: f64) -> f64 {
        let more = if encode_nanos > MOST_CUT.as_nanos() as f64 {
            self.handover_nanos
        } else if encode_nanos > MAX_INLINE.as_nanos() as f64 {
            self.cut_nanos
        } else {
            0.0
        };
        self.overhead_nanos + more
    }

    /// Time that this end spends on a block of which so many are encoded at once ([`Self::width_of`]), ns.
    pub(crate) fn here_nanos(&self, encode_nanos: f64, width: f64) -> f64 {
        let stretch = if width > 1.0 {
            self.stretch_beside
        } else {
            self.stretch
        };
        encode_nanos * stretch + self.besides_nanos(encode_nanos)
    }

    /// What processor time costs besides the time that it takes, ns of message time.
    pub(crate) fn work_price(&self, work: Work, objective: Objective) -> f64 {
        self.prices.raised_by(objective.cpu_price).of(work)
    }

    /// What processor time costs at either end that nothing hides, ns of message time.
    pub(crate) fn unhidden(&self, work: Work, objective: Objective) -> f64 {
        let time = self.stretch * work.encode_nanos + work.decode_nanos;
        objective.latency * time + self.work_price(work, objective)
    }

    /// What the block costs with these times, ns of message time.
    pub(crate) fn cost(&self, times: Times, objective: Objective) -> f64 {
        let Times {
            encode_nanos,
            wire_len,
            decode_nanos,
            is_alone,
        } = times;
        let width = self.width_of(encode_nanos, is_alone);
        let here = self.here_nanos(encode_nanos, width);
        let alone = 1.0 / (1.0 + self.followers);
        let on_link = self.link_nanos(wire_len);
        let hidden = on_link.min(self.at_work_nanos) * (1.0 - alone);
        let mut idle = (here - self.link_backlog_nanos).max(0.0);
        if width > 1.0 {
            idle /= width;
        }
        let link = idle + on_link - hidden;
        let behind = self.followers * (decode_nanos - link.max(on_link)).max(0.0);
        let time = link + (decode_nanos + behind) * alone;
        // `work_price` spelled out: with it a large decision took 850 instructions more, of 26 000.
        objective.latency * time
            + objective.byte_price * wire_len
            + (objective.cpu_price + self.prices.encode) * encode_nanos
            + (objective.cpu_price + self.prices.decode) * decode_nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Objective = Objective {
        latency: 1.0,
        byte_price: 0.0,
        cpu_price: 0.0,
    };

    fn stages(backlog: f64, followers: f64) -> Stages {
        Stages {
            link_nanos_per_byte: 1.0,
            link_backlog_nanos: backlog,
            overhead_nanos: 0.0,
            at_work_nanos: 0.0,
            handover_nanos: 0.0,
            cut_nanos: 0.0,
            stretch: 1.0,
            stretch_beside: 1.0,
            width: 1.0,
            followers,
            prices: Prices::default(),
        }
    }

    fn times(encode: f64, wire: f64, decode: f64) -> Times {
        Times {
            encode_nanos: encode,
            wire_len: wire - BLOCK_OVERHEAD,
            decode_nanos: decode,
            is_alone: true,
        }
    }

    #[test]
    fn an_idle_pipeline_costs_the_sum() {
        let cost = stages(0.0, 0.0).cost(times(100.0, 300.0, 50.0), FREE);
        assert!((cost - 450.0).abs() < 1e-9);
    }

    #[test]
    fn a_backlog_costs_the_slowest_stage() {
        let long = 1e9;
        for (times, slowest) in [
            (times(100.0, 300.0, 50.0), 300.0),
            (times(100.0, 300.0, 900.0), 900.0),
        ] {
            // The link has the block before this one to carry: the time of one block.
            let cost = stages(300.0, long).cost(times, FREE);
            assert!((cost - slowest).abs() < 1.0, "{cost}");
        }
        // The encoder is slowest: all of the block before is gone, but for its own link time.
        let cost = stages(100.0, long).cost(times(900.0, 100.0, 50.0), FREE);
        assert!((cost - 900.0).abs() < 1.0, "{cost}");
    }

    #[test]
    fn encoding_is_free_while_the_link_is_busy() {
        let heavy = times(900.0, 100.0, 0.0);
        let light = times(100.0, 300.0, 0.0);
        let cost = |backlog| {
            let stages = stages(backlog, 100.0);
            (stages.cost(heavy, FREE), stages.cost(light, FREE))
        };
        let (busy, dry) = (cost(1000.0), cost(0.0));
        assert!(busy.0 < busy.1, "{busy:?}");
        assert!(dry.0 > dry.1, "{dry:?}");
    }

    #[test]
    fn a_link_that_is_done_before_the_next_block_is_ready_costs_nothing_in_a_run() {
        let fast = Stages {
            overhead_nanos: 400.0,
            at_work_nanos: 400.0,
            ..stages(0.0, 1e9)
        };
        let plain = |link| fast.cost(times(0.0, link, 0.0), FREE);
        // However fast it is.
        assert!((plain(300.0) - 400.0).abs() < 1.0 && (plain(30.0) - 400.0).abs() < 1.0);
        let encoded = fast.cost(times(200.0, 10.0, 50.0), FREE);
        assert!((encoded - 600.0).abs() < 1.0, "{encoded}");
        // Of one that is not, what is left.
        assert!((plain(1000.0) - 1000.0).abs() < 1.0);
        // The last of a run has nothing behind it that would hide it.
        let last = Stages {
            followers: 0.0,
            ..fast
        };
        let cost = last.cost(times(0.0, 300.0, 0.0), FREE);
        assert!((cost - 700.0).abs() < 1e-6, "{cost}");
    }

    #[test]
    fn decoding_is_measured_by_how_often_blocks_come() {
        let fast = Stages {
            overhead_nanos: 400.0,
            at_work_nanos: 400.0,
            ..stages(300.0, 1e9)
        };
        // They come every 400, and it keeps up.
        let keeps_up = fast.cost(times(0.0, 300.0, 290.0), FREE);
        let without = fast.cost(times(0.0, 300.0, 0.0), FREE);
        assert!((keeps_up - without).abs() < 1.0, "{keeps_up} {without}");
    }

    #[test]
    fn what_a_worker_encodes_pays_for_being_handed_over_or_for_being_cut() {
        let [inline, most_cut] = [MAX_INLINE, MOST_CUT].map(|time| time.as_nanos() as f64);
        let handed = Stages {
            handover_nanos: 50e3,
            cut_nanos: 20e3,
            ..stages(0.0, 0.0)
        };
        let more = |encode| handed.cost(times(encode, 100.0, 0.0), FREE) - encode - 100.0;
        assert!(more(inline).abs() < 1e-6);
        assert!((more(inline + 1.0) - 20e3).abs() < 1e-6);
        assert!((more(most_cut) - 20e3).abs() < 1e-6);
        assert!((more(most_cut + 1.0) - 50e3).abs() < 1e-6);
    }

    #[test]
    fn prices_make_the_cheaper_arm_win() {
        let dear = Stages {
            prices: Prices {
                encode: 10.0,
                decode: 0.0,
            },
            ..stages(1e6, 100.0)
        };
        assert!(
            dear.cost(times(900.0, 100.0, 0.0), FREE) > dear.cost(times(0.0, 1000.0, 0.0), FREE)
        );
        let metered = Objective {
            byte_price: 100.0,
            ..FREE
        };
        let idle = stages(0.0, 0.0);
        assert!(
            idle.cost(times(9000.0, 100.0, 0.0), metered)
                < idle.cost(times(0.0, 1000.0, 0.0), metered)
        );
    }
}
