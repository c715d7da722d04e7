//! YAML as a tree in which every node has its line and column.
//!
//! Scalars stay text: their meaning depends on the key, and numbers such as `64M` are not numbers
//! to YAML. Depth, size and aliases are limited, so a small file cannot expand into a large tree.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::error::{Place, ProblemText};

/// A value with its position in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Place,
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
    pub(super) fn text(value: impl Into<String>, place: Place) -> Self {
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
/// Anchors and merge keys are resolved within limits, so that a small file cannot become a large
/// tree.
///
/// # Errors
/// Where and why the text is not one YAML document.
pub(super) fn read(text: &str, source: u32) -> Result<Node, (Place, ProblemText)> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: 16,
            flow_nesting_limit: 16,
            max_events: 200_000,
            max_nodes: 100_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_merge_keys: 1_000,
            // Two, so that a second document is reported as such and not as an exceeded limit.
            max_documents: 2,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 16,
        },
    };
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options) {
        Ok(raw) => Ok(node(raw, source)),
        Err(error) => {
            let place = error.location().map_or(
                Place {
                    source,
                    ..Place::default()
                },
                |at| place(at, source),
            );
            Err((place, said(&error, text, place)))
        }
    }
}

/// The parser's message without the position that it appends.
fn said(error: &serde_saphyr::Error, text: &str, place: Place) -> ProblemText {
    match error {
        serde_saphyr::Error::MultipleDocuments { .. } => {
            ProblemText::new("a second YAML document begins here; put it into a file of its own")
        }
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            let trouble =
                ProblemText::new(format!("`{}` is given twice", super::values::shown(key)))
                    .help("take one of them out");
            match first_of(text, key, place) {
                Some(line) => {
                    let first = Place { line, ..place };
                    trouble.related(first, "it is given here first")
                }
                None => trouble,
            }
        }
        _ => {
            let said = error.without_snippet().to_string();
            let said = said.lines().next().unwrap_or_default();
            let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
            ProblemText::new(format!("not valid YAML: {said}"))
        }
    }
}

/// The line above `second` on which the same mapping has `key` already.
///
/// Only mappings written one key per line are searched: a line with a smaller indentation ends the
/// mapping.
fn first_of(text: &str, key: &str, second: Place) -> Option<u64> {
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

fn place(at: Location, source: u32) -> Place {
    Place {
        source,
        line: at.line(),
        column: at.column(),
    }
}

fn node(raw: Spanned<Raw>, source: u32) -> Node {
    Node {
        place: place(raw.defined, source),
        value: match raw.value {
            Raw::Null => Value::Null,
            Raw::Text(text) => Value::Text(text),
            Raw::List(items) => {
                Value::List(items.into_iter().map(|item| node(item, source)).collect())
            }
            Raw::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| (node(key, source), node(value, source)))
                    .collect(),
            ),
        },
    }
}

/// The tree as deserialized, before positions are converted.
#[derive(Debug)]
enum Raw {
    Null,
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_here(text: &str) -> Result<Node, (Place, ProblemText)> {
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
