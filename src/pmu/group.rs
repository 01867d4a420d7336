//! A set's counters at one place: opened in groups, read, and scaled for the time that they had none of the hardware.

use core::time::Duration;
use std::io;

use super::counters::{CounterId, Counters, GroupReading, Task};
use super::event::{EventCode, EventSource, Privilege};
use super::reason::{Place, Reason, errno, judge};
use crate::units::Time;

/// What was counted of one event in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Events while it was counted.
    pub count: u64,
    /// How long they were to be counted, nanoseconds; of a process, while its threads ran, all together.
    pub enabled: u64,
    /// How long of that they were counted, nanoseconds.
    pub running: u64,
}

impl Count {
    /// Of an event that has no counter.
    pub const ABSENT: Self = Self {
        count: 0,
        enabled: u64::MAX,
        running: 0,
    };
    /// Nothing yet.
    pub const ZERO: Self = Self {
        count: 0,
        enabled: 0,
        running: 0,
    };

    /// Whether the event has a counter at all.
    pub const fn is_present(self) -> bool {
        self.enabled != u64::MAX
    }

    /// Events in the whole time, as many for each moment that was not counted as for each that was. `None` if the event has no counter, or
    /// got none in this time.
    pub fn value(self) -> Option<f64> {
        match (self.enabled, self.running) {
            (u64::MAX, _) => None,
            // Nothing ran that could have been counted.
            (0, _) => Some(self.count as f64),
            (_, 0) => None,
            (enabled, running) if enabled == running => Some(self.count as f64),
            (enabled, running) => Some(self.count as f64 * (enabled as f64 / running as f64)),
        }
    }

    /// The share of the time that was counted, 0 to 1; `None` if the event has no counter, or there was nothing to count.
    pub fn share(self) -> Option<f64> {
        let is_counted = self.is_present() && self.enabled > 0;
        is_counted.then(|| (self.running as f64 / self.enabled as f64).min(1.0))
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        // Never so long that it says that there is none.
        self.enabled = self.enabled.saturating_add(other.enabled).min(u64::MAX - 1);
        self.running = self.running.saturating_add(other.running);
    }
}

/// The least share of the time that an event was counted in.
pub(super) fn least_share(counts: &[Count]) -> Option<f64> {
    let shares = counts.iter().filter_map(|count| count.share());
    shares.reduce(f64::min)
}

/// An event of a group.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// Which of the set.
    event: usize,
    is_clock: bool,
}

impl Member {
    const fn new(event: usize, code: &EventCode) -> Self {
        Self {
            event,
            is_clock: code.is_clock(),
        }
    }
}

/// One group: its leader, which of the set's events it counts, and what it said last. A sampler that leads it counts none of them.
#[derive(Debug)]
struct Group {
    counters: Vec<CounterId>,
    events: Vec<Member>,
    last: GroupReading,
    is_sampled: bool,
    /// None of its events needs a counter of the hardware's: it counts for as long as it is enabled.
    needs_no_hardware: bool,
}

impl Group {
    /// Its events have been counted, as often as what follows adds.
    fn begin(&self, into: &mut [Count]) {
        for &Member { event, .. } in &self.events {
            if !into[event].is_present() {
                into[event] = Count::ZERO;
            }
        }
    }

    /// Adds what was counted since the last reading.
    fn advance(&mut self, now: &GroupReading, width: u32, into: &mut [Count]) {
        if now.len < self.events.len() {
            return;
        }
        let mask = u64::MAX >> (64 - width.clamp(1, 64));
        let last = core::mem::replace(&mut self.last, *now);
        let enabled = now.enabled.checked_sub(last.enabled);
        let running = now.running.checked_sub(last.running);
        let (Some(enabled), Some(running)) = (enabled, running) else {
            // Somebody began anew: from here on.
            return;
        };
        // Nothing takes turns with it: times that differ would be an error of the reading, and to scale by them one of the count.
        let running = if self.needs_no_hardware {
            enabled
        } else {
            running
        };
        for (index, member) in self.events.iter().enumerate() {
            let count = now.values[index].wrapping_sub(last.values[index]) & mask;
            // A kernel that holds a sampler back, as after a processor has idled, may begin the clocks of its group anew from a time that is long past.
            let count = if member.is_clock {
                count.min(running)
            } else {
                count
            };
            into[member.event].add(Count {
                count,
                enabled,
                running,
            });
        }
    }
}

