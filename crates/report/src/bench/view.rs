//! Groups benchmark runs by workload and finds the keys that vary: the axes of charts.

use super::figure::{BenchMetric, Figure};
use crate::chart::SERIES;
use crate::words;
use tierloom_record::{BenchRecord, TaskRecord};
use tierloom_text::{Bytes, GbPerSec, Seconds};

/// The runs of one workload whose main tasks measure the same quantity.
pub(crate) struct RunGroup<'a> {
    /// Number of the group, used in ids.
    pub index: usize,
    /// Name of the workload.
    pub workload: &'a str,
    /// The workload file; may be empty.
    pub file: &'a str,
    /// The quantity of its figures; `None` if its runs have none.
    pub quantity: Option<BenchMetric>,
    /// Whether another group has the same workload.
    pub split: bool,
    /// The runs, in the order of the records.
    pub runs: Vec<GroupedRun<'a>>,
    /// The keys with more than one value in this group, in the order of the workload.
    pub keys: Vec<VariedKey>,
}

pub(crate) struct GroupedRun<'a> {
    pub record: &'a BenchRecord,
    /// For each key of the group, the index of this run's value in [`VariedKey::values`].
    pub at: Vec<usize>,
}

pub(crate) struct VariedKey {
    /// Name of the key.
    pub name: String,
    /// Values as typed: ascending if they are numbers, otherwise in the order of first occurrence.
    pub values: Vec<String>,
    /// The values as numbers; `None` unless all of them are.
    pub numbers: Option<Vec<f64>>,
}

/// Which key is used for what in a chart; the numbers are indices into [`RunGroup::keys`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Axes {
    /// The x axis: a numeric key if there is one.
    pub x: Option<usize>,
    /// The key with one line (or bar colour) per value.
    pub series: Option<usize>,
    /// Keys with one chart per combination of their values.
    pub facets: Vec<usize>,
}

const MACHINE: &str = "machine";
const SESSION: &str = "session";

/// Groups records, in the order of their first occurrence.
pub(crate) fn groups(records: &[BenchRecord]) -> Vec<RunGroup<'_>> {
    let mut found: Vec<(&str, &str, Option<BenchMetric>, Vec<&BenchRecord>)> = Vec::new();
    for record in records {
        // Runs of one workload may measure different quantities, which cannot share an axis.
        let quantity = Figure::of_run(record).map(|f| f.quantity);
        let same = found.iter_mut().find(|(workload, file, q, _)| {
            (*workload, *file, *q) == (&record.workload, &record.file, quantity)
        });
        match same {
            Some((.., runs)) => runs.push(record),
            None => found.push((&record.workload, &record.file, quantity, vec![record])),
        }
    }
    let names: Vec<(&str, &str)> = found.iter().map(|(w, f, ..)| (*w, *f)).collect();
    let group = |(index, (workload, file, quantity, records))| {
        let split = names.iter().filter(|n| **n == (workload, file)).count() > 1;
        let (runs, keys) = arrange(records);
        RunGroup {
            index,
            workload,
            file,
            quantity,
            split,
            runs,
            keys,
        }
    };
    found.into_iter().enumerate().map(group).collect()
}

/// The settings of a run, with its machine and session.
///
/// The last two become keys where only they distinguish runs.
fn settings(record: &BenchRecord) -> Vec<(&str, String)> {
    let machine = record.hosts.first().map(|h| h.card.cpu_model.as_str());
    let own = record
        .varied
        .iter()
        .map(|s| (s.key.as_str(), s.value.clone()));
    own.chain([
        (MACHINE, machine.unwrap_or("not recorded").to_string()),
        (SESSION, record.session_id.clone()),
    ])
    .collect()
}

