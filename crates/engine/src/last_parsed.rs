//! The statement that was read last.

use datafusion::common::Result;
use datafusion::config::SqlParserOptions;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Keeps the syntax tree of the last text: a statement is looked at several times before it runs,
/// and copying a tree takes a tenth of the time that reading the text takes.
#[derive(Default)]
pub(crate) struct LastParsed(Mutex<Option<Known>>);

struct Known {
    sql: String,
    options: SqlParserOptions,
    statement: Statement,
}

impl LastParsed {
    /// The statement of a text.
    ///
    /// # Errors
    /// DataFusion's, if the text is not one statement.
    pub fn statement(&self, state: &SessionState, sql: &str) -> Result<Statement> {
        if let Some(known) = self.known(state, sql) {
            return Ok(known);
        }
        let statement = tierloom_corrections::statement(state, sql)?;
        let known = Known {
            sql: sql.to_owned(),
            options: state.config_options().sql_parser.clone(),
            statement: statement.clone(),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(statement)
    }

    /// The statement of a text, if it was read last, with the same options.
    pub fn known(&self, state: &SessionState, sql: &str) -> Option<Statement> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|known| known.sql == sql)?;
        (known.options == state.config_options().sql_parser).then(|| known.statement.clone())
    }
}

impl fmt::Debug for LastParsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastParsed")
    }
}
