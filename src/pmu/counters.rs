//! What the monitor needs of the system: counters in groups. The kernel has them, a recording, or a test.

use core::time::Duration;
use std::io;

use super::event::EventCode;
use super::reason::Place;
use crate::units::Time;

/// The most events in a set, and so in a group.
pub const MAX_EVENTS: usize = 32;

/// What one counter counts the events of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Task {
    /// A thread, and those that it starts from then on.
    Thread(u32),
    /// A logical processor.
    Cpu(u32),
}

/// A counter that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterId(pub u32);

/// What a group has counted since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupReading {
    /// How long it was to count, nanoseconds. Of a thread: while it ran.
    pub enabled: u64,
    /// How long of that it had counters, nanoseconds.
    pub running: u64,
    /// Of the leader, and of its members in the order in which they were opened.
    pub values: [u64; MAX_EVENTS],
    /// How many of those there are.
    pub len: usize,
}

impl GroupReading {
    /// What the members have counted, without the leader.
    pub(super) fn leave_out_leader(&mut self) {
        self.values.copy_within(1.., 0);
        self.len = self.len.saturating_sub(1);
    }
}

impl Default for GroupReading {
    fn default() -> Self {
        Self {
            enabled: 0,
            running: 0,
            values: [0; MAX_EVENTS],
            len: 0,
        }
    }
}

/// What the system lets be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// It shows hardware counters.
    pub pmu: bool,
    /// The kernel's setting of what users may count: -1 everything, 0, 1 no raw tracepoints and no whole processors, 2 and above not what the kernel
    /// does.
    pub paranoid: Option<i32>,
    /// System calls of this process are filtered.
    pub seccomp: bool,
    /// That setting forbids it nothing: it has `CAP_PERFMON` or `CAP_SYS_ADMIN`, and of the system, not of a user namespace alone.
    pub privileged: bool,
}

/// Counters of events, in groups that count at the same time or not at all.
///
/// Errors are the system's, by number, as `perf_event_open(2)` describes them.
pub trait Counters {
    /// Opens a counter: stopped, if it leads a group (`leader` is `None`), and else one that counts while its leader does.
    ///
    /// # Errors
    ///
    /// The system refuses it.
    fn open(
        &mut self,
        event: &EventCode,
        task: Task,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId>;

    /// Lets a group count.
    ///
    /// # Errors
    ///
    /// The system refuses it.
    fn start(&mut self, leader: CounterId) -> io::Result<()>;

    /// Stops a group.
    ///
    /// # Errors
    ///
    /// The system refuses it.
    fn stop(&mut self, leader: CounterId) -> io::Result<()>;

    /// Reads a group.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    fn read(&mut self, leader: CounterId, into: &mut GroupReading) -> io::Result<()>;

    /// Opens the leader of a group on a processor that counts nothing, but has the system note every `period` what its members have counted: stopped.
    ///
    /// # Errors
    ///
    /// The system refuses it, or cannot.
    fn open_sampler(&mut self, _cpu: u32, _period: Duration) -> io::Result<CounterId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Hands over what was noted since the last time, oldest first: when, and what the group's members had counted by then. It is `now`; how many there was
    /// no room for is returned.
    ///
    /// # Errors
    ///
    /// It is no sampler.
    fn take(
        &mut self,
        _sampler: CounterId,
        _now: Time,
        _each: &mut dyn FnMut(Time, &GroupReading),
    ) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Closes a counter.
    fn close(&mut self, counter: CounterId);

    /// Bits of a counter, after which it starts again from zero; 64 in the kernel's interface, which extends those of the hardware.
    fn width(&self) -> u32 {
        64
    }

    /// Whether there is still such a process, or the processor is online.
    fn is_present(&mut self, place: Place) -> bool;

    /// The threads of a process.
    ///
    /// # Errors
    ///
    /// There is no such process.
    fn threads(&mut self, process: u32) -> io::Result<Vec<u32>>;

    /// The processors that are online.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    fn online(&mut self) -> io::Result<Vec<u32>>;

    /// What the system lets be counted.
    fn facts(&self) -> Facts;
}
