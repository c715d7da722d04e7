//! The work of a session's statements as phases that the model prices.
//!
//! A statement that makes a table has a phase more than its query: the rows, which lie in ordinary
//! memory by then, are read again and written as columns.

use std::sync::Arc;
use std::time::Duration;
use tierloom_engine::PlacedTable;
use tierloom_engine::capture::{Captured, HostCosts, probe};
use tierloom_model::{Access, Op, Phase, PhaseKind, StructureClass};

/// The phases of the statements since somebody asked for them, or nothing.
#[derive(Debug, Default)]
pub(super) struct WorkLog(Option<Kept>);

#[derive(Debug)]
struct Kept {
    host: HostCosts,
    phases: Vec<Phase>,
}

impl WorkLog {
    /// Keeps phases from now on, freed of what memory costs here: reads some of `tables` once.
    pub fn keep(tables: &[Arc<PlacedTable>], threads: usize) -> Self {
        let host = HostCosts::of(&probe(tables, threads), tables, threads);
        let phases = Vec::new();
        WorkLog(Some(Kept { host, phases }))
    }

    /// The phases since the last call.
    pub fn take(&mut self) -> Vec<Phase> {
        let kept = self.0.as_mut();
        kept.map_or_else(Vec::new, |kept| std::mem::take(&mut kept.phases))
    }

    /// The costs that captured phases are freed of.
    pub fn host(&self) -> HostCosts {
        let nothing = HostCosts {
            stream_ns_per_byte: 0.0,
            working_set_bytes: 0,
        };
        self.0.as_ref().map_or(nothing, |kept| kept.host)
    }

    /// Takes the phases of an executed plan.
    pub fn ran(&mut self, captured: &Captured) {
        if let Some(kept) = &mut self.0 {
            kept.phases.extend(captured.phases.iter().cloned());
        }
    }

    /// Takes the writing of a table from `rows_bytes` bytes of rows, which kept threads busy for
    /// `busy`.
    pub fn stored(&mut self, table: &PlacedTable, rows_bytes: u64, busy: Duration) {
        let Some(kept) = &mut self.0 else {
            return;
        };
        let columns = table.columns().iter();
        let columns: Vec<(&str, u64)> = columns.map(|c| (c.name(), c.size_bytes())).collect();
        let written = written(
            table.name(),
            table.rows() as f64,
            &columns,
            rows_bytes,
            busy.as_nanos() as f64,
            &kept.host,
        );
        kept.phases.push(written);
    }
}

/// The phase that reads rows in memory and writes them as columns of these bytes.
fn written(
    table: &str,
    rows: f64,
    columns: &[(&str, u64)],
    rows_bytes: u64,
    busy_ns: f64,
    host: &HostCosts,
) -> Phase {
    let bytes: u64 = columns.iter().map(|(_, bytes)| bytes).sum();
    let moved_bytes = (bytes + rows_bytes) as f64;
    // As for other phases: what this machine waited for its memory is not work. At least a tenth
    // remains, because the stalls are an estimate.
    let stalls_ns = moved_bytes * host.stream_ns_per_byte;
    let compute_ns = (busy_ns - stalls_ns).max(0.1 * busy_ns);
    // Other columns are read before these are used again, so a cache keeps them only if it holds
    // all.
    let stretch = (host.working_set_bytes as f64 / (bytes as f64).max(1.0)).max(1.0);
    let access = |structure: String, bytes: u64, stretch: f64| {
        let footprint_bytes = (bytes as f64 * stretch) as u64;
        let per_row = bytes as f64 / rows.max(1.0);
        Access::sequential_read(structure, per_row, footprint_bytes).vectorised()
    };
    let read = access(format!("rows({table})"), rows_bytes, 1.0);
    let mut phase = Phase::new(format!("write {table}"), PhaseKind::Write, rows)
        .compute_ns(compute_ns / rows.max(1.0))
        .access(read.with_class(StructureClass::Buffer));
    for (column, bytes) in columns {
        let write = access(format!("{table}.{column}"), *bytes, stretch);
        phase = phase.access(write.with_op(Op::Write));
    }
    phase
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_a_table_reads_its_rows_and_writes_each_column_once() {
        let host = HostCosts {
            stream_ns_per_byte: 0.5,
            working_set_bytes: 64_000,
        };
        let columns = [("a", 8_000), ("b", 24_000)];
        let phase = written("t", 1000.0, &columns, 64_000, 100_000.0, &host);
        assert_eq!((phase.name.as_str(), phase.tuples), ("write t", 1000.0));
        // 96,000 bytes at half a nanosecond each were waits.
        assert_eq!(phase.compute_ns_per_tuple, 52.0);
        let [rows, a, b] = &phase.accesses[..] else {
            panic!("{phase:?}")
        };
        assert_eq!((rows.structure.as_str(), rows.op), ("rows(t)", Op::Read));
        assert_eq!((rows.lines_per_tuple, rows.footprint_bytes), (1.0, 64_000));
        assert_eq!((a.structure.as_str(), a.op), ("t.a", Op::Write));
        assert_eq!((a.lines_per_tuple, b.lines_per_tuple), (0.125, 0.375));
        assert_eq!(a.footprint_bytes + b.footprint_bytes, 64_000);
    }

    #[test]
    fn some_work_remains_where_memory_is_slow_and_no_rows_are_no_work() {
        let host = HostCosts {
            stream_ns_per_byte: 100.0,
            working_set_bytes: 0,
        };
        let phase = written("t", 10.0, &[("a", 80)], 80, 1000.0, &host);
        assert_eq!(phase.compute_ns_per_tuple, 10.0);
        assert!(written("t", 0.0, &[("a", 0)], 0, 1000.0, &host).is_idle());
    }
}
