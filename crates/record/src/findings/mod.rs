//! What follows from the records of a run of queries, concluded once for the terminal, the report
//! and the summary record.
//!
//! ```text
//! RunSet ── best: the best placement of each machine, beyond the noise or not
//!    │         │
//!    ├─────────┴─ answer: three sentences (what was measured, what is best, what to do next)
//!    ├─ warnings: reasons why figures are wrong, missing or less general than they look
//!    └─ evidence: everything else, most important first
//! ```
//!
//! Nothing here looks at anything but records, so a report of saved records says the same as the
//! terminal did.

mod answer;
mod best;
mod evidence;
mod interference;
mod next;
mod published;
mod restart;
mod temp_tables;
mod transactions;
mod warnings;

pub use best::{BestPlacement, PlacementVerdict, SpeedRatio};
pub use interference::of_interference;
pub use published::{
    MeasuredRange, PublishedAnswer, PublishedVerdict, fraction, of_publication, published_sentences,
};
pub use restart::of_restarts;
pub use temp_tables::of_temp_tables;
pub use transactions::{NO_TPC_RESULT, of_transactions, ratio_with_range, streams_of};

use crate::{HERE, RunSet};

/// Range of repetitions, as a share of their median, above which a figure is called noisy.
pub const NOISY_RELATIVE_RANGE: f64 = 0.10;

/// Probability of a chance result below which a measured difference counts as beyond the noise.
pub const SIGNIFICANT_BELOW: f64 = 0.05;

/// Difference of page shares from which pages count as misplaced, 0 to 1.
const MISPLACED: f64 = 0.01;

/// The conclusions of one run of queries.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFindings {
    /// The best placement of each machine that can be compared; the machine that ran the command
    /// first.
    pub best: Vec<BestPlacement>,
    /// Three sentences: what was measured, which placement is best, what to do next.
    pub answer: [String; 3],
    /// Reasons why figures are wrong or missing.
    pub warnings: Vec<String>,
    /// Reasons why figures are less general than they look.
    pub cautions: Vec<String>,
    /// The evidence as sentences, the most important first.
    pub evidence: Vec<String>,
}

impl RunFindings {
    /// All sentences in reading order.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        let behind = self.warnings.iter().chain(&self.cautions);
        let all = self.answer.iter().chain(behind.chain(&self.evidence));
        all.map(String::as_str)
    }
}

/// Concludes from the records of a run.
pub fn conclude(set: &RunSet) -> RunFindings {
    let best = best::of(set);
    RunFindings {
        answer: [
            answer::measured(set),
            answer::best(set, &best),
            next::step(set, &best),
        ],
        warnings: warnings::warnings(set),
        cautions: warnings::cautions(set),
        evidence: evidence::evidence(set),
        best,
    }
}

/// Machines with figures, the one that ran the command first.
fn machines(set: &RunSet) -> Vec<&str> {
    let queries = set.queries.iter().map(|q| q.machine.as_str());
    let streams = set.throughputs.iter().map(|t| t.machine.as_str());
    let mut found: Vec<&str> = Vec::new();
    for machine in queries.chain(streams) {
        if !found.contains(&machine) {
            found.push(machine);
        }
    }
    found.sort_by_key(|machine| *machine != HERE);
    found
}
