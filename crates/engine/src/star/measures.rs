//! Compiles aggregates to integer arithmetic on codes.
//!
//! Integers, decimals and dates are exact integers at a scale, so sums do not depend on the order
//! of additions. Interval arithmetic over the domains of the columns proves that no intermediate
//! value overflows; what cannot be proved, or may be NULL where arithmetic has no NULL, is refused.

use super::NotFused;
use super::dimension::{LoadedDimension, integers};
use super::filters::over_values;
use super::lower::{Lowered, columns_of, not_volatile};
use super::universe::{fact_column, over_dimension};
use arrow::array::Array;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, Literal, NegativeExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_star::{Condition, Expr, Interval, Measure, MeasureKind};

/// Integers up to this magnitude are exact in a 64-bit float.
const EXACT_FLOAT: i128 = 1 << 53;

/// A column of partial states.
pub(super) struct StateColumn {
    /// Index of the measure that it is computed from.
    pub measure: usize,
    pub field: FieldRef,
    /// Write 0 as NULL, as an average's count for a group without values.
    pub null_if_zero: bool,
}

/// An integer expression with its type and NULL behaviour.
struct Typed {
    expr: Expr,
    data_type: DataType,
    /// Columns whose NULL makes the expression NULL.
    nulls: Vec<usize>,
    /// Conditions without which the expression is NULL.
    when: Vec<Condition>,
}

impl Typed {
    /// An expression that is never NULL.
    fn always(expr: Expr, data_type: DataType) -> Self {
        Typed {
            expr,
            data_type,
            nulls: Vec::new(),
            when: Vec::new(),
        }
    }

    /// The same, NULL where one of `others` is.
    fn null_with(mut self, others: &[&Typed]) -> Self {
        for other in others {
            self.nulls.extend(&other.nulls);
            let new = other.when.iter().filter(|c| !self.when.contains(c));
            let new: Vec<Condition> = new.cloned().collect();
            self.when.extend(new);
        }
        self.nulls.sort_unstable();
        self.nulls.dedup();
        self
    }
}

/// Collects measures; equal ones are shared.
pub(super) struct Measures<'a> {
    lowered: &'a Lowered,
    dimensions: &'a [LoadedDimension],
    found: Vec<Measure>,
}

impl<'a> Measures<'a> {
    pub fn new(lowered: &'a Lowered, dimensions: &'a [LoadedDimension]) -> Self {
        Measures {
            lowered,
            dimensions,
            found: Vec::new(),
        }
    }

    pub fn finish(self) -> Vec<Measure> {
        self.found
    }

    /// Adds the measures of `aggregate`, whose states are the first of `fields`.
    ///
    /// # Errors
    /// A function other than sum, count, avg, min and max, or an argument that is not integer
    /// arithmetic.
    pub fn aggregate(
        &mut self,
        aggregate: &AggregateFunctionExpr,
        fields: &[FieldRef],
    ) -> Result<Vec<StateColumn>, NotFused> {
        let name = aggregate.fun().name();
        if aggregate.is_distinct() || !aggregate.order_bys().is_empty() {
            return NotFused::because(format!("{} is distinct or ordered", aggregate.name()));
        }
        let arguments = aggregate.expressions();
        let [argument] = &arguments[..] else {
            return NotFused::because(format!(
                "{} has {} arguments",
                aggregate.name(),
                arguments.len()
            ));
        };
        let expr = self.lowered.over_universe(argument)?;
        not_volatile(&expr)?;
        if let Some(odd) = fields.iter().find(|f| !is_state_type(f.data_type())) {
            return NotFused::because(format!(
                "{} keeps states of type {}",
                aggregate.name(),
                odd.data_type()
            ));
        }
        match name {
            "count" => Ok(vec![self.count(&expr, &fields[0])?]),
            "sum" => Ok(vec![self.sum(&expr, &fields[0])?]),
            "avg" => {
                if !fields[0].name().ends_with("[count]") {
                    return NotFused::because("avg keeps its state in an order that is not known");
                }
                // DataFusion's average takes a group as empty only if its count is NULL; otherwise
                // it divides by the count.
                let count = StateColumn {
                    null_if_zero: true,
                    ..self.count(&expr, &fields[0])?
                };
                Ok(vec![count, self.sum(&expr, &fields[1])?])
            }
            "min" => Ok(vec![self.extreme(MeasureKind::Min, &expr, &fields[0])?]),
            "max" => Ok(vec![self.extreme(MeasureKind::Max, &expr, &fields[0])?]),
            other => NotFused::because(format!("{other} is not one of sum, count, avg, min, max")),
        }
    }

