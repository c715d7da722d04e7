//! Collects the records of a run and writes them to where the options say.

use super::args::RunOptions;
use crate::failure::Failure;
use crate::output;
use std::path::Path;
use tierloom_record::{Record, RecordError, RecordSet, RecordWriter, atomic_write};

/// Keeps the records of a run; with `--jsonl` it also prints each one at once.
pub struct Results {
    records: Vec<Record>,
    stream: bool,
}

impl Results {
    pub fn new(options: &RunOptions) -> Self {
        Results {
            records: Vec::new(),
            stream: options.jsonl,
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub fn push(&mut self, record: Record) -> Result<(), Failure> {
        if self.stream {
            let mut line = Vec::new();
            RecordWriter::new(&mut line, "stdout").write(&record)?;
            // A closed pipe does not end the run: records may still have to be written to files.
            output::print_bytes(&line)?;
        }
        self.records.push(record);
        Ok(())
    }

    /// Writes the outputs that the options ask for: `tables` or a JSON document, a file of records,
    /// a report. Without a record there is nothing to write.
    ///
    /// # Errors
    /// [`Failure::Runtime`] for a file or stdout that cannot be written; the other outputs are
    /// still written.
    pub fn write(
        self,
        options: &RunOptions,
        tables: &dyn Fn(&RecordSet) -> String,
    ) -> Result<(), Failure> {
        if self.records.is_empty() {
            return Ok(());
        }
        let document = options.json.then(|| self.print_json());
        let path = options.records.as_deref();
        let lines = path.map(|path| Ok::<_, Failure>((path, self.lines(path)?)));
        let set = RecordSet::from_records(self.records)?;
        let shown = if let Some(printed) = document {
            printed
        } else if options.jsonl {
            Ok(())
        } else {
            output::print(&tables(&set))
        };
        let records = lines.map_or(Ok(()), |lines| {
            let (path, lines) = lines?;
            atomic_write(path, &lines)?;
            note!("wrote records to {}", path.display());
            Ok(())
        });
        let report = options.report.as_ref().map_or(Ok(()), |path| {
            let html = tierloom_report::render(&set, &tierloom_report::ReportOptions::default())
                .map_err(Failure::runtime)?;
            atomic_write(path, html.as_bytes())?;
            note!("wrote report to {}", path.display());
            Ok(())
        });
        // All were attempted above; only the first failure is reported.
        shown.and(records).and(report)
    }

    fn lines(&self, path: &Path) -> Result<Vec<u8>, RecordError> {
        let mut lines = Vec::new();
        let mut writer = RecordWriter::new(&mut lines, path.display().to_string());
        self.records.iter().try_for_each(|r| writer.write(r))?;
        Ok(lines)
    }

    fn print_json(&self) -> Result<(), Failure> {
        let document =
            serde_json::json!({ "schema": tierloom_record::SCHEMA, "records": self.records });
        output::print_json(&document)
    }
}
