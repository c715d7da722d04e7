//! What a table demands of its rows: columns that are never NULL, keys, checks and defaults.
//!
//! They are facts of the session's catalog alone. To DataFusion every column may be NULL and no key
//! is unique: it answers some queries over columns that are declared otherwise wrongly.

use super::super::error::SqlError;
use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitorMut};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use tierloom_corrections::Syntax;

/// The rules of one table; a table that was loaded from files or a query has none.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Rules {
    /// Columns without NULLs.
    pub not_null: BTreeSet<String>,
    /// What a column gets if a statement says nothing, or DEFAULT.
    pub defaults: BTreeMap<String, Expr>,
    pub keys: Vec<Key>,
    pub checks: Vec<Check>,
    /// The most characters of a text.
    pub most_chars: BTreeMap<String, u64>,
    /// Upper bound of the nesting depth of its expressions.
    pub levels: usize,
    /// The session with which the table ends.
    pub owner: Option<u64>,
}

/// Columns whose values together are there once; rows with a NULL among them do not count.
#[derive(Debug, Clone)]
pub(in super::super) struct Key {
    pub name: String,
    pub columns: Vec<String>,
    pub primary: bool,
}

/// A condition that must not be false.
#[derive(Debug, Clone)]
pub(in super::super) struct Check {
    pub name: String,
    pub condition: Expr,
}

impl Key {
    /// As in a declaration.
    pub fn words(&self) -> String {
        let kind = if self.primary {
            "PRIMARY KEY"
        } else {
            "UNIQUE"
        };
        format!("{kind} ({})", self.columns.join(", "))
    }
}

impl Check {
    /// The names in its condition, each once.
    pub fn names(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        // It never breaks.
        let _ = self.condition.each_expression(&mut |expr| {
            let ident = match expr {
                Expr::Identifier(ident) => Some(ident),
                Expr::CompoundIdentifier(idents) => idents.last(),
                _ => None,
            };
            names.extend(ident.map(name_of));
            ControlFlow::Continue(())
        });
        names.into_iter().collect()
    }
}

impl Rules {
    /// Adds a key under its name, or one made of the table's and the columns'.
    pub fn add_key(
        &mut self,
        table: &str,
        name: Option<String>,
        columns: Vec<String>,
        primary: bool,
    ) -> Result<(), SqlError> {
        if primary && self.keys.iter().any(|key| key.primary) {
            return Err(SqlError::input(format!(
                "table {table} has two primary keys; declare one, and UNIQUE for the other"
            )));
        }
        let made = match primary {
            true => format!("{table}_pkey"),
            false => format!("{table}_{}_key", columns.join("_")),
        };
        let name = self.new_name(table, name, made)?;
        if primary {
            self.not_null.extend(columns.iter().cloned());
        }
        self.keys.push(Key {
            name,
            columns,
            primary,
        });
        Ok(())
    }

    /// Adds a check under its name, or one made of the table's and the column's, if it is in the
    /// declaration of one.
    pub fn add_check(
        &mut self,
        table: &str,
        name: Option<String>,
        column: Option<&str>,
        condition: Expr,
    ) -> Result<(), SqlError> {
        let made = match column {
            Some(column) => format!("{table}_{column}_check"),
            None => format!("{table}_check"),
        };
        let name = self.new_name(table, name, made)?;
        self.checks.push(Check { name, condition });
        Ok(())
    }

    fn new_name(
        &self,
        table: &str,
        given: Option<String>,
        made: String,
    ) -> Result<String, SqlError> {
        let keys = self.keys.iter().map(|key| &key.name);
        let taken: BTreeSet<&String> = keys.chain(self.checks.iter().map(|c| &c.name)).collect();
        match given {
            Some(name) if taken.contains(&name) => Err(SqlError::input(format!(
                "table {table} has two constraints named {name}"
            ))),
            Some(name) => Ok(name),
            None => {
                let numbered = (1..).map(|n| format!("{made}{n}"));
                let mut names = std::iter::once(made.clone()).chain(numbered);
                Ok(names.find(|name| !taken.contains(name)).unwrap_or_default())
            }
        }
    }

    /// Removes the key or check of that name; whether there was one.
    pub fn drop_constraint(&mut self, name: &str) -> bool {
        let before = self.keys.len() + self.checks.len();
        self.keys.retain(|key| key.name != name);
        self.checks.retain(|check| check.name != name);
        self.keys.len() + self.checks.len() < before
    }

