//! Tests of the router when memory, addresses or kernel features run out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tierloom_topology::NodeId;

use super::events::Why;
use super::kernel::{Kernel, LINUX};
use super::tests::{Owned, in_use, options, place, router_of, router_of_shift, scope, stamp};
use super::*;
use crate::{MIB, Placement};

const KIB: usize = 1 << 10;
/// A kernel that binds any node and never runs out, independent of the test machine.
const OPEN_HANDED: Kernel = Kernel {
    bind: |_, _, _| Ok(()),
    free_bytes: |_| Ok(1 << 40),
    group_free_bytes: || None,
    populate: |_, _, _| Ok(()),
    touch: |_, _| Ok(()),
    ..LINUX
};

fn bound(node: u32, overflow: Overflow) -> RouterOptions {
    let places = vec![place("bound", Placement::bind(NodeId(node)), u64::MAX)];
    options(vec![(Class::JoinBuild, places)], overflow)
}

#[test]
fn bytes_that_have_no_pages_yet_are_not_given_to_another_thread() {
    /// Bytes being populated by all threads; and whether both threads have drawn.
    static COMING: AtomicU64 = AtomicU64::new(0);
    static BOTH_ASKED: AtomicBool = AtomicBool::new(false);
    const ALONE: Duration = Duration::from_secs(60);
    let kernel = Kernel {
        // Pages that are pending still count as free.
        free_bytes: |_| Ok(MIB as u64),
        touch: |_, len| {
            COMING.fetch_add(len as u64, Ordering::SeqCst);
            let start = Instant::now();
            while !BOTH_ASKED.load(Ordering::SeqCst) {
                assert!(start.elapsed() < ALONE, "the other thread never came");
                if COMING.load(Ordering::SeqCst) > len as u64 {
                    break;
                }
                std::thread::yield_now();
            }
            Ok(())
        },
        ..OPEN_HANDED
    };
    let router = router_of(kernel, &bound(0, Overflow::Refuse));
    let take = || {
        let _scope = enter(scope(Class::JoinBuild));
        Owned::new(router, 640 * KIB).is_some()
    };
    std::thread::scope(|threads| {
        let first = threads.spawn(take);
        while COMING.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // The first thread's bytes are pending now.
        let second = take();
        BOTH_ASKED.store(true, Ordering::SeqCst);
        assert!(first.join().unwrap() && !second);
        assert_eq!(COMING.load(Ordering::SeqCst), 640 * KIB as u64);
    });
}

#[test]
fn used_up_addresses_are_no_failed_allocation() {
    for overflow in [Overflow::Serve, Overflow::Signal, Overflow::Refuse] {
        for options in [bound(0, overflow), options(vec![], overflow)] {
            // 128 MiB of addresses, of which a quarter is for small blocks.
            let router = router_of_shift(OPEN_HANDED, &options, 27);
            let _scope = enter(scope(Class::JoinBuild));
            let mut blocks: Vec<Owned> = (0..40)
                .map(|_| Owned::new(router, MIB).expect("memory is there"))
                .collect();
            let inside = blocks
                .iter()
                .filter(|b| !router.contains(b.address()))
                .count();
            let named = !options.places.is_empty();
            assert_eq!(inside, if named { 0 } else { 8 }, "{overflow:?}");
            // A block that has to move when there are no addresses left.
            stamp(&mut blocks[0], 5);
            blocks[0].resize(3 * MIB);
            if !named {
                assert!(!router.contains(blocks[0].address()));
            }
            assert_eq!(blocks[0].bytes()[0], 5);
            let event = router.event_list().pop().unwrap();
            assert_eq!(event.why, Why::Addresses.to_string());
            let to = if named { SYSTEM_PLACE } else { INNER_PLACE };
            assert_eq!(event.to.as_deref(), Some(to));
            assert!(
                !router
                    .operators
                    .of(OperatorId(3))
                    .over
                    .load(Ordering::Relaxed)
            );
            drop(blocks);
            assert_eq!(in_use(router), 0);
        }
    }
}

