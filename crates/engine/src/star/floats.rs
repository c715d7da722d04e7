//! Arithmetic of floats: on decimals where they are some, and on their bits elsewhere.
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
//! comparison or an extreme of computed values, which SQL defines by the rounded ones
//! ([`FloatForm::is_exact`]): there, and for columns that are no decimals, quotients and functions,
//! the floats themselves are computed as DataFusion does ([`Arithmetic::as_computed`]).

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::integers::{bits_of_floats, valid_rows, with_nulls};
use super::typed::{EXACT_FLOAT, Float, FloatForm, Typed, digits_of_time, rescaled};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use tierloom_corrections::ONE_NAN_NAME;
use tierloom_kernels::select::CodeSet;
use tierloom_kernels::words::word;
use tierloom_kernels::{MOST_DIGITS, units_of};
use tierloom_star::{Expr, FloatFunction, FloatOp};

/// Most digits that are taken along: 10 to their power is exact as a float.
const MOST_DIGITS_OF_SUMS: i8 = 18;

/// The bits of a float as a constant.
pub(super) fn bits_of(value: f64) -> Expr {
    Expr::Constant(word(value))
}

impl Typed {
    /// A constant float.
    ///
    /// # Errors
    /// If it is NULL.
    pub fn float_constant(value: &ScalarValue) -> Result<Self, NotFused> {
        let data_type = value.data_type();
        let value = match value {
            ScalarValue::Float64(Some(value)) => *value,
            ScalarValue::Float32(Some(value)) => f64::from(*value),
            value => return NotFused::because(format!("the constant {value} is NULL")),
        };
        let found = (0..=MOST_DIGITS).find_map(|d| Some((d, units_of(value, d)?)));
        let constant = |expr| Typed::always(expr, data_type);
        Ok(match found {
            Some((digits, units)) => {
                constant(Expr::Constant(units)).with_form(FloatForm::exact(digits))
            }
            None => constant(bits_of(value)).with_bits(true),
        })
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
        let float = Typed {
            data_type: DataType::Float64,
            ..self
        };
        Ok(float.with_form(form.rounded()))
    }

    /// The same, as a float whose expression gives its bits.
    pub fn with_bits(self, is_exact: bool) -> Self {
        Typed {
            float: Some(Float::Bits { is_exact }),
            ..self
        }
    }

    /// A float by its bits.
    ///
    /// # Errors
    /// If it is no float.
    pub fn in_bits(self) -> Result<Self, NotFused> {
        if self.is_bits() {
            return Ok(self);
        }
        let form = self.form()?;
        let expr = match self.expr {
            Expr::Constant(units) => bits_of(units as f64 / form.unit()),
            ref expr => expr.clone().to_float(form.unit()),
        };
        Ok(Typed { expr, ..self }.with_bits(form.is_exact))
    }

    /// The nearest float of 32 bits, as one of 64.
    ///
    /// After a sum, difference, product, quotient or square root of two such floats in 64 bits it
    /// is that of 32: rounding twice is rounding once with that many more digits (Figueroa, "When
    /// is double rounding innocuous?", 1995).
    ///
    /// # Errors
    /// If it is no float.
    pub fn narrowed(self) -> Result<Self, NotFused> {
        let typed = self.in_bits()?;
        Ok(Typed {
            expr: typed.expr.of_float(FloatFunction::Narrow),
            data_type: DataType::Float32,
            ..typed
        })
    }

    /// The negative of a float, by its bits.
    ///
    /// # Errors
    /// If it is no float.
    pub fn negative_bits(self) -> Result<Self, NotFused> {
        let data_type = self.data_type.clone();
        let negative = of_bits(FloatFunction::Negative, self)?;
        Ok(Typed {
            data_type,
            ..negative
        })
    }

    /// Whether a float is what SQL computes, bit by bit.
    pub fn is_as_computed(&self) -> bool {
        match self.float {
            None => false,
            Some(Float::Bits { is_exact }) => is_exact,
            Some(Float::Decimal(form)) => form.is_exact,
        }
    }
}

