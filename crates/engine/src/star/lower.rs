//! Lowers a tree of joins, filters and projections to one list of columns.
//!
//! The *universe* is the list of the fact table's scanned columns followed by the columns of each
//! dimension's plan. Every expression above the scans is rewritten over it, so projections and the
//! join order no longer matter. Joins of a dimension with a smaller table (snowflake schemas)
//! become part of the dimension's plan.

use super::NotFused;
use crate::origin::{is_unique, unchanged};
use crate::scan::PlacedScanExec;
use crate::table::PlacedTable;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// A dimension: its plan and the join with the fact table.
#[derive(Debug, Clone)]
pub(super) struct Dimension {
    /// Produces the dimension's rows.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Index of its first column in the universe.
    pub offset: usize,
    /// Its join key, over its own columns.
    pub key: Arc<dyn PhysicalExpr>,
    /// The fact column of the join.
    pub fact_key: usize,
    /// Whether it only says which keys there are, however often.
    pub repeats: bool,
    /// Table name, for messages and `EXPLAIN`.
    pub name: String,
}

/// A plan over the universe.
#[derive(Debug, Clone)]
pub(super) struct Lowered {
    pub fact: Arc<PlacedTable>,
    /// Table indices of the fact columns, which are the first columns of the universe.
    pub fact_columns: Vec<usize>,
    pub universe: SchemaRef,
    pub dimensions: Vec<Dimension>,
    /// Conjuncts of all filters, over the universe.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The plan's output columns, over the universe.
    pub outputs: Vec<Arc<dyn PhysicalExpr>>,
}

impl Lowered {
    /// The dimension that a column of the universe comes from; `None` for the fact table.
    pub fn owner(&self, column: usize) -> Option<usize> {
        self.dimensions.iter().rposition(|d| d.offset <= column)
    }

    /// Rewrites an expression over the plan's output to one over the universe.
    pub fn over_universe(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<Arc<dyn PhysicalExpr>, NotFused> {
        substitute(expr, &self.outputs)
    }

    /// Joins `small` to a dimension whose column `on` refers to it, as in a snowflake schema.
    ///
    /// The dimension gains the columns of `small` and keeps its key. Returns the index of the first
    /// new column in the universe.
    ///
    /// # Errors
    /// If `small` is larger than the dimension: then it is likely the referring side, and a
    /// dimension row would occur several times.
    fn extend(
        &mut self,
        dimension: usize,
        on: usize,
        small: Arc<dyn ExecutionPlan>,
        key: &Arc<dyn PhysicalExpr>,
    ) -> Result<usize, NotFused> {
        let name = self.universe.field(on).name().clone();
        let extended = &mut self.dimensions[dimension];
        if most_rows(&small) > most_rows(&extended.plan) {
            return NotFused::because(format!(
                "{name} joins a dimension to a table that is larger than it"
            ));
        }
        let width = extended.plan.schema().fields().len();
        let added = small.schema().fields().len();
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&name, on - extended.offset));
        // `HashJoinExec` puts the build side's columns first; the projection moves the dimension's
        // own back to the front, where the universe expects them.
        let order = (added..added + width).chain(0..added).collect();
        extended.plan = Arc::new(HashJoinExec::try_new(
            Arc::clone(&small),
            Arc::clone(&extended.plan),
            vec![(Arc::clone(key), column)],
            None,
            &JoinType::Inner,
            Some(order),
            PartitionMode::CollectLeft,
            NullEquality::NullEqualsNothing,
            false,
        )?);
        if let Some(other) = table_name(&small) {
            extended.name = format!("{} with {other}", extended.name);
        }
        let at = extended.offset + width;
        self.make_room(at, &small.schema())?;
        Ok(at)
    }

    /// Inserts the columns of `schema` into the universe at `at` and renumbers all references.
    fn make_room(&mut self, at: usize, schema: &Schema) -> Result<(), NotFused> {
        let added = schema.fields().len();
        let mut fields: Vec<_> = self.universe.fields().iter().cloned().collect();
        fields.splice(at..at, schema.fields().iter().cloned());
        let places = (0..self.universe.fields().len()).map(|i| i + if i < at { 0 } else { added });
        let moved: Vec<Arc<dyn PhysicalExpr>> = places
            .map(|i| Arc::new(Column::new(fields[i].name(), i)) as Arc<dyn PhysicalExpr>)
            .collect();
        for expr in self.filters.iter_mut().chain(&mut self.outputs) {
            *expr = substitute(expr, &moved)?;
        }
        for dimension in &mut self.dimensions {
            if dimension.offset >= at {
                dimension.offset += added;
            }
        }
        self.universe = Arc::new(Schema::new(fields));
        Ok(())
    }

    fn add_columns(&mut self, schema: &Schema) -> usize {
        let offset = self.universe.fields().len();
        let fields = self.universe.fields().iter().chain(schema.fields());
        self.universe = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        offset
    }
}

