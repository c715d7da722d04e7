//! A query cut for a cluster: what nodes do on their shards, what they send, what is left.

use crate::work::{Access, LINE_BYTES, Op, Phase, PhaseKind, StructureClass};
use std::collections::BTreeSet;

/// Bytes of the state of a group as it is sent: its key and sums.
///
/// Assumed: the group's share of a group table of the written-down queries, which is a line.
pub const STATE_BYTES: f64 = LINE_BYTES;

/// Processor time to merge one state of another node into its group, ns: that of an aggregated row
/// (`Engine::group_ns` of [`crate::reference::mixes`], assumed).
pub const MERGE_NS: f64 = 20.0;

/// A phase on the nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePhase {
    /// The phase over all rows.
    pub phase: Phase,
    /// Whether each node does its shards' part of it; otherwise every node does all of it.
    pub sharded: bool,
}

/// What nodes send to the node of the final plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// States of groups, of each node those that its rows fall in.
    States {
        /// Number of groups over all rows.
        groups: f64,
        /// Rows of all nodes that are aggregated.
        rows: f64,
        /// Bytes of a state.
        bytes: f64,
    },
    /// Rows, each from the node that has it.
    Rows {
        /// Rows of all nodes together.
        rows: f64,
        /// Bytes of a row.
        bytes: f64,
    },
    /// The first rows of a sort on each node.
    First {
        /// Rows of each node.
        rows: f64,
        /// Bytes of a row.
        bytes: f64,
    },
}

impl Sent {
    /// Rows or states that a node with a `share` of all rows sends.
    pub fn rows(&self, share: f64) -> f64 {
        match self {
            Sent::States { groups, rows, .. } => groups_hit(*groups, rows * share),
            Sent::Rows { rows, .. } => rows * share,
            Sent::First { rows, .. } => *rows,
        }
    }

    /// The same for tables that are `factor` times as large; the first rows stay as many.
    pub(super) fn grown(&self, factor: f64) -> Sent {
        match self.clone() {
            Sent::States {
                groups,
                rows,
                bytes,
            } => Sent::States {
                groups: groups * factor,
                rows: rows * factor,
                bytes,
            },
            Sent::Rows { rows, bytes } => Sent::Rows {
                rows: rows * factor,
                bytes,
            },
            first @ Sent::First { .. } => first,
        }
    }

    /// Their bytes.
    pub fn bytes(&self, share: f64) -> f64 {
        let (Sent::States { bytes, .. } | Sent::Rows { bytes, .. } | Sent::First { bytes, .. }) =
            self;
        self.rows(share) * bytes
    }
}

/// Groups that at least one of `rows` rows falls in, if each falls in any of `groups` alike.
///
/// A. F. Cardenas, "Analysis and Performance of Inverted Data Base Structures", Communications of
/// the ACM 18(5), 1975.
fn groups_hit(groups: f64, rows: f64) -> f64 {
    if groups <= 1.0 {
        return groups.min(rows);
    }
    // The logarithm keeps digits that 1 - 1/groups loses for many groups.
    -groups * (rows * (-1.0 / groups).ln_1p()).exp_m1()
}

/// A query as the nodes of a cluster run it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpreadQuery {
    /// Name of the query.
    pub name: String,
    /// Statements that it takes: each subquery that stands for one value is one of its own.
    pub statements: u32,
    /// Its phases in one process.
    pub whole: Vec<Phase>,
    /// Phases of the node plan, in order.
    pub on_nodes: Vec<NodePhase>,
    /// What nodes send.
    pub sent: Vec<Sent>,
    /// Phases of the final plan over rows that were sent, beside merging states. Those over rows of
    /// tables in shards are divided where all nodes do the final plan.
    pub last: Vec<NodePhase>,
}

impl SpreadQuery {
    /// A query whose nodes send states of groups and nothing else.
    ///
    /// A phase belongs to the shards if it reads a column of a table in `sharded` ("lineorder" for
    /// "lineorder.lo_discount"). The group tables of these phases are what nodes send; a group is
    /// taken to be [`STATE_BYTES`] of its table.
    pub fn with_states(name: &str, phases: Vec<Phase>, sharded: &[&str]) -> Self {
        let on_nodes: Vec<NodePhase> = phases
            .iter()
            .map(|phase| NodePhase {
                sharded: reads_one_of(phase, sharded),
                phase: phase.clone(),
            })
            .collect();
        let states = on_nodes.iter().filter(|p| p.sharded).flat_map(|p| {
            let groups = p.phase.accesses.iter().filter(|a| is_group_table(a));
            groups.map(|a| states_of(&p.phase, a))
        });
        SpreadQuery {
            name: name.into(),
            statements: 1,
            sent: states.collect(),
            whole: phases,
            on_nodes,
            last: Vec::new(),
        }
    }

    /// Whether nodes have parts of it; otherwise one node does all.
    pub fn is_spread(&self) -> bool {
        self.on_nodes.iter().any(|p| p.sharded)
    }

