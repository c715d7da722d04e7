//! Named phases, with descriptions and units for reports.

use tierloom_model::reference::work::{
    Chase, Filter, Join, Partition, RandomAccess, Scan, Stream, Tree, Work,
};
use tierloom_model::search::Problem;

/// Phases that are tuned by default.
pub const USUAL: [&str; 8] = [
    "scan",
    "write",
    "nt-write",
    "filter",
    "build",
    "probe",
    "partition",
    "aggregate",
];

/// All names that [`named`] accepts.
pub const KNOWN: [&str; 13] = [
    "scan",
    "read",
    "write",
    "nt-write",
    "copy",
    "filter",
    "build",
    "probe",
    "partition",
    "aggregate",
    "random",
    "tree",
    "chase",
];

/// The phase with this name and the default parameters of [`tierloom_model::reference::work`].
///
/// `None` for a name that is not in [`KNOWN`].
pub fn named(name: &str) -> Option<Work> {
    Some(match name {
        "scan" => Work::Scan(Scan::default()),
        "read" => Work::Read(Stream::default()),
        "write" => Work::Write(Stream::default()),
        "nt-write" => Work::NtWrite(Stream::default()),
        "copy" => Work::Copy(Stream::default()),
        "filter" => Work::Filter(Filter::default()),
        "build" => Work::Build(Join::default()),
        "probe" => Work::Probe(Join::default()),
        "partition" => Work::Partition(Partition::default()),
        "aggregate" => Work::Aggregate(Join::default()),
        "random" => Work::Random(RandomAccess::default()),
        "tree" => Work::Tree(Tree::default()),
        "chase" => Work::Chase(Chase::default()),
        _ => return None,
    })
}

/// Unit of a phase's rate in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateUnit {
    /// GB/s (10^9 bytes) that the program reads and writes.
    GigabytesPerSecond,
    /// Millions of rows, accesses or operations per second.
    MillionTuplesPerSecond,
}

impl RateUnit {
    /// Bytes for work that reads or writes data in order, tuples for all other work.
    pub fn of(work: &Work) -> Self {
        match work {
            Work::Read(_)
            | Work::Write(_)
            | Work::NtWrite(_)
            | Work::Copy(_)
            | Work::Filter(_)
            | Work::Partition(_)
            | Work::Scan(_) => RateUnit::GigabytesPerSecond,
            Work::Random(_)
            | Work::Chase(_)
            | Work::Build(_)
            | Work::Probe(_)
            | Work::Aggregate(_)
            | Work::Tree(_)
            | Work::Ssb(_)
            | Work::Tpch(_) => RateUnit::MillionTuplesPerSecond,
        }
    }

    /// The unit as records spell it.
    pub fn name(self) -> &'static str {
        match self {
            RateUnit::GigabytesPerSecond => "GB/s",
            RateUnit::MillionTuplesPerSecond => "Mtuples/s",
        }
    }

    /// Converts a rate of the search to this unit.
    ///
    /// The search counts tuples of all phases; work that passes over its tuples in several phases
    /// counts them once.
    pub fn shown(self, rate: f64, work: &Work, problem: &Problem<'_>) -> f64 {
        let tuples_per_s = rate * work.tuples() / problem.tuples();
        self.of_tuples(tuples_per_s, work)
    }

    /// Converts tuples of the work per second to this unit.
    pub fn of_tuples(self, tuples_per_s: f64, work: &Work) -> f64 {
        match (self, work.bytes_per_tuple()) {
            (RateUnit::GigabytesPerSecond, Some(bytes)) => tuples_per_s * bytes / 1e9,
            _ => tuples_per_s / 1e6,
        }
    }
}

/// One sentence without full stop about what a phase does.
pub fn describe(work: &Work) -> String {
    let vector = |simd: bool| if simd { "vector" } else { "scalar" };
    let ahead = |prefetched: bool| if prefetched { ", prefetched" } else { "" };
    let join = |join: &Join, does: &str| {
        format!(
            "{does}: {} rows of {} B, table of {}{}",
            count(join.rows),
            join.row_bytes,
            size(join.table_bytes),
            ahead(join.prefetched)
        )
    };
    match work {
        Work::Read(s) => format!("{} reads of {} in order", vector(s.simd), size(s.bytes)),
        Work::Write(s) => format!(
            "{} cached stores to {} in order",
            vector(s.simd),
            size(s.bytes)
        ),
        Work::NtWrite(s) => format!("non-temporal stores to {} in order", size(s.bytes)),
        Work::Copy(s) => format!("{} copies of {} in order", vector(s.simd), size(s.bytes)),
        Work::Random(r) => format!(
            "accesses of {} B at random places in {}{}",
            r.access_bytes,
            size(r.footprint_bytes),
            ahead(r.prefetched)
        ),
        Work::Chase(c) => format!(
            "loads of which each needs the one before, in {}",
            size(c.footprint_bytes)
        ),
        Work::Build(j) => join(j, "inserts rows into a hash table"),
        Work::Probe(j) => join(j, "probes a hash table"),
        Work::Aggregate(j) => join(j, "adds rows to groups"),
        Work::Filter(f) => format!(
            "{} reads of values of {} B in {}, {} skipped between two",
            vector(f.simd),
            f.value_bytes,
            size(f.bytes),
            f.skip
        ),
        Work::Partition(p) => format!(
            "{} rows of {} B to {} partitions, read {} times",
            count(p.rows),
            p.row_bytes,
            p.fanout,
            p.read_passes
        ),
        Work::Scan(s) => format!(
            "vector scan of {} values of {} B, {}% written out as identifiers",
            count(s.rows),
            s.value_bytes,
            s.selectivity * 100.0
        ),
        Work::Tree(t) => format!(
            "lookups in a search tree of {} keys in nodes of {} B, {}% change a leaf",
            count(t.keys),
            t.node_bytes,
            t.writes * 100.0
        ),
        Work::Tpch(t) => format!(
            "the queries of TPC-H at scale factor {}, {} columns hot ({:.0}% of the bytes)",
            t.scale_factor,
            t.hot_columns,
            t.hot_share() * 100.0
        ),
        Work::Ssb(s) => format!(
            "Star Schema Benchmark {}, scale factor {}",
            s.query, s.scale_factor
        ),
    }
}

/// Bytes in decimal units, in line with bandwidths.
fn size(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{} {name}", three(bytes / unit)),
        None => format!("{bytes} B"),
    }
}

fn count(tuples: f64) -> String {
    let units = [(1e9, "billion"), (1e6, "million")];
    match units.iter().find(|(unit, _)| tuples >= *unit) {
        Some((unit, name)) => format!("{} {name}", three(tuples / unit)),
        None => three(tuples),
    }
}

/// Up to three digits after the decimal point, without trailing zeros.
fn three(x: f64) -> String {
    format!("{}", (x * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_a_phase_of_that_name() {
        for name in KNOWN {
            let work = named(name).unwrap_or_else(|| panic!("{name} is known but not made"));
            assert_eq!(work.name(), name);
            assert!(!describe(&work).is_empty());
        }
        assert!(USUAL.iter().all(|name| KNOWN.contains(name)));
        assert_eq!(named("ssb"), None);
    }

    #[test]
    fn sizes_and_counts_are_decimal() {
        assert_eq!(
            (size(16e9), size(1.5e6), size(8.0)),
            ("16 GB".into(), "1.5 MB".into(), "8 B".into())
        );
        assert_eq!(
            (count(1e9), count(2.5e6), count(7.0)),
            ("1 billion".into(), "2.5 million".into(), "7".into())
        );
    }
}
