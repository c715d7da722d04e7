//! Integer expressions over the codes of a row.

use crate::values::CodeValues;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;

/// The input of an aggregate: an integer computed from the codes of a row.
///
/// Decimals are computed as their unscaled integers. Arithmetic wraps on overflow;
/// [`Expr::interval`] says beforehand whether it can overflow.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// The same value for every row.
    Constant(i64),
    /// A column's value: `base + code`.
    Code {
        /// Index of the column in the plan.
        column: usize,
        /// The value that code 0 represents.
        base: i64,
    },
    /// A lookup table indexed by code; a code past its end gives 0.
    Mapped {
        /// Index of the column in the plan.
        column: usize,
        /// The value of each code.
        values: CodeValues,
    },
    /// The sum of two expressions.
    Add(Box<Expr>, Box<Expr>),
    /// The first expression minus the second one.
    Sub(Box<Expr>, Box<Expr>),
    /// The product of two expressions.
    Mul(Box<Expr>, Box<Expr>),
    /// 1 where a value is in a range, 0 elsewhere.
    Within {
        /// The value.
        value: Box<Expr>,
        /// The smallest value of the range, inclusive.
        low: i64,
        /// The largest value of the range, inclusive.
        high: i64,
    },
    /// 1 where a column's code is in a set, 0 elsewhere.
    InSet {
        /// Index of the column in the plan.
        column: usize,
        /// The codes.
        set: Arc<CodeSet>,
    },
    /// One of two expressions.
    Choose {
        /// Where it is not 0, the value is `then`.
        when: Box<Expr>,
        /// The value there.
        then: Box<Expr>,
        /// The value elsewhere.
        other: Box<Expr>,
    },
}

/// A range of values with both ends included.
///
/// It is wider than `i64`, so that sums of bounds do not overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The smallest value, inclusive.
    pub low: i128,
    /// The largest value, inclusive.
    pub high: i128,
}

impl Interval {
    /// The range from `low` to `high`; the caller makes sure that they are in this order.
    pub fn new(low: impl Into<i128>, high: impl Into<i128>) -> Self {
        Interval {
            low: low.into(),
            high: high.into(),
        }
    }

    /// Whether all values are between `low` and `high`, both included.
    pub fn within(&self, low: impl Into<i128>, high: impl Into<i128>) -> bool {
        low.into() <= self.low && self.high <= high.into()
    }

    /// The range of a sum of at most `rows` values; `None` if it does not fit 128 bits.
    pub fn times_rows(&self, rows: u64) -> Option<Self> {
        Some(Interval {
            // With fewer rows the sum is closer to 0, so 0 is always in the range.
            low: self.low.min(0).checked_mul(i128::from(rows))?,
            high: self.high.max(0).checked_mul(i128::from(rows))?,
        })
    }
}

