//! The queries of SSB and TPC-H, cut as `tierloom cluster` cuts them.
//!
//! Phases are those of [`crate::reference`]. What leaves a node was read off the plans of the
//! cluster (`tierloom cluster sql --explain`, tables of `tierloom cluster load ssb|tpch`), and a
//! test of the cluster compares them.

use super::spread::{MERGE_NS, NodePhase, STATE_BYTES, Sent, SpreadQuery};
use crate::reference::mixes::{Engine, tpch_queries};
use crate::reference::ssb::{lines_touched, ssb_queries};
use crate::reference::work::{Ssb, Tpch};
use crate::work::{Access, LINE_BYTES, Op, Phase, PhaseKind, StructureClass};

/// Tables of SSB that are in shards.
pub const SSB_SHARDED: [&str; 1] = ["lineorder"];

/// Tables of TPC-H that are in shards, both by the key of the order.
pub const TPCH_SHARDED: [&str; 2] = ["lineitem", "orders"];

/// The queries of SSB that `ssb` names, for `workers` workers on each node.
///
/// All tables but the fact table are on every node, so nodes send states of groups.
pub fn ssb_spread(ssb: &Ssb, workers: u32) -> Vec<SpreadQuery> {
    let queries = ssb_queries(ssb.scale_factor, ssb.bytes_per_value, ssb.compute_ns);
    let wanted = queries.into_iter();
    let wanted = wanted.filter(|(name, _)| ssb.query == "all" || ssb.query == *name);
    let spread = wanted.map(|(name, phases)| {
        let buffered = |phase: Phase| match ssb.through_buffer {
            true => phase.through_buffer(workers),
            false => phase,
        };
        let phases = phases.into_iter().map(buffered).collect();
        SpreadQuery::with_states(&name, phases, &SSB_SHARDED)
    });
    spread.collect()
}

/// Bytes of a state of TPC-H's groups by one or two keys: keys of 8 bytes and sums of 16.
const KEYED_STATE: f64 = 40.0;

/// Bytes of a state of q10: the columns of a customer that it groups by.
///
/// Widths of `reference::mixes`, and a sum of 16 bytes.
const CUSTOMER_STATE: f64 = 190.0;

/// How the cluster cuts a query of TPC-H other than [`SpreadQuery::with_states`] does; numbers of
/// rows and groups are those of scale factor 1.
struct TpchCut {
    name: &'static str,
    statements: u32,
    /// What nodes send; nothing here for the states of all group tables.
    sent: &'static [Sent],
    last: LastPhases,
    /// Further groups over `lineitem` on the nodes, which the written-down phases avoid: they know
    /// which keys are wanted.
    groups: Option<LineitemGroups>,
}

/// What is in the final plan beside merging states.
#[derive(Clone, Copy, PartialEq)]
enum LastPhases {
    Nothing,
    /// Whatever reads no table in shards.
    OtherTables,
    /// That, and joins and groups of the rows of tables in shards: nodes read and filter only.
    AllButReading,
}

/// Groups over the rows of `lineitem` that pass a filter.
struct LineitemGroups {
    /// Filter and key columns with the bytes of a value.
    columns: &'static [(&'static str, f64)],
    /// Share of the rows that pass the filter on the first column.
    kept: f64,
    groups: f64,
    /// Whether nothing else reads `lineitem` on the nodes.
    instead: bool,
}

const fn cut(name: &'static str, sent: &'static [Sent]) -> TpchCut {
    TpchCut {
        name,
        statements: 1,
        sent,
        last: LastPhases::Nothing,
        groups: None,
    }
}

const fn states(groups: f64, rows: f64, bytes: f64) -> Sent {
    Sent::States {
        groups,
        rows,
        bytes,
    }
}

const fn rows(rows: f64, bytes: f64) -> Sent {
    Sent::Rows { rows, bytes }
}

const fn first(rows: f64, bytes: f64) -> Sent {
    Sent::First { rows, bytes }
}

// Selectivities are those of `reference::mixes`. Subqueries that stand for one value are statements
// of their own (q11, q15, q22).
const TPCH_CUTS: [TpchCut; 10] = [
    cut("q3", &[first(10.0, 32.0)]),
    cut("q10", &[states(38_000.0, 111_000.0, CUSTOMER_STATE)]),
    TpchCut {
        statements: 2,
        ..cut("q11", &[])
    },
    // An outer join that keeps all customers, whose orders may be anywhere.
    TpchCut {
        last: LastPhases::AllButReading,
        ..cut(
            "q13",
            &[rows(0.989 * 1_500_000.0, 16.0), rows(150_000.0, 8.0)],
        )
    },
    // The subquery sends the same states.
    TpchCut {
        statements: 2,
        last: LastPhases::OtherTables,
        ..cut(
            "q15",
            &[
                states(10_000.0, 0.0378 * 6e6, KEYED_STATE),
                states(10_000.0, 0.0378 * 6e6, KEYED_STATE),
            ],
        )
    },
    TpchCut {
        groups: Some(LineitemGroups {
            columns: &[("l_partkey", 8.0), ("l_quantity", 8.0)],
            kept: 1.0,
            groups: 200_000.0,
            instead: false,
        }),
        ..cut(
            "q17",
            &[rows(6_000.0, 40.0), states(200_000.0, 6e6, KEYED_STATE)],
        )
    },
    cut("q18", &[first(100.0, 80.0)]),
    TpchCut {
        last: LastPhases::OtherTables,
        groups: Some(LineitemGroups {
            columns: &[
                ("l_shipdate", 4.0),
                ("l_partkey", 8.0),
                ("l_suppkey", 8.0),
                ("l_quantity", 8.0),
            ],
            kept: 0.152,
            groups: 800_000.0,
            instead: true,
        }),
        ..cut(
            "q20",
            &[
                rows(8_800.0, 24.0),
                states(800_000.0, 0.152 * 6e6, KEYED_STATE),
            ],
        )
    },
    cut("q21", &[states(400.0, 70_000.0, KEYED_STATE)]),
    // Customers without an order: all orders are needed to know.
    TpchCut {
        statements: 2,
        last: LastPhases::AllButReading,
        ..cut("q22", &[rows(1_500_000.0, 8.0), rows(21_000.0, 32.0)])
    },
];

