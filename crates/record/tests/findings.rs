//! Conclusions that the figures do not allow: a best placement within the noise, of an incomplete
//! run, of wrong answers or of misplaced pages.

use proptest::prelude::*;
use tierloom_record::findings::{PlacementVerdict as Verdict, RunFindings, conclude};
use tierloom_record::{
    Answer, AuditRecord, DataCard, EngineKind, HERE, HostCard, MachineCard, MemoryUse, NodeShare,
    PlacementCard, Provenance, QueryRecord, RunRecord, RunSet, SCHEMA, Settings, Spread,
    StreamRecord, SummaryRecord, ThroughputRecord, TimeBreakdown,
};

/// Times that differ by at most 1%.
const QUIET: [f64; 5] = [1.0, 1.004, 0.996, 1.002, 0.998];

fn run(placements: &[&str]) -> RunRecord {
    RunRecord {
        schema: SCHEMA.into(),
        run_id: "r".into(),
        tool_version: "0.1.0".into(),
        commit: None,
        build: "release".into(),
        started_at: "2026-01-02T03:04:05Z".into(),
        command: vec![],
        workload: "ssb".into(),
        settings: Settings {
            scale_factor: 1.0,
            seed: 1,
            generator_version: 1,
            threads: 8,
            modelled_workers: "all cores".into(),
            repeat: 5,
            warmup: 1,
            page_size: "thp".into(),
            batch_rows: 8192,
            queries: vec!["q1.1".into(), "q2.1".into()],
            placements: placements.iter().map(|p| p.to_string()).collect(),
            machines: vec![],
            time_per_tuple_ns: None,
        },
        host: HostCard {
            cpu_model: "Processor 9000".into(),
            cpus: 8,
            smt: 1,
            caches: vec![],
            kernel: "6.12".into(),
            thp: "madvise".into(),
            numa_balancing: None,
            governor: "performance".into(),
            memory_bytes: 1 << 34,
            tiers: vec![],
            probe: None,
            notes: vec![],
        },
        machines: vec![],
        data: DataCard {
            tables: vec![],
            column_bytes: 1 << 28,
            region_bytes: 1 << 28,
        },
    }
}

fn query(name: &str, machine: &str, placement: &str, times: &[f64]) -> QueryRecord {
    let measured = machine == HERE;
    QueryRecord {
        run_id: "r".into(),
        query: name.into(),
        placement: placement.into(),
        machine: machine.into(),
        provenance: if measured {
            Provenance::Measured
        } else {
            Provenance::Modelled
        },
        engine: EngineKind::Tierloom,
        time_ms: Spread::of(times.to_vec()).unwrap(),
        speedup_over_dram: None,
        plan_ms: None,
        text_ms: None,
        answer: measured.then(|| Answer {
            rows: 1,
            digest: name.into(),
            checked: true,
            check: "equals DuckDB's stored answer on the same data".into(),
        }),
        shares: None,
        bottleneck: None,
        tiers: vec![],
        phases: vec![],
        operators: vec![],
        counters: vec![],
    }
}

/// A whole run of two queries: machine, placement, factor of its time, repetitions of that time.
fn whole(figures: &[(&str, &str, f64, &[f64])]) -> RunSet {
    let mut placements: Vec<&str> = figures.iter().map(|f| f.1).collect();
    placements.dedup();
    let of = |(machine, placement, factor, times): &(&str, &str, f64, &[f64])| {
        let times = |base: f64| times.iter().map(|t| base * factor * t).collect::<Vec<_>>();
        [
            query("q1.1", machine, placement, &times(10.0)),
            query("q2.1", machine, placement, &times(30.0)),
        ]
    };
    let queries: Vec<QueryRecord> = figures.iter().flat_map(of).collect();
    let mut run = run(&placements);
    for (name, ..) in figures.iter().filter(|f| f.0 != HERE) {
        if !run.machines.iter().any(|card| card.name == *name) {
            run.settings.machines.push(name.to_string());
            run.machines.push(MachineCard {
                name: name.to_string(),
                title: "a server".into(),
                citations: vec![],
                figures: vec![],
                scale_factor: Some(30.0),
                table_bytes: None,
            });
        }
    }
    let count = queries.len() as u32;
    RunSet {
        run,
        queries,
        throughputs: vec![],
        summary: Some(summary(count)),
    }
}

fn summary(count: u32) -> SummaryRecord {
    SummaryRecord {
        run_id: "r".into(),
        interrupted: false,
        finished: count,
        planned: count,
        means: vec![],
        placements: vec![],
        intensity: vec![],
        notes: vec!["Only the run knows this.".into()],
        findings: vec![],
        times: TimeBreakdown::default(),
        memory: MemoryUse::default(),
    }
}

