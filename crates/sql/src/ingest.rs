//! Rows that arrive as batches and become a table, or part of one, in one step.

use super::error::SqlError;
use super::run::{CollectedRows, Watch};
use super::script::Piece;
use super::session::SqlSession;
use super::storage::Home;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

/// What to do with rows for a table that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfThere {
    /// Refuse them.
    Fail,
    /// Add them to its rows, by the names of the columns.
    Append,
    /// Put them in the place of its rows and columns.
    Replace,
}

/// The table that arriving rows go into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// `None` for `public`.
    pub schema: Option<String>,
    /// Name in the schema.
    pub table: String,
    /// Whether the table is made if it is not there.
    pub create: bool,
    /// What happens if it is there.
    pub if_there: IfThere,
}

impl Destination {
    fn reference(&self) -> TableReference {
        match &self.schema {
            Some(schema) => TableReference::partial(schema.as_str(), self.table.as_str()),
            None => TableReference::bare(self.table.as_str()),
        }
    }

    fn object(&self) -> ObjectName {
        let parts = self.schema.iter().chain([&self.table]);
        let parts = parts.map(|part| Ident::with_quote('"', part));
        parts.collect::<Vec<_>>().into()
    }
}

impl SqlSession {
    /// Takes the rows of `batches` into a table; returns their number.
    ///
    /// A new table is built while they come, and is found once all have come. Rows for a table that
    /// is there wait until then. `piece` is the statement that errors and listings name.
    ///
    /// # Errors
    /// Bad input: a table that is there or not, or values that do not fit; the first error among
    /// `batches`; or [`SqlError::Interrupted`]. All tables then are as before.
    pub fn ingest(
        &mut self,
        piece: &Piece,
        to: &Destination,
        schema: &SchemaRef,
        batches: &mut dyn Iterator<Item = Result<RecordBatch, SqlError>>,
        watch: &dyn Watch,
    ) -> Result<u64, SqlError> {
        let is_there = self.guarded(piece, watch, |session| {
            session.begin(piece, watch)?;
            session.check_takes_rows()?;
            let key = session.catalog.key(&to.reference())?;
            let is_there = session.catalog.info(&key).is_some();
            if !is_there && !to.create {
                return Err(SqlError::input(session.catalog.unknown(&key)));
            }
            Ok(is_there)
        })?;
        if is_there && to.if_there == IfThere::Append {
            let rows = CollectedRows {
                schema: Some(schema.clone()),
                batches: batches.collect::<Result<_, _>>()?,
            };
            let columns = (0..schema.fields().len()).map(|index| rows.column(index));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let names = schema.fields().iter();
            let names: Vec<Ident> = names.map(|f| Ident::with_quote('"', f.name())).collect();
            return self.insert_values(piece, (&to.object(), &names), &columns, watch);
        }
        self.guarded(piece, watch, |session| {
            session.as_new(to, schema, batches, watch)
        })
    }

    fn as_new(
        &mut self,
        to: &Destination,
        schema: &SchemaRef,
        batches: &mut dyn Iterator<Item = Result<RecordBatch, SqlError>>,
        watch: &dyn Watch,
    ) -> Result<u64, SqlError> {
        let name = self.catalog.key(&to.reference())?;
        let replace = to.if_there == IfThere::Replace;
        self.check_new_table(&name, replace, schema)?;
        let (table, _) = self.table_of(&name, schema, batches, Home::Placed, watch)?;
        let _held = self.shared.hold(vec![to.table.clone()], watch)?;
        // Another session may have made one of that name while the rows came.
        self.catalog.check_new_name(&name, replace)?;
        Ok(self.register(&name, table, watch)?.rows)
    }
}
