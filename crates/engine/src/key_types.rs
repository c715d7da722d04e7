//! Join keys of two integer types.

use crate::star_order::placed_table;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ExprSchema, NullEquality, Result};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, Join, LogicalPlan, TryCast};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Compares the keys of a join as integers of the larger table's type: of `fact.k = dimension.id`,
/// whose `k` has 32 bits and `id` 64, the planner makes `CAST(fact.k AS BIGINT) = dimension.id`,
/// and this rule `fact.k = TRY_CAST(dimension.id AS INT)`.
///
/// So the few keys are converted, not the many, and the key of the many is a column, which star
/// joins and filters by keys ask for. An integer that the type cannot hold becomes NULL, which is
/// equal to no key, as that integer was.
#[derive(Debug, Default)]
pub(crate) struct KeyTypes;

impl OptimizerRule for KeyTypes {
    fn name(&self) -> &'static str {
        "tierloom_key_types"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) => join_on(join),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn join_on(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let any_cast =
        |(left, right): &(Expr, Expr)| widened(left).is_some() || widened(right).is_some();
    let nulls_are_equal = join.null_equality != NullEquality::NullEqualsNothing;
    if join.null_aware || nulls_are_equal || !join.on.iter().any(any_cast) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let (of_left, of_right) = (join.left.schema(), join.right.schema());
    let (left_rows, right_rows) = (most_rows(&join.left), most_rows(&join.right));
    let mut changed = false;
    for (left, right) in &mut join.on {
        changed |= left_rows >= right_rows && narrowed(left, right, of_left)?
            || right_rows >= left_rows && narrowed(right, left, of_right)?;
    }
    Ok(Transformed::new_transformed(
        LogicalPlan::Join(join),
        changed,
    ))
}

/// Compares `many`, if it is a column cast to an integer type that holds all its values, with `few`
/// in the column's own type.
fn narrowed(many: &mut Expr, few: &mut Expr, of_many: &DFSchema) -> Result<bool> {
    let Some(Expr::Column(column)) = widened(many) else {
        return Ok(false);
    };
    let data_type = of_many.field_from_column(column)?.data_type().clone();
    if !holds_all(&many.get_type(of_many)?, &data_type) {
        return Ok(false);
    }
    *many = Expr::Column(column.clone());
    *few = Expr::TryCast(TryCast::new(Box::new(few.clone()), data_type));
    Ok(true)
}

/// What is cast to an integer by a key; `None` for another key.
fn widened(key: &Expr) -> Option<&Expr> {
    match key {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_integer() => Some(expr),
        _ => None,
    }
}

/// Rows of the largest placed table of a plan; 0 if there is none.
fn most_rows(plan: &LogicalPlan) -> usize {
    match placed_table(plan) {
        Some(table) => table.all_rows(),
        None => plan.inputs().into_iter().map(most_rows).max().unwrap_or(0),
    }
}

/// Whether an integer type has all values of another integer type.
fn holds_all(data_type: &DataType, other: &DataType) -> bool {
    let bits = |of: &DataType| 8 * of.primitive_width().unwrap_or(0);
    let (signed, other_signed) = (data_type.is_signed_integer(), other.is_signed_integer());
    let spare = usize::from(signed && !other_signed);
    let both = data_type.is_integer() && other.is_integer();
    both && (signed || !other_signed) && bits(data_type) >= bits(other) + spare
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};

    #[test]
    fn only_types_that_hold_every_value_count() {
        let signed = [Int8, Int16, Int32, Int64];
        let unsigned = [UInt8, UInt16, UInt32, UInt64];
        for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
            assert_eq!(holds_all(&signed[a], &signed[b]), a >= b);
            assert_eq!(holds_all(&unsigned[a], &unsigned[b]), a >= b);
            assert_eq!(holds_all(&signed[a], &unsigned[b]), a > b);
            assert!(!holds_all(&unsigned[a], &signed[b]));
        }
        assert!(!holds_all(&Int64, &DataType::Date32));
        assert!(!holds_all(&DataType::Boolean, &Int8));
    }
}
