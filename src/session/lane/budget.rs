//! What each lane has of its connection's settings.

use core::time::Duration;

use crate::dictionary::{Acceptance, AcceptancePolicy};
use crate::session::{Limits, SessionConfig};

/// A further lane has memory for histories of this length or none: less holds no context that is worth it
/// (docs/benchmarks.md, "What histories hold").
const LEAST_HISTORY: usize = 1 << 20;
/// Lane 0 keeps so much memory for histories before others have any: what a new connection is given of a node's.
const FIRST_HISTORY: usize = 2 << 20;
/// Of what is left, a further lane has one part of so many. Arbitrary: the first lanes are those that are used most.
const PART: usize = 4;
/// So many streams a second are no limit: they are counted over all lanes.
const UNCOUNTED: u32 = u32::MAX;
/// What streams of a further lane may hold together besides the longest message, bytes. Arbitrary: a stream's window.
const BESIDE_MESSAGE: usize = 1 << 20;
/// Blocks that wait for their decoding, at most, on a further lane. Arbitrary: two processors and as many to follow.
const BLOCKS_AT_ONCE: usize = 4;
/// Bytes that wait for a peer that asks and does not read, at most, on a further lane, besides what blocks leave there.
/// Arbitrary, far above what honest answers come to.
const OUTPUT: usize = 512 << 10;

/// What a connection's further lanes have of its settings. Memory and streams are divided; codec time, the rate of opening
/// streams and idleness are the connection's, and for its driver to count.
#[derive(Clone, Debug)]
pub(crate) struct LaneBudget {
    config: SessionConfig,
    /// For histories of what is sent and of what is received.
    histories: [usize; 2],
    /// Of what is kept to be sent again: for each lane, and what is left besides.
    retained: (usize, usize),
}

impl LaneBudget {
    /// Divides the settings of a connection with so many further lanes at most, at least one; `config` is lane 0's from here on.
    pub(crate) fn divide(config: &mut SessionConfig, lanes: usize) -> Self {
        let mut further = config.clone();
        further.limits.at_once = BLOCKS_AT_ONCE;
        // Not divided: the longest message must find room on each lane.
        let own = further.limits.max_message.saturating_add(BESIDE_MESSAGE);
        let most = further.limits.connection_memory_len();
        further.limits.connection_memory = Some(own.min(most));
        further.limits.output = OUTPUT.saturating_add(4 * config.block_len);
        // Lane 0's hold for the carrier of all.
        further.heartbeat = None;
        further.dead_after = None;
        // Groups other than 0 have none.
        further.dictionaries.acceptance = AcceptancePolicy::new(Acceptance::Never);
        further.dictionaries.trainer = None;
        further.dictionaries.recalls = false;
        further.dictionaries.memory = None;
        for limits in [&mut config.limits, &mut further.limits] {
            limits.idle_time = None;
            limits.streams_per_second = UNCOUNTED;
        }

        let streams = config.limits.max_streams / 2;
        let each = streams / u32::try_from(lanes).unwrap_or(u32::MAX).max(1);
        further.limits.max_streams = each;
        let taken = u64::from(each) * lanes as u64;
        config.limits.max_streams -= u32::try_from(taken).unwrap_or(streams);

        let (sent, received) = config.history_lens();
        let first = |all: usize| (all / 2).max(all.min(FIRST_HISTORY));
        config.history_memory = first(sent);
        config.limits.decode_memory = Some(first(received));
        let retained = config.retransmit_memory / 2;
        config.retransmit_memory -= retained;
        Self {
            config: further,
            histories: [sent - first(sent), received - first(received)],
            retained: (retained / 2 / lanes.max(1), retained / 2),
        }
    }

    /// The settings of the next lane.
    pub(crate) fn take(&mut self) -> SessionConfig {
        let mut config = self.config.clone();
        let [sent, received] = &mut self.histories;
        config.history_memory = history(sent);
        config.limits.decode_memory = Some(history(received));
        if config.retransmit_memory > 0 {
            let (each, left) = &mut self.retained;
            let part = *left / PART;
            *left -= part;
            // With none it could not go on over another connection.
            config.retransmit_memory = (*each + part).max(1);
        }
        config
    }
}

/// Takes the next lane's part.
fn history(left: &mut usize) -> usize {
    let part = (*left / PART).max(LEAST_HISTORY);
    if part > *left {
        return 0;
    }
    *left -= part;
    part
}

impl SessionConfig {
    /// The limits, as set.
    pub(crate) const fn limits_set(&self) -> Limits {
        self.limits
    }
}

impl Limits {
    /// As set.
    pub(crate) const fn idle_limit(&self) -> Option<Duration> {
        self.idle_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the settings and the number of lanes: all lanes together have what the connection would have had.
    #[test]
    fn lanes_have_no_more_together_than_their_connection() {
        let some = [0, 1, 100 << 10, 1 << 20, 8 << 20, 100 << 20];
        for lanes in [1, 2, 64, 1000] {
            for memory in some {
                for streams in [0, 1, 100, 16_384] {
                    let limits = Limits::default().max_streams(streams);
                    let config = SessionConfig::default()
                        .limits(limits)
                        .history_memory(memory)
                        .retransmit_memory(memory);
                    let mut first = config.clone();
                    let mut budget = LaneBudget::divide(&mut first, lanes);
                    let all: Vec<_> = (0..lanes).map(|_| budget.take()).collect();
                    let all = || all.iter().chain([&first]);
                    let sum = |of: fn(&SessionConfig) -> usize| all().map(of).sum::<usize>();
                    let what = format!("{lanes} lanes, {memory} bytes, {streams} streams");
                    assert!(sum(|it| it.history_lens().0) <= memory, "{what}");
                    assert!(sum(|it| it.history_lens().1) <= memory, "{what}");
                    // A byte each, so that they can go on.
                    assert!(sum(|it| it.retransmit_memory) <= memory + lanes, "{what}");
                    let open = sum(|it| it.limits.max_streams as usize);
                    assert!(open <= streams as usize, "{what}: {open}");
                    assert!(first.limits.max_streams >= streams / 2, "{what}");
                    assert!(first.retransmit_memory >= memory / 2, "{what}");
                    assert!(all().all(|it| (it.retransmit_memory > 0) == (memory > 0)));
                }
            }
        }
    }

    #[test]
    fn the_first_lanes_have_histories_and_lane_0_has_what_a_new_connection_is_given() {
        let mut first = SessionConfig::default();
        let mut budget = LaneBudget::divide(&mut first, 64);
        assert_eq!(first.history_lens(), (4 << 20, 4 << 20));
        let lens: Vec<_> = (0..5).map(|_| budget.take().history_lens().0).collect();
        assert_eq!(lens, [1 << 20, 1 << 20, 1 << 20, 1 << 20, 0]);
        let mut small = SessionConfig::default().history_memory(1 << 20);
        LaneBudget::divide(&mut small, 64);
        assert_eq!(small.history_lens(), (1 << 20, 1 << 20));
    }
}
