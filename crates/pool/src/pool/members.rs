//! The open members of a pool, by number.

use super::Inner;
use crate::PoolError;
use crate::member::Member;
use crate::state::PoolState;
use uuid::Uuid;

/// The first member, and the others. The number of one that was removed has none until another one
/// gets it.
#[derive(Debug)]
pub(crate) struct Members {
    first: Member,
    further: Vec<Option<(Uuid, Member)>>,
}

impl Members {
    pub(super) fn new(first: Member, further: Vec<Option<(Uuid, Member)>>) -> Self {
        Self { first, further }
    }

    /// The one with the metadata.
    pub(super) fn first(&self) -> &Member {
        &self.first
    }

    pub(super) fn get(&self, index: u32) -> Option<&Member> {
        match index.checked_sub(1) {
            None => Some(&self.first),
            Some(at) => {
                let found = self.further.get(at as usize)?;
                found.as_ref().map(|(_, member)| member)
            }
        }
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Member> {
        match index.checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => {
                let found = self.further.get_mut(at as usize)?;
                found.as_mut().map(|(_, member)| member)
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        let further = self.further.iter().flatten().map(|(_, member)| member);
        std::iter::once(&self.first).chain(further)
    }

    /// Gives a number to a member.
    pub(super) fn put(&mut self, index: usize, member: Option<(Uuid, Member)>) {
        let Some(at) = index.checked_sub(1) else {
            return;
        };
        if self.further.len() <= at {
            self.further.resize_with(at + 1, || None);
        }
        self.further[at] = member;
    }

    /// Takes a member out; its number has none then.
    pub(super) fn take(&mut self, index: u32) -> Option<Member> {
        let at = index.checked_sub(1)?;
        let taken = self.further.get_mut(at as usize)?.take();
        taken.map(|(_, member)| member)
    }

    pub(super) fn uuid(&self, index: usize) -> Option<Uuid> {
        let found = self.further.get(index.checked_sub(1)?)?;
        found.as_ref().map(|(uuid, _)| *uuid)
    }
}

impl Inner {
    /// The member of a number.
    ///
    /// # Errors
    /// [`PoolError::UnknownMember`].
    pub(super) fn member(&self, index: u32) -> Result<&Member, PoolError> {
        let member = self.members.get(index);
        member.ok_or_else(|| self.state.unknown_member(index))
    }
}

impl PoolState {
    /// That there is no such member.
    pub(crate) fn unknown_member(&self, index: u32) -> PoolError {
        let there = (0_u32..)
            .zip(&self.members)
            .filter(|(_, entry)| !entry.removed);
        let there: Vec<String> = there.map(|(index, _)| index.to_string()).collect();
        PoolError::UnknownMember {
            member: index.to_string(),
            existing: match there.len() {
                1 => "only member 0".to_owned(),
                _ => format!("members {}", there.join(", ")),
            },
        }
    }
}
