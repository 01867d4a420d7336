//! Whether memory grew.

use crate::gauge::Held;

/// How much more the later half may have held, of the earlier.
const TOLERANCE: f64 = 0.02;

/// What part of the samples comes before everything has happened often enough. Arbitrary.
const WARM_UP: f64 = 1.0 / 6.0;

/// What was held, over time.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    resident: Vec<f64>,
    heap: Vec<f64>,
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// The means of the first and the second half of what follows the warm-up.
fn halves(samples: &[f64]) -> (f64, f64) {
    let warm = &samples[(samples.len() as f64 * WARM_UP) as usize..];
    let (first, second) = warm.split_at(warm.len() / 2);
    (mean(first), mean(second))
}

impl Verdict {
    pub(crate) fn sample(&mut self, held: &Held) {
        self.resident.push(held.resident as f64);
        self.heap.push(held.heap as f64);
    }

    /// Whether the heap and resident memory both kept within bounds.
    pub(crate) fn print(&self) -> bool {
        let mut holds = true;
        for (name, samples) in [("heap", &self.heap), ("resident", &self.resident)] {
            let (first, second) = halves(samples);
            let growth = second / first - 1.0;
            println!(
                "{name}: {:.1} MB in the first half, {:.1} MB in the second: {:+.2} %, {} samples",
                first / 1e6,
                second / 1e6,
                growth * 100.0,
                samples.len()
            );
            holds &= growth.abs() <= TOLERANCE;
        }
        holds
    }
}
