//! Whole replays, over simulated plants in virtual time.

mod caches;
mod noise;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod processor;

use core::time::Duration;

use super::judge::{Judge, Outcome};
use super::plant::Plant;
use super::replay::{CLOSED_TOLERANCE, Replay};
use super::schedule::{End, Schedule};
use super::simulated::{Simulated, coupled, machine};
use crate::loadgen::Intensity;
use crate::units::Time;

const PERIOD: Duration = Duration::from_millis(200);
const TEN_SECONDS: Duration = Duration::from_secs(10);

/// What was measured, and what was true.
struct Run {
    measured: Outcome,
    truth: Outcome,
    replay: Replay,
    /// The intensities, step by step.
    intensities: Vec<Vec<f64>>,
}

impl Run {
    fn check_bounds(&self) {
        let mut all = self.intensities.iter().flatten();
        assert!(all.all(|x| (0.0..=1.0).contains(x)));
    }
}

/// Replays for so long. Each step, `meddle` may change the plant.
fn run(
    mut replay: Replay,
    plant: &mut Simulated,
    targets: &Schedule,
    seconds: u64,
    mut meddle: impl FnMut(u64, &mut Simulated),
) -> Run {
    let scales = targets
        .rows()
        .iter()
        .fold(vec![0.0_f64; plant.metrics().len()], |scales, row| {
            scales.iter().zip(row).map(|(a, b)| a.max(*b)).collect()
        });
    let mut truth = Judge::new(&scales, CLOSED_TOLERANCE, Time::ZERO);
    let mut intensities = Vec::new();
    let mut origin = None;
    let mut now = Time::ZERO;
    replay.tick(now, plant);
    for step in 0..seconds * 5 {
        meddle(step, plant);
        let from = now;
        now = now + PERIOD;
        let elapsed = origin.map_or(Duration::ZERO, |origin| from.saturating_since(origin));
        replay.tick(now, plant);
        truth.record(from, now, &plant.truth, targets.at(elapsed));
        if replay.is_holding() {
            origin = origin.or(Some(now));
        }
        if let Some(controller) = replay.controller() {
            intensities.push(controller.intensities().to_vec());
        }
    }
    Run {
        measured: replay.outcome(),
        truth: truth.outcome(),
        replay,
        intensities,
    }
}

fn closed(plant: &mut Simulated, targets: &Schedule, seconds: u64) -> Run {
    let start = vec![Intensity::NONE; plant.actuators().len()];
    run(
        Replay::closed(targets.clone(), &start),
        plant,
        targets,
        seconds,
        |_, _| {},
    )
}

/// What a plant makes of intensities that leave it room on both sides.
fn reachable(plant: &Simulated, seed: u64, most: f64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x7a46);
    let actuators = plant.actuators().len();
    let intensities: Vec<f64> = (0..actuators)
        .map(|_| 0.12 + (most - 0.12) * random.f64())
        .collect();
    plant.settled(&intensities)
}

/// All plants of a seed: plain, slow, with more actuators than metrics.
fn plants(seed: u64) -> Vec<(&'static str, Simulated, Vec<f64>)> {
    let of = |name, plant: Simulated, most| {
        let target = reachable(&plant, seed, most);
        (name, plant, target)
    };
    vec![
        of("machine", machine(seed).noise(0.015).wander(0.01), 0.4),
        of(
            "slow machine",
            machine(seed).noise(0.01).wander(0.01).slow(0.4, 0.2),
            0.4,
        ),
        of(
            "coupled",
            coupled(seed, 4, 4).noise(0.01).wander(0.01).slow(0.2, 0.2),
            0.7,
        ),
        of(
            "more actuators",
            coupled(seed, 4, 6).noise(0.01).wander(0.01).slow(0.2, 0.0),
            0.5,
        ),
        of("six", coupled(seed, 6, 6).noise(0.005).wander(0.005), 0.6),
    ]
}

/// How many of so many seeds converge in time, and how they hold.
fn judge_plants(index: usize, seeds: u64) -> (usize, Vec<String>) {
    let mut in_time = 0;
    let mut wrong = Vec::new();
    for seed in 0..seeds {
        let (name, mut plant, target) = plants(seed).swap_remove(index);
        let run = closed(&mut plant, &Schedule::constant(target), 40);
        let is_in_time =
            |outcome: &Outcome| outcome.converged.is_some_and(|time| time <= TEN_SECONDS);
        in_time += usize::from(is_in_time(&run.measured) && is_in_time(&run.truth));
        for outcome in [&run.truth, &run.measured] {
            for (metric, found) in outcome.metrics.iter().enumerate() {
                let mean = found.ratio().unwrap_or(0.0);
                if outcome.converged.is_none()
                    || found.ripple > 0.02
                    || (mean - 1.0).abs() > 0.02
                    || found.within < 0.9
                {
                    wrong.push(format!("{name}, seed {seed}, metric {metric}: {found:?}"));
                }
            }
        }
    }
    (in_time, wrong)
}

