//! Scripts as they would run on machines that are described by profiles.
//!
//! ```text
//!   phases of the scripts, captured here ──► the model ──► times and traffic there
//!   place ──► shares of the machine's tiers, for the columns of temporary tables alone
//! ```
//! Tables and operator memory are in DRAM, as in the published experiment; the pool is the CXL
//! tier. Of what is measured here only the processor time of the phases enters a modelled time.

use crate::failure::Failure;
use std::collections::BTreeMap;
use tierloom_memory::router::{PlaceSpec, PlaceTarget};
use tierloom_memory::{PlacementSpec, Target};
use tierloom_model::{
    Machine, Options, Phase, Placement, QuerySolution, TierShare, TierShares, solve_all,
};
use tierloom_placement::tier_shares;
use tierloom_record::{TempTable, TierUse};
use tierloom_suite::machine;
use tierloom_text::Bytes;
use tierloom_topology::{TierKind, Topology};

/// The work of one execution of a script.
#[derive(Debug, Default)]
pub struct Work {
    /// Of the statements that make its tables.
    pub make: Vec<Phase>,
    /// Of the query that reads them.
    pub query: Vec<Phase>,
}

/// One execution of a script on a modelled machine.
pub struct Priced {
    pub make_ms: f64,
    pub query_ms: f64,
    pub tiers: Vec<TierUse>,
}

/// A machine that scripts are modelled on, with what the places mean there.
pub struct Pricer {
    machine: Machine,
    workers: u32,
    places: Vec<Vec<Part>>,
}

/// One entry of a place's list.
struct Part {
    shares: TierShares,
    limit_bytes: u64,
}

impl Pricer {
    /// Loads the profile `name`; `here` tells the tiers of nodes.
    ///
    /// # Errors
    /// Bad input: an unknown machine, more workers than it has, or a place that it does not have.
    pub fn new(
        name: &str,
        workers: Option<u32>,
        places: &[String],
        here: &Topology,
    ) -> Result<Pricer, Failure> {
        let machine = machine::load(name)?;
        let parts = |place: &String| {
            let list = PlaceSpec::list(place)
                .map_err(|e| Failure::input(format!("--temps {place}: {e}")))?;
            list.iter()
                .map(|one| part(one, &machine, here))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Pricer {
            places: places.iter().map(parts).collect::<Result<_, _>>()?,
            workers: machine.workers(workers).map_err(Failure::input)?,
            machine,
        })
    }

    pub fn name(&self) -> &str {
        &self.machine.name
    }

    /// Prices `work` with `tables` at the place with this index.
    ///
    /// # Errors
    /// Why the script cannot run there: its tables do not fit, or it does nothing at all.
    pub fn price(&self, work: &Work, tables: &[TempTable], place: usize) -> Result<Priced, String> {
        let shares = filled(
            &self.places[place],
            tables.iter().map(|t| t.size_bytes).sum(),
        )?;
        let dram = TierShares::all(TierKind::Dram.to_string());
        let mut placement = Placement::new(dram);
        let all: Vec<Phase> = work.make.iter().chain(&work.query).cloned().collect();
        for access in all.iter().flat_map(|phase| &phase.accesses) {
            if is_column_of(&access.structure, tables) {
                let at = (access.structure.clone(), shares.clone());
                placement.by_structure.extend([at]);
            }
        }
        let script = self.solve(&all, &placement)?;
        let script = script.ok_or("nothing of it was captured")?;
        let time_ms = |phases| {
            let solved = self.solve(phases, &placement)?;
            Ok::<f64, String>(solved.map_or(0.0, |solved| solved.time_ns / 1e6))
        };
        let tiers = script.tiers.into_iter().map(|tier| TierUse {
            tier: tier.name,
            bandwidth_gbps: tier.bandwidth_gbps,
            utilisation: tier.utilisation,
            bytes: tier.bytes,
        });
        Ok(Priced {
            make_ms: time_ms(&work.make)?,
            query_ms: time_ms(&work.query)?,
            tiers: tiers.collect(),
        })
    }

    /// The solution of `phases`; `None` if they do nothing.
    fn solve(
        &self,
        phases: &[Phase],
        placement: &Placement,
    ) -> Result<Option<QuerySolution>, String> {
        if phases.iter().all(Phase::is_idle) {
            return Ok(None);
        }
        let options = Options::default();
        let solved = solve_all(&self.machine, phases, placement, self.workers, &options);
        solved.map(Some).map_err(|e| e.to_string())
    }
}

/// What one place means on `machine`: nodes are tiers of their kind here, the pool is CXL.
fn part(place: &PlaceSpec, machine: &Machine, here: &Topology) -> Result<Part, Failure> {
    let spec = match &place.target {
        PlaceTarget::Pool => PlacementSpec::Bind(Target::Tier(TierKind::Cxl)),
        PlaceTarget::Placement(spec) => by_tier(spec, here),
    };
    Ok(Part {
        shares: tier_shares(&spec, machine)
            .map_err(|e| Failure::input(format!("--temps {place}: {e}")))?,
        limit_bytes: place.limit_bytes.unwrap_or(u64::MAX),
    })
}

/// The placement with tiers for the nodes of this machine.
fn by_tier(spec: &PlacementSpec, here: &Topology) -> PlacementSpec {
    let tier = |target: Target| match target {
        Target::Node(node) => here.tier_of(node).map_or(target, Target::Tier),
        tier => tier,
    };
    match spec {
        PlacementSpec::Default => PlacementSpec::Default,
        PlacementSpec::Bind(target) => PlacementSpec::Bind(tier(*target)),
        PlacementSpec::Weighted(parts) => {
            PlacementSpec::Weighted(parts.iter().map(|(t, w)| (tier(*t), *w)).collect())
        }
        PlacementSpec::Partitioned(parts) => {
            PlacementSpec::Partitioned(parts.iter().map(|(t, s)| (tier(*t), *s)).collect())
        }
    }
}

