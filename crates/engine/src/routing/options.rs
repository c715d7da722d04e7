//! Options of memory routing, and their resolution to nodes.
//!
//! Tiers and weights are resolved here, once per engine; the router itself only knows nodes. A
//! last-resort place is added where not all nodes are named.

use crate::EngineError;
use tierloom_memory::router::{
    self, Class, Overflow, PlaceMemory, PlaceOptions, PlaceSpec, RouterError, RouterOptions,
};
use tierloom_memory::{Placement, PlacementError};
use tierloom_topology::{SysRoot, Topology};

/// Placement of operator memory by class.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RoutingOptions {
    /// Places by class, in order of preference.
    ///
    /// A class that is not listed is counted and left to the kernel. When the last place of a class
    /// is full, all other nodes with memory are tried, unless all are listed.
    pub places: Vec<(Class, Vec<PlaceSpec>)>,
    /// Bytes of freed memory that each place of a class keeps for reuse.
    ///
    /// `None` for the router's default.
    pub cache_bytes: Option<u64>,
    /// Topology that tiers are resolved on; `None` for this machine's.
    pub topology: Option<Topology>,
}

impl RoutingOptions {
    /// Whether any class has an explicit place.
    pub fn places_anything(&self) -> bool {
        self.places.iter().any(|(_, places)| !places.is_empty())
    }

    /// Resolves to the router's options on `topology`.
    fn resolve(&self, topology: &Topology) -> Result<RouterOptions, PlacementError> {
        let mut places = Vec::new();
        for (class, specs) in &self.places {
            let mut resolved = specs
                .iter()
                .map(|spec| spec.resolve(topology))
                .collect::<Result<Vec<_>, _>>()?;
            // A last resort: a query on another tier is better than one that fails.
            if resolved.len() < router::MAX_PLACES {
                resolved.extend(others(&resolved, topology)?);
            }
            places.push((*class, resolved));
        }
        Ok(RouterOptions {
            places,
            overflow: Overflow::Signal,
            cache_bytes: self.cache_bytes,
        })
    }
}

/// A last-resort place on all nodes not listed yet, with equal weights.
fn others(
    named: &[PlaceOptions],
    topology: &Topology,
) -> Result<Option<PlaceOptions>, PlacementError> {
    let placements: Vec<&Placement> = named
        .iter()
        .filter_map(|place| match &place.memory {
            PlaceMemory::Nodes(placement) => Some(placement),
            PlaceMemory::Pool => None,
        })
        .collect();
    let used: Vec<_> = placements.iter().flat_map(|p| p.nodes()).collect();
    // A place left to the kernel may already use any node.
    let anywhere = placements.iter().any(|p| p.nodes().is_empty());
    let rest: Vec<_> = topology
        .memory_nodes()
        .into_iter()
        .filter(|node| !used.contains(node) && topology.limits.mems_allowed.contains(node.0))
        .collect();
    if named.is_empty() || anywhere || rest.is_empty() {
        return Ok(None);
    }
    let tier = rest
        .first()
        .and_then(|node| topology.tiers.iter().find(|t| t.nodes.contains(node)));
    let name = match (tier, rest.as_slice()) {
        (Some(tier), _) if tier.nodes.iter().all(|n| rest.contains(n)) => tier.kind.to_string(),
        (_, [node]) => node.to_string(),
        _ => "other nodes".to_owned(),
    };
    Ok(Some(PlaceOptions {
        name,
        memory: PlaceMemory::Nodes(Placement::weighted(
            rest.into_iter().map(|node| (node, 1)).collect(),
        )?),
        limit_bytes: u64::MAX,
    }))
}

/// Configures the process-wide router; returns whether memory is routed from now on.
///
/// Without a `TierAllocator` memory cannot be routed. That is an error only if places were
/// requested.
pub fn start(options: &RoutingOptions) -> Result<bool, EngineError> {
    let resolved = if options.places_anything() {
        let read;
        let topology = match &options.topology {
            Some(topology) => topology,
            None => {
                read = Topology::read(&SysRoot::host()).map_err(|e| EngineError::Routing {
                    problem: format!("cannot read this machine's memory nodes: {e}"),
                })?;
                &read
            }
        };
        options.resolve(topology)?
    } else {
        RouterOptions {
            cache_bytes: options.cache_bytes,
            ..RouterOptions::default()
        }
    };
    // Before memory is routed, so that no task starts without its class.
    super::tracer::install();
    match router::configure(&resolved) {
        Ok(()) => Ok(true),
        Err(RouterError::NotInstalled | RouterError::Reserve { .. })
            if !options.places_anything() =>
        {
            Ok(false)
        }
        Err(error) => Err(EngineError::Routing {
            problem: error.to_string(),
        }),
    }
}
