//! The published figures that workload files name: looked up, modelled for the publication's
//! machine, and written as records beside those of the runs.

use crate::failure::Failure;
use std::collections::BTreeMap;
use tierloom_bench::file::{PublishedFigure, PublishedRuns, Workloads};
use tierloom_bench::plan::RunPlan;
use tierloom_bench::run::{self, Host};
use tierloom_calibrate::{
    FigureFile, FigurePoint, Library, Quantity, builtin, compare, nearest_id,
};
use tierloom_model::Options;
use tierloom_record::{
    Provenance, PublicationRecord, PublishedPoint, PublishedRun, PublishedSeries, SCHEMA,
};

/// The place of a position in the name of a figure.
const X: &str = "{x}";

/// Why each run cannot be made on this machine; `None` for those that can.
///
/// Only runs of workloads with published figures may be left out: the report then says so, and
/// shows the model's value. Any other run that does not fit the machine is an error.
///
/// # Errors
/// Bad input: the first run that is wrong, or that this machine cannot make.
pub fn left_out(workloads: &Workloads, host: &Host) -> Result<Vec<Option<String>>, Failure> {
    let is_published = |plan: &RunPlan| {
        let mut all = workloads.published.iter();
        all.any(|asked| (&asked.file, &asked.workload) == (&plan.file, &plan.workload))
    };
    let reason = |plan: &RunPlan| match run::check(plan, None, host) {
        Ok(()) if is_published(plan) => Ok(too_few_cpus(plan, host)),
        Ok(()) => Ok(None),
        Err(error) => match error.lacks().filter(|_| is_published(plan)) {
            Some(lacks) => Ok(Some(lacks)),
            None => Err(super::failures::of_run(error)),
        },
    };
    workloads.runs.iter().map(reason).collect()
}

/// Threads that share a CPU say nothing about a machine with one CPU for each.
fn too_few_cpus(plan: &RunPlan, host: &Host) -> Option<String> {
    let own = plan.tasks.iter().filter(|task| task.host.is_none());
    let threads: u64 = own.map(|task| u64::from(task.workers.threads)).sum();
    let cpus = host.topology.limits.cpus_allowed.len() as u64;
    (threads > cpus).then(|| format!("more threads than the {cpus} CPUs that this process may use"))
}

/// Takes out the runs that are left out and says how many there are, by reason.
///
/// # Errors
/// Nothing is left to run.
pub fn take_out(workloads: &mut Workloads, left_out: &[Option<String>]) -> Result<(), Failure> {
    let mut by_reason: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in left_out.iter().flatten() {
        *by_reason.entry(reason).or_default() += 1;
    }
    let all = workloads.runs.len();
    let mut reasons = left_out.iter();
    workloads
        .runs
        .retain(|_| reasons.next().is_none_or(Option::is_none));
    let said: Vec<String> = by_reason
        .iter()
        .map(|(reason, count)| format!("{count} of {all} runs are left out: {reason}"))
        .collect();
    if workloads.runs.is_empty() {
        return Err(Failure::runtime(format!(
            "none of the runs can be made on this machine; {}; other memory: --set KEY=dram",
            said.join("; ")
        )));
    }
    for line in said {
        note!("note: {line}");
    }
    Ok(())
}

/// PublishedFigure figures and the model that computes their values.
pub struct Figures {
    files: Vec<FigureFile>,
    library: Library,
}

impl Figures {
    /// The built-in figures, machines and constants.
    ///
    /// # Errors
    /// A built-in file is invalid: a defect of this program.
    pub fn builtin() -> Result<Self, Failure> {
        let constants = builtin::constants().map_err(Failure::runtime)?;
        Ok(Self {
            files: builtin::figures().map_err(Failure::runtime)?,
            library: Library::builtin(constants).map_err(Failure::runtime)?,
        })
    }

