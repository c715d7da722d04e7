//! Operator memory of a run: options of the engine, the peak of each query, and afterwards which
//! allocations did not get the placement they requested.

use crate::{Observer, OperatorMemory, RunError};
use tierloom_memory::router;
use tierloom_text::Bytes;
use tierloom_topology::Topology;

/// Where one query's operator memory was at its peak.
#[derive(Debug, Clone, serde::Serialize)]
pub struct QueryPeak {
    pub query: String,
    /// Placement of table data during the query.
    pub placement: String,
    pub peak: router::PeakAudit,
}

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
            router::watch_peak(true);
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
            peak: router::next_peak()?,
        })
    }

    /// Notes what was placed elsewhere, and writes the audit if one was requested: the
    /// peak of each query and the highest of them all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, queries: &[QueryPeak], observer: &dyn Observer) -> Result<(), RunError> {
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
                observer.note(&format!(
                    "operator memory: {} of class {} ({} allocations) did not come from {} ({}) but from {}",
                    Bytes(event.bytes).rounded(),
                    event.class,
                    event.count,
                    event.from,
                    event.why,
                    event.to.as_deref().unwrap_or("nowhere"),
                ));
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
        .map_err(RunError::failed)?;
        super::write_file(file, &format!("{text}\n"), observer)
    }
}
