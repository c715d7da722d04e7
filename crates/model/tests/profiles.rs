//! Embedded profiles: complete, with sources, consistent with published peaks; and the messages
//! about broken ones.

use tierloom_model::*;

fn machines() -> Vec<Machine> {
    profiles::builtin_names()
        .into_iter()
        .map(|name| profiles::load(name).unwrap())
        .collect()
}

#[test]
fn every_number_has_a_source_and_every_key_a_citation() {
    for machine in machines() {
        let figures = machine.figures();
        assert!(figures.len() >= 15 + 8 * machine.tiers.len());
        for figure in figures {
            assert!(
                figure.source.len() > 5 && figure.value.is_finite(),
                "{}: {figure:?}",
                machine.name
            );
            let keys = figure
                .source
                .split('[')
                .skip(1)
                .filter_map(|s| s.split_once(']'))
                .map(|(key, _)| format!("[{key}]"));
            for key in keys {
                assert!(
                    machine.citations.iter().any(|c| c.starts_with(&key)),
                    "{}: {key} is not cited in full",
                    machine.name
                );
            }
            let published = figure.kind == SourceKind::Published;
            assert!(
                !published
                    || figure.source.contains("25]")
                    || figure.source.contains("24]")
                    || figure.source.contains("26]"),
                "{}: {figure:?}",
                machine.name
            );
        }
    }
}

#[test]
fn names_are_those_of_the_files() {
    for (name, machine) in profiles::builtin_names().into_iter().zip(machines()) {
        assert_eq!(machine.name, name);
        assert!(machine.tier("dram").is_some() && machine.tier("cxl").is_some());
    }
    assert_eq!(
        profiles::nearest("epfl25-full-pf"),
        Some("epfl25-full-pf-on")
    );
    assert_eq!(profiles::nearest("nus"), Some("nus24"));
    assert_eq!(profiles::nearest("zzz"), None);
    assert!(
        profiles::load("nus25")
            .unwrap_err()
            .to_string()
            .contains("did you mean \"nus24\"?")
    );
}

/// Bandwidth of all cores reading one column sequentially, GB/s.
fn scan_gbps(machine: &Machine, weights: &[(&str, f64)], simd: bool) -> f64 {
    let access = Access {
        simd,
        ..Access::sequential_read("c", 64.0, 1 << 45)
    };
    let scan = Phase::new("scan", PhaseKind::Scan, 1e9).access(access);
    let placement = Placement::new(TierShares::from_weights(weights).unwrap());
    let solution = solve(
        machine,
        &scan,
        &placement,
        machine.cores.value as u32,
        &Options::default(),
    )
    .unwrap();
    solution.tiers.iter().map(|t| t.bandwidth_gbps).sum()
}

#[test]
fn vector_loads_reach_the_published_peaks_of_both_tiers() {
    for machine in machines().iter().filter(|m| m.name.starts_with("epfl25")) {
        for tier in &machine.tiers {
            // Without prefetching 48 cores do not fill the DRAM of the whole socket: what they ask
            // for is the published peak.
            let peak = match (&machine.prefetch, tier.name.as_str()) {
                (None, "dram") => 194.5,
                _ => tier.read_gbps.value,
            };
            let peak = peak.min(tier.read_gbps.value)
                * tier.prefetched_share.as_ref().map_or(1.0, |v| v.value)
                * tier.kept_of_peaks(f64::INFINITY);
            let reached = scan_gbps(machine, &[(&tier.name, 1.0)], true) / peak;
            assert!(
                reached > 0.95,
                "{} {}: {reached:.3} of the peak",
                machine.name,
                tier.name
            );
        }
    }
}

