//! Compiles expressions of integers to arithmetic on codes.
//!
//! Integers, decimals and dates are exact integers at a scale, so sums do not depend on the order
//! of additions. Interval arithmetic over the domains of the columns proves that no intermediate
//! value overflows; what cannot be proved is refused. Floats that are decimals are such integers
//! too ([`super::floats`]).

use super::NotFused;
use super::dimension::LoadedDimension;
use super::filters::over_values;
use super::flags::in_set;
use super::integers::integers;
use super::lower::{Lowered, columns_of};
use super::typed::{
    Float, FloatForm, Typed, chosen, digits_of, digits_of_time, is_exact, rescaled, scale,
};
use super::universe::{Listing, bounds_of_words, fact_column, over_dimension, placed_column};
use crate::calendar::part_of;
use crate::coded::Unit;
use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, Literal, NegativeExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tierloom_star::{CodeValues, Expr, Interval, Spans};

/// Compiles expressions over the universe of a plan.
pub(super) struct Arithmetic<'a> {
    pub lowered: &'a Lowered,
    /// Empty for a dry run, if the plan has some.
    dimensions: &'a [LoadedDimension],
    /// Spans of codes that expressions ask for.
    pub spans: RefCell<Vec<Spans>>,
    /// Whether computed floats are rounded after each step.
    pub rounds: Cell<bool>,
}

/// The table whose codes decide what an expression is.
pub(super) enum Owner<'a> {
    /// A dimension, whose rows belong to codes of this column; the expression is over the rows.
    Dimension(usize, &'a LoadedDimension, Arc<dyn PhysicalExpr>),
    /// A dimension in a dry run.
    NotLoaded(usize),
    /// A fact column of few values, or spans of its codes.
    Fact(Listing),
}

impl<'a> Arithmetic<'a> {
    pub fn new(lowered: &'a Lowered, dimensions: &'a [LoadedDimension]) -> Self {
        Arithmetic {
            lowered,
            dimensions,
            spans: RefCell::default(),
            rounds: Cell::new(false),
        }
    }

