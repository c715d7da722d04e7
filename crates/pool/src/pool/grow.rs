//! More capacity: a longer member, or a further one.

use std::path::{Path, PathBuf};

use super::create::{entry, take, write_superblock};
use super::wire::Ask;
use super::{CreateOptions, Inner, Pool};
use crate::PoolError;
use crate::capacity::CapacitySource;
use crate::format::Superblock;
use crate::layout::MOST_EXTENTS;
use crate::member;
use crate::state::Change;
use crate::store::{random_uuid, wall_ns};

impl Pool {
    /// Makes a file member longer, to so many bytes; of a device, takes what it has meanwhile.
    ///
    /// Nothing is moved, and readers and writers go on.
    ///
    /// # Errors
    /// [`PoolError::UnknownMember`], [`PoolError::TooLarge`], a full file system, or the commit
    /// fails.
    pub fn grow_member(&self, index: u32, bytes: u64) -> Result<(), PoolError> {
        let mut inner = self.inner();
        if inner.seat.is_client() {
            return inner.ask(Ask::Grow { index, bytes }).map(drop);
        }
        // Checked before the file becomes longer.
        inner.changed(inner.grown(index, bytes))?;
        let unknown = inner.state.unknown_member(index);
        let member = inner.members.get_mut(index).ok_or(unknown)?;
        member.set_bytes(bytes)?;
        let bytes = member.bytes();
        let grow = inner.grown(index, bytes);
        inner.change(grow).map(drop)
    }

    /// Refuses what [`Pool::grow_member`] would refuse; nothing is changed.
    pub(super) fn may_grow(&self, index: u32, bytes: u64) -> Result<(), PoolError> {
        let inner = self.inner();
        inner.changed(inner.grown(index, bytes)).map(drop)
    }

    /// Adds a member: a file, which is made, or a DAX device.
    ///
    /// # Errors
    /// As [`Pool::create`], [`PoolError::TooManyMembers`], or the commit fails.
    pub fn add_member(&self, path: &Path, options: &CreateOptions) -> Result<(), PoolError> {
        let mut inner = self.inner();
        if inner.seat.is_client() {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let (file_bytes, overwrite) = (options.file_bytes, options.overwrite);
            return inner
                .ask(Ask::AddMember {
                    path,
                    file_bytes,
                    overwrite,
                })
                .map(drop);
        }
        let (mut member, new) = take(path, options)?;
        let layout = inner.superblock.layout;
        let index = inner.state.next_member();
        let extents = layout.extents(index, member.bytes());
        let uuid = random_uuid();
        let add = |path: &Path| Change::AddMember(entry(uuid, extents, path));
        let block = Superblock {
            member: uuid,
            index: u32::try_from(index).unwrap_or(u32::MAX),
            created_ns: wall_ns(),
            member_bytes: member.bytes(),
            ..inner.superblock
        };
        let ready = match extents {
            0 => Err(PoolError::TooSmall {
                bytes: member.bytes(),
                least_bytes: layout.member_bytes(index, 1),
            }),
            // Its superblock is there before the state names it.
            1..=MOST_EXTENTS => inner
                .changed(add(&member.path))
                .and_then(|_| write_superblock(&member, &block)),
            _ => Err(PoolError::TooLarge {
                extent_bytes: layout.extent_bytes,
                most_bytes: MOST_EXTENTS * layout.extent_bytes,
            }),
        };
        if let Err(error) = ready {
            if new {
                member::remove(path);
            }
            return Err(error);
        }
        member.path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let change = add(&member.path);
        // Open before the commit: from then on its extents are given out.
        inner.members.put(index, Some((uuid, member)));
        let added = inner.change(change).map(drop);
        if added.is_err() {
            inner.members.put(index, None);
        }
        added
    }
}

impl Pool {
    /// Adds all members that a source has, one commit each; returns their paths. With `overwrite`
    /// they may hold something.
    ///
    /// # Errors
    /// As [`Pool::add_member`], and the source's own. Members that were not added are given back to
    /// it; those added before stay.
    pub fn grow_from(
        &self,
        source: &mut dyn CapacitySource,
        overwrite: bool,
    ) -> Result<Vec<PathBuf>, PoolError> {
        let mut added = Vec::new();
        let mut failed = None;
        for offer in source.offers()? {
            if failed.is_none() {
                let options = CreateOptions {
                    file_bytes: offer.file_bytes.unwrap_or(0),
                    coherence: None,
                    overwrite,
                };
                match self.add_member(&offer.path, &options) {
                    Ok(()) => {
                        added.push(offer.path);
                        continue;
                    }
                    Err(error) => failed = Some(error),
                }
            }
            source.take_back(&offer.path)?;
        }
        failed.map_or(Ok(added), Err)
    }
}

impl Inner {
    fn grown(&self, index: u32, bytes: u64) -> Change {
        Change::Grow {
            member: index,
            extents: self.superblock.layout.extents(index as usize, bytes),
        }
    }
}
