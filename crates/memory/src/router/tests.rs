//! Tests of the whole router, on separate address ranges and with a simulated kernel where one is
//! needed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;
use tierloom_topology::NodeId;

use super::account::Operators;
use super::events::Why;
use super::kernel::{Kernel, LINUX, resident_bytes};
use super::route::{Router, SYSTEM};
use super::*;
use crate::{MIB, Placement};

const KIB: usize = 1 << 10;

/// A router with a separate address range that stays until the process ends.
pub(super) fn router_of(kernel: Kernel, options: &RouterOptions) -> &'static Router {
    router_of_shift(kernel, options, 30)
}

/// The same with at most `1 << shift` bytes of addresses per place of a class.
pub(super) fn router_of_shift(
    kernel: Kernel,
    options: &RouterOptions,
    shift: u32,
) -> &'static Router {
    let operators: &'static Operators = Box::leak(Box::new(Operators::new()));
    let mut router = Box::new(Router::new(kernel, operators));
    router.largest_shift = Some(shift);
    let router = Box::leak(router);
    router.configure(options).unwrap();
    router.set_enabled(true);
    router
}

pub(super) fn place(name: &str, placement: Placement, limit_bytes: u64) -> PlaceOptions {
    PlaceOptions {
        name: name.to_owned(),
        memory: PlaceMemory::Nodes(placement),
        limit_bytes,
    }
}

pub(super) fn options(
    places: Vec<(Class, Vec<PlaceOptions>)>,
    overflow: Overflow,
) -> RouterOptions {
    RouterOptions {
        places,
        overflow,
        cache_bytes: Some(0),
    }
}

pub(super) fn scope(class: Class) -> ClassScope {
    ClassScope {
        class,
        operator: OperatorId(3),
    }
}

/// A block of the allocator, freed on drop.
pub(super) struct Owned {
    allocator: TierAllocator<System>,
    start: *mut u8,
    layout: Layout,
}

impl Owned {
    pub(super) fn new(router: &'static Router, size: usize) -> Option<Self> {
        let allocator = TierAllocator::with_router(System, router);
        let layout = Layout::from_size_align(size, 64).unwrap();
        // SAFETY: the layout is not empty.
        let start = unsafe { allocator.alloc(layout) };
        (!start.is_null()).then_some(Self {
            allocator,
            start,
            layout,
        })
    }

    pub(super) fn resize(&mut self, size: usize) {
        // SAFETY: the block was made by this allocator with this layout; the new size is not 0.
        self.start = unsafe { self.allocator.realloc(self.start, self.layout, size) };
        assert!(!self.start.is_null());
        self.layout = Layout::from_size_align(size, 64).unwrap();
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the block has this many bytes and no other reference to it exists; tests write
        // the bytes before they read them.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
    }

    pub(super) fn address(&self) -> usize {
        self.start.addr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the block was made by this allocator with this layout and is not used after this.
        unsafe { self.allocator.dealloc(self.start, self.layout) }
    }
}

/// Bytes in use, over all slots.
pub(super) fn in_use(router: &Router) -> u64 {
    let of_places: u64 = router.place_usage().iter().map(|p| p.current_bytes).sum();
    assert_eq!(of_places, router.total.current());
    assert_eq!(
        of_places,
        router.operator_usage(OperatorId(3)).current_bytes
    );
    of_places
}

/// Marks the first and last bytes and some in between with one value.
pub(super) fn stamp(block: &mut Owned, value: u8) {
    let step = block.bytes().len() / 7 + 1;
    block
        .bytes()
        .iter_mut()
        .step_by(step)
        .for_each(|b| *b = value);
    *block.bytes().last_mut().unwrap() = value;
}

fn stamped(block: &mut Owned, value: u8, size: usize, before: usize) -> bool {
    // Only bytes within both sizes that were written under the old one.
    let step = before / 7 + 1;
    let common = size.min(before);
    (0..common)
        .step_by(step)
        .all(|at| block.bytes()[at] == value)
}

#[derive(Debug, Clone)]
enum Step {
    Take(usize, usize),
    Resize(usize, usize),
    Free(usize),
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![1..THRESHOLD_BYTES, THRESHOLD_BYTES..MIB, MIB..9 * MIB]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..Class::COUNT, size()).prop_map(|(class, size)| Step::Take(class, size)),
        (any::<usize>(), size()).prop_map(|(n, size)| Step::Resize(n, size)),
        any::<usize>().prop_map(Step::Free),
    ]
}

