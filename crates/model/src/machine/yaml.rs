//! Reading and writing profiles as YAML, with file, line and field in every error.
//!
//! The YAML library reports lines and columns but not paths, so paths are worked out here from the
//! indentation of the text.

use super::Machine;
use super::check::nearest_of;
use crate::error::{MisreadError, ProfileError};
use serde::de::DeserializeOwned;
use serde_saphyr::Error as YamlError;

impl Machine {
    /// Reads a profile from `text`; `file_name` is used in errors only.
    ///
    /// # Errors
    /// [`ProfileError`] with file, line and field: text that is not YAML, unknown or missing keys,
    /// numbers out of range or not finite, unknown or repeated tier names, another schema version,
    /// a number without a source.
    pub fn from_yaml(text: &str, file_name: &str) -> Result<Machine, ProfileError> {
        let machine: Machine = read(text, file_name, "machine profile", expected_for)?;
        machine.check_file(file_name, |field| line_of(text, field))?;
        Ok(machine)
    }

    /// The profile as YAML, from which [`Machine::from_yaml`] reads an equal machine.
    ///
    /// # Errors
    /// [`ProfileError::Write`] if the serializer fails, which does not happen for checked machines.
    pub fn to_yaml(&self) -> Result<String, ProfileError> {
        serde_saphyr::to_string(self).map_err(|e| ProfileError::Write {
            name: self.name.clone(),
            message: e.to_string(),
        })
    }
}

/// Reads a file of numbers with sources; `what` names its contents, and `expected_for` describes
/// the value of a key that is missing.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    file: &str,
    what: &'static str,
    expected_for: fn(&str) -> &'static str,
) -> Result<T, MisreadError> {
    serde_saphyr::from_str(text).map_err(|error: YamlError| {
        let file = file.to_owned();
        let line = error.location().map_or(0, |l| l.line());
        let column = error.location().map_or(0, |l| l.column());
        match error.without_snippet() {
            YamlError::SerdeUnknownField {
                field, expected, ..
            } => MisreadError::UnknownKey {
                file,
                line,
                field: owner_path(text, line, column),
                key: field.clone(),
                known: nearest_of(field, expected.iter().copied()),
            },
            YamlError::SerdeMissingField { field, .. } => {
                let owner = owner_path(text, line, column);
                let path = if owner.is_empty() {
                    (*field).to_owned()
                } else {
                    format!("{owner}.{field}")
                };
                MisreadError::Missing {
                    file,
                    // The parser reports some line of the mapping; readers look at its first.
                    line: start_of(text, &owner),
                    field: path,
                    expected: expected_for(field),
                }
            }
            other => MisreadError::Syntax {
                file,
                what,
                line,
                field: path_at(text, line),
                message: first_line(&other.to_string()),
            },
        }
    })
}

/// Description of the value that is missing.
fn expected_for(field: &str) -> &'static str {
    match field {
        "value" => "a number",
        "kind" => "published, derived, assumed, measured or fitted",
        "source" => "where the number is from (publication, arithmetic or reason)",
        "schema" => "\"tierloom-machine/1\"",
        "name" | "title" | "description" => "a text",
        "provenance" => "published or measured",
        "citations" => "a list of full citations",
        "tiers" => "a list of memory tiers",
        "cache" | "tlb" | "concurrency" | "loaded" | "loaded_random" | "prefetch" => {
            "a group of numbers"
        }
        _ => "a number as { value: .., kind: .., source: .. }",
    }
}

/// Message without position: the parser adds "at line L, column C" and lines of context.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let cut = line
        .find(" at line ")
        .or_else(|| line.find(" (line "))
        .unwrap_or(line.len());
    line[..cut].trim().to_owned()
}

/// One step of a path: its column, and a key or the index of a list item.
enum Step {
    Key(usize, String),
    Item(usize, usize),
}

impl Step {
    fn column(&self) -> usize {
        match self {
            Step::Key(column, _) | Step::Item(column, _) => *column,
        }
    }
}

/// Path of the current line, worked out from indentation.
///
/// Profiles are block mappings whose values may be flow mappings; other YAML gives a wrong path,
/// never a wrong value.
struct Outline {
    steps: Vec<Step>,
}

impl Outline {
    /// Goes on to the next line; false if it has no key (comment, blank, continued text).
    fn enter(&mut self, raw: &str) -> bool {
        let body = raw.trim_start();
        let indent = raw.len() - body.len();
        let (column, body) = match body.strip_prefix("- ") {
            Some(rest) => {
                self.enter_item(indent);
                // The first key of an item is on the same line as the dash.
                (indent + 2, rest)
            }
            None => (indent, body),
        };
        let Some(key) = key_of(body) else {
            return false;
        };
        // Steps at this column or further right belong to mappings that have ended.
        self.steps.retain(|s| s.column() < column);
        self.steps.push(Step::Key(column, key.to_owned()));
        true
    }

