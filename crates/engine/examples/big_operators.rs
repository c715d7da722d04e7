//! `BigJoinExec` and `BigAggregateExec` against DataFusion's own operators, on tables shaped like
//! those of TPC-H.
//!
//! ```text
//! cargo run --release -p tierloom-engine --example big_operators -- [million rows] [rounds]
//! ``` The first argument is the size of the large table; the defaults are 6 and 5. Both sessions
//! have the same settings, tables and two threads, and alternate within a round. Their results are
//! compared. Times are best and median.

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;
use std::time::Instant;
use tierloom_engine::bigjoin::{BigAggregateRule, BigJoinRule};

type Failure = Box<dyn std::error::Error>;

const BATCH_ROWS: usize = 16 << 10;

/// The measured cases, named after the queries that they resemble.
const QUERIES: [(&str, &str); 9] = [
    (
        "groups by order (Q18)",
        "select count(*), sum(q) from (select l_orderkey, sum(l_quantity) as q from lineitem group by l_orderkey having sum(l_quantity) > 150) x",
    ),
    (
        "groups by part (Q17)",
        "select count(*), sum(q) from (select l_partkey, avg(l_quantity) as q from lineitem group by l_partkey) x",
    ),
    (
        "groups by part and supplier (Q20)",
        "select count(*), sum(q) from (select l_partkey, l_suppkey, sum(l_quantity) as q from lineitem group by l_partkey, l_suppkey) x",
    ),
    (
        "orders per customer (Q13)",
        "select n, count(*) from (select o_custkey, count(o_orderkey) as n from orders group by o_custkey) x group by n",
    ),
    (
        "lines with their orders (Q3)",
        "select sum(l_price), sum(o_total) from orders, lineitem where o_orderkey = l_orderkey",
    ),
    (
        "lines with one order in four",
        "select sum(l_price), sum(o_total) from orders, lineitem where o_orderkey = l_orderkey and o_custkey % 4 = 0",
    ),
    (
        "lines with parts in random order",
        "select sum(l_price * p_size) from part, lineitem where p_partkey = l_partkey",
    ),
    (
        "lines with two key columns (Q9)",
        "select sum(l_price * ps_cost) from partsupp, lineitem where ps_partkey = l_partkey and ps_suppkey = l_suppkey",
    ),
    (
        "orders with some line (Q4)",
        "select count(*), sum(o_total) from orders where exists (select 1 from lineitem where l_orderkey = o_orderkey and l_suppkey % 8 = 0)",
    ),
];

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let millions: usize = arguments.next().map_or(Ok(6), |a| a.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |a| a.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    let tables = tables(millions * 1_000_000)?;
    let (plain, ours) = (session(false, &tables)?, session(true, &tables)?);
    println!("{millions} M rows in the large table, best/median of {rounds} rounds, ms");
    let mut product = 1.0_f64;
    for (name, sql) in QUERIES {
        let plans = [&plain, &ours].map(|context| {
            runtime.block_on(async { context.sql(sql).await?.create_physical_plan().await })
        });
        let [theirs, ours_plan] = plans;
        let plans = [(&plain, theirs?), (&ours, ours_plan?)];
        let replaced = count_big(&plans[1].1);
        let mut times = [Vec::new(), Vec::new()];
        let mut answers = [String::new(), String::new()];
        for _ in 0..rounds {
            for (index, (context, plan)) in plans.iter().enumerate() {
                let plan = reset_plan_states(Arc::clone(plan))?;
                let start = Instant::now();
                let batches = runtime.block_on(collect(plan, context.task_ctx()))?;
                times[index].push(start.elapsed().as_secs_f64() * 1e3);
                let text = arrow::util::pretty::pretty_format_batches(&batches)?.to_string();
                let mut lines: Vec<&str> = text.lines().collect();
                lines.sort_unstable();
                answers[index] = lines.join("\n");
            }
        }
        if answers[0] != answers[1] {
            return Err(
                format!("{name}: the answers differ\n{}\n{}", answers[0], answers[1]).into(),
            );
        }
        let [theirs, ours] = times.map(|mut t| {
            t.sort_by(f64::total_cmp);
            (t[0], t[t.len() / 2])
        });
        product *= theirs.1 / ours.1;
        println!(
            "{name:36} DataFusion {:7.1}/{:7.1}, ours {:7.1}/{:7.1}, ratio of medians {:5.2}, {replaced} replaced",
            theirs.0,
            theirs.1,
            ours.0,
            ours.1,
            theirs.1 / ours.1
        );
    }
    println!(
        "geometric mean of the ratios {:.2}",
        product.powf(1.0 / QUERIES.len() as f64)
    );
    Ok(())
}