    /// The phases of a node that has a `share` of all rows of tables in shards.
    ///
    /// Rows of these tables and hash tables of them are fewer by the share, group tables by the
    /// groups that no row of the node falls in. Whatever is made of tables on every node is the
    /// same on each.
    pub fn node_phases(&self, share: f64) -> Vec<Phase> {
        if share >= 1.0 {
            return self.on_nodes.iter().map(|p| p.phase.clone()).collect();
        }
        let built = self.built_of_shards();
        let phases = self.on_nodes.iter().map(|p| {
            let mut phase = p.phase.clone();
            for access in &mut phase.accesses {
                let factor = match access.class {
                    StructureClass::GroupTable if p.sharded => {
                        let states = states_of(&p.phase, access);
                        states.rows(share) / states.rows(1.0).max(f64::MIN_POSITIVE)
                    }
                    StructureClass::HashTable if built.contains(&access.structure) => share,
                    StructureClass::Column | StructureClass::SortRun if p.sharded => share,
                    _ => 1.0,
                };
                access.footprint_bytes = (access.footprint_bytes as f64 * factor) as u64;
            }
            if p.sharded {
                phase.tuples *= share;
            }
            phase
        });
        phases.collect()
    }

    /// Names of the hash tables that phases over shards fill.
    fn built_of_shards(&self) -> BTreeSet<String> {
        let phases = self.on_nodes.iter().filter(|p| p.sharded);
        let filled = phases.flat_map(|p| p.phase.accesses.iter()).filter(|a| {
            a.class == StructureClass::HashTable && matches!(a.op, Op::Write | Op::Update)
        });
        filled.map(|a| a.structure.clone()).collect()
    }

    /// The phases of the final plan where a `share` of it is done, to which `states` come.
    pub fn last_phases(&self, states: f64, share: f64) -> Vec<Phase> {
        let tables = self.sent.iter().map(|sent| match sent {
            Sent::States { groups, bytes, .. } => groups * bytes,
            Sent::Rows { .. } | Sent::First { .. } => 0.0,
        });
        let table = Access::probe(
            "merged groups",
            1.0,
            (share * tables.sum::<f64>()).max(LINE_BYTES) as u64,
        )
        .with_op(Op::Update)
        .with_class(StructureClass::GroupTable);
        let received = Access::sequential_read(
            "received",
            STATE_BYTES,
            (states * STATE_BYTES).max(LINE_BYTES) as u64,
        );
        let merge = Phase::new("merge states", PhaseKind::Aggregate, states)
            .compute_ns(MERGE_NS)
            .access(received.with_class(StructureClass::Buffer))
            .access(table);
        let divided = self.last.iter().map(|p| {
            let mut phase = p.phase.clone();
            if p.sharded {
                phase.tuples *= share;
                for access in &mut phase.accesses {
                    access.footprint_bytes = (access.footprint_bytes as f64 * share) as u64;
                }
            }
            phase
        });
        [merge].into_iter().chain(divided).collect()
    }

    /// Whether an aggregation or the first rows of a sort leave little of what nodes send.
    pub fn has_small_results(&self) -> bool {
        !self.sent.iter().any(|s| matches!(s, Sent::Rows { .. }))
    }

    /// States of groups that a node with this share of the rows sends.
    pub fn states(&self, share: f64) -> f64 {
        let states = self.sent.iter().filter(|s| !matches!(s, Sent::Rows { .. }));
        states.map(|s| s.rows(share)).sum()
    }

    /// Bytes that a node with this share of the rows sends.
    pub fn sent_bytes(&self, share: f64) -> f64 {
        self.sent.iter().map(|s| s.bytes(share)).sum()
    }
}

/// Whether a phase reads a column of one of these tables.
pub(super) fn reads_one_of(phase: &Phase, tables: &[&str]) -> bool {
    let columns = phase.accesses.iter();
    columns
        .filter(|a| a.class == StructureClass::Column)
        .filter_map(|a| a.structure.split_once('.'))
        .any(|(table, _)| tables.contains(&table))
}

fn is_group_table(access: &Access) -> bool {
    access.class == StructureClass::GroupTable
}

/// The states that a phase leaves in a group table.
pub(super) fn states_of(phase: &Phase, table: &Access) -> Sent {
    Sent::States {
        groups: table.footprint_bytes as f64 / STATE_BYTES,
        rows: phase.tuples * table.lines_per_tuple,
        bytes: STATE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::mixes::Engine;

    #[test]
    fn the_time_to_merge_a_state_is_that_of_an_aggregated_row() {
        assert_eq!(MERGE_NS, Engine::default().group_ns);
    }

    #[test]
    fn few_rows_fall_in_groups_of_their_own_and_many_in_all() {
        assert!((groups_hit(1e6, 1000.0) - 999.5).abs() < 0.1);
        assert!((groups_hit(100.0, 1e6) - 100.0).abs() < 1e-9);
        assert_eq!(groups_hit(1.0, 5.0), 1.0);
        assert_eq!((groups_hit(7.0, 0.0), groups_hit(0.0, 5.0)), (0.0, 0.0));
        // Two of two coins: three quarters of the ways have both rows in one or in the other.
        assert!((groups_hit(2.0, 2.0) - 1.5).abs() < 1e-12);
    }
}