/// Runs steps on one thread; returns the blocks that are left, for another thread to free.
fn carry_out(router: &'static Router, steps: &[Step], salt: u8) -> Vec<usize> {
    let mut blocks: Vec<(Owned, u8)> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let value = salt.wrapping_add(index as u8) | 1;
        match step {
            Step::Take(class, size) => {
                let _scope = enter(scope(Class::ALL[*class]));
                let mut block = Owned::new(router, *size).unwrap();
                stamp(&mut block, value);
                blocks.push((block, value));
            }
            Step::Resize(n, size) => {
                let Some(at) = n.checked_rem(blocks.len()) else {
                    continue;
                };
                let (block, old) = &mut blocks[at];
                let before = block.layout.size();
                block.resize(*size);
                assert!(stamped(block, *old, *size, before), "contents were lost");
                stamp(block, value);
                *old = value;
            }
            Step::Free(n) => {
                if let Some(at) = n.checked_rem(blocks.len()) {
                    let (mut block, value) = blocks.swap_remove(at);
                    let size = block.layout.size();
                    assert!(stamped(&mut block, value, size, size), "contents were lost");
                }
            }
        }
    }
    blocks.iter().map(|(block, _)| block.address()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn blocks_of_several_threads_keep_their_contents_and_all_is_given_back(
        plans in prop::collection::vec(prop::collection::vec(step(), 1..40), 3), cache in prop_oneof![Just(0_u64), Just(8 * MIB as u64)],
    ) {
        let places = vec![place("small", Placement::kernel_default(), 6 * MIB as u64), place("rest", Placement::kernel_default(), u64::MAX)];
        let options = RouterOptions { cache_bytes: Some(cache), ..options(vec![(Class::SortRun, places)], Overflow::Serve) };
        let router = router_of(LINUX, &options);
        std::thread::scope(|threads| {
            for (salt, steps) in plans.iter().enumerate() {
                threads.spawn(move || carry_out(router, steps, salt as u8 * 80));
            }
        });
        prop_assert_eq!(in_use(router), 0);
        router.trim();
        let held: u64 = router.place_usage().iter().map(|p| p.held_bytes).sum();
        prop_assert_eq!(held, 0);
    }
}

#[test]
fn each_class_has_addresses_of_its_own_and_any_thread_may_free() {
    let router = router_of(LINUX, &options(vec![], Overflow::Serve));
    let blocks: Vec<Owned> = Class::ALL
        .into_iter()
        .map(|class| {
            let _scope = enter(scope(class));
            Owned::new(router, 100 * KIB).unwrap()
        })
        .collect();
    for (block, class) in blocks.iter().zip(Class::ALL) {
        assert_eq!(router.scope_of(block.address()), Some(scope(class)));
    }
    let untagged = Owned::new(router, 100 * KIB).unwrap();
    assert!(!router.contains(untagged.address()));
    let small = {
        let _scope = enter(scope(Class::Other));
        Owned::new(router, THRESHOLD_BYTES - 1).unwrap()
    };
    assert!(!router.contains(small.address()));
    // Freed outside any scope.
    drop(blocks);
    assert_eq!(in_use(router), 0);
}

#[test]
fn a_block_that_grows_keeps_its_class_whoever_grows_it() {
    let router = router_of(LINUX, &options(vec![], Overflow::Serve));
    let mut block = {
        let _scope = enter(scope(Class::JoinBuild));
        Owned::new(router, 100 * KIB).unwrap()
    };
    let _other = enter(scope(Class::SortRun));
    for size in [200 * KIB, 3 * MIB, 5 * MIB, 40 * MIB, 6 * MIB] {
        block.resize(size);
        assert_eq!(
            router.scope_of(block.address()),
            Some(scope(Class::JoinBuild))
        );
    }
    assert_eq!(in_use(router), 6 * MIB as u64);
    block.resize(100);
    assert!(!router.contains(block.address()));
    assert_eq!(in_use(router), 0);
}

