//! Operator memory of this process in the pool.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rustix::io::Errno;
use tierloom_memory::router::PoolMemory;
use tierloom_memory::shared::SharedRange;

use super::{Inner, Pool};
use crate::PoolError;
use crate::state::{Change, RegionKind, Spread};
use crate::store::random_uuid;

/// How often the pool is asked again while another thread changes it, and the pause between.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

const BUSY: i32 = Errno::BUSY.raw_os_error();

/// Lends memory of a pool to the places `pool` of operator memory
/// ([`tierloom_memory::router::lend_pool`]): one scratch region for each range of addresses.
///
/// The regions are given back when the router gives back its ranges. A process that is killed
/// leaves them to the next opening of the pool, which clears them.
#[derive(Debug)]
pub struct OperatorScratch {
    pool: Pool,
    spread: Spread,
    /// Regions by number of the range.
    regions: Mutex<BTreeMap<usize, u64>>,
}

impl Pool {
    /// Memory of this pool for operators, over its members as `spread` says.
    pub fn operator_scratch(&self, spread: Spread) -> OperatorScratch {
        OperatorScratch {
            pool: self.clone(),
            spread,
            regions: Mutex::new(BTreeMap::new()),
        }
    }

    /// The state, unless it stays locked: the thread that has it may wait for the caller.
    fn try_inner(&self) -> Option<MutexGuard<'_, Inner>> {
        for _ in 0..TRIES {
            match self.shared.inner.try_lock() {
                Ok(inner) => return Some(inner),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
        }
        None
    }
}

impl OperatorScratch {
    fn regions(&self) -> MutexGuard<'_, BTreeMap<usize, u64>> {
        // Entries are inserted and removed whole.
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolMemory for OperatorScratch {
    fn name(&self) -> String {
        // Not `Pool::path`, which waits for the lock.
        let inner = self.pool.try_inner();
        let path = inner.map(|inner| inner.members.first().path.display().to_string());
        path.unwrap_or_else(|| "pool".to_owned())
    }

    fn grow(&self, number: usize, range: &mut SharedRange, size_bytes: usize) -> Result<(), i32> {
        let mut inner = self.pool.try_inner().ok_or(BUSY)?;
        let extents = (size_bytes as u64).div_ceil(inner.extent_bytes());
        let known = self.regions().get(&number).copied();
        let grown = match known {
            Some(region) => inner.extend(region, extents, self.spread, range),
            None => {
                let reserve = Change::Reserve {
                    kind: RegionKind::Scratch,
                    name: format!("operator memory {number}"),
                    uuid: random_uuid(),
                    extents,
                    spread: self.spread,
                };
                inner.reserve_into(reserve, range).map(|region| {
                    self.regions().insert(number, region);
                })
            }
        };
        grown.map_err(|error| errno_of(&error))
    }

    fn give_back(&self, number: usize, range: SharedRange) -> Result<(), SharedRange> {
        let Some(mut inner) = self.pool.try_inner() else {
            return Err(range);
        };
        match self.regions().remove(&number) {
            Some(region) => inner.give_up(region, Some(range)),
            // Nothing was ever mapped into it.
            None => drop(range),
        }
        Ok(())
    }
}

impl Inner {
    /// Makes a new region and maps it into `range`, which has nothing mapped yet.
    fn reserve_into(&mut self, change: Change, range: &mut SharedRange) -> Result<u64, PoolError> {
        let (region, runs) = self.take(change)?;
        if let Err(error) = self.map_into(range, &runs) {
            range.truncate(0);
            self.give_up_unmapped(region);
            return Err(error);
        }
        Ok(region)
    }
}

/// What the router can report of an error.
fn errno_of(error: &PoolError) -> i32 {
    match error {
        PoolError::Full { .. } => Errno::NOSPC.raw_os_error(),
        PoolError::Io { source, .. } => source.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
        _ => Errno::IO.raw_os_error(),
    }
}
