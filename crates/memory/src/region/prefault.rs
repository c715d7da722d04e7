//! Populates (pre-faults) a region with several threads, each with a contiguous part of whole
//! rounds.

use std::ops::Range;

use super::Region;
use crate::placement::Run;
use crate::{MemoryError, Placement};

/// Least memory per thread: below it, starting a thread (tens of microseconds) costs more than it
/// saves.
const MIN_BYTES_PER_THREAD: usize = 8 << 20;

/// Populates all pages of the region; the calling thread does the first part.
pub(super) fn all(region: &Region, threads: usize) -> Result<(), MemoryError> {
    let placement = region.placement();
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        asked => asked,
    };
    let threads = threads
        .min(region.size_bytes() / MIN_BYTES_PER_THREAD)
        .max(1);
    let parts = parts(
        &placement,
        region.pages(),
        region.start_page(),
        threads as u64,
    );
    let mut others = parts.iter().skip(1);
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut inline = vec![parts.first().cloned().unwrap_or(0..0)];
        for part in others.by_ref() {
            let placement = &placement;
            let spawned = std::thread::Builder::new()
                .name("tierloom-place".to_owned())
                .spawn_scoped(scope, move || populate(region, placement, part.clone()));
            match spawned {
                Ok(handle) => handles.push(handle),
                // A process at its thread limit still gets its memory, only more slowly.
                Err(_) => inline.push(part.clone()),
            }
        }
        let mut outcome = inline
            .into_iter()
            .try_for_each(|part| populate(region, &placement, part));
        // All threads are joined even after an error: they use the region, which the caller drops
        // then.
        for handle in handles {
            let joined = handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(joined);
        }
        outcome
    })
}

fn populate(region: &Region, placement: &Placement, part: Range<u64>) -> Result<(), MemoryError> {
    let only_node = region.only_node();
    let mut runs = placement
        .runs_in(region.pages(), region.start_page(), part)
        .map(|run| Run {
            node: run.node.filter(|_| only_node.is_none()),
            ..run
        });
    region
        .backend()
        .populate(region.mapping(), region.page_size(), &mut runs)
}

/// Splits the pages into about equal parts that end at ends of rounds, so that no run is cut in
/// two.
fn parts(placement: &Placement, pages: u64, start_page: u64, threads: u64) -> Vec<Range<u64>> {
    let round = placement.round_pages();
    let phase = start_page % round;
    let mut start = 0;
    let mut parts = Vec::new();
    for index in 1..=threads {
        let even = (u128::from(pages) * u128::from(index) / u128::from(threads)) as u64;
        let end = if index == threads {
            pages
        } else {
            ((even + phase) / round * round).saturating_sub(phase)
        };
        if end > start {
            parts.push(start..end);
            start = end;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tierloom_topology::NodeId;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn threads_cover_every_page_once_and_cut_no_run(
            weights in prop::collection::vec(1_u32..40, 2..5), pages in 1_u64..5000, start in 0_u64..500, threads in 1_u64..9,
        ) {
            let weights = (0..).map(NodeId).zip(weights).collect();
            let placement = Placement::weighted(weights).unwrap();
            let parts = parts(&placement, pages, start, threads);
            let split: Vec<Run> = parts.iter().flat_map(|part| placement.runs_in(pages, start, part.clone())).collect();
            prop_assert_eq!(split, placement.runs(pages, start).collect::<Vec<_>>());
            prop_assert!(parts.len() <= threads as usize);
        }
    }
}