/// A set's counters at one place.
#[derive(Debug, Default)]
pub(super) struct OpenSet {
    groups: Vec<Group>,
    /// Of each event of the set, why it is not counted, or not all of it.
    pub(super) reasons: Vec<Option<Reason>>,
}

impl OpenSet {
    /// Opens what can be opened, all stopped. With a `period`, the system is to read the group of a processor as often; if it cannot, nothing is opened.
    pub(super) fn open(
        counters: &mut impl Counters,
        events: &[Result<EventCode, Reason>],
        is_group: bool,
        place: Place,
        period: Option<Duration>,
    ) -> Self {
        let mut set = Self {
            groups: Vec::new(),
            reasons: events.iter().map(|event| event.err()).collect(),
        };
        let tasks = match place {
            Place::Cpu(cpu) => vec![Task::Cpu(cpu)],
            Place::Process(process) => match counters.threads(process) {
                Ok(threads) => threads.into_iter().map(Task::Thread).collect(),
                Err(_) => Vec::new(),
            },
        };
        let mut opener = Opener {
            counters,
            events,
            place,
        };
        for task in tasks {
            match (is_group, period, task) {
                (false, ..) => opener.open_each(&mut set, task),
                (true, Some(period), Task::Cpu(cpu)) => {
                    if let Ok(sampler) = opener.counters.open_sampler(cpu, period) {
                        opener.open_group(&mut set, task, Some(sampler));
                    }
                }
                (true, ..) => opener.open_group(&mut set, task, None),
            }
        }
        if set.groups.is_empty() {
            // Nothing is open and nothing was said: there was nobody.
            for reason in set.reasons.iter_mut().filter(|reason| reason.is_none()) {
                *reason = Some(match place {
                    Place::Process(_) => Reason::Exited,
                    Place::Cpu(_) => Reason::Offline,
                });
            }
        }
        set
    }

    /// Whether anything of it is counted.
    pub(super) fn is_open(&self) -> bool {
        !self.groups.is_empty()
    }

    pub(super) fn start(&self, counters: &mut impl Counters) {
        for group in &self.groups {
            // It fails for those that are gone; these read as such, too.
            let _ = counters.start(group.counters[0]);
        }
    }

    pub(super) fn stop(&self, counters: &mut impl Counters) {
        for group in &self.groups {
            let _ = counters.stop(group.counters[0]);
        }
    }

    pub(super) fn close(&mut self, counters: &mut impl Counters) {
        for group in self.groups.drain(..) {
            // Members first: those whose leader is gone become leaders, and would count on.
            group
                .counters
                .into_iter()
                .rev()
                .for_each(|counter| counters.close(counter));
        }
    }

    /// What was counted since the last time, in `into`, one for each event of the set.
    pub(super) fn collect(&mut self, counters: &mut impl Counters, into: &mut [Count]) {
        into.fill(Count::ABSENT);
        let width = counters.width();
        for group in &mut self.groups {
            group.begin(into);
            let mut now = GroupReading::default();
            if counters.read(group.counters[0], &mut now).is_ok() {
                if group.is_sampled {
                    now.leave_out_leader();
                }
                group.advance(&now, width, into);
            }
        }
    }

    /// Says each sample that the system took since the last time, until `now`, oldest first: its end, and what was counted; `scratch` has room for one. How many
    /// were lost is returned. Of a set that was opened for it.
    pub(super) fn take(
        &mut self,
        counters: &mut impl Counters,
        now: Time,
        scratch: &mut [Count],
        mut each: impl FnMut(Time, &[Count]),
    ) -> u64 {
        let width = counters.width();
        let mut missed = 0;
        for group in &mut self.groups {
            let sampler = group.counters[0];
            let taken = counters.take(sampler, now, &mut |at, reading| {
                if reading.enabled <= group.last.enabled {
                    // It was read since.
                    return;
                }
                scratch.fill(Count::ABSENT);
                group.begin(scratch);
                group.advance(reading, width, scratch);
                each(at, scratch);
            });
            // It fails for one that is gone, which notes nothing.
            missed += taken.unwrap_or(0);
        }
        missed
    }
}

