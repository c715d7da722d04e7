//! The microbenchmarks of the field as parametric phases: what papers run, and what `tierloom tune` finds weights for.
//!
//! Structures have fixed names, so that a placement can move them apart: `input` (what is read in order), `output` (what is written in
//! order), `table` (a hash table or array at random places), `inner` and `leaves` (a search tree).

mod check;
mod phases;

use crate::error::ModelError;
use crate::work::{LINE_BYTES, Op, Phase, PhaseKind, StructureClass};
use phases::lines_phase;
use serde::{Deserialize, Serialize};

/// One microbenchmark. In YAML and JSON a map with one key: `{ probe: { rows: 1e9 } }`.
///
/// A *tuple* is what the benchmark counts: a line for streams and random accesses, a row for operators, an operation for trees and
/// atomics. `compute_ns` is always processor time per tuple and worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Reads `input` in order; a tuple is a line.
    Read(Stream),
    /// Writes `output` in order with cached stores; a tuple is a line.
    Write(Stream),
    /// Writes `output` in order with non-temporal stores; a tuple is a line.
    NtWrite(Stream),
    /// Reads `input` and writes `output` with cached stores; a tuple is a line of each.
    Copy(Stream),
    /// Accesses at random places of `table`; a tuple is an access.
    Random(RandomAccess),
    /// Loads of which each needs the one before, on `table`; a tuple is a load. Also atomics and fenced stores: `fixed_ns` on top.
    Chase(Chase),
    /// Inserts rows of `input` into `table`.
    Build(Join),
    /// Probes `table` with rows of `input`.
    Probe(Join),
    /// Reads every `skip + 1`-th value of `input`; a tuple is a value that is read.
    Filter(Filter),
    /// Reads `input` `read_passes` times and writes its rows to `fanout` places of `output`; a tuple is a row.
    Partition(Partition),
    /// Scans `input` with vector instructions and writes identifiers of matches to `output`; a tuple is a value.
    Scan(Scan),
    /// Adds rows of `input` to groups in `table`.
    Aggregate(Join),
    /// Looks up or changes keys in a search tree of `inner` nodes and `leaves`; a tuple is an operation.
    Tree(Tree),
    /// A query of the Star Schema Benchmark ("q2.1"), or all ("all"); a tuple is a row of the fact table.
    Ssb(Ssb),
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Vector instructions.
    pub simd: bool,
    /// Bytes of the stream, all workers together.
    pub bytes: f64,
    /// Processor time per line, ns.
    pub compute_ns: f64,
}

impl Default for Stream {
    fn default() -> Self {
        Stream {
            simd: true,
            bytes: 64e9,
            compute_ns: 0.0,
        }
    }
}

/// Accesses at random places.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RandomAccess {
    /// What is done.
    pub op: Op,
    /// Bytes per access, in one piece.
    pub access_bytes: f64,
    /// Bytes that the places lie in.
    pub footprint_bytes: f64,
    /// Addresses are known ahead and prefetched, or the instructions are vector loads that do so in effect.
    pub prefetched: bool,
    /// Processor time per access, ns.
    pub compute_ns: f64,
}

impl Default for RandomAccess {
    fn default() -> Self {
        RandomAccess {
            op: Op::Read,
            access_bytes: 64.0,
            footprint_bytes: 64e9,
            prefetched: false,
            compute_ns: 0.0,
        }
    }
}

/// Dependent accesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chase {
    /// What is done to the line.
    pub op: Op,
    /// Bytes that the accesses go through.
    pub footprint_bytes: f64,
    /// Time on top of the memory's latency: fences, flushes, the timer, ns.
    pub fixed_ns: f64,
}

impl Default for Chase {
    fn default() -> Self {
        Chase {
            op: Op::Read,
            footprint_bytes: 16e9,
            fixed_ns: 0.0,
        }
    }
}

/// A hash join's side, or an aggregation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Join {
    /// Rows of `input`.
    pub rows: f64,
    /// Bytes per row of `input`.
    pub row_bytes: f64,
    /// Bytes of `table`.
    pub table_bytes: f64,
    /// Slots of the table touched per row (lines, as slots are smaller).
    pub lines_per_row: f64,
    /// Addresses are prefetched in groups.
    pub prefetched: bool,
    /// Processor time per row, ns.
    pub compute_ns: f64,
}