impl Arithmetic<'_> {
    /// Compiles an expression so that computed floats are what SQL defines: rounded after each
    /// step.
    pub(super) fn as_computed(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, NotFused> {
        let before = self.rounds.replace(true);
        let typed = self.typed(expr);
        self.rounds.set(before);
        typed
    }

    /// The sum, difference, product or quotient of two floats.
    pub(super) fn of_floats(
        &self,
        op: Operator,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, NotFused> {
        if !self.rounds.get()
            && let Ok(typed) = self.of_decimals(op, &left, &right)
        {
            return Ok(typed);
        }
        let op = match op {
            Operator::Plus => FloatOp::Add,
            Operator::Minus => FloatOp::Sub,
            Operator::Multiply => FloatOp::Mul,
            Operator::Divide => FloatOp::Div,
            op => return NotFused::because(format!("operator {op} is not done on floats")),
        };
        let is_exact = left.is_as_computed() && right.is_as_computed();
        let (left, right) = match (op, left.form(), right.form()) {
            // One division less per row.
            (FloatOp::Div, Ok(a), Ok(b)) if !self.rounds.get() => {
                let (one, unit) = (FloatForm::exact(0).rounded(), a.unit() / b.unit());
                let left = left.with_form(FloatForm { by: unit, ..one });
                (left, right.with_form(one))
            }
            _ => (left, right),
        };
        let (left, right) = (left.in_bits()?, right.in_bits()?);
        let expr = left.expr.clone().with_float(op, right.expr.clone());
        let computed = Typed::always(expr, DataType::Float64).null_with(&[&left, &right]);
        Ok(computed.with_bits(is_exact))
    }

    /// The same, of two floats of 32 bits.
    pub(super) fn of_narrow_floats(
        &self,
        op: Operator,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, NotFused> {
        self.of_floats(op, left.in_bits()?, right.in_bits()?)?
            .narrowed()
    }

    /// The same, of two decimals.
    fn of_decimals(&self, op: Operator, left: &Typed, right: &Typed) -> Result<Typed, NotFused> {
        let (a, b) = (left.form()?, right.form()?);
        let (expr, form) = match op {
            Operator::Plus | Operator::Minus => {
                if a.by != b.by {
                    return NotFused::because("a sum of quotients");
                }
                let digits = a.digits.max(b.digits);
                let one = rescaled(left.expr.clone(), a.digits, digits)?;
                let other = rescaled(right.expr.clone(), b.digits, digits)?;
                let expr = match op {
                    Operator::Plus => one + other,
                    _ => one - other,
                };
                (expr, FloatForm { digits, ..a })
            }
            Operator::Multiply => {
                let (digits, by) = (a.digits + b.digits, a.by * b.by);
                let expr = left.expr.clone() * right.expr.clone();
                (expr, FloatForm { digits, by, ..a })
            }
            Operator::Divide => match right.expr {
                // That by 0 is infinite or NaN, which no integer stands for.
                Expr::Constant(by) if by != 0 => {
                    let digits = a.digits - b.digits;
                    let by = a.by * b.by * by as f64;
                    (left.expr.clone(), FloatForm { digits, by, ..a })
                }
                _ => return NotFused::because("a quotient is no decimal"),
            },
            op => return NotFused::because(format!("operator {op} is not done on decimals")),
        };
        if form.digits > MOST_DIGITS_OF_SUMS {
            return NotFused::because("too many digits behind the point");
        }
        let computed = self.checked(expr, &DataType::Float64)?;
        Ok(computed.null_with(&[left, right]).with_form(form.rounded()))
    }

    /// The negative of a float.
    pub(super) fn negative(&self, inner: Typed) -> Result<Typed, NotFused> {
        if !self.rounds.get()
            && let Ok(form) = inner.form()
        {
            let minus = Expr::Constant(0) - inner.expr.clone();
            let minus = self.checked(minus, &DataType::Float64)?;
            // The negative of 0 is -0 as a float, which no integer stands for.
            return Ok(minus.null_with(&[&inner]).with_form(form.rounded()));
        }
        inner.negative_bits()
    }

    /// A function of one float, which gives one of `data_type`.
    pub(super) fn float_function(
        &self,
        call: &ScalarFunctionExpr,
        data_type: &DataType,
    ) -> Result<Typed, NotFused> {
        let is_narrow = *data_type == DataType::Float32;
        let function = match call.fun().name() {
            // Whole numbers are the same, and other digits or logarithms of 32 bits are not.
            "round" if is_narrow && call.args().len() == 1 => FloatFunction::Round,
            "round" | "ln" | "exp" if is_narrow => {
                return NotFused::because("it is computed in 32 bits");
            }
            "round" => return self.rounded(call),
            "abs" => FloatFunction::Abs,
            "sqrt" => FloatFunction::Sqrt,
            "floor" => FloatFunction::Floor,
            "ceil" => FloatFunction::Ceil,
            "ln" => FloatFunction::Ln,
            "exp" => FloatFunction::Exp,
            ONE_NAN_NAME => FloatFunction::OneNan,
            other => return NotFused::because(format!("the function {other}")),
        };
        let [argument] = call.args() else {
            return NotFused::because(format!("{} arguments", call.args().len()));
        };
        let argument = self.typed(argument)?;
        if function == FloatFunction::OneNan && !argument.is_bits() {
            return Ok(argument);
        }
        match is_narrow {
            true => of_bits(function, argument)?.narrowed(),
            false => of_bits(function, argument),
        }
    }

    /// A float that is rounded to a constant number of digits, as DataFusion does.
    fn rounded(&self, call: &ScalarFunctionExpr) -> Result<Typed, NotFused> {
        let digits = call
            .args()
            .get(1)
            .map(|digits| digits.downcast_ref::<Literal>());
        let digits = match digits.map(|literal| literal.map(Literal::value)) {
            None => 0,
            Some(Some(ScalarValue::Int32(Some(digits)))) if (0..=22).contains(digits) => *digits,
            Some(Some(ScalarValue::Int64(Some(digits)))) if (0..=22).contains(digits) => {
                *digits as i32
            }
            _ => return NotFused::because("it is rounded to another number of digits"),
        };
        let Some(value) = call.args().first() else {
            return NotFused::because("nothing is rounded");
        };
        let value = self.typed(value)?;
        let is_exact = value.is_as_computed();
        let value = value.in_bits()?;
        let nulls = Typed::always(Expr::Constant(0), DataType::Float64).null_with(&[&value]);
        // The powers of ten up to 22 are exact.
        let factor = 10_f64.powi(digits);
        let scaled = |op, expr: Expr| match digits {
            0 => expr,
            _ => expr.with_float(op, bits_of(factor)),
        };
        let whole = scaled(FloatOp::Mul, value.expr).of_float(FloatFunction::Round);
        let expr = scaled(FloatOp::Div, whole);
        Ok(Typed { expr, ..nulls }.with_bits(is_exact))
    }

    /// A value cast to a float.
    pub(super) fn float_of(&self, inner: Typed) -> Result<Typed, NotFused> {
        let float = match (&inner.data_type, inner.float) {
            (_, Some(float)) => float,
            (integer, None) if integer.is_integer() => {
                let interval = self.interval(&inner.expr)?;
                Float::Decimal(FloatForm {
                    is_exact: interval.within(-EXACT_FLOAT, EXACT_FLOAT),
                    ..FloatForm::exact(0)
                })
            }
            (DataType::Decimal128(_, digits @ 0..=9), None) => {
                Float::Decimal(FloatForm::exact(*digits as u8).rounded())
            }
            (other, None) => return NotFused::because(format!("a cast of {other} to a float")),
        };
        Ok(Typed {
            data_type: DataType::Float64,
            float: Some(float),
            ..inner
        })
    }

    /// Brings the floats among the branches of a CASE to as many digits as the finest has, or to
    /// their bits if one of them is no decimal.
    pub(super) fn with_common_digits(
        &self,
        branches: &mut [Option<Typed>],
    ) -> Result<(), NotFused> {
        let floats = || branches.iter().flatten().filter_map(|branch| branch.float);
        let is_exact = branches.iter().flatten().all(Typed::is_as_computed);
        let finer = |a: FloatForm, b: FloatForm| if a.digits < b.digits { b } else { a };
        let form = |float| match float {
            Float::Decimal(form) => Some(form),
            Float::Bits { .. } => None,
        };
        let forms: Option<Vec<FloatForm>> = floats().map(form).collect();
        let common = match forms.map(|forms| forms.into_iter().reduce(finer)) {
            Some(None) => return Ok(()),
            Some(Some(finest)) if have_unit(branches, &finest) => FloatForm { is_exact, ..finest },
            _ => {
                for branch in branches.iter_mut() {
                    let bits = branch.take().map(Typed::in_bits).transpose()?;
                    *branch = bits.map(|branch| branch.with_bits(is_exact));
                }
                return Ok(());
            }
        };
        for branch in branches.iter_mut().flatten() {
            let form = branch.form()?;
            if branch.expr != Expr::Constant(0) {
                branch.expr = rescaled(branch.expr.clone(), form.digits, common.digits)?;
            }
            branch.float = Some(Float::Decimal(common));
            self.interval(&branch.expr)?;
        }
        Ok(())
    }

    /// The integers of values, 0 for NULL, the rows that are not NULL if some are, and what the
    /// integers of floats stand for: their bits if they are no decimals of few digits.
    ///
    /// # Errors
    /// Values that are no 64-bit integers.
    #[expect(
        clippy::type_complexity,
        reason = "as `with_nulls` returns it, and the form"
    )]
    pub(super) fn integers_of(
        &self,
        values: &ArrayRef,
    ) -> Result<(Vec<i64>, Option<Arc<CodeSet>>, Option<Float>), NotFused> {
        let Some(floats) = values.as_primitive_opt::<Float64Type>() else {
            let (integers, valid) = with_nulls(values)?;
            return Ok((integers, valid, None));
        };
        let in_units = |digits: u8| {
            let units = floats.iter().map(|value| match value {
                Some(value) => units_of(value, digits),
                None => Some(0),
            });
            let form = FloatForm::exact(digits);
            Some((units.collect::<Option<Vec<i64>>>()?, Float::Decimal(form)))
        };
        let in_bits = || (bits_of_floats(floats), Float::Bits { is_exact: true });
        let found = (0..=MOST_DIGITS).find_map(in_units);
        let (integers, float) = found.unwrap_or_else(in_bits);
        Ok((integers, valid_rows(values), Some(float)))
    }
}

/// Whether all branches but zeros are divided by the same number.
fn have_unit(branches: &[Option<Typed>], common: &FloatForm) -> bool {
    branches.iter().flatten().all(|branch| {
        let form = branch.form();
        branch.expr == Expr::Constant(0) || form.is_ok_and(|form| form.by == common.by)
    })
}

/// A function of a float.
fn of_bits(function: FloatFunction, inner: Typed) -> Result<Typed, NotFused> {
    let is_exact = inner.is_as_computed();
    let inner = inner.in_bits()?;
    let expr = inner.expr.clone().of_float(function);
    let computed = Typed::always(expr, DataType::Float64);
    Ok(computed.null_with(&[&inner]).with_bits(is_exact))
}
