//! Chooses the place of each block: tries the class's places in order, then applies the overflow
//! behaviour.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::account::{EARLIER, Operators, PLACES};
use super::events::{Events, Why};
use super::holds::broken;
use super::kernel::{Kernel, Nodes};
use super::ledger::Ledger;
use super::options::{MAX_PLACES, Overflow, PlaceMemory, RouterError, RouterOptions, nodes_of};
use super::pool::Lender;
use super::reserve::{self, SLOTS, Span};
use super::scope::{Class, ClassScope, OperatorId};
use super::slot::{
    Block, Change, Config, LARGE_FROM, LARGE_GRANULE, Locked, Machine, Resized, SMALL_GRANULE, Slot,
};
use super::stretches::Stretches;
use super::{account::Level, audit::PeakWatch};

/// Index of the place in a pool.
pub(super) const POOL: usize = MAX_PLACES;
/// Index of the fallback place, where the kernel chooses the node.
pub(super) const SYSTEM: usize = MAX_PLACES + 1;
/// Index that represents the inner allocator in events.
pub(super) const INNER: usize = PLACES;

/// Outcome of an allocation request.
#[derive(Debug)]
pub(super) enum AllocationOutcome {
    Block(Block),
    /// The inner allocator should serve it.
    Inner,
    /// It fails, under [`Overflow::Refuse`].
    Refused,
}

/// Why no configured place could serve a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    /// The reason of the first place; `None` if there are no configured places.
    pub(super) first: Option<Why>,
    /// Some place had run out of addresses: it may still have had memory.
    addresses: bool,
}

/// Slots, accounts and configuration.
///
/// All of it is in statics, so the allocation path itself allocates nothing.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) kernel: Kernel,
    enabled: AtomicBool,
    /// First reserved address; 0 before the reservation.
    base: AtomicUsize,
    len: AtomicUsize,
    slot_shift: AtomicU32,
    slots: [Slot; SLOTS],
    /// Number of places configured for each class.
    counts: [AtomicU8; Class::COUNT],
    /// Index of the place in the pool among those of each class; `MAX_PLACES` for none.
    pooled: [AtomicU8; Class::COUNT],
    pub(super) lender: Lender,
    overflow: AtomicU8,
    ledger: Ledger,
    pub(super) stretches: Stretches,
    pub(super) operators: &'static Operators,
    pub(super) events: Events,
    /// Bytes in use, over all slots.
    pub(super) total: Level,
    pub(super) watch: PeakWatch,
    /// Names of the places; holding the lock also serialises calls of `configure`.
    names: Mutex<Vec<Vec<String>>>,
    /// Cap on the slot size; only tests set it.
    pub(super) largest_shift: Option<u32>,
}

impl Router {
    pub(super) const fn new(kernel: Kernel, operators: &'static Operators) -> Self {
        Self {
            kernel,
            enabled: AtomicBool::new(false),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            slot_shift: AtomicU32::new(0),
            slots: [const { Slot::new() }; SLOTS],
            counts: [const { AtomicU8::new(0) }; Class::COUNT],
            pooled: [const { AtomicU8::new(MAX_PLACES as u8) }; Class::COUNT],
            lender: Lender::new(),
            overflow: AtomicU8::new(0),
            ledger: Ledger::new(),
            stretches: Stretches::new(),
            operators,
            events: Events::new(),
            total: Level::zero(),
            watch: PeakWatch::new(),
            names: Mutex::new(Vec::new()),
            largest_shift: None,
        }
    }

