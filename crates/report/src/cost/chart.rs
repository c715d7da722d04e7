//! Price over demand, one line per kind of configuration.

use crate::ReportError;
use crate::chart::{Caption, Plot, PlotAxis, PlotPoint, PlotSeries, SERIES, Style, plot};
use maud::{Markup, html};
use tierloom_record::{CostConfig, CostRecord};

/// The charts that have data: price, and price per query if throughput was modelled.
pub(super) fn all(record: &CostRecord, id: &str) -> Result<Vec<Markup>, ReportError> {
    let price = chart(
        record,
        format!("{id}-price"),
        "Price of the cheapest configuration",
        1000.0,
        (format!("thousand {}", record.currency), true),
        &|config| Some(config.price),
    )?;
    let per_query = chart(
        record,
        format!("{id}-per-query"),
        "Price per query in an hour",
        1.0,
        (format!("{} per query in an hour", record.currency), false),
        &|config| {
            let queries = config.queries_per_hour.filter(|q| *q > 0.0)?;
            Some(config.price / queries)
        },
    )?;
    Ok([price, per_query].into_iter().flatten().collect())
}

/// One chart; `None` if no point has a value.
///
/// `unit` is the title of the y axis; with `steps`, values change in steps between points.
fn chart(
    record: &CostRecord,
    id: String,
    title: &str,
    divisor: f64,
    (unit, steps): (String, bool),
    value: &dyn Fn(&CostConfig) -> Option<f64>,
) -> Result<Option<Markup>, ReportError> {
    let line = |(index, name): (usize, &String)| {
        let at = record.points.iter().filter_map(|point| {
            let config = point.cheapest.get(index)?.as_ref()?;
            Some(PlotPoint {
                x: point.demand_gib as f64 / 1024.0,
                y: value(config).filter(|v| v.is_finite())?,
                range: None,
                valid: true,
            })
        });
        PlotSeries {
            name: short(name),
            series: index + 1,
            // All prices are modelled.
            style: Style::Dashed,
            points: if steps {
                as_steps(at.collect())
            } else {
                at.collect()
            },
        }
    };
    let series: Vec<PlotSeries> = record.kinds.iter().enumerate().map(line).collect();
    if series.iter().all(|s| s.points.is_empty()) {
        return Ok(None);
    }
    let caption = Caption {
        id,
        title: format!("{title} over the demand for memory"),
        description: "The table below holds the values.".into(),
    };
    let axis = |title: String, divisor| PlotAxis {
        title,
        log: false,
        from_zero: true,
        divisor,
        named: Vec::new(),
        end: None,
    };
    let all = Plot {
        x: axis("demand, TiB".into(), 1.0),
        y: axis(unit, divisor),
        series,
        markers: false,
    };
    let drawn = plot(&caption, &all)?;
    Ok(Some(html! {
        figure {
            figcaption { b { (caption.title) } }
            (drawn)
            ul.legend {
                @for (index, kind) in record.kinds.iter().enumerate() {
                    li { span.swatch.modelled style=(format!("--c:var(--s{})", (index + 1) % SERIES)) {} (kind) }
                }
            }
        }
    }))
}

/// Turns points into steps: a demand between two points costs as much as the larger one.
///
/// The line therefore rises first and then continues to the right.
fn as_steps(points: Vec<PlotPoint>) -> Vec<PlotPoint> {
    let mut steps: Vec<PlotPoint> = Vec::with_capacity(2 * points.len());
    for point in points {
        if let Some(last) = steps.last().copied() {
            steps.push(PlotPoint { x: last.x, ..point });
        }
        steps.push(point);
    }
    steps
}

/// A short name for the label beside the plot: "1 to 4 CXL" of "CPU memory + 1 to 4 CXL devices".
fn short(kind: &str) -> String {
    let Some((_, devices)) = kind.split_once(" + ") else {
        return kind.into();
    };
    let reused = if devices.contains("reused") {
        " reused"
    } else {
        ""
    };
    let counted = devices.split(" device").next().unwrap_or(devices);
    format!("{counted}{reused}")
}

#[cfg(test)]
mod tests {
    use super::{PlotPoint, as_steps, short};

    #[test]
    fn demands_between_two_points_cost_what_the_larger_one_costs() {
        let point = |(x, y)| PlotPoint {
            x,
            y,
            range: None,
            valid: true,
        };
        let steps = as_steps([(1.0, 5.0), (2.0, 9.0), (3.0, 9.0)].map(point).into());
        let drawn: Vec<(f64, f64)> = steps.iter().map(|p| (p.x, p.y)).collect();
        let wanted = [(1.0, 5.0), (1.0, 9.0), (2.0, 9.0), (2.0, 9.0), (3.0, 9.0)];
        assert_eq!(drawn, wanted);
        assert!(as_steps(Vec::new()).is_empty());
    }

    #[test]
    fn names_beside_the_plot_tell_kinds_apart() {
        let kinds = [
            "CPU memory",
            "CPU memory + 1 CXL device",
            "CPU memory + 1 to 4 CXL devices",
            "CPU memory + 1 CXL device, reused DIMMs",
        ];
        assert_eq!(
            kinds.map(short),
            ["CPU memory", "1 CXL", "1 to 4 CXL", "1 CXL reused"]
        );
    }
}
