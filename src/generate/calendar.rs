//! Times as text, from a clock that moves only when it is told to.

use std::fmt;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Milliseconds since the start of 2026, in a calendar whose months all have 28 days: each of its
/// dates exists, and it never runs out of step with itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calendar {
    millis: u64,
}

impl Calendar {
    /// Moves on by a random time with the mean `mean_millis`, at least one millisecond.
    pub(super) fn advance(&mut self, rng: &mut fastrand::Rng, mean_millis: u64) {
        self.millis += rng.u64(1..2 * mean_millis.max(1));
    }

    pub(super) fn millis(self) -> u64 {
        self.millis
    }

    /// As `2026-01-31T23:59:59.123Z`.
    pub(super) fn iso(self) -> impl fmt::Display {
        let [year, month, day, hour, minute, second] = self.fields();
        let millis = self.millis % 1000;
        let month = month + 1;
        fmt_with(move |f| {
            write!(
                f,
                "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
            )
        })
    }

    /// As `31/Jan/2026:23:59:59 +0000`.
    pub(super) fn log(self) -> impl fmt::Display {
        let [year, month, day, hour, minute, second] = self.fields();
        let month = MONTHS[month as usize];
        fmt_with(move |f| {
            write!(
                f,
                "{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000"
            )
        })
    }

    /// Year, month from zero, day from one, hour, minute, second.
    fn fields(self) -> [u64; 6] {
        let seconds = self.millis / 1000;
        let days = seconds / 86_400;
        [
            2026 + days / (28 * 12),
            days / 28 % 12,
            days % 28 + 1,
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60,
        ]
    }
}

/// A value that `write` displays.
fn fmt_with(write: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result) -> impl fmt::Display {
    struct Shown<F>(F);
    impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Shown<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.0)(f)
        }
    }
    Shown(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_both_forms() {
        let mut calendar = Calendar::default();
        assert_eq!(calendar.iso().to_string(), "2026-01-01T00:00:00.000Z");
        calendar.millis = ((28 * 12 + 30) * 86_400 + 3_723) * 1000 + 45;
        assert_eq!(calendar.iso().to_string(), "2027-02-03T01:02:03.045Z");
        assert_eq!(calendar.log().to_string(), "03/Feb/2027:01:02:03 +0000");
    }
}
