//! From a tree of joins, filters and projections to one list of columns.
//!
//! The *universe* is the fact table's scanned columns followed by the columns of each dimension's plan. Every expression above the
//! scans is rewritten over it, so that projections and the order of joins no longer matter.

use super::NotFused;
use crate::scan::PlacedScanExec;
use crate::table::PlacedTable;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;

/// A dimension: what to run, and how it is tied to the fact table.
#[derive(Debug, Clone)]
pub(super) struct Dimension {
    /// Gives its rows.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Where its columns start in the universe.
    pub offset: usize,
    /// Its key, over its own columns.
    pub key: Arc<dyn PhysicalExpr>,
    /// The fact column that refers to it.
    pub fact_key: usize,
    /// Its table, for people.
    pub name: String,
}

/// A lowered plan.
#[derive(Debug, Clone)]
pub(super) struct Lowered {
    pub fact: Arc<PlacedTable>,
    /// Columns of the table behind the first columns of the universe.
    pub fact_columns: Vec<usize>,
    pub universe: SchemaRef,
    pub dimensions: Vec<Dimension>,
    /// Conjuncts over the universe.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The plan's output columns over the universe.
    pub outputs: Vec<Arc<dyn PhysicalExpr>>,
}

impl Lowered {
    /// Where a column of the universe comes from: `None` the fact table, else the dimension.
    pub fn owner(&self, column: usize) -> Option<usize> {
        self.dimensions.iter().rposition(|d| d.offset <= column)
    }

    /// Whether a fact column holds NULLs: the schema calls every column nullable.
    pub fn may_be_null(&self, column: usize) -> bool {
        self.fact.columns()[self.fact_columns[column]].nullable()
    }

    /// Rewrites an expression over the plan's output to the universe.
    pub fn over_universe(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<Arc<dyn PhysicalExpr>, NotFused> {
        substitute(expr, &self.outputs)
    }

    /// Joins `small` to a dimension, whose column `on` refers to it: a snowflake. The dimension is larger then, its key stays. Answers where the new
    /// columns start in the universe.
    ///
    /// # Errors
    /// A table that is larger than the dimension: its rows would be there more than once.
    fn extend(
        &mut self,
        dimension: usize,
        on: usize,
        small: &Arc<dyn ExecutionPlan>,
        key: &Arc<dyn PhysicalExpr>,
    ) -> Result<usize, NotFused> {
        let name = self.universe.field(on).name().clone();
        let extended = &mut self.dimensions[dimension];
        if most_rows(small) > most_rows(&extended.plan) {
            return NotFused::because(format!(
                "{name} joins a dimension to a table that is larger than it"
            ));
        }
        let width = extended.plan.schema().fields().len();
        let added = small.schema().fields().len();
        let build: Arc<dyn ExecutionPlan> =
            Arc::new(CoalescePartitionsExec::new(Arc::clone(small)));
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&name, on - extended.offset));
        // The dimension's own columns stay first.
        let order = (added..added + width).chain(0..added).collect();
        extended.plan = Arc::new(HashJoinExec::try_new(
            build,
            Arc::clone(&extended.plan),
            vec![(Arc::clone(key), column)],
            None,
            &JoinType::Inner,
            Some(order),
            PartitionMode::CollectLeft,
            NullEquality::NullEqualsNothing,
            false,
        )?);
        if let Some(other) = table_name(small) {
            extended.name = format!("{} with {other}", extended.name);
        }
        let at = extended.offset + width;
        self.make_room(at, &small.schema())?;
        Ok(at)
    }

    /// Puts the columns of `schema` into the universe at `at`; what is behind moves on.
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

