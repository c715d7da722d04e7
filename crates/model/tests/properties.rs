//! Properties that must hold on any valid machine.

use proptest::prelude::*;
use tierloom_model::*;

fn value(x: f64) -> Value {
    Value::new(x, SourceKind::Assumed, "test")
}

prop_compose! {
    fn tier(name: &'static str)(read in 5.0..500.0, write in 0.4..1.0, idle in 50.0..1000.0, ratio in 1.0..6.0, knee in 0.0..0.99, exponent in 0.3..8.0) -> Tier {
        Tier {
            write_gbps: value(read * write),
            loaded: LoadedLatency { ratio_at_peak: value(ratio), knee: value(knee), exponent: value(exponent) },
            ..Tier::plain(name, read, idle, "test")
        }
    }
}

prop_compose! {
    /// A tier with any of its optional numbers present or absent.
    fn rich_tier(name: &'static str)(
        plain in tier(name), nt in prop::option::of(1.0..600.0), single in prop::option::of(0.05..=1.0), overload in prop::option::of(0.0..0.5), duplex in prop::option::of(0.0..=1.0),
        own in prop::option::of(0.0..500.0), posted in prop::option::of(10.0..500.0), switch in prop::option::of(0.0..300.0), calm in prop::option::of(0.0..=1.0),
    ) -> Tier {
        Tier {
            // Streams load a tier at least as much as single lines do.
            loaded_random: calm.map(|part| LoadedLatency { ratio_at_peak: value(1.0 + (plain.loaded.ratio_at_peak.value - 1.0) * part), ..plain.loaded.clone() }),
            nt_write_gbps: nt.map(value),
            random_share: single.map(value),
            overload_loss: overload.map(value),
            duplex: duplex.map(value),
            ownership_ns: own.map(value),
            write_latency_ns: posted.map(value),
            switch_ns: switch.map(value),
            ..plain
        }
    }
}

prop_compose! {
    fn machine()(dram in rich_tier("dram"), cxl in rich_tier("cxl"), optional in prop::array::uniform6(prop::option::of(0.0..1.0)), cores in 1u32..128, smt in 1u32..3, lines in prop::array::uniform4(1.0..64.0), llc in 0.0..2e8) -> Machine {
        let mut machine = profiles::load("nus24").unwrap();
        machine.tiers = vec![dram, cxl];
        (machine.cores, machine.smt, machine.smt_yield) = (value(f64::from(cores)), value(f64::from(smt)), value(1.25));
        machine.cache.llc_bytes = value(llc);
        let c = &mut machine.concurrency;
        (c.sequential_scalar, c.sequential_simd, c.random, c.random_prefetched) = (value(lines[0]), value(lines[1]), value(lines[2]), value(lines[3]));
        c.store = optional[0].map(|x| value(1.0 + 40.0 * x));
        c.nt_store = optional[1].map(|x| value(1.0 + 40.0 * x));
        c.smt_gain = optional[2].map(|x| value(1.0 + x));
        c.core_gbps = optional[5].map(|x| value(2.0 + 40.0 * x));
        machine.overlap = optional[3].map(value);
        machine.prefetch = optional[4].map(|x| Prefetch { waste_lines: value(2.0 * x), reach_lines: value(64.0 * x), training_lines: Some(value(4.0 * x)), overshoot_lines: Some(value(8.0 * x)) });
        machine
    }
}

prop_compose! {
    fn access()(
        pattern in prop::sample::select(vec![
            Pattern::Sequential, Pattern::Random, Pattern::Dependent, Pattern::Strided { lines: 1 }, Pattern::Strided { lines: 7 },
            Pattern::Strided { lines: 5000 }, Pattern::Runs { lines: 1 }, Pattern::Runs { lines: 16 }, Pattern::Scatter { partitions: 1 }, Pattern::Scatter { partitions: 100_000 },
        ]),
        op in prop::sample::select(vec![Op::Read, Op::Write, Op::NtWrite, Op::Update]),
        lines in 0.001..8.0, footprint in 1u64..1 << 40, simd: bool, id in 0..4,
    ) -> Access {
        Access { structure: format!("s{id}"), class: StructureClass::HashTable, pattern, op, lines_per_tuple: lines, footprint_bytes: footprint, simd }
    }
}

prop_compose! {
    fn phase()(compute in 0.0..100.0, accesses in prop::collection::vec(access(), 1..6)) -> Phase {
        Phase { accesses, ..Phase::new("p", PhaseKind::Other, 1e6).compute_ns(compute) }
    }
}