impl Expr {
    /// The columns that the expression reads, ascending, each once.
    pub fn columns(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn collect(&self, found: &mut Vec<usize>) {
        match self {
            Expr::Constant(_) => {}
            Expr::Code { column, .. }
            | Expr::Mapped { column, .. }
            | Expr::InSet { column, .. } => found.push(*column),
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => {
                a.collect(found);
                b.collect(found);
            }
            Expr::Within { value, .. } => value.collect(found),
            Expr::Choose { when, then, other } => {
                for part in [when, then, other] {
                    part.collect(found);
                }
            }
        }
    }

    /// The range of its values, given the largest code of each column; `None` if it or a part of it
    /// can overflow `i64`.
    pub fn interval(&self, max_code: &dyn Fn(usize) -> u32) -> Option<Interval> {
        let result = match self {
            Expr::Constant(value) => Interval::new(*value, *value),
            Expr::Code { column, base } => {
                Interval::new(*base, i128::from(*base) + i128::from(max_code(*column)))
            }
            // A code past the end of the table counts as 0.
            Expr::Mapped { values, .. } => Interval::new(values.range().0, values.range().1),
            Expr::Add(a, b) => {
                let (a, b) = (a.interval(max_code)?, b.interval(max_code)?);
                Interval::new(a.low + b.low, a.high + b.high)
            }
            Expr::Sub(a, b) => {
                let (a, b) = (a.interval(max_code)?, b.interval(max_code)?);
                Interval::new(a.low - b.high, a.high - b.low)
            }
            Expr::Mul(a, b) => {
                let (a, b) = (a.interval(max_code)?, b.interval(max_code)?);
                let corners = [
                    a.low * b.low,
                    a.low * b.high,
                    a.high * b.low,
                    a.high * b.high,
                ];
                Interval {
                    low: corners.iter().copied().min()?,
                    high: corners.iter().copied().max()?,
                }
            }
            Expr::Within { value, low, high } => {
                let value = value.interval(max_code)?;
                let never = value.high < i128::from(*low) || value.low > i128::from(*high);
                Interval::new(
                    i64::from(value.within(*low, *high)),
                    i64::from(!never && low <= high),
                )
            }
            Expr::InSet { .. } => Interval::new(0, 1),
            Expr::Choose { when, then, other } => {
                when.interval(max_code)?;
                let (a, b) = (then.interval(max_code)?, other.interval(max_code)?);
                Interval::new(a.low.min(b.low), a.high.max(b.high))
            }
        };
        result.within(i64::MIN, i64::MAX).then_some(result)
    }

    /// 1 where the value is from `low` to `high`, both included, and 0 elsewhere.
    pub fn within(self, low: i64, high: i64) -> Expr {
        Expr::Within {
            value: Box::new(self),
            low,
            high,
        }
    }

    /// `then` where the value is not 0, and `other` elsewhere.
    pub fn choose(self, then: Expr, other: Expr) -> Expr {
        Expr::Choose {
            when: Box::new(self),
            then: Box::new(then),
            other: Box::new(other),
        }
    }

    /// Number of buffers that [`Expr::evaluate`] needs.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Expr::Constant(_) | Expr::Code { .. } | Expr::Mapped { .. } | Expr::InSet { .. } => 1,
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => a.depth().max(1 + b.depth()),
            Expr::Within { value, .. } => value.depth(),
            Expr::Choose { when, then, other } => {
                let both = (1 + then.depth()).max(2 + other.depth());
                when.depth().max(both)
            }
        }
    }

    /// Writes the value for each of `rows` rows into the first of `buffers`, of which it needs
    /// [`Expr::depth`].
    ///
    /// `codes` has the codes of these rows by column.
    pub(crate) fn evaluate(&self, codes: &[Vec<u32>], rows: usize, buffers: &mut [Vec<i64>]) {
        match self {
            Expr::Constant(value) => buffers[0][..rows].fill(*value),
            Expr::Code { column, base } => {
                for (o, code) in buffers[0][..rows].iter_mut().zip(&codes[*column][..rows]) {
                    *o = base.wrapping_add(i64::from(*code));
                }
            }
            Expr::Mapped { column, values } => {
                values.look_up(&codes[*column][..rows], &mut buffers[0][..rows]);
            }
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => {
                // The left value stays in the first buffer while the right one is computed in the
                // others.
                a.evaluate(codes, rows, buffers);
                b.evaluate(codes, rows, &mut buffers[1..]);
                let (out, rest) = buffers.split_at_mut(1);
                let pairs = out[0][..rows].iter_mut().zip(&rest[0][..rows]);
                match self {
                    Expr::Add(..) => pairs.for_each(|(a, b)| *a = a.wrapping_add(*b)),
                    Expr::Sub(..) => pairs.for_each(|(a, b)| *a = a.wrapping_sub(*b)),
                    _ => pairs.for_each(|(a, b)| *a = a.wrapping_mul(*b)),
                }
            }
            Expr::Within { value, low, high } => {
                value.evaluate(codes, rows, buffers);
                for value in &mut buffers[0][..rows] {
                    *value = i64::from((*low <= *value) & (*value <= *high));
                }
            }
            Expr::InSet { column, set } => {
                for (o, code) in buffers[0][..rows].iter_mut().zip(&codes[*column][..rows]) {
                    *o = i64::from(set.contains(*code));
                }
            }
            Expr::Choose { when, then, other } => {
                when.evaluate(codes, rows, buffers);
                then.evaluate(codes, rows, &mut buffers[1..]);
                other.evaluate(codes, rows, &mut buffers[2..]);
                let (out, rest) = buffers.split_at_mut(1);
                let values = rest[0][..rows].iter().zip(&rest[1][..rows]);
                for (o, (then, other)) in out[0][..rows].iter_mut().zip(values) {
                    *o = if *o != 0 { *then } else { *other };
                }
            }
        }
    }
}

impl std::ops::Add for Expr {
    type Output = Expr;

    fn add(self, other: Expr) -> Expr {
        Expr::Add(Box::new(self), Box::new(other))
    }
}

impl std::ops::Sub for Expr {
    type Output = Expr;

    fn sub(self, other: Expr) -> Expr {
        Expr::Sub(Box::new(self), Box::new(other))
    }
}

impl std::ops::Mul for Expr {
    type Output = Expr;

    fn mul(self, other: Expr) -> Expr {
        Expr::Mul(Box::new(self), Box::new(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(column: usize, base: i64) -> Expr {
        Expr::Code { column, base }
    }

    #[test]
    fn intervals_hold_every_value_and_refuse_what_could_overflow() {
        let product = code(0, -5) * (Expr::Constant(100) - code(1, 0));
        let interval = product.interval(&|c| [20, 10][c]).unwrap();
        assert_eq!(interval, Interval::new(-500, 1500));
        let mut buffers = vec![vec![0; 4]; product.depth()];
        product.evaluate(&[vec![0, 20, 7, 20], vec![10, 0, 3, 10]], 4, &mut buffers);
        assert_eq!(buffers[0], [-450, 1500, 194, 1350]);
        let flag = product.clone().within(0, 300);
        assert_eq!(flag.interval(&|c| [20, 10][c]), Some(Interval::new(0, 1)));
        let always = product.within(-500, 1500);
        assert_eq!(always.interval(&|c| [20, 10][c]), Some(Interval::new(1, 1)));
        flag.evaluate(&[vec![0, 20, 7, 20], vec![10, 0, 3, 10]], 4, &mut buffers);
        assert_eq!(buffers[0], [0, 0, 1, 0]);
        let huge = code(0, i64::MAX - 9) * Expr::Constant(2);
        assert_eq!(huge.interval(&|_| 9), None);
        assert_eq!(code(0, i64::MAX).interval(&|_| 1), None);
        assert_eq!(
            interval.times_rows(u64::MAX).map(|i| i.high),
            Some(1500 * i128::from(u64::MAX))
        );
    }
}
