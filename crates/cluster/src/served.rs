//! The tables of a cluster for sessions that plan statements with an engine of their own, as those
//! of a server: a query on such tables becomes one operator, which has the nodes do it.

use crate::error::ClusterError;
use crate::explain::placement_of;
use crate::link::Link;
use crate::map::ClusterMap;
use crate::options::ClientOptions;
use crate::planner::VisibleTables;
use crate::scan::ClusterTable;
use crate::session::ClusterSession;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, TableReference, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion::prelude::SessionContext;
use futures::{TryStreamExt, stream};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_sql::{Elsewhere, SqlError, TableSize};

/// The tables of a cluster. Its connections are kept from one statement to the next.
#[derive(Debug)]
pub struct ClusterTables(Arc<ServedTables>);

struct ServedTables {
    link: Link,
    known: Mutex<Known>,
}

/// What was known when a statement began last.
#[derive(Default)]
struct Known {
    map: Arc<ClusterMap>,
    /// Tables as sessions have them. One that nobody can read now stays as it was.
    tables: BTreeMap<String, ClusterTable>,
}

impl fmt::Debug for ServedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.link.registry.url();
        f.debug_struct("ServedTables").field("url", &url).finish()
    }
}

impl ClusterTables {
    /// Those of the cluster whose scheduler is at `url`.
    ///
    /// # Errors
    /// [`ClusterError::Input`] for a text that is no such URL, or for an access that it does not
    /// take; [`ClusterError::Failed`] if the scheduler does not answer.
    pub fn connect(url: &str, options: &ClientOptions) -> Result<Self, ClusterError> {
        let link = Link::for_many(url, options)?;
        link.registry.map()?;
        Ok(ClusterTables(Arc::new(ServedTables {
            link,
            known: Mutex::default(),
        })))
    }
}

impl Elsewhere for ClusterTables {
    fn follow(&self, context: &SessionContext) -> Result<bool, SqlError> {
        Ok(self.0.follow(context)?)
    }

    fn size_of(&self, table: &str) -> Option<TableSize> {
        let known = self.0.known();
        let table = known.tables.get(table)?;
        Some(TableSize {
            rows: table.rows,
            bytes: table.size_bytes,
        })
    }

    fn missing(&self, table: &str) -> Option<String> {
        self.0.missing(table)
    }

    fn plan(&self, query: &LogicalPlan) -> Result<Option<Arc<dyn ExecutionPlan>>, SqlError> {
        Ok(self.0.plan(query)?)
    }

    fn placement(
        &self,
        query: &LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<RecordBatch>, SqlError> {
        Ok(self.0.placement(query, stop)?)
    }
}

impl From<ClusterError> for SqlError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Input(text) => SqlError::input(text),
            ClusterError::Failed(text) => SqlError::Failed(text),
            ClusterError::Interrupted => SqlError::Interrupted,
        }
    }
}

impl ServedTables {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Its parts are replaced as a whole, so a panic elsewhere leaves them consistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `context` the tables that there are now.
    fn follow(&self, context: &SessionContext) -> Result<bool, ClusterError> {
        let map = self.link.registry.map()?;
        let mut known = self.known();
        if Arc::ptr_eq(&known.map, &map) {
            return Ok(false);
        }
        let failed = |e: DataFusionError| ClusterError::Failed(e.strip_backtrace());
        let mut changed = false;
        for table in VisibleTables::of(&map).usable {
            let name = table.table.name.clone();
            if known.tables.get(&name) != Some(&table) {
                let reference = TableReference::bare(name.as_str());
                let registered = context.register_table(reference, Arc::new(table.clone()));
                registered.map_err(failed)?;
                known.tables.insert(name, table);
                changed = true;
            }
        }
        let gone: Vec<String> = known.tables.keys().cloned().collect();
        for name in gone.into_iter().filter(|n| !map.tables.contains_key(n)) {
            let dropped = context.deregister_table(TableReference::bare(name.as_str()));
            dropped.map_err(failed)?;
            known.tables.remove(&name);
            changed = true;
        }
        known.map = map;
        Ok(changed)
    }

    /// Why nobody can read a table of the cluster.
    fn missing(&self, table: &str) -> Option<String> {
        let known = self.known();
        known.map.tables.contains_key(table).then_some(())?;
        known.map.usable(table).err()
    }

