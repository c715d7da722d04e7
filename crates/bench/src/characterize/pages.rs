//! Migration speed: how fast `move_pages` moves pages between two nodes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tierloom_memory::{
    AnonymousNuma, MemoryError, MigrationOptions, PageSize, Placement, Region, RegionOptions,
};
use tierloom_record::Spread;
use tierloom_topology::NodeId;

use super::{CharacterizeOptions, Probe};
use crate::run::{BenchError, Host};

/// Bytes that one migration moves; one kernel thread copies all of them.
const MOVED_BYTES: usize = 64 << 20;
/// Number of timed migrations per pair of nodes, each of a fresh region.
const REPEAT: usize = 3;

/// A migration from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MigrationPath {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) page_size: PageSize,
}

/// All migrations between two different nodes that probes access.
pub(super) fn moves(
    _host: &Host,
    options: &CharacterizeOptions,
    probes: &[Probe],
) -> Vec<MigrationPath> {
    let mut nodes: Vec<u32> = probes
        .iter()
        .flat_map(|probe| probe.path.targets.clone())
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let page_size = options.page_size.unwrap_or(PageSize::Base);
    nodes
        .iter()
        .flat_map(|from| nodes.iter().map(move |to| (*from, *to)))
        .filter(|(from, to)| from != to)
        .map(|(from, to)| MigrationPath {
            from,
            to,
            page_size,
        })
        .collect()
}

impl MigrationPath {
    pub(super) fn words(&self) -> String {
        format!("migration from node {} to node {}", self.from, self.to)
    }

    /// Rates of repeated migrations, GB/s.
    pub(super) fn measure(&self, host: &Host) -> Result<Option<Spread>, BenchError> {
        let mut rates = Vec::new();
        for _ in 0..REPEAT {
            rates.push(self.once(host).map_err(|error| {
                BenchError::memory(&format!("characterize: {}", self.words()), error)
            })?);
        }
        Ok(Spread::of(rates))
    }

    fn once(&self, host: &Host) -> Result<f64, MemoryError> {
        // A fresh region each time, so that every migration starts from the same state.
        let options = RegionOptions {
            page_size: self.page_size,
            ..RegionOptions::new(
                "migration",
                self.page_size.round_up(MOVED_BYTES),
                Placement::bind(NodeId(self.from)),
            )
        };
        let region = Region::create(Arc::new(AnonymousNuma::new()), &host.topology, options)?;
        let to = Placement::bind(NodeId(self.to));
        let mut migration = region.migrate(&to, &host.topology, MigrationOptions::default())?;
        let start = Instant::now();
        migration.run_to_end(&AtomicBool::new(false))?;
        let seconds = start.elapsed().as_secs_f64().max(1e-9);
        Ok(region.size_bytes() as f64 / seconds / 1e9)
    }
}
