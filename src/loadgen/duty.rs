//! A share of a processor, held: when to work and when to sleep. Pure: both clocks are handed in.

use core::time::Duration;

use super::intensity::Intensity;

/// Over which the share is held. Origin: long against a late wake-up (some 0.1 ms), short against what any scheduler or person sees as steady.
const WINDOW: Duration = Duration::from_millis(10);
/// At most so much is made up for when the processor was not to be had, or was taken too long. Origin: arbitrary, ten windows; without a bound a leech that was held up for
/// a minute would take all of a processor for as long.
const MOST_OWED: Duration = Duration::from_millis(100);

/// Of what others took beyond the share together, so much is made up for. Origin: two windows, as others that hold shares in windows of this length take no more of it at once;
/// more would be missing when they have gone.
const MOST_OVER: Duration = Duration::from_millis(20);

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Work for no longer than this (of processor time), ask again.
    Work(Duration),
    /// Sleep so long, and ask again.
    Sleep(Duration),
}

/// Holds a share of one processor.
///
/// In each window, the leech may take what brings its own processor time to the share of all time until the window's end. Whatever was too much or too little, for a batch that
/// took long, a late wake-up or another thread in the way, is taken from the next windows or given to them.
#[derive(Clone, Copy, Debug)]
pub(super) struct DutyCycle {
    share: f64,
    /// The clocks when they were handed in last.
    wall: Duration,
    processor: Duration,
    /// Seconds of processor time that the leech has taken too little until then.
    owed: f64,
    /// The most of it, below 0: what was taken too much.
    most_over: f64,
    window: Duration,
    /// Since the last window began.
    into_window: Duration,
}

impl DutyCycle {
    /// Begins with clocks that stand at `wall`, and at `processor` for the leech's own processor time.
    pub(super) fn new(intensity: Intensity, wall: Duration, processor: Duration) -> Self {
        Self {
            share: intensity.share(),
            wall,
            processor,
            owed: 0.0,
            most_over: MOST_OWED.as_secs_f64(),
            window: WINDOW,
            into_window: Duration::ZERO,
        }
    }

    /// Windows are so long instead of 10 ms, and no shorter than a millisecond. Where leeches on one processor have windows of the same length, what each does follows upon what another does, in an order
    /// that is chance when they begin and stays for minutes; with lengths of their own, all orders come up within a second.
    #[must_use]
    pub(super) fn window(mut self, window: Duration) -> Self {
        self.window = window.max(Duration::from_millis(1));
        self
    }

    /// The share is of the leech and all others together: the second clock stands for how long the processor has been busy. What others take beyond the share is forgiven, but for
    /// two windows of it.
    #[must_use]
    pub(super) fn together(mut self) -> Self {
        self.most_over = MOST_OVER.as_secs_f64();
        self
    }

    /// Another share from now on. What was taken too much is still made up for; what was taken too little only as far as the new share gives in a window.
    pub(super) fn set_intensity(&mut self, intensity: Intensity) {
        self.share = intensity.share();
        self.owed = self.owed.min(self.share * self.window.as_secs_f64());
    }

