//! The words of a node.
//!
//! ```text
//!   leaf:   version | count, next leaf | keys ...        | values ...
//!   inner:  version | count, level     | separators ...  | children, two to a word ...
//! ```
//! Child i of an inner node has the keys below separator i, and from separator i-1 on. Counts are
//! in the lower half of the second word. All loads and stores are relaxed: the version orders them.

use crate::sync::{AtomicU64, Ordering};
use crate::version::Version;

/// Words before the keys.
const HEADER_WORDS: usize = 2;
const LINE_WORDS: usize = 8;

/// Most keys of a leaf of that size.
pub(crate) const fn leaf_capacity(node_words: usize) -> usize {
    (node_words - HEADER_WORDS) / 2
}

/// Most separators of an inner node of that size, which has one child more.
pub(crate) const fn inner_capacity(node_words: usize) -> usize {
    // Of s separators and s + 1 children at two to a word, as many as there is room for.
    (2 * (node_words - HEADER_WORDS) - 2) / 3
}

/// Cache lines up to the last of `capacity` keys.
pub(crate) const fn key_lines(capacity: usize) -> usize {
    (HEADER_WORDS + capacity).div_ceil(LINE_WORDS)
}

#[inline]
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

#[inline]
fn store(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Moves the words from `at` on up by one; the last one is overwritten.
fn shift_up(words: &[AtomicU64], at: usize) {
    for pair in words[at..].windows(2).rev() {
        store(&pair[1], load(&pair[0]));
    }
}

/// Moves the words after `at` down by one; the last one stays as well.
fn shift_down(words: &[AtomicU64], at: usize) {
    for pair in words[at..].windows(2) {
        store(&pair[0], load(&pair[1]));
    }
}

fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    from.iter()
        .zip(to)
        .for_each(|(from, to)| store(to, load(from)));
}

/// A leaf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf<'a> {
    words: &'a [AtomicU64],
    pub(crate) capacity: usize,
}

impl<'a> Leaf<'a> {
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self {
            words,
            capacity: leaf_capacity(words.len()),
        }
    }

    #[inline]
    pub(crate) fn version(self) -> Version<'a> {
        Version::new(&self.words[0])
    }

    /// Begins the life of the leaf: no keys, and that leaf after it.
    pub(crate) fn clear(self, next: u32) {
        self.set(0, next);
    }

    /// Number of keys; never more than there can be, even if the leaf changes meanwhile.
    #[inline]
    pub(crate) fn count(self) -> usize {
        (load(&self.words[1]) as u32 as usize).min(self.capacity)
    }

    /// The leaf after this one.
    pub(crate) fn next(self) -> u32 {
        (load(&self.words[1]) >> 32) as u32
    }

    fn set(self, count: usize, next: u32) {
        store(&self.words[1], u64::from(next) << 32 | count as u64);
    }

    fn set_count(self, count: usize) {
        self.set(count, self.next());
    }

    pub(crate) fn set_next(self, next: u32) {
        self.set(self.count(), next);
    }

    /// The keys in use.
    #[inline]
    pub(crate) fn keys(self) -> &'a [AtomicU64] {
        &self.words[HEADER_WORDS..HEADER_WORDS + self.count()]
    }

    /// The first `count` values.
    #[inline]
    fn values(self, count: usize) -> &'a [AtomicU64] {
        let start = HEADER_WORDS + self.capacity;
        &self.words[start..start + count]
    }

    /// The first `count` keys, in use or not.
    fn key_words(self, count: usize) -> &'a [AtomicU64] {
        &self.words[HEADER_WORDS..HEADER_WORDS + count]
    }

    #[inline]
    pub(crate) fn key(self, at: usize) -> u64 {
        load(&self.words[HEADER_WORDS + at])
    }

    /// The word of a value.
    #[inline]
    pub(crate) fn value(self, at: usize) -> u64 {
        load(&self.words[HEADER_WORDS + self.capacity + at])
    }

    pub(crate) fn set_value(self, at: usize, value: u64) {
        store(&self.words[HEADER_WORDS + self.capacity + at], value);
    }

    /// Adds a pair before the one at `at`; there has to be room, and the leaf has to be locked.
    pub(crate) fn insert(self, at: usize, key: u64, value: u64) {
        let count = self.count() + 1;
        let (keys, values) = (self.key_words(count), self.values(count));
        shift_up(keys, at);
        shift_up(values, at);
        store(&keys[at], key);
        store(&values[at], value);
        self.set_count(count);
    }

    /// Adds a pair after all others; there has to be room, and the leaf has to be unreachable.
    pub(crate) fn push(self, key: u64, value: u64) {
        let count = self.count();
        store(&self.words[HEADER_WORDS + count], key);
        self.set_value(count, value);
        self.set_count(count + 1);
    }

    /// Removes the pair at `at`; the leaf has to be locked.
    pub(crate) fn remove(self, at: usize) {
        let count = self.count();
        shift_down(self.key_words(count), at);
        shift_down(self.values(count), at);
        self.set_count(count - 1);
    }

    /// Moves the pairs from `at` on into the empty leaf `right`, which follows this one as
    /// `number`; both have to be locked or unreachable.
    pub(crate) fn split(self, at: usize, right: Leaf<'_>, number: u32) {
        let count = self.count();
        copy(&self.key_words(count)[at..], right.key_words(count - at));
        copy(&self.values(count)[at..], right.values(count - at));
        right.set(count - at, self.next());
        self.set(at, number);
    }

    /// Moves all pairs of `right`, which follows this one, to the end of this one; both have to be
    /// locked.
    pub(crate) fn append(self, right: Leaf<'_>) {
        let (own, more) = (self.count(), right.count());
        let all = own + more;
        copy(right.key_words(more), &self.key_words(all)[own..]);
        copy(right.values(more), &self.values(all)[own..]);
        self.set(all, right.next());
    }

    /// Puts the pairs from `at` on at the end of `pairs`.
    pub(crate) fn read_into(self, at: usize, pairs: &mut Vec<(u64, u64)>) {
        let keys = self.keys();
        let values = self.values(keys.len());
        let both = keys.iter().zip(values).skip(at);
        pairs.extend(both.map(|(key, value)| (load(key), load(value))));
    }
}