/// Shares of the tiers if `bytes` fill the parts of a place one after the other.
fn filled(place: &[Part], bytes: u64) -> Result<TierShares, String> {
    let mut by_tier: BTreeMap<String, f64> = BTreeMap::new();
    // Tables without rows are where the first of them would be.
    let (mut left, mut limits) = (bytes.max(1), 0_u64);
    for part in place {
        let here = left.min(part.limit_bytes);
        left -= here;
        limits = limits.saturating_add(part.limit_bytes);
        for TierShare { tier, share } in Vec::from(part.shares.clone()) {
            *by_tier.entry(tier).or_default() += share * here as f64;
        }
    }
    if left > 0 {
        return Err(format!(
            "limit reached: its tables take {}, and {} are allowed",
            Bytes(bytes).rounded(),
            Bytes(limits).rounded()
        ));
    }
    let weights: Vec<(&str, f64)> = by_tier.iter().map(|(t, w)| (t.as_str(), *w)).collect();
    TierShares::from_weights(&weights).map_err(|e| e.to_string())
}

/// Whether a structure ("table.column") is a column of one of `tables`.
fn is_column_of(structure: &str, tables: &[TempTable]) -> bool {
    let table = structure.split_once('.').map(|(table, _)| table);
    // A name that was written in quotes has none in the catalog.
    table.is_some_and(|name| tables.iter().any(|t| t.name.trim_matches('"') == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind};

    fn here() -> Topology {
        Topology::read(&tierloom_topology::SysRoot::host()).unwrap()
    }

    fn pricer(places: &[&str]) -> Pricer {
        let places: Vec<String> = places.iter().map(|p| (*p).to_owned()).collect();
        Pricer::new("sap26-pool", None, &places, &here()).unwrap()
    }

    fn tables(size_bytes: u64) -> Vec<TempTable> {
        vec![TempTable {
            name: "t".to_owned(),
            rows: 1000,
            size_bytes,
        }]
    }

    /// A table of 100 GB that is written and read once, as one column.
    fn work() -> Work {
        let bytes = 100_000_000_000;
        let phase = |kind, structure: &str, op| {
            let access = Access::sequential_read(structure, 64.0, bytes);
            Phase::new(structure, kind, bytes as f64 / 64.0)
                .compute_ns(1.0)
                .access(access.vectorised().with_op(op))
        };
        use tierloom_model::Op::{Read, Write};
        Work {
            make: vec![phase(PhaseKind::Write, "t.a", Write)],
            query: vec![
                phase(PhaseKind::Scan, "t.a", Read),
                phase(PhaseKind::Scan, "tt.a", Read),
            ],
        }
    }

    #[test]
    fn only_temporary_tables_move_with_the_place() {
        let pricer = pricer(&["dram", "pool"]);
        let all: Vec<Priced> = (0..2)
            .map(|at| pricer.price(&work(), &tables(100_000_000_000), at).unwrap())
            .collect();
        let bytes = |priced: &Priced, tier: &str| {
            let tier = priced.tiers.iter().find(|t| t.tier == tier).unwrap();
            (tier.bytes / 1e9).round()
        };
        // Written (read for ownership, too) and read; the other table is read from DRAM.
        assert_eq!(
            (bytes(&all[0], "dram"), bytes(&all[0], "cxl")),
            (400.0, 0.0)
        );
        assert_eq!(
            (bytes(&all[1], "dram"), bytes(&all[1], "cxl")),
            (100.0, 300.0)
        );
        assert!(all[1].make_ms > 2.0 * all[0].make_ms);
        // A hundred GB through links of 40 GB/s.
        assert!(
            (2400.0..3500.0).contains(&all[1].query_ms),
            "{}",
            all[1].query_ms
        );
    }

    #[test]
    fn parts_are_filled_one_after_the_other_and_what_does_not_fit_fails() {
        let pricer = pricer(&["dram:1GiB,pool", "dram:1GiB,pool:1GiB", "dram:1MiB"]);
        let shares = |at: usize, bytes| filled(&pricer.places[at], bytes);
        let share = |shares: TierShares, tier: &str| {
            let all = Vec::from(shares);
            all.iter().find(|t| t.tier == tier).map_or(0.0, |t| t.share)
        };
        let small = shares(0, 1 << 20).unwrap();
        assert_eq!(
            (share(small.clone(), "dram"), share(small, "cxl")),
            (1.0, 0.0)
        );
        let large = shares(0, 4 << 30).unwrap();
        assert_eq!(
            (share(large.clone(), "dram"), share(large, "cxl")),
            (0.25, 0.75)
        );
        assert!(shares(1, 2 << 30).is_ok());
        let error = shares(1, (2 << 30) + 1).unwrap_err();
        assert!(error.contains("limit reached"), "{error}");
        assert!(shares(2, 0).is_ok(), "a table without rows fits everywhere");
    }

    #[test]
    fn places_that_the_machine_lacks_are_bad_input() {
        let refused = |place: &str| {
            let places = [place.to_owned()];
            let refused = Pricer::new("sap26-pool", None, &places, &here());
            match refused {
                Err(Failure::BadInput(text)) => text,
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("{place} was taken"),
            }
        };
        assert!(refused("hbm").contains("sap26-pool"));
        assert!(refused("77").contains("node 77"));
        let many = Pricer::new("sap26-pool", Some(10_000), &["dram".to_owned()], &here());
        assert!(matches!(many, Err(Failure::BadInput(_))));
    }
}
