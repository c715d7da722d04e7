//! Search for the best weights: by the model alone, or by measuring with the model as a guide.
//!
//! ```text
//!   Problem (machine, phases, what moves)
//!      ├── best ────────────> Best: weights, rate, and rates of DRAM only and kernel's weights
//!      │     └── robust ────> Range: how errors of the profile change the recommendation
//!      │           └── warnings: when not to interleave
//!      └── measured(Probe) ─> Searched: best of a few measured points, and the corrected machine
//! ```
//!
//! One set of weights applies to everything that moves, because that is what the kernel's weighted
//! interleaving and `numactl` offer. Rates are tuples per second of all phases together: the sum of
//! their tuples over the sum of their times. All rates are *modelled*, except those that a
//! [`Probe`] measured.
//!
//! # How the best weights are found
//!
//! For one phase on tiers whose latency is convex in load (exponent at least 1), the time of a
//! tuple at a given throughput is convex in the shares. So the shares that reach a throughput form
//! a convex set: the rate is quasi-concave and has a single maximum. With several phases, or
//! exponents below 1, there may be several maxima. So the search evaluates a coarse grid first,
//! climbs from its best points, and then takes the weights with the smallest sum within
//! [`SIMPLER_WITHIN`] of the maximum. A maximum that is narrower than a grid step can be missed.
//! [`exhaustive`] tries all weights instead and is the reference in the tests.
//!
//! ```
//! use tierloom_model::{Options, profiles, reference::work::{Stream, Work}, search};
//! let machine = profiles::load("nus24")?;
//! let (phases, options) = (Work::Read(Stream::default()).phases(32)?, Options::default());
//! let problem = search::Problem::new(&machine, &phases, 32, &options);
//! let best = search::best(&problem)?;
//! assert!(best.gain_over_dram() > 1.5);
//! let (weights, gain) = (&best.weights, best.gain_over_dram());
//! println!("modelled: {weights} gives {gain:.2} of the rate on DRAM only");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod best;
mod correct;
mod linear;
mod measured;
mod optimum;
mod random;
mod searched;
mod steps;
mod uncertainty;
mod weights;

pub use advice::{NOT_WORTH_IT, warnings};
pub use best::{Best, SIMPLER_WITHIN, best, curve, equal_weights, exhaustive, kernel_weights};
pub use correct::Factor;
pub use measured::{Probe, measured};
pub use random::SplitMix;
pub use searched::{MeasuredPoint, SearchError, SearchLimits, Searched, Why};
pub use uncertainty::{GainRange, interval, robust};
pub use weights::Weights;

use crate::error::ModelError;
use crate::machine::Machine;
use crate::solve::{Options, QuerySolution, solve_all};
use crate::work::{Phase, Placement, StructureClass, TierShares};

/// Structures that the weights apply to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// All structures that the phases touch.
    All,
    /// Structures with these names; the others keep the base placement.
    Structures(Vec<String>),
    /// Structures of these classes; the others keep the base placement.
    Classes(Vec<StructureClass>),
}

/// Optimisation problem: phases on a machine, and the structures to place.
///
/// All structures in [`Moved`] share one set of weights; the others are placed by `base`.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    /// Machine that the phases run on.
    pub machine: &'a Machine,
    /// Phases that run one after the other; idle ones take no time.
    pub phases: &'a [Phase],
    /// Workers of every phase, at least 1.
    pub workers: u32,
    /// Terms of the model and background load.
    pub options: &'a Options,
    /// Placement of the structures that do not move; unused for [`Moved::All`].
    pub base: Placement,
    /// Structures that the weights apply to.
    pub moved: Moved,
    /// Tiers that may be used; the first one (`dram`) holds everything if nothing is interleaved.
    pub tiers: Vec<String>,
    /// Largest weight of a tier; the kernel accepts 1 to 255.
    pub max_weight: u32,
}

/// Default of [`Problem::max_weight`]; the kernel would accept up to 255.
pub const MAX_WEIGHT: u32 = 100;

