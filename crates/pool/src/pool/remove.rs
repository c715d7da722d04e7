//! A whole member given back: what lies on it moves to the others, then it is none any more.
//!
//! ```text
//!   copy ──► commit: tables elsewhere, no member of this number ──► clear its superblocks
//! ```
//! A crash before the commit leaves the pool as it was, one after it the pool without the member,
//! which the next manager clears if it is still there.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use tierloom_memory::shared::Access;
use uuid::Uuid;

use super::shrink::{ShrinkPlan, by_table};
use super::wire::Ask;
use super::{Inner, Pool};
use crate::PoolError;
use crate::format::Coherence;
use crate::layout::{EXTENT_BYTES, SUPERBLOCK_BYTES};
use crate::medium::{LINE, MappedMedium, Medium};
use crate::member::{HEAD_BYTES, Member};
use crate::state::{Change, MemberEntry, Moved};

/// A member that is none any more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Removal {
    /// Number that it had.
    pub index: u32,
    /// Its file or device.
    pub path: PathBuf,
    /// Bytes that it had for regions.
    pub bytes: u64,
    /// What was done, in this order.
    pub steps: Vec<RemovalStep>,
    /// Why it still looks like a member, if it does.
    pub not_cleared: Option<String>,
}

/// A step of a removal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemovalStep {
    /// "copied", "committed", "cleared", or "removed by the manager".
    pub what: &'static str,
    /// The table that was copied.
    pub table: Option<String>,
    /// Bytes that were copied.
    pub bytes: u64,
    /// When it began, ms since the removal did.
    pub at_ms: f64,
    /// How long it took, ms.
    pub took_ms: f64,
}

/// The steps so far.
struct TimeLine {
    started: Instant,
    steps: Vec<RemovalStep>,
}

impl TimeLine {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            steps: Vec::new(),
        }
    }

    fn add(&mut self, what: &'static str, moved: Option<(String, u64)>, since: Instant) {
        let (table, bytes) = moved.map_or((None, 0), |(table, bytes)| (Some(table), bytes));
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let took_ms = ms(since.elapsed());
        let at_ms = ms(since.duration_since(self.started));
        match self.steps.last_mut() {
            // Parts of one table, one after the other.
            Some(last) if table.is_some() && last.table == table => {
                last.bytes += bytes;
                last.took_ms += took_ms;
            }
            _ => self.steps.push(RemovalStep {
                what,
                table,
                bytes,
                at_ms,
                took_ms,
            }),
        }
    }
}

impl Pool {
    /// What [`Pool::remove_member`] would do; nothing is changed.
    ///
    /// # Errors
    /// As [`Pool::remove_member`].
    pub fn remove_plan(&self, index: u32) -> Result<ShrinkPlan, PoolError> {
        let mut inner = self.inner();
        inner.refresh()?;
        let (_, moves) = inner.removing(index)?;
        Ok(ShrinkPlan {
            member_bytes: 0,
            moves: by_table(&inner, &moves),
        })
    }

    /// Gives a whole member back. Tables on it are copied into free extents of the others first;
    /// then one commit has all of them there and the member out of the pool, or nothing changes.
    /// After that its superblocks are cleared, and a file on one host is left empty.
    ///
    /// # Errors
    /// [`PoolError::UnknownMember`], [`PoolError::FirstMember`], [`PoolError::Immovable`],
    /// [`PoolError::Full`] if the others have no room, a full file system, or the commit fails.
    pub fn remove_member(&self, index: u32) -> Result<Removal, PoolError> {
        let started = Instant::now();
        let mut inner = self.inner();
        inner.refresh()?;
        let entry = inner.removable(index)?.clone();
        if !inner.seat.is_client() {
            return inner.remove(index);
        }
        let bytes = entry.extents * inner.extent_bytes();
        inner.ask(Ask::Remove { member: entry.uuid })?;
        let mut line = TimeLine {
            started,
            steps: Vec::new(),
        };
        line.add("removed by the manager", None, started);
        Ok(Removal {
            index,
            path: entry.path,
            bytes,
            steps: line.steps,
            not_cleared: None,
        })
    }

