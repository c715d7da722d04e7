//! Charts of benchmarks: curves, bars, heat maps, and latency over bandwidth.

use super::figure::{BenchMetric, Figure};
use super::view::{Axes, GroupedRun, RunGroup, VariedKey};
use crate::chart::{
    Caption, HeatCell, HeatMap, NAME_FITS, Plot, PlotAxis, PlotPoint, PlotSeries, SERIES, Style,
    ValueBar, ValueGroup, heat_map, plot, value_bars,
};
use crate::section::missing;
use crate::{ReportError, words};
use maud::{Markup, html};

/// Number of combinations of one workload that are drawn; the table has all figures.
const MOST_CHARTS: usize = 12;
/// Number of bars that one chart may have.
const MOST_BARS: usize = 64;
/// Number of rows and of columns that a heat map may have.
const MOST_CELLS: usize = 24;
/// Ratio of largest to smallest value above which an axis is logarithmic.
const LOG_BEYOND: f64 = 30.0;

/// One part per workload.
pub(super) fn section(groups: &[RunGroup<'_>]) -> Result<Markup, ReportError> {
    let mut parts = Vec::new();
    for group in groups {
        let body = match group.quantity {
            Some(_) if !group.keys.is_empty() => charts(group)?,
            Some(_) => missing("Nothing varies in this workload: the table above has its figure."),
            None => missing("These runs gave no figure."),
        };
        parts.push(html! { h3 { (group.title()) } (body) });
    }
    Ok(html! {
        section #b-curves {
            h2 { "Curves" }
            p.note { "Measured. Points are medians, whiskers the smallest and the largest repetition (left out where the point hides them). Crosses, outlines and the word invalid mark runs that must not be used; no line goes through them." }
            @for part in &parts { (part) }
        }
    })
}

fn charts(group: &RunGroup<'_>) -> Result<Markup, ReportError> {
    let axes = group.axes();
    let facets = group.split_by(&axes.facets);
    let mut figures = Vec::new();
    for (index, (facet, runs)) in facets.iter().take(MOST_CHARTS).enumerate() {
        let chart = Chart {
            group,
            axes: &axes,
            id: format!("{}-c{index}", group.prefix()),
            facet,
            runs,
        };
        figures.extend(chart.all()?);
    }
    Ok(html! {
        div.grid { @for figure in &figures { (figure) } }
        @if facets.len() > MOST_CHARTS {
            p.note { "Charts of the first " (MOST_CHARTS) " of " (facets.len()) " combinations of " (names_of(group, &axes.facets)) "; the table above has all figures." }
        }
    })
}

fn names_of(group: &RunGroup<'_>, keys: &[usize]) -> String {
    let names: Vec<&str> = keys.iter().map(|k| group.keys[*k].name.as_str()).collect();
    words::list(&names)
}

/// The charts of one combination of the keys that are not on an axis.
struct Chart<'a> {
    group: &'a RunGroup<'a>,
    axes: &'a Axes,
    id: String,
    facet: &'a str,
    runs: &'a [&'a GroupedRun<'a>],
}

