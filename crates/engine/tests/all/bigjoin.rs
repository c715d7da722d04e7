//! `BigJoinExec` and `BigAggregateExec` against DataFusion's own operators on the same plans.

use arrow::array::{ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;
use tierloom_engine::bigjoin::{
    BigAggregateOptions, BigAggregateRule, BigJoinOptions, BigJoinRule,
};

/// SplitMix64, so that rows are the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Rows with keys in `0..keys` times `spread`, one in twenty NULL.
fn table(name: &str, rows: usize, keys: u64, spread: i64, batch_rows: usize) -> MemTable {
    let mut random = Random(rows as u64 ^ keys);
    let field = |column: &str, data_type| Field::new(format!("{name}_{column}"), data_type, true);
    let schema = Arc::new(Schema::new(vec![
        field("k", DataType::Int64),
        field("d", DataType::Date32),
        field("i", DataType::Int32),
        field("text", DataType::Utf8View),
        field("row", DataType::Int64),
    ]));
    let mut partitions = vec![Vec::new(), Vec::new()];
    for (number, start) in (0..rows).step_by(batch_rows).enumerate() {
        let len = batch_rows.min(rows - start);
        let mut keys_of = |spread: i64| -> Vec<Option<i64>> {
            (0..len)
                .map(|_| (random.below(20) > 0).then(|| random.below(keys) as i64 * spread))
                .collect()
        };
        let (k, d, i) = (keys_of(spread), keys_of(1), keys_of(1));
        let narrow = |values: &[Option<i64>]| {
            values
                .iter()
                .map(|v| v.map(|v| v as i32))
                .collect::<Vec<_>>()
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(k)),
            Arc::new(Date32Array::from(narrow(&d))),
            Arc::new(Int32Array::from(narrow(&i))),
            Arc::new(StringViewArray::from_iter_values(
                (0..len).map(|r| format!("{name} number {}", start + r)),
            )),
            Arc::new(Int64Array::from_iter_values(
                (0..len).map(|r| (start + r) as i64),
            )),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        partitions[number % 2].push(batch);
    }
    MemTable::try_new(schema, partitions).unwrap()
}

fn session(big: bool, collect: bool) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_target_partitions(2)
        .with_batch_size(1000);
    config
        .options_mut()
        .execution
        .skip_partial_aggregation_probe_rows_threshold = 2000;
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.hash_join_single_partition_threshold = if collect { 1 << 30 } else { 0 };
    optimizer.hash_join_single_partition_threshold_rows = if collect { 1 << 30 } else { 0 };
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    let state = if big {
        let rule = BigJoinRule::new(BigJoinOptions {
            min_build_rows: 0,
            dense_keys: true,
        });
        let groups = BigAggregateRule::new(BigAggregateOptions { min_groups: 0 });
        state
            .with_physical_optimizer_rule(Arc::new(rule))
            .with_physical_optimizer_rule(Arc::new(groups))
    } else {
        state
    };
    let context = SessionContext::new_with_state(state.build());
    let tables = [
        ("a", table("a", 3000, 500, 1, 400)),
        // Keys far apart use the hash table, not the array.
        ("b", table("b", 9000, 800, 1, 1000)),
        ("far_a", table("fa", 3000, 500, 1 << 40, 400)),
        ("far_b", table("fb", 9000, 800, 1 << 40, 1000)),
        ("wide", table("w", 2000, 500, 1 << 53, 400)),
        ("none", table("n", 0, 1, 1, 1)),
    ];
    for (name, table) in tables {
        context.register_table(name, Arc::new(table)).unwrap();
    }
    context
}

struct Ran {
    plan: String,
    rows: Vec<String>,
}

async fn run(context: &SessionContext, sql: &str) -> Ran {
    let frame = context.sql(sql).await.unwrap();
    let plan = frame.clone().create_physical_plan().await.unwrap();
    let plan = datafusion::physical_plan::displayable(plan.as_ref())
        .indent(false)
        .to_string();
    let batches = frame.collect().await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches)
        .unwrap()
        .to_string();
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    rows.sort();
    Ran { plan, rows }
}

