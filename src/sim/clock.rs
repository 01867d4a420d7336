//! What a node takes for the time: it may run ahead, behind, or not at all.

use core::time::Duration;

use crate::units::Time;

/// It says `at` until `until`, and runs from there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    at: Time,
    until: Time,
}

impl Clock {
    /// What it says.
    pub(super) fn read(&self, now: Time) -> Time {
        self.at + now.saturating_since(self.until)
    }

    /// When it says `time`, if that is later than what it says now.
    pub(super) fn when(&self, time: Time) -> Time {
        self.until + time.saturating_since(self.at)
    }

    pub(super) fn forward(&mut self, now: Time, by: Duration) {
        (self.at, self.until) = (self.read(now) + by, now);
    }

    pub(super) fn back(&mut self, now: Time, by: Duration) {
        (self.at, self.until) = (self.read(now) - by, now);
    }

    pub(super) fn stop(&mut self, now: Time, time: Duration) {
        (self.at, self.until) = (self.read(now), now + time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_from_where_it_was_put() {
        let at = |secs: u64| Time::from_nanos(secs * 1_000_000_000);
        let secs = Duration::from_secs;
        let mut clock = Clock::default();
        assert_eq!((clock.read(at(5)), clock.when(at(7))), (at(5), at(7)));
        clock.forward(at(10), secs(100));
        assert_eq!((clock.read(at(11)), clock.when(at(115))), (at(111), at(15)));
        clock.back(at(20), secs(50));
        assert_eq!((clock.read(at(20)), clock.when(at(71))), (at(70), at(21)));
        clock.stop(at(30), secs(5));
        assert_eq!(
            [31, 35, 36].map(|now| clock.read(at(now))),
            [80, 80, 81].map(at)
        );
        assert_eq!(clock.when(at(81)), at(36));
    }
}