    /// Removes what is said of a column, and keys and checks that name it.
    pub fn drop_column(&mut self, column: &str) {
        self.not_null.remove(column);
        self.defaults.remove(column);
        self.most_chars.remove(column);
        self.keys
            .retain(|key| !key.columns.iter().any(|c| c == column));
        self.checks
            .retain_mut(|check| !Names::new(column, column).are_in(&mut check.condition));
    }

    /// Gives a column another name everywhere.
    pub fn rename_column(&mut self, from: &str, to: &str) {
        if self.not_null.remove(from) {
            self.not_null.insert(to.to_owned());
        }
        if let Some(default) = self.defaults.remove(from) {
            self.defaults.insert(to.to_owned(), default);
        }
        if let Some(most) = self.most_chars.remove(from) {
            self.most_chars.insert(to.to_owned(), most);
        }
        let columns = self.keys.iter_mut().flat_map(|key| &mut key.columns);
        for column in columns.filter(|column| *column == from) {
            to.clone_into(column);
        }
        for check in &mut self.checks {
            Names::new(from, to).are_in(&mut check.condition);
        }
    }
}

/// The name of a column, as the planner normalises it.
pub(super) fn name_of(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// Finds and replaces the names of a column in an expression.
struct Names<'a> {
    from: &'a str,
    to: &'a str,
    found: bool,
}

impl<'a> Names<'a> {
    fn new(from: &'a str, to: &'a str) -> Self {
        Names {
            from,
            to,
            found: false,
        }
    }

    fn are_in(&mut self, expr: &mut Expr) -> bool {
        // It never breaks.
        let _ = expr.change(self);
        self.found
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let ident = match expr {
            Expr::Identifier(ident) => Some(ident),
            Expr::CompoundIdentifier(idents) => idents.last_mut(),
            _ => None,
        };
        if let Some(ident) = ident
            && name_of(ident) == self.from
        {
            self.found = true;
            if self.from != self.to {
                *ident = Ident::with_quote('"', self.to);
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn expr(text: &str) -> Expr {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap();
        parser.parse_expr().unwrap()
    }

    fn rules() -> Rules {
        let mut rules = Rules::default();
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        rules.add_key("t", None, names(&["a"]), true).unwrap();
        rules.add_key("t", None, names(&["b", "c"]), false).unwrap();
        rules
            .add_check("t", None, Some("b"), expr("B > 0"))
            .unwrap();
        rules
            .add_check("t", None, None, expr("a < t.c OR c IS NULL"))
            .unwrap();
        rules.add_check("t", None, None, expr("c <> 7")).unwrap();
        rules
    }

    #[test]
    fn constraints_without_a_name_get_one_of_the_table_and_columns() {
        let mut rules = rules();
        let names = rules.keys.iter().map(|k| k.name.clone());
        let names: Vec<String> = names
            .chain(rules.checks.iter().map(|c| c.name.clone()))
            .collect();
        assert_eq!(
            names,
            ["t_pkey", "t_b_c_key", "t_b_check", "t_check", "t_check1"]
        );
        assert_eq!(rules.checks[1].names(), ["a", "c"]);
        assert!(rules.not_null.contains("a"));
        let again = rules.add_check("t", Some("t_pkey".into()), None, expr("true"));
        assert!(again.unwrap_err().to_string().contains("two constraints"));
        let second = rules.add_key("t", None, vec!["c".into()], true);
        assert!(second.unwrap_err().to_string().contains("primary keys"));
    }

    #[test]
    fn a_renamed_column_is_renamed_in_keys_and_checks_and_a_dropped_one_takes_them_along() {
        let mut rules = rules();
        rules.rename_column("c", "New");
        assert_eq!(rules.keys[1].columns, ["b", "New"]);
        let checks: Vec<String> = rules
            .checks
            .iter()
            .map(|c| c.condition.to_string())
            .collect();
        assert_eq!(
            checks,
            ["B > 0", "a < t.\"New\" OR \"New\" IS NULL", "\"New\" <> 7"]
        );
        rules.drop_column("New");
        let left: Vec<&str> = rules.checks.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((left, rules.keys.len()), (vec!["t_b_check"], 1));
    }
}
