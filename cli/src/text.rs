//! Numbers as people read them.

use std::time::Duration;

use tautline::control::BudgetRate;
use tautline::session::ArmStats;

/// `12.3 kB`, `4.56 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

/// `87 µs`, `1.4 ms`, `2.10 s`.
pub(crate) fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1e3 {
        format!("{micros:.0} µs")
    } else if micros < 1e6 {
        format!("{:.1} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}

/// As [`time`], with more digits below 10 µs: `420 ns`, `4.2 µs`.
pub(crate) fn fine_time(fine: Duration) -> String {
    match fine.as_nanos() {
        nanos @ 0..1_000 => format!("{nanos} ns"),
        nanos @ 1_000..10_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        _ => time(fine),
    }
}

/// How much that is in a second.
pub(crate) fn per_second(amount: u64, span: Duration) -> f64 {
    amount as f64 / span.as_secs_f64().max(1e-9)
}

/// `120 ms/s`: codec time in each second.
pub(crate) fn budget(rate: BudgetRate) -> String {
    format!("{:.0} ms/s", rate.as_nanos_per_sec() as f64 / 1e6)
}

/// `4.5x`, or a dash where nothing was sent.
pub(crate) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x"))
}

/// The share of the messages that each arm carried, largest first: `lz4 92%, zstd:3 5%`. Shares
/// under 1 % are left out, at most `most` are named.
pub(crate) fn shares(arms: &[ArmStats], most: usize) -> String {
    let all: u64 = arms.iter().map(|arm| arm.messages).sum();
    if all == 0 {
        return "-".to_owned();
    }
    let mut sorted: Vec<_> = arms.iter().collect();
    sorted.sort_by_key(|arm| std::cmp::Reverse(arm.messages));
    let parts: Vec<_> = sorted
        .iter()
        .map(|arm| (arm.arm, 100.0 * arm.messages as f64 / all as f64))
        .filter(|(_, share)| *share >= 1.0)
        .take(most)
        .map(|(arm, share)| format!("{arm} {share:.0}%"))
        .collect();
    parts.join(", ")
}

/// What was added from `before` to `after`.
pub(crate) fn since(after: &[ArmStats], before: &[ArmStats]) -> Vec<ArmStats> {
    after
        .iter()
        .map(|now| match before.iter().find(|then| then.arm == now.arm) {
            None => *now,
            Some(then) => ArmStats {
                arm: now.arm,
                blocks: now.blocks - then.blocks,
                messages: now.messages - then.messages,
                plain_bytes: now.plain_bytes - then.plain_bytes,
                wire_bytes: now.wire_bytes - then.wire_bytes,
                encode_nanos: now.encode_nanos - then.encode_nanos,
            },
        })
        .filter(|arm| arm.blocks > 0)
        .collect()
}

/// Plain over wire bytes of all arms together.
pub(crate) fn ratio_of(arms: &[ArmStats]) -> Option<f64> {
    let plain: u64 = arms.iter().map(|arm| arm.plain_bytes).sum();
    let wire: u64 = arms.iter().map(|arm| arm.wire_bytes).sum();
    (wire > 0).then(|| plain as f64 / wire as f64)
}

/// Names as parts of files' names, each another: letters, digits, `-` and `_` stay, all else is `_`.
#[cfg(target_os = "linux")]
pub(crate) fn file_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = Vec::new();
    for name in names {
        let safe = |char: char| match char {
            '-' => '-',
            char if char.is_alphanumeric() => char,
            _ => '_',
        };
        let mut name: String = name.chars().map(safe).collect();
        while taken.contains(&name) {
            name.push('_');
        }
        taken.push(name);
    }
    taken
}

/// Three or four digits, however large; what is no number is a dash.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        // What would be 1000.000 of the smaller unit is 1.000 of the greater.
        value_abs if value_abs >= 999_999_500.0 => format!("{:.3}G", value / 1e9),
        value_abs if value_abs >= 999_950.0 => format!("{:.3}M", value / 1e6),
        value_abs if value_abs >= 1e4 => format!("{:.1}k", value / 1e3),
        value_abs if value_abs >= 100.0 => format!("{value:.0}"),
        value_abs if value_abs >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_few_digits_and_what_is_none_a_dash() {
        let values = [0.0, 1.5, 123.4, 12_345.0, 3.2e6, 7.25e9, 0.000_02, f64::NAN];
        assert_eq!(
            values.map(number),
            [
                "0", "1.500", "123", "12.3k", "3.200M", "7.250G", "2.0e-5", "-"
            ]
        );
        let values = [999_949.0, 999_950.0, 999_999_499.0, 999_999_999.9];
        assert_eq!(
            values.map(number),
            ["999.9k", "1.000M", "999.999M", "1.000G"]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_of_files_are_safe_and_no_two_are_the_same() {
        let names = ["a b", "a/b", "a_b", "größer-2", "../..", "a b"];
        assert_eq!(
            file_names(names.into_iter()),
            ["a_b", "a_b_", "a_b__", "größer-2", "_____", "a_b___"]
        );
    }
}
