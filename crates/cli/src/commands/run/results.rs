//! Where records go while they are made.

use super::plan::{OutputMode, RunPlan};
use crate::failure::Failure;
use crate::output;
use tierloom_record::{Record, RecordWriter, atomic_write};

/// Keeps the records of a run and prints each when it is done, if JSON lines were asked for.
pub struct Results {
    records: Vec<Record>,
    stream: bool,
}

impl Results {
    /// An empty set for `plan`.
    pub fn new(plan: &RunPlan) -> Self {
        Results {
            records: Vec::new(),
            stream: plan.output == OutputMode::JsonLines,
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
            // A reader that went away does not end the run: files may still be wanted.
            output::print_bytes(&line)?;
        }
        self.records.push(record);
        Ok(())
    }

    /// Writes what the plan asked for: a file of records, a report, a JSON document.
    ///
    /// # Errors
    /// [`Failure::Runtime`] for a file or stdout that cannot be written; what could be written is.
    pub fn write(&self, plan: &RunPlan) -> Result<(), Failure> {
        let records = plan.records.as_ref().map_or(Ok(()), |path| {
            let mut lines = Vec::new();
            let mut writer = RecordWriter::new(&mut lines, path.display().to_string());
            self.records.iter().try_for_each(|r| writer.write(r))?;
            atomic_write(path, &lines)?;
            eprintln!("wrote records to {}", path.display());
            Ok(())
        });
        let report = plan.report.as_ref().map_or(Ok(()), |path| {
            let set = tierloom_record::RecordSet::from_records(self.records.iter().cloned())?;
            let html = tierloom_report::render(&set, &tierloom_report::ReportOptions::default())
                .map_err(Failure::runtime)?;
            atomic_write(path, html.as_bytes())?;
            eprintln!("wrote report to {}", path.display());
            Ok(())
        });
        let json = if plan.output == OutputMode::Json {
            self.print_json()
        } else {
            Ok(())
        };
        records.and(report).and(json)
    }

    fn print_json(&self) -> Result<(), Failure> {
        let document =
            serde_json::json!({ "schema": tierloom_record::SCHEMA, "records": self.records });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::runtime)?;
        output::print(&format!("{text}\n"))
    }
}
