//! Physical optimizer rule that finds the scans which a join's keys can filter.
//!
//! A row of a probe side may be left out if the join returns nothing for it: in inner and semi
//! joins, and in outer, mark and anti joins that keep the build side. Between the join and the scan
//! there may be operators in which the rows with one key have nothing to do with those of another.

use super::exec::{BuildKey, RuntimeFilterExec};
use crate::breakdown::caught;
use crate::operators::{aggregate_of, join_of};
use crate::origin::{unchanged, values};
use crate::scan::{Keys, PlacedScanExec, RuntimeFilter};
use crate::shared_subplans::same;
use crate::star::StarExec;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{HashMap, HashSet, JoinSide, JoinType, NullEquality, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Build rows after which keys are not collected any further: 32 MiB of them.
const MOST_BUILD_ROWS: usize = 4 << 20;

/// Has scans leave out rows without the keys of a join's build side; see the module documentation
/// of `runtime_filter`.
#[derive(Debug, Default)]
pub struct RuntimeFilters;

impl PhysicalOptimizerRule for RuntimeFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // The rule is an optimization only, so an error or panic keeps the plan.
        let filtered = caught(|| filtered(&plan));
        Ok(filtered.ok().and_then(Result::ok).unwrap_or(plan))
    }

    fn name(&self) -> &str {
        "tierloom_runtime_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What the rule adds to a plan, by the addresses of its operators.
#[derive(Default)]
struct FilterPlan {
    joins: HashMap<usize, Vec<BuildKey>>,
    scans: HashMap<usize, Vec<(usize, Arc<RuntimeFilter>)>>,
    /// All scans and star joins; an address says which operator is meant only if it occurs once.
    seen: HashSet<usize>,
    /// All star joins.
    stars: Vec<Arc<dyn ExecutionPlan>>,
    /// Whether the plan has parts that run more than once, or in two places.
    repeats: bool,
}

fn address(plan: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(plan).addr()
}

fn filtered(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut found = FilterPlan::default();
    plan.each(&mut |node| {
        if node.is::<StarExec>() {
            found.stars.push(Arc::clone(node));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    found.visit(plan)?;
    if found.repeats || found.joins.is_empty() {
        return Ok(Arc::clone(plan));
    }
    found.rebuilt(plan)
}

impl FilterPlan {
    fn visit(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let is_scan = plan.is::<PlacedScanExec>() || plan.is::<StarExec>();
        // The part of a recursive query that repeats has other keys each time.
        self.repeats |=
            plan.is::<RecursiveQueryExec>() || (is_scan && !self.seen.insert(address(plan)));
        if let Some(join) = join_of(plan)
            && filters_probe_side(join)
        {
            self.join(plan, join)?;
        }
        for child in plan.children() {
            self.visit(child)?;
        }
        Ok(())
    }

    /// Finds the scans that the keys of `join` can filter; `plan` is its operator.
    fn join(&mut self, plan: &Arc<dyn ExecutionPlan>, join: &HashJoinExec) -> Result<()> {
        for (key, probe) in join.on() {
            let data_type = key.data_type(&join.left().schema())?;
            let Some(column) = probe.downcast_ref::<Column>() else {
                continue;
            };
            if !Keys::can_have(&data_type) || is_volatile(key) {
                continue;
            }
            let column_of_key = key.downcast_ref::<Column>();
            let mut targets = Targets {
                plan: self,
                data_type: &data_type,
                fewest_values: column_of_key
                    .and_then(|key| self.values_of_all(join.left(), key.index())),
                scans: Vec::new(),
                most_rows: 0,
            };
            targets.below(join.right(), column.index());
            let Targets {
                scans, most_rows, ..
            } = targets;
            if scans.is_empty() {
                continue;
            }
            let filter = Arc::new(RuntimeFilter::default());
            for (scan, index) in scans {
                let filters = self.scans.entry(scan).or_default();
                filters.push((index, Arc::clone(&filter)));
            }
            let keys = self.joins.entry(address(plan)).or_default();
            keys.push(BuildKey {
                key: Arc::clone(key),
                filter,
                // With more keys than that, most rows of the scan will have one.
                most_rows: (most_rows / 2).min(MOST_BUILD_ROWS),
            });
        }
        Ok(())
    }

    /// The number of values of a key if the build side is a whole table, as a dimension without a
    /// filter.
    fn values_of_all(&self, plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<usize> {
        if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
            // Joins further up were looked at before, and may filter it.
            let is_whole = !scan.is_filtered() && !self.scans.contains_key(&address(plan));
            return is_whole
                .then(|| values(scan, column).get_value().copied())
                .flatten();
        }
        match unchanged(plan, column) {
            Some((input, column)) if !plan.is::<FilterExec>() => self.values_of_all(input, column),
            _ => None,
        }
    }

    /// Whether another star join does the same, so that both can run once without filters.
    fn occurs_again(&self, plan: &Arc<dyn ExecutionPlan>, star: &StarExec) -> bool {
        self.stars.iter().any(|other| {
            let alike = |other: &StarExec| {
                Arc::ptr_eq(other.fact(), star.fact()) && same(other.fallback(), star.fallback())
            };
            !Arc::ptr_eq(other, plan) && other.downcast_ref().is_some_and(alike)
        })
    }

    /// The plan with what was found.
    fn rebuilt(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
            let filters = self.scans.get(&address(plan));
            return Ok(match filters {
                Some(filters) => Arc::new(scan.with_runtime_filters(filters)),
                None => Arc::clone(plan),
            });
        }
        let before = plan.children();
        let children = before.iter().map(|child| self.rebuilt(child));
        let mut children = children.collect::<Result<Vec<_>>>()?;
        if let Some(keys) = self.joins.get(&address(plan)) {
            let build: &mut Arc<dyn ExecutionPlan> = &mut children[0];
            *build = Arc::new(RuntimeFilterExec::new(Arc::clone(build), keys.clone()));
        }
        let star = plan.downcast_ref::<StarExec>();
        let filtered = star.zip(self.scans.get(&address(plan)));
        let filtered = filtered.map(|(star, filters)| star.with_runtime_filters(filters));
        let same =
            |(old, new): (&&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>)| Arc::ptr_eq(old, new);
        if filtered.is_none() && before.iter().zip(&children).all(same) {
            return Ok(Arc::clone(plan));
        }
        let plan = filtered.map_or_else(|| Arc::clone(plan), |star| Arc::new(star));
        // The new operators have the properties of those that they replace.
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        plan.replace_children(children, keep)
    }
}

/// Whether a join has one build side and returns nothing for probe rows without its keys.
fn filters_probe_side(join: &HashJoinExec) -> bool {
    let drops = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::Left
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
            | JoinType::RightSemi
    );
    drops
        && *join.partition_mode() == PartitionMode::CollectLeft
        && join.left().output_partitioning().partition_count() == 1
        && has_plain_keys(join)
}

/// Whether NULL finds no match in a join and means nothing else.
fn has_plain_keys(join: &HashJoinExec) -> bool {
    join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware
}

/// Scans that have a column of a join unchanged.
struct Targets<'t> {
    plan: &'t FilterPlan,
    data_type: &'t DataType,
    /// Values that a column has to exceed: rows of a fact table refer to rows that are there, so
    /// all find a match in a table with as many keys.
    fewest_values: Option<usize>,
    /// Addresses of scans, and the index of the column in their output; of star joins, and the fact
    /// column of the universe.
    scans: Vec<(usize, usize)>,
    /// Rows of the largest table among them.
    most_rows: usize,
}

impl Targets<'_> {
    /// Finds those below `plan` that its column at `column` comes from.
    fn below(&mut self, plan: &Arc<dyn ExecutionPlan>, column: usize) {
        // Which rows a limit lets through depends on the rows before it.
        if plan.fetch().is_some() {
            return;
        }
        if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
            let values = values(scan, column).get_value().copied();
            if !self.finds_all(values) && scan.takes_keys(column, self.data_type) {
                self.scans.push((address(plan), column));
                self.most_rows = self.most_rows.max(scan.table().rows());
            }
        } else if let Some((input, column)) = unchanged(plan, column) {
            self.below(input, column);
        } else if let Some(join) = join_of(plan) {
            self.below_join(join, column);
        } else if let Some(aggregate) = aggregate_of(plan) {
            // Rows of other keys are in other groups.
            let by = aggregate.group_expr();
            let group = by.expr().get(column).filter(|_| {
                !by.has_grouping_set() && by.is_single() && aggregate.limit_options().is_none()
            });
            if let Some(group) = group.and_then(|(expr, _)| expr.downcast_ref::<Column>()) {
                self.below(aggregate.input(), group.index());
            }
        } else if let Some(star) = plan.downcast_ref::<StarExec>() {
            if let Some((dimension, column)) = star.dimension_of_group(column) {
                self.below(dimension, column);
            } else if let Some((column, values)) = star.fact_group(column, self.data_type)
                && !self.finds_all(values)
                && !self.plan.occurs_again(plan, star)
            {
                self.scans.push((address(plan), column));
                self.most_rows = self.most_rows.max(star.fact().rows());
            }
        } else if plan.is::<UnionExec>() || plan.is::<InterleaveExec>() {
            for input in plan.children() {
                self.below(input, column);
            }
        }
    }

    /// Whether all rows of a column with so many values find a match.
    fn finds_all(&self, values: Option<usize>) -> bool {
        let known = self.fewest_values.zip(values);
        known.is_some_and(|(keys, values)| values <= keys)
    }

    fn below_join(&mut self, join: &HashJoinExec, column: usize) {
        let (left, right) = (join.left().schema(), join.right().schema());
        let (_, columns) = build_join_schema(&left, &right, join.join_type());
        let column = match join.projection.as_ref() {
            Some(projection) => projection.get(column).copied(),
            None => Some(column),
        };
        let Some(column) = column.and_then(|column| columns.get(column)) else {
            return;
        };
        // Each row that the join returns comes from one row of this side.
        let keeps_apart = match column.side {
            JoinSide::Left => matches!(
                join.join_type(),
                JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti
            ),
            JoinSide::Right => matches!(
                join.join_type(),
                JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti
            ),
            JoinSide::None => false,
        };
        if !keeps_apart || !has_plain_keys(join) {
            return;
        }
        let (own, other) = match column.side {
            JoinSide::Right => (join.right(), join.left()),
            _ => (join.left(), join.right()),
        };
        self.below(own, column.index);
        // Rows of the other side meet only rows of this one that have the same key.
        for (left, right) in join.on() {
            let (own, others) = match column.side {
                JoinSide::Right => (right, left),
                _ => (left, right),
            };
            let is_it = own.downcast_ref::<Column>().map(Column::index) == Some(column.index);
            if is_it && let Some(partner) = others.downcast_ref::<Column>() {
                self.below(other, partner.index());
            }
        }
    }
}
