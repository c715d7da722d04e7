//! Matrix expansion: one run for every combination of the values that vary.
//!
//! ```text
//!   args of the workload < args of the task < matrix < matrix of the task < --set < --set task.key
//! ```
//!
//! A later layer overrides an earlier one. Errors in one run do not stop the others, so that one
//! reading reports all of them.

use crate::plan::{RunPlan, TaskRole, UntilStable};

use super::LoadOptions;
use super::error::{Position, ProblemText, Problems};
use super::keys::{Key, Level, Shape};
use super::published::Made;
use super::settings::{Argument, Arguments, Reader};
use super::task;
use super::tree::{Node, Value};
use super::values::{self, whole};
use super::wanted::Wanted;
use super::workload::{Dimension, Workload, address, dimension_values};

/// Maximum number of repetitions.
const MAX_REPEAT: u64 = 100_000;
/// Default number of repetitions after which an `until_stable` run stops in any case.
const DEFAULT_MAX_REPEAT: u32 = 50;
const DEFAULT_SEED: u64 = 1;

/// One `--set key=value`.
#[derive(Debug)]
pub(super) struct Override {
    pub(super) name: String,
    pub(super) value: Node,
    /// Whether it applied to any workload.
    pub(super) used: bool,
}

/// A single value from `--set`, which overrides the matrix instead of extending it.
struct Fixed<'a> {
    task: Option<usize>,
    setting: Argument<'a>,
}

/// All runs of `workload`, at most `room` of them.
///
/// Problems are added to `problems`; the runs without one are still returned.
pub(super) fn runs(
    workload: &mut Workload<'_>,
    overrides: &mut [Override],
    options: &LoadOptions,
    file: &str,
    room: usize,
    problems: &mut Problems<'_>,
) -> Vec<Made> {
    let fixed_at = apply_overrides(workload, overrides, problems);
    let fixed: Vec<Fixed<'_>> = fixed_at
        .into_iter()
        .map(|(index, task, key)| Fixed {
            task,
            setting: Argument {
                key,
                key_place: overrides[index].value.place,
                value: &overrides[index].value,
            },
        })
        .collect();
    let count = workload
        .dimensions
        // Counted before expansion: a few lines of matrix can make more runs than memory can hold.
        .iter()
        .try_fold(1_usize, |runs, dimension| {
            runs.checked_mul(dimension.values.len())
        });
    if count.is_none_or(|count| count > room) {
        let sizes: Vec<String> = workload
            .dimensions
            .iter()
            .map(|dimension| format!("{} x {}", dimension.label, dimension.values.len()))
            .collect();
        problems.push(
            workload.place,
            ProblemText::new(format!(
                "workload `{}` makes more than {} runs together with those before it ({})",
                values::shown(&workload.name),
                super::MAX_RUNS,
                sizes.join(", ")
            ))
            .help("take values out of the matrix or make several files of it"),
        );
        return Vec::new();
    }
    let mut chosen = vec![0_usize; workload.dimensions.len()];
    let mut runs = Vec::with_capacity(count.unwrap_or(0));
    loop {
        let combination = Combination {
            workload,
            chosen: &chosen,
            fixed: &fixed,
            options,
            file,
        };
        if let Some(plan) = combination.plan(problems) {
            let values = combination.values();
            runs.push(Made { plan, values });
        }
        if problems.is_full() || !advance(&mut chosen, &workload.dimensions) {
            return runs;
        }
    }
}

/// Moves to the next combination, the last key varying fastest; false after the last one.
fn advance(chosen: &mut [usize], dimensions: &[Dimension]) -> bool {
    for (index, dimension) in chosen.iter_mut().zip(dimensions).rev() {
        *index += 1;
        if *index < dimension.values.len() {
            return true;
        }
        *index = 0;
    }
    false
}

