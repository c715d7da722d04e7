//! Memory of a pool as a place: lent to the router in steps, given back when it is idle.
//!
//! Each class has one slot for it, apart from those of nodes, so that the place of a block still
//! follows from its address. The slot's addresses are mapped to files of the pool as they are
//! needed. What is freed returns to the file system at once, and to the pool when nothing of the
//! slot is in use.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::options::RouterError;
use super::route::{POOL, Router};
use super::scope::{self, Class};
use super::{ROUTER, account::PLACES};
use crate::shared::SharedRange;

/// How often the memory of a pool is looked through for what is idle: it is given back after one to
/// two of these.
const IDLE: Duration = Duration::from_secs(1);

/// A pool that lends memory.
///
/// Its functions are called inside the allocator, by threads that may hold any lock. They must not
/// wait for a lock that a thread holds while it allocates; large allocations of their own are not
/// routed.
pub trait PoolMemory: Send + Sync + fmt::Debug {
    /// Name for tables and messages.
    fn name(&self) -> String;

    /// Maps at least `size_bytes` more behind what `range` has. `number` tells the ranges apart.
    ///
    /// # Errors
    /// An errno; the range is then as it was: `ENOSPC` if the pool is full, `EBUSY` if it cannot be
    /// asked now.
    fn grow(&self, number: usize, range: &mut SharedRange, size_bytes: usize) -> Result<(), i32>;

    /// Takes back all of a range.
    ///
    /// # Errors
    /// The range, if the pool cannot be asked now.
    fn give_back(&self, number: usize, range: SharedRange) -> Result<(), SharedRange>;
}

/// The pool that lends to a router, if any.
#[derive(Debug)]
pub(super) struct Lender {
    memory: Mutex<Option<Arc<dyn PoolMemory>>>,
    /// It is being withdrawn: nothing more is lent.
    closing: AtomicBool,
    /// Allocations of all classes in the pool when it was last looked for idle memory.
    seen: AtomicU64,
}