    /// One record per workload file and publication.
    ///
    /// `left_out` has the reason for each run of `workloads` that is not made.
    ///
    /// # Errors
    /// Bad input with file and line: a figure that does not exist, or that is asked for in a way
    /// that does not fit it.
    pub fn records(
        &self,
        workloads: &Workloads,
        left_out: &[Option<String>],
        scale: f64,
    ) -> Result<Vec<PublicationRecord>, Failure> {
        let mut records: Vec<PublicationRecord> = Vec::new();
        for asked in &workloads.published {
            let curve = self.curve(asked)?;
            let series = Series {
                asked,
                curve: &curve,
                plans: &workloads.runs,
                left_out,
            };
            let made = series.record(&self.library)?;
            let paper = &curve[0].1.paper;
            let same = |r: &&mut PublicationRecord| r.file == asked.file && r.paper == *paper;
            match records.iter_mut().find(same) {
                Some(record) => record.series.push(made),
                None => records.push(PublicationRecord {
                    schema: SCHEMA.into(),
                    provenance: Provenance::Modelled,
                    made_at: humantime::format_rfc3339_seconds(std::time::SystemTime::now())
                        .to_string(),
                    tool_version: env!("CARGO_PKG_VERSION").into(),
                    paper: paper.clone(),
                    citation: self.citation(paper),
                    file: asked.file.clone(),
                    scale,
                    series: vec![made],
                }),
            }
        }
        Ok(records)
    }

    fn citation(&self, paper: &str) -> String {
        let found = self.files.iter().find(|file| file.paper == paper);
        found.map_or_else(String::new, |file| file.citation.clone())
    }

    /// The figures that an entry means, with their positions; at least one.
    fn curve(&self, asked: &PublishedFigure) -> Result<Vec<(Option<f64>, &FigurePoint)>, Failure> {
        let all = self.files.iter().flat_map(|file| &file.figures);
        let mut found: Vec<(Option<f64>, &FigurePoint)> = all
            .filter_map(|figure| Some((position(asked, figure)?, figure)))
            .collect();
        found.sort_by(|a, b| a.0.unwrap_or(0.0).total_cmp(&b.0.unwrap_or(0.0)));
        if found.is_empty() {
            let near = nearest_id(&asked.figure, &self.files);
            let hint = near.map_or_else(
                || "`tierloom validate` lists them".into(),
                |near| format!("did you mean {near}?"),
            );
            let what = match asked.over {
                Some(_) => "curve",
                None => "figure",
            };
            return Err(wrong(
                asked,
                &format!("no such {what} is published; {hint}"),
            ));
        }
        let quantity = found[0].1.quantity;
        if found.iter().any(|(_, figure)| figure.quantity != quantity) {
            return Err(wrong(asked, "its points are of several quantities"));
        }
        fits(asked, quantity)?;
        Ok(found)
    }
}

fn wrong(asked: &PublishedFigure, problem: &str) -> Failure {
    let PublishedFigure {
        file, line, figure, ..
    } = asked;
    Failure::input(format!("{file}:{line}: published `{figure}`: {problem}"))
}

/// Whether `figure` is meant by an entry, and at which position.
fn position(asked: &PublishedFigure, figure: &FigurePoint) -> Option<Option<f64>> {
    if asked.over.is_none() {
        return (figure.id == asked.figure).then_some(None);
    }
    if let Some((before, after)) = asked.figure.split_once(X) {
        let x = figure.id.strip_prefix(before)?.strip_suffix(after)?;
        return Some(Some(x.parse().ok()?));
    }
    let (_, x) = figure.x.as_ref()?;
    let (curve, _) = figure.id.split_once('@')?;
    (curve == asked.figure).then_some(Some(*x))
}

/// Checks that an entry has what the quantity needs, and no more.
fn fits(asked: &PublishedFigure, quantity: Quantity) -> Result<(), Failure> {
    let searched = asked
        .points
        .iter()
        .flat_map(|p| &p.runs)
        .any(|r| r.share_percent.is_some());
    let versus = asked.points.iter().any(|point| point.versus.is_some());
    let missing = asked.points.iter().any(|point| point.missing.is_some());
    let of_best = quantity.is_searched() || quantity == Quantity::BestAddedShare;
    let needs_versus = quantity.is_relative() || quantity == Quantity::LatencyRatio;
    if quantity == Quantity::Utilisation {
        return Err(wrong(
            asked,
            "a utilisation is computed by the model and not measured",
        ));
    }
    // Overrides may have taken all runs away; then nothing is known of what the entry has.
    if missing {
        return Ok(());
    }
    if of_best != searched {
        let problem = match of_best {
            true => "it is about the best placement; add `search: KEY` (a key with placements)",
            false => "it is not about the best placement; take `search` out",
        };
        return Err(wrong(asked, problem));
    }
    if needs_versus && !versus {
        return Err(wrong(
            asked,
            "it compares two runs; add `versus: {KEY: VALUE}`",
        ));
    }
    Ok(())
}

