//! Bench records as CSV, for spreadsheets and data frames.

use crate::{AuditRecord, BenchRecord, RecordError, RegionRecord, Spread, TaskRecord};

/// Columns of every table, before those that depend on the records.
const FIXED: [&str; 22] = [
    "run_id",
    "session_id",
    "started_at",
    "workload",
    "task",
    "role",
    "host",
    "cpu_model",
    "valid",
    "provenance",
    "kind",
    "access",
    "threads",
    "bytes_per_operation",
    "rate_gbps",
    "bandwidth_gbps_median",
    "bandwidth_gbps_min",
    "bandwidth_gbps_max",
    "bandwidth_n",
    "operations_per_s_median",
    "latency_ns_median",
    "latency_ns_mean",
];

/// Columns of every table, after the fixed ones.
const LATENCY: [&str; 4] = [
    "latency_ns_min",
    "latency_ns_max",
    "latency_samples",
    "timer_overhead_ns",
];

/// Columns of a region; for the second and later ones, with the region's name before them
/// ("m1_size_bytes").
const REGION: [&str; 8] = [
    "memory",
    "size_bytes",
    "page_size",
    "placement",
    "resolved",
    "moved_pages",
    "shares_before",
    "shares_after",
];

/// Writes one row per task as CSV with a header line (RFC 4180).
///
/// The columns of every table come first. Then come the keys that vary, one column each, in the
/// order in which they first occur (a key that is also the name of another column is called "KEY
/// (varied)"), then regions, percentiles (`latency_ns_p99.9`), counters (`counter.NAME [UNIT]`),
/// the data check and remarks. A value that a task does not have is an empty field, never a zero.
/// Shares of pages are written as `NODE:SHARE`, separated by spaces (`0:0.6 1:0.4`). Medians,
/// minima and maxima of bandwidths are over repetitions; `bandwidth_n` is their number.
/// `latency_ns_median` is the median of the repetitions' medians, `latency_ns_p50` the median of
/// all samples.
///
/// # Errors
/// [`RecordError::Io`] if the rows cannot be written to memory.
pub fn bench_csv(records: &[BenchRecord]) -> Result<Vec<u8>, RecordError> {
    let columns = Columns::of(records);
    let rows = records
        .iter()
        .flat_map(|record| record.tasks.iter().map(move |task| (record, task)))
        .map(|(record, task)| columns.row(record, task));
    csv_table(&columns.header(), rows)
}

/// The columns that depend on the records, each in the order of its first occurrence.
struct Columns<'a> {
    varied: Vec<&'a str>,
    regions: Vec<&'a str>,
    /// Percentiles, ascending.
    percents: Vec<f64>,
    /// Name and unit of each counter.
    counters: Vec<(&'a str, &'a str)>,
}

fn first_seen<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

