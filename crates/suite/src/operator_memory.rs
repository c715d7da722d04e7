//! `--operator-memory`: where operators' memory is placed, by class.
//!
//! Resolves and checks the option. The routing itself is in `tierloom_memory`.

use crate::{RunError, SuiteRequest};
use std::path::PathBuf;
use tierloom_memory::router::{Class, PlaceSpec, PlaceTarget};
use tierloom_topology::Topology;

/// The options, parsed and checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OperatorMemory {
    /// The argument as given.
    pub text: Option<String>,
    /// Placements in order of preference, by class.
    pub places: Vec<(Class, Vec<PlaceSpec>)>,
    /// File for the audit.
    pub audit: Option<PathBuf>,
}

impl OperatorMemory {
    /// Parses the options and checks them against `topology`.
    ///
    /// # Errors
    /// Bad input: a class, placement or limit that cannot be parsed, or a node that does not exist.
    pub(crate) fn resolve(args: &SuiteRequest, topology: &Topology) -> Result<Self, RunError> {
        let wrong = |problem: String| RunError::refused(format!("--operator-memory: {problem}"));
        let places = match &args.operator_memory {
            Some(text) => PlaceSpec::by_class(text).map_err(|e| wrong(e.to_string()))?,
            None => Vec::new(),
        };
        for place in places.iter().flat_map(|(_, places)| places) {
            place.resolve(topology).map_err(|e| wrong(e.to_string()))?;
            if place.target == PlaceTarget::Pool && !args.has_pool {
                return Err(wrong("no pool is open; name one with --pool".to_owned()));
            }
        }
        Ok(OperatorMemory {
            text: args.operator_memory.clone(),
            places,
            audit: args.memory_audit.clone(),
        })
    }
}
