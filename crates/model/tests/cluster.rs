//! A cluster of machines: one node is one process, nothing gets lost on the way, and more of what
//! is scarce is never slower.

use proptest::prelude::*;
use tierloom_model::cluster::{
    ClusterRun, ClusterSetup, LastOn, ModelledBackend, NetworkLink, PricedOn, Sent, ShuffleOn,
    SpreadQuery, StatementCosts, StatementWork, simulate, ssb_spread, tpch_spread,
};
use tierloom_model::reference::work::{Ssb, Tpch};
use tierloom_model::{Machine, Options, Placement, TierShares, profiles, solve_all};

const FREE: NetworkLink = NetworkLink {
    gbps: f64::INFINITY,
    round_trip_us: 0.0,
};

fn queries() -> Vec<SpreadQuery> {
    let ssb = Ssb {
        query: "all".into(),
        compute_ns: 5.0,
        ..Ssb::default()
    };
    let mut all = ssb_spread(&ssb, 32);
    all.extend(tpch_spread(&Tpch::default()));
    all
}

const BACKENDS: [ModelledBackend; 2] = [ModelledBackend::Ballista, ModelledBackend::Distributed];

fn free(nodes: u32) -> ClusterSetup {
    free_with(nodes, ModelledBackend::Ballista)
}

fn free_with(nodes: u32, backend: ModelledBackend) -> ClusterSetup {
    ClusterSetup {
        costs: StatementCosts::free(),
        ..ClusterSetup::new(nodes, FREE, backend)
    }
}

fn priced(machine: &Machine, queries: &[SpreadQuery], setup: &ClusterSetup) -> Vec<StatementWork> {
    let placement = Placement::new(TierShares::all("dram"));
    let on = PricedOn {
        machine,
        placement: &placement,
        workers: 32,
        options: &Options::default(),
    };
    queries.iter().map(|q| on.work(q, setup).unwrap()).collect()
}

fn total(run: &ClusterRun) -> f64 {
    run.statements.iter().map(|s| s.total_ns).sum()
}

#[test]
fn one_node_behind_a_free_network_is_one_process() {
    let machine = profiles::load("nus24").unwrap();
    let placement = Placement::new(TierShares::all("dram"));
    let all = BACKENDS.map(|backend| queries().into_iter().map(move |query| (query, backend)));
    for (query, backend) in all.into_iter().flatten() {
        let setup = free_with(1, backend);
        let works = priced(&machine, std::slice::from_ref(&query), &setup);
        let run = simulate(&setup, &works, 1);
        let options = Options::default();
        let alone = solve_all(&machine, &query.whole, &placement, 32, &options).unwrap();
        let apart = (total(&run) / alone.time_ns - 1.0).abs();
        assert!(apart < 1e-9, "{}: {apart}", query.name);
        assert_eq!((run.moved_bytes, run.fetches), (0.0, 0));
    }
}

#[test]
fn a_node_with_all_rows_has_the_phases_of_the_query() {
    for query in queries().iter().filter(|q| q.last.is_empty()) {
        let mut all = query.node_phases(1.0);
        // Further groups are on nodes only.
        all.truncate(query.whole.len());
        assert_eq!(all, query.whole, "{}", query.name);
    }
}

#[test]
fn rows_that_are_sent_are_each_sent_once_and_states_at_most_once_per_node() {
    for query in queries().iter().filter(|q| q.is_spread()) {
        for sent in &query.sent {
            let (all, nodes) = (sent.rows(1.0), 7.0);
            let sum = nodes * sent.rows(1.0 / nodes);
            match sent {
                Sent::Rows { .. } => assert!((sum / all - 1.0).abs() < 1e-12, "{}", query.name),
                Sent::States { groups, rows, .. } => {
                    assert!(
                        sum >= all * (1.0 - 1e-9) && sum <= nodes * groups,
                        "{}",
                        query.name
                    );
                    assert!(sum <= *rows * (1.0 + 1e-9), "{}", query.name);
                }
                Sent::First { rows, .. } => assert_eq!(sum, nodes * rows),
            }
        }
    }
}

