//! A table that is being written.

use serde_json::Value;
use tierloom_memory::shared::{Access, SharedRange};
use uuid::Uuid;

use super::{Inner, Pool};
use crate::PoolError;
use crate::manifest::{self, CHUNK_BYTES, Subject};
use crate::state::{Answer, Change, Clean, Extents, ManifestRef, RegionKind, Spread};
use crate::store::random_uuid;

/// A table to be written.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// Its name. A table of this name is replaced when this one is sealed.
    pub name: String,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// Most bytes of what will be said about it, as JSON and as attachment together.
    pub content_bytes: u64,
    /// Over which members.
    pub spread: Spread,
}

/// A table that is being written: the only form of it that can be.
///
/// [`Draft::seal`] makes it a table that everybody can read and nobody can change. Dropped before,
/// it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    pool: Pool,
    region: u64,
    uuid: Uuid,
    name: String,
    runs: Vec<Extents>,
    range: Option<SharedRange>,
    data_start: u64,
    data_bytes: u64,
    sealed: bool,
}

impl Pool {
    /// Takes memory for a table, and gives it out to be written.
    ///
    /// # Errors
    /// [`PoolError::Full`], [`PoolError::BadName`], a full file system, or the commit fails.
    pub fn reserve(&self, spec: &TableSpec) -> Result<Draft, PoolError> {
        let mut inner = self.inner();
        let extent = inner.extent_bytes();
        let data_start = manifest::reserved_bytes(spec.data_bytes, spec.content_bytes, extent);
        let bytes = data_start.saturating_add(spec.data_bytes);
        let uuid = random_uuid();
        let reserve = Change::Reserve {
            kind: RegionKind::Table,
            name: spec.name.clone(),
            uuid,
            extents: bytes.div_ceil(extent),
            spread: spec.spread,
        };
        let (region, runs, range) = inner.reserve(reserve)?;
        drop(inner);
        Ok(Draft {
            pool: self.clone(),
            region,
            uuid,
            name: spec.name.clone(),
            runs,
            range: Some(range),
            data_start,
            data_bytes: spec.data_bytes,
            sealed: false,
        })
    }
}

/// A table that is written and not yet visible. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Finished {
    draft: Draft,
    manifest: ManifestRef,
    clean: Clean,
}

impl Pool {
    /// Makes all of them tables, in one commit: each replaces the one of its name, and nobody ever
    /// sees some of them without the others.
    ///
    /// # Errors
    /// The commit fails: all are then gone, and tables of their names are still there.
    pub fn seal_together(&self, finished: Vec<Finished>) -> Result<(), PoolError> {
        if finished.is_empty() {
            return Ok(());
        }
        let seals = finished.iter().map(|table| Change::Seal {
            region: table.draft.region,
            manifest: table.manifest,
            clean: table.clean,
        });
        let seals = seals.collect();
        // In a statement of its own: drafts that are dropped after an error need the lock.
        let sealed = self.inner().change_all(seals);
        sealed?;
        let mut finished = finished;
        let drafts = finished.iter_mut().map(|table| &mut table.draft);
        drafts.for_each(|draft| draft.sealed = true);
        Ok(())
    }
}

impl Inner {
    /// Makes a new region and maps it for writing.
    pub(super) fn reserve(
        &mut self,
        change: Change,
    ) -> Result<(u64, Vec<Extents>, SharedRange), PoolError> {
        let (region, runs) = self.take(change)?;
        match self.map(&runs, Access::Write) {
            Ok(range) => Ok((region, runs, range)),
            Err(error) => {
                self.give_up_unmapped(region);
                Err(error)
            }
        }
    }

    /// Makes a new region, which is still to be mapped.
    pub(super) fn take(&mut self, change: Change) -> Result<(u64, Vec<Extents>), PoolError> {
        let Answer::Region(region) = self.change(change)? else {
            unreachable!("reserving makes a region");
        };
        let runs = self.state.region(region).map(|entry| entry.runs.clone());
        let (slot, incarnation) = (self.me.slot, self.me.incarnation);
        // A client that was fenced a moment after has lost it again.
        let runs = runs.ok_or(PoolError::StaleHost { slot, incarnation })?;
        Ok((region, runs))
    }