/// Applies `--set` to the matrix.
///
/// A list or range replaces the key's dimension. Anything else removes the dimension and is
/// returned as a fixed value: index of the override, task, key.
fn apply_overrides(
    workload: &mut Workload<'_>,
    overrides: &mut [Override],
    problems: &mut Problems<'_>,
) -> Vec<(usize, Option<usize>, &'static Key)> {
    let mut fixed = Vec::new();
    for (index, given) in overrides.iter_mut().enumerate() {
        // The task may be in another workload of the file.
        if let Some((prefix, _)) = given.name.rsplit_once('.')
            && !workload.tasks.iter().any(|task| task.name == prefix)
        {
            continue;
        }
        given.used = true;
        let Some((task, key)) = address(workload, &given.name, given.value.place, None, problems)
        else {
            continue;
        };
        // A key that is overridden no longer varies, and neither do the keys it replaces.
        workload.dimensions.retain(|dimension| {
            let same_key = dimension.key == key || key.replaces.contains(&dimension.key.name);
            !(same_key && (task.is_none() || dimension.task == task))
        });
        let varies = match &given.value.value {
            // The value of a list key is a list, so only a list of lists varies.
            Value::List(items) if key.shape == Shape::List => {
                matches!(items.first(), Some(item) if matches!(item.value, Value::List(_)))
            }
            Value::List(_) | Value::Map(_) => true,
            _ => false,
        };
        if !varies {
            fixed.push((index, task, key));
            continue;
        }
        let Some(values) = dimension_values(key, &given.value, problems) else {
            continue;
        };
        workload.dimensions.push(Dimension {
            task,
            key,
            key_place: given.value.place,
            label: given.name.clone(),
            values,
        });
    }
    fixed
}

/// One combination: the index of the chosen value for each dimension.
struct Combination<'a> {
    workload: &'a Workload<'a>,
    chosen: &'a [usize],
    fixed: &'a [Fixed<'a>],
    options: &'a LoadOptions,
    file: &'a str,
}

impl<'a> Combination<'a> {
    fn plan(&self, problems: &mut Problems<'_>) -> Option<RunPlan> {
        let workload = self.workload;
        let alone = workload.tasks.len() == 1;
        let mut tasks = Vec::new();
        let mut complete = true;
        let mut scale = 1.0;
        for (index, task) in workload.tasks.iter().enumerate() {
            let settings = self.settings_of(index);
            let mut reader = Reader {
                settings: &settings,
                problems,
                options: self.options,
            };
            if index == 0 {
                scale = reader.scale().unwrap_or(1.0);
            }
            let wanted = Wanted {
                name: &task.name,
                place: task.place,
                role: if index == 0 || workload.equals {
                    TaskRole::Main
                } else {
                    TaskRole::Background
                },
                alone,
            };
            match task::tasks(&wanted, &mut reader, self.options.simd) {
                Some(made) => tasks.extend(made),
                None => complete = false,
            }
        }
        let run = self.run_settings();
        let run = run_level(
            &mut Reader {
                settings: &run,
                problems,
                options: self.options,
            },
            self.options,
        );
        if !complete {
            // A run must not disappear without an error message.
            if problems.is_empty() {
                problems.push(
                    workload.place,
                    ProblemText::new(format!(
                        "workload `{}` cannot be read, for an unknown reason",
                        values::shown(&workload.name)
                    ))
                    .help("this is a mistake of Tierloom; please report it with the file"),
                );
            }
            return None;
        }
        // The first task must be a main task: it decides when a repetition ends. The sort is
        // stable.
        tasks.sort_by_key(|task| task.role != TaskRole::Main);
        if tasks.first().is_none_or(|task| task.role != TaskRole::Main) {
            problems.push(
                workload.place,
                ProblemText::new("no task has the role main")
                    .help("give the task whose figures matter `role: main`"),
            );
            return None;
        }
        let run = run?;
        Some(
            RunPlan {
                id: String::new(),
                workload: workload.name.clone(),
                file: self.file.to_owned(),
                line: workload.place.line,
                varied: self.varied(),
                tasks,
                repeat: run.repeat,
                warmup_s: run.warmup_s,
                until_stable: run.until_stable,
                seed: run.seed,
                scale,
            }
            .with_id(),
        )
    }

