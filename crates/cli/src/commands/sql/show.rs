//! Prints the rows of results: as a table, or in a format for programs, to stdout or a file.
//!
//! Tables need all shown rows before the first line can be laid out; the other formats are written
//! batch by batch as the engine delivers them.

use super::plan::{Shown, SqlPlan};
use crate::output;
use std::io::{self, Write};
use std::path::PathBuf;
use tierloom_engine::arrow::array::RecordBatch;
use tierloom_engine::arrow::datatypes::SchemaRef;
use tierloom_engine::arrow::util::display::FormatOptions;
use tierloom_engine::arrow::util::pretty::pretty_format_batches_with_options;
use tierloom_sql::{
    BatchWriter, Flow, Outcome, Sink, SqlError, WholeFile, WriteOptions, check_calendar,
};

/// Prints the results of statements one after the other, to stdout or a file.
pub struct Printer {
    shown: Shown,
    to: Option<PathBuf>,
    /// Number of results printed so far.
    printed: usize,
    current: Current,
}

/// The result that is being printed.
enum Current {
    None,
    Table(TableRows),
    Stream(BatchWriter<Stdout>),
    File(BatchWriter<WholeFile>),
}

/// The first rows of a result, kept for the layout; the others are only counted.
struct TableRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    kept: usize,
    all: usize,
}

impl Printer {
    /// Creates a printer with the plan's format and file.
    pub fn new(plan: &SqlPlan) -> Self {
        Printer {
            shown: plan.shown,
            to: plan.output.clone(),
            printed: 0,
            current: Current::None,
        }
    }

    /// Changes the format of later results.
    pub fn set_shown(&mut self, shown: Shown) {
        self.shown = shown;
    }

    /// Drops a result that was not completed.
    pub fn abandon(&mut self) {
        self.current = Current::None;
    }

    /// Prints the message and, with `timing`, the times of a completed statement on stderr.
    pub fn tell(&self, outcome: &Outcome, timing: bool) {
        if let Some(message) = outcome.message.as_deref().filter(|m| !m.is_empty()) {
            note!("{message}");
        }
        if timing {
            note!("{}", times(outcome));
        }
    }

    fn max_rows(&self) -> usize {
        match self.shown {
            Shown::Table { max_rows } => max_rows.unwrap_or(usize::MAX),
            Shown::Rows(_) => usize::MAX,
        }
    }

    fn print_table(&self, table: &TableRows) -> Result<(), SqlError> {
        // A value without a text form (a date beyond the calendar) is an error, not a cell that
        // says so.
        let options = FormatOptions::default()
            .with_null("NULL")
            .with_display_error(false);
        let empty = [RecordBatch::new_empty(SchemaRef::clone(&table.schema))];
        let batches = if table.batches.is_empty() {
            &empty[..]
        } else {
            &table.batches[..]
        };
        // The table itself panics where a value has no text.
        batches.iter().try_for_each(check_calendar)?;
        let text = pretty_format_batches_with_options(batches, &options);
        let text = text.map_err(SqlError::failed)?;
        let rows = if table.all == 1 { "row" } else { "rows" };
        let text = format!("{text}\n({} {rows})\n", table.all);
        match &self.to {
            Some(path) => {
                let mut file = WholeFile::create(path)?;
                file.write_all(text.as_bytes()).map_err(SqlError::failed)?;
                file.keep()?;
            }
            None => output::print(&text).map_err(|_| SqlError::failed("cannot write to stdout"))?,
        }
        if table.kept < table.all {
            note!(
                "the first {} of {} rows are shown; --max-rows 0 (or .maxrows 0) shows all, COPY ... TO writes them to a file",
                table.kept,
                table.all
            );
        }
        Ok(())
    }
}

impl Sink for Printer {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        self.current = match (self.shown, &self.to) {
            (Shown::Table { .. }, _) => Current::Table(TableRows {
                schema: SchemaRef::clone(schema),
                batches: Vec::new(),
                kept: 0,
                all: 0,
            }),
            (Shown::Rows(format), None) => {
                let options = WriteOptions::new(format, false);
                // CSV results on one stream are separated by an empty line; other formats mark
                // their own end.
                let between = self.printed > 0 && options.parted();
                let stdout = Stdout::new(between)?;
                Current::Stream(BatchWriter::new(stdout, schema, options)?)
            }
            (Shown::Rows(format), Some(path)) => {
                let file = WholeFile::create(path)?;
                Current::File(BatchWriter::new(
                    file,
                    schema,
                    WriteOptions::new(format, true),
                )?)
            }
        };
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
        let max_rows = self.max_rows();
        match &mut self.current {
            Current::None => {}
            Current::Table(table) => {
                let take = batch.num_rows().min(max_rows - table.kept);
                if take > 0 {
                    table.batches.push(batch.slice(0, take));
                }
                table.kept += take;
                table.all += batch.num_rows();
            }
            Current::Stream(writer) => {
                let written = writer.write(batch);
                // A closed pipe (`| head`) is not an error, but there is no point in computing
                // further rows.
                if Stdout::reader_is_gone() {
                    return Ok(Flow::Enough);
                }
                written?;
            }
            Current::File(writer) => writer.write(batch)?,
        }
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::None => {}
            Current::Table(table) => self.print_table(&table)?,
            Current::Stream(writer) => {
                let ended = writer.finish().and_then(Stdout::end);
                if !Stdout::reader_is_gone() {
                    ended?;
                }
            }
            Current::File(writer) => writer.finish()?.keep()?,
        }
        if let Some(path) = &self.to {
            note!("wrote {}", path.display());
        }
        self.printed += 1;
        Ok(())
    }
}

/// The measured times of a statement, as text.
fn times(outcome: &Outcome) -> String {
    let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
    let timing = outcome.timing;
    let mut text = format!(
        "parse+plan {:.1} ms, execute {:.1} ms",
        ms(timing.planning),
        ms(timing.running.saturating_sub(timing.delivering))
    );
    if let Some(rows) = outcome.rows {
        let word = if rows == 1 { "row" } else { "rows" };
        text.push_str(&format!(
            ", print {:.1} ms, {rows} {word}",
            ms(timing.delivering)
        ));
    }
    text
}

/// Stdout for the format writers; remembers whether its reader has closed the pipe.
struct Stdout {
    to: io::BufWriter<io::Stdout>,
    last: u8,
}

// Static because the writers own their `Stdout` and the result after it must know too.
static GONE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl Stdout {
    fn new(between: bool) -> Result<Self, SqlError> {
        let mut stdout = Stdout {
            to: io::BufWriter::with_capacity(1 << 16, io::stdout()),
            last: b'\n',
        };
        if between {
            stdout.write_all(b"\n").map_err(SqlError::failed)?;
        }
        Ok(stdout)
    }

    fn reader_is_gone() -> bool {
        GONE.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Adds a final line break where the format lacks one, and flushes.
    fn end(mut self) -> Result<(), SqlError> {
        // Of all formats only a JSON array ends without a line break.
        if self.last == b']' {
            self.write_all(b"\n").map_err(SqlError::failed)?;
        }
        self.flush()
            .map_err(|e| SqlError::failed(format!("cannot write to stdout: {e}")))
    }
}

fn noted(result: io::Result<usize>) -> io::Result<usize> {
    if let Err(error) = &result
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        GONE.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    result
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = noted(self.to.write(bytes))?;
        if let Some(last) = bytes.get(written.wrapping_sub(1)) {
            self.last = *last;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(self.to.flush().map(|()| 0)).map(drop)
    }
}
