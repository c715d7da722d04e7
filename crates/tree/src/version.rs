//! The version word of a node: lock bit, obsolete bit and a counter.
//!
//! ```text
//!   63                               2     1         0
//!   | number of changes so far       | obsolete | locked |
//! ```
//! A reader remembers the word, reads the node without writing to it, and looks at the word again:
//! if it is the same, nothing has changed meanwhile (Leis, Scheibner, Kemper and Neumann, "The ART
//! of Practical Synchronization", DaMoN 2016). What is read in between may be any mixture of words,
//! so it is not used for anything that cannot be undone before the second look.
//!
//! The words of a node are loaded and stored as relaxed atomics. Order comes from here alone, as in
//! a sequence lock (Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?", MSPC
//! 2012): a fence after the lock is taken and one before the second look.

use crate::sync::{AtomicU64, Ordering, fence, pause};

const LOCKED: u64 = 1;
const OBSOLETE: u64 = 2;
/// One change, in the counter.
const CHANGE: u64 = 4;

/// The version word of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version<'a>(&'a AtomicU64);

/// A version that was neither locked nor obsolete when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl<'a> Version<'a> {
    pub(crate) fn new(word: &'a AtomicU64) -> Self {
        Self(word)
    }

    /// Begins the life of a node that nobody else can reach.
    ///
    /// A node number that was in use before continues counting, so that nobody takes the new node
    /// for the old one.
    pub(crate) fn revive(self) {
        let before = self.0.load(Ordering::Relaxed);
        let counter = before & !(LOCKED | OBSOLETE);
        self.0
            .store(counter.wrapping_add(CHANGE), Ordering::Release);
    }

    /// The version once nobody holds the lock; `None` for a node that is no longer in the tree.
    #[inline]
    pub(crate) fn read(self) -> Option<Seen> {
        let word = self.0.load(Ordering::Acquire);
        if word & (LOCKED | OBSOLETE) == 0 {
            return Some(Seen(word));
        }
        self.wait()
    }

    #[cold]
    fn wait(self) -> Option<Seen> {
        let mut tries = 0;
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & OBSOLETE != 0 {
                return None;
            }
            if word & LOCKED == 0 {
                return Some(Seen(word));
            }
            pause(tries);
            tries += 1;
        }
    }

    /// Whether nothing has changed since `seen`; then all that was read since is what was there.
    #[inline]
    pub(crate) fn unchanged(self, seen: Seen) -> bool {
        // Loads before the fence stay before the load after it.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen.0
    }

    /// Takes the lock if nothing has changed since `seen`.
    #[inline]
    pub(crate) fn lock(self, seen: Seen) -> Option<Locked<'a>> {
        let locked = seen.0 | LOCKED;
        self.0
            .compare_exchange(seen.0, locked, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // A reader that sees any store after this fence finds the lock at its second look.
        fence(Ordering::Release);
        Some(Locked {
            version: self,
            seen,
        })
    }

    /// Whether the node is locked or no longer in the tree.
    pub(crate) fn is_out_of_use(word: u64) -> bool {
        word & (LOCKED | OBSOLETE) != 0
    }
}

/// The lock of a node; given back when dropped, as changed.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    version: Version<'a>,
    seen: Seen,
}

impl Locked<'_> {
    fn release(&self, word: u64) {
        self.version.0.store(word, Ordering::Release);
    }

    /// Gives the lock back without a change: readers meanwhile need not begin again.
    pub(crate) fn unused(self) {
        self.release(self.seen.0);
        std::mem::forget(self);
    }

    /// Gives the lock back for good: the node is no longer in the tree.
    pub(crate) fn retire(self) {
        self.release(self.seen.0.wrapping_add(CHANGE) | OBSOLETE);
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.release(self.seen.0.wrapping_add(CHANGE));
    }
}
