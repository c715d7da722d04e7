//! A dashboard for Grafana and alerts for Prometheus, made from one table of expressions.

use serde_json::{Value, json};

/// A panel: title, unit of Grafana, expressions with the legend of their series.
struct Panel {
    title: &'static str,
    about: &'static str,
    unit: &'static str,
    /// Columns of the grid of 24.
    width: u32,
    kind: &'static str,
    queries: &'static [(&'static str, &'static str)],
}

/// `$job` and `$instance` are variables of the dashboard.
const PANELS: [Panel; 12] = [
    Panel {
        title: "Statements running",
        about: "Statements that run now, and that wait for others to end",
        unit: "short",
        width: 6,
        kind: "stat",
        queries: &[
            (
                "tierloom_statements_running{job=\"$job\",instance=~\"$instance\"}",
                "running",
            ),
            (
                "tierloom_statements_waiting{job=\"$job\",instance=~\"$instance\"}",
                "waiting",
            ),
        ],
    },
    Panel {
        title: "Clients",
        about: "Clients that are connected",
        unit: "short",
        width: 6,
        kind: "stat",
        queries: &[(
            "tierloom_sessions{job=\"$job\",instance=~\"$instance\"}",
            "clients",
        )],
    },
    Panel {
        title: "Statements a second",
        about: "By kind and end: star is a query with a fused star join",
        unit: "ops",
        width: 12,
        kind: "timeseries",
        queries: &[(
            "sum by (kind, end) (rate(tierloom_statements_total{job=\"$job\",instance=~\"$instance\"}[$__rate_interval]))",
            "{{kind}} {{end}}",
        )],
    },
    Panel {
        title: "Time of statements",
        about: "Median and 99th percentile of statements that ended with an answer",
        unit: "s",
        width: 12,
        kind: "timeseries",
        queries: &[
            (
                "histogram_quantile(0.5, sum by (le, kind) (rate(tierloom_statement_seconds_bucket{job=\"$job\",instance=~\"$instance\"}[$__rate_interval])))",
                "{{kind}} median",
            ),
            (
                "histogram_quantile(0.99, sum by (le, kind) (rate(tierloom_statement_seconds_bucket{job=\"$job\",instance=~\"$instance\"}[$__rate_interval])))",
                "{{kind}} 99%",
            ),
        ],
    },
    Panel {
        title: "Memory of nodes in use",
        about: "Share of a node's memory that is not free; page cache counts as in use",
        unit: "percentunit",
        width: 12,
        kind: "timeseries",
        queries: &[(
            "1 - tierloom_node_free_bytes{job=\"$job\",instance=~\"$instance\"} / tierloom_node_bytes{job=\"$job\",instance=~\"$instance\"}",
            "node {{node}} ({{tier}})",
        )],
    },
    Panel {
        title: "Memory traffic",
        about: "Bytes read from and written to the memory of sockets and CXL devices, a second, by hardware counters; other programs' too. Without data where the machine has no such counters",
        unit: "Bps",
        width: 24,
        kind: "timeseries",
        queries: &[(
            "rate(tierloom_memory_traffic_bytes_total{job=\"$job\",instance=~\"$instance\"}[$__rate_interval])",
            "{{place}} {{direction}}",
        )],
    },
    Panel {
        title: "What counted statements wait for",
        about: "Shares of the cycles of statements of sessions with SET tierloom.counters. Without data where no session counts, or the processor has no such counters",
        unit: "percentunit",
        width: 24,
        kind: "timeseries",
        queries: &[(
            "rate(tierloom_counted_total{job=\"$job\",instance=~\"$instance\",quantity=~\".+_cycles\"}[$__rate_interval]) / ignoring(quantity) group_left rate(tierloom_counted_total{job=\"$job\",instance=~\"$instance\",quantity=\"cycles\"}[$__rate_interval])",
            "{{quantity}}",
        )],
    },
    Panel {
        title: "Columns by node",
        about: "Where the pages of columns are, from a sample",
        unit: "bytes",
        width: 12,
        kind: "timeseries",
        queries: &[(
            "tierloom_node_columns_bytes{job=\"$job\",instance=~\"$instance\"}",
            "node {{node}} ({{tier}})",
        )],
    },
    Panel {
        title: "Operator memory",
        about: "Joins, aggregations, sorts and other classes, by place",
        unit: "bytes",
        width: 12,
        kind: "timeseries",
        queries: &[(
            "tierloom_memory_class_bytes{job=\"$job\",instance=~\"$instance\"}",
            "{{class}} at {{place}}",
        )],
    },
    Panel {
        title: "Allocations that fell to another place",
        about: "Allocations that an earlier place of their class could not serve, a second",
        unit: "ops",
        width: 12,
        kind: "timeseries",
        queries: &[(
            "rate(tierloom_memory_class_fallbacks_total{job=\"$job\",instance=~\"$instance\"}[$__rate_interval])",
            "{{class}} at {{place}}",
        )],
    },
    Panel {
        title: "Read by queries",
        about: "Bytes that queries read of the columns of each table, a second",
        unit: "Bps",
        width: 12,
        kind: "timeseries",
        queries: &[(
            "topk(10, rate(tierloom_table_read_bytes_total{job=\"$job\",instance=~\"$instance\"}[$__rate_interval]))",
            "{{table}}",
        )],
    },
    Panel {
        title: "Tables",
        about: "Bytes by table and node, from a sample of their pages",
        unit: "bytes",
        width: 12,
        kind: "timeseries",
        queries: &[(
            "topk(20, tierloom_table_bytes{job=\"$job\",instance=~\"$instance\"})",
            "{{table}} on node {{node}}",
        )],
    },
];

