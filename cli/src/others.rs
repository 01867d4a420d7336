//! What else is at work meanwhile.

use std::path::Path;

use tautline::transport::load::{LoadReader, LoadSource};
use tautline::units::Time;

use crate::bench::clock::{monotonic_nanos, processor_nanos};

/// What others than this process, its children among them, have taken of the processors that it may use.
pub(crate) struct Others(Option<Begun>);

struct Begun {
    reader: LoadReader,
    at: u64,
    own: u64,
}

impl Others {
    pub(crate) fn begin() -> Self {
        let reader = LoadReader::open(LoadSource::Node, Path::new("/")).ok();
        Self(reader.and_then(|mut reader| {
            let at = monotonic_nanos();
            reader.read(Time::from_nanos(at)).ok()?;
            let own = processor_nanos();
            Some(Begun { reader, at, own })
        }))
    }

    /// Seconds of processor time since then. `None` where the system does not say.
    pub(crate) fn end(self) -> Option<f64> {
        self.taken().map(|(taken, _)| taken)
    }

    /// .. as a share of what there was.
    pub(crate) fn share(self) -> Option<f64> {
        self.taken().map(|(taken, there_was)| taken / there_was)
    }

    fn taken(self) -> Option<(f64, f64)> {
        let Begun {
            mut reader,
            at: began,
            own,
        } = self.0?;
        let at = monotonic_nanos();
        let load = reader.read(Time::from_nanos(at)).ok()??;
        let seconds = at.saturating_sub(began) as f64 / 1e9;
        let there_was = reader.processors().get() * seconds;
        let own = processor_nanos().saturating_sub(own) as f64 / 1e9;
        Some((load.get() * there_was - own, there_was))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::busy::BusyProcessors;

    #[test]
    fn what_this_process_takes_is_not_the_others() {
        let most = Duration::from_secs(20);
        let busy = BusyProcessors::all(most);
        let (others, own) = (Others::begin(), processor_nanos());
        std::thread::sleep(Duration::from_millis(500));
        let Some((taken, there_was)) = others.taken() else {
            return;
        };
        let own = (processor_nanos() - own) as f64 / 1e9;
        drop(busy);
        // The kernel counts the others' in ticks.
        let all = (taken + own) / there_was;
        assert!(all < 1.2, "{own} s counted twice");
        assert!(taken > -0.2 * there_was, "{taken} s");
    }
}
