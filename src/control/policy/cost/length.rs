//! How long the next block may grow.
//!
//! A message leaves with its block: one that waits for others to join it arrives with the last of them. Longer
//! blocks cost less for each byte, shorter ones let encoding, link and decoding overlap. With
//!
//! ```text
//! e, w, d, o, W  as in what a block of b bytes costs (`price`)
//! N              plain bytes that are to leave without a pause
//! M              messages that wait
//!
//! S(b) = max(e + o - W, 0) + w + d            the first block arrives
//! m(b) = max(e + o, w, d + o)                 .. and then one after every
//! k(b) = N / b                                blocks in all
//! T(b) = S + c * (k - 1) * m                  c = (1 + 1 / M) / 2: the mean message arrives
//!
//! cost(b) = latency * T + k * (byte_price * w + (cpu_price + P_e) * e + (cpu_price + P_d) * d)
//! ```
//!
//! the length of least cost is taken. With lines f + r * b for each stage it would be the root of
//! `c * N * f / (sum of all r - c * r)`, f and r being those of the slowest stage. Nothing is kept from one block to the
//! next but the length at which the arm in use is looked up.

use super::price::Stages;
use super::{BlockClass, Cost, Look, Times, stages};
use crate::codecs::{Arm, Length, Typical, TypicalRow, typical};
use crate::control::Texture;
use crate::control::policy::Situation;

/// What waits to be sent, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Plain bytes that wait.
    pub(crate) plain_len: usize,
    /// .. in so many messages.
    pub(crate) messages: usize,
    /// Plain bytes that were sent since nothing waited. As many are expected to follow what waits: nothing is known of
    /// the end, and what has lasted will last.
    pub(crate) since_pause: u64,
    /// Since then queues were so full that the application waited for room: it sends as fast as it can, and what counts
    /// is when all will have arrived.
    pub(crate) held_back: bool,
}

/// Shorter blocks are not cut: what a block costs besides its codec (writes, wake-ups at the peer) is not known
/// well enough. Arbitrary; over histories, blocks of 4 KiB still pay (docs/benchmarks.md, block lengths).
const LEAST: usize = 4 << 10;
/// What each end spends on a block besides its codec at least, ns: about what a write to a socket takes. What this
/// end has shown counts if it is more.
const LEAST_OVERHEAD: f64 = 2e3;
/// Wire bytes by which a history finds less where a block ends: 20 to 80 on six corpora, zstd:3 to zstd:15, blocks of 16 and 64 KiB
/// (docs/benchmarks.md, block lengths).
const CUT: f64 = 40.0;

/// How much is to leave without a pause, and which part of the time of the blocks behind the first counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    plain_len: f64,
    /// The mean length of a message.
    message_len: f64,
    part: f64,
}

impl Backlog {
    fn load(self) -> Load {
        let messages = self.messages.max(1) as f64;
        Load {
            plain_len: self.plain_len as f64 + self.since_pause as f64,
            message_len: self.plain_len as f64 / messages,
            part: 0.5 + 0.5 / messages,
        }
    }
}

impl Load {
    /// Blocks of at most `len` bytes that it makes: one that the next message does not fit ends before it.
    fn blocks(&self, len: f64) -> f64 {
        let unused = if self.message_len < len && self.message_len < self.plain_len {
            self.message_len / 2.0
        } else {
            0.0
        };
        (self.plain_len / (len - unused)).max(1.0)
    }
}