    fn enter_item(&mut self, column: usize) {
        // A list may be at the same column as its key, so keys at this column stay.
        self.steps.retain(|s| s.column() <= column);
        match self.steps.last_mut() {
            Some(Step::Item(at, index)) if *at == column => *index += 1,
            _ => self.steps.push(Step::Item(column, 0)),
        }
    }

    fn path(&self) -> String {
        self.steps
            .iter()
            .fold(String::new(), |path, step| match step {
                Step::Item(_, index) => format!("{path}[{index}]"),
                Step::Key(_, key) if path.is_empty() => key.clone(),
                Step::Key(_, key) => format!("{path}.{key}"),
            })
    }
}

/// Path of the last key at or above `line` (from 1).
fn path_at(text: &str, line: u64) -> String {
    let mut outline = Outline { steps: Vec::new() };
    for raw in text.lines().take(usize::try_from(line).unwrap_or(0)) {
        outline.enter(raw);
    }
    outline.path()
}

/// Line (from 1) of the first key whose path is accepted by `wanted`; 1 if there is none.
fn find_line(text: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    let mut outline = Outline { steps: Vec::new() };
    let found = text
        .lines()
        .zip(1..)
        .find(|(raw, _)| outline.enter(raw) && wanted(&outline.path()));
    found.map_or(1, |(_, line)| line)
}

/// Line of the field with this path.
pub(crate) fn line_of(text: &str, field: &str) -> u64 {
    find_line(text, |path| path == field)
}

/// Line on which the mapping at path `owner` starts.
fn start_of(text: &str, owner: &str) -> u64 {
    find_line(text, |path| {
        path.strip_prefix(owner)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || owner.is_empty())
    })
}

/// Path of the mapping at this position: the key before a flow mapping, or the parent of the key in
/// a block mapping.
fn owner_path(text: &str, line: u64, column: u64) -> String {
    let number = |n: u64| usize::try_from(n).unwrap_or(0);
    let before: String = text
        .lines()
        .nth(number(line).saturating_sub(1))
        .unwrap_or_default()
        .chars()
        .take(number(column))
        .collect();
    let is_flow = before.contains('{');
    let path = path_at(text, line);
    if is_flow { path } else { parent(&path) }
}

fn key_of(body: &str) -> Option<&str> {
    let (key, rest) = body.split_once(':')?;
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (plain && !key.is_empty() && (rest.is_empty() || rest.starts_with(' '))).then_some(key)
}

fn parent(path: &str) -> String {
    path.rsplit_once('.')
        .map_or_else(String::new, |(owner, _)| owner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &str = "name: x\ntiers:\n- name: dram\n  loaded:\n    knee: 1\n# note: no\n- name: cxl\n  loaded: { knee: 2 }\ntext: a\n";

    #[test]
    fn lines_and_paths_agree_in_lists_that_are_not_indented() {
        for (line, path) in [
            (1, "name"),
            (2, "tiers"),
            (3, "tiers[0].name"),
            (5, "tiers[0].loaded.knee"),
            (7, "tiers[1].name"),
            (9, "text"),
        ] {
            assert_eq!(path_at(LISTS, line), path);
            assert_eq!(line_of(LISTS, path), line);
        }
    }

    #[test]
    fn groups_start_at_their_first_key() {
        assert_eq!(start_of(LISTS, "tiers[1]"), 7);
        assert_eq!(start_of(LISTS, ""), 1);
        assert_eq!(owner_path(LISTS, 8, 15), "tiers[1].loaded");
        assert_eq!(owner_path(LISTS, 8, 3), "tiers[1]");
    }

    #[test]
    fn errors_in_a_written_profile_still_name_the_tier() {
        let text = crate::profiles::load("sap26-pool")
            .unwrap()
            .to_yaml()
            .unwrap();
        let broken = text.replacen("name: cxl", "name: czl", 1);
        let message = Machine::from_yaml(&broken, "m.yaml")
            .unwrap_err()
            .to_string();
        assert!(message.contains("`tiers[1].name` is \"czl\""), "{message}");
        let line: usize = message.split(':').nth(1).unwrap().parse().unwrap();
        assert!(
            broken.lines().nth(line - 1).unwrap().contains("czl"),
            "{message}"
        );
    }
}