fn count_big(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let below: usize = plan.children().into_iter().map(count_big).sum();
    below + usize::from(plan.name().starts_with("Big"))
}

fn session(big: bool, tables: &[(&str, Arc<MemTable>)]) -> Result<SessionContext, Failure> {
    let mut config = SessionConfig::new()
        .with_target_partitions(2)
        .with_batch_size(BATCH_ROWS);
    let options = config.options_mut();
    options.optimizer.hash_join_single_partition_threshold = 256 << 20;
    options.optimizer.hash_join_single_partition_threshold_rows = 16 << 20;
    options.execution.perfect_hash_join_small_build_threshold = 1 << 20;
    options.execution.perfect_hash_join_min_key_density = 0.01;
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    if big {
        state = state
            .with_physical_optimizer_rule(Arc::new(BigJoinRule::default()))
            .with_physical_optimizer_rule(Arc::new(BigAggregateRule::default()));
    }
    let context = SessionContext::new_with_state(state.build());
    for (name, table) in tables {
        context.register_table(*name, Arc::clone(table) as _)?;
    }
    Ok(context)
}

/// Lines in the order of their orders (four per order, keys in groups of eight of thirty-two as in
/// TPC-H), all other columns random.
fn tables(lines: usize) -> Result<Vec<(&'static str, Arc<MemTable>)>, Failure> {
    let (orders, parts) = (lines / 4, (lines / 30).max(1));
    let (customers, suppliers) = ((lines / 40).max(1) as u64, (lines / 600).max(1) as u64);
    let order_key = |order: usize| (order / 8 * 32 + order % 8) as i64;
    let part_of = |row: usize| (mix(row as u64) % parts as u64) as i64;
    // Four suppliers per part.
    let supplier_of = |part: i64, n: u64| (mix(part as u64 * 4 + n) % suppliers) as i64;
    Ok(vec![
        (
            "lineitem",
            table(
                lines,
                &[
                    ("l_orderkey", &|r| order_key(r / 4)),
                    ("l_partkey", &part_of),
                    ("l_suppkey", &|r| {
                        supplier_of(part_of(r), mix(r as u64 + 1) % 4)
                    }),
                ],
                &[
                    ("l_quantity", &|r| {
                        100 * (1 + mix(r as u64 + 2) % 50) as i128
                    }),
                    ("l_price", &|r| (mix(r as u64 + 3) % 10_000_000) as i128),
                ],
            )?,
        ),
        (
            "orders",
            table(
                orders,
                &[
                    ("o_orderkey", &order_key),
                    ("o_custkey", &|r| (mix(r as u64 + 4) % customers) as i64),
                ],
                &[("o_total", &|r| (mix(r as u64 + 5) % 50_000_000) as i128)],
            )?,
        ),
        (
            "part",
            table(
                parts,
                &[
                    ("p_partkey", &|r| r as i64),
                    ("p_size", &|r| (r % 50) as i64),
                ],
                &[],
            )?,
        ),
        (
            "partsupp",
            table(
                parts * 4,
                &[
                    ("ps_partkey", &|r| (r / 4) as i64),
                    ("ps_suppkey", &|r| {
                        supplier_of((r / 4) as i64, (r % 4) as u64)
                    }),
                ],
                &[("ps_cost", &|r| (mix(r as u64 + 6) % 100_000) as i128)],
            )?,
        ),
    ])
}

type Column<'a, T> = (&'a str, &'a dyn Fn(usize) -> T);

fn table(
    rows: usize,
    keys: &[Column<'_, i64>],
    values: &[Column<'_, i128>],
) -> Result<Arc<MemTable>, Failure> {
    let fields: Vec<Field> = keys
        .iter()
        .map(|(name, _)| Field::new(*name, DataType::Int64, false))
        .chain(
            values
                .iter()
                .map(|(name, _)| Field::new(*name, DataType::Decimal128(15, 2), false)),
        )
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let mut partitions = vec![Vec::new(), Vec::new()];
    for (number, start) in (0..rows).step_by(BATCH_ROWS).enumerate() {
        let range = start..rows.min(start + BATCH_ROWS);
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (_, of) in keys {
            columns.push(Arc::new(Int64Array::from_iter_values(
                range.clone().map(of),
            )));
        }
        for (_, of) in values {
            let array = Decimal128Array::from_iter_values(range.clone().map(of));
            columns.push(Arc::new(array.with_precision_and_scale(15, 2)?));
        }
        let at = number * BATCH_ROWS * 2 / rows.max(1);
        partitions[at.min(1)].push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    Ok(Arc::new(MemTable::try_new(schema, partitions)?))
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
