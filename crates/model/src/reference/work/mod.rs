//! Common microbenchmarks as parametric phases: those of the cited papers, and those for which
//! `tierloom tune` finds weights.
//!
//! Structures have fixed names, so that a placement can place them separately: `input` (read in
//! order), `output` (written in order), `table` (a hash table or array accessed at random), `inner`
//! and `leaves` (a search tree).

mod check;
mod phases;
mod tpch;

use crate::error::ModelError;
use crate::work::{LINE_BYTES, Op, Phase, PhaseKind, StructureClass};
use phases::lines_phase;
use serde::{Deserialize, Serialize};
pub use tpch::Tpch;

/// Compute time of a scalar loop over values of 8 bytes, ns per value.
///
/// This and the following times are those of the operators of `tierloom-operators`, plain form, on
/// one core with structures in its caches (docs/model.md, "Time per tuple of operators"); a third
/// to both sides is their interval.
pub const VALUE_NS: f64 = 0.68;

/// Compute time of a probe of a hash table, ns per row; inserts take 3.5 to 7.5.
pub const PROBE_NS: f64 = 1.9;

/// Compute time of radix partitioning, ns per row and pass, mean of counting and writing.
pub const PARTITION_NS: f64 = 2.5;

/// One microbenchmark. In YAML and JSON a map with one key: `{ probe: { rows: 1e9 } }`.
///
/// A *tuple* is the unit that the benchmark counts: a line for streams and random accesses, a row
/// for operators, an operation for trees and atomics. `compute_ns` is compute time per tuple and
/// worker throughout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Sequential read of `input`; a tuple is a line.
    Read(Stream),
    /// Sequential write of `output` with cached stores; a tuple is a line.
    Write(Stream),
    /// Sequential write of `output` with non-temporal stores; a tuple is a line.
    NtWrite(Stream),
    /// Sequential read of `input` and write of `output` with cached stores; a tuple is a line of
    /// each.
    Copy(Stream),
    /// Independent random accesses to `table`; a tuple is an access.
    Random(RandomAccess),
    /// Dependent accesses to `table` (pointer chasing); a tuple is an access.
    ///
    /// Also atomics and fenced stores, with `fixed_ns` per access.
    Chase(Chase),
    /// Inserts of the rows of `input` into `table`; a tuple is a row.
    Build(Join),
    /// Probes of `table` with the rows of `input`; a tuple is a row.
    Probe(Join),
    /// Read of every `skip + 1`-th value of `input`; a tuple is a value that is read.
    Filter(Filter),
    /// Radix partitioning: `read_passes` reads of `input`, and a write of its rows to `fanout`
    /// partitions of `output`; a tuple is a row.
    Partition(Partition),
    /// Scan of `input` that writes identifiers of matching values to `output`; a tuple is a value.
    Scan(Scan),
    /// Aggregation of the rows of `input` into groups in `table`; a tuple is a row.
    Aggregate(Join),
    /// Lookups and updates of keys in a search tree of `inner` nodes and `leaves`; a tuple is an
    /// operation.
    Tree(Tree),
    /// One query of the Star Schema Benchmark ("q2.1"), or all ("all"); a tuple is a row of the
    /// fact table.
    Ssb(Ssb),
    /// The 22 queries of TPC-H once, one after the other; a tuple is a row of a pass.
    Tpch(Tpch),
}

/// Parameters of sequential streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Use vector instructions; true by default. A scalar loop takes [`VALUE_NS`] for each 8 bytes
    /// of a line.
    pub simd: bool,
    /// Size of the stream, bytes, all workers together.
    pub bytes: f64,
    /// Further compute time per line, ns.
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

/// Parameters of independent random accesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RandomAccess {
    /// Operation on each line.
    pub op: Op,
    /// Consecutive bytes per access; at least one line is accessed.
    pub access_bytes: f64,
    /// Size of the region with the random addresses, bytes.
    pub footprint_bytes: f64,
    /// Addresses are known ahead and prefetched, or vector loads have the same effect.
    pub prefetched: bool,
    /// Compute time per access, ns.
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

/// Parameters of dependent accesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chase {
    /// Operation on each line.
    pub op: Op,
    /// Size of the region that the accesses cover, bytes.
    pub footprint_bytes: f64,
    /// Time per access on top of the memory latency, ns: fences, flushes, the timer.
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

/// Parameters of one side of a hash join, or of an aggregation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Join {
    /// Number of rows of `input`.
    pub rows: f64,
    /// Bytes per row of `input`.
    pub row_bytes: f64,
    /// Size of `table`, bytes.
    pub table_bytes: f64,
    /// Lines of the table accessed per row: the number of slots, since a slot is smaller than a
    /// line.
    pub lines_per_row: f64,
    /// Addresses are prefetched in groups of rows.
    pub prefetched: bool,
    /// Compute time per row, ns.
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
            compute_ns: PROBE_NS,
        }
    }
}

/// Parameters of a selective read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Number of values skipped between two that are read.
    pub skip: u32,
    /// Bytes per value; 8 by default.
    pub value_bytes: f64,
    /// Size of `input`, bytes.
    pub bytes: f64,
    /// Use vector instructions; false by default. A scalar loop takes [`VALUE_NS`] per value that
    /// is read.
    pub simd: bool,
    /// Further compute time per value that is read, ns.
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