impl Lender {
    pub(super) const fn new() -> Self {
        Self {
            memory: Mutex::new(None),
            closing: AtomicBool::new(false),
            seen: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn PoolMemory>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> Option<Arc<dyn PoolMemory>> {
        self.lock().clone()
    }

    /// Maps more memory behind a range: the first number of bytes, or at least the second.
    pub(super) fn grow(
        &self,
        number: usize,
        range: &mut SharedRange,
        (step, least): (usize, usize),
    ) -> Result<(), i32> {
        if self.closing.load(Ordering::Acquire) {
            return Err(libc::ENXIO);
        }
        let memory = self.memory().ok_or(libc::ENXIO)?;
        let _nobody = scope::leave();
        // Nothing may unwind out of the allocator.
        let mut grow = |bytes| {
            catch_unwind(AssertUnwindSafe(|| memory.grow(number, range, bytes)))
                .unwrap_or(Err(libc::EIO))
        };
        grow(step).or_else(|errno| match least < step && errno == libc::ENOSPC {
            true => grow(least),
            false => Err(errno),
        })
    }

    pub(super) fn give_back(&self, number: usize, range: SharedRange) -> Result<(), SharedRange> {
        let Some(memory) = self.memory() else {
            // The pool was withdrawn, which it is only when nothing is lent.
            drop(range);
            return Ok(());
        };
        let _nobody = scope::leave();
        memory.give_back(number, range)
    }
}

impl Router {
    pub(super) fn pool_name(&self) -> Option<String> {
        self.lender.memory().map(|memory| memory.name())
    }

    /// Lets places named `pool` use `memory`.
    pub(super) fn lend_pool(&self, memory: Arc<dyn PoolMemory>) -> Result<(), RouterError> {
        self.withdraw_pool()?;
        *self.lender.lock() = Some(memory);
        Ok(())
    }

    /// Gives all memory of the pool back.
    pub(super) fn withdraw_pool(&self) -> Result<(), RouterError> {
        let Some(name) = self.pool_name() else {
            return Ok(());
        };
        // A thread that has begun to take memory holds the lock of its slot, which `give_back`
        // waits for.
        self.lender.closing.store(true, Ordering::Release);
        self.give_back_unused();
        let held = |slot: &super::slot::Slot| slot.held.current() + slot.earlier_held.current();
        let in_use = self.pool_slots().any(|slot| held(slot) > 0);
        if !in_use {
            let memory = self.lender.lock().take();
            // Dropped without the lock: it may close the pool.
            drop(memory);
        }
        self.lender.closing.store(false, Ordering::Release);
        match in_use {
            true => Err(RouterError::PoolInUse { name }),
            false => Ok(()),
        }
    }

    /// Withdraws this pool, if it is the one that lends and nothing of it is in use.
    fn withdraw_dropped(&self, memory: &Weak<dyn PoolMemory>) {
        let lending = self.lender.memory();
        // By address: each lender has its own allocation, which the weak reference keeps.
        let same = lending
            .is_some_and(|lending| std::ptr::addr_eq(Arc::as_ptr(&lending), Weak::as_ptr(memory)));
        if same {
            // In use: the thread that looks for idle memory tries again.
            let _ = self.withdraw_pool();
        }
    }

    fn pool_slots(&self) -> impl Iterator<Item = &super::slot::Slot> {
        Class::ALL.into_iter().map(|class| self.slot(class, POOL))
    }

    /// Gives back what the classes do not use.
    pub(super) fn give_back_unused(&self) {
        if self.span().is_some() {
            self.pool_slots()
                .for_each(|slot| slot.give_back(self.machine()));
        }
    }

    /// Gives back what the classes do not use, if they took nothing since the last call.
    pub(super) fn give_back_idle(&self) {
        let allocations = |slot: &super::slot::Slot| slot.allocations.load(Ordering::Relaxed);
        let now = self.pool_slots().map(allocations).sum();
        if self.lender.seen.swap(now, Ordering::Relaxed) == now {
            self.give_back_unused();
        }
    }
}

/// The memory of a pool is lent to the router while this exists, and longer while some of it is in
/// use.
#[derive(Debug)]
pub struct LentPool {
    memory: Weak<dyn PoolMemory>,
    dropped: Arc<AtomicBool>,
}

impl Drop for LentPool {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
        ROUTER.withdraw_dropped(&self.memory);
    }
}

/// Lets places named `pool` use the memory of a pool. What is not used for a second or two goes
/// back to the pool.
///
/// # Errors
/// [`RouterError::PoolInUse`] if another pool's memory is in use.
pub fn lend_pool(memory: Arc<dyn PoolMemory>) -> Result<LentPool, RouterError> {
    let lent = LentPool {
        memory: Arc::downgrade(&memory),
        dropped: Arc::new(AtomicBool::new(false)),
    };
    ROUTER.lend_pool(memory)?;
    let (memory, dropped) = (lent.memory.clone(), Arc::clone(&lent.dropped));
    // Without the thread the memory stays until all of it can be withdrawn at once.
    let _ = std::thread::Builder::new()
        .name("pool-idle".into())
        .spawn(move || give_back_while(&memory, &dropped));
    Ok(lent)
}

fn give_back_while(memory: &Weak<dyn PoolMemory>, dropped: &AtomicBool) {
    while memory.strong_count() > 0 {
        std::thread::sleep(IDLE);
        match dropped.load(Ordering::Relaxed) {
            true => ROUTER.withdraw_dropped(memory),
            false => ROUTER.give_back_idle(),
        }
    }
}

/// Name of the pool whose memory can be used; `None` without one.
pub fn pool_name() -> Option<String> {
    ROUTER.pool_name()
}

const _: () = assert!(POOL < PLACES);

#[cfg(test)]
mod tests {
    use super::super::kernel::LINUX;
    use super::super::tests::{Owned, in_use, options, place, router_of, scope};
    use super::super::{
        Class, Overflow, PlaceMemory, PlaceOptions, RouterError, RouterOptions, SYSTEM_PLACE,
    };
    use super::*;
    use crate::{MIB, Placement};
    use std::fs::File;

    /// Lends pieces of one file, which is filled with ones before.
    #[derive(Debug)]
    struct OneFile {
        file: File,
        /// Bytes that the file can still lend.
        left: Mutex<u64>,
        given_back: Mutex<Vec<usize>>,
        busy: AtomicBool,
    }

    const FILE_BYTES: usize = 256 * MIB;

    impl OneFile {
        fn new(left: usize) -> Arc<Self> {
            let file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut &file, &vec![1; 8 * MIB]).unwrap();
            file.set_len(FILE_BYTES as u64).unwrap();
            Arc::new(Self {
                file,
                left: Mutex::new(left as u64),
                given_back: Mutex::new(Vec::new()),
                busy: AtomicBool::new(false),
            })
        }

