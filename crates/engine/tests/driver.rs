//! The adaptive controller steers queries on a simulated machine: pages move between simulated
//! nodes, and times are those that the model gives for that machine: no decision depends on how
//! busy this machine is.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tierloom_engine::adapt::{Driver, DriverOptions, PrefetchSwitch, Timing};
use tierloom_engine::answer::to_text;
use tierloom_engine::capture::HostCosts;
use tierloom_engine::{Engine, EngineError, PlacedTable, PlannedQuery};
use tierloom_memory::{AuditMode, FakeBackend, FakeNode, MemoryBackend, fake_topology};
use tierloom_model::{Machine, Options, Phase, profiles, solve};
use tierloom_placement::adaptive::{Measured, PhaseDecision, Prefetching, Settings, replay};
use tierloom_topology::{NodeId, Topology};
use tierloom_workloads::ssb::queries;

/// Number of workers of the simulated machine.
const WORKERS: u32 = 32;

/// Its computing time per row and worker, ns.
const COMPUTE_NS: f64 = 0.5;

/// Takes as long as the model says for the machine, and longer on CXL if configured so.
#[derive(Debug)]
struct Played {
    machine: Machine,
    /// Makes everything with a page on CXL take four times as long.
    slow: Arc<AtomicBool>,
}

impl Timing for Played {
    fn of_phase(&self, phase: &Phase, decision: &PhaseDecision, measured: Measured) -> Measured {
        let time = |layout: &tierloom_placement::adaptive::Layout| {
            let placement = layout.placement("dram");
            let options = Options::default();
            let solved = solve(&self.machine, phase, &placement, WORKERS, &options).unwrap();
            let slow = self.slow.load(Ordering::Relaxed) && layout.columns.share("cxl") > 0.0;
            solved.time_ns * if slow { 4.0 } else { 1.0 }
        };
        // Only what was really timed has a time.
        let timed = decision.trials.iter().take(measured.trials_ns.len());
        Measured {
            time_ns: time(&decision.layout) * decision.rest(),
            trials_ns: timed.map(|t| time(&t.layout) * t.share).collect(),
            latencies: None,
        }
    }

    fn of_run(&self, mut phases: Vec<Phase>) -> Vec<Phase> {
        for phase in &mut phases {
            phase.compute_ns_per_tuple = COMPUTE_NS;
        }
        phases
    }
}

struct Stage {
    tables: Vec<Arc<PlacedTable>>,
    topology: Topology,
    engine: Engine,
    slow: Arc<AtomicBool>,
}

impl Stage {
    fn new(backend: Arc<dyn MemoryBackend>, topology: Topology) -> Self {
        let tables = common::ssb(backend, &topology, 0.1);
        let engine = common::engine(&tables);
        Stage {
            tables,
            topology,
            engine,
            slow: Arc::default(),
        }
    }

    fn two_nodes() -> Self {
        let (backend, topology) = common::two_nodes();
        Stage::new(backend, topology)
    }

    fn options(&self) -> DriverOptions {
        let machine = profiles::load("nus24").unwrap();
        DriverOptions {
            // Tables of a test fit into every cache, so they are treated as parts of a large
            // workload.
            host: HostCosts {
                stream_ns_per_byte: 0.0,
                working_set_bytes: 100 << 30,
            },
            settings: Settings {
                min_phase_ns: 0.0,
                // A single query must not have to pay for moving the columns of that workload.
                expected_runs: 1e9,
                // Small tables need larger parts to have whole morsels and enough pages for any
                // weights; the limit for their cost is raised by the same factor.
                min_trial_share: 0.08,
                max_trial_share: 0.1,
                trial_cost: 0.05,
                ..Settings::new(WORKERS)
            },
            min_trial_ns: 0.0,
            ..DriverOptions::new(machine, self.topology.clone(), 2)
        }
    }

    fn driver(&self) -> Driver {
        let timing = Played {
            machine: profiles::load("nus24").unwrap(),
            slow: Arc::clone(&self.slow),
        };
        Driver::new(self.tables.clone(), self.options())
            .unwrap()
            .with_timing(Box::new(timing))
    }

    fn plan(&self, id: &str) -> PlannedQuery {
        let query = queries().iter().find(|q| q.id == id).unwrap();
        self.engine.plan(query.id, query.sql).unwrap()
    }

    fn run(&self, driver: &Driver, id: &str) -> String {
        let executed = driver.execute(&self.engine, id, &self.plan(id), &|| false);
        to_text(&executed.unwrap().batches).unwrap()
    }