/// Lowers `plan`; a join of a dimension with a smaller table becomes part of the dimension.
///
/// `is_early` says that operators will still be repartitioned as they require.
///
/// # Errors
/// Names the first operator that is neither a scan of placed columns, a filter, a projection nor an
/// inner join on one key.
pub(super) fn lower(plan: &Arc<dyn ExecutionPlan>, is_early: bool) -> Result<Lowered, NotFused> {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        return lower_scan(scan);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return lower_filter(filter, is_early);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let mut lowered = lower(projection.input(), is_early)?;
        lowered.outputs = projection
            .expr()
            .iter()
            .map(|e| lowered.over_universe(&e.expr))
            .collect::<Result<_, _>>()?;
        return Ok(lowered);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return lower_join(join, is_early);
    }
    if plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
    {
        // Dropping an operator with a limit (`fetch`) would drop the limit.
        if plan.fetch().is_none() {
            return lower(plan.children()[0], is_early);
        }
    }
    NotFused::because(format!("{} is not part of a star join", plan.name()))
}

fn lower_scan(scan: &PlacedScanExec) -> Result<Lowered, NotFused> {
    let schema = scan.schema();
    if scan.is_limited() {
        return NotFused::because("the scan has a limit");
    }
    Ok(Lowered {
        fact: Arc::clone(scan.table()),
        fact_columns: scan.projection().to_vec(),
        outputs: columns(&schema, 0),
        universe: schema,
        dimensions: Vec::new(),
        filters: Vec::new(),
    })
}

fn lower_filter(filter: &FilterExec, is_early: bool) -> Result<Lowered, NotFused> {
    let mut lowered = lower(filter.input(), is_early)?;
    if filter.fetch().is_some() {
        return NotFused::because("a filter has a limit");
    }
    for conjunct in split_conjunction(filter.predicate()) {
        // A dynamic filter only removes rows that its join would remove anyway, and the lookups of
        // this pipeline do that join.
        if conjunct
            .downcast_ref::<DynamicFilterPhysicalExpr>()
            .is_none()
        {
            let rewritten = lowered.over_universe(conjunct)?;
            not_volatile(&rewritten)?;
            lowered.filters.push(rewritten);
        }
    }
    if let Some(kept) = filter.projection() {
        lowered.outputs = kept
            .iter()
            .map(|&i| Arc::clone(&lowered.outputs[i]))
            .collect();
    }
    Ok(lowered)
}

