//! Arithmetic of floats that are decimals, done on the decimals.
//!
//! A column of amounts in 64-bit floats is kept as integers of its smallest unit
//! ([`crate::coded::Unit`]). Sums and products of these are exact, where floats are rounded after
//! each step; the result is rounded once. It does not depend on the order of the rows, and its
//! error is below that of every order of float additions.
//!
//! ```text
//!   0.1 + 0.2    as floats 0.30000000000000004     here 3 tenths, as a float 0.3
//! ```
//! A quotient is the float nearest to it, as an integer of a small power of two, so that the sum of
//! quotients is one of integers as well ([`tierloom_star::Divisor`]).
//!
//! That is right for sums and averages, where nobody asks for a certain order. It is not for a
//! comparison or an extreme of computed values, which SQL defines by the rounded ones: there only
//! values are taken that are a float exactly ([`FloatForm::is_exact`]).

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::integers::with_nulls;
use super::typed::{EXACT_FLOAT, FloatForm, Typed, digits_of_time, rescaled};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::logical_expr::Operator;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_kernels::{MOST_DIGITS, units_of};
use tierloom_star::Expr;

/// Most digits that are taken along: 10 to their power is exact as a float.
const MOST_DIGITS_OF_SUMS: i8 = 18;

impl Typed {
    /// A constant float.
    ///
    /// # Errors
    /// If it is NULL or no decimal of few digits.
    pub fn float_constant(value: &ScalarValue) -> Result<Self, NotFused> {
        let ScalarValue::Float64(Some(value)) = value else {
            return NotFused::because(format!("the constant {value} is NULL"));
        };
        let found = (0..=MOST_DIGITS).find_map(|d| Some((d, units_of(*value, d)?)));
        let Some((digits, units)) = found else {
            return NotFused::because(format!("the constant {value} is no decimal of few digits"));
        };
        let constant = Typed::always(Expr::Constant(units), DataType::Float64);
        Ok(constant.with_form(Some(FloatForm::exact(digits))))
    }

    /// The seconds of a time, with a fraction.
    ///
    /// # Errors
    /// If it is no time.
    pub fn in_seconds(self) -> Result<Self, NotFused> {
        let unit = match &self.data_type {
            DataType::Timestamp(unit, _) | DataType::Duration(unit) => unit,
            other => return NotFused::because(format!("the seconds of {other}")),
        };
        let form = FloatForm {
            digits: digits_of_time(unit),
            ..FloatForm::exact(0)
        };
        Ok(Typed {
            data_type: DataType::Float64,
            float: Some(form.rounded()),
            ..self
        })
    }
}

