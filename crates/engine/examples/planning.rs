//! Where the time of planning goes: parts and rules, over all queries of a benchmark.
//!
//! ```text
//! cargo run --profile dist -p tierloom-engine --example planning -- \
//!     tpcds [rounds] [scale factor] [query]
//! ```
//!
//! The benchmark is `ssb`, `tpch` or `tpcds`; the defaults are 5 rounds, scale factor 0.01 and all
//! queries. The first table has the smallest time of each part per query, the second the share of
//! each rule in one round over all queries.

use comfy_table::Table;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tierloom_engine::load::{ColumnPlacer, load_ssb};
use tierloom_engine::tpc::load_tpc;
use tierloom_engine::{Engine, EngineOptions};
use tierloom_memory::router::TierAllocator;
use tierloom_memory::{AnonymousNuma, PageSize, Placement};
use tierloom_planner::logical_plan;
use tierloom_topology::{NodeId, SysRoot, Topology};
use tierloom_tpc::Benchmark;
use tierloom_workloads::Silent;
use tierloom_workloads::ssb::{self, SsbConfig};

/// The allocator of `tierloom` itself; planning allocates a lot.
#[global_allocator]
static ALLOCATOR: TierAllocator<mimalloc::MiMalloc> = TierAllocator::new(mimalloc::MiMalloc);

type Failure = Box<dyn std::error::Error>;

/// Time by rule; the key has the kind of rule first.
type Spent = Arc<Mutex<BTreeMap<String, Duration>>>;

const PARTS: [&str; 5] = ["parse", "logical", "analyse", "optimise", "physical"];

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "tpch".to_owned());
    let rounds: usize = arguments.next().map_or(Ok(5), |a| a.parse())?;
    let scale_factor: f64 = arguments.next().map_or(Ok(0.01), |a| a.parse())?;
    let engine = Engine::new(EngineOptions::tuned(2))?;
    let mut queries = load(&engine, &name, scale_factor)?;
    if let Some(wanted) = arguments.next() {
        queries.retain(|(id, _)| *id == wanted);
        if queries.is_empty() {
            return Err(format!("{name} has no query {wanted}").into());
        }
    }
    let spent = Spent::default();
    let state = timed(engine.context().state(), &spent);
    let mut best = vec![[Duration::MAX; PARTS.len()]; queries.len()];
    for _ in 0..rounds {
        spent.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for ((_, text), best) in queries.iter().zip(&mut best) {
            let parts = engine.handle().block_on(plan(&state, text, &spent))?;
            for (best, part) in best.iter_mut().zip(parts) {
                *best = part.min(*best);
            }
        }
    }
    print_parts(&queries, &best);
    print_rules(&spent.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(())
}

/// Names and texts of the benchmark's queries, whose tables are loaded.
fn load(engine: &Engine, name: &str, scale_factor: f64) -> Result<Vec<(String, String)>, Failure> {
    let topology = Topology::read(&SysRoot::host())?;
    let backend = Arc::new(AnonymousNuma::new());
    let mut placer = ColumnPlacer::new(backend, &topology, PageSize::Base, 2);
    let placement = |_: &str| Placement::bind(NodeId(0));
    let benchmark = match name {
        "tpch" => Benchmark::TpcH,
        "tpcds" => Benchmark::TpcDs,
        "ssb" => {
            let config = SsbConfig::new(scale_factor, 1)?;
            let data = load_ssb(&config, &mut placer, &placement, &Silent)?;
            for table in &data.tables {
                engine.register(table)?;
            }
            let texts = ssb::queries().iter();
            return Ok(texts.map(|q| (q.id.to_owned(), q.sql.to_owned())).collect());
        }
        other => return Err(format!("{other} is not ssb, tpch or tpcds").into()),
    };
    let sources: Result<Vec<_>, _> = benchmark
        .tables()
        .iter()
        .map(|table| benchmark.source(table, scale_factor))
        .collect();
    let data = load_tpc(&sources?, 2, &mut placer, &placement, &Silent)?;
    for table in &data.tables {
        engine.register(table)?;
    }
    let queries = tierloom_tpc::queries(benchmark).iter();
    Ok(queries
        .map(|q| (q.id.to_owned(), q.sql(scale_factor).into_owned()))
        .collect())
}