struct Opener<'a, C> {
    counters: &'a mut C,
    events: &'a [Result<EventCode, Reason>],
    place: Place,
}

impl<C: Counters> Opener<'_, C> {
    /// Those of the set that the machine has, in one group; none of them if they do not fit together. A sampler leads it, if there is one.
    fn open_group(&mut self, set: &mut OpenSet, task: Task, sampler: Option<CounterId>) {
        let mut group = Group {
            counters: sampler.into_iter().collect(),
            events: Vec::new(),
            last: GroupReading::default(),
            is_sampled: sampler.is_some(),
            needs_no_hardware: true,
        };
        let known = self.events.iter().enumerate();
        let known: Vec<_> = known
            .filter_map(|(index, event)| Some((index, event.ok()?)))
            .collect();
        for &(index, event) in &known {
            let leader = group.counters.first().copied();
            match self.open(&event, task, leader) {
                Ok((counter, restriction)) => {
                    group.counters.push(counter);
                    group.events.push(Member::new(index, &event));
                    group.needs_no_hardware &= !event.source.is_of_hardware();
                    set.reasons[index] = restriction;
                }
                // Somebody of the process has left; others are there.
                Err(Reason::Exited) => break,
                Err(reason @ Reason::TooMany { .. }) => {
                    let fit = group.events.len();
                    let counters = group.counters.drain(..).rev();
                    counters.for_each(|counter| self.counters.close(counter));
                    let reason = match reason {
                        Reason::TooMany { .. } => Reason::TooMany {
                            events: known.len(),
                            fit,
                        },
                        other => other,
                    };
                    for &(index, _) in &known {
                        set.reasons[index] = Some(reason);
                    }
                    return;
                }
                Err(reason) => set.reasons[index] = Some(reason),
            }
        }
        if group.events.is_empty() {
            if let Some(sampler) = sampler {
                self.counters.close(sampler);
            }
        } else {
            set.groups.push(group);
        }
    }

    /// Each event for itself.
    fn open_each(&mut self, set: &mut OpenSet, task: Task) {
        for (index, event) in self.events.iter().enumerate() {
            let Ok(event) = event else { continue };
            match self.open(event, task, None) {
                Ok((counter, restriction)) => {
                    set.reasons[index] = restriction;
                    set.groups.push(Group {
                        counters: vec![counter],
                        events: vec![Member::new(index, event)],
                        last: GroupReading::default(),
                        is_sampled: false,
                        needs_no_hardware: !event.source.is_of_hardware(),
                    });
                }
                Err(Reason::Exited) => return,
                Err(reason) => set.reasons[index] = Some(reason),
            }
        }
    }

    /// The counter, and what it leaves out.
    fn open(
        &mut self,
        event: &EventCode,
        task: Task,
        leader: Option<CounterId>,
    ) -> Result<(CounterId, Option<Reason>), Reason> {
        let error = match self.counters.open(event, task, leader) {
            Ok(counter) => return Ok((counter, None)),
            Err(error) => error,
        };
        let reason = judge(&error, event, self.place, &self.counters.facts());
        if let Reason::Paranoid { level } = reason {
            return self.open_for_programs(event, task, leader, level);
        }
        if is_too_many(&error) && leader.is_some() {
            // Alone it may do: then it is the group that it does not fit in.
            if let Ok((counter, _)) = self.open(event, task, None) {
                self.counters.close(counter);
                return Err(Reason::TooMany { events: 0, fit: 0 });
            }
        }
        Err(reason)
    }

    /// An event that may not be counted in the kernel, or not at all: that setting is asked after first, whatever else there is to say.
    fn open_for_programs(
        &mut self,
        event: &EventCode,
        task: Task,
        leader: Option<CounterId>,
        level: i32,
    ) -> Result<(CounterId, Option<Reason>), Reason> {
        if event.privilege == Privilege::User {
            // Up to 2 it is no more than the process, which is another user's.
            let is_of_others = level <= 2 && matches!(task, Task::Thread(_));
            return Err(if is_of_others {
                Reason::NotPermitted
            } else {
                Reason::Paranoid { level }
            });
        }
        let (counter, _) = self.open(&event.with(Privilege::User), task, leader)?;
        if means_something_in_programs(event) {
            return Ok((counter, Some(Reason::UserOnly { level })));
        }
        self.counters.close(counter);
        Err(Reason::Paranoid { level })
    }
}