    pub fn interval(&self, expr: &Expr) -> Result<Interval, NotFused> {
        let max_code = |column: usize| {
            // Those of words say which are NULL.
            if column < self.lowered.fact_columns.len()
                && placed_column(self.lowered, column).has_words()
            {
                return 1;
            }
            let count =
                fact_column(self.lowered, column).map_or(u64::MAX, |f| f.coded.code_count());
            u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX)
        };
        expr.interval(&max_code)
            .ok_or_else(|| NotFused("a value could leave 64 bits".into()))
    }

    /// Compiles an expression of integers.
    ///
    /// # Errors
    /// The first part that is no integer arithmetic, may overflow, or cannot be looked up by code.
    pub fn typed(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, NotFused> {
        let data_type = expr.data_type(&self.lowered.universe)?;
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            if matches!(data_type, DataType::Float32 | DataType::Float64) {
                return Typed::float_constant(literal.value());
            }
            let values = integers(&literal.value().to_array()?)?;
            return match values[..] {
                [Some(value)] if i64::try_from(value).is_ok() => {
                    Ok(Typed::always(Expr::Constant(value as i64), data_type))
                }
                _ => NotFused::because(format!("the constant {expr} is NULL or too large")),
            };
        }
        if let Some(column) = expr.downcast_ref::<Column>()
            && self.lowered.owner(column.index()).is_none()
        {
            return self.fact_column(column.index(), data_type);
        }
        let computed = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            self.binary(binary, &data_type)
        } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            self.rescaled_to(cast.expr(), &data_type)
        } else if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let inner = self.typed(negative.arg())?;
            match data_type {
                DataType::Float64 => return self.negative(inner),
                DataType::Float32 => return inner.negative_bits(),
                _ => {}
            }
            let minus = Expr::Constant(0) - inner.expr.clone();
            Ok(self.checked(minus, &data_type)?.null_with(&[&inner]))
        } else if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            self.case(case, &data_type)
        } else if let Some(times) = seconds_of(expr) {
            self.typed(times)?.in_seconds()
        } else if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
            && data_type.is_floating()
        {
            self.float_function(call, &data_type)
        } else {
            NotFused::because(format!("{expr} is not integer arithmetic"))
        };
        // Any expression over one small table alone can be evaluated in advance, per code.
        computed.or_else(|why| self.table(expr, data_type).map_err(|_| why))
    }

    fn fact_column(&self, column: usize, data_type: DataType) -> Result<Typed, NotFused> {
        if let Some(words) = words_of(self.lowered, column) {
            return Ok(words);
        }
        let fact = fact_column(self.lowered, column)?;
        let nulls = fact
            .coded
            .nullable()
            .then_some(column)
            .into_iter()
            .collect();
        if !(is_exact(&data_type)
            || matches!(
                data_type,
                DataType::Date32 | DataType::Timestamp(..) | DataType::Float64
            ))
        {
            return NotFused::because(format!("{} is of type {data_type}", fact.name));
        }
        let (expr, float) = match fact.coded.offset() {
            Some((base, Unit::Times(1))) => (Expr::Code { column, base }, None),
            Some((base, Unit::Times(step))) => {
                (Expr::Code { column, base } * Expr::Constant(step), None)
            }
            Some((base, Unit::Decimal(digits))) => {
                let form = FloatForm::exact(digits);
                (Expr::Code { column, base }, Some(Float::Decimal(form)))
            }
            None => {
                let Some(values) = fact.coded.listed()? else {
                    return NotFused::because(format!("{} has too many values", fact.name));
                };
                let (values, _, float) = self.integers_of(&values)?;
                // NULL has code 0 and is excluded by `nulls`, so its table entry is arbitrary.
                let values = values.into_iter().collect();
                (Expr::Mapped { column, values }, float)
            }
        };
        Ok(Typed {
            nulls,
            float,
            ..Typed::always(expr, data_type)
        })
    }

    fn binary(&self, binary: &BinaryExpr, data_type: &DataType) -> Result<Typed, NotFused> {
        let (left, right) = (self.typed(binary.left())?, self.typed(binary.right())?);
        match data_type {
            DataType::Float64 => return self.of_floats(*binary.op(), left, right),
            DataType::Float32 => return self.of_narrow_floats(*binary.op(), left, right),
            _ => {}
        }
        if matches!(data_type, DataType::Duration(_)) {
            return self.between_times(*binary.op(), &left, &right, data_type);
        }
        let (a, b) = (scale(&left.data_type)?, scale(&right.data_type)?);
        let result = scale(data_type)?;
        let expr = match binary.op() {
            Operator::Plus => {
                rescaled(left.expr.clone(), a, result)? + rescaled(right.expr.clone(), b, result)?
            }
            Operator::Minus => {
                rescaled(left.expr.clone(), a, result)? - rescaled(right.expr.clone(), b, result)?
            }
            Operator::Multiply if i16::from(a) + i16::from(b) == i16::from(result) => {
                left.expr.clone() * right.expr.clone()
            }
            Operator::Divide => divided(left.expr.clone(), a, &right.expr, b, result)?,
            op => return NotFused::because(format!("operator {op} is not done on codes")),
        };
        let computed = self.checked(expr, data_type)?;
        Ok(computed.null_with(&[&left, &right]))
    }

    /// The time from one timestamp to another of the same type.
    fn between_times(
        &self,
        op: Operator,
        left: &Typed,
        right: &Typed,
        data_type: &DataType,
    ) -> Result<Typed, NotFused> {
        let is_time = |typed: &Typed| match (&typed.data_type, data_type) {
            (DataType::Timestamp(unit, _), DataType::Duration(result)) => unit == result,
            _ => false,
        };
        if op != Operator::Minus || !is_time(left) || !is_time(right) {
            return NotFused::because(format!("operator {op} of times"));
        }
        let time = left.expr.clone() - right.expr.clone();
        Ok(self.checked(time, data_type)?.null_with(&[left, right]))
    }

    /// The value of `expr` with as many digits after the decimal point as `data_type` has.
    fn rescaled_to(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
    ) -> Result<Typed, NotFused> {
        let inner = self.typed(expr)?;
        if *data_type == DataType::Float64 {
            return self.float_of(inner);
        }
        if inner.is_bits() && inner.data_type == *data_type {
            return Ok(inner);
        }
        if *data_type == DataType::Float32 {
            return self.float_of(inner)?.narrowed();
        }
        let expr = inner.expr.clone();
        let expr = match (&inner.data_type, data_type) {
            (DataType::Timestamp(from, None), DataType::Timestamp(to, None)) => {
                rescaled(expr, digits_of_time(from), digits_of_time(to))?
            }
            _ => rescaled(expr, digits_of(&inner)?, scale(data_type)?)?,
        };
        Ok(self.checked(expr, data_type)?.null_with(&[&inner]))
    }

    /// Compiles a CASE; without ELSE it is NULL where no branch is taken.
    fn case(&self, case: &CaseExpr, data_type: &DataType) -> Result<Typed, NotFused> {
        let thens = case.when_then_expr().iter().map(|(_, then)| then);
        let branches = thens.chain(case.else_expr());
        let branches = branches.map(|branch| self.branch(branch, data_type));
        let mut branches = branches.collect::<Result<Vec<_>, _>>()?;
        self.with_common_digits(&mut branches)?;
        let mut result = match case.else_expr() {
            Some(_) => branches.pop().flatten(),
            None => None,
        };
        for ((condition, _), then) in case.when_then_expr().iter().zip(branches).rev() {
            let flag = match case.expr() {
                None => self.flag(condition, true)?,
                Some(compared) => {
                    let (one, other) = (Arc::clone(compared), Arc::clone(condition));
                    let equal = Arc::new(BinaryExpr::new(one, Operator::Eq, other));
                    self.flag(&(equal as _), true)?
                }
            };
            result = chosen(flag, then, result);
        }
        result.ok_or_else(|| NotFused("every branch of a case is NULL".into()))
    }

    /// The value of a branch of a CASE; `None` for NULL.
    fn branch(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
    ) -> Result<Option<Typed>, NotFused> {
        let literal = expr.downcast_ref::<Literal>();
        if literal.is_some_and(|literal| literal.value().is_null()) {
            return Ok(None);
        }
        self.rescaled_to(expr, data_type).map(Some)
    }

    /// Evaluates an expression in advance, to a lookup table by code.
    ///
    /// It may read one dimension, or one fact column of few values.
    fn table(&self, expr: &Arc<dyn PhysicalExpr>, data_type: DataType) -> Result<Typed, NotFused> {
        // Whether NULL is where the column itself is NULL, whose code is left out then.
        let mut is_own_null = false;
        let is_float = data_type == DataType::Float64;
        let of_dimension = is_float.then_some(Float::Bits { is_exact: true });
        let (column, values, valid, float) = match self.owner(expr)? {
            // In a dry run the dimension's values are not known; only the type is checked.
            Owner::NotLoaded(_)
                if !(is_exact(&data_type)
                    || matches!(data_type, DataType::Date32 | DataType::Float64)) =>
            {
                return NotFused::because(format!("{expr} is of type {data_type}"));
            }
            Owner::NotLoaded(column) => (column, CodeValues::from_iter([]), None, of_dimension),
            Owner::Dimension(column, loaded, expr) => {
                let (values, valid) = loaded.values(&expr)?;
                (column, values, valid, of_dimension)
            }
            Owner::Fact(listing) => {
                let results = over_values(expr, listing.read, listing.values)?;
                let (values, valid, float) = self.integers_of(&results)?;
                is_own_null = listing.nullable && results.is_null(0) && results.null_count() == 1;
                (listing.column, values.into_iter().collect(), valid, float)
            }
        };
        let mut typed = Typed {
            float,
            ..Typed::always(Expr::Mapped { column, values }, data_type)
        };
        match valid {
            Some(_) if is_own_null => typed.nulls.push(column),
            Some(set) => typed.when.push(in_set(column, set)),
            None => {}
        }
        Ok(typed)
    }

    /// The table whose codes decide what `expr` is.
    ///
    /// # Errors
    /// If these are several, or none, or too many codes.
    pub(super) fn owner(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Owner<'_>, NotFused> {
        let columns = columns_of(expr);
        let Some(owner) = columns.first().map(|c| self.lowered.owner(*c)) else {
            return NotFused::because(format!("{expr} reads no column"));
        };
        if columns.iter().any(|c| self.lowered.owner(*c) != owner) {
            return NotFused::because(format!("{expr} reads several tables"));
        }
        if let Some(dimension) = owner {
            let column = self.lowered.dimensions[dimension].fact_key;
            return Ok(match self.dimensions.get(dimension) {
                Some(loaded) => {
                    let over = over_dimension(self.lowered, dimension, expr)?;
                    Owner::Dimension(column, loaded, over)
                }
                None => Owner::NotLoaded(column),
            });
        }
        let [column] = columns[..] else {
            return NotFused::because(format!("{expr} reads several columns"));
        };
        Ok(Owner::Fact(self.listing(expr, column)?))
    }

    /// Returns `expr` if its interval proves that no value overflows `data_type`.
    pub(super) fn checked(&self, expr: Expr, data_type: &DataType) -> Result<Typed, NotFused> {
        let interval = self.interval(&expr)?;
        let fits = match data_type {
            DataType::Int8 => interval.within(i8::MIN, i8::MAX),
            DataType::Int16 => interval.within(i16::MIN, i16::MAX),
            DataType::Int32 | DataType::Date32 => interval.within(i32::MIN, i32::MAX),
            // `interval` has already refused what leaves 64 bits.
            DataType::Int64
            | DataType::Float64
            | DataType::Timestamp(..)
            | DataType::Duration(_) => true,
            DataType::UInt8 => interval.within(0, u8::MAX),
            DataType::UInt16 => interval.within(0, u16::MAX),
            DataType::UInt32 => interval.within(0, u32::MAX),
            DataType::UInt64 => interval.within(0, i64::MAX),
            DataType::Decimal128(precision, _) => {
                let bound = 10i128
                    .checked_pow(u32::from(*precision))
                    .unwrap_or(i128::MAX);
                interval.within(1 - bound, bound - 1)
            }
            _ => false,
        };
        if !fits {
            return NotFused::because(format!("a value could overflow {data_type}"));
        }
        Ok(Typed::always(expr, data_type.clone()))
    }
}

