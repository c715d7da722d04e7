//! The head of a row: its version with a lock, and where its newest version is.
//!
//! ```text
//!   word 0   | number of changes so far  62 bits | present | locked |
//!   word 1   | number of moves so far    32 bits | slot of the delta + 1, or 0 for main  32 bits |
//! ```
//! A reader remembers both words, copies what it needs, and looks at them again, as with the nodes
//! of the tree: a sequence lock. Row words are relaxed atomics; order comes from here alone.
//! Merging moves a row and leaves word 0 as it is, since nothing of the row changes for a
//! transaction that read it.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of a head.
pub(crate) const HEAD_WORDS: usize = 2;

const LOCKED: u64 = 1;
const PRESENT: u64 = 2;
const CHANGE: u64 = 4;
const MOVE: u64 = 1 << 32;
const SLOT: u64 = MOVE - 1;

/// A version that was not locked when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RowVersion(u64);

impl RowVersion {
    /// Whether there is a row in this version.
    pub(crate) fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// Changes so far.
    #[cfg(test)]
    pub(crate) fn changes(self) -> u64 {
        self.0 >> 2
    }

    /// The version after a change, with a row or without.
    pub(crate) fn next(self, present: bool) -> Self {
        let counter = (self.0 & !PRESENT).wrapping_add(CHANGE);
        Self(counter | if present { PRESENT } else { 0 })
    }
}

/// Where the newest version of a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location(u64);

impl Location {
    /// The slot of the delta; `None` for main.
    #[inline]
    pub(crate) fn slot(self) -> Option<u32> {
        ((self.0 & SLOT) as u32).checked_sub(1)
    }
}

/// The two words of a row's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    version: &'a AtomicU64,
    location: &'a AtomicU64,
}

impl<'a> Head<'a> {
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64], row: u32) -> Self {
        let at = row as usize * HEAD_WORDS;
        Self {
            version: &words[at],
            location: &words[at + 1],
        }
    }

    /// The version, unless somebody holds the lock.
    #[inline]
    pub(crate) fn read(self) -> Option<RowVersion> {
        let word = self.version.load(Ordering::Acquire);
        (word & LOCKED == 0).then_some(RowVersion(word))
    }

    #[inline]
    pub(crate) fn location(self) -> Location {
        Location(self.location.load(Ordering::Acquire))
    }

    /// Whether neither word has changed; then all that was read since is what was there.
    #[inline]
    pub(crate) fn unchanged(self, version: RowVersion, location: Location) -> bool {
        // Loads before the fence stay before the loads after it.
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version.0
            && self.location.load(Ordering::Relaxed) == location.0
    }

    /// Takes the lock; `None` if somebody holds it.
    #[inline]
    pub(crate) fn lock(self) -> Option<RowVersion> {
        let version = self.read()?;
        let taken = self.version.compare_exchange(
            version.0,
            version.0 | LOCKED,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        taken.ok()?;
        // A reader that sees any store after this fence finds the lock at its second look.
        fence(Ordering::Release);
        Some(version)
    }

    /// Gives the lock back with this version.
    #[inline]
    pub(crate) fn unlock(self, version: RowVersion) {
        self.version.store(version.0, Ordering::Release);
    }

    /// Sets where the row is, by the holder of the lock.
    #[inline]
    pub(crate) fn move_to(self, slot: Option<u32>) {
        let before = self.location.load(Ordering::Relaxed);
        let moves = (before & !SLOT).wrapping_add(MOVE);
        let slot = slot.map_or(0, |slot| u64::from(slot) + 1);
        // A merge leaves the version word as it was, so that the order for who reads from the new
        // place comes from here.
        self.location.store(moves | slot, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_excludes_and_a_change_and_a_move_are_both_seen() {
        let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let head = Head::new(&words, 1);
        let (first, place) = (head.read().unwrap(), head.location());
        assert!(!first.is_present() && place.slot().is_none());
        let held = head.lock().unwrap();
        assert!(head.lock().is_none() && head.read().is_none());
        assert!(!head.unchanged(first, place));
        head.move_to(Some(0));
        head.unlock(held.next(true));
        let (second, place) = (head.read().unwrap(), head.location());
        assert!(second.is_present() && place.slot() == Some(0));
        head.lock().unwrap();
        head.move_to(None);
        head.unlock(second);
        assert_eq!(head.read(), Some(second));
        assert!(!head.unchanged(second, place), "a move is seen");
        assert_eq!(words[0].load(Ordering::Relaxed), 0, "another row");
    }
}
