//! The machine that ran the command, and the profiles of modelled machines.

use super::missing;
use crate::view::RunView;
use crate::words;
use maud::{Markup, html};
use tierloom_record::{HostCard, MachineCard, ProbeCard, Spread};

pub(crate) fn section(view: &RunView<'_>) -> Markup {
    let run = &view.set.run;
    html! {
        section id=(format!("{}-machine", view.prefix)) {
            h2 { "Machines" }
            h3 { "This machine: " (run.host.cpu_model) }
            (host(&run.host))
            @if run.machines.is_empty() { (missing("No machine was modelled: none was asked for.")) }
            @for card in &run.machines { (profile(card)) }
        }
    }
}

/// Properties of a machine that ran a command.
pub(crate) fn host(host: &HostCard) -> Markup {
    html! {
        dl {
            dt { "processor" } dd { (host.cpu_model) ", " (host.cpus) " logical CPUs usable, " (host.smt) " per core" }
            dt { "memory" } dd { (words::bytes(host.memory_bytes)) }
            dt { "caches" } dd { (caches(host)) }
            dt { "kernel" } dd { (host.kernel) }
            dt { "transparent huge pages" } dd { (host.thp) }
            dt { "NUMA balancing" } dd { (host.numa_balancing.as_deref().unwrap_or("not readable")) }
            dt { "frequency governor" } dd { (host.governor) }
        }
        @if host.tiers.is_empty() {
            (missing("The tiers of this machine were not recorded."))
        } @else {
            div.scroll {
                table {
                    thead { tr { th { "tier" } th { "NUMA nodes" } th.n { "memory" } th { "why it is called that" } } }
                    tbody {
                        @for tier in &host.tiers {
                            tr {
                                th { (tier.kind) }
                                td { (tier.nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")) }
                                td.n { (words::bytes(tier.memory_bytes)) } td { (tier.reason) }
                            }
                        }
                    }
                }
            }
        }
        @if let Some(probe) = &host.probe { (quick_measurement(probe)) } @else { p.note { "No quick measurement of memory was made." } }
        @if !host.notes.is_empty() {
            h4 { "What could not be found out" }
            ul { @for note in &host.notes { li { (note) } } }
        }
    }
}

fn caches(host: &HostCard) -> String {
    let one = |c: &tierloom_record::CacheCard| {
        format!(
            "{} × {} L{} {}",
            c.count,
            words::bytes(c.size_bytes),
            c.level,
            c.kind
        )
    };
    if host.caches.is_empty() {
        "not readable".into()
    } else {
        host.caches.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

fn quick_measurement(probe: &ProbeCard) -> Markup {
    let row = |name: &str, spread: &Spread, unit: &str| {
        html! {
            tr {
                td { (name) }
                td.n { (words::number(spread.median)) " [" (words::number(spread.min)) ".." (words::number(spread.max)) "] " (unit) }
                td.n { (spread.values.len()) }
            }
        }
    };
    html! {
        h4 { "Quick measurement in the same run, over " (words::bytes(probe.footprint_bytes)) " of loaded columns" }
        div.scroll {
            table {
                thead { tr { th { "what" } th.n { "median [min..max]" } th.n { "repeats" } } }
                tbody {
                    (row("sequential read, one thread", &probe.read_gbps_one_thread, "GB/s"))
                    (row("sequential read, all worker threads", &probe.read_gbps_all_threads, "GB/s"))
                }
            }
        }
    }
}

fn profile(card: &MachineCard) -> Markup {
    html! {
        h3 { "Modelled machine " (card.name) ": " (card.title) }
        @if let Some(scale_factor) = card.scale_factor {
            p.note {
                "Modelled figures are for scale factor " (words::number(scale_factor))
                @if let Some(bytes) = card.table_bytes { ", tables of " (words::bytes(bytes)) }
                "."
            }
        }
        ul { @for citation in &card.citations { li { (citation) } } }
        @if card.figures.is_empty() {
            (missing("The profile's figures were not recorded."))
        } @else {
            div.scroll {
                table {
                    thead { tr { th { "figure" } th.n { "value" } th { "kind" } th { "source" } } }
                    tbody {
                        @for figure in &card.figures {
                            tr { td { (figure.label) } td.n { (words::number(figure.value)) " " (figure.unit) } td { (figure.kind) } td { (figure.source) } }
                        }
                    }
                }
            }
        }
    }
}
