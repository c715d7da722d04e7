//! The controller's other levers: hardware prefetchers and the placement of operator memory.
//!
//! Both are set per query from the decisions of all its phases, because neither can change while a
//! query runs. The number of workers is set on the plan itself, in [`super::prepared`].

use crate::EngineError;
use crate::routing::{self, PlaceSpec, RoutingOptions};
use std::collections::BTreeMap;
use std::fmt;
use tierloom_memory::router::{Class, PlaceTarget};
use tierloom_model::search::Weights;
use tierloom_model::{Access, Machine, ModelError, Options, Phase, StructureClass, solve};
use tierloom_placement::adaptive::{PhaseDecision, Prefetching};

use super::tiers::Tiers;

/// Switches the hardware prefetchers of all cores.
///
/// An implementation restores the initial setting when it is dropped, and should do so after a
/// crash too. The driver turns the prefetchers on again after every query.
pub trait PrefetchSwitch: Send + fmt::Debug {
    /// Turns the prefetchers on (the machine's own setting) or off.
    ///
    /// # Errors
    /// The reason of the refusal and the next step for the user, as text.
    fn set(&self, on: bool) -> Result<(), String>;
}

/// The switch, and the machine profiles measured with prefetchers on and off.
#[derive(Debug)]
pub(super) struct PrefetchLever {
    pub profiles: Prefetching,
    pub switch: Box<dyn PrefetchSwitch>,
}

impl PrefetchLever {
    /// Whether the query as a whole gains at least `min_gain` with prefetchers off.
    ///
    /// The switch is per query, so the modelled times of all phases are summed.
    pub fn off_pays(
        &self,
        phases: &[Phase],
        decisions: &[PhaseDecision],
        workers: u32,
        min_gain: f64,
    ) -> Result<bool, ModelError> {
        let total = |machine: &Machine| -> Result<f64, ModelError> {
            let first = machine.tiers.first().map_or("dram", |t| t.name.as_str());
            let mut sum = 0.0;
            for (phase, decision) in phases.iter().zip(decisions) {
                if !phase.is_idle() {
                    let placement = decision.layout.placement(first);
                    let solved = solve(machine, phase, &placement, workers, &Options::default())?;
                    sum += solved.time_ns;
                }
            }
            Ok(sum)
        };
        Ok(total(&self.profiles.on)? >= total(&self.profiles.off)? * (1.0 + min_gain))
    }
}

/// Placement of operator memory by class, per query.
#[derive(Debug, Default)]
pub(super) struct Operators {
    /// The user's routing; `None` if operator memory is not routed.
    base: Option<RoutingOptions>,
    /// Classes whose placement differs from the user's because a decision says so.
    placed: BTreeMap<Class, Weights>,
}

impl Operators {
    pub fn new(base: Option<RoutingOptions>) -> Self {
        Operators {
            base,
            placed: BTreeMap::new(),
        }
    }

    /// Places every class whose phases claim weights other than `home`.
    ///
    /// If phases disagree on a class, the one with the longest expected time decides. Classes that
    /// the user placed are left alone.
    pub fn place(
        &mut self,
        phases: &[Phase],
        decisions: &[PhaseDecision],
        tiers: &Tiers,
        home: &Weights,
    ) -> Result<(), EngineError> {
        let mut wanted: BTreeMap<Class, (f64, &Weights)> = BTreeMap::new();
        for (phase, decision) in phases.iter().zip(decisions) {
            for class in phase.accesses.iter().filter_map(class_of) {
                let longest = wanted.entry(class).or_insert((0.0, home));
                if decision.expected_ns > longest.0 {
                    *longest = (decision.expected_ns, &decision.layout.operators);
                }
            }
        }
        wanted.retain(|class, (_, weights)| *weights != home && !self.is_named(*class));
        let wanted: BTreeMap<Class, Weights> = wanted
            .into_iter()
            .map(|(c, (_, w))| (c, w.clone()))
            .collect();
        self.apply(wanted, tiers)
    }

    /// Restores the user's routing.
    pub fn restore(&mut self, tiers: &Tiers) -> Result<(), EngineError> {
        self.apply(BTreeMap::new(), tiers)
    }