    fn chosen(&self) -> impl Iterator<Item = (&'a Dimension, &'a Node)> + Clone + '_ {
        self.workload
            .dimensions
            .iter()
            .zip(self.chosen)
            .filter_map(|(dimension, index)| Some((dimension, dimension.values.get(*index)?)))
    }

    fn of(
        &self,
        task: Option<usize>,
        run_level: bool,
    ) -> impl Iterator<Item = Argument<'a>> + Clone + '_ {
        self.chosen()
            .filter(move |(dimension, _)| {
                dimension.task == task && (dimension.key.level == Level::Run) == run_level
            })
            .map(|(dimension, value)| Argument {
                key: dimension.key,
                key_place: dimension.key_place,
                value,
            })
    }

    fn fixed(
        &self,
        task: Option<usize>,
        run_level: bool,
    ) -> impl Iterator<Item = Argument<'a>> + Clone + '_ {
        self.fixed
            .iter()
            .filter(move |fixed| {
                fixed.task == task && (fixed.setting.key.level == Level::Run) == run_level
            })
            .map(|fixed| fixed.setting)
    }

    /// The arguments of a task, from all layers in order of priority.
    fn settings_of(&self, task: usize) -> Arguments<'a> {
        let mut settings = Arguments::default();
        let workload = self.workload.args.iter();
        settings.lay(workload.filter(|setting| setting.key.level != Level::Run));
        settings.lay(self.workload.tasks[task].args.iter());
        settings.lay(self.of(None, false));
        settings.lay(self.of(Some(task), false));
        settings.lay(self.fixed(None, false));
        settings.lay(self.fixed(Some(task), false));
        settings
    }

    fn run_settings(&self) -> Arguments<'a> {
        let mut settings = Arguments::default();
        let workload = self.workload.args.iter();
        settings.lay(workload.filter(|setting| setting.key.level == Level::Run));
        settings.lay(self.of(None, true));
        settings.lay(self.fixed(None, true));
        settings
    }

    /// The values of all keys of the matrix and of `--set`, by task and key.
    fn values(&self) -> Vec<((Option<usize>, &'static Key), String)> {
        let chosen = self.chosen();
        let chosen = chosen.map(|(dim, value)| ((dim.task, dim.key), value.to_string()));
        let fixed = self.fixed.iter().map(|fixed| {
            let setting = &fixed.setting;
            ((fixed.task, setting.key), setting.value.to_string())
        });
        chosen.chain(fixed).collect()
    }

    // A key with one value is the same in all runs and would only clutter their labels.
    fn varied(&self) -> Vec<(String, String)> {
        self.chosen()
            .filter(|(dimension, _)| dimension.values.len() > 1)
            .map(|(dimension, value)| (dimension.label.clone(), value.to_string()))
            .collect()
    }
}

/// Settings that apply to the whole run.
struct RunLevel {
    repeat: u32,
    warmup_s: f64,
    until_stable: Option<UntilStable>,
    seed: u64,
}

fn run_level(reader: &mut Reader<'_, '_, '_>, options: &LoadOptions) -> Option<RunLevel> {
    let repeat = reader.or("repeat", options.default_repeat.max(1), |text| {
        whole(text, 1..=MAX_REPEAT).map(|number| number as u32)
    });
    let warmup_s = reader.or("warmup", options.default_warmup_s, values::seconds);
    let until_stable = reader.or("until_stable", None, |text| match text {
        "false" | "off" => Ok(None),
        text => values::fraction(text).map(Some),
    });
    let max_repeat = reader.or("max_repeat", DEFAULT_MAX_REPEAT, |text| {
        whole(text, 2..=MAX_REPEAT).map(|number| number as u32)
    });
    let seed = reader.or("seed", DEFAULT_SEED, |text| whole(text, 0..=u64::MAX));
    let (repeat, max_repeat) = (repeat?, max_repeat?);
    let until_stable = until_stable?;
    if let Some(setting) = reader.settings.get("max_repeat") {
        if until_stable.is_none() {
            reader.problems.push(
                setting.key_place,
                ProblemText::new("`max_repeat` has no meaning without `until_stable`")
                    .help("add `until_stable: 2%`, or say `repeat` for a fixed number"),
            );
            return None;
        }
        if max_repeat < repeat {
            reader.wrong(
                setting,
                format!("{max_repeat} is less than repeat, which is {repeat}"),
            );
            return None;
        }
    }
    Some(RunLevel {
        repeat,
        warmup_s: warmup_s?,
        until_stable: until_stable.map(|relative_half_width| UntilStable {
            relative_half_width,
            // Without an explicit maximum, `repeat` may be above the default.
            max_repeat: max_repeat.max(repeat),
        }),
        seed: seed?,
    })
}

/// Parses the values of `--set`, each as YAML.
pub(super) fn read_overrides(
    given: &[(String, String)],
    problems: &mut Problems<'_>,
) -> Vec<Override> {
    let mut overrides = Vec::with_capacity(given.len());
    for (index, (name, text)) in given.iter().enumerate() {
        let source = index as u32 + 1;
        match super::tree::read(text, source) {
            Ok(mut value) => {
                // Line and column within a `--set` tell less than the text itself.
                value.place = Position {
                    source,
                    line: 0,
                    column: 0,
                };
                overrides.push(Override {
                    name: name.trim().to_owned(),
                    value,
                    used: false,
                });
            }
            Err((_, trouble)) => problems.push(
                Position {
                    source,
                    line: 0,
                    column: 0,
                },
                trouble,
            ),
        }
    }
    overrides
}
