//! Records of validations, weights and prices: they are self-contained, survive files bit by bit,
//! and become CSV.

use proptest::prelude::*;
use tierloom_record::{
    CostConfig, CostPoint, CostRecord, CostSensitivity, FigureRecord, FigureSummary, Provenance,
    Record, RecordError, RecordFile, RecordSet, RecordWriter, SCHEMA, TierWeight, TunePoint,
    TuneRecord, ValidationRecord,
};

fn figure(id: &str) -> FigureRecord {
    FigureRecord {
        id: id.into(),
        paper: "P25".into(),
        what: "reads, \"all\" cores".into(),
        series: "threads".into(),
        x: Some(8.0),
        x_name: "threads".into(),
        role: "check".into(),
        because: None,
        machine: "m".into(),
        unit: "GB/s".into(),
        published: Some(100.0),
        relation: None,
        modelled: 104.0,
        error: Some(0.04),
        agrees: None,
        remark: None,
        nearest: None,
    }
}

fn validation() -> ValidationRecord {
    let relation = FigureRecord {
        published: None,
        relation: Some("above 0".into()),
        error: None,
        agrees: Some(false),
        remark: Some("queues, links".into()),
        ..figure("b")
    };
    ValidationRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: "2025-11-21T10:00:00Z".into(),
        tool_version: "0.1.0".into(),
        terms_off: vec!["tlb".into(), "llc".into()],
        figures: vec![figure("a"), relation],
        summaries: vec![FigureSummary {
            paper: None,
            role: "check".into(),
            figures: 2,
            with_error: 1,
            median: Some(0.04),
            p90: Some(0.04),
            max: Some(0.04),
            judged: 1,
            wrong: vec!["b".into()],
        }],
    }
}

fn tune(phase: &str) -> TuneRecord {
    let weight = |tier: &str, weight| TierWeight {
        tier: tier.into(),
        weight,
    };
    let point = |share, rate, range: Option<(f64, f64)>| TunePoint {
        share,
        rate,
        low: range.map(|r| r.0),
        high: range.map(|r| r.1),
        provenance: Provenance::Modelled,
    };
    TuneRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: "2025-11-21T10:00:00Z".into(),
        tool_version: "0.1.0".into(),
        machine: "m".into(),
        phase: phase.into(),
        what: "reads in order".into(),
        workers: 32,
        unit: "GB/s".into(),
        points: vec![point(0.0, 30.0, None), point(0.4, 47.5, Some((45.0, 50.0)))],
        best: vec![weight("dram", 3), weight("cxl", 2)],
        best_rate: 47.5,
        dram_rate: 30.0,
        kernel: vec![weight("dram", 1), weight("cxl", 1)],
        kernel_rate: 40.0,
        best_share_range: Some((0.35, 0.45)),
        gain_range: Some((1.4, 1.7)),
        warnings: vec!["one".into(), "two".into()],
    }
}

fn cost() -> CostRecord {
    let config = CostConfig {
        words: "1 CPU".into(),
        price: 9536.0,
        dram_gib: 1024,
        cxl_gib: 0,
        queries_per_hour: None,
    };
    CostRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: "2025-11-21T10:00:00Z".into(),
        tool_version: "0.1.0".into(),
        prices: "mine.yaml".into(),
        currency: "US$".into(),
        as_of: "2025-03".into(),
        kinds: vec!["CPU memory".into(), "CPU memory + 1 CXL device".into()],
        points: vec![CostPoint {
            demand_gib: 1024,
            cheapest: vec![Some(config), None],
        }],
        findings: vec!["CPU memory alone is cheapest up to 1 TiB.".into()],
        sensitivities: vec![CostSensitivity {
            assumption: "price of DDR5 256 GiB".into(),
            change: "-20%".into(),
            effect: "smaller savings".into(),
            largest_saving: 0.5,
        }],
        throughput_of: None,
    }
}

fn records() -> [Record; 3] {
    [
        Record::Validation(Box::new(validation())),
        Record::Tune(Box::new(tune("scan"))),
        Record::Cost(Box::new(cost())),
    ]
}

fn lines(records: &[Record]) -> String {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, "memory");
    for record in records {
        writer.write(record).expect("writing to memory");
    }
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

#[test]
fn each_kind_stands_alone_and_comes_back_as_it_was() {
    for (record, name) in records().into_iter().zip(["validation", "tune", "cost"]) {
        let text = lines(std::slice::from_ref(&record));
        assert!(
            text.starts_with(&format!("{{\"type\":\"{name}\"")),
            "{text}"
        );
        let set = RecordSet::parse(&text, "x.jsonl").expect("own line");
        assert!(!set.is_empty(), "{name}");
        assert_eq!(set.to_records(), [record]);
    }
}

#[test]
fn mixed_files_keep_every_record_when_merged_and_written_again() {
    let text = lines(&records());
    let set = RecordSet::parse(&text, "x.jsonl").expect("own lines");
    assert_eq!(set.validations, [validation()]);
    assert_eq!(set.tunes, [tune("scan")]);
    assert_eq!(set.costs, [cost()]);
    assert_eq!(RecordSet::from_records(set.to_records()).expect("own"), set);
    let merged = RecordSet::merged([set.clone(), set]);
    assert_eq!(merged.to_records().len(), 6);
    assert_eq!(lines(&merged.to_records()).len(), 2 * text.len());
}

#[test]
fn another_schema_is_refused_on_these_lines_too() {
    for record in records() {
        let text = lines(&[record]).replace(SCHEMA, "tierloom-record/2");
        let error = RecordSet::parse(&text, "x.jsonl").expect_err("another version");
        assert!(error.to_string().contains("tierloom-record/2"), "{error}");
    }
}

#[test]
fn a_growing_file_takes_them_and_refuses_figures_that_are_not_finite() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("r.jsonl");
    let (mut file, ..) = RecordFile::open(&path).expect("a new file");
    for record in records() {
        file.append(&record).expect("appended");
    }
    let mut bad = tune("x");
    bad.best_rate = f64::NAN;
    let error = file
        .append(&Record::Tune(Box::new(bad)))
        .expect_err("it could not be read back");
    assert!(matches!(error, RecordError::Io { .. }), "{error}");
    let set = RecordSet::read(&path).expect("whole records");
    assert_eq!(set.to_records(), records());
}

proptest! {
    #[test]
    fn any_text_and_number_comes_back_from_a_file(
        text in "\\PC{0,20}\n?\\PC{0,9}",
        number in -1e12f64..1e12,
    ) {
        let mut all = validation();
        all.figures[0].what = text.clone();
        all.figures[0].modelled = number;
        let record = Record::Validation(Box::new(all.clone()));
        let set = RecordSet::parse(&lines(&[record]), "x").expect("own line");
        prop_assert_eq!(&set.validations[0], &all);
    }
}
