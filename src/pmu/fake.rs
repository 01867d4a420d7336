//! Counters for tests: a machine whose time passes when it is told, with as many hardware counters as it is told.

use std::io;

use super::counters::{CounterId, Counters, Facts, GroupReading, Task};
use super::event::{EventCode, Privilege};
use super::reason::{Place, errno};

#[derive(Debug)]
struct Open {
    event: EventCode,
    task: Task,
    leader: Option<u32>,
    is_started: bool,
    enabled: u64,
    running: u64,
    value: u64,
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
        }));
        Ok(CounterId(self.open.len() as u32 - 1))
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
        let mask = u64::MAX >> (64 - self.width);
        into.len = 0;
        for (index, open) in self.open.iter().enumerate() {
            let Some(open) = open else { continue };
            if index == leader.0 as usize || open.leader == Some(leader.0) {
                (into.enabled, into.running) = (open.enabled, open.running);
                into.values[into.len] = open.value & mask;
                into.len += 1;
            }
        }
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
