//! The arguments of one task of one run, each with the position that it comes from.
//!
//! [`Arguments`] holds the merged layers; [`Reader`] turns them into typed values and reports what
//! is wrong.

use std::collections::BTreeMap;

use super::LoadOptions;
use super::error::{Position, ProblemText, Problems};
use super::keys::Key;
use super::tree::{Node, Value};

/// One argument: its key, and its value as parsed from YAML.
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument<'a> {
    pub(super) key: &'static Key,
    pub(super) key_place: Position,
    pub(super) value: &'a Node,
}

/// Arguments by the name of their key.
#[derive(Debug, Clone, Default)]
pub(super) struct Arguments<'a>(BTreeMap<&'static str, Argument<'a>>);

impl<'a> Arguments<'a> {
    /// Adds a layer of higher priority.
    ///
    /// The layer overrides arguments with the same key, and removes those that its keys replace
    /// ([`Key::replaces`]).
    pub(super) fn lay(&mut self, layer: impl Iterator<Item = Argument<'a>> + Clone) {
        // All removals come first: keys of the same layer that contradict each other must both
        // stay, to be reported.
        for setting in layer.clone() {
            for replaced in setting.key.replaces {
                self.0.remove(replaced);
            }
        }
        for setting in layer {
            self.0.insert(setting.key.name, setting);
        }
    }

    /// The arguments in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = Argument<'a>> + Clone + '_ {
        self.0.values().copied()
    }

    /// Adds an argument; returns the existing one if the key is already present.
    pub(super) fn add(&mut self, setting: Argument<'a>) -> Option<Argument<'a>> {
        match self.0.entry(setting.key.name) {
            std::collections::btree_map::Entry::Occupied(there) => Some(*there.get()),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(setting);
                None
            }
        }
    }

    /// The argument with that key; a null value (`~`) counts as not given.
    pub(super) fn get(&self, name: &str) -> Option<Argument<'a>> {
        self.0
            .get(name)
            .copied()
            .filter(|setting| setting.value.value != Value::Null)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

/// Reads typed values from [`Arguments`] and reports those that are wrong.
///
/// All methods return `None` after a problem, so that callers can use `?` and still read the
/// remaining keys.
#[derive(Debug)]
pub(super) struct Reader<'a, 'p, 's> {
    pub(super) settings: &'a Arguments<'a>,
    pub(super) problems: &'p mut Problems<'s>,
    /// What the command says: the scale of structures, the number of CPUs.
    pub(super) options: &'a LoadOptions,
}

impl<'a> Reader<'a, '_, '_> {
    /// The scalar under `name`, parsed by `parse`; `None` if it is missing or wrong.
    pub(super) fn value<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let setting = self.settings.get(name)?;
        let text = self.text(setting)?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(message) => {
                self.wrong(setting, message);
                None
            }
        }
    }

    /// The scalar under `name`, or `default` if it is missing; `None` if it is wrong.
    pub(super) fn or<T>(
        &mut self,
        name: &str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        if self.settings.has(name) {
            self.value(name, parse)
        } else {
            Some(default)
        }
    }

    /// The scalar under `name`, or `Some(None)` if it is missing; `None` if it is wrong.
    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        self.or(name, None, |text| parse(text).map(Some))
    }

    /// The scalar of a setting; a list or mapping is a problem.
    pub(super) fn text(&mut self, setting: Argument<'a>) -> Option<&'a str> {
        let text = setting.value.as_text();
        if text.is_none() {
            let help = match setting.value.value {
                Value::List(_) | Value::Map(_) => {
                    "to run once for each of several values, put the key under `matrix:`"
                }
                _ => "give it a value or leave it out",
            };
            self.problems.push(
                setting.value.place,
                ProblemText::new(format!(
                    "{}: expected a single value, found {}",
                    setting.key.name,
                    setting.value.kind()
                ))
                .help(help),
            );
        }
        text
    }

    /// Each item of the list under `name`, parsed by `parse`.
    ///
    /// A single value is a list of one item, or a list in numactl's syntax such as `0-3,6`.
    pub(super) fn list(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<u32, String>,
    ) -> Option<Vec<u32>> {
        let setting = self.settings.get(name)?;
        let items = match &setting.value.value {
            Value::List(items) if items.is_empty() => {
                self.wrong(setting, "the list is empty; leave the key out".into());
                return None;
            }
            Value::List(items) if items.len() > super::values::MAX_CPUS => {
                self.wrong(setting, format!("{} items are too many", items.len()));
                return None;
            }
            Value::List(items) => items,
            Value::Text(text) if text.contains([',', '-']) => {
                let numbers = super::values::id_list(text).and_then(|numbers| {
                    let each = numbers.into_iter().map(|number| parse(&number.to_string()));
                    each.collect::<Result<Vec<u32>, String>>()
                });
                return match numbers {
                    Ok(numbers) => Some(numbers),
                    Err(message) => {
                        self.wrong(setting, message);
                        None
                    }
                };
            }
            _ => std::slice::from_ref(setting.value),
        };
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let parsed = item
                .as_text()
                .ok_or_else(|| format!("expected a number, found {}", item.kind()))
                .and_then(&parse);
            match parsed {
                Ok(value) => values.push(value),
                Err(message) => {
                    self.problems
                        .push(item.place, format!("{}: {message}", setting.key.name));
                    return None;
                }
            }
        }
        Some(values)
    }

    /// Reports that the value of `setting` is wrong.
    pub(super) fn wrong(&mut self, setting: Argument<'_>, message: String) {
        self.problems.push(
            setting.value.place,
            format!("{}: {message}", setting.key.name),
        );
    }

    /// Reports that two arguments contradict each other, at the later one.
    pub(super) fn conflict(&mut self, one: Argument<'_>, other: Argument<'_>, why: &str) {
        let (first, second) = if one.key_place <= other.key_place {
            (one, other)
        } else {
            (other, one)
        };
        self.problems.push(
            second.key_place,
            ProblemText::new(format!(
                "`{}` contradicts `{}`: {why}",
                second.key.name, first.key.name
            ))
            .related(
                first.key_place,
                format!("`{}` is given here", first.key.name),
            ),
        );
    }

    /// Reports a conflict and returns true if both keys are given.
    pub(super) fn not_both(&mut self, one: &str, other: &str, why: &str) -> bool {
        match (self.settings.get(one), self.settings.get(other)) {
            (Some(one), Some(other)) => {
                self.conflict(one, other, why);
                true
            }
            _ => false,
        }
    }
}
