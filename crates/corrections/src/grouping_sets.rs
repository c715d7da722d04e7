//! Grouping sets over literals and computed keys.

use super::rewrite_if_any;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, Projection,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
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
        let is_such =
            |node: &LogicalPlan| matches!(node, LogicalPlan::Aggregate(groups) if has_sets(groups));
        rewrite_if_any(plan, is_such, |node| match node {
            LogicalPlan::Aggregate(aggregate) if has_sets(&aggregate) => hidden(aggregate),
            other => Ok(Transformed::no(other)),
        })
    }
}

fn has_sets(aggregate: &Aggregate) -> bool {
    matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
}

/// `value` as an expression of which the planner knows nothing but the type.
pub(crate) fn hide(value: Expr) -> Expr {
    hiding().call(vec![value])
}

/// The function that hides a value.
pub(super) fn hiding() -> Arc<ScalarUDF> {
    static HIDE: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(Hide::new())));
    Arc::clone(&HIDE)
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
    // Names within this aggregation only: a cast has the name of the column that it casts.
    let names: Vec<String> = (0..computed.len()).map(|n| format!("__key_{n}")).collect();
    let columns = aggregate.input.schema().columns().into_iter();
    let mut projected: Vec<Expr> = columns.map(Expr::Column).collect();
    for (key, name) in computed.iter().zip(&names) {
        let value = match key.column_refs().is_empty() {
            true => hide((*key).clone()),
            false => (*key).clone(),
        };
        projected.push(value.alias(name));
    }
    let input = LogicalPlanBuilder::from(Arc::clone(&aggregate.input))
        .project(projected)?
        .build()?;
    let as_columns = |keys: &[Expr]| -> Vec<Expr> {
        let columns = keys.iter().map(|key| {
            let index = computed.iter().position(|computed| *computed == key);
            let name = index.and_then(|index| names.get(index));
            name.map_or_else(|| key.clone(), |name| Expr::Column(Column::from_name(name)))
        });
        columns.collect()
    };
    let sets = match aggregate.group_expr.first() {
        Some(Expr::GroupingSet(GroupingSet::Rollup(keys))) => GroupingSet::Rollup(as_columns(keys)),
        Some(Expr::GroupingSet(GroupingSet::Cube(keys))) => GroupingSet::Cube(as_columns(keys)),
        Some(Expr::GroupingSet(GroupingSet::GroupingSets(sets))) => {
            GroupingSet::GroupingSets(sets.iter().map(|keys| as_columns(keys)).collect())
        }
        _ => GroupingSet::GroupingSets(Vec::new()),
    };
    let group_expr = vec![Expr::GroupingSet(sets)];
    let grouped = Aggregate::try_new(Arc::new(input), group_expr, aggregate.aggr_expr.clone())?;
    let outputs = grouped.schema.columns().into_iter().map(Expr::Column);
    let outputs = outputs
        .zip(aggregate.schema.columns())
        .map(
            |(output, before)| match output == Expr::Column(before.clone()) {
                true => output,
                false => output.alias_qualified(before.relation, before.name),
            },
        );
    let outputs: Vec<Expr> = outputs.collect();
    let grouped = Arc::new(LogicalPlan::Aggregate(grouped));
    let named = Projection::try_new(outputs, grouped)?;
    Ok(Transformed::yes(LogicalPlan::Projection(named)))
}

/// Whether a key is not a column already.
fn is_computed(key: &Expr) -> bool {
    !matches!(key, Expr::Column(_))
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
