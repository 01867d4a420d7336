//! A leech: one thread that takes one resource for a share of a processor's time.

mod clock;
mod code;
mod error;
mod memory;
#[cfg(feature = "transport")]
mod network;
mod run;
mod switches;
mod work;

use core::time::Duration;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

pub use self::error::LeechError;
#[cfg(feature = "transport")]
pub use self::network::NetworkConfig;
use super::idle::Idle;
use super::intensity::Intensity;
use super::pattern::MissRatios;
use super::recording::LeechEvents;
use super::resource::Resource;
use super::topology::{DataCaches, Topology};

/// The longest time of a leech: a week.
pub const MAX_LENGTH: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a leech is to do.
#[derive(Clone, Debug)]
pub struct LeechConfig {
    resource: Resource,
    processor: Option<u32>,
    length: Duration,
    intensity: Intensity,
    misses: Option<MissRatios>,
    caches: Option<DataCaches>,
    rate: Option<f64>,
    gives_way: bool,
    #[cfg(feature = "eventlog")]
    event_log: Option<crate::eventlog::EventLog>,
}

impl LeechConfig {
    /// A leech that takes all of `resource` that one processor can, for a minute.
    pub fn new(resource: Resource) -> Self {
        Self {
            resource,
            processor: None,
            length: Duration::from_secs(60),
            intensity: Intensity::FULL,
            misses: None,
            caches: None,
            rate: None,
            gives_way: false,
            #[cfg(feature = "eventlog")]
            event_log: None,
        }
    }

    /// It takes only what nobody else wants of its processor: the system's lowest priority (`nice` 19). A leech of [`Resource::Cpu`] keeps the processor from
    /// halting then, so that others wake up soon and find their caches as they were, which on virtual machines they do not otherwise. Default: the priority of who starts it.
    #[must_use]
    pub fn gives_way(mut self) -> Self {
        self.gives_way = true;
        self
    }

    /// The logical processor that it runs on, and no other. Default: wherever the system puts it.
    #[must_use]
    pub fn processor(mut self, processor: u32) -> Self {
        self.processor = Some(processor);
        self
    }

    /// How long it takes at most, [`MAX_LENGTH`] if more: it ends by itself then. Default: a minute.
    #[must_use]
    pub fn length(mut self, length: Duration) -> Self {
        self.length = length.min(MAX_LENGTH);
        self
    }

    /// The share of one processor's time that it takes, whatever the resource; of [`Resource::Load`] together with what others take there. Default: all of it.
    #[must_use]
    pub fn intensity(mut self, intensity: Intensity) -> Self {
        self.intensity = intensity;
        self
    }

    /// Of leeches of [`Resource::Data`]: misses as these say, instead of those of the level. Costs four times as much memory as the last cache holds.
    #[must_use]
    pub fn misses(mut self, misses: MissRatios) -> Self {
        self.misses = Some(misses);
        self
    }

    /// Intensities are shares of so many operations ([`Resource::operation`]) in a second instead of a processor's time: what others make of the cost of one
    /// does not change how many there are, as far as one processor can. Default: shares of a processor's time. Rates below 1 are 1.
    #[must_use]
    pub fn rate(mut self, operations_per_second: f64) -> Self {
        self.rate = Some(operations_per_second.clamp(1.0, 1e12));
        self
    }

    /// The caches that its accesses are laid out for. Default: those of its processor, by [`Topology`].
    #[must_use]
    pub fn caches(mut self, caches: DataCaches) -> Self {
        self.caches = Some(caches);
        self
    }
}

#[cfg(feature = "eventlog")]
impl LeechConfig {
    /// Where it records what it takes, once that is switched on: an area with the events of [`events::config`](super::events::config). Several leeches may have the same. Default: none.
    #[must_use]
    pub fn event_log(mut self, log: crate::eventlog::EventLog) -> Self {
        self.event_log = Some(log);
        self
    }
}