#[test]
fn nodes_keep_their_dimensions_whole_and_share_the_facts() {
    let ssb = Ssb {
        query: "q2.1".into(),
        ..Ssb::default()
    };
    let query = &ssb_spread(&ssb, 1)[0];
    let part = query.node_phases(0.25);
    for (phase, whole) in part.iter().zip(&query.whole) {
        let share = if phase.name == "lineorder" { 0.25 } else { 1.0 };
        assert_eq!(phase.tuples, whole.tuples * share, "{}", phase.name);
        for (a, b) in phase.accesses.iter().zip(&whole.accesses) {
            let of_facts = a.structure.starts_with("lineorder.");
            let expected = b.footprint_bytes as f64 * if of_facts { 0.25 } else { 1.0 };
            assert!((a.footprint_bytes as f64 - expected).abs() <= 1.0, "{a:?}");
        }
    }
}

#[test]
fn queries_that_need_no_fact_run_on_one_node_and_gain_nothing() {
    let machine = profiles::load("nus24").unwrap();
    let local: Vec<SpreadQuery> = queries().into_iter().filter(|q| !q.is_spread()).collect();
    let names: Vec<&str> = local.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["q2", "q11", "q16"]);
    for work in priced(&machine, &local, &free(8)) {
        assert_eq!((work.parts.len(), work.parts[0].nodes), (1, 1));
        assert_eq!(work.parts[0].work_ns, work.alone_ns);
    }
}

#[test]
fn the_scheduler_and_the_rows_of_all_nodes_end_the_scaling() {
    let machine = profiles::load("nus24").unwrap();
    let network = NetworkLink {
        gbps: 12.5,
        round_trip_us: 50.0,
    };
    let of = |name: &str, nodes: u32| {
        let setup = ClusterSetup::new(nodes, network, ModelledBackend::Ballista);
        let query = queries().into_iter().find(|q| q.name == name).unwrap();
        let works = priced(&machine, &[query], &setup);
        simulate(&setup, &works, 1)
    };
    // Each task says where all shards are, so bytes of plans grow with the square of the nodes.
    let (few, many) = (of("q1.1", 100), of("q1.1", 1000));
    assert!(many.task_bytes > 50.0 * few.task_bytes);
    assert!(many.scheduler_ns > 50.0 * few.scheduler_ns);
    assert!(
        total(&many) > total(&few),
        "giving out a thousand tasks takes longest"
    );
    // Orders go to one node, however many nodes read them.
    let (two, all) = (of("q13", 2), of("q13", 64));
    assert!(all.link_ns > two.link_ns && all.moved_bytes > 1.5 * two.moved_bytes);
}

#[test]
fn all_nodes_divide_what_one_client_should_not_have() {
    let machine = profiles::load("nus24").unwrap();
    let of = |name: &str, nodes: u32, backend| {
        let setup = free_with(nodes, backend);
        let query = queries().into_iter().find(|q| q.name == name).unwrap();
        let work = priced(&machine, &[query], &setup).remove(0);
        let run = simulate(&setup, std::slice::from_ref(&work), 1);
        (work, run)
    };
    // All orders go to their customers, on one node or by key to all of them.
    let (one, to_one) = of("q13", 8, ModelledBackend::Ballista);
    let (all, to_all) = of("q13", 8, ModelledBackend::Distributed);
    assert_eq!(all.last_on, Some(LastOn::AllNodes));
    // Smaller tables may fit a cache, so a share may be less than one in eight.
    let share = all.last_ns / one.last_ns;
    assert!(share < 1.01 / 8.0 && share > 0.1 / 8.0, "{share}");
    let apart = to_all.moved_bytes / to_one.moved_bytes - 1.0;
    assert!(
        apart.abs() < 1e-9,
        "of each node one in eight rows stays: {apart}"
    );
    assert_eq!(to_all.fetches, 8 * 7);
    let (more, _) = of("q13", 16, ModelledBackend::Distributed);
    assert!(more.last_ns < 0.7 * all.last_ns);
    // Groups of few states are the client's, and it has one thread.
    for (name, nodes) in [("q1.1", 8), ("q4.3", 8), ("q1", 40)] {
        let (asked, run) = of(name, nodes, ModelledBackend::Distributed);
        assert_eq!(asked.last_on, Some(LastOn::Client), "{name}");
        assert_eq!(run.made_bytes, run.moved_bytes, "{name}");
        assert_eq!(run.fetches, u64::from(nodes), "{name}");
    }
    // As large as they are, they are not.
    let large = Tpch {
        scale_factor: 1000.0,
        ..Tpch::default()
    };
    let query = tpch_spread(&large)
        .into_iter()
        .find(|q| q.name == "q10")
        .unwrap();
    let setup = free_with(8, ModelledBackend::Distributed);
    let work = priced(&machine, &[query], &setup).remove(0);
    assert_eq!(work.last_on, Some(LastOn::AllNodes));
}