impl Cost {
    /// The longest block to be built of what waits, at most `most` bytes.
    pub(in super::super) fn block_len(
        &mut self,
        situation: &Situation<'_>,
        backlog: Backlog,
        most: usize,
    ) -> usize {
        let waits = backlog.plain_len;
        // What runs become is about as long for a short block as for a long one: each cut costs a whole block.
        let is_runs = situation.texture == Texture::Runs;
        if waits <= LEAST || most <= LEAST || backlog.held_back || is_runs {
            return most;
        }
        // Classes of blocks that are not sent say what was, not what is.
        let looked_up = waits.min(most).min(self.reach.max(LEAST));
        let situation = Situation {
            plain_len: looked_up,
            queued_behind: waits - looked_up,
            ..*situation
        };
        let stages = stages(&situation);
        let class = BlockClass::of(looked_up, situation.texture);
        if self.current.is_none() {
            self.look(&situation, &stages, class);
        }
        let first = || self.looks.first().map(Look::arm);
        let Some(arm) = self.current().or_else(first) else {
            return most;
        };
        // Only over a history that has begun is a cut known to cost little.
        let used = situation.arms[arm];
        if !used.history || !situation.live.contains(&used) {
            return most;
        }
        let load = backlog.load();
        let Some(row) = typical(used) else {
            return most;
        };
        let lengths = self.lengths(&situation, class, used, row);
        let mut best = (f64::INFINITY, most);
        let mut len = most;
        while len >= LEAST {
            let built = len.min(waits);
            let cost = self.backlog_cost(&stages, lengths.times(built), load, built);
            if cost < best.0 {
                best = (cost, len);
            }
            len /= 2;
        }
        self.reach = best.1;
        best.1
    }

    /// What is known of an arm with history, for blocks of `class` cut to other lengths than the situation's.
    fn lengths(
        &self,
        situation: &Situation<'_>,
        class: BlockClass,
        arm: Arm,
        row: &'static TypicalRow,
    ) -> Lengths {
        let models = self.models(situation);
        let plain_len = situation.plain_len as f64;
        let len = Length::of(plain_len);
        let known = models.known(class.of_arm(arm), len, &models.content(class));
        let typical = row.at(len);
        let decode = situation.decode;
        let at_peer = decode.nanos(arm.codec, typical.decode_nanos);
        Lengths {
            row,
            plain_len,
            typical,
            expected: known.expect(arm, &typical).at_peer(at_peer).times(),
        }
    }

    /// What it costs to send a load in blocks of `len` bytes with these times, ns of message time.
    fn backlog_cost(&self, stages: &Stages, times: Times, load: Load, len: usize) -> f64 {
        let Times {
            encode_nanos,
            wire_len,
            decode_nanos,
            is_alone,
        } = times;
        let objective = self.objective;
        let width = stages.width_of(encode_nanos, is_alone);
        let besides = stages.besides_nanos(encode_nanos);
        let overhead = besides.max(LEAST_OVERHEAD);
        let here = stages.here_nanos(encode_nanos, width) - besides + overhead;
        let each = here / width;
        let link = stages.link_nanos(wire_len);
        let first = (here - stages.link_backlog_nanos).max(0.0) + link + decode_nanos;
        let slowest = each.max(link).max(decode_nanos + overhead);
        let blocks = load.blocks(len as f64);
        let time = first + load.part * (blocks - 1.0) * slowest;
        let block = objective.byte_price * wire_len + stages.work_price(times.work(), objective);
        objective.latency * time + blocks * block
    }
}

/// What an arm takes for blocks of several lengths.
struct Lengths {
    row: &'static TypicalRow,
    /// A length for which it was looked up, what is typical of the arm there, and what is expected.
    plain_len: f64,
    typical: Typical,
    expected: Times,
}

