//! Corrections of wrong answers of DataFusion 55, and of its parser.
//!
//! Each module describes one fault. Most are rules of the planner in the place of one of
//! DataFusion's, or before or after them. They know nothing of placed memory: any session of
//! DataFusion can be [`corrected`].

mod call_names;
mod checked_sum;
mod comparisons;
mod constants;
mod correlated;
mod counted_sets;
mod delegated;
mod duration_seconds;
mod exceptions;
mod false_keys;
mod filter_fence;
mod float_extremes;
mod frame_keys;
mod group_filters;
mod grouping_sets;
mod guarded;
mod in_lists;
mod interval_products;
mod intervals;
mod kept_types;
mod merged_columns;
mod mixed_unions;
mod nans;
mod null_filled;
mod null_in;
mod null_rules;
mod numbers;
mod one_row;
mod operator;
mod ordered_aggregates;
mod outer_types;
mod output_order;
mod overflow;
mod pass_through;
mod precedence;
mod range_frames;
mod scan_statistics;
mod select_names;
mod syntax;
mod timestamps;
mod top_groups;
mod value_subqueries;
mod walk;
mod window_order;
mod zeros;

pub use checked_sum::checked_sum;
pub use merged_columns::NoMergedOuterColumns;
pub use nans::{ONE_NAN_NAME, with_one_nan};
pub use null_filled::input_with_known_values;
pub use null_rules::{PlainAntiJoins, has_no_nulls};
pub use pass_through::PassThrough;
pub use precedence::statement;
pub use syntax::Syntax;
pub use timestamps::ticks_per_second;
pub use walk::{Walk, WalkAll};

use comparisons::ExactComparisons;
use counted_sets::CountedSets;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, JoinType, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use duration_seconds::{Extract, date_part};
use exceptions::Except;
use false_keys::{KeylessJoins, KeylessRelations};
use float_extremes::float_extremes;
use frame_keys::FrameKeys;
use group_filters::GroupFilters;
use grouping_sets::ComputedKeys;
use guarded::GuardedConditions;
use in_lists::MergedLists;
use interval_products::IntervalProducts;
use kept_types::KeptTypes;
use mixed_unions::MixedUnions;
use nans::OneNan;
use null_filled::NullFilled;
use null_in::ThreeValuedIn;
use null_rules::NullableSubqueries;
use one_row::OneRowSubqueries;
use ordered_aggregates::{OrderedAggregates, ordered_aggregates};
use outer_types::OuterTypes;
use output_order::{OutputKeys, output_mark};
use overflow::{CheckedArithmetic, CheckedConstants, WindowArguments};
use range_frames::WholeRangeFrames;
use scan_statistics::ScanStatistics;
use std::sync::Arc;
use top_groups::TopGroups;
use value_subqueries::ValueSubqueries;
use window_order::WindowOrder;
use zeros::{BothZeros, OneZero};

/// Adds the rules and functions that correct wrong answers of DataFusion 55 to a session with its
/// default features.
///
/// All rules of the optimizer are set, so a caller adds its own afterwards. The fuzzer corrects its
/// plain session in the same way, because known faults would hide others.
#[must_use]
pub fn corrected(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut physical = ScanStatistics::among_defaults();
    physical.insert(0, Arc::new(NullFilled));
    physical.insert(0, Arc::new(CheckedArithmetic));
    physical.push(Arc::new(WholeRangeFrames));
    physical.push(Arc::new(TopGroups));
    let mut analyzer = Analyzer::new().rules;
    analyzer.insert(0, Arc::new(OuterTypes));
    analyzer.insert(0, Arc::new(FrameKeys));
    analyzer.insert(0, Arc::new(MixedUnions));
    let mut builder = builder
        .with_analyzer_rules(analyzer)
        .with_analyzer_rule(Arc::new(OutputKeys))
        .with_analyzer_rule(Arc::new(CountedSets))
        .with_analyzer_rule(Arc::new(ComputedKeys))
        .with_analyzer_rule(Arc::new(OneRowSubqueries))
        .with_analyzer_rule(Arc::new(ThreeValuedIn))
        .with_analyzer_rule(Arc::new(ExactComparisons))
        .with_analyzer_rule(Arc::new(MergedLists))
        .with_analyzer_rule(Arc::new(OrderedAggregates))
        .with_analyzer_rule(Arc::new(WindowOrder))
        .with_analyzer_rule(Arc::new(OneZero))
        .with_analyzer_rule(Arc::new(OneNan))
        .with_analyzer_rule(Arc::new(WindowArguments))
        .with_analyzer_rule(Arc::new(NullableSubqueries))
        .with_optimizer_rules(logical_rules())
        .with_physical_optimizer_rules(physical)
        .with_relation_planners(vec![Arc::new(KeylessRelations)]);
    // A simplified expression may be nullable in the logical plan and not in the physical one; that
    // changes no answer.
    let config = builder.config().get_or_insert_default();
    let options = config.options_mut();
    options.execution.skip_physical_aggregate_schema_check = true;
    // A plan that runs again keeps the filters that `min`, `max` and `LIMIT` made while it ran, and
    // loses the rows that they are for. Placed tables take no such filters in any case.
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // Refuses joins on functions of fields of tables that have an alias. It is meant for files, of
    // which it reads fewer columns.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // Later functions replace earlier ones of the same name.
    let functions = builder.aggregate_functions().get_or_insert_default();
    functions.extend(float_extremes());
    functions.extend(ordered_aggregates());
    let functions = builder.scalar_functions().get_or_insert_default();
    functions.push(output_mark());
    functions.push(date_part());
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(IntervalProducts));
    planners.insert(0, Arc::new(Extract));
    builder
}