impl Default for Join {
    fn default() -> Self {
        Join {
            rows: 1e9,
            row_bytes: 8.0,
            table_bytes: 16e9,
            lines_per_row: 1.0,
            prefetched: false,
            compute_ns: 0.0,
        }
    }
}

/// A selective read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Values skipped between two that are read.
    pub skip: u32,
    /// Bytes per value.
    pub value_bytes: f64,
    /// Bytes of `input`.
    pub bytes: f64,
    /// Vector instructions.
    pub simd: bool,
    /// Processor time per value that is read, ns.
    pub compute_ns: f64,
}

impl Default for Filter {
    fn default() -> Self {
        Filter {
            skip: 0,
            value_bytes: 8.0,
            bytes: 32e9,
            simd: false,
            compute_ns: 0.0,
        }
    }
}

/// A radix partitioning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Partition {
    /// Rows.
    pub rows: f64,
    /// Bytes per row.
    pub row_bytes: f64,
    /// Partitions.
    pub fanout: u32,
    /// Times that the input is read: one pass counts, the last one writes.
    pub read_passes: u32,
    /// Processor time per row and pass, ns.
    pub compute_ns: f64,
}

impl Default for Partition {
    fn default() -> Self {
        Partition {
            rows: 1e9,
            row_bytes: 8.0,
            fanout: 64,
            read_passes: 2,
            compute_ns: 0.0,
        }
    }
}

/// A column scan that writes identifiers of matching tuples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scan {
    /// Values.
    pub rows: f64,
    /// Bytes per value.
    pub value_bytes: f64,
    /// Bytes per identifier.
    pub tid_bytes: f64,
    /// Share of values that match, 0 to 1.
    pub selectivity: f64,
    /// Nothing but vector loads; without it the core keeps as many lines in flight as it does with work between its loads.
    pub simd: bool,
    /// Identifiers are written with non-temporal stores.
    pub nt: bool,
    /// Processor time per value, ns.
    pub compute_ns: f64,
    /// Further processor time per match, ns.
    pub compute_ns_per_match: f64,
}

impl Default for Scan {
    fn default() -> Self {
        Scan {
            rows: 1e9,
            value_bytes: 4.0,
            tid_bytes: 4.0,
            selectivity: 0.0,
            simd: true,
            nt: false,
            compute_ns: 0.0,
            compute_ns_per_match: 0.0,
        }
    }
}

/// Operations on a search tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tree {
    /// Keys in the tree.
    pub keys: f64,
    /// Bytes per node.
    pub node_bytes: f64,
    /// Bytes per entry of a node (key and value, or key and child).
    pub entry_bytes: f64,
    /// Share of a node that is filled, 0 to 1.
    pub fill: f64,
    /// Lines that the search in a node touches one after the other; 0: one and as many as a binary search over its filled lines needs.
    pub searched_lines: f64,
    /// Share of operations that change a leaf, 0 to 1.
    pub writes: f64,
    /// Processor time per operation, ns.
    pub compute_ns: f64,
}

impl Default for Tree {
    fn default() -> Self {
        Tree {
            keys: 1e8,
            node_bytes: 256.0,
            entry_bytes: 16.0,
            fill: 0.7,
            searched_lines: 0.0,
            writes: 0.0,
            compute_ns: 0.0,
        }
    }
}

/// Queries of the Star Schema Benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ssb {
    /// "q1.1" to "q4.3".
    pub query: String,
    /// Scale factor.
    pub scale_factor: f64,
    /// Bytes per value.
    pub bytes_per_value: u32,
    /// Processor time per tuple, ns.
    pub compute_ns: f64,
    /// Columns are copied through a buffer in DRAM (the TIER variant of Huang et al., 2024).
    pub through_buffer: bool,
}

