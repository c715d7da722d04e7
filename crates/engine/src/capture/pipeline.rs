//! A pipeline under construction: its columns, CPU time and accesses.
//!
//! Columns stay pending until the first operator reads them, because the share of rows that survive
//! until then decides how many of their cache lines are read.

use super::{HostCosts, LINE_BYTES};
use crate::counting::OperatorId;
use std::collections::BTreeMap;
use tierloom_counters::stalls::StallCounts;
use tierloom_model::{Access, Op, Pattern, Phase, PhaseKind, StructureClass};

/// A scanned column that no operator has read yet.
pub(super) struct Pending {
    /// Name as "lineorder.lo_discount".
    pub structure: String,
    /// Bytes of the column's scanned rows.
    pub bytes: f64,
    /// Values in a cache line.
    pub values_per_line: f64,
}

pub(super) struct Pipeline {
    pub name: String,
    pub kind: PhaseKind,
    pub tuples: f64,
    pub cpu_ns: f64,
    /// What was counted of its operators.
    pub counts: StallCounts,
    /// These operators, if they were counted.
    pub counted: Vec<OperatorId>,
    pub pending: BTreeMap<String, Pending>,
    accesses: Vec<(Access, f64)>,
    streamed_bytes: f64,
}

impl Pipeline {
    pub fn new(name: String, kind: PhaseKind, tuples: f64) -> Self {
        Pipeline {
            name,
            kind,
            tuples,
            cpu_ns: 0.0,
            counts: StallCounts::default(),
            counted: Vec::new(),
            pending: BTreeMap::new(),
            accesses: Vec::new(),
            streamed_bytes: 0.0,
        }
    }

    /// Reads column `name` where a share `kept` of the rows is needed.
    ///
    /// Returns name and bytes, or `None` if the column was read before.
    pub fn read_column(&mut self, name: &str, kept: f64) -> Option<(String, u64)> {
        let column = self.pending.remove(name)?;
        let bytes = column.bytes * lines_touched(kept, column.values_per_line);
        self.streamed_bytes += bytes;
        self.access(
            &column.structure,
            StructureClass::Column,
            Pattern::Sequential,
            Op::Read,
            bytes / LINE_BYTES,
            column.bytes as u64,
        );
        Some((column.structure, bytes as u64))
    }

    /// Adds an access of `lines` cache lines in total.
    pub fn access(
        &mut self,
        structure: &str,
        class: StructureClass,
        pattern: Pattern,
        op: Op,
        lines: f64,
        footprint_bytes: u64,
    ) {
        if lines > 0.0 {
            let access = Access {
                structure: structure.into(),
                class,
                pattern,
                op,
                lines_per_tuple: 0.0,
                footprint_bytes,
                simd: pattern == Pattern::Sequential,
            };
            self.accesses.push((access, lines));
        }
    }

    /// Completes the phase; `None` if it has no rows.
    pub fn finish(self, host: &HostCosts) -> Option<Phase> {
        (self.tuples > 0.0).then(|| {
            let stalls = self.streamed_bytes * host.stream_ns_per_byte;
            // The stalls are an estimate and may exceed the measured time; a tenth of it always
            // remains.
            let compute_ns = (self.cpu_ns - stalls).max(self.cpu_ns * 0.1);
            let stretch = working_set_stretch(&self.accesses, host.working_set_bytes);
            let per_tuple = |(access, lines): (Access, f64)| {
                let stretched = if access.class == StructureClass::Column {
                    (access.footprint_bytes as f64 * stretch) as u64
                } else {
                    access.footprint_bytes
                };
                Access {
                    lines_per_tuple: lines / self.tuples,
                    footprint_bytes: stretched,
                    ..access
                }
            };
            let accesses = self.accesses.into_iter().map(per_tuple).collect();
            Phase {
                name: self.name,
                kind: self.kind,
                tuples: self.tuples,
                compute_ns_per_tuple: compute_ns / self.tuples,
                accesses,
            }
        })
    }
}

/// Factor from the footprint of a phase's columns to the working set of the workload.
///
/// Between two executions of a query the others read their columns. A cache therefore keeps a
/// column only if it holds them all.
fn working_set_stretch(accesses: &[(Access, f64)], working_set_bytes: u64) -> f64 {
    let own: u64 = accesses
        .iter()
        .filter(|(a, _)| a.class == StructureClass::Column)
        .map(|(a, _)| a.footprint_bytes)
        .sum();
    if own == 0 {
        1.0
    } else {
        (working_set_bytes as f64 / own as f64).max(1.0)
    }
}

/// Share of a column's lines with at least one needed value.
///
/// Needed rows are assumed to be randomly distributed.
pub(super) fn lines_touched(kept: f64, values_per_line: f64) -> f64 {
    1.0 - (1.0 - kept.clamp(0.0, 1.0)).powf(values_per_line.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_rows_touch_few_lines_and_dense_rows_all() {
        assert_eq!(lines_touched(1.0, 16.0), 1.0);
        assert_eq!(lines_touched(0.0, 16.0), 0.0);
        assert!((lines_touched(0.001, 16.0) - 0.0159).abs() < 1e-4);
        assert!(lines_touched(0.2, 16.0) > 0.97);
    }

    #[test]
    fn memory_stalls_of_the_host_are_not_counted_as_compute_twice() {
        let host = HostCosts {
            stream_ns_per_byte: 0.1,
            working_set_bytes: 8000,
        };
        let mut pipeline = Pipeline::new("scan".into(), PhaseKind::Scan, 100.0);
        pipeline.cpu_ns = 1000.0;
        pipeline.pending.insert(
            "a".into(),
            Pending {
                structure: "t.a".into(),
                bytes: 4000.0,
                values_per_line: 16.0,
            },
        );
        assert_eq!(pipeline.read_column("a", 1.0), Some(("t.a".into(), 4000)));
        assert_eq!(
            pipeline.read_column("a", 1.0),
            None,
            "a column is read once"
        );
        let phase = pipeline.finish(&host).unwrap();
        assert!((phase.compute_ns_per_tuple - 6.0).abs() < 1e-9);
        assert!((phase.accesses[0].lines_per_tuple - 0.625).abs() < 1e-9);
        assert_eq!(
            phase.accesses[0].footprint_bytes, 8000,
            "the columns of a phase stand for the whole working set"
        );
    }
}
