//! What a session can do whose tables are elsewhere: queries.

use super::elsewhere::Elsewhere;
use super::error::SqlError;
use super::execute::is_query;
use super::planner::parse;
use super::script::Piece;
use super::session::SqlSession;
use super::statement::{Statement, recognise};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use std::sync::Arc;

impl SqlSession {
    /// The session with the tables of `elsewhere` and without own ones.
    ///
    /// # Errors
    /// Who has the tables does not answer.
    pub fn with_elsewhere(mut self, elsewhere: Arc<dyn Elsewhere>) -> Result<Self, SqlError> {
        self.catalog.use_elsewhere(elsewhere);
        self.follow_elsewhere()?;
        Ok(self)
    }

    /// Before a statement: which tables there are now.
    pub(super) fn follow_elsewhere(&self) -> Result<(), SqlError> {
        if let Some(elsewhere) = self.catalog.elsewhere()
            && elsewhere.follow(self.catalog.engine().context())?
        {
            // Cached and prepared plans name the tables of before.
            self.catalog.engine().forget_all_plans();
            self.shared.changed();
        }
        Ok(())
    }

    /// Refuses a statement that needs tables or settings of the session's own.
    pub(super) fn check_elsewhere(&self, piece: &Piece) -> Result<(), SqlError> {
        if self.catalog.elsewhere().is_none() {
            return Ok(());
        }
        let is_possible = match recognise(piece)? {
            Statement::Copy(_) | Statement::ExplainPlacement { analyze: false, .. } => true,
            Statement::DataFusion => {
                let parsed = parse(self.catalog.engine(), piece)?;
                is_query(&parsed) || is_about_prepared(&parsed)
            }
            _ => false,
        };
        match is_possible {
            true => Ok(()),
            false => Err(SqlError::input_at(
                piece.place,
                refused(&first_words(&piece.text)),
            )),
        }
    }

    /// Refuses rows from a client.
    pub(super) fn check_takes_rows(&self) -> Result<(), SqlError> {
        match self.catalog.elsewhere() {
            None => Ok(()),
            Some(_) => Err(SqlError::input(refused("taking rows from a client"))),
        }
    }
}

fn refused(what: &str) -> String {
    format!(
        "{what} is not supported here: this server runs queries on a cluster, whose tables are \
         loaded by `tierloom cluster load` and placed by its executors"
    )
}

/// The words that say what a statement is, as `CREATE TABLE` or `SET tierloom.placement`.
fn first_words(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || "(=;".contains(c));
    let mut words = words.filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_uppercase();
    match (first.as_str(), words.next()) {
        ("EXPLAIN", Some(analyze)) => format!("EXPLAIN {} PLACEMENT", analyze.to_uppercase()),
        ("CREATE" | "DROP" | "ALTER", Some(what)) => format!("{first} {}", what.to_uppercase()),
        ("SET" | "SHOW" | "RESET", Some(name)) => format!("{first} {}", name.to_lowercase()),
        _ => first,
    }
}

fn is_about_prepared(parsed: &Parsed) -> bool {
    let Parsed::Statement(ast) = parsed else {
        return false;
    };
    match ast.as_ref() {
        Ast::Prepare { statement, .. } => matches!(statement.as_ref(), Ast::Query(_)),
        Ast::Execute { .. } | Ast::Deallocate { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_statement() {
        for (text, words) in [
            ("insert into t values (1)", "INSERT"),
            ("CREATE TABLE t AS SELECT 1", "CREATE TABLE"),
            ("drop\n view v", "DROP VIEW"),
            ("SET Tierloom.placement='cxl'", "SET tierloom.placement"),
            (
                "explain analyze placement select 1",
                "EXPLAIN ANALYZE PLACEMENT",
            ),
            ("TRUNCATE t", "TRUNCATE"),
        ] {
            assert_eq!(first_words(text), words, "{text}");
        }
    }
}