fn split(dram: f64) -> Placement {
    Placement::new(TierShares::from_weights(&[("dram", dram), ("cxl", 1.0 - dram)]).unwrap())
}

fn rate(machine: &Machine, phase: &Phase, placement: &Placement, workers: u32) -> f64 {
    solve(machine, phase, placement, workers, &Options::default())
        .unwrap()
        .tuples_per_s
}

/// The machine without losses by overload, where more demand is never slower.
fn without_loss(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine
        .tiers
        .iter_mut()
        .for_each(|tier| tier.overload_loss = None);
    machine
}

/// The least share of its peaks that a tier of this machine keeps under any demand.
fn least_kept(machine: &Machine) -> f64 {
    let kept = machine
        .tiers
        .iter()
        .map(|tier| tier.kept_of_peaks(f64::MAX));
    kept.fold(1.0, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn solution_is_finite_and_closes_littles_law(m in machine(), p in phase(), dram in 0.0..=1.0f64, workers in 1u32..300) {
        let s = solve(&m, &p, &split(dram), workers, &Options::default()).unwrap();
        prop_assert!(s.tuples_per_s.is_finite() && s.tuples_per_s > 0.0);
        prop_assert!((s.time_ns * s.tuples_per_s / 1e9 / p.tuples - 1.0).abs() < 1e-9);
        let TimeShares { compute, cache, latency, bandwidth } = s.shares;
        prop_assert!((compute + cache + latency + bandwidth - 1.0).abs() < 1e-9, "{:?}", s.shares);
        prop_assert!([compute, cache, latency, bandwidth].iter().all(|x| (0.0..=1.0).contains(x)), "{:?}", s.shares);
        for (load, tier) in s.tiers.iter().zip(&m.tiers) {
            let most_written = tier.nt_write_gbps.as_ref().map_or(0.0, |v| v.value).max(tier.write_gbps.value);
            prop_assert!(load.utilisation <= 1.0 && load.read_gbps <= tier.read_gbps.value * (1.0 + 1e-9), "{load:?}");
            prop_assert!(load.write_gbps <= most_written * (1.0 + 1e-9), "{load:?}");
            prop_assert!((load.read_gbps + load.write_gbps - load.bandwidth_gbps).abs() <= 1e-9 * load.bandwidth_gbps);
            prop_assert!(load.latency_ns >= tier.idle_latency_ns.value && load.latency_ns.is_finite());
        }
    }

    #[test]
    fn throughput_never_passes_lines_in_flight_over_latency(m in machine(), lines in 0.01..4.0, workers in 1u32..300) {
        let mut m = m;
        m.cache.llc_bytes = value(0.0);
        let scan = Phase::new("scan", PhaseKind::Scan, 1e6).access(Access::sequential_read("c", lines * 64.0, 1 << 40));
        let gain = m.concurrency.smt_gain.as_ref().map_or(1.0, |v| v.value);
        // Threads that share a core have its queues, which vector loads may fill further.
        let (thread, simd) = (m.concurrency.sequential_scalar.value, m.concurrency.sequential_simd.value);
        let threads = f64::from(workers).min(m.cores.value * m.smt.value);
        let of_threads = threads * thread;
        let of_cores = threads.min(m.cores.value) * simd.max(thread * gain);
        let bound = of_threads.min(of_cores.max(threads.min(m.cores.value) * thread)) / m.tiers[0].idle_latency_ns.value / lines * 1e9;
        prop_assert!(rate(&m, &scan, &split(1.0), workers) <= bound * (1.0 + 1e-9));
    }

    #[test]
    fn more_bandwidth_and_less_latency_never_hurt(m in machine(), p in phase(), dram in 0.0..=1.0f64, workers in 1u32..200, tier in 0usize..2, factor in 1.0..4.0) {
        let before = rate(&m, &p, &split(dram), workers);
        let mut faster = m.clone();
        let t = &mut faster.tiers[tier];
        (t.read_gbps, t.write_gbps) = (value(t.read_gbps.value * factor), value(t.write_gbps.value * factor));
        prop_assert!(rate(&faster, &p, &split(dram), workers) >= before * (1.0 - 1e-9));
        // Workers that wait less ask for more.
        for (m, least) in [(without_loss(&m), 1.0), (m.clone(), least_kept(&m))] {
            let mut nearer = m.clone();
            nearer.tiers[tier].idle_latency_ns = value(nearer.tiers[tier].idle_latency_ns.value / factor);
            let (before, after) = (rate(&m, &p, &split(dram), workers), rate(&nearer, &p, &split(dram), workers));
            prop_assert!(after >= before * least * (1.0 - 1e-9));
        }
    }

    #[test]
    fn more_workers_never_hurt_while_nothing_is_cached_by_core(m in machine(), p in phase(), dram in 0.0..=1.0f64, workers in 1u32..200) {
        // Places that are written in turn share each core's cache and TLB, so there more workers
        // per core may be slower.
        prop_assume!(p.accesses.iter().all(|a| !matches!(a.pattern, Pattern::Scatter { .. })));
        for (m, least) in [(without_loss(&m), 1.0), (m.clone(), least_kept(&m))] {
            let (fewer, more) = (rate(&m, &p, &split(dram), workers), rate(&m, &p, &split(dram), workers + 1));
            prop_assert!(more >= fewer * least * (1.0 - 1e-9));
        }
    }

    #[test]
    fn equal_tiers_without_load_make_weights_irrelevant(m in machine(), p in phase(), dram in 0.0..=1.0f64, workers in 1u32..200) {
        let mut m = m;
        (m.tiers[0].loaded.ratio_at_peak, m.tiers[0].loaded_random) = (value(1.0), None);
        (m.tiers[0].read_gbps, m.tiers[0].write_gbps, m.tiers[0].nt_write_gbps) = (value(1e9), value(1e9), None);
        m.tiers[1] = Tier { name: "cxl".into(), ..m.tiers[0].clone() };
        let (some, all) = (rate(&m, &p, &split(dram), workers), rate(&m, &p, &split(1.0), workers));
        prop_assert!((some / all - 1.0).abs() < 1e-9);
    }

    #[test]
    fn equal_tiers_are_interchangeable(m in machine(), p in phase(), dram in 0.0..=1.0f64, workers in 1u32..200) {
        let mut m = m;
        m.tiers[1] = Tier { name: "cxl".into(), ..m.tiers[0].clone() };
        let (one, other) = (rate(&m, &p, &split(dram), workers), rate(&m, &p, &split(1.0 - dram), workers));
        prop_assert!((one / other - 1.0).abs() < 1e-9);
    }

    #[test]
    fn switching_a_cost_off_never_slows_down(m in machine(), p in phase(), dram in 0.0..=1.0f64, workers in 1u32..200) {
        let with = |m: &Machine, terms| solve(m, &p, &split(dram), workers, &Options { terms, ..Options::default() }).unwrap().tuples_per_s;
        prop_assert!(with(&m, Terms::without("overload").unwrap()) >= with(&m, Terms::default()) * (1.0 - 1e-9));
        // Without the cost workers ask for more, which may cost more than it gains.
        let m = without_loss(&m);
        // With a second curve for single lines a smaller load has a larger part of streams, whose
        // latency grows more. Where growth is steepest at low load (exponents below 1) that can
        // cost more than the smaller load gains: 4% was seen.
        let mut one_curve = m.clone();
        one_curve.tiers.iter_mut().for_each(|tier| tier.loaded_random = None);
        for (m, least) in [(&one_curve, 1.0 - 1e-9), (&m, 0.9)] {
            let all = with(m, Terms::default());
            for name in ["tlb", "rfo", "loaded_latency", "prefetch_waste", "random_share", "ownership", "switches"] {
                let without = with(m, Terms::without(name).unwrap());
                prop_assert!(without >= all * least, "{name}: {} of the rate", without / all);
            }
        }
        let all = with(&m, Terms::default());
        for name in ["duplex", "overlap"] {
            prop_assert!(with(&m, Terms::without(name).unwrap()) <= all * (1.0 + 1e-9), "{name}");
        }
        prop_assert_eq!(Terms::without("nothing"), None);
    }

    #[test]
    fn load_of_others_never_helps_and_never_takes_more_than_their_share(m in machine(), p in phase(), read in 0.0..600.0f64, write in 0.0..600.0f64, own in 0.05..0.95f64, workers in 1u32..200) {
        let background = vec![Background { tier: "cxl".into(), read_gbps: read, write_gbps: write, own_share: own }];
        let with = |options: &Options| solve(&m, &p, &split(0.5), workers, options).unwrap();
        let (alone, shared) = (with(&Options::default()), with(&Options { background, ..Options::default() }));
        prop_assert!(shared.tuples_per_s <= alone.tuples_per_s * (1.0 + 1e-9));
        prop_assert!(shared.tiers.iter().all(|t| t.utilisation <= 1.0));
        // With a flat curve, nothing but the tier's share can be lost.
        let mut flat = without_loss(&m);
        (flat.tiers[1].loaded.ratio_at_peak, flat.tiers[1].loaded_random) = (value(1.0), None);
        let rate = |options: &Options| solve(&flat, &p, &split(0.5), workers, options).unwrap().tuples_per_s;
        let background = vec![Background { tier: "cxl".into(), read_gbps: read, write_gbps: write, own_share: own }];
        let shared = rate(&Options { background, ..Options::default() });
        prop_assert!(shared >= own * rate(&Options::default()) * (1.0 - 1e-9));
    }

    #[test]
    fn every_number_out_of_range_is_refused_by_its_name(m in machine(), pick: prop::sample::Index, bad in prop::sample::select(vec![f64::NAN, f64::INFINITY, -1.0])) {
        let figures = m.figures();
        let path = &pick.get(&figures).path;
        let mut broken = m.clone();
        broken.set_number(path, value(bad)).unwrap();
        let error = broken.check().unwrap_err().to_string();
        prop_assert!(error.contains(&format!("`{path}`")), "{error}");
    }

    #[test]
    fn units_agree(m in machine(), lines in 0.01..4.0f64, tuples in 1e3..1e9f64, workers in 1u32..200) {
        // GB/s are bytes per ns: a tier transfers what the tuples touch, on any machine.
        let mut m = m;
        m.cache.llc_bytes = value(0.0);
        let scan = Phase::new("scan", PhaseKind::Scan, tuples).access(Access::sequential_read("c", lines * 64.0, 1 << 40));
        let s = solve(&m, &scan, &split(1.0), workers, &Options::default()).unwrap();
        prop_assert!((s.tiers[0].bandwidth_gbps * s.time_ns / (tuples * lines * 64.0) - 1.0).abs() < 1e-9);
        prop_assert!((s.tuples_per_s / 1e9 * s.time_ns / tuples - 1.0).abs() < 1e-9);
    }

    #[test]
    fn any_checked_machine_and_phase_survive_being_stored(m in machine(), p in phase(), weights in prop::array::uniform2(0.001..100.0)) {
        prop_assert_eq!(&Machine::from_yaml(&m.to_yaml().unwrap(), "stored.yaml").unwrap(), &m);
        prop_assert_eq!(&serde_json::from_str::<Machine>(&serde_json::to_string(&m).unwrap()).unwrap(), &m);
        prop_assert_eq!(&serde_json::from_str::<Phase>(&serde_json::to_string(&p).unwrap()).unwrap(), &p);
        let shares = TierShares::from_weights(&[("dram", weights[0]), ("cxl", weights[1])]).unwrap();
        let placement = Placement::new(shares.clone()).with_class(StructureClass::HashTable, shares.clone()).with_structure("s", shares);
        prop_assert_eq!(&serde_json::from_str::<Placement>(&serde_json::to_string(&placement).unwrap()).unwrap(), &placement);
    }

    #[test]
    fn compute_alone_scales_with_cores(m in machine(), compute in 0.1..100.0, workers in 1u32..128) {
        let p = Phase::new("p", PhaseKind::Other, 1e6).compute_ns(compute);
        let busy = f64::from(workers).min(m.cores.value);
        let s = solve(&m, &p, &split(1.0), workers.min(m.cores.value as u32), &Options::default()).unwrap();
        prop_assert!((s.tuples_per_s / (busy / compute * 1e9) - 1.0).abs() < 1e-9);
        prop_assert_eq!(s.bottleneck, Bottleneck::Compute);
    }

    #[test]
    fn garbage_profiles_are_errors(cut in 0usize..4000, junk in "[ -~\n]{0,20}") {
        let text = profiles::builtin("nus24").unwrap();
        let at = text.char_indices().map(|(i, _)| i).nth(cut).unwrap_or(text.len());
        let broken = format!("{}{junk}", &text[..at]);
        if let Err(e) = Machine::from_yaml(&broken, "m.yaml") {
            prop_assert!(e.to_string().starts_with("m.yaml:"), "{e}");
        }
    }
}