fn lower_join(join: &HashJoinExec, is_early: bool) -> Result<Lowered, NotFused> {
    // Of a semi join with unique keys, an inner join gives the same rows.
    let asks_from_left = match join.join_type() {
        JoinType::Inner => None,
        JoinType::LeftSemi => Some(true),
        JoinType::RightSemi => Some(false),
        other => return NotFused::because(format!("a join is {other}, not inner or semi")),
    };
    if join.null_equality() != NullEquality::NullEqualsNothing || join.fetch().is_some() {
        return NotFused::because("a join has a limit, or NULL equals NULL in it");
    }
    let ((left_key, right_key), rest) = dimension_key(join)?;
    let fact_is_left = is_fact([(join.left(), left_key), (join.right(), right_key)]);
    if asks_from_left.is_some_and(|asks_from_left| asks_from_left != fact_is_left) {
        return NotFused::because("a semi join asks for rows of the smaller table");
    }
    let (fact, fact_key, small, key) = if fact_is_left {
        (join.left(), left_key, join.right(), right_key)
    } else {
        (join.right(), right_key, join.left(), left_key)
    };
    let mut lowered = lower(fact, is_early)?;
    let fact_key = lowered.over_universe(fact_key)?;
    let Some(fact_key) = fact_key.downcast_ref::<Column>().map(Column::index) else {
        return NotFused::because(format!("join key {fact_key} is not a column"));
    };
    // A recursive query feeds a work table anew in each iteration, and the fallback plan would not
    // receive it.
    if small.has(&mut |node| Ok(node.downcast_ref::<WorkTableExec>().is_some()))? {
        return NotFused::because("a dimension has rows of a recursive query");
    }
    let schema = small.schema();
    let is_semi = asks_from_left.is_some();
    let repeats = is_semi && rest.is_empty() && join.filter().is_none();
    if is_semi && !repeats && !is_grouped(small, key) {
        return NotFused::because("a semi join has a condition, and rows with the same key");
    }
    let offset = match lowered.owner(fact_key) {
        Some(_) if is_semi => {
            return NotFused::because("a semi join asks for rows of a dimension");
        }
        Some(dimension) => {
            let build = match is_early || small.output_partitioning().partition_count() == 1 {
                true => Arc::clone(small),
                false => Arc::new(CoalescePartitionsExec::new(Arc::clone(small))),
            };
            lowered.extend(dimension, fact_key, build, key)?
        }
        None => {
            let offset = lowered.add_columns(&schema);
            lowered.dimensions.push(Dimension {
                plan: Arc::clone(small),
                offset,
                key: Arc::clone(key),
                fact_key,
                repeats,
                name: table_name(small)
                    .unwrap_or_else(|| format!("dimension {}", lowered.dimensions.len() + 1)),
            });
            offset
        }
    };
    let mut outputs = columns(&schema, offset);
    let sides = match fact_is_left {
        true => [&lowered.outputs, &outputs],
        false => [&outputs, &lowered.outputs],
    };
    let conditions = beside_key(join, rest, sides)?;
    lowered.filters.extend(conditions);
    if is_semi {
        outputs = std::mem::take(&mut lowered.outputs);
    } else if fact_is_left {
        lowered.outputs.append(&mut outputs);
        outputs = std::mem::take(&mut lowered.outputs);
    } else {
        outputs.append(&mut lowered.outputs);
    }
    if let Some(kept) = join.projection.as_ref() {
        outputs = kept.iter().map(|&i| Arc::clone(&outputs[i])).collect();
    }
    lowered.outputs = outputs;
    Ok(lowered)
}

/// The key of a join that tells the rows of its dimension apart, and its other keys.
///
/// # Errors
/// If a join on several keys has none.
fn dimension_key(join: &HashJoinExec) -> Result<(&KeyPair, Vec<&KeyPair>), NotFused> {
    let keys = join.on();
    let unique = |(left, right): &KeyPair| {
        let sides = [(join.left(), left), (join.right(), right)];
        let fact_is_left = is_fact(sides);
        has_once(sides[usize::from(fact_is_left)])
    };
    let at = match keys.len() {
        1 => Some(0),
        _ => keys.iter().position(unique),
    };
    let Some(at) = at else {
        return NotFused::because(format!("a join has {} keys, not one", keys.len()));
    };
    let mut rest: Vec<_> = keys.iter().collect();
    let key = rest.remove(at);
    Ok((key, rest))
}

