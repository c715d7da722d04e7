//! The first section of a report must begin with the answer and say what the terminal says.

mod support;

use support::sample;
use tierloom_record::findings::conclude;
use tierloom_record::{
    EngineKind, HERE, Provenance, RecordSet, Spread, StreamRecord, ThroughputRecord,
};
use tierloom_report::{ReportOptions, render};

/// The page without its raw records.
fn readable(set: &RecordSet) -> String {
    let page = render(set, &ReportOptions::default()).expect("rendered");
    let end = page.find("<script type=\"application/jsonl\"");
    page[..end.expect("records are embedded")].to_string()
}

/// The markup of one section of the first run.
fn section(page: &str, name: &str) -> String {
    let opening = format!("<section id=\"r0-{name}\"");
    let start = page
        .find(&opening)
        .unwrap_or_else(|| panic!("no section {name}"));
    let length = page[start..].find("</section>").expect("closed");
    page[start..start + length].to_string()
}

#[test]
fn the_summary_begins_with_the_answer() {
    let text = text_of(&section(&readable(&sample()), "summary"));
    insta::assert_snapshot!("first_section", text);
}

/// A report must say the same as the terminal did, so it may conclude nothing by itself.
#[test]
fn every_sentence_of_the_summary_is_concluded_from_records() {
    let set = sample();
    let text = text_of(&section(&readable(&set), "summary"));
    let lines: Vec<&str> = text.lines().collect();
    let found = conclude(&set.runs[0]);
    for sentence in found.sentences() {
        assert!(lines.contains(&sentence), "{sentence} is not in\n{text}");
    }
    assert_eq!(lines[1..4], found.answer.each_ref().map(String::as_str));
}

#[test]
fn a_run_of_sessions_shows_throughputs_and_no_empty_section() {
    let mut set = sample();
    let run = &mut set.runs[0];
    run.queries.clear();
    run.throughputs = [("dram", 1.0), ("3:2", 1.2)]
        .map(|(placement, factor)| throughput(placement, factor))
        .into();
    let page = readable(&set);
    let table = text_of(&section(&page, "throughput"));
    for shown in ["6,000", "7,200", "1.20×", "1,500 [1,200..1,800]"] {
        assert!(table.contains(shown), "{shown} is not in\n{table}");
    }
    let summary = section(&page, "summary");
    assert!(
        summary.contains("throughput of 4 concurrent sessions"),
        "{summary}"
    );
    for absent in ["killed", "No query finished", "was not run", "r0-speedups"] {
        assert!(!page.contains(absent), "{absent}");
    }
    let placement = section(&page, "placement");
    assert!(placement.contains("Page audit"), "{placement}");
}

/// Text of markup: one line per element of text, without tags.
fn text_of(markup: &str) -> String {
    let mut text = String::new();
    for part in markup.split('<').skip(1) {
        let (tag, words) = part.split_once('>').expect("a whole tag");
        // Blocks begin a line; what is inside a line (tags, code) does not.
        let inline = ["span", "/span", "code", "/code", "b>", "/b"];
        if !inline.iter().any(|name| tag.starts_with(name)) && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(words);
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n").replace("&amp;", "&")
}

fn throughput(placement: &str, factor: f64) -> ThroughputRecord {
    let rates = [1200.0, 1500.0, 1500.0, 1800.0].map(|rate| rate * factor);
    let stream = |(stream, rate): (u32, &f64)| StreamRecord {
        stream,
        queries: 20,
        elapsed_s: 60.5,
        queries_per_hour: *rate,
        time_ms: None,
    };
    ThroughputRecord {
        run_id: "sample".into(),
        placement: placement.into(),
        machine: HERE.into(),
        provenance: Provenance::Measured,
        engine: EngineKind::Tierloom,
        duration_s: 60.0,
        queries: 80,
        queries_per_hour: rates.iter().sum(),
        per_stream_queries_per_hour: Spread::of(rates.into()).expect("finite"),
        streams: (0..).zip(&rates).map(stream).collect(),
        capacity: Vec::new(),
        rates: Vec::new(),
    }
}
