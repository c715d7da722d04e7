//! Snapshots in the text format of Prometheus (OpenMetrics 1.0).
//!
//! Names are Prometheus': base units, `_bytes`, `_seconds`, `_total` for counters. Labels are
//! bounded by what the server has: tables, nodes, and places of classes; columns are none. A value
//! that is not known has no sample, never a zero.

use super::counted::Counted;
use super::snapshot::Snapshot;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family as Series;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::atomic::AtomicU64;

/// What a scrape is answered with.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of a sample in the order of [`Family::labels`], and its value.
type Sample = (Vec<String>, f64);

/// A metric with its labels.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Its name as Prometheus shows it.
    pub name: &'static str,
    /// What it is, for `# HELP` and docs/serve.md.
    pub help: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    samples: fn(&Snapshot) -> Vec<Sample>,
}

/// Ending of the names of counters.
const TOTAL: &str = "_total";

/// Every metric but the histogram `tierloom_statement_seconds`.
pub const FAMILIES: [Family; 19] = [
    Family {
        name: "tierloom_uptime_seconds",
        help: "Time since the server was started",
        labels: &[],
        samples: |s| one(s.uptime_seconds),
    },
    Family {
        name: "tierloom_node_bytes",
        help: "Memory of a NUMA node that the kernel manages",
        labels: &["node", "tier"],
        samples: |s| of_nodes(s, |node| Some(node.size_bytes)),
    },
    Family {
        name: "tierloom_node_free_bytes",
        help: "Memory that is free on a NUMA node, page cache not counted",
        labels: &["node", "tier"],
        samples: |s| of_nodes(s, |node| node.free_bytes),
    },
    Family {
        name: "tierloom_node_columns_bytes",
        help: "Bytes of columns on a NUMA node, from a sample of their pages",
        labels: &["node", "tier"],
        samples: |s| of_nodes(s, |node| Some(node.columns_bytes)),
    },
    Family {
        name: "tierloom_memory_traffic_bytes_total",
        help: "Bytes read from or written to memory since the server was started, by hardware counters, other programs' too",
        labels: &["place", "direction"],
        samples: |s| {
            let known = s.traffic.iter();
            let sample = known.filter_map(|traffic| {
                let labels = vec![traffic.place.clone(), traffic.direction.clone()];
                Some((labels, traffic.bytes?))
            });
            sample.collect()
        },
    },
    Family {
        name: "tierloom_table_bytes",
        help: "Bytes of a table on a NUMA node, from a sample of its pages",
        labels: &["table", "node"],
        samples: |s| {
            let tables = s.tables.iter();
            let parts = tables.flat_map(|t| t.nodes.iter().map(|part| (&t.table, part)));
            let sample = parts.map(|(table, part)| {
                let labels = vec![table.clone(), part.node.to_string()];
                (labels, part.size_bytes as f64)
            });
            sample.collect()
        },
    },
    Family {
        name: "tierloom_table_rows",
        help: "Rows of a table",
        labels: &["table"],
        samples: |s| of_tables(s, |table| Some(table.rows as f64)),
    },
    Family {
        name: "tierloom_table_misplaced_ratio",
        help: "Share of a table's sampled pages that are on another node than its placement says",
        labels: &["table"],
        samples: |s| of_tables(s, |table| table.misplaced),
    },
    Family {
        name: "tierloom_table_read_bytes_total",
        help: "Bytes that queries have read of a table's columns",
        labels: &["table"],
        samples: |s| of_tables(s, |table| Some(table.read_bytes as f64)),
    },
    Family {
        name: "tierloom_memory_class_bytes",
        help: "Operator memory of a class in use at a place",
        labels: &["class", "place"],
        samples: |s| of_classes(s, |class| Some(class.current_bytes)),
    },
    Family {
        name: "tierloom_memory_class_peak_bytes",
        help: "Most operator memory of a class that was in use at a place",
        labels: &["class", "place"],
        samples: |s| of_classes(s, |class| Some(class.peak_bytes)),
    },
    Family {
        name: "tierloom_memory_class_limit_bytes",
        help: "Most operator memory that a class may have at a place; absent without a limit",
        labels: &["class", "place"],
        samples: |s| of_classes(s, |class| class.limit_bytes),
    },
    Family {
        name: "tierloom_memory_class_fallbacks_total",
        help: "Allocations that an earlier place of their class could not serve",
        labels: &["class", "place"],
        samples: |s| of_classes(s, |class| Some(class.fallbacks)),
    },
    Family {
        name: "tierloom_statements_running",
        help: "Statements that run now",
        labels: &[],
        samples: |s| one(s.running as f64),
    },
    Family {
        name: "tierloom_statements_waiting",
        help: "Statements that wait for others to end",
        labels: &[],
        samples: |s| one(s.waiting as f64),
    },
    Family {
        name: "tierloom_statements_total",
        help: "Statements that have ended: kind star (a fused star join), query or other; end done, failed or stopped",
        labels: &["kind", "end"],
        samples: |s| {
            let counts = s.statements.iter();
            let sample = counts.map(|c| (vec![c.kind.clone(), c.end.clone()], c.count as f64));
            sample.collect()
        },
    },
    Family {
        name: "tierloom_counted_total",
        help: "Sums over statements of sessions with SET tierloom.counters: their number (statements), busy_seconds, cycles, instructions, bytes, and shares as cycles, such as memory_bound_cycles",
        labels: &["quantity"],
        samples: |s| {
            let sums = s.counted.iter();
            sums.map(|sum| (vec![sum.quantity.clone()], sum.value))
                .collect()
        },
    },
    Family {
        name: "tierloom_sessions",
        help: "Clients that are connected",
        labels: &[],
        samples: |s| {
            let sessions = s.sessions.iter();
            sessions.flat_map(|all| one(all.len() as f64)).collect()
        },
    },
    Family {
        name: "tierloom_model_error_ratio",
        help: "Measured over modelled time of a phase in its latest run under adaptive placement, less 1",
        labels: &["phase"],
        samples: |s| {
            let mut latest = std::collections::BTreeMap::new();
            for decision in s.decisions.iter().flatten() {
                if let Some(measured_ms) = decision.measured_ms
                    && decision.expected_ms > 0.0
                {
                    latest.insert(&decision.phase, measured_ms / decision.expected_ms - 1.0);
                }
            }
            let sample = latest
                .into_iter()
                .map(|(phase, off)| (vec![phase.clone()], off));
            sample.collect()
        },
    },
];

