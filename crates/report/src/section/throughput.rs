//! Throughput of concurrent sessions under each placement.

use super::tag;
use crate::view::{BASELINE, RunView};
use crate::words;
use maud::{Markup, html};
use tierloom_record::{StreamRecord, ThroughputRecord};

pub(crate) fn section(view: &RunView<'_>) -> Markup {
    let records = &view.set.throughputs;
    html! {
        section id=(format!("{}-throughput", view.prefix)) {
            h2 { "Throughput under each placement" }
            p.note {
                "Queries per hour of all sessions together. Each session runs the queries in its \
                 own order until the time is up; its rate is its queries over its own time."
            }
            (totals(records))
            h3 { "Sessions" }
            @for record in records {
                details {
                    summary {
                        (record.placement) ", " (record.engine) ", "
                        (record.streams.len()) " sessions"
                    }
                    (sessions(&record.streams))
                }
            }
        }
    }
}

fn totals(records: &[ThroughputRecord]) -> Markup {
    let against = |record: &ThroughputRecord| {
        let mut all = records.iter();
        let dram = all.find(|r| r.placement == BASELINE && r.engine == record.engine)?;
        Some(record.queries_per_hour / dram.queries_per_hour).filter(|ratio| ratio.is_finite())
    };
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "placement" } th { "engine" } th.n { "queries" }
                        th.n { "queries per hour" }
                        th.n { "per session" span.sub { "median [min..max]" } }
                        th.n { "against " (BASELINE) }
                    }
                }
                tbody {
                    @for record in records {
                        tr {
                            th { (record.placement) }
                            td { (record.engine) }
                            td.n { (words::count(record.queries)) }
                            td.n { (rate(record.queries_per_hour)) " " (tag(record.provenance)) }
                            td.n { (range(record)) }
                            td.n {
                                @if let Some(ratio) = against(record) { (words::ratio(ratio)) }
                                @else { "no figure of " (BASELINE) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn range(record: &ThroughputRecord) -> String {
    let spread = &record.per_stream_queries_per_hour;
    let [median, min, max] = [spread.median, spread.min, spread.max].map(rate);
    format!("{median} [{min}..{max}]")
}

/// A rate without decimals; one does not reach u64.
fn rate(per_hour: f64) -> String {
    words::count(per_hour.max(0.0).round() as u64)
}

fn sessions(streams: &[StreamRecord]) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.n { "session" } th.n { "queries" } th.n { "s" }
                        th.n { "queries per hour" } th.n { "ms: median [min..max]" }
                    }
                }
                tbody {
                    @for stream in streams {
                        tr {
                            td.n { (stream.stream) }
                            td.n { (words::count(stream.queries)) }
                            td.n { (words::number(stream.elapsed_s)) }
                            td.n { (rate(stream.queries_per_hour)) }
                            td.n {
                                @if let Some(times) = &stream.time_ms { (words::spread_ms(times)) }
                                @else { "no query finished" }
                            }
                        }
                    }
                }
            }
        }
    }
}