#[test]
fn a_full_place_falls_to_the_next_and_says_so() {
    let places = vec![
        place("near", Placement::kernel_default(), MIB as u64),
        place("far", Placement::kernel_default(), 2 * MIB as u64),
    ];
    let options = options(vec![(Class::Aggregation, places)], Overflow::Serve);
    let router = router_of(LINUX, &options);
    let _scope = enter(scope(Class::Aggregation));
    let blocks: Vec<Owned> = (0..4).map(|_| Owned::new(router, MIB).unwrap()).collect();
    let usage = router.place_usage();
    let found: Vec<(&str, u64, u64)> = usage
        .iter()
        .map(|p| (p.place.as_str(), p.current_bytes / MIB as u64, p.fallbacks))
        .collect();
    assert_eq!(found, [("near", 1, 0), ("far", 2, 2), ("system", 1, 1)]);
    let events = router.event_list();
    let listed: Vec<_> = events
        .iter()
        .map(|e| (e.from.as_str(), e.to.as_deref(), e.count, e.why.as_str()))
        .collect();
    let expected = [
        ("near", Some("far"), 2, "limit reached"),
        ("near", Some("system"), 1, "limit reached"),
    ];
    assert_eq!(listed, expected);
    assert_eq!(router.operator_usage(OperatorId(3)).fallbacks, 3);
    drop(blocks);
    // There is room again: the first place is used again.
    let again = Owned::new(router, MIB).unwrap();
    assert_eq!(router.place_usage()[0].current_bytes, MIB as u64);
    drop(again);
    assert_eq!(in_use(router), 0);
}

#[test]
fn beyond_all_places_the_operator_is_signalled_or_the_allocation_fails() {
    let places = || vec![place("only", Placement::kernel_default(), MIB as u64)];
    for overflow in [Overflow::Signal, Overflow::Refuse] {
        let options = options(vec![(Class::SortRun, places())], overflow);
        let router = router_of(LINUX, &options);
        let _scope = enter(scope(Class::SortRun));
        let first = Owned::new(router, MIB).unwrap();
        let over = |router: &Router| {
            let account = router.operators.of(OperatorId(3));
            account.over.load(Ordering::Relaxed)
        };
        assert!(!over(router));
        let second = Owned::new(router, MIB);
        assert_eq!(second.is_some(), overflow == Overflow::Signal);
        assert_eq!(over(router), overflow == Overflow::Signal);
        assert_eq!(router.event_list().len(), 1);
        drop((first, second));
        assert_eq!(in_use(router), 0);
    }
}

#[test]
fn a_node_that_is_refused_gone_or_full_is_passed_over() {
    // Node 1: outside the cpuset. Node 2: offline. Node 3: full. Node 4: fine.
    let kernel = Kernel {
        bind: |_, _, nodes| match nodes.parts() {
            [(1, _)] => Err(libc::EINVAL),
            _ => Ok(()),
        },
        free_bytes: |node| match node {
            2 => Err(libc::ENODEV),
            3 => Ok(MIB as u64),
            _ => Ok(1 << 30),
        },
        group_free_bytes: || None,
        populate: |_, _, _| Ok(()),
        touch: |_, _| Ok(()),
        ..LINUX
    };
    for (node, why) in [
        (1, Why::Refused(libc::EINVAL)),
        (2, Why::Refused(libc::ENODEV)),
        (3, Why::NodeFull),
    ] {
        let places = vec![
            place("wanted", Placement::bind(NodeId(node)), u64::MAX),
            place("next", Placement::bind(NodeId(4)), u64::MAX),
        ];
        let options = options(vec![(Class::JoinBuild, places)], Overflow::Refuse);
        let router = router_of(kernel, &options);
        let _scope = enter(scope(Class::JoinBuild));
        let block = Owned::new(router, 2 * MIB).unwrap();
        let usage = router.place_usage();
        assert_eq!(usage[0].current_bytes, 0, "node {node}");
        assert_eq!(usage[1].current_bytes, 2 * MIB as u64, "node {node}");
        assert_eq!(router.event_list()[0].why, why.to_string());
        drop(block);
        assert_eq!(in_use(router), 0);
    }
}

#[test]
fn a_kernel_that_gives_no_pages_is_a_reason_for_the_next_place() {
    let kernel = Kernel {
        bind: |_, _, _| Ok(()),
        free_bytes: |_| Ok(1 << 30),
        group_free_bytes: || None,
        populate: |_, _, _| Ok(()),
        touch: |_, _| Err(libc::ENOMEM),
        ..LINUX
    };
    let places = vec![
        place("bound", Placement::bind(NodeId(0)), u64::MAX),
        place("any", Placement::kernel_default(), u64::MAX),
    ];
    let options = options(vec![(Class::JoinBuild, places)], Overflow::Refuse);
    let router = router_of(kernel, &options);
    let _scope = enter(scope(Class::JoinBuild));
    let block = Owned::new(router, MIB).unwrap();
    let usage = router.place_usage();
    assert_eq!(
        (usage[0].current_bytes, usage[1].current_bytes),
        (0, MIB as u64)
    );
    assert_eq!(
        router.event_list()[0].why,
        Why::Refused(libc::ENOMEM).to_string()
    );
    drop(block);
    assert_eq!(in_use(router), 0);
}

