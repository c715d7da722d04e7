//! A simulated kernel for tests: nodes with a few pages each and its own page table.
//!
//! It knows which pages are resident, and panics where a real kernel would invoke the out-of-memory
//! killer.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::kernel::{Kernel, Nodes};

/// Page size of the simulated kernel: one small granule.
pub(super) const UNIT: usize = 64 << 10;
/// First address of the simulated slots; never dereferenced.
pub(super) const BASE: usize = 1 << 46;

/// State of one test, or of one thread interleaving.
#[derive(Debug, Clone)]
pub(super) struct Fake {
    /// Pages that each node has in all.
    pub(super) units: [u64; 3],
    /// Limit of the control group in pages; `None` for no limit.
    pub(super) group: Option<u64>,
    /// Resident pages by address: the node, and whether the page was written since it was
    /// populated.
    pub(super) pages: BTreeMap<usize, (u8, bool)>,
    /// Pages are locked: `release` fails.
    pub(super) locked: bool,
    /// Populating fails with `ENOMEM`.
    pub(super) refuses: bool,
    policy: Option<u8>,
    opened: BTreeMap<usize, usize>,
    /// Called at each page, so that a scheduler can run another thread.
    pub(super) pause: fn(),
}

thread_local! {
    static FAKE: RefCell<Fake> = const { RefCell::new(Fake::EMPTY) };
}

/// The simulated kernel; its state is the calling thread's.
pub(super) const FAKE_KERNEL: Kernel = Kernel {
    bind,
    free_bytes: |node| Ok(with(|fake| fake.free_bytes(node))),
    group_free_bytes: || {
        with(|fake| {
            let left = fake.group? - fake.pages.len() as u64;
            Some(left * UNIT as u64)
        })
    },
    populate: |address, len, node| come(address, len, Some(node)),
    touch: |address, len| come(address, len, None),
    release,
    remove: release,
    open: |address, len| {
        with(|fake| fake.opened.insert(address, len));
        Ok(())
    },
};

impl Fake {
    const EMPTY: Fake = Fake {
        units: [0; 3],
        group: None,
        pages: BTreeMap::new(),
        locked: false,
        refuses: false,
        policy: None,
        opened: BTreeMap::new(),
        pause: || {},
    };

    /// Resets the state: nodes with `units` pages each.
    pub(super) fn start(units: [u64; 3], pause: fn()) {
        with(|fake| {
            *fake = Fake {
                units,
                pause,
                ..Fake::EMPTY
            }
        });
    }

    pub(super) fn free_bytes(&self, node: u8) -> u64 {
        let used = self.pages.values().filter(|page| page.0 == node).count() as u64;
        (self.units[usize::from(node)] - used) * UNIT as u64
    }

    fn one_comes(&mut self, address: usize, node: Option<u8>) -> Result<(), i32> {
        if self.refuses {
            return Err(libc::ENOMEM);
        }
        let opened = self.opened.range(..=address).next_back();
        assert!(
            opened.is_some_and(|(start, len)| address < start + len),
            "a page comes where nothing may be read or written"
        );
        let node = node.or(self.policy).expect("a page comes without a policy");
        if self.pages.contains_key(&address) {
            return Ok(());
        }
        assert!(
            self.free_bytes(node) > 0,
            "node {node} is full: the out-of-memory killer"
        );
        self.pages.insert(address, (node, false));
        let group = self.group.unwrap_or(u64::MAX);
        assert!(
            self.pages.len() as u64 <= group,
            "the control group is full: the out-of-memory killer"
        );
        Ok(())
    }
}

/// Reads or changes this thread's state.
pub(super) fn with<R>(see: impl FnOnce(&mut Fake) -> R) -> R {
    FAKE.with_borrow_mut(see)
}

fn pause() {
    with(|fake| fake.pause)();
}

fn bind(_: usize, _: usize, nodes: &Nodes) -> Result<(), i32> {
    pause();
    with(|fake| {
        fake.policy = match nodes.parts() {
            [(node, _)] => Some(*node),
            _ => None,
        }
    });
    Ok(())
}

fn come(address: usize, len: usize, node: Option<u8>) -> Result<(), i32> {
    for unit in (address..address + len).step_by(UNIT) {
        pause();
        with(|fake| fake.one_comes(unit, node))?;
    }
    Ok(())
}

fn release(address: usize, len: usize) -> Result<(), i32> {
    for unit in (address..address + len).step_by(UNIT) {
        pause();
        with(|fake| {
            if fake.locked {
                return Err(libc::EINVAL);
            }
            fake.pages.remove(&unit);
            Ok(())
        })?;
    }
    Ok(())
}

/// A place with weights: node `n` has the `n`-th weight, and 0 leaves it out.
pub(super) fn nodes(weights: &[u32]) -> Nodes {
    let mut nodes = Nodes::ANY;
    for (node, weight) in weights
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight > 0)
    {
        nodes.parts[usize::from(nodes.count)] = (node as u8, *weight);
        nodes.count += 1;
    }
    nodes
}
