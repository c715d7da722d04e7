//! Each term separately, against numbers calculated by hand.

use tierloom_model::*;

fn dram() -> Placement {
    Placement::new(TierShares::all("dram"))
}

fn per_tuple_ns(machine: &Machine, phase: &Phase, options: Terms) -> f64 {
    1e9 / solve(
        machine,
        phase,
        &dram(),
        1,
        &Options {
            terms: options,
            ..Options::default()
        },
    )
    .unwrap()
    .tuples_per_s
}

fn close(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-3, "{a} is not {b}");
}

/// The NUS24 machine with more lines in flight and without overload: 28.5 GB/s, 96 ns, 12 scalar,
/// 16 vector and 10 random lines, 64 MiB cache of 30 ns, TLB reach of 2 GiB, walks of 60 ns.
fn machine() -> Machine {
    let mut machine = profiles::load("nus24").unwrap();
    machine.concurrency.sequential_scalar.value = 12.0;
    machine.concurrency.sequential_simd.value = 16.0;
    let dram = &mut machine.tiers[0];
    (dram.read_gbps.value, dram.write_gbps.value) = (28.5, 22.8);
    for tier in &mut machine.tiers {
        tier.overload_loss = None;
    }
    machine
}

#[test]
fn one_worker_streams_at_lines_in_flight_over_latency() {
    let scan = Phase::new("scan", PhaseKind::Scan, 1e6).access(Access::sequential_read(
        "c",
        64.0,
        1 << 40,
    ));
    close(
        per_tuple_ns(&machine(), &scan, Terms::default()),
        96.0 / 12.0,
    );
    close(
        per_tuple_ns(&machine(), &scan.compute_ns(7.0), Terms::default()),
        7.0 + 96.0 / 12.0,
    );
}

#[test]
fn cache_keeps_its_share_of_a_random_structure() {
    let probe =
        |bytes| Phase::new("probe", PhaseKind::Probe, 1e6).access(Access::probe("h", 1.0, bytes));
    // The data is twice the cache: half of the lines miss. The private 2 MiB are 1/64 of it, and
    // free.
    close(
        per_tuple_ns(&machine(), &probe(128 << 20), Terms::default()),
        0.5 * 9.6 + (0.5 - 1.0 / 64.0) * 3.0,
    );
    close(
        per_tuple_ns(
            &machine(),
            &probe(128 << 20),
            Terms {
                llc: false,
                ..Terms::default()
            },
        ),
        9.6,
    );
    close(
        per_tuple_ns(&machine(), &probe(32 << 20), Terms::default()),
        (1.0 - 1.0 / 16.0) * 3.0,
    );
}

#[test]
fn structures_of_one_phase_share_the_cache() {
    let both = Phase::new("probe", PhaseKind::Probe, 1e6)
        .access(Access::probe("h", 1.0, 64 << 20))
        .access(Access::probe("g", 1.0, 64 << 20));
    let alone =
        Phase::new("probe", PhaseKind::Probe, 1e6).access(Access::probe("h", 2.0, 64 << 20));
    assert!(
        per_tuple_ns(&machine(), &both, Terms::default())
            > 1.5 * per_tuple_ns(&machine(), &alone, Terms::default())
    );
}

#[test]
fn streams_stay_in_cache_only_if_the_whole_phase_fits() {
    let scan = |bytes| {
        Phase::new("scan", PhaseKind::Scan, 1e6).access(Access::sequential_read("c", 64.0, bytes))
    };
    close(
        per_tuple_ns(&machine(), &scan(32 << 20), Terms::default()),
        30.0 / 12.0,
    );
    let crowded = scan(32 << 20).access(Access {
        lines_per_tuple: 1e-9,
        ..Access::sequential_read("d", 64.0, 48 << 20)
    });
    close(
        per_tuple_ns(&machine(), &crowded, Terms::default()),
        96.0 / 12.0,
    );
}

#[test]
fn page_walks_are_paid_beyond_the_reach_of_the_tlb() {
    let probe = Phase::new("probe", PhaseKind::Probe, 1e6).access(Access::probe("h", 1.0, 8 << 30));
    let extra = per_tuple_ns(&machine(), &probe, Terms::default())
        - per_tuple_ns(
            &machine(),
            &probe,
            Terms {
                tlb: false,
                ..Terms::default()
            },
        );
    close(extra, 0.75 * 60.0 / 4.0);
}

