//! Rows that follow each other in the same group, as in a table that is in the order of its dates.
//!
//! Their values are added in registers, where in memory each addition would wait for the last one.

use std::ops::Range;
use tierloom_kernels::select::VECTOR_ROWS;

/// Rows of a vector whose expressions are computed together, so that their values stay in the
/// caches of first level.
pub(crate) const BLOCK_ROWS: usize = VECTOR_ROWS / 4;

/// Rows that are looked at together.
const CHUNK: usize = 32;

/// Rows of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub rows: Range<usize>,
    /// Whether all are known to be in one group.
    pub is_one_group: bool,
}

/// Divides rows by their keys, in their order, into `runs`.
pub(crate) fn find_runs(keys: &[u64], runs: &mut Vec<Run>) {
    runs.clear();
    for (at, chunk) in keys.chunks(CHUNK).enumerate() {
        let first = chunk[0];
        let is_one_group = chunk.len() == CHUNK
            && first == chunk[CHUNK - 1]
            && chunk.iter().all(|key| *key == first);
        let rows = at * CHUNK..at * CHUNK + chunk.len();
        let goes_on = |last: &&mut Run| {
            last.is_one_group == is_one_group && (!is_one_group || keys[last.rows.start] == first)
        };
        match runs.last_mut().filter(goes_on) {
            Some(last) => last.rows.end = rows.end,
            None => runs.push(Run { rows, is_one_group }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_are_all_rows_and_only_of_one_group_where_they_say_so(
            parts in prop::collection::vec((0_u64..3, 1_usize..100), 0..12),
        ) {
            let keys = parts.iter().flat_map(|(key, rows)| std::iter::repeat_n(*key, *rows));
            let keys: Vec<u64> = keys.collect();
            let mut runs = vec![Run { rows: 3..9, is_one_group: true }];
            find_runs(&keys, &mut runs);
            let mut end = 0;
            for (at, run) in runs.iter().enumerate() {
                prop_assert_eq!(run.rows.start, end);
                end = run.rows.end;
                let of_run = &keys[run.rows.clone()];
                prop_assert!(!run.is_one_group || of_run.iter().all(|key| *key == of_run[0]));
                let next = runs.get(at + 1);
                prop_assert!(next.is_none_or(|next| next.is_one_group || run.is_one_group));
            }
            prop_assert_eq!(end, keys.len());
            // Rows of one group for long enough are found.
            let found = runs.iter().filter(|run| run.is_one_group).map(|run| run.rows.len());
            let long = parts.iter().map(|(_, rows)| (rows + 1).saturating_sub(2 * CHUNK));
            prop_assert!(found.sum::<usize>() >= long.sum::<usize>());
        }
    }
}
