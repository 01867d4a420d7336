//! When messages are to be sent.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use fastrand::Rng;

use super::corpora::Corpora;
use super::error::{Refused, shorten, within};
use crate::corpus::Corpus;
use crate::units::saturating_nanos;

/// The least and the highest rate, messages a second; of bursts the rate within one, too.
pub const RATES: (f64, f64) = (0.001, 1e6);
/// The most messages that a stream of a closed loop may have outstanding.
pub const MAX_OUTSTANDING: u32 = 65_536;

const NANOS: f64 = 1e9;
/// As recorded times may be stretched and pressed together.
const SPEEDS: (f64, f64) = (0.001, 1000.0);
const FORMS: &str =
    "closed:COUNT, constant:RATE, poisson:RATE, bursty:RATE,LENGTH,SHARE or recorded:FILE[,SPEED]";

/// An arrival process: when the messages of a kind of streams are to be sent, whatever becomes of those before
/// (open loop), or when those before are answered (closed loop). As text, and in files:
///
/// | text | messages |
/// |---|---|
/// | `closed:64` | as many outstanding on each stream |
/// | `constant:5000` | so many a second, evenly |
/// | `poisson:5000` | so many a second in the mean, each whenever it likes: gaps are exponential |
/// | `bursty:5000,20ms,0.1` | so many a second in the mean, all in bursts of 20 ms in the mean that take a tenth of the time; within them as Poisson |
/// | `recorded:FILE.pcap,2` | at the times of a capture, here twice as fast, and again when it ends |
///
/// Rates are those of all streams of a kind together; messages go to its streams in turn.
///
/// `bursty` is an interrupted Poisson process (Kuczura, *The interrupted Poisson process as an overflow process*, Bell System Technical Journal 52, 1973): lengths of bursts
/// and of pauses are exponential. With `p` the rate within bursts, `a` and `b` the rates at which bursts and pauses end, counts over a time `t` vary
/// `1 + 2 p a / (a + b)^2 * (1 - (1 - exp(-(a + b) t)) / ((a + b) t))` times as much as those of a Poisson process.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    process: Process,
}

#[derive(Clone, Debug, PartialEq)]
enum Process {
    Closed { outstanding: u32 },
    Constant { rate: f64 },
    Poisson { rate: f64 },
    Bursty(Bursts),
    Recorded(Recorded),
}

/// All times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bursts {
    rate: f64,
    burst: f64,
    share: f64,
}

impl Bursts {
    fn pause(self) -> f64 {
        self.burst * (1.0 - self.share) / self.share
    }