#[test]
fn numbers_that_cannot_be_are_errors_with_their_names() {
    let good = ClusterSetup::new(2, FREE, ModelledBackend::Ballista);
    assert!(good.check().is_ok());
    let wrong = |change: &dyn Fn(&mut ClusterSetup)| {
        let mut setup = good.clone();
        change(&mut setup);
        setup.check().unwrap_err().to_string()
    };
    assert!(wrong(&|s| s.nodes = 0).contains("nodes 0"));
    assert!(wrong(&|s| s.shards = 0).contains("shards 0"));
    assert!(wrong(&|s| s.network.gbps = 0.0).contains("bandwidth in GB/s 0"));
    assert!(wrong(&|s| s.network.gbps = f64::NAN).contains("above 0"));
    assert!(wrong(&|s| s.network.round_trip_us = -1.0).contains("round trip in us -1"));
    assert!(wrong(&|s| s.costs.task_us = f64::INFINITY).contains("time of a task"));
    let shuffle = |s: &mut ClusterSetup| {
        s.shuffle = ShuffleOn::Given {
            write_gbps: 1.0,
            read_gbps: 0.0,
        }
    };
    assert!(wrong(&shuffle).contains("shuffle in GB/s 0"));
    assert!(wrong(&|s| s.costs.fetches_at_once = 0).contains("fetches at once"));
}

fn setups() -> impl Strategy<Value = ClusterSetup> {
    let costs = (0.0..100.0, 0.0..5000.0, 0.0..5000.0, 1u32..100);
    let network = (0.01..100.0, 0.0..10_000.0);
    let backend = proptest::sample::select(&BACKENDS[..]);
    let all = (1u32..40, 1u32..100, network, costs, backend);
    all.prop_map(|(nodes, shards, (gbps, us), costs, backend)| {
        let (statement_ms, task_us, fetch_us, fetches_at_once) = costs;
        ClusterSetup {
            nodes,
            shards,
            backend,
            network: NetworkLink {
                gbps,
                round_trip_us: us,
            },
            costs: StatementCosts {
                statement_ms,
                task_us,
                fetch_us,
                fetches_at_once,
                ..backend.costs()
            },
            shuffle: ShuffleOn::Free,
        }
    })
}

