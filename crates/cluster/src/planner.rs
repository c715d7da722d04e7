//! The engine of a client: plans statements on the tables of a cluster.

use crate::error::{ClusterError, While};
use crate::functions::planning;
use crate::kept::KeptPlans;
use crate::map::{ClusterMap, Layout};
use crate::scan::ClusterTable;
use crate::spread::{Distributed, distribute};
use crate::wire::TableRef;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use std::collections::BTreeMap;
use std::sync::Arc;
use tierloom_engine::Engine;
use tierloom_planner::read_statement;

/// The tables that a statement may name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct VisibleTables {
    /// Those that can be read now.
    pub usable: Vec<ClusterTable>,
    /// Why others cannot be read.
    unusable: BTreeMap<String, String>,
}

impl VisibleTables {
    /// Those of a map.
    pub fn of(map: &ClusterMap) -> Self {
        let mut tables = VisibleTables::default();
        for (name, entry) in &map.tables {
            let (schema, rows) = match map.usable(name) {
                Ok(usable) => usable,
                Err(why) => {
                    tables.unusable.insert(name.clone(), why);
                    continue;
                }
            };
            tables.usable.push(ClusterTable {
                table: TableRef {
                    name: name.clone(),
                    generation: entry.generation,
                    sharded: matches!(entry.layout, Layout::Sharded { .. }),
                },
                size_bytes: row_bytes(&schema).saturating_mul(rows),
                schema,
                layout: Arc::new(entry.layout.clone()),
                rows,
            });
        }
        tables
    }
}

/// An engine with the tables of a cluster, which plans for other processes.
pub(crate) struct ClusterPlanner {
    engine: Engine,
    tables: VisibleTables,
    /// By the texts of their statements.
    plans: KeptPlans<String, Arc<Planned>>,
    /// Of queries that another engine has read.
    queries: KeptPlans<LogicalPlan, Arc<Planned>>,
}

/// A statement that was planned.
pub(crate) struct Planned {
    /// Columns of its rows.
    pub schema: SchemaRef,
    /// Its parts. Operators need fresh state for each run.
    pub plan: Distributed,
}

impl ClusterPlanner {
    /// An engine with these tables.
    ///
    /// # Errors
    /// The engine's, if its threads cannot be started; DataFusion's, from its catalog.
    pub fn new(tables: VisibleTables) -> Result<Self, ClusterError> {
        let engine = Engine::new(planning()).attempting("starting the engine")?;
        for table in &tables.usable {
            let name = table.table.name.as_str();
            let table = Arc::new(table.clone());
            let registered = engine.context().register_table(name, table);
            registered.attempting(format!("table {name}"))?;
        }
        Ok(ClusterPlanner {
            engine,
            tables,
            plans: KeptPlans::default(),
            queries: KeptPlans::default(),
        })
    }

    /// Whether it has exactly these tables.
    pub fn has(&self, tables: &VisibleTables) -> bool {
        self.tables == *tables
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The plan of a query as it is written.
    ///
    /// # Errors
    /// [`ClusterError::Input`] for a text that is no query, [`ClusterError::Failed`] for a table
    /// that cannot be read now.
    pub fn logical(&self, sql: &str) -> Result<LogicalPlan, ClusterError> {
        let state = self.engine.context().state();
        let read = self.engine.handle().block_on(read_statement(&state, sql));
        match read.map_err(|e| self.input(&e))? {
            LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_) => Err(ClusterError::input(
                "a cluster runs queries only; this is another statement",
            )),
            plan => Ok(plan),
        }
    }

    /// The plan of a text that was kept.
    pub fn kept(&self, sql: &str) -> Option<Arc<Planned>> {
        self.plans.get(&sql.to_owned())
    }

    /// Keeps the plan of a text, if planning it again would give the same.
    pub fn keep(&self, sql: &str, logical: &LogicalPlan, planned: &Arc<Planned>) {
        if is_lasting(logical) {
            self.plans.keep(sql.into(), Arc::clone(planned));
        }
    }