    fn push(&mut self, measure: Measure, field: &FieldRef) -> StateColumn {
        let at = self.found.iter().position(|m| *m == measure);
        let measure = at.unwrap_or_else(|| {
            self.found.push(measure);
            self.found.len() - 1
        });
        StateColumn {
            measure,
            field: Arc::clone(field),
            null_if_zero: false,
        }
    }

    fn count(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        field: &FieldRef,
    ) -> Result<StateColumn, NotFused> {
        let (nulls, when) = match expr.downcast_ref::<Literal>() {
            Some(literal) if !literal.value().is_null() => (Vec::new(), Vec::new()),
            Some(_) => return NotFused::because("count of NULL"),
            None => self.null_if(expr)?,
        };
        let measure = Measure {
            kind: MeasureKind::Count,
            expr: Expr::Constant(0),
            nulls,
            when,
            wide: false,
        };
        Ok(self.push(measure, field))
    }

    /// The columns whose NULL makes `expr` NULL and the conditions without which it is; a plain
    /// column's values are not needed.
    ///
    /// Casts that cannot fail are skipped. A cast that can fail must be evaluated, so that it fails
    /// as in DataFusion.
    fn null_if(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<(Vec<usize>, Vec<Condition>), NotFused> {
        let inner = match expr.downcast_ref::<CastExpr>() {
            Some(cast) => {
                let from = cast.expr().data_type(&self.lowered.universe)?;
                if never_fails(&from, cast.cast_type()) {
                    cast.expr()
                } else {
                    expr
                }
            }
            None => expr,
        };
        if let Some(column) = inner.downcast_ref::<Column>()
            && self.lowered.owner(column.index()).is_none()
        {
            // Nullability as seen when the table was loaded; the planner's schema may declare more.
            let placed = &self.lowered.fact.columns()[self.lowered.fact_columns[column.index()]];
            return match (placed.coded(), placed.nullable()) {
                (_, false) => Ok((Vec::new(), Vec::new())),
                (Some(_), true) => Ok((vec![column.index()], Vec::new())),
                (None, true) => {
                    NotFused::because(format!("column {} is not kept as codes", placed.name()))
                }
            };
        }
        let typed = self.typed(inner)?;
        Ok((typed.nulls, typed.when))
    }

    fn sum(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        field: &FieldRef,
    ) -> Result<StateColumn, NotFused> {
        let float = *field.data_type() == DataType::Float64;
        let inner = match expr.downcast_ref::<CastExpr>() {
            // Sums of integers as floats are exact below 2^53 in any order of additions.
            Some(cast) if float && *cast.cast_type() == DataType::Float64 => cast.expr(),
            _ => expr,
        };
        let typed = self.typed(inner)?;
        if float && !typed.data_type.is_integer() {
            return NotFused::because(format!("{expr} is summed as a float"));
        }
        if !float && scale(&typed.data_type)? != scale(field.data_type())? {
            return NotFused::because(format!(
                "{expr} of type {} is summed as {}",
                typed.data_type,
                field.data_type()
            ));
        }
        let rows = self.lowered.fact.rows() as u64;
        let total = self.interval(&typed.expr)?.times_rows(rows);
        let Some(total) = total else {
            return NotFused::because(format!("the sum of {expr} could leave 128 bits"));
        };
        // DataFusion may add in another order. Both agree if every partial sum is exact.
        if float && !total.within(-EXACT_FLOAT, EXACT_FLOAT) {
            return NotFused::because(format!("the sum of {expr} could be inexact as a float"));
        }
        let measure = Measure {
            kind: MeasureKind::Sum,
            expr: typed.expr,
            nulls: typed.nulls,
            when: typed.when,
            wide: !total.within(i64::MIN, i64::MAX),
        };
        Ok(self.push(measure, field))
    }

    fn extreme(
        &mut self,
        kind: MeasureKind,
        expr: &Arc<dyn PhysicalExpr>,
        field: &FieldRef,
    ) -> Result<StateColumn, NotFused> {
        let typed = self.typed(expr)?;
        if typed.data_type != *field.data_type() {
            return NotFused::because(format!(
                "{expr} of type {} is kept as {}",
                typed.data_type,
                field.data_type()
            ));
        }
        self.interval(&typed.expr)?;
        let measure = Measure {
            kind,
            expr: typed.expr,
            nulls: typed.nulls,
            when: typed.when,
            wide: false,
        };
        Ok(self.push(measure, field))
    }

    fn interval(&self, expr: &Expr) -> Result<Interval, NotFused> {
        let max_code = |column: usize| {
            let count =
                fact_column(self.lowered, column).map_or(u64::MAX, |f| f.coded.code_count());
            u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX)
        };
        expr.interval(&max_code)
            .ok_or_else(|| NotFused("a value could leave 64 bits".into()))
    }

