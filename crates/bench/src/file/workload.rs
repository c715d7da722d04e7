//! The structure of a workload: its arguments, its tasks, and the keys that vary.
//!
//! This module checks names, nesting and duplicates. The values are read later, once per run of the
//! matrix, because a valid value can depend on the other keys of that run.

use super::error::{Position, ProblemText, Problems, did_you_mean};
use super::keys::{self, Key, Level, Shape};
use super::range;
use super::settings::{Argument, Arguments};
use super::tree::{Node, Value};
use super::values::shown;

/// Maximum number of tasks in one run.
const MAX_TASKS: usize = 64;

/// One workload of a file, before its matrix is expanded.
#[derive(Debug)]
pub(super) struct Workload<'a> {
    pub(super) name: String,
    pub(super) place: Position,
    /// Arguments of the run, and defaults for all tasks.
    pub(super) args: Arguments<'a>,
    pub(super) tasks: Vec<Task<'a>>,
    /// The keys that vary, outermost loop first.
    pub(super) dimensions: Vec<Dimension>,
    /// Whether all tasks are main tasks unless they say otherwise, as in `parallel_benchmark`.
    pub(super) equals: bool,
    /// The published figures that its runs are compared with.
    pub(super) published: Option<&'a Node>,
}

/// One entry of `tasks:` or `parallel_benchmark:`.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) name: String,
    pub(super) place: Position,
    pub(super) args: Arguments<'a>,
}

/// A key of the matrix with its values.
#[derive(Debug, Clone)]
pub(super) struct Dimension {
    /// Index of the task it applies to; `None` for all tasks or for the run.
    pub(super) task: Option<usize>,
    pub(super) key: &'static Key,
    pub(super) key_place: Position,
    /// The key as typed in the file, with the task's name before it if it is in a task's own
    /// matrix.
    pub(super) label: String,
    pub(super) values: Vec<Node>,
}

/// The entries of a mapping, except those with a repeated key or a key that is not a scalar.
///
/// Every entry left out is reported as a problem.
pub(super) fn entries<'a>(
    node: &'a Node,
    what: &str,
    problems: &mut Problems<'_>,
) -> Vec<(String, &'a Node, &'a Node)> {
    let map: &[(Node, Node)] = match &node.value {
        Value::Map(map) => map,
        Value::Null => &[],
        _ => {
            let message = format!(
                "{what}: expected a mapping (`key: value` lines), found {}",
                node.kind()
            );
            problems.push(node.place, message);
            &[]
        }
    };
    let mut seen: std::collections::BTreeMap<String, Position> = std::collections::BTreeMap::new();
    let mut found = Vec::with_capacity(map.len());
    for (key, value) in map {
        let Some(name) = key.as_text() else {
            problems.push(
                key.place,
                format!("{what}: expected a name as key, found {}", key.kind()),
            );
            continue;
        };
        if let Some(first) = seen.get(name) {
            problems.push(
                key.place,
                ProblemText::new(format!("{what}: `{}` is given twice", shown(name)))
                    .related(*first, "it is given here first"),
            );
            continue;
        }
        seen.insert(name.to_owned(), key.place);
        found.push((name.to_owned(), key, value));
    }
    found
}

