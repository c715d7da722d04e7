//! Compiles aggregates to measures: integer arithmetic on codes, and which rows count.

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::lower::not_volatile;
use super::typed::scale;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_star::{Expr, Measure, MeasureKind};

/// A column of partial states.
pub(super) struct StateColumn {
    pub from: StateValue,
    pub field: FieldRef,
    /// Write 0 as NULL, as an average's count for a group without values.
    pub null_if_zero: bool,
    /// A float is divided by this.
    pub unit: f64,
}

/// What a state is computed from; the numbers are indices of measures.
pub(super) enum StateValue {
    Measure(usize),
    /// The float of a place in the total order.
    Rank(usize),
    /// A sum as a float, 0 if there was nothing to add.
    Float(usize),
    /// A sum divided by a count, 0 if that is 0.
    Mean {
        count: usize,
        sum: usize,
    },
    /// The sum of the products of two values' differences from their means, or of the squares of
    /// one value's.
    Deviations {
        count: usize,
        sums: [usize; 2],
        products: usize,
    },
}

/// A function of the first and second moments of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moments {
    /// Of one argument.
    Variance,
    /// Of two.
    Covariance,
    Correlation,
    /// Of two, the second of which the first one is taken to depend on.
    Regression,
}

impl Moments {
    /// That of DataFusion's function `name`.
    pub fn of(name: &str) -> Option<Moments> {
        match name {
            "stddev" | "stddev_pop" | "var" | "var_pop" => Some(Moments::Variance),
            "covar_samp" | "covar_pop" => Some(Moments::Covariance),
            "corr" => Some(Moments::Correlation),
            "regr_slope" | "regr_intercept" | "regr_r2" | "regr_count" | "regr_avgx"
            | "regr_avgy" | "regr_sxx" | "regr_syy" | "regr_sxy" => Some(Moments::Regression),
            _ => None,
        }
    }
}

/// Collects measures; equal ones are shared.
pub(super) struct Measures<'a> {
    pub(super) arithmetic: &'a Arithmetic<'a>,
    /// Whether rows are grouped by something.
    pub(super) is_grouped: bool,
    pub(super) found: Vec<Measure>,
    /// 1 in the rows that the FILTER clause of the current aggregate leaves.
    only: Option<Expr>,
}

impl<'a> Measures<'a> {
    pub fn new(arithmetic: &'a Arithmetic<'a>, is_grouped: bool) -> Self {
        Measures {
            arithmetic,
            is_grouped,
            found: Vec::new(),
            only: None,
        }
    }

    pub fn finish(self) -> Vec<Measure> {
        self.found
    }

    /// Adds the measures of `aggregate` over the rows for which the condition `only` is true; its
    /// states are the first of `fields`.
    ///
    /// # Errors
    /// Another function than those that the last message names, or an argument that is not integer
    /// arithmetic.
    pub fn aggregate(
        &mut self,
        aggregate: &AggregateFunctionExpr,
        only: Option<&Arc<dyn PhysicalExpr>>,
        fields: &[FieldRef],
    ) -> Result<Vec<StateColumn>, NotFused> {
        let name = aggregate.fun().name();
        if aggregate.is_distinct() || !aggregate.order_bys().is_empty() {
            return NotFused::because(format!("{} is distinct or ordered", aggregate.name()));
        }
        self.only = match only {
            None => None,
            Some(condition) => {
                let condition = self.arithmetic.lowered.over_universe(condition)?;
                not_volatile(&condition)?;
                Some(self.arithmetic.flag(&condition, true)?)
            }
        };
        let mut arguments = Vec::new();
        for argument in aggregate.expressions() {
            let expr = self.arithmetic.lowered.over_universe(&argument)?;
            not_volatile(&expr)?;
            arguments.push(expr);
        }
        if let Some(odd) = fields.iter().find(|f| !is_state_type(f.data_type())) {
            return NotFused::because(format!(
                "{} keeps states of type {}",
                aggregate.name(),
                odd.data_type()
            ));
        }
        if let Some(moments) = Moments::of(name) {
            return self.moments(moments, &arguments, fields);
        }
        let [expr] = &arguments[..] else {
            return NotFused::because(format!(
                "{} has {} arguments",
                aggregate.name(),
                arguments.len()
            ));
        };
        match name {
            "count" => Ok(vec![self.count(expr, &fields[0])?]),
            "sum" => Ok(vec![self.sum(expr, &fields[0])?]),
            "avg" => {
                if !fields[0].name().ends_with("[count]") {
                    return NotFused::because("avg keeps its state in an order that is not known");
                }
                // DataFusion's average takes a group as empty only if its count is NULL; otherwise
                // it divides by the count.
                let count = StateColumn {
                    null_if_zero: true,
                    ..self.count(expr, &fields[0])?
                };
                Ok(vec![count, self.sum(expr, &fields[1])?])
            }
            "min" => Ok(vec![self.extreme(MeasureKind::Min, expr, &fields[0])?]),
            "max" => Ok(vec![self.extreme(MeasureKind::Max, expr, &fields[0])?]),
            other => NotFused::because(format!(
                "{other} is not one of sum, count, avg, min, max, stddev, var, covar, corr and regr"
            )),
        }
    }