/// Plans one query; the time of each part.
async fn plan(
    state: &SessionState,
    text: &str,
    spent: &Spent,
) -> Result<[Duration; PARTS.len()], Failure> {
    let mut parts = [Duration::ZERO; PARTS.len()];
    let start = Instant::now();
    let statement = tierloom_corrections::statement(state, text)?;
    parts[0] = start.elapsed();
    let start = Instant::now();
    let names = state.resolve_table_references(&statement)?;
    let logical = logical_plan(state, text, statement, &names).await?;
    parts[1] = start.elapsed();
    let start = Instant::now();
    let options = state.config_options();
    let analysed = state
        .analyzer()
        .execute_and_check(logical, options, |_, _| {})?;
    parts[2] = start.elapsed();
    let start = Instant::now();
    let mut last = start;
    let optimised = state.optimizer().optimize(analysed, state, |_, rule| {
        add(spent, format!("optimise {}", rule.name()), last.elapsed());
        last = Instant::now();
    })?;
    parts[3] = start.elapsed();
    let start = Instant::now();
    let planner = Arc::clone(state.query_planner());
    planner.create_physical_plan(&optimised, state).await?;
    parts[4] = start.elapsed();
    Ok(parts)
}

fn add(spent: &Spent, key: String, time: Duration) {
    let mut spent = spent.lock().unwrap_or_else(PoisonError::into_inner);
    *spent.entry(key).or_default() += time;
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

fn print_parts(queries: &[(String, String)], best: &[[Duration; PARTS.len()]]) {
    let mut table = Table::new();
    table.set_header(["query, ms"].into_iter().chain(PARTS).chain(["all"]));
    let mut sums: Vec<Duration> = Vec::new();
    for ((name, _), parts) in queries.iter().zip(best) {
        let sum = parts.iter().sum();
        sums.push(sum);
        let cells = parts.iter().chain([&sum]).map(|time| milliseconds(*time));
        table.add_row([name.clone()].into_iter().chain(cells));
    }
    println!("{table}");
    sums.sort_unstable();
    let median = sums.get(sums.len() / 2).copied().unwrap_or_default();
    println!("median {} ms", milliseconds(median));
}

fn print_rules(spent: &BTreeMap<String, Duration>) {
    let all: Duration = spent.values().sum();
    let mut rules: Vec<_> = spent.iter().collect();
    rules.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
    let mut table = Table::new();
    table.set_header(["rule", "ms", "%"]);
    for (name, time) in rules {
        let share = 100.0 * time.as_secs_f64() / all.as_secs_f64();
        table.add_row([name.clone(), milliseconds(*time), format!("{share:.1}")]);
    }
    println!("{table}");
}

/// The session with rules that add up their time. Rules of the optimizer are timed by its observer.
fn timed(state: SessionState, spent: &Spent) -> SessionState {
    let rules = state.analyzer().rules.iter();
    let analyzer = rules.map(|rule| Arc::new(Timed::new(rule, spent)) as _);
    let analyzer = analyzer.collect();
    let rules = state.physical_optimizers().iter();
    let physical = rules.map(|rule| Arc::new(Timed::new(rule, spent)) as _);
    let physical = physical.collect();
    SessionStateBuilder::new_from_existing(state)
        .with_analyzer_rules(analyzer)
        .with_physical_optimizer_rules(physical)
        .build()
}

/// A rule and where its time is added.
#[derive(Debug)]
struct Timed<R> {
    rule: R,
    spent: Spent,
}

impl<R: Clone> Timed<R> {
    fn new(rule: &R, spent: &Spent) -> Self {
        let (rule, spent) = (rule.clone(), Arc::clone(spent));
        Timed { rule, spent }
    }
}

impl AnalyzerRule for Timed<Arc<dyn AnalyzerRule + Send + Sync>> {
    fn analyze(
        &self,
        plan: LogicalPlan,
        config: &ConfigOptions,
    ) -> datafusion::common::Result<LogicalPlan> {
        let start = Instant::now();
        let analysed = self.rule.analyze(plan, config);
        add(
            &self.spent,
            format!("analyse {}", self.name()),
            start.elapsed(),
        );
        analysed
    }

    fn name(&self) -> &str {
        self.rule.name()
    }
}

impl PhysicalOptimizerRule for Timed<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let start = Instant::now();
        let optimised = self.rule.optimize(plan, config);
        add(
            &self.spent,
            format!("physical {}", self.name()),
            start.elapsed(),
        );
        optimised
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}
