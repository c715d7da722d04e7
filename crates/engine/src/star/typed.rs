//! Expressions of integers, and what these stand for.

use super::NotFused;
use super::flags::{both, is_valid, not};
use arrow::datatypes::{DataType, TimeUnit};
use tierloom_corrections::ticks_per_second;
use tierloom_star::Expr;

/// An integer expression with its type and NULL behaviour.
pub(super) struct Typed {
    pub expr: Expr,
    pub data_type: DataType,
    /// Columns whose NULL makes the expression NULL.
    pub nulls: Vec<usize>,
    /// Conditions, the expression is NULL where one of them is 0.
    pub when: Vec<Expr>,
    /// Of a float, what the expression gives.
    pub float: Option<Float>,
}

impl Typed {
    /// An expression that is never NULL.
    pub fn always(expr: Expr, data_type: DataType) -> Self {
        Typed {
            expr,
            data_type,
            nulls: Vec::new(),
            when: Vec::new(),
            float: None,
        }
    }

    /// The same, as a float.
    pub fn with_form(self, form: FloatForm) -> Self {
        Typed {
            float: Some(Float::Decimal(form)),
            ..self
        }
    }

    /// What its integer stands for.
    ///
    /// # Errors
    /// If it is no decimal in a float.
    pub fn form(&self) -> Result<FloatForm, NotFused> {
        match self.float {
            Some(Float::Decimal(form)) => Ok(form),
            _ => NotFused::because(format!("a value of type {} is no decimal", self.data_type)),
        }
    }

    /// Whether it is a float whose expression gives its bits.
    pub fn is_bits(&self) -> bool {
        matches!(self.float, Some(Float::Bits { .. }))
    }

    /// 1 where it is not NULL; `None` if it never is.
    pub fn valid(&self) -> Option<Expr> {
        let nulls = self.nulls.iter().map(|column| is_valid(*column));
        nulls.chain(self.when.iter().cloned()).reduce(both)
    }

    /// The same, NULL where one of `others` is.
    pub fn null_with(mut self, others: &[&Typed]) -> Self {
        for other in others {
            self.nulls.extend(&other.nulls);
            let new = other.when.iter().filter(|c| !self.when.contains(c));
            let new: Vec<Expr> = new.cloned().collect();
            self.when.extend(new);
        }
        self.nulls.sort_unstable();
        self.nulls.dedup();
        self
    }
}

/// `then` where `flag` is 1 and `other` elsewhere; `None` is NULL.
pub(super) fn chosen(flag: Expr, then: Option<Typed>, other: Option<Typed>) -> Option<Typed> {
    let (then, other) = match (then, other) {
        (None, None) => return None,
        (Some(mut then), None) => {
            then.when.push(flag);
            return Some(then);
        }
        (None, Some(mut other)) => {
            other.when.push(not(flag));
            return Some(other);
        }
        (Some(then), Some(other)) => (then, other),
    };
    let when = match (then.valid(), other.valid()) {
        (None, None) => None,
        (a, b) => {
            let always = || Expr::Constant(1);
            let [a, b] = [a, b].map(|valid| valid.unwrap_or_else(always));
            Some(flag.clone().choose(a, b))
        }
    };
    Some(Typed {
        expr: flag.choose(then.expr, other.expr),
        data_type: then.data_type,
        nulls: Vec::new(),
        when: when.into_iter().collect(),
        float: then.float,
    })
}

/// Integers up to this magnitude are exact in a 64-bit float.
pub(super) const EXACT_FLOAT: i128 = 1 << 53;

/// What the expression of a float gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Float {
    /// An integer that stands for a decimal.
    Decimal(FloatForm),
    /// Its bits.
    Bits {
        /// Whether they are those that SQL computes.
        is_exact: bool,
    },
}

/// What the integer of a float stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FloatForm {
    /// The value is the integer divided by 10 to the power of these.
    pub digits: i8,
    /// It is also divided by this, a constant of a quotient.
    pub by: f64,
    /// Whether the float that SQL computes is the one nearest to that value.
    pub is_exact: bool,
}

impl FloatForm {
    pub fn exact(digits: u8) -> Self {
        FloatForm {
            digits: digits as i8,
            by: 1.0,
            is_exact: true,
        }
    }

    pub fn rounded(self) -> Self {
        FloatForm {
            is_exact: false,
            ..self
        }
    }

    /// What integers are divided by.
    pub fn unit(self) -> f64 {
        power_of_ten(self.digits) * self.by
    }
}

/// A power of ten; exact from 0 up to 22 digits.
fn power_of_ten(digits: i8) -> f64 {
    let power = 10_f64.powi(i32::from(digits).abs());
    if digits < 0 { 1.0 / power } else { power }
}

/// Whether values are exact integers at some scale: integers and 128-bit decimals.
pub(super) fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(_, _))
}

/// Digits after the decimal point; 0 for integers.
pub(super) fn scale(data_type: &DataType) -> Result<i8, NotFused> {
    match data_type {
        DataType::Decimal128(_, scale) => Ok(*scale),
        t if t.is_integer() => Ok(0),
        other => NotFused::because(format!("arithmetic on {other}")),
    }
}

/// Digits after the decimal point that the integer of a value has.
///
/// # Errors
/// A float that only stands for a decimal after it is rounded, or another type.
pub(super) fn digits_of(typed: &Typed) -> Result<i8, NotFused> {
    match typed.float {
        None => scale(&typed.data_type),
        Some(Float::Decimal(form)) if form.is_exact => Ok(form.digits),
        Some(_) => NotFused::because("a computed float depends on how it is rounded"),
    }
}

/// Digits of a second that a time has.
pub(super) fn digits_of_time(unit: &TimeUnit) -> i8 {
    ticks_per_second(*unit).ilog10() as i8
}

/// Rescales `expr` from `from` to `to` digits after the decimal point.
pub(super) fn rescaled(expr: Expr, from: i8, to: i8) -> Result<Expr, NotFused> {
    let digits = u32::try_from(i32::from(to) - i32::from(from))
        .map_err(|_| NotFused("digits behind the point would be lost".into()))?;
    match (digits, 10i64.checked_pow(digits)) {
        (0, _) => Ok(expr),
        (_, Some(factor)) => Ok(match expr {
            Expr::Constant(value) => match value.checked_mul(factor) {
                Some(value) => Expr::Constant(value),
                None => return NotFused::because("a constant is too large"),
            },
            expr => expr * Expr::Constant(factor),
        }),
        (_, None) => NotFused::because("too many digits behind the point"),
    }
}
