//! How long made-up messages are.

use core::fmt;
use std::sync::Arc;

use fastrand::Rng;

use super::MAX_MESSAGE;
use super::arrivals::exponential;
use super::corpora::Corpora;
use super::error::{Refused, shorten, within};
use crate::corpus::Corpus;

const FORMS: &str = "BYTES, LEAST-MOST, exponential,MEAN[,LEAST-MOST], lognormal,MEDIAN,SIGMA[,LEAST-MOST] or like,FILE";

/// A distribution of message lengths, bytes. As text:
///
/// | text | lengths |
/// |---|---|
/// | `256` | all the same |
/// | `64-4096` | each of these as likely |
/// | `exponential,500` | exponential with this mean |
/// | `lognormal,300,1.2` | whose logarithm is normal, with this median and this standard deviation of the logarithm |
/// | `like,FILE` | drawn of the messages of a file |
///
/// Exponential and lognormal lengths are rounded and kept within bounds, `,LEAST-MOST` or 1 to [`MAX_MESSAGE`], by taking the bound: bounds that bite move the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    law: Law,
    least: usize,
    most: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Law {
    Uniform,
    Exponential { mean: f64 },
    Lognormal { median: f64, sigma: f64 },
    Like { name: String, lens: Arc<[u32]> },
}

impl Sizes {
    /// All of this length.
    ///
    /// # Errors
    ///
    /// More than [`MAX_MESSAGE`] bytes.
    pub fn fixed(len: usize) -> Result<Self, Refused> {
        Self::uniform(len, len)
    }

    /// Each length from `least` to `most` as likely.
    ///
    /// # Errors
    ///
    /// `most` is less than `least` or more than [`MAX_MESSAGE`].
    pub fn uniform(least: usize, most: usize) -> Result<Self, Refused> {
        Self {
            law: Law::Uniform,
            least: 0,
            most: MAX_MESSAGE,
        }
        .within(least, most)
    }

    /// Exponential, within 1 to [`MAX_MESSAGE`].
    ///
    /// # Errors
    ///
    /// The mean is not within these.
    pub fn exponential(mean: f64) -> Result<Self, Refused> {
        let mean = within("a mean length of", mean, 1.0, MAX_MESSAGE as f64)?;
        Ok(Self {
            law: Law::Exponential { mean },
            least: 1,
            most: MAX_MESSAGE,
        })
    }

    /// Lognormal, within 1 to [`MAX_MESSAGE`]; `sigma` is the standard deviation of the natural logarithm.
    ///
    /// # Errors
    ///
    /// The median is not within these, or sigma not 0 to 10.
    pub fn lognormal(median: f64, sigma: f64) -> Result<Self, Refused> {
        let median = within("a median length of", median, 1.0, MAX_MESSAGE as f64)?;
        let sigma = within("a sigma of", sigma, 0.0, 10.0)?;
        Ok(Self {
            law: Law::Lognormal { median, sigma },
            least: 1,
            most: MAX_MESSAGE,
        })
    }

    /// Drawn of the lengths of a corpus's messages.
    ///
    /// # Errors
    ///
    /// It has no messages, or one that is longer than [`MAX_MESSAGE`].
    pub fn like(corpus: &Corpus) -> Result<Self, Refused> {
        let lens: Vec<u32> = corpus
            .messages()
            .iter()
            .map(|message| u32::try_from(message.len()).unwrap_or(u32::MAX))
            .collect();
        let name = shorten(corpus.name());
        let bounds = lens.iter().min().zip(lens.iter().max());
        let Some((least, most)) = bounds.map(|(least, most)| (*least as usize, *most as usize))
        else {
            return Err(Refused::new(format!("{name} has no messages")));
        };
        let law = Law::Like {
            name,
            lens: lens.into(),
        };
        Self {
            law,
            least: 0,
            most: MAX_MESSAGE,
        }
        .within(least, most)
    }

    /// The same within other bounds.
    ///
    /// # Errors
    ///
    /// `most` is less than `least` or more than [`MAX_MESSAGE`].
    pub fn within(mut self, least: usize, most: usize) -> Result<Self, Refused> {
        if least > most || most > MAX_MESSAGE {
            return Err(Refused::new(format!(
                "lengths from {least} to {most}, which must go up, to {MAX_MESSAGE} at most"
            )));
        }
        (self.least, self.most) = (least, most);
        Ok(self)
    }