impl Chart<'_> {
    /// The charts that fit these runs.
    fn all(&self) -> Result<Vec<Markup>, ReportError> {
        let mut made = Vec::new();
        let numeric = self
            .axes
            .x
            .filter(|x| self.group.keys[*x].numbers.is_some());
        // Loaded latency is drawn over the bandwidth that was reached, not over the rate that was
        // requested.
        if self.runs.iter().filter(|r| r.is_loaded_latency()).count() > 1 {
            made.push(self.loaded()?);
        } else if let Some(x) = numeric {
            made.push(self.curve(x)?);
        } else if let Some(x) = self.axes.x {
            made.push(self.bars(x)?);
        }
        // With two rows or columns, a heat map shows no more than two lines do.
        if let (Some(x), Some(series)) = (self.axes.x, self.axes.series)
            && [x, series]
                .iter()
                .all(|k| (3..=MOST_CELLS).contains(&self.group.keys[*k].values.len()))
        {
            made.push(self.heat(x, series)?);
        }
        Ok(made)
    }

    fn caption(&self, kind: &str, title: String) -> Caption {
        Caption {
            id: format!("{}-{kind}", self.id),
            title,
            description: "The table of figures above holds the values.".into(),
        }
    }

    fn heading(&self, title: &str) -> String {
        if self.facet.is_empty() {
            title.into()
        } else {
            format!("{title}; {}", self.facet)
        }
    }

    fn quantity(&self) -> BenchMetric {
        self.group.quantity.unwrap_or(BenchMetric::Bandwidth)
    }

    /// The runs by the value of the series key: name, index of the colour, runs.
    fn lines(&self) -> Vec<(String, usize, Vec<&GroupedRun<'_>>)> {
        let Some(series) = self.axes.series else {
            return vec![(String::new(), 1, self.runs.to_vec())];
        };
        let key = &self.group.keys[series];
        let of = |value: usize| -> Vec<&GroupedRun<'_>> {
            let same = self.runs.iter().filter(|r| r.at[series] == value);
            same.copied().collect()
        };
        (0..key.values.len())
            .map(|value| (key.label(value), value + 1, of(value)))
            .filter(|(.., runs)| !runs.is_empty())
            .collect()
    }

    fn series_note(&self) -> String {
        let key = self.axes.series.map(|s| &self.group.keys[s]);
        key.map(|key| format!(" One line per {}.", key.name))
            .unwrap_or_default()
    }

    /// The quantity over a numeric key.
    fn curve(&self, x: usize) -> Result<Markup, ReportError> {
        let key = &self.group.keys[x];
        let numbers = key.numbers.as_deref().unwrap_or_default();
        let point = |run: &&GroupedRun<'_>| {
            let figure = Figure::of_run(run.record)?;
            Some(PlotPoint {
                x: *numbers.get(run.at[x])?,
                y: figure.spread.median,
                range: figure.range(),
                valid: run.record.valid,
            })
        };
        let series = self.lines().into_iter().map(|(name, series, mut runs)| {
            runs.sort_by_key(|run| run.at[x]);
            PlotSeries {
                name,
                series,
                style: Style::Joined,
                points: runs.iter().filter_map(point).collect(),
            }
        });
        let series: Vec<PlotSeries> = series.collect();
        let title = format!("{} over {}", self.quantity().title(), key.name);
        let caption = self.caption("curve", self.heading(&title));
        let all = Plot {
            x: key_axis(key, numbers),
            y: figure_axis(self.quantity(), &series, ""),
            series,
            markers: true,
        };
        let chart = plot(&caption, &all)?;
        Ok(figure(
            &caption.title,
            chart,
            legend(&all.series),
            self.series_note(),
        ))
    }

    /// Latency over the bandwidth of all tasks together.
    fn loaded(&self) -> Result<Markup, ReportError> {
        let point = |run: &&GroupedRun<'_>| {
            let figure = Figure::of_run(run.record)?;
            Some(PlotPoint {
                x: run.total_gbps().unwrap_or(0.0),
                y: figure.spread.median,
                range: figure.range(),
                valid: run.record.valid,
            })
        };
        let series = self.lines().into_iter().map(|(name, series, mut runs)| {
            // In the order of the requested load, not of the bandwidth: when memory is saturated,
            // more load can give less bandwidth, and the line turns back.
            runs.sort_by_key(|run| self.axes.x.map_or(0, |x| run.at[x]));
            PlotSeries {
                name,
                series,
                style: Style::Joined,
                points: runs.iter().filter_map(point).collect(),
            }
        });
        let series: Vec<PlotSeries> = series.collect();
        let caption = self.caption("loaded", self.heading("Latency under load"));
        let all = Plot {
            x: PlotAxis {
                title: "bandwidth of all tasks together, GB/s".into(),
                log: false,
                from_zero: true,
                divisor: 1.0,
                named: Vec::new(),
                end: None,
            },
            y: figure_axis(BenchMetric::Latency, &series, " of the main task"),
            series,
            markers: true,
        };
        let chart = plot(&caption, &all)?;
        let note = format!(
            "Points are joined in the order of the load asked for; where a line turns back, more load gives no more bandwidth.{}",
            self.series_note()
        );
        Ok(figure(&caption.title, chart, legend(&all.series), note))
    }

    /// Bars for a key whose values are not numbers.
    fn bars(&self, x: usize) -> Result<Markup, ReportError> {
        let quantity = self.quantity();
        let key = &self.group.keys[x];
        if self.runs.len() > MOST_BARS {
            return Ok(missing("Too many runs for bars; the table above has them."));
        }
        let bar = |run: &&GroupedRun<'_>| {
            let figure = Figure::of_run(run.record)?;
            let series = self.axes.series;
            Some(ValueBar {
                name: series.map_or_else(String::new, |s| self.group.keys[s].label(run.at[s])),
                series: series.map_or(1, |s| run.at[s] + 1),
                value: figure.spread.median,
                text: quantity.text(figure.spread.median),
                range: figure.range(),
                valid: run.record.valid,
            })
        };
        let groups = (0..key.values.len()).map(|value| ValueGroup {
            label: key.label(value),
            bars: self
                .runs
                .iter()
                .filter(|r| r.at[x] == value)
                .filter_map(bar)
                .collect(),
        });
        let groups: Vec<ValueGroup> = groups.filter(|g| !g.bars.is_empty()).collect();
        // The largest bar determines the unit of all.
        let most = groups.iter().flat_map(|g| &g.bars).map(|b| b.value);
        let (divisor, unit) = quantity.unit(most.fold(0.0, f64::max));
        let title = format!("{} by {}, {unit}", quantity.title(), key.name);
        let caption = self.caption("bars", self.heading(&title));
        let chart = value_bars(&caption, &groups, divisor)?;
        Ok(figure(&caption.title, chart, html! {}, String::new()))
    }

    /// A heat map over two keys.
    fn heat(&self, x: usize, series: usize) -> Result<Markup, ReportError> {
        let quantity = self.quantity();
        let (across, down) = (&self.group.keys[x], &self.group.keys[series]);
        let medians = || {
            self.runs
                .iter()
                .filter_map(|r| Some(Figure::of_run(r.record)?.spread.median))
        };
        let (divisor, unit) = quantity.unit(medians().fold(0.0, f64::max));
        let cell = |row: usize, column: usize| {
            let run = self
                .runs
                .iter()
                .find(|r| r.at[x] == column && r.at[series] == row)?;
            let value = Figure::of_run(run.record)?.spread.median;
            Some(HeatCell {
                value,
                text: words::ms(value / divisor),
                valid: run.record.valid,
            })
        };
        let columns = 0..across.values.len();
        let rows = (0..down.values.len()).map(|row| {
            let cells = columns.clone().map(|column| cell(row, column)).collect();
            (down.label(row), cells)
        });
        let map = HeatMap {
            column_title: across.name.clone(),
            columns: columns.clone().map(|c| across.label(c)).collect(),
            rows: rows.collect(),
        };
        let title = format!(
            "{} by {} and {}, {unit}",
            quantity.title(),
            across.name,
            down.name
        );
        let caption = self.caption("heat", self.heading(&title));
        let chart = heat_map(&caption, &map)?;
        let note = format!(
            "Rows: {}. The strongest colour is the largest figure.",
            down.name
        );
        Ok(figure(&caption.title, chart, html! {}, note))
    }
}

