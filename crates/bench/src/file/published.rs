//! `published:`: the published figures that the runs of a workload are compared with.
//!
//! ```yaml
//! published:
//!   nus24-gain-3to2: {at: {memory: "3:2"}, versus: {memory: dram}}
//!   hpi25-fig10-tree-reads-cpu: {at: {leaves_memory: dram}, over: threads}
//!   nus24-best-share: {search: memory}
//! ```
//!
//! A question names a figure and the values of the matrix that its runs have. Which figures exist
//! and what they say is not known here: the command looks them up.

use std::collections::BTreeMap;

use crate::plan::{RunPlan, Work};

use super::error::{Position, ProblemText, Problems, did_you_mean};
use super::keys::{Key, Shape};
use super::positions::{position, same_value, share_percent};
use super::tree::Node;
use super::values::shown;
use super::workload::{Dimension, Workload, address, entries};

/// A key of a matrix: the task that it is for (`None` for all), and the key.
type At = (Option<usize>, &'static Key);

/// One entry of `published:`, before the matrix is expanded.
#[derive(Debug)]
pub(super) struct Question {
    figure: String,
    place: Position,
    at: Vec<(At, Node)>,
    versus: Option<Vec<(At, Node)>>,
    over: Option<(String, At)>,
    search: Option<At>,
    phase: Option<String>,
}

/// A published figure or curve, and the runs that measure it here.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedFigure {
    /// The figure, or the curve whose points are meant; `{x}` in it stands for the value of `over`.
    pub figure: String,
    /// Name of the workload.
    pub workload: String,
    /// The workload file.
    pub file: String,
    /// Line of the entry in that file.
    pub line: u64,
    /// Key whose values are the positions on the curve; `None` for a single figure.
    pub over: Option<String>,
    /// Phase of an operator that the figure is about; `None` for all that is counted.
    pub phase: Option<String>,
    /// The points in the order of the matrix; one for a single figure.
    pub points: Vec<PublishedRuns>,
}

/// The runs that measure one published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedRuns {
    /// Position on the curve; `None` for a single figure.
    pub x: Option<f64>,
    /// Indices into [`Workloads::runs`](super::Workloads::runs); several where the best of them is
    /// meant. Empty if overrides left none.
    pub runs: Vec<SearchedRun>,
    /// The run that a ratio or a gain is over, or that `versus` names.
    pub versus: Option<usize>,
    /// Why there are no such runs; `None` if there are.
    pub missing: Option<String>,
}

/// One of the runs of which the best is meant, or the only one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchedRun {
    /// Index into [`Workloads::runs`](super::Workloads::runs).
    pub run: usize,
    /// Share of the placement outside DRAM, per cent; `None` where nothing is searched.
    pub share_percent: Option<f64>,
}

impl PublishedFigure {
    /// Moves the indices of its runs by `first`: those of an earlier file come before them.
    pub(super) fn shift(&mut self, first: usize) {
        for point in &mut self.points {
            point.runs.iter_mut().for_each(|run| run.run += first);
            point.versus = point.versus.map(|run| run + first);
        }
    }
}

/// What one run was made from: its plan and the values of its matrix and of `--set`.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) plan: RunPlan,
    pub(super) values: Vec<(At, String)>,
}

/// Reads `published:`; problems are added to `problems`.
pub(super) fn read(workload: &Workload<'_>, problems: &mut Problems<'_>) -> Vec<Question> {
    let Some(node) = workload.published else {
        return Vec::new();
    };
    entries(node, "published", problems)
        .into_iter()
        .filter_map(|(figure, key, body)| question(workload, figure, key.place, body, problems))
        .collect()
}