impl Arithmetic<'_> {
    /// The sum, difference, product or quotient of two floats.
    pub(super) fn of_floats(
        &self,
        op: Operator,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, NotFused> {
        let (a, b) = (left.form()?, right.form()?);
        let (expr, divisor, form) = match op {
            Operator::Plus | Operator::Minus => {
                if a.by != b.by || left.divisor.is_some() || right.divisor.is_some() {
                    return NotFused::because("a sum of quotients in one row");
                }
                let digits = a.digits.max(b.digits);
                let one = rescaled(left.expr.clone(), a.digits, digits)?;
                let other = rescaled(right.expr.clone(), b.digits, digits)?;
                let expr = match op {
                    Operator::Plus => one + other,
                    _ => one - other,
                };
                (expr, None, FloatForm { digits, ..a })
            }
            Operator::Multiply => {
                let divisor = match (&left.divisor, &right.divisor) {
                    (Some(one), Some(other)) => Some(one.clone() * other.clone()),
                    (one, other) => one.clone().or_else(|| other.clone()),
                };
                let (digits, by) = (a.digits + b.digits, a.by * b.by);
                let expr = left.expr.clone() * right.expr.clone();
                (expr, divisor, FloatForm { digits, by, ..a })
            }
            Operator::Divide => self.quotient(&left, &right)?,
            op => return NotFused::because(format!("operator {op} is not done on decimals")),
        };
        if form.digits > MOST_DIGITS_OF_SUMS {
            return NotFused::because("too many digits behind the point");
        }
        if let Some(divisor) = &divisor {
            self.interval(divisor)?;
        }
        let computed = self.checked(expr, &DataType::Float64)?;
        let computed = computed.null_with(&[&left, &right]);
        Ok(Typed {
            divisor,
            ..computed.with_form(Some(form.rounded()))
        })
    }

    /// The dividend, the divisor unless it is a constant, and what the quotient stands for.
    fn quotient(
        &self,
        left: &Typed,
        right: &Typed,
    ) -> Result<(Expr, Option<Expr>, FloatForm), NotFused> {
        let (a, b) = (left.form()?, right.form()?);
        let digits = a.digits - b.digits;
        let expr = left.expr.clone();
        match (&right.expr, &left.divisor, &right.divisor) {
            // It has to be done in every row, as an error or an infinity.
            (Expr::Constant(0), ..) => NotFused::because("a quotient by 0"),
            (Expr::Constant(by), divisor, None) => {
                let by = a.by * b.by * *by as f64;
                Ok((expr, divisor.clone(), FloatForm { digits, by, ..a }))
            }
            (divisor, None, None) => {
                let by = a.by / b.by;
                Ok((expr, Some(divisor.clone()), FloatForm { digits, by, ..a }))
            }
            _ => NotFused::because("a quotient of a quotient"),
        }
    }

    /// A value cast to a float.
    pub(super) fn float_of(&self, inner: Typed) -> Result<Typed, NotFused> {
        let form = match (&inner.data_type, inner.float) {
            (_, Some(form)) => form,
            (integer, None) if integer.is_integer() => {
                let interval = self.interval(&inner.expr)?;
                FloatForm {
                    is_exact: interval.within(-EXACT_FLOAT, EXACT_FLOAT),
                    ..FloatForm::exact(0)
                }
            }
            (DataType::Decimal128(_, digits @ 0..=9), None) => {
                FloatForm::exact(*digits as u8).rounded()
            }
            (other, None) => return NotFused::because(format!("a cast of {other} to a float")),
        };
        Ok(Typed {
            data_type: DataType::Float64,
            float: Some(form),
            ..inner
        })
    }

    /// Brings the floats among the branches of a CASE to as many digits as the finest has, and to
    /// quotients if one of them is.
    pub(super) fn with_common_digits(
        &self,
        branches: &mut [Option<Typed>],
    ) -> Result<(), NotFused> {
        let forms = || branches.iter().flatten().filter_map(|branch| branch.float);
        let quotients = branches.iter().flatten().filter(|b| b.divisor.is_some());
        let quotient = quotients.map(|branch| branch.form()).next().transpose()?;
        let common = match quotient {
            Some(form) => form,
            None => match forms().reduce(|a, b| if a.digits < b.digits { b } else { a }) {
                Some(finest) => FloatForm {
                    is_exact: forms().all(|form| form.is_exact),
                    ..finest
                },
                None => return Ok(()),
            },
        };
        for branch in branches.iter_mut().flatten() {
            let form = branch.form()?;
            let is_zero = branch.expr == Expr::Constant(0);
            if form.by != common.by && !is_zero {
                return NotFused::because("branches of a case are divided by different numbers");
            }
            if !is_zero {
                branch.expr = rescaled(branch.expr.clone(), form.digits, common.digits)?;
            }
            if quotient.is_some() && branch.divisor.is_none() {
                branch.divisor = Some(Expr::Constant(1));
            }
            branch.float = Some(common);
            self.interval(&branch.expr)?;
        }
        Ok(())
    }

    /// The integers of values, 0 for NULL, the rows that are not NULL if some are, and what the
    /// integers of floats stand for.
    ///
    /// # Errors
    /// Floats that are no decimals of few digits, or values that are no 64-bit integers.
    #[expect(
        clippy::type_complexity,
        reason = "as `with_nulls` returns it, and the form"
    )]
    pub(super) fn integers_of(
        &self,
        values: &ArrayRef,
    ) -> Result<(Vec<i64>, Option<Arc<CodeSet>>, Option<FloatForm>), NotFused> {
        let Some(floats) = values.as_primitive_opt::<Float64Type>() else {
            let (integers, valid) = with_nulls(values)?;
            return Ok((integers, valid, None));
        };
        let in_units = |digits: u8| {
            let units = floats.iter().map(|value| match value {
                Some(value) => units_of(value, digits),
                None => Some(0),
            });
            Some((digits, units.collect::<Option<Vec<i64>>>()?))
        };
        let Some((digits, units)) = (0..=MOST_DIGITS).find_map(in_units) else {
            return NotFused::because("a float is no decimal of few digits");
        };
        let valid = super::integers::valid_rows(values);
        Ok((units, valid, Some(FloatForm::exact(digits))))
    }
}
