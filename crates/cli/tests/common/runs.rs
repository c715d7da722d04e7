//! Runs `tierloom run ssb` and reads its records.

use super::tierloom_anywhere;
use serde_json::Value;
use std::collections::BTreeMap;
use tierloom_record::{
    EngineKind, Provenance, QueryRecord, Record, RecordSet, RunSet, SCHEMA, Spread,
};

pub const QUERIES: [&str; 13] = [
    "q1.1", "q1.2", "q1.3", "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1", "q4.2",
    "q4.3",
];
pub const PLACEMENTS: [&str; 5] = ["dram", "cxl", "3:2", "tier", "columns:8"];
pub const SMALL: [&str; 6] = ["run", "ssb", "--sf", "0.01", "--repeat", "2"];

/// The only run in a `--json` document.
pub fn from_json(text: &str) -> RunSet {
    let mut document: Value =
        serde_json::from_str(text).expect("one JSON document and nothing else");
    assert_eq!(document["schema"], SCHEMA);
    let records: Vec<Record> = serde_json::from_value(document["records"].take()).expect("records");
    assert!(matches!(records.first(), Some(Record::Run(_))));
    assert!(matches!(records.last(), Some(Record::Summary(_))));
    let mut set = RecordSet::from_records(records).unwrap();
    assert_eq!(set.runs.len(), 1);
    set.runs.remove(0)
}

/// Runs a small run with the arguments `more`.
pub fn small_run(more: &[&str]) -> RunSet {
    let ended = tierloom_anywhere(&[&SMALL[..], &["--json"], more].concat()).with_code(0);
    ended.no_panic();
    from_json(&ended.stdout)
}

/// Records that were measured.
pub fn measured(run: &RunSet) -> impl Iterator<Item = &QueryRecord> {
    run.queries
        .iter()
        .filter(|q| q.provenance == Provenance::Measured)
}

/// Records that were modelled.
pub fn modelled(run: &RunSet) -> impl Iterator<Item = &QueryRecord> {
    run.queries
        .iter()
        .filter(|q| q.provenance == Provenance::Modelled)
}

/// Queries by placement, machine and engine; panics if a figure occurs twice.
pub fn table(run: &RunSet) -> BTreeMap<(String, String, EngineKind), Vec<&str>> {
    let mut table: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for q in &run.queries {
        let key = (q.machine.clone(), q.placement.clone(), q.engine);
        table.entry(key).or_default().push(&q.query);
    }
    for queries in table.values_mut() {
        queries.sort_unstable();
    }
    table
}

/// A record without the values that differ between runs.
pub fn what(
    q: &QueryRecord,
) -> (
    String,
    String,
    String,
    Provenance,
    EngineKind,
    Option<String>,
) {
    let digest = q.answer.as_ref().map(|a| a.digest.clone());
    (
        q.query.clone(),
        q.placement.clone(),
        q.machine.clone(),
        q.provenance,
        q.engine,
        digest,
    )
}

/// Whether the machine that ran the command has a CXL tier.
pub fn has_cxl(run: &RunSet) -> bool {
    run.run.host.tiers.iter().any(|t| t.kind == "cxl")
}

/// Checks that a spread has the given number of values, all positive.
#[track_caller]
pub fn check_spread(spread: &Spread, repeats: usize) {
    assert_eq!(spread.values.len(), repeats, "{spread:?}");
    let again = Spread::of(spread.values.clone()).expect("finite values");
    assert_eq!(&again, spread, "min, median and max belong to the values");
    assert!(
        spread.min > 0.0 && spread.min <= spread.median && spread.median <= spread.max,
        "{spread:?}"
    );
}