#[test]
fn stores_read_what_they_write_and_streaming_stores_do_not() {
    let write = |op| {
        Phase::new("w", PhaseKind::Write, 1e6).access(
            Access::sequential_read("out", 64.0, 1 << 40)
                .vectorised()
                .with_op(op),
        )
    };
    let rate = |op, terms| {
        solve(
            &machine(),
            &write(op),
            &dram(),
            32,
            &Options {
                terms,
                ..Options::default()
            },
        )
        .unwrap()
        .tuples_per_s
            / 1e9
    };
    let (read, written) = (64.0 / 28.5, 64.0 / 22.8);
    close(rate(Op::Read, Terms::default()), 1.0 / read);
    close(rate(Op::Write, Terms::default()), 1.0 / (read + written));
    close(rate(Op::Update, Terms::default()), 1.0 / (read + written));
    close(rate(Op::NtWrite, Terms::default()), 1.0 / written);
    close(
        rate(
            Op::Write,
            Terms {
                rfo: false,
                ..Terms::default()
            },
        ),
        1.0 / written,
    );
}

/// A machine of one plain tier: 100 GB/s, 100 ns, 10 lines in flight of every kind, no caches, 1000
/// pages of 4 KiB in the TLB.
fn plain() -> Machine {
    let mut machine = machine();
    machine.tiers = vec![Tier::plain("dram", 100.0, 100.0, "test")];
    machine.cache.l2_bytes = value(0.0);
    machine.cache.llc_bytes = value(0.0);
    machine.tlb.entries = value(1000.0);
    machine.tlb.page_bytes = value(4096.0);
    machine.tlb.walk_ns = value(30.0);
    let c = &mut machine.concurrency;
    for lines in [
        &mut c.sequential_scalar,
        &mut c.sequential_simd,
        &mut c.random,
        &mut c.random_prefetched,
    ] {
        *lines = value(10.0);
    }
    machine
}

fn value(x: f64) -> Value {
    Value::new(x, SourceKind::Assumed, "test")
}

fn touching(pattern: Pattern, op: Op, footprint: u64) -> Phase {
    Phase::new("p", PhaseKind::Other, 1e6).access(Access {
        pattern,
        ..Access::probe("s", 1.0, footprint).with_op(op)
    })
}

#[test]
fn prefetchers_fetch_skipped_lines_within_their_reach() {
    let mut machine = plain();
    machine.prefetch = Some(Prefetch {
        waste_lines: value(2.0),
        reach_lines: value(16.0),
        training_lines: Some(value(2.0)),
        overshoot_lines: Some(value(4.0)),
    });
    let lines = |stride| touching(Pattern::Strided { lines: stride }, Op::Read, 1 << 40);
    let time = |stride, off: &str| {
        per_tuple_ns(
            &machine,
            &lines(stride),
            Terms {
                tlb: false,
                ..Terms::without(off).unwrap_or_default()
            },
        )
    };
    close(time(1, ""), 10.0);
    close(time(2, ""), 20.0);
    close(time(8, ""), 30.0);
    close(time(8, "prefetch_waste"), 10.0);
    close(time(64, ""), 10.0);
    // 64 lines are a page of 4 KiB: each line needs a separate walk, 4 at a time.
    close(
        per_tuple_ns(&machine, &lines(64), Terms::default()),
        10.0 + 30.0 / 4.0,
    );
}