/// Functions that rules and planners put into plans and that no statement can call: whoever reads a
/// plan that was written down needs them beside those of the session.
pub fn functions_of_rules() -> [Arc<ScalarUDF>; 4] {
    [
        nans::one_nan(),
        grouping_sets::hiding(),
        null_rules::may_be_null(),
        interval_products::scaled_interval(),
    ]
}

/// The rule of DataFusion that evaluates constants.
const SIMPLIFIER: &str = "simplify_expressions";

/// DataFusion's logical rules, corrected.
pub fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let rules = Optimizer::new().rules.into_iter();
    let corrected = rules
        .map(Except::around)
        .flat_map(|rule| match rule.name() {
            KeptTypes::NAME => vec![Arc::new(KeptTypes(rule)) as _],
            GroupFilters::NAME => vec![Arc::new(GroupFilters::default()) as _],
            SIMPLIFIER => vec![
                Arc::new(CheckedConstants) as _,
                Arc::new(GuardedConditions) as _,
                rule,
            ],
            // First the sort below gets the limit, then the limit is not needed. In the next pass
            // that would be a change, which makes one more necessary.
            "push_down_limit" => vec![Arc::clone(&rule), rule],
            ValueSubqueries::BEFORE => {
                vec![Arc::new(ValueSubqueries(Arc::clone(&rule))) as _, rule]
            }
            name if KeylessJoins::BEFORE.contains(&name) => vec![Arc::new(KeylessJoins) as _, rule],
            _ => vec![rule],
        });
    // After those that make lists of comparisons.
    corrected.chain([Arc::new(BothZeros) as _]).collect()
}

/// Rewrites the expressions of one operator from their leaves up, and keeps the names of their
/// results, to which the operators above refer.
///
/// An operator in which no expression is `such` is left as it is: names are texts, which cost more
/// than the look.
fn rewrite_expressions(
    node: LogicalPlan,
    such: impl Fn(&Expr) -> bool,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    match operator_holds(&node, such)? {
        true => rewrite_whole_expressions(node, |expr| expr.up(&mut rewrite)),
        false => Ok(Transformed::no(node)),
    }
}

/// Rewrites each expression of one operator at once, and keeps the names of their results.
fn rewrite_whole_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    node.change_expressions(&mut |expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|e| name.restore(e)))
    })
}

/// Whether there is a join in the plan, subqueries left out.
fn has_join(plan: &LogicalPlan) -> Result<bool> {
    plan.has(&mut |node| Ok(matches!(node, LogicalPlan::Join(_))))
}

/// Rewrites a plan, subqueries included, from its leaves up. One without an operator that is `such`
/// stays as it is: looking takes a fraction of the time of rewriting.
fn rewrite_if_any(
    plan: LogicalPlan,
    such: impl Fn(&LogicalPlan) -> bool,
    mut rewrite: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    match has_operator(&plan, such)? {
        true => plan.up_all(&mut rewrite).data(),
        false => Ok(plan),
    }
}

/// Whether an operator of the plan, those of subqueries included, is `such`.
fn has_operator(plan: &LogicalPlan, such: impl Fn(&LogicalPlan) -> bool) -> Result<bool> {
    let mut found = false;
    plan.each_of_all(&mut |node| {
        found = such(node);
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether the expression is a subquery, or compares with one.
fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
    )
}

/// The columns that the expressions of an operator refer to. Those of a table are not among them.
fn input_schema(node: &LogicalPlan) -> DFSchemaRef {
    match (node, node.inputs().as_slice()) {
        // It has those of both sides already, and merging schemas takes long. Filters and keys of
        // other joins refer to columns that they do not deliver.
        (LogicalPlan::Join(join), _) if join.join_type == JoinType::Inner => {
            Arc::clone(&join.schema)
        }
        (_, [input]) => Arc::clone(input.schema()),
        (_, inputs) => Arc::new(merge_schema(inputs)),
    }
}

fn is_window(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Window(_))
}

/// Whether the expression is an aggregate with `ORDER BY`.
fn is_ordered_aggregate(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(function) if !function.params.order_by.is_empty())
}

fn is_window_function(expr: &Expr) -> bool {
    matches!(expr, Expr::WindowFunction(_))
}

/// Whether an expression of the operator itself holds one that is `such`.
///
/// # Errors
/// Those of walking through the expressions.
pub fn operator_holds(node: &LogicalPlan, such: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.each_expression(&mut |expr| {
        found = expr.has(&mut |e| Ok(such(e)))?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether an expression of the plan, subqueries included, holds one that is `such`.
fn holds(plan: &LogicalPlan, such: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.each_of_all(&mut |node| {
        found = operator_holds(node, &such)?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_correction_of_a_rule_finds_one_of_datafusion() {
        let rules = Optimizer::new().rules;
        let replaced = [
            GroupFilters::NAME,
            KeptTypes::NAME,
            SIMPLIFIER,
            ValueSubqueries::BEFORE,
        ];
        for name in Except::names()
            .into_iter()
            .chain(replaced)
            .chain(KeylessJoins::BEFORE)
        {
            let same = rules.iter().filter(|rule| rule.name() == name);
            assert_eq!(same.count(), 1, "{name}");
        }
        assert_eq!(GroupFilters::default().name(), GroupFilters::NAME);
        // Two rules are added before the simplifier, one before that of subqueries and before each
        // that goes by keys, and one at the end; one is there twice.
        let before_keys = KeylessJoins::BEFORE.len();
        assert_eq!(logical_rules().len(), rules.len() + 5 + before_keys);
    }
}
