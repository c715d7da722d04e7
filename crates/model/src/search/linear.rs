//! Cholesky decomposition of small symmetric positive definite matrices.
//!
//! A system has one row per fitted factor, a dozen or so, so no linear-algebra crate is needed.

/// Cholesky factor of a symmetric positive definite matrix: lower triangle L with L L' = matrix.
#[derive(Debug, Clone)]
pub(super) struct Cholesky(Vec<Vec<f64>>);

impl Cholesky {
    /// `None` if the matrix is not positive definite.
    pub fn of(matrix: &[Vec<f64>]) -> Option<Self> {
        let mut lower: Vec<Vec<f64>> = Vec::with_capacity(matrix.len());
        for (i, given) in matrix.iter().enumerate() {
            let mut row = vec![0.0; matrix.len()];
            for j in 0..=i {
                let other = if j < i { &lower[j] } else { &row };
                let known: f64 = (0..j).map(|k| row[k] * other[k]).sum();
                let rest = given[j] - known;
                if j < i {
                    row[j] = rest / lower[j][j];
                } else if rest > 0.0 {
                    row[i] = rest.sqrt();
                } else {
                    return None;
                }
            }
            lower.push(row);
        }
        Some(Cholesky(lower))
    }

    /// Solution x of L L' x = right, by forward and back substitution.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut x = right.to_vec();
        for i in 0..x.len() {
            let known: f64 = (0..i).map(|k| self.0[i][k] * x[k]).sum();
            x[i] = (x[i] - known) / self.0[i][i];
        }
        self.solve_upper(x)
    }

    /// Solution of L' x = right.
    ///
    /// If `right` is standard normal noise, the covariance of x is the inverse of the matrix.
    pub fn solve_upper(&self, mut right: Vec<f64>) -> Vec<f64> {
        for i in (0..right.len()).rev() {
            let known: f64 = (i + 1..right.len()).map(|k| self.0[k][i] * right[k]).sum();
            right[i] = (right[i] - known) / self.0[i][i];
        }
        right
    }

    /// Square roots of the diagonal of the inverse: standard deviations, if the matrix is a
    /// precision.
    pub fn deviations(&self) -> Vec<f64> {
        let count = self.0.len();
        let unit = |k: usize| (0..count).map(|i| f64::from(u8::from(i == k))).collect();
        (0..count)
            .map(|k| {
                let unit: Vec<f64> = unit(k);
                self.solve(&unit)[k].max(0.0).sqrt()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::SplitMix;

    fn matrix() -> Vec<Vec<f64>> {
        vec![
            vec![4.0, 1.0, 0.0],
            vec![1.0, 3.0, -1.0],
            vec![0.0, -1.0, 5.0],
        ]
    }

    #[test]
    fn systems_are_solved_and_impossible_ones_refused() {
        let x = Cholesky::of(&matrix()).unwrap().solve(&[6.0, 4.0, 13.0]);
        let close = |(a, b): (&f64, f64)| (a - b).abs() < 1e-12;
        assert!(x.iter().zip([1.0, 2.0, 3.0]).all(close), "{x:?}");
        assert!(Cholesky::of(&[vec![1.0, 2.0], vec![2.0, 1.0]]).is_none());
    }

    #[test]
    fn samples_have_the_deviations_that_are_claimed() {
        let factor = Cholesky::of(&matrix()).unwrap();
        let mut random = SplitMix::new(3);
        let mut squares = [0.0; 3];
        for _ in 0..20_000 {
            let x = factor.solve_upper((0..3).map(|_| random.normal()).collect());
            squares
                .iter_mut()
                .zip(x)
                .for_each(|(s, x)| *s += x * x / 2e4);
        }
        for (square, deviation) in squares.iter().zip(factor.deviations()) {
            assert!((square.sqrt() / deviation - 1.0).abs() < 0.03);
        }
    }
}
