//! Prices of memory: price over demand, findings, and the assumptions that they depend on.

mod chart;
pub(crate) mod pool;
mod table;

use crate::section::{missing, tag};
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::CostRecord;

/// All comparisons of prices as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[CostRecord], alone: bool) -> Result<Markup, ReportError> {
    let mut parts = Vec::new();
    for (index, record) in records.iter().enumerate() {
        parts.push(comparison(record, &format!("c-{index}"), records.len())?);
    }
    Ok(html! {
        article #c {
            @if !alone { h2 { "What memory costs" } }
            @for part in &parts { (part) }
        }
    })
}

/// The title of a report on prices.
pub(crate) fn title_of(records: &[CostRecord]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        if !names.contains(&record.prices.as_str()) {
            names.push(&record.prices);
        }
    }
    format!("What memory costs, by prices {}", words::list(&names))
}

fn comparison(record: &CostRecord, id: &str, of: usize) -> Result<Markup, ReportError> {
    let charts = chart::all(record, id)?;
    Ok(html! {
        section id=(id) {
            @if of > 1 { h2 { "Prices " (record.prices) ", " (record.as_of) } }
            nav aria-label="Sections" {
                a href=(format!("#{id}-findings")) { "Findings" }
                a href=(format!("#{id}-prices")) { "Price over demand" }
                a href=(format!("#{id}-table")) { "Table" }
                a href=(format!("#{id}-sensitivities")) { "Assumptions" }
                a href="#records" { "Raw records" }
            }
            (findings(record, id))
            section id=(format!("{id}-prices")) {
                h2 { "Price over demand" }
                @if charts.is_empty() { (missing("No demand can be met by any kind of configuration.")) }
                div.grid { @for chart in &charts { (chart) } }
            }
            (table::points(record, id))
            (table::sensitivities(record, id))
        }
    })
}

fn findings(record: &CostRecord, id: &str) -> Markup {
    html! {
        section id=(format!("{id}-findings")) {
            h2 { "Findings " (tag(record.provenance)) }
            p.note {
                "From prices " (record.prices) " (" (record.currency) ", " (record.as_of) "): CPUs, DIMMs and the boards of CXL devices; everything else is taken to be the same. "
                @if let Some(of) = &record.throughput_of { "Throughput is modelled: " (of) "." }
            }
            @if record.findings.is_empty() { (missing("This comparison has no findings.")) }
            ul.findings { @for finding in &record.findings { li { (finding) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_record::{CostConfig, CostPoint, CostSensitivity, Provenance, SCHEMA};

    fn config(price: f64, queries_per_hour: Option<f64>) -> Option<CostConfig> {
        Some(CostConfig {
            words: "1 CPU, 16 x 64 GiB <DDR5>".into(),
            price,
            dram_gib: 1024,
            cxl_gib: 0,
            queries_per_hour,
        })
    }

    fn record(throughput_of: Option<&str>) -> CostRecord {
        let queries = throughput_of.map(|_| 1234.0);
        let point = |demand_gib, cheapest| CostPoint {
            demand_gib,
            cheapest,
        };
        CostRecord {
            schema: SCHEMA.into(),
            provenance: Provenance::Modelled,
            made_at: "2025-11-21T10:00:00Z".into(),
            tool_version: "0".into(),
            prices: "sample".into(),
            currency: "EUR".into(),
            as_of: "2025-03".into(),
            kinds: vec!["CPU memory".into(), "CPU memory + 1 CXL device".into()],
            points: vec![
                point(
                    1024,
                    vec![config(9536.0, queries), config(10_560.0, queries)],
                ),
                point(9216, vec![None, config(115_600.0, queries)]),
            ],
            findings: vec!["CPU memory alone is the cheapest up to 1 TiB.".into()],
            sensitivities: ["nothing moves", "saving: 61% -> 52%"]
                .map(|effect| CostSensitivity {
                    assumption: "price of a CPU".into(),
                    change: "-20%".into(),
                    effect: effect.into(),
                    largest_saving: 0.61,
                })
                .into(),
            throughput_of: throughput_of.map(String::from),
        }
    }

    #[test]
    fn demands_that_nothing_meets_are_told_and_not_drawn() {
        let html = article(&[record(None)], true).unwrap().into_string();
        assert!(html.contains("cannot meet it") && html.contains("115,600"));
        assert!(html.contains("&lt;DDR5&gt;") && html.contains("-11%"));
        assert!(!html.contains("NaN") && !html.contains("q/h"));
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(html.contains("Nothing moves with: price of a CPU (-20%)."));
        let mut none = record(None);
        none.points.clear();
        let html = article(&[none], true).unwrap().into_string();
        assert!(html.contains("No demand was asked for."));
    }

    #[test]
    fn throughput_gets_a_chart_and_columns_and_says_that_it_is_modelled() {
        let all = [record(Some("13 queries")), record(None)];
        let html = article(&all, false).unwrap().into_string();
        assert_eq!(html.matches("<svg").count(), 3);
        assert!(html.contains("1,234") && html.contains("Throughput is modelled: 13 queries."));
        for id in ["id=\"c-0\"", "id=\"c-1\"", "id=\"c-1-table\""] {
            assert_eq!(html.matches(id).count(), 1, "{id}");
        }
        assert_eq!(title_of(&all), "What memory costs, by prices sample");
    }
}