fn question(
    workload: &Workload<'_>,
    figure: String,
    place: Position,
    body: &Node,
    problems: &mut Problems<'_>,
) -> Option<Question> {
    const PARTS: [&str; 5] = ["at", "versus", "over", "search", "phase"];
    let mut parts: BTreeMap<String, &Node> = BTreeMap::new();
    for (name, key, value) in entries(body, &format!("published `{}`", shown(&figure)), problems) {
        if !PARTS.contains(&name.as_str()) {
            let hint = did_you_mean(&name, PARTS);
            let text = format!("`{}` is no part of a published figure{hint}", shown(&name));
            let help = "it has `at` (which runs), and may have `versus`, `over`, `search`, `phase`";
            problems.push(key.place, ProblemText::new(text).help(help));
            return None;
        }
        parts.insert(name, value);
    }
    let key_of = |name: &str, problems: &mut Problems<'_>| match parts.get(name) {
        None => Some(None),
        Some(node) => key_name(workload, node, problems).map(Some),
    };
    let over = key_of("over", problems)?;
    let search = key_of("search", problems)?;
    let at = match parts.get("at") {
        Some(node) => chosen(workload, node, problems)?,
        None => Vec::new(),
    };
    let versus = match parts.get("versus") {
        Some(node) => Some(chosen(workload, node, problems)?),
        None => None,
    };
    let phase = parts.get("phase").and_then(|node| node.as_text());
    let question = Question {
        figure,
        place,
        at,
        versus,
        search: search.map(|(_, at)| at),
        over,
        phase: phase.map(str::to_owned),
    };
    question.check(workload, problems).then_some(question)
}

/// The key that `over` or `search` names.
fn key_name(
    workload: &Workload<'_>,
    node: &Node,
    problems: &mut Problems<'_>,
) -> Option<(String, At)> {
    let Some(name) = node.as_text() else {
        let text = format!("expected the name of a key, found {}", node.kind());
        problems.push(node.place, text);
        return None;
    };
    let at = address(workload, name, node.place, None, problems)?;
    dimension(workload, at, name, node.place, problems)?;
    Some((name.to_owned(), at))
}

fn dimension<'w>(
    workload: &'w Workload<'_>,
    at: At,
    name: &str,
    place: Position,
    problems: &mut Problems<'_>,
) -> Option<&'w Dimension> {
    let all = &workload.dimensions;
    let found = all.iter().find(|one| (one.task, one.key) == at);
    if found.is_none() {
        let labels: Vec<&str> = all.iter().map(|one| one.label.as_str()).collect();
        let text = format!("`{}` does not vary in this workload", shown(name));
        let help = match labels.as_slice() {
            [] => "the workload has no matrix: leave it out".to_owned(),
            _ => format!("its matrix has {}", labels.join(", ")),
        };
        problems.push(place, ProblemText::new(text).help(help));
    }
    found
}

/// The keys and values of `at` or `versus`.
fn chosen(
    workload: &Workload<'_>,
    node: &Node,
    problems: &mut Problems<'_>,
) -> Option<Vec<(At, Node)>> {
    let mut all = Vec::new();
    for (name, key, value) in entries(node, "at", problems) {
        let at = address(workload, &name, key.place, None, problems)?;
        let dimension = dimension(workload, at, &name, key.place, problems)?;
        let same = |known: &&Node| same_value(&known.to_string(), &value.to_string());
        let Some(known) = dimension.values.iter().find(same) else {
            let values: Vec<String> = dimension.values.iter().map(ToString::to_string).collect();
            let typed = value.to_string();
            let text = format!("no run has {name}={}", shown(&typed));
            let help = format!("the matrix has {}", values.join(", "));
            problems.push(value.place, ProblemText::new(text).help(help));
            return None;
        };
        all.push((at, known.clone()));
    }
    Some(all)
}

impl Question {
    /// Whether every key that varies is named once; reports those that are not.
    fn check(&self, workload: &Workload<'_>, problems: &mut Problems<'_>) -> bool {
        let over = self.over.as_ref().map(|(_, at)| *at);
        for dimension in &workload.dimensions {
            let at = (dimension.task, dimension.key);
            let named = self.at.iter().filter(|(key, _)| *key == at).count()
                + usize::from(over == Some(at))
                + usize::from(self.search == Some(at));
            let label = &dimension.label;
            let problem = match named {
                1 => continue,
                0 if dimension.values.len() == 1 => continue,
                0 => format!("`{label}` varies, and the figure does not say which value is meant"),
                _ => format!("`{label}` is named twice"),
            };
            let text = format!("published `{}`: {problem}", shown(&self.figure));
            let help = format!("name it once: `at: {{{label}: VALUE}}`, `over` or `search`");
            problems.push(self.place, ProblemText::new(text).help(help));
            return false;
        }
        if let Some((_, key)) = self.search
            && !is_memory(key)
        {
            let text = format!("search: `{}` is no placement", key.name);
            problems.push(self.place, ProblemText::new(text));
            return false;
        }
        true
    }

