//! Counts of statements, taken where they end.

use super::snapshot::StatementCount;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram's buckets, s: from a statement that changes a setting to a query
/// that is left alone for the night.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0, 3600.0,
];

/// What a statement was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A query with at least one fused star join.
    Star,
    /// Another query.
    Query,
    /// What changes tables or settings.
    Other,
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With its answer.
    Done,
    /// With an error.
    Failed,
    /// On request, after its time limit, or because the server ended.
    Stopped,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Star, Kind::Query, Kind::Other];

    /// Its name, as a label has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Star => "star",
            Kind::Query => "query",
            Kind::Other => "other",
        }
    }
}

impl Ended {
    /// All ends.
    pub const ALL: [Ended; 3] = [Ended::Done, Ended::Failed, Ended::Stopped];

    /// Its name, as a label has it.
    pub fn name(self) -> &'static str {
        match self {
            Ended::Done => "done",
            Ended::Failed => "failed",
            Ended::Stopped => "stopped",
        }
    }
}

type Label = [(&'static str, &'static str); 1];

/// The statements that have ended since the counts were made.
#[derive(Debug)]
pub struct Counted {
    ended: [[Cell; 3]; 3],
    /// Times of those that ended with an answer, by kind.
    seconds: Family<Label, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Default)]
struct Cell {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Default for Counted {
    fn default() -> Self {
        let seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        // A series that appears only with its first value looks like a gap.
        for kind in Kind::ALL {
            drop(seconds.get_or_create(&label(kind)));
        }
        Counted {
            ended: Default::default(),
            seconds,
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

fn label(kind: Kind) -> Label {
    [("kind", kind.name())]
}

impl Counted {
    /// Counts a statement that took `time`, its waiting included.
    pub fn add(&self, kind: Kind, ended: Ended, time: Duration) {
        let cell = &self.ended[kind as usize][ended as usize];
        cell.count.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        cell.nanos.fetch_add(nanos, Ordering::Relaxed);
        if ended == Ended::Done {
            let histogram = self.seconds.get_or_create(&label(kind));
            histogram.observe(time.as_secs_f64());
        }
    }

    /// The counts, all kinds and ends of them.
    pub fn counts(&self) -> Vec<StatementCount> {
        let each = Kind::ALL
            .iter()
            .flat_map(|kind| Ended::ALL.map(|end| (*kind, end)));
        let count = |(kind, end): (Kind, Ended)| {
            let cell = &self.ended[kind as usize][end as usize];
            StatementCount {
                kind: kind.name().to_owned(),
                end: end.name().to_owned(),
                count: cell.count.load(Ordering::Relaxed),
                seconds: cell.nanos.load(Ordering::Relaxed) as f64 / 1e9,
            }
        };
        each.map(count).collect()
    }

    /// Adds the histogram of times to what is exposed.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "tierloom_statement",
            "Times of statements that ended with an answer, waiting included",
            Unit::Seconds,
            self.seconds.clone(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_is_counted_once_where_it_belongs() {
        let counted = Counted::default();
        counted.add(Kind::Star, Ended::Done, Duration::from_millis(250));
        counted.add(Kind::Star, Ended::Done, Duration::from_millis(750));
        counted.add(Kind::Other, Ended::Stopped, Duration::from_secs(2));
        let counts = counted.counts();
        assert_eq!(counts.len(), 9);
        let of = |kind: &str, end: &str| {
            let found = counts.iter().find(|c| c.kind == kind && c.end == end);
            found.map(|c| (c.count, c.seconds)).unwrap()
        };
        assert_eq!(of("star", "done"), (2, 1.0));
        assert_eq!(of("other", "stopped"), (1, 2.0));
        assert_eq!(counts.iter().map(|c| c.count).sum::<u64>(), 3);
    }
}
