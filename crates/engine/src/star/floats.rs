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
//! That is right for sums and averages, where nobody asks for a certain order. It is not for a
//! comparison or an extreme of computed values, which SQL defines by the rounded ones: there only
//! values are taken that are a float exactly ([`FloatForm::is_exact`]).

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::integers::with_nulls;
use super::typed::{EXACT_FLOAT, FloatForm, Typed, rescaled};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::logical_expr::Operator;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;
use tierloom_kernels::{MOST_DIGITS, units_of};
use tierloom_star::Expr;

/// Most digits of a product: 10 to their power is exact as a float, and an integer of 64 bits.
const MOST_OF_PRODUCT: u8 = 18;

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
}

impl Arithmetic<'_> {
    /// The sum, difference or product of two floats.
    pub(super) fn of_floats(
        &self,
        op: Operator,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, NotFused> {
        let (a, b) = (left.form()?.digits, right.form()?.digits);
        let at_most = a.max(b);
        let both = || -> Result<(Expr, Expr), NotFused> {
            let one = rescaled(left.expr.clone(), a as i8, at_most as i8)?;
            let other = rescaled(right.expr.clone(), b as i8, at_most as i8)?;
            Ok((one, other))
        };
        let (expr, digits) = match op {
            Operator::Plus => (both().map(|(one, other)| one + other)?, at_most),
            Operator::Minus => (both().map(|(one, other)| one - other)?, at_most),
            Operator::Multiply if a + b <= MOST_OF_PRODUCT => {
                (left.expr.clone() * right.expr.clone(), a + b)
            }
            op => return NotFused::because(format!("operator {op} is not done on decimals")),
        };
        let form = FloatForm::exact(digits).rounded();
        let computed = self.checked(expr, &DataType::Float64)?;
        Ok(computed.null_with(&[&left, &right]).with_form(Some(form)))
    }

    /// A value cast to a float.
    pub(super) fn float_of(&self, inner: Typed) -> Result<Typed, NotFused> {
        let form = match (&inner.data_type, inner.float) {
            (_, Some(form)) => form,
            (integer, None) if integer.is_integer() => {
                let is_exact = self.interval(&inner.expr)?;
                FloatForm {
                    digits: 0,
                    is_exact: is_exact.within(-EXACT_FLOAT, EXACT_FLOAT),
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

    /// Brings the floats among the branches of a CASE to as many digits as the finest has.
    pub(super) fn with_common_digits(
        &self,
        branches: &mut [Option<Typed>],
    ) -> Result<(), NotFused> {
        let forms = branches.iter().flatten().filter_map(|branch| branch.float);
        let Some(common) = forms.reduce(|a, b| FloatForm {
            digits: a.digits.max(b.digits),
            is_exact: a.is_exact && b.is_exact,
        }) else {
            return Ok(());
        };
        for branch in branches.iter_mut().flatten() {
            let digits = branch.form()?.digits;
            branch.expr = rescaled(branch.expr.clone(), digits as i8, common.digits as i8)?;
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