#[test]
fn a_node_is_never_asked_for_more_than_it_has_free() {
    let kernel = Kernel {
        bind: |_, _, _| Ok(()),
        free_bytes: |_| Ok(10 * MIB as u64),
        group_free_bytes: || None,
        populate: |_, _, _| Ok(()),
        touch: |_, _| Ok(()),
        ..LINUX
    };
    let places = vec![place("one", Placement::bind(NodeId(0)), u64::MAX)];
    let options = options(vec![(Class::JoinBuild, places)], Overflow::Refuse);
    let router = router_of(kernel, &options);
    let _scope = enter(scope(Class::JoinBuild));
    assert!(Owned::new(router, 11 * MIB).is_none());
    let block = Owned::new(router, 9 * MIB).unwrap();
    drop(block);
    // Released bytes can be drawn again: the ledger asks the kernel once its account runs out.
    assert!(Owned::new(router, 10 * MIB).is_some());
}

#[test]
fn a_control_group_near_its_limit_is_full_wherever_the_pages_come_from() {
    let kernel = Kernel {
        bind: |_, _, _| Ok(()),
        free_bytes: |_| Ok(1 << 30),
        group_free_bytes: || Some(10 * MIB as u64),
        populate: |_, _, _| Ok(()),
        touch: |_, _| Ok(()),
        ..LINUX
    };
    let places = vec![
        place("one", Placement::bind(NodeId(0)), u64::MAX),
        place("two", Placement::bind(NodeId(1)), u64::MAX),
    ];
    let options = options(vec![(Class::JoinBuild, places)], Overflow::Refuse);
    let router = router_of(kernel, &options);
    let _scope = enter(scope(Class::JoinBuild));
    assert!(Owned::new(router, 11 * MIB).is_none());
    let event = router.event_list().pop().unwrap();
    assert_eq!(
        (event.to, event.why.as_str()),
        (None, "memory limit of the control group reached")
    );
    let block = Owned::new(router, 9 * MIB).unwrap();
    drop(block);
    // Released bytes can be drawn again: the ledger asks the kernel once its account runs out.
    assert!(Owned::new(router, 10 * MIB).is_some());
}

#[test]
fn an_audit_among_threads_that_take_and_give_back_sees_one_moment() {
    let places = vec![place("bound", Placement::bind(NodeId(0)), u64::MAX)];
    let options = RouterOptions {
        cache_bytes: Some(8 * MIB as u64),
        ..options(vec![(Class::JoinBuild, places)], Overflow::Refuse)
    };
    let router = router_of(LINUX, &options);
    if let Some(why) = router.slot(Class::JoinBuild, 0).refused() {
        tierloom_testing::checked_nothing(format!(
            "memory cannot be bound to node 0 (errno {why}); run it outside of a sandbox that forbids mbind"
        ));
        return;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for thread in 0..3 {
            let stop = &stop;
            threads.spawn(move || {
                let _scope = enter(scope(Class::JoinBuild));
                let mut kept = std::collections::VecDeque::new();
                for round in 0_usize.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // Blocks of both sizes; some grow.
                    let size = (1 + (round * 7 + thread) % 60) * 128 * KIB;
                    let mut block = Owned::new(router, size).unwrap();
                    if round.is_multiple_of(3) {
                        block.resize(size + 256 * KIB);
                    }
                    kept.push_back(block);
                    if kept.len() > 4 {
                        kept.pop_front();
                    }
                }
            });
        }
        let audits: Vec<PeakAudit> = (0..20).map(|_| audit::audit_of(router)).collect();
        stop.store(true, Ordering::Relaxed);
        for audit in audits {
            let present: u64 = audit.classes.iter().map(|c| c.bytes - c.absent_bytes).sum();
            assert_eq!(audit.accounted_bytes, present, "{audit:?}");
            // A kernel without NUMA does not report it.
            if let Some(kernel) = audit.kernel_bytes {
                assert_eq!(audit.held_bytes, kernel, "{audit:?}");
            }
        }
    });
    assert_eq!(in_use(router), 0);
}

/// Populated runs, node and granules packed into one number each.
static POPULATED: AtomicU64 = AtomicU64::new(0);