#[test]
fn rows_that_are_passed_on_are_written_once_and_read_once_where_they_lie() {
    let machine = profiles::load("nus24").unwrap();
    let queries = queries();
    let time = |query: &SpreadQuery, shuffle: ShuffleOn| {
        let setup = ClusterSetup { shuffle, ..free(4) };
        let works = priced(&machine, std::slice::from_ref(query), &setup);
        total(&simulate(&setup, &works, 1))
    };
    let tier = |name: &str| ShuffleOn::Tier(name.into());
    let disk = |write_gbps, read_gbps| ShuffleOn::Given {
        write_gbps,
        read_gbps,
    };
    for query in &queries {
        let none = time(query, ShuffleOn::Free);
        let (dram, cxl) = (time(query, tier("dram")), time(query, tier("cxl")));
        let slow = time(query, disk(0.5, 0.5));
        assert!(none <= dram && dram <= cxl && cxl <= slow, "{}", query.name);
        // Nothing else takes the network or a node, so writing is added, and reading, in which all
        // nodes work side by side.
        let bytes = query.sent_bytes(0.25);
        let apart = time(query, disk(2.0, 4.0)) - none - bytes / 2.0 - bytes / 4.0;
        assert!(apart.abs() <= none * 1e-9 + 1.0, "{}: {apart}", query.name);
    }
    let much = queries.iter().find(|q| q.name.contains("q13")).unwrap();
    assert!(time(much, tier("cxl")) > 1.001 * time(much, ShuffleOn::Free));
    let setup = ClusterSetup {
        shuffle: tier("elsewhere"),
        ..free(4)
    };
    let placement = Placement::new(TierShares::all("dram"));
    let on = PricedOn {
        machine: &machine,
        placement: &placement,
        workers: 32,
        options: &Options::default(),
    };
    let unknown = on.work(much, &setup).unwrap_err().to_string();
    assert!(unknown.contains("elsewhere"), "{unknown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn more_bandwidth_and_shorter_ways_are_never_slower(
        setup in setups(), faster in 1.0..50.0, index in 0usize..35,
    ) {
        let machine = profiles::load("epfl25-full-pf-on").unwrap();
        let query = &queries()[index];
        let works = priced(&machine, std::slice::from_ref(query), &setup);
        let time = |gbps: f64, us: f64| {
            let setup = ClusterSetup {
                network: NetworkLink { gbps, round_trip_us: us },
                ..setup.clone()
            };
            total(&simulate(&setup, &works, 1))
        };
        let (gbps, us) = (setup.network.gbps, setup.network.round_trip_us);
        let slow = time(gbps, us) * (1.0 + 1e-12);
        prop_assert!(time(gbps * faster, us) <= slow);
        prop_assert!(time(gbps, us / faster) <= slow);
    }

    #[test]
    fn bytes_are_conserved_and_nothing_is_busier_than_the_time(
        setup in setups(), streams in 1u32..8, first in 0usize..30,
    ) {
        let machine = profiles::load("nus24").unwrap();
        let works = priced(&machine, &queries()[first..first + 5], &setup);
        let run = simulate(&setup, &works, streams);
        let statements: u32 = works.iter().map(|w| w.statements).sum();
        prop_assert_eq!(run.statements.len() as u32, streams * statements);
        // What is made is what the parts send, and all of it is moved but what the node of the
        // final plan has itself; a client has nothing itself, and of all nodes each has a share.
        let made: f64 = works
            .iter()
            .flat_map(|w| &w.parts)
            .map(|p| f64::from(p.nodes) * p.sent_bytes)
            .sum();
        prop_assert!((run.made_bytes - made * f64::from(streams)).abs() <= 1e-9 * run.made_bytes);
        let largest: f64 = works
            .iter()
            .map(|w| w.parts.iter().map(|p| p.sent_bytes).fold(0.0, f64::max))
            .sum();
        let kept = run.made_bytes - run.moved_bytes;
        prop_assert!(kept >= -1e-6 && kept <= largest * f64::from(streams) * (1.0 + 1e-9));
        let most = run.span_ns * (1.0 + 1e-9);
        prop_assert!(run.scheduler_ns <= most && run.link_ns <= most);
        prop_assert!(run.nodes_ns <= most * f64::from(setup.nodes));
        // The parts of a statement's time are all of it.
        for s in &run.statements {
            let sum = s.fixed_ns + s.nodes_ns + s.fetch_ns + s.last_ns;
            prop_assert!((sum - s.total_ns).abs() <= 1e-6 * s.total_ns.max(1.0));
        }
    }

    #[test]
    fn a_statement_takes_what_its_longest_way_takes(setup in setups(), index in 0usize..13) {
        let machine = profiles::load("nus24").unwrap();
        let works = priced(&machine, &queries()[index..=index], &setup);
        let run = simulate(&setup, &works, 1);
        let costs = &setup.costs;
        let parts: u32 = works[0].parts.iter().map(|p| p.nodes).sum();
        let longest = works[0].parts.iter().map(|p| p.work_ns).fold(0.0, f64::max);
        let more = match works[0].last_on {
            None | Some(LastOn::Client) => 0,
            Some(LastOn::OneNode) => 1,
            Some(LastOn::AllNodes) => parts,
        };
        let tasks = f64::from(parts + more);
        let of_stages = match works[0].last_on {
            Some(LastOn::AllNodes) => {
                f64::from(parts) * 1e3 * costs.stage_task_us + 1e6 * costs.stage_node_ms
            }
            _ => 0.0,
        };
        let of_shards = f64::from(setup.shards) * costs.task_shard_us;
        let busy = tasks * (1e3 * (costs.task_us + of_shards) + setup.task_bytes() / setup.network.gbps)
            + 1e3 * f64::from(setup.shards) * costs.shard_us
            + of_stages;
        let at_least = costs.statement_ms * 1e6 + longest + works[0].last_ns;
        // Ways: to the nodes and back, to the final plan and back, to connect and to ask.
        let ways = 4.0 * setup.network.round_trip_us * 1e3 * f64::from(setup.shards.max(parts));
        let fetch = run.link_ns + ways;
        prop_assert!(total(&run) >= at_least * (1.0 - 1e-12));
        prop_assert!(total(&run) <= (at_least + busy + fetch + ways) * (1.0 + 1e-12));
    }
}
