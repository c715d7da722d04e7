//! Workload files: from YAML to resolved plans.
//!
//! ```text
//!   text ── tree ──> workload: arguments, tasks, matrix ── expand ──> task: one RunPlan each
//!           positions          ↑ keys: names, aliases       ↑ --set overrides
//! ```
//!
//! A file maps names to workloads. A workload has `args` (key and value), a `matrix` (key and
//! values; every combination is a run) and, if it has more than one task, `tasks` or CXL-Bench's
//! `parallel_benchmark`. The keys and defaults of CXL-Bench are accepted, including those of its
//! older versions; `docs/bench-files.md` lists all keys. Errors are reported with line and column,
//! several at once. Nothing here looks at the machine: nodes and tiers are resolved where a task
//! runs.

mod access;
mod chain;
mod error;
mod expand;
mod hosts;
mod keys;
mod load;
mod memory;
mod operator;
mod positions;
mod published;
mod range;
mod scale;
mod settings;
mod source;
mod task;
mod tree;
pub(crate) mod values;
mod wanted;
mod words;
mod workers;
mod workload;

use tierloom_kernels::Simd;

pub use error::{FileError, FileErrors, Position, Problem};
pub use hosts::HostSpec;
pub use load::load;
pub use published::{PublishedFigure, PublishedRuns, SearchedRun};
pub use values::scale;

use crate::plan::RunPlan;
use error::{ProblemText, Problems, did_you_mean};

/// Maximum number of runs of one command, over all its workload files.
pub const MAX_RUNS: usize = 100_000;
/// Longest text of a workload file, bytes.
pub(crate) const MAX_TEXT_BYTES: u64 = 4 << 20;
/// Size of a cache line, bytes.
const LINE_BYTES: u64 = 64;
/// The top-level name that lists hosts instead of a workload.
const HOSTS: &str = "hosts";

/// What a command adds to workload files: overrides, a choice of workloads, and defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOptions {
    /// Keys and values that override the arguments and matrices of all workloads.
    ///
    /// The key `task.key` applies to the task of that name. A list of values becomes a dimension of
    /// the matrix.
    pub overrides: Vec<(String, String)>,
    /// Names of the workloads to run; empty for all.
    pub only: Vec<String>,
    /// Timed repetitions of runs that do not set `repeat`.
    pub default_repeat: u32,
    /// Warm-up of runs that do not set `warmup`, s.
    pub default_warmup_s: f64,
    /// Vector width that `simd: auto` is resolved to.
    pub simd: Simd,
    /// Factor on the sizes of all structures, above 0 and at most 1; it multiplies the files' own
    /// `scale`.
    pub scale: f64,
    /// Number of threads that `threads: all` stands for: the CPUs that the process may use.
    pub cpus: u32,
}

impl Default for LoadOptions {
    /// Three repetitions, 0.1 s of warm-up, and the widest vectors of this processor.
    fn default() -> Self {
        Self {
            overrides: Vec::new(),
            only: Vec::new(),
            default_repeat: 3,
            default_warmup_s: 0.1,
            simd: Simd::detect(),
            scale: 1.0,
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        }
    }
}

/// The hosts and runs that workload files describe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workloads {
    /// The hosts under `hosts:`, in file order.
    pub hosts: Vec<HostSpec>,
    /// The runs in file order; within a matrix, the last key varies fastest.
    pub runs: Vec<RunPlan>,
    /// Names of all workloads in the files, including those that `only` leaves out.
    pub names: Vec<String>,
    /// The published figures that runs are compared with, in file order.
    pub published: Vec<PublishedFigure>,
}

/// Parses the text of a workload file.
///
/// `file_name` is used in messages and plans. Names in `only` that this file does not have are not
/// an error here: [`load()`] checks them over all files.
///
/// # Errors
/// [`FileErrors`] with the first problems in file order.
pub fn parse(text: &str, file_name: &str, options: &LoadOptions) -> Result<Workloads, FileErrors> {
    let mut sources = vec![file_name.to_owned()];
    sources.extend(
        options
            .overrides
            .iter()
            .map(|(key, value)| format!("--set {}={}", values::shown(key), values::shown(value))),
    );
    let mut problems = Problems::new(&sources);
    let read = read(text, file_name, options, &mut problems);
    if problems.is_empty() {
        Ok(read)
    } else {
        Err(problems.into_errors())
    }
}

