//! Throughput of a workload when DRAM holds only a part of its tables.
//!
//! Weisgut et al., "CXL Memory Performance for In-Memory Data Processing" (PVLDB 18(9), 2025),
//! found that a few columns of TPC-H receive most accesses, so that little is lost with those
//! columns in DRAM and the rest on CXL. This module computes the same for any queries and machine
//! with the model; nothing is executed.

use crate::mixes::{ColumnSize, Mix, column_reads};
use crate::{AdaptError, ByHeat, ColumnUse, Decision, tier_shares};
use serde::Serialize;
use std::collections::BTreeMap;
use tierloom_memory::{PlacementSpec, Target};
use tierloom_model::{
    Machine, ModelError, Options, Placement, StructureClass, TierShares, solve_all,
};
use tierloom_topology::TierKind;

/// Modelled times of one query under the three placements, ns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CappedQuery {
    /// Name of the query.
    pub query: String,
    /// With all columns in DRAM.
    pub dram_ns: f64,
    /// With all columns on CXL.
    pub cxl_ns: f64,
    /// With the hottest columns in DRAM, up to the capacity.
    pub heat_ns: f64,
}

/// One column and its placement by heat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CappedColumn {
    /// Table and column, such as "lineitem.l_shipdate".
    pub column: String,
    /// Size of the column in bytes.
    pub size_bytes: u64,
    /// Bytes read in one round of the queries over the column's size.
    pub reads: f64,
    /// Share of the column in DRAM, 0 to 1.
    pub dram_share: f64,
}

/// Modelled comparison that [`capped()`] returns.
///
/// Operator memory is in DRAM under all three placements and does not count against the capacity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capped {
    /// Bytes of all columns, including those that no query reads.
    pub table_bytes: u64,
    /// DRAM capacity for columns, in bytes.
    pub dram_bytes: u64,
    /// Worker threads of each query.
    pub workers: u32,
    /// The queries, in the order of the mix.
    pub queries: Vec<CappedQuery>,
    /// The columns, hottest first.
    pub columns: Vec<CappedColumn>,
}

impl Capped {
    /// Time of one round of all queries, ns; `of` selects the placement.
    pub fn round_ns(&self, of: impl Fn(&CappedQuery) -> f64) -> f64 {
        self.queries.iter().map(of).sum()
    }

    /// Throughput with columns chosen by heat, relative to all columns in DRAM; usually 0 to 1.
    ///
    /// Streams run the same queries one after the other, so throughput is the number of queries
    /// over the time of one round.
    pub fn kept(&self) -> f64 {
        self.round_ns(|q| q.dram_ns) / self.round_ns(|q| q.heat_ns)
    }

    /// Throughput with all columns on CXL, relative to all columns in DRAM.
    pub fn kept_on_cxl(&self) -> f64 {
        self.round_ns(|q| q.dram_ns) / self.round_ns(|q| q.cxl_ns)
    }
}

/// Models a round of `mix` with all columns in DRAM, on CXL, and placed by heat.
///
/// DRAM holds the share `dram_share` (0 to 1) of the bytes of `columns`, which lists all columns of
/// the tables. Columns that the mix reads but `columns` lacks count with the size given by the
/// mix's phases.
///
/// # Errors
/// [`AdaptError::Model`] if the machine has no tier `dram` or `cxl`, or the model rejects a phase.
pub fn capped(
    machine: &Machine,
    mix: &Mix,
    columns: &[ColumnSize],
    dram_share: f64,
    workers: u32,
) -> Result<Capped, AdaptError> {
    let uses = uses(mix, columns);
    let table_bytes: u64 = uses.iter().map(|c| c.size_bytes).sum();
    let dram_bytes = (table_bytes as f64 * dram_share.clamp(0.0, 1.0)) as u64;
    let decisions = ByHeat { dram_bytes }.decide(&uses);
    let by_heat = placement(machine, &decisions)?;
    let all = |tier: TierKind| -> Result<Placement, AdaptError> {
        let on = PlacementSpec::Bind(Target::Tier(tier));
        let shares = tier_shares(&on, machine).map_err(|_| unknown(machine))?;
        let dram = Placement::new(TierShares::all("dram"));
        Ok(dram.with_class(StructureClass::Column, shares))
    };
    let (dram, cxl) = (all(TierKind::Dram)?, all(TierKind::Cxl)?);
    let options = Options::default();
    let mut queries = Vec::with_capacity(mix.len());
    for (query, phases) in mix {
        let time = |placement: &Placement| -> Result<f64, ModelError> {
            Ok(solve_all(machine, phases, placement, workers, &options)?.time_ns)
        };
        queries.push(CappedQuery {
            query: query.clone(),
            dram_ns: time(&dram)?,
            cxl_ns: time(&cxl)?,
            heat_ns: time(&by_heat)?,
        });
    }
    let mut columns: Vec<CappedColumn> = uses
        .iter()
        .zip(&decisions)
        .map(|(column, decision)| CappedColumn {
            column: column.column.clone(),
            size_bytes: column.size_bytes,
            reads: column.read_bytes as f64 / column.size_bytes.max(1) as f64,
            dram_share: dram_part(&decision.placement),
        })
        .collect();
    columns.sort_by(|a, b| b.reads.total_cmp(&a.reads));
    Ok(Capped {
        table_bytes,
        dram_bytes,
        workers,
        queries,
        columns,
    })
}

