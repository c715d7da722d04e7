//! Cache of physical plans by statement text.
//!
//! Planning a star query takes longer than running it on a small table. A plan is reused for the
//! exact text of its statement, and only while every table and view named in the text is the same
//! and no setting has changed. It reads placed tables and in-memory tables, whose rows do not
//! change. Plans that contain the time or a random choice of planning (`now()`, `random()`) are not
//! cached.

use crate::provider::PlacedTableProvider;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::logical_expr::{Expr, TableScan};
use datafusion::logical_expr::{LogicalPlan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tierloom_corrections::{Walk, WalkAll};

/// Maximum number of cached plans; the whole cache is cleared beyond it.
const MOST_PLANS: usize = 1024;

/// What the names in a statement's text referred to when it was planned.
#[derive(Clone)]
pub(crate) struct Sources {
    /// Tables and views by name, as weak references.
    ///
    /// A cached plan does not keep a dropped table that way, yet its address is not reused, so that
    /// comparing pointers is safe.
    names: Vec<(TableReference, Weak<dyn TableProvider>)>,
    /// The settings. Held here, so that a change copies them and gives another pointer.
    settings: Arc<ConfigOptions>,
}

impl Sources {
    /// Resolves `names` now; `None` if the plan of `logical` must not be reused.
    pub async fn of(
        context: &SessionContext,
        logical: &LogicalPlan,
        names: Vec<TableReference>,
    ) -> Option<Self> {
        let settings = settings(context);
        if !is_stable(logical) || keeps_filters(&settings) {
            return None;
        }
        let mut known = Vec::with_capacity(names.len());
        for name in names {
            let meant = context.table_provider(name.clone()).await.ok()?;
            known.push((name, Arc::downgrade(&meant)));
        }
        Some(Sources {
            names: known,
            settings,
        })
    }

    /// Whether all names and settings are unchanged.
    async fn hold(&self, context: &SessionContext) -> bool {
        if !Arc::ptr_eq(&self.settings, &settings(context)) {
            return false;
        }
        for (name, meant) in &self.names {
            let now = context.table_provider(name.clone()).await;
            if !now.is_ok_and(|now| Weak::ptr_eq(&Arc::downgrade(&now), meant)) {
                return false;
            }
        }
        true
    }
}

fn settings(context: &SessionContext) -> Arc<ConfigOptions> {
    Arc::clone(context.state_ref().read().config_options())
}

struct CacheEntry {
    plan: Arc<dyn ExecutionPlan>,
    sources: Sources,
}

/// Cached plans by the text of their statements.
#[derive(Default)]
pub(crate) struct PlanCache {
    plans: Mutex<HashMap<String, CacheEntry>>,
}

impl PlanCache {
    /// The cached plan of `sql`, if it is still valid.
    pub async fn find(
        &self,
        context: &SessionContext,
        sql: &str,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        // The lock is released before the names are resolved, which awaits the catalog.
        let (plan, sources) = {
            let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = plans.get(sql)?;
            (Arc::clone(&kept.plan), kept.sources.clone())
        };
        sources.hold(context).await.then_some(plan)
    }

    /// Caches the plan of a query, unless it must not be reused.
    pub fn keep(&self, sql: &str, plan: &Arc<dyn ExecutionPlan>, sources: Option<Sources>) {
        let Some(sources) = sources else {
            return;
        };
        let plan = Arc::clone(plan);
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            // Simpler than tracking use; the only cost is planning again.
            plans.clear();
        }
        plans.insert(sql.to_owned(), CacheEntry { plan, sources });
    }

    pub fn clear(&self) {
        self.plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// Whether plans may have filters that change while they run, which a second run would keep. They
/// are off unless a statement has set them.
fn keeps_filters(settings: &ConfigOptions) -> bool {
    let optimizer = &settings.optimizer;
    optimizer.enable_dynamic_filter_pushdown
        || optimizer.enable_topk_dynamic_filter_pushdown
        || optimizer.enable_join_dynamic_filter_pushdown
        || optimizer.enable_aggregate_dynamic_filter_pushdown
}

/// Whether planning again would give the same plan for the same tables.
fn is_stable(plan: &LogicalPlan) -> bool {
    let mut stable = true;
    let visited = plan.each_of_all(&mut |node| {
        match node {
            LogicalPlan::TableScan(scan) => stable &= is_lasting(scan),
            LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_) => stable = false,
            _ => {}
        }
        for expr in node.expressions() {
            stable &= !expr.has(&mut |e| Ok(is_unstable(e))).unwrap_or(true);
        }
        Ok(if stable {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    visited.is_ok() && stable
}

/// Whether a table's rows are read at run time. System tables and files are read while planning.
fn is_lasting(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|table| {
        table.downcast_ref::<PlacedTableProvider>().is_some()
            || table.downcast_ref::<MemTable>().is_some()
    })
}

fn is_unstable(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::ScalarVariable(..) | Expr::Placeholder(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Engine, EngineOptions};
    use arrow::array::{AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;
    use datafusion::datasource::MemTable;
    use std::sync::Arc;

    fn table(values: Vec<i64>) -> Arc<MemTable> {
        let column = Arc::new(Int64Array::from(values)) as _;
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())
    }

    fn sum(engine: &Engine) -> i64 {
        let planned = engine.plan("query", "select sum(a) from t").unwrap();
        let run = engine.execute("query", &planned, &|| false).unwrap();
        run.batches[0]
            .column(0)
            .as_primitive::<Int64Type>()
            .value(0)
    }

    #[test]
    fn a_plan_is_found_again_until_its_table_is_another_one() {
        let engine = Engine::new(EngineOptions::plain(1)).unwrap();
        engine
            .context()
            .register_table("t", table(vec![1, 2]))
            .unwrap();
        let plan = || engine.plan("query", "select sum(a) from t").unwrap();
        assert!(Arc::ptr_eq(plan().plan(), plan().plan()));
        assert_eq!((sum(&engine), sum(&engine)), (3, 3));
        engine.context().deregister_table("t").unwrap();
        engine
            .context()
            .register_table("t", table(vec![5]))
            .unwrap();
        assert_eq!(sum(&engine), 5);
        engine.context().deregister_table("t").unwrap();
        assert!(engine.plan("query", "select sum(a) from t").is_err());
    }

    #[test]
    fn a_plan_is_not_found_when_a_view_in_its_text_or_a_setting_is_another_one() {
        let engine = Engine::new(EngineOptions::plain(1)).unwrap();
        engine
            .context()
            .register_table("t", table(vec![1, 2]))
            .unwrap();
        let execute = |sql: &str| {
            let done = engine.handle().block_on(engine.context().sql(sql));
            done.unwrap();
        };
        let plan = || engine.plan("query", "select sum(a) from v").unwrap();
        execute("create view v as select a from t");
        assert!(Arc::ptr_eq(plan().plan(), plan().plan()));
        let before = plan();
        execute("create or replace view v as select a from t where a = 2");
        assert!(!Arc::ptr_eq(plan().plan(), before.plan()));
        let before = plan();
        execute("set datafusion.execution.time_zone = '+02:00'");
        assert!(!Arc::ptr_eq(plan().plan(), before.plan()));
        execute("drop view v");
        assert!(engine.plan("query", "select sum(a) from v").is_err());
    }

    #[test]
    fn a_statement_is_found_at_another_place_of_a_script() {
        let engine = Engine::new(EngineOptions::plain(1)).unwrap();
        engine
            .context()
            .register_table("t", table(vec![1]))
            .unwrap();
        let plan = |sql: &str| engine.plan("query", sql).unwrap();
        let first = plan("select sum(a) from t");
        let later = plan("\n\n      select sum(a) from t ");
        assert!(Arc::ptr_eq(first.plan(), later.plan()));
        let other = plan("select sum( a) from t");
        assert!(!Arc::ptr_eq(first.plan(), other.plan()));
    }

    #[test]
    fn what_chance_or_time_decides_is_planned_each_time() {
        let engine = Engine::new(EngineOptions::plain(1)).unwrap();
        engine
            .context()
            .register_table("t", table(vec![1]))
            .unwrap();
        for sql in ["select a, random() from t", "select a, now() from t"] {
            let plan = || engine.plan("query", sql).unwrap();
            assert!(!Arc::ptr_eq(plan().plan(), plan().plan()), "{sql}");
        }
    }
}