    /// Reports a phase that the operator of the runs does not have.
    pub(super) fn check_phase(&self, made: &[Made], problems: &mut Problems<'_>) {
        let Some(phase) = &self.phase else { return };
        let works = made.iter().filter_map(|run| run.plan.tasks.first());
        for task in works {
            let names: &[&str] = match &task.work {
                Work::Operator { operator } => operator.phase_names(),
                _ => &[],
            };
            if names.contains(&phase.as_str()) {
                continue;
            }
            let hint = did_you_mean(phase, names.iter().copied());
            let text = format!("phase: no run has a phase `{}`{hint}", shown(phase));
            let help = match names {
                [] => "phases are those of operators; leave it out".to_owned(),
                names => format!("its phases are {}", names.join(", ")),
            };
            problems.push(self.place, ProblemText::new(text).help(help));
            return;
        }
    }

    /// The runs of the question among `made`, whose first one has the index `first`.
    pub(super) fn resolve(
        &self,
        workload: &str,
        file: &str,
        made: &[Made],
        first: usize,
    ) -> PublishedFigure {
        let mut xs: Vec<Option<f64>> = match &self.over {
            None => vec![None],
            Some((_, at)) => {
                let values = made.iter().filter_map(|run| value_of(run, *at));
                values.filter_map(position).map(Some).collect()
            }
        };
        let mut seen: Vec<Option<f64>> = Vec::new();
        xs.retain(|x| {
            !seen.contains(x) && {
                seen.push(*x);
                true
            }
        });
        let points = xs.into_iter().map(|x| self.point(x, made, first)).collect();
        PublishedFigure {
            figure: self.figure.clone(),
            workload: workload.to_owned(),
            file: file.to_owned(),
            line: self.place.line,
            over: self.over.as_ref().map(|(name, _)| name.clone()),
            phase: self.phase.clone(),
            points,
        }
    }

    fn point(&self, x: Option<f64>, made: &[Made], first: usize) -> PublishedRuns {
        let on_curve = |run: &Made| match &self.over {
            Some((_, at)) => value_of(run, *at).and_then(position) == x,
            None => true,
        };
        let fits = |run: &Made, wanted: &[(At, Node)]| {
            let mut wanted = wanted.iter();
            wanted.all(|(at, value)| {
                value_of(run, *at).is_some_and(|own| same_value(own, &value.to_string()))
            })
        };
        let numbered = || made.iter().enumerate();
        let runs: Vec<SearchedRun> = numbered()
            .filter(|(_, run)| on_curve(run) && fits(run, &self.at))
            .map(|(index, run)| SearchedRun {
                run: first + index,
                share_percent: self.search.and_then(|at| share_percent(value_of(run, at)?)),
            })
            .collect();
        // What `versus` does not name is as in `at`; it may name the key of the curve itself.
        let base = self.versus.as_ref().map(|versus| {
            let others = self
                .at
                .iter()
                .filter(|(at, _)| !versus.iter().any(|(v, _)| v == at));
            others.chain(versus).cloned().collect::<Vec<_>>()
        });
        let off_curve = |wanted: &[(At, Node)]| {
            let over = self.over.as_ref().map(|(_, at)| *at);
            wanted.iter().any(|(at, _)| Some(*at) == over)
        };
        let versus: Option<Vec<usize>> = base.map(|wanted| {
            numbered()
                .filter(|(_, run)| (off_curve(&wanted) || on_curve(run)) && fits(run, &wanted))
                .map(|(index, _)| first + index)
                .collect()
        });
        let missing = self.missing(&runs, versus.as_deref());
        PublishedRuns {
            x,
            runs,
            versus: versus.and_then(|found| found.first().copied()),
            missing,
        }
    }

    /// Why the runs cannot answer the question; overrides can take them away or make more of them.
    fn missing(&self, runs: &[SearchedRun], versus: Option<&[usize]>) -> Option<String> {
        let others = "--set has changed the keys that tell the runs apart";
        if runs.is_empty() || versus.is_some_and(<[usize]>::is_empty) {
            return Some(format!("no such run: {others}"));
        }
        let ambiguous = self.search.is_none() && runs.len() > 1;
        if ambiguous || versus.is_some_and(|found| found.len() > 1) {
            return Some(format!("several such runs: {others}"));
        }
        let unknown = runs.iter().any(|run| run.share_percent.is_none());
        (self.search.is_some() && unknown)
            .then(|| "a placement that is searched has to name tiers (dram, cxl)".to_owned())
    }
}

fn value_of(run: &Made, at: At) -> Option<&str> {
    let own = |(known, _): &&(At, String)| *known == at;
    run.values.iter().find(own).map(|(_, value)| value.as_str())
}