/// Issue: within 2 % of four metrics at once in 10 s of the plant's time, ripple at most 2 %.
#[test]
fn four_metrics_at_once_converge_in_ten_seconds_and_stay() {
    for (index, least) in [(0, 100), (2, 100), (3, 100), (4, 100)] {
        let (in_time, wrong) = judge_plants(index, 100);
        assert!(in_time >= least, "plant {index}: {in_time} of 100 in time");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[test]
fn a_slow_machine_near_saturation_converges_too() {
    let (in_time, wrong) = judge_plants(1, 100);
    assert!(in_time >= 97, "{in_time} of 100 in time");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_reached_is_not_left_far_behind() {
    for seed in 0..50 {
        let (name, mut plant, target) = plants(seed).swap_remove((seed % 5) as usize);
        let scales = target.clone();
        let start = vec![Intensity::NONE; plant.actuators().len()];
        let mut replay = Replay::closed(Schedule::constant(target), &start);
        let mut now = Time::ZERO;
        let mut most = 0.0_f64;
        for _ in 0..200 {
            replay.tick(now, &mut plant);
            now = now + PERIOD;
            if replay.is_holding() {
                let over = plant
                    .truth
                    .iter()
                    .zip(&scales)
                    .map(|(truth, scale)| truth / scale);
                most = most.max(over.fold(0.0, f64::max));
            }
        }
        assert!(most < 1.3, "{name}, seed {seed}: {most}");
    }
}

#[test]
fn what_cannot_be_had_is_named_and_the_others_are_held() {
    for seed in 0..50 {
        let mut plant = machine(seed).noise(0.01).wander(0.005);
        let mut target = plant.settled(&[0.2, 0.2, 0.15, 0.2]);
        // Twice what all of the processor makes.
        target[1] = 2.0 * plant.settled(&[0.0, 1.0, 0.0, 0.0])[1];
        let run = closed(&mut plant, &Schedule::constant(target.clone()), 30);
        let short = run.replay.shortfalls();
        let found = short.iter().find(|short| short.metric == 1);
        let found = found.unwrap_or_else(|| panic!("seed {seed}: {short:?}"));
        assert!(
            (found.asked - target[1]).abs() < 1e-6 && found.reached < 0.7 * target[1],
            "seed {seed}: {found:?}"
        );
        assert!(run.measured.converged.is_none());
        run.check_bounds();
    }
}

#[test]
fn one_that_only_its_own_actuator_moves_is_named_with_its_bound_and_the_others_converge() {
    for seed in 0..50 {
        let mut plant = coupled(seed, 4, 4).noise(0.01);
        let intensities = [0.4, 0.3, 0.5, 0.3];
        let mut target = plant.settled(&intensities);
        let alone = plant.settled(&[1.0, 1.0, 1.0, 1.0]);
        target[0] = 2.0 * alone[0].max(target[0]);
        let run = closed(&mut plant, &Schedule::constant(target.clone()), 30);
        let short = run.replay.shortfalls();
        assert_eq!(
            short.iter().map(|short| short.metric).collect::<Vec<_>>(),
            [0],
            "seed {seed}: {short:?}"
        );
        assert!(
            short[0].bounds.contains(&(0, super::Bound::Upper)),
            "seed {seed}: {short:?}"
        );
        for metric in 1..4 {
            let ratio = run.truth.metrics[metric].ratio().unwrap();
            assert!(
                run.truth.metrics[metric].converged.is_some(),
                "seed {seed}, metric {metric}: {ratio}"
            );
        }
    }
}

/// Nothing winds up while a target is out of reach: when it is back in reach, it is reached as quickly as any other.
#[test]
fn after_a_target_out_of_reach_the_next_is_reached_in_three_seconds() {
    for seed in 0..50 {
        let mut plant = coupled(seed, 4, 4).noise(0.005).slow(0.1, 0.1);
        let near = plant.settled(&[0.4, 0.3, 0.5, 0.3]);
        let mut far = near.clone();
        far[0] = 2.0 * plant.settled(&[1.0; 4])[0].max(near[0]);
        let rows = [vec![far; 20], vec![near.clone(); 20]].concat();
        let targets = Schedule::new(Duration::from_secs(1), End::Hold, rows).unwrap();
        let mut replay = Replay::closed(targets, &[Intensity::NONE; 4]);
        let mut now = Time::ZERO;
        let mut origin = None;
        let mut sums = vec![Vec::new(); 4];
        for _ in 0..200 {
            replay.tick(now, &mut plant);
            if replay.is_holding() {
                origin = origin.or(Some(now));
            }
            now = now + PERIOD;
            let elapsed = origin.map_or(0.0, |origin| now.saturating_since(origin).as_secs_f64());
            if (23.2..25.0).contains(&elapsed) {
                for (sum, truth) in sums.iter_mut().zip(&plant.truth) {
                    sum.push(*truth);
                }
            }
        }
        for (metric, sum) in sums.iter().enumerate() {
            let mean = sum.iter().sum::<f64>() / sum.len() as f64;
            assert!(
                (mean / near[metric] - 1.0).abs() < 0.03,
                "seed {seed}, metric {metric}: {}",
                mean / near[metric]
            );
        }
    }
}

/// Something else begins during the steps, and ends after them: what was learned is of that, and is learned again.
#[test]
fn steps_that_something_else_went_on_in_are_made_again() {
    for seed in 0..50 {
        let mut plant = machine(seed).noise(0.01);
        let targets = Schedule::constant(plant.settled(&[0.3, 0.2, 0.2, 0.2]));
        let start = [Intensity::NONE; 4];
        let run = run(
            Replay::closed(targets.clone(), &start),
            &mut plant,
            &targets,
            60,
            |step, plant| match step {
                0 => {
                    plant.backgrounds[0] = 3.0;
                    plant.backgrounds[1] = 60_000.0;
                }
                8 => {
                    plant.backgrounds[0] = 0.05;
                    plant.backgrounds[1] = 400.0;
                }
                _ => {}
            },
        );
        assert!(
            run.truth.converged.is_some(),
            "seed {seed}: {:?} {:?}",
            run.truth,
            run.replay.shortfalls()
        );
    }
}

#[test]
fn a_profile_that_goes_with_time_is_followed() {
    let mut errors = Vec::new();
    for seed in 0..50 {
        let mut plant = coupled(seed, 4, 4).noise(0.01);
        let mut random = fastrand::Rng::with_seed(seed);
        let rows: Vec<Vec<f64>> = (0..10)
            .map(|_| {
                let intensities: Vec<f64> = (0..4).map(|_| 0.25 + 0.3 * random.f64()).collect();
                plant.settled(&intensities)
            })
            .collect();
        let targets = Schedule::new(Duration::from_secs(4), End::Repeat, rows).unwrap();
        let start = [Intensity::NONE; 4];
        let run = run(
            Replay::closed(targets.clone(), &start),
            &mut plant,
            &targets,
            120,
            |_, _| {},
        );
        errors.extend(run.truth.metrics.iter().map(|metric| 1.0 - metric.within));
        for metric in &run.truth.metrics {
            assert!(
                (metric.ratio().unwrap() - 1.0).abs() < 0.02,
                "seed {seed}: {metric:?}"
            );
        }
        // The intensities it found are as many as the intervals, and do as well.
        let parameters = run.replay.parameters().unwrap();
        assert_eq!(parameters.rows().len(), 10);
        let open = self::run(
            Replay::open(targets.clone(), parameters),
            &mut plant,
            &targets,
            80,
            |_, _| {},
        );
        for metric in &open.truth.metrics {
            assert!(
                (metric.ratio().unwrap() - 1.0).abs() < 0.05,
                "seed {seed}: {metric:?}"
            );
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(
        mean < 0.3,
        "{mean} of all seconds are further than 2 % away"
    );
}

#[test]
fn a_background_that_jumps_is_made_up_for() {
    for seed in 0..50 {
        let mut plant = machine(seed).noise(0.01);
        let targets = Schedule::constant(plant.settled(&[0.3, 0.2, 0.2, 0.2]));
        let start = [Intensity::NONE; 4];
        let mut truth = Judge::new(&targets.rows()[0], 0.02, Time::from_nanos(25_000_000_000));
        let mut replay = Replay::closed(targets.clone(), &start);
        let mut now = Time::ZERO;
        for step in 0..250 {
            if step == 100 {
                plant.backgrounds[0] += 0.08;
                plant.backgrounds[1] += 4000.0;
            }
            replay.tick(now, &mut plant);
            if step > 125 {
                truth.record(now - PERIOD, now, &plant.truth, &targets.rows()[0]);
            }
            now = now + PERIOD;
        }
        let outcome = truth.outcome();
        // Five seconds after the jump.
        assert!(
            outcome
                .converged
                .is_some_and(|time| time <= Duration::from_secs(4)),
            "seed {seed}: {outcome:?}"
        );
    }
}

#[test]
fn stored_parameters_replay_in_open_loop_within_five_percent() {
    for seed in 0..60 {
        for (name, mut plant, target) in plants(seed) {
            // What wanders cannot be made up for in open loop; it is of other tests.
            plant = plant.wander(0.0);
            let targets = Schedule::constant(target);
            let found = closed(&mut plant, &targets, 30);
            let parameters = found.replay.parameters().unwrap();
            let open = run(
                Replay::open(targets.clone(), parameters),
                &mut plant,
                &targets,
                20,
                |_, _| {},
            );
            for (metric, outcome) in open.measured.metrics.iter().enumerate() {
                let ratio = outcome.ratio().unwrap();
                assert!(
                    (ratio - 1.0).abs() < 0.05,
                    "{name}, seed {seed}, metric {metric}: {ratio}"
                );
            }
            assert!(open.measured.converged.is_some(), "{name}, seed {seed}");
        }
    }
}

#[test]
fn fewer_actuators_than_metrics_is_a_compromise_that_is_named() {
    for seed in 0..50 {
        let mut plant = coupled(seed, 4, 2).noise(0.005);
        let target = coupled(seed + 1, 4, 4).settled(&[0.3; 4]);
        let scales = plant.settled(&[0.3; 2]);
        let target: Vec<f64> = scales
            .iter()
            .zip(&target)
            .map(|(scale, other)| scale * (1.0 + (other % 1.0)))
            .collect();
        let run = closed(&mut plant, &Schedule::constant(target), 30);
        let is_reached = run.measured.converged.is_some();
        assert!(
            is_reached || !run.replay.shortfalls().is_empty(),
            "seed {seed}: {:?}",
            run.measured
        );
        run.check_bounds();
    }
}

#[test]
fn whatever_a_plant_says_intensities_are_numbers_within_their_bounds() {
    let mut lies: Vec<Box<dyn FnMut(f64) -> f64>> = vec![
        Box::new(|_| f64::NAN),
        Box::new(|_| f64::INFINITY),
        Box::new(|_| f64::NEG_INFINITY),
        Box::new(|truth| -truth),
        Box::new(|_| 0.0),
        Box::new(|_| f64::MAX),
        Box::new(|_| f64::MIN_POSITIVE),
    ];
    let mut random = fastrand::Rng::with_seed(1);
    lies.push(Box::new(move |truth| match random.u8(0..8) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => -1.0,
        3 => 1e300,
        _ => truth,
    }));
    for (number, lie) in lies.into_iter().enumerate() {
        let mut plant = coupled(number as u64, 3, 4);
        let target = plant.settled(&[0.3; 4]);
        plant.lie = Some(lie);
        let run = closed(&mut plant, &Schedule::constant(target), 30);
        assert!(
            run.intensities
                .iter()
                .flatten()
                .all(|x| (0.0..=1.0).contains(x)),
            "lie {number}"
        );
        for metric in &run.measured.metrics {
            assert!(
                metric.reached.is_finite() && metric.ripple.is_finite(),
                "lie {number}: {metric:?}"
            );
        }
    }
}

#[test]
fn a_clock_that_stands_still_or_jumps_is_lived_through() {
    let mut plant = coupled(4, 4, 4).noise(0.005);
    let target = plant.settled(&[0.3, 0.5, 0.4, 0.2]);
    let mut replay = Replay::closed(Schedule::constant(target.clone()), &[Intensity::NONE; 4]);
    let mut random = fastrand::Rng::with_seed(9);
    let mut nanos = 0_u64;
    for step in 0..600 {
        replay.tick(Time::from_nanos(nanos), &mut plant);
        nanos = match random.u8(0..20) {
            0 => nanos,
            1 => nanos.saturating_sub(3_000_000_000),
            2 if step < 500 => nanos + 60_000_000_000,
            _ => nanos + 200_000_000,
        };
    }
    for _ in 0..100 {
        nanos += 200_000_000;
        replay.tick(Time::from_nanos(nanos), &mut plant);
    }
    for (truth, target) in plant.truth.iter().zip(&target) {
        assert!(
            (truth / target - 1.0).abs() < 0.03,
            "{:?} {target:?}",
            plant.truth
        );
    }
    replay.tick(Time::from_nanos(u64::MAX), &mut plant);
    let controller = replay.controller().unwrap();
    assert!(
        controller
            .intensities()
            .iter()
            .all(|x| (0.0..=1.0).contains(x))
    );
}

#[test]
fn nothing_to_control_is_no_fault() {
    let mut plant = coupled(1, 1, 1);
    let mut replay = Replay::closed(Schedule::constant(vec![0.0]), &[]);
    let mut open = Replay::open(Schedule::constant(vec![]), Schedule::constant(vec![]));
    for step in 0..100 {
        replay.tick(Time::from_nanos(step * 200_000_000), &mut plant);
        open.tick(Time::from_nanos(step * 200_000_000), &mut plant);
    }
    assert!(replay.outcome().converged.is_none());
}