/// What a leech of `resource` records with.
#[cfg(feature = "eventlog")]
fn events_of(
    log: Option<&crate::eventlog::EventLog>,
    resource: Resource,
) -> Result<LeechEvents, LeechError> {
    log.map_or(Ok(LeechEvents::default()), |log| {
        LeechEvents::new(log, resource).ok_or(LeechError::EventLog)
    })
}

/// What a leech has taken so far.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LeechStats {
    /// Of what.
    pub resource: Resource,
    /// Processor time that it took: of its thread, and of its partner's for [`Resource::ContextSwitches`].
    pub processor: Duration,
    /// How long it has run.
    pub wall: Duration,
    /// How many of what [`Resource::operation`] says it has done.
    pub operations: u64,
    /// How long its processor was busy with it and all others there, of leeches of [`Resource::Load`].
    pub busy: Option<Duration>,
    /// How long it wanted a processor and had none, to a fifth of a second or so; `None` if the system does not say.
    pub waited: Option<Duration>,
    /// The miss ratios that it goes by, if it is one that can.
    pub misses: Option<MissRatios>,
    /// Whether it has ended.
    pub is_over: bool,
}

impl LeechStats {
    fn new(resource: Resource) -> Self {
        Self {
            resource,
            processor: Duration::ZERO,
            wall: Duration::ZERO,
            operations: 0,
            busy: None,
            waited: None,
            misses: None,
            is_over: false,
        }
    }

    /// The share of one processor that it held, 0 to 1: of leeches of [`Resource::Load`] together with all others there.
    pub fn share(&self) -> f64 {
        if self.wall.is_zero() {
            return 0.0;
        }
        self.busy.unwrap_or(self.processor).as_secs_f64() / self.wall.as_secs_f64()
    }

    /// Nanoseconds of an access in the mean, of leeches of [`Resource::Data`] that have made one: for those of memory's bandwidth of a line read and written, and else of a load that
    /// waits for the one before.
    pub fn access_nanos(&self) -> Option<f64> {
        let is_data = matches!(self.resource, Resource::Data(_)) && self.operations > 0;
        is_data.then(|| self.processor.as_secs_f64() * 1e9 / self.operations as f64)
    }

    /// What came since `earlier`, of the same leech.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            processor: self.processor.saturating_sub(earlier.processor),
            wall: self.wall.saturating_sub(earlier.wall),
            operations: self.operations.saturating_sub(earlier.operations),
            busy: difference(self.busy, earlier.busy),
            waited: difference(self.waited, earlier.waited),
            ..*self
        }
    }
}

fn difference(now: Option<Duration>, then: Option<Duration>) -> Option<Duration> {
    now.zip(then).map(|(now, then)| now.saturating_sub(then))
}

/// What is asked of a leech's thread.
#[derive(Clone, Copy, Debug)]
struct Wish {
    intensity: Intensity,
    misses: Option<MissRatios>,
    is_stopped: bool,
}

#[derive(Debug)]
struct Shared {
    wish: Mutex<Wish>,
    stats: Mutex<LeechStats>,
}

/// Values that are whole after each of their changes: a panic beside them spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A leech that is at work. It ends when it is stopped or dropped, when its time is over, and with its process, as it is a thread of it: nothing that kills the process leaves it
/// behind.
#[derive(Debug)]
pub struct Leech {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Leech {
    /// Starts a leech, and returns once it is where it is to be and has its memory.
    ///
    /// # Errors
    ///
    /// The processor is not there or not allowed, or none is given for a leech of its load, the caches are of shapes that cannot be missed as asked, the event log has other events, or the system has no thread
    /// or memory to give.
    pub fn start(config: LeechConfig) -> Result<Self, LeechError> {
        let LeechConfig {
            resource,
            processor,
            length,
            intensity,
            misses,
            caches,
            rate,
            gives_way,
            #[cfg(feature = "eventlog")]
            event_log,
        } = config;
        #[cfg(feature = "eventlog")]
        let events = events_of(event_log.as_ref(), resource)?;
        #[cfg(not(feature = "eventlog"))]
        let events = LeechEvents;
        if misses.is_some() && !matches!(resource, Resource::Data(_)) {
            return Err(LeechError::NoMisses { resource });
        }
        let together = match (resource, processor) {
            (Resource::Load, None) => return Err(LeechError::NoPin),
            (Resource::Load, Some(processor)) => Some(together(processor)?),
            _ => None,
        };
        let make = move || {
            let caches =
                caches.unwrap_or_else(|| Topology::of_system(Path::new("/"), processor).data);
            work::of(resource, misses, &caches)
        };
        let asked = Asked {
            resource,
            processor,
            length,
            intensity,
            misses,
            rate,
            gives_way,
        };
        Self::spawn(asked, together, events, make)
    }