#[tokio::test]
async fn answers_are_those_of_the_hash_join_for_all_kinds_keys_and_nulls() {
    let queries = [
        "select * from a, b where a_k = b_k",
        "select a_text, b_row from far_a, far_b, a, b where fa_k = fb_k and fa_row = a_row and fb_row = b_row",
        "select * from a, b where a_k = b_k and a_d = b_d",
        "select * from a, b where a_i = b_i and a_row < b_row",
        "select count(*) as n from a, b where a_d = b_d",
        // Strings, shorter and longer than a number; three columns.
        "select a_text, b_text from (select *, substr(a_text, 1, a_i % 30) as t from a) a, (select *, 'a' || substr(b_text, 2, b_i % 30) as t from b where b_row < 900) b where a.t = b.t",
        "select a_row, n from a left join (select 'a number ' || b_row as t, b_k as n from b) b on a_text = t",
        "select b_row from b where not exists (select 1 from a where a_text = 'a number ' || (b_row % 4000) and a_k = b_k)",
        "select a_row, b_row from a full join b on a_k = b_k and a_d = b_d and a_i = b_i",
        "select x.w_row as p, y.w_row as q from wide x, wide y where x.w_k = y.w_k and x.w_d = y.w_d and x.w_row * 1000000007 = y.w_row * 1000000007 and x.w_text = y.w_text",
        "select * from a where exists (select 1 from b where b_k = a_k)",
        "select * from a where exists (select 1 from b where b_k = a_k and b_row > a_row)",
        "select * from a where not exists (select 1 from b where b_k = a_k)",
        "select * from a where not exists (select 1 from far_b where fb_row = a_row and fb_i <> a_i)",
        "select * from b where exists (select 1 from a where b_k = a_k and b_row > a_row)",
        "select * from b where not exists (select 1 from a where b_k = a_k and b_row > a_row)",
        "select * from b where not exists (select 1 from a where b_k = a_k)",
        "select * from a left join b on a_k = b_k",
        "select * from a left join b on a_k = b_k and a_row % 7 < b_row % 5",
        "select b_text, a_row from a right join b on a_k = b_k and a_d = b_d",
        "select * from far_a right join far_b on fa_k = fb_k and fa_row > fb_row",
        "select * from a full join b on a_k = b_k and a_i = b_i",
        "select * from a full join b on a_d = b_d and a_row + b_row < 900",
        "select count(*) as n from far_a full join far_b on fa_k = fb_k",
        "select * from none full join a on n_k = a_k",
        "select * from a left join none on n_k = a_k",
        "select * from none left join a on n_k = a_k",
        "select a_row, b_row from a right join b on a_k = b_k order by b_row, a_row",
        "select w.w_row as p, x.n as q from wide w full join (select w_k + 0 as k, w_row * 1000000007 as r, w_row as n from wide where w_row % 3 > 0) x on w.w_k = x.k and w.w_row * 1000000007 = x.r",
        // Two columns whose ranges together do not fit into 64 bits.
        "select * from wide w, (select w_k + 0 as k, w_row * 1000000007 as r, w_row as n from wide) x where w.w_k = x.k and w.w_row * 1000000007 = x.r",
        "select * from none, b where n_k = b_k",
        "select * from b where not exists (select 1 from none where n_k = b_k)",
        "select * from none where exists (select 1 from b where n_k = b_k)",
    ];
    for collect in [true, false] {
        let (ours, theirs) = (session(true, collect), session(false, collect));
        for sql in queries {
            let (a, b) = (run(&ours, sql).await, run(&theirs, sql).await);
            assert!(a.plan.contains("BigJoinExec"), "{sql}\n{}", a.plan);
            assert!(b.plan.contains("HashJoinExec"), "{sql}\n{}", b.plan);
            assert_eq!(a.rows, b.rows, "{sql}\n{}", a.plan);
        }
    }
}

#[tokio::test]
async fn joins_that_it_does_not_do_stay_with_datafusion() {
    let context = session(true, true);
    for sql in ["select * from a where a_k not in (select b_k from b)"] {
        let ran = run(&context, sql).await;
        assert!(!ran.plan.contains("BigJoinExec"), "{sql}\n{}", ran.plan);
    }
}

const GROUP_BYS: [&str; 14] = [
    "select a_k, sum(a_row) as s, count(*) as n, count(a_i) as m, min(a_d) as d, max(a_text) as t, avg(a_row) as v from a group by a_k",
    "select a_i, a_d, count(*) as n, sum(a_row) as s from a group by a_i, a_d",
    // One column needs more than 32 bits.
    "select fa_k, fa_i, sum(fa_row) as s from far_a group by fa_k, fa_i",
    "select b_k, sum(b_row::decimal(15, 2)) as s, avg(b_row::decimal(15, 2)) as v, count(*) filter (where b_row % 3 = 0) as n from b group by b_k",
    // As many groups as rows, so the partial step stops aggregating.
    "select b_row, sum(b_i) as s, count(*) filter (where b_d > '1970-06-01') as n from b group by b_row",
    "select n_k, count(*) as n from none group by n_k",
    // Strings, alone and with others; short, long and NULL.
    "select substr(a_text, 1, a_i % 40) as t, count(*) as n, max(a_row) as m from a group by t",
    "select a_text as t, a_d, a_k, sum(a_row) as s from a group by t, a_d, a_k",
    "select arrow_cast(substr(b_text, 1, b_i % 15), 'LargeUtf8') as t, arrow_cast(b_text, 'Binary') as u, count(*) as n from b group by t, u",
    // Together these need more than 64 bits.
    "select w_k, w_row * 1000000007 as r, w_i, w_d, count(*) as n from wide group by w_k, r, w_i, w_d",
    "select b_k > 100 as more, b_i::decimal(9, 2) as d, arrow_cast(b_k, 'Timestamp(ms)') as t, arrow_cast(b_i, 'Time32(s)') as h, (b_i + 1)::tinyint unsigned as u, count(*) as n, sum(b_row) as s from b where b_i < 255 group by more, d, t, h, u",
    "select distinct b_k, b_i, b_d, b_row % 3 as x from b",
    "select distinct b_k, b_i from b",
    "select n, count(*) as c from (select a_k, count(b_row) as n from a left join b on a_k = b_k group by a_k) x group by n",
];

