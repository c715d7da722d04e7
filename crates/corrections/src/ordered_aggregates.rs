//! `ORDER BY` inside aggregates.

use super::delegated::as_in;
use super::{is_ordered_aggregate, operator_holds, rewrite_expressions, rewrite_if_any};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::functions_aggregate::array_agg::ArrayAgg;
use datafusion::functions_aggregate::string_agg::StringAgg;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Distinct, Expr, GroupsAccumulator, LogicalPlan,
    ReversedUDAF, SortExpr,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use std::hash::Hash;
use std::sync::Arc;

/// Leaves out keys by which an aggregate is ordered already.
///
/// DataFusion 55 keeps the keys of a group in a record with one field for each, and panics or fails
/// where two have one name: `first_value(id ORDER BY id DESC, id)`.
#[derive(Debug, Default)]
pub(crate) struct OrderedAggregates;

impl AnalyzerRule for OrderedAggregates {
    fn name(&self) -> &str {
        "tierloom_ordered_aggregates"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let has_order = |node: &LogicalPlan| match node {
            LogicalPlan::Aggregate(_) => operator_holds(node, is_ordered_aggregate).unwrap_or(true),
            node => matches!(node, LogicalPlan::Distinct(Distinct::On(_))),
        };
        rewrite_if_any(plan, has_order, |node| match node {
            LogicalPlan::Aggregate(_) => {
                rewrite_expressions(node, is_ordered_aggregate, with_new_keys)
            }
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                // It becomes an aggregate with this order.
                let changed = on.sort_expr.as_mut().is_some_and(keep_new_keys);
                let node = LogicalPlan::Distinct(Distinct::On(on));
                Ok(Transformed::new_transformed(node, changed))
            }
            other => Ok(Transformed::no(other)),
        })
    }
}

fn with_new_keys(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(mut function) = expr else {
        return Ok(Transformed::no(expr));
    };
    let changed = keep_new_keys(&mut function.params.order_by);
    let function = Expr::AggregateFunction(function);
    Ok(Transformed::new_transformed(function, changed))
}

/// Removes keys that an earlier one makes superfluous; returns whether there were any.
fn keep_new_keys(keys: &mut Vec<SortExpr>) -> bool {
    let before = keys.len();
    let mut seen = Vec::with_capacity(before);
    keys.retain(|key| {
        let is_new = !seen.contains(&key.expr);
        seen.push(key.expr.clone());
        is_new
    });
    keys.len() < before
}

/// `array_agg` and `string_agg` for a session.
///
/// The planner of DataFusion 55 may reverse the order of an aggregate to share a sort with another
/// one, and the aggregate then reads its rows from the end. With `DISTINCT` both functions sort the
/// values themselves, in the reversed order, as if it were the one that was written. They also
/// refuse `string_agg(DISTINCT x, ',' ORDER BY x)` of texts that are not plain ones (in a
/// dictionary, say), where the planner makes `x` plain text as an argument and not as a key.
#[must_use]
pub(crate) fn ordered_aggregates() -> [Arc<AggregateUDF>; 2] {
    let functions = [
        AggregateUDF::new_from_impl(ArrayAgg::default()),
        AggregateUDF::new_from_impl(StringAgg::new()),
    ];
    functions.map(|function| Arc::new(AggregateUDF::new_from_impl(AsWritten(function))))
}

/// One of DataFusion's two functions, in the order that was written.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsWritten(AggregateUDF);

impl AggregateUDFImpl for AsWritten {
    as_in!(self, self.0.inner());

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !args.is_distinct {
            return self.0.inner().accumulator(args);
        }
        let mut written = args.order_bys.to_vec();
        if args.is_reversed {
            written = written.iter().map(PhysicalSortExpr::reverse).collect();
        }
        if let ([key], Some(value)) = (written.as_mut_slice(), args.exprs.first())
            && is_text_in_other_type(value, &key.expr, args.schema)
        {
            key.expr = Arc::clone(value);
        }
        self.0.inner().accumulator(AccumulatorArgs {
            order_bys: &written,
            is_reversed: false,
            ..args
        })
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.inner().create_groups_accumulator(args)
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = self
            .0
            .clone()
            .with_beneficial_ordering(beneficial_ordering)?;
        Ok(ordered.map(|function| Arc::new(AsWritten(function)) as _))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        let same = AsWritten(self.0.clone());
        ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(same)))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.0.inner().supports_null_handling_clause()
    }
}

/// Whether `value` is the text `key` in another type of texts, so that both have one order.
fn is_text_in_other_type(
    value: &Arc<dyn PhysicalExpr>,
    key: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> bool {
    let Some(cast) = value.downcast_ref::<CastExpr>() else {
        return false;
    };
    let is_text = |data_type: DataType| match data_type {
        DataType::Dictionary(_, values) => values.is_string(),
        other => other.is_string() || other.is_null(),
    };
    cast.cast_type().is_string() && cast.expr() == key && key.data_type(schema).is_ok_and(is_text)
}