    /// The plan of a query that was kept.
    pub fn kept_of(&self, query: &LogicalPlan) -> Option<Arc<Planned>> {
        self.queries.get(query)
    }

    /// Keeps the plan of a query, if planning it again would give the same.
    pub fn keep_of(&self, query: &LogicalPlan, planned: &Arc<Planned>) {
        if is_lasting(query) {
            self.queries.keep(query.clone(), Arc::clone(planned));
        }
    }

    /// Checks that a query which another engine has read names the tables that there are now: it
    /// may have read it before a load.
    ///
    /// # Errors
    /// [`ClusterError::Failed`] that names the table.
    pub fn check_tables(&self, query: &LogicalPlan) -> Result<(), ClusterError> {
        let mut other = None;
        let visited = query.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(table) =
                    source_as_provider(&scan.source)?.downcast_ref::<ClusterTable>()
                && !self.tables.usable.contains(table)
            {
                other = Some(table.table.name.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        visited.map_err(|e| self.input(&e))?;
        let Some(name) = other else {
            return Ok(());
        };
        let lost = self.tables.unusable.get(&name).cloned();
        Err(ClusterError::Failed(lost.unwrap_or_else(|| {
            format!("table {name} was loaded again since the statement was planned; try again")
        })))
    }

    /// An error of planning; a table that cannot be read is named with the reason.
    pub fn input(&self, error: &DataFusionError) -> ClusterError {
        let text = error.strip_backtrace();
        let lost = self.tables.unusable.iter().find(|(name, _)| {
            let named = format!(".{name}'");
            text.contains("not found") && text.contains(&named)
        });
        match lost {
            Some((_, why)) => ClusterError::Failed(why.clone()),
            None => ClusterError::Input(text),
        }
    }

    /// A plan in parts for nodes and for the end.
    ///
    /// # Errors
    /// [`ClusterError::Input`] from planning, [`ClusterError::Interrupted`] when `stop` says so,
    /// [`ClusterError::Failed`] for an operator that cannot be sent to another process.
    pub fn distributed(
        &self,
        plan: LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Planned, ClusterError> {
        let levels = levels_of(&plan);
        let planned = self
            .engine
            .plan_logical("the statement", plan, levels, stop);
        let planned = planned.map_err(|error| match error {
            tierloom_engine::EngineError::Interrupted => ClusterError::Interrupted,
            other => ClusterError::Input(other.to_string()),
        })?;
        let schema = planned.schema();
        let plan = distribute(planned).map_err(|e| ClusterError::Failed(e.strip_backtrace()))?;
        Ok(Planned { schema, plan })
    }
}

/// Whether planning a statement again gives the same plan, as long as its tables are the same: it
/// has no function of the time or of chance, and no subquery whose value comes from a run.
fn is_lasting(plan: &LogicalPlan) -> bool {
    let mut lasting = true;
    let visited = plan.apply_with_subqueries(|node| {
        for expr in node.expressions() {
            lasting &= !expr.exists(|e| Ok(changes(e))).unwrap_or(true);
        }
        Ok(match lasting {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    });
    visited.is_ok() && lasting
}

fn changes(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::ScalarVariable(..) | Expr::Placeholder(_) | Expr::ScalarSubquery(_) => true,
        _ => false,
    }
}

/// Approximate bytes of a row in memory.
fn row_bytes(schema: &SchemaRef) -> u64 {
    let widths = schema.fields().iter();
    let widths = widths.map(|f| f.data_type().primitive_width().unwrap_or(16) as u64);
    widths.sum()
}

/// How deep a plan nests, at most.
pub(crate) fn levels_of(plan: &LogicalPlan) -> usize {
    let mut operators = 0;
    // Counting does not fail.
    let _ = plan.apply_with_subqueries(|_| {
        operators += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    operators
}