    /// As it is written ([`Self`]).
    ///
    /// # Errors
    ///
    /// It is none, or cannot be.
    pub fn parse(text: &str, corpora: &mut Corpora<'_>) -> Result<Self, Refused> {
        let unknown = || {
            Refused::new(format!(
                "\"{}\" says of no lengths: there are {FORMS}",
                shorten(text)
            ))
        };
        if let Some(file) = text.strip_prefix("like,") {
            return Self::like(&*corpora.get(file)?);
        }
        let bounds = |text: &str| {
            let (least, most) = text.split_once('-')?;
            Some((least.trim().parse().ok()?, most.trim().parse().ok()?))
        };
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| unknown());
        let parts: Vec<&str> = text.splitn(5, ',').collect();
        let (sizes, more) = match parts.as_slice() {
            ["exponential", mean, more @ ..] => (Self::exponential(number(mean)?)?, more),
            ["lognormal", median, sigma, more @ ..] => {
                (Self::lognormal(number(median)?, number(sigma)?)?, more)
            }
            [one] => {
                return match (one.trim().parse(), bounds(one)) {
                    (Ok(len), _) => Self::fixed(len),
                    (_, Some((least, most))) => Self::uniform(least, most),
                    _ => Err(unknown()),
                };
            }
            _ => return Err(unknown()),
        };
        match more {
            [] => Ok(sizes),
            [text] => {
                let (least, most) = bounds(text).ok_or_else(unknown)?;
                sizes.within(least, most)
            }
            _ => Err(unknown()),
        }
    }

    /// The longest that there may be.
    pub const fn longest(&self) -> usize {
        self.most
    }

    /// A length.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let len = match &self.law {
            Law::Uniform => return rng.usize(self.least..=self.most),
            Law::Like { lens, .. } => {
                let index = rng.usize(..lens.len().max(1));
                return lens.get(index).copied().unwrap_or(0) as usize;
            }
            Law::Exponential { mean } => exponential(rng, *mean),
            Law::Lognormal { median, sigma } => median * (sigma * normal(rng)).exp(),
        };
        (len.round() as usize).clamp(self.least, self.most)
    }
}

/// A standard normal draw (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (2.0 * exponential(rng, 1.0)).sqrt();
    radius * (core::f64::consts::TAU * rng.f64()).cos()
}

/// As it is read, but for the path of a file.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.law {
            Law::Uniform if self.least == self.most => return write!(f, "{}", self.least),
            Law::Uniform => return write!(f, "{}-{}", self.least, self.most),
            Law::Like { name, .. } => return write!(f, "like,{name}"),
            Law::Exponential { mean } => write!(f, "exponential,{mean}")?,
            Law::Lognormal { median, sigma } => write!(f, "lognormal,{median},{sigma}")?,
        }
        if (self.least, self.most) == (1, MAX_MESSAGE) {
            Ok(())
        } else {
            write!(f, ",{}-{}", self.least, self.most)
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn draws(sizes: &Sizes, seed: u64) -> Vec<f64> {
        let mut rng = Rng::with_seed(seed);
        let mut lens: Vec<f64> = (0..100_000).map(|_| sizes.draw(&mut rng) as f64).collect();
        lens.sort_by(f64::total_cmp);
        lens
    }

    fn mean(lens: &[f64]) -> f64 {
        lens.iter().sum::<f64>() / lens.len() as f64
    }

    #[track_caller]
    fn assert_near(value: f64, wanted: f64, share: f64) {
        assert!(
            (value / wanted - 1.0).abs() < share,
            "{value}, wanted {wanted}"
        );
    }

    #[test]
    fn lengths_are_distributed_as_asked() {
        for seed in 0..5 {
            let lens = draws(&Sizes::uniform(100, 300).unwrap(), seed);
            assert_eq!((lens[0], lens[99_999]), (100.0, 300.0));
            assert_near(mean(&lens), 200.0, 0.005);
            let lens = draws(&Sizes::exponential(5000.0).unwrap(), seed);
            // A standard error is 0.3 %.
            assert_near(mean(&lens), 5000.0, 0.017);
            assert_near(lens[50_000], 5000.0 * core::f64::consts::LN_2, 0.02);
            let lens = draws(&Sizes::lognormal(300.0, 1.0).unwrap(), seed);
            assert_near(lens[50_000], 300.0, 0.03);
            // One standard deviation of the logarithm above.
            assert_near(lens[84_134], 300.0 * core::f64::consts::E, 0.03);
            assert_near(mean(&lens), 300.0 * 0.5_f64.exp(), 0.03);
        }
        let messages = vec![Bytes::from(vec![0; 10]), Bytes::from(vec![0; 30])];
        let like = Sizes::like(&Corpus::new("two", messages)).unwrap();
        assert_near(mean(&draws(&like, 1)), 20.0, 0.01);
    }

    #[test]
    fn bounds_hold() {
        let sizes = Sizes::parse("lognormal,300,10,64-1000", &mut Corpora::none()).unwrap();
        let lens = draws(&sizes, 1);
        assert_eq!((lens[0], lens[99_999]), (64.0, 1000.0));
        let widest = Sizes::lognormal(16e6, 10.0).unwrap();
        let lens = draws(&widest, 1);
        assert_eq!((lens[0], lens[99_999]), (1.0, MAX_MESSAGE as f64));
    }

    #[test]
    fn what_is_written_reads_back_and_what_cannot_be_is_refused() {
        for text in [
            "256",
            "0",
            "64-4096",
            "exponential,500",
            "exponential,500,1-1000",
            "lognormal,300,1.2",
        ] {
            let sizes = Sizes::parse(text, &mut Corpora::none()).unwrap();
            assert_eq!(sizes.to_string(), text);
        }
        for (text, word) in [
            ("", "there are BYTES"),
            ("x", "there are BYTES"),
            ("-1", "there are BYTES"),
            ("exponential", "there are BYTES"),
            ("exponential,x", "there are BYTES"),
            ("exponential,0", "1 to 16777216"),
            ("exponential,5,1-2,3", "there are BYTES"),
            ("lognormal,5", "there are BYTES"),
            ("lognormal,5,NaN", "0 to 10"),
            ("lognormal,5,1,9-7", "must go up"),
            ("99999999999", "16777216 at most"),
            ("1-99999999999", "16777216 at most"),
            ("like,none.msgs", "none.msgs"),
        ] {
            let error = Sizes::parse(text, &mut Corpora::none()).unwrap_err();
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }
}
