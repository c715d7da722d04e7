//! Why a record is not compared: classes of reasons, by the words of the error.

use crate::lost::Lost;
use serde::{Deserialize, Serialize};

/// A class of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The text of `EXPLAIN`: Tierloom's plans are others.
    Explain,
    /// Nested functions, array and map literals, access to elements and fields.
    Nested,
    /// Functions of DataFusion that are not built in.
    Functions,
    /// Files of DataFusion's repository that no published crate ships.
    NoData,
    /// Kinds of files, and their options, that are not read or written.
    Files,
    /// Column types that cannot be placed.
    Types,
    /// Placed tables have no keys that a query could rely on.
    Keys,
    /// Schemas, catalogs, indexes, functions: statements that the session does not have.
    Statements,
    /// Settings that are refused since they would have no effect.
    Settings,
    /// The statement fails as the file expects, with other words.
    Words,
    /// Tables that DataFusion's own runner makes.
    Absent,
    /// Plain DataFusion with the same features refuses it too.
    Plain,
}

impl Reason {
    /// All classes, with what is told about them.
    pub const ALL: [(Reason, &'static str); 12] = [
        (Reason::Explain, "text of EXPLAIN: plans differ"),
        (
            Reason::Nested,
            "nested functions, literals and access not built in",
        ),
        (Reason::Functions, "other functions not built in"),
        (Reason::NoData, "data that no published crate ships"),
        (Reason::Files, "kinds of files and their options"),
        (Reason::Types, "tables that cannot be placed"),
        (Reason::Keys, "queries that rely on keys"),
        (
            Reason::Statements,
            "statements that the session does not have",
        ),
        (Reason::Settings, "settings that would have no effect"),
        (Reason::Words, "errors expected and given, in other words"),
        (Reason::Absent, "tables that DataFusion's own runner makes"),
        (
            Reason::Plain,
            "refused by plain DataFusion with the same features too",
        ),
    ];

    /// Its key in the list.
    pub fn key(self) -> &'static str {
        match self {
            Reason::Explain => "explain",
            Reason::Nested => "nested",
            Reason::Functions => "functions",
            Reason::NoData => "no_data",
            Reason::Files => "files",
            Reason::Types => "types",
            Reason::Keys => "keys",
            Reason::Statements => "statements",
            Reason::Settings => "settings",
            Reason::Absent => "absent",
            Reason::Words => "words",
            Reason::Plain => "plain",
        }
    }

    /// The class of a statement that failed with `told`; `None` if nothing excuses it.
    ///
    /// `lost` has what earlier statements would have made.
    pub(crate) fn of(told: &str, plain_ran: Option<bool>, lost: &Lost) -> Option<Reason> {
        if let Some(function) = quoted_after(told, "Invalid function '") {
            return Some(of_function(function));
        }
        if let Some(table) = absent_table(told) {
            return Some(lost.table(table).unwrap_or(Reason::Absent));
        }
        match PATTERNS.iter().find(|(part, _)| told.contains(part)) {
            Some((_, reason)) => Some(*reason),
            None if plain_ran == Some(false) => Some(Reason::Plain),
            None => None,
        }
    }
}

/// The name of a table or view that is not there.
fn absent_table(told: &str) -> Option<&str> {
    let ours = told.strip_prefix("there is no table ");
    let ours = ours.and_then(|rest| rest.split([';', ' ']).next());
    let view = || told.strip_prefix("there is no view ");
    let theirs = || quoted_after(told, "View '");
    let qualified = || quoted_after(told, "table 'datafusion.public.");
    ours.or_else(view).or_else(theirs).or_else(qualified)
}

/// What stands in quotes after `before`.
pub(crate) fn quoted_after<'a>(told: &'a str, before: &str) -> Option<&'a str> {
    let rest = told.split_once(before)?.1;
    rest.split_once('\'').map(|(name, _)| name)
}

fn of_function(name: &str) -> Reason {
    let nested = NESTED.iter().any(|start| name.starts_with(start));
    match nested || NESTED_NAMES.contains(&name) {
        true => Reason::Nested,
        false => Reason::Functions,
    }
}

/// What names of nested functions begin with.
const NESTED: [&str; 8] = [
    "array",
    "list_",
    "make_",
    "map",
    "string_to_",
    "any_match",
    "flatten",
    "generate_series",
];

/// Other nested functions.
const NESTED_NAMES: [&str; 6] = [
    "range",
    "cardinality",
    "empty",
    "inner_product",
    "dot_product",
    "cosine_distance",
];

/// Parts of messages and what they tell; the first that occurs counts.
const PATTERNS: [(&str, Reason); 23] = [
    ("nested_expressions", Reason::Nested),
    ("GetFieldAccess not supported", Reason::Nested),
    ("MAP not supported by ExprPlanner", Reason::Nested),
    ("must be in GROUP BY or an aggregate function", Reason::Keys),
    ("is not taken here", Reason::Files),
    (
        "expected the end of the statement, found OPTIONS",
        Reason::Files,
    ),
    (
        "expected the end of the statement, found PARTITIONED",
        Reason::Files,
    ),
    ("COPY has no option", Reason::Files),
    ("is source dependent and cannot be evaluated", Reason::Files),
    ("neither its name nor its content tells", Reason::Files),
    ("there are format.delimiter", Reason::Files),
    ("No such file or directory", Reason::Files),
    ("is not part of this shell", Reason::Statements),
    ("there is one schema, public", Reason::Statements),
    ("failed to resolve catalog", Reason::Statements),
    ("failed to resolve schema", Reason::Statements),
    ("table 'datafusion.", Reason::Statements),
    ("table 'my_catalog.", Reason::Absent),
    ("tables are filled once", Reason::Statements),
    ("there are no transactions", Reason::Statements),
    ("has no effect", Reason::Settings),
    ("has no columns", Reason::Types),
    ("cannot be placed", Reason::Types),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    fn of(told: &str) -> Option<Reason> {
        let mut lost = Lost::default();
        let kind = Kind::Makes("t".to_owned());
        lost.remember(&kind, &[], Some(Reason::NoData));
        Reason::of(told, Some(true), &lost)
    }

    #[test]
    fn a_failure_has_a_class_only_if_something_excuses_it() {
        assert_eq!(of("Invalid function 'make_array'."), Some(Reason::Nested));
        assert_eq!(of("Invalid function 'md5'."), Some(Reason::Functions));
        assert_eq!(of("Arrow error: Divide by zero error"), None);
        assert_eq!(of("Internal error: no such column"), None);
        let refused = Reason::of("odd", Some(false), &Lost::default());
        assert_eq!(refused, Some(Reason::Plain));
    }

    #[test]
    fn what_follows_from_a_skipped_statement_has_its_reason() {
        let absent = |name| of(&format!("there is no table {name}; there are a, b"));
        assert_eq!(absent("t"), Some(Reason::NoData));
        assert_eq!(absent("u"), Some(Reason::Absent));
        assert_eq!(of("View 't' doesn't exist"), Some(Reason::NoData));
    }
}
