//! Plans of statements that were seen before.
//!
//! Planning a star query takes longer than running it on a small table. A plan is found again by the exact text of its statement, and only
//! while every table that it reads is still the one it was made for: placed tables and tables of batches, which do not change. Statements whose plan holds the time or chance of planning
//! (`now()`, `random()`) are planned each time.

use crate::table::PlacedTableProvider;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::{LogicalPlan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Plans kept; the whole cache is emptied when there are more.
const MOST_PLANS: usize = 1024;

struct Kept {
    plan: Arc<dyn ExecutionPlan>,
    tables: Vec<(TableReference, Weak<dyn TableProvider>)>,
}

/// Plans by the text of their statements.
#[derive(Default)]
pub(crate) struct PlanCache {
    plans: Mutex<HashMap<String, Kept>>,
}

impl PlanCache {
    /// The plan of `sql`, if it is known and its tables are still the same.
    pub async fn find(
        &self,
        context: &SessionContext,
        sql: &str,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let (plan, tables) = {
            let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = plans.get(sql)?;
            (Arc::clone(&kept.plan), kept.tables.clone())
        };
        for (name, table) in tables {
            let now = context.table_provider(name).await.ok()?;
            if !Weak::ptr_eq(&Arc::downgrade(&now), &table) {
                return None;
            }
        }
        Some(plan)
    }

    /// Remembers the plan of a query, unless it would be another one the next time.
    pub async fn keep(
        &self,
        context: &SessionContext,
        sql: &str,
        logical: &LogicalPlan,
        plan: &Arc<dyn ExecutionPlan>,
    ) {
        let Some(names) = tables_of(logical) else {
            return;
        };
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            let Ok(table) = context.table_provider(name.clone()).await else {
                return;
            };
            // System tables and files are read while planning: their plans hold what was there then.
            let lasting = table.downcast_ref::<PlacedTableProvider>().is_some()
                || table.downcast_ref::<MemTable>().is_some();
            if !lasting {
                return;
            }
            tables.push((name, Arc::downgrade(&table)));
        }
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        let plan = Arc::clone(plan);
        plans.insert(sql.to_owned(), Kept { plan, tables });
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        self.plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// The tables that a query reads; `None` for a statement that is no query, or one that has to be planned anew each time.
fn tables_of(plan: &LogicalPlan) -> Option<Vec<TableReference>> {
    let mut tables = Vec::new();
    let mut stable = true;
    let visited = plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => tables.push(scan.table_name.clone()),
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
            stable &= !expr.exists(|e| Ok(is_unstable(e))).unwrap_or(true);
        }
        Ok(if stable {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    (visited.is_ok() && stable).then_some(tables)
}

fn is_unstable(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
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