    fn apply(
        &mut self,
        wanted: BTreeMap<Class, Weights>,
        tiers: &Tiers,
    ) -> Result<(), EngineError> {
        let Some(base) = &self.base else {
            return Ok(());
        };
        // Routing is process-wide, so it is only configured again on a change.
        if wanted == self.placed {
            return Ok(());
        }
        let mut routing = base.clone();
        for (class, weights) in &wanted {
            let place = PlaceSpec {
                // The size of operator memory is unknown before use; `u64::MAX` allows rounds of
                // any length.
                target: PlaceTarget::Placement(tiers.spec(weights, u64::MAX)),
                limit_bytes: None,
            };
            routing.places.retain(|(known, _)| known != class);
            routing.places.push((*class, vec![place]));
        }
        routing
            .topology
            .get_or_insert_with(|| tiers.topology().clone());
        routing::start(&routing)?;
        self.placed = wanted;
        Ok(())
    }

    /// Whether all operator classes of a phase are placed as its decision requires.
    pub fn follow(&self, phase: &Phase, wanted: &Weights, home: &Weights) -> bool {
        let mut classes = phase.accesses.iter().filter_map(class_of);
        classes.all(|class| {
            let there = self.placed.get(&class).unwrap_or(home);
            there == wanted && !(self.is_named(class) && wanted != home)
        })
    }

    /// Whether the user placed this class explicitly.
    fn is_named(&self, class: Class) -> bool {
        let named = |base: &RoutingOptions| {
            let mut places = base.places.iter();
            places.any(|(known, places)| *known == class && !places.is_empty())
        };
        self.base.as_ref().is_some_and(named)
    }
}

/// The memory class of the operator that allocates a structure; `None` for columns.
fn class_of(access: &Access) -> Option<Class> {
    match access.class {
        // The star operator allocates its lookup tables together with its groups.
        StructureClass::HashTable if access.structure.starts_with("lookup(") => {
            Some(Class::Aggregation)
        }
        StructureClass::HashTable => Some(Class::JoinBuild),
        StructureClass::GroupTable => Some(Class::Aggregation),
        StructureClass::SortRun => Some(Class::SortRun),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_memory::{FakeNode, fake_topology};
    use tierloom_model::{PhaseKind, profiles};
    use tierloom_placement::adaptive::{Controller, Layout, Settings};

    fn tiers() -> Tiers {
        let node = |node, cpus| FakeNode {
            node,
            cpus,
            memory_bytes: 1 << 30,
        };
        let topology = fake_topology(&[node(0, 2), node(1, 0)]).unwrap();
        let machine = profiles::load("nus24").unwrap();
        Tiers::of(&machine, &topology).unwrap().0
    }

    /// A probe of a hash table, with a decision that puts operator memory on CXL.
    fn probe() -> (Phase, PhaseDecision) {
        let phase =
            Phase::new("t", PhaseKind::Probe, 1e8).access(Access::probe("hash(d)", 1.0, 1 << 34));
        let machine = profiles::load("nus24").unwrap();
        let mut controller = Controller::new(&machine, Settings::new(2)).unwrap();
        let phases = [phase.clone()];
        let decided = controller.plan("q", &phases).unwrap().remove(0);
        let layout = Layout {
            operators: "cxl 1".parse().unwrap(),
            ..Layout::on("dram").unwrap()
        };
        (phase, PhaseDecision { layout, ..decided })
    }

    #[test]
    fn memory_that_is_not_routed_or_that_the_user_placed_stays_and_is_known_to() {
        let home: Weights = "dram 1".parse().unwrap();
        let cxl: Weights = "cxl 1".parse().unwrap();
        let (phase, decision) = probe();
        let users = RoutingOptions {
            places: vec![(
                Class::JoinBuild,
                vec![PlaceSpec {
                    target: PlaceTarget::Placement("dram".parse().unwrap()),
                    limit_bytes: None,
                }],
            )],
            ..RoutingOptions::default()
        };
        for base in [None, Some(users)] {
            let mut operators = Operators::new(base);
            let (phases, decisions) = ([phase.clone()], [decision.clone()]);
            operators
                .place(&phases, &decisions, &tiers(), &home)
                .unwrap();
            assert!(!operators.follow(&phase, &cxl, &home));
            assert!(operators.follow(&phase, &home, &home));
        }
    }

    #[test]
    fn a_router_that_cannot_place_is_an_error_and_nothing_counts_as_placed() {
        let home: Weights = "dram 1".parse().unwrap();
        let cxl: Weights = "cxl 1".parse().unwrap();
        let (phase, decision) = probe();
        // The allocator of the test binary is not the router, so routing cannot start.
        let mut operators = Operators::new(Some(RoutingOptions::default()));
        let placed = operators.place(std::slice::from_ref(&phase), &[decision], &tiers(), &home);
        assert!(placed.is_err());
        assert!(!operators.follow(&phase, &cxl, &home));
        operators.restore(&tiers()).unwrap();
    }
}