/// All columns with the bytes that one round of the mix reads from them.
fn uses(mix: &Mix, columns: &[ColumnSize]) -> Vec<ColumnUse> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let reads = column_reads(mix);
    for (column, (size_bytes, _)) in &reads {
        sizes.insert(column, *size_bytes);
    }
    // Sizes of the schema override those derived from phases.
    for column in columns {
        sizes.insert(&column.column, column.size_bytes);
    }
    let of = |(column, size_bytes): (&str, u64)| ColumnUse {
        column: column.to_owned(),
        size_bytes,
        read_bytes: reads.get(column).map_or(0, |(_, read)| *read as u64),
    };
    sizes.into_iter().map(of).collect()
}

fn placement(machine: &Machine, decisions: &[Decision]) -> Result<Placement, AdaptError> {
    let mut placement = Placement::new(TierShares::all("dram"));
    for decision in decisions {
        let shares = tier_shares(&decision.placement, machine);
        let shares = shares.map_err(|_| unknown(machine))?;
        placement
            .by_structure
            .insert(decision.column.clone(), shares);
    }
    Ok(placement)
}

fn unknown(machine: &Machine) -> AdaptError {
    let known: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
    AdaptError::Model(ModelError::UnknownTier {
        structure: "the columns".into(),
        tier: "dram or cxl".into(),
        machine: machine.name.clone(),
        known: known.join(", "),
    })
}

fn dram_part(placement: &PlacementSpec) -> f64 {
    let dram = Target::Tier(TierKind::Dram);
    match placement {
        PlacementSpec::Bind(target) if *target == dram => 1.0,
        PlacementSpec::Partitioned(parts) => {
            let own = parts.iter().filter(|(target, _)| *target == dram);
            own.map(|(_, share)| share).sum()
        }
        // `ByHeat` makes no other placements, apart from all on CXL.
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixes::{Engine, tpch_columns, tpch_queries};
    use tierloom_model::profiles;

    fn tpch(profile: &str, share: f64) -> Capped {
        let machine = profiles::load(profile).unwrap();
        let mix = tpch_queries(100.0, &Engine::default());
        let workers = machine.cores.value as u32;
        capped(&machine, &mix, &tpch_columns(100.0), share, workers).unwrap()
    }

    #[test]
    fn a_quarter_of_dram_keeps_nine_tenths_of_the_throughput_of_tpch() {
        for profile in ["hpi25-1dev", "hpi25-2dev", "hpi25-3dev", "hpi25-4dev"] {
            let found = tpch(profile, 0.25);
            assert!(found.kept() >= 0.9, "{profile}: {:.3}", found.kept());
            assert!(
                found.kept_on_cxl() < found.kept(),
                "{profile}: {:.3}",
                found.kept_on_cxl()
            );
        }
    }

    #[test]
    fn the_faster_the_engine_the_more_a_cap_costs() {
        let machine = profiles::load("hpi25-1dev").unwrap();
        let kept = |factor| {
            let mix = tpch_queries(100.0, &Engine::default().faster(factor));
            capped(&machine, &mix, &tpch_columns(100.0), 0.25, 24)
                .unwrap()
                .kept()
        };
        let (usual, fast) = (kept(1.0), kept(4.0));
        assert!(fast < usual, "{fast} {usual}");
        assert!(fast > 0.75, "even then most of it stays: {fast}");
    }

    #[test]
    fn the_cap_is_kept_and_the_ends_are_all_or_nothing() {
        let found = tpch("hpi25-1dev", 0.25);
        let held: f64 = found
            .columns
            .iter()
            .map(|c| c.dram_share * c.size_bytes as f64)
            .sum();
        assert!(
            held <= found.dram_bytes as f64,
            "{held} of {}",
            found.dram_bytes
        );
        assert!(held > 0.99 * found.dram_bytes as f64, "the cap is used");
        assert!((tpch("hpi25-1dev", 1.0).kept() - 1.0).abs() < 1e-9);
        let none = tpch("hpi25-1dev", 0.0);
        assert!((none.kept() - none.kept_on_cxl()).abs() < 1e-9);
    }

    #[test]
    fn more_dram_is_never_slower() {
        let kept: Vec<f64> = [0.0, 0.1, 0.2, 0.3, 0.5, 1.0]
            .map(|s| tpch("hpi25-1dev", s).kept())
            .into();
        assert!(kept.is_sorted_by(|a, b| a <= &(b + 1e-6)), "{kept:?}");
    }
}
