//! Checks of a resolved plan: everything that can be found wrong before a page is touched.
//!
//! Memory is checked last because it reads the state of the machine, and only for plans that run
//! here.

use crate::{PlannedPlacement, RunError, SuitePlan};
use tierloom_memory::{AnonymousNuma, MemoryBackend, PlacementSpec, Target};
use tierloom_placement::{Policy, tier_shares};
use tierloom_text::Bytes;
use tierloom_topology::{NodeId, TierKind};

impl SuitePlan {
    /// Refuses a plan that cannot be carried out; the message names what was requested, what exists
    /// and what to do.
    ///
    /// # Errors
    /// Bad input.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.repeat == 0 {
            return Err(RunError::refused(
                "--repeat 0: a query must be timed at least once",
            ));
        }
        if self.model_workers == Some(0) {
            return Err(RunError::refused(
                "--model-workers 0: a machine needs at least one worker",
            ));
        }
        for machine in &self.machines {
            let workers = machine.workers(self.model_workers);
            workers.map_err(|e| RunError::refused(format!("--model-workers: {e}")))?;
        }
        if let Some(ns) = self
            .time_per_tuple_ns
            .filter(|ns| !ns.is_finite() || *ns <= 0.0)
        {
            return Err(RunError::refused(format!(
                "--time-per-tuple {ns}: expected a positive number of ns"
            )));
        }
        for (machine, placement) in self
            .machines
            .iter()
            .flat_map(|m| self.placements.iter().map(move |p| (m, p)))
        {
            if let Policy::Uniform(spec) = &placement.policy {
                tier_shares(spec, machine)?;
            }
        }
        self.check_resizes()?;
        if !self.elsewhere {
            self.check_memory()?;
        }
        Ok(())
    }

    fn check_resizes(&self) -> Result<(), RunError> {
        let Some(last) = self.resizes.last() else {
            return Ok(());
        };
        if !self.resizes.is_sorted_by(|a, b| a.at < b.at) {
            return Err(RunError::refused(
                "--resize: each time must be after the one before",
            ));
        }
        if !self.placements.iter().any(|p| p.policy == Policy::Pool) {
            return Err(RunError::refused(
                "--resize changes the pool while streams run on its tables; add --placement pool",
            ));
        }
        match self.streams {
            Some(streams) if last.at < streams.duration => Ok(()),
            _ => Err(RunError::refused(format!(
                "--resize {last}: the streams have ended by then; give a longer --duration"
            ))),
        }
    }

    /// Refuses data that does not fit under one of the measured placements, before part of it fills
    /// the machine.
    fn check_memory(&self) -> Result<(), RunError> {
        let backend = AnonymousNuma::new();
        for placement in self.measured() {
            for (node, share) in self.node_shares(placement)? {
                let needed_bytes = (self.estimated_bytes() as f64 * share) as u64;
                let capacity = backend.capacity(node, self.page_size);
                let free_bytes = match capacity? {
                    Some(capacity) => capacity.free_bytes,
                    // This backend's pages do not come out of the node's free memory.
                    None => continue,
                };
                if needed_bytes > free_bytes {
                    return Err(RunError::refused(format!(
                        "placement {} needs about {} of node {node} in {} pages, but {} are free there; {}",
                        placement.text,
                        Bytes(needed_bytes).rounded(),
                        self.page_size,
                        Bytes(free_bytes).rounded(),
                        self.how_to_fit(needed_bytes)
                    )));
                }
            }
        }
        Ok(())
    }

    /// The share of all table data on each node, for placements where it is known before the
    /// queries run.
    fn node_shares(&self, placement: &PlannedPlacement) -> Result<Vec<(NodeId, f64)>, RunError> {
        let cxl = PlacementSpec::Bind(Target::Tier(TierKind::Cxl));
        let spec = match &placement.policy {
            Policy::Uniform(spec) => spec,
            Policy::Tier => &cxl,
            // These depend on the heat of the columns, which the first pass measures.
            Policy::TopColumns(_) | Policy::Adaptive(_) => return Ok(Vec::new()),
            // A pool has its own memory.
            Policy::Pool => return Ok(Vec::new()),
        };
        Ok(spec.resolve(&self.topology)?.shares())
    }

    fn how_to_fit(&self, needed_bytes: u64) -> String {
        if !self.page_size.is_hugetlb() {
            return "use a smaller --sf, or a machine with more memory".into();
        }
        // Every column is rounded up to whole pages; a tenth more than the bytes need covers that.
        let pages = needed_bytes.div_ceil(self.page_size.bytes() as u64) * 11 / 10 + 1;
        let kib = self.page_size.bytes() / 1024;
        format!(
            "reserve {pages} more pages on the node (nr_hugepages of hugepages-{kib}kB below /sys/devices/system/node/nodeN/hugepages) or use --pages thp"
        )
    }
}
