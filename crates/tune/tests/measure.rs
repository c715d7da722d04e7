//! Searching weights by measuring tiers: simulated ones, and a simulated machine of two nodes that
//! runs real kernels.

use std::sync::Arc;

use tierloom_bench::plan::RegionPlan;
use tierloom_bench::run::{Control, Host, Memories, Session};
use tierloom_memory::{FakeBackend, FakeNode, MemoryBackend, MemoryError, PageSize, fake_topology};
use tierloom_model::search::{self, Problem, SplitMix, Weights};
use tierloom_model::{Machine, Options, Phase, Value, profiles};
use tierloom_record::{Provenance, Record, RecordWriter, Spread};
use tierloom_topology::{NodeId, SysRoot, Topology};
use tierloom_tune::apply::TierNodes;
use tierloom_tune::measure::{
    HostTiers, KernelPhase, MeasureError, MeasureOptions, RateSource, Reading, Request, Runs,
    Setup, kernel_now, measured_as, rough_machine, search_phase,
};
use tierloom_tune::modelled::Stamp;
use tierloom_tune::work::{KNOWN, named};

const MIB: u64 = 1 << 20;

/// The phase of that name with its default parameters, for one worker.
fn kernel_of(name: &str, region_bytes: u64) -> Result<KernelPhase, MeasureError> {
    measured_as(name, &named(name).unwrap(), region_bytes, 1)
}

fn stamp() -> Stamp {
    Stamp {
        made_at: "2026-01-01T00:00:00Z".into(),
        tool_version: "0".into(),
    }
}

fn tier_names() -> Vec<String> {
    vec!["dram".into(), "cxl".into()]
}

/// A machine whose numbers the search does not know, measured like real tiers.
struct Simulated {
    machine: Machine,
    phases: Vec<Phase>,
    workers: u32,
    asked: Vec<Weights>,
    fails_at: usize,
}

impl Simulated {
    /// The profile with every number but counts and sizes moved by up to 20%.
    fn perturbed(machine: &Machine, phase: &KernelPhase, workers: u32, seed: u64) -> Self {
        let mut other = machine.clone();
        let mut random = SplitMix::new(seed);
        for figure in machine.figures() {
            let x = figure.value * (0.8 + 0.4 * random.uniform());
            let x = match figure.key() {
                _ if figure.is_counted() => continue,
                "entries" => continue,
                "knee" => x.min(0.95),
                "overlap" | "duplex" | "random_share" | "prefetched_share" => x.min(1.0),
                "overload_loss" => x.min(0.99),
                "ratio_at_peak" | "smt_yield" | "smt_gain" | "dependent" | "walkers" => x.max(1.0),
                _ => x,
            };
            let value = Value::new(x, figure.kind, "perturbed");
            other.set_number(&figure.path, value).unwrap();
        }
        Simulated {
            machine: other,
            phases: phase.work.phases(workers).unwrap(),
            workers,
            asked: Vec::new(),
            fails_at: usize::MAX,
        }
    }

    fn problem<'a>(&'a self, options: &'a Options) -> Problem<'a> {
        Problem {
            tiers: tier_names(),
            ..Problem::new(&self.machine, &self.phases, self.workers, options)
        }
    }
}

impl RateSource for Simulated {
    fn measure(&mut self, weights: &Weights) -> Result<Reading, MeasureError> {
        if self.asked.len() == self.fails_at {
            return Err(MeasureError::Invalid {
                weights: weights.to_string(),
                remarks: "a page moved".into(),
            });
        }
        self.asked.push(weights.clone());
        let options = Options::default();
        let rate = self.problem(&options).rate(weights).unwrap();
        let values = vec![rate, rate * 0.99, rate * 1.01];
        Ok(Reading {
            tuples_per_s: Spread::of(values).unwrap(),
        })
    }
}

fn request<'a>(
    phase: &'a KernelPhase,
    tiers: &'a [String],
    start: &'a Machine,
    kernel: &'a Weights,
    workers: u32,
) -> Request<'a> {
    Request {
        phase,
        tiers,
        start,
        workers,
        points: 12,
        max_weight: 100,
        kernel,
    }
}

