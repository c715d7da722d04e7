//! Search in the sorted keys of a node.

use std::hint::select_unpredictable;

use crate::sync::{AtomicU64, Ordering};

/// Number of keys below `key` in sorted `keys`, without a branch that depends on them.
///
/// Keys that change meanwhile give some number up to their count; the version says that it is not
/// to be used.
#[inline]
pub(crate) fn count_below(keys: &[AtomicU64], key: u64) -> usize {
    count(keys, |other| other < key)
}

/// Number of keys up to `key` in sorted `keys`, as [`count_below`].
#[inline]
pub(crate) fn count_up_to(keys: &[AtomicU64], key: u64) -> usize {
    count(keys, |other| other <= key)
}

#[inline]
fn count(keys: &[AtomicU64], before: impl Fn(u64) -> bool) -> usize {
    let mut left = keys;
    let mut passed = 0;
    // Halves in a fixed number of steps; the upper one may be shorter by one key, which is then
    // looked at twice.
    while left.len() > 1 {
        let half = left.len() / 2;
        let goes_up = before(left[half - 1].load(Ordering::Relaxed));
        let start = select_unpredictable(goes_up, half, 0);
        passed += start;
        left = &left[start..start + left.len() - half];
    }
    match left.first() {
        Some(last) => passed + usize::from(before(last.load(Ordering::Relaxed))),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_are_those_of_a_plain_loop_at_every_length(
            mut keys in proptest::collection::vec(0_u64..300, 0..256),
            key in 0_u64..300,
        ) {
            keys.sort_unstable();
            keys.dedup();
            let words: Vec<AtomicU64> = keys.iter().map(|key| AtomicU64::new(*key)).collect();
            let below = keys.iter().filter(|other| **other < key).count();
            let up_to = keys.iter().filter(|other| **other <= key).count();
            prop_assert_eq!(count_below(&words, key), below);
            prop_assert_eq!(count_up_to(&words, key), up_to);
        }
    }
}
