//! Workload files: YAML to plans.
//!
//! ```text
//!   text ── tree: nodes with places ──> workload: arguments, tasks, matrix ── expand: each combination ──> task: RunPlan
//!                                            ↑ keys: names, aliases                       ↑ --set over all of it
//! ```
//!
//! A file maps names to workloads. A workload has `args` (key and value), a `matrix` (key and values; every combination is a run) and, if
//! it is more than one task, `tasks` or CXL-Bench's `parallel_benchmark`. CXL-Bench's own keys and their defaults are understood, of its
//! older versions too; `docs/bench-files.md` lists all keys. Everything that is wrong is reported with line and column, several problems at once.

mod access;
mod chain;
mod error;
mod expand;
mod hosts;
mod keys;
mod load;
mod memory;
mod range;
mod settings;
mod source;
mod task;
mod tree;
pub(crate) mod values;
mod words;
mod workers;
mod workload;

use tierloom_kernels::Simd;

pub use error::{FileError, FileErrors, Place, Problem};
pub use hosts::HostSpec;
pub use load::load;

use crate::plan::RunPlan;
use error::{Problems, Trouble, did_you_mean};

/// Runs that one command may have.
pub const MAX_RUNS: usize = 100_000;
/// Longest text of a workload file, bytes.
pub(crate) const MAX_TEXT_BYTES: u64 = 4 << 20;
/// Name of the section with hosts.
const HOSTS: &str = "hosts";

/// How workload files are read.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOptions {
    /// Keys and values that override arguments and matrices of all workloads. `task.key` is for the task of that name. A list of values varies.
    pub overrides: Vec<(String, String)>,
    /// Names of the workloads to take; empty for all.
    pub only: Vec<String>,
    /// Timed repetitions where a file says nothing.
    pub default_repeat: u32,
    /// Warm-up where a file says nothing, s.
    pub default_warmup_s: f64,
    /// Vector width that `simd: auto` stands for.
    pub simd: Simd,
}

impl Default for LoadOptions {
    /// Three repetitions after a tenth of a second of warm-up, with the widest vectors of this processor.
    fn default() -> Self {
        Self {
            overrides: Vec::new(),
            only: Vec::new(),
            default_repeat: 3,
            default_warmup_s: 0.1,
            simd: Simd::detect(),
        }
    }
}

/// What workload files say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workloads {
    /// The hosts they name, by name.
    pub hosts: Vec<HostSpec>,
    /// The runs in file order, those of a matrix with its last key varying fastest.
    pub runs: Vec<RunPlan>,
    /// Names of all workloads seen, also those that `only` leaves out.
    pub names: Vec<String>,
}

/// Reads the text of a workload file; `file_name` is for messages and plans. Names in `only` that are not in this file are no error here.
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
    let whole_file = Place::default();
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
            Trouble::new("the file has no workload").help(
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
        let Some(workload) = workload::read(name, place, body, problems) else {
            continue;
        };
        let room = MAX_RUNS - workloads.runs.len().min(MAX_RUNS);
        let runs = expand::runs(workload, &mut overrides, options, file_name, room, problems);
        workloads.runs.extend(runs);
        if problems.is_full() {
            return workloads;
        }
    }
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

/// Every task runs here or on a host that the file names.
fn check_hosts(workloads: &Workloads, problems: &mut Problems<'_>) {
    for run in &workloads.runs {
        for task in &run.tasks {
            let Some(host) = &task.host else { continue };
            let names = || workloads.hosts.iter().map(|host| host.name.as_str());
            if names().any(|name| name == host) {
                continue;
            }
            let place = Place {
                line: run.line,
                ..Place::default()
            };
            problems.push(
                place,
                Trouble::new(format!(
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