#[test]
fn weights_go_on_from_one_block_to_the_next() {
    let kernel = Kernel {
        bind: |_, _, _| Ok(()),
        free_bytes: |_| Ok(1 << 30),
        group_free_bytes: || None,
        populate: |_, len, node| {
            let run = u64::from(node) * 10 + (len / (64 * KIB)) as u64;
            let before = POPULATED.load(Ordering::Relaxed);
            POPULATED.store(before * 100 + run, Ordering::Relaxed);
            Ok(())
        },
        touch: |_, _| Err(libc::EIO),
        ..LINUX
    };
    let weights = Placement::weighted(vec![(NodeId(1), 3), (NodeId(2), 1)]).unwrap();
    let places = vec![place("3:1", weights, u64::MAX)];
    let options = options(vec![(Class::Result, places)], Overflow::Refuse);
    let router = router_of(kernel, &options);
    let _scope = enter(scope(Class::Result));
    let _two = Owned::new(router, 128 * KIB).unwrap();
    let _three = Owned::new(router, 192 * KIB).unwrap();
    // Two granules on node 1; then one more there, one on node 2, and one on node 1 again.
    assert_eq!(POPULATED.load(Ordering::Relaxed), 12_11_21_11);
}

#[test]
fn freed_memory_leaves_the_process() {
    let router = router_of(LINUX, &options(vec![], Overflow::Serve));
    let span = router.span().unwrap();
    let Ok(before) = resident_bytes(span.base, span.len()) else {
        tierloom_testing::checked_nothing("no /proc/self/numa_maps (kernel without CONFIG_NUMA)");
        return;
    };
    assert_eq!(before, 0);
    let _scope = enter(scope(Class::TempTable));
    let mut blocks: Vec<Owned> = [100 * KIB, 3 * MIB, 20 * MIB]
        .map(|size| Owned::new(router, size).unwrap())
        .into();
    blocks.iter_mut().for_each(|block| block.bytes().fill(1));
    let full = resident_bytes(span.base, span.len()).unwrap();
    // Huge pages or not: at most whole granules, at least what was written.
    assert!(full <= router.total.current(), "{full}");
    assert!(full >= (23 * MIB + 100 * KIB) as u64, "{full}");
    drop(blocks);
    assert_eq!(resident_bytes(span.base, span.len()).unwrap(), 0);
}

#[test]
fn kept_memory_is_reused_with_its_zeroes_restored() {
    let options = RouterOptions {
        cache_bytes: None,
        ..options(vec![], Overflow::Serve)
    };
    let router = router_of(LINUX, &options);
    let _scope = enter(scope(Class::Aggregation));
    let mut block = Owned::new(router, MIB).unwrap();
    block.bytes().fill(7);
    let address = block.address();
    drop(block);
    let allocator = TierAllocator::with_router(System, router);
    let layout = Layout::from_size_align(MIB, 8).unwrap();
    // SAFETY: the layout is not empty.
    let start = unsafe { allocator.alloc_zeroed(layout) };
    assert_eq!(start.addr(), address, "the kept block was not reused");
    // SAFETY: the block has this many bytes, all initialised by the allocator.
    let zero = unsafe { std::slice::from_raw_parts(start, MIB) }
        .iter()
        .all(|b| *b == 0);
    assert!(zero);
    // SAFETY: the block was made by this allocator with this layout and is not used after this.
    unsafe { allocator.dealloc(start, layout) };
    let usage = router.place_usage();
    assert_eq!(
        (usage[0].current_bytes, usage[0].held_bytes),
        (0, MIB as u64)
    );
}

#[test]
fn switched_off_nothing_is_routed_and_old_blocks_can_be_freed() {
    let router = router_of(LINUX, &options(vec![], Overflow::Serve));
    let _scope = enter(scope(Class::Other));
    let old = Owned::new(router, MIB).unwrap();
    router.set_enabled(false);
    let new = Owned::new(router, MIB).unwrap();
    assert!(router.contains(old.address()) && !router.contains(new.address()));
    drop((old, new));
    assert_eq!(in_use(router), 0);
}

#[test]
fn an_account_is_not_given_away_while_its_memory_is_in_use() {
    let router = router_of(LINUX, &options(vec![], Overflow::Serve));
    let id = router.operators.register();
    let scope = ClassScope {
        class: Class::Result,
        operator: id,
    };
    let block = {
        let _scope = enter(scope);
        Owned::new(router, MIB).unwrap()
    };
    router.operators.release(id);
    assert!((0..20_000).all(|_| {
        let other = router.operators.register();
        router.operators.release(other);
        other != id
    }));
    assert_eq!(router.operator_usage(id).peak_by_place[SYSTEM], MIB as u64);
    drop(block);
    assert_eq!(router.operator_usage(id).current_bytes, 0);
}
