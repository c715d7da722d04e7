//! Tree of a YAML document.

use super::Mistake;
use serde_saphyr::Spanned;
use tierloom_text::{Yaml, read_yaml, yaml_problem};

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

/// Reads one YAML document.
pub(crate) fn read(text: &str) -> Result<Node, Mistake> {
    read_yaml(text).map(node).map_err(|error| {
        let line = error.location().map_or(0, |at| at.line());
        let problem = format!("not valid YAML ({})", yaml_problem(&error));
        Mistake::new(line, problem, "one YAML document with each key once")
    })
}

fn node(raw: Spanned<Yaml>) -> Node {
    let line = raw.defined.line();
    let value = match raw.value {
        Yaml::Null => Value::Null,
        Yaml::Text(text) => Value::Text(text),
        Yaml::List(items) => Value::List(items.into_iter().map(node).collect()),
        Yaml::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (node(key), node(value)))
                .collect(),
        ),
    };
    Node { line, value }
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