#[test]
fn a_search_tells_measured_rates_only_and_keeps_to_its_points() {
    let start = profiles::load("nus24").unwrap();
    let (tiers, kernel) = (
        tier_names(),
        Weights::new([("dram", 1), ("cxl", 1)]).unwrap(),
    );
    for name in ["read", "write", "probe"] {
        let phase = kernel_of(name, 64_000 * MIB).unwrap();
        for seed in 0..5 {
            let mut simulated = Simulated::perturbed(&start, &phase, 32, seed);
            let request = request(&phase, &tiers, &start, &kernel, 32);
            let found = search_phase(&request, &mut simulated, &stamp()).unwrap();
            let record = &found.record;
            assert_eq!(
                (record.provenance, record.machine.as_str()),
                (Provenance::Measured, "here")
            );
            assert!(
                record
                    .points
                    .iter()
                    .all(|point| point.provenance == Provenance::Measured)
            );
            assert!(
                simulated.asked.len() <= 12,
                "{} points",
                simulated.asked.len()
            );
            assert_eq!(record.points.len(), simulated.asked.len());
            let twice = (1..simulated.asked.len())
                .find(|i| simulated.asked[..*i].contains(&simulated.asked[*i]));
            assert_eq!(
                twice, None,
                "nothing is measured twice: {:?}",
                simulated.asked
            );
            assert!(
                simulated.asked.contains(&kernel),
                "the kernel's weights were measured"
            );

            assert!(record.best_rate >= record.kernel_rate && record.best_rate >= record.dram_rate);
            let shares: Vec<f64> = record.points.iter().map(|point| point.share).collect();
            assert!(shares.is_sorted(), "{shares:?}");
        }
    }
}

/// Rates found as shares of the best possible ones, ascending, and points measured: one of each per
/// seed.
fn qualities(machine: &str, name: &str, workers: u32, seeds: u64) -> (Vec<f64>, Vec<usize>) {
    let start = profiles::load(machine).unwrap();
    let (tiers, kernel) = (
        tier_names(),
        Weights::new([("dram", 1), ("cxl", 1)]).unwrap(),
    );
    let phase = kernel_of(name, 64_000 * MIB).unwrap();
    let one = |seed| {
        let mut simulated = Simulated::perturbed(&start, &phase, workers, seed);
        let request = request(&phase, &tiers, &start, &kernel, workers);
        let record = search_phase(&request, &mut simulated, &stamp())
            .unwrap()
            .record;
        let options = Options::default();
        let truth = search::best(&simulated.problem(&options)).unwrap();
        let gain = record.best_rate / record.dram_rate;
        (gain / truth.gain_over_dram(), simulated.asked.len())
    };
    let (mut rates, mut points): (Vec<f64>, Vec<usize>) = (0..seeds).map(one).unzip();
    rates.sort_by(f64::total_cmp);
    points.sort_unstable();
    (rates, points)
}

#[test]
fn twelve_points_with_those_for_comparison_come_near_the_best_of_a_machine_that_is_otherwise() {
    for machine in ["nus24", "epfl25-full-pf-on", "hpi25-4dev"] {
        for name in ["read", "write", "probe", "build"] {
            let (rates, points) = qualities(machine, name, 24, 50);
            let (median, low, most) = (rates[25], rates[2], points[49]);
            println!(
                "{machine} {name}: median {median:.4}, 5th percentile {low:.4}, points {} to {most}",
                points[25]
            );
            assert!(
                median > 0.97 && low > 0.9,
                "{machine} {name}: {median} {low}"
            );
            assert!(most <= 12);
        }
    }
}

#[test]
fn a_point_that_cannot_be_measured_ends_the_search_with_its_reason() {
    let start = profiles::load("nus24").unwrap();
    let phase = kernel_of("read", 64_000 * MIB).unwrap();
    let (tiers, kernel) = (
        tier_names(),
        Weights::new([("dram", 1), ("cxl", 1)]).unwrap(),
    );
    for fails_at in 0..3 {
        let mut simulated = Simulated::perturbed(&start, &phase, 32, 1);
        simulated.fails_at = fails_at;
        let request = request(&phase, &tiers, &start, &kernel, 32);
        let error = search_phase(&request, &mut simulated, &stamp()).unwrap_err();
        assert!(matches!(error, MeasureError::Invalid { .. }), "{error}");
        assert!(error.to_string().contains("a page moved"), "{error}");
    }
}

#[test]
fn where_interleaving_does_not_gain_the_record_says_so() {
    // One thread cannot saturate anything, so the far tier only adds latency.
    let start = profiles::load("epfl25-full-pf-on").unwrap();
    let phase = kernel_of("probe", 64_000 * MIB).unwrap();
    let (tiers, kernel) = (
        tier_names(),
        Weights::new([("dram", 1), ("cxl", 1)]).unwrap(),
    );
    let mut simulated = Simulated::perturbed(&start, &phase, 1, 3);
    let request = request(&phase, &tiers, &start, &kernel, 1);
    let record = search_phase(&request, &mut simulated, &stamp())
        .unwrap()
        .record;
    assert_eq!(record.best_rate, record.dram_rate);
    let all = record.warnings.join("\n");
    assert!(
        all.contains("not worth it") && all.contains("kernel's weights lose"),
        "{all}"
    );
}

