//! Tree of a YAML document.

use super::Mistake;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::fmt;

/// A value with the line it begins on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub line: u64,
    pub value: Value,
}

/// A value; scalars stay text until a type is requested.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Node {
    pub fn text(line: u64, text: impl Into<String>) -> Self {
        Node {
            line,
            value: Value::Text(text.into()),
        }
    }

    pub fn map(line: u64, entries: Vec<(&str, Node)>) -> Self {
        let entries = entries
            .into_iter()
            .map(|(key, node)| (Node::text(node.line, key), node))
            .collect();
        Node {
            line,
            value: Value::Map(entries),
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Description for messages.
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Text(text) => format!("{text:?}"),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a mapping".into(),
        }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else {
            return None;
        };
        let found = entries.iter().find(|(k, _)| k.as_text() == Some(key));
        found.map(|(_, node)| node)
    }

    /// This mapping with another value under `key`; other nodes become a mapping with this key
    /// only.
    pub fn with(&self, key: &str, node: Node) -> Node {
        let mut entries = match &self.value {
            Value::Map(entries) => entries.clone(),
            _ => Vec::new(),
        };
        match entries.iter_mut().find(|(k, _)| k.as_text() == Some(key)) {
            Some((_, old)) => *old = node,
            None => entries.push((Node::text(self.line, key), node)),
        }
        Node {
            line: self.line,
            value: Value::Map(entries),
        }
    }
}

/// Reads one YAML document within limits, so that a small file with aliases cannot become a large
/// tree.
pub(crate) fn read(text: &str) -> Result<Node, Mistake> {
    let options = serde_saphyr::options! {
        // Otherwise words such as `no` and `off` would be booleans, as in YAML 1.1.
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: 16,
            flow_nesting_limit: 16,
            max_events: 500_000,
            max_nodes: 250_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_merge_keys: 1_000,
            max_documents: 2,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 250_000,
            max_replay_stack_depth: 16,
        },
    };
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options) {
        Ok(raw) => Ok(node(raw)),
        Err(error) => {
            let line = error.location().map_or(0, |at| at.line());
            let said = error.without_snippet().to_string();
            let said = said.lines().next().unwrap_or_default();
            let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
            Err(Mistake::new(
                line,
                format!("not valid YAML ({said})"),
                "one YAML document with each key once",
            ))
        }
    }
}

fn node(raw: Spanned<Raw>) -> Node {
    let line = raw.defined.line();
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Text(text) => Value::Text(text),
        Raw::List(items) => Value::List(items.into_iter().map(node).collect()),
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (node(key), node(value)))
                .collect(),
        ),
    };
    Node { line, value }
}

/// The tree as deserialised by the parser.
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

/// Keeps scalars of any type as text.
macro_rules! scalars {
    ($($visit:ident: $type:ty),+) => {
        $(fn $visit<E>(self, value: $type) -> Result<Raw, E> {
            Ok(Raw::Text(value.to_string()))
        })+
    };
}

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    scalars!(visit_bool: bool, visit_u64: u64, visit_i64: i64, visit_u128: u128, visit_i128: i128, visit_f64: f64, visit_str: &str);

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

    #[test]
    fn lines_of_values_are_known_in_both_styles() {
        let tree = read("a: 1\nb:\n  c: { d: x,\n    e: y }\n").unwrap();
        let c = tree.get("b").unwrap().get("c").unwrap();
        assert_eq!(tree.get("a").unwrap().line, 1);
        assert_eq!((c.get("d").unwrap().line, c.get("e").unwrap().line), (3, 4));
    }

    #[test]
    fn a_key_given_twice_and_broken_syntax_name_their_line() {
        assert_eq!(read("a: 1\na: 2\n").unwrap_err().line, 2);
        assert_eq!(read("a: 1\nb: c: d\n").unwrap_err().line, 2);
    }
}
