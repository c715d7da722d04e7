//! Classifies why a record is not compared, from the text of its error.

use serde::{Deserialize, Serialize};

/// A class of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The text of `EXPLAIN`: Tierloom's plans are different.
    Explain,
    /// Nested functions, array and map literals, and access to elements and fields.
    Nested,
    /// Other functions of DataFusion that Tierloom is built without.
    Functions,
    /// Files of DataFusion's repository that no published crate contains.
    NoData,
    /// File formats and options that Tierloom does not read or write.
    Files,
    /// Column types that cannot be placed.
    Types,
    /// Keys that a query relies on: placed tables have none.
    Keys,
    /// Schemas, catalogs, indexes, functions: statements that the session does not have.
    Statements,
    /// Settings that are refused because they would have no effect.
    Settings,
    /// The statement fails as expected, but with another message.
    Words,
    /// Tables that DataFusion's own test runner creates.
    Absent,
    /// Plain DataFusion with the same features refuses it too.
    Plain,
}

impl Reason {
    /// All classes with their descriptions for the summary.
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

    /// The key of the class in the list.
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

    /// The class of a statement that failed with `message`; `None` if it belongs to none
    /// and is a failure.
    ///
    /// `lost` gives why a table is missing because of earlier statements.
    pub(crate) fn of(
        message: &str,
        plain_ran: Option<bool>,
        lost: impl Fn(&str) -> Option<Reason>,
    ) -> Option<Reason> {
        if let Some(function) = quoted_after(message, "Invalid function '") {
            return Some(of_function(function));
        }
        if let Some(table) = absent_table(message) {
            return Some(lost(table).unwrap_or(Reason::Absent));
        }
        match PATTERNS.iter().find(|(part, _)| message.contains(part)) {
            Some((_, reason)) => Some(*reason),
            None if plain_ran == Some(false) => Some(Reason::Plain),
            None => None,
        }
    }
}

/// The name of the table or view that a message reports as missing.
fn absent_table(message: &str) -> Option<&str> {
    let ours = message.strip_prefix("there is no table ");
    let ours = ours.and_then(|rest| rest.split([';', ' ']).next());
    let view = || message.strip_prefix("there is no view ");
    let theirs = || quoted_after(message, "View '");
    let qualified = || quoted_after(message, "table 'datafusion.public.");
    ours.or_else(view).or_else(theirs).or_else(qualified)
}

/// The text between `before` and the next quote.
pub(crate) fn quoted_after<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    let rest = message.split_once(before)?.1;
    rest.split_once('\'').map(|(name, _)| name)
}

fn of_function(name: &str) -> Reason {
    let nested = NESTED.iter().any(|start| name.starts_with(start));
    match nested || NESTED_NAMES.contains(&name) {
        true => Reason::Nested,
        false => Reason::Functions,
    }
}

/// Prefixes of the names of nested functions.
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

/// Further nested functions, by full name.
const NESTED_NAMES: [&str; 6] = [
    "range",
    "cardinality",
    "empty",
    "inner_product",
    "dot_product",
    "cosine_distance",
];

/// The message for a change of a table whose rows are in files.
pub(crate) const OF_FILES: &str = "rows of an external table are in its files";

/// Parts of messages with the class that they indicate; the first match counts.
const PATTERNS: [(&str, Reason); 25] = [
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
    ("neither its name nor its content shows", Reason::Files),
    ("there are format.delimiter", Reason::Files),
    ("No such file or directory", Reason::Files),
    ("is not part of this shell", Reason::Statements),
    ("there is no schema", Reason::Statements),
    ("there is one catalog", Reason::Statements),
    ("without a schema are those of public", Reason::Statements),
    ("failed to resolve catalog", Reason::Statements),
    ("failed to resolve schema", Reason::Statements),
    ("table 'datafusion.", Reason::Statements),
    ("table 'my_catalog.", Reason::Absent),
    ("there are no transactions", Reason::Statements),
    (OF_FILES, Reason::Statements),
    ("has no effect", Reason::Settings),
    ("has no columns", Reason::Types),
    ("cannot be placed", Reason::Types),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::StmtKind;
    use crate::lost::Lost;

    fn of(message: &str) -> Option<Reason> {
        let mut lost = Lost::default();
        let kind = StmtKind::Makes("t".to_owned());
        lost.remember(&kind, &[], Some(Reason::NoData));
        Reason::of(message, Some(true), |table| lost.table(table))
    }

    #[test]
    fn a_failure_has_a_class_only_if_something_excuses_it() {
        assert_eq!(of("Invalid function 'make_array'."), Some(Reason::Nested));
        assert_eq!(of("Invalid function 'md5'."), Some(Reason::Functions));
        assert_eq!(of("Arrow error: Divide by zero error"), None);
        assert_eq!(of("Internal error: no such column"), None);
        let refused = Reason::of("odd", Some(false), |_| None);
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
