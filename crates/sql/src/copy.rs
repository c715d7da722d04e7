//! `COPY ... TO`: writes rows to a file that appears under its name only when it is complete.

use super::error::SqlError;
use super::export::BatchWriter;
use super::format::WriteOptions;
use super::run::{Flow, Outcome, Sink, StatementTiming, Watch};
use super::session::SqlSession;
use super::statement::Copy;
use super::whole_file::WholeFile;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::path::Path;
use std::time::Instant;

impl SqlSession {
    pub(super) fn copy(&mut self, copy: &Copy, watch: &dyn Watch) -> Result<Outcome, SqlError> {
        let start = Instant::now();
        let plan = self
            .planner()
            .physical(&copy.query, watch)
            .map_err(|error| {
                match (error, copy.table_place) {
                    // The SELECT around a table name is ours; only the name has a position in the
                    // script.
                    (SqlError::Input { message, .. }, Some(place)) => {
                        SqlError::input_at(place, message)
                    }
                    (other, _) => other,
                }
            })?;
        let options = WriteOptions {
            format: copy.format,
            delimiter: copy.delimiter,
            header: copy.header,
            to_file: true,
        };
        let mut file = ToFile {
            path: &copy.path,
            options,
            writer: None,
        };
        let mut timing = StatementTiming {
            planning: start.elapsed(),
            ..StatementTiming::default()
        };
        let rows = self.stream(&plan, &mut file, watch, &mut timing)?.rows;
        Ok(Outcome {
            rows: None,
            message: Some(format!("wrote {rows} rows to {}", copy.path)),
            timing,
        })
    }
}

/// Writes rows to a file that appears under its name only when it is complete.
struct ToFile<'a> {
    path: &'a str,
    options: WriteOptions,
    writer: Option<BatchWriter<WholeFile>>,
}

impl Sink for ToFile<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        // Not before the plan runs, so that a statement that cannot be planned never touches the
        // file.
        let file = WholeFile::create(Path::new(self.path))?;
        self.writer = Some(BatchWriter::new(file, schema, self.options)?);
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
        if let Some(writer) = &mut self.writer {
            writer.write(batch).map_err(|e| self.named(e))?;
        }
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        writer.finish().map_err(|e| self.named(e))?.keep()
    }
}

impl ToFile<'_> {
    fn named(&self, error: SqlError) -> SqlError {
        match error {
            SqlError::Failed(text) => SqlError::failed(format!("{}: {text}", self.path)),
            other => other,
        }
    }
}