/// An inner node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inner<'a> {
    words: &'a [AtomicU64],
    pub(crate) capacity: usize,
}

impl<'a> Inner<'a> {
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self {
            words,
            capacity: inner_capacity(words.len()),
        }
    }

    #[inline]
    pub(crate) fn version(self) -> Version<'a> {
        Version::new(&self.words[0])
    }

    /// Begins the life of the node: one child, `level` levels above the leaves.
    pub(crate) fn clear(self, level: u32, child: u32) {
        store(&self.words[1], u64::from(level) << 32);
        self.set_child(0, child);
    }

    /// Number of separators; never more than there can be, even if the node changes meanwhile.
    #[inline]
    pub(crate) fn count(self) -> usize {
        (load(&self.words[1]) as u32 as usize).min(self.capacity)
    }

    /// Levels above the leaves.
    pub(crate) fn level(self) -> u32 {
        (load(&self.words[1]) >> 32) as u32
    }

    fn set_count(self, count: usize) {
        store(&self.words[1], u64::from(self.level()) << 32 | count as u64);
    }

    /// The separators in use.
    #[inline]
    pub(crate) fn keys(self) -> &'a [AtomicU64] {
        &self.words[HEADER_WORDS..HEADER_WORDS + self.count()]
    }

    fn key_words(self, count: usize) -> &'a [AtomicU64] {
        &self.words[HEADER_WORDS..HEADER_WORDS + count]
    }

    pub(crate) fn key(self, at: usize) -> u64 {
        load(&self.words[HEADER_WORDS + at])
    }

    #[inline]
    pub(crate) fn child(self, at: usize) -> u32 {
        let word = load(&self.words[HEADER_WORDS + self.capacity + at / 2]);
        (word >> (32 * (at % 2))) as u32
    }

    fn set_child(self, at: usize, child: u32) {
        let word = &self.words[HEADER_WORDS + self.capacity + at / 2];
        let shift = 32 * (at % 2);
        let others = load(word) & !(0xffff_ffff << shift);
        store(word, others | u64::from(child) << shift);
    }

    /// Adds a separator at `at` and the child above it; there has to be room, and the node has to
    /// be locked or unreachable.
    pub(crate) fn insert(self, at: usize, key: u64, child: u32) {
        let count = self.count() + 1;
        let keys = self.key_words(count);
        shift_up(keys, at);
        store(&keys[at], key);
        for child in (at + 1..count).rev() {
            self.set_child(child + 1, self.child(child));
        }
        self.set_child(at + 1, child);
        self.set_count(count);
    }

    /// Removes the separator at `at` and the child above it; the node has to be locked.
    pub(crate) fn remove(self, at: usize) {
        let count = self.count();
        shift_down(self.key_words(count), at);
        for child in at + 1..count {
            self.set_child(child, self.child(child + 1));
        }
        self.set_count(count - 1);
    }

    /// Moves the separators after `at` and their children into the new node `right`; returns the
    /// one at `at`, which goes up. Both have to be locked or unreachable.
    pub(crate) fn split(self, at: usize, right: Inner<'_>) -> u64 {
        let (count, up) = (self.count(), self.key(at));
        right.clear(self.level(), self.child(at + 1));
        for moved in at + 1..count {
            right.push(self.key(moved), self.child(moved + 1));
        }
        self.set_count(at);
        up
    }

    /// Adds `separator` and all children of `right`, which follows this one; both have to be
    /// locked.
    pub(crate) fn append(self, separator: u64, right: Inner<'_>) {
        self.push(separator, right.child(0));
        for moved in 0..right.count() {
            self.push(right.key(moved), right.child(moved + 1));
        }
    }

    /// Adds a separator above all others and the child above it.
    pub(crate) fn push(self, key: u64, child: u32) {
        let count = self.count();
        store(&self.key_words(count + 1)[count], key);
        self.set_child(count + 1, child);
        self.set_count(count + 1);
    }
}
