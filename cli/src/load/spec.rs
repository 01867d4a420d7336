//! Leeches as they are written: `KIND[:INTENSITY][@PROCESSOR]`, and miss ratios in percent.

use std::str::FromStr;

use tautline::loadgen::{Intensity, MissRatios, Resource};

/// One leech.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LeechSpec {
    pub(crate) resource: Resource,
    pub(crate) intensity: Intensity,
    pub(crate) processor: Option<u32>,
}

impl FromStr for LeechSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, processor) = match text.split_once('@') {
            None => (text, None),
            Some((rest, number)) => match number.parse() {
                Ok(number) => (rest, Some(number)),
                Err(_) => return Err(format!("\"{number}\" is no number of a processor")),
            },
        };
        let (name, share) = rest.split_once(':').unwrap_or((rest, "1"));
        let resource = name
            .parse::<Resource>()
            .map_err(|error| error.to_string())?;
        match share.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self {
                resource,
                intensity: Intensity::new(share),
                processor,
            }),
            _ => Err(format!("\"{share}\" is no share of a processor, 0 to 1")),
        }
    }
}

/// `L1D%,LLC%`.
pub(super) fn misses(text: &str) -> Result<MissRatios, String> {
    let share = |text: &str| {
        let number = text.trim().trim_end_matches('%').parse::<f64>().ok();
        number
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(|percent| percent / 100.0)
    };
    let (l1d, llc) = text.split_once(',').unwrap_or((text, "0"));
    match (share(l1d), share(llc)) {
        (Some(l1d), Some(llc)) => Ok(MissRatios::new(l1d, llc)),
        _ => Err("two percentages, 0 to 100, as in 3.3,22: of accesses that miss L1D, and of those that miss the last cache too".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leeches_are_read_with_their_share_and_processor() {
        let spec = |resource, share, processor| {
            Ok(LeechSpec {
                resource,
                intensity: Intensity::new(share),
                processor,
            })
        };
        assert_eq!("cpu".parse(), spec(Resource::Cpu, 1.0, None));
        assert_eq!(
            "page-faults:0.2".parse(),
            spec(Resource::PageFaults, 0.2, None)
        );
        assert_eq!("cpu:0.5@1".parse(), spec(Resource::Cpu, 0.5, Some(1)));
        assert_eq!("fpu@0".parse(), spec(Resource::Fpu, 1.0, Some(0)));
        for (bad, word) in [
            ("gpu", "there are cpu, load, fpu"),
            ("", "there are cpu"),
            ("cpu:2", "0 to 1"),
            ("cpu:-0.1", "0 to 1"),
            ("cpu:NaN", "0 to 1"),
            ("cpu:", "0 to 1"),
            ("cpu@", "no number"),
            ("cpu:0.5@x", "no number"),
            ("cpu:0.5@-1", "no number"),
        ] {
            let error = bad.parse::<LeechSpec>().unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn misses_are_percentages() {
        assert_eq!(misses("3.3,22"), Ok(MissRatios::new(0.033, 0.22)));
        assert_eq!(misses("10%, 5%"), Ok(MissRatios::new(0.1, 0.05)));
        assert_eq!(misses("25"), Ok(MissRatios::new(0.25, 0.0)));
        for bad in ["", "x", "101", "1,-1", "1,2,3", "NaN,1"] {
            assert!(misses(bad).is_err(), "{bad}");
        }
    }
}
