//! Standard deviations, variances, covariances and correlations of integers.
//!
//! Sums of values and of their products are exact, so the states do not depend on the order of the
//! rows, and lose nothing where values differ little from a large mean.

use super::NotFused;
use super::arithmetic::Typed;
use super::measures::{EXACT_FLOAT, Measures, Moments, StateColumn, StateValue};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_star::{Expr, Interval, Measure, MeasureKind};

impl Measures<'_> {
    /// Adds the measures of a function of moments, whose states are the first of `fields`.
    ///
    /// # Errors
    /// Arguments that are not integers, or too large for exact sums.
    pub(super) fn moments(
        &mut self,
        function: Moments,
        arguments: &[Arc<dyn PhysicalExpr>],
        fields: &[FieldRef],
    ) -> Result<Vec<StateColumn>, NotFused> {
        let arguments = arguments.iter().map(|argument| self.integer(argument));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let (a, b) = match (function, &arguments[..]) {
            (Moments::Variance, [a]) => (a, a),
            (Moments::Covariance | Moments::Correlation, [a, b]) => (a, b),
            _ => return NotFused::because(format!("{} arguments", arguments.len())),
        };
        // Rows with NULL in one of them do not count for the other either.
        let counting = Typed::always(Expr::Constant(0), DataType::Int64).null_with(&[a, b]);
        let count = self.index(Measure {
            kind: MeasureKind::Count,
            expr: Expr::Constant(0),
            nulls: counting.nulls.clone(),
            when: counting.when.clone(),
            wide: false,
        });
        let [x, y] = [a, b].map(|argument| self.total(&argument.expr, &counting));
        let (x, y) = (x?, y?);
        let [xx, xy, yy] = [(a, a), (a, b), (b, b)]
            .map(|(one, other)| self.total(&(one.expr.clone() * other.expr.clone()), &counting));
        let (xx, xy, yy) = (xx?, xy?, yy?);
        let mean = |sum| StateValue::Mean { count, sum };
        let deviations = |sums, products| StateValue::Deviations {
            count,
            sums,
            products,
        };
        let named = |at: usize, end: &str| fields.get(at).is_some_and(|f| f.name().ends_with(end));
        let states = match function {
            Moments::Variance if named(1, "[mean]") => vec![mean(x), deviations([x, x], xx)],
            Moments::Covariance if named(3, "[algo_const]") => {
                vec![mean(x), mean(y), deviations([x, y], xy)]
            }
            // The accumulator for groups keeps other states than that for all rows, under the same
            // names.
            Moments::Correlation if self.is_grouped => {
                [x, y, xy, xx, yy].map(StateValue::Float).into()
            }
            Moments::Correlation if named(5, "[algo_const]") => vec![
                mean(x),
                deviations([x, x], xx),
                mean(y),
                deviations([y, y], yy),
                deviations([x, y], xy),
            ],
            _ => return NotFused::because("it keeps states in an order that is not known"),
        };
        let states = std::iter::once(StateValue::Measure(count)).chain(states);
        let columns = states.zip(fields).map(|(from, field)| StateColumn {
            from,
            field: Arc::clone(field),
            null_if_zero: false,
        });
        Ok(columns.collect())
    }

    /// An argument without its cast to a float.
    fn integer(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, NotFused> {
        let inner = match expr.downcast_ref::<CastExpr>() {
            Some(cast) if *cast.cast_type() == DataType::Float64 => cast.expr(),
            _ => expr,
        };
        let typed = self.arithmetic.typed(inner)?;
        let is_exact = self.arithmetic.interval(&typed.expr)?;
        if !typed.data_type.is_integer() || !is_exact.within(-EXACT_FLOAT, EXACT_FLOAT) {
            return NotFused::because(format!("{expr} is no integer that a float can hold"));
        }
        Ok(typed)
    }

    /// The index of the sum of `expr` over the rows that count for `counting`.
    fn total(&mut self, expr: &Expr, counting: &Typed) -> Result<usize, NotFused> {
        let rows = self.arithmetic.lowered.fact.rows() as u64;
        let total = self.arithmetic.interval(expr)?.times_rows(rows);
        // It is multiplied by the number of rows once more, or by another sum.
        let square = |total: Interval| total.within(-MOST_SUM, MOST_SUM) && rows < 1 << 40;
        let Some(total) = total.filter(|total| square(*total)) else {
            return NotFused::because("the sum of squares could leave 128 bits");
        };
        Ok(self.index(Measure {
            kind: MeasureKind::Sum,
            expr: expr.clone(),
            nulls: counting.nulls.clone(),
            when: counting.when.clone(),
            wide: !total.within(i64::MIN, i64::MAX),
        }))
    }
}

/// Largest sum of products: times 2^40 rows it fits 127 bits.
const MOST_SUM: i128 = 1 << 86;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_sum_fits_when_it_is_multiplied() {
        assert!(MOST_SUM.checked_mul(1 << 40).is_some());
    }
}
