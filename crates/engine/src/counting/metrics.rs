//! Counts among the metrics of an operator, where `EXPLAIN ANALYZE` shows them.

use super::{CountedStep, Tallies};
use datafusion::physical_plan::metrics::{Count, Gauge, Metric, MetricValue, MetricsSet, Time};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tierloom_counters::stalls::{Breakdown, Quantity};

/// `metrics` and what was counted, if the operator was.
pub(crate) fn with_counts(metrics: Option<MetricsSet>, tallies: &Tallies) -> Option<MetricsSet> {
    let Some(counting) = tallies.counting() else {
        return metrics;
    };
    let plan = counting.plan();
    let counts = tallies.counts(&[CountedStep::First, CountedStep::Probe]);
    let mut metrics = metrics.unwrap_or_default();
    let counted = Breakdown::of(&counts, plan, counting.problem());
    for value in counted.quantities.iter().filter_map(metric) {
        metrics.push(Arc::new(Metric::new(value, None)));
    }
    Some(metrics)
}

/// A quantity as DataFusion shows it: metrics are whole numbers. `None` if it is not available.
fn metric(quantity: &Quantity) -> Option<MetricValue> {
    let value = quantity.value?;
    let name = quantity.name;
    Some(match quantity.unit {
        "ns" => {
            let time = Time::new();
            time.add_duration(Duration::from_nanos(value as u64));
            MetricValue::Time {
                name: Cow::Borrowed("busy"),
                time,
            }
        }
        unit if unit.starts_with('%') => {
            let gauge = Gauge::new();
            gauge.add(value.round() as usize);
            MetricValue::Gauge {
                name: Cow::Owned(format!("{name}_percent")),
                gauge,
            }
        }
        _ => {
            let count = Count::new();
            count.add(value as usize);
            MetricValue::Count {
                name: Cow::Borrowed(name),
                count,
            }
        }
    })
}