#[tokio::test]
async fn groups_and_their_values_are_those_of_the_aggregation() {
    let (ours, theirs) = (session(true, true), session(false, true));
    for sql in GROUP_BYS {
        let (a, b) = (run(&ours, sql).await, run(&theirs, sql).await);
        assert!(
            a.plan.contains("BigAggregateExec: mode=Partial"),
            "{sql}\n{}",
            a.plan
        );
        assert!(
            a.plan.contains("BigAggregateExec: mode=FinalPartitioned"),
            "{sql}\n{}",
            a.plan
        );
        assert_eq!(a.rows, b.rows, "{sql}\n{}", a.plan);
    }
}

#[tokio::test]
async fn where_memory_is_limited_the_aggregation_that_can_spill_runs() {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(64 << 20, 1.0)
        .build_arc()
        .unwrap();
    let context = session(true, true);
    let frame = context.sql(GROUP_BYS[0]).await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let task = Arc::new(TaskContext::default().with_runtime(runtime));
    let rows: usize = collect(Arc::clone(&plan), task)
        .await
        .unwrap()
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    let plain = session(false, true).sql(GROUP_BYS[0]).await.unwrap();
    assert_eq!(rows, plain.count().await.unwrap());
    let text = DisplayableExecutionPlan::with_metrics(plan.as_ref())
        .indent(false)
        .to_string();
    assert!(text.contains("left_to_datafusion=2"), "{text}");
}

#[tokio::test]
async fn a_panic_is_one_error_that_names_the_operator() {
    let breaks = |_: &[ColumnarValue]| -> datafusion::common::Result<ColumnarValue> {
        panic!("a function without bottom")
    };
    let (from, to) = (vec![DataType::Int32], DataType::Int32);
    let breaks = create_udf("breaks", from, to, Volatility::Immutable, Arc::new(breaks));
    let context = session(true, true);
    context.register_udf(breaks);
    for (sql, operator) in [
        (
            "select * from a, b where a_k = b_k and breaks(a_i) < b_i",
            "BigJoinExec",
        ),
        (
            "select * from b where not exists (select 1 from a where b_k = a_k and breaks(b_i) > a_i)",
            "BigJoinExec",
        ),
        (
            "select a_k, sum(breaks(a_i)) as s from a group by a_k",
            "BigAggregateExec",
        ),
    ] {
        let frame = context.sql(sql).await.unwrap();
        let error = frame.collect().await.unwrap_err().strip_backtrace();
        let message = format!("{operator} broke down (a function without bottom at ");
        assert!(error.contains(&message), "{sql}: {error}");
    }
    // The session can still be used.
    assert!(!run(&context, GROUP_BYS[0]).await.rows.is_empty());
}

#[tokio::test]
async fn small_builds_and_dense_keys_stay_with_datafusion_unless_asked_for() {
    let options = BigJoinOptions::default();
    assert!(!options.dense_keys);
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(BigJoinRule::new(BigJoinOptions {
            min_build_rows: 2000,
            ..options
        })));
    let context = SessionContext::new_with_state(state.build());
    for (name, rows) in [("s", 1000), ("l", 9000), ("o", 12_000)] {
        let table = table(name, rows, 800, 1, 400);
        context.register_table(name, Arc::new(table)).unwrap();
    }
    let replaced = async |sql: &str| run(&context, sql).await.plan.contains("BigJoinExec");
    assert!(replaced("select count(*) as n from l, o where l_k = o_k and l_i = o_i").await);
    assert!(!replaced("select count(*) as n from l, o where l_k = o_k").await);
    assert!(!replaced("select count(*) as n from s, l where s_k = l_k and s_i = l_i").await);
}
