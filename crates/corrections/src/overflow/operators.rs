//! Arithmetic in the expressions of operators.

use super::bits::may_overflow;
use super::is_arithmetic;
use crate::walk::Walk;
use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal, NegativeExpr};
use datafusion::physical_expr::{LexOrdering, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::{JoinFilter, JoinOn};
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// Makes `+`, `-` and `*` of integers, and `-x`, fail where the result leaves its type.
///
/// The rule must run before all others, which hand expressions on to operators that it does not
/// know. Arguments of windows are computed below them, see
/// [`WindowArguments`](super::WindowArguments).
#[derive(Debug, Default)]
pub(crate) struct CheckedArithmetic;

impl PhysicalOptimizerRule for CheckedArithmetic {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.up(&mut operator).data()
    }

    fn name(&self) -> &str {
        "tierloom_checked_arithmetic"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operator with checked expressions.
fn operator(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut checks = Checks::default();
    let changed: Arc<dyn ExecutionPlan> = if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let predicate = checks.of(filter.predicate(), &filter.input().schema())?;
        if !checks.added {
            return Ok(Transformed::no(node));
        }
        let filter = FilterExecBuilder::from(filter).with_predicate(predicate);
        Arc::new(filter.build()?)
    } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let input = projection.input();
        let exprs = projection.expr().iter().map(|e| {
            Ok(ProjectionExpr {
                expr: checks.of(&e.expr, &input.schema())?,
                alias: e.alias.clone(),
            })
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        if !checks.added {
            return Ok(Transformed::no(node));
        }
        Arc::new(ProjectionExec::try_new(exprs, Arc::clone(input))?)
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let changed = checks.aggregate(aggregate)?;
        if !checks.added {
            return Ok(Transformed::no(node));
        }
        Arc::new(changed)
    } else if let Some(sort) = node.downcast_ref::<SortExec>() {
        let schema = sort.input().schema();
        let keys = sort.expr().iter().map(|key| {
            Ok(PhysicalSortExpr {
                expr: checks.of(&key.expr, &schema)?,
                options: key.options,
            })
        });
        let keys = LexOrdering::new(keys.collect::<Result<Vec<_>>>()?);
        let (true, Some(keys)) = (checks.added, keys) else {
            return Ok(Transformed::no(node));
        };
        let sorted = SortExec::new(keys, Arc::clone(sort.input()))
            .with_preserve_partitioning(sort.preserve_partitioning());
        Arc::new(sorted.with_fetch(sort.fetch()))
    } else {
        match checks.join(&node)? {
            Some(join) => join,
            None => return Ok(Transformed::no(node)),
        }
    };
    Ok(Transformed::yes(changed))
}

/// Rewrites expressions; remembers whether any was changed.
#[derive(Default)]
struct Checks {
    added: bool,
}

impl Checks {
    fn of(&mut self, expr: &PhysicalExprRef, schema: &Schema) -> Result<PhysicalExprRef> {
        let checked = Arc::clone(expr).up(&mut |expr| checked(expr, schema))?;
        self.added |= checked.transformed;
        Ok(checked.data)
    }

    fn each(&mut self, exprs: &[PhysicalExprRef], schema: &Schema) -> Result<Vec<PhysicalExprRef>> {
        exprs.iter().map(|expr| self.of(expr, schema)).collect()
    }

    fn aggregate(&mut self, aggregate: &AggregateExec) -> Result<AggregateExec> {
        // The arguments of a final aggregation are of the input of its partial one.
        let schema = aggregate.input_schema();
        let mut reordered = false;
        let functions = aggregate.aggr_expr().iter().map(|function| {
            let mut own = Checks::default();
            let held = function.all_expressions();
            let args = own.each(&held.args, &schema)?;
            let mut orders = Checks::default();
            let order_by = orders.each(&held.order_by_exprs, &schema)?;
            reordered |= orders.added;
            own.added |= orders.added;
            self.added |= own.added;
            let changed = own
                .added
                .then(|| function.with_new_expressions(args, order_by));
            Ok(changed
                .flatten()
                .map_or_else(|| Arc::clone(function), Arc::new))
        });
        let functions: Vec<Arc<AggregateFunctionExpr>> = functions.collect::<Result<_>>()?;
        let input = aggregate.input();
        let mut keys = Checks::default();
        let group_by = aggregate.group_expr();
        let mut named = |(expr, name): &(PhysicalExprRef, String)| {
            Ok((keys.of(expr, &input.schema())?, name.clone()))
        };
        let exprs = group_by.expr().iter().map(&mut named);
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        let filters = aggregate.filter_expr().iter().map(|filter| {
            let filter = filter.as_ref();
            filter.map(|filter| keys.of(filter, &schema)).transpose()
        });
        let filters = filters.collect::<Result<Vec<_>>>()?;
        self.added |= keys.added;
        // The order that it requires of its input is made with its orders.
        if !keys.added && !reordered {
            return Ok(aggregate.with_new_aggr_exprs(functions));
        }
        let group_by = PhysicalGroupBy::new(
            exprs,
            group_by.null_expr().to_vec(),
            group_by.groups().to_vec(),
            group_by.has_grouping_set(),
        );
        let changed = AggregateExec::try_new(
            *aggregate.mode(),
            group_by,
            functions,
            filters,
            Arc::clone(input),
            schema,
        )?;
        Ok(changed.with_limit_options(aggregate.limit_options()))
    }

    /// A join with checked keys and condition; `None` for other operators, and for joins that need
    /// no check.
    fn join(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            let on = self.keys(join.on(), join.left(), join.right())?;
            let filter = self.condition(join.filter())?;
            if !self.added {
                return Ok(None);
            }
            let join = join.builder().with_on(on).with_filter(filter);
            return Ok(Some(join.build_exec()?));
        }
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            let filter = self.condition(join.filter())?;
            if !self.added {
                return Ok(None);
            }
            let join = NestedLoopJoinExecBuilder::from(join).with_filter(filter);
            return Ok(Some(Arc::new(join.build()?)));
        }
        if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
            let on = self.keys(join.on(), join.left(), join.right())?;
            let filter = self.condition(join.filter().as_ref())?;
            if !self.added {
                return Ok(None);
            }
            return Ok(Some(Arc::new(SortMergeJoinExec::try_new(
                Arc::clone(join.left()),
                Arc::clone(join.right()),
                on,
                filter,
                join.join_type(),
                join.sort_options().to_vec(),
                join.null_equality(),
            )?)));
        }
        Ok(None)
    }

    fn keys(
        &mut self,
        on: &[(PhysicalExprRef, PhysicalExprRef)],
        left: &Arc<dyn ExecutionPlan>,
        right: &Arc<dyn ExecutionPlan>,
    ) -> Result<JoinOn> {
        let pairs = on.iter();
        let pairs =
            pairs.map(|(l, r)| Ok((self.of(l, &left.schema())?, self.of(r, &right.schema())?)));
        pairs.collect()
    }

    fn condition(&mut self, filter: Option<&JoinFilter>) -> Result<Option<JoinFilter>> {
        let Some(filter) = filter else {
            return Ok(None);
        };
        let expression = self.of(filter.expression(), filter.schema())?;
        let columns = filter.column_indices().to_vec();
        Ok(Some(JoinFilter::new(
            expression,
            columns,
            Arc::clone(filter.schema()),
        )))
    }
}

/// The expression with a check if it is arithmetic of integers that may leave their type.
fn checked(expr: PhysicalExprRef, schema: &Schema) -> Result<Transformed<PhysicalExprRef>> {
    if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        let data_type = expr.data_type(schema)?;
        if !data_type.is_integer() {
            return Ok(Transformed::no(expr));
        }
        let zero = Arc::new(Literal::new(ScalarValue::new_zero(&data_type)?));
        let difference = BinaryExpr::new(zero, Operator::Minus, Arc::clone(negative.arg()));
        return Ok(Transformed::yes(Arc::new(
            difference.with_fail_on_overflow(true),
        )));
    }
    let Some(binary) = expr.downcast_ref::<BinaryExpr>() else {
        return Ok(Transformed::no(expr));
    };
    if !is_arithmetic(*binary.op()) {
        return Ok(Transformed::no(expr));
    }
    if !may_overflow(&expr, *binary.op(), schema)? {
        return Ok(Transformed::no(expr));
    }
    let checked = binary.clone().with_fail_on_overflow(true);
    Ok(Transformed::yes(Arc::new(checked)))
}
