//! A sealed table that is being read.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;
use tierloom_memory::shared::{Access, SharedRange};
use tierloom_memory::{Placing, Region};

use super::{Inner, Pool};
use crate::PoolError;
use crate::format::checksum;
use crate::manifest::{self, CHUNK_BYTES, Manifest};
use crate::member::Member;
use crate::state::{Change, RegionEntry};

/// How often a client looks for a table that others replace meanwhile.
const PIN_TRIES: u32 = 16;

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
    damaged: AtomicBool,
    /// Members that it lies on.
    members: Vec<u32>,
    placing: Placing,
    // Before the pin, so that it is unmapped when the pin is let go.
    range: Arc<SharedRange>,
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
        let entry = inner.pin(name)?;
        let region = entry.id;
        let pin = Pinned {
            pool: self.clone(),
            region,
        };
        let read = inner.read_table(&entry);
        let placing = inner.placing(&entry);
        // The pin needs the lock if it is let go.
        drop(inner);
        let (range, manifest) = read?;
        let words = manifest.chunks.len().div_ceil(64);
        Ok(Attached {
            name: name.to_owned(),
            region,
            version: entry.version,
            verified: (0..words).map(|_| AtomicU64::new(0)).collect(),
            damaged: AtomicBool::new(entry.damaged),
            members: members_of(&entry),
            placing,
            manifest,
            range: Arc::new(range),
            pin,
        })
    }
}

/// The members that a region lies on, ascending.
fn members_of(entry: &RegionEntry) -> Vec<u32> {
    let members: BTreeSet<u32> = entry.runs.iter().map(|run| run.0).collect();
    members.into_iter().collect()
}

impl Inner {
    /// Keeps the table `name`, as it is now, from being given to others.
    fn pin(&mut self, name: &str) -> Result<RegionEntry, PoolError> {
        let mut tries = 0;
        loop {
            self.refresh()?;
            let entry = self.table(name)?.clone();
            tries += 1;
            match self.change(Change::Pin { region: entry.id }) {
                Ok(_) => return Ok(entry),
                // Another process has replaced it since the state was read.
                Err(PoolError::RegionState { .. })
                    if self.seat.is_client() && tries < PIN_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What the pages of a region are, for audits.
    fn placing(&self, entry: &RegionEntry) -> Placing {
        let on = |member: &u32| self.members.get(*member);
        let is_dax = |member: &u32| on(member).is_some_and(Member::is_dax);
        let place = format!("{}", self.members.first().path.display());
        match members_of(entry).iter().any(is_dax) {
            true => Placing::Fixed { place },
            false => Placing::Pool { place },
        }
    }

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

    /// Whether bytes of it were found damaged, by whomever.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed) || self.has_lost_pages()
    }

    /// Whether pages of it were gone when they were read: they are zeroes since then, whatever was
    /// verified before.
    #[inline]
    pub fn has_lost_pages(&self) -> bool {
        self.range.has_lost_pages()
    }

    /// An error if pages of it are gone.
    ///
    /// # Errors
    /// [`PoolError::LostPages`].
    pub fn check_pages(&self) -> Result<(), PoolError> {
        match self.has_lost_pages() {
            false => Ok(()),
            true => Err(PoolError::LostPages {
                what: format!("table `{}`", self.name),
            }),
        }
    }

    /// Numbers of the members that it lies on, ascending.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Bytes of a checksum of its own: what [`Attached::verify`] reads at least.
    pub fn chunk_bytes(&self) -> u64 {
        CHUNK_BYTES
    }

    /// A part of its data as a region of placed memory, which keeps the table attached. Nothing is
    /// copied, read or verified.
    ///
    /// # Errors
    /// [`PoolError::Device`] for a part that is empty, not of whole pages or outside the data.
    pub fn region(self: &Arc<Self>, name: &str, part: Range<u64>) -> Result<Region, PoolError> {
        let start = self.manifest.data_start;
        let bytes = |offset: u64| usize::try_from(start.saturating_add(offset));
        let [from, to] = [part.start, part.end].map(|end| bytes(end).unwrap_or(usize::MAX));
        let owner = Arc::clone(self) as Arc<dyn Send + Sync>;
        let placing = self.placing.clone();
        let range = Arc::clone(&self.range);
        Ok(Region::attached(name, range, from..to, placing, owner)?)
    }

    /// Whether these bytes have been checked, all of them.
    pub fn is_verified(&self, bytes: Range<u64>) -> bool {
        let end = bytes.end.min(self.manifest.data_bytes);
        let mut chunks = bytes.start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES);
        bytes.is_empty() || chunks.all(|chunk| self.is_verified_chunk(chunk as usize))
    }

    fn is_verified_chunk(&self, chunk: usize) -> bool {
        let word = self.verified.get(chunk / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (chunk % 64)) != 0)
    }

    /// Checks that these bytes of the data are those that were sealed, in whole chunks of 2 MiB. A
    /// chunk is read once; after that it costs a look at one bit.
    ///
    /// # Errors
    /// [`PoolError::DataDamaged`], which is also noted in the pool, [`PoolError::LostPages`] or
    /// [`PoolError::OutOfRange`].
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
        self.check_pages()?;
        for chunk in bytes.start / CHUNK_BYTES..bytes.end.div_ceil(CHUNK_BYTES) {
            self.verify_chunk(chunk as usize)?;
        }
        Ok(())
    }

    /// Checks all data, with all CPUs.
    ///
    /// # Errors
    /// As [`Attached::verify`].
    pub fn verify_all(&self) -> Result<(), PoolError> {
        let bytes = self.manifest.data_bytes;
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let share = bytes.div_ceil(threads).next_multiple_of(CHUNK_BYTES);
        let check = |thread: u64| {
            let start = (thread * share).min(bytes);
            self.verify(start..(start + share).min(bytes))
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|t| scope.spawn(move || check(t)))
                .collect();
            let mut outcome = check(0);
            for other in others {
                let checked = other.join();
                let checked = checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                outcome = outcome.and(checked);
            }
            outcome
        })
    }

    fn verify_chunk(&self, chunk: usize) -> Result<(), PoolError> {
        if self.is_verified_chunk(chunk) {
            return Ok(());
        }
        let (word, bit) = (&self.verified[chunk / 64], 1 << (chunk % 64));
        let from = chunk as u64 * CHUNK_BYTES;
        let to = (from + CHUNK_BYTES).min(self.manifest.data_bytes);
        let bytes = &self.bytes()[from as usize..to as usize];
        let found = checksum(&[bytes]);
        // Lost while they were read.
        self.check_pages()?;
        if found == self.manifest.chunks[chunk] {
            word.fetch_or(bit, Ordering::Release);
            return Ok(());
        }
        // The note is for the next reader; this one has its error already.
        let region = self.region;
        if !self.damaged.swap(true, Ordering::Relaxed) {
            let _ = self.pin.pool.inner().change(Change::Damaged { region });
        }
        Err(PoolError::DataDamaged {
            name: self.name.clone(),
            id: self.region,
            from,
            to,
        })
    }
}
