//! The best ranks per group so far.

/// For each group the `keep` smallest ranks that were seen.
pub(super) struct Best {
    keep: usize,
    /// How many ranks a group has, up to `keep`.
    counts: Vec<u32>,
    /// `keep` ranks per group: a heap with the largest first.
    ranks: Vec<u64>,
}

impl Best {
    pub fn new(keep: usize) -> Self {
        Best {
            keep,
            counts: Vec::new(),
            ranks: Vec::new(),
        }
    }

    pub fn size_bytes(&self) -> usize {
        self.counts.capacity() * 4 + self.ranks.capacity() * 8
    }

    /// Makes room for groups below `groups`.
    pub fn grow(&mut self, groups: usize) {
        if groups > self.counts.len() {
            self.counts.resize(groups, 0);
            self.ranks.resize(groups * self.keep, 0);
        }
    }

    /// The last rank that `group` keeps, once it has as many as it may.
    pub fn last(&self, group: usize) -> Option<u64> {
        let is_full = *self.counts.get(group)? as usize == self.keep;
        let last = self.ranks.get(group * self.keep).copied();
        last.filter(|_| is_full)
    }

    /// Takes a rank of `group` into account; false if it is worse than `keep` others.
    pub fn admit(&mut self, group: usize, rank: u64) -> bool {
        let heap = &mut self.ranks[group * self.keep..(group + 1) * self.keep];
        let count = self.counts[group] as usize;
        if count < self.keep {
            heap[count] = rank;
            rise(&mut heap[..=count]);
            self.counts[group] += 1;
            return true;
        }
        match heap.first() {
            Some(worst) if rank > *worst => false,
            Some(worst) if rank < *worst => {
                heap[0] = rank;
                sink(heap);
                true
            }
            // A tie with the last one; none if nothing is kept.
            worst => worst.is_some(),
        }
    }
}

/// Restores the heap after its last element was added.
fn rise(heap: &mut [u64]) {
    let mut at = heap.len() - 1;
    while at > 0 && heap[(at - 1) / 2] < heap[at] {
        heap.swap(at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

/// Restores the heap after its first element was replaced.
fn sink(heap: &mut [u64]) {
    let mut at = 0;
    loop {
        let child = 2 * at + 1;
        if child >= heap.len() {
            return;
        }
        let right = child + 1;
        let larger = if right < heap.len() && heap[right] > heap[child] {
            right
        } else {
            child
        };
        if heap[at] >= heap[larger] {
            return;
        }
        heap.swap(at, larger);
        at = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_ranks_worse_than_as_many_as_are_kept_are_refused(
            ranks in prop::collection::vec((0..3_usize, 0..40_u64), 0..200),
            keep in 0..7_usize,
        ) {
            let mut best = Best::new(keep);
            best.grow(3);
            let mut seen: Vec<Vec<u64>> = vec![Vec::new(); 3];
            for (group, rank) in ranks {
                let better = seen[group].iter().filter(|other| **other < rank).count();
                prop_assert_eq!(best.admit(group, rank), better < keep);
                seen[group].push(rank);
            }
        }
    }
}
