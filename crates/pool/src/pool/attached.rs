//! A sealed table that is being read.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tierloom_memory::shared::{Access, SharedRange};

use super::{Inner, Pool};
use crate::PoolError;
use crate::format::checksum;
use crate::manifest::{self, CHUNK_BYTES, Manifest};
use crate::state::{Change, RegionEntry};

/// A sealed table, mapped for reading: a stray store is a fault of the processor and changes
/// nothing.
///
/// As long as it lives, its bytes stay, whatever becomes of the table. Nothing of its data is
/// believed that [`Attached::verify`] has not seen.
#[derive(Debug)]
pub struct Attached {
    name: String,
    region: u64,
    version: u64,
    manifest: Manifest,
    /// One bit per chunk that was found whole.
    verified: Vec<AtomicU64>,
    // Before the pin, so that it is unmapped when the pin is let go.
    range: SharedRange,
    pin: Pinned,
}

/// A committed pin.
#[derive(Debug)]
struct Pinned {
    pool: Pool,
    region: u64,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let region = self.region;
        // An error leaves the pin to the next process of this host, which clears it.
        let _ = self.pool.inner().change(Change::Unpin { region });
    }
}

impl Pool {
    /// Maps the table `name` for reading. Takes the same time whatever its size.
    ///
    /// # Errors
    /// [`PoolError::UnknownTable`], [`PoolError::ManifestDamaged`], or the commit fails.
    pub fn attach(&self, name: &str) -> Result<Attached, PoolError> {
        let mut inner = self.inner();
        let entry = inner.table(name)?.clone();
        let region = entry.id;
        inner.change(Change::Pin { region })?;
        let pin = Pinned {
            pool: self.clone(),
            region,
        };
        let read = inner.read_table(&entry);
        // The pin needs the lock if it is let go.
        drop(inner);
        let (range, manifest) = read?;
        let words = manifest.chunks.len().div_ceil(64);
        Ok(Attached {
            name: name.to_owned(),
            region,
            version: entry.version,
            verified: (0..words).map(|_| AtomicU64::new(0)).collect(),
            manifest,
            range,
            pin,
        })
    }
}

impl Inner {
    /// Maps a sealed region and reads its manifest.
    fn read_table(&self, entry: &RegionEntry) -> Result<(SharedRange, Manifest), PoolError> {
        let range = self.map(&entry.runs, Access::Read)?;
        if self.evicts() {
            range.evict(0..range.size_bytes());
        }
        let damaged = |what: String| PoolError::ManifestDamaged {
            name: entry.name.clone(),
            id: entry.id,
            what,
        };
        let reference = entry
            .manifest
            .ok_or_else(|| damaged("there is none".to_owned()))?;
        let pool = self.superblock.pool;
        let manifest = manifest::decode(range.as_slice(), pool, entry.uuid, reference);
        Ok((range, manifest.map_err(damaged)?))
    }
}

impl Attached {
    /// Its data. [`Attached::verify`] the part that is used before it is believed.
    pub fn bytes(&self) -> &[u8] {
        let start = self.manifest.data_start as usize;
        &self.range.as_slice()[start..start + self.manifest.data_bytes as usize]
    }

    /// What was said about the data when they were sealed.
    pub fn content(&self) -> &Value {
        &self.manifest.content
    }

    /// The attachment that was sealed with the data.
    pub fn attachment(&self) -> &[u8] {
        &self.manifest.attachment
    }

    /// How often a table of this name was sealed, this one included.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Checks that these bytes of the data are those that were sealed, in whole chunks of 2 MiB. A
    /// chunk is read once; after that it costs a look at one bit.
    ///
    /// # Errors
    /// [`PoolError::DataDamaged`], which is also noted in the pool, or [`PoolError::OutOfRange`].
    pub fn verify(&self, bytes: Range<u64>) -> Result<(), PoolError> {
        let all = self.manifest.data_bytes;
        if bytes.end > all || bytes.start > bytes.end {
            return Err(PoolError::OutOfRange {
                name: self.name.clone(),
                from: bytes.start,
                to: bytes.end,
                bytes: all,
            });
        }
        if bytes.is_empty() {
            return Ok(());
        }
        for chunk in bytes.start / CHUNK_BYTES..bytes.end.div_ceil(CHUNK_BYTES) {
            self.verify_chunk(chunk as usize)?;
        }
        Ok(())
    }

    /// Checks all data.
    ///
    /// # Errors
    /// As [`Attached::verify`].
    pub fn verify_all(&self) -> Result<(), PoolError> {
        self.verify(0..self.manifest.data_bytes)
    }

    fn verify_chunk(&self, chunk: usize) -> Result<(), PoolError> {
        let (word, bit) = (&self.verified[chunk / 64], 1 << (chunk % 64));
        if word.load(Ordering::Acquire) & bit != 0 {
            return Ok(());
        }
        let from = chunk as u64 * CHUNK_BYTES;
        let to = (from + CHUNK_BYTES).min(self.manifest.data_bytes);
        let bytes = &self.bytes()[from as usize..to as usize];
        if checksum(&[bytes]) == self.manifest.chunks[chunk] {
            word.fetch_or(bit, Ordering::Release);
            return Ok(());
        }
        // The note is for the next reader; this one has its error already.
        let region = self.region;
        let _ = self.pin.pool.inner().change(Change::Damaged { region });
        Err(PoolError::DataDamaged {
            name: self.name.clone(),
            id: self.region,
            from,
            to,
        })
    }
}
