//! Memory of this process in the pool, gone with it.

use tierloom_memory::shared::{Access, SharedRange};

use super::{Inner, Pool};
use crate::PoolError;
use crate::member::refused;
use crate::state::{Change, RegionKind, Spread};
use crate::store::random_uuid;

/// Scratch memory to be taken.
#[derive(Debug, Clone)]
pub struct ScratchSpec {
    /// What it is for.
    pub name: String,
    /// Bytes at first; rounded up to extents.
    pub bytes: u64,
    /// How far it can grow: addresses are reserved for this.
    pub most_bytes: u64,
    /// Over which members.
    pub spread: Spread,
}

/// Memory of this process in the pool. It grows in place, and is given back when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    pool: Pool,
    region: u64,
    spread: Spread,
    range: Option<SharedRange>,
}

impl Pool {
    /// Takes memory for this process.
    ///
    /// # Errors
    /// [`PoolError::Full`], [`PoolError::BadName`], a full file system, or the commit fails.
    pub fn scratch(&self, spec: &ScratchSpec) -> Result<Scratch, PoolError> {
        let mut inner = self.inner();
        let extent = inner.extent_bytes();
        let most = spec.most_bytes.max(spec.bytes).max(1);
        let reserve = Change::Reserve {
            kind: RegionKind::Scratch,
            name: spec.name.clone(),
            uuid: random_uuid(),
            extents: spec.bytes.div_ceil(extent),
            spread: spec.spread,
        };
        // The addresses of the whole, and the memory of the first part.
        let mut range =
            inner.reserve_addresses(most.div_ceil(extent).saturating_mul(extent), Access::Write)?;
        let (region, runs) = inner.take(reserve)?;
        let mapped = inner.map_into(&mut range, &runs);
        let scratch = Scratch {
            pool: self.clone(),
            region,
            spread: spec.spread,
            range: Some(range),
        };
        // Dropping the scratch memory gives it back, which needs the lock.
        drop(inner);
        mapped.map(|()| scratch)
    }
}

impl Scratch {
    /// Bytes that it has now.
    pub fn size_bytes(&self) -> u64 {
        self.range
            .as_ref()
            .map_or(0, |range| range.size_bytes() as u64)
    }

    /// The bytes, for reading.
    pub fn bytes(&self) -> &[u8] {
        self.range.as_ref().map_or(&[], SharedRange::as_slice)
    }

    /// The bytes, for writing. What is there at first is anything.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.range
            .as_mut()
            .map_or(&mut [], SharedRange::as_mut_slice)
    }

    /// Takes at least so many bytes more, behind those it has, which stay where they are.
    ///
    /// # Errors
    /// [`PoolError::Full`], more than the addresses that were reserved, a full file system, or the
    /// commit fails.
    pub fn grow(&mut self, bytes: u64) -> Result<(), PoolError> {
        let pool = self.pool.clone();
        let mut inner = pool.inner();
        let extents = bytes.div_ceil(inner.extent_bytes());
        let Some(range) = self.range.as_mut() else {
            return Ok(());
        };
        inner.extend(self.region, extents, self.spread, range)
    }
}

impl Inner {
    /// Takes further extents for a region and maps them.
    pub(super) fn extend(
        &mut self,
        region: u64,
        extents: u64,
        spread: Spread,
        range: &mut SharedRange,
    ) -> Result<(), PoolError> {
        let extend = Change::Extend {
            region,
            extents,
            spread,
        };
        if extents.saturating_mul(self.extent_bytes()) > range.room_bytes() as u64 {
            // A full pool is the better reason.
            self.changed(extend)?;
            let error = rustix::io::Errno::NOMEM.into();
            return Err(refused(
                "map more addresses of",
                &self.members.first().path,
                error,
            ));
        }
        let runs = |inner: &Self| {
            let entry = inner.state.region(region);
            entry.map_or_else(Vec::new, |entry| entry.runs.clone())
        };
        let before = runs(self).len();
        self.change(extend)?;
        let more = runs(self).split_off(before);
        let mapped_bytes = range.size_bytes();
        let mapped = self.map_into(range, &more);
        if mapped.is_err() {
            // They stay the region's, unused, until it is given back.
            range.truncate(mapped_bytes);
        }
        mapped
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let range = self.range.take();
        self.pool.inner().give_up(self.region, range);
    }
}
