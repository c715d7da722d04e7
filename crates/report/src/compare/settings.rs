//! Differences of two sets besides their figures: settings, machines, data, programs.

use super::Comparison;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tierloom_record::{BenchRecord, RecordSet, RunRecord, RunSet};

/// Properties whose difference alone can explain a change of any size.
const DECISIVE: [&str; 12] = [
    "workload",
    "settings.scale_factor",
    "settings.seed",
    "settings.generator_version",
    "settings.threads",
    "settings.modelled_workers",
    "settings.time_per_tuple_ns",
    "host.cpu_model",
    "host.cpus",
    "data.",
    "machines.",
    "build",
];

/// Adds the differences, those that make the sets incomparable, and non-uniform sets to `result`.
pub(crate) fn compare_settings(before: &RecordSet, after: &RecordSet, result: &mut Comparison) {
    // Only the first runs are compared; `uniform` reports sets whose runs differ.
    let (Some(old), Some(new)) = (before.runs.first(), after.runs.first()) else {
        return;
    };
    let differing = differences(&properties(&old.run), &properties(&new.run));
    // A name that ends with a dot matches all properties below it.
    let decisive = |name: &str| {
        DECISIVE
            .iter()
            .any(|d| name == *d || (d.ends_with('.') && name.starts_with(d)))
    };
    for (name, was, is) in differing {
        let line = format!("{name}: {was} before, {is} after");
        if decisive(&name) {
            result.not_comparable.push(line.clone());
        }
        result.differences_in_settings.push(line);
    }
    for (which, set) in [("before", before), ("after", after)] {
        uniform(which, &set.runs, result);
    }
}

/// Properties of hosts and builds whose difference alone can explain a change of a benchmark.
const DECISIVE_FOR_BENCHES: [&str; 6] = [
    ".cpu_model",
    ".cpus",
    ".simd",
    ".memory_bytes",
    ".prefetchers",
    "build",
];

/// Same as [`compare_settings`], for paired benchmarks: differences of hosts, builds and plans.
///
/// Each difference is reported once, however many pairs have it.
pub(crate) fn compare_bench_settings(
    pairs: &[(&BenchRecord, &BenchRecord)],
    result: &mut Comparison,
) {
    let mut known: Vec<(String, usize)> = Vec::new();
    for (before, after) in pairs {
        let mut lines: Vec<(String, bool)> = Vec::new();
        for (name, was, is) in differences(&bench_properties(before), &bench_properties(after)) {
            let decisive = DECISIVE_FOR_BENCHES.iter().any(|d| name.ends_with(d));
            lines.push((format!("{name}: {was} before, {is} after"), decisive));
        }
        // Equal ids mean equal plans.
        if before.run_id != after.run_id {
            for (name, was, is) in differences(&plan(before), &plan(after)) {
                let line = format!("{}: plan.{name}: {was} before, {is} after", before.workload);
                lines.push((line, true));
            }
        }
        for (line, decisive) in lines {
            match known.iter_mut().find(|(text, _)| *text == line) {
                Some((_, times)) => *times += 1,
                None => {
                    if decisive {
                        result.not_comparable.push(line.clone());
                    }
                    result.differences_in_settings.push(line.clone());
                    known.push((line, 1));
                }
            }
        }
    }
}

/// The plan without the fields that are not part of what is run.
fn plan(record: &BenchRecord) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    flatten("", &record.plan, &mut flat);
    flat.retain(|name, _| !matches!(name.as_str(), "id" | "file" | "line"));
    flat
}

fn bench_properties(record: &BenchRecord) -> BTreeMap<String, String> {
    let host = |h: &tierloom_record::BenchHost| {
        let card = &h.card;
        let tiers = card.tiers.iter();
        let tiers: Vec<String> = tiers
            .map(|t| format!("{} on nodes {:?}", t.kind, t.nodes))
            .collect();
        let properties = json!({
            "cpu_model": card.cpu_model, "cpus": card.cpus, "smt": card.smt, "kernel": card.kernel, "thp": card.thp,
            "numa_balancing": card.numa_balancing, "governor": card.governor, "memory_bytes": card.memory_bytes,
            "tiers": tiers.join(", "), "snc": h.snc, "prefetchers": h.prefetchers, "simd": h.simd,
        });
        (h.name.clone(), properties)
    };
    let hosts: serde_json::Map<String, Value> = record.hosts.iter().map(host).collect();
    let tree = json!({
        "tool_version": record.tool_version,
        "commit": record.commit,
        "build": record.build,
        "hosts": hosts,
    });
    let mut flat = BTreeMap::new();
    flatten("", &tree, &mut flat);
    flat
}

/// Reports runs of one set that were made differently: their repetitions are pooled.
fn uniform(which: &str, runs: &[RunSet], result: &mut Comparison) {
    let Some((first, others)) = runs.split_first() else {
        return;
    };
    let known = properties(&first.run);
    for other in others {
        let names: Vec<String> = differences(&known, &properties(&other.run))
            .into_iter()
            .map(|(name, ..)| name)
            .collect();
        if !names.is_empty() {
            let text = format!(
                "the runs {} and {} of the set {which} differ in {}",
                first.run.run_id,
                other.run.run_id,
                names.join(", ")
            );
            result.not_comparable.push(text);
        }
    }
}

/// The properties of a run that should be equal, as flat names: "settings.threads" -> "2".
fn properties(run: &RunRecord) -> BTreeMap<String, String> {
    let figure =
        |f: &tierloom_record::Figure| (f.label.clone(), json!(format!("{} {}", f.value, f.unit)));
    let machines: serde_json::Map<String, Value> = run
        .machines
        .iter()
        .map(|m| {
            (
                m.name.clone(),
                Value::Object(m.figures.iter().map(figure).collect()),
            )
        })
        .collect();
    let tables: serde_json::Map<String, Value> = run
        .data
        .tables
        .iter()
        .map(|t| (t.name.clone(), json!({ "rows": t.rows, "bytes": t.bytes })))
        .collect();
    let host = &run.host;
    let tiers: Vec<String> = host
        .tiers
        .iter()
        .map(|t| format!("{} on nodes {:?}", t.kind, t.nodes))
        .collect();
    let tree = json!({
        "workload": run.workload,
        "tool_version": run.tool_version,
        "commit": run.commit,
        "build": run.build,
        "settings": run.settings,
        "host": {
            "cpu_model": host.cpu_model, "cpus": host.cpus, "smt": host.smt, "kernel": host.kernel, "thp": host.thp,
            "numa_balancing": host.numa_balancing, "governor": host.governor, "memory_bytes": host.memory_bytes, "tiers": tiers.join(", "),
        },
        "machines": machines,
        "data": tables,
    });
    let mut flat = BTreeMap::new();
    flatten("", &tree, &mut flat);
    flat
}

fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                flatten(&path, member, into);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| {
                    item.as_str()
                        .map_or_else(|| item.to_string(), str::to_string)
                })
                .collect();
            into.insert(path.into(), items.join(" "));
        }
        Value::String(text) => {
            into.insert(path.into(), text.clone());
        }
        // Left out here; `differences` then reports the property as missing on this side.
        Value::Null => {}
        other => {
            into.insert(path.into(), other.to_string());
        }
    }
}

fn differences(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Vec<(String, String, String)> {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let shown = |side: &BTreeMap<String, String>, name: &String| {
        side.get(name)
            .cloned()
            .unwrap_or_else(|| "not there".into())
    };
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| (name.clone(), shown(old, name), shown(new, name)))
        .collect()
}
