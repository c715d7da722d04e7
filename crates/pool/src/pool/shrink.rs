//! Less capacity: tables move out of the end of a member, which is then cut off.

use super::wire::Ask;
use super::{Inner, Pool};
use crate::PoolError;
use crate::format::Coherence;
use crate::state::{Change, Moved};
use tierloom_memory::shared::Access;

/// What making a member smaller takes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShrinkPlan {
    /// Bytes of the member afterwards; whole extents.
    pub member_bytes: u64,
    /// Tables that move, with the bytes of each that do.
    pub moves: Vec<(String, u64)>,
}

impl Pool {
    /// What [`Pool::shrink_member`] would do; nothing is changed.
    ///
    /// # Errors
    /// As [`Pool::shrink_member`].
    pub fn shrink_plan(&self, index: u32, bytes: u64) -> Result<ShrinkPlan, PoolError> {
        let mut inner = self.inner();
        inner.refresh()?;
        let (extents, moves) = inner.shrinking(index, bytes)?;
        let layout = inner.superblock.layout;
        Ok(ShrinkPlan {
            member_bytes: layout.member_bytes(index as usize, extents),
            moves: by_table(&inner, &moves),
        })
    }

    /// Makes a member at most so many bytes long. Tables behind its new end are copied into free
    /// extents of the pool first; then one commit has all of them there, or none if anything fails
    /// before it. A device must be made smaller by the system afterwards, not before.
    ///
    /// # Errors
    /// [`PoolError::UnknownMember`], [`PoolError::TooSmall`], [`PoolError::Immovable`],
    /// [`PoolError::Full`] if the rest of the pool has no room, a full file system, or the commit
    /// fails.
    pub fn shrink_member(&self, index: u32, bytes: u64) -> Result<(), PoolError> {
        let mut inner = self.inner();
        if inner.seat.is_client() {
            return inner.ask(Ask::Shrink { index, bytes }).map(drop);
        }
        let (extents, moves) = inner.shrinking(index, bytes)?;
        let copied = moves.iter().try_for_each(|moved| inner.copy(moved));
        let shrink = Change::Shrink {
            member: index,
            extents,
        };
        let done = copied.and_then(|()| inner.change(shrink));
        if done.is_err() {
            moves.iter().for_each(|moved| inner.give_back(moved.to));
        }
        done?;
        // What a crash leaves behind the end is no part of the pool any more.
        let end = inner
            .superblock
            .layout
            .member_bytes(index as usize, extents);
        if inner.superblock.coherence == Coherence::Host
            && let Some(member) = inner.members.get_mut(index)
        {
            member.cut(end)?;
        }
        Ok(())
    }
}

/// Bytes that move, by the names of their tables.
pub(super) fn by_table(inner: &Inner, moves: &[Moved]) -> Vec<(String, u64)> {
    let mut tables: Vec<(String, u64)> = Vec::new();
    for moved in moves {
        let name = inner.state.region(moved.region).map(|r| r.name.clone());
        let bytes = moved.from.2 * inner.extent_bytes();
        match tables.last_mut() {
            Some(last) if Some(&last.0) == name.as_ref() => last.1 += bytes,
            _ => tables.push((name.unwrap_or_default(), bytes)),
        }
    }
    tables
}

impl Inner {
    /// Extents that the member would have, and what has to move.
    fn shrinking(&self, index: u32, bytes: u64) -> Result<(u64, Vec<Moved>), PoolError> {
        let layout = self.superblock.layout;
        // Names a member that does not exist, and everything else that stands against it.
        let extents = layout.extents(index as usize, bytes);
        self.changed(Change::Shrink {
            member: index,
            extents,
        })?;
        if extents == 0 {
            return Err(PoolError::TooSmall {
                bytes,
                least_bytes: layout.member_bytes(index as usize, 1),
            });
        }
        let moves = self.state.moves(index, extents, layout.extent_bytes)?;
        Ok((extents, moves))
    }

    /// Copies what moves; the bytes are in memory when it returns.
    pub(super) fn copy(&self, moved: &Moved) -> Result<(), PoolError> {
        self.allocate(&[moved.to])?;
        let from = self.map(&[moved.from], Access::Read)?;
        let mut to = self.map(&[moved.to], Access::Write)?;
        to.as_mut_slice().copy_from_slice(from.as_slice());
        let _ = self.clean(&to);
        Ok(())
    }
}
