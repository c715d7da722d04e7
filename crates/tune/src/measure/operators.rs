//! The operators that represent phases of queries: sizes from the region, everything else from the
//! work.

use tierloom_kernels::Simd;
use tierloom_model::reference::work::{Filter, Join, Partition, Scan, Tree, Work};
use tierloom_operators::{
    Aggregation, BTree, ColumnScan, Form, HashJoin, Operator, RadixPartition, SelectiveRead,
};

use super::MeasureError;
use super::phase::{KernelPhase, Runs};

/// Tuples of a probe for each one of the build, as in the publication of the join.
const PROBES_PER_ROW: u64 = 4;
/// Bytes of tuples and slots of joins; of tuples and slots of aggregations; of other values.
const JOIN_BYTES: u64 = 8;
const GROUP_BYTES: u64 = 16;
const VALUE_BYTES: u64 = 8;
/// Bytes of values and row numbers of a scan.
const SCAN_BYTES: u64 = 4;
/// Operations of a tree for each key, at least.
const KEYS_PER_OPERATION: u64 = 4;
/// Smallest numbers of tuples and of keys.
const LEAST_TUPLES: u64 = 1024;

/// The operator that represents `work`.
///
/// # Errors
/// [`MeasureError::Parameter`] for a parameter that the operator does not have,
/// [`MeasureError::NoQueries`] for whole benchmarks of queries.
pub(super) fn of(
    name: &str,
    work: &Work,
    region_bytes: u64,
    workers: u32,
) -> Result<KernelPhase, MeasureError> {
    let asked = Asked {
        name,
        region_bytes,
        workers,
    };
    match work {
        Work::Build(join) => asked.build(join),
        Work::Probe(join) => asked.probe(join),
        Work::Aggregate(join) => asked.aggregate(join),
        Work::Filter(filter) => asked.filter(filter),
        Work::Partition(partition) => asked.partition(partition),
        Work::Scan(scan) => asked.scan(scan),
        Work::Tree(tree) => asked.tree(tree),
        // Benchmarks of queries: the caller has the plain accesses.
        _ => Err(MeasureError::NoQueries),
    }
}

/// A phase that was asked for, and the room that there is for it.
struct Asked<'a> {
    name: &'a str,
    region_bytes: u64,
    workers: u32,
}

