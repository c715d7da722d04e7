//! The structures of a workload and where their pages are, on two tiers.

use std::collections::BTreeMap;
use tierloom_model::{ModelError, Phase, Placement, StructureClass, TierShares};

/// A structure of the workload, whose pages are all alike.
#[derive(Debug, Clone)]
pub(super) struct Structure {
    pub name: String,
    pub class: StructureClass,
    pub bytes: f64,
    /// Share of the pages on the slow tier.
    pub slow: f64,
    /// Whether it is allocated: columns always are, operator memory while its query runs.
    pub live: bool,
}

impl Structure {
    /// Whether it lives as long as a query.
    pub fn is_temporary(&self) -> bool {
        self.class != StructureClass::Column
    }
}

/// Pages to move from one tier to the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    /// Index of the structure.
    pub structure: usize,
    pub bytes: f64,
    /// To the slow tier, or to the fast one.
    pub down: bool,
}

/// All structures, and the room on the fast tier.
#[derive(Debug, Clone)]
pub(super) struct TieredMemory {
    pub structures: Vec<Structure>,
    by_name: BTreeMap<String, usize>,
    pub fast_bytes: f64,
    pub tiers: [String; 2],
}

impl TieredMemory {
    /// The structures of all queries, nothing allocated; buffers are mostly cached and left out.
    pub fn new<'a>(
        phases: impl Iterator<Item = &'a Phase>,
        fast_bytes: f64,
        tiers: [String; 2],
    ) -> Self {
        let mut memory = TieredMemory {
            structures: Vec::new(),
            by_name: BTreeMap::new(),
            fast_bytes,
            tiers,
        };
        for access in phases.flat_map(|p| &p.accesses) {
            if access.class == StructureClass::Buffer {
                continue;
            }
            let bytes = access.footprint_bytes as f64;
            match memory.by_name.get(&access.structure) {
                Some(&known) => {
                    let known = &mut memory.structures[known];
                    known.bytes = known.bytes.max(bytes);
                }
                None => {
                    let index = memory.structures.len();
                    memory.by_name.insert(access.structure.clone(), index);
                    memory.structures.push(Structure {
                        name: access.structure.clone(),
                        class: access.class,
                        bytes,
                        slow: 0.0,
                        live: false,
                    });
                }
            }
        }
        memory
    }

    /// Index of a structure; `None` for buffers.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn fast_used(&self) -> f64 {
        let live = self.structures.iter().filter(|s| s.live);
        live.map(|s| s.bytes * (1.0 - s.slow)).sum()
    }

    pub fn room(&self) -> f64 {
        (self.fast_bytes - self.fast_used()).max(0.0)
    }

    /// Allocates a structure with this share on the slow tier, or more if the fast tier is full.
    pub fn allocate(&mut self, index: usize, slow: f64) {
        let room = self.room();
        let new = &mut self.structures[index];
        let fits = (room / new.bytes.max(1.0)).min(1.0);
        new.slow = slow.max(1.0 - fits).clamp(0.0, 1.0);
        new.live = true;
    }

    /// Moves pages, at most as many as there are and as fit; returns the bytes moved.
    pub fn migrate(&mut self, migration: &Migration, most_bytes: f64) -> f64 {
        let room = self.room();
        let moved = &mut self.structures[migration.structure];
        if !moved.live || moved.bytes <= 0.0 {
            return 0.0;
        }
        let available = if migration.down {
            moved.bytes * (1.0 - moved.slow)
        } else {
            (moved.bytes * moved.slow).min(room)
        };
        let bytes = migration.bytes.min(most_bytes).min(available).max(0.0);
        let share = bytes / moved.bytes;
        let slow = moved.slow + if migration.down { share } else { -share };
        moved.slow = slow.clamp(0.0, 1.0);
        bytes
    }

    /// The present placement of a phase's structures.
    pub fn placement(&self, phase: &Phase) -> Result<Placement, ModelError> {
        let mut placement = Placement::new(TierShares::all(&self.tiers[0]));
        for access in &phase.accesses {
            if let Some(index) = self.index(&access.structure) {
                let shares = self.shares(self.structures[index].slow)?;
                placement
                    .by_structure
                    .insert(access.structure.clone(), shares);
            }
        }
        Ok(placement)
    }

    /// Shares of a structure with this part of its pages on the slow tier.
    pub fn shares(&self, slow: f64) -> Result<TierShares, ModelError> {
        let [fast_tier, slow_tier] = &self.tiers;
        TierShares::from_weights(&[(fast_tier.as_str(), 1.0 - slow), (slow_tier.as_str(), slow)])
    }
}