#[test]
fn a_fanout_beyond_the_tlb_walks_and_one_beyond_the_caches_fetches_lines_again() {
    let mut machine = plain();
    machine.cache.l2_bytes = value(64.0 * 500.0);
    machine.cache.llc_bytes = value(64.0 * 2000.0);
    let scatter = |places| {
        Phase::new("p", PhaseKind::Partition, 1e6).access(Access {
            lines_per_tuple: 0.125,
            pattern: Pattern::Scatter { partitions: places },
            ..Access::probe("out", 1.0, 1 << 40).with_op(Op::Write)
        })
    };
    let time = |places, terms| per_tuple_ns(&machine, &scatter(places), terms);
    // Eight tuples fill a line; stores keep 1.8 lines in flight: 100 ns of memory, 30 ns of cache.
    let (memory, cache) = (100.0 / 1.8, 30.0 / 1.8);
    close(time(100, Terms::default()), 0.125 * memory);
    // 1000 places: half of their lines are in the private cache, the others in the last-level
    // cache.
    close(
        time(1000, Terms::default()),
        0.125 * memory + 0.5 * 0.875 * cache,
    );
    // 4000 places: an eighth private, three eighths in the last-level cache, half in memory; three
    // of four touches walk.
    let fetched = 0.125 * memory + 0.875 * (0.375 * cache + 0.5 * memory);
    close(
        time(
            4000,
            Terms {
                tlb: false,
                ..Terms::default()
            },
        ),
        fetched,
    );
    close(time(4000, Terms::default()), fetched + 0.75 * 30.0 / 4.0);
}

#[test]
fn single_lines_and_mixed_traffic_have_their_own_peaks() {
    let mut machine = plain();
    machine.tiers[0].random_share = Some(value(0.5));
    let gbps = |machine: &Machine, phase: &Phase, terms| {
        let solution = solve(
            machine,
            phase,
            &dram(),
            32,
            &Options {
                terms,
                ..Options::default()
            },
        );
        solution.unwrap().tiers[0].bandwidth_gbps
    };
    let read = touching(Pattern::Random, Op::Read, 1 << 20);
    close(gbps(&machine, &read, Terms::default()), 50.0);
    close(
        gbps(&machine, &read, Terms::without("random_share").unwrap()),
        100.0,
    );
    let write = touching(Pattern::Sequential, Op::Write, 1 << 40);
    close(gbps(&machine, &write, Terms::default()), 100.0);
    machine.tiers[0].duplex = Some(value(0.5));
    close(gbps(&machine, &write, Terms::default()), 100.0 / 0.75);
    close(
        gbps(&machine, &write, Terms::without("duplex").unwrap()),
        100.0,
    );
    machine.tiers[0].nt_write_gbps = Some(value(80.0));
    let stream = touching(Pattern::Sequential, Op::NtWrite, 1 << 40);
    close(gbps(&machine, &stream, Terms::default()), 80.0);
}

#[test]
fn a_core_moves_no_more_than_its_path_carries() {
    let mut machine = plain();
    // 64 lines in flight of 100 ns would be 41 GB/s.
    machine.concurrency.sequential_simd = value(64.0);
    machine.concurrency.core_gbps = Some(value(16.0));
    let stream = Phase::new("p", PhaseKind::Scan, 1e6)
        .access(Access::sequential_read("c", 64.0, 1 << 40).vectorised());
    close(per_tuple_ns(&machine, &stream, Terms::default()), 4.0);
    let solution = solve(&machine, &stream, &dram(), 1, &Options::default()).unwrap();
    assert_eq!(solution.bottleneck, Bottleneck::Compute);
    // The wait for lines that do not arrive earlier is the same as before.
    machine.concurrency.sequential_simd = value(10.0);
    close(per_tuple_ns(&machine, &stream, Terms::default()), 10.0);
}

#[test]
fn owners_switches_and_write_queues_add_their_times() {
    let mut machine = plain();
    let tier = &mut machine.tiers[0];
    tier.ownership_ns = Some(value(50.0));
    tier.switch_ns = Some(value(20.0));
    let time = |machine: &Machine, pattern, op, terms| {
        per_tuple_ns(machine, &touching(pattern, op, 1 << 20), terms)
    };
    let all = Terms::default();
    close(time(&machine, Pattern::Random, Op::Read, all), 12.0);
    close(time(&machine, Pattern::Random, Op::Write, all), 17.0);
    close(
        time(
            &machine,
            Pattern::Random,
            Op::Write,
            Terms::without("ownership").unwrap(),
        ),
        12.0,
    );
    close(
        time(
            &machine,
            Pattern::Random,
            Op::Read,
            Terms::without("switches").unwrap(),
        ),
        10.0,
    );
    close(time(&machine, Pattern::Dependent, Op::Read, all), 120.0);
    machine.tiers[0].write_latency_ns = Some(value(300.0));
    close(time(&machine, Pattern::Dependent, Op::NtWrite, all), 320.0);
    close(time(&machine, Pattern::Dependent, Op::Read, all), 120.0);
}