    /// The index of a measure, which is added if there is no such one.
    pub(super) fn index(&mut self, mut measure: Measure) -> usize {
        measure.when.extend(self.only.clone());
        let at = self.found.iter().position(|m| *m == measure);
        at.unwrap_or_else(|| {
            self.found.push(measure);
            self.found.len() - 1
        })
    }

    fn push(&mut self, measure: Measure, field: &FieldRef, unit: f64) -> StateColumn {
        StateColumn {
            from: StateValue::Measure(self.index(measure)),
            field: Arc::clone(field),
            null_if_zero: false,
            unit,
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
            factor: None,
            nulls,
            when,
            wide: false,
        };
        Ok(self.push(measure, field, 1.0))
    }

    /// The columns whose NULL makes `expr` NULL and the conditions without which it is; a plain
    /// column's values are not needed.
    ///
    /// Casts that cannot fail are skipped. A cast that can fail must be evaluated, so that it fails
    /// as in DataFusion.
    fn null_if(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<(Vec<usize>, Vec<Expr>), NotFused> {
        let inner = match expr.downcast_ref::<CastExpr>() {
            Some(cast) => {
                let from = cast.expr().data_type(&self.arithmetic.lowered.universe)?;
                if never_fails(&from, cast.cast_type()) {
                    cast.expr()
                } else {
                    expr
                }
            }
            None => expr,
        };
        if let Some(column) = inner.downcast_ref::<Column>()
            && self.arithmetic.lowered.owner(column.index()).is_none()
        {
            // Nullability as seen when the table was loaded; the planner's schema may declare more.
            let placed = &self.arithmetic.lowered.fact.columns()
                [self.arithmetic.lowered.fact_columns[column.index()]];
            return match (placed.coded(), placed.nullable()) {
                (_, false) => Ok((Vec::new(), Vec::new())),
                (Some(_), true) => Ok((vec![column.index()], Vec::new())),
                (None, true) if placed.has_words() => Ok((vec![column.index()], Vec::new())),
                (None, true) => {
                    NotFused::because(format!("column {} is not kept as codes", placed.name()))
                }
            };
        }
        let typed = self.arithmetic.typed(inner)?;
        Ok((typed.nulls, typed.when))
    }

    fn sum(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        field: &FieldRef,
    ) -> Result<StateColumn, NotFused> {
        let typed = self.arithmetic.typed(expr)?;
        let unit = match *field.data_type() == DataType::Float64 {
            true if typed.is_bits() => {
                let measure = Measure {
                    kind: MeasureKind::FloatSum,
                    expr: typed.expr,
                    factor: None,
                    nulls: typed.nulls,
                    when: typed.when,
                    wide: false,
                };
                return Ok(self.push(measure, field, 1.0));
            }
            true => typed.form()?.unit(),
            false if typed.data_type == *field.data_type() => 1.0,
            false if scale(&typed.data_type)? == scale(field.data_type())? => 1.0,
            false => {
                return NotFused::because(format!(
                    "{expr} of type {} is summed as {}",
                    typed.data_type,
                    field.data_type()
                ));
            }
        };
        let rows = self.arithmetic.lowered.fact.rows() as u64;
        let values = self.arithmetic.interval(&typed.expr)?;
        let Some(total) = values.times_rows(rows) else {
            return NotFused::because(format!("the sum of {expr} could leave 128 bits"));
        };
        let measure = Measure {
            kind: MeasureKind::Sum,
            expr: typed.expr,
            factor: None,
            nulls: typed.nulls,
            when: typed.when,
            wide: !total.within(i64::MIN, i64::MAX),
        };
        Ok(self.push(measure, field, unit))
    }

    fn extreme(
        &mut self,
        kind: MeasureKind,
        expr: &Arc<dyn PhysicalExpr>,
        field: &FieldRef,
    ) -> Result<StateColumn, NotFused> {
        let typed = self.arithmetic.typed(expr)?;
        if typed.data_type != *field.data_type() {
            return NotFused::because(format!(
                "{expr} of type {} is kept as {}",
                typed.data_type,
                field.data_type()
            ));
        }
        let is_float = typed.float.is_some();
        let typed = match is_float && !typed.is_as_computed() {
            true => self.arithmetic.as_computed(expr)?,
            false => typed,
        };
        if is_float && !typed.is_as_computed() {
            return NotFused::because(format!("{expr} depends on how it is rounded"));
        }
        self.arithmetic.interval(&typed.expr)?;
        let of_bits = typed.is_bits();
        let unit = match typed.form() {
            Ok(form) if is_float => form.unit(),
            _ => 1.0,
        };
        let measure = Measure {
            kind,
            expr: if of_bits {
                typed.expr.rank()
            } else {
                typed.expr
            },
            factor: None,
            nulls: typed.nulls,
            when: typed.when,
            wide: false,
        };
        let state = self.push(measure, field, unit);
        Ok(match state.from {
            StateValue::Measure(measure) if of_bits => StateColumn {
                from: StateValue::Rank(measure),
                ..state
            },
            _ => state,
        })
    }
}

/// Types of partial states that can be made from integers.
fn is_state_type(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Decimal128(..)
                | DataType::Float32
                | DataType::Float64
                | DataType::Boolean
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Timestamp(..)
                | DataType::Duration(_)
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
