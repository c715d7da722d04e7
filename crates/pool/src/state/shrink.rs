//! Fewer extents of a member, or none: what lies behind the new end moves to extents that are free.

use super::space::{merge, pack};
use super::{Extents, PoolState, RegionState};
use crate::PoolError;
use uuid::Uuid;

/// Extents of a region that move, in the order of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) region: u64,
    pub(crate) from: Extents,
    pub(crate) to: Extents,
}

impl PoolState {
    /// What has to move so that a member has no more than `extents`. The same for the same state.
    ///
    /// # Errors
    /// [`PoolError::UnknownMember`]; [`PoolError::Immovable`] for what a process writes or reads,
    /// or is in quarantine; [`PoolError::Full`] if the rest of the pool has no room.
    pub(crate) fn moves(
        &self,
        member: u32,
        extents: u64,
        extent_bytes: u64,
    ) -> Result<Vec<Moved>, PoolError> {
        let beyond = |run: &Extents| run.0 == member && run.end() > extents;
        if self.quarantine.iter().flat_map(|q| &q.runs).any(beyond) {
            return Err(PoolError::Immovable {
                what: "memory of a host that was fenced".to_owned(),
                next_step: "wait until the host is back, or fence it with --confirmed-down",
            });
        }
        let mut free = self.free();
        free.retain_mut(|run| {
            if run.0 == member {
                run.2 = run.2.min(extents.saturating_sub(run.1));
            }
            run.2 > 0
        });
        let free_extents: u64 = free.iter().map(|run| run.2).sum();
        let mut moves = Vec::new();
        let mut needed = 0;
        for region in self.regions.iter().filter(|r| r.runs.iter().any(beyond)) {
            if region.state != RegionState::Sealed || !region.pins.is_empty() {
                let who = match region.pins.is_empty() {
                    true => "still in use",
                    false => "being read",
                };
                return Err(PoolError::Immovable {
                    what: format!("region `{}`, {}, {who}", region.name, region.state.word()),
                    next_step: "end the processes that use it",
                });
            }
            for run in region.runs.iter().filter(|run| beyond(run)) {
                let start = run.1.max(extents);
                let mut from = Extents(run.0, start, run.end() - start);
                needed += from.2;
                for to in pack(&mut free, from.2) {
                    let part = Extents(from.0, from.1, to.2);
                    (from.1, from.2) = (from.1 + to.2, from.2 - to.2);
                    let region = region.id;
                    moves.push(Moved {
                        region,
                        from: part,
                        to,
                    });
                }
            }
        }
        if needed <= free_extents {
            return Ok(moves);
        }
        let space = self.space(extent_bytes);
        Err(PoolError::Full {
            needed_bytes: needed * extent_bytes,
            free_bytes: free_extents * extent_bytes,
            quarantined_bytes: space.quarantined_bytes,
            capacity_bytes: space.capacity_bytes,
        })
    }

    /// Makes a member smaller, with what was behind its new end where [`PoolState::moves`] says.
    pub(super) fn shrink(
        &mut self,
        member: u32,
        extents: u64,
        extent_bytes: u64,
    ) -> Result<(), PoolError> {
        let before = self.member(member)?.extents;
        let moves = self.moves(member, extents, extent_bytes)?;
        for region in &mut self.regions {
            let of_region = || moves.iter().filter(|moved| moved.region == region.id);
            if of_region().next().is_none() {
                continue;
            }
            let mut runs = Vec::new();
            for run in &region.runs {
                let stays = match run.0 == member {
                    true => run.2.min(extents.saturating_sub(run.1)),
                    false => run.2,
                };
                if stays > 0 {
                    runs.push(Extents(run.0, run.1, stays));
                }
                let inside =
                    |from: Extents| from.0 == run.0 && (run.1..run.end()).contains(&from.1);
                runs.extend(of_region().filter(|m| inside(m.from)).map(|m| m.to));
            }
            merge(&mut runs);
            region.runs = runs;
        }
        self.member(member)?.extents = before.min(extents);
        Ok(())
    }

    /// Takes a member out of the pool, with what was on it where [`PoolState::moves`] says.
    pub(super) fn remove_member(
        &mut self,
        member: Uuid,
        extent_bytes: u64,
    ) -> Result<(), PoolError> {
        let Some(index) = self.member_of(member) else {
            return Ok(());
        };
        if index == 0 {
            return Err(PoolError::FirstMember);
        }
        self.shrink(index, 0, extent_bytes)?;
        self.member(index)?.removed = true;
        Ok(())
    }
}
