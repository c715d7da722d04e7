//! Window functions over whole partitions.

use crate::origin::values_of_table;
use crate::repeatable::is_repeatable;
use crate::star_order::placed_table;
use crate::table::PlacedTable;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, JoinConstraint, JoinType, NullEquality, Result};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Join, LogicalPlan, Projection, SubqueryAlias, Window,
    WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::sync::Arc;
use tierloom_corrections::{Walk, WalkAll, has_no_nulls};

/// Rows of a table from which a second pass over it costs less than a sort.
const FEWEST_ROWS: usize = 16 << 10;

/// Rows of a partition, on average, from which it is worth a group.
const FEWEST_PER_PARTITION: usize = 4;

/// Functions that give the same value in whatever order rows come.
const FUNCTIONS: [&str; 9] = [
    "avg",
    "count",
    "max",
    "min",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

/// Makes `sum(x) OVER (PARTITION BY k)` over a table the sum of a group: of the table, joined with
/// its groups by `k`.
///
/// DataFusion sorts the rows by their partitions. Groups and their joins work on codes and need
/// neither a sort nor rows in other places. Where another window sorts by the same partitions,
/// nothing is gained, and the rule leaves both.
#[derive(Debug, Default)]
pub(crate) struct WholeWindows;

impl WholeWindows {
    /// The rule after which this one belongs, since filters by the partition apply to both sides.
    pub(crate) const AFTER: &str = "push_down_filter";
}

impl OptimizerRule for WholeWindows {
    fn name(&self) -> &'static str {
        "tierloom_whole_windows"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let is_window = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Window(_)));
        if !plan.has(&mut |node| is_window(node))? {
            return Ok(Transformed::no(plan));
        }
        plan.down_all(&mut |node| {
            let LogicalPlan::Window(top) = &node else {
                return Ok(Transformed::no(node));
            };
            let (windows, input) = chain(top);
            if input.has(&mut |node| is_window(node))? {
                return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
            }
            let name = || config.alias_generator().next("__whole_window");
            let joined = joined(&windows, input, name)?;
            Ok(match joined {
                Some(joined) => Transformed::new(joined, true, TreeNodeRecursion::Jump),
                None => Transformed::new(node, false, TreeNodeRecursion::Jump),
            })
        })
    }
}

/// The windows over the same rows, those that are computed first before others, and what gives the
/// rows.
fn chain(top: &Window) -> (Vec<&Window>, &Arc<LogicalPlan>) {
    let mut windows = vec![top];
    let mut input = &top.input;
    while let LogicalPlan::Window(window) = input.as_ref() {
        windows.push(window);
        input = &window.input;
    }
    windows.reverse();
    (windows, input)
}

/// `input` joined with the groups of all windows over whole partitions of a table, below those that
/// stay; `None` if all stay.
fn joined<'w>(
    windows: &[&'w Window],
    input: &Arc<LogicalPlan>,
    name: impl Fn() -> String,
) -> Result<Option<LogicalPlan>> {
    let Some(table) = placed_table(input) else {
        return Ok(None);
    };
    let of = |window: &&'w Window| Whole::of(window, input, &table);
    let found = windows.iter().map(of).collect::<Result<Vec<_>>>()?;
    let is_sorted = |whole: &Whole<'_>| {
        let mut others = windows.iter().zip(&found);
        others.any(|(window, found)| found.is_none() && whole.shares_sort(window))
    };
    let joins = found
        .iter()
        .map(|found| found.as_ref().filter(|whole| !is_sorted(whole)));
    let joins: Vec<Option<&Whole<'_>>> = joins.collect();
    if joins.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut plan = input.as_ref().clone();
    for whole in joins.iter().flatten() {
        plan = whole.joined(plan, input, name())?;
    }
    for (window, _) in windows.iter().zip(joins).filter(|(_, join)| join.is_none()) {
        let window = Window::try_new(window.window_expr.clone(), Arc::new(plan))?;
        plan = LogicalPlan::Window(window);
    }
    let top = windows.last().map_or(input.schema(), |top| &top.schema);
    let columns = top.columns().into_iter().map(Expr::Column).collect();
    let columns = Projection::try_new(columns, Arc::new(plan))?;
    Ok(Some(LogicalPlan::Projection(columns)))
}