/// A fact column that has no codes, but words.
pub(super) fn words_of(lowered: &Lowered, column: usize) -> Option<Typed> {
    let placed = placed_column(lowered, column);
    if !placed.has_words() {
        return None;
    }
    // Bits of floats may be any.
    let (low, high) = bounds_of_words(placed).unwrap_or((i64::MIN, i64::MAX));
    let expr = Expr::Word { column, low, high };
    let is_float = placed.data_type().is_floating();
    Some(Typed {
        nulls: placed.nullable().then_some(column).into_iter().collect(),
        float: is_float.then_some(Float::Bits { is_exact: true }),
        ..Typed::always(expr, placed.data_type().clone())
    })
}

/// The times of which `expr` gives the seconds.
fn seconds_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    let (part, times) = part_of(expr.downcast_ref::<ScalarFunctionExpr>()?)?;
    part.eq_ignore_ascii_case("epoch").then_some(times)
}

/// Divides a decimal of scale `a` by a constant of scale `b`, where every quotient is exact at
/// scale `result`: half of an amount, but not a third.
fn divided(expr: Expr, a: i8, by: &Expr, b: i8, result: i8) -> Result<Expr, NotFused> {
    let digits = i32::from(result) - i32::from(a) + i32::from(b);
    let factor = u32::try_from(digits)
        .ok()
        .and_then(|d| 10_i64.checked_pow(d));
    match (factor, by) {
        (Some(factor), Expr::Constant(by)) if *by > 0 && factor % by == 0 => {
            Ok(expr * Expr::Constant(factor / by))
        }
        _ => NotFused::because("a quotient may not be exact"),
    }
}
