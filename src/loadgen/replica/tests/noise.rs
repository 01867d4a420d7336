//! A metric that comes with more noise than is asked of it.

use super::super::simulated::machine;
use super::*;

/// From here on, in steps of 200 ms, the loop is taken to have found what it will.
const LATE: u64 = 60 * 5;

/// The standard deviation as a share of the mean.
fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len() as f64).sqrt() / mean
}

/// As the latency of memory is on a virtual machine: from one second to the next it varies by a tenth with nothing going on.
#[test]
fn noise_is_not_chased_and_said() {
    let mut worst = (0.0_f64, 0.0_f64);
    for seed in 0..30 {
        let mut plant = machine(seed).noise(0.01).wander(0.005).chatter(3, 0.1, 0.7);
        let targets = Schedule::constant(plant.settled(&[0.2, 0.2, 0.15, 0.25]));
        let mut late = Vec::new();
        let start = [Intensity::NONE; 4];
        let run = run(
            Replay::closed(targets.clone(), &start),
            &mut plant,
            &targets,
            90,
            |step, plant| {
                if step > LATE {
                    late.push(plant.truth[3]);
                }
            },
        );
        for (metric, found) in run.truth.metrics.iter().enumerate() {
            // No nearer than its noise.
            let bound = if metric == 3 { 0.1 } else { 0.02 };
            assert!(
                (found.ratio().unwrap() - 1.0).abs() < bound,
                "seed {seed}, metric {metric}: {found:?}"
            );
        }
        // The others stay, once what it does to them in its first seconds is over.
        for metric in 0..3 {
            let found = &run.measured.metrics[metric];
            assert!(
                found.converged.is_some_and(|time| time <= 2 * TEN_SECONDS),
                "seed {seed}, metric {metric}: {found:?}"
            );
            let ripple = run.truth.metrics[metric].ripple;
            assert!(ripple < 0.02, "seed {seed}, metric {metric}: {ripple}");
            assert!(
                found.noise < 0.02,
                "seed {seed}, metric {metric}: {found:?}"
            );
        }
        let noisy = &run.measured.metrics[3];
        assert!(
            (0.04..0.15).contains(&noisy.noise),
            "seed {seed}: {noisy:?}"
        );
        // What of its noise comes through to the leech, and to the metric.
        let leech = run.intensities.iter().skip(LATE as usize);
        worst.0 = worst.0.max(spread(leech.map(|row| row[3])));
        worst.1 = worst.1.max(spread(late.into_iter()));
    }
    println!("leech {:.3}, metric {:.4}", worst.0, worst.1);
    assert!(worst.0 < 0.2 && worst.1 < 0.04, "{worst:?}");
}

/// What is no noise is followed as before: see the other tests. A background that jumps by more than the noise is, too.
#[test]
fn a_jump_out_of_the_noise_is_followed() {
    for seed in 0..30 {
        let mut plant = machine(seed).noise(0.01).chatter(3, 0.05, 0.7);
        let targets = Schedule::constant(plant.settled(&[0.2, 0.2, 0.15, 0.3]));
        let start = [Intensity::NONE; 4];
        let mut last = Vec::new();
        run(
            Replay::closed(targets.clone(), &start),
            &mut plant,
            &targets,
            120,
            |step, plant| {
                if step == 30 * 5 {
                    plant.backgrounds[3] += 6.0;
                }
                if step > 100 * 5 {
                    last.push(plant.truth[3]);
                }
            },
        );
        let mean = last.iter().sum::<f64>() / last.len() as f64;
        let ratio = mean / targets.rows()[0][3];
        assert!((ratio - 1.0).abs() < 0.05, "seed {seed}: {ratio}");
    }
}

/// As the latency of memory is where others on the host take it: noisy, and for some tenths of a second, now and then, twice what it is else. Whoever takes that for a change switches
/// the leech off at once, and needs a minute to come back.
#[test]
fn bursts_of_a_noisy_metric_are_let_pass() {
    let (mut least, mut most, mut furthest) = (1.0_f64, 0.0_f64, 0.0_f64);
    for seed in 0..30 {
        let mut plant = machine(seed).noise(0.01).chatter(3, 0.04, 0.7);
        let targets = Schedule::constant(plant.settled(&[0.2, 0.2, 0.15, 0.2]));
        let start = [Intensity::NONE; 4];
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut until, mut next) = (0, 12 * 5);
        let mut calm = Vec::new();
        run(
            Replay::closed(targets.clone(), &start),
            &mut plant,
            &targets,
            60,
            |step, plant| {
                if step > 15 * 5 && step > until {
                    calm.push(plant.truth[3] / targets.rows()[0][3]);
                }
                if step == next {
                    until = step + 2;
                    next = step + random.u64(20..45);
                }
                plant.backgrounds[3] = if step < until { 54.0 } else { 18.0 };
            },
        );
        least = calm.iter().copied().fold(least, f64::min);
        most = calm.iter().copied().fold(most, f64::max);
        let mean = calm.iter().sum::<f64>() / calm.len() as f64;
        furthest = furthest.max((mean - 1.0).abs());
    }
    println!("beside bursts {least:.3} to {most:.3} of what is asked, means off by {furthest:.4}");
    assert!(
        least > 0.85 && most < 1.1 && furthest < 0.1,
        "{least} {most} {furthest}"
    );
}

/// A burst while the controller finds out what leeches do has them seem to do something else: of a leech that seemed to take from the latency, all was asked since there was too much of it. Who knows that none
/// ever takes from it does not.
#[test]
fn a_burst_in_the_steps_does_not_turn_what_a_leech_does_around() {
    let start = [Intensity::NONE; 4];
    let highest = |is_known: bool| -> Vec<f64> {
        let of_seed = |seed| {
            let mut plant = machine(seed).noise(0.01).chatter(3, 0.04, 0.7);
            if is_known {
                plant.raises = vec![(1, 1), (2, 2), (3, 3)];
            }
            let targets = Schedule::constant(plant.settled(&[0.2, 0.2, 0.15, 0.2]));
            let begun = 6 + seed % 8;
            let run = run(
                Replay::closed(targets.clone(), &start),
                &mut plant,
                &targets,
                30,
                |step, plant| {
                    let is_burst = (begun..begun + 2).contains(&step);
                    plant.backgrounds[3] = if is_burst { 54.0 } else { 18.0 };
                },
            );
            let held = run.intensities.iter().skip(16);
            held.map(|row| row[3]).fold(0.0, f64::max)
        };
        (0..40).map(of_seed).collect()
    };
    let far = |highest: Vec<f64>| highest.into_iter().filter(|most| *most > 0.4).count();
    let (unknown, known) = (far(highest(false)), far(highest(true)));
    println!("of 40 leeches of memory, at .2, above .4 on the way: {unknown} and {known}");
    assert!(unknown > 3 && known == 0, "{unknown} {known}");
}
