//! Runs beside publications: a verdict must follow from the runs alone, must say "unclear" where
//! the repetitions do not decide, and must never be given for runs that are not there.

mod support;

use proptest::prelude::*;
use support::{bench, task};
use tierloom_record::findings::{PublishedVerdict, fraction, of_publication, published_sentences};
use tierloom_record::{
    BenchRecord, FITS_CACHES, FigureRecord, OperatorPhase, OperatorTaskRecord, Provenance,
    PublicationRecord, PublishedPoint, PublishedRun, PublishedSeries, Record, RecordSet,
    RecordWriter, Remark, SCHEMA, Spread, TaskRecord,
};

fn figure(published: Option<f64>) -> FigureRecord {
    FigureRecord {
        id: "f".into(),
        paper: "P25".into(),
        what: "3:2 over DRAM".into(),
        series: String::new(),
        x: None,
        x_name: String::new(),
        role: "check".into(),
        because: None,
        machine: "m".into(),
        unit: "%".into(),
        published,
        relation: None,
        modelled: 50.0,
        error: None,
        agrees: None,
        remark: None,
        nearest: None,
    }
}

fn run(run_id: &str, share_percent: Option<f64>) -> PublishedRun {
    PublishedRun {
        run_id: run_id.into(),
        share_percent,
    }
}

fn point(published: Option<f64>, limits: (Option<f64>, Option<f64>)) -> PublishedPoint {
    PublishedPoint {
        x: None,
        figure: Some(figure(published)),
        relation_low: limits.0,
        relation_high: limits.1,
        noise_percent: 3.0,
        runs: vec![run("a", None)],
        versus: Some("b".into()),
        left_out: None,
    }
}

fn record(quantity: &str, point: PublishedPoint) -> PublicationRecord {
    PublicationRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: "2026-01-02T03:04:05Z".into(),
        tool_version: "0.1.0".into(),
        paper: "P25".into(),
        citation: "Doe et al., 2025".into(),
        file: "suites/a.yaml".into(),
        scale: 1.0 / 64.0,
        series: vec![PublishedSeries {
            name: "f".into(),
            what: "3:2 over DRAM".into(),
            workload: "w".into(),
            line: 3,
            x_name: None,
            phase: None,
            quantity: quantity.into(),
            unit: "%".into(),
            bytes_per_tuple: Some(8.0),
            points: vec![point],
        }],
    }
}

/// A run whose main task did this many operations per second in each repetition.
fn at(run_id: &str, per_s: &[f64]) -> BenchRecord {
    let main = TaskRecord {
        operations_per_s: Spread::of(per_s.to_vec()),
        ..task("main")
    };
    BenchRecord {
        tasks: vec![main],
        ..bench(run_id, vec![])
    }
}

fn verdict(quantity: &str, point: PublishedPoint, benches: &[BenchRecord]) -> PublishedVerdict {
    let record = record(quantity, point);
    of_publication(&record, benches).remove(0).verdict
}

#[test]
fn a_relation_is_judged_by_the_whole_range_of_the_repetitions() {
    let ask = |fast: &[f64], limits| {
        let benches = [at("a", fast), at("b", &[100.0, 102.0])];
        verdict("gain_percent", point(None, limits), &benches)
    };
    let above = (Some(0.0), None);
    assert_eq!(ask(&[150.0, 160.0], above), PublishedVerdict::Holds);
    assert_eq!(ask(&[50.0, 60.0], above), PublishedVerdict::Fails);
    assert_eq!(ask(&[101.0, 160.0], above), PublishedVerdict::Unclear);
    assert_eq!(
        ask(&[150.0], above),
        PublishedVerdict::Unclear,
        "one repetition has no range"
    );
    assert_eq!(
        ask(&[150.0, 160.0], (Some(-5.0), Some(5.0))),
        PublishedVerdict::Fails
    );
}

