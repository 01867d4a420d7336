use std::fmt;

/// How much of its resource a leech takes: a share, 0 (nothing) to 1 (all that one processor can take).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Intensity(f64);

impl Intensity {
    /// Nothing is taken.
    pub const NONE: Self = Self(0.0);
    /// As much is taken as one processor can.
    pub const FULL: Self = Self(1.0);

    /// `share`, or the nearest that there is; what is not a number is none.
    pub fn new(share: f64) -> Self {
        Self(if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        })
    }

    /// The share, 0 to 1.
    pub fn share(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Intensity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::Intensity;

    #[test]
    fn what_is_no_share_becomes_the_nearest() {
        for (given, share) in [
            (-1.0, 0.0),
            (0.25, 0.25),
            (7.0, 1.0),
            (f64::INFINITY, 1.0),
            (f64::NEG_INFINITY, 0.0),
            (f64::NAN, 0.0),
        ] {
            assert_eq!(Intensity::new(given), Intensity(share), "{given}");
        }
    }
}