impl<'a> Problem<'a> {
    /// Problem in which everything moves over the tiers of the machine, with weights of at most
    /// [`MAX_WEIGHT`].
    ///
    /// Memory of another socket (`remote`) is left out, because it belongs to that socket's
    /// workers. Add it to `tiers` if it does not.
    pub fn new(
        machine: &'a Machine,
        phases: &'a [Phase],
        workers: u32,
        options: &'a Options,
    ) -> Self {
        let mut tiers: Vec<String> = machine.tiers.iter().map(|t| t.name.clone()).collect();
        let first = tiers.first().cloned();
        // The first tier stays in any case: without it nothing could be placed.
        tiers.retain(|t| t != "remote" || first.as_ref() == Some(t));
        let base = Placement::new(TierShares::all(tiers.first().cloned().unwrap_or_default()));
        Problem {
            machine,
            phases,
            workers,
            options,
            base,
            moved: Moved::All,
            tiers,
            max_weight: MAX_WEIGHT,
        }
    }

    /// Placement of all structures with these weights.
    ///
    /// # Errors
    /// [`ModelError::UnknownStructure`] if [`Problem::moved`] names a structure or class that no
    /// phase touches.
    pub fn placement(&self, weights: &Weights) -> Result<Placement, ModelError> {
        self.check_moved()?;
        Ok(self.place(&weights.shares()))
    }

    /// Solution of the phases with these weights.
    ///
    /// # Errors
    /// Same as [`solve_all`] and [`Problem::placement`].
    pub fn solution(&self, weights: &Weights) -> Result<QuerySolution, ModelError> {
        solve_all(
            self.machine,
            self.phases,
            &self.placement(weights)?,
            self.workers,
            self.options,
        )
    }

    /// Modelled time of all phases with these weights, ns.
    ///
    /// # Errors
    /// Same as [`Problem::solution`].
    pub fn time_ns(&self, weights: &Weights) -> Result<f64, ModelError> {
        Ok(self.solution(weights)?.time_ns)
    }

    /// Modelled rate of all phases together with these weights, tuples per second.
    ///
    /// # Errors
    /// Same as [`Problem::solution`].
    pub fn rate(&self, weights: &Weights) -> Result<f64, ModelError> {
        Ok(self.tuples() / self.time_ns(weights)? * 1e9)
    }

    /// Sum of the tuples of all phases.
    pub fn tuples(&self) -> f64 {
        self.phases.iter().map(|p| p.tuples).sum()
    }

    /// Weights with everything that moves on the first tier.
    pub fn on_first(&self) -> Result<Weights, ModelError> {
        let first = self.tiers.first().map_or("", String::as_str);
        Weights::new([(first, 1)])
    }

    /// Rejects names of tiers and structures that do not exist, which would have no effect
    /// otherwise.
    fn check(&self) -> Result<(), ModelError> {
        self.check_moved()?;
        let known = || {
            let names: Vec<&str> = self.machine.tiers.iter().map(|t| t.name.as_str()).collect();
            names.join(", ")
        };
        if let Some(tier) = self.tiers.iter().find(|t| self.machine.tier(t).is_none()) {
            return Err(ModelError::UnknownTier {
                structure: "what moves".into(),
                tier: tier.clone(),
                machine: self.machine.name.clone(),
                known: known(),
            });
        }
        let twice = (1..self.tiers.len()).any(|i| self.tiers[..i].contains(&self.tiers[i]));
        if self.tiers.is_empty() || twice || self.max_weight == 0 {
            return Err(ModelError::Weights {
                weights: format!("[{}] up to {}", self.tiers.join(", "), self.max_weight),
                reason: "a search needs at least one tier, each once, and a largest weight above 0",
            });
        }
        Ok(())
    }