#[test]
fn a_published_gain_holds_if_both_win_or_both_lose() {
    let benches = [at("a", &[150.0; 2]), at("b", &[100.0; 2])];
    let ask = |published| {
        verdict(
            "gain_percent",
            point(Some(published), (None, None)),
            &benches,
        )
    };
    assert_eq!(ask(61.0), PublishedVerdict::Holds);
    assert_eq!(ask(-20.0), PublishedVerdict::Fails);
    assert_eq!(
        ask(1.0),
        PublishedVerdict::Value,
        "within the precision of the number"
    );
    let ask = |published| verdict("ratio", point(Some(published), (None, None)), &benches);
    assert_eq!(ask(2.4), PublishedVerdict::Holds);
    assert_eq!(ask(0.5), PublishedVerdict::Fails);
}

#[test]
fn a_value_of_another_machine_is_not_judged() {
    let benches = [at("a", &[2e6])];
    let record = record("mops", point(Some(90.0), (None, None)));
    let answer = of_publication(&record, &benches).remove(0);
    assert_eq!(answer.verdict, PublishedVerdict::Value);
    assert_eq!(answer.measured.unwrap().value, 2.0);
    assert!(!answer.is_judged());
}

#[test]
fn runs_that_are_left_out_missing_or_invalid_give_no_verdict() {
    let left_out = PublishedPoint {
        left_out: Some("no cxl tier".into()),
        ..point(None, (Some(0.0), None))
    };
    let both = [at("a", &[150.0]), at("b", &[100.0])];
    let reason = |verdict| match verdict {
        PublishedVerdict::NotAsked(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        reason(verdict("gain_percent", left_out, &both)),
        "no cxl tier"
    );
    let ask = |benches: &[BenchRecord]| {
        reason(verdict(
            "gain_percent",
            point(None, (Some(0.0), None)),
            benches,
        ))
    };
    assert!(ask(&both[..1]).contains("not among the records"));
    let invalid = BenchRecord {
        valid: false,
        ..both[1].clone()
    };
    assert!(ask(&[both[0].clone(), invalid]).contains("invalid"));
    let unknown = reason(verdict(
        "utilisation",
        point(None, (Some(0.0), None)),
        &both,
    ));
    assert!(unknown.contains("model only"), "{unknown}");
}

#[test]
fn the_best_of_several_placements_has_a_share_a_gain_and_an_addition() {
    let ask = |quantity: &str, runs: &[(&str, f64)]| {
        let runs = runs
            .iter()
            .map(|(id, share)| run(id, Some(*share)))
            .collect();
        let point = PublishedPoint {
            runs,
            versus: None,
            ..point(Some(40.0), (None, None))
        };
        let benches = [
            at("d", &[100.0, 101.0, 102.0]),
            at("m", &[158.0, 160.0, 162.0]),
            at("n", &[157.0, 159.0, 160.0]),
            at("c", &[50.0]),
        ];
        let record = record(quantity, point);
        of_publication(&record, &benches).remove(0).measured
    };
    let all = [("d", 0.0), ("n", 30.0), ("m", 40.0), ("c", 100.0)];
    let share = ask("best_share", &all).unwrap();
    assert_eq!((share.low, share.value, share.high), (30.0, 40.0, 40.0));
    let gain = ask("best_gain_percent", &all).unwrap();
    assert!((gain.value - 58.4).abs() < 0.1, "{gain:?}");
    let added = ask("best_added_share", &all).unwrap();
    assert!((added.value - 118.0).abs() < 0.1, "{added:?}");
    assert_eq!(
        ask("best_added_share", &all[..3]),
        None,
        "nothing is on the second tier alone"
    );
}

#[test]
fn a_phase_of_an_operator_has_its_own_rate() {
    let phase = |name: &str, seconds: f64| OperatorPhase {
        name: name.into(),
        tuples: 100,
        counted: true,
        seconds: Spread::of(vec![seconds]),
        traffic: vec![],
    };
    let of = |run_id: &str, build: f64, probe: f64| {
        let operator = OperatorTaskRecord {
            name: "hash-join".into(),
            tuples: 200,
            passes: 2,
            phases: vec![phase("build", build), phase("probe", probe)],
            counts: vec![],
        };
        let main = TaskRecord {
            operator: Some(operator),
            ..task("main")
        };
        BenchRecord {
            tasks: vec![main],
            ..bench(run_id, vec![])
        }
    };
    let benches = [of("a", 2.0, 1.0), of("b", 1.0, 4.0)];
    let mut record = record("ratio", point(Some(2.0), (None, None)));
    for (name, expected) in [("build", 0.5), ("probe", 4.0)] {
        record.series[0].phase = Some(name.into());
        let answers = of_publication(&record, &benches);
        assert_eq!(answers[0].measured.unwrap().value, expected, "{name}");
    }
    record.series[0].quantity = "gbps".into();
    let gbps = of_publication(&record, &benches)[0].measured.unwrap().value;
    assert!((gbps - 200.0 * 8.0 / 1e9).abs() < 1e-15, "{gbps}");
}

#[test]
fn sentences_count_the_verdicts_and_name_scale_caches_and_reasons() {
    let cached = Remark {
        invalidates: false,
        text: format!("main: fits; {FITS_CACHES}"),
    };
    let mut benches = [at("a", &[50.0; 2]), at("b", &[100.0; 2])];
    benches[0].remarks.push(cached);
    let mut record = record("gain_percent", point(Some(61.0), (None, None)));
    record.series.push(PublishedSeries {
        points: vec![PublishedPoint {
            left_out: Some("no cxl tier".into()),
            ..point(Some(20.0), (None, None))
        }],
        ..record.series[0].clone()
    });
    let said = published_sentences(&record, &of_publication(&record, &benches)).join("\n");
    for part in [
        "P25, a.yaml: 2 published relations and signs; hold here: 0, do not: 1, unclear within",
        "cannot be asked here: 1.",
        "Do not hold here: f (in the caches).",
        "cannot be asked here: no cxl tier.",
        "that the caches here can hold, which says nothing about memory: 1 figure.",
        "1/64 of the published sizes",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn publications_survive_files_and_only_the_last_one_of_a_file_counts() {
    let record = record("ratio", point(Some(2.0), (Some(1.0), None)));
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, "test");
    writer
        .write(&Record::Publication(Box::new(record.clone())))
        .unwrap();
    let set = RecordSet::parse(std::str::from_utf8(&bytes).unwrap(), "test").unwrap();
    assert_eq!(set.publications, std::slice::from_ref(&record));
    assert!(!set.is_empty());
    let later = PublicationRecord {
        made_at: "later".into(),
        ..record.clone()
    };
    let other = PublicationRecord {
        file: "b.yaml".into(),
        ..record
    };
    let more = RecordSet {
        publications: vec![other, later],
        ..RecordSet::default()
    };
    let all = RecordSet::merged([set, more]);
    let made: Vec<_> = all
        .latest_publications()
        .iter()
        .map(|r| r.made_at.as_str())
        .collect();
    assert_eq!(made, ["later", "2026-01-02T03:04:05Z"]);
}

#[test]
fn a_scale_is_said_as_a_part_of_one_where_it_is_one() {
    assert_eq!(fraction(1.0 / 64.0), "1/64");
    assert_eq!(fraction(0.01), "1/100");
    assert_eq!(fraction(0.3), "0.3");
}

proptest! {
    /// More repetitions between the ones there are never change a verdict, and a verdict that
    /// holds is never one that fails.
    #[test]
    fn a_verdict_depends_on_the_range_only(
        (low, high) in (1.0..100.0_f64, 1.0..100.0_f64).prop_map(|(a, b)| (a.min(b), a.max(b))),
        between in 0.0..1.0_f64,
        limit in -50.0..50.0_f64,
    ) {
        let ask = |per_s: &[f64], limits| {
            let benches = [at("a", per_s), at("b", &[50.0; 2])];
            verdict("gain_percent", point(None, limits), &benches)
        };
        let middle = low + (high - low) * between;
        let above = (Some(limit), None);
        prop_assert_eq!(ask(&[low, high], above), ask(&[low, middle, high], above));
        let below = ask(&[low, high], (None, Some(limit)));
        match ask(&[low, high], above) {
            PublishedVerdict::Unclear => prop_assert_eq!(below, PublishedVerdict::Unclear),
            PublishedVerdict::Fails => prop_assert_eq!(below, PublishedVerdict::Holds),
            _ => prop_assert!(below != PublishedVerdict::Unclear || low == high),
        }
    }
}
