//! Each term on its own, against numbers worked out by hand.

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

/// The NUS24 machine: 96 ns, 12 scalar and 10 random lines in flight, 64 MiB cache of 30 ns, TLB reach of 2 GiB, walks of 30 ns.
fn machine() -> Machine {
    profiles::load("nus24").unwrap()
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
    // Twice the cache: half of the lines miss. The private 2 MiB are 1/64 of it, and free.
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
    close(extra, 0.75 * 30.0 / 4.0);
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