impl Asked<'_> {
    /// Reports a parameter that is not what the operator has.
    fn only(&self, parameter: &'static str, given: f64, has: f64) -> Result<(), MeasureError> {
        if given == has {
            return Ok(());
        }
        Err(MeasureError::Parameter {
            phase: self.name.to_owned(),
            parameter,
            given: given.to_string(),
            expected: has.to_string(),
        })
    }

    fn phase(&self, operator: Operator, phase: Option<&'static str>, work: Work) -> KernelPhase {
        let of_it = phase.map(|phase| format!("; its {phase} alone"));
        KernelPhase {
            name: self.name.to_owned(),
            what: format!("{operator}{}", of_it.unwrap_or_default()),
            work,
            runs: Runs::Operator { operator, phase },
        }
    }

    fn structure_bytes(&self, operator: &Operator, name: &str) -> f64 {
        let structures = operator.structures(self.workers).into_iter();
        let own = structures.filter(|structure| structure.name == name);
        own.map(|structure| structure.size_bytes as f64).sum()
    }

    /// `tuples` as a power of two: tables double their slots, and would outgrow the region.
    fn power(tuples: u64) -> u64 {
        1 << tuples.max(LEAST_TUPLES).ilog2()
    }

    fn join(&self, join: &Join, rows: u64, probes: u64) -> Result<Operator, MeasureError> {
        self.only("row_bytes", join.row_bytes, JOIN_BYTES as f64)?;
        self.only("lines_per_row", join.lines_per_row, 1.0)?;
        Ok(Operator::HashJoin(HashJoin {
            build_tuples: rows,
            probe_tuples: probes,
            form: form(join.prefetched),
            ..HashJoin::default()
        }))
    }

    /// Mostly inputs of the build and the table; a few probes check it.
    fn build(&self, join: &Join) -> Result<KernelPhase, MeasureError> {
        let rows = Self::power(self.region_bytes / (4 * JOIN_BYTES));
        let operator = self.join(join, rows, LEAST_TUPLES)?;
        let work = Join {
            rows: rows as f64,
            table_bytes: self.structure_bytes(&operator, "table"),
            ..join.clone()
        };
        Ok(self.phase(operator, Some("build"), Work::Build(work)))
    }

    fn probe(&self, join: &Join) -> Result<KernelPhase, MeasureError> {
        let rows = Self::power(self.region_bytes / ((3 + PROBES_PER_ROW) * JOIN_BYTES));
        let probes = rows * PROBES_PER_ROW;
        let operator = self.join(join, rows, probes)?;
        let work = Join {
            rows: probes as f64,
            table_bytes: self.structure_bytes(&operator, "table"),
            ..join.clone()
        };
        Ok(self.phase(operator, Some("probe"), Work::Probe(work)))
    }

    /// Half as many groups as tuples: the table is as large as the input.
    fn aggregate(&self, join: &Join) -> Result<KernelPhase, MeasureError> {
        self.only("lines_per_row", join.lines_per_row, 1.0)?;
        let tuples = Self::power(self.region_bytes / (2 * GROUP_BYTES));
        let operator = Operator::Aggregation(Aggregation {
            tuples,
            groups: tuples / 2,
            form: form(join.prefetched),
            ..Aggregation::default()
        });
        let work = Join {
            rows: tuples as f64,
            row_bytes: GROUP_BYTES as f64,
            table_bytes: self.structure_bytes(&operator, "groups"),
            ..join.clone()
        };
        Ok(self.phase(operator, Some("aggregate"), Work::Aggregate(work)))
    }

    fn filter(&self, filter: &Filter) -> Result<KernelPhase, MeasureError> {
        self.only("value_bytes", filter.value_bytes, VALUE_BYTES as f64)?;
        let tuples = self.region_bytes / VALUE_BYTES;
        let operator = Operator::SelectiveRead(SelectiveRead {
            tuples,
            skip: u64::from(filter.skip),
            // A scalar filter is a plain loop; the tuned form keeps four sums and prefetches.
            form: form(filter.simd),
            ..SelectiveRead::default()
        });
        let work = Filter {
            bytes: (tuples * VALUE_BYTES) as f64,
            ..filter.clone()
        };
        Ok(self.phase(operator, None, Work::Filter(work)))
    }

    /// Both passes over the rows, as the model counts them.
    fn partition(&self, partition: &Partition) -> Result<KernelPhase, MeasureError> {
        self.only("row_bytes", partition.row_bytes, VALUE_BYTES as f64)?;
        let tuples = self.region_bytes / (2 * VALUE_BYTES);
        let operator = Operator::RadixPartition(RadixPartition {
            tuples,
            fanout: u64::from(partition.fanout),
            form: Form::Plain,
            ..RadixPartition::default()
        });
        operator.check().map_err(|error| MeasureError::Parameter {
            phase: self.name.to_owned(),
            parameter: "fanout",
            given: partition.fanout.to_string(),
            expected: error.problem,
        })?;
        let work = Partition {
            rows: tuples as f64,
            ..partition.clone()
        };
        Ok(self.phase(operator, None, Work::Partition(work)))
    }

    fn scan(&self, scan: &Scan) -> Result<KernelPhase, MeasureError> {
        self.only("value_bytes", scan.value_bytes, SCAN_BYTES as f64)?;
        self.only("tid_bytes", scan.tid_bytes, SCAN_BYTES as f64)?;
        let workers = u64::from(self.workers.max(1));
        let rows_per_thread = (self.region_bytes / (2 * SCAN_BYTES) / workers).max(1);
        let default = ColumnScan::default();
        let operator = Operator::ColumnScan(ColumnScan {
            rows_per_thread,
            selectivity: scan.selectivity,
            form: form(scan.simd),
            simd: if scan.simd {
                default.simd
            } else {
                Simd::Scalar
            },
        });
        let work = Scan {
            rows: (rows_per_thread * workers) as f64,
            ..scan.clone()
        };
        Ok(self.phase(operator, None, Work::Scan(work)))
    }

    fn tree(&self, tree: &Tree) -> Result<KernelPhase, MeasureError> {
        self.only("entry_bytes", tree.entry_bytes, 16.0)?;
        let sized = |keys: u64| {
            Operator::BTree(BTree {
                keys,
                operations: (keys / KEYS_PER_OPERATION).max(LEAST_TUPLES),
                inserts: tree.writes,
                inner_node_bytes: tree.node_bytes as u32,
                leaf_node_bytes: tree.node_bytes as u32,
                fill: tree.fill,
                form: Form::Plain,
                sample_every: 0,
                ..BTree::default()
            })
        };
        let wrong = |error: tierloom_operators::ParameterError| MeasureError::Parameter {
            phase: self.name.to_owned(),
            parameter: error.field,
            given: format!("{tree:?}"),
            expected: error.problem,
        };
        sized(LEAST_TUPLES).check().map_err(wrong)?;
        let total = |keys: u64| {
            let structures = sized(keys).structures(self.workers).into_iter();
            structures
                .map(|structure| structure.size_bytes)
                .sum::<u64>()
        };
        // Doubling finds the largest power of two that fits: arenas have room that is not used.
        let mut keys = LEAST_TUPLES;
        while total(keys * 2) <= self.region_bytes {
            keys *= 2;
        }
        let operator = sized(keys);
        let work = Tree {
            keys: keys as f64,
            ..tree.clone()
        };
        Ok(self.phase(operator, None, Work::Tree(work)))
    }
}

