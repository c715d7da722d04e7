//! The one way to the metadata of a pool.
//!
//! Everything that the protocol promises rests on these five operations, so the tests run it on a
//! medium that keeps what real caches would do with each of them.

use tierloom_memory::shared::SharedWords;

/// Bytes of a cache line, which is what hosts exchange with memory.
pub(crate) const LINE: u64 = 64;

/// What a reader needs.
pub(crate) trait Readable {
    /// The little-endian word at `offset`, a multiple of 8, as this host sees it.
    fn load(&self, offset: u64) -> u64;

    /// Drops this host's copy of the line of `offset`, so that the next load reads memory.
    ///
    /// A dirty copy is written back first. Complete when it returns.
    fn invalidate(&self, offset: u64);
}

/// What a writer needs beyond.
pub(crate) trait Medium: Readable {
    /// Stores the word at `offset`. It reaches memory at any time from now on, whole.
    fn store(&self, offset: u64, value: u64);

    /// Starts to write the line of `offset` back to memory.
    fn flush(&self, offset: u64);

    /// Waits until every flush before it has arrived, and keeps later loads behind earlier stores.
    fn fence(&self);
}

/// A mapping of the metadata of the first member.
#[derive(Debug)]
pub(crate) struct MappedMedium {
    words: SharedWords,
    /// Whether lines are written back and dropped: not where all users share one coherent cache and
    /// nothing outlives it.
    flushes: bool,
}

impl MappedMedium {
    pub(crate) fn new(words: SharedWords, flushes: bool) -> Self {
        Self { words, flushes }
    }

    /// Whether pages of it were gone: what was stored there since then is in no file.
    pub(crate) fn has_lost_pages(&self) -> bool {
        self.words.has_lost_pages()
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl Readable for MappedMedium {
    fn load(&self, offset: u64) -> u64 {
        u64::from_le(self.words.load(index(offset)))
    }

    fn invalidate(&self, offset: u64) {
        if self.flushes {
            self.words.invalidate(index(offset));
        } else {
            self.words.fence();
        }
    }
}

impl Medium for MappedMedium {
    fn store(&self, offset: u64, value: u64) {
        self.words.store(index(offset), value.to_le());
    }

    fn flush(&self, offset: u64) {
        if self.flushes {
            self.words.write_back(index(offset));
        }
    }

    fn fence(&self) {
        self.words.fence();
    }
}