/// A window over whole partitions of a table that becomes a join.
struct Whole<'a> {
    window: &'a Window,
    keys: &'a [Expr],
    aggregates: Vec<Expr>,
}

impl<'a> Whole<'a> {
    /// `None` for other windows of `input`, which reads `table`, and where a sort takes less.
    fn of(window: &'a Window, input: &LogicalPlan, table: &PlacedTable) -> Result<Option<Self>> {
        let functions = window.window_expr.iter().map(whole);
        let Some(functions) = functions.collect::<Option<Vec<&WindowFunction>>>() else {
            return Ok(None);
        };
        let keys = &functions[0].params.partition_by;
        let same_keys = functions.iter().all(|f| f.params.partition_by == *keys);
        let refers = window.window_expr.iter().flat_map(Expr::column_refs);
        let of_input = refers.into_iter().all(|c| input.schema().has_column(c));
        if !same_keys
            || !of_input
            || !is_worth_it(input, table, keys)?
            || window.window_expr.iter().any(Expr::is_volatile)
            || !is_repeatable(input)?
        {
            return Ok(None);
        }
        let aggregates: Vec<Expr> = functions.into_iter().filter_map(aggregate).collect();
        let all = keys.iter().chain(&aggregates);
        let names: HashSet<String> = all.map(|expr| expr.schema_name().to_string()).collect();
        // Names leave casts out, so different expressions may have the same.
        let are_told_apart = names.len() == keys.len() + aggregates.len();
        Ok(are_told_apart.then_some(Whole {
            window,
            keys,
            aggregates,
        }))
    }

    /// Whether `other` has its rows sorted by the same partitions.
    fn shares_sort(&self, other: &Window) -> bool {
        let partitions = other.window_expr.iter().filter_map(partitions);
        let same = |keys: &[Expr]| {
            let (mut of_both, mut of_this) = (keys.iter(), self.keys.iter());
            of_both.all(|key| self.keys.contains(key)) && of_this.all(|key| keys.contains(key))
        };
        !self.keys.is_empty() && partitions.into_iter().any(same)
    }

    /// `plan`, which has all columns of `input`, with the values of the window.
    fn joined(
        &self,
        plan: LogicalPlan,
        input: &Arc<LogicalPlan>,
        name: String,
    ) -> Result<LogicalPlan> {
        let keys = self.keys;
        let groups = Aggregate::try_new(Arc::clone(input), keys.to_vec(), self.aggregates.clone())?;
        let columns = groups.schema.columns().into_iter().enumerate();
        let columns = columns.map(|(at, column)| Expr::Column(column).alias(format!("c{at}")));
        let columns = columns.collect();
        let groups = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(groups)))?;
        let groups = SubqueryAlias::try_new(Arc::new(LogicalPlan::Projection(groups)), name)?;
        let of_group: Vec<Expr> = groups
            .schema
            .columns()
            .into_iter()
            .map(Expr::Column)
            .collect();
        let (of_keys, values) = of_group.split_at(keys.len());
        let on = keys.iter().cloned().zip(of_keys.iter().cloned());
        let is_known = |key: &Expr| matches!(key, Expr::Column(c) if has_no_nulls(input, c));
        let has_nulls = !keys.iter().all(is_known);
        let columns = plan.schema().columns();
        let join = Join::try_new(
            Arc::new(plan),
            Arc::new(LogicalPlan::SubqueryAlias(groups)),
            on.collect(),
            None,
            JoinType::Inner,
            JoinConstraint::On,
            match has_nulls {
                true => NullEquality::NullEqualsNull,
                false => NullEquality::NullEqualsNothing,
            },
            false,
        )?;
        let before = self.window.input.schema().fields().len();
        let named = self.window.schema.iter().skip(before).zip(values);
        let named = named.map(|((qualifier, field), value)| {
            value
                .clone()
                .alias_qualified(qualifier.cloned(), field.name())
        });
        let columns = columns.into_iter().map(Expr::Column).chain(named).collect();
        let join = Arc::new(LogicalPlan::Join(join));
        Ok(LogicalPlan::Projection(Projection::try_new(columns, join)?))
    }
}

/// The keys of the partitions of a window expression.
fn partitions(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::WindowFunction(function) => Some(&function.params.partition_by),
        Expr::Alias(alias) => partitions(&alias.expr),
        _ => None,
    }
}