impl<'a> Columns<'a> {
    fn of(records: &'a [BenchRecord]) -> Columns<'a> {
        let tasks = || records.iter().flat_map(|r| &r.tasks);
        let mut percents = first_seen(
            tasks()
                .filter_map(|t| t.latency.as_ref())
                .flat_map(|l| l.percentiles.iter().map(|p| p.percent)),
        );
        percents.sort_by(f64::total_cmp);
        Columns {
            varied: first_seen(
                records
                    .iter()
                    .flat_map(|r| r.varied.iter().map(|s| s.key.as_str())),
            ),
            regions: first_seen(tasks().flat_map(|t| t.regions.iter().map(|r| r.name.as_str()))),
            percents,
            counters: first_seen(tasks().flat_map(|t| {
                t.counters
                    .iter()
                    .map(|c| (c.name.as_str(), c.unit.as_str()))
            })),
        }
    }

    fn header(&self) -> Vec<String> {
        let mut names: Vec<String> = FIXED
            .iter()
            .chain(&LATENCY)
            .map(|s| s.to_string())
            .collect();
        let first = names.len();
        for (index, region) in self.regions.iter().enumerate() {
            let prefix = if index == 0 {
                String::new()
            } else {
                format!("{region}_")
            };
            names.extend(REGION.iter().map(|name| format!("{prefix}{name}")));
        }
        names.extend(self.percents.iter().map(|p| format!("latency_ns_p{p}")));
        names.extend(self.counters.iter().map(|(name, unit)| match *unit {
            "1" | "" => format!("counter.{name}"),
            unit => format!("counter.{name} [{unit}]"),
        }));
        names.extend(["data_check".into(), "remarks".into()]);
        // Two columns of one name would be merged or renamed silently by data-frame libraries.
        let varied = self.varied.iter().map(|key| {
            if names.iter().any(|name| name == key) {
                format!("{key} (varied)")
            } else {
                key.to_string()
            }
        });
        let varied: Vec<String> = varied.collect();
        // Varied keys come directly after the columns that every table has.
        names.splice(first..first, varied);
        names
    }

    fn row(&self, record: &BenchRecord, task: &TaskRecord) -> Vec<String> {
        let mut fields = fixed(record, task);
        fields.extend(self.varied.iter().map(|key| {
            let setting = record.varied.iter().find(|s| s.key == **key);
            setting.map_or_else(String::new, |s| s.value.clone())
        }));
        for name in &self.regions {
            fields.extend(region(task.regions.iter().find(|r| r.name == **name)));
        }
        let latency = task.latency.as_ref();
        fields.extend(self.percents.iter().map(|percent| {
            let found = latency.and_then(|l| l.percentiles.iter().find(|p| p.percent == *percent));
            text(found.map(|p| p.latency_ns))
        }));
        fields.extend(self.counters.iter().map(|(name, unit)| {
            let found = task
                .counters
                .iter()
                .find(|c| c.name == *name && c.unit == *unit);
            text(found.and_then(|c| c.value))
        }));
        fields.push(task.data_check.clone().unwrap_or_default());
        let remarks: Vec<&str> = record.remarks.iter().map(|r| r.text.as_str()).collect();
        fields.push(remarks.join(" "));
        fields
    }
}

fn fixed(record: &BenchRecord, task: &TaskRecord) -> Vec<String> {
    let host = record.hosts.iter().find(|h| h.name == task.host);
    let bandwidth = |of: fn(&Spread) -> f64| text(task.bandwidth_gbps.as_ref().map(of));
    let latency = task.latency.as_ref();
    let fields = [
        record.run_id.clone(),
        record.session_id.clone(),
        record.started_at.clone(),
        record.workload.clone(),
        task.name.clone(),
        task.role.clone(),
        task.host.clone(),
        text(host.map(|h| &h.card.cpu_model)),
        record.valid.to_string(),
        record.provenance.to_string(),
        task.kind.clone(),
        task.access.clone(),
        task.threads.to_string(),
        task.bytes_per_operation.to_string(),
        text(task.rate_gbps),
        bandwidth(|s| s.median),
        bandwidth(|s| s.min),
        bandwidth(|s| s.max),
        text(task.bandwidth_gbps.as_ref().map(|s| s.values.len())),
        text(task.operations_per_s.as_ref().map(|s| s.median)),
        text(latency.map(|l| l.median_ns.median)),
        text(latency.map(|l| l.mean_ns)),
        text(latency.map(|l| l.min_ns)),
        text(latency.map(|l| l.max_ns)),
        text(latency.map(|l| l.samples)),
        text(latency.map(|l| l.timer_overhead_ns)),
    ];
    fields.to_vec()
}

fn region(region: Option<&RegionRecord>) -> Vec<String> {
    let Some(region) = region else {
        return vec![String::new(); REGION.len()];
    };
    vec![
        region.memory.clone(),
        region.size_bytes.to_string(),
        region.page_size.clone(),
        region.placement.clone(),
        region.resolved.clone(),
        // Without an audit after the run, 0 moved pages would be a claim that nobody checked.
        text(region.after.as_ref().map(|_| region.moved_pages)),
        shares(region.before.as_ref()),
        shares(region.after.as_ref()),
    ]
}

fn shares(audit: Option<&AuditRecord>) -> String {
    let one = |s: &crate::NodeShare| format!("{}:{}", s.node, s.share);
    let all: Option<Vec<String>> = audit.map(|a| a.actual.iter().map(one).collect());
    all.unwrap_or_default().join(" ")
}

/// The text of a field; empty without a value.
fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

/// A header and rows as CSV.
fn csv_table<H: AsRef<str>>(
    header: &[H],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<Vec<u8>, RecordError> {
    let failed = |problem: String| RecordError::Io {
        action: "write",
        path: "the CSV table".into(),
        source: std::io::Error::other(problem),
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer
        .write_record(header.iter().map(AsRef::as_ref))
        .map_err(|e| failed(e.to_string()))?;
    for row in rows {
        writer
            .write_record(row)
            .map_err(|e| failed(e.to_string()))?;
    }
    writer.into_inner().map_err(|e| failed(e.to_string()))
}
