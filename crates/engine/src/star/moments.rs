//! Standard deviations, variances, covariances and correlations of integers and decimals.
//!
//! Sums of values and of their products are exact, so the states do not depend on the order of the
//! rows, and lose nothing where values differ little from a large mean.

use super::NotFused;
use super::measures::{Measures, Moments, StateColumn, StateValue};
use super::typed::{EXACT_FLOAT, FloatForm, Typed};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;
use tierloom_star::{Expr, FloatOp, Interval, Measure, MeasureKind};

impl Measures<'_> {
    /// Adds the measures of a function of moments, whose states are the first of `fields`.
    ///
    /// # Errors
    /// Arguments that are neither integers nor floats.
    pub(super) fn moments(
        &mut self,
        function: Moments,
        arguments: &[Arc<dyn PhysicalExpr>],
        fields: &[FieldRef],
    ) -> Result<Vec<StateColumn>, NotFused> {
        let (a, b) = match (function, arguments) {
            (Moments::Variance, [a]) => (a, a),
            (Moments::Covariance | Moments::Correlation | Moments::Regression, [a, b]) => (a, b),
            _ => return NotFused::because(format!("{} arguments", arguments.len())),
        };
        let integers = self.integer(a).and_then(|a| Ok((a, self.integer(b)?)));
        let before = self.found.len();
        let states = integers.and_then(|(a, b)| self.moments_of(function, (&a, &b), fields));
        states.or_else(|_| {
            self.found.truncate(before);
            let (a, b) = (self.float(a)?, self.float(b)?);
            self.moments_of(function, (&a, &b), fields)
        })
    }

    /// The same, of integers or of floats by their bits.
    fn moments_of(
        &mut self,
        function: Moments,
        (a, b): (&Typed, &Typed),
        fields: &[FieldRef],
    ) -> Result<Vec<StateColumn>, NotFused> {
        // Rows with NULL in one of them do not count for the other either.
        let counting = Typed::always(Expr::Constant(0), DataType::Int64).null_with(&[a, b]);
        let count = self.index(Measure {
            kind: MeasureKind::Count,
            expr: Expr::Constant(0),
            factor: None,
            nulls: counting.nulls.clone(),
            when: counting.when.clone(),
            wide: false,
        });
        let [x, y] = [a, b].map(|argument| self.total(function, argument, None, &counting));
        let (x, y) = (x?, y?);
        let [xx, xy, yy] = [(a, a), (a, b), (b, b)]
            .map(|(one, other)| self.total(function, one, Some(&other.expr), &counting));
        let (xx, xy, yy) = (xx?, xy?, yy?);
        let [unit_a, unit_b] = [a, b].map(|argument| argument.form().map_or(1.0, FloatForm::unit));
        let mean = |sum, unit| (StateValue::Mean { count, sum }, unit);
        let deviations = |sums, products, unit| {
            let value = StateValue::Deviations {
                count,
                sums,
                products,
            };
            (value, unit)
        };
        let float = |(sum, unit)| (StateValue::Float(sum), unit);
        let named = |at: usize, end: &str| fields.get(at).is_some_and(|f| f.name().ends_with(end));
        let states = match function {
            Moments::Variance if named(1, "[mean]") => {
                vec![mean(x, unit_a), deviations([x, x], xx, unit_a * unit_a)]
            }
            Moments::Covariance if named(3, "[algo_const]") => {
                vec![
                    mean(x, unit_a),
                    mean(y, unit_b),
                    deviations([x, y], xy, unit_a * unit_b),
                ]
            }
            // The accumulator for groups keeps other states than that for all rows, under the same
            // names.
            Moments::Correlation if self.is_grouped => {
                let sums = [
                    (x, unit_a),
                    (y, unit_b),
                    (xy, unit_a * unit_b),
                    (xx, unit_a * unit_a),
                    (yy, unit_b * unit_b),
                ];
                sums.map(float).into()
            }
            Moments::Correlation if named(5, "[algo_const]") => vec![
                mean(x, unit_a),
                deviations([x, x], xx, unit_a * unit_a),
                mean(y, unit_b),
                deviations([y, y], yy, unit_b * unit_b),
                deviations([x, y], xy, unit_a * unit_b),
            ],
            Moments::Regression if named(5, "[algo_const]") => vec![
                mean(y, unit_b),
                mean(x, unit_a),
                deviations([y, y], yy, unit_b * unit_b),
                deviations([x, x], xx, unit_a * unit_a),
                deviations([x, y], xy, unit_a * unit_b),
            ],
            _ => return NotFused::because("it keeps states in an order that is not known"),
        };
        let states = std::iter::once((StateValue::Measure(count), 1.0)).chain(states);
        let columns = states.zip(fields).map(|((from, unit), field)| StateColumn {
            from,
            field: Arc::clone(field),
            null_if_zero: false,
            unit,
        });
        Ok(columns.collect())
    }

    /// An argument, as an integer or a decimal of few digits.
    fn integer(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, NotFused> {
        let typed = self.arithmetic.typed(expr)?;
        let is_exact = self.arithmetic.interval(&typed.expr)?;
        let is_number = typed.data_type.is_integer() || typed.form().is_ok();
        if !is_number || !is_exact.within(-EXACT_FLOAT, EXACT_FLOAT) {
            return NotFused::because(format!("{expr} is no number that a float can hold"));
        }
        Ok(typed)
    }

    /// An argument as a float, by its bits.
    fn float(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, NotFused> {
        let typed = self.arithmetic.typed(expr)?;
        match typed.data_type.is_integer() {
            true => self.arithmetic.float_of(typed)?.in_bits(),
            false => typed.in_bits(),
        }
    }

    /// The index of the sum of `value`, times `factor`, over the rows that count for `counting`.
    fn total(
        &mut self,
        function: Moments,
        value: &Typed,
        factor: Option<&Expr>,
        counting: &Typed,
    ) -> Result<usize, NotFused> {
        if value.is_bits() {
            // Where DataFusion goes on with the rounded sum, it need not be that of exact products.
            let (expr, factor) = match factor {
                Some(factor) if self.is_grouped && function == Moments::Correlation => {
                    let product = value.expr.clone().with_float(FloatOp::Mul, factor.clone());
                    (product, None)
                }
                factor => (value.expr.clone(), factor.cloned()),
            };
            return Ok(self.index(Measure {
                kind: MeasureKind::FloatSum,
                expr,
                factor,
                nulls: counting.nulls.clone(),
                when: counting.when.clone(),
                wide: false,
            }));
        }
        let expr = match factor {
            Some(factor) => value.expr.clone() * factor.clone(),
            None => value.expr.clone(),
        };
        let rows = self.arithmetic.lowered.fact.rows() as u64;
        let total = self.arithmetic.interval(&expr)?.times_rows(rows);
        // It is multiplied by the number of rows once more, or by another sum.
        let square = |total: Interval| total.within(-MOST_SUM, MOST_SUM) && rows < 1 << 40;
        let Some(total) = total.filter(|total| square(*total)) else {
            return NotFused::because("the sum of squares could leave 128 bits");
        };
        Ok(self.index(Measure {
            kind: MeasureKind::Sum,
            expr,
            factor: None,
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