/// The form with prefetches or vectors, or the plain loop.
fn form(tuned: bool) -> Form {
    match tuned {
        true => Form::Tuned,
        false => Form::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::super::measured_as;
    use super::*;
    use crate::work::named;
    use proptest::prelude::*;

    const OPERATORS: [&str; 7] = [
        "build",
        "probe",
        "aggregate",
        "filter",
        "partition",
        "scan",
        "tree",
    ];

    fn operator(name: &str, work: &Work, region_bytes: u64, workers: u32) -> Operator {
        let phase = measured_as(name, work, region_bytes, workers).unwrap();
        match phase.runs {
            Runs::Operator { operator, .. } => operator,
            other => panic!("{name}: {other:?}"),
        }
    }

    proptest! {
        #[test]
        fn structures_fill_the_region_without_outgrowing_it(
            mib in 4_u64..=512,
            workers in 1_u32..=16,
            which in 0..OPERATORS.len(),
        ) {
            let name = OPERATORS[which];
            let made = operator(name, &named(name).unwrap(), mib << 20, workers);
            let structures = made.structures(workers);
            let bytes: u64 = structures.iter().map(|structure| structure.size_bytes).sum();
            // Small structures (requests, the few probes of a build) are beside it.
            prop_assert!(bytes <= (mib << 20) + (1 << 20), "{}: {} MiB", name, bytes >> 20);
            prop_assert!(bytes >= (mib << 20) / 8, "{}: {} MiB", name, bytes >> 20);
            made.check().unwrap();
        }
    }

    #[test]
    fn the_skip_the_fanout_and_the_shares_of_the_work_are_kept() {
        let filter = Work::Filter(Filter {
            skip: 511,
            ..Filter::default()
        });
        assert!(
            operator("filter", &filter, 64 << 20, 2)
                .to_string()
                .contains("511")
        );
        let partition = Work::Partition(Partition {
            fanout: 8192,
            ..Partition::default()
        });
        assert!(
            operator("partition", &partition, 64 << 20, 2)
                .to_string()
                .contains("8192")
        );
        let scan = Work::Scan(Scan {
            selectivity: 0.25,
            ..Scan::default()
        });
        assert!(
            operator("scan", &scan, 64 << 20, 2)
                .to_string()
                .contains("25%")
        );
        let tree = Work::Tree(Tree {
            node_bytes: 1024.0,
            writes: 0.5,
            ..Tree::default()
        });
        let Operator::BTree(made) = operator("tree", &tree, 64 << 20, 2) else {
            panic!("no tree");
        };
        assert_eq!((made.leaf_node_bytes, made.inserts), (1024, 0.5));
    }

    #[test]
    fn a_parameter_that_no_operator_has_is_named_with_what_there_is() {
        for (name, work, says) in [
            (
                "probe",
                Work::Probe(Join {
                    row_bytes: 16.0,
                    ..Join::default()
                }),
                "row_bytes=16",
            ),
            (
                "filter",
                Work::Filter(Filter {
                    value_bytes: 4.0,
                    ..Filter::default()
                }),
                "value_bytes=4",
            ),
            (
                "partition",
                Work::Partition(Partition {
                    fanout: 100,
                    ..Partition::default()
                }),
                "fanout=100",
            ),
            (
                "tree",
                Work::Tree(Tree {
                    node_bytes: 100.0,
                    ..Tree::default()
                }),
                "node_bytes",
            ),
        ] {
            let error = measured_as(name, &work, 64 << 20, 2).unwrap_err();
            assert!(
                error.is_bad_input() && error.to_string().contains(says),
                "{error}"
            );
        }
    }
}
