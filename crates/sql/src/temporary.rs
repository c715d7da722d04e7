//! Temporary tables: tables like all others, which end with their session.
//!
//! They are not hidden from other sessions, so two of them cannot have temporary tables of one name
//! at the same time. A mark among the rules of a table says whose it is: it goes with the table to
//! its versions and names, and is gone when the table is dropped or replaced, so no table that
//! another statement has made is dropped in its place.

use super::error::SqlError;
use super::run::Watch;
use super::session::SqlSession;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::Statement as Ast;

impl SqlSession {
    /// Takes TEMPORARY, which the planner does not know, out of `CREATE TABLE`; returns the mark of
    /// the table.
    ///
    /// # Errors
    /// A temporary table where there is one session alone, or in the place of another table.
    pub(super) fn take_temporary(&self, parsed: &mut Parsed) -> Result<Option<u64>, SqlError> {
        let Parsed::Statement(ast) = parsed else {
            return Ok(None);
        };
        let Ast::CreateTable(table) = ast.as_mut() else {
            return Ok(None);
        };
        if !table.temporary {
            return Ok(None);
        }
        if !self.served {
            return Err(SqlError::input(
                "Temporary tables not supported: every table lasts as long as this session; leave out \
                 TEMPORARY",
            ));
        }
        if table.or_replace {
            return Err(SqlError::input(
                "a temporary table takes the place of no other; leave out OR REPLACE",
            ));
        }
        table.temporary = false;
        // LOCAL and GLOBAL mean nothing in PostgreSQL either.
        table.global = None;
        Ok(Some(self.owner))
    }

    /// Whether there are tables that end with this session.
    pub fn has_temporary_tables(&self) -> bool {
        !self.catalog.owned_by(self.owner).is_empty()
    }

    /// Drops the tables that end with this session.
    ///
    /// # Errors
    /// [`SqlError::Interrupted`], or a failure of the catalog.
    pub fn drop_temporary_tables(&mut self, watch: &dyn Watch) -> Result<(), SqlError> {
        for name in self.catalog.owned_by(self.owner) {
            // As statements hold it: without its schema.
            let short = name.rsplit('.').next().unwrap_or(&name).to_owned();
            let _held = self.shared.hold(vec![short], watch)?;
            if self.catalog.rules(&name).owner == Some(self.owner) {
                self.forget(&name)?;
                self.bind(&name);
            }
        }
        Ok(())
    }
}
