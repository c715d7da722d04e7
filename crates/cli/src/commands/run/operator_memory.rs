//! `--operator-memory`: where the memory of operators goes, by class.

use crate::failure::Failure;
use std::path::PathBuf;
use tierloom_memory::router::{Class, PlaceSpec};
use tierloom_topology::Topology;

/// Options of commands that run queries.
#[derive(Debug, Clone, clap::Args)]
pub struct OperatorMemoryArgs {
    /// Where operator memory goes, by class (join, aggregation, sort, repartition, temp, result, other): a placement each, with a limit if
    /// wanted, as in join=cxl,aggregation=dram:2GiB; weights in brackets, as in `join=[0:3,1:1]:4GiB`. A class that is named again gets a
    /// second choice. Classes that are not named are counted and left to the kernel
    #[arg(long, value_name = "CLASS=PLACEMENT[:LIMIT],...")]
    pub operator_memory: Option<String>,
    /// Write what was counted, where the pages were at the peak of each query, and what did not go where it was wanted to FILE
    #[arg(long, value_name = "FILE.json")]
    pub memory_audit: Option<PathBuf>,
}

/// What was typed, read and checked.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "only the SQL engine has operators")
)]
pub struct OperatorMemory {
    /// As typed.
    pub text: Option<String>,
    /// Places in order, by class.
    pub places: Vec<(Class, Vec<PlaceSpec>)>,
    /// Where the audit goes.
    pub audit: Option<PathBuf>,
}

impl OperatorMemory {
    /// Reads what was typed and checks it on `topology`.
    ///
    /// # Errors
    /// Bad input: a class, placement or limit that cannot be read, or a node that is not there.
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
        if let Some(file) = &args.memory_audit {
            crate::output::check_writable(file)?;
        }
        Ok(OperatorMemory {
            text: args.operator_memory.clone(),
            places,
            audit: args.memory_audit.clone(),
        })
    }
}

/// Where the memory of one query was at its peak.
#[cfg(feature = "sql")]
#[derive(Debug, Clone, serde::Serialize)]
pub struct QueryPeak {
    /// The query.
    pub query: String,
    /// Where table data lay.
    pub placement: String,
    /// What was found.
    pub peak: tierloom_memory::router::PeakAudit,
}

#[cfg(feature = "sql")]
impl OperatorMemory {
    /// Options of an engine on the machine described by `topology`.
    pub fn routing(&self, topology: &Topology) -> tierloom_engine::routing::RoutingOptions {
        tierloom_engine::routing::RoutingOptions {
            places: self.places.clone(),
            cache_bytes: None,
            topology: Some(topology.clone()),
        }
    }

    /// Starts the audit of peaks if one was asked for. Call it when the data is loaded.
    pub fn watch(&self) {
        if self.audit.is_some() {
            tierloom_memory::router::watch_peak(true);
        }
    }

    /// The highest peak since the last call, if an audit was asked for and anything was freed: what `query` had under `placement`.
    pub fn peak_of(&self, query: &str, placement: &str) -> Option<QueryPeak> {
        self.audit.as_ref()?;
        Some(QueryPeak {
            query: query.to_owned(),
            placement: placement.to_owned(),
            peak: tierloom_memory::router::next_peak()?,
        })
    }

    /// Says on stderr what went elsewhere, and writes the audit if one was asked for: that of each query, and of all of them the highest.
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
        if self.text.is_some() {
            for event in &events {
                eprintln!(
                    "operator memory: {} of class {} ({} allocations) did not come from {} ({}) but from {}",
                    crate::output::size(event.bytes),
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
