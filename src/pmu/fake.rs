//! Counters for tests: a machine whose time passes when it is told, with as many hardware counters as it is told.

use core::time::Duration;
use std::io;

use super::counters::{CounterId, Counters, Facts, GroupReading, Task};
use super::event::{EventCode, Privilege, generic};
use super::reason::{Place, errno};
use crate::units::{Time, saturating_nanos};

#[derive(Debug)]
struct Open {
    event: EventCode,
    task: Task,
    leader: Option<u32>,
    is_started: bool,
    enabled: u64,
    running: u64,
    value: u64,
    sampler: Option<Sampler>,
}

#[derive(Debug)]
struct Sampler {
    period: u64,
    due: u64,
    noted: Vec<(Time, GroupReading)>,
    lost: u64,
}

#[derive(Debug)]
pub(super) struct Fake {
    hardware: usize,
    pub(super) facts: Facts,
    pub(super) threads: Vec<u32>,
    pub(super) cpus: Vec<u32>,
    /// Bits of a counter.
    pub(super) width: u32,
    /// What counters begin with.
    pub(super) offset: u64,
    /// Opening fails with this.
    pub(super) refuses: Option<i32>,
    open: Vec<Option<Open>>,
    /// Whose turn it is, of the hardware counters.
    turn: usize,
    pub(super) reads: usize,
    /// Readings that a sampler has room for; without, there are no samplers.
    pub(super) room: usize,
    /// A processor of which they say nothing yet.
    pub(super) withheld: Option<u32>,
    clock: u64,
}

/// Between turns, nanoseconds.
const TURN: u64 = 100;

impl Fake {
    pub(super) fn with_counters(hardware: usize) -> Self {
        Self {
            hardware,
            facts: Facts {
                pmu: hardware > 0,
                ..Facts::default()
            },
            threads: vec![7],
            cpus: vec![0, 1],
            width: 64,
            offset: 0,
            refuses: None,
            open: Vec::new(),
            turn: 0,
            reads: 0,
            room: 0,
            withheld: None,
            clock: 0,
        }
    }

    /// Events in a nanosecond, of each thread or processor.
    pub(super) fn rate(event: &EventCode) -> u64 {
        2 + event.config % 7
    }

    pub(super) fn open_counters(&self) -> usize {
        self.open.iter().flatten().count()
    }

    /// Lets time pass, nanoseconds. Groups take turns on the hardware of their task.
    pub(super) fn run(&mut self, nanos: u64) {
        let mut left = nanos;
        while left > 0 {
            let step = left.min(TURN);
            left -= step;
            self.turn += 1;
            self.step(step);
        }
    }

    fn step(&mut self, nanos: u64) {
        self.clock += nanos;
        let leaders: Vec<_> = (0..self.open.len())
            .filter(|&index| {
                self.open[index]
                    .as_ref()
                    .is_some_and(|open| open.leader.is_none() && open.is_started)
            })
            .collect();
        let mut used = std::collections::HashMap::new();
        for at in 0..leaders.len() {
            let leader = leaders[(at + self.turn) % leaders.len()];
            let Some(task) = self.open[leader].as_ref().map(|open| open.task) else {
                continue;
            };
            let is_there = match task {
                Task::Thread(thread) => self.threads.contains(&thread),
                Task::Cpu(cpu) => self.cpus.contains(&cpu),
            };
            if !is_there {
                continue;
            }
            let needs = self.hardware_of(leader as u32);
            let used = used.entry(task).or_insert(0);
            let runs = *used + needs <= self.hardware || needs == 0;
            *used += if runs { needs } else { 0 };
            for (index, open) in self.open.iter_mut().enumerate() {
                let Some(open) = open else { continue };
                if index == leader || open.leader == Some(leader as u32) {
                    open.enabled += nanos;
                    if runs {
                        open.running += nanos;
                        open.value = open.value.wrapping_add(nanos * Self::rate(&open.event));
                    }
                }
            }
            if runs {
                self.note(leader as u32);
            }
        }
    }

    /// What a sampler's group has counted, if it is time.
    fn note(&mut self, leader: u32) {
        let mut reading = GroupReading::default();
        self.sum(leader, &mut reading);
        let (clock, room) = (self.clock, self.room);
        let open = self.open[leader as usize].as_mut();
        let sampler = open.and_then(|open| open.sampler.as_mut());
        let Some(sampler) = sampler.filter(|sampler| sampler.due <= clock) else {
            return;
        };
        sampler.due += sampler.period;
        if sampler.noted.len() == room {
            sampler.lost += 1;
            return;
        }
        reading.leave_out_leader();
        sampler.noted.push((Time::from_nanos(clock), reading));
    }