fn streams(placement: &str, rates: &[f64]) -> ThroughputRecord {
    ThroughputRecord {
        run_id: "r".into(),
        placement: placement.into(),
        machine: HERE.into(),
        provenance: Provenance::Measured,
        engine: EngineKind::Tierloom,
        duration_s: 60.0,
        queries: 100,
        queries_per_hour: rates.iter().sum(),
        per_stream_queries_per_hour: Spread::of(rates.to_vec()).unwrap(),
        streams: (0..rates.len())
            .map(|stream| StreamRecord {
                stream: stream as u32,
                queries: 10,
                elapsed_s: 60.0,
                queries_per_hour: rates[stream],
                time_ms: None,
            })
            .collect(),
        capacity: Vec::new(),
        rates: Vec::new(),
    }
}

fn audit(shares: [f64; 2]) -> AuditRecord {
    let of = |shares: [f64; 2]| {
        let node = |(node, share)| NodeShare { node, share };
        (0..).zip(shares).map(node).collect::<Vec<_>>()
    };
    AuditRecord {
        bytes_checked: 1 << 28,
        pages_checked: 128,
        pages_absent: 0,
        requested: of([0.6, 0.4]),
        effective: of([0.6, 0.4]),
        actual: of(shares),
        worst_deviation: (shares[0] - 0.6).abs(),
    }
}

fn card(placement: &str, shares: [f64; 2]) -> PlacementCard {
    PlacementCard {
        placement: placement.into(),
        meaning: String::new(),
        placed_here: true,
        why_not: None,
        columns: vec![],
        audit_before: Some(audit(shares)),
        audit_after: None,
    }
}

#[track_caller]
fn only(found: &RunFindings) -> &Verdict {
    assert_eq!(found.best.len(), 1, "{:?}", found.best);
    &found.best[0].outcome
}

#[test]
fn the_answer_comes_in_three_sentences() {
    let found = conclude(&whole(&[
        (HERE, "dram", 1.0, &QUIET),
        ("nus24", "dram", 0.1, &QUIET),
        ("nus24", "3:2", 0.08, &QUIET),
    ]));
    assert_eq!(
        found.answer,
        [
            "Measured: 2 queries of the Star Schema Benchmark, scale factor 1, 5 repetitions, on \
             this machine (Processor 9000, 8 threads), 2026-01-02; modelled from that work: nus24 \
             at scale factor 30.",
            "Best placement (ratios of geometric means over queries, [min..max] over repetitions): \
             on nus24 (modelled, scale factor 30), 3:2, 1.25 [1.25..1.25] times as fast as dram; \
             on this machine (measured), dram, the only one with figures, 17.3 ms per query \
             (geometric mean of 2 queries).",
            "Next: measure it on a machine like nus24: `tierloom run ssb --sf 30 --placement \
             dram,3:2`; a profile of your own machine is made there by `tierloom characterize -o \
             mine.yaml` and used here with `--machine mine.yaml`.",
        ]
    );
    let sentences: Vec<&str> = found.sentences().collect();
    assert_eq!(sentences[..3], found.answer.each_ref().map(String::as_str));
    assert!(sentences.contains(&"Only the run knows this."));
}

#[test]
fn a_lead_beyond_the_noise_is_one() {
    let found = conclude(&whole(&[
        (HERE, "dram", 1.0, &QUIET),
        (HERE, "3:2", 0.8, &QUIET),
        (HERE, "9:1", 0.801, &QUIET),
        (HERE, "cxl", 2.0, &QUIET),
    ]));
    let Verdict::Better {
        placement,
        over,
        ratio,
        equals,
    } = only(&found)
    else {
        panic!("{:?}", found.best)
    };
    assert_eq!((placement.as_str(), over.as_str()), ("3:2", "dram"));
    assert_eq!(equals, &["9:1"], "0.1% apart is a tie");
    assert!((ratio.median - 1.25).abs() < 1e-9);
    assert!(
        ratio.min < ratio.median && ratio.median < ratio.max,
        "{ratio:?}"
    );
    assert!(found.answer[1].contains("3:2 (no worse within the noise: 9:1), 1.25 ["));
    assert!(
        found.answer[2].contains("SET tierloom.placement = '3:2'"),
        "{}",
        found.answer[2]
    );
}