    fn vanilla(&self, id: &str) -> String {
        let executed = self.engine.execute(id, &self.plan(id), &|| false);
        to_text(&executed.unwrap().batches).unwrap()
    }

    /// The share of each column on node 1, from its pages.
    fn on_cxl(&self) -> BTreeMap<String, f64> {
        let columns = self.tables.iter().flat_map(|t| t.columns());
        let share = |c: &tierloom_engine::PlacedColumn| {
            let region = &c.regions()[0];
            let audit = region.audit(AuditMode::Full).unwrap();
            // The placement that a region reports must be that of its pages.
            let wanted = region
                .placement()
                .pages_per_node(region.pages(), region.start_page());
            for (node, pages) in wanted {
                let found = audit.actual.iter().find(|s| s.node == node);
                let found = found.map_or(0.0, |s| s.share * region.pages() as f64);
                assert!((found - pages as f64).abs() < 0.5, "{} on {node}", c.name());
            }
            let found = audit.actual.iter().find(|s| s.node == NodeId(1));
            found.map_or(0.0, |s| s.share)
        };
        columns.map(|c| (c.name().to_owned(), share(c))).collect()
    }
}

const Q11_COLUMNS: [&str; 4] = [
    "lo_orderdate",
    "lo_discount",
    "lo_quantity",
    "lo_extendedprice",
];

#[test]
fn a_gain_is_adopted_the_log_replays_and_answers_never_change() {
    let stage = Stage::two_nodes();
    let driver = stage.driver();
    let expected = stage.vanilla("q1.1");
    for _ in 0..24 {
        assert_eq!(stage.run(&driver, "q1.1"), expected);
    }
    let decisions = driver.decisions();
    let moves = decisions.iter().filter(|d| d.action == "move").count();
    assert!((1..=6).contains(&moves), "{moves} moves");
    assert!(decisions.iter().any(|d| !d.tried.is_empty()));
    let last = decisions.iter().rfind(|d| d.phase == "lineorder").unwrap();
    assert!(last.layout.contains("cxl"), "{last:?}");
    assert!(
        decisions.iter().any(|d| d.workers < u64::from(WORKERS)),
        "a full tier needs fewer workers"
    );
    let on_cxl = stage.on_cxl();
    assert!(Q11_COLUMNS.iter().all(|c| on_cxl[*c] > 0.1), "{on_cxl:?}");
    assert_eq!(on_cxl["lo_revenue"], 0.0, "what was not decided on stays");
    let log = driver.take_log();
    let replayed = replay(&log).unwrap();
    assert_eq!(replayed.differing, []);
    assert_eq!(replayed.plans, 24);
}

#[test]
fn a_placement_that_turns_slow_is_given_up_and_the_columns_come_home() {
    let stage = Stage::two_nodes();
    let driver = stage.driver();
    let expected = stage.vanilla("q1.1");
    for _ in 0..4 {
        stage.run(&driver, "q1.1");
    }
    assert!(stage.on_cxl()["lo_discount"] > 0.1, "adopted");
    stage.slow.store(true, Ordering::Relaxed);
    for _ in 0..20 {
        assert_eq!(stage.run(&driver, "q1.1"), expected);
    }
    let decisions = driver.decisions();
    let returns = decisions.iter().filter(|d| d.action == "return").count();
    assert!((1..=3).contains(&returns), "{returns} returns");
    assert!(stage.on_cxl().values().all(|share| *share == 0.0));
    assert!(driver.changes().iter().all(|(_, changes)| *changes <= 6));
    let late = decisions.iter().filter(|d| d.run > 14);
    assert!(late.clone().all(|d| d.action == "keep"), "it came to rest");
    assert!(replay(&driver.take_log()).unwrap().differing.is_empty());
}

#[test]
fn a_loss_that_a_trial_shows_is_never_adopted() {
    let stage = Stage::two_nodes();
    stage.slow.store(true, Ordering::Relaxed);
    let driver = stage.driver();
    for _ in 0..10 {
        stage.run(&driver, "q1.1");
        println!(
            "{:#?}",
            driver.decisions().iter().rfind(|d| d.phase == "lineorder")
        );
        assert!(stage.on_cxl().values().all(|share| *share == 0.0));
    }
    let decisions = driver.decisions();
    assert!(
        decisions.iter().any(|d| !d.tried.is_empty()),
        "it was tried"
    );
    assert!(
        decisions.iter().all(|d| d.action == "keep"),
        "{decisions:#?}"
    );
}