fn is_too_many(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(errno::EINVAL | errno::ENOSPC))
}

/// Whether an event that may not be counted in the kernel is worth counting without: switches and migrations happen in the kernel alone.
fn means_something_in_programs(event: &EventCode) -> bool {
    const SWITCHES: [u64; 3] = [3, 4, 11];
    event.privilege == Privilege::All
        && event.source != EventSource::Tracepoint
        && !(event.source == EventSource::Software && SWITCHES.contains(&event.config))
}

#[cfg(test)]
mod tests {
    use super::super::event::generic;
    use super::super::fake::Fake;
    use super::*;

    fn events(names: &[&str]) -> Vec<Result<EventCode, Reason>> {
        let code = |name: &&str| generic(name).ok_or(Reason::UnknownEvent);
        names.iter().map(code).collect()
    }

    fn collect(set: &mut OpenSet, fake: &mut Fake) -> Vec<Count> {
        let mut counts = vec![Count::ZERO; set.reasons.len()];
        set.collect(fake, &mut counts);
        counts
    }

    #[test]
    fn what_needs_no_hardware_is_not_scaled() {
        let counted = |needs_no_hardware| {
            let mut group = Group {
                counters: Vec::new(),
                events: vec![Member {
                    event: 0,
                    is_clock: false,
                }],
                last: GroupReading::default(),
                is_sampled: true,
                needs_no_hardware,
            };
            let mut now = GroupReading {
                enabled: 250_000_000,
                running: 10_000_000,
                len: 1,
                ..GroupReading::default()
            };
            now.values[0] = 250_000_000;
            let mut counts = [Count::ZERO];
            group.advance(&now, 64, &mut counts);
            counts[0].value()
        };
        assert_eq!(counted(true), Some(250e6));
        assert_eq!(counted(false), Some(6250e6));
        for (name, needs_none) in [
            ("cycles", false),
            ("L1-dcache-loads", false),
            ("task-clock", true),
            ("page-faults", true),
        ] {
            let source = generic(name).expect("it is one").source;
            assert_eq!(!source.is_of_hardware(), needs_none, "{name}");
        }
    }

    #[test]
    fn no_clock_counts_more_than_the_time_that_passed() {
        let counted = |name: &str, values: [u64; 3]| {
            let code = generic(name).expect("it is one");
            let mut group = Group {
                counters: Vec::new(),
                events: vec![Member::new(0, &code)],
                last: GroupReading::default(),
                is_sampled: true,
                needs_no_hardware: true,
            };
            let mut counts = [Count::ZERO];
            for (at, value) in (1..).zip(values) {
                let mut now = GroupReading {
                    enabled: at * 20,
                    running: at * 20,
                    len: 1,
                    ..GroupReading::default()
                };
                now.values[0] = value;
                group.advance(&now, 64, &mut counts);
            }
            counts[0].count
        };
        // As a kernel said it that had begun the clock anew, and added all that had passed before.
        let once_more = [20, 60, 80];
        assert_eq!(counted("task-clock", once_more), 60);
        assert_eq!(counted("cpu-clock", once_more), 60);
        assert_eq!(counted("page-faults", once_more), 80);
        // A thread that has slept.
        assert_eq!(counted("task-clock", [0, 15, 16]), 16);
    }