    /// An operator that gives the rows of `query`; for an `EXPLAIN`, what each node would do.
    fn plan(
        self: &Arc<Self>,
        query: &LogicalPlan,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>, ClusterError> {
        if !self.reads(query)? {
            return Ok(None);
        }
        let (query, is_explained) = match query {
            LogicalPlan::Analyze(_) => {
                return Err(ClusterError::input(
                    "EXPLAIN ANALYZE is not supported on a cluster; EXPLAIN says what nodes do",
                ));
            }
            LogicalPlan::Explain(explain) => (explain.plan.as_ref(), true),
            query => (query, false),
        };
        let planner = self.link.planner(&self.known().map)?;
        // Types of columns are known after this.
        let state = planner.engine().context().state();
        let options = state.config_options();
        let analysed = state
            .analyzer()
            .execute_and_check(query.clone(), options, |_, _| {});
        let analysed = analysed.map_err(|e| planner.input(&e))?;
        let schema = match is_explained {
            true => LogicalPlan::explain_schema(),
            false => Arc::new(analysed.schema().as_arrow().clone()),
        };
        let properties = properties(&schema);
        let asked = Arc::new(Asked {
            tables: Arc::clone(self),
            query: query.clone(),
            is_explained,
            schema,
        });
        Ok(Some(Arc::new(ClusterExec { asked, properties })))
    }

    /// Which parts of tables a query reads on which nodes, and where their pages are. Subqueries
    /// that give one value are run for it.
    fn placement(
        &self,
        query: &LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<RecordBatch>, ClusterError> {
        if !self.reads(query)? {
            return Ok(None);
        }
        let session = self.session()?;
        let planned = session.planned(query, stop)?;
        let batch = placement_of(&planned.plan, &session.map);
        batch
            .map(Some)
            .map_err(|e| ClusterError::Failed(e.to_string()))
    }

    /// Whether a query reads tables of the cluster.
    ///
    /// # Errors
    /// It reads others too, or one that nobody can read now.
    fn reads(&self, query: &LogicalPlan) -> Result<bool, ClusterError> {
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        let visited = query.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                let provider = source_as_provider(&scan.source)?;
                match provider.downcast_ref::<ClusterTable>() {
                    Some(table) => ours.push(table.table.name.clone()),
                    None => others.push(scan.table_name.to_string()),
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        visited.map_err(|e| ClusterError::Failed(e.strip_backtrace()))?;
        let Some(first) = ours.first() else {
            return Ok(false);
        };
        if let Some(other) = others.first() {
            return Err(ClusterError::input(format!(
                "{first} is in the cluster and {other} in this server: one statement is not \
                 supported for both"
            )));
        }
        let lost = ours.iter().find_map(|name| self.missing(name));
        lost.map_or(Ok(true), |why| Err(ClusterError::Failed(why)))
    }

    fn session(&self) -> Result<ClusterSession<'_>, ClusterError> {
        let map = Arc::clone(&self.known().map);
        ClusterSession::on(&self.link, map)
    }
}

/// A query, and what is asked of it.
struct Asked {
    tables: Arc<ServedTables>,
    query: LogicalPlan,
    /// Whether that is what nodes would do, and not the rows.
    is_explained: bool,
    schema: SchemaRef,
}

impl Asked {
    /// What is asked for, with the columns that were announced.
    fn batches(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<RecordBatch>, ClusterError> {
        let session = self.tables.session()?;
        let planned = session.planned(&self.query, stop)?;
        if self.is_explained {
            let text = |text: String| Arc::new(StringArray::from(vec![text])) as ArrayRef;
            let plan = text(session.described(&planned.plan)?);
            return Ok(vec![
                self.named(vec![text("cluster_plan".into()), plan], 1)?,
            ]);
        }
        let batches = session.collected(&planned.plan, stop)?.into_iter();
        let named = batches.map(|batch| self.named(batch.columns().to_vec(), batch.num_rows()));
        named.collect()
    }

    fn named(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ClusterError> {
        let rows = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let named = RecordBatch::try_new_with_options(schema, columns, &rows);
        named.map_err(|e| ClusterError::Failed(format!("the rows of the cluster: {e}")))
    }
}

fn properties(schema: &SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    ))
}

/// A query on tables of a cluster.
struct ClusterExec {
    asked: Arc<Asked>,
    properties: Arc<PlanProperties>,
}

/// Ends work on a statement when nobody waits for its rows any more.
struct EndWhenDropped(Arc<AtomicBool>);

impl Drop for EndWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl ExecutionPlan for ClusterExec {
    fn name(&self) -> &str {
        "ClusterExec"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.asked.schema)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    tierloom_corrections::without_inputs!();

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("a query on a cluster has one partition");
        }
        let asked = Arc::clone(&self.asked);
        let stopped = Arc::new(AtomicBool::new(false));
        let end = EndWhenDropped(Arc::clone(&stopped));
        // It waits for nodes, and plans.
        let work =
            tokio::task::spawn_blocking(move || asked.batches(&|| stopped.load(Ordering::Relaxed)));
        let batches = async move {
            let _end = end;
            let rows = work.await;
            let rows = rows.map_err(|e| DataFusionError::Execution(format!("it was lost: {e}")))?;
            let rows = rows.map_err(|e| DataFusionError::Execution(e.to_string()))?;
            Ok::<_, DataFusionError>(stream::iter(rows.into_iter().map(Ok)))
        };
        let batches = stream::once(batches).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.asked.schema)))
    }
}

impl fmt::Debug for ClusterExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterExec").finish_non_exhaustive()
    }
}

impl DisplayAs for ClusterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.asked.tables.link.registry.url();
        write!(f, "ClusterExec: scheduler={url}")
    }
}
