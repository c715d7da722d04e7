//! Model checking of ledger and slots with `shuttle`: all thread interleavings for two threads with
//! little work, random and PCT-scheduled ones for more.
//!
//! The sources are compiled a second time here with the locks of `shuttle`, whose scheduler decides
//! at each lock operation and each populated page which thread runs next.

#![allow(
    clippy::duplicate_mod,
    reason = "once with the locks of std and once with those of shuttle"
)]

#[allow(dead_code, reason = "the router itself uses the rest")]
#[path = "ledger.rs"]
mod ledger;
#[allow(dead_code, reason = "the router itself uses the rest")]
#[path = "slot/mod.rs"]
mod slot;

mod sync {
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
}

use std::sync::Arc;

use super::extents::Tag;
use super::fake::{BASE, FAKE_KERNEL, Fake, UNIT, nodes, with};
use super::shares::Shares;
use super::stretches::Stretches;
use super::{account, events, extents, holds, kernel, options, pool, present, shares, stretches};
use ledger::Ledger;
use pool::Lender;
use shuttle::thread;
use slot::{Config, Machine, Slot};

const SLOT_BYTES: usize = 4 << 20;

/// One slot with the ledger and kernel that it works with.
struct Shared {
    slot: Slot,
    ledger: Ledger,
    stretches: Stretches,
    lender: Lender,
}

impl Shared {
    fn new(units: [u64; 3]) -> Arc<Self> {
        Fake::start(units, thread::yield_now);
        let (small, large) = Slot::tags(SLOT_BYTES);
        let tags: &'static mut [Tag] = Box::leak(vec![Tag::default(); small + large].into());
        let shared = Shared {
            slot: Slot::new(),
            ledger: Ledger::new(),
            stretches: Stretches::new(),
            lender: Lender::new(),
        };
        shared
            .slot
            .found(BASE, SLOT_BYTES, tags.split_at_mut(small), None);
        shared.configure(0);
        Arc::new(shared)
    }

    fn machine(&self) -> Machine<'_> {
        Machine {
            kernel: &FAKE_KERNEL,
            ledger: &self.ledger,
            stretches: &self.stretches,
            lender: &self.lender,
        }
    }

    fn configure(&self, node: usize) {
        let mut weights = [0; 2];
        weights[node] = 1;
        let config = Config {
            nodes: nodes(&weights),
            limit_bytes: 4 * UNIT as u64,
            cache_limit_bytes: UNIT as u64,
        };
        self.slot.configure(self.machine(), config, |_, _| {});
    }

    /// Allocates a block and checks that all of its pages are present and on one node.
    fn take(&self, units: usize) -> Option<usize> {
        let block = self.slot.allocate(self.machine(), units * UNIT, 1).ok()?;
        let on = |unit: usize| with(|fake| fake.pages[&(block.address + unit * UNIT)].0);
        assert!((0..units).all(|unit| on(unit) == on(0)));
        Some(block.address)
    }

    fn free(&self, address: usize) {
        self.slot.free(self.machine(), address, true);
    }

    /// Checks, after all threads: counted bytes are resident, and everything can be released.
    fn end(&self) {
        let held = self.slot.held.current() + self.slot.earlier_held.current();
        assert_eq!(held, with(|fake| fake.pages.len() * UNIT) as u64);
        self.slot.trim(self.machine());
        assert_eq!(self.slot.level.current() + self.slot.earlier.current(), 0);
        assert_eq!(with(|fake| fake.pages.len()), 0);
        assert!((0..3).all(|node| self.ledger.coming(node) == 0));
        assert!(self.stretches.is_still());
    }
}

/// The work of one thread.
type Work = Box<dyn FnOnce(&Shared) + Send>;

/// Runs the threads, then checks the end state.
fn together(shared: &Arc<Shared>, threads: Vec<Work>) {
    let running: Vec<_> = threads
        .into_iter()
        .map(|work| {
            let shared = Arc::clone(shared);
            thread::spawn(move || work(&shared))
        })
        .collect();
    for thread in running {
        thread.join().unwrap();
    }
    shared.end();
}

/// Two threads that draw from one node and one control group, one request after the other. At least
/// the first request of one of them must succeed.
fn two_that_draw(room: u64, wanted: &'static [u32]) {
    Fake::start([room, 0, 0], thread::yield_now);
    with(|fake| fake.group = Some(room));
    (FAKE_KERNEL.open)(BASE, 16 * UNIT).unwrap();
    (FAKE_KERNEL.bind)(0, 0, &nodes(&[1])).unwrap();
    let ledger = Arc::new(Ledger::new());
    let threads = [BASE, BASE + 8 * UNIT].map(|mut start| {
        let ledger = Arc::clone(&ledger);
        thread::spawn(move || {
            for units in wanted {
                let shares = Shares::of(&nodes(&[1]), UNIT, 0, *units);
                if let Ok(draw) = ledger.draw(&FAKE_KERNEL, shares) {
                    (FAKE_KERNEL.touch)(start, *units as usize * UNIT).unwrap();
                    drop(draw);
                    start += *units as usize * UNIT;
                }
            }
        })
    });
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(ledger.coming(0), 0);
    let came = with(|fake| fake.pages.len() as u64);
    assert!(came >= u64::from(wanted[0]), "memory was there");
}

#[test]
fn two_threads_never_get_the_same_bytes_in_any_order() {
    shuttle::check_dfs(|| two_that_draw(3, &[2]), None);
    shuttle::check_random(|| two_that_draw(5, &[1, 2, 3]), 3000);
}

#[test]
fn a_block_never_straddles_two_configurations_in_any_order() {
    let orders = || {
        let shared = Shared::new([2, 2, 0]);
        together(
            &shared,
            vec![
                Box::new(|shared| {
                    if let Some(block) = shared.take(1) {
                        shared.free(block);
                    }
                }),
                Box::new(|shared| shared.configure(1)),
            ],
        );
    };
    shuttle::check_dfs(orders, Some(200_000));
}

#[test]
fn threads_that_take_grow_free_and_reconfigure_keep_all_sums() {
    let orders = || {
        let shared = Shared::new([5, 3, 0]);
        let user = |units: usize| -> Work {
            Box::new(move |shared| {
                let first = shared.take(units);
                let second = shared.take(1);
                if let Some(first) = first {
                    shared
                        .slot
                        .resize(shared.machine(), first, (units + 1) * UNIT);
                    shared.free(first);
                }
                second.into_iter().for_each(|second| shared.free(second));
            })
        };
        let other = Box::new(|shared: &Shared| {
            shared.configure(1);
            shared.slot.trim(shared.machine());
            shared.configure(0);
        });
        together(&shared, vec![user(1), user(2), user(3), other]);
    };
    shuttle::check_random(orders, 2000);
    shuttle::check_pct(orders, 1000, 3);
}
