//! Grouping sets over literals and computed keys.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::{Arc, LazyLock};

/// Makes columns of the computed keys of `ROLLUP`, `CUBE` or `GROUPING SETS`.
///
/// DataFusion 55 takes groups for sorted by a key that is a literal, although it is NULL for the
/// sets without it. Its final aggregation then ends groups too early and returns them several
/// times. For columns that a filter makes constant, [`super::null_filled`] prevents the same.
///
/// Where its simplifier changes a computed key, which may be in several sets, the aggregation gets
/// another number of columns and planning fails.
#[derive(Debug, Default)]
pub(crate) struct ComputedKeys;

impl AnalyzerRule for ComputedKeys {
    fn name(&self) -> &str {
        "tierloom_computed_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) if has_sets(&aggregate) => hidden(aggregate),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

fn has_sets(aggregate: &Aggregate) -> bool {
    matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
}

/// `value` as an expression of which the planner knows nothing but the type.
pub(crate) fn hide(value: Expr) -> Expr {
    static HIDE: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::new_from_impl(Hide::new()));
    HIDE.call(vec![value])
}

/// Columns of a `CUBE` at most: it has 2^n grouping sets, each of which is planned, and as many
/// groups of each row. PostgreSQL has the same limit.
const WIDEST_CUBE: usize = 12;

fn hidden(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    if let [Expr::GroupingSet(GroupingSet::Cube(keys))] = aggregate.group_expr.as_slice()
        && keys.len() > WIDEST_CUBE
    {
        return not_impl_err!(
            "CUBE of {} columns, which are more than {WIDEST_CUBE}; name the sets in GROUPING SETS",
            keys.len()
        );
    }
    let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
    let mut computed: Vec<&Expr> = Vec::new();
    for key in keys {
        if is_computed(key) && !computed.contains(&key) {
            computed.push(key);
        }
    }
    if computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let columns = aggregate.input.schema().columns().into_iter();
    let mut projected: Vec<Expr> = columns.map(Expr::Column).collect();
    for key in computed {
        let value = match key.column_refs().is_empty() {
            true => hide(key.clone()),
            false => key.clone(),
        };
        projected.push(value.alias(column_of(key).name));
    }
    let input = LogicalPlanBuilder::from(Arc::clone(&aggregate.input))
        .project(projected)?
        .build()?;
    let as_columns = |keys: Vec<Expr>| -> Vec<Expr> {
        let columns = keys.into_iter().map(|key| match is_computed(&key) {
            true => Expr::Column(column_of(&key)),
            false => key,
        });
        columns.collect()
    };
    let sets = match aggregate.group_expr.into_iter().next() {
        Some(Expr::GroupingSet(GroupingSet::Rollup(keys))) => GroupingSet::Rollup(as_columns(keys)),
        Some(Expr::GroupingSet(GroupingSet::Cube(keys))) => GroupingSet::Cube(as_columns(keys)),
        Some(Expr::GroupingSet(GroupingSet::GroupingSets(sets))) => {
            GroupingSet::GroupingSets(sets.into_iter().map(as_columns).collect())
        }
        _ => GroupingSet::GroupingSets(Vec::new()),
    };
    let group_expr = vec![Expr::GroupingSet(sets)];
    let aggregate = Aggregate::try_new(Arc::new(input), group_expr, aggregate.aggr_expr)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

/// Whether a key is not a column already.
fn is_computed(key: &Expr) -> bool {
    !matches!(key, Expr::Column(_))
}

/// The column that holds a computed key, with the name that the key has in the result.
fn column_of(key: &Expr) -> Column {
    Column::from_name(key.schema_name().to_string())
}

/// The identity, of which the planner knows nothing.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Hide {
    signature: Signature,
}

impl Hide {
    fn new() -> Self {
        Hide {
            signature: Signature::any(1, Volatility::Volatile),
        }
    }
}

impl ScalarUDFImpl for Hide {
    fn name(&self) -> &str {
        "hide_constant"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(arguments.args.swap_remove(0))
    }
}
