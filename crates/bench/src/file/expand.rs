//! From a workload to its runs: every combination of what varies.

use crate::plan::{Role, RunPlan, UntilStable};

use super::LoadOptions;
use super::error::{Place, Problems, Trouble};
use super::keys::{Key, Level, Shape};
use super::settings::{Reader, Setting, Settings};
use super::task::{self, Wanted};
use super::tree::{Node, Value};
use super::values::{self, whole};
use super::workload::{Dimension, Workload, address, dimension_values};

/// Repetitions at most.
const MAX_REPEAT: u64 = 100_000;
/// Repetitions after which a run that is to be stable gives up, where nothing is said.
const DEFAULT_MAX_REPEAT: u32 = 50;
/// The seed where nothing is said.
const DEFAULT_SEED: u64 = 1;

/// One `--set key=value`.
#[derive(Debug)]
pub(super) struct Override {
    pub(super) name: String,
    pub(super) value: Node,
    /// Whether a workload had a use for it.
    pub(super) used: bool,
}

/// A fixed value from `--set`.
struct Fixed<'a> {
    task: Option<usize>,
    setting: Setting<'a>,
}

/// All runs of `workload`, at most `room` of them. Problems go to `problems`.
pub(super) fn runs(
    mut workload: Workload<'_>,
    overrides: &mut [Override],
    options: &LoadOptions,
    file: &str,
    room: usize,
    problems: &mut Problems<'_>,
) -> Vec<RunPlan> {
    let fixed_at = apply_overrides(&mut workload, overrides, problems);
    let fixed: Vec<Fixed<'_>> = fixed_at
        .into_iter()
        .map(|(index, task, key)| Fixed {
            task,
            setting: Setting {
                key,
                key_place: overrides[index].value.place,
                value: &overrides[index].value,
            },
        })
        .collect();
    let count = workload
        .dimensions
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
            Trouble::new(format!(
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
            workload: &workload,
            chosen: &chosen,
            fixed: &fixed,
            options,
            file,
        };
        if let Some(run) = combination.plan(problems) {
            runs.push(run);
        }
        if problems.is_full() || !advance(&mut chosen, &workload.dimensions) {
            return runs;
        }
    }
}

/// The next combination, the last key varying fastest; false after the last one.
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

/// Lays `--set` over the matrix: a list varies, anything else is fixed. Gives the fixed ones: index, task, key.
fn apply_overrides(
    workload: &mut Workload<'_>,
    overrides: &mut [Override],
    problems: &mut Problems<'_>,
) -> Vec<(usize, Option<usize>, &'static Key)> {
    let mut fixed = Vec::new();
    for (index, given) in overrides.iter_mut().enumerate() {
        // A task of that name may be in another workload.
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
        workload.dimensions.retain(|dimension| {
            let same_key = dimension.key == key || key.replaces.contains(&dimension.key.name);
            !(same_key && (task.is_none() || dimension.task == task))
        });
        let varies = match &given.value.value {
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

/// One choice of a value for each key that varies.
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
        for (index, task) in workload.tasks.iter().enumerate() {
            let settings = self.settings_of(index);
            let mut reader = Reader {
                settings: &settings,
                problems,
            };
            let wanted = Wanted {
                name: &task.name,
                place: task.place,
                role: if index == 0 || workload.equals {
                    Role::Main
                } else {
                    Role::Background
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
            },
            self.options,
        );
        if !complete {
            // A run never disappears without a word.
            if problems.is_empty() {
                problems.push(
                    workload.place,
                    Trouble::new(format!(
                        "workload `{}` cannot be read, for a reason that is not told",
                        values::shown(&workload.name)
                    ))
                    .help("this is a mistake of Tierloom; please report it with the file"),
                );
            }
            return None;
        }
        // The first task is the main one.
        tasks.sort_by_key(|task| task.role != Role::Main);
        if tasks.first().is_none_or(|task| task.role != Role::Main) {
            problems.push(
                workload.place,
                Trouble::new("no task has the role main")
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
    ) -> impl Iterator<Item = Setting<'a>> + Clone + '_ {
        self.chosen()
            .filter(move |(dimension, _)| {
                dimension.task == task && (dimension.key.level == Level::Run) == run_level
            })
            .map(|(dimension, value)| Setting {
                key: dimension.key,
                key_place: dimension.key_place,
                value,
            })
    }

    fn fixed(
        &self,
        task: Option<usize>,
        run_level: bool,
    ) -> impl Iterator<Item = Setting<'a>> + Clone + '_ {
        self.fixed
            .iter()
            .filter(move |fixed| {
                fixed.task == task && (fixed.setting.key.level == Level::Run) == run_level
            })
            .map(|fixed| fixed.setting)
    }

    /// Arguments of a task, each layer over the one before: the workload's, its own, the matrix, `--set`.
    fn settings_of(&self, task: usize) -> Settings<'a> {
        let mut settings = Settings::default();
        let workload = self.workload.args.iter();
        settings.lay(workload.filter(|setting| setting.key.level != Level::Run));
        settings.lay(self.workload.tasks[task].args.iter());
        settings.lay(self.of(None, false));
        settings.lay(self.of(Some(task), false));
        settings.lay(self.fixed(None, false));
        settings.lay(self.fixed(Some(task), false));
        settings
    }

    fn run_settings(&self) -> Settings<'a> {
        let mut settings = Settings::default();
        let workload = self.workload.args.iter();
        settings.lay(workload.filter(|setting| setting.key.level == Level::Run));
        settings.lay(self.of(None, true));
        settings.lay(self.fixed(None, true));
        settings
    }

    fn varied(&self) -> Vec<(String, String)> {
        self.chosen()
            .filter(|(dimension, _)| dimension.values.len() > 1)
            .map(|(dimension, value)| (dimension.label.clone(), value.to_string()))
            .collect()
    }
}

/// What holds for the whole run.
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
                Trouble::new("`max_repeat` has no meaning without `until_stable`")
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
            max_repeat: max_repeat.max(repeat),
        }),
        seed: seed?,
    })
}

/// The texts of `--set` as overrides; `sources` gets a name for each.
pub(super) fn read_overrides(
    given: &[(String, String)],
    problems: &mut Problems<'_>,
) -> Vec<Override> {
    let mut overrides = Vec::with_capacity(given.len());
    for (index, (name, text)) in given.iter().enumerate() {
        let source = index as u32 + 1;
        match super::tree::read(text, source) {
            Ok(mut value) => {
                // Places within a `--set` are not worth more than the text itself.
                value.place = Place {
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
                Place {
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
