//! YAML as a tree in which every value has its position.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Spanned};
use std::fmt;

/// A YAML value. Scalars stay text: their meaning depends on the key, and numbers such as `64M` are
/// not numbers to YAML.
#[derive(Debug)]
pub enum Yaml {
    /// Empty, `~` or `null`.
    Null,
    /// A scalar: numbers in decimal notation, `true` or `false`, everything else as typed.
    Text(String),
    /// The items of a sequence.
    List(Vec<Spanned<Yaml>>),
    /// The entries of a mapping, in file order.
    Map(Vec<(Spanned<Yaml>, Spanned<Yaml>)>),
}

/// Reads one YAML document.
///
/// Anchors and merge keys are resolved within limits, so that a small file cannot become a large
/// tree.
///
/// # Errors
/// The parser's, for text that is not one document with each key once.
pub fn read_yaml(text: &str) -> Result<Spanned<Yaml>, Error> {
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
            // Two, so that a second document is reported as such and not as an exceeded limit.
            max_documents: 2,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 250_000,
            max_replay_stack_depth: 16,
        },
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// The first line of the parser's message, without the position that it appends.
pub fn yaml_problem(error: &Error) -> String {
    let said = error.without_snippet().to_string();
    let said = said.lines().next().unwrap_or_default();
    let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
    said.to_owned()
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

/// Keeps scalars of any type as text.
macro_rules! scalars {
    ($($visit:ident: $type:ty),+) => {
        $(fn $visit<E>(self, value: $type) -> Result<Yaml, E> {
            Ok(Yaml::Text(value.to_string()))
        })+
    };
}

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    scalars!(
        visit_bool: bool, visit_u64: u64, visit_i64: i64, visit_u128: u128, visit_i128: i128,
        visit_f64: f64, visit_str: &str
    );

    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_none<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Yaml, D::Error> {
        Yaml::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Yaml, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Yaml::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Yaml, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Yaml::Map(entries))
    }
}