fn arrange(records: Vec<&BenchRecord>) -> (Vec<GroupedRun<'_>>, Vec<VariedKey>) {
    let all: Vec<Vec<(&str, String)>> = records.iter().map(|r| settings(r)).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let value = |settings: &[(&str, String)], name: &str| {
        let found = settings.iter().find(|(key, _)| *key == name);
        found.map_or_else(|| "not set".to_string(), |(_, value)| value.clone())
    };
    // A session is only a key if it repeats a run of another one.
    let repeated = |name: &str| {
        name != SESSION
            || records.iter().enumerate().any(|(index, record)| {
                records[..index]
                    .iter()
                    .any(|other| other.run_id == record.run_id)
            })
    };
    let keys: Vec<VariedKey> = names
        .into_iter()
        .filter(|name| repeated(name))
        .map(|name| VariedKey::of(name, all.iter().map(|settings| value(settings, name))))
        .filter(|key| key.values.len() > 1)
        .collect();
    let runs = records.into_iter().zip(&all).map(|(record, settings)| {
        let place = |key: &VariedKey| {
            let own = value(settings, &key.name);
            key.values.iter().position(|v| *v == own).unwrap_or(0)
        };
        GroupedRun {
            record,
            at: keys.iter().map(place).collect(),
        }
    });
    let runs = runs.collect();
    (runs, keys)
}

impl VariedKey {
    fn of(name: &str, values: impl Iterator<Item = String>) -> VariedKey {
        let mut distinct: Vec<String> = Vec::new();
        for value in values {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        let numbers: Option<Vec<f64>> = distinct.iter().map(|v| number_of(v)).collect();
        let Some(numbers) = numbers else {
            return VariedKey {
                name: name.into(),
                values: distinct,
                numbers: None,
            };
        };
        let mut pairs: Vec<(f64, String)> = numbers.into_iter().zip(distinct).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (numbers, values) = pairs.into_iter().unzip();
        VariedKey {
            name: name.into(),
            values,
            numbers: Some(numbers),
        }
    }

    /// A value as an axis label: sizes in binary units, other numbers as typed.
    pub fn label(&self, place: usize) -> String {
        let typed = &self.values[place];
        let number = self.numbers.as_ref().map(|numbers| numbers[place]);
        let is_size = self.name.contains("size") || self.name.contains("bytes");
        match number {
            Some(value) if is_size && value >= 0.0 => words::short_bytes(value),
            _ => typed.clone(),
        }
    }
}

impl<'a> RunGroup<'a> {
    /// The heading of the group.
    pub fn title(&self) -> String {
        match self.quantity {
            Some(quantity) if self.split => format!("{}: {}", self.workload, quantity.name()),
            _ => self.workload.to_string(),
        }
    }

    /// Prefix of the ids of this group.
    pub fn prefix(&self) -> String {
        format!("b-w{}", self.index)
    }

    /// Chooses the axes of a chart.
    ///
    /// The numeric key with most values becomes the x axis, another key with few values the series.
    pub fn axes(&self) -> Axes {
        let numeric = |place: &usize| self.keys[*place].numbers.is_some();
        let count = |place: &usize| self.keys[*place].values.len();
        let all = || 0..self.keys.len();
        // `max_by_key` returns the last of equal keys: inner loops of a matrix are usually of
        // interest.
        let x = all()
            .filter(numeric)
            .max_by_key(count)
            .or_else(|| all().max_by_key(count));
        let rest = || all().filter(|place| Some(*place) != x);
        let series = rest()
            // More lines than colours could not be distinguished.
            .filter(|place| count(place) <= SERIES)
            .max_by_key(|place| (!numeric(place), count(place)));
        let facets = rest().filter(|place| Some(*place) != series).collect();
        Axes { x, series, facets }
    }