/// Lowers `plan`.
///
/// # Errors
/// The first operator that is neither a scan of placed columns, a filter, a projection nor an inner join on one key.
/// A join of a dimension with a smaller table becomes part of the dimension.
pub(super) fn lower(plan: &Arc<dyn ExecutionPlan>) -> Result<Lowered, NotFused> {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        return lower_scan(scan);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return lower_filter(filter);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let mut lowered = lower(projection.input())?;
        lowered.outputs = projection
            .expr()
            .iter()
            .map(|e| lowered.over_universe(&e.expr))
            .collect::<Result<_, _>>()?;
        return Ok(lowered);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return lower_join(join);
    }
    if plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
    {
        // A limit inside would have to be kept.
        if plan.fetch().is_none() {
            return lower(plan.children()[0]);
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

fn lower_filter(filter: &FilterExec) -> Result<Lowered, NotFused> {
    let mut lowered = lower(filter.input())?;
    if filter.fetch().is_some() {
        return NotFused::because("a filter has a limit");
    }
    for conjunct in split_conjunction(filter.predicate()) {
        // A filter that another join feeds while it runs only saves work; the lookups of this pipeline do the same.
        if conjunct
            .downcast_ref::<DynamicFilterPhysicalExpr>()
            .is_none()
        {
            let rewritten = lowered.over_universe(conjunct)?;
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

fn lower_join(join: &HashJoinExec) -> Result<Lowered, NotFused> {
    if *join.join_type() != JoinType::Inner {
        return NotFused::because(format!("a join is {}, not inner", join.join_type()));
    }
    if join.filter().is_some()
        || join.null_equality() != NullEquality::NullEqualsNothing
        || join.fetch().is_some()
    {
        return NotFused::because("a join has a condition beside its key");
    }
    let [(left_key, right_key)] = join.on() else {
        return NotFused::because(format!("a join has {} keys, not one", join.on().len()));
    };
    // The planner builds from the side that it thinks smaller; here the side with the largest table is the one to look at row by row.
    let fact_is_left = most_rows(join.left()) > most_rows(join.right());
    let (fact, fact_key, small, key) = if fact_is_left {
        (join.left(), left_key, join.right(), right_key)
    } else {
        (join.right(), right_key, join.left(), left_key)
    };
    let mut lowered = lower(fact)?;
    let fact_key = lowered.over_universe(fact_key)?;
    let Some(fact_key) = fact_key.downcast_ref::<Column>().map(Column::index) else {
        return NotFused::because(format!("join key {fact_key} is not a column"));
    };
    let schema = small.schema();
    let offset = match lowered.owner(fact_key) {
        Some(dimension) => lowered.extend(dimension, fact_key, small, key)?,
        None => {
            let offset = lowered.add_columns(&schema);
            lowered.dimensions.push(Dimension {
                plan: Arc::clone(small),
                offset,
                key: Arc::clone(key),
                fact_key,
                name: table_name(small)
                    .unwrap_or_else(|| format!("dimension {}", lowered.dimensions.len() + 1)),
            });
            offset
        }
    };
    let mut outputs = columns(&schema, offset);
    if fact_is_left {
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

fn columns(schema: &Schema, offset: usize) -> Vec<Arc<dyn PhysicalExpr>> {
    let of = |(i, f): (usize, &Arc<Field>)| {
        Arc::new(Column::new(f.name(), offset + i)) as Arc<dyn PhysicalExpr>
    };
    schema.fields().iter().enumerate().map(of).collect()
}

/// Rows of the largest placed table under a plan.
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

/// The last table under a plan.
fn table_name(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        return Some(scan.table().name().to_owned());
    }
    plan.children().into_iter().rev().find_map(table_name)
}

/// `expr` with each column replaced by the output it stands for.
fn substitute(
    expr: &Arc<dyn PhysicalExpr>,
    outputs: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn PhysicalExpr>, NotFused> {
    let rewritten = Arc::clone(expr).transform_up(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::clone(&outputs[column.index()])),
            None => Transformed::no(node),
        })
    })?;
    Ok(rewritten.data)
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

/// `expr` with its columns numbered by their place in `kept`.
pub(super) fn narrowed(
    expr: &Arc<dyn PhysicalExpr>,
    kept: &[usize],
) -> Result<Arc<dyn PhysicalExpr>, NotFused> {
    let rewritten = Arc::clone(expr).transform_up(|node| {
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
