//! Tierloom's session, on a simulated machine with DRAM and CXL memory.

use super::{Answer, Options, Rows, Spoil};
use crate::FuzzError;
use arrow::datatypes::SchemaRef;
use datafusion::physical_plan::ExecutionPlan;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tierloom_engine::bigjoin::{BigAggregateOptions, BigJoinOptions};
use tierloom_engine::routing::RoutingOptions;
use tierloom_engine::star::StarExec;
use tierloom_engine::{EngineOptions, JoinOrderOptions, PlacedScanExec};
use tierloom_memory::{FakeBackend, FakeNode, PageSize, fake_topology};
use tierloom_sql::{CollectedRows, CsvOptions, SqlOptions, SqlSession, Watch, split};

/// Memory of each simulated node, in bytes.
const NODE_BYTES: u64 = 8 << 30;

/// The session under test.
pub struct Tierloom {
    session: SqlSession,
    spoil: Option<Spoil>,
}

/// The operators in a plan, for coverage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanOperators {
    /// Names of the operators, each once.
    pub operators: Vec<&'static str>,
    /// Why aggregations were not fused.
    pub notes: Vec<String>,
}

/// A flag that asks a running statement to stop.
#[derive(Debug, Default)]
pub struct StopFlag(AtomicBool);

impl Watch for StopFlag {
    fn stop(&self) -> &AtomicBool {
        &self.0
    }
}

impl Tierloom {
    /// A session without tables.
    ///
    /// # Errors
    /// If the session cannot be created.
    pub fn new(options: &Options, spoil: Option<Spoil>) -> Result<Self, FuzzError> {
        let setup = |e: &dyn std::fmt::Display| FuzzError::Setup(format!("session: {e}"));
        let node = |node, cpus| FakeNode {
            node,
            cpus,
            memory_bytes: NODE_BYTES,
        };
        let topology = fake_topology(&[node(0, 2), node(1, 0)]).map_err(|e| setup(&e))?;
        let mut engine = EngineOptions::tuned(options.threads);
        engine.batch_rows = options.batch_rows;
        engine.fused = options.fused;
        if let Some(rows) = options.big_join_rows {
            engine.big_joins = BigJoinOptions {
                min_build_rows: rows,
                dense_keys: options.dense_keys,
            };
        }
        if let Some(min_groups) = options.big_groups {
            engine.big_aggregates = BigAggregateOptions { min_groups };
        }
        if let Some(min_rows) = options.join_order_rows {
            engine.join_order = JoinOrderOptions { min_rows };
        }
        engine.routing = options.routed.then(RoutingOptions::default);
        let session = SqlSession::new(SqlOptions {
            engine,
            topology,
            page_size: PageSize::Base,
            placement: options.placement.parse().map_err(|e| setup(&e))?,
            backend: Arc::new(FakeBackend::with_nodes(&[(0, NODE_BYTES), (1, NODE_BYTES)])),
        });
        Ok(Tierloom {
            session: session.map_err(|e| setup(&e))?,
            spoil,
        })
    }

    /// Loads a file or folder as the table `name` and returns the table's schema, which may differ
    /// from the file's.
    ///
    /// # Errors
    /// The session's error message.
    pub fn load(&mut self, name: &str, path: &Path) -> Result<SchemaRef, String> {
        let csv = CsvOptions {
            infer_rows: 0,
            ..CsvOptions::default()
        };
        self.session
            .load_files(name, path, csv, &StopFlag::default())
            .and_then(|_| self.session.schema_of(name))
            .map_err(|e| e.to_string())
    }

    /// The schema of a table or view.
    pub fn schema_of(&self, name: &str) -> Option<SchemaRef> {
        self.session.schema_of(name).ok()
    }

    /// Runs one statement until it ends or `stop` is set.
    pub fn run(&mut self, sql: &str, stop: &StopFlag) -> Answer {
        let mut rows = CollectedRows::default();
        for piece in split(sql).map_err(|e| e.to_string())? {
            self.session
                .run(&piece, &mut rows, stop)
                .map_err(|e| e.to_string())?;
        }
        let rows = rows.schema.map(|schema| Rows {
            schema,
            batches: rows.batches,
        });
        Ok(match self.spoil {
            Some(spoil) => rows.map(|rows| spoil(sql, rows)),
            None => rows,
        })
    }

    /// The operators in the plan of a query.
    ///
    /// Planning also puts it into the plan cache, which is checked too.
    pub fn seen(&self, sql: &str) -> PlanOperators {
        let mut seen = PlanOperators::default();
        let Ok(pieces) = split(sql) else { return seen };
        let Some(Ok(planned)) = pieces.first().map(|p| self.session.plan(p)) else {
            return seen;
        };
        look(planned.plan(), &mut seen.operators);
        let again = pieces.first().map(|p| self.session.plan(p));
        if let Some(Ok(again)) = again
            && Arc::ptr_eq(again.plan(), planned.plan())
        {
            seen.operators.push("found in the plan cache");
        }
        seen.notes = planned.notes();
        seen.operators.sort_unstable();
        seen.operators.dedup();
        seen
    }
}

impl StopFlag {
    /// Asks the statement to stop.
    pub fn now(&self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

fn look(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<&'static str>) {
    if let Some(star) = plan.downcast_ref::<StarExec>() {
        found.push("star join");
        let summary = star.summary();
        if summary.contains(" with ") {
            found.push("star join, snowflake");
        }
        if !summary.contains("filters=[]") {
            found.push("star join, fact filter");
        }
        if summary.contains("dimensions=[]") {
            found.push("star join, no dimension");
        }
        if !summary.contains("groups=[]") {
            found.push("star join, groups");
        }
    }
    match plan.name() {
        "BigJoinExec" => found.push("big join"),
        "BigAggregateExec" => found.push("big group-by"),
        "HashJoinExec" => found.push("(DataFusion's hash join)"),
        "AggregateExec" => found.push("(DataFusion's group-by)"),
        _ => {}
    }
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        found.push("placed scan");
        if !scan.filter_columns().is_empty() {
            found.push("filter on codes");
        }
    }
    plan.children()
        .into_iter()
        .for_each(|child| look(child, found));
}