    /// The mean gap within a burst.
    fn gap(self) -> f64 {
        NANOS * self.share / self.rate
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Recorded {
    name: String,
    /// From the first on, sorted.
    times: Arc<[u64]>,
    speed: f64,
}

impl Recorded {
    fn span(&self) -> f64 {
        self.times.last().copied().unwrap_or(0) as f64
    }

    /// From the first message to the first again: a mean gap behind the last.
    fn period(&self) -> f64 {
        let gaps = self.times.len().saturating_sub(1).max(1) as f64;
        self.span() * (1.0 + 1.0 / gaps)
    }

    fn rate(&self) -> f64 {
        self.times.len() as f64 * NANOS * self.speed / self.period()
    }
}

impl Arrivals {
    /// So many messages outstanding on each stream: the next is sent when one is answered. Whoever waits for answers sends nothing while there are none, so that the times of a
    /// closed loop say little of a stall.
    ///
    /// # Errors
    ///
    /// It is not 1 to [`MAX_OUTSTANDING`].
    pub fn closed(outstanding: u32) -> Result<Self, Refused> {
        within(
            "outstanding",
            f64::from(outstanding),
            1.0,
            f64::from(MAX_OUTSTANDING),
        )?;
        Ok(Process::Closed { outstanding }.into())
    }

    /// So many messages a second, evenly.
    ///
    /// # Errors
    ///
    /// The rate is not within [`RATES`].
    pub fn constant(rate: f64) -> Result<Self, Refused> {
        let rate = within("a rate of", rate, RATES.0, RATES.1)?;
        Ok(Process::Constant { rate }.into())
    }

    /// So many messages a second in the mean, each whenever it likes.
    ///
    /// # Errors
    ///
    /// The rate is not within [`RATES`].
    pub fn poisson(rate: f64) -> Result<Self, Refused> {
        let rate = within("a rate of", rate, RATES.0, RATES.1)?;
        Ok(Process::Poisson { rate }.into())
    }

    /// So many messages a second in the mean, all in bursts of this mean length, which take this share of the time.
    ///
    /// # Errors
    ///
    /// The rate, or that within bursts, is not within [`RATES`]; a burst is not 10 µs to an hour or would have less than one message in the mean; the share is not 0.001 to 1.
    pub fn bursty(rate: f64, burst: Duration, share: f64) -> Result<Self, Refused> {
        within("a rate of", rate, RATES.0, RATES.1)?;
        within("a burst's seconds", burst.as_secs_f64(), 1e-5, 3600.0)?;
        within("a share of time", share, 0.001, 1.0)?;
        within("a rate within bursts of", rate / share, RATES.0, RATES.1)?;
        let messages = rate / share * burst.as_secs_f64();
        within("messages in a burst", messages, 1.0, f64::MAX)?;
        let burst = saturating_nanos(burst) as f64;
        Ok(Process::Bursty(Bursts { rate, burst, share }).into())
    }

    /// At the times of a capture, so many times as fast, and again from the start when it ends. Messages without a time are left out.
    ///
    /// # Errors
    ///
    /// Fewer than two different times (only captures have times), a speed that is not 0.001 to 1000, or a mean rate that is not within [`RATES`].
    pub fn recorded(corpus: &Corpus, speed: f64) -> Result<Self, Refused> {
        within("a speed of", speed, SPEEDS.0, SPEEDS.1)?;
        let messages = corpus.iter().count();
        let times = corpus.iter().filter_map(|(at, _)| at);
        let mut times: Vec<u64> = times.map(crate::units::Time::as_nanos).collect();
        times.sort_unstable();
        let first = times.first().copied().unwrap_or(0);
        for time in &mut times {
            *time -= first;
        }
        if times.last().is_none_or(|last| *last == 0) {
            return Err(Refused::new(format!(
                "{} has no two different times of messages, of which it has {messages}; captures have times (pcap, pcapng)",
                shorten(corpus.name())
            )));
        }
        let recorded = Recorded {
            name: shorten(corpus.name()),
            times: times.into(),
            speed,
        };
        within("a mean rate of", recorded.rate(), RATES.0, RATES.1)?;
        Ok(Process::Recorded(recorded).into())
    }

    /// As it is written ([`Self`]); files are asked of `corpora`.
    ///
    /// # Errors
    ///
    /// It is none, or cannot be.
    pub fn parse(text: &str, corpora: &mut Corpora<'_>) -> Result<Self, Refused> {
        let unknown = || {
            let given = shorten(text);
            Refused::new(format!(
                "\"{given}\" says of no arrivals: there are {FORMS}"
            ))
        };
        let (name, rest) = text.split_once(':').ok_or_else(unknown)?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| unknown());
        match name {
            "closed" => Self::closed(rest.parse().map_err(|_| unknown())?),
            "constant" => Self::constant(number(rest)?),
            "poisson" => Self::poisson(number(rest)?),
            "bursty" => {
                let mut parts = rest.split(',');
                let (Some(rate), Some(length), Some(share), None) =
                    (parts.next(), parts.next(), parts.next(), parts.next())
                else {
                    return Err(unknown());
                };
                let length = time(length).ok_or_else(unknown)?;
                Self::bursty(number(rate)?, length, number(share)?)
            }
            "recorded" => {
                let speed = rest.rsplit_once(',');
                let speed =
                    speed.and_then(|(file, speed)| Some((file, speed.parse::<f64>().ok()?)));
                let (file, speed) = speed.unwrap_or((rest, 1.0));
                Self::recorded(&*corpora.get(file)?, speed)
            }
            _ => Err(unknown()),
        }
    }

    /// Whether messages do not wait for the answers to others.
    pub const fn is_open(&self) -> bool {
        !matches!(self.process, Process::Closed { .. })
    }

    /// Messages a second in the mean, all streams together; `None` of a closed loop.
    pub fn rate(&self) -> Option<f64> {
        match &self.process {
            Process::Closed { .. } => None,
            Process::Constant { rate } | Process::Poisson { rate } => Some(*rate),
            Process::Bursty(bursts) => Some(bursts.rate),
            Process::Recorded(recorded) => Some(recorded.rate()),
        }
    }

    /// How many messages each stream has outstanding in a closed loop; `None` of an open one.
    pub const fn outstanding(&self) -> Option<u32> {
        match self.process {
            Process::Closed { outstanding } => Some(outstanding),
            _ => None,
        }
    }

    /// The times at which messages are to be sent, in nanoseconds from the start, never decreasing and without end; none of a closed loop. Seed and process determine them
    /// (logarithms may differ in their last bit from platform to platform).
    pub fn times(&self, seed: u64) -> Times {
        let mut rng = Rng::with_seed(seed);
        let state = match &self.process {
            Process::Closed { .. } => State::None,
            Process::Constant { rate } => State::Constant {
                rate: *rate,
                index: 0,
            },
            Process::Poisson { rate } => State::Poisson {
                gap: NANOS / rate,
                at: 0.0,
            },
            Process::Bursty(bursts) => {
                // In a burst with the probability that there is in the long run.
                let starts_on = rng.f64() < bursts.share;
                let at = if starts_on {
                    0.0
                } else {
                    exponential(&mut rng, bursts.pause())
                };
                State::Bursty {
                    bursts: *bursts,
                    at,
                    until: at + exponential(&mut rng, bursts.burst),
                }
            }
            Process::Recorded(recorded) => State::Recorded {
                recorded: recorded.clone(),
                cycle: 0,
                index: 0,
            },
        };
        Times { state, rng }
    }
}

impl From<Process> for Arrivals {
    fn from(process: Process) -> Self {
        Self { process }
    }
}

/// As it is read, but for the path of a file.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Process::Closed { outstanding } => write!(f, "closed:{outstanding}"),
            Process::Constant { rate } => write!(f, "constant:{rate}"),
            Process::Poisson { rate } => write!(f, "poisson:{rate}"),
            Process::Bursty(Bursts { rate, burst, share }) => {
                write!(f, "bursty:{rate},{}ms,{share}", burst / 1e6)
            }
            Process::Recorded(recorded) => {
                write!(f, "recorded:{},{}", recorded.name, recorded.speed)
            }
        }
    }
}

