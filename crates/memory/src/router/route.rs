//! Which slot a block comes from.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::account::{Operators, PLACES};
use super::events::{Events, Why};
use super::kernel::{Kernel, Nodes};
use super::ledger::Ledger;
use super::options::{MAX_PLACES, Overflow, RouterError, RouterOptions, nodes_of};
use super::reserve::{self, SLOTS, Span};
use super::scope::{Class, ClassScope, OperatorId};
use super::slot::{Block, Change, LARGE_FROM, LARGE_GRANULE, Locked, Resized, SMALL_GRANULE, Slot};
use super::{account::Level, audit::PeakWatch};

/// The place of a class that is nobody's choice but the kernel's.
pub(super) const SYSTEM: usize = MAX_PLACES;

/// Slots, accounts and configuration. All of it lives in statics: nothing is allocated on the way of an allocation.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) kernel: Kernel,
    enabled: AtomicBool,
    /// First reserved address; 0 before there are any.
    base: AtomicUsize,
    len: AtomicUsize,
    slot_shift: AtomicU32,
    slots: [Slot; SLOTS],
    /// Places that each class has been given.
    counts: [AtomicU8; Class::COUNT],
    overflow: AtomicU8,
    pub(super) ledger: Ledger,
    pub(super) operators: &'static Operators,
    pub(super) events: Events,
    /// Bytes in use over all slots.
    pub(super) total: Level,
    pub(super) watch: PeakWatch,
    /// What the places are called; the lock also keeps configurations apart.
    names: Mutex<Vec<Vec<String>>>,
    /// Only tests use fewer addresses than there are.
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
            overflow: AtomicU8::new(0),
            ledger: Ledger::new(),
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

    /// Whether an address is one of the router's.
    pub(super) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base.load(Ordering::Relaxed)) < self.len.load(Ordering::Relaxed)
    }

    pub(super) fn span(&self) -> Option<Span> {
        let base = self.base.load(Ordering::Acquire);
        let slot_shift = self.slot_shift.load(Ordering::Relaxed);
        (base != 0).then_some(Span { base, slot_shift })
    }

    pub(super) fn configure(&self, options: &RouterOptions) -> Result<(), RouterError> {
        let mut places: Vec<Vec<(Nodes, u64)>> = Vec::new();
        let mut names = Vec::new();
        for class in Class::ALL {
            let asked = options.places_of(class);
            if asked.len() > MAX_PLACES {
                let count = asked.len();
                return Err(RouterError::TooManyPlaces { class, count });
            }
            let resolved = asked
                .iter()
                .map(|place| Ok((nodes_of(class, &place.placement)?, place.limit_bytes)))
                .collect::<Result<_, RouterError>>()?;
            places.push(resolved);
            names.push(asked.iter().map(|place| place.name.clone()).collect());
        }
        let mut kept = self.names();
        if self.span().is_none() {
            let span = reserve::reserve(&self.slots, self.largest_shift)?;
            self.slot_shift.store(span.slot_shift, Ordering::Relaxed);
            self.len.store(span.len(), Ordering::Relaxed);
            self.base.store(span.base, Ordering::Release);
        }
        let cache = options
            .cache_bytes
            .unwrap_or(super::options::DEFAULT_CACHE_BYTES);
        for (class, places) in Class::ALL.into_iter().zip(&places) {
            let nobody = (Nodes::ANY, u64::MAX);
            for place in 0..PLACES {
                let (nodes, limit) = places.get(place).copied().unwrap_or(nobody);
                self.slot(class, place)
                    .configure(nodes, limit, cache, &self.ledger);
            }
            self.counts[class.index()].store(places.len() as u8, Ordering::Relaxed);
        }
        self.overflow
            .store(options.overflow as u8, Ordering::Relaxed);
        *kept = names;
        drop(kept);
        self.bind_places(|_| PLACES);
        Ok(())
    }

    /// Sets the policies of all named places again and forgets what nodes had.
    pub(super) fn refresh(&self) {
        self.bind_places(|class| self.places(class));
    }

    /// Sets the policies of so many places of each class.
    fn bind_places(&self, count: impl Fn(Class) -> usize) {
        let Some(span) = self.span() else { return };
        if Class::ALL.into_iter().any(|class| self.places(class) > 0) {
            super::group::find();
        }
        self.ledger.forget();
        for class in Class::ALL {
            for place in 0..count(class) {
                let (base, len) = span.slot(index(class, place));
                let slot = self.slot(class, place);
                slot.bind(&self.kernel, base, len);
                if slot.refused().is_some() {
                    // What was kept for reuse is elsewhere by now, or will never be reused.
                    slot.trim(&self.ledger);
                }
            }
        }
    }

    pub(super) fn trim(&self) {
        self.slots.iter().for_each(|slot| slot.trim(&self.ledger));
    }

    pub(super) fn slot(&self, class: Class, place: usize) -> &Slot {
        &self.slots[index(class, place)]
    }

    /// All slots at once, by index. Everybody else locks one at a time.
    pub(super) fn lock_all(&self) -> [Locked<'_>; SLOTS] {
        std::array::from_fn(|index| self.slots[index].locked())
    }

    /// Places that the class has been given.
    pub(super) fn places(&self, class: Class) -> usize {
        usize::from(self.counts[class.index()].load(Ordering::Relaxed)).min(MAX_PLACES)
    }

    fn overflow(&self) -> Overflow {
        match self.overflow.load(Ordering::Relaxed) {
            1 => Overflow::Signal,
            2 => Overflow::Refuse,
            _ => Overflow::Serve,
        }
    }

    /// A block for `scope`; `None` if nothing can or may give it.
    pub(super) fn allocate(&self, scope: ClassScope, size: usize, align: usize) -> Option<Block> {
        if align > LARGE_GRANULE {
            return None;
        }
        let size = Self::size_aligned(size, align);
        match self.at_a_place(scope, size) {
            Ok(block) => Some(block),
            Err(why) => self.beyond(scope, size, why),
        }
    }

    /// Small granules are aligned to themselves, large ones to huge pages: a size whose granules are aligned as wanted.
    pub(super) fn size_aligned(size: usize, align: usize) -> usize {
        if align > SMALL_GRANULE {
            size.max(LARGE_FROM)
        } else {
            size
        }
    }

    /// A block at the first place of the class that can give it; why the first one could not, if there is one.
    pub(super) fn at_a_place(&self, scope: ClassScope, size: usize) -> Result<Block, Option<Why>> {
        let mut first_why = None;
        for place in 0..self.places(scope.class) {
            match self.from(scope, place, size) {
                Ok(block) => {
                    if let Some(why) = first_why {
                        self.note_fallback(scope, block.bytes, place, why);
                    }
                    return Ok(block);
                }
                Err(why) => first_why = first_why.or(Some(why)),
            }
        }
        Err(first_why)
    }

    /// All places of the class are full, or it has none.
    fn beyond(&self, scope: ClassScope, size: usize, why: Option<Why>) -> Option<Block> {
        let Some(why) = why else {
            return self.from(scope, SYSTEM, size).ok();
        };
        let overflow = self.overflow();
        let account = self.operators.of(scope.operator);
        if overflow == Overflow::Signal {
            account.over.store(true, Ordering::Relaxed);
        }
        if overflow == Overflow::Refuse {
            let bytes = size as u64;
            self.events.record(scope.class, bytes, 0, None, why);
            account.fallbacks.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let block = self.from(scope, SYSTEM, size).ok()?;
        self.note_fallback(scope, block.bytes, SYSTEM, why);
        Some(block)
    }

    /// A block at one place.
    pub(super) fn from(&self, scope: ClassScope, place: usize, size: usize) -> Result<Block, Why> {
        let slot = self.slot(scope.class, place);
        let owner = scope.operator.0;
        let mut answer = slot.allocate(&self.kernel, &self.ledger, size, owner);
        if matches!(answer, Err(Why::NodeFull | Why::GroupFull)) {
            // Memory that other classes keep for reuse may be all that is missing.
            self.trim();
            answer = slot.allocate(&self.kernel, &self.ledger, size, owner);
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

    fn uncount(&self, operator: OperatorId, place: usize, bytes: u64) {
        let account = self.operators.of(operator);
        account.level.sub(bytes);
        account.by_place[place].sub(bytes);
        self.total.sub(bytes);
    }

    /// Class and place that an address of the router belongs to.
    fn home(&self, address: usize) -> Option<(Class, usize)> {
        let offset = address.wrapping_sub(self.base.load(Ordering::Relaxed));
        let index = offset >> self.slot_shift.load(Ordering::Relaxed);
        Some((*Class::ALL.get(index / PLACES)?, index % PLACES))
    }

    /// Takes a block back.
    pub(super) fn free(&self, address: usize) {
        self.take_back(address, true);
    }

    /// Takes a block back whose pages are not kept for reuse.
    pub(super) fn free_for_good(&self, address: usize) {
        self.take_back(address, false);
    }

    fn take_back(&self, address: usize, keep: bool) {
        let Some((class, place)) = self.home(address) else {
            return;
        };
        self.watch.before_free(self);
        let slot = self.slot(class, place);
        if let Some(Change { owner, bytes }) = slot.free(&self.ledger, address, keep) {
            self.uncount(OperatorId(owner), place, bytes);
        }
    }

    /// Makes a block longer or shorter in place; `false` if it has to move.
    pub(super) fn resize(&self, address: usize, size: usize) -> bool {
        let Some((class, place)) = self.home(address) else {
            return false;
        };
        let slot = self.slot(class, place);
        match slot.resize(&self.kernel, &self.ledger, address, size) {
            Resized::Same => true,
            Resized::Grown(Change { owner, bytes }) => {
                self.count(OperatorId(owner), place, bytes);
                true
            }
            Resized::Shrunk(Change { owner, bytes }) => {
                self.uncount(OperatorId(owner), place, bytes);
                true
            }
            Resized::No => false,
        }
    }

    /// The scope that a block was allocated in.
    pub(super) fn scope_of(&self, address: usize) -> Option<ClassScope> {
        let (class, place) = self.home(address)?;
        let operator = OperatorId(self.slot(class, place).owner(address)?.owner);
        Some(ClassScope { class, operator })
    }
}

pub(super) fn index(class: Class, place: usize) -> usize {
    class.index() * PLACES + place
}