/// The function of a window expression over whole partitions.
fn whole(expr: &Expr) -> Option<&WindowFunction> {
    let function = match expr {
        Expr::WindowFunction(function) => function,
        Expr::Alias(alias) => return whole(&alias.expr),
        _ => return None,
    };
    let params = &function.params;
    let is_known = FUNCTIONS.contains(&function.fun.name());
    let is_whole = params.order_by.is_empty() && is_all(&params.window_frame);
    (is_known && is_whole && params.null_treatment.is_none()).then_some(function)
}

/// Whether a frame without an order has all rows of the partition.
fn is_all(frame: &WindowFrame) -> bool {
    let unbounded = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => frame.units != WindowFrameUnits::Rows,
        other => other.is_unbounded(),
    };
    unbounded(&frame.start_bound) && unbounded(&frame.end_bound)
}

fn aggregate(function: &WindowFunction) -> Option<Expr> {
    let WindowFunctionDefinition::AggregateUDF(aggregate) = &function.fun else {
        return None;
    };
    let params = &function.params;
    let call = AggregateFunction::new_udf(
        Arc::clone(aggregate),
        params.args.clone(),
        params.distinct,
        params.filter.clone(),
        Vec::new(),
        None,
    );
    Some(Expr::AggregateFunction(call))
}

/// Whether a table has rows enough, in groups that are large enough, by keys that are quick to
/// look up: computed numbers, and columns whose values have been counted, which are codes.
fn is_worth_it(input: &LogicalPlan, table: &PlacedTable, keys: &[Expr]) -> Result<bool> {
    let rows = table.all_rows();
    let mut fewest: usize = 1;
    for key in keys {
        let data_type = key.get_type(input.schema())?;
        let distinct = match origin(input, key) {
            Some(at) => match values_of_table(table, at) {
                Precision::Exact(count) | Precision::Inexact(count) => count,
                Precision::Absent => return Ok(false),
            },
            None if data_type.primitive_width().is_some() => 1,
            None => return Ok(false),
        };
        if data_type.is_floating() {
            return Ok(false);
        }
        fewest = fewest.max(distinct);
    }
    let is_large = rows >= FEWEST_ROWS && fewest.saturating_mul(FEWEST_PER_PARTITION) <= rows;
    Ok(is_large && !reads_long_texts(input, table)?)
}

/// Whether a filter reads texts that are no codes, which would take as long as a sort twice.
fn reads_long_texts(input: &LogicalPlan, table: &PlacedTable) -> Result<bool> {
    let schema = table.schema();
    let is_long = |at: usize| {
        let is_text = schema.field(at).data_type().is_string();
        is_text && values_of_table(table, at) == Precision::Absent
    };
    input.has(&mut |node| {
        let filters = match node {
            LogicalPlan::Filter(filter) => std::slice::from_ref(&filter.predicate),
            LogicalPlan::TableScan(scan) => scan.filters.as_slice(),
            _ => return Ok(false),
        };
        let columns = filters.iter().flat_map(|filter| filter.column_refs());
        Ok(columns.into_iter().any(|column| {
            let origin = origin(node, &Expr::Column(column.clone()));
            // A scan filters by columns too that it does not return.
            let at = origin.or_else(|| schema.index_of(&column.name).ok());
            at.is_some_and(is_long)
        }))
    })
}

/// The column of the table below `plan` that `expr` is.
fn origin(plan: &LogicalPlan, expr: &Expr) -> Option<usize> {
    let column = match expr {
        Expr::Column(column) => column,
        Expr::Alias(alias) => return origin(plan, &alias.expr),
        _ => return None,
    };
    let index = plan.schema().maybe_index_of_column(column)?;
    let at = |input: &LogicalPlan, index: usize| {
        let (qualifier, field) = input.schema().qualified_field(index);
        let column = Column::new(qualifier.cloned(), field.name());
        origin(input, &Expr::Column(column))
    };
    match plan {
        LogicalPlan::TableScan(scan) => match &scan.projection {
            Some(columns) => columns.get(index).copied(),
            None => Some(index),
        },
        LogicalPlan::Filter(filter) => at(&filter.input, index),
        LogicalPlan::SubqueryAlias(alias) => at(&alias.input, index),
        LogicalPlan::Projection(projection) => {
            origin(&projection.input, projection.expr.get(index)?)
        }
        _ => None,
    }
}