/// What a join asks beside the key of its dimension: other keys, and its condition.
fn beside_key(
    join: &HashJoinExec,
    keys: Vec<&KeyPair>,
    sides: [&Vec<Arc<dyn PhysicalExpr>>; 2],
) -> Result<Vec<Arc<dyn PhysicalExpr>>, NotFused> {
    let mut found: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    for (left, right) in keys {
        let (left, right) = (substitute(left, sides[0])?, substitute(right, sides[1])?);
        found.push(Arc::new(BinaryExpr::new(left, Operator::Eq, right)));
    }
    if let Some(condition) = join.filter() {
        let columns = condition.column_indices().iter().map(|at| match at.side {
            JoinSide::Left => Ok(Arc::clone(&sides[0][at.index])),
            JoinSide::Right => Ok(Arc::clone(&sides[1][at.index])),
            JoinSide::None => NotFused::because("a join's condition asks for neither side"),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for conjunct in split_conjunction(condition.expression()) {
            let rewritten = substitute(conjunct, &columns)?;
            not_volatile(&rewritten)?;
            found.push(rewritten);
        }
    }
    Ok(found)
}

/// The keys of both sides of a join.
type KeyPair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// A side of a join and its key.
type KeyedSide<'s> = (&'s Arc<dyn ExecutionPlan>, &'s Arc<dyn PhysicalExpr>);

/// Whether the left of two sides of a join is the fact side.
///
/// The planner chooses the build side by estimated output. For fusion the fact side is that with
/// the largest base table, unless the key of the other one occurs several times and filters leave
/// out rows of this one: there may be more customers of all kinds than sales.
fn is_fact([left, right]: [KeyedSide<'_>; 2]) -> bool {
    let is_larger = most_rows(left.0) > most_rows(right.0);
    let [larger, other] = if is_larger {
        [left, right]
    } else {
        [right, left]
    };
    let turned = is_filtered(larger.0) && has_once(larger) && !has_once(other);
    is_larger != turned
}

/// Whether the rows of a side of a join have all another key.
fn has_once((side, key): KeyedSide<'_>) -> bool {
    let key = key.downcast_ref::<Column>();
    key.is_some_and(|key| is_unique(side, key.index()))
}

/// Whether a side of a join likely has each key once: it is the only group of an aggregation.
fn is_grouped(side: &Arc<dyn ExecutionPlan>, key: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(key) = key.downcast_ref::<Column>() else {
        return false;
    };
    let (mut plan, mut column) = (side, key.index());
    while let Some((input, of_input)) = unchanged(plan, column) {
        (plan, column) = (input, of_input);
    }
    let groups = match plan.downcast_ref::<AggregateExec>() {
        Some(groups) => groups.group_expr().expr().len(),
        // Checked when its rows are there.
        None if plan.name() == "StarExec" => 1,
        None => 0,
    };
    groups == 1 && column == 0
}

/// Whether a scan under a plan leaves out rows by filters on codes.
fn is_filtered(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<PlacedScanExec>() {
        Some(scan) => scan.is_filtered(),
        None => plan.children().into_iter().any(is_filtered),
    }
}

fn columns(schema: &Schema, offset: usize) -> Vec<Arc<dyn PhysicalExpr>> {
    let of = |(i, f): (usize, &Arc<Field>)| {
        Arc::new(Column::new(f.name(), offset + i)) as Arc<dyn PhysicalExpr>
    };
    schema.fields().iter().enumerate().map(of).collect()
}

/// Rows of the largest placed table under a plan; 0 if there is none.
fn most_rows(plan: &Arc<dyn ExecutionPlan>) -> usize {
    match plan.downcast_ref::<PlacedScanExec>() {
        Some(scan) => scan.table().rows(),
        None => plan
            .children()
            .into_iter()
            .map(most_rows)
            .max()
            .unwrap_or(0),
    }
}

/// Rows of the table that a plan returns without leaving out any; `None` if it may be no such plan.
pub(super) fn whole_table_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        return (!scan.is_filtered() && !scan.is_limited()).then(|| scan.table().rows());
    }
    let passes = plan.is::<ProjectionExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>();
    match plan.children()[..] {
        [input] if passes && plan.fetch().is_none() => whole_table_rows(input),
        _ => None,
    }
}

/// Name of the last table under a plan.
fn table_name(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        return Some(scan.table().name().to_owned());
    }
    plan.children().into_iter().rev().find_map(table_name)
}

/// Replaces each column of `expr` by the output expression at its index.
fn substitute(
    expr: &Arc<dyn PhysicalExpr>,
    outputs: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn PhysicalExpr>, NotFused> {
    let rewritten = Arc::clone(expr).up(&mut |node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::clone(&outputs[column.index()])),
            None => Transformed::no(node),
        })
    })?;
    Ok(rewritten.data)
}

/// Checks that `expr` is deterministic.
///
/// Such an expression may be evaluated once per code or dimension row instead of once per fact row.
///
/// # Errors
/// If it is volatile, as `random()`.
pub(super) fn not_volatile(expr: &Arc<dyn PhysicalExpr>) -> Result<(), NotFused> {
    match is_volatile(expr) {
        true => NotFused::because(format!("{expr} is evaluated anew for every row")),
        false => Ok(()),
    }
}

/// The columns of the universe that `expr` reads, ascending.
pub(super) fn columns_of(expr: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut found: Vec<usize> = datafusion::physical_expr::utils::collect_columns(expr)
        .iter()
        .map(Column::index)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Renumbers the columns of `expr` by their position in `kept`.
pub(super) fn narrowed(
    expr: &Arc<dyn PhysicalExpr>,
    kept: &[usize],
) -> Result<Arc<dyn PhysicalExpr>, NotFused> {
    let rewritten = Arc::clone(expr).up(&mut |node| {
        let place = node.downcast_ref::<Column>().and_then(|c| {
            Some((
                c.name().to_owned(),
                kept.iter().position(|k| *k == c.index())?,
            ))
        });
        Ok(match place {
            Some((name, index)) => {
                Transformed::yes(Arc::new(Column::new(&name, index)) as Arc<dyn PhysicalExpr>)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(rewritten.data)
}