#[test]
fn queries_that_share_columns_do_not_send_them_to_and_fro() {
    let stage = Stage::two_nodes();
    let driver = stage.driver();
    let ids = ["q1.1", "q1.2", "q2.1", "q3.1", "q4.1"];
    let expected: Vec<String> = ids.iter().map(|id| stage.vanilla(id)).collect();
    for _ in 0..30 {
        for (id, expected) in ids.iter().zip(&expected) {
            assert_eq!(stage.run(&driver, id), *expected, "{id}");
        }
    }
    let decisions = driver.decisions();
    let restless = decisions
        .iter()
        .filter(|d| d.run > 120 && (d.moved_bytes > 0 || d.action != "keep"));
    let restless: Vec<_> = restless.collect();
    assert!(restless.is_empty(), "{restless:#?}");
    for id in ids {
        let of = decisions
            .iter()
            .filter(|d| d.query == id && d.phase == "lineorder");
        let last = of.clone().next_back().unwrap();
        assert!(last.layout.contains("cxl"), "{last:?}");
        // Columns are where one of the queries wants them; the others have then nothing to learn.
        let follows = last.reason == "settled" && last.note.contains("as other phases request");
        assert!(last.learned || follows, "{last:?}");
        assert!(of.rev().any(|d| d.learned), "{last:?}");
    }
    let moved: BTreeMap<u64, u64> = decisions.iter().map(|d| (d.run, d.moved_bytes)).collect();
    let fact = stage
        .tables
        .iter()
        .find(|t| t.name() == "lineorder")
        .unwrap();
    let all: u64 = moved.values().sum();
    assert!(
        all < 4 * fact.size_bytes(),
        "{all} of {}",
        fact.size_bytes()
    );
    assert!(replay(&driver.take_log()).unwrap().differing.is_empty());
}