    /// What to do at these times.
    pub(super) fn next(&mut self, wall: Duration, processor: Duration) -> Duty {
        let passed = wall.saturating_sub(self.wall);
        let taken = processor.saturating_sub(self.processor);
        (self.wall, self.processor) = (wall, processor);
        let owed = self.owed + self.share * passed.as_secs_f64() - taken.as_secs_f64();
        self.owed = owed.clamp(-self.most_over, MOST_OWED.as_secs_f64());
        let into_window = (self.into_window + passed).as_nanos() % self.window.as_nanos();
        self.into_window = Duration::from_nanos(into_window as u64);
        let left = self.window.saturating_sub(self.into_window);
        match Duration::try_from_secs_f64(self.owed + self.share * left.as_secs_f64()) {
            Ok(budget) if budget > Duration::ZERO => Duty::Work(budget.min(left)),
            _ => Duty::Sleep(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scheduler that wakes late, lets others in, and whose batches take their time.
    struct Machine {
        random: fastrand::Rng,
        wall: Duration,
        processor: Duration,
        /// Microseconds that a wake-up is late by, at most.
        late: u64,
        /// Of 10 000 batches, those after which another thread has the processor, and for how many microseconds.
        preempted: (u64, u64),
        /// Microseconds that a batch takes.
        batch: u64,
    }

    impl Machine {
        fn new(late: u64, preempted: (u64, u64), batch: u64) -> Self {
            Self {
                random: fastrand::Rng::with_seed(1),
                wall: Duration::from_secs(1000),
                processor: Duration::from_secs(7),
                late,
                preempted,
                batch,
            }
        }

        fn run(&mut self, duty: &mut DutyCycle, length: Duration) -> f64 {
            let (wall, processor) = (self.wall, self.processor);
            while self.wall.saturating_sub(wall) < length {
                match duty.next(self.wall, self.processor) {
                    Duty::Work(_) => {
                        let batch = Duration::from_micros(self.random.u64(1..=self.batch));
                        self.wall += batch;
                        self.processor += batch;
                        if self.random.u64(0..10_000) < self.preempted.0 {
                            self.wall += Duration::from_micros(self.preempted.1);
                        }
                    }
                    Duty::Sleep(length) => {
                        // To sleep and to wake takes a little, too.
                        self.processor += Duration::from_micros(5);
                        self.wall +=
                            length + Duration::from_micros(self.random.u64(5..=self.late.max(5)));
                    }
                }
            }
            self.processor.saturating_sub(processor).as_secs_f64()
                / self.wall.saturating_sub(wall).as_secs_f64()
        }
    }

    fn begin(share: f64, machine: &Machine) -> DutyCycle {
        DutyCycle::new(Intensity::new(share), machine.wall, machine.processor)
    }

    #[test]
    fn the_share_is_held_though_wakes_are_late_and_others_come_between() {
        for (late, preempted, batch) in [
            (0, (0, 0), 25),
            (100, (0, 0), 25),
            (5_000, (0, 0), 25),
            (100, (50, 400), 25),
            (100, (1, 20_000), 25),
            (100, (0, 0), 3_000),
            (30_000, (0, 0), 25),
        ] {
            for (share, window) in [(0.01, 10), (0.1, 7), (0.25, 10), (0.5, 13), (0.75, 10)] {
                let mut machine = Machine::new(late, preempted, batch);
                let mut duty = begin(share, &machine).window(Duration::from_millis(window));
                let held = machine.run(&mut duty, Duration::from_secs(20));
                assert!(
                    (held - share).abs() < 0.01,
                    "{held} for {share}: {late} {preempted:?} {batch}"
                );
            }
        }
    }

    /// Two of them that begin at once: when the first works, how often does the other, second by second?
    #[test]
    fn leeches_with_windows_of_their_own_come_upon_each_other_alike_in_every_second() {
        let working = |window: u64, begun: u64| {
            let wall = Duration::from_micros(begun);
            let mut duty = DutyCycle::new(Intensity::new(0.2), wall, Duration::ZERO)
                .window(Duration::from_micros(window));
            let (mut wall, mut processor) = (wall, Duration::ZERO);
            let mut seen = vec![false; begun as usize / 50];
            while seen.len() < 80_000 {
                let (is_working, length) = match duty.next(wall, processor) {
                    Duty::Work(_) => (true, Duration::from_micros(50)),
                    Duty::Sleep(length) => (false, length),
                };
                wall += length;
                processor += if is_working { length } else { Duration::ZERO };
                seen.resize(wall.as_micros() as usize / 50, is_working);
            }
            seen
        };
        let together = |first: (u64, u64), second: (u64, u64)| -> Vec<f64> {
            let (first, second) = (working(first.0, first.1), working(second.0, second.1));
            let seconds = first.chunks_exact(20_000).zip(second.chunks_exact(20_000));
            let both = |(first, second): (&[bool], &[bool])| {
                let both = first.iter().zip(second).filter(|(a, b)| **a && **b);
                both.count() as f64 / 20_000.0
            };
            seconds.map(both).collect()
        };
        // Windows of the same length: always or never, as it happens to begin.
        assert!(together((10_000, 0), (10_000, 0))[0] > 0.15);
        assert!(together((10_000, 0), (10_000, 5_000))[0] < 0.01);
        for share in together((10_000, 0), (7_100, 0)) {
            assert!((share - 0.04).abs() < 0.006, "{share}");
        }
    }

    #[test]
    fn each_hundred_milliseconds_have_their_share() {
        let mut machine = Machine::new(100, (0, 0), 25);
        let mut duty = begin(0.5, &machine);
        for _ in 0..100 {
            let held = machine.run(&mut duty, Duration::from_millis(100));
            assert!((held - 0.5).abs() < 0.02, "{held}");
        }
    }

    #[test]
    fn a_share_that_changes_often_is_held_all_the_same() {
        let mut machine = Machine::new(100, (50, 400), 25);
        let mut duty = begin(0.2, &machine);
        let mut sum = 0.0;
        for turn in 0..400 {
            duty.set_intensity(Intensity::new(if turn % 2 == 0 { 0.6 } else { 0.2 }));
            sum += machine.run(&mut duty, Duration::from_millis(25)) / 400.0;
        }
        assert!((sum - 0.4).abs() < 0.02, "{sum}");
    }

    #[test]
    fn nothing_is_nothing_and_all_is_all() {
        let mut machine = Machine::new(100, (50, 400), 25);
        let mut none = begin(0.0, &machine);
        for _ in 0..100 {
            assert!(matches!(
                none.next(machine.wall, machine.processor),
                Duty::Sleep(_)
            ));
            machine.wall += WINDOW;
        }
        let mut all = begin(1.0, &machine);
        for _ in 0..1000 {
            assert!(matches!(
                all.next(machine.wall, machine.processor),
                Duty::Work(_)
            ));
            machine.wall += Duration::from_micros(40);
            machine.processor += Duration::from_micros(40);
        }
    }

    #[test]
    fn what_could_not_be_had_for_long_is_not_made_up_for() {
        let mut machine = Machine::new(100, (0, 0), 25);
        let mut duty = begin(0.5, &machine);
        machine.run(&mut duty, Duration::from_secs(1));
        machine.wall += Duration::from_secs(60);
        let after = machine.run(&mut duty, Duration::from_secs(1));
        assert!((0.5..0.62).contains(&after), "{after}");
        machine.wall += Duration::from_secs(60);
        duty.set_intensity(Intensity::NONE);
        assert!(matches!(
            duty.next(
                machine.wall.saturating_sub(Duration::from_secs(60)),
                machine.processor
            ),
            Duty::Sleep(_)
        ));
        duty.set_intensity(Intensity::new(0.5));
        machine.processor += Duration::from_secs(60);
        let after = machine.run(&mut duty, Duration::from_secs(1));
        assert!((0.38..0.5).contains(&after), "{after}");
    }

    /// A processor with others on it, who want a share of each 10 ms, which changes with time. Who wants it at once with the leech has it by turns.
    struct Shared {
        wall: Duration,
        busy: Duration,
        wanted: Duration,
        is_theirs: bool,
        others: fn(Duration) -> f64,
    }

    impl Shared {
        const GRAIN: Duration = Duration::from_micros(50);

        fn go(&mut self, is_working: bool) {
            if self.wall.as_micros() % 10_000 < Self::GRAIN.as_micros() {
                self.wanted += WINDOW.mul_f64((self.others)(self.wall));
            }
            let is_wanted = !self.wanted.is_zero();
            self.is_theirs = is_wanted && !(is_working && self.is_theirs);
            if self.is_theirs {
                self.wanted = self.wanted.saturating_sub(Self::GRAIN);
            }
            self.wall += Self::GRAIN;
            if is_wanted || is_working {
                self.busy += Self::GRAIN;
            }
        }

        /// How busy the processor was in each of so many stretches.
        fn run(&mut self, duty: &mut DutyCycle, stretches: usize, each: Duration) -> Vec<f64> {
            let one = |_| {
                let (wall, busy) = (self.wall, self.busy);
                while self.wall.saturating_sub(wall) < each {
                    match duty.next(self.wall, self.busy) {
                        Duty::Work(_) => self.go(true),
                        Duty::Sleep(length) => {
                            let until = self.wall + length;
                            while self.wall < until {
                                self.go(false);
                            }
                        }
                    }
                }
                self.busy.saturating_sub(busy).as_secs_f64()
                    / self.wall.saturating_sub(wall).as_secs_f64()
            };
            (0..stretches).map(one).collect()
        }
    }

    fn shared(others: fn(Duration) -> f64) -> (Shared, DutyCycle) {
        let shared = Shared {
            wall: Duration::from_secs(100),
            busy: Duration::from_secs(3),
            wanted: Duration::ZERO,
            is_theirs: false,
            others,
        };
        let duty = DutyCycle::new(Intensity::new(0.6), shared.wall, shared.busy).together();
        (shared, duty)
    }

    #[test]
    fn together_with_others_that_come_and_go_each_second_has_its_share() {
        let others: [fn(Duration) -> f64; 5] = [
            |_| 0.0,
            |_| 0.35,
            // A second with, a second without.
            |wall| if wall.as_secs() % 2 == 0 { 0.5 } else { 0.0 },
            // 30 ms of each 70.
            |wall| {
                if wall.as_millis() % 70 < 30 {
                    0.55
                } else {
                    0.1
                }
            },
            // Slowly up and down.
            |wall| 0.28 + 0.25 * (wall.as_secs_f64() * 0.9).sin(),
        ];
        for (index, others) in others.into_iter().enumerate() {
            let (mut shared, mut duty) = shared(others);
            for load in shared.run(&mut duty, 60, Duration::from_secs(1)) {
                assert!((load - 0.6).abs() < 0.012, "others {index}: {load}");
            }
        }
    }

    #[test]
    fn what_others_take_beyond_the_share_is_not_missing_when_they_have_gone() {
        let (mut shared, mut duty) = shared(|wall| if wall.as_secs() < 160 { 0.9 } else { 0.0 });
        for load in shared.run(&mut duty, 60, Duration::from_secs(1)) {
            assert!((0.89..0.95).contains(&load), "{load}");
        }
        let after = shared.run(&mut duty, 10, Duration::from_secs(1));
        assert!((0.575..0.605).contains(&after[0]), "{after:?}");
        assert!(
            after[1..].iter().all(|load| (load - 0.6).abs() < 0.01),
            "{after:?}"
        );
    }

    #[test]
    fn clocks_that_stand_or_go_back_do_no_harm() {
        let mut duty = DutyCycle::new(Intensity::new(0.5), WINDOW, WINDOW);
        assert!(matches!(
            duty.next(Duration::ZERO, Duration::ZERO),
            Duty::Work(_)
        ));
        assert!(matches!(
            duty.next(Duration::MAX / 4, Duration::ZERO),
            Duty::Work(_)
        ));
        assert!(matches!(
            duty.next(Duration::MAX / 4, Duration::MAX),
            Duty::Sleep(_)
        ));
    }
}
