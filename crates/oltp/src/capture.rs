//! Work of transactions as the model takes it: lines per transaction and structure.
//!
//! ```text
//!   lines, counted ─────┐
//!   bytes in use ───────┼──> Phase ──> model: rate and traffic with any placement of the parts
//!   compute time ───────┘
//! ```
//! A transaction finds a row through nodes of a tree, each known only from the one above, then its
//! head, then the row: these lines wait for each other. The further lines of a row are known with
//! the first. What lies between is compute time, which [`Captured::phase`] is given: it is measured
//! where all data is in cache.

use tierloom_model::{
    Access, Op, Pattern, Phase, PhaseKind, Placement, StructureClass, TierShares,
};

use crate::drive::DriveResult;
use crate::places::StorePart;
use crate::store::Store;
use crate::traffic::{IndexLines, LINE_BYTES, RowLines, StoreTraffic};

/// Lines of one structure, of all transactions of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedLines {
    /// The structure ("stock main").
    pub structure: String,
    /// The part of the store that it is in.
    pub part: StorePart,
    /// Lines that are known only from the line before.
    pub dependent: u64,
    /// Further lines, known with the one before.
    pub together: u64,
    /// Whether they are written.
    pub is_written: bool,
    /// Bytes of the structure that are in use.
    pub footprint_bytes: u64,
}

impl CapturedLines {
    /// All its lines.
    pub fn lines(&self) -> u64 {
        self.dependent + self.together
    }
}

/// Work that was captured in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// Transactions that committed; of merging alone the rows that it brought back.
    pub tuples: u64,
    /// Lines of structures, those that were never accessed left out.
    pub lines: Vec<CapturedLines>,
}

impl Captured {
    /// The work of a run on this store; merging counts as the transactions' work.
    pub fn of(store: &Store, result: &DriveResult) -> Self {
        let mut traffic = result.traffic.clone();
        traffic += &result.merging.traffic;
        Self::of_traffic(store, &traffic, result.commits())
    }

    /// The work of merging in the background alone.
    pub fn of_merging(store: &Store, result: &DriveResult) -> Self {
        Self::of_traffic(store, &result.merging.traffic, result.merging.rows)
    }

    fn of_traffic(store: &Store, traffic: &StoreTraffic, tuples: u64) -> Self {
        let tables = store.tables.iter().zip(&traffic.tables);
        let indexes = store.indexes.iter().zip(&traffic.indexes);
        let of_tables = tables.flat_map(|(table, lines)| {
            let spec = table.spec();
            let rows = u64::from(table.used_rows());
            let used = u64::from(spec.delta_rows - table.free_slots().min(spec.delta_rows));
            let row_bytes = spec.row_words as u64 * 8;
            of_table(spec.name, lines, rows, rows * row_bytes, used * row_bytes)
        });
        let of_indexes = indexes.flat_map(|(index, lines)| {
            let (inner_bytes, leaf_bytes) = index.used_bytes();
            of_index(index.name, lines, inner_bytes, leaf_bytes)
        });
        let lines = of_tables.chain(of_indexes);
        Self {
            tuples,
            lines: lines.filter(|lines| lines.lines() > 0).collect(),
        }
    }

    /// Bytes that transactions accessed in a part, before caches.
    pub fn accessed_bytes(&self, part: StorePart) -> u64 {
        let lines = self.lines.iter().filter(|lines| lines.part == part);
        lines.map(|lines| lines.lines() * LINE_BYTES).sum()
    }

    /// The work as one phase, each tuple with so much compute time.
    pub fn phase(&self, compute_ns: f64) -> Phase {
        let tuples = self.tuples as f64;
        let phase = Phase::new("transactions", PhaseKind::Other, tuples);
        let accesses = self.lines.iter().flat_map(|lines| {
            let access = |pattern, count: u64| Access {
                structure: lines.structure.clone(),
                class: StructureClass::Column,
                pattern,
                op: match lines.is_written {
                    true => Op::Update,
                    false => Op::Read,
                },
                lines_per_tuple: count as f64 / tuples,
                footprint_bytes: lines.footprint_bytes.max(LINE_BYTES),
                simd: false,
            };
            [
                access(Pattern::Dependent, lines.dependent),
                access(Pattern::Random, lines.together),
            ]
        });
        let accesses = accesses.filter(|access| access.lines_per_tuple > 0.0);
        accesses.fold(phase.compute_ns(compute_ns), Phase::access)
    }

    /// The placement for the model with these shares of each part, in the order of
    /// [`StorePart::ALL`].
    pub fn placement(&self, shares: &[TierShares; 4]) -> Placement {
        let default = Placement::new(shares[StorePart::Main as usize].clone());
        self.lines.iter().fold(default, |placement, lines| {
            let shares = shares[lines.part as usize].clone();
            placement.with_structure(lines.structure.clone(), shares)
        })
    }
}

fn of_table(
    name: &str,
    lines: &RowLines,
    rows: u64,
    main_bytes: u64,
    delta_bytes: u64,
) -> [CapturedLines; 6] {
    let of = |what: &str, part, dependent, together, is_written, footprint_bytes| CapturedLines {
        structure: format!("{name} {what}"),
        part,
        dependent,
        together,
        is_written,
        footprint_bytes,
    };
    let (main_rest, delta_rest) = (
        lines.main_read - lines.main_pieces,
        lines.delta_read - lines.delta_pieces,
    );
    let (main, heap) = (StorePart::Main, StorePart::Heap);
    let heads_bytes = rows * 16;
    [
        of("heads", heap, lines.head_read, 0, false, heads_bytes),
        of(
            "heads written",
            heap,
            0,
            lines.head_update,
            true,
            heads_bytes,
        ),
        of(
            "main",
            main,
            lines.main_pieces,
            main_rest,
            false,
            main_bytes,
        ),
        of("main written", main, 0, lines.main_write, true, main_bytes),
        of(
            "delta",
            heap,
            lines.delta_pieces,
            delta_rest,
            false,
            delta_bytes,
        ),
        of(
            "delta written",
            heap,
            0,
            lines.delta_write,
            true,
            delta_bytes,
        ),
    ]
}

fn of_index(name: &str, lines: &IndexLines, inner: u64, leaves: u64) -> [CapturedLines; 3] {
    let of = |what: &str, part, dependent, together, is_written, footprint_bytes| CapturedLines {
        structure: format!("index {name} {what}"),
        part,
        dependent,
        together,
        is_written,
        footprint_bytes,
    };
    let (inner_rest, leaf_rest) = (
        lines.inner_read - lines.inner_nodes,
        lines.leaf_read - lines.leaves,
    );
    [
        of(
            "inner",
            StorePart::Inner,
            lines.inner_nodes,
            inner_rest,
            false,
            inner,
        ),
        of(
            "leaves",
            StorePart::Leaves,
            lines.leaves,
            leaf_rest,
            false,
            leaves,
        ),
        of(
            "leaves written",
            StorePart::Leaves,
            0,
            lines.leaf_update,
            true,
            leaves,
        ),
    ]
}
