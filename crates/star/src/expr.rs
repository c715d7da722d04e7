//! Expressions over the codes and words of a row.

use crate::inputs::Inputs;
use crate::values::CodeValues;
use std::ops::Range;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_kernels::words::{
    FloatFunction, FloatOp, Right, WordOp, apply, choose, combine, rank, to_floats, within,
};

/// The input of an aggregate: an integer computed from the codes of a row, or the 64 bits of a
/// float.
///
/// Decimals are computed as their unscaled integers. Arithmetic wraps on overflow;
/// [`Expr::interval`] says beforehand whether it can overflow. Integers and floats are not told
/// apart: whoever makes an expression knows which of its parts are which.
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
    /// The word of a column that has no codes: an integer, or the bits of a float.
    Word {
        /// Index of the column in the plan.
        column: usize,
        /// The smallest word, as an integer.
        low: i64,
        /// The largest word, as an integer.
        high: i64,
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
    /// 1 where the first integer is less than the second one, 0 elsewhere.
    Less(Box<Expr>, Box<Expr>),
    /// The float nearest to an integer, divided by a number.
    ToFloat {
        /// The integer.
        value: Box<Expr>,
        /// What it is divided by.
        unit: f64,
    },
    /// An operation on two floats.
    OfFloats(FloatOp, Box<Expr>, Box<Expr>),
    /// A function of a float.
    OfFloat(FloatFunction, Box<Expr>),
    /// The integer that a float is, which is known to be a whole number in a range.
    Whole {
        /// The float.
        value: Box<Expr>,
        /// The smallest integer, inclusive, at least -[`crate::MOST_WHOLE`].
        low: i64,
        /// The largest integer, inclusive, at most [`crate::MOST_WHOLE`].
        high: i64,
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

/// The range of all words.
const ANY: Interval = Interval {
    low: i64::MIN as i128,
    high: i64::MAX as i128,
};

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
            | Expr::Word { column, .. }
            | Expr::Mapped { column, .. }
            | Expr::InSet { column, .. } => found.push(*column),
            Expr::Add(a, b)
            | Expr::Sub(a, b)
            | Expr::Mul(a, b)
            | Expr::Less(a, b)
            | Expr::OfFloats(_, a, b) => {
                a.collect(found);
                b.collect(found);
            }
            Expr::Within { value, .. }
            | Expr::ToFloat { value, .. }
            | Expr::Whole { value, .. }
            | Expr::OfFloat(_, value) => value.collect(found),
            Expr::Choose { when, then, other } => {
                for part in [when, then, other] {
                    part.collect(found);
                }
            }
        }
    }

    /// The range of its values, given the largest code of each column; `None` if it or a part of it
    /// can overflow `i64`. The bits of a float may be any.
    pub fn interval(&self, max_code: &dyn Fn(usize) -> u32) -> Option<Interval> {
        let result = match self {
            Expr::Constant(value) => Interval::new(*value, *value),
            Expr::Code { column, base } => {
                Interval::new(*base, i128::from(*base) + i128::from(max_code(*column)))
            }
            Expr::Word { low, high, .. } => Interval::new(*low, *high),
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
            Expr::Whole { value, low, high } => {
                value.interval(max_code)?;
                Interval::new(*low, *high)
            }
            Expr::Choose { when, then, other } => {
                when.interval(max_code)?;
                let (a, b) = (then.interval(max_code)?, other.interval(max_code)?);
                Interval::new(a.low.min(b.low), a.high.max(b.high))
            }
            Expr::Less(a, b) => {
                let (a, b) = (a.interval(max_code)?, b.interval(max_code)?);
                Interval::new(i64::from(a.high < b.low), i64::from(a.low < b.high))
            }
            Expr::OfFloats(op, a, b) => {
                a.interval(max_code)?;
                b.interval(max_code)?;
                match op {
                    FloatOp::Less | FloatOp::Equal => Interval::new(0, 1),
                    _ => ANY,
                }
            }
            Expr::ToFloat { value, .. } | Expr::OfFloat(_, value) => {
                value.interval(max_code)?;
                ANY
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

    /// 1 where the value is less than `other`, and 0 elsewhere.
    pub fn less(self, other: Expr) -> Expr {
        Expr::Less(Box::new(self), Box::new(other))
    }

    /// The float nearest to the integer, divided by `unit`.
    pub fn to_float(self, unit: f64) -> Expr {
        Expr::ToFloat {
            value: Box::new(self),
            unit,
        }
    }

    /// An operation on two floats.
    pub fn with_float(self, op: FloatOp, other: Expr) -> Expr {
        Expr::OfFloats(op, Box::new(self), Box::new(other))
    }

    /// A function of the float.
    pub fn of_float(self, function: FloatFunction) -> Expr {
        Expr::OfFloat(function, Box::new(self))
    }

    /// The integer that the float is, a whole number from `low` to `high`, both included; anything
    /// for other floats.
    pub fn whole(self, low: i64, high: i64) -> Expr {
        Expr::Whole {
            value: Box::new(self),
            low,
            high,
        }
    }

    /// The place of the float in the order of `f64::total_cmp`.
    pub fn rank(self) -> Expr {
        match self {
            Expr::Constant(bits) => Expr::Constant(rank(bits)),
            value => value.of_float(FloatFunction::Rank),
        }
    }

    /// Number of buffers that [`Expr::evaluate`] needs.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Expr::Constant(_)
            | Expr::Code { .. }
            | Expr::Word { .. }
            | Expr::Mapped { .. }
            | Expr::InSet { .. } => 1,
            Expr::Add(a, b)
            | Expr::Sub(a, b)
            | Expr::Mul(a, b)
            | Expr::Less(a, b)
            | Expr::OfFloats(_, a, b) => a.depth().max(1 + b.depth()),
            Expr::Within { value, .. }
            | Expr::ToFloat { value, .. }
            | Expr::Whole { value, .. }
            | Expr::OfFloat(_, value) => value.depth(),
            Expr::Choose { when, then, other } => {
                let both = (1 + then.depth()).max(2 + other.depth());
                when.depth().max(both)
            }
        }
    }

    /// Writes the value for each of `rows` into the first of `buffers`, of which it needs
    /// [`Expr::depth`].
    pub(crate) fn evaluate(&self, inputs: &Inputs, rows: Range<usize>, buffers: &mut [Vec<i64>]) {
        let count = rows.len();
        match self {
            Expr::Constant(value) => buffers[0][..count].fill(*value),
            Expr::Code { column, base } => {
                let codes = &inputs.codes[*column][rows];
                for (o, code) in buffers[0][..count].iter_mut().zip(codes) {
                    *o = base.wrapping_add(i64::from(*code));
                }
            }
            Expr::Word { column, .. } => {
                buffers[0][..count].copy_from_slice(&inputs.words[*column][rows]);
            }
            Expr::Mapped { column, values } => {
                values.look_up(&inputs.codes[*column][rows], &mut buffers[0][..count]);
            }
            Expr::Add(a, b)
            | Expr::Sub(a, b)
            | Expr::Mul(a, b)
            | Expr::Less(a, b)
            | Expr::OfFloats(_, a, b) => {
                a.evaluate(inputs, rows.clone(), buffers);
                let op = self.operation();
                if let Expr::Constant(constant) = **b {
                    return combine(op, &mut buffers[0][..count], Right::Constant(constant));
                }
                // The left value stays in the first buffer while the right one is computed in the
                // others.
                b.evaluate(inputs, rows, &mut buffers[1..]);
                let (out, rest) = buffers.split_at_mut(1);
                combine(op, &mut out[0][..count], Right::Words(&rest[0][..count]));
            }
            Expr::Within { value, low, high } => {
                value.evaluate(inputs, rows, buffers);
                within(&mut buffers[0][..count], *low, *high);
            }
            Expr::InSet { column, set } => {
                let codes = &inputs.codes[*column][rows];
                for (o, code) in buffers[0][..count].iter_mut().zip(codes) {
                    *o = i64::from(set.contains(*code));
                }
            }
            Expr::Choose { when, then, other } => {
                when.evaluate(inputs, rows.clone(), buffers);
                then.evaluate(inputs, rows.clone(), &mut buffers[1..]);
                other.evaluate(inputs, rows, &mut buffers[2..]);
                let (out, rest) = buffers.split_at_mut(1);
                choose(&mut out[0][..count], &rest[0][..count], &rest[1][..count]);
            }
            Expr::ToFloat { value, unit } => {
                value.evaluate(inputs, rows, buffers);
                to_floats(&mut buffers[0][..count], *unit);
            }
            Expr::Whole { value, .. } => {
                value.evaluate(inputs, rows, buffers);
                apply(FloatFunction::Whole, &mut buffers[0][..count]);
            }
            Expr::OfFloat(function, value) => {
                value.evaluate(inputs, rows, buffers);
                apply(*function, &mut buffers[0][..count]);
            }
        }
    }

    /// The operation on the two values that it is made of.
    fn operation(&self) -> WordOp {
        match self {
            Expr::Add(..) => WordOp::Add,
            Expr::Sub(..) => WordOp::Sub,
            Expr::Mul(..) => WordOp::Mul,
            Expr::Less(..) => WordOp::Less,
            Expr::OfFloats(op, ..) => WordOp::OfFloats(*op),
            other => unreachable!("not an operation on two values: {other:?}"),
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
        let inputs = Inputs {
            codes: vec![vec![0, 20, 7, 20], vec![10, 0, 3, 10]],
            words: Vec::new(),
        };
        product.evaluate(&inputs, 0..4, &mut buffers);
        assert_eq!(buffers[0], [-450, 1500, 194, 1350]);
        let flag = product.clone().within(0, 300);
        assert_eq!(flag.interval(&|c| [20, 10][c]), Some(Interval::new(0, 1)));
        let always = product.within(-500, 1500);
        assert_eq!(always.interval(&|c| [20, 10][c]), Some(Interval::new(1, 1)));
        flag.evaluate(&inputs, 0..4, &mut buffers);
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