    fn check_moved(&self) -> Result<(), ModelError> {
        let accesses = || self.phases.iter().flat_map(|p| &p.accesses);
        let missing = match &self.moved {
            Moved::All => None,
            Moved::Structures(names) => names
                .iter()
                .find(|name| !accesses().any(|a| a.structure == **name))
                .cloned(),
            Moved::Classes(classes) => classes
                .iter()
                .find(|class| !accesses().any(|a| a.class == **class))
                .map(|class| format!("class {class:?}")),
        };
        let Some(structure) = missing else {
            return Ok(());
        };
        let mut known: Vec<&str> = accesses().map(|a| a.structure.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        Err(ModelError::UnknownStructure {
            structure,
            known: known.join(", "),
        })
    }

    /// The base placement with these shares for what moves.
    fn place(&self, shares: &TierShares) -> Placement {
        let mut placement = self.base.clone();
        match &self.moved {
            Moved::All => return Placement::new(shares.clone()),
            Moved::Structures(names) => {
                for name in names {
                    placement.by_structure.insert(name.clone(), shares.clone());
                }
            }
            // By name, because a name takes precedence over a class: the base may name single
            // structures of the class.
            Moved::Classes(classes) => {
                let of_class = |a: &&crate::work::Access| classes.contains(&a.class);
                for access in self
                    .phases
                    .iter()
                    .flat_map(|p| &p.accesses)
                    .filter(of_class)
                {
                    placement
                        .by_structure
                        .insert(access.structure.clone(), shares.clone());
                }
            }
        }
        placement
    }

    /// Rate on another machine. `shares` has the order of `tiers` and need not sum to 1.
    fn rate_on(&self, machine: &Machine, shares: &[f64]) -> Result<f64, ModelError> {
        self.rate_of(machine, self.phases, shares)
    }

    /// The same for other phases: the inner loop of every search.
    fn rate_of(
        &self,
        machine: &Machine,
        phases: &[Phase],
        shares: &[f64],
    ) -> Result<f64, ModelError> {
        let tiers = self.tiers.iter().map(String::as_str);
        let named: Vec<(&str, f64)> = tiers.zip(shares.iter().copied()).collect();
        let placement = self.place(&TierShares::from_weights(&named)?);
        let solution = solve_all(machine, phases, &placement, self.workers, self.options)?;
        Ok(self.tuples() / solution.time_ns * 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles;
    use crate::reference::work::{Join, Work};

    fn probe() -> Vec<Phase> {
        Work::Probe(Join::default()).phases(8).unwrap()
    }

    #[test]
    fn a_misspelt_structure_does_not_go_unnoticed() {
        let (machine, phases, options) = (
            profiles::load("nus24").unwrap(),
            probe(),
            Options::default(),
        );
        let problem = Problem {
            moved: Moved::Structures(vec!["tabel".into()]),
            ..Problem::new(&machine, &phases, 8, &options)
        };
        let message = best(&problem).unwrap_err().to_string();
        assert!(
            message.contains("tabel") && message.contains("input, table"),
            "{message}"
        );
        let problem = Problem {
            tiers: vec!["dram".into(), "hbm".into()],
            ..Problem::new(&machine, &phases, 8, &options)
        };
        assert!(best(&problem).unwrap_err().to_string().contains("hbm"));
    }

    #[test]
    fn only_what_moves_is_moved_even_if_the_base_names_it() {
        let (machine, phases, options) = (
            profiles::load("nus24").unwrap(),
            probe(),
            Options::default(),
        );
        let problem = Problem {
            moved: Moved::Classes(vec![StructureClass::HashTable]),
            base: Placement::new(TierShares::all("dram"))
                .with_structure("table", TierShares::all("dram")),
            ..Problem::new(&machine, &phases, 8, &options)
        };
        let placement = problem
            .placement(&Weights::new([("cxl", 1)]).unwrap())
            .unwrap();
        let share = |i: usize| placement.shares(&phases[0].accesses[i]).share("cxl");
        assert_eq!((share(0), share(1)), (0.0, 1.0));
    }
}