#[test]
fn compute_hides_behind_memory_as_far_as_the_core_overlaps() {
    let mut machine = plain();
    machine.overlap = Some(value(0.75));
    let phase = |pattern| touching(pattern, Op::Read, 1 << 20).compute_ns(4.0);
    close(
        per_tuple_ns(&machine, &phase(Pattern::Random), Terms::default()),
        10.0 + 0.25 * 4.0,
    );
    close(
        per_tuple_ns(
            &machine,
            &phase(Pattern::Random),
            Terms::without("overlap").unwrap(),
        ),
        14.0,
    );
    // The waiting time of a chain cannot overlap with work that depends on it.
    close(
        per_tuple_ns(&machine, &phase(Pattern::Dependent), Terms::default()),
        104.0,
    );
}

#[test]
fn others_on_a_tier_raise_its_latency_and_take_their_part() {
    let mut machine = plain();
    machine.tiers[0].loaded.ratio_at_peak = value(3.0);
    machine.tiers[0].loaded.knee = value(0.0);
    machine.tiers[0].loaded.exponent = value(1.0);
    let load = touching(Pattern::Dependent, Op::Read, 1 << 20);
    let options = |read| Options {
        background: vec![Background::reads("dram", read)],
        ..Options::default()
    };
    let rate = |machine: &Machine, phase: &Phase, workers, options: &Options| {
        solve(machine, phase, &dram(), workers, options)
            .unwrap()
            .tuples_per_s
            / 1e9
    };
    let loaded = 1.0 / rate(&machine, &load, 1, &options(50.0));
    assert!((200.0..203.0).contains(&loaded), "{loaded}");
    let stream = touching(Pattern::Sequential, Op::Read, 1 << 40);
    close(
        rate(&plain(), &stream, 32, &Options::default()) * 64.0,
        100.0,
    );
    close(rate(&plain(), &stream, 32, &options(30.0)) * 64.0, 70.0);
    close(rate(&plain(), &stream, 32, &options(100.0)) * 64.0, 50.0);
}

#[test]
fn placement_is_looked_up_by_structure_then_class_then_default() {
    let all = TierShares::all;
    let placement = Placement::new(all("dram"))
        .with_class(StructureClass::HashTable, all("cxl"))
        .with_structure("hot", all("remote"));
    let on = |access: &Access| placement.shares(access).to_string();
    assert_eq!(on(&Access::probe("hot", 1.0, 1)), "remote=100.0%");
    assert_eq!(on(&Access::probe("cold", 1.0, 1)), "cxl=100.0%");
    assert_eq!(on(&Access::sequential_read("c", 4.0, 1)), "dram=100.0%");
}

#[test]
fn hyper_threads_share_a_cores_lines_and_yield() {
    let mut machine = profiles::load("hpi25-1dev").unwrap();
    let chase = Phase::new("chase", PhaseKind::Other, 1e6).access(Access {
        pattern: Pattern::Dependent,
        ..Access::probe("list", 1.0, 1 << 40)
    });
    let scan = Phase::new("scan", PhaseKind::Scan, 1e6).access(Access::sequential_read(
        "c",
        64.0,
        1 << 40,
    ));
    let compute = Phase::new("c", PhaseKind::Other, 1e6).compute_ns(10.0);
    machine.tiers[0].read_gbps = machine.tiers[0].read_gbps.with(1e6);
    let gain = |phase: &Phase| {
        let rate = |n| {
            solve(&machine, phase, &dram(), n, &Options::default())
                .unwrap()
                .tuples_per_s
        };
        assert_eq!(rate(48), rate(500), "no more workers than hardware threads");
        rate(48) / rate(24)
    };
    close(gain(&scan), 1.0);
    close(gain(&compute), 1.25);
    close(gain(&chase), 2.0);
}

