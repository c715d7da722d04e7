//! Runs beside publications: each relation must have its verdict, each value its origin, and what
//! was not measured must say why.

mod support;

use support::benches::{bench_sample, record};
use tierloom_record::{
    BenchRecord, FigureRecord, Provenance, PublicationRecord, PublishedPoint, PublishedRun,
    PublishedSeries, RecordSet, SCHEMA, Spread, TaskRecord,
};
use tierloom_report::{ReportOptions, extract_records, render};

/// A run with this many million operations per second in each repetition.
fn run(workload: &str, value: &str, rates: &[f64]) -> BenchRecord {
    let sample = bench_sample().benches.remove(0).tasks.remove(0);
    let per_s = rates.iter().map(|rate| rate * 1e6).collect();
    let task = TaskRecord {
        operations_per_s: Spread::of(per_s),
        ..sample
    };
    record(workload, &[("memory", value)], vec![task])
}

fn figure(
    id: &str,
    x: Option<f64>,
    published: Option<f64>,
    relation: Option<&str>,
) -> FigureRecord {
    FigureRecord {
        id: id.into(),
        paper: "DOE26".into(),
        what: "an example".into(),
        series: String::new(),
        x,
        x_name: String::new(),
        role: "check".into(),
        because: None,
        machine: "doe26".into(),
        unit: "%".into(),
        published,
        relation: relation.map(str::to_owned),
        modelled: 55.0,
        error: None,
        agrees: None,
        remark: None,
        nearest: None,
    }
}

struct Asked<'a> {
    figure: Option<FigureRecord>,
    low: Option<f64>,
    runs: &'a [&'a BenchRecord],
    left_out: Option<&'a str>,
}

fn point(asked: Asked<'_>) -> PublishedPoint {
    PublishedPoint {
        x: asked.figure.as_ref().and_then(|figure| figure.x),
        figure: asked.figure,
        relation_low: asked.low,
        relation_high: None,
        noise_percent: 3.0,
        runs: asked.runs[..1.min(asked.runs.len())]
            .iter()
            .map(|run| PublishedRun {
                run_id: run.run_id.clone(),
                share_percent: None,
            })
            .collect(),
        versus: asked.runs.get(1).map(|run| run.run_id.clone()),
        left_out: asked.left_out.map(str::to_owned),
    }
}

fn series(
    name: &str,
    quantity: &str,
    over: Option<&str>,
    points: Vec<PublishedPoint>,
) -> PublishedSeries {
    PublishedSeries {
        name: name.into(),
        what: "an example".into(),
        workload: "join".into(),
        line: 7,
        x_name: over.map(str::to_owned),
        phase: None,
        quantity: quantity.into(),
        unit: if quantity == "mops" { "M/s" } else { "%" }.into(),
        bytes_per_tuple: None,
        points,
    }
}

fn sample() -> RecordSet {
    let (fast, slow) = (
        run("join", "3:2", &[150.0, 160.0]),
        run("join", "dram", &[100.0, 104.0]),
    );
    let single = |id: &str, low, runs: &[&BenchRecord], left_out| {
        let figure = Some(figure(id, None, None, Some("above 0")));
        let one = point(Asked {
            figure,
            low: Some(low),
            runs,
            left_out,
        });
        series(id, "gain_percent", None, vec![one])
    };
    let at = |x: f64, runs, published: Option<f64>| {
        let figure = published.map(|y| figure(&format!("curve@{x}"), Some(x), Some(y), None));
        let mut made = point(Asked {
            figure,
            low: None,
            runs,
            left_out: None,
        });
        made.x = Some(x);
        made
    };
    let publication = PublicationRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: "2026-01-02T03:04:05Z".into(),
        tool_version: "0.1.0".into(),
        paper: "DOE26".into(),
        citation: "Doe et al., \"An <Example>\", 2026.".into(),
        file: "examples/papers/doe26/join.yaml".into(),
        scale: 1.0 / 64.0,
        series: vec![
            single("doe26-wins", 0.0, &[&fast, &slow], None),
            single("doe26-wins-much", 90.0, &[&fast, &slow], None),
            single("doe26-wins-some", 50.0, &[&fast, &slow], None),
            single(
                "doe26-cxl",
                0.0,
                &[&fast, &slow],
                Some("this machine has no cxl tier"),
            ),
            series(
                "curve",
                "mops",
                Some("threads"),
                vec![at(1.0, &[&slow], Some(20.0)), at(2.0, &[&fast], None)],
            ),
        ],
    };
    RecordSet {
        benches: vec![fast, slow],
        publications: vec![publication],
        ..RecordSet::default()
    }
}

fn readable(set: &RecordSet) -> String {
    let page = render(set, &ReportOptions::default()).expect("rendered");
    let end = page.find("<script type=\"application/jsonl\"");
    page[..end.expect("records are embedded")].to_string()
}

/// The section of the first publication with its charts replaced by their titles, one tag a line.
fn section(page: &str) -> String {
    let start = page.find("<section id=\"p0\"").expect("a section");
    let length = page[start..].find("</section>").expect("closed");
    let mut text = page[start..start + length].to_string();
    while let (Some(from), Some(to)) = (text.find("<svg"), text.find("</svg>")) {
        text.replace_range(from..to + "</svg>".len(), "(chart)");
    }
    text.replace("><", ">\n<")
}

#[test]
fn every_relation_has_its_verdict_and_every_value_its_origin() {
    insta::assert_snapshot!(section(&readable(&sample())));
}

#[test]
fn the_curve_has_what_was_published_and_what_was_measured() {
    let page = readable(&sample());
    let chart = page.split("<svg id=\"p0-c4\"").nth(1).expect("a chart");
    let chart = chart.split("</svg>").next().expect("closed");
    // Five times as fast as published: shapes are drawn, each over its first value.
    for part in [
        "published",
        "measured here",
        "over the value at threads = 1",
    ] {
        assert!(chart.contains(part), "{part} is not in {chart}");
    }
    assert!(!page.contains("An <Example>"), "text of records is escaped");
}

#[test]
fn a_report_of_publications_can_be_read_again() {
    let set = sample();
    let page = render(&set, &ReportOptions::default()).expect("rendered");
    let lines = extract_records(&page).expect("records");
    assert_eq!(RecordSet::parse(&lines, "page").expect("parsed"), set);
    assert!(page.contains("<title>Beside DOE26</title>"));
}