    fn typed(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, NotFused> {
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
            self.cast(cast, &data_type)
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
                let integers = integers(&values)?.into_iter();
                let values = integers
                    // NULL has code 0 and is excluded by `nulls`, so its table entry is arbitrary.
                    .map(|v| i64::try_from(v.unwrap_or(0)))
                    .collect::<Result<Vec<_>, _>>();
                let values =
                    values.map_err(|_| NotFused(format!("{} does not fit 64 bits", fact.name)))?;
                Expr::Mapped {
                    column,
                    values: values.into(),
                }
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

    fn cast(&self, cast: &CastExpr, data_type: &DataType) -> Result<Typed, NotFused> {
        let inner = self.typed(cast.expr())?;
        let expr = inner.expr.clone();
        let expr = rescaled(expr, scale(&inner.data_type)?, scale(data_type)?)?;
        Ok(self.checked(expr, data_type)?.null_with(&[&inner]))
    }

    /// Compiles a CASE with one condition to arithmetic.
    ///
    /// `case when C then A else B end`, with C on one small table, becomes flag * A + (1 - flag) *
    /// B. Without B it is A with a condition.
    fn case(&self, case: &CaseExpr, data_type: &DataType) -> Result<Typed, NotFused> {
        let ([(condition, then)], None) = (case.when_then_expr(), case.expr()) else {
            return NotFused::because("a case has several branches");
        };
        let is_null = |expr: &&Arc<dyn PhysicalExpr>| {
            let literal = expr.downcast_ref::<Literal>();
            literal.is_some_and(|literal| literal.value().is_null())
        };
        let Some(other) = case.else_expr().filter(|other| !is_null(other)) else {
            return self.conditional(condition, then, data_type);
        };
        let flag = self.flag(condition)?;
        let (then, other) = (self.typed(then)?, self.typed(other)?);
        let result = scale(data_type)?;
        // Multiplication by the flag selects values but cannot select NULLs.
        let may_be_null = |typed: &Typed| !typed.nulls.is_empty() || !typed.when.is_empty();
        if may_be_null(&then) || may_be_null(&other) {
            return NotFused::because("a case over values that may be NULL");
        }
        let then = rescaled(then.expr, scale(&then.data_type)?, result)?;
        let other = rescaled(other.expr, scale(&other.data_type)?, result)?;
        let expr = match other {
            Expr::Constant(0) => flag * then,
            other => flag.clone() * then + (Expr::Constant(1) - flag) * other,
        };
        self.checked(expr, data_type)
    }

    /// Compiles `case when C then A end`.
    fn conditional(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        then: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
    ) -> Result<Typed, NotFused> {
        let Expr::Mapped { column, values } = self.flag(condition)? else {
            return NotFused::because(format!("{condition} is not looked up by code"));
        };
        let inner = self.typed(then)?;
        let expr = inner.expr.clone();
        let expr = rescaled(expr, scale(&inner.data_type)?, scale(data_type)?)?;
        let mut computed = self.checked(expr, data_type)?.null_with(&[&inner]);
        let condition = Condition {
            column,
            holds: values,
        };
        if !computed.when.contains(&condition) {
            computed.when.push(condition);
        }
        Ok(computed)
    }

    /// 1 where a condition on one small table is true, 0 where it is false or NULL.
    fn flag(&self, condition: &Arc<dyn PhysicalExpr>) -> Result<Expr, NotFused> {
        let as_number: Arc<dyn PhysicalExpr> = Arc::new(CastExpr::new(
            Arc::new(datafusion::physical_expr::expressions::BinaryExpr::new(
                Arc::clone(condition),
                Operator::IsNotDistinctFrom,
                datafusion::physical_expr::expressions::lit(true),
            )),
            DataType::Int64,
            None,
        ));
        Ok(self.table(&as_number, DataType::Int64)?.expr)
    }

    /// Evaluates an expression in advance, to a lookup table by code.
    ///
    /// It may read one dimension, or one fact column of few values.
    fn table(&self, expr: &Arc<dyn PhysicalExpr>, data_type: DataType) -> Result<Typed, NotFused> {
        let columns = columns_of(expr);
        let Some(owner) = columns.first().map(|c| self.lowered.owner(*c)) else {
            return NotFused::because(format!("{expr} reads no column"));
        };
        if columns.iter().any(|c| self.lowered.owner(*c) != owner) {
            return NotFused::because(format!("{expr} reads several tables"));
        }
        let Some(dimension) = owner else {
            return self.fact_table(expr, &columns, data_type);
        };
        let column = self.lowered.dimensions[dimension].fact_key;
        let values = match self.dimensions.get(dimension) {
            Some(loaded) => loaded.values(&over_dimension(self.lowered, dimension, expr)?)?,
            // In a dry run the dimension's values are not known; only the type is checked.
            None if is_exact(&data_type) || data_type == DataType::Date32 => Arc::from([]),
            None => return NotFused::because(format!("{expr} is of type {data_type}")),
        };
        Ok(Typed::always(Expr::Mapped { column, values }, data_type))
    }

    fn fact_table(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        columns: &[usize],
        data_type: DataType,
    ) -> Result<Typed, NotFused> {
        let [column] = columns else {
            return NotFused::because(format!("{expr} reads several columns"));
        };
        let fact = fact_column(self.lowered, *column)?;
        let Some(values) = fact.coded.listed()? else {
            return NotFused::because(format!("{} has too many values for {expr}", fact.name));
        };
        let results = over_values(expr, *column, values)?;
        let first = usize::from(fact.coded.nullable());
        let null_first = first == 1 && results.is_null(0);
        if (usize::from(null_first)..results.len()).any(|i| results.is_null(i)) {
            return NotFused::because(format!("{expr} is NULL for some value"));
        }
        let values = integers(&results)?
            .into_iter()
            .map(|v| i64::try_from(v.unwrap_or(0)));
        let values: Result<Vec<i64>, _> = values.collect();
        let values = values.map_err(|_| NotFused(format!("{expr} does not fit 64 bits")))?;
        let looked_up = Expr::Mapped {
            column: *column,
            values: values.into(),
        };
        Ok(Typed {
            nulls: null_first.then_some(*column).into_iter().collect(),
            ..Typed::always(looked_up, data_type)
        })
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

/// Types of partial states that can be made from integers.
fn is_state_type(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Decimal128(..)
                | DataType::Float64
                | DataType::Boolean
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Timestamp(..)
        )
}

/// Whether a cast from `from` to `to` succeeds for every value.
fn never_fails(from: &DataType, to: &DataType) -> bool {
    if from == to {
        return true;
    }
    match from {
        _ if from.is_integer() && to.is_integer() => wider(from, to),
        _ if from.is_integer() => matches!(to, DataType::Float64),
        DataType::Decimal128(..) => matches!(to, DataType::Float64),
        _ => false,
    }
}

/// Whether every value of integer type `from` is a value of integer type `to`.
fn wider(from: &DataType, to: &DataType) -> bool {
    let bits = |t: &DataType| t.primitive_width().unwrap_or(0);
    match (from.is_signed_integer(), to.is_signed_integer()) {
        (true, false) => false,
        (false, true) => bits(from) < bits(to),
        _ => bits(from) <= bits(to),
    }
}

/// Whether values are exact integers at some scale: integers and 128-bit decimals.
fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(_, _))
}

/// Digits after the decimal point; 0 for integers.
fn scale(data_type: &DataType) -> Result<i8, NotFused> {
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
fn rescaled(expr: Expr, from: i8, to: i8) -> Result<Expr, NotFused> {
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