/// Name, expression, how long it must hold, and what it means.
const ALERTS: [(&str, &str, &str, &str); 4] = [
    (
        "TierloomNodeFull",
        "tierloom_node_free_bytes / tierloom_node_bytes < 0.05",
        "5m",
        "node {{ $labels.node }} ({{ $labels.tier }}) has less than 5% of its memory free; further \
         memory goes to other places or fails",
    ),
    (
        "TierloomFallbacks",
        "rate(tierloom_memory_class_fallbacks_total[5m]) > 0",
        "5m",
        "operator memory of class {{ $labels.class }} falls to {{ $labels.place }}, since an earlier \
         place is full or at its limit",
    ),
    (
        "TierloomPagesMisplaced",
        "tierloom_table_misplaced_ratio > 0.01",
        "10m",
        "more than 1% of the pages of table {{ $labels.table }} are on another node than its \
         placement says; something else moves pages (`tierloom doctor`)",
    ),
    (
        "TierloomModelOff",
        "abs(tierloom_model_error_ratio) > 0.2",
        "30m",
        "phase {{ $labels.phase }} takes a time that is more than 20% off the model; `tierloom \
         characterize` measures the machine again",
    ),
];

/// Grafana's dashboard, as JSON to import.
pub fn dashboard() -> Value {
    let source = json!({"type": "prometheus", "uid": "${source}"});
    let (mut x, mut y) = (0, 0);
    let mut panels = Vec::new();
    for (index, panel) in PANELS.iter().enumerate() {
        if x + panel.width > 24 {
            (x, y) = (0, y + HEIGHT);
        }
        let targets = panel.queries.iter().enumerate();
        let targets = targets.map(|(number, (expr, legend))| {
            let id = char::from(b'A' + number as u8).to_string();
            json!({"datasource": source, "expr": expr, "legendFormat": legend, "refId": id})
        });
        panels.push(json!({
            "id": index + 1,
            "title": panel.title,
            "description": panel.about,
            "type": panel.kind,
            "datasource": source,
            "gridPos": {"h": HEIGHT, "w": panel.width, "x": x, "y": y},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "options": {},
            "targets": targets.collect::<Vec<_>>(),
        }));
        x += panel.width;
    }
    let values = |name: &str, label: &str, of: &str, multi: bool| {
        json!({
            "name": name,
            "label": label,
            "type": "query",
            "datasource": source,
            "query": {"query": of, "refId": name},
            "refresh": 2,
            "multi": multi,
            "includeAll": multi,
        })
    };
    json!({
        "title": "Tierloom",
        "uid": "tierloom",
        "schemaVersion": 39,
        "editable": true,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [
            {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
            values("job", "Job", "label_values(tierloom_uptime_seconds, job)", false),
            values(
                "instance",
                "Server",
                "label_values(tierloom_uptime_seconds{job=\"$job\"}, instance)",
                true,
            ),
        ]},
        "panels": panels,
    })
}

/// Height of a panel in rows of the grid.
const HEIGHT: u32 = 8;

/// Rules of alerts for Prometheus, as JSON, which is YAML too.
pub fn alerts() -> Value {
    let rules = ALERTS.map(|(name, expr, lasting, meaning)| {
        json!({
            "alert": name,
            "expr": expr,
            "for": lasting,
            "labels": {"severity": "warning"},
            "annotations": {"summary": meaning},
        })
    });
    json!({"groups": [{"name": "tierloom", "rules": rules}]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::FAMILIES;
    use std::collections::BTreeSet;

    /// Names of metrics in an expression.
    fn metrics(expr: &str) -> Vec<String> {
        let words = expr.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let ours = words.filter(|word| word.starts_with("tierloom_"));
        ours.map(|w| w.trim_end_matches("_bucket").to_owned())
            .collect()
    }

    #[test]
    fn panels_and_alerts_ask_for_metrics_that_exist() {
        let known: BTreeSet<&str> = FAMILIES.iter().map(|family| family.name).collect();
        let panels = PANELS
            .iter()
            .flat_map(|p| p.queries.iter().map(|(expr, _)| *expr));
        for expr in panels.chain(ALERTS.iter().map(|(_, expr, ..)| *expr)) {
            let asked = metrics(expr);
            assert!(!asked.is_empty(), "{expr}");
            for metric in asked {
                let histogram = metric == "tierloom_statement_seconds";
                assert!(histogram || known.contains(metric.as_str()), "{metric}");
            }
        }
    }

    #[test]
    fn no_two_panels_share_a_place_or_a_number() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().unwrap();
        let of = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().unwrap();
        let ids: BTreeSet<u64> = panels.iter().map(|p| p["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len());
        let mut cells = BTreeSet::new();
        for panel in panels {
            let (x, y, w) = (of(panel, "x"), of(panel, "y"), of(panel, "w"));
            assert!(x + w <= 24);
            for column in x..x + w {
                assert!(cells.insert((column, y)), "{}", panel["title"]);
            }
        }
    }
}
