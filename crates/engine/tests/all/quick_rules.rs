//! Quick rules plan what DataFusion's own rules plan.

use crate::common::{self, Numbers, engine_of};
use crate::runtime_filters::{fact_dim_other, random_relation};
use crate::tpc_answers::placed;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_plan::displayable;
use std::sync::Arc;
use tierloom_engine::{Engine, EngineOptions};
use tierloom_tpc::{Benchmark, STORED_SCALE_FACTOR, queries};
use tierloom_workloads::ssb;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The session of an engine, and the same with DataFusion's own rules.
fn both(engine: &Engine) -> [SessionState; 2] {
    let state = engine.context().state();
    let own: [Rule; 2] = [
        Arc::new(JoinSelection::new()),
        Arc::new(EnsureRequirements::new()),
    ];
    let mut rules = state.physical_optimizers().to_vec();
    let mut replaced = 0;
    for rule in &mut rules {
        let ours = format!("{rule:?}");
        if let Some(own) = own.iter().find(|own| own.name() == rule.name()) {
            let names = ["ByNode(", "Requirements("];
            assert!(names.iter().any(|name| ours.starts_with(name)), "{ours}");
            *rule = Arc::clone(own);
            replaced += 1;
        }
    }
    assert_eq!(replaced, own.len());
    let builder = SessionStateBuilder::new_from_existing(state.clone());
    let plain = builder.with_physical_optimizer_rules(rules).build();
    [state, plain]
}

/// Plans one optimised query twice; the plan.
fn same(engine: &Engine, sessions: &[SessionState; 2], sql: &str) -> String {
    let optimised = engine.optimised(sql, sql, 100, &|| false);
    let optimised = optimised.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let [ours, plain] = sessions.each_ref().map(|state| {
        let planned = state
            .query_planner()
            .create_physical_plan(&optimised, state);
        let plan = engine.handle().block_on(planned).unwrap();
        displayable(plan.as_ref()).indent(true).to_string()
    });
    assert_eq!(ours, plain, "{sql}");
    ours
}

#[test]
fn benchmarks_are_planned_as_by_slow_rules() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let engine = common::engine(&tables);
    let sessions = both(&engine);
    for query in ssb::queries() {
        same(&engine, &sessions, query.sql);
    }
    for benchmark in [Benchmark::TpcH, Benchmark::TpcDs] {
        let (tuned, tables, _) = placed(benchmark);
        // With few rows in a batch, operators gain by more partitions.
        let small = EngineOptions {
            batch_rows: 100,
            ..EngineOptions::tuned(3)
        };
        for engine in [tuned, engine_of(small, &tables)] {
            let sessions = both(&engine);
            for query in queries(benchmark) {
                same(&engine, &sessions, &query.sql(STORED_SCALE_FACTOR));
            }
        }
    }
}

#[test]
fn random_joins_windows_and_unions_are_planned_as_by_slow_rules() {
    let mut numbers = Numbers::of_this_run();
    let tables = fact_dim_other(&mut numbers);
    let (mut repartitioned, mut merged) = (0, 0);
    for number in 0..300_usize {
        let mut options = EngineOptions {
            batch_rows: [64, 1024, 16 * 1024][number % 3],
            fused: number % 2 == 0,
            ..EngineOptions::tuned(1 + number % 4)
        };
        options.runtime_filters = number % 5 != 0;
        let engine = engine_of(options, &tables);
        // Most joins have partitions of both sides.
        let partitioned = "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 10";
        let bytes = "SET datafusion.optimizer.hash_join_single_partition_threshold = 10";
        if number % 4 < 2 {
            for set in [partitioned, bytes] {
                engine.handle().block_on(engine.context().sql(set)).unwrap();
            }
        }
        let (of, more) = (
            random_relation(3, &mut numbers),
            random_relation(1, &mut numbers),
        );
        let sql = match number % 7 {
            0 => format!("SELECT k, count(*) FROM {of} AS q GROUP BY k ORDER BY k LIMIT 7"),
            1 => format!(
                "SELECT k, sum(id) OVER (PARTITION BY k ORDER BY s, id) FROM {of} AS q ORDER BY k"
            ),
            2 => format!(
                "SELECT k, t, rank() OVER (ORDER BY id) AS r FROM {of} AS q UNION ALL SELECT k, t, id FROM {more} AS p"
            ),
            3 => format!(
                "SELECT a.k, max(b.n) FROM {of} AS a JOIN (SELECT k, sum(id) OVER (PARTITION BY k) AS n FROM {more} AS m) b ON a.k = b.k GROUP BY a.k"
            ),
            4 => format!("SELECT DISTINCT t FROM {of} AS q ORDER BY t DESC LIMIT 3 OFFSET 2"),
            5 => format!(
                "SELECT k, s FROM (SELECT k, s FROM {of} AS a ORDER BY s LIMIT 50) x UNION SELECT k, s FROM {more} AS b"
            ),
            _ => format!("SELECT sum(id), count(DISTINCT t), min(s) FROM {of} AS q"),
        };
        let plan = same(&engine, &both(&engine), &sql);
        repartitioned += usize::from(plan.contains("RepartitionExec"));
        merged += usize::from(plan.contains("SortPreservingMergeExec"));
    }
    assert!(
        repartitioned > 50 && merged > 50,
        "{repartitioned} {merged}"
    );
}
