//! `INTERSECT ALL` and `EXCEPT ALL` that count repetitions.

use super::grouping_sets::hide;
use super::rewrite_if_any;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Projection, col,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Numbers equal rows on both sides and compares the numbers too: the second of three equal rows on
/// the left has a partner if there are two on the right.
///
/// DataFusion 55 plans both operations as joins that ask only whether a row is on the other side.
/// Before its optimizer has run, these are the only semi and anti joins for which NULL equals NULL;
/// those without `ALL` have made their left side distinct.
#[derive(Debug, Default)]
pub(crate) struct CountedSets;

impl AnalyzerRule for CountedSets {
    fn name(&self) -> &str {
        "tierloom_counted_sets"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_such =
            |node: &LogicalPlan| matches!(node, LogicalPlan::Join(join) if keeps_all(join));
        rewrite_if_any(plan, is_such, |node| match node {
            LogicalPlan::Join(join) if keeps_all(&join) => Ok(Transformed::yes(counted(join)?)),
            other => Ok(Transformed::no(other)),
        })
    }
}

fn keeps_all(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(*join.left, LogicalPlan::Distinct(_))
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let (left, right): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    // Two names: an optimizer may take `a = a` for true.
    let (in_left, in_right) = ("number_in_left", "number_in_right");
    let mut on = join.on;
    on.push((col(in_left), col(in_right)));
    let numbered = Join::try_new(
        Arc::new(numbered(&join.left, left, in_left)?),
        Arc::new(numbered(&join.right, right, in_right)?),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let columns = columns.into_iter().map(Expr::Column).collect();
    let numbered = Arc::new(LogicalPlan::Join(numbered));
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns, numbered,
    )?))
}

/// `plan` with one column more, in which rows with equal `keys` have the numbers 1, 2 and so on.
fn numbered(plan: &Arc<LogicalPlan>, keys: Vec<Expr>, name: &str) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan
        .schema()
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect();
    // Keys of their own: DataFusion 55 fails to plan windows whose keys are equal or become
    // constant by a filter above.
    let names = (0..keys.len()).map(|index| format!("{name}_key_{index}"));
    let names: Vec<String> = names.collect();
    let hidden = keys
        .into_iter()
        .zip(&names)
        .map(|(key, name)| hide(key).alias(name));
    let with_keys = columns.iter().cloned().chain(hidden);
    let with_keys = LogicalPlanBuilder::from(Arc::clone(plan)).project(with_keys)?;
    let keys = names
        .iter()
        .map(|name| Expr::Column(Column::from_name(name)));
    let number = row_number().partition_by(keys.collect()).build()?;
    let result = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let columns = columns.into_iter().chain([result.alias(name)]);
    with_keys.window([number])?.project(columns)?.build()
}