#[test]
fn a_kernel_that_forbids_policies_leaves_the_system_place_as_it_is() {
    let kernel = Kernel {
        bind: |_, _, _| Err(libc::EPERM),
        ..OPEN_HANDED
    };
    let router = router_of(kernel, &bound(0, Overflow::Serve));
    let _scope = enter(scope(Class::JoinBuild));
    let block = Owned::new(router, MIB).unwrap();
    assert!(router.contains(block.address()));
    let event = router.event_list().pop().unwrap();
    assert_eq!(event.to.as_deref(), Some(SYSTEM_PLACE));
}

#[test]
fn addresses_that_cannot_be_opened_are_a_reason_for_the_next_place() {
    let kernel = Kernel {
        open: |_, _| Err(libc::ENOMEM),
        ..OPEN_HANDED
    };
    let router = router_of(kernel, &bound(0, Overflow::Serve));
    let _scope = enter(scope(Class::JoinBuild));
    let block = Owned::new(router, MIB).unwrap();
    assert!(!router.contains(block.address()));
    let event = router.event_list().pop().unwrap();
    assert_eq!(event.to.as_deref(), Some(INNER_PLACE));
    assert_eq!(in_use(router), 0);
}

#[test]
fn a_block_of_another_configuration_is_counted_apart_and_never_reused() {
    let cached = |node| RouterOptions {
        cache_bytes: None,
        ..bound(node, Overflow::Refuse)
    };
    let router = router_of(OPEN_HANDED, &cached(0));
    let _scope = enter(scope(Class::JoinBuild));
    let mut old = Owned::new(router, MIB).unwrap();
    router.configure(&cached(1)).unwrap();
    let rows = || -> Vec<(String, u64, u64)> {
        let all = router.place_usage().into_iter();
        all.map(|p| (p.place, p.current_bytes, p.held_bytes))
            .collect()
    };
    let row = |place: &str, bytes: u64| (place.to_owned(), bytes, bytes);
    let whole = MIB as u64;
    assert_eq!(rows(), [row("bound", 0), row(EARLIER_PLACE, whole)]);
    // It shrinks, and is freed, as a block of the earlier configuration.
    old.resize(512 * KIB);
    assert_eq!(rows(), [row("bound", 0), row(EARLIER_PLACE, whole / 2)]);
    let new = Owned::new(router, 512 * KIB).unwrap();
    assert_eq!(
        rows(),
        [row("bound", whole / 2), row(EARLIER_PLACE, whole / 2)]
    );
    assert_eq!(in_use(router), whole);
    drop(old);
    assert_eq!(rows(), [row("bound", whole / 2)]);
    drop(new);
    assert_eq!(in_use(router), 0);
}

#[test]
fn pages_of_the_old_place_are_never_the_new_ones() {
    let cached = |node| RouterOptions {
        cache_bytes: None,
        ..bound(node, Overflow::Refuse)
    };
    static RELEASED: AtomicU64 = AtomicU64::new(0);
    let kernel = Kernel {
        release: |address, len| {
            RELEASED.fetch_add(len as u64, Ordering::SeqCst);
            (LINUX.release)(address, len)
        },
        ..OPEN_HANDED
    };
    let router = router_of(kernel, &cached(0));
    let _scope = enter(scope(Class::JoinBuild));
    let mut old = Owned::new(router, MIB).unwrap();
    stamp(&mut old, 9);
    router.configure(&cached(1)).unwrap();
    drop(old);
    assert_eq!(RELEASED.load(Ordering::SeqCst), MIB as u64);
    let mut new = Owned::new(router, MIB).unwrap();
    assert_eq!(new.bytes()[0], 0, "a page of the old place");
}

/// Whether `alloc_zeroed` returns zeroes after a block with other contents was freed.
fn zeroed_after_use(router: &'static Router) -> bool {
    let mut block = Owned::new(router, MIB).unwrap();
    block.bytes().fill(7);
    drop(block);
    let allocator = TierAllocator::with_router(System, router);
    let layout = Layout::from_size_align(MIB, 8).unwrap();
    // SAFETY: the layout is not empty.
    let start = unsafe { allocator.alloc_zeroed(layout) };
    assert!(!start.is_null());
    // SAFETY: the block is not null and has MIB bytes, all initialised by `alloc_zeroed`.
    let zero = unsafe { std::slice::from_raw_parts(start, MIB) }
        .iter()
        .all(|byte| *byte == 0);
    // SAFETY: the block was allocated here with this layout and is not used after this.
    unsafe { allocator.dealloc(start, layout) };
    zero
}