impl Default for Ssb {
    fn default() -> Self {
        Ssb {
            query: "q1.1".into(),
            scale_factor: 30.0,
            bytes_per_value: 4,
            compute_ns: 0.0,
            through_buffer: false,
        }
    }
}

impl Work {
    /// The kind of benchmark, as it is written in files.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Read(_) => "read",
            Work::Write(_) => "write",
            Work::NtWrite(_) => "nt-write",
            Work::Copy(_) => "copy",
            Work::Random(_) => "random",
            Work::Chase(_) => "chase",
            Work::Build(_) => "build",
            Work::Probe(_) => "probe",
            Work::Filter(_) => "filter",
            Work::Partition(_) => "partition",
            Work::Scan(_) => "scan",
            Work::Aggregate(_) => "aggregate",
            Work::Tree(_) => "tree",
            Work::Ssb(_) => "ssb",
        }
    }

    /// The phases, one after the other, as `workers` workers run them. Streams are read once; the query "all" of SSB gives the
    /// phases of its 13 queries.
    ///
    /// # Errors
    /// [`ModelError::Work`] names a parameter that cannot be.
    pub fn phases(&self, workers: u32) -> Result<Vec<Phase>, ModelError> {
        self.check()?;
        Ok(match self {
            Work::Read(s) => vec![lines_phase(
                "read",
                PhaseKind::Scan,
                s,
                &[("input", Op::Read)],
            )],
            Work::Write(s) => vec![lines_phase(
                "write",
                PhaseKind::Write,
                s,
                &[("output", Op::Write)],
            )],
            Work::NtWrite(s) => {
                vec![lines_phase(
                    "nt-write",
                    PhaseKind::Write,
                    s,
                    &[("output", Op::NtWrite)],
                )]
            }
            Work::Copy(s) => vec![lines_phase(
                "copy",
                PhaseKind::Write,
                s,
                &[("input", Op::Read), ("output", Op::Write)],
            )],
            Work::Random(r) => vec![r.phase()],
            Work::Chase(c) => vec![c.phase()],
            Work::Build(j) => vec![j.phase("build", PhaseKind::Build, Op::Update)],
            Work::Probe(j) => vec![j.phase("probe", PhaseKind::Probe, Op::Read)],
            Work::Aggregate(j) => {
                let mut phase = j.phase("aggregate", PhaseKind::Aggregate, Op::Update);
                for access in phase.accesses.iter_mut().filter(|a| a.structure == "table") {
                    access.class = StructureClass::GroupTable;
                }
                vec![phase]
            }
            Work::Filter(f) => vec![f.phase()],
            Work::Partition(p) => p.phases(),
            Work::Scan(s) => vec![s.phase()],
            Work::Tree(t) => vec![t.phase()],
            Work::Ssb(s) => s.phases(workers),
        })
    }

    /// What the benchmark counts: lines, rows, operations.
    pub fn tuples(&self) -> f64 {
        match self {
            Work::Read(s) | Work::Write(s) | Work::NtWrite(s) | Work::Copy(s) => {
                s.bytes / LINE_BYTES
            }
            Work::Random(_) => RandomAccess::ACCESSES,
            Work::Chase(_) => Chase::LOADS,
            Work::Build(j) | Work::Probe(j) | Work::Aggregate(j) => j.rows,
            Work::Filter(f) => f.values(),
            Work::Partition(p) => p.rows,
            Work::Scan(s) => s.rows,
            Work::Tree(_) => Tree::OPERATIONS,
            Work::Ssb(s) => 6e6 * s.scale_factor,
        }
    }

    /// Bytes per tuple that the benchmark's "GB/s" counts: what the program reads and writes, not what memory moves. `None` for benchmarks
    /// that count operations only.
    pub fn bytes_per_tuple(&self) -> Option<f64> {
        match self {
            Work::Read(_) | Work::Write(_) | Work::NtWrite(_) => Some(LINE_BYTES),
            Work::Copy(_) => Some(2.0 * LINE_BYTES),
            Work::Random(r) => Some(r.access_bytes),
            Work::Filter(f) => Some(f.value_bytes),
            Work::Partition(p) => Some(p.row_bytes * f64::from(p.read_passes + 1)),
            Work::Scan(s) => Some(s.value_bytes),
            Work::Build(j) | Work::Probe(j) | Work::Aggregate(j) => Some(j.row_bytes),
            Work::Chase(_) | Work::Tree(_) | Work::Ssb(_) => None,
        }
    }

    /// The structures that its phases touch, as placements name them.
    ///
    /// # Errors
    /// Those of [`Work::phases`].
    pub fn structures(&self) -> Result<Vec<String>, ModelError> {
        let mut names: Vec<String> = Vec::new();
        for access in self.phases(1)?.into_iter().flat_map(|p| p.accesses) {
            if !names.contains(&access.structure) {
                names.push(access.structure);
            }
        }
        Ok(names)
    }

    /// The work with more processor time per tuple, ns.
    pub fn with_compute_ns(mut self, more_ns: f64) -> Self {
        match &mut self {
            Work::Read(s) | Work::Write(s) | Work::NtWrite(s) | Work::Copy(s) => {
                s.compute_ns += more_ns
            }
            Work::Random(r) => r.compute_ns += more_ns,
            Work::Chase(c) => c.fixed_ns += more_ns,
            Work::Build(j) | Work::Probe(j) | Work::Aggregate(j) => j.compute_ns += more_ns,
            Work::Filter(f) => f.compute_ns += more_ns,
            Work::Partition(p) => p.compute_ns += more_ns,
            Work::Scan(s) => s.compute_ns += more_ns,
            Work::Tree(t) => t.compute_ns += more_ns,
            Work::Ssb(s) => s.compute_ns += more_ns,
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Placement, TierShares, profiles, solve_all};

    fn all() -> Vec<Work> {
        let stream = Stream::default;
        vec![
            Work::Read(stream()),
            Work::Write(stream()),
            Work::NtWrite(stream()),
            Work::Copy(stream()),
            Work::Random(RandomAccess::default()),
            Work::Chase(Chase::default()),
            Work::Build(Join::default()),
            Work::Probe(Join::default()),
            Work::Aggregate(Join::default()),
            Work::Filter(Filter::default()),
            Work::Partition(Partition::default()),
            Work::Scan(Scan::default()),
            Work::Tree(Tree::default()),
            Work::Ssb(Ssb::default()),
        ]
    }

    #[test]
    fn every_benchmark_is_priced_and_survives_a_round_trip() {
        let machine = profiles::load("nus24").unwrap();
        let dram = Placement::new(TierShares::all("dram"));
        for work in all() {
            let phases = work.phases(32).unwrap();
            let solution = solve_all(&machine, &phases, &dram, 32, &Options::default()).unwrap();
            assert!(solution.time_ns > 0.0 && work.tuples() > 0.0, "{work:?}");
            let text = serde_json::to_string(&work).unwrap();
            assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), work);
            assert!(
                text.starts_with(&format!("{{\"{}\"", work.name())),
                "{text}"
            );
        }
    }

    #[test]
    fn a_filter_reads_every_line_until_values_are_a_line_apart() {
        let lines = |skip| {
            let phase = Filter {
                skip,
                ..Filter::default()
            }
            .phase();
            phase.accesses[0].lines_per_tuple * phase.tuples
        };
        assert_eq!(lines(0), lines(7));
        assert!((lines(15) - lines(0) / 2.0).abs() < 1.0);
    }

    #[test]
    fn impossible_parameters_are_named() {
        let bad = Work::Scan(Scan {
            selectivity: 1.5,
            ..Scan::default()
        });
        assert_eq!(
            bad.phases(1).unwrap_err().to_string(),
            "scan: selectivity is 1.5; expected a number from 0 to 1"
        );
        let bad = Work::Ssb(Ssb {
            query: "q5.1".into(),
            ..Ssb::default()
        });
        assert!(
            bad.phases(1)
                .unwrap_err()
                .to_string()
                .starts_with("ssb: query is q5.1; expected q1.1")
        );
        let bad = Work::Read(Stream {
            bytes: f64::NAN,
            ..Stream::default()
        });
        assert!(bad.phases(1).is_err());
    }
}