    pub(super) fn names(&self) -> MutexGuard<'_, Vec<Vec<String>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    pub(super) fn set_enabled(&self, on: bool) {
        let reserved = self.base.load(Ordering::Acquire) != 0;
        self.enabled.store(on && reserved, Ordering::Relaxed);
    }

    /// Whether an address is in the router's range.
    pub(super) fn contains(&self, address: usize) -> bool {
        // One comparison: below the base the difference wraps around and exceeds any length.
        // `len` is loaded first and stored last: whoever sees a length sees the base that goes with
        // it. With the length alone every low address would be in the range.
        let len = self.len.load(Ordering::Acquire);
        address.wrapping_sub(self.base.load(Ordering::Relaxed)) < len
    }

    pub(super) fn span(&self) -> Option<Span> {
        let base = self.base.load(Ordering::Acquire);
        let slot_shift = self.slot_shift.load(Ordering::Relaxed);
        (base != 0).then_some(Span { base, slot_shift })
    }

    pub(super) fn configure(&self, options: &RouterOptions) -> Result<(), RouterError> {
        let mut places: Vec<Vec<(Option<Nodes>, u64)>> = Vec::new();
        let mut names = Vec::new();
        for class in Class::ALL {
            let asked = options.places_of(class);
            if asked.len() > MAX_PLACES {
                let count = asked.len();
                return Err(RouterError::TooManyPlaces { class, count });
            }
            let resolved = asked
                .iter()
                .map(|place| {
                    let nodes = match &place.memory {
                        PlaceMemory::Nodes(placement) => Some(nodes_of(class, placement)?),
                        PlaceMemory::Pool if self.pool_name().is_some() => None,
                        PlaceMemory::Pool => return Err(RouterError::NoPool { class }),
                    };
                    Ok((nodes, place.limit_bytes))
                })
                .collect::<Result<Vec<_>, RouterError>>()?;
            if resolved.iter().filter(|(nodes, _)| nodes.is_none()).count() > 1 {
                return Err(RouterError::PoolTwice { class });
            }
            places.push(resolved);
            names.push(asked.iter().map(|place| place.name.clone()).collect());
        }
        // All options have been checked: from here on only the reservation can fail, and it comes
        // before any slot changes.
        let mut kept = self.names();
        if self.span().is_none() {
            let span = reserve::reserve(&self.slots, self.largest_shift)?;
            self.slot_shift.store(span.slot_shift, Ordering::Relaxed);
            // Release pairs with the acquire loads of `base`: whoever sees it sees `slot_shift`.
            self.base.store(span.base, Ordering::Release);
            // Pairs with the acquire load in `contains`.
            self.len.store(span.len(), Ordering::Release);
        }
        let cache_limit_bytes = options
            .cache_bytes
            .unwrap_or(super::options::DEFAULT_CACHE_BYTES);
        self.ask_anew(places.iter().any(|of_class| !of_class.is_empty()));
        for (class, places) in Class::ALL.into_iter().zip(&places) {
            let nobody = (Some(Nodes::ANY), u64::MAX);
            let pooled = places.iter().position(|(nodes, _)| nodes.is_none());
            for place in 0..PLACES {
                let named = match place {
                    POOL => pooled.map(|at| places[at]),
                    _ => places.get(place).copied(),
                };
                let (nodes, limit_bytes) = named.unwrap_or(nobody);
                let nodes = nodes.unwrap_or(Nodes::ANY);
                let config = Config {
                    nodes,
                    limit_bytes,
                    cache_limit_bytes,
                };
                self.configure_slot(class, place, config);
            }
            let pooled = pooled.unwrap_or(MAX_PLACES) as u8;
            self.pooled[class.index()].store(pooled, Ordering::Relaxed);
            self.counts[class.index()].store(places.len() as u8, Ordering::Relaxed);
        }
        self.overflow
            .store(options.overflow as u8, Ordering::Relaxed);
        *kept = names;
        Ok(())
    }

    fn configure_slot(&self, class: Class, place: usize, config: Config) {
        let moved = |owner, bytes| {
            let account = self.operators.of(OperatorId(owner));
            account.by_place[place].sub(bytes);
            account.by_place[EARLIER].add(bytes);
        };
        self.slot(class, place)
            .configure(self.machine(), config, moved);
    }

    /// Discards what the kernel reported about nodes and about the control group.
    fn ask_anew(&self, any_places: bool) {
        if any_places {
            super::group::find();
        }
        self.ledger.forget();
    }

    /// Sets the policies of all configured places again and discards known free memory.
    pub(super) fn refresh(&self) {
        if self.span().is_none() {
            return;
        }
        self.ask_anew(Class::ALL.into_iter().any(|class| self.places(class) > 0));
        for class in Class::ALL {
            for place in self.in_order(class) {
                let slot = self.slot(class, place);
                slot.bind(self.machine());
                if slot.refused().is_some() {
                    // Its cached pages may be elsewhere by now, and no allocation will reuse them.
                    slot.trim(self.machine());
                }
            }
        }
    }

    pub(super) fn machine(&self) -> Machine<'_> {
        Machine {
            kernel: &self.kernel,
            ledger: &self.ledger,
            stretches: &self.stretches,
            lender: &self.lender,
        }
    }

    pub(super) fn trim(&self) {
        self.slots.iter().for_each(|slot| slot.trim(self.machine()));
    }

    pub(super) fn slot(&self, class: Class, place: usize) -> &Slot {
        &self.slots[index(class, place)]
    }

    /// Locks all slots, in order of their index. All other code holds one slot's lock at a time, so
    /// this cannot deadlock.
    pub(super) fn lock_all(&self) -> [Locked<'_>; SLOTS] {
        std::array::from_fn(|index| self.slots[index].locked())
    }

    /// Number of places configured for the class.
    pub(super) fn places(&self, class: Class) -> usize {
        usize::from(self.counts[class.index()].load(Ordering::Relaxed)).min(MAX_PLACES)
    }

    /// Indices of the places configured for the class, first choice first.
    pub(super) fn in_order(&self, class: Class) -> impl Iterator<Item = usize> + use<> {
        let pooled = usize::from(self.pooled[class.index()].load(Ordering::Relaxed));
        (0..self.places(class)).map(move |at| if at == pooled { POOL } else { at })
    }

    fn overflow(&self) -> Overflow {
        match self.overflow.load(Ordering::Relaxed) {
            1 => Overflow::Signal,
            2 => Overflow::Refuse,
            _ => Overflow::Serve,
        }
    }

    /// Allocates a block for `scope`, or says who else should.
    pub(super) fn allocate(
        &self,
        scope: ClassScope,
        size: usize,
        align: usize,
    ) -> AllocationOutcome {
        // No granule has a larger alignment than a huge page.
        if align > LARGE_GRANULE {
            return AllocationOutcome::Inner;
        }
        let size = Self::size_aligned(size, align);
        match self.at_a_place(scope, size) {
            Ok(block) => AllocationOutcome::Block(block),
            Err(passed) => self.beyond(scope, size, passed),
        }
    }

    /// Raises a size so that its granules have the requested alignment: small ones are aligned to
    /// 64 KiB, large ones to huge pages.
    pub(super) fn size_aligned(size: usize, align: usize) -> usize {
        if align > SMALL_GRANULE {
            size.max(LARGE_FROM)
        } else {
            size
        }
    }

    /// Allocates at the first place of the class that can serve the block.
    pub(super) fn at_a_place(&self, scope: ClassScope, size: usize) -> Result<Block, Passed> {
        let mut passed = Passed {
            first: None,
            addresses: false,
        };
        for place in self.in_order(scope.class) {
            match self.from(scope, place, size) {
                Ok(block) => {
                    if let Some(why) = passed.first {
                        self.note_fallback(scope, block.bytes, place, why);
                    }
                    return Ok(block);
                }
                Err(why) => {
                    passed.first = passed.first.or(Some(why));
                    passed.addresses |= why == Why::Addresses;
                }
            }
        }
        Err(passed)
    }

    /// Handles a block that no configured place could serve, or whose class has none.
    fn beyond(&self, scope: ClassScope, size: usize, passed: Passed) -> AllocationOutcome {
        let Some(why) = passed.first else {
            return match self.from(scope, SYSTEM, size) {
                Ok(block) => AllocationOutcome::Block(block),
                Err(why) => self.inside(scope, size, SYSTEM, why),
            };
        };
        // If addresses ran out, the limit may not be reached: the operator is not blamed.
        let full = !passed.addresses;
        let account = self.operators.of(scope.operator);
        match self.overflow() {
            Overflow::Signal if full => account.over.store(true, Ordering::Relaxed),
            Overflow::Refuse if full => {
                let bytes = size as u64;
                self.events.record(scope.class, bytes, 0, None, why);
                account.fallbacks.fetch_add(1, Ordering::Relaxed);
                return AllocationOutcome::Refused;
            }
            _ => {}
        }
        match self.from(scope, SYSTEM, size) {
            Ok(block) => {
                self.note_fallback(scope, block.bytes, SYSTEM, why);
                AllocationOutcome::Block(block)
            }
            Err(_) => self.inside(scope, size, 0, why),
        }
    }

    /// Passes an allocation to the inner allocator and records the event.
    fn inside(&self, scope: ClassScope, size: usize, from: usize, why: Why) -> AllocationOutcome {
        let account = self.operators.of(scope.operator);
        account.fallbacks.fetch_add(1, Ordering::Relaxed);
        let to = Some(INNER as u8);
        let bytes = size as u64;
        self.events.record(scope.class, bytes, from as u8, to, why);
        AllocationOutcome::Inner
    }

    /// Allocates at one place and counts the block.
    pub(super) fn from(&self, scope: ClassScope, place: usize, size: usize) -> Result<Block, Why> {
        let slot = self.slot(scope.class, place);
        let owner = scope.operator.0;
        let mut answer = slot.allocate(self.machine(), size, owner);
        if matches!(answer, Err(Why::NodeFull | Why::GroupFull)) {
            // Pages cached by other classes on the same node may be what is missing: release them
            // all and try once more.
            self.trim();
            answer = slot.allocate(self.machine(), size, owner);
        }
        let block = answer?;
        let account = self.operators.of(scope.operator);
        account.allocations.fetch_add(1, Ordering::Relaxed);
        self.count(scope.operator, place, block.bytes);
        Ok(block)
    }

    fn note_fallback(&self, scope: ClassScope, bytes: u64, place: usize, why: Why) {
        self.slot(scope.class, place)
            .fallbacks
            .fetch_add(1, Ordering::Relaxed);
        self.operators
            .of(scope.operator)
            .fallbacks
            .fetch_add(1, Ordering::Relaxed);
        let to = Some(place as u8);
        self.events.record(scope.class, bytes, 0, to, why);
    }

    fn count(&self, operator: OperatorId, place: usize, bytes: u64) {
        let account = self.operators.of(operator);
        account.level.add(bytes);
        account.by_place[place].add(bytes);
        self.total.add(bytes);
    }

    fn uncount(&self, place: usize, change: Change) {
        let account = self.operators.of(OperatorId(change.owner));
        account.level.sub_added(change.bytes);
        let place = if change.earlier { EARLIER } else { place };
        account.by_place[place].sub(change.bytes);
        self.total.sub_added(change.bytes);
    }

    /// Class and place of an address in the router's range.
    fn home(&self, address: usize) -> Option<(Class, usize)> {
        let offset = address.wrapping_sub(self.base.load(Ordering::Relaxed));
        let index = offset >> self.slot_shift.load(Ordering::Relaxed);
        Some((*Class::ALL.get(index / PLACES)?, index % PLACES))
    }

    /// Frees a block; its pages may be cached for reuse.
    pub(super) fn free(&self, address: usize) {
        self.take_back(address, true);
    }

    /// Frees a block and releases its pages.
    pub(super) fn free_for_good(&self, address: usize) {
        self.take_back(address, false);
    }

    fn take_back(&self, address: usize, keep: bool) {
        let Some((class, place)) = self.home(address) else {
            broken("a block was freed that is of no class");
        };
        // Before the slot's lock is taken: an audit locks all slots.
        self.watch.before_free(self);
        let slot = self.slot(class, place);
        self.uncount(place, slot.free(self.machine(), address, keep));
    }

    /// Resizes a block in place; `false` if it has to move.
    pub(super) fn resize(&self, address: usize, size: usize) -> bool {
        let Some((class, place)) = self.home(address) else {
            return false;
        };
        let slot = self.slot(class, place);
        // Shrinking ends a peak as freeing does.
        if self.watch.is_on()
            && slot
                .owner(address)
                .is_some_and(|now| now.bytes > size as u64)
        {
            self.watch.before_free(self);
        }
        match slot.resize(self.machine(), address, size) {
            Resized::Same => true,
            Resized::Grown(change) => {
                self.count(OperatorId(change.owner), place, change.bytes);
                true
            }
            Resized::Shrunk(change) => {
                self.uncount(place, change);
                true
            }
            Resized::No => false,
        }
    }

    /// The scope that a block was allocated in; `None` if the address is not that of a block in
    /// use.
    pub(super) fn scope_of(&self, address: usize) -> Option<ClassScope> {
        let (class, place) = self.home(address)?;
        let operator = OperatorId(self.slot(class, place).owner(address)?.owner);
        Some(ClassScope { class, operator })
    }
}

pub(super) fn index(class: Class, place: usize) -> usize {
    class.index() * PLACES + place
}
