//! The event log of this process.

use std::path::PathBuf;

use clap::Args;
use tautline::eventlog::{EventLog, EventLogConfig, EventLogError, Route};
use tautline::loadgen::events as load;
use tautline::transport::events;

use crate::failure::Failure;

/// Whether this process has an event log, and where.
#[derive(Debug, Args)]
pub(crate) struct EventLogArguments {
    /// Have an event log that `tautline top` and `tautline events` find by this process's number; or, as in --event-log=FILE, one in a file,
    /// in place of what it held, of all events from the beginning, for `tautline events` then and later (docs/eventlog.md).
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true
    )]
    #[expect(
        clippy::option_option,
        reason = "not given, given without a file, and with one"
    )]
    event_log: Option<Option<PathBuf>>,
}

impl EventLogArguments {
    /// The log, if there is to be one.
    pub(crate) fn open(&self) -> Result<Option<EventLog>, Failure> {
        match &self.event_log {
            None => Ok(None),
            Some(None) => Ok(Some(shared()?)),
            Some(Some(path)) => {
                let created = EventLog::create(path, &area());
                let log =
                    created.map_err(|error| Failure::of(&path.display().to_string(), &error))?;
                let of_load = load::Events::of(&mut log.reader())?;
                let of_load = of_load.into_iter().flat_map(load::Events::all);
                for event in events::all().chain(of_load) {
                    log.route(event, None, Some(Route::to(events::LOG)))?;
                }
                Ok(Some(log))
            }
        }
    }
}

/// The transport's events, and those of leeches and drives.
fn area() -> EventLogConfig {
    load::config(events::config(events::DEFAULT_RING))
}

/// An event log that other processes of this user find by this one's number.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn shared() -> Result<EventLog, EventLogError> {
    EventLog::shared(&area())
}

/// An event log; on this system no other process finds it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn shared() -> Result<EventLog, EventLogError> {
    EventLog::new(&area())
}
