//! The cost of routing: small allocations through the router against the allocator inside it, and
//! large ones in a scope.
//!
//! `cargo bench -p tierloom-memory --bench router` (add `-- --quick` for a smoke run). Rounds
//! alternate and the best of each are compared, because other load on the machine can only add
//! time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Instant;

use tierloom_memory::router::{
    self, Class, ClassScope, OperatorId, RouterOptions, THRESHOLD_BYTES, TierAllocator,
};

#[global_allocator]
static ROUTED: TierAllocator<System> = TierAllocator::new(System);
static PLAIN: System = System;

/// Blocks in use at a time, so that the allocator does not return the same one again and again.
const LIVE: usize = 16;

/// Time of one allocation and its release in ns; `count` blocks of `size` bytes are written at
/// their start.
#[inline(never)]
fn pairs(allocator: &impl GlobalAlloc, size: usize, count: usize) -> f64 {
    let Ok(layout) = Layout::from_size_align(black_box(size), 8) else {
        return f64::NAN;
    };
    let mut live = [std::ptr::null_mut::<u8>(); LIVE];
    let start = Instant::now();
    for index in 0..count {
        let place = &mut live[index % LIVE];
        // SAFETY: the layout is not empty; a block is freed once, with its layout, by the allocator
        // that returned it.
        unsafe {
            if !place.is_null() {
                allocator.dealloc(*place, layout);
            }
            *place = allocator.alloc(layout);
            if !place.is_null() {
                place.write_volatile(1);
            }
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / count as f64;
    for block in live.into_iter().filter(|block| !block.is_null()) {
        // SAFETY: as above; the last blocks.
        unsafe { allocator.dealloc(block, layout) };
    }
    ns
}

/// The best of alternating rounds with and without the router.
fn best(rounds: usize, size: usize, count: usize) -> (f64, f64) {
    (0..rounds).fold((f64::INFINITY, f64::INFINITY), |best, _| {
        let plain = pairs(&PLAIN, size, count);
        let routed = pairs(&ROUTED, size, count);
        (best.0.min(plain), best.1.min(routed))
    })
}

fn show(size: usize, (plain, routed): (f64, f64)) {
    println!(
        "{size:>10} {plain:>12.2} {routed:>12.2} {:>10.2}",
        routed - plain
    );
}

fn main() -> Result<(), router::RouterError> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, count) = if quick { (3, 20_000) } else { (40, 300_000) };
    router::configure(&RouterOptions::default())?;
    println!("one allocation and its release, best of {rounds} rounds, measured");
    println!(
        "{:>10} {:>12} {:>12} {:>10}",
        "bytes", "plain ns", "routed ns", "more ns"
    );
    for size in [16, 64, 256, 1024, 16 << 10] {
        show(size, best(rounds, size, count));
    }
    let _scope = router::enter(ClassScope {
        class: Class::Other,
        operator: OperatorId::NONE,
    });
    for size in [THRESHOLD_BYTES, 1 << 20, 8 << 20] {
        show(size, best(rounds, size, count / 100));
    }
    Ok(())
}
