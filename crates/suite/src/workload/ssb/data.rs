//! Loads the Star Schema Benchmark and checks its answers.

use super::Ssb;
use crate::RunError;
use crate::run::{Data, WorkloadData};
use tierloom_engine::load::{ColumnPlacer, load_ssb};
use tierloom_engine::{EngineError, RecordBatch};
use tierloom_memory::Placement;
use tierloom_workloads::Progress;
use tierloom_workloads::ssb;

impl WorkloadData for Ssb {
    fn load(
        &self,
        placer: &mut ColumnPlacer<'_>,
        placement: &Placement,
        _threads: usize,
        progress: &dyn Progress,
    ) -> Result<Data, EngineError> {
        let placement_of = |_: &str| placement.clone();
        let loaded = load_ssb(&self.0, placer, &placement_of, progress)?;
        Ok(Data {
            tables: loaded.tables,
            times: loaded.times,
        })
    }

    fn check(
        &self,
        query: &str,
        _batches: &[RecordBatch],
        text: &str,
    ) -> Result<Option<String>, RunError> {
        let Some(golden) = ssb::golden_answer(&self.0, query) else {
            return Ok(Some(format!(
                "no stored answer for scale factor {} and seed {}; stored are scale factors 0.01, 0.1 and 1 with seed 1",
                self.0.scale_factor, self.0.seed
            )));
        };
        if same_rows(golden, text) {
            return Ok(None);
        }
        Err(RunError::WrongAnswer(format!(
            "{} answers wrongly (its lines: {}, DuckDB's on the same data: {}); first difference:\n{}",
            query,
            text.lines().count(),
            golden.lines().count(),
            first_difference(golden, text)
        )))
    }
}

/// Whether two answers are equal; one without rows may lack its header, since an engine may return
/// no batch.
fn same_rows(expected: &str, got: &str) -> bool {
    expected == got || (got.is_empty() && expected.lines().count() == 1)
}

fn first_difference(expected: &str, got: &str) -> String {
    let longest = expected.lines().count().max(got.lines().count());
    let line = |text: &str, index: usize| text.lines().nth(index).unwrap_or("(nothing)").to_owned();
    (0..longest)
        .map(|i| (line(expected, i), line(got, i)))
        .find(|(e, g)| e != g)
        .map(|(e, g)| format!("  expected {e}\n  got      {g}"))
        .unwrap_or_default()
}
