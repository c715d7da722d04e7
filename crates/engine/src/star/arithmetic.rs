//! Compiles expressions of integers to arithmetic on codes.
//!
//! Integers, decimals and dates are exact integers at a scale, so sums do not depend on the order
//! of additions. Interval arithmetic over the domains of the columns proves that no intermediate
//! value overflows; what cannot be proved is refused.

use super::NotFused;
use super::dimension::LoadedDimension;
use super::filters::over_values;
use super::flags::{both, in_set, is_valid, not};
use super::integers::{integers, with_nulls};
use super::lower::{Lowered, columns_of};
use super::universe::{fact_column, over_dimension};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, Literal, NegativeExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_star::{CodeValues, Expr, Interval};

/// An integer expression with its type and NULL behaviour.
pub(super) struct Typed {
    pub expr: Expr,
    pub data_type: DataType,
    /// Columns whose NULL makes the expression NULL.
    pub nulls: Vec<usize>,
    /// Conditions, the expression is NULL where one of them is 0.
    pub when: Vec<Expr>,
}

impl Typed {
    /// An expression that is never NULL.
    pub fn always(expr: Expr, data_type: DataType) -> Self {
        Typed {
            expr,
            data_type,
            nulls: Vec::new(),
            when: Vec::new(),
        }
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
fn chosen(flag: Expr, then: Option<Typed>, other: Option<Typed>) -> Option<Typed> {
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
    })
}

/// Compiles expressions over the universe of a plan.
pub(super) struct Arithmetic<'a> {
    pub lowered: &'a Lowered,
    /// Empty for a dry run, if the plan has some.
    dimensions: &'a [LoadedDimension],
}

/// The table whose codes decide what an expression is.
pub(super) enum Owner<'a> {
    /// A dimension, whose rows belong to codes of this column; the expression is over the rows.
    Dimension(usize, &'a LoadedDimension, Arc<dyn PhysicalExpr>),
    /// A dimension in a dry run.
    NotLoaded(usize),
    /// A fact column, its value for each code, and whether code 0 is NULL.
    Fact(usize, ArrayRef, bool),
}

impl<'a> Arithmetic<'a> {
    pub fn new(lowered: &'a Lowered, dimensions: &'a [LoadedDimension]) -> Self {
        Arithmetic {
            lowered,
            dimensions,
        }
    }

    pub fn interval(&self, expr: &Expr) -> Result<Interval, NotFused> {
        let max_code = |column: usize| {
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
            let minus = Expr::Constant(0) - inner.expr.clone();
            Ok(self.checked(minus, &data_type)?.null_with(&[&inner]))
        } else if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            self.case(case, &data_type)
        } else {
            NotFused::because(format!("{expr} is not integer arithmetic"))
        };
        // Any expression over one small table alone can be evaluated in advance, per code.
        computed.or_else(|why| self.table(expr, data_type).map_err(|_| why))
    }

    fn fact_column(&self, column: usize, data_type: DataType) -> Result<Typed, NotFused> {
        let fact = fact_column(self.lowered, column)?;
        let nulls = fact
            .coded
            .nullable()
            .then_some(column)
            .into_iter()
            .collect();
        if !(is_exact(&data_type)
            || matches!(data_type, DataType::Date32 | DataType::Timestamp(..)))
        {
            return NotFused::because(format!("{} is of type {data_type}", fact.name));
        }
        let expr = match fact.coded.integer_base() {
            Some(base) => Expr::Code { column, base },
            None => {
                let Some(values) = fact.coded.listed()? else {
                    return NotFused::because(format!("{} has too many values", fact.name));
                };
                let (values, _) = with_nulls(&values)
                    .map_err(|_| NotFused(format!("{} does not fit 64 bits", fact.name)))?;
                // NULL has code 0 and is excluded by `nulls`, so its table entry is arbitrary.
                let values = values.into_iter().collect();
                Expr::Mapped { column, values }
            }
        };
        Ok(Typed {
            nulls,
            ..Typed::always(expr, data_type)
        })
    }

    fn binary(&self, binary: &BinaryExpr, data_type: &DataType) -> Result<Typed, NotFused> {
        let (left, right) = (self.typed(binary.left())?, self.typed(binary.right())?);
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

    /// The value of `expr` with as many digits after the decimal point as `data_type` has.
    fn rescaled_to(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
    ) -> Result<Typed, NotFused> {
        let inner = self.typed(expr)?;
        let expr = inner.expr.clone();
        let expr = rescaled(expr, scale(&inner.data_type)?, scale(data_type)?)?;
        Ok(self.checked(expr, data_type)?.null_with(&[&inner]))
    }

    /// Compiles a CASE; without ELSE it is NULL where no branch is taken.
    fn case(&self, case: &CaseExpr, data_type: &DataType) -> Result<Typed, NotFused> {
        let mut result = match case.else_expr() {
            Some(other) => self.branch(other, data_type)?,
            None => None,
        };
        for (condition, then) in case.when_then_expr().iter().rev() {
            let flag = match case.expr() {
                None => self.flag(condition, true)?,
                Some(compared) => {
                    let (one, other) = (Arc::clone(compared), Arc::clone(condition));
                    let equal = Arc::new(BinaryExpr::new(one, Operator::Eq, other));
                    self.flag(&(equal as _), true)?
                }
            };
            let then = self.branch(then, data_type)?;
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
        let (column, values, valid) = match self.owner(expr)? {
            // In a dry run the dimension's values are not known; only the type is checked.
            Owner::NotLoaded(_) if !(is_exact(&data_type) || data_type == DataType::Date32) => {
                return NotFused::because(format!("{expr} is of type {data_type}"));
            }
            Owner::NotLoaded(column) => (column, CodeValues::from_iter([]), None),
            Owner::Dimension(column, loaded, expr) => {
                let (values, valid) = loaded.values(&expr)?;
                (column, values, valid)
            }
            Owner::Fact(column, values, nullable) => {
                let results = over_values(expr, column, values)?;
                let (values, valid) = with_nulls(&results)?;
                is_own_null = nullable && results.is_null(0) && results.null_count() == 1;
                (column, values.into_iter().collect(), valid)
            }
        };
        let mut typed = Typed::always(Expr::Mapped { column, values }, data_type);
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
        let fact = fact_column(self.lowered, column)?;
        let Some(values) = fact.coded.listed()? else {
            return NotFused::because(format!("{} has too many values for {expr}", fact.name));
        };
        Ok(Owner::Fact(column, values, fact.coded.nullable()))
    }

    /// Returns `expr` if its interval proves that no value overflows `data_type`.
    fn checked(&self, expr: Expr, data_type: &DataType) -> Result<Typed, NotFused> {
        let interval = self.interval(&expr)?;
        let fits = match data_type {
            DataType::Int8 => interval.within(i8::MIN, i8::MAX),
            DataType::Int16 => interval.within(i16::MIN, i16::MAX),
            DataType::Int32 | DataType::Date32 => interval.within(i32::MIN, i32::MAX),
            // `interval` has already refused what leaves 64 bits.
            DataType::Int64 => true,
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