#[test]
fn a_stopped_query_leaves_pages_where_regions_say_and_the_next_one_runs() {
    let stage = Stage::two_nodes();
    let driver = stage.driver();
    let expected = stage.vanilla("q1.1");
    let plan = stage.plan("q1.1");
    let (mut stopped, mut ran) = (0, 0);
    // Stops while columns move, while parts move, while the query runs, and not at all.
    for patience in (0..60).chain([u32::MAX]) {
        let left = AtomicU32::new(patience);
        let stop = || {
            let spent =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
            spent.is_err()
        };
        match driver.execute(&stage.engine, "q1.1", &plan, &stop) {
            Ok(execution) => {
                ran += 1;
                assert_eq!(to_text(&execution.batches).unwrap(), expected);
            }
            Err(EngineError::Interrupted) => stopped += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(stopped > 0 && ran > 0, "{stopped} stopped, {ran} ran");
    for _ in 0..8 {
        assert_eq!(stage.run(&driver, "q1.1"), expected);
    }
    stage.on_cxl();
    assert!(replay(&driver.take_log()).unwrap().differing.is_empty());
}

#[test]
fn a_run_that_is_dropped_in_the_middle_of_a_trial_brings_its_pages_home() {
    let stage = Stage::two_nodes();
    let driver = stage.driver();
    stage.run(&driver, "q1.1");
    let plan = stage.plan("q1.1");
    let prepared = driver.begin("q1.1", plan.plan(), &|| false).unwrap();
    let column = stage
        .tables
        .iter()
        .flat_map(|t| t.columns())
        .find(|c| c.name() == "lo_discount")
        .unwrap();
    let audit = column.regions()[0].audit(AuditMode::Full).unwrap();
    assert_eq!(audit.actual.len(), 2, "a part tries: {audit:?}");
    drop(prepared);
    assert!(stage.on_cxl().values().all(|share| *share == 0.0));
    let last = driver.decisions().pop().unwrap();
    assert!(
        !last.learned && last.note.contains("did not end well"),
        "{last:?}"
    );
    stage.run(&driver, "q1.1");
}

#[test]
fn a_full_tier_is_told_and_the_query_runs_where_its_columns_are() {
    let node = |node, cpus, memory_bytes| FakeNode {
        node,
        cpus,
        memory_bytes,
    };
    let topology = fake_topology(&[node(0, 2, 4 << 30), node(1, 0, 8 << 10)]).unwrap();
    let backend = FakeBackend::with_nodes(&[(0, 4 << 30), (1, 8 << 10)]);
    let stage = Stage::new(Arc::new(backend), topology);
    let driver = stage.driver();
    let expected = stage.vanilla("q1.1");
    for _ in 0..6 {
        assert_eq!(stage.run(&driver, "q1.1"), expected);
    }
    stage.on_cxl();
    let decisions = driver.decisions();
    assert!(
        decisions.iter().any(|d| d.note.contains("not tried")),
        "{decisions:#?}"
    );
}

#[test]
fn without_the_tier_everything_stays_and_it_is_said_why() {
    let topology = fake_topology(&[FakeNode {
        node: 0,
        cpus: 2,
        memory_bytes: 4 << 30,
    }])
    .unwrap();
    let stage = Stage::new(Arc::new(FakeBackend::with_nodes(&[(0, 4 << 30)])), topology);
    let driver = stage.driver();
    let why = driver.cannot_move().expect("one node").to_owned();
    assert!(
        why.contains("nus24 has data on cxl") && why.contains("--tiers"),
        "{why}"
    );
    let expected = stage.vanilla("q1.1");
    for _ in 0..4 {
        assert_eq!(stage.run(&driver, "q1.1"), expected);
    }
    assert!(
        driver
            .decisions()
            .iter()
            .all(|d| d.action == "keep" && d.moved_bytes == 0)
    );
}

#[test]
fn a_first_tier_that_is_not_here_is_bad_news_at_once() {
    let (backend, mut topology) = common::two_nodes();
    topology.override_tiers("cxl=0,1").unwrap();
    let tables = common::ssb(backend, &topology, 0.01);
    let machine = profiles::load("nus24").unwrap();
    let refused = Driver::new(tables, DriverOptions::new(machine, topology, 2)).unwrap_err();
    assert!(refused.to_string().contains("first tier"), "{refused}");
}

#[test]
fn with_dram_capped_columns_go_by_heat_between_queries() {
    let stage = Stage::two_nodes();
    let all: u64 = stage.tables.iter().map(|t| t.size_bytes()).sum();
    let options = DriverOptions {
        dram_bytes: Some(all / 4),
        ..stage.options()
    };
    let driver = Driver::new(stage.tables.clone(), options).unwrap();
    let expected = stage.vanilla("q1.1");
    let on_dram = || {
        let regions = stage.tables.iter().flat_map(|t| t.columns());
        let regions = regions.flat_map(|c| c.regions());
        let of = |r: &Arc<tierloom_memory::Region>| {
            let pages = r.placement().pages_per_node(r.pages(), r.start_page());
            let up = pages.iter().find(|(node, _)| *node == NodeId(0));
            up.map_or(0, |(_, n)| n * r.page_size().bytes() as u64)
        };
        regions.map(of).sum::<u64>()
    };
    // A round every two seconds; the first begins at once.
    for _ in 0..200 {
        assert_eq!(stage.run(&driver, "q1.1"), expected);
        if on_dram() <= all / 4 + (1 << 20) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(on_dram() <= all / 4 + (1 << 20), "{} of {all}", on_dram());
    assert_eq!(driver.mover_failure(), None);
    drop(driver);
    stage.on_cxl();
}

/// Records its settings; refuses if configured so.
#[derive(Debug, Default, Clone)]
struct Switch(Arc<Mutex<Vec<bool>>>, Arc<AtomicBool>);

impl PrefetchSwitch for Switch {
    fn set(&self, on: bool) -> Result<(), String> {
        if self.1.load(Ordering::Relaxed) {
            return Err("msr cannot be written; load the module msr".into());
        }
        self.0.lock().unwrap().push(on);
        Ok(())
    }
}

#[test]
fn prefetchers_go_off_for_queries_that_gain_and_on_after_each_of_them() {
    let stage = Stage::two_nodes();
    // The other way round, so that switching off pays.
    let profiles = Prefetching {
        on: profiles::load("epfl25-full-pf-off").unwrap(),
        off: profiles::load("epfl25-full-pf-on").unwrap(),
    };
    let switch = Switch::default();
    let driver = stage
        .driver()
        .with_prefetchers(profiles.clone(), Box::new(switch.clone()));
    stage.run(&driver, "q1.1");
    assert!(
        switch.0.lock().unwrap().is_empty(),
        "estimates switch nothing"
    );
    stage.run(&driver, "q1.1");
    assert_eq!(*switch.0.lock().unwrap(), [false, true]);
    let stopped = driver.execute(&stage.engine, "q1.1", &stage.plan("q1.1"), &|| true);
    assert!(stopped.is_err());
    assert_eq!(
        switch.0.lock().unwrap().last(),
        Some(&true),
        "also after a stop"
    );
    let driver = stage
        .driver()
        .with_prefetchers(profiles, Box::new(switch.clone()));
    switch.1.store(true, Ordering::Relaxed);
    stage.run(&driver, "q1.1");
    stage.run(&driver, "q1.1");
    let last = driver.decisions().pop().unwrap();
    assert!(
        !last.prefetch_off && last.note.contains("load the module"),
        "{last:?}"
    );
}
