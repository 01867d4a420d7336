//! Linear algebra of a few rows: what least squares with bounds needs.

/// The inverse of a symmetric, positive matrix, given by rows, by Cholesky's decomposition; `None` if it is not positive.
pub(super) fn invert(a: &[f64], len: usize) -> Option<Vec<f64>> {
    let lower = cholesky(a, len)?;
    let mut inverse = vec![0.0; len * len];
    let mut unit = vec![0.0; len];
    for column in 0..len {
        unit.fill(0.0);
        unit[column] = 1.0;
        for (row, value) in substitute(&lower, &unit).into_iter().enumerate() {
            inverse[row * len + column] = value;
        }
    }
    Some(inverse)
}

fn cholesky(a: &[f64], len: usize) -> Option<Vec<f64>> {
    let mut lower = vec![0.0; len * len];
    for row in 0..len {
        for column in 0..=row {
            let known: f64 = (0..column)
                .map(|k| lower[row * len + k] * lower[column * len + k])
                .sum();
            let left = a[row * len + column] - known;
            lower[row * len + column] = if row == column {
                if !(left.is_finite() && left > 0.0) {
                    return None;
                }
                left.sqrt()
            } else {
                left / lower[column * len + column]
            };
        }
    }
    Some(lower)
}

fn substitute(lower: &[f64], b: &[f64]) -> Vec<f64> {
    let len = b.len();
    let mut x = b.to_vec();
    for row in 0..len {
        let known: f64 = (0..row).map(|k| lower[row * len + k] * x[k]).sum();
        x[row] = (x[row] - known) / lower[row * len + row];
    }
    for row in (0..len).rev() {
        let known: f64 = (row + 1..len).map(|k| lower[k * len + row] * x[k]).sum();
        x[row] = (x[row] - known) / lower[row * len + row];
    }
    x
}

pub(super) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}

/// One row of a least-squares problem: `coefficients . x` is to be `value`, as much as `weight` says.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) coefficients: Vec<f64>,
    pub(super) value: f64,
    pub(super) weight: f64,
}

/// The `x`, each 0 to 1, that the rows ask for, no further from `start` than pays: `reluctance` is what a move of each costs. Coordinate descent, which ends
/// at the minimum since the problem is convex and its bounds are of one variable each.
pub(super) fn bounded_least_squares(rows: &[Row], start: &[f64], reluctance: &[f64]) -> Vec<f64> {
    /// Far more than problems of eight variables have taken, which is some tens.
    const SWEEPS: usize = 400;
    /// Intensities are not told apart below this.
    const ENOUGH: f64 = 1e-7;
    let len = start.len();
    let mut normal = vec![0.0; len * len];
    let mut right = vec![0.0; len];
    for row in rows {
        for i in 0..len {
            let weighted = row.weight * row.coefficients[i];
            right[i] += weighted * row.value;
            for j in 0..len {
                normal[i * len + j] += weighted * row.coefficients[j];
            }
        }
    }
    for i in 0..len {
        normal[i * len + i] += reluctance[i];
        right[i] += reluctance[i] * start[i];
    }
    let mut x = start.to_vec();
    for _ in 0..SWEEPS {
        let mut moved = 0.0_f64;
        for i in 0..len {
            let own = normal[i * len + i];
            if own <= 0.0 || !own.is_finite() {
                continue;
            }
            let others = dot(&normal[i * len..][..len], &x) - own * x[i];
            let next = ((right[i] - others) / own).clamp(0.0, 1.0);
            if next.is_nan() {
                continue;
            }
            moved = moved.max((next - x[i]).abs());
            x[i] = next;
        }
        if moved < ENOUGH {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(coefficients: &[f64], value: f64) -> Row {
        Row {
            coefficients: coefficients.to_vec(),
            value,
            weight: 1.0,
        }
    }

    #[test]
    fn an_inverse_undoes_what_a_matrix_does() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            let len = random.usize(1..=8);
            let factor: Vec<f64> = (0..len * len).map(|_| random.f64() - 0.5).collect();
            let mut a = vec![0.0; len * len];
            for i in 0..len {
                for j in 0..len {
                    a[i * len + j] = dot(&factor[i * len..][..len], &factor[j * len..][..len]);
                }
                a[i * len + i] += 0.1;
            }
            let x: Vec<f64> = (0..len).map(|_| random.f64()).collect();
            let b: Vec<f64> = (0..len).map(|i| dot(&a[i * len..][..len], &x)).collect();
            let inverse = invert(&a, len).unwrap();
            for i in 0..len {
                let found = dot(&inverse[i * len..][..len], &b);
                assert!((found - x[i]).abs() < 1e-6);
            }
        }
        assert_eq!(invert(&[1.0, 2.0, 2.0, 1.0], 2), None);
        assert_eq!(invert(&[f64::NAN], 1), None);
    }

    #[test]
    fn bounds_hold_and_what_is_left_is_shared_out_again() {
        let free = bounded_least_squares(
            &[row(&[1.0, 0.5], 0.4), row(&[0.0, 1.0], 0.2)],
            &[0.0, 0.0],
            &[1e-9; 2],
        );
        assert!(
            (free[0] - 0.3).abs() < 1e-4 && (free[1] - 0.2).abs() < 1e-4,
            "{free:?}"
        );
        // 1 is at most had of the first; the second makes up for it.
        let bound = bounded_least_squares(&[row(&[1.0, 0.5], 1.25)], &[1.0, 0.0], &[1e-9; 2]);
        assert!(
            (bound[0] - 1.0).abs() < 1e-4 && (bound[1] - 0.5).abs() < 1e-4,
            "{bound:?}"
        );
        let beyond = bounded_least_squares(&[row(&[1.0, 0.5], 9.0)], &[0.0, 0.0], &[1e-9; 2]);
        assert_eq!(beyond, [1.0, 1.0]);
    }

    #[test]
    fn what_is_not_a_number_moves_nothing() {
        let x = bounded_least_squares(
            &[row(&[f64::NAN, 1.0], f64::INFINITY)],
            &[0.5, 0.5],
            &[0.0; 2],
        );
        assert!(x.iter().all(|x| (0.0..=1.0).contains(x)), "{x:?}");
    }
}