#[test]
fn scalar_loads_do_not_reach_the_peak_of_the_full_socket() {
    let machine = profiles::load("epfl25-full-pf-on").unwrap();
    assert!(scan_gbps(&machine, &[("dram", 1.0)], false) < 0.97 * 252.9);
    let cores_needed = |simd: bool| {
        let access = Access {
            simd,
            ..Access::sequential_read("c", 64.0, 1 << 45)
        };
        let scan = Phase::new("scan", PhaseKind::Scan, 1e9).access(access);
        (1..=48).find(|n| {
            solve(
                &machine,
                &scan,
                &Placement::new(TierShares::all("dram")),
                *n,
                &Options::default(),
            )
            .unwrap()
            .tiers[0]
                .utilisation
                > 0.999
        })
    };
    assert!(
        cores_needed(true).is_some_and(|n| n < 48),
        "vector loads saturate with fewer cores"
    );
    assert_eq!(cores_needed(false), None, "scalar loads do not saturate");
}

/// Huang et al. (ADMS 2024): LOAD at 3:2 reaches about 47.5 GB/s, 1.61x of DRAM alone, and 3:2 is
/// the best of their ratios.
#[test]
fn nus24_scans_gain_what_was_published() {
    let machine = profiles::load("nus24").unwrap();
    let at = |dram: f64, cxl: f64| scan_gbps(&machine, &[("dram", dram), ("cxl", cxl)], true);
    assert!((at(1.0, 0.0) - 28.5).abs() < 0.3 && (at(0.0, 1.0) - 20.1).abs() < 0.1);
    assert!((at(3.0, 2.0) - 47.5).abs() < 1.0, "{}", at(3.0, 2.0));
    assert!(
        (at(3.0, 2.0) / at(1.0, 0.0) - 1.61).abs() < 0.1,
        "{}",
        at(3.0, 2.0) / at(1.0, 0.0)
    );
    for (dram, cxl) in [
        (100.0, 1.0),
        (10.0, 1.0),
        (5.0, 1.0),
        (3.0, 1.0),
        (2.0, 1.0),
        (1.0, 1.0),
        (2.0, 3.0),
    ] {
        assert!(
            at(dram, cxl) < at(3.0, 2.0),
            "{dram}:{cxl} is not better than 3:2"
        );
        assert!(
            at(dram, cxl) > at(1.0, 0.0),
            "{dram}:{cxl} beats DRAM alone"
        );
    }
}

/// Lebedev et al. (ADMS 2025): sequential reads on SNC-4 gain up to 72% from the best weights.
#[test]
fn epfl_snc4_reads_gain_close_to_what_was_published() {
    let machine = profiles::load("epfl25-snc4-pf-on").unwrap();
    let best = (1..20)
        .map(|n| {
            scan_gbps(
                &machine,
                &[("dram", f64::from(n)), ("cxl", f64::from(20 - n))],
                true,
            )
        })
        .fold(0.0, f64::max);
    let gain = best / scan_gbps(&machine, &[("dram", 1.0)], true);
    assert!((1.55..1.75).contains(&gain), "{gain}");
}

/// Lebedev et al. (ADMS 2025): loaded DRAM is slower than idle CXL in every setting but full socket
/// without prefetching.
#[test]
fn loaded_dram_passes_idle_cxl_where_published() {
    for machine in machines().iter().filter(|m| m.name.starts_with("epfl25")) {
        let (dram, cxl) = (machine.tier("dram").unwrap(), machine.tier("cxl").unwrap());
        assert_eq!(
            dram.latency_ns(1.0) > cxl.latency_ns(0.0),
            machine.name != "epfl25-full-pf-off",
            "{}",
            machine.name
        );
    }
}

/// One change to a valid profile, and the message about it. The profile is a copy, so that
/// calibrating the real one changes no line here.
fn broken(from: &str, to: &str) -> String {
    let text = include_str!("fixtures/machine.yaml");
    assert!(text.contains(from), "{from}");
    Machine::from_yaml(&text.replacen(from, to, 1), "m.yaml")
        .unwrap_err()
        .to_string()
}