/// `20ms`, `1.5s`, `50us`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("s", 1.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.trim().strip_suffix(unit)?, *seconds)))?;
    let seconds = number.trim().parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok()
}

/// An exponential draw.
pub(super) fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    // Of (0, 1].
    -(1.0 - rng.f64()).ln() * mean
}

/// Intended times of messages; see [`Arrivals::times`].
#[derive(Clone, Debug)]
pub struct Times {
    state: State,
    rng: Rng,
}

#[derive(Clone, Debug)]
enum State {
    None,
    Constant {
        rate: f64,
        index: u64,
    },
    Poisson {
        gap: f64,
        at: f64,
    },
    Bursty {
        bursts: Bursts,
        at: f64,
        /// When the burst ends.
        until: f64,
    },
    Recorded {
        recorded: Recorded,
        cycle: u64,
        index: usize,
    },
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let rng = &mut self.rng;
        let at = match &mut self.state {
            State::None => return None,
            State::Constant { rate, index } => {
                // Not a sum of gaps: what they are rounded by would add up.
                let at = *index as f64 * NANOS / *rate;
                *index += 1;
                at
            }
            State::Poisson { gap, at } => {
                *at += exponential(rng, *gap);
                *at
            }
            State::Bursty { bursts, at, until } => loop {
                let next = *at + exponential(rng, bursts.gap());
                if next <= *until {
                    *at = next;
                    break next;
                }
                // What is left of the gap when the burst ends does not matter: an exponential draw has no memory.
                *at = *until + exponential(rng, bursts.pause());
                *until = *at + exponential(rng, bursts.burst);
            },
            State::Recorded {
                recorded,
                cycle,
                index,
            } => {
                let time = recorded.times.get(*index).copied().unwrap_or(0) as f64;
                let at = (*cycle as f64 * recorded.period() + time) / recorded.speed;
                *index += 1;
                if *index >= recorded.times.len() {
                    (*cycle, *index) = (*cycle + 1, 0);
                }
                at
            }
        };
        Some(at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: f64 = 1e9;

    fn times(arrivals: &Arrivals, seed: u64, count: usize) -> Vec<f64> {
        let times: Vec<u64> = arrivals.times(seed).take(count).collect();
        assert!(times.is_sorted());
        times.into_iter().map(|time| time as f64).collect()
    }

    /// Mean gap, and the standard deviation of gaps as a share of it.
    fn gaps(times: &[f64]) -> (f64, f64) {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        (mean, (square / gaps.len() as f64).sqrt() / mean)
    }

    /// Variance over mean of the counts in windows of this length.
    fn dispersion(times: &[f64], window: f64) -> f64 {
        let windows = (times[times.len() - 1] / window) as usize;
        let mut counts = vec![0.0; windows];
        for time in times {
            if let Some(count) = counts.get_mut((time / window) as usize) {
                *count += 1.0;
            }
        }
        let mean = counts.iter().sum::<f64>() / windows as f64;
        let square = counts.iter().map(|count| (count - mean).powi(2));
        square.sum::<f64>() / windows as f64 / mean
    }

    #[track_caller]
    fn assert_near(value: f64, wanted: f64, share: f64) {
        assert!(
            (value / wanted - 1.0).abs() < share,
            "{value}, wanted {wanted}"
        );
    }

    #[test]
    fn constant_arrivals_are_even_and_do_not_drift() {
        let arrivals = Arrivals::constant(3000.0).unwrap();
        let times = times(&arrivals, 1, 3_000_001);
        assert!((times[3_000_000] - 1000.0 * SECOND).abs() <= 1.0);
        let (mean, variation) = gaps(&times);
        assert_near(mean, SECOND / 3000.0, 1e-6);
        assert!(variation < 1e-5, "{variation}");
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_the_variation_of_such() {
        let arrivals = Arrivals::poisson(5000.0).unwrap();
        for seed in 0..10 {
            let times = times(&arrivals, seed, 200_000);
            let (mean, variation) = gaps(&times);
            // A standard error is 0.22 % of either.
            assert_near(mean, SECOND / 5000.0, 0.012);
            assert_near(variation, 1.0, 0.015);
            // Counts of 4 000 windows of 10 ms: 2.2 %.
            assert_near(dispersion(&times, 0.01 * SECOND), 1.0, 0.12);
        }
    }

    #[test]
    fn bursts_vary_as_an_interrupted_poisson_process_does() {
        let (rate, burst, share) = (5000.0, 0.02, 0.1);
        let arrivals = Arrivals::bursty(rate, Duration::from_secs_f64(burst), share).unwrap();
        let (peak, ends) = (rate / share, 1.0 / burst);
        let begins = share / (burst * (1.0 - share));
        let both = ends + begins;
        let expected = |window: f64| {
            let settled = 1.0 - (1.0 - (-both * window).exp()) / (both * window);
            1.0 + 2.0 * peak * ends / (both * both) * settled
        };
        for seed in 0..3 {
            // 1000 s in the mean, 5 000 bursts.
            let times = times(&arrivals, seed, 5_000_000);
            // By a standard error of (2 * (1 - share)^2 / bursts)^0.5, about 2 %.
            assert_near(
                times.len() as f64 / times[times.len() - 1],
                rate / SECOND,
                0.1,
            );
            for window in [0.002, 0.02, 0.2] {
                let found = dispersion(&times, window * SECOND);
                assert!(found > 10.0);
                assert_near(found, expected(window), 0.15);
            }
            // Within bursts, it is the higher rate: the median gap is that of a Poisson process ten times as fast.
            let mut gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            gaps.sort_by(f64::total_cmp);
            let median = gaps[gaps.len() / 2];
            assert_near(median, core::f64::consts::LN_2 * SECOND / peak, 0.02);
        }
    }

    #[test]
    fn bursts_that_last_all_the_time_are_poisson() {
        let arrivals = Arrivals::bursty(1000.0, Duration::from_millis(20), 1.0).unwrap();
        let times = times(&arrivals, 3, 200_000);
        assert_near(gaps(&times).0, SECOND / 1000.0, 0.012);
        assert_near(gaps(&times).1, 1.0, 0.015);
    }

    #[test]
    fn recorded_times_are_kept_pressed_and_repeated() {
        let corpus = Corpus::of_times("a.pcap", &[5_000, 1_000, 2_000]);
        let arrivals = Arrivals::recorded(&corpus, 2.0).unwrap();
        // 0, 1000 and 4000 ns after the first, again after 6000, twice as fast.
        let found: Vec<u64> = arrivals.times(1).take(7).collect();
        assert_eq!(found, [0, 500, 2000, 3000, 3500, 5000, 6000]);
        assert_near(arrivals.rate().unwrap(), 1e6, 1e-9);
        let still = Corpus::of_times("b.pcap", &[7, 7]);
        let error = Arrivals::recorded(&still, 1.0).unwrap_err();
        assert!(error.to_string().contains("two different times"), "{error}");
        let fast = Corpus::of_times("c.pcap", &[7, 8, 9]);
        assert!(Arrivals::recorded(&fast, 1.0).is_err());
    }

    #[test]
    fn a_seed_determines_the_times_and_another_others() {
        for text in ["poisson:100", "bursty:100,100ms,0.5"] {
            let arrivals = Arrivals::parse(text, &mut Corpora::none()).unwrap();
            assert_eq!(times(&arrivals, 1, 1000), times(&arrivals, 1, 1000));
            assert_ne!(times(&arrivals, 1, 1000), times(&arrivals, 2, 1000));
        }
        let closed = Arrivals::closed(3).unwrap();
        assert_eq!(closed.times(1).next(), None);
        assert!(!closed.is_open() && closed.outstanding() == Some(3));
    }

    #[test]
    fn what_is_written_reads_back_and_what_cannot_be_is_refused() {
        for text in [
            "closed:64",
            "constant:5000",
            "poisson:0.5",
            "bursty:5000,20ms,0.1",
        ] {
            let arrivals = Arrivals::parse(text, &mut Corpora::none()).unwrap();
            assert_eq!(arrivals.to_string(), text);
        }
        for (text, word) in [
            ("", "there are closed"),
            ("poisson", "there are closed"),
            ("often:5", "there are closed"),
            ("poisson:x", "there are closed"),
            ("poisson:0", "0.001 to 1000000"),
            ("poisson:-1", "0.001 to 1000000"),
            ("poisson:inf", "0.001 to 1000000"),
            ("constant:NaN", "0.001 to 1000000"),
            ("constant:1e300", "0.001 to 1000000"),
            ("closed:0", "1 to 65536"),
            ("closed:99999999999", "there are closed"),
            ("bursty:5000", "there are closed"),
            ("bursty:5000,20,0.1", "there are closed"),
            ("bursty:5000,20ms,0", "0.001 to 1"),
            ("bursty:5000,20ms,0.1,7", "there are closed"),
            ("bursty:500000,20ms,0.1", "within bursts"),
            ("bursty:1,20ms,0.9", "messages in a burst"),
            ("bursty:1,1e300s,0.9", "there are closed"),
            ("bursty:1,1e6s,0.9", "seconds"),
            ("recorded:none.pcap", "none.pcap"),
        ] {
            let error = Arrivals::parse(text, &mut Corpora::none()).unwrap_err();
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }
}