    /// Gives a region of this process back that was never mapped.
    pub(super) fn give_up_unmapped(&mut self, region: u64) {
        let clean = Some(Clean::never_mapped());
        // As below.
        let _ = self.change(Change::Return { region, clean });
    }

    /// Gives a region of this process back that was mapped as `range`.
    pub(super) fn give_up(&mut self, region: u64, range: Option<SharedRange>) {
        let clean = match &range {
            Some(range) => Some(self.clean(range)),
            None => Clean::coherent(self.superblock.coherence),
        };
        // Unmapped first: the extents may be another region's in a moment.
        drop(range);
        // An error leaves the region to the next process of this host, which clears it.
        let _ = self.change(Change::Return { region, clean });
    }
}

impl Draft {
    fn range(&mut self) -> &mut SharedRange {
        self.range
            .as_mut()
            .expect("a draft has its mapping until it is sealed or dropped")
    }

    /// The data, for writing. What is there at first is anything.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.data_start as usize, self.data_bytes as usize);
        &mut self.range().as_mut_slice()[start..start + bytes]
    }

    /// Makes it a table: it replaces the one of its name, if there is one, for every reader at
    /// once.
    ///
    /// # Errors
    /// As [`Draft::finish`] and [`Pool::seal_together`].
    pub fn seal(self, content: &Value, attachment: &[u8]) -> Result<(), PoolError> {
        let pool = self.pool.clone();
        pool.seal_together(vec![self.finish(content, attachment)?])
    }

    /// Ends the writing: what is missing is the commit that makes it a table.
    ///
    /// `content` and `attachment` say what the data are; the pool keeps them as they are. Where
    /// hosts do not share coherent caches, all is read back from memory.
    ///
    /// # Errors
    /// [`PoolError::ManifestTooLarge`] or [`PoolError::ReadBack`]: the draft is then gone.
    pub fn finish(mut self, content: &Value, attachment: &[u8]) -> Result<Finished, PoolError> {
        let chunks = manifest::chunk_checksums(self.bytes_mut());
        let pool = self.pool.clone();
        let inner = pool.inner();
        let subject = Subject {
            pool: inner.superblock.pool,
            region: self.region,
            uuid: self.uuid,
            name: &self.name,
            runs: &self.runs,
            data_start: self.data_start,
            data_bytes: self.data_bytes,
        };
        let encoded = manifest::encode(&subject, content, attachment, &chunks);
        let (bytes, reference) = encoded.map_err(|error| PoolError::ManifestDamaged {
            name: self.name.clone(),
            id: self.region,
            what: error.to_string(),
        })?;
        if bytes.len() as u64 > self.data_start {
            return Err(PoolError::ManifestTooLarge {
                name: self.name.clone(),
                bytes: bytes.len() as u64,
                reserved_bytes: self.data_start,
            });
        }
        self.range().as_mut_slice()[..bytes.len()].copy_from_slice(&bytes);
        let clean = inner.clean(self.range());
        if inner.evicts() {
            self.read_back(&bytes, &chunks)?;
        }
        drop(inner);
        Ok(Finished {
            draft: self,
            manifest: reference,
            clean,
        })
    }

    /// Compares what memory has with what was written: a write-back is no proof of arrival.
    fn read_back(&mut self, manifest: &[u8], chunks: &[u64]) -> Result<(), PoolError> {
        let whole = self.range().as_slice().starts_with(manifest);
        let found = manifest::chunk_checksums(self.bytes_mut());
        let differs = found.iter().zip(chunks).position(|(a, b)| a != b);
        match differs {
            None if whole => Ok(()),
            chunk => {
                let from = chunk.map_or(0, |chunk| chunk as u64 * CHUNK_BYTES);
                Err(PoolError::ReadBack {
                    name: self.name.clone(),
                    from,
                    to: (from + CHUNK_BYTES).min(self.data_bytes),
                })
            }
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.sealed {
            return;
        }
        let range = self.range.take();
        self.pool.inner().give_up(self.region, range);
    }
}