    /// The runs by combination of the values of `keys`, in the order of the records.
    pub fn split_by(&self, keys: &[usize]) -> Vec<(String, Vec<&GroupedRun<'a>>)> {
        let mut parts: Vec<(Vec<usize>, Vec<&GroupedRun<'a>>)> = Vec::new();
        for run in &self.runs {
            let own: Vec<usize> = keys.iter().map(|key| run.at[*key]).collect();
            match parts.iter_mut().find(|(values, _)| *values == own) {
                Some((_, runs)) => runs.push(run),
                None => parts.push((own, vec![run])),
            }
        }
        let name = |values: &[usize]| {
            let shown = |(key, value): (&usize, &usize)| {
                let key = &self.keys[*key];
                format!("{} {}", key.name, key.label(*value))
            };
            let shown: Vec<String> = keys.iter().zip(values).map(shown).collect();
            shown.join(", ")
        };
        parts
            .into_iter()
            .map(|(values, runs)| (name(&values), runs))
            .collect()
    }

    /// The name of a run within its group: "threads 4, operation read", or its id if no key varies.
    pub fn name_of(&self, run: &GroupedRun<'_>) -> String {
        let shown: Vec<String> = self
            .keys
            .iter()
            .zip(&run.at)
            .map(|(key, value)| format!("{} {}", key.name, key.label(*value)))
            .collect();
        if shown.is_empty() {
            run.record.run_id.clone()
        } else {
            shown.join(", ")
        }
    }

    /// The shortest name of a run within its group: only the values.
    pub fn short_name_of(&self, run: &GroupedRun<'_>) -> String {
        let shown: Vec<String> = self
            .keys
            .iter()
            .zip(&run.at)
            .map(|(key, value)| key.label(*value))
            .collect();
        if shown.is_empty() {
            run.record.workload.clone()
        } else {
            shown.join(" ")
        }
    }
}

impl GroupedRun<'_> {
    /// Bandwidth of all tasks together, GB/s: the sum of the medians of those that have one.
    pub fn total_gbps(&self) -> Option<f64> {
        let known: Vec<f64> = self
            .record
            .tasks
            .iter()
            .filter_map(|t| Some(t.bandwidth_gbps.as_ref()?.median))
            .collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }

    /// The background tasks that load the memory.
    pub fn load(&self) -> impl Iterator<Item = &TaskRecord> {
        let others = self.record.tasks.iter().skip(1);
        others.filter(|t| t.bandwidth_gbps.is_some())
    }

    /// Whether it measures a latency while other tasks load the memory.
    pub fn is_loaded_latency(&self) -> bool {
        let latency =
            Figure::of_run(self.record).is_some_and(|f| f.quantity == BenchMetric::Latency);
        latency && self.load().next().is_some()
    }
}

/// A value as a number; `None` if it is not one.
///
/// Units are those of workload files: sizes in bytes, times in seconds, bandwidths in bytes per
/// second, and percentages.
fn number_of(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = || text.trim_end_matches('%').parse::<f64>().ok();
    let size = || text.parse().ok().map(|Bytes(bytes)| bytes as f64);
    let time = || text.parse().ok().map(|Seconds(seconds)| seconds);
    let rate = || text.parse().ok().map(|GbPerSec(gbps)| gbps * 1e9);
    let value = plain().or_else(size).or_else(time).or_else(rate)?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_units_are_numbers_and_names_are_not() {
        for (text, value) in [
            ("4096", 4096.0),
            ("64M", 67_108_864.0),
            ("4 KiB", 4096.0),
            ("2.5 GB/s", 2.5e9),
            ("-1", -1.0),
            ("10%", 10.0),
        ] {
            assert_eq!(number_of(text), Some(value), "{text}");
        }
        for text in ["3:2", "dram", "", "2 m/s", "1.2.3", "thp", "dram:3,cxl:2"] {
            assert_eq!(number_of(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_put_in_order_and_words_keep_theirs() {
        let key =
            |values: &[&str]| VariedKey::of("access_size", values.iter().map(|v| v.to_string()));
        assert_eq!(key(&["4K", "64", "1M"]).values, ["64", "4K", "1M"]);
        assert_eq!(key(&["4K", "64", "1M"]).label(1), "4 KiB");
        assert_eq!(key(&["write", "read", "write"]).values, ["write", "read"]);
    }
}