    const HARDWARE: [&str; 4] = ["cycles", "instructions", "branches", "branch-misses"];
    const CPU: Place = Place::Cpu(0);

    #[test]
    fn a_group_that_fits_is_counted_together() {
        let mut fake = Fake::with_counters(4);
        let mut set = OpenSet::open(&mut fake, &events(&HARDWARE), true, CPU, None);
        assert_eq!(set.reasons, [None; 4]);
        set.start(&mut fake);
        fake.run(1_000);
        let counts = collect(&mut set, &mut fake);
        assert_eq!(counts[0].enabled, 1_000);
        assert!(counts.iter().all(|count| count.share() == Some(1.0)));
        // What each event is in the fake: so many in a nanosecond.
        assert_eq!(
            counts[1].count,
            Fake::rate(&generic("instructions").unwrap()) * 1_000
        );
        fake.run(500);
        assert_eq!(collect(&mut set, &mut fake)[0].enabled, 500);
        set.stop(&mut fake);
        fake.run(500);
        assert_eq!(collect(&mut set, &mut fake)[0], Count::ZERO);
        set.close(&mut fake);
        assert_eq!(fake.open_counters(), 0);
    }

    #[test]
    fn a_group_that_does_not_fit_is_refused_as_a_whole_with_the_reason() {
        let mut fake = Fake::with_counters(3);
        let mut events = events(&HARDWARE);
        events.push(generic("page-faults").ok_or(Reason::UnknownEvent));
        let mut set = OpenSet::open(&mut fake, &events, true, CPU, None);
        let reason = Reason::TooMany { events: 5, fit: 3 };
        assert_eq!(set.reasons, [Some(reason); 5]);
        assert!(!set.is_open());
        assert_eq!(fake.open_counters(), 0);
        assert_eq!(collect(&mut set, &mut fake)[0].value(), None);
        assert!(reason.to_string().contains("5 events at once"));
    }

    #[test]
    fn too_many_that_need_not_be_together_take_turns_and_are_scaled() {
        let mut fake = Fake::with_counters(2);
        let mut set = OpenSet::open(&mut fake, &events(&HARDWARE), false, CPU, None);
        set.start(&mut fake);
        fake.run(1_000_000);
        let counts = collect(&mut set, &mut fake);
        for (count, name) in counts.iter().zip(HARDWARE) {
            let share = count.share().unwrap();
            assert!((share - 0.5).abs() < 0.01, "{share}");
            let expected = (Fake::rate(&generic(name).unwrap()) * 1_000_000) as f64;
            let value = count.value().unwrap();
            assert!((value / expected - 1.0).abs() < 0.01, "{value} {expected}");
            assert!((count.count as f64) < 0.6 * expected);
        }
    }

    #[test]
    fn what_never_got_a_counter_has_no_value() {
        let count = Count {
            count: 0,
            enabled: 5,
            running: 0,
        };
        assert_eq!((count.value(), count.share()), (None, Some(0.0)));
        assert_eq!((Count::ABSENT.value(), Count::ABSENT.share()), (None, None));
        // A process that slept.
        assert_eq!(
            (Count::ZERO.value(), Count::ZERO.share()),
            (Some(0.0), None)
        );
    }

    #[test]
    fn counters_that_overflow_go_on() {
        let mut fake = Fake::with_counters(4);
        fake.width = 32;
        fake.offset = u64::from(u32::MAX) - 10;
        let mut set = OpenSet::open(&mut fake, &events(&["cycles"]), true, CPU, None);
        set.start(&mut fake);
        collect(&mut set, &mut fake);
        fake.run(1_000);
        let expected = Fake::rate(&generic("cycles").unwrap()) * 1_000;
        assert_eq!(collect(&mut set, &mut fake)[0].count, expected);
    }

