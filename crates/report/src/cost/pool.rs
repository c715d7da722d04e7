//! Prices of a pool that hosts share, against memory for the peak of each.

use crate::section::{missing, tag};
use crate::words;
use maud::{Markup, html};
use tierloom_record::{PoolCostOffer, PoolCostRecord};

/// All comparisons as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[PoolCostRecord], alone: bool) -> Markup {
    html! {
        article #o {
            @if !alone { h2 { (title_of(records)) } }
            @for record in records { (comparison(record)) }
        }
    }
}

/// The title of a report on pools.
pub(crate) fn title_of(records: &[PoolCostRecord]) -> String {
    let hosts: Vec<String> = records.iter().map(|r| r.hosts.to_string()).collect();
    format!("What a pool for {} hosts costs", words::list(&hosts))
}

fn comparison(record: &PoolCostRecord) -> Markup {
    html! {
        section {
            h2 { "Findings " (tag(record.provenance)) }
            p.note {
                (record.hosts) " hosts, " (record.demand) ". Prices " (record.prices) " (" (record.currency) ", " (record.as_of) "); those of the pool are assumptions."
            }
            ul.findings { @for finding in &record.findings { li { (finding) } } }
            (offers(record))
            (sensitivities(record))
        }
    }
}

fn offers(record: &PoolCostRecord) -> Markup {
    let all = [
        ("own DRAM", &record.own),
        ("own, CXL devices allowed", &record.own_cxl),
        ("pool behind a switch", &record.pool),
    ];
    html! {
        div.scroll {
            table {
                thead { tr {
                    th { "memory" } th { "each host" }
                    th.n { "devices" } th.n { "boxes" }
                    th.n { "DRAM, GiB" } th.n { "CXL, GiB" } th.n { "stranded, GiB" }
                    th.n { "price, " (record.currency) }
                } }
                tbody { @for (name, offer) in all { (row(name, offer.as_ref())) } }
            }
        }
    }
}

fn row(name: &str, offer: Option<&PoolCostOffer>) -> Markup {
    let Some(offer) = offer else {
        return html! { tr { td { (name) } td colspan="7" { "cannot be built" } } };
    };
    let mut hosts = offer.hosts.clone();
    hosts.dedup();
    html! {
        tr {
            td { (name) }
            td { (hosts.join("; ")) }
            td.n { (offer.devices) }
            td.n { (offer.boxes) }
            td.n { (words::count(offer.dram_gib)) }
            td.n { (words::count(offer.cxl_gib)) }
            td.n { (words::count(offer.stranded_gib)) }
            td.n { (price(offer.price)) }
        }
    }
}

fn sensitivities(record: &PoolCostRecord) -> Markup {
    let share =
        |saving: Option<f64>| saving.map_or("-".to_owned(), |s| format!("{:.1}%", s * 100.0));
    html! {
        h2 { "What if a price is wrong" }
        @if record.sensitivities.is_empty() { (missing("No price was changed in this comparison.")) }
        @else {
            p.note { "Every price at half and twice its value, alone; what the pool then saves, and the price at which it saves nothing." }
            div.scroll {
                table {
                    thead { tr {
                        th { "price" } th.n { "now" }
                        th.n { "saved at half" } th.n { "saved at twice" } th.n { "break-even" }
                    } }
                    tbody {
                        @for one in &record.sensitivities {
                            tr {
                                td { (one.path) }
                                td.n { (price(one.value)) }
                                td.n { (share(one.saving_at_half)) }
                                td.n { (share(one.saving_at_twice)) }
                                td.n { (one.break_even.map_or("none".to_owned(), price)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn price(price: f64) -> String {
    words::count(price.max(0.0).round() as u64)
}
