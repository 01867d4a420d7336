//! How fast messages are to be sent.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A rate of messages, or of their bits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(unix, derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Rate {
    Messages(f64),
    Bits(f64),
}

const UNITS: [(&str, f64); 4] = [("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bits = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
        let number = bits.map_or(text, |(number, _)| number);
        let value: f64 = number
            .parse()
            .map_err(|_| format!("`{text}` is not a rate (500, 64kbit, 10Mbit)"))?;
        if !value.is_finite() || value <= 0.0 {
            return Err(format!("a rate is above zero, not {number}"));
        }
        Ok(bits.map_or(Self::Messages(value), |(_, factor)| {
            Self::Bits(value * factor)
        }))
    }
}

/// As it is read.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(rate) => write!(f, "{rate}"),
            Self::Bits(rate) => {
                let unit = UNITS.iter().find(|(_, factor)| rate >= factor);
                let (unit, factor) = unit.unwrap_or(&("bit", 1.0));
                write!(f, "{}{unit}", rate / factor)
            }
        }
    }
}

impl Rate {
    /// The time from a message of `len` bytes to the next.
    pub(crate) fn gap(self, len: usize) -> Duration {
        let secs = match self {
            Self::Messages(rate) => 1.0 / rate,
            Self::Bits(rate) => len as f64 * 8.0 / rate,
        };
        Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_and_without_units() {
        assert_eq!("500".parse(), Ok(Rate::Messages(500.0)));
        assert_eq!("10Mbit".parse(), Ok(Rate::Bits(1e7)));
        assert_eq!("64kbit".parse(), Ok(Rate::Bits(64e3)));
        for text in ["", "0", "-1", "fast", "NaN", "infMbit"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_written_as_they_are_read() {
        for text in ["500", "0.5bit", "64kbit", "1.5Mbit", "10Gbit"] {
            let rate: Rate = text.parse().expect("a rate");
            assert_eq!(rate.to_string(), text);
        }
    }
}
