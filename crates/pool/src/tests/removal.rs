//! A member is removed on the simulated memory, with crashes after every operation, the same with
//! an operation left out, and in a wrong order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use uuid::Uuid;

use super::seed::rng;
use super::sim::{Device, LAYOUT, Manager, Op, POOL, Sim, SimHost, joining, new_pool};
use crate::format::{Coherence, Superblock};
use crate::layout::SUPERBLOCK_BYTES;
use crate::medium::{Medium, Readable};
use crate::pool::{erase, put_superblock};
use crate::state::{
    Actor, Change, Clean, Extents, ManifestRef, MemberEntry, PoolState, RegionKind, Spread,
};

const IMAGES: usize = 24;
/// Where the second member begins in the one address space of the simulation.
const SECOND: u64 = 1 << 40;
/// Where the data of extents are there: a line of each.
const DATA: u64 = 1 << 41;
const MEMBER: Uuid = Uuid::from_u128(2);
/// Extents of the table that has to move.
const MOVING: u64 = 3;

/// A part of the memory.
struct Window<'h>(&'h SimHost, u64);

impl Readable for Window<'_> {
    fn load(&self, offset: u64) -> u64 {
        self.0.load(self.1 + offset)
    }

    fn invalidate(&self, offset: u64) {
        self.0.invalidate(self.1 + offset);
    }
}

impl Medium for Window<'_> {
    fn store(&self, offset: u64, value: u64) {
        self.0.store(self.1 + offset, value);
    }

    fn flush(&self, offset: u64) {
        self.0.flush(self.1 + offset);
    }

    fn fence(&self) {
        self.0.fence();
    }
}

/// Where the first line of an extent is.
fn line(member: u32, extent: u64) -> u64 {
    DATA + (u64::from(member) << 32) + extent * 64
}

/// The extents of the table, in the order of its addresses.
fn extents(state: &PoolState) -> Vec<(u32, u64)> {
    let runs = state.table("t").expect("the table").runs.iter();
    runs.flat_map(|run| (run.1..run.end()).map(|extent| (run.0, extent)))
        .collect()
}

/// The number that is stored in each word of the table's n-th extent.
fn word(n: usize) -> u64 {
    0x1000 + n as u64
}

fn superblock() -> Superblock {
    Superblock {
        pool: POOL,
        member: MEMBER,
        index: 1,
        layout: LAYOUT,
        coherence: Coherence::None,
        created_ns: 1,
        member_bytes: 1 << 30,
    }
}

fn changed(manager: &Manager, change: Change) -> PoolState {
    let mut next = manager.state.clone();
    let actor = Actor {
        holder: manager.me,
        request: 0,
    };
    next.apply(actor, [change], LAYOUT.extent_bytes).unwrap();
    next
}

/// A pool of two members with a table on the second one.
fn pool() -> (Sim, Manager) {
    let sim = new_pool();
    let mut manager = Manager::open(sim.host(0), joining("a", 1, 1)).unwrap();
    let host = manager.host.clone();
    put_superblock(&Window(&host, SECOND), &superblock());
    let add = Change::AddMember(MemberEntry {
        uuid: MEMBER,
        extents: 4,
        path: "second".into(),
        removed: false,
        unknown: BTreeMap::new(),
    });
    manager.commit(changed(&manager, add)).unwrap();
    let reserve = Change::Reserve {
        kind: RegionKind::Table,
        name: "t".to_owned(),
        uuid: Uuid::from_u128(3),
        extents: MOVING,
        spread: Spread::Member(1),
    };
    manager.commit(changed(&manager, reserve)).unwrap();
    let region = manager.state.regions[0].id;
    let seal = Change::Seal {
        region,
        manifest: ManifestRef {
            bytes: 64,
            checksum: 1,
        },
        clean: Clean::confirmed_down(),
    };
    manager.commit(changed(&manager, seal)).unwrap();
    for (n, (member, extent)) in extents(&manager.state).into_iter().enumerate() {
        write(&host, line(member, extent), word(n));
    }
    (sim, manager)
}

fn write(host: &SimHost, line: u64, value: u64) {
    (0..8).for_each(|word| host.store(line + 8 * word, value));
    host.flush(line);
    host.fence();
}

fn copy(manager: &Manager) {
    let moves = manager.state.moves(1, 0, LAYOUT.extent_bytes).unwrap();
    for moved in moves {
        let Extents(member, first, count) = moved.from;
        for n in 0..count {
            let value = manager.host.load(line(member, first + n));
            write(&manager.host, line(moved.to.0, moved.to.1 + n), value);
        }
    }
}

fn commit(manager: &mut Manager) {
    let remove = Change::RemoveMember { member: MEMBER };
    manager.commit(changed(manager, remove)).unwrap();
}

fn clear(manager: &Manager) {
    erase(&Window(&manager.host, SECOND), 2 * SUPERBLOCK_BYTES);
}

/// The steps of `Inner::remove`, or another order of them.
type Order = [fn(&mut Manager); 3];
const RIGHT: Order = [|m| copy(m), commit, |m| clear(m)];

/// The superblock of the second member, if either copy is whole.
fn second(host: &SimHost) -> Option<Superblock> {
    let copy = |start: u64| {
        let words = (0..SUPERBLOCK_BYTES).step_by(8);
        let words = words.map(|at| host.load(SECOND + start + at).to_le_bytes());
        let bytes: Vec<u8> = words.flatten().collect();
        Superblock::decode(&bytes).ok()
    };
    copy(0).or_else(|| copy(SUPERBLOCK_BYTES))
}