impl Lengths {
    /// What was measured scales what is typical, whatever the length.
    fn times(&self, len: usize) -> Times {
        let len = Length::of(len as f64);
        let Times {
            encode_nanos,
            wire_len,
            decode_nanos,
            is_alone,
        } = self.expected;
        let typical = self.row.at(len);
        // Much less than what lengths do to blocks without history, of which the typical figures are made.
        let cut = CUT.min(wire_len / 2.0);
        let rest = wire_len - cut;
        Times {
            encode_nanos: encode_nanos / self.typical.encode_nanos * typical.encode_nanos,
            wire_len: cut + rest * len.bytes() / self.plain_len,
            decode_nanos: decode_nanos / self.typical.decode_nanos * typical.decode_nanos,
            is_alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::{CostConfig, Objective};
    use super::*;
    use crate::codecs::{Arm, CodecId};
    use crate::control::Arms;
    use crate::control::{Fed, PeerKnowledge};

    const MOST: usize = 64 << 10;
    const HISTORY: Arm = Arm::new(CodecId::ZSTD, 3).with_history();

    /// What the policy says on a link of so many Mbit/s, with one arm beside identity.
    fn decide(megabits: f64, objective: Objective, arm: Arm, backlog: Backlog) -> usize {
        decide_on(Texture::Records, megabits, objective, arm, backlog)
    }

    fn decide_on(
        texture: Texture,
        megabits: f64,
        objective: Objective,
        arm: Arm,
        backlog: Backlog,
    ) -> usize {
        let mut known = PeerKnowledge::default();
        let second = (megabits * 125e3) as u64;
        for _ in 0..20 {
            let link = &mut known.link;
            link.record_delivery(second, Duration::from_secs(1), Fed::Backlogged);
        }
        let arms = Arms::new(&[arm], &[], |_| true);
        let situation = Situation {
            live: &[arm],
            texture,
            ..Situation::quiet(&arms, &known)
        };
        Cost::new(CostConfig { objective }).block_len(&situation, backlog, MOST)
    }

    fn waiting(plain_len: usize, messages: usize) -> Backlog {
        Backlog {
            plain_len,
            messages,
            ..Backlog::default()
        }
    }

    #[test]
    fn what_waits_alone_leaves_in_blocks_short_enough_to_arrive_soon() {
        let objective = Objective::default();
        // N * 50 wire bytes a cut * 1/2, over what a plain byte takes on the link less half of that, is (4 to 9 KiB)^2.
        for megabits in [1.0, 10.0, 100.0] {
            let len = decide(megabits, objective, HISTORY, waiting(MOST, 300));
            assert!((4 << 10..=16 << 10).contains(&len), "{megabits}: {len}");
        }
        // What a block saves by its length is much without history.
        let alone = decide(10.0, objective, HISTORY.alone(), waiting(256 << 10, 1200));
        assert_eq!(alone, MOST);
    }

    #[test]
    fn the_more_is_to_come_the_longer_the_blocks() {
        let objective = Objective::default();
        let decide = |backlog| decide(10.0, objective, HISTORY, backlog);
        let burst = waiting(128 << 10, 600);
        let lens = [0, 1 << 20, 64 << 20].map(|since_pause| {
            decide(Backlog {
                since_pause,
                ..burst
            })
        });
        assert!(lens.is_sorted() && lens[0] < lens[2], "{lens:?}");
        assert_eq!(lens[2], MOST);
        let held_back = Backlog {
            held_back: true,
            since_pause: 1 << 20,
            ..burst
        };
        assert_eq!(decide(held_back), MOST);
    }

    #[test]
    fn a_long_message_is_cut_so_that_the_stages_overlap() {
        let objective = Objective::default();
        let message = waiting(256 << 10, 1);
        let len = decide(100.0, objective, HISTORY, message);
        assert!((8 << 10..=32 << 10).contains(&len), "{len}");
        // Where the link takes all of the time, a cut costs more than it gains.
        let len = decide(0.1, objective, HISTORY, message);
        assert!(len >= 32 << 10, "{len}");
    }

    #[test]
    fn runs_are_not_cut() {
        let backlog = waiting(MOST, 300);
        for arm in [HISTORY, HISTORY.alone()] {
            let len = decide_on(Texture::Runs, 1000.0, Objective::default(), arm, backlog);
            assert_eq!(len, MOST);
        }
    }

    #[test]
    fn dear_bytes_make_longer_blocks() {
        let of = |objective| decide(10.0, objective, HISTORY, waiting(MOST, 300));
        let usual = Objective::default();
        let metered = Objective {
            byte_price: 100e3,
            ..usual
        };
        let patient = Objective {
            latency: 0.0,
            byte_price: 1.0,
            ..usual
        };
        assert!(of(usual) < MOST);
        assert_eq!([metered, patient].map(of), [MOST; 2]);
    }

    #[test]
    fn absurd_figures_leave_a_length_that_may_be_built() {
        let absurd = [
            waiting(usize::MAX, usize::MAX),
            waiting(usize::MAX, 0),
            Backlog {
                since_pause: u64::MAX,
                held_back: true,
                ..waiting(1, 1 << 40)
            },
            waiting(0, 0),
        ];
        for backlog in absurd {
            for megabits in [1e-9, 1e9] {
                let len = decide(megabits, Objective::default(), HISTORY, backlog);
                assert!((LEAST..=MOST).contains(&len), "{backlog:?}: {len}");
            }
        }
    }
}