fn is_memory(key: &Key) -> bool {
    key.shape == Shape::One && (key.name == "memory" || key.name.ends_with("_memory"))
}

#[cfg(test)]
mod tests {
    use crate::file::{LoadOptions, PublishedFigure, Workloads, parse};

    fn read(text: &str) -> Result<Workloads, String> {
        parse(text, "w.yaml", &LoadOptions::default()).map_err(|errors| errors.to_string())
    }

    fn file(published: &str) -> String {
        format!(
            "w:\n  matrix:\n    memory: [dram, cxl, \"3:2\"]\n    threads: [1, 2, 4]\n  args: {{size: 64M}}\n  published:\n    {published}\n"
        )
    }

    fn one(published: &str) -> PublishedFigure {
        read(&file(published)).unwrap().published.remove(0)
    }

    #[test]
    fn a_single_figure_takes_the_one_run_with_its_values_and_the_one_it_is_over() {
        let asked = one("f: {at: {memory: \"3:2\", threads: 2}, versus: {memory: dram}}");
        assert_eq!((asked.line, asked.over.as_deref()), (7, None));
        let point = &asked.points[0];
        assert_eq!((point.runs[0].run, point.versus), (7, Some(1)));
        assert_eq!(point.missing, None);
    }

    #[test]
    fn a_curve_has_a_point_for_each_value_and_versus_follows_it() {
        let asked = one("f: {at: {memory: cxl}, over: threads, versus: {memory: dram}}");
        let found: Vec<_> = asked
            .points
            .iter()
            .map(|p| (p.x, p.runs[0].run, p.versus))
            .collect();
        assert_eq!(
            found,
            [
                (Some(1.0), 3, Some(0)),
                (Some(2.0), 4, Some(1)),
                (Some(4.0), 5, Some(2))
            ]
        );
        let asked = one("f: {at: {memory: cxl}, over: threads, versus: {threads: 1}}");
        let bases: Vec<_> = asked.points.iter().map(|p| p.versus).collect();
        assert_eq!(
            bases,
            [Some(3); 3],
            "the base may be one point of the curve"
        );
    }

    #[test]
    fn a_search_has_the_share_of_each_placement() {
        let asked = one("f: {at: {threads: 4}, search: memory}");
        let shares: Vec<_> = asked.points[0]
            .runs
            .iter()
            .map(|run| run.share_percent)
            .collect();
        assert_eq!(shares, [Some(0.0), Some(100.0), Some(40.0)]);
    }

    #[test]
    fn mistakes_are_found_at_their_line() {
        for (published, expected) in [
            (
                "f: {at: {memory: cxl}}",
                "w.yaml:7:5: published `f`: `threads` varies",
            ),
            ("f: {at: {memory: cxl, threads: 3}}", "no run has threads=3"),
            ("f: {at: {size: 1M}, over: threads}", "`size` does not vary"),
            (
                "f: {at: {memry: cxl}, over: threads}",
                "did you mean `memory`",
            ),
            (
                "f: {att: {memory: cxl}, over: threads}",
                "did you mean `at`",
            ),
            (
                "f: {at: {memory: cxl, threads: 1}, over: threads}",
                "`threads` is named twice",
            ),
            (
                "f: {at: {memory: cxl}, search: threads}",
                "`number_threads` is no placement",
            ),
            ("f: 3", "expected a mapping"),
        ] {
            let error = read(&file(published)).expect_err(published);
            assert!(error.contains(expected), "{published}: {error}");
        }
    }

    #[test]
    fn overrides_may_take_runs_away_but_not_answer_with_others() {
        let options = |set: &[(&str, &str)]| LoadOptions {
            overrides: set
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            ..LoadOptions::default()
        };
        let text = file("f: {at: {memory: cxl, threads: 2}}");
        let point = |set: &[(&str, &str)]| {
            let mut read = parse(&text, "w.yaml", &options(set)).unwrap();
            read.published.remove(0).points.remove(0)
        };
        assert_eq!(point(&[("threads", "2")]).runs[0].run, 1);
        assert!(
            point(&[("threads", "8")])
                .missing
                .unwrap()
                .contains("no such run")
        );
        assert!(point(&[("memory", "0")]).missing.is_some());
        assert!(
            point(&[("access_size", "[64, 128]")])
                .missing
                .unwrap()
                .contains("several")
        );
    }
}