/// Parameters of a radix partitioning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Partition {
    /// Number of rows, all workers together.
    pub rows: f64,
    /// Bytes per row; 8 by default.
    pub row_bytes: f64,
    /// Number of partitions; 64 by default.
    pub fanout: u32,
    /// Number of reads of the input, at least 1: all but the last build histograms, the last one
    /// writes.
    pub read_passes: u32,
    /// All workers write to the same positions of the output, so that its lines move from core to
    /// core; false by default.
    pub same_positions: bool,
    /// Compute time per row and pass, ns.
    pub compute_ns: f64,
}

impl Default for Partition {
    fn default() -> Self {
        Partition {
            rows: 1e9,
            row_bytes: 8.0,
            fanout: 64,
            read_passes: 2,
            same_positions: false,
            compute_ns: PARTITION_NS,
        }
    }
}

/// Parameters of a column scan that writes identifiers of matching tuples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scan {
    /// Number of values, all workers together.
    pub rows: f64,
    /// Bytes per value; 4 by default.
    pub value_bytes: f64,
    /// Bytes per tuple identifier.
    pub tid_bytes: f64,
    /// Share of values that match, 0 to 1.
    pub selectivity: f64,
    /// Vector loads without work between them; if false, the lines in flight are those of a scalar
    /// stream.
    pub simd: bool,
    /// Identifiers are written with non-temporal stores.
    pub nt: bool,
    /// Compute time per value, ns.
    pub compute_ns: f64,
    /// Additional compute time per match, ns.
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

/// Parameters of operations on a search tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tree {
    /// Number of keys in the tree.
    pub keys: f64,
    /// Bytes per node, inner nodes and leaves alike.
    pub node_bytes: f64,
    /// Bytes per entry of a node (key and value, or key and child).
    pub entry_bytes: f64,
    /// Fill factor of a node, 0 to 1.
    pub fill: f64,
    /// Lines that the search in a node accesses one after the other; 0 for those of a binary
    /// search, 1 + log2 of the filled lines.
    pub searched_lines: f64,
    /// Share of operations that change a leaf, 0 to 1.
    pub writes: f64,
    /// Compute time per operation, ns.
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

/// Parameters of queries of the Star Schema Benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ssb {
    /// Name of the query, "q1.1" to "q4.3", or "all".
    pub query: String,
    /// Scale factor; the fact table has 6 million rows per unit.
    pub scale_factor: f64,
    /// Width of every column, bytes.
    pub bytes_per_value: u32,
    /// Compute time per tuple, ns.
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
    /// Name of the benchmark, as in files.
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
            Work::Tpch(_) => "tpch",
        }
    }

    /// The phases that `workers` workers run one after the other.
    ///
    /// Streams are read once; the SSB query "all" gives the phases of all 13 queries.
    ///
    /// # Errors
    /// [`ModelError::Work`] names the first invalid parameter.
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
                // A group table differs from a hash table in its class only, so that placements can
                // select it.
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
            Work::Tpch(t) => t.phases(),
        })
    }

    /// Number of tuples: lines, rows or operations.
    ///
    /// For all SSB queries it is the rows of the fact table, counted once.
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
            Work::Tpch(t) => t.tuples(),
        }
    }

    /// Bytes per tuple that the benchmark counts in GB/s: what the program reads and writes, not
    /// the traffic of the memory.
    ///
    /// `None` for benchmarks that count operations only.
    pub fn bytes_per_tuple(&self) -> Option<f64> {
        match self {
            Work::Read(_) | Work::Write(_) | Work::NtWrite(_) => Some(LINE_BYTES),
            Work::Copy(_) => Some(2.0 * LINE_BYTES),
            Work::Random(r) => Some(r.access_bytes),
            Work::Filter(f) => Some(f.value_bytes),
            Work::Partition(p) => Some(p.row_bytes * f64::from(p.read_passes + 1)),
            Work::Scan(s) => Some(s.value_bytes),
            Work::Build(j) | Work::Probe(j) | Work::Aggregate(j) => Some(j.row_bytes),
            Work::Chase(_) | Work::Tree(_) | Work::Ssb(_) | Work::Tpch(_) => None,
        }
    }

    /// Structures that the phases access, by the names that placements use.
    ///
    /// # Errors
    /// Same as [`Work::phases`].
    pub fn structures(&self) -> Result<Vec<String>, ModelError> {
        let mut names: Vec<String> = Vec::new();
        for access in self.phases(1)?.into_iter().flat_map(|p| p.accesses) {
            if !names.contains(&access.structure) {
                names.push(access.structure);
            }
        }
        Ok(names)
    }

    /// The same benchmark with its compute time increased by `more_ns`.
    ///
    /// The unit is that of the benchmark's parameter: per row and pass for partitioning, else per
    /// tuple.
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
            Work::Tpch(t) => t.compute_ns += more_ns,
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
            Work::Tpch(Tpch::default()),
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
