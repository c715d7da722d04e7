//! Formats plans and records of `tierloom bench` as tables.

use crate::failure::Failure;
use crate::output;
use comfy_table::{Cell, CellAlignment, Table, presets};
use tierloom_bench::dry_run;
use tierloom_bench::plan::RunPlan;
use tierloom_record::findings::{of_publication, published_sentences};
use tierloom_record::{
    BenchRecord, OperatorTaskRecord, RecordSet, RegionRecord, Spread, TaskRecord,
};
use tierloom_text::Bytes;

/// A short name of a run, for the progress line.
pub fn words(plan: &RunPlan) -> String {
    let varied = plan.varied.iter().map(|(key, value)| (key, value));
    format!("{} {}", plan.workload, settings(varied))
}

/// Keys and values as `key=value key=value`.
fn settings<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let texts: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    texts.join(" ")
}

/// The varied settings of a record's run.
fn varied(record: &BenchRecord) -> String {
    settings(record.varied.iter().map(|s| (&s.key, &s.value)))
}

/// Prints the resolved runs.
///
/// # Errors
/// If stdout cannot be written.
pub fn dry_run(plans: &[RunPlan], json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(plans);
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(dry_run::HEADER);
    table.add_rows(dry_run::rows(plans));
    output::print(&format!("{table}\n{}\n", dry_run::totals(plans)))
}

/// The figures of all records: one row per task, remarks below the table.
pub fn table(records: &[BenchRecord]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "workload",
        "run",
        "access",
        "memory",
        "threads",
        "GB/s",
        "min to max",
        "Mop/s",
        "latency ns",
        "p99 ns",
    ]);
    for record in records {
        for task in &record.tasks {
            table.add_row(row(record, task));
        }
    }
    let mut text = format!("{table}\n");
    text += "measured here; medians of the repetitions, latencies less the timer's own cost\n";
    for record in records {
        for task in &record.tasks {
            let Some(operator) = &task.operator else {
                continue;
            };
            if let Some(rates) = phases_text(operator) {
                text += &format!("{}: {rates} M tuples/s\n", title(record));
            }
            if !operator.counts.is_empty() {
                let counts = operator.counts.iter();
                let counts = counts.map(|one| format!("{} {}", digits(one.per_tuple), one.name));
                let counts: Vec<String> = counts.collect();
                text += &format!("{}: {} per operation\n", title(record), counts.join(", "));
            }
        }
        for remark in &record.remarks {
            let word = if remark.invalidates {
                "INVALID"
            } else {
                "note"
            };
            text += &format!("{word}: {}: {}\n", title(record), remark.text);
        }
    }
    text
}

/// What the runs say of the publications that they repeat, as sentences.
pub fn publications(set: &RecordSet) -> String {
    let mut text = String::new();
    for record in set.latest_publications() {
        let answers = of_publication(record, &set.benches);
        for sentence in published_sentences(record, &answers) {
            text += &format!("{sentence}\n");
        }
    }
    text
}

fn title(record: &BenchRecord) -> String {
    format!("{} {}", record.workload, varied(record))
        .trim_end()
        .to_owned()
}

fn row(record: &BenchRecord, task: &TaskRecord) -> Vec<Cell> {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let spread = |spread: &Option<Spread>, scale: f64| {
        spread
            .as_ref()
            .map_or_else(|| "-".into(), |s| digits(s.median / scale))
    };
    let range = task.bandwidth_gbps.as_ref().map_or_else(
        || "-".into(),
        |s| format!("{} to {}", digits(s.min), digits(s.max)),
    );
    let latency = task.latency.as_ref();
    let p99 = latency.and_then(|l| l.percentiles.iter().find(|p| p.percent == 99.0));
    let name = if record.tasks.len() > 1 {
        format!("{} ({}, {})", record.workload, task.name, task.role)
    } else {
        record.workload.clone()
    };
    let valid = if record.valid { "" } else { " INVALID" };
    let memory = match &task.operator {
        Some(_) => {
            let named = task.regions.iter();
            let named = named.map(|region| format!("{}: {}", region.name, region_text(region)));
            named.collect::<Vec<_>>().join("\n")
        }
        None => task.regions.first().map_or_else(String::new, region_text),
    };
    vec![
        Cell::new(format!("{name}{valid}")),
        Cell::new(varied(record)),
        Cell::new(&task.access),
        Cell::new(memory),
        right(task.threads.to_string()),
        right(spread(&task.bandwidth_gbps, 1.0)),
        right(range),
        right(spread(&task.operations_per_s, 1e6)),
        right(latency.map_or_else(|| "-".into(), |l| digits(l.median_ns.median))),
        right(p99.map_or_else(|| "-".into(), |p| digits(p.latency_ns))),
    ]
}

fn region_text(region: &RegionRecord) -> String {
    let size = Bytes(region.size_bytes).rounded();
    if region.page_size == "device" {
        format!("{size} of {}", region.memory)
    } else {
        format!("{size} on {}, {}", region.resolved, region.page_size)
    }
}

/// The timed phases of an operator with their rates in M tuples/s: "build 35.1, probe 80.2".
fn phases_text(operator: &OperatorTaskRecord) -> Option<String> {
    let counted = operator.phases.iter().filter(|phase| phase.counted);
    let rates: Vec<String> = counted
        .filter_map(|phase| {
            let seconds = phase.seconds.as_ref()?.median;
            let tuples = (phase.tuples * operator.passes) as f64;
            Some(format!("{} {}", phase.name, digits(tuples / seconds / 1e6)))
        })
        .collect();
    (!rates.is_empty()).then(|| rates.join(", "))
}

/// Formats with about three significant digits.
fn digits(x: f64) -> String {
    match x.abs() {
        size if size >= 100.0 => format!("{x:.0}"),
        size if size >= 10.0 => format!("{x:.1}"),
        size if size >= 0.01 => format!("{x:.2}"),
        0.0 => "0".into(),
        _ => format!("{x:.1e}"),
    }
}