#[test]
fn pages_that_the_kernel_does_not_take_back_are_zeroed_and_counted() {
    let kernel = Kernel {
        release: |_, _| Err(libc::EINVAL),
        ..LINUX
    };
    for keep in [0, 8 * MIB as u64] {
        let options = RouterOptions {
            cache_bytes: Some(keep),
            ..options(vec![], Overflow::Serve)
        };
        let router = router_of(kernel, &options);
        let _scope = enter(scope(Class::Aggregation));
        assert!(zeroed_after_use(router));
        router.trim();
        let usage = &router.place_usage()[0];
        assert_eq!((usage.current_bytes, usage.held_bytes), (0, MIB as u64));
        assert!(zeroed_after_use(router), "after they could not go");
        assert_eq!(router.place_usage()[0].held_bytes, MIB as u64);
    }
}

#[test]
fn locked_pages_are_given_back_or_zeroed() {
    let router = router_of(LINUX, &options(vec![], Overflow::Serve));
    let _scope = enter(scope(Class::Aggregation));
    let mut block = Owned::new(router, MIB).unwrap();
    let start = block.address();
    block.bytes().fill(7);
    let start_pointer = std::ptr::with_exposed_provenance(start);
    // SAFETY: the range is a block that the test owns; locking changes no contents.
    if unsafe { libc::mlock(start_pointer, MIB) } != 0 {
        return tierloom_testing::checked_nothing("a mebibyte cannot be locked (`ulimit -l`)");
    }
    drop(block);
    assert!(zeroed_after_use(router));
}

#[test]
fn a_growth_that_gets_no_pages_moves_the_block_and_leaves_nothing_counted() {
    static REFUSES: AtomicBool = AtomicBool::new(false);
    let kernel = Kernel {
        touch: |_, _| match REFUSES.load(Ordering::SeqCst) {
            true => Err(libc::ENOMEM),
            false => Ok(()),
        },
        ..OPEN_HANDED
    };
    let places = vec![
        place("bound", Placement::bind(NodeId(0)), u64::MAX),
        place("next", Placement::kernel_default(), u64::MAX),
    ];
    let options = options(vec![(Class::JoinBuild, places)], Overflow::Refuse);
    let router = router_of(kernel, &options);
    let _scope = enter(scope(Class::JoinBuild));
    let mut block = Owned::new(router, 256 * KIB).unwrap();
    stamp(&mut block, 3);
    REFUSES.store(true, Ordering::SeqCst);
    block.resize(MIB);
    assert_eq!(block.bytes()[0], 3);
    let usage = router.place_usage();
    let found: Vec<u64> = usage.iter().map(|p| p.current_bytes).collect();
    assert_eq!(found, [0, MIB as u64]);
    assert_eq!(usage[0].held_bytes, 0);
    assert_eq!(
        router.event_list()[0].why,
        Why::Refused(libc::ENOMEM).to_string()
    );
    drop(block);
    assert_eq!(in_use(router), 0);
}

#[test]
fn a_peak_is_seen_before_the_block_that_made_it_shrinks() {
    let router = router_of(LINUX, &options(vec![], Overflow::Serve));
    let _scope = enter(scope(Class::SortRun));
    let mut block = Owned::new(router, 16 * MIB).unwrap();
    router.watch.start(true);
    block.resize(2 * MIB);
    assert_eq!(router.watch.peak_bytes(), 16 * MIB as u64);
}

#[test]
fn whether_the_allocator_is_installed_is_found_without_routing_anything() {
    // The test program's global allocator is another one. A router of ours answers the question
    // before anything is routed or refused.
    assert!(!is_installed());
    let full = vec![place("full", Placement::kernel_default(), 0)];
    let router = router_of(
        LINUX,
        &options(vec![(Class::Other, full)], Overflow::Refuse),
    );
    let _scope = enter(scope(Class::Other));
    let mut inside = None;
    assert!(scope::seen(|| inside = Owned::new(router, 64 * KIB)));
    assert!(!router.contains(inside.unwrap().address()));
    assert_eq!(current(), Some(scope(Class::Other)));
    assert_eq!(router.event_list(), []);
}