    fn spawn(
        asked: Asked,
        together: Option<Idle>,
        events: LeechEvents,
        make: impl FnOnce() -> Made + Send + 'static,
    ) -> Result<Self, LeechError> {
        let shared = Arc::new(Shared {
            wish: Mutex::new(Wish {
                intensity: asked.intensity,
                misses: asked.misses,
                is_stopped: false,
            }),
            stats: Mutex::new(LeechStats::new(asked.resource)),
        });
        let (ready, started) = sync_channel(1);
        let theirs = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name(format!("leech-{}", asked.resource));
        let thread = builder.spawn(move || {
            // Pinned first, so that its memory is near.
            let placed = asked.processor.map_or(Ok(()), run::pin);
            if asked.gives_way {
                run::give_way();
            }
            let work = placed.and_then(|()| make());
            match work {
                Ok(work) => {
                    if ready.send(Ok(())).is_ok() {
                        run::run(work, &theirs, asked, together, events);
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        let thread = thread.map_err(|source| LeechError::Thread { source })?;
        let leech = Self {
            shared,
            thread: Some(thread),
        };
        match started.recv() {
            Ok(Ok(())) => Ok(leech),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(LeechError::Died {
                resource: asked.resource,
            }),
        }
    }

    /// Takes this share from now on.
    pub fn set_intensity(&self, intensity: Intensity) {
        lock(&self.shared.wish).intensity = intensity;
        self.wake();
    }

    /// Misses as these say from now on. Leeches that make no accesses in a pattern (all but those of L1, L2 and the last cache, and those that were started with
    /// [`LeechConfig::misses`]) go on as they do, and so do those that get no memory for it; [`LeechStats::misses`] says what holds.
    pub fn set_misses(&self, misses: MissRatios) {
        lock(&self.shared.wish).misses = Some(misses);
        self.wake();
    }

    /// What it has taken so far, no older than a batch of its work or a sleep: some 10 ms.
    pub fn stats(&self) -> LeechStats {
        let mut stats = *lock(&self.shared.stats);
        // Whatever ended it.
        stats.is_over |= self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        stats
    }

    /// Ends it and waits for that, some 0.1 ms.
    pub fn stop(mut self) -> LeechStats {
        self.end();
        self.stats()
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn end(&mut self) {
        lock(&self.shared.wish).is_stopped = true;
        self.wake();
        if let Some(thread) = self.thread.take() {
            // What it panicked with, should it ever, has been printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Leech {
    fn drop(&mut self) {
        self.end();
    }
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    resource: Resource,
    processor: Option<u32>,
    length: Duration,
    intensity: Intensity,
    misses: Option<MissRatios>,
    /// Operations in a second that an intensity is a share of, if it is not one of a processor's time.
    rate: Option<f64>,
    gives_way: bool,
}

/// What says how long a processor was idle.
fn together(processor: u32) -> Result<Idle, LeechError> {
    let allowed = || Topology::of_system(Path::new("/"), None).allowed();
    Idle::open(Path::new("/"), processor).map_err(|source| match allowed() {
        allowed if !allowed.contains(&processor) => LeechError::NoProcessor {
            given: processor,
            allowed,
        },
        _ => LeechError::Idle { processor, source },
    })
}

type Made = Result<Box<dyn work::Work>, LeechError>;

#[cfg(test)]
mod tests;