#[test]
fn a_lead_within_the_noise_is_none() {
    let noisy = [1.0, 1.3, 0.8, 1.2, 0.9];
    let found = conclude(&whole(&[
        (HERE, "dram", 1.0, &noisy),
        (HERE, "3:2", 0.9, &noisy),
    ]));
    assert!(matches!(
        only(&found),
        Verdict::NoneBetter { than, next, .. } if than == "dram" && next == "3:2"
    ));
    let [_, best, next] = &found.answer;
    assert!(
        best.contains("no placement is better than dram beyond the noise"),
        "{best}"
    );
    assert!(
        next.contains("--placement dram,3:2 --repeat 15") && next.contains("idle machine"),
        "{next}"
    );
}

#[test]
fn less_than_one_per_cent_is_no_lead_however_certain() {
    for machine in [HERE, "nus24"] {
        let found = conclude(&whole(&[
            (machine, "dram", 1.0, &[1.0; 5]),
            (machine, "3:2", 0.995, &[1.0; 5]),
        ]));
        assert!(
            matches!(only(&found), Verdict::NoneBetter { .. }),
            "{machine}"
        );
    }
}

#[test]
fn where_dram_is_best_the_next_is_named() {
    let found = conclude(&whole(&[
        (HERE, "dram", 1.0, &QUIET),
        (HERE, "columns:8", 1.1, &QUIET),
        (HERE, "cxl", 2.0, &QUIET),
    ]));
    assert!(matches!(
        only(&found),
        Verdict::Better { placement, over, .. } if placement == "dram" && over == "columns:8"
    ));
    assert!(found.answer[1].contains("times as fast as the next, columns:8"));
    assert!(found.answer[2].contains("leave tables in dram"));
}

#[test]
fn too_few_repetitions_show_nothing() {
    let mut set = whole(&[
        (HERE, "dram", 1.0, &[1.0, 1.01, 0.99]),
        (HERE, "3:2", 0.5, &[1.0, 1.01, 0.99]),
    ]);
    set.run.settings.repeat = 3;
    let found = conclude(&set);
    assert!(matches!(only(&found), Verdict::TooFewRepetitions { .. }));
    assert!(found.answer[1].contains("3 repetitions cannot show a difference"));
    assert!(found.answer[2].contains("--repeat 15"));
}

#[test]
fn modelled_times_of_one_execution_are_compared_with_each_other() {
    // Executions differ by 60%, but each is 10% faster under 3:2.
    let spread = [1.0, 1.6, 1.2, 1.4, 1.1];
    let found = conclude(&whole(&[
        ("nus24", "dram", 1.1, &spread),
        ("nus24", "3:2", 1.0, &spread),
    ]));
    let Verdict::Better { ratio, .. } = only(&found) else {
        panic!("{:?}", found.best)
    };
    assert!((ratio.max - ratio.min).abs() < 1e-9, "{ratio:?}");
}

#[test]
fn without_dram_the_fastest_is_compared_with_the_next() {
    let found = conclude(&whole(&[
        (HERE, "3:2", 1.0, &QUIET),
        (HERE, "cxl", 2.0, &QUIET),
    ]));
    assert!(matches!(
        only(&found),
        Verdict::Better { placement, over, .. } if placement == "3:2" && over == "cxl"
    ));
}

#[test]
fn one_placement_is_not_called_best_of_several() {
    let found = conclude(&whole(&[(HERE, "dram", 1.0, &QUIET)]));
    assert_eq!(
        only(&found),
        &Verdict::Alone {
            placement: "dram".into()
        }
    );
    assert!(found.answer[1].contains("dram, the only one with figures"));
    assert!(
        found.answer[2].contains("--placement dram,cxl,3:2 --machine nus24"),
        "{}",
        found.answer[2]
    );
}

#[test]
fn wrong_answers_allow_no_conclusion() {
    let mut set = whole(&[(HERE, "dram", 1.0, &QUIET), (HERE, "3:2", 0.5, &QUIET)]);
    set.queries[0].answer.as_mut().unwrap().digest = "different".into();
    let found = conclude(&set);
    assert!(found.best.is_empty());
    for sentence in &found.answer[1..] {
        assert!(sentence.contains("answers differ"), "{sentence}");
    }
    assert!(found.warnings[0].contains("q1.1"), "{:?}", found.warnings);
}

#[test]
fn misplaced_pages_are_not_compared() {
    let mut set = whole(&[
        (HERE, "dram", 1.0, &QUIET),
        (HERE, "3:2", 0.5, &QUIET),
        (HERE, "9:1", 0.9, &QUIET),
    ]);
    let cards = &mut set.summary.as_mut().unwrap().placements;
    cards.push(card("3:2", [0.7, 0.3]));
    cards.push(card("9:1", [0.603, 0.397]));
    let found = conclude(&set);
    assert!(matches!(only(&found), Verdict::Better { placement, .. } if placement == "9:1"));
    assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
    assert!(found.warnings[0].contains("3:2") && found.warnings[0].contains("10.00%"));
}