/// The 22 queries of TPC-H.
///
/// Columns have their own names, not those of two groups as in [`Tpch`] itself.
pub fn tpch_spread(tpch: &Tpch) -> Vec<SpreadQuery> {
    let queries = tpch_queries(tpch.scale_factor, &Engine::default());
    let spread = queries.into_iter().map(|(name, mut phases)| {
        for phase in &mut phases {
            phase.compute_ns_per_tuple += tpch.compute_ns;
        }
        let query = SpreadQuery::with_states(&name, phases, &TPCH_SHARDED);
        let mut query = tpch_sent(query, tpch.scale_factor);
        let cut = TPCH_CUTS.iter().find(|c| c.name == name);
        if let Some(groups) = cut.and_then(|c| c.groups.as_ref()) {
            if groups.instead {
                query.on_nodes.retain(|p| !p.sharded);
            }
            query.on_nodes.push(NodePhase {
                phase: groups.phase(tpch.scale_factor),
                sharded: true,
            });
        }
        query
    });
    spread.collect()
}

/// A query of TPC-H ("q3" or "q03") with what its nodes send at a scale factor.
pub fn tpch_sent(mut query: SpreadQuery, scale_factor: f64) -> SpreadQuery {
    let number = query.name.trim_start_matches(['q', '0']);
    let Some(cut) = TPCH_CUTS.iter().find(|c| c.name[1..] == *number) else {
        return query;
    };
    query.statements = cut.statements;
    if !cut.sent.is_empty() {
        query.sent = cut.sent.iter().map(|s| s.grown(scale_factor)).collect();
    }
    let (on_nodes, last) = divided(query.on_nodes, cut.last);
    (query.on_nodes, query.last) = (on_nodes, last);
    query
}

/// The phases of the node plan, and those of the final plan.
fn divided(phases: Vec<NodePhase>, last: LastPhases) -> (Vec<NodePhase>, Vec<NodePhase>) {
    let (mut on_nodes, mut rest) = (Vec::new(), Vec::new());
    for node in phases {
        match (last, node.sharded) {
            (LastPhases::Nothing, _) | (LastPhases::OtherTables, true) => on_nodes.push(node),
            (LastPhases::OtherTables | LastPhases::AllButReading, false) => rest.push(node),
            (LastPhases::AllButReading, true) => {
                let (reading, others) = reading_and_others(node.phase);
                on_nodes.push(NodePhase {
                    phase: reading,
                    sharded: true,
                });
                rest.push(NodePhase {
                    phase: others,
                    sharded: true,
                });
            }
        }
    }
    (on_nodes, rest)
}

/// The reading of columns, and the rest of a phase with its processor time per access
/// ([`MERGE_NS`], at most what the phase has).
fn reading_and_others(mut phase: Phase) -> (Phase, Phase) {
    let mut others = phase.clone();
    let is_column = |class| class == StructureClass::Column;
    phase.accesses.retain(|a| is_column(a.class));
    others.accesses.retain(|a| !is_column(a.class));
    let touched: f64 = others.accesses.iter().map(|a| a.lines_per_tuple).sum();
    others.compute_ns_per_tuple = (touched * MERGE_NS).min(phase.compute_ns_per_tuple);
    phase.compute_ns_per_tuple -= others.compute_ns_per_tuple;
    (phase, others)
}

impl LineitemGroups {
    fn phase(&self, scale_factor: f64) -> Phase {
        let (rows, engine) = (6e6 * scale_factor, Engine::default());
        let mut phase = Phase::new("lineitem groups", PhaseKind::Aggregate, rows);
        for (index, (column, width)) in self.columns.iter().enumerate() {
            let kept = if index == 0 { 1.0 } else { self.kept };
            let touched = lines_touched(kept, LINE_BYTES / width);
            let name = format!("lineitem.{column}");
            let access = Access::sequential_read(name, width * touched, (rows * width) as u64);
            phase.compute_ns_per_tuple += kept * engine.value_ns;
            phase = phase.access(access.vectorised());
        }
        phase.compute_ns_per_tuple += self.kept * engine.group_ns;
        let bytes = (self.groups * scale_factor * STATE_BYTES) as u64;
        phase.access(
            Access::probe("groups by key", self.kept, bytes)
                .with_op(Op::Update)
                .with_class(StructureClass::GroupTable),
        )
    }
}
