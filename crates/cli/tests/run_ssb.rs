//! `tierloom run ssb` run as a program: what is measured and what is modelled, and that the figures
//! agree with each other.
#![cfg(feature = "sql")]

mod common;

use common::runs::{
    PLACEMENTS, QUERIES, check_spread, has_cxl, measured, modelled, small_run, table,
};
use std::collections::{BTreeMap, BTreeSet};
use tierloom_record::{EngineKind, HERE, Provenance, QueryRecord};

#[test]
fn every_query_is_measured_here_and_modelled_where_tiers_are_missing() {
    let run = small_run(&[]);
    let table = table(&run);
    let tierloom = |machine: &str, placement: &str| {
        table.get(&(machine.into(), placement.into(), EngineKind::Tierloom))
    };
    let machines = if has_cxl(&run) {
        vec![HERE]
    } else {
        vec!["nus24", "epfl25-full-pf-on"]
    };
    for machine in machines {
        for placement in PLACEMENTS {
            assert_eq!(
                tierloom(machine, placement).unwrap(),
                &QUERIES,
                "{placement} on {machine}"
            );
        }
    }
    assert_eq!(tierloom(HERE, "dram").unwrap(), &QUERIES);
    for q in &run.queries {
        assert_eq!(
            q.machine == HERE,
            q.provenance == Provenance::Measured,
            "{} {}",
            q.query,
            q.machine
        );
        assert_eq!(q.run_id, run.run.run_id);
    }
    let summary = run.summary.unwrap();
    assert!(!summary.interrupted);
    assert_eq!(
        summary.finished, summary.planned,
        "everything planned was finished"
    );
    assert_eq!(summary.finished as usize, run.queries.len());
}

#[test]
fn measured_answers_are_checked_and_modelled_figures_have_none() {
    let run = small_run(&[]);
    for q in measured(&run) {
        let answer = q.answer.as_ref().unwrap();
        assert!(answer.checked, "{}: {}", q.query, answer.check);
        assert_eq!(answer.digest.len(), 16);
        assert!(
            q.plan_ms.unwrap() > 0.0 && !q.operators.is_empty(),
            "{}",
            q.query
        );
        assert!(q.placement != "dram" || !q.phases.is_empty(), "{}", q.query);
        // Times from text to answer exist under the loading placement only, as many as there are
        // timed executions.
        let texts = q.text_ms.as_ref().map(|spread| spread.values.len());
        let expected = (q.placement == "dram").then_some(q.time_ms.values.len());
        assert_eq!(texts, expected, "{} under {}", q.query, q.placement);
    }
    for q in modelled(&run) {
        assert!(
            q.answer.is_none() && q.plan_ms.is_none() && q.operators.is_empty(),
            "{}",
            q.query
        );
        let shares = q.shares.unwrap();
        let all = [
            shares.compute,
            shares.cache,
            shares.latency,
            shares.bandwidth,
        ];
        assert!(all.iter().all(|s| (0.0..=1.0).contains(s)), "{shares:?}");
        assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{shares:?}");
        assert!(q.bottleneck.as_ref().is_some_and(|b| !b.is_empty()));
        assert!(!q.tiers.is_empty());
        for tier in &q.tiers {
            assert!(
                (0.0..=1.000_001).contains(&tier.utilisation),
                "{} {tier:?}",
                q.query
            );
        }
    }
}

#[test]
fn spreads_speedups_and_means_follow_from_the_values() {
    let run = small_run(&[]);
    for q in &run.queries {
        check_spread(&q.time_ms, 2);
        let same = |r: &&QueryRecord| {
            r.query == q.query
                && r.machine == q.machine
                && r.engine == q.engine
                && r.placement == "dram"
        };
        let dram = run.queries.iter().find(same).unwrap();
        let speedup = dram.time_ms.median / q.time_ms.median;
        assert!(
            (q.speedup_over_dram.unwrap() - speedup).abs() < 1e-9 * speedup,
            "{} {}",
            q.query,
            q.placement
        );
    }
    let summary = run.summary.as_ref().unwrap();
    let groups: BTreeSet<_> = table(&run).into_keys().collect();
    assert_eq!(summary.means.len(), groups.len());
    for mean in &summary.means {
        let members = run.queries.iter().filter(|q| {
            q.machine == mean.machine && q.placement == mean.placement && q.engine == mean.engine
        });
        let logs: Vec<f64> = members.map(|q| q.time_ms.median.ln()).collect();
        let expected = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        assert!(
            (mean.geomean_ms - expected).abs() < 1e-9 * expected,
            "{mean:?}"
        );
        assert_eq!(mean.queries as usize, logs.len());
        assert_eq!(
            mean.provenance == Provenance::Measured,
            mean.machine == HERE
        );
    }
}