#[test]
fn broken_profiles_name_line_field_and_expectation() {
    let errors = [
        broken("value: 28.5,", "value: -28.5,"),
        broken("value: 28.5,", "value: 0,"),
        broken("value: 28.5,", "value: .nan,"),
        broken("value: 28.5,", "value: .inf,"),
        broken("value: 28.5, ", ""),
        broken("value: 28.5,", "value: fast,"),
        broken("value: 28.5,", "valeu: 28.5,"),
        broken(
            "kind: published, source: \"sequential",
            "kind: guessed, source: \"sequential",
        ),
        broken("    read_gbps:", "    read_bgps:"),
        broken("smt_yield: ", "smt_yeild: "),
        broken("  l2_bytes: ", "  # l2_bytes: "),
        broken("cores: ", "# cores: "),
        broken("value: 0.9,", "value: 1.0,"),
        broken("value: 32, ", "value: 31.5, "),
        broken("name: cxl", "name: cxll"),
        broken("name: cxl", "name: dram"),
        broken("tierloom-machine/1", "tierloom-machine/2"),
        broken("\"1024-entry TLB [NUS24]\"", "\"\""),
        broken("tiers:\n", "tiers: []\nextra:\n"),
        broken("    idle_latency_ns:", "    # idle_latency_ns:"),
        broken("cores: {", "cores: ["),
        broken("cores: { value: 32,", "cores: { value: 32, low: 33,"),
        Machine::from_yaml("", "m.yaml").unwrap_err().to_string(),
        Machine::from_yaml("just text", "m.yaml")
            .unwrap_err()
            .to_string(),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    m.yaml:35: `tiers[0].read_gbps` is -28.5, expected a finite number above 0
    m.yaml:35: `tiers[0].read_gbps` is 0, expected a finite number above 0
    m.yaml:35: `tiers[0].read_gbps` is NaN, expected a finite number above 0
    m.yaml:35: `tiers[0].read_gbps` is inf, expected a finite number above 0
    m.yaml:35: `tiers[0].read_gbps.value` is missing: a number
    m.yaml:35: cannot read machine profile at `tiers[0].read_gbps`: invalid floating point
    m.yaml:35: unknown key "valeu" at `tiers[0].read_gbps`: expected one of value, kind, source, low, high; did you mean "value"?
    m.yaml:35: cannot read machine profile at `tiers[0].read_gbps`: unknown variant `guessed`, expected one of published, derived, assumed, measured, fitted
    m.yaml:35: unknown key "read_bgps" at `tiers[0]`: expected one of name, devices, capacity_bytes, read_gbps, write_gbps, idle_latency_ns, loaded, loaded_random, nt_write_gbps, random_share, prefetched_share, overload_loss, duplex, ownership_ns, write_latency_ns, near_cores, far_ns, switch_ns; did you mean "read_gbps"?
    m.yaml:15: unknown key "smt_yeild": expected one of schema, name, title, description, provenance, citations, cores, smt, smt_yield, cache, tlb, concurrency, overlap, prefetch, tiers, notes, measurements; did you mean "smt_yield"?
    m.yaml:16: `cache.l2_bytes` is missing: a number as { value: .., kind: .., source: .. }
    m.yaml:3: `cores` is missing: a number as { value: .., kind: .., source: .. }
    m.yaml:40: `tiers[0].loaded.knee` is 1, expected a number from 0 up to, but not including, 1
    m.yaml:13: `cores` is 31.5, expected a whole number of at least 1
    m.yaml:42: `tiers[1].name` is "cxll", expected one of dram, hbm, cxl, remote; did you mean "cxl"?
    m.yaml:42: `tiers[1].name` is "dram", expected each tier once (devices of one kind are one tier: add their bandwidths)
    m.yaml:3: `schema` is "tierloom-machine/2", expected "tierloom-machine/1", the only version that this program reads
    m.yaml:21: `tlb.entries.source` is "", expected where the number is from (publication, arithmetic or reason)
    m.yaml:32: unknown key "extra": expected one of schema, name, title, description, provenance, citations, cores, smt, smt_yield, cache, tlb, concurrency, overlap, prefetch, tiers, notes, measurements
    m.yaml:32: `tiers[0].idle_latency_ns` is missing: a number as { value: .., kind: .., source: .. }
    m.yaml:13: cannot read machine profile at `cores`: expected mapping start
    m.yaml:13: `cores.low` is 33, expected a finite number, at most the value
    m.yaml:1: cannot read machine profile: unexpected end of input
    m.yaml:1: cannot read machine profile: expected mapping start
    "#);
}