/// Reads the structure of the workload `name`; `None` if there is too little to continue.
pub(super) fn read<'a>(
    name: String,
    place: Position,
    body: &'a Node,
    problems: &mut Problems<'_>,
) -> Option<Workload<'a>> {
    const SECTIONS: [&str; 5] = ["args", "matrix", "tasks", "parallel_benchmark", "published"];
    let mut sections: [Option<(&Node, &Node)>; 5] = [None; 5];
    for (key, key_node, value) in entries(body, "workload", problems) {
        match SECTIONS.iter().position(|section| *section == key) {
            Some(index) => sections[index] = Some((key_node, value)),
            None => {
                let mut trouble = ProblemText::new(format!(
                    "unknown section `{}` in workload `{}`{}",
                    shown(&key),
                    shown(&name),
                    did_you_mean(&key, SECTIONS)
                ));
                if keys::find(&key).is_some() {
                    trouble = trouble.help(format!("`{key}` is an argument: put it under `args:`"));
                } else {
                    trouble = trouble.help(
                        "a workload has args, matrix, tasks or parallel_benchmark, and published",
                    );
                }
                problems.push(key_node.place, trouble);
            }
        }
    }
    let [args, matrix, tasks, parallel, published] = sections;
    if args.is_none() && matrix.is_none() && tasks.is_none() && parallel.is_none() {
        if problems.is_empty() {
            problems.push(
                place,
                ProblemText::new(format!("workload `{}` is empty", shown(&name)))
                    .help("give it `args:` with at least one key, such as `operation: read`"),
            );
        }
        return None;
    }
    let mut workload = Workload {
        name,
        place,
        args: args.map_or_else(Arguments::default, |(_, node)| {
            arguments(node, "args", problems, |level| level != Level::OneTask)
        }),
        tasks: Vec::new(),
        dimensions: Vec::new(),
        equals: parallel.is_some(),
        published: published.map(|(_, node)| node),
    };
    if let (Some((first, _)), Some((second, _))) = (tasks, parallel) {
        problems.push(
            second.place.max(first.place),
            ProblemText::new("a workload has either tasks or parallel_benchmark")
                .related(first.place.min(second.place), "the other one is here"),
        );
        // Which of the two is meant is not known, so neither is read.
        return None;
    }
    match (tasks, parallel) {
        (Some((_, node)), _) => read_tasks(&mut workload, node, "tasks", problems),
        (_, Some((key, node))) => {
            read_tasks(&mut workload, node, "parallel_benchmark", problems);
            if workload.tasks.len() != 2 {
                let count = workload.tasks.len();
                problems.push(
                    key.place,
                    ProblemText::new(format!(
                        "parallel_benchmark takes exactly two workloads, found {count}"
                    ))
                    .help("`tasks:` takes any number"),
                );
            }
        }
        _ => workload.tasks.push(Task {
            name: "main".into(),
            place,
            args: Arguments::default(),
        }),
    }
    if let Some((_, node)) = matrix {
        let own = std::mem::take(&mut workload.dimensions);
        read_matrix(&mut workload, node, None, problems);
        // The matrix of the workload is the outer loop, those of its tasks the inner ones.
        workload.dimensions.extend(own);
    }
    (!workload.tasks.is_empty()).then_some(workload)
}

fn arguments<'a>(
    node: &'a Node,
    what: &str,
    problems: &mut Problems<'_>,
    allowed: impl Fn(Level) -> bool + Copy,
) -> Arguments<'a> {
    let mut settings = Arguments::default();
    for (name, key_node, value) in entries(node, what, problems) {
        let Some(key) = known(&name, key_node.place, allowed, problems) else {
            continue;
        };
        let setting = Argument {
            key,
            key_place: key_node.place,
            value,
        };
        if let Some(there) = settings.add(setting) {
            problems.push(
                key_node.place,
                ProblemText::new(format!(
                    "`{name}` is another name for a key that is given already"
                ))
                .related(there.key_place, format!("`{}` is given here", key.name)),
            );
        }
    }
    settings
}

fn known(
    name: &str,
    place: Position,
    allowed: impl Fn(Level) -> bool,
    problems: &mut Problems<'_>,
) -> Option<&'static Key> {
    let Some(key) = keys::find(name) else {
        problems.push(place, keys::unknown(name, allowed));
        return None;
    };
    if allowed(key.level) {
        return Some(key);
    }
    let help = match key.level {
        Level::Run => "it holds for the whole run: put it into the workload's own `args:`",
        _ => "it is for one of several tasks: put it under that task in `tasks:`",
    };
    problems.push(
        place,
        ProblemText::new(format!("`{name}` cannot stand here")).help(help),
    );
    None
}