    #[test]
    fn counters_that_begin_anew_are_not_taken_for_an_overflow() {
        let mut fake = Fake::with_counters(4);
        let mut set = OpenSet::open(&mut fake, &events(&["cycles"]), true, CPU, None);
        set.start(&mut fake);
        fake.run(1_000);
        collect(&mut set, &mut fake);
        fake.restart();
        fake.run(10);
        assert_eq!(collect(&mut set, &mut fake)[0], Count::ZERO);
        fake.run(10);
        assert_eq!(collect(&mut set, &mut fake)[0].enabled, 10);
    }

    #[test]
    fn what_the_machine_lacks_is_left_out_and_the_rest_is_counted() {
        let mut fake = Fake::with_counters(0);
        let names = ["cycles", "page-faults", "no-such-event"];
        let mut set = OpenSet::open(&mut fake, &events(&names), true, CPU, None);
        let expected = [Some(Reason::NoPmu), None, Some(Reason::UnknownEvent)];
        assert_eq!(set.reasons, expected);
        set.start(&mut fake);
        fake.run(100);
        let counts = collect(&mut set, &mut fake);
        assert_eq!((counts[0].value(), counts[2].value()), (None, None));
        assert!(counts[1].value().is_some_and(|value| value > 0.0));
    }

    #[test]
    fn where_the_kernel_is_not_counted_what_else_is_wrong_is_said_all_the_same() {
        let mut fake = Fake::with_counters(3);
        fake.facts.paranoid = Some(2);
        let set = OpenSet::open(&mut fake, &events(&HARDWARE), true, CPU, None);
        let reason = Reason::TooMany { events: 4, fit: 3 };
        assert_eq!(set.reasons, [Some(reason); 4]);
        assert_eq!(fake.open_counters(), 0);

        let mut fake = Fake::with_counters(0);
        fake.facts.paranoid = Some(2);
        let set = OpenSet::open(&mut fake, &events(&HARDWARE[..1]), true, CPU, None);
        assert_eq!(set.reasons, [Some(Reason::NoPmu)]);
    }

    #[test]
    fn what_is_refused_although_the_setting_allows_it_is_others() {
        let mut codes = events(&["page-faults", "context-switches", "page-faults"]);
        codes[2] = codes[2].map(|event| event.with(Privilege::User));
        for (level, place, reason) in [
            (2, Place::Process(7), Reason::NotPermitted),
            (2, CPU, Reason::Paranoid { level: 2 }),
            (3, Place::Process(7), Reason::Paranoid { level: 3 }),
            (0, Place::Process(7), Reason::NotPermitted),
        ] {
            let mut fake = Fake::with_counters(0);
            fake.refuses = Some(errno::EACCES);
            fake.facts.paranoid = Some(level);
            let set = OpenSet::open(&mut fake, &codes, true, place, None);
            assert_eq!(set.reasons, [Some(reason); 3], "{level} {place}");
        }
    }

    #[test]
    fn without_permission_for_the_kernel_programs_are_counted_and_it_is_said() {
        let mut fake = Fake::with_counters(4);
        fake.facts.paranoid = Some(2);
        let names = ["cycles", "context-switches", "page-faults"];
        let set = OpenSet::open(&mut fake, &events(&names), true, Place::Process(7), None);
        let expected = [
            Some(Reason::UserOnly { level: 2 }),
            Some(Reason::Paranoid { level: 2 }),
            Some(Reason::UserOnly { level: 2 }),
        ];
        assert_eq!(set.reasons, expected);
        assert!(set.is_open());
    }

    #[test]
    fn a_process_is_all_of_its_threads() {
        let mut fake = Fake::with_counters(4);
        fake.threads = vec![7, 8, 9];
        let mut set = OpenSet::open(
            &mut fake,
            &events(&["cycles"]),
            true,
            Place::Process(7),
            None,
        );
        set.start(&mut fake);
        fake.run(100);
        let one = Fake::rate(&generic("cycles").unwrap()) * 100;
        assert_eq!(collect(&mut set, &mut fake)[0].count, 3 * one);
        fake.threads.clear();
        let set = OpenSet::open(
            &mut fake,
            &events(&["cycles"]),
            true,
            Place::Process(7),
            None,
        );
        assert_eq!(set.reasons, [Some(Reason::Exited)]);
    }
}
