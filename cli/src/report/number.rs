//! Numbers as they stand on the page: four digits, and a unit that the whole column shares.

/// Four significant digits, and no more of the whole number than there is.
pub(super) fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".to_owned();
    }
    if !(1e-6..1e15).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = 3.0 - magnitude.log10().floor();
    format!("{value:.*}", decimals.clamp(0.0, 9.0) as usize)
}

/// A median of counts: whole, or half of one more.
pub(super) fn count(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        digits(value)
    }
}

/// So many of something: `1 pass`, `2 passes`.
pub(super) fn so_many(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// A cell that may have nothing.
pub(super) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), digits)
}

/// A share as per cent; what is there is never 0.
pub(super) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.000_5 {
        return "< 0.1".to_owned();
    }
    format!("{:.1}", 100.0 * share)
}

/// `part` of `all`, 0 of nothing.
pub(super) fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// A unit: its name, and how much of it one of the base unit is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    per_base: f64,
}

impl Unit {
    /// Where a plot goes along messages instead of time, each is a nanosecond of it.
    pub(super) const MESSAGES: Self = Self::new("messages", 1e9);

    /// What an axis says.
    pub(super) fn axis(self) -> String {
        if self == Self::MESSAGES {
            "message".to_owned()
        } else {
            format!("time, {}", self.name)
        }
    }

    pub(super) fn of(self, base: f64) -> f64 {
        base * self.per_base
    }

    pub(super) fn digits(self, base: f64) -> String {
        digits(self.of(base))
    }

    pub(super) fn cell(self, base: Option<f64>) -> String {
        cell(base.map(|base| self.of(base)))
    }

    const fn new(name: &'static str, per_base: f64) -> Self {
        Self { name, per_base }
    }
}

/// The unit in which most of the values have something before the point; units from the smallest to the largest.
fn fitting(units: &[Unit], values: impl Iterator<Item = f64>) -> Unit {
    let mut values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    values.sort_by(f64::total_cmp);
    let typical = values.get(values.len() / 2).copied().unwrap_or(0.0);
    let fits = |unit: &&Unit| unit.of(typical) >= 1.0;
    *units.iter().rev().find(fits).unwrap_or(&units[0])
}

/// For times in seconds.
pub(super) fn time(seconds: impl Iterator<Item = f64>) -> Unit {
    const UNITS: [Unit; 4] = [
        Unit::new("ns", 1e9),
        Unit::new("µs", 1e6),
        Unit::new("ms", 1e3),
        Unit::new("s", 1.0),
    ];
    fitting(&UNITS, seconds)
}

/// For how long something went on, seconds.
pub(super) fn span(seconds: f64) -> Unit {
    const MINUTES: Unit = Unit::new("min", 1.0 / 60.0);
    const HOURS: Unit = Unit::new("h", 1.0 / 3600.0);

    if seconds >= 3.0 * 3600.0 {
        HOURS
    } else if seconds >= 300.0 {
        MINUTES
    } else {
        time(std::iter::once(seconds))
    }
}

/// For bytes.
pub(super) fn bytes(bytes: impl Iterator<Item = f64>) -> Unit {
    const UNITS: [Unit; 4] = [
        Unit::new("B", 1.0),
        Unit::new("kB", 1e-3),
        Unit::new("MB", 1e-6),
        Unit::new("GB", 1e-9),
    ];
    fitting(&UNITS, bytes)
}

/// For bits in a second.
pub(super) fn bits(rates: impl Iterator<Item = f64>) -> Unit {
    const UNITS: [Unit; 4] = [
        Unit::new("bit/s", 1.0),
        Unit::new("kbit/s", 1e-3),
        Unit::new("Mbit/s", 1e-6),
        Unit::new("Gbit/s", 1e-9),
    ];
    fitting(&UNITS, rates)
}

/// One time with its unit.
pub(super) fn one_time(seconds: f64) -> String {
    let unit = time(std::iter::once(seconds));
    format!("{} {}", unit.digits(seconds), unit.name)
}

/// So many bytes with their unit.
pub(super) fn one_size(size: u64) -> String {
    let unit = bytes(std::iter::once(size as f64));
    format!("{} {}", unit.digits(size as f64), unit.name)
}

/// Short, for an axis: `250`, `1.5k`, `20M`.
pub(super) fn short(value: f64) -> String {
    const PREFIXES: [(&str, f64); 4] = [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)];

    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e15).contains(&magnitude) {
        return format!("{value:.0e}");
    }
    let prefix = PREFIXES.iter().find(|(_, factor)| magnitude >= *factor);
    let (name, factor) = prefix.copied().unwrap_or(("", 1.0));
    // Ticks are round: more digits than these are those of binary fractions.
    let text = format!("{:.6}", value / factor);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    format!("{text}{name}")
}

/// A day and a time of day, UTC, from nanoseconds since 1970.
pub(super) fn date(unix_nanos: u64) -> String {
    let seconds = unix_nanos / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since the first of March of year 0, in eras of 400 years: February's last day is the year's last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year + era * 400 + next;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.123_456, "0.1235"),
            (1.0, "1.000"),
            (99.999, "100.00"),
            (1234.5, "1234"),
            (123_456.0, "123456"),
            (0.000_012_344, "0.00001234"),
            (-2.5, "-2.500"),
            (1e300, "1.000e300"),
            (1e-9, "1.000e-9"),
        ] {
            assert_eq!(digits(value), text, "{value}");
        }
    }

    #[test]
    fn a_column_has_the_unit_of_most_of_its_values() {
        assert_eq!(time([0.002, 0.003, 5.0].into_iter()).name, "ms");
        assert_eq!(time([2.0, 3.0, 5e-9].into_iter()).name, "s");
        assert_eq!(time([0.0].into_iter()).name, "ns");
        assert_eq!(one_time(0.001_5), "1.500 ms");
        assert_eq!(one_size(1_238_943), "1.239 MB");
        assert_eq!(
            (span(200.0).name, span(400.0).name, span(20_000.0).name),
            ("s", "min", "h")
        );
        assert_eq!(bits(std::iter::once(1e8)).digits(1e8), "100.0");
    }

    #[test]
    fn shares_are_never_nothing_where_there_is_something() {
        assert_eq!(
            [0.0, 1e-9, 0.001, 0.5, 1.0].map(percent),
            ["0.0", "< 0.1", "0.1", "50.0", "100.0"]
        );
        assert_eq!(
            (count(4.0), count(2.5)),
            ("4".to_owned(), "2.500".to_owned())
        );
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (1500.0, "1.5k"),
            (2e7, "20M"),
            (-3e9, "-3G"),
            (1e28, "1e28"),
            (1e-9, "1e-9"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date(seconds * 1_000_000_000), text);
        }
        // As far as nanoseconds go.
        assert!(date(u64::MAX).starts_with("2554-07-21"));
    }
}