fn one(value: f64) -> Vec<Sample> {
    vec![(Vec::new(), value)]
}

fn of_nodes(s: &Snapshot, bytes: fn(&super::NodeUse) -> Option<u64>) -> Vec<Sample> {
    let known = s.nodes.iter().filter_map(|node| Some((node, bytes(node)?)));
    let sample = known.map(|(node, bytes)| {
        let tier = node.tier.clone().unwrap_or_else(|| "none".to_owned());
        (vec![node.node.to_string(), tier], bytes as f64)
    });
    sample.collect()
}

fn of_tables(s: &Snapshot, value: fn(&super::TableUse) -> Option<f64>) -> Vec<Sample> {
    let known = s.tables.iter();
    let sample = known.filter_map(|table| Some((vec![table.table.clone()], value(table)?)));
    sample.collect()
}

fn of_classes(s: &Snapshot, value: fn(&super::ClassUse) -> Option<u64>) -> Vec<Sample> {
    let sample = s.classes.iter().filter_map(|class| {
        let labels = vec![class.class.clone(), class.place.clone()];
        Some((labels, value(class)? as f64))
    });
    sample.collect()
}

/// The text of a scrape.
///
/// # Errors
/// None in practice: writing to a string does not fail.
pub fn exposition(snapshot: &Snapshot, counted: &Counted) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    for family in &FAMILIES {
        family.register(snapshot, &mut registry);
    }
    counted.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

