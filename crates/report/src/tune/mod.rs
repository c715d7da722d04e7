//! The best weights of phases: their rates, the uncertainty, and the curve over all shares.

mod curve;

use crate::section::tag;
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::{HERE, Provenance, TierWeight, TuneRecord};

const SECTIONS: [(&str, &str); 2] = [("weights", "Weights"), ("curves", "Rate over share")];

/// All weights as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[TuneRecord], alone: bool) -> Result<Markup, ReportError> {
    let mut charts = Vec::new();
    for (index, record) in records.iter().enumerate() {
        charts.push(curve::chart(record, &format!("t-c{index}"))?);
    }
    Ok(html! {
        article #t {
            @if !alone { h2 { "Weights" } }
            nav aria-label="Sections" {
                @for (name, title) in SECTIONS { a href=(format!("#t-{name}")) { (title) } }
                a href="#records" { "Raw records" }
            }
            (weights(records))
            section #t-curves {
                h2 { "Rate over share" }
                p.note {
                    "To the right: the share of the pages that are not on the first tier. Dashed: modelled, with the range over the uncertainty of the machine profile as a shaded band. "
                    "Solid: measured, with whiskers from the smallest to the largest repetition. Marks: the best weights and those that the kernel would choose by itself (the ratio of the tiers' bandwidths)."
                }
                div.grid { @for chart in &charts { (chart) } }
            }
        }
    })
}

/// The title of a report on weights.
pub(crate) fn title_of(records: &[TuneRecord]) -> String {
    let mut machines: Vec<&str> = Vec::new();
    for record in records {
        let name = machine(record);
        if !machines.contains(&name) {
            machines.push(name);
        }
    }
    let phases = records.len();
    format!(
        "Weights for {phases} {} on {}",
        if phases == 1 { "phase" } else { "phases" },
        words::list(&machines)
    )
}

fn machine(record: &TuneRecord) -> &str {
    if record.machine == HERE {
        "this machine"
    } else {
        &record.machine
    }
}

fn weights(records: &[TuneRecord]) -> Markup {
    html! {
        section #t-weights {
            h2 { "Weights" }
            ul.findings { @for record in records { li { (finding(record)) } } }
            @for record in records {
                @if !record.warnings.is_empty() {
                    div.box.warn {
                        p { b { (record.phase) " on " (machine(record)) } }
                        ul { @for warning in &record.warnings { li { (warning) } } }
                    }
                }
            }
            div.scroll {
                table {
                    thead { tr {
                        th { "phase" } th { "machine" } th.n { "workers" } th { "best weights" } th.n { "rate" } th.n { "first tier only" } th.n { "gain" }
                        th.n { "gain, range" } th.n { "best share, range" } th { "kernel's weights" } th.n { "rate" } th.n { "gain over kernel" }
                    } }
                    tbody { @for record in records { (row(record)) } }
                }
            }
            p.note {
                "Gain: rate with the best weights over the rate with everything on the first tier. Ranges are over the uncertainty of the machine profile: of the gain when the recommended weights meet another machine within it, and of that machine's own best share of the other tiers. "
                @if records.iter().any(|r| r.provenance == Provenance::Measured) { "Measured weights have none; their spread is that of the repetitions." }
            }
        }
    }
}

fn finding(record: &TuneRecord) -> Markup {
    let gain = record.best_rate / record.dram_rate;
    html! {
        (record.phase) " on " (machine(record)) " with " (words::threads(record.workers)) ": " b { (list(&record.best)) } " gives " (rate(record.best_rate, &record.unit)) " "
        (tag(record.provenance)) ", "
        @if (gain - 1.0).abs() < words::SAME_WITHIN { "the same as the first tier alone." } @else { (words::ratio(gain)) " of the first tier alone" @if let Some((low, high)) = record.gain_range { " (" (words::ratio(low)) " to " (words::ratio(high)) ")" } "." }
    }
}

fn row(record: &TuneRecord) -> Markup {
    let gain = record.best_rate / record.dram_rate;
    let over_kernel = record.best_rate / record.kernel_rate;
    let ratios = |(low, high)| format!("{} to {}", words::ratio(low), words::ratio(high));
    let shares = |(low, high)| format!("{} to {}", words::share(low), words::share(high));
    html! {
        tr {
            td { b { (record.phase) } span.sub { (record.what) } }
            td { (machine(record)) }
            td.n { (record.workers) }
            td { (list(&record.best)) }
            td.n { (rate(record.best_rate, &record.unit)) " " (tag(record.provenance)) }
            td.n { (rate(record.dram_rate, &record.unit)) }
            td.n { (words::ratio(gain)) }
            td.n { (record.gain_range.map_or_else(|| "-".into(), ratios)) }
            td.n { (record.best_share_range.map_or_else(|| "-".into(), shares)) }
            td { (list(&record.kernel)) }
            td.n { (rate(record.kernel_rate, &record.unit)) }
            td.n { (words::ratio(over_kernel)) }
        }
    }
}

/// Weights as text, "dram 3, cxl 2".
fn list(weights: &[TierWeight]) -> String {
    let all: Vec<String> = weights
        .iter()
        .map(|w| format!("{} {}", w.tier, w.weight))
        .collect();
    if all.is_empty() {
        "-".into()
    } else {
        all.join(", ")
    }
}

fn rate(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}