    fn sum(&self, leader: u32, into: &mut GroupReading) {
        let mask = u64::MAX >> (64 - self.width);
        into.len = 0;
        for (index, open) in self.open.iter().enumerate() {
            let Some(open) = open else { continue };
            if index == leader as usize || open.leader == Some(leader) {
                (into.enabled, into.running) = (open.enabled, open.running);
                into.values[into.len] = open.value & mask;
                into.len += 1;
            }
        }
    }

    /// Somebody else keeps the hardware counters from now on.
    pub(super) fn take_hardware(&mut self) {
        self.hardware = 0;
    }

    /// Lets a long time pass in one step.
    pub(super) fn skip(&mut self, nanos: u64) {
        self.step(nanos);
    }

    /// As if all counters had been set to zero.
    pub(super) fn restart(&mut self) {
        for open in self.open.iter_mut().flatten() {
            (open.enabled, open.running, open.value) = (0, 0, 0);
        }
    }

    fn hardware_of(&self, leader: u32) -> usize {
        let members = self.open.iter().enumerate().filter(|(index, open)| {
            let is_of = |open: &Open| {
                (*index == leader as usize || open.leader == Some(leader))
                    && open.event.source.is_hardware()
            };
            open.as_ref().is_some_and(is_of)
        });
        members.count()
    }
}

impl Counters for Fake {
    fn open(
        &mut self,
        event: &EventCode,
        task: Task,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId> {
        let error = |number| Err(io::Error::from_raw_os_error(number));
        if let Some(number) = self.refuses {
            return error(number);
        }
        match task {
            Task::Thread(thread) if !self.threads.contains(&thread) => return error(errno::ESRCH),
            Task::Cpu(cpu) if !self.cpus.contains(&cpu) => return error(errno::ENODEV),
            _ => {}
        }
        if self.facts.paranoid.is_some_and(|level| level >= 2) && event.privilege != Privilege::User
        {
            return error(errno::EACCES);
        }
        if event.source.is_hardware() {
            if self.hardware == 0 {
                return error(errno::ENOENT);
            }
            if leader.is_some_and(|leader| self.hardware_of(leader.0) == self.hardware) {
                return error(errno::EINVAL);
            }
        }
        self.open.push(Some(Open {
            event: *event,
            task,
            leader: leader.map(|leader| leader.0),
            is_started: false,
            enabled: 0,
            running: 0,
            value: self.offset,
            sampler: None,
        }));
        Ok(CounterId(self.open.len() as u32 - 1))
    }

    fn open_sampler(&mut self, cpu: u32, period: Duration) -> io::Result<CounterId> {
        if self.room == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let clock = generic("cpu-clock").expect("an event");
        let counter = self.open(&clock, Task::Cpu(cpu), None)?;
        let period = saturating_nanos(period);
        if let Some(open) = &mut self.open[counter.0 as usize] {
            open.sampler = Some(Sampler {
                period,
                due: self.clock + period,
                noted: Vec::new(),
                lost: 0,
            });
        }
        Ok(counter)
    }

    fn take(
        &mut self,
        sampler: CounterId,
        _now: Time,
        each: &mut dyn FnMut(Time, &GroupReading),
    ) -> io::Result<u64> {
        let open = self.open[sampler.0 as usize].as_mut();
        let open = open.ok_or(io::ErrorKind::NotFound)?;
        if self.withheld.map(Task::Cpu) == Some(open.task) {
            return Ok(0);
        }
        let sampler = open.sampler.as_mut().ok_or(io::ErrorKind::NotFound)?;
        for (at, reading) in sampler.noted.drain(..) {
            each(at, &reading);
        }
        Ok(core::mem::take(&mut sampler.lost))
    }

    fn start(&mut self, leader: CounterId) -> io::Result<()> {
        let open = self.open[leader.0 as usize].as_mut();
        open.expect("open").is_started = true;
        Ok(())
    }

    fn stop(&mut self, leader: CounterId) -> io::Result<()> {
        let open = self.open[leader.0 as usize].as_mut();
        open.expect("open").is_started = false;
        Ok(())
    }

    fn read(&mut self, leader: CounterId, into: &mut GroupReading) -> io::Result<()> {
        self.reads += 1;
        self.sum(leader.0, into);
        Ok(())
    }

    fn close(&mut self, counter: CounterId) {
        assert!(
            self.open[counter.0 as usize].take().is_some(),
            "closed twice"
        );
    }

    fn width(&self) -> u32 {
        self.width
    }

    fn is_present(&mut self, place: Place) -> bool {
        match place {
            Place::Process(process) => self.threads.contains(&process),
            Place::Cpu(cpu) => self.cpus.contains(&cpu),
        }
    }

    fn threads(&mut self, _process: u32) -> io::Result<Vec<u32>> {
        if self.threads.is_empty() {
            return Err(io::Error::from_raw_os_error(errno::ESRCH));
        }
        Ok(self.threads.clone())
    }

    fn online(&mut self) -> io::Result<Vec<u32>> {
        Ok(self.cpus.clone())
    }

    fn facts(&self) -> Facts {
        self.facts
    }
}