/// A curve with the runs that measure it.
struct Series<'a> {
    asked: &'a PublishedFigure,
    curve: &'a [(Option<f64>, &'a FigurePoint)],
    plans: &'a [RunPlan],
    left_out: &'a [Option<String>],
}

impl Series<'_> {
    fn record(&self, library: &Library) -> Result<PublishedSeries, Failure> {
        let first = self.curve[0].1;
        let same = self
            .curve
            .iter()
            .all(|(_, figure)| figure.what == first.what);
        let quantity = serde_json::to_value(first.quantity).map_err(Failure::runtime)?;
        let mut points = Vec::new();
        for (x, figure) in self.curve {
            let runs = self.asked.points.iter().find(|point| point.x == *x);
            points.push(self.point(*x, Some(figure), runs, library)?);
        }
        // What is measured between the published points belongs to the curve too.
        let more = self.asked.points.iter().filter(|point| {
            let known = self.curve.iter().any(|(x, _)| *x == point.x);
            !known && self.why_not(point).is_none()
        });
        for runs in more {
            points.push(self.point(runs.x, None, Some(runs), library)?);
        }
        points.sort_by(|a, b| a.x.unwrap_or(0.0).total_cmp(&b.x.unwrap_or(0.0)));
        Ok(PublishedSeries {
            name: self.asked.figure.clone(),
            what: if same {
                first.what.clone()
            } else {
                self.asked.figure.clone()
            },
            workload: self.asked.workload.clone(),
            line: self.asked.line,
            x_name: self.asked.over.clone(),
            phase: self.asked.phase.clone(),
            quantity: quantity.as_str().unwrap_or_default().to_owned(),
            unit: first.quantity.unit().into(),
            bytes_per_tuple: first.setting.work.bytes_per_tuple(),
            points,
        })
    }

    fn point(
        &self,
        x: Option<f64>,
        figure: Option<&FigurePoint>,
        runs: Option<&PublishedRuns>,
        library: &Library,
    ) -> Result<PublishedPoint, Failure> {
        let compared = figure
            .map(|figure| compare(figure, library, &Options::default()))
            .transpose()
            .map_err(Failure::runtime)?;
        let interval = figure
            .and_then(|figure| figure.relation)
            .map(|r| r.interval());
        let limit = |limit: Option<f64>| limit.filter(|limit| limit.is_finite());
        let id = |index: usize| self.plans[index].id.clone();
        let run = |run: &tierloom_bench::file::SearchedRun| PublishedRun {
            run_id: id(run.run),
            share_percent: run.share_percent,
        };
        let left_out = match (runs, &self.asked.over, x) {
            (Some(runs), ..) => self.why_not(runs),
            (None, Some(key), Some(x)) => Some(format!("no run with {key}={x}")),
            (None, ..) => Some("no such run".into()),
        };
        Ok(PublishedPoint {
            x,
            figure: compared,
            relation_low: limit(interval.map(|(low, _)| low)),
            relation_high: limit(interval.map(|(_, high)| high)),
            noise_percent: figure.map_or(0.0, |figure| figure.noise_percent),
            runs: runs.map_or_else(Vec::new, |runs| runs.runs.iter().map(run).collect()),
            versus: runs.and_then(|runs| runs.versus).map(id),
            left_out,
        })
    }

    /// Why these runs do not measure the point: the first one that is left out decides.
    fn why_not(&self, runs: &PublishedRuns) -> Option<String> {
        if runs.missing.is_some() {
            return runs.missing.clone();
        }
        let indices = runs.runs.iter().map(|run| run.run).chain(runs.versus);
        indices
            .filter_map(|index| self.left_out[index].clone())
            .next()
    }
}
