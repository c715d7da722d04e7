//! How changes are made: by this process as the manager, or by the manager on request.

use super::link::Client;
use super::wire::Ask;
use super::{Inner, place};
use crate::PoolError;
use crate::state::{Actor, Answer, Change, Extents, PoolState};
use crate::store::Tenure;

/// Who commits.
#[derive(Debug)]
pub(super) enum Seat {
    /// This process.
    Manager(Tenure),
    /// The manager, which this process asks.
    Client(Client),
}

impl Seat {
    pub(super) fn is_client(&self) -> bool {
        matches!(self, Self::Client(_))
    }
}

impl Inner {
    /// Makes a change.
    pub(super) fn change(&mut self, change: Change) -> Result<Answer, PoolError> {
        self.change_all(vec![change])
    }

    /// Makes several changes in one commit; returns what came of the last one.
    pub(super) fn change_all(&mut self, changes: Vec<Change>) -> Result<Answer, PoolError> {
        if self.seat.is_client() {
            return self.ask(Ask::Change { changes });
        }
        self.change_for(self.actor(), changes)
    }

    /// This process, as the manager.
    fn actor(&self) -> Actor {
        Actor {
            holder: self.me,
            request: 0,
        }
    }

    /// Makes changes for a process, as the manager. Extents that it may write to from now on have
    /// their blocks before the commit, so that a full file system is an error here.
    pub(super) fn change_for(
        &mut self,
        actor: Actor,
        changes: Vec<Change>,
    ) -> Result<Answer, PoolError> {
        if let Some(answer) = self.state.repeated(actor)? {
            return Ok(answer);
        }
        let made = self.try_change_for(actor, changes.clone());
        match made {
            // What dead clients had may suffice.
            Err(PoolError::Full { .. }) if !self.clear_gone()?.is_empty() => {
                self.try_change_for(actor, changes)
            }
            made => made,
        }
    }

    fn try_change_for(&mut self, actor: Actor, changes: Vec<Change>) -> Result<Answer, PoolError> {
        let mut next = self.state.clone();
        let answer = next.apply(actor, changes, self.extent_bytes())?;
        let given = self.given(&next);
        let committed = self.allocate(&given).and_then(|()| self.commit(next));
        if committed.is_err() {
            given.iter().for_each(|run| self.give_back(*run));
        }
        committed.map(|()| answer)
    }

    /// Extents that regions which can be written get with the next state.
    fn given(&self, next: &PoolState) -> Vec<Extents> {
        let owned = next.regions.iter().filter(|region| region.owner.is_some());
        let given = owned.flat_map(|region| {
            let before = self.state.region(region.id).map_or(0, |r| r.runs.len());
            region.runs.iter().skip(before).copied()
        });
        given.collect()
    }

    /// The state after a change, which is not made.
    pub(super) fn changed(&self, change: Change) -> Result<PoolState, PoolError> {
        let mut next = self.state.clone();
        next.apply(self.actor(), [change], self.extent_bytes())?;
        Ok(next)
    }

    /// Makes `next` the state, as the manager.
    pub(super) fn commit(&mut self, next: PoolState) -> Result<(), PoolError> {
        let place = place(&self.superblock, self.members.first());
        let Seat::Manager(tenure) = &mut self.seat else {
            unreachable!("a client has no way to the commit: it asks");
        };
        let next = tenure.commit(&place, &self.medium, &self.state, next)?;
        self.check_metadata()?;
        let before = std::mem::replace(&mut self.state, next);
        // Only now: nobody can find them any more. What a crash leaves is for the next opening.
        let freed = before.runs().flat_map(|run| self.state.free_of(run));
        freed.for_each(|run| self.give_back(run));
        Ok(())
    }

    /// Reads the newest state, where others make it.
    pub(super) fn refresh(&mut self) -> Result<(), PoolError> {
        if !self.seat.is_client() {
            return Ok(());
        }
        let found = place(&self.superblock, self.members.first()).recover(&self.medium, false)?;
        self.check_metadata()?;
        self.state = found.state;
        self.follow_members()
    }

    /// The same for what is only shown: the newest state that could be read.
    pub(super) fn refresh_if_possible(&mut self) {
        // The next change reports what is wrong.
        let _ = self.refresh();
    }

    fn check_metadata(&self) -> Result<(), PoolError> {
        match self.medium.has_lost_pages() {
            false => Ok(()),
            true => Err(PoolError::LostPages {
                what: "the pool's own data".to_owned(),
            }),
        }
    }
}