fn read_tasks<'a>(
    workload: &mut Workload<'a>,
    node: &'a Node,
    what: &str,
    problems: &mut Problems<'_>,
) {
    let listed = entries(node, what, problems);
    if listed.is_empty() {
        problems.push(node.place, format!("{what}: no tasks are given"));
    }
    for (name, key, body) in listed {
        if workload.tasks.len() >= MAX_TASKS {
            problems.push(key.place, format!("{what}: more than {MAX_TASKS} tasks"));
            return;
        }
        let inner = entries(body, &format!("task `{}`", shown(&name)), problems);
        // A task has `args:` and `matrix:`, or lists its arguments directly.
        let nested = !inner.is_empty()
            && inner
                .iter()
                .all(|(section, ..)| section == "args" || section == "matrix");
        let index = workload.tasks.len();
        let mut args = Arguments::default();
        let mut matrix = None;
        let allowed = |level| level != Level::Run;
        if nested {
            for (section, _, value) in inner {
                if section == "args" {
                    args = arguments(value, "args", problems, allowed);
                } else {
                    matrix = Some(value);
                }
            }
        } else {
            args = arguments(body, "task", problems, allowed);
        }
        workload.tasks.push(Task {
            name,
            place: key.place,
            args,
        });
        if let Some(matrix) = matrix {
            read_matrix(workload, matrix, Some(index), problems);
        }
    }
}

/// Reads the `matrix:` of the workload (`task` is `None`) or of one task.
fn read_matrix(
    workload: &mut Workload<'_>,
    node: &Node,
    task: Option<usize>,
    problems: &mut Problems<'_>,
) {
    for (name, key_node, value) in entries(node, "matrix", problems) {
        let Some((target, key)) = address(workload, &name, key_node.place, task, problems) else {
            continue;
        };
        let Some(values) = dimension_values(key, value, problems) else {
            continue;
        };
        let twice = workload
            .dimensions
            .iter()
            .find(|other| other.task == target && other.key == key);
        if let Some(other) = twice {
            problems.push(
                key_node.place,
                ProblemText::new(format!(
                    "`{name}` is another name for a key that is given already"
                ))
                .related(other.key_place, format!("`{}` is given here", other.label)),
            );
            continue;
        }
        let label = match task {
            Some(index) => format!("{}.{name}", workload.tasks[index].name),
            None => name,
        };
        workload.dimensions.push(Dimension {
            task: target,
            key,
            key_place: key_node.place,
            label,
            values,
        });
    }
}

/// Resolves a name in a matrix or in `--set`: `key` for all tasks, `task.key` for one task.
pub(super) fn address(
    workload: &Workload<'_>,
    name: &str,
    place: Position,
    task: Option<usize>,
    problems: &mut Problems<'_>,
) -> Option<(Option<usize>, &'static Key)> {
    let of_one = |level| level != Level::Run;
    if task.is_some() {
        return known(name, place, of_one, problems).map(|key| (task, key));
    }
    let several = workload.tasks.len() > 1;
    let of_all = |level| level != Level::OneTask;
    // Keys have no dot, task names may: the last dot separates them.
    if let Some((prefix, rest)) = name.rsplit_once('.') {
        let found = workload.tasks.iter().position(|task| task.name == prefix);
        return match found {
            Some(index) => known(rest, place, of_one, problems).map(|key| (Some(index), key)),
            None => {
                let names = workload.tasks.iter().map(|task| task.name.as_str());
                let hint = did_you_mean(prefix, names);
                let mut trouble =
                    ProblemText::new(format!("no task is called `{}`{hint}", shown(prefix)));
                if !several {
                    trouble = trouble.help("this workload has no `tasks:`; leave the name out");
                }
                problems.push(place, trouble);
                None
            }
        };
    }
    known(name, place, of_all, problems).map(|key| (None, key))
}

/// The values of one key of a matrix.
///
/// They are written as a list, whose items may be ranges, as one range, or as a single value.
pub(super) fn dimension_values(
    key: &'static Key,
    node: &Node,
    problems: &mut Problems<'_>,
) -> Option<Vec<Node>> {
    let items = match &node.value {
        Value::List(items) if items.is_empty() => {
            problems.push(
                node.place,
                ProblemText::new(format!("{}: the list has no values", key.name))
                    .help("give at least one value or leave the key out"),
            );
            return None;
        }
        Value::List(items) => items.as_slice(),
        Value::Null => {
            problems.push(
                node.place,
                format!("{}: expected a list of values", key.name),
            );
            return None;
        }
        Value::Text(_) | Value::Map(_) => std::slice::from_ref(node),
    };
    // The value of a list key is itself a list, so its items are not expanded as ranges.
    if key.shape == Shape::List {
        return Some(items.to_vec());
    }
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        values.extend(range::expand(key, item, problems)?);
    }
    Some(values)
}
