//! Grouping sets over columns that a filter makes constant.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Hides from the planner that a column of `ROLLUP`, `CUBE` or `GROUPING SETS` is constant.
///
/// DataFusion 55 concludes from `WHERE y = 2020` that rows are sorted by `y`, and takes this to
/// hold of the groups too, where `y` is NULL for the sets without it. Its final aggregation then
/// ends groups too early and returns them several times. A column that comes out of a function that
/// might return anything is constant for nobody.
#[derive(Debug, Default)]
pub(crate) struct HiddenConstants;

impl AnalyzerRule for HiddenConstants {
    fn name(&self) -> &str {
        "tierloom_hidden_constants"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) if has_sets(&aggregate) => {
                Ok(Transformed::yes(hidden(aggregate)?))
            }
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

fn hidden(aggregate: Aggregate) -> Result<LogicalPlan> {
    let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
    // Keys that are columns take their place; all others become columns of their name.
    let replaced: HashSet<Column> = keys
        .iter()
        .filter_map(|k| k.try_as_col().cloned())
        .collect();
    let columns = aggregate.input.schema().columns().into_iter();
    let kept = columns.filter(|column| !replaced.contains(column));
    let mut projected: Vec<Expr> = kept.map(Expr::Column).collect();
    for key in &keys {
        let column = column_of(key);
        let value = hide((*key).clone());
        projected.push(value.alias_qualified(column.relation, column.name));
    }
    let input = LogicalPlanBuilder::from(Arc::clone(&aggregate.input))
        .project(projected)?
        .build()?;
    let as_columns = |keys: Vec<Expr>| -> Vec<Expr> {
        let columns = keys.iter().map(|key| Expr::Column(column_of(key)));
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
    Ok(LogicalPlan::Aggregate(aggregate))
}

/// The column that holds a key: itself, or one with the name that the key has in the result.
fn column_of(key: &Expr) -> Column {
    match key {
        Expr::Column(column) => column.clone(),
        other => Column::from_name(other.schema_name().to_string()),
    }
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