type Labels = Vec<(&'static str, String)>;

impl Family {
    fn register(&self, snapshot: &Snapshot, registry: &mut Registry) {
        let samples = (self.samples)(snapshot);
        if let (true, [(_, value)]) = (self.labels.is_empty(), samples.as_slice()) {
            let gauge = Gauge::<f64, AtomicU64>::default();
            gauge.set(*value);
            return registry.register(self.name, self.help, gauge);
        }
        let labelled = samples.into_iter().map(|(values, value)| {
            let labels: Labels = self.labels.iter().copied().zip(values).collect();
            (labels, value)
        });
        match self.name.strip_suffix(TOTAL) {
            Some(name) => {
                let series = Series::<Labels, Counter<f64, AtomicU64>>::default();
                for (labels, value) in labelled {
                    series.get_or_create(&labels).inc_by(value);
                }
                registry.register(name, self.help, series);
            }
            None => {
                let series = Series::<Labels, Gauge<f64, AtomicU64>>::default();
                for (labels, value) in labelled {
                    series.get_or_create(&labels).set(value);
                }
                registry.register(self.name, self.help, series);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::{Ended, Kind};
    use crate::snapshot::*;
    use std::time::Duration;

    pub(crate) fn full() -> (Snapshot, Counted) {
        let counted = Counted::default();
        counted.add(Kind::Star, Ended::Done, Duration::from_millis(3));
        let snapshot = Snapshot {
            version: "1".into(),
            at_seconds: 1.0,
            uptime_seconds: 60.5,
            nodes: vec![
                NodeUse {
                    node: 0,
                    tier: Some("dram".into()),
                    size_bytes: 8 << 30,
                    free_bytes: Some(1 << 30),
                    columns_bytes: 3 << 20,
                },
                NodeUse {
                    node: 1,
                    tier: None,
                    size_bytes: 4 << 30,
                    free_bytes: None,
                    columns_bytes: 1 << 20,
                },
            ],
            traffic: vec![
                TrafficUse {
                    place: "dram/socket0".into(),
                    direction: "read".into(),
                    bytes: Some(640.0),
                    missing: None,
                },
                TrafficUse {
                    place: "cxl".into(),
                    direction: "read".into(),
                    bytes: None,
                    missing: Some("no device".into()),
                },
            ],
            tables: vec![TableUse {
                table: "a \"quoted\"\\name\nof two lines".into(),
                rows: 10,
                size_bytes: 4 << 20,
                read_bytes: 77,
                nodes: vec![NodePart {
                    node: 0,
                    size_bytes: 3 << 20,
                }],
                misplaced: None,
            }],
            classes: vec![ClassUse {
                class: "join".into(),
                place: "[dram]".into(),
                limit_bytes: None,
                current_bytes: 5,
                peak_bytes: 9,
                fallbacks: 2,
                refused: None,
            }],
            running: 1,
            waiting: 0,
            statements: counted.counts(),
            counted: vec![CountedSum {
                quantity: "cycles".into(),
                value: 12.0,
            }],
            sessions: Some(Vec::new()),
            decisions: Some(vec![Decision {
                run: 1,
                phase: "lineorder".into(),
                action: "keep".into(),
                layout: "dram 1".into(),
                expected_ms: 2.0,
                measured_ms: Some(2.5),
                reason: String::new(),
            }]),
        };
        (snapshot, counted)
    }

    #[test]
    fn what_is_not_known_has_no_sample_and_odd_names_break_no_line() {
        let (snapshot, counted) = full();
        let text = exposition(&snapshot, &counted).unwrap();
        for line in [
            "tierloom_uptime_seconds 60.5",
            "tierloom_node_free_bytes{node=\"0\",tier=\"dram\"} 1073741824.0",
            "tierloom_table_read_bytes_total{table=\"a \\\"quoted\\\"\\\\name\\nof two lines\"} 77.0",
            "tierloom_memory_traffic_bytes_total{place=\"dram/socket0\",direction=\"read\"} 640.0",
            "tierloom_memory_class_fallbacks_total{class=\"join\",place=\"[dram]\"} 2.0",
            "tierloom_statements_total{kind=\"star\",end=\"done\"} 1.0",
            "tierloom_statement_seconds_count{kind=\"star\"} 1",
            "tierloom_counted_total{quantity=\"cycles\"} 12.0",
            "tierloom_sessions 0.0",
            "tierloom_model_error_ratio{phase=\"lineorder\"} 0.25",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}:\n{text}");
        }
        for absent in [
            "tierloom_node_free_bytes{node=\"1\"",
            "tierloom_table_misplaced_ratio{",
            "tierloom_memory_class_limit_bytes{",
            "tierloom_memory_traffic_bytes_total{place=\"cxl\"",
        ] {
            assert!(!text.contains(absent), "{absent}:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_page_of_the_server_has_every_metric() {
        let page = include_str!("../../../docs/serve.md");
        for Family { name, help, .. } in FAMILIES {
            let row = page
                .lines()
                .find(|line| line.starts_with(&format!("| `{name}` |")));
            assert!(
                row.is_some_and(|row| row.ends_with(&format!("| {help} |"))),
                "{name}"
            );
        }
    }

    #[test]
    fn every_metric_is_named_and_labelled_as_listed() {
        let (mut snapshot, counted) = full();
        snapshot.tables[0].misplaced = Some(0.5);
        snapshot.classes[0].limit_bytes = Some(7);
        let text = exposition(&snapshot, &counted).unwrap();
        for family in FAMILIES {
            let name = family.name.strip_suffix(TOTAL).unwrap_or(family.name);
            assert!(
                text.contains(&format!("# HELP {name} {}", family.help)),
                "{name}"
            );
            assert!(family.name.starts_with("tierloom_"));
        }
        let known: std::collections::BTreeSet<&str> = FAMILIES.iter().map(|f| f.name).collect();
        assert_eq!(known.len(), FAMILIES.len());
    }
}