#[test]
fn a_query_adds_its_phases_and_counts_bytes() {
    let scan =
        Phase::new("scan", PhaseKind::Scan, 1e9).access(Access::sequential_read("c", 8.0, 1 << 40));
    let think = Phase::new("think", PhaseKind::Other, 1e9).compute_ns(10.0);
    let idle = Phase::new("idle", PhaseKind::Other, 0.0);
    let half = Placement::new(TierShares::from_weights(&[("dram", 1.0), ("cxl", 1.0)]).unwrap());
    let query = solve_all(
        &machine(),
        &[scan.clone(), idle, think],
        &half,
        32,
        &Options::default(),
    )
    .unwrap();
    assert_eq!(query.phases.len(), 2);
    close(
        query.time_ns,
        query.phases.iter().map(|p| p.solution.time_ns).sum(),
    );
    close(query.tiers[0].bytes, 4e9);
    close(query.tiers[1].bytes, 4e9);
    let shares = query.shares;
    close(
        shares.compute + shares.cache + shares.latency + shares.bandwidth,
        1.0,
    );
    close(
        shares.compute,
        query.phases[1].solution.time_ns / query.time_ns,
    );
}

#[test]
fn impossible_questions_are_named() {
    let scan =
        Phase::new("scan", PhaseKind::Scan, 1e9).access(Access::sequential_read("c", 8.0, 1 << 40));
    let ask = |machine: &Machine, phase: &Phase, tier: &str, workers| {
        solve(
            machine,
            phase,
            &Placement::new(TierShares::all(tier)),
            workers,
            &Options::default(),
        )
        .unwrap_err()
        .to_string()
    };
    let mut broken = machine();
    broken.tiers[0].read_gbps = broken.tiers[0].read_gbps.with(f64::NAN);
    let errors = [
        ask(&machine(), &scan, "hbm", 1),
        ask(&machine(), &scan, "dram", 0),
        ask(
            &machine(),
            &Phase::new("none", PhaseKind::Other, 1.0),
            "dram",
            1,
        ),
        ask(&machine(), &scan.clone().compute_ns(-1.0), "dram", 1),
        ask(
            &machine(),
            &scan.clone().access(Access::probe("h", f64::INFINITY, 1)),
            "dram",
            1,
        ),
        ask(&broken, &scan, "dram", 1),
        TierShares::from_weights(&[("dram", 0.0), ("cxl", 0.0)])
            .unwrap_err()
            .to_string(),
        TierShares::from_weights(&[("dram", 1.0), ("cxl", -1.0)])
            .unwrap_err()
            .to_string(),
        TierShares::from_weights(&[("dram", 1.0), ("dram", 1.0)])
            .unwrap_err()
            .to_string(),
        serde_json::from_str::<TierShares>(r#"[{"tier":"dram","share":0.7}]"#)
            .unwrap_err()
            .to_string(),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    placement of c names tier "hbm", machine nus24 has dram, cxl, remote; use one of these or another machine
    phase "scan" cannot run with 0 workers; give at least 1
    phase "none" does no work (no compute time, no lines accessed), so it has no throughput; leave it out or give it accesses
    phase "scan": compute time per tuple is -1; expected a finite number of at least 0
    phase "scan": lines per tuple of h is inf; expected a finite number of at least 0
    machine nus24: `tiers[0].read_gbps` is NaN, expected a finite number above 0; check machines that are built in code with `Machine::check`
    tier weights [dram 0, cxl 0]: no weight is above 0; give at least one weight above 0, each tier once ("dram" 3, "cxl" 2)
    tier weights [dram 1, cxl -1]: a weight is negative or not finite; give at least one weight above 0, each tier once ("dram" 3, "cxl" 2)
    tier weights [dram 1, dram 1]: a tier is named twice; give at least one weight above 0, each tier once ("dram" 3, "cxl" 2)
    tier weights [TierShare { tier: "dram", share: 0.7 }]: stored shares do not sum to 1; give at least one weight above 0, each tier once ("dram" 3, "cxl" 2)
    "#);
}

#[test]
fn stores_to_few_positions_are_followed_only_where_there_are_prefetchers() {
    let mut machine = plain();
    let scatter = |places| {
        Phase::new("p", PhaseKind::Partition, 1e6).access(Access {
            lines_per_tuple: 0.125,
            pattern: Pattern::Scatter { partitions: places },
            ..Access::probe("out", 1.0, 1 << 20)
                .with_op(Op::Write)
                .vectorised()
        })
    };
    machine.cache.l2_bytes = value(1e6);
    let time = |machine: &Machine, places| {
        per_tuple_ns(machine, &scatter(places), Terms::without("tlb").unwrap())
    };
    close(time(&machine, 64), 0.125 * 100.0 / 1.8);
    machine.prefetch = profiles::load("epfl25-full-pf-on").unwrap().prefetch;
    close(time(&machine, 64), 0.125 * 100.0 / 10.0);
    close(time(&machine, 65), 0.125 * 100.0 / 1.8);
}

#[test]
fn scattered_stores_fetch_in_vain_only_beyond_the_first_level_cache() {
    let mut machine = plain();
    machine.cache.l2_bytes = value(1e9);
    let solved = |machine: &Machine, places| {
        let phase = Phase::new("p", PhaseKind::Partition, 1e6).access(Access {
            lines_per_tuple: 0.125,
            pattern: Pattern::Scatter { partitions: places },
            ..Access::probe("out", 1.0, 1 << 20).with_op(Op::Write)
        });
        let solution = solve(machine, &phase, &dram(), 1, &Options::default()).unwrap();
        solution.tiers[0].read_gbps / solution.tiers[0].write_gbps
    };
    close(solved(&machine, 8192), 1.0);
    machine.prefetch = profiles::load("epfl25-full-pf-on").unwrap().prefetch;
    close(solved(&machine, 512), 1.0);
    // 8192 lines are 512 KiB: a store misses the 48 KiB with probability 1 - 3/32, and each of two
    // prefetchers then fetches a line, while a tuple writes an eighth of one.
    close(solved(&machine, 8192), 1.0 + 8.0 * 2.0 * (1.0 - 3.0 / 32.0));
}

#[test]
fn stores_of_all_workers_to_the_same_positions_wait_for_each_other_and_spare_the_memory() {
    let machine = machine();
    let phase = |pattern| {
        Phase::new("p", PhaseKind::Partition, 1e6).access(Access {
            lines_per_tuple: 0.125,
            pattern,
            ..Access::probe("out", 1.0, 1 << 20).with_op(Op::Write)
        })
    };
    let solved = |pattern, workers| {
        solve(
            &machine,
            &phase(pattern),
            &dram(),
            workers,
            &Options::default(),
        )
        .unwrap()
    };
    let contended = Pattern::Contended { partitions: 64 };
    let all = solved(contended, 32);
    // Of 32 stores 31 fetch their line over three ways of 30 ns.
    let waits = 31.0 / 32.0 * 3.0 * 30.0;
    assert!(32e9 / all.tuples_per_s > waits && 32e9 / all.tuples_per_s < 1.1 * waits);
    assert!(all.tiers[0].bandwidth_gbps < 1.0, "{all:?}");
    let apart = solved(Pattern::Scatter { partitions: 64 }, 32);
    assert!(apart.tiers[0].bandwidth_gbps > 5.0, "{apart:?}");
    // One worker has its lines in its own cache.
    assert!(solved(contended, 1).tuples_per_s > 4.0 * all.tuples_per_s / 32.0);
}

#[test]
fn streams_evict_what_is_rarely_touched_and_not_what_is_touched_often() {
    let machine = machine();
    let probe = |touches: f64, streamed: f64| {
        let phase =
            Phase::new("p", PhaseKind::Probe, 1e6).access(Access::probe("h", touches, 32 << 20));
        let phase = phase.access(Access::sequential_read("c", streamed, 1 << 40));
        let solution = solve(&machine, &phase, &dram(), 1, &Options::default()).unwrap();
        // Bytes that miss, less those of the stream.
        solution.tiers[0].read_gbps * 1e9 / solution.tuples_per_s - streamed
    };
    assert!(probe(1.0, 8.0) < 1.0, "{}", probe(1.0, 8.0));
    let rare = probe(0.01, 64.0) / (0.01 * 64.0);
    assert!(rare > 0.9, "{rare}");
    let even = probe(1.0, 64.0) / 64.0;
    assert!((0.2..0.8).contains(&even), "{even}");
}

#[test]
fn a_second_thread_uses_the_queues_while_the_first_computes() {
    let mut machine = plain();
    (machine.smt, machine.smt_yield) = (value(2.0), value(2.0));
    machine.tiers[0].read_gbps = value(1e6);
    let scan = |compute| {
        Phase::new("s", PhaseKind::Scan, 1e6)
            .compute_ns(compute)
            .access(Access::sequential_read("c", 64.0, 1 << 40).vectorised())
    };
    let ns = |compute, workers| {
        let solution = solve(
            &machine,
            &scan(compute),
            &dram(),
            workers,
            &Options::default(),
        );
        32e9 / solution.unwrap().tuples_per_s
    };
    // 100 ns over 10 lines fill the queues of a core: a second thread adds nothing.
    close(ns(0.0, 32), 10.0);
    close(ns(0.0, 64), 10.0);
    // With 30 ns of computing two threads keep the queues busy for half of the time.
    close(ns(30.0, 32), 40.0);
    close(ns(30.0, 64), 20.0);
    // With 5 ns they would need more than all of it.
    close(ns(5.0, 32), 15.0);
    close(ns(5.0, 64), 10.0);
}

#[test]
fn workers_use_near_cores_first_and_the_latency_is_the_mean() {
    let mut machine = plain();
    (machine.tiers[0].near_cores, machine.tiers[0].far_ns) = (Some(value(8.0)), Some(value(40.0)));
    machine.tiers[0].read_gbps = value(1e6);
    let scan = Phase::new("s", PhaseKind::Scan, 1e6)
        .access(Access::sequential_read("c", 64.0, 1 << 40).vectorised());
    let latency = |workers: u32| {
        let solution = solve(&machine, &scan, &dram(), workers, &Options::default()).unwrap();
        f64::from(workers) * 10.0 * 1e9 / solution.tuples_per_s
    };
    close(latency(8), 100.0);
    close(latency(16), 120.0);
    close(latency(32), 130.0);
}

#[test]
fn prefetched_streams_reach_their_share_and_random_lines_are_spared() {
    let mut machine = plain();
    machine.tiers[0].prefetched_share = Some(value(0.8));
    let gbps = |machine: &Machine, access: Access| {
        let phase = Phase::new("s", PhaseKind::Scan, 1e6).access(access);
        let solution = solve(machine, &phase, &dram(), 32, &Options::default()).unwrap();
        solution.tiers[0].read_gbps
    };
    let stream = || Access::sequential_read("c", 64.0, 1 << 40);
    let random = || Access::probe("h", 1.0, 1 << 40);
    machine.tiers[0].idle_latency_ns = value(10.0);
    close(gbps(&machine, stream()), 100.0);
    machine.prefetch = profiles::load("epfl25-full-pf-on").unwrap().prefetch;
    close(gbps(&machine, stream()), 80.0);
    close(gbps(&machine, random()), 100.0);
}

#[test]
fn a_tier_delivers_less_the_further_demand_is_beyond_its_peak() {
    let mut machine = plain();
    machine.tiers[0].overload_loss = Some(value(0.2));
    // 10 lines in flight and 100 ns: 6.4 GB/s a worker, of a tier with 100 GB/s.
    let gbps = |workers: u32, terms, background: &[Background]| {
        let phase = Phase::new("s", PhaseKind::Scan, 1e6)
            .access(Access::sequential_read("c", 64.0, 1 << 40).vectorised());
        let options = Options {
            terms,
            background: background.to_vec(),
            ..Options::default()
        };
        let solution = solve(&machine, &phase, &dram(), workers, &options).unwrap();
        solution.tiers[0].read_gbps
    };
    let kept = |demand: f64| 100.0 * (1.0 - 0.2 * (1.0 - 100.0 / demand));
    close(gbps(15, Terms::default(), &[]), 96.0);
    close(gbps(20, Terms::default(), &[]), kept(128.0));
    close(gbps(30, Terms::default(), &[]), kept(192.0));
    close(gbps(30, Terms::without("overload").unwrap(), &[]), 100.0);
    // What others read counts as well; they get their half.
    let others = [Background::reads("dram", 60.0)];
    close(gbps(30, Terms::default(), &others), 0.5 * kept(252.0));
}