    /// The same for a client, which knows the member by its UUID: with that it is not another one
    /// if the request comes again.
    pub(super) fn remove_for_client(&self, member: Uuid) -> Result<(), PoolError> {
        let mut inner = self.inner();
        match inner.state.member_of(member) {
            Some(index) => inner.remove(index).map(drop),
            None => Ok(()),
        }
    }
}

impl Inner {
    /// The entry of a member that may be removed.
    fn removable(&self, index: u32) -> Result<&MemberEntry, PoolError> {
        let entry = self.state.members.get(index as usize);
        let entry = entry.filter(|entry| !entry.removed);
        let entry = entry.ok_or_else(|| self.state.unknown_member(index))?;
        match index {
            0 => Err(PoolError::FirstMember),
            _ => Ok(entry),
        }
    }

    /// The member, and what has to move.
    fn removing(&self, index: u32) -> Result<(Uuid, Vec<Moved>), PoolError> {
        let uuid = self.removable(index)?.uuid;
        let moves = self.state.moves(index, 0, self.extent_bytes())?;
        // Everything else that stands against it.
        self.changed(Change::RemoveMember { member: uuid })?;
        Ok((uuid, moves))
    }

    /// Removes a member, as the manager.
    fn remove(&mut self, index: u32) -> Result<Removal, PoolError> {
        let mut line = TimeLine::new();
        let (uuid, moves) = self.removing(index)?;
        let bytes = self.state.members[index as usize].extents * self.extent_bytes();
        let mut copied = Ok(());
        for moved in &moves {
            let since = Instant::now();
            copied = self.copy(moved);
            if copied.is_err() {
                break;
            }
            let one = by_table(self, std::slice::from_ref(moved)).pop();
            line.add("copied", one, since);
        }
        let since = Instant::now();
        let member = uuid;
        let done = copied.and_then(|()| self.change(Change::RemoveMember { member }));
        if done.is_err() {
            moves.iter().for_each(|moved| self.give_back(moved.to));
        }
        done?;
        line.add("committed", None, since);
        let since = Instant::now();
        // From here on it is removed, whatever happens.
        let taken = self.members.take(index);
        let path = taken.as_ref().map_or_else(
            || self.state.members[index as usize].path.clone(),
            |member| member.path.clone(),
        );
        let host = self.superblock.coherence == Coherence::Host;
        let cleared = taken.map_or(Ok(()), |member| clear(member, host));
        if cleared.is_ok() {
            line.add("cleared", None, since);
        }
        Ok(Removal {
            index,
            path,
            bytes,
            steps: line.steps,
            not_cleared: cleared.err().map(|error| error.to_string()),
        })
    }

    /// Clears members that a crash has left after they were removed. What is not there, or has
    /// become something else, stays as it is.
    pub(super) fn clear_removed(&self) {
        let removed = self.state.members.iter().filter(|entry| entry.removed);
        for entry in removed {
            let is_it = |member: &Member| {
                let found = member.superblock();
                found.is_ok_and(|b| b.pool == self.superblock.pool && b.member == entry.uuid)
            };
            let looked = Member::open(&entry.path, Access::Read);
            if looked.is_ok_and(|member| is_it(&member))
                && let Ok(member) = Member::open(&entry.path, Access::Write)
            {
                // The next opening tries again.
                let _ = clear(member, self.superblock.coherence == Coherence::Host);
            }
        }
    }
}

/// Clears what makes a member one, and gives the memory of a file of one host back.
fn clear(mut member: Member, host: bool) -> Result<(), PoolError> {
    let (mapped, bytes) = match member.is_device() {
        true => (EXTENT_BYTES, HEAD_BYTES),
        false => (2 * SUPERBLOCK_BYTES, 2 * SUPERBLOCK_BYTES),
    };
    erase(&MappedMedium::new(member.words(0, mapped)?, true), bytes);
    match host {
        true => member.cut(0),
        false => Ok(()),
    }
}

/// Makes the start of a member zeros, the first superblock last: as long as it is whole, the member
/// can be told from others, and is cleared again after a crash.
pub(crate) fn erase(medium: &impl Medium, bytes: u64) {
    for part in [SUPERBLOCK_BYTES..bytes, 0..SUPERBLOCK_BYTES] {
        for line in part.step_by(LINE as usize) {
            (line..line + LINE)
                .step_by(8)
                .for_each(|word| medium.store(word, 0));
            medium.flush(line);
        }
        medium.fence();
    }
}
