//! YAML as a tree in which every node has its line and column.
//!
//! Scalars stay text, see [`Yaml`].

use std::fmt;

use serde_saphyr::{Location, Spanned};
use tierloom_text::{Yaml, read_yaml, yaml_problem};

use super::error::{Position, ProblemText};

/// A value with its position in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Position,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Empty, `~` or `null`.
    Null,
    /// A scalar as text: numbers in decimal notation, `true` or `false`, everything else as typed.
    Text(String),
    List(Vec<Node>),
    /// A mapping; entries in file order.
    Map(Vec<(Node, Node)>),
}

impl Node {
    pub(super) fn text(value: impl Into<String>, place: Position) -> Self {
        Self {
            value: Value::Text(value.into()),
            place,
        }
    }

    /// The text of a scalar; `None` for anything else.
    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What kind of value it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Text(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// As typed, on one line.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => f.write_str("null"),
            Value::Text(text) => f.write_str(text),
            Value::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Map(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Reads one YAML document.
///
/// # Errors
/// Where and why the text is not one YAML document.
pub(super) fn read(text: &str, source: u32) -> Result<Node, (Position, ProblemText)> {
    match read_yaml(text) {
        Ok(raw) => Ok(node(raw, source)),
        Err(error) => {
            let place = error.location().map_or(
                Position {
                    source,
                    ..Position::default()
                },
                |at| place(at, source),
            );
            Err((place, said(&error, text, place)))
        }
    }
}

/// The parser's message without the position that it appends.
fn said(error: &serde_saphyr::Error, text: &str, place: Position) -> ProblemText {
    match error {
        serde_saphyr::Error::MultipleDocuments { .. } => {
            ProblemText::new("a second YAML document begins here; put it into a separate file")
        }
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            let trouble =
                ProblemText::new(format!("`{}` is given twice", super::values::shown(key)))
                    .help("take one of them out");
            match first_of(text, key, place) {
                Some(line) => {
                    let first = Position { line, ..place };
                    trouble.related(first, "it is given here first")
                }
                None => trouble,
            }
        }
        _ => ProblemText::new(format!("not valid YAML: {}", yaml_problem(error))),
    }
}

/// The line above `second` on which the same mapping has `key` already.
///
/// Only mappings written one key per line are searched: a line with a smaller indentation ends the
/// mapping.
fn first_of(text: &str, key: &str, second: Position) -> Option<u64> {
    let indent = usize::try_from(second.column).ok()?.checked_sub(1)?;
    let above = usize::try_from(second.line).ok()?.checked_sub(1)?;
    let lines: Vec<&str> = text.lines().take(above).collect();
    for (index, line) in lines.iter().enumerate().rev() {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let own = line.len() - content.len();
        if own < indent {
            return None;
        }
        let same = content
            .strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with(':'));
        if own == indent && same {
            return Some(index as u64 + 1);
        }
    }
    None
}

fn place(at: Location, source: u32) -> Position {
    Position {
        source,
        line: at.line(),
        column: at.column(),
    }
}

fn node(raw: Spanned<Yaml>, source: u32) -> Node {
    Node {
        place: place(raw.defined, source),
        value: match raw.value {
            Yaml::Null => Value::Null,
            Yaml::Text(text) => Value::Text(text),
            Yaml::List(items) => {
                Value::List(items.into_iter().map(|item| node(item, source)).collect())
            }
            Yaml::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| (node(key, source), node(value, source)))
                    .collect(),
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_here(text: &str) -> Result<Node, (Position, ProblemText)> {
        read(text, 0)
    }

    #[test]
    fn every_node_knows_its_line_and_column() {
        let node = read_here("a:\n  b: [1, 64M]\n").unwrap();
        let Value::Map(top) = &node.value else {
            panic!()
        };
        let Value::Map(inner) = &top[0].1.value else {
            panic!()
        };
        let Value::List(items) = &inner[0].1.value else {
            panic!()
        };
        assert_eq!((items[1].place.line, items[1].place.column), (2, 10));
        assert_eq!(items[1].as_text(), Some("64M"));
        assert_eq!(node.to_string(), "{a: {b: [1, 64M]}}");
    }

    #[test]
    fn a_second_equal_key_is_an_error_at_its_place() {
        let (place, trouble) = read_here("a:\n  b: 1\n  c: 0\n  b: 2\n").unwrap_err();
        assert_eq!((place.line, place.column), (4, 3), "{trouble:?}");
        assert_eq!(trouble.related.map(|(first, _)| first.line), Some(2));
    }

    #[test]
    fn a_bomb_of_aliases_is_refused_quickly() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let inner = format!("*a{}, ", level - 1).repeat(10);
            text += &format!("a{level}: &a{level} [{inner}]\n");
        }
        let (_, trouble) = read_here(&text).unwrap_err();
        assert!(trouble.message.starts_with("not valid YAML"), "{trouble:?}");
    }

    #[test]
    fn a_deep_nest_is_refused_not_followed() {
        assert!(read_here(&"[".repeat(100_000)).is_err());
        assert!(read_here(&"{a: ".repeat(100_000)).is_err());
        assert!(read_here(&"- ".repeat(100_000)).is_err());
    }

    #[test]
    fn syntax_errors_point_at_their_line() {
        let (place, trouble) = read_here("a: 1\nb: c: d\n").unwrap_err();
        assert_eq!(place.line, 2);
        assert!(!trouble.message.contains("at line"), "{}", trouble.message);
    }
}
