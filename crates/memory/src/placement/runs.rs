//! Layout of a placement: runs of consecutive pages on one node.

use std::ops::Range;

use tierloom_topology::NodeId;

use super::{Placement, PlacementKind};

/// Consecutive pages of an object that go to one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First page, counted from the start of the object.
    pub first_page: u64,
    /// Number of pages; at least 1.
    pub pages: u64,
    /// Node of the pages; `None` where the kernel chooses.
    pub node: Option<NodeId>,
}

impl Placement {
    /// The runs of an object of `pages` pages, in page order; each page is in exactly one run.
    ///
    /// `start_page` is the position in the round of weights at which the object starts. Small
    /// objects laid out one after another, each starting where the previous one ended, then have
    /// exactly the weights together. Only [`PlacementKind::Weighted`] uses it.
    pub fn runs(&self, pages: u64, start_page: u64) -> Runs {
        self.runs_in(pages, start_page, 0..pages)
    }

    /// The runs of [`Placement::runs`] within `range`, cut at its ends; threads divide the work
    /// this way.
    pub fn runs_in(&self, pages: u64, start_page: u64, range: Range<u64>) -> Runs {
        let end = range.end.min(pages);
        let layout = match &self.kind {
            PlacementKind::Default => Layout::Whole(None),
            PlacementKind::Bind(node) => Layout::Whole(Some(*node)),
            PlacementKind::Weighted(weights) => {
                let round = self.round_pages();
                Layout::Rounds {
                    weights: weights.clone(),
                    round,
                    phase: start_page % round,
                }
            }
            PlacementKind::Partitioned(shares) => Layout::Parts(part_ends(shares, pages)),
        };
        Runs {
            layout,
            next: range.start.min(end),
            end,
        }
    }

    /// Number of pages on each node, in placement order.
    ///
    /// Nodes that get none are listed with 0; empty where the kernel chooses. Computed without
    /// walking the pages.
    pub fn pages_per_node(&self, pages: u64, start_page: u64) -> Vec<(NodeId, u64)> {
        match &self.kind {
            PlacementKind::Default => Vec::new(),
            PlacementKind::Bind(node) => vec![(*node, pages)],
            PlacementKind::Partitioned(shares) => {
                let mut start = 0;
                let ends = part_ends(shares, pages);
                ends.into_iter()
                    .map(|(node, end)| (node, end - std::mem::replace(&mut start, end)))
                    .collect()
            }
            PlacementKind::Weighted(weights) => {
                let round = self.round_pages();
                let whole = pages / round;
                let mut counts: Vec<(NodeId, u64)> = weights
                    .iter()
                    .map(|(node, weight)| (*node, u64::from(*weight) * whole))
                    .collect();
                // Whole rounds are counted above; only the rest has to be laid out, and it may
                // start in mid-round.
                for run in self.runs(pages % round, start_page) {
                    let part = counts.iter_mut().find(|(node, _)| Some(*node) == run.node);
                    part.into_iter().for_each(|(_, count)| *count += run.pages);
                }
                counts
            }
        }
    }
}

/// End of each part, in pages. Sizes are rounded by largest remainder, so each is within one page
/// of its share.
fn part_ends(shares: &[(NodeId, f64)], pages: u64) -> Vec<(NodeId, u64)> {
    let exact: Vec<f64> = shares
        .iter()
        .map(|(_, share)| share * pages as f64)
        .collect();
    let mut counts: Vec<u64> = exact.iter().map(|part| part.floor() as u64).collect();
    let mut by_remainder: Vec<usize> = (0..shares.len()).collect();
    by_remainder.sort_by(|left, right| {
        let rest = |index: &usize| exact[*index] - exact[*index].floor();
        rest(right).total_cmp(&rest(left)).then(left.cmp(right))
    });
    let mut missing = pages.saturating_sub(counts.iter().sum());
    for index in by_remainder.into_iter().cycle() {
        if missing == 0 {
            break;
        }
        counts[index] += 1;
        missing -= 1;
    }
    let mut end = 0;
    shares
        .iter()
        .zip(counts)
        .map(|((node, _), count)| {
            // With rounding, the sum for huge objects may be one page too many: never go past the
            // end.
            end = (end + count).min(pages);
            (*node, end)
        })
        .collect()
}

#[derive(Debug, Clone)]
enum Layout {
    Whole(Option<NodeId>),
    Rounds {
        weights: Vec<(NodeId, u32)>,
        round: u64,
        phase: u64,
    },
    Parts(Vec<(NodeId, u64)>),
}

/// Iterator over the [`Run`]s of a placement; computes each run when it is asked for.
#[derive(Debug, Clone)]
pub struct Runs {
    layout: Layout,
    next: u64,
    end: u64,
}

impl Runs {
    /// Node of the page `self.next`, and the end of its run.
    fn run_at_next(&self) -> (Option<NodeId>, u64) {
        match &self.layout {
            Layout::Whole(node) => (*node, self.end),
            Layout::Rounds {
                weights,
                round,
                phase,
            } => {
                // Both terms are below `round`, so the sum does not overflow.
                let mut within = (self.next % round + phase) % round;
                for (node, weight) in weights {
                    let weight = u64::from(*weight);
                    if within < weight {
                        return (Some(*node), self.next.saturating_add(weight - within));
                    }
                    within -= weight;
                }
                (None, self.end)
            }
            Layout::Parts(ends) => match ends.iter().find(|(_, end)| self.next < *end) {
                Some((node, end)) => (Some(*node), *end),
                None => (None, self.end),
            },
        }
    }
}

impl Iterator for Runs {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.next >= self.end {
            return None;
        }
        let (node, run_end) = self.run_at_next();
        let run_end = run_end.min(self.end);
        let run = Run {
            first_page: self.next,
            pages: run_end - self.next,
            node,
        };
        self.next = run_end;
        Some(run)
    }
}
