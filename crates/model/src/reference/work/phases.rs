//! Translation of each benchmark into phases.
//!
//! Each translation counts lines per tuple; compute times are parameters and never guessed here.

use super::{Chase, Filter, Join, Partition, RandomAccess, Scan, Ssb, Stream, Tree, VALUE_NS};
use crate::reference::ssb;
use crate::work::{Access, LINE_BYTES, Op, Pattern, Phase, PhaseKind, StructureClass};

/// Stream with one line per tuple.
fn stream(structure: &str, op: Op, stream: &Stream) -> Access {
    Access {
        // A loop over one array: scalar ones differ from vector ones by their time per value.
        simd: true,
        op,
        ..Access::sequential_read(structure, LINE_BYTES, stream.bytes as u64)
    }
}

fn sequential(structure: &str, op: Op, bytes_per_tuple: f64, footprint: f64) -> Access {
    Access::sequential_read(structure, bytes_per_tuple, footprint as u64)
        .vectorised()
        .with_op(op)
}

/// Random lines of `table`, `lines` per tuple.
fn single(op: Op, lines: f64, footprint: f64, prefetched: bool) -> Access {
    Access {
        simd: prefetched,
        ..Access::probe("table", lines, footprint as u64).with_op(op)
    }
}

pub(super) fn lines_phase(
    name: &str,
    kind: PhaseKind,
    s: &Stream,
    touched: &[(&str, Op)],
) -> Phase {
    let scalar = if s.simd {
        0.0
    } else {
        VALUE_NS * LINE_BYTES / 8.0
    };
    let phase = Phase::new(name, kind, s.bytes / LINE_BYTES).compute_ns(s.compute_ns + scalar);
    touched.iter().fold(phase, |phase, (structure, op)| {
        phase.access(stream(structure, *op, s))
    })
}

impl RandomAccess {
    /// Number of accesses; arbitrary, because only rates are compared.
    pub(super) const ACCESSES: f64 = 1e9;

    pub(super) fn phase(&self) -> Phase {
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
    pub(super) const LOADS: f64 = 1e9;

    pub(super) fn phase(&self) -> Phase {
        Phase::new("chase", PhaseKind::Other, Self::LOADS)
            .compute_ns(self.fixed_ns)
            .access(Access {
                pattern: Pattern::Dependent,
                ..single(self.op, 1.0, self.footprint_bytes, false)
            })
    }
}

impl Join {
    pub(super) fn phase(&self, name: &str, kind: PhaseKind, op: Op) -> Phase {
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
    pub(super) fn values(&self) -> f64 {
        self.bytes / self.value_bytes / (f64::from(self.skip) + 1.0)
    }

    /// Read of one value in every `skip + 1`.
    ///
    /// As long as a line has several such values, every line is read; beyond that, one line per
    /// value, with a stride.
    pub(super) fn phase(&self) -> Phase {
        let step_bytes = (f64::from(self.skip) + 1.0) * self.value_bytes;
        let lines = (step_bytes / LINE_BYTES).min(1.0);
        // Strides are whole lines, so steps that are not a multiple of a line are rounded.
        let stride = (step_bytes / LINE_BYTES).round().max(1.0) as u32;
        let access = Access {
            // A loop over one array, whichever instructions it has.
            simd: true,
            lines_per_tuple: lines,
            pattern: if stride > 1 {
                Pattern::Strided { lines: stride }
            } else {
                Pattern::Sequential
            },
            ..Access::sequential_read("input", LINE_BYTES, self.bytes as u64)
        };
        let scalar = if self.simd { 0.0 } else { VALUE_NS };
        Phase::new("filter", PhaseKind::Filter, self.values())
            .compute_ns(self.compute_ns + scalar)
            .access(access)
    }
}

impl Partition {
    pub(super) fn phases(&self) -> Vec<Phase> {
        let bytes = self.rows * self.row_bytes;
        let read = || sequential("input", Op::Read, self.row_bytes, bytes);
        // Counting passes build the histograms that give each row its output position.
        let counted = (1..self.read_passes).map(|pass| {
            Phase::new(format!("count {pass}"), PhaseKind::Partition, self.rows)
                .compute_ns(self.compute_ns)
                .access(read())
        });
        let partitions = self.fanout;
        let write = Access {
            pattern: if self.same_positions {
                Pattern::Contended { partitions }
            } else {
                Pattern::Scatter { partitions }
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
    pub(super) fn phase(&self) -> Phase {
        let compute = self.compute_ns + self.selectivity * self.compute_ns_per_match;
        let input = self.rows * self.value_bytes;
        let phase = Phase::new("scan", PhaseKind::Scan, self.rows)
            .compute_ns(compute)
            .access(Access {
                simd: self.simd,
                ..sequential("input", Op::Read, self.value_bytes, input)
            });
        // Without matches there is no output, so it needs no placement.
        if self.selectivity == 0.0 {
            return phase;
        }
        let op = if self.nt { Op::NtWrite } else { Op::Write };
        let written = self.selectivity * self.tid_bytes;
        phase.access(sequential("output", op, written, self.rows * written))
    }
}

impl Tree {
    pub(super) const OPERATIONS: f64 = 1e9;

    /// Lookups walk from the root to a leaf, level by level; within a node, a binary search
    /// accesses about log2 of its lines.
    ///
    /// All of these are dependent accesses. An update moves half of the leaf's entries on average.
    pub(super) fn phase(&self) -> Phase {
        let entries = self.node_bytes * self.fill / self.entry_bytes;
        let leaves = (self.keys / entries).max(1.0);
        // Levels above the leaves, with a fan-out of `entries`.
        let levels = (leaves.ln() / entries.ln()).ceil().max(0.0);
        let used = (self.node_bytes * self.fill / LINE_BYTES).max(1.0);
        let searched = if self.searched_lines > 0.0 {
            self.searched_lines
        } else {
            1.0 + used.log2()
        };
        // Geometric series over the levels: each inner node has `entries` children.
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
    pub(super) fn phases(&self, workers: u32) -> Vec<Phase> {
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
