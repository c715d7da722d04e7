//! Small dense symmetric systems.
//!
//! A fit has some tens of parameters, so a page of code replaces a linear-algebra crate, which
//! would take longer to build than the rest of this crate.

/// Symmetric matrix as rows.
pub(super) type Matrix = Vec<Vec<f64>>;

/// Cholesky factor: lower triangle L with `L Lᵀ = a`; `None` if `a` is not positive definite.
fn cholesky(a: &Matrix) -> Option<Matrix> {
    let n = a.len();
    let mut l = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
            let rest = a[i][j] - dot;
            if i == j {
                if rest <= 0.0 || !rest.is_finite() {
                    return None;
                }
                l[i][i] = rest.sqrt();
            } else {
                l[i][j] = rest / l[j][j];
            }
        }
    }
    Some(l)
}

fn substitute(l: &Matrix, b: &[f64]) -> Vec<f64> {
    let n = l.len();
    let mut x = b.to_vec();
    for i in 0..n {
        let dot: f64 = (0..i).map(|k| l[i][k] * x[k]).sum();
        x[i] = (x[i] - dot) / l[i][i];
    }
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|k| l[k][i] * x[k]).sum();
        x[i] = (x[i] - dot) / l[i][i];
    }
    x
}

/// Solution `x` of `a x = b`; `None` if `a` is not positive definite.
pub(super) fn solve(a: &Matrix, b: &[f64]) -> Option<Vec<f64>> {
    Some(substitute(&cholesky(a)?, b))
}

/// Inverse of `a`; `None` if `a` is not positive definite.
pub(super) fn inverse(a: &Matrix) -> Option<Matrix> {
    let l = cholesky(a)?;
    let column = |j: usize| {
        let mut unit = vec![0.0; a.len()];
        unit[j] = 1.0;
        substitute(&l, &unit)
    };
    // The inverse is symmetric, so its columns are its rows.
    Some((0..a.len()).map(column).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn solutions_solve_and_inverses_invert(rows in prop::collection::vec(prop::collection::vec(-3.0..3.0f64, 4), 4), b in prop::collection::vec(-9.0..9.0f64, 4)) {
            // M Mᵀ + 1 is positive definite.
            let a: Matrix = (0..4).map(|i| (0..4).map(|j| {
                let dot: f64 = (0..4).map(|k| rows[i][k] * rows[j][k]).sum();
                dot + f64::from(u8::from(i == j))
            }).collect()).collect();
            let times = |x: &[f64]| -> Vec<f64> { a.iter().map(|row| row.iter().zip(x).map(|(p, q)| p * q).sum()).collect() };
            let x = solve(&a, &b).unwrap();
            for (found, wanted) in times(&x).iter().zip(&b) {
                prop_assert!((found - wanted).abs() < 1e-6);
            }
            for (j, column) in inverse(&a).unwrap().iter().enumerate() {
                for (i, found) in times(column).iter().enumerate() {
                    prop_assert!((found - f64::from(u8::from(i == j))).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn an_indefinite_matrix_is_refused() {
        assert_eq!(
            solve(&vec![vec![1.0, 2.0], vec![2.0, 1.0]], &[1.0, 1.0]),
            None
        );
    }
}
