//! What a workload keeps of its throughput when DRAM holds a part of its tables only.
//!
//! Weisgut et al., "CXL Memory Performance for In-Memory Data Processing" (PVLDB 18(9), 2025), found that few columns of TPC-H carry most accesses, so that
//! those columns in DRAM and the rest on CXL lose little. This asks the same of any queries and machine, by the model.

use crate::mixes::{ColumnSize, Mix, column_reads};
use crate::{AdaptError, ByHeat, ColumnUse, Decision, tier_shares};
use serde::Serialize;
use std::collections::BTreeMap;
use tierloom_memory::{PlacementSpec, Target};
use tierloom_model::{
    Machine, ModelError, Options, Placement, StructureClass, TierShares, solve_all,
};
use tierloom_topology::TierKind;

/// One query under the three placements; modelled times, ns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CappedQuery {
    /// Its name.
    pub query: String,
    /// All columns in DRAM.
    pub dram_ns: f64,
    /// All columns on CXL.
    pub cxl_ns: f64,
    /// The hottest columns in DRAM, as many as it may hold.
    pub heat_ns: f64,
}

/// A column and where it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CappedColumn {
    /// "lineitem.l_shipdate".
    pub column: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// How often each byte is read in one round of the queries.
    pub reads: f64,
    /// Share of it in DRAM, 0 to 1.
    pub dram_share: f64,
}

/// The answer. Memory of operators is in DRAM under all three placements and not counted against the cap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capped {
    /// Bytes of all columns, those that nothing reads too.
    pub table_bytes: u64,
    /// Bytes of columns that DRAM may hold.
    pub dram_bytes: u64,
    /// Workers of each query.
    pub workers: u32,
    /// The queries in order.
    pub queries: Vec<CappedQuery>,
    /// The columns, hottest first.
    pub columns: Vec<CappedColumn>,
}

impl Capped {
    /// Time of one round of all queries, ns.
    pub fn round_ns(&self, of: impl Fn(&CappedQuery) -> f64) -> f64 {
        self.queries.iter().map(of).sum()
    }

    /// Throughput with columns chosen by heat over that with all in DRAM, 0 to 1 as a rule. Streams run one query after the other, each round the
    /// same queries, so throughput is the number of queries over the time of a round.
    pub fn kept(&self) -> f64 {
        self.round_ns(|q| q.dram_ns) / self.round_ns(|q| q.heat_ns)
    }

    /// The same with all columns on CXL.
    pub fn kept_on_cxl(&self) -> f64 {
        self.round_ns(|q| q.dram_ns) / self.round_ns(|q| q.cxl_ns)
    }
}

/// Prices a round of `mix` with all columns in DRAM, on CXL, and with the hottest `dram_share` (0 to 1) of `columns` in DRAM.
///
/// `columns` are all columns of the tables with their sizes; columns that the mix reads and that are not among them count with the size that its
/// phases tell.
///
/// # Errors
/// [`AdaptError::Model`] if the machine has no tier `dram` or `cxl`, or a phase cannot be priced.
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

/// All columns with what a round reads of them.
fn uses(mix: &Mix, columns: &[ColumnSize]) -> Vec<ColumnUse> {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let reads = column_reads(mix);
    for (column, (size_bytes, _)) in &reads {
        sizes.insert(column, *size_bytes);
    }
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