        fn left(&self) -> usize {
            *self.left.lock().unwrap() as usize
        }
    }

    impl PoolMemory for OneFile {
        fn name(&self) -> String {
            "one file".to_owned()
        }

        fn grow(&self, _: usize, range: &mut SharedRange, bytes: usize) -> Result<(), i32> {
            if self.busy.load(Ordering::Relaxed) {
                return Err(libc::EBUSY);
            }
            let mut left = self.left.lock().unwrap();
            // Allocates as a real pool does, which must not come back here.
            std::hint::black_box(vec![0_u8; MIB]);
            let less = left.checked_sub(bytes as u64).ok_or(libc::ENOSPC)?;
            let from = FILE_BYTES as u64 - *left;
            range.append(&self.file, from, bytes).unwrap();
            *left = less;
            Ok(())
        }

        fn give_back(&self, _: usize, range: SharedRange) -> Result<(), SharedRange> {
            if self.busy.load(Ordering::Relaxed) {
                return Err(range);
            }
            self.given_back.lock().unwrap().push(range.size_bytes());
            *self.left.lock().unwrap() += range.size_bytes() as u64;
            Ok(())
        }
    }

    fn pooled(limit_bytes: u64) -> PlaceOptions {
        PlaceOptions {
            name: "pool".to_owned(),
            memory: PlaceMemory::Pool,
            limit_bytes,
        }
    }

    fn router_with(places: Vec<PlaceOptions>, left: usize) -> (&'static Router, Arc<OneFile>) {
        let router = router_of(LINUX, &RouterOptions::default());
        let file = OneFile::new(left);
        let memory: Arc<dyn PoolMemory> = Arc::clone(&file) as Arc<dyn PoolMemory>;
        router.lend_pool(memory).unwrap();
        let places = vec![(Class::JoinBuild, places)];
        router.configure(&options(places, Overflow::Serve)).unwrap();
        (router, file)
    }

    fn used_at(router: &Router, name: &str) -> u64 {
        let usage = router.place_usage();
        let at = usage.iter().filter(|usage| usage.place == name);
        at.map(|usage| usage.current_bytes).sum()
    }

    #[test]
    fn blocks_lie_in_the_pools_file_and_are_given_back_when_none_is_used() {
        let (router, file) = router_with(vec![pooled(u64::MAX)], FILE_BYTES);
        let _scope = scope::enter(scope(Class::JoinBuild));
        let mut small = Owned::new(router, 100_000).unwrap();
        let mut large = Owned::new(router, 9 * MIB).unwrap();
        small.bytes().fill(2);
        large.bytes().fill(3);
        assert_eq!(used_at(router, "pool"), in_use(router));
        let mut bytes = vec![0; 100_000];
        std::os::unix::fs::FileExt::read_exact_at(&file.file, &mut bytes, 0).unwrap();
        assert!(
            bytes.iter().all(|byte| *byte == 2),
            "it is not the file's memory"
        );
        drop(small);
        router.give_back_unused();
        assert!(
            file.left() < FILE_BYTES,
            "a block that is used was given back"
        );
        large.resize(30 * MIB);
        assert!(large.bytes()[..9 * MIB].iter().all(|byte| *byte == 3));
        drop(large);
        assert_eq!(in_use(router), 0);
        router.give_back_idle();
        assert!(file.left() < FILE_BYTES, "it was used a moment ago");
        file.busy.store(true, Ordering::Relaxed);
        router.give_back_idle();
        assert!(file.left() < FILE_BYTES);
        file.busy.store(false, Ordering::Relaxed);
        router.give_back_idle();
        assert_eq!(file.left(), FILE_BYTES);
        // The same addresses can be used again.
        let mut again = Owned::new(router, 5 * MIB).unwrap();
        again.bytes().fill(4);
        assert_eq!(used_at(router, "pool"), 6 * MIB as u64);
    }

    #[test]
    fn old_contents_of_a_pool_are_never_taken_for_zeroes() {
        let (router, _file) = router_with(vec![pooled(u64::MAX)], FILE_BYTES);
        let _scope = scope::enter(scope(Class::JoinBuild));
        let allocator = crate::router::TierAllocator::with_router(std::alloc::System, router);
        let layout = std::alloc::Layout::from_size_align(2 * MIB, 64).unwrap();
        // SAFETY: the layout is not empty, and the block is freed with it.
        unsafe {
            use std::alloc::GlobalAlloc;
            let start = allocator.alloc_zeroed(layout);
            let bytes = std::slice::from_raw_parts(start, 2 * MIB);
            assert!(bytes.iter().all(|byte| *byte == 0));
            allocator.dealloc(start, layout);
        }
    }