#[test]
fn every_measured_placement_has_an_audit_that_agrees() {
    let run = small_run(&["--placement", "dram,0,0=100%"]);
    let summary = run.summary.as_ref().unwrap();
    let placed: BTreeSet<&str> = measured(&run).map(|q| q.placement.as_str()).collect();
    assert_eq!(placed, BTreeSet::from(["0", "0=100%", "dram"]));
    for card in summary
        .placements
        .iter()
        .filter(|c| placed.contains(c.placement.as_str()))
    {
        assert!(card.placed_here && card.why_not.is_none());
        for audit in [&card.audit_before, &card.audit_after] {
            let audit = audit.as_ref().expect("an audit");
            assert!(
                audit.worst_deviation < 0.01,
                "{}: {audit:?}",
                card.placement
            );
            assert_eq!(audit.pages_absent, 0, "{}", card.placement);
            assert_eq!(
                audit.bytes_checked, run.run.data.region_bytes,
                "{}",
                card.placement
            );
            let sum = audit.actual.iter().map(|s| s.share).sum::<f64>();
            assert!((sum - 1.0).abs() < 1e-9, "{audit:?}");
        }
    }
    let cards: Vec<&str> = summary
        .placements
        .iter()
        .map(|c| c.placement.as_str())
        .collect();
    assert_eq!(cards.len(), 3, "one card each: {cards:?}");
}

#[test]
fn answers_do_not_depend_on_placement_threads_or_run() {
    let digests = |args: &[&str]| {
        let run = small_run(args);
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for q in measured(&run) {
            let digest = q.answer.as_ref().unwrap().digest.clone();
            found.entry(q.query.clone()).or_default().insert(digest);
        }
        assert!(found.values().all(|d| d.len() == 1), "{found:?}");
        found
    };
    let one = digests(&[
        "--seed",
        "7",
        "--threads",
        "1",
        "--placement",
        "dram,0,0=100%",
    ]);
    assert_eq!(one.len(), 13);
    assert_eq!(digests(&["--seed", "7", "--threads", "2"]), one);
    assert_ne!(digests(&["--seed", "8"]), one, "another seed is other data");
}

#[test]
fn an_answer_without_a_stored_one_is_not_called_checked() {
    let run = small_run(&["--seed", "7", "--queries", "q1.1"]);
    for q in measured(&run) {
        let answer = q.answer.as_ref().unwrap();
        assert!(
            !answer.checked && answer.check.contains("no stored answer"),
            "{answer:?}"
        );
    }
    let findings = run.summary.unwrap().findings.join("\n");
    assert!(findings.contains("No answer was checked"), "{findings}");
}

#[test]
fn times_and_memory_add_up() {
    let run = small_run(&[]);
    let summary = run.summary.as_ref().unwrap();
    let t = summary.times;
    let parts = [
        t.generate_s,
        t.place_s,
        t.plan_s,
        t.execute_s,
        t.audit_s,
        t.probe_s,
        t.model_s,
        t.record_s,
    ];
    assert!(parts.iter().all(|p| *p >= 0.0 && p.is_finite()), "{t:?}");
    assert!(parts.iter().sum::<f64>() <= t.total_s * 1.001, "{t:?}");
    let executed = measured(&run).flat_map(|q| &q.time_ms.values).sum::<f64>();
    assert!(executed / 1e3 <= t.execute_s, "{executed} ms in {t:?}");

    let data = &run.run.data;
    assert_eq!(data.tables.len(), 5);
    assert_eq!(
        data.tables.iter().map(|t| t.bytes).sum::<u64>(),
        data.column_bytes
    );
    assert!(data.region_bytes >= data.column_bytes);
    let rows: BTreeMap<&str, u64> = data
        .tables
        .iter()
        .map(|t| (t.name.as_str(), t.rows))
        .collect();
    assert_eq!(
        (rows["customer"], rows["supplier"], rows["part"]),
        (300, 20, 2_000)
    );
    let memory = summary.memory;
    let [loaded, loading, peak] = [
        memory.loaded_bytes,
        memory.loading_peak_bytes,
        memory.peak_resident_bytes,
    ]
    .map(Option::unwrap);
    assert!(
        loaded >= data.column_bytes,
        "the columns are in it: {memory:?}"
    );
    assert!(
        loading >= data.column_bytes && peak >= loading,
        "{memory:?}"
    );
    for card in &summary.placements {
        assert_eq!(
            card.columns.iter().map(|c| c.bytes).sum::<u64>(),
            data.column_bytes,
            "{}",
            card.placement
        );
    }
}

#[test]
fn the_baseline_answers_alike_and_is_told_apart() {
    let run = small_run(&["--baseline"]);
    let plain: Vec<&QueryRecord> = measured(&run)
        .filter(|q| q.engine == EngineKind::Datafusion && q.placement == "dram")
        .collect();
    assert_eq!(plain.len(), 13);
    for q in plain {
        let ours = run
            .find(&q.query, "dram", HERE, EngineKind::Tierloom)
            .unwrap();
        assert_eq!(
            q.answer.as_ref().unwrap().digest,
            ours.answer.as_ref().unwrap().digest,
            "{}",
            q.query
        );
        check_spread(&q.time_ms, 2);
    }
    assert!(modelled(&run).all(|q| q.engine == EngineKind::Tierloom));
    let summary = run.summary.unwrap();
    assert_eq!(
        (summary.finished, summary.finished as usize),
        (summary.planned, run.queries.len())
    );
    assert!(
        summary
            .means
            .iter()
            .any(|m| m.engine == EngineKind::Datafusion)
    );
    assert!(
        summary
            .findings
            .iter()
            .any(|f| f.contains("DataFusion") && f.contains("ratio")),
        "{:?}",
        summary.findings
    );
}