fn figure(title: &str, chart: Markup, legend: Markup, note: String) -> Markup {
    html! { figure { figcaption { b { (title) } } (chart) (legend) @if !note.is_empty() { figcaption { (note) } } } }
}

/// Full names of the lines, if some do not fit beside the plot.
pub(super) fn legend(series: &[PlotSeries]) -> Markup {
    let long = series.iter().any(|s| s.name.chars().count() > NAME_FITS);
    html! {
        @if series.len() > 1 && long {
            ul.legend { @for s in series { li { span.swatch style=(format!("--c:var(--s{})", s.series % SERIES)) {} (s.name) } } }
        }
    }
}

fn key_axis(key: &VariedKey, numbers: &[f64]) -> PlotAxis {
    let named = numbers.iter().enumerate();
    let (low, high) = (
        numbers.first().copied().unwrap_or(0.0),
        numbers.last().copied().unwrap_or(0.0),
    );
    PlotAxis {
        title: key.name.clone(),
        // On a logarithmic axis, doublings (1, 2, 4, 8 threads) have equal distances.
        log: low > 0.0 && high / low >= 8.0,
        from_zero: false,
        divisor: 1.0,
        named: named
            .map(|(place, value)| (*value, key.label(place)))
            .collect(),
        end: None,
    }
}

fn figure_axis(quantity: BenchMetric, series: &[PlotSeries], of: &str) -> PlotAxis {
    let values = || {
        let points = series.iter().flat_map(|s| &s.points);
        points.map(|p| p.y).filter(|v| v.is_finite() && *v > 0.0)
    };
    let (low, high) = values().fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let (divisor, unit) = quantity.unit(high);
    let log = high / low > LOG_BEYOND;
    let scale = if log { " (logarithmic)" } else { "" };
    PlotAxis {
        title: format!("{}{of}, {unit}{scale}", quantity.title()),
        log,
        from_zero: true,
        divisor,
        named: Vec::new(),
        end: None,
    }
}