/// What is wrong with what a crash left.
fn judge(image: Device, is_done: bool) -> Option<String> {
    let sim = Sim::of(image);
    let state = match sim.recover() {
        Ok(state) => state,
        Err(error) => return Some(error.to_string()),
    };
    let reader = sim.host(9);
    for (n, (member, extent)) in extents(&state).into_iter().enumerate() {
        let at = line(member, extent);
        if (0..8).any(|i| reader.load(at + 8 * i) != word(n)) {
            return Some(format!(
                "extent {n} of the table is not whole on member {member}"
            ));
        }
    }
    let found = second(&reader);
    match (state.members[1].removed, is_done) {
        (false, true) => Some("the removal was acknowledged and is lost".to_owned()),
        (false, false) if found != Some(superblock()) => {
            Some("it is a member without a superblock".to_owned())
        }
        (true, true) => {
            let mut head = (0..2 * SUPERBLOCK_BYTES).step_by(8);
            let dirty = head.any(|at| reader.load(SECOND + at) != 0);
            dirty.then(|| "the removed member is not cleared".to_owned())
        }
        // Whole, in parts or gone: the next manager clears it.
        _ => None,
    }
}

#[derive(Default)]
struct Explored {
    wrong: Option<String>,
    images: usize,
    old: usize,
    new: usize,
    /// Flushes and fences of each step.
    counts: Vec<[usize; 2]>,
    /// Whether what was left out would have changed nothing.
    void: bool,
}

/// Removes the member with a crash after every operation; with one left out of a step.
fn explore(
    order: Order,
    left_out: Option<(usize, Op, usize)>,
    rng: &mut fastrand::Rng,
) -> Explored {
    let (sim, mut manager) = pool();
    let mut found = Explored::default();
    for (number, step) in order.into_iter().enumerate() {
        let devices = Arc::new(Mutex::new(Vec::new()));
        let (seen, memory) = (Arc::clone(&devices), sim.clone());
        manager.host.on_every_op(move |op, _| {
            let device = memory.device().clone();
            seen.lock().unwrap().push((op, device));
        });
        if let Some((_, op, n)) = left_out.filter(|left_out| left_out.0 == number) {
            manager.host.leave_out(op, n);
        }
        step(&mut manager);
        found.counts.push(manager.host.flushes_and_fences());
        found.void |= left_out.is_some_and(|left| left.0 == number) && !manager.host.had_effect();
        manager.host.let_go();
        let crashes = std::mem::take(&mut *devices.lock().unwrap());
        // With something left out, what matters is what is there after the steps.
        let every = left_out.map_or(1, |_| 97);
        for (at, (op, device)) in crashes.into_iter().enumerate() {
            if op == Op::Invalidate || found.wrong.is_some() || at % every > 0 {
                continue;
            }
            for image in device.images(IMAGES, rng) {
                found.images += 1;
                let removed = Sim::of(image.clone()).recover();
                if let Ok(state) = removed {
                    match state.members[1].removed {
                        true => found.new += 1,
                        false => found.old += 1,
                    }
                }
                found.wrong = found.wrong.or_else(|| judge(image, false));
            }
        }
    }
    let device = sim.device().clone();
    for image in device.images(IMAGES, rng) {
        found.wrong = found.wrong.or_else(|| judge(image, true));
    }
    found
}

#[test]
fn a_crash_after_any_operation_leaves_the_pool_with_the_member_or_without_it() {
    let found = explore(RIGHT, None, &mut rng("removal"));
    println!(
        "{} images: {} old, {} new",
        found.images, found.old, found.new
    );
    assert_eq!(found.wrong, None);
    assert!(found.old > 1000 && found.new > 1000);
}

#[test]
fn every_flush_and_fence_of_a_removal_is_needed() {
    let rng = &mut rng("mutations of a removal");
    let counts = explore(RIGHT, None, rng).counts;
    // Those of the commit are those of every commit, see `crashes.rs`.
    let (mut missed, mut checked, mut void) = (Vec::new(), 0, 0);
    for step in [0, 2] {
        let [flushes, fences] = counts[step];
        let flushes = (0..flushes).map(|n| (Op::Flush, n));
        for (op, n) in flushes.chain((0..fences).map(|n| (Op::Fence, n))) {
            checked += 1;
            let found = explore(RIGHT, Some((step, op, n)), rng);
            match found.wrong {
                Some(_) => {}
                // Most of a superblock is zeros already.
                None if found.void => void += 1,
                None => missed.push((step, op, n)),
            }
        }
    }
    println!("{checked} mutations, {void} change nothing");
    // The fences of the copies: the commit has fences of its own before its header. The first fence
    // of the clearing only decides which copy of the superblock goes first.
    let fences = (0..MOVING as usize).map(|n| (0, Op::Fence, n));
    let reasons: Vec<_> = fences.chain([(2, Op::Fence, 0)]).collect();
    assert_eq!(missed, reasons);
    assert_eq!(checked as u64, 2 * MOVING + 2 * SUPERBLOCK_BYTES / 64 + 2);
    assert!(checked - void >= 2 * MOVING as usize + 6);
}

#[test]
fn other_orders_of_the_steps_lose_something() {
    let rng = &mut rng("orders of a removal");
    let orders: [Order; 3] = [
        [commit, |m| copy(m), |m| clear(m)],
        [|m| copy(m), |m| clear(m), commit],
        [|m| clear(m), |m| copy(m), commit],
    ];
    for (number, order) in orders.into_iter().enumerate() {
        let wrong = explore(order, None, rng).wrong;
        assert!(wrong.is_some(), "order {number} is as good");
    }
}
