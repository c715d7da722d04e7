//! The microbenchmarks of the field as parametric phases: what papers run, and what `tierloom tune` finds weights for.
//!
//! Structures have fixed names, so that a placement can move them apart: `input` (what is read in order), `output` (what is written in
//! order), `table` (a hash table or array at random places), `inner` and `leaves` (a search tree).

use super::ssb;
use crate::error::ModelError;
use crate::work::{Access, LINE_BYTES, Op, Pattern, Phase, PhaseKind, StructureClass};
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

/// One line per tuple of a stream.
fn stream(structure: &str, op: Op, stream: &Stream) -> Access {
    Access {
        simd: stream.simd,
        op,
        ..Access::sequential_read(structure, LINE_BYTES, stream.bytes as u64)
    }
}

fn sequential(structure: &str, op: Op, bytes_per_tuple: f64, footprint: f64) -> Access {
    Access::sequential_read(structure, bytes_per_tuple, footprint as u64)
        .vectorised()
        .with_op(op)
}

/// One line at a random place of `table`.
fn single(op: Op, lines: f64, footprint: f64, prefetched: bool) -> Access {
    Access {
        simd: prefetched,
        ..Access::probe("table", lines, footprint as u64).with_op(op)
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

    fn check(&self) -> Result<(), ModelError> {
        let work = self.name();
        let positive = "a finite number above 0";
        let not_negative = "a finite number of at least 0";
        let share = "a number from 0 to 1";
        let numbers: Vec<(&'static str, f64, &'static str)> = match self {
            Work::Read(s) | Work::Write(s) | Work::NtWrite(s) | Work::Copy(s) => vec![
                ("bytes", s.bytes, positive),
                ("compute_ns", s.compute_ns, not_negative),
            ],
            Work::Random(r) => vec![
                ("access_bytes", r.access_bytes, positive),
                ("footprint_bytes", r.footprint_bytes, positive),
                ("compute_ns", r.compute_ns, not_negative),
            ],
            Work::Chase(c) => vec![
                ("footprint_bytes", c.footprint_bytes, positive),
                ("fixed_ns", c.fixed_ns, not_negative),
            ],
            Work::Build(j) | Work::Probe(j) | Work::Aggregate(j) => vec![
                ("rows", j.rows, positive),
                ("row_bytes", j.row_bytes, positive),
                ("table_bytes", j.table_bytes, positive),
                ("lines_per_row", j.lines_per_row, positive),
                ("compute_ns", j.compute_ns, not_negative),
            ],
            Work::Filter(f) => vec![
                ("value_bytes", f.value_bytes, positive),
                ("bytes", f.bytes, positive),
                ("compute_ns", f.compute_ns, not_negative),
            ],
            Work::Partition(p) => vec![
                ("rows", p.rows, positive),
                ("row_bytes", p.row_bytes, positive),
                ("fanout", f64::from(p.fanout), positive),
                ("read_passes", f64::from(p.read_passes), positive),
                ("compute_ns", p.compute_ns, not_negative),
            ],
            Work::Scan(s) => vec![
                ("rows", s.rows, positive),
                ("value_bytes", s.value_bytes, positive),
                ("tid_bytes", s.tid_bytes, positive),
                ("selectivity", s.selectivity, share),
                ("compute_ns", s.compute_ns, not_negative),
                ("compute_ns_per_match", s.compute_ns_per_match, not_negative),
            ],
            Work::Tree(t) => vec![
                ("keys", t.keys, positive),
                ("node_bytes", t.node_bytes, positive),
                ("entry_bytes", t.entry_bytes, positive),
                ("fill", t.fill, share),
                ("searched_lines", t.searched_lines, not_negative),
                ("writes", t.writes, share),
                ("compute_ns", t.compute_ns, not_negative),
            ],
            Work::Ssb(s) => vec![
                ("scale_factor", s.scale_factor, positive),
                ("bytes_per_value", f64::from(s.bytes_per_value), positive),
                ("compute_ns", s.compute_ns, not_negative),
            ],
        };
        let allowed = |x: f64, expected: &str| {
            x.is_finite()
                && x >= 0.0
                && (expected != positive || x > 0.0)
                && (expected != share || x <= 1.0)
        };
        if let Some((field, found, expected)) = numbers
            .into_iter()
            .find(|(_, x, expected)| !allowed(*x, expected))
        {
            let found = found.to_string();
            return Err(ModelError::Work {
                work,
                field,
                found,
                expected,
            });
        }
        match self {
            Work::Ssb(s) if s.query != "all" && !ssb::is_query(&s.query) => Err(ModelError::Work {
                work,
                field: "query",
                found: s.query.clone(),
                expected: "q1.1 to q1.3, q2.1 to q2.3, q3.1 to q3.4, q4.1 to q4.3, or all",
            }),
            Work::Tree(t) if t.node_bytes * t.fill < 2.0 * t.entry_bytes => Err(ModelError::Work {
                work,
                field: "node_bytes",
                found: t.node_bytes.to_string(),
                expected: "a node that holds at least two entries at its fill",
            }),
            _ => Ok(()),
        }
    }
}

fn lines_phase(name: &str, kind: PhaseKind, s: &Stream, touched: &[(&str, Op)]) -> Phase {
    let phase = Phase::new(name, kind, s.bytes / LINE_BYTES).compute_ns(s.compute_ns);
    touched.iter().fold(phase, |phase, (structure, op)| {
        phase.access(stream(structure, *op, s))
    })
}

impl RandomAccess {
    /// Accesses that are priced; their number does not matter for a rate.
    const ACCESSES: f64 = 1e9;

    fn phase(&self) -> Phase {
        let lines = (self.access_bytes / LINE_BYTES).max(1.0);
        let piece = lines.round() as u32;
        let access = Access {
            pattern: if piece > 1 {
                Pattern::Runs { lines: piece }
            } else {
                Pattern::Random
            },
            ..single(self.op, lines, self.footprint_bytes, self.prefetched)
        };
        Phase::new("random", PhaseKind::Other, Self::ACCESSES)
            .compute_ns(self.compute_ns)
            .access(access)
    }
}

impl Chase {
    const LOADS: f64 = 1e9;

    fn phase(&self) -> Phase {
        Phase::new("chase", PhaseKind::Other, Self::LOADS)
            .compute_ns(self.fixed_ns)
            .access(Access {
                pattern: Pattern::Dependent,
                ..single(self.op, 1.0, self.footprint_bytes, false)
            })
    }
}

impl Join {
    fn phase(&self, name: &str, kind: PhaseKind, op: Op) -> Phase {
        let input = sequential(
            "input",
            Op::Read,
            self.row_bytes,
            self.rows * self.row_bytes,
        );
        let table = single(op, self.lines_per_row, self.table_bytes, self.prefetched);
        Phase::new(name, kind, self.rows)
            .compute_ns(self.compute_ns)
            .access(input)
            .access(table)
    }
}

impl Filter {
    fn values(&self) -> f64 {
        self.bytes / self.value_bytes / (f64::from(self.skip) + 1.0)
    }

    /// While several values of a line are read, every line is; beyond, one line for each value, some lines apart.
    fn phase(&self) -> Phase {
        let step_bytes = (f64::from(self.skip) + 1.0) * self.value_bytes;
        let lines = (step_bytes / LINE_BYTES).min(1.0);
        let stride = (step_bytes / LINE_BYTES).round().max(1.0) as u32;
        let access = Access {
            simd: self.simd,
            lines_per_tuple: lines,
            pattern: if stride > 1 {
                Pattern::Strided { lines: stride }
            } else {
                Pattern::Sequential
            },
            ..Access::sequential_read("input", LINE_BYTES, self.bytes as u64)
        };
        Phase::new("filter", PhaseKind::Filter, self.values())
            .compute_ns(self.compute_ns)
            .access(access)
    }
}

impl Partition {
    fn phases(&self) -> Vec<Phase> {
        let bytes = self.rows * self.row_bytes;
        let read = || sequential("input", Op::Read, self.row_bytes, bytes);
        let counted = (1..self.read_passes).map(|pass| {
            Phase::new(format!("count {pass}"), PhaseKind::Partition, self.rows)
                .compute_ns(self.compute_ns)
                .access(read())
        });
        let write = Access {
            pattern: Pattern::Scatter {
                partitions: self.fanout,
            },
            class: StructureClass::SortRun,
            ..sequential("output", Op::Write, self.row_bytes, bytes)
        };
        let scatter = Phase::new("scatter", PhaseKind::Partition, self.rows)
            .compute_ns(self.compute_ns)
            .access(read())
            .access(write);
        counted.chain([scatter]).collect()
    }
}

impl Scan {
    fn phase(&self) -> Phase {
        let compute = self.compute_ns + self.selectivity * self.compute_ns_per_match;
        let input = self.rows * self.value_bytes;
        let phase = Phase::new("scan", PhaseKind::Scan, self.rows)
            .compute_ns(compute)
            .access(Access {
                simd: self.simd,
                ..sequential("input", Op::Read, self.value_bytes, input)
            });
        if self.selectivity == 0.0 {
            return phase;
        }
        let op = if self.nt { Op::NtWrite } else { Op::Write };
        let written = self.selectivity * self.tid_bytes;
        phase.access(sequential("output", op, written, self.rows * written))
    }
}

impl Tree {
    const OPERATIONS: f64 = 1e9;

    /// A lookup walks from the root to a leaf; in every node a binary search touches about log2 of its lines, each known only after the
    /// one before. A change moves half of the leaf's entries.
    fn phase(&self) -> Phase {
        let entries = self.node_bytes * self.fill / self.entry_bytes;
        let leaves = (self.keys / entries).max(1.0);
        let levels = (leaves.ln() / entries.ln()).ceil().max(0.0);
        let used = (self.node_bytes * self.fill / LINE_BYTES).max(1.0);
        let searched = if self.searched_lines > 0.0 {
            self.searched_lines
        } else {
            1.0 + used.log2()
        };
        let inner_bytes = leaves / (entries - 1.0) * self.node_bytes;
        let node = |structure: &str, lines: f64, bytes: f64| Access {
            structure: structure.into(),
            pattern: Pattern::Dependent,
            class: StructureClass::HashTable,
            ..single(Op::Read, lines, bytes, false)
        };
        let leaf_bytes = leaves * self.node_bytes;
        let phase = Phase::new("tree", PhaseKind::Other, Self::OPERATIONS)
            .compute_ns(self.compute_ns)
            .access(node("leaves", searched, leaf_bytes));
        let phase = if levels > 0.0 {
            phase.access(node(
                "inner",
                levels * searched,
                inner_bytes.max(self.node_bytes),
            ))
        } else {
            phase
        };
        if self.writes == 0.0 {
            return phase;
        }
        phase.access(Access {
            structure: "leaves".into(),
            class: StructureClass::HashTable,
            ..single(Op::Update, self.writes * used / 2.0, leaf_bytes, true)
        })
    }
}

impl Ssb {
    fn phases(&self, workers: u32) -> Vec<Phase> {
        let queries = ssb::ssb_queries(self.scale_factor, self.bytes_per_value, self.compute_ns);
        let wanted = queries
            .into_iter()
            .filter(|(name, _)| self.query == "all" || self.query == *name);
        wanted
            .flat_map(|(_, phases)| phases)
            .map(|phase| {
                if self.through_buffer {
                    phase.through_buffer(workers)
                } else {
                    phase
                }
            })
            .collect()
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