fn read(
    text: &str,
    file_name: &str,
    options: &LoadOptions,
    problems: &mut Problems<'_>,
) -> Workloads {
    let mut workloads = Workloads::default();
    let whole_file = Position::default();
    if text.len() as u64 > MAX_TEXT_BYTES {
        let most = MAX_TEXT_BYTES >> 20;
        problems.push(
            whole_file,
            format!("a workload file has at most {most} MiB"),
        );
        return workloads;
    }
    let root = match tree::read(text, 0) {
        Ok(root) => root,
        Err((place, trouble)) => {
            problems.push(place, trouble);
            return workloads;
        }
    };
    let mut overrides = expand::read_overrides(&options.overrides, problems);
    let mut bodies = Vec::new();
    for (name, key, body) in workload::entries(&root, "file", problems) {
        if name == HOSTS {
            workloads.hosts = hosts::read(body, problems);
        } else {
            workloads.names.push(name.clone());
            bodies.push((name, key.place, body));
        }
    }
    if bodies.is_empty() && problems.is_empty() {
        problems.push(
            whole_file,
            ProblemText::new("the file has no workload").help(
                "a workload looks like `name: {args: {operation: read, memory_region_size: 1G}}`",
            ),
        );
    }
    let mut wanted_any = false;
    for (name, place, body) in bodies {
        if !options.only.is_empty() && !options.only.contains(&name) {
            continue;
        }
        wanted_any = true;
        if let Some(workload) = workload::read(name, place, body, problems) {
            add(
                &mut workloads,
                workload,
                &mut overrides,
                options,
                file_name,
                problems,
            );
        }
        if problems.is_full() {
            return workloads;
        }
    }
    // A mistyped task name would otherwise be ignored silently. With no workload selected, nothing
    // could have used the overrides.
    for unused in overrides.iter().filter(|given| wanted_any && !given.used) {
        let task = unused.name.split('.').next().unwrap_or_default();
        problems.push(
            unused.value.place,
            format!(
                "no task is called `{}` in any workload",
                values::shown(task)
            ),
        );
    }
    check_hosts(&workloads, problems);
    workloads
}

/// Adds the runs of a workload, and the published figures that they are compared with.
fn add(
    workloads: &mut Workloads,
    mut workload: workload::Workload<'_>,
    overrides: &mut [expand::Override],
    options: &LoadOptions,
    file_name: &str,
    problems: &mut Problems<'_>,
) {
    // Before overrides change the matrix that the figures refer to.
    let questions = published::read(&workload, problems);
    let first = workloads.runs.len();
    let room = MAX_RUNS - first.min(MAX_RUNS);
    let made = expand::runs(&mut workload, overrides, options, file_name, room, problems);
    for question in &questions {
        question.check_phase(&made, problems);
        let asked = question.resolve(&workload.name, file_name, &made, first);
        workloads.published.push(asked);
    }
    workloads
        .runs
        .extend(made.into_iter().map(|made| made.plan));
}

/// Reports tasks whose host is not in `hosts:`.
fn check_hosts(workloads: &Workloads, problems: &mut Problems<'_>) {
    for run in &workloads.runs {
        for task in &run.tasks {
            let Some(host) = &task.host else { continue };
            let names = || workloads.hosts.iter().map(|host| host.name.as_str());
            if names().any(|name| name == host) {
                continue;
            }
            let place = Position {
                line: run.line,
                ..Position::default()
            };
            problems.push(
                place,
                ProblemText::new(format!(
                    "task `{}` runs on host `{}`, which is not in `hosts:`{}",
                    task.name,
                    values::shown(host),
                    did_you_mean(host, names())
                ))
                .help("add `hosts: {NAME: {address: HOST:PORT}}` at the top of the file"),
            );
            if problems.is_full() {
                return;
            }
        }
    }
}