#[test]
fn an_emulated_processor_has_no_best_placement() {
    let mut set = whole(&[(HERE, "dram", 1.0, &QUIET), (HERE, "3:2", 0.5, &QUIET)]);
    set.run.host.cpu_model = "QEMU TCG CPU version 2.5+".into();
    let found = conclude(&set);
    assert!(found.best.is_empty());
    assert!(found.answer[1].contains("emulated") && found.answer[2].contains("real processor"));
}

#[test]
fn an_incomplete_placement_does_not_win() {
    let mut set = whole(&[(HERE, "dram", 1.0, &QUIET), (HERE, "3:2", 0.5, &QUIET)]);
    set.queries.pop();
    let summary = set.summary.as_mut().unwrap();
    (summary.interrupted, summary.finished) = (true, 3);
    let found = conclude(&set);
    assert!(matches!(only(&found), Verdict::Alone { placement } if placement == "dram"));
    assert!(found.answer[2].contains("run it to its end"));
    set.summary = None;
    assert!(conclude(&set).warnings[0].contains("killed before its end: it left 3 figures"));
    set.queries.clear();
    let nothing = conclude(&set);
    assert!(nothing.answer[1].contains("none can be named"));
    assert!(nothing.answer[2].contains("run it to its end"));
}

#[test]
fn a_debug_build_is_measured_again_first() {
    let mut set = whole(&[(HERE, "dram", 1.0, &QUIET), (HERE, "3:2", 0.5, &QUIET)]);
    set.run.build = "dev".into();
    let next = &conclude(&set).answer[2];
    assert!(
        next.contains("`cargo run --release -- run ssb --sf 1"),
        "{next}"
    );
}

#[test]
fn sessions_are_compared_by_throughput() {
    let mut set = whole(&[]);
    set.run.workload = "tpch".into();
    set.run.settings.placements = vec!["dram".into(), "3:2".into()];
    let rates = [100.0, 101.0, 99.0, 100.5, 99.5];
    set.throughputs = vec![
        streams("dram", &rates),
        streams("3:2", &rates.map(|r| r * 1.2)),
    ];
    let found = conclude(&set);
    assert!(matches!(
        only(&found),
        Verdict::Better { placement, ratio, .. }
            if placement == "3:2" && (ratio.median - 1.2).abs() < 1e-9
    ));
    let [measured, best, _] = &found.answer;
    assert!(
        measured.contains("throughput of 5 concurrent sessions over 2 queries of TPC-H")
            && measured.contains("60 s per placement"),
        "{measured}"
    );
    assert!(best.contains("over sessions"), "{best}");
    assert!(
        found.evidence.contains(
            &"On this machine (measured), queries per hour of all sessions: dram 500, 3:2 600."
                .to_owned()
        ),
        "{:?}",
        found.evidence
    );
    assert!(found.cautions.is_empty(), "{:?}", found.cautions);
    set.throughputs.pop();
    assert!(matches!(only(&conclude(&set)), Verdict::Alone { .. }));
}

#[test]
fn noise_is_counted_and_its_worst_case_named() {
    let noisy = [1.0, 1.2, 0.9, 1.0, 1.0];
    let mut set = whole(&[(HERE, "dram", 1.0, &QUIET)]);
    assert!(
        conclude(&set)
            .evidence
            .iter()
            .any(|s| s.starts_with("Quiet: in all 2"))
    );
    set.queries[1].time_ms = Spread::of(noisy.to_vec()).unwrap();
    let found = conclude(&set).evidence;
    assert!(
        found
            .iter()
            .any(|s| s.starts_with("Noisy: in 1 of 2") && s.contains("q2.1 (dram, tierloom)")),
        "{found:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Records of other versions may hold anything that is a number.
    #[test]
    fn any_times_give_three_whole_sentences(
        times in prop::collection::vec(prop::collection::vec(0.0f64..1e9, 1..7), 1..5),
        modelled in any::<bool>(),
    ) {
        let machine = if modelled { "nus24" } else { HERE };
        let names = ["dram", "3:2", "cxl", "tier"];
        let figures: Vec<(&str, &str, f64, &[f64])> = times
            .iter()
            .zip(names)
            .map(|(times, name)| (machine, name, 1.0, times.as_slice()))
            .collect();
        let found = conclude(&whole(&figures));
        for sentence in found.sentences() {
            prop_assert!(sentence.ends_with('.') || sentence.ends_with(')'), "{}", sentence);
            prop_assert!(!sentence.contains("NaN"), "{}", sentence);
        }
    }
}
