//! Quick rules plan what DataFusion's own rules plan.

use crate::common::{self, Numbers, both, engine_of};
use crate::runtime_filters::{fact_dim_other, random_relation};
use crate::tpc_answers::placed;
use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use datafusion::common::tree_node::Transformed;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_plan::displayable;
use std::sync::Arc;
use tierloom_engine::load::Encoding;
use tierloom_engine::{Engine, EngineOptions, PlacedTable};
use tierloom_tpc::{Benchmark, STORED_SCALE_FACTOR, queries};
use tierloom_workloads::ssb;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A rule of DataFusion that does not remove keys of sorts, which may be wrong.
#[derive(Debug)]
struct ButSorts(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for ButSorts {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> datafusion::common::Result<Transformed<LogicalPlan>> {
        let is_left = self.name() == "eliminate_duplicated_expr";
        match plan {
            LogicalPlan::Sort(_) if is_left => Ok(Transformed::no(plan)),
            plan => self.0.rewrite(plan, config),
        }
    }
}

const IN_VAIN: [&str; 5] = [
    "rewrite_set_comparison",
    "simplify_expressions",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "eliminate_duplicated_expr",
];

/// The session of an engine, and the same with DataFusion's own rules.
fn both(engine: &Engine) -> [SessionState; 2] {
    let state = engine.context().state();
    let own: [Rule; 4] = [
        Arc::new(JoinSelection::new()),
        Arc::new(EnsureRequirements::new()),
        Arc::new(FilterPushdown::new()),
        Arc::new(FilterPushdown::new_post_optimization()),
    ];
    let mut rules = state.physical_optimizers().to_vec();
    let all = rules.len();
    // DataFusion's rule for filters gives hints too.
    rules.retain(|rule| rule.name() != "tierloom_scan_hints");
    assert_eq!(rules.len(), all - 1);
    let mut replaced = 0;
    for rule in &mut rules {
        let ours = format!("{rule:?}");
        if let Some(own) = own.iter().find(|own| own.name() == rule.name()) {
            let names = ["ByNode {", "Requirements(", "ScanFilters("];
            assert!(names.iter().any(|name| ours.starts_with(name)), "{ours}");
            *rule = Arc::clone(own);
            replaced += 1;
        }
    }
    assert_eq!(replaced, own.len());
    let mut logical = state.optimizer().rules.clone();
    // Those that corrections leave out only where they change nothing.
    let whole = Optimizer::new().rules;
    let mut replaced = 0;
    for rule in &mut logical {
        if IN_VAIN.contains(&rule.name()) {
            assert!(format!("{rule:?}").starts_with("Except {"));
            let own = whole.iter().find(|own| own.name() == rule.name());
            *rule = Arc::new(ButSorts(Arc::clone(own.unwrap())));
            replaced += 1;
        }
    }
    assert_eq!(replaced, IN_VAIN.len());
    let builder = SessionStateBuilder::new_from_existing(state.clone());
    let builder = builder.with_optimizer_rules(logical);
    let plain = builder.with_physical_optimizer_rules(rules).build();
    [state, plain]
}

/// The optimised logical plan of `sql` as text, without the numbers of names that rules make up.
fn logical(engine: &Engine, state: &SessionState, sql: &str) -> String {
    let statement = tierloom_corrections::statement(state, sql).unwrap();
    let plan = tierloom_planner::whole_plan(state, statement);
    let plan = engine.handle().block_on(plan).unwrap();
    let text = state.optimize(&plan).unwrap().display_indent().to_string();
    let mut parts = text.split("__");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let end = part.find([' ', '.', ',', ')', ']', ':', '\n']);
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        text + "__" + name.trim_end_matches(|c: char| c.is_ascii_digit()) + rest
    })
}

/// Plans one optimised query twice; the plan.
fn same(engine: &Engine, sessions: &[SessionState; 2], sql: &str) -> String {
    let [ours, plain] = sessions.each_ref().map(|s| logical(engine, s, sql));
    assert_eq!(ours, plain, "{sql}");
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
fn all_keys_of_a_join_count_where_the_sides_of_the_next_are_chosen() {
    let ints = |rows: i64, value: &dyn Fn(i64) -> i64| -> ArrayRef {
        Arc::new((0..rows).map(value).collect::<Int64Array>())
    };
    // Pairs of `a` and `b` occur once, so `few` has a match for each of its rows, not for each of
    // the 20 rows of `many` with the same `a`.
    let pairs = |rows| {
        vec![
            ("a", ints(rows, &|i| i / 20)),
            ("b", ints(rows, &|i| i % 20)),
        ]
    };
    let few = [pairs(400), vec![("x", ints(400, &|i| i))]].concat();
    let next = vec![("x", ints(3_000, &|i| i % 500)), ("y", ints(3_000, &|i| i))];
    let tables = [("many", pairs(4_000)), ("few", few), ("next", next)];
    let tables =
        tables.map(|(name, columns)| both::placed(name, &[both::batch(columns)], Encoding::Auto));
    let sql = "SELECT many.a, y FROM many, few, next WHERE many.a = few.a AND many.b = few.b AND few.x = next.x";
    assert_eq!(first_scans(&tables, sql), ["few", "next"]);
}

/// The table of the innermost build side, by better estimates and by DataFusion's.
fn first_scans(tables: &[Arc<PlacedTable>], sql: &str) -> [String; 2] {
    [true, false].map(|estimated| {
        let options = EngineOptions {
            estimated,
            ..EngineOptions::tuned(2)
        };
        let planned = engine_of(options, tables).plan("query", sql).unwrap();
        let plan = planned.display();
        let scan = plan.split("table=").nth(1).unwrap();
        scan.split(',').next().unwrap().to_owned()
    })
}

#[test]
fn values_that_pass_count_where_the_sides_of_a_join_are_chosen() {
    let ints = |rows: i64| -> ArrayRef { Arc::new((0..rows).collect::<Int64Array>()) };
    let text = |rows: i64, values: i64| -> ArrayRef {
        let value = |i| Some(format!("text {}", i % values));
        Arc::new((0..rows).map(value).collect::<StringViewArray>())
    };
    let many = vec![
        ("x", ints(3_000)),
        ("s", text(3_000, 300)),
        ("t", text(3_000, 4)),
    ];
    let few = vec![("x", ints(400)), ("y", text(400, 400))];
    let tables = [("many", many), ("few", few)];
    let tables =
        tables.map(|(name, columns)| both::placed(name, &[both::batch(columns)], Encoding::Auto));
    // A fifth of `many` has more rows than `few`. Ten rows have a text of 300, and 750 one of
    // four; a fifth of those is left where another condition is not known.
    for (condition, first) in [
        ("s = 'text 7'", "many"),
        ("s IN ('text 7', 'text 8', 'text 9')", "many"),
        ("t = 'text 1'", "few"),
        ("t = 'text 1' AND s LIKE '%7'", "many"),
        ("t = 'text 1' AND (s > t OR many.x > 7)", "many"),
    ] {
        let sql = format!("SELECT y, t FROM many, few WHERE many.x = few.x AND {condition}");
        assert_eq!(first_scans(&tables, &sql), [first, "few"], "{condition}");
    }
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
        let (_, tables, _) = placed(benchmark);
        let tuned = EngineOptions {
            estimated: false,
            ..EngineOptions::tuned(2)
        };
        // With few rows in a batch, operators gain by more partitions.
        let small = EngineOptions {
            threads: 3,
            batch_rows: 100,
            ..tuned.clone()
        };
        for options in [tuned, small] {
            let engine = engine_of(options, &tables);
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
            estimated: false,
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