/// Regions of a simulated machine; its page placement is bookkeeping over ordinary memory.
#[derive(Debug)]
struct Invented(FakeBackend);

impl Memories for Invented {
    fn backend(
        &self,
        _plan: &RegionPlan,
        _nodes: &[NodeId],
        _topology: &Topology,
    ) -> Result<Arc<dyn MemoryBackend>, MemoryError> {
        Ok(Arc::new(self.0.clone()))
    }
}

fn invented(nodes: &[(u32, u32)]) -> Host {
    let bytes = 1 << 30;
    let node = |(node, cpus): &(u32, u32)| FakeNode {
        node: *node,
        cpus: *cpus,
        memory_bytes: bytes,
    };
    let fakes: Vec<FakeNode> = nodes.iter().map(node).collect();
    let capacities: Vec<(u32, u64)> = nodes.iter().map(|(node, _)| (*node, bytes)).collect();
    let topology = fake_topology(&fakes).unwrap();
    Host::new(
        topology,
        Box::new(Invented(FakeBackend::with_nodes(&capacities))),
    )
}

struct ToTheEnd;

impl Control for ToTheEnd {
    fn stopped(&self) -> bool {
        false
    }
}

fn session() -> Session {
    Session {
        id: "s".into(),
        tool_version: "0".into(),
        commit: None,
        build: "dev".into(),
        command: Vec::new(),
        samples: false,
    }
}

fn small() -> MeasureOptions {
    MeasureOptions {
        workers: Some(1),
        page_size: Some(PageSize::Base),
        region_bytes: Some(4 * MIB),
        points: 5,
        seconds: 0.05,
        repeat: 2,
        ..MeasureOptions::default()
    }
}

#[test]
fn every_kernel_runs_on_two_nodes_and_its_pages_are_where_the_weights_say() {
    let (host, session) = (invented(&[(0, 1), (1, 0)]), session());
    let setup = Setup::new(&host, &small()).unwrap();
    assert_eq!(setup.tier_names(), ["dram", "cxl"]);
    for name in KNOWN {
        let phase = kernel_of(name, setup.region_bytes).unwrap();
        let mut tiers = HostTiers::new(&host, &setup, &phase, &session, &ToTheEnd);
        let weights = Weights::new([("dram", 3), ("cxl", 1)]).unwrap();
        let reading = tiers
            .measure(&weights)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(reading.tuples_per_s.values.len(), 2, "{name}");
        assert!(reading.tuples_per_s.min > 0.0, "{name}");
        // The last run counts: an unusable one is repeated.
        let records = tiers.into_records();
        let record = records.last().unwrap();
        assert!(record.valid, "{name}: {:?}", record.remarks);
        for region in &record.tasks[0].regions {
            let audit = region.after.as_ref().unwrap();
            let on_first = |shares: &[tierloom_record::NodeShare]| {
                shares.iter().find(|share| share.node == 0).unwrap().share
            };
            assert!(
                (on_first(&audit.requested) - 0.75).abs() < 1e-9,
                "{name}: {region:?}"
            );
            // Whole pages cannot always give exactly three of four.
            let possible = on_first(&audit.effective);
            assert!(
                (on_first(&audit.actual) - possible).abs() < 1e-9,
                "{name}: {region:?}"
            );
            let is_small = audit.pages_checked < 64;
            let is_loop = !matches!(phase.runs, Runs::Operator { .. });
            assert!(
                !is_loop || (on_first(&audit.actual) - 0.75).abs() < 1e-9,
                "{name}: {region:?}"
            );
            assert!(
                is_small || (possible - 0.75).abs() < 0.01,
                "{name}: {region:?}"
            );
        }
        let mut lines = Vec::new();
        let boxed = Record::Bench(Box::new(record.clone()));
        RecordWriter::new(&mut lines, "x").write(&boxed).unwrap();
    }
}

#[test]
fn a_whole_search_on_an_invented_machine_leaves_a_record_and_its_runs() {
    let (host, session) = (invented(&[(0, 1), (1, 0)]), session());
    let setup = Setup::new(&host, &small()).unwrap();
    let phase = kernel_of("read", setup.region_bytes).unwrap();
    let start = rough_machine(&host.topology, &setup);
    let kernel = kernel_now(&host.topology, &setup.tiers).unwrap();
    assert_eq!(
        kernel.to_string(),
        "dram 1, cxl 1",
        "a kernel without weights"
    );
    let tiers = setup.tier_names();
    let request = Request {
        points: setup.points,
        max_weight: setup.max_weight(&phase),
        ..request(&phase, &tiers, &start, &kernel, setup.workers())
    };
    let mut on_host = HostTiers::new(&host, &setup, &phase, &session, &ToTheEnd);
    let found = search_phase(&request, &mut on_host, &stamp()).unwrap();
    let runs = on_host.into_records();
    assert!(
        (2..=5).contains(&found.record.points.len()),
        "{:?}",
        found.record.points
    );
    assert!(
        runs.len() >= found.record.points.len(),
        "a run of no use is repeated"
    );
    assert!(
        runs.iter()
            .all(|run| run.provenance == Provenance::Measured && run.workload == "tune")
    );
    let boxed = Record::Tune(Box::new(found.record));
    RecordWriter::new(Vec::new(), "x").write(&boxed).unwrap();
}

