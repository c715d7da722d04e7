//! Where the memory of the tasks was, before and after the runs.

use super::summary::{folded, placed};
use super::view::RunGroup;
use crate::section::missing;
use crate::words;
use maud::{Markup, html};
use tierloom_record::{AuditRecord, NodeShare, RegionRecord};

/// Difference of requested and actual share above which a row is marked.
const DEVIATION: f64 = 0.01;

/// Regions that are equal in all columns, with the number of runs that have them.
struct Row {
    workload: String,
    task: String,
    memory: String,
    placement: String,
    requested: String,
    before: String,
    after: String,
    moved: String,
    doubtful: bool,
    huge: String,
    note: String,
    runs: usize,
}

/// Page audits of all regions; equal ones share a row.
pub(super) fn section(groups: &[RunGroup<'_>]) -> Markup {
    let mut rows: Vec<Row> = Vec::new();
    for group in groups {
        for run in &group.runs {
            for task in &run.record.tasks {
                for region in &task.regions {
                    add(&mut rows, row(group.workload, &task.name, region));
                }
            }
        }
    }
    // Rows with a problem come first; otherwise the order of the records is kept.
    rows.sort_by_key(|row| !row.doubtful);
    html! {
        section #b-placement {
            h2 { "Placement and page audit" }
            @if rows.is_empty() { (missing("No region was recorded.")) } @else {
                p.note {
                    "Share of pages per NUMA node as the kernel tells it, before the first and after the last repetition. Regions that look the same share a row. A moved page makes a run invalid. "
                    "Where the kernel cannot tell (device memory), the last column says why."
                }
                (folded(rows.len(), table(&rows)))
            }
        }
    }
}

fn row(workload: &str, task: &str, region: &RegionRecord) -> Row {
    let audits = || [&region.before, &region.after].into_iter().flatten();
    let share = |audit: &Option<AuditRecord>| match audit {
        Some(audit) => actual(audit),
        None => "not known".into(),
    };
    Row {
        workload: workload.into(),
        task: task.into(),
        memory: format!(
            "{}: {}, {}, {} pages",
            region.name,
            words::short_bytes(region.size_bytes as f64),
            region.memory,
            region.page_size
        ),
        placement: placed(&region.placement, &region.resolved),
        requested: audits()
            .next()
            .map_or_else(|| "not known".into(), |a| shares(&a.requested)),
        before: share(&region.before),
        after: share(&region.after),
        moved: match region.after {
            Some(_) => words::count(region.moved_pages),
            None => "not known".into(),
        },
        doubtful: region.moved_pages > 0
            || audits().any(|a| a.worst_deviation > DEVIATION || a.pages_absent > 0),
        huge: region
            .huge_share
            .map_or_else(|| "not known".into(), words::share),
        note: region.note.clone().unwrap_or_default(),
        runs: 1,
    }
}

/// "60.00% node 0, 40.00% node 1"; nodes without pages are left out.
fn shares(shares: &[NodeShare]) -> String {
    let text: Vec<String> = shares
        .iter()
        .filter(|s| s.share > 0.0)
        .map(|s| format!("{} node {}", words::exact_share(s.share), s.node))
        .collect();
    if text.is_empty() {
        "nowhere".into()
    } else {
        text.join(", ")
    }
}

fn actual(audit: &AuditRecord) -> String {
    let mut text = shares(&audit.actual);
    if audit.pages_absent > 0 {
        text.push_str(&format!(
            "; {} of {} checked pages without memory",
            words::count(audit.pages_absent),
            words::count(audit.pages_checked)
        ));
    }
    text
}

impl Row {
    fn cells(&self) -> [&str; 10] {
        [
            &self.workload,
            &self.task,
            &self.memory,
            &self.placement,
            &self.requested,
            &self.before,
            &self.after,
            &self.moved,
            &self.huge,
            &self.note,
        ]
    }
}

fn add(rows: &mut Vec<Row>, row: Row) {
    match rows.iter_mut().find(|known| known.cells() == row.cells()) {
        Some(known) => known.runs += 1,
        None => rows.push(row),
    }
}

/// One unbroken line per node.
fn parts(shares: &str) -> Markup {
    html! { @for part in shares.split(", ") { span.whole { (part) } " " } }
}

fn table(rows: &[Row]) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "workload" } th { "task" } th { "memory" } th { "placement" } th { "requested" } th { "before" } th { "after" }
                        th.n { "moved pages" } th.n { "in huge pages" } th { "note" } th.n { "runs" }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            th { (row.workload) } td { (row.task) } td.remarks { (row.memory) } td { (row.placement) } td { (parts(&row.requested)) } td { (parts(&row.before)) }
                            td { span class=(if row.doubtful { "slower" } else { "" }) { (parts(&row.after)) } }
                            td.n { span class=(if row.doubtful { "slower" } else { "" }) { (row.moved) } }
                            td.n { (row.huge) } td { (row.note) } td.n { (row.runs) }
                        }
                    }
                }
            }
        }
    }
}