    #[test]
    fn a_full_or_busy_pool_is_passed_over_and_the_event_says_so() {
        let second = place("second", Placement::kernel_default(), u64::MAX);
        let (router, file) = router_with(vec![pooled(u64::MAX), second], 10 * MIB);
        let _scope = scope::enter(scope(Class::JoinBuild));
        // Less than a whole step is left, which is enough.
        let first = Owned::new(router, 8 * MIB).unwrap();
        assert_eq!(used_at(router, "pool"), 8 * MIB as u64);
        let next = Owned::new(router, 8 * MIB).unwrap();
        assert_eq!(used_at(router, "second"), 8 * MIB as u64);
        let event = router.event_list().pop().unwrap();
        assert_eq!(
            (event.from.as_str(), event.to.as_deref()),
            ("pool", Some("second"))
        );
        drop((first, next));
        router.give_back_unused();
        file.busy.store(true, Ordering::Relaxed);
        let third = Owned::new(router, 8 * MIB).unwrap();
        assert_eq!(used_at(router, "second"), 8 * MIB as u64);
        drop(third);
    }

    #[test]
    fn the_limit_of_a_pool_holds_and_freed_memory_can_be_used_again() {
        let (router, _file) = router_with(vec![pooled(16 * MIB as u64)], FILE_BYTES);
        let _scope = scope::enter(scope(Class::JoinBuild));
        let blocks: Vec<Owned> = (0..4)
            .map(|_| Owned::new(router, 4 * MIB).unwrap())
            .collect();
        assert_eq!(used_at(router, "pool"), 16 * MIB as u64);
        let over = Owned::new(router, 4 * MIB).unwrap();
        assert_eq!(used_at(router, SYSTEM_PLACE), 4 * MIB as u64);
        drop(blocks);
        let again = Owned::new(router, 16 * MIB).unwrap();
        assert_eq!(used_at(router, "pool"), 16 * MIB as u64);
        drop((over, again));
    }

    #[test]
    fn a_pool_is_not_withdrawn_or_replaced_while_its_memory_is_used() {
        let (router, file) = router_with(vec![pooled(u64::MAX)], FILE_BYTES);
        let entered = scope::enter(scope(Class::JoinBuild));
        let block = Owned::new(router, MIB).unwrap();
        drop(entered);
        let other: Arc<dyn PoolMemory> = OneFile::new(FILE_BYTES);
        let refused = router.lend_pool(Arc::clone(&other)).unwrap_err();
        assert!(
            matches!(refused, RouterError::PoolInUse { .. }),
            "{refused}"
        );
        // An earlier configuration's blocks are in use too.
        router.configure(&RouterOptions::default()).unwrap();
        assert!(router.withdraw_pool().is_err());
        drop(block);
        router.lend_pool(other).unwrap();
        assert_eq!(file.left(), FILE_BYTES);
        router.withdraw_pool().unwrap();
        let places = vec![(Class::JoinBuild, vec![pooled(u64::MAX)])];
        let refused = router
            .configure(&options(places, Overflow::Serve))
            .unwrap_err();
        assert!(refused.to_string().contains("--pool"), "{refused}");
    }

    #[test]
    fn a_pool_is_named_once_and_threads_that_share_it_lose_nothing() {
        let (router, file) = router_with(vec![pooled(u64::MAX)], FILE_BYTES);
        let twice = vec![(Class::JoinBuild, vec![pooled(MIB as u64), pooled(u64::MAX)])];
        let refused = router
            .configure(&options(twice, Overflow::Serve))
            .unwrap_err();
        assert!(matches!(refused, RouterError::PoolTwice { .. }));
        std::thread::scope(|threads| {
            for number in 1..=4_u8 {
                threads.spawn(move || {
                    let _scope = scope::enter(scope(Class::JoinBuild));
                    for round in 0..50_usize {
                        let mut block = Owned::new(router, 65_536 * (round % 9 + 1)).unwrap();
                        block.bytes().fill(number);
                        if round % 8 == 0 {
                            router.give_back_unused();
                        }
                        assert!(block.bytes().iter().all(|byte| *byte == number));
                    }
                });
            }
        });
        router.give_back_unused();
        assert_eq!((in_use(router), file.left()), (0, FILE_BYTES));
    }
}