#[test]
fn what_this_machine_lacks_is_named_before_any_page_is_touched() {
    let one = invented(&[(0, 2)]);
    let says = |host: &Host, options: MeasureOptions| {
        let error = Setup::new(host, &options).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        error.to_string()
    };
    let text = says(&one, small());
    assert!(
        text.contains("second NUMA node") && text.contains("--machine"),
        "{text}"
    );
    let two = invented(&[(0, 2), (1, 0)]);
    let tiers = |names: &[&str]| MeasureOptions {
        tiers: names.iter().map(|name| (*name).to_owned()).collect(),
        ..small()
    };
    let text = says(&two, tiers(&["dram", "hbm"]));
    assert!(
        text.contains("no tier hbm") && text.contains("cxl: node 1"),
        "{text}"
    );
    assert!(says(&two, tiers(&["dram"])).contains("dram was asked for"));
    let workers = |workers| MeasureOptions {
        workers: Some(workers),
        ..small()
    };
    for asked in [0, 3] {
        let text = says(&two, workers(asked));
        assert!(text.contains("1 to 2"), "{text}");
    }
    for mib in [0, 3, 1025] {
        let region = MeasureOptions {
            region_bytes: Some(mib * MIB),
            ..small()
        };
        let text = says(&two, region);
        assert!(text.contains("1024 MiB free"), "{text}");
    }
}

#[test]
fn a_small_region_allows_only_weights_that_it_can_hold_several_rounds_of() {
    let host = invented(&[(0, 2), (1, 0)]);
    let small = Setup::new(&host, &small()).unwrap();
    let read = kernel_of("read", 4 * MIB).unwrap();
    assert_eq!(
        small.max_weight(&read),
        64,
        "1024 pages, two tiers, eight rounds"
    );
    let huge = MeasureOptions {
        page_size: Some(PageSize::Thp),
        region_bytes: Some(64 * MIB),
        ..MeasureOptions::default()
    };
    let huge = Setup::new(&host, &huge).unwrap();
    assert_eq!((huge.max_weight(&read), huge.workers()), (2, 2));
}

#[test]
fn rough_profiles_of_recorded_machines_are_profiles_and_use_what_firmware_tells() {
    for name in ["guest-2node-hmat", "guest-cxl", "server-2s-4cxl"] {
        let root = format!(
            "{}/../topology/tests/fixtures/{name}",
            env!("CARGO_MANIFEST_DIR")
        );
        let topology = Topology::read(&SysRoot::at(root)).unwrap();
        let host = Host::new(topology, Box::new(Invented(FakeBackend::with_nodes(&[]))));
        let options = MeasureOptions {
            region_bytes: Some(64 * MIB),
            ..MeasureOptions::default()
        };
        let setup = Setup::new(&host, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let machine = rough_machine(&host.topology, &setup);
        machine
            .check()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let phases = kernel_of("read", 1 << 30).unwrap().work.phases(2).unwrap();
        let options = Options::default();
        search::best(&Problem::new(&machine, &phases, 2, &options)).unwrap();
        if name == "guest-2node-hmat" {
            let cxl = machine.tier("cxl").unwrap();
            assert_eq!(
                (cxl.read_gbps.value, cxl.idle_latency_ns.value),
                (30.72, 250.0)
            );
            assert!(cxl.read_gbps.source.contains("firmware"));
            let kernel = kernel_now(&host.topology, &setup.tiers).unwrap();
            assert_eq!(
                kernel.to_string(),
                "dram 3, cxl 2",
                "the weights that were set there"
            );
        }
    }
}

#[test]
fn weights_of_the_kernel_are_summed_over_a_tiers_nodes() {
    let host = invented(&[(0, 1), (1, 0), (2, 0)]);
    let tier = |tier: &str, nodes: &[u32]| TierNodes {
        tier: tier.into(),
        nodes: nodes.to_vec(),
    };
    let tiers = [tier("dram", &[0]), tier("cxl", &[1, 2])];
    assert_eq!(
        kernel_now(&host.topology, &tiers).unwrap().to_string(),
        "dram 1, cxl 2"
    );
}
