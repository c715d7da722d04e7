//! `--operator-memory`: where operators' memory is placed, by class.
//!
//! Resolves and checks the option, turns it into options of the engine, and reports afterwards
//! which allocations did not get the placement they requested. The routing itself is in
//! `tierloom_memory`.

use crate::failure::Failure;
use std::path::PathBuf;
use tierloom_memory::router::{Class, PlaceSpec};
use tierloom_topology::Topology;

/// Operator memory options of commands that run queries
#[derive(Debug, Clone, clap::Args)]
pub struct OperatorMemoryArgs {
    /// Where operator memory is placed, by class (join, aggregation, sort, repartition, temp,
    /// result, other): one placement per class, optionally with a limit, as in
    /// join=cxl,aggregation=dram:2GiB; weights in brackets, as in `join=[0:3,1:1]:4GiB`. Naming a
    /// class again adds a fallback. Classes not named are counted and left to the kernel
    #[arg(long, value_name = "CLASS=PLACEMENT[:LIMIT],...")]
    pub operator_memory: Option<String>,
    /// Write memory use by class, the nodes of the pages at each query's peak, and allocations that
    /// missed their requested placement to FILE
    #[arg(long, value_name = "FILE.json")]
    pub memory_audit: Option<PathBuf>,
}

/// The options, parsed and checked.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "only the SQL engine has operators")
)]
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
    pub fn resolve(args: &OperatorMemoryArgs, topology: &Topology) -> Result<Self, Failure> {
        let wrong = |problem: String| Failure::input(format!("--operator-memory: {problem}"));
        let places = match &args.operator_memory {
            Some(text) => PlaceSpec::by_class(text).map_err(|e| wrong(e.to_string()))?,
            None => Vec::new(),
        };
        for place in places.iter().flat_map(|(_, places)| places) {
            let resolved = place.placement.resolve(topology);
            resolved.map_err(|e| wrong(e.to_string()))?;
        }
        Ok(OperatorMemory {
            text: args.operator_memory.clone(),
            places,
            audit: args.memory_audit.clone(),
        })
    }
}

/// Where one query's operator memory was at its peak.
#[cfg(feature = "sql")]
#[derive(Debug, Clone, serde::Serialize)]
pub struct QueryPeak {
    pub query: String,
    /// Placement of table data during the query.
    pub placement: String,
    pub peak: tierloom_memory::router::PeakAudit,
}

#[cfg(feature = "sql")]
impl OperatorMemory {
    /// Engine options that route operator memory on the machine described by `topology`.
    pub fn routing(&self, topology: &Topology) -> tierloom_engine::routing::RoutingOptions {
        tierloom_engine::routing::RoutingOptions {
            places: self.places.clone(),
            cache_bytes: None,
            topology: Some(topology.clone()),
        }
    }

    /// Starts the audit of peaks if one was requested. Call it once the data is loaded, so that
    /// loading is not part of a peak.
    pub fn watch(&self) {
        if self.audit.is_some() {
            tierloom_memory::router::watch_peak(true);
        }
    }

    /// The highest peak since the last call, attributed to `query` under `placement`.
    ///
    /// `None` if no audit was requested or nothing was freed.
    pub fn peak_of(&self, query: &str, placement: &str) -> Option<QueryPeak> {
        self.audit.as_ref()?;
        Some(QueryPeak {
            query: query.to_owned(),
            placement: placement.to_owned(),
            peak: tierloom_memory::router::next_peak()?,
        })
    }

    /// Reports on stderr what was placed elsewhere, and writes the audit if one was requested: the
    /// peak of each query and the highest of them all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, queries: &[QueryPeak]) -> Result<(), Failure> {
        use tierloom_memory::router;
        let last = router::peak_audit();
        let highest = queries
            .iter()
            .map(|query| &query.peak)
            .chain(&last)
            .max_by_key(|peak| peak.accounted_bytes);
        let events = router::events();
        // Without a requested placement nothing was missed, and the audit file still lists the
        // events.
        if self.text.is_some() {
            for event in &events {
                note!(
                    "operator memory: {} of class {} ({} allocations) did not come from {} ({}) but from {}",
                    tierloom_text::Bytes(event.bytes).rounded(),
                    event.class,
                    event.count,
                    event.from,
                    event.why,
                    event.to.as_deref().unwrap_or("nowhere"),
                );
            }
        }
        let Some(file) = &self.audit else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(&serde_json::json!({
            "operator_memory": self.text,
            "places": router::place_usage(),
            "events": events,
            "peak": highest,
            "queries": queries,
        }))
        .map_err(Failure::runtime)?;
        crate::output::write_file(file, format!("{text}\n").as_bytes())
    }
}
