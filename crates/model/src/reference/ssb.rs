//! The 13 queries of the Star Schema Benchmark (SSB) as parametric phases.
//!
//! Schema, cardinalities and filter factors: O'Neil, O'Neil, Chen, Revilak, "The Star Schema
//! Benchmark and Augmented Fact Table Indexing", TPC Technology Conference (TPCTC), 2009. Every
//! query has the usual plan of pipelined engines (selections below the joins, one hash table per
//! filtered dimension, then one pass over the fact table that filters, probes and aggregates), as
//! in Huang et al., "Bandwidth Expansion via CXL" (ADMS 2024), whose hand-written pipelines follow
//! HyPer's plans. Probes are in the order of their selectivity.
//!
//! The engine is a parameter: the width of its values (4 bytes in Huang et al.; 8 bytes in the
//! engine of Lebedev et al., "Demystifying CXL Memory Bandwidth Expansion for Analytical
//! Workloads", ADMS 2025), and its *intensity*, the compute time that it spends per tuple. All
//! accesses are scalar, because both engines process one tuple at a time.

use crate::work::{Access, LINE_BYTES, Op, Phase, PhaseKind, StructureClass};

/// Slots of a hash table per entry: open addressing with a load factor of one half.
const SLOTS_PER_ENTRY: f64 = 2.0;

/// Rows of the date dimension: the days of the seven years 1992 to 1998.
const DATE_ROWS: f64 = 2556.0;

#[derive(Clone, Copy)]
enum Dimension {
    Date,
    Customer,
    Supplier,
    Part,
}

impl Dimension {
    fn name(self) -> &'static str {
        match self {
            Dimension::Date => "date",
            Dimension::Customer => "customer",
            Dimension::Supplier => "supplier",
            Dimension::Part => "part",
        }
    }

    /// Foreign key of the fact table that refers to it.
    fn key(self) -> &'static str {
        match self {
            Dimension::Date => "lo_orderdate",
            Dimension::Customer => "lo_custkey",
            Dimension::Supplier => "lo_suppkey",
            Dimension::Part => "lo_partkey",
        }
    }

    fn rows(self, scale_factor: f64) -> f64 {
        match self {
            Dimension::Date => DATE_ROWS,
            Dimension::Customer => 30_000.0 * scale_factor,
            Dimension::Supplier => 2_000.0 * scale_factor,
            // The benchmark's formula below gives no parts at all for scale factors below 1.
            Dimension::Part if scale_factor < 1.0 => 200_000.0 * scale_factor,
            Dimension::Part => 200_000.0 * (1.0 + scale_factor.log2()).floor(),
        }
    }
}

/// Parameters of one query: selectivities of its filters on the fact table and of its probes,
/// measures, and groups.
struct QueryParameters {
    name: &'static str,
    filters: &'static [(&'static str, f64)],
    probes: &'static [(Dimension, f64)],
    measures: &'static [&'static str],
    groups: u64,
}

use Dimension::{Customer, Date, Part, Supplier};

const fn query(
    name: &'static str,
    filters: &'static [(&'static str, f64)],
    probes: &'static [(Dimension, f64)],
    measures: &'static [&'static str],
    groups: u64,
) -> QueryParameters {
    QueryParameters {
        name,
        filters,
        probes,
        measures,
        groups,
    }
}

const REVENUE: &[&str] = &["lo_revenue"];
const PROFIT: &[&str] = &["lo_revenue", "lo_supplycost"];
const PRICE: &[&str] = &["lo_extendedprice"];
// Discounts are 0 to 10 per cent; the queries of the first flight select three of these values.
const DISCOUNT: (&str, f64) = ("lo_discount", 3.0 / 11.0);

// A row per query.
#[rustfmt::skip]
const QUERIES: [QueryParameters; 13] = [
    query("q1.1", &[DISCOUNT, ("lo_quantity", 24.0 / 50.0)], &[(Date, 1.0 / 7.0)], PRICE, 1),
    query("q1.2", &[DISCOUNT, ("lo_quantity", 10.0 / 50.0)], &[(Date, 1.0 / 84.0)], PRICE, 1),
    query("q1.3", &[DISCOUNT, ("lo_quantity", 5.0 / 50.0)], &[(Date, 1.0 / 364.0)], PRICE, 1),
    query("q2.1", &[], &[(Part, 1.0 / 25.0), (Supplier, 0.2), (Date, 1.0)], REVENUE, 280),
    query("q2.2", &[], &[(Part, 1.0 / 125.0), (Supplier, 0.2), (Date, 1.0)], REVENUE, 56),
    query("q2.3", &[], &[(Part, 1.0 / 1000.0), (Supplier, 0.2), (Date, 1.0)], REVENUE, 7),
    query("q3.1", &[], &[(Customer, 0.2), (Supplier, 0.2), (Date, 6.0 / 7.0)], REVENUE, 150),
    query("q3.2", &[], &[(Customer, 0.04), (Supplier, 0.04), (Date, 6.0 / 7.0)], REVENUE, 600),
    query("q3.3", &[], &[(Customer, 0.008), (Supplier, 0.008), (Date, 6.0 / 7.0)], REVENUE, 24),
    query("q3.4", &[], &[(Customer, 0.008), (Supplier, 0.008), (Date, 1.0 / 84.0)], REVENUE, 4),
    query("q4.1", &[], &[(Customer, 0.2), (Supplier, 0.2), (Part, 0.4), (Date, 1.0)], PROFIT, 35),
    query("q4.2", &[], &[(Customer, 0.2), (Supplier, 0.2), (Date, 2.0 / 7.0), (Part, 0.4)],
        PROFIT, 100),
    query("q4.3", &[], &[(Part, 0.04), (Supplier, 0.04), (Customer, 0.2), (Date, 2.0 / 7.0)],
        PROFIT, 800),
];

/// Whether there is a query with this name ("q1.1").
pub fn is_query(name: &str) -> bool {
    QUERIES.iter().any(|q| q.name == name)
}

/// Phases of the 13 queries, in order, with their names ("q1.1" to "q4.3").
///
/// `bytes_per_value` is the width of every column. `time_per_tuple_ns` is the compute time per
/// tuple and worker without waits for memory, ns, for tuples of the fact table and of the
/// dimensions alike. Structures are named "lineorder.lo_discount", "hash(part)" and "groups".
pub fn ssb_queries(
    scale_factor: f64,
    bytes_per_value: u32,
    time_per_tuple_ns: f64,
) -> Vec<(String, Vec<Phase>)> {
    let engine = SsbEngine {
        scale_factor,
        width: f64::from(bytes_per_value),
        time_per_tuple_ns,
    };
    QUERIES
        .iter()
        .map(|q| (q.name.to_owned(), engine.phases(q)))
        .collect()
}

/// Share of a column's lines that hold at least one needed value: `1 - (1 - kept)^values_per_line`.
///
/// A share `kept` of the rows is needed, independently at random, and a line holds
/// `values_per_line` values.
pub fn lines_touched(kept: f64, values_per_line: f64) -> f64 {
    1.0 - (1.0 - kept.clamp(0.0, 1.0)).powf(values_per_line.max(1.0))
}

struct SsbEngine {
    scale_factor: f64,
    width: f64,
    time_per_tuple_ns: f64,
}

impl SsbEngine {
    fn phases(&self, query: &QueryParameters) -> Vec<Phase> {
        let builds = query
            .probes
            .iter()
            .map(|(dimension, share)| self.build(*dimension, *share));
        builds.chain([self.fact(query)]).collect()
    }

    /// Reads the filter column, and key and payload of the rows that pass; inserts these into the
    /// hash table.
    fn build(&self, dimension: Dimension, share: f64) -> Phase {
        let (name, rows) = (dimension.name(), dimension.rows(self.scale_factor));
        let table = Access::probe(
            format!("hash({name})"),
            share,
            self.table_bytes(dimension, share),
        )
        .with_op(Op::Update);
        Phase::new(format!("build {name}"), PhaseKind::Build, rows)
            .compute_ns(self.time_per_tuple_ns)
            .access(self.column(&format!("{name}.filter"), rows, 1.0))
            .access(self.column(&format!("{name}.key"), rows, share))
            .access(self.column(&format!("{name}.payload"), rows, share))
            .access(table)
    }

    /// One pass over the fact table: each filter and each probe reduces the rows that later columns
    /// are read for.
    fn fact(&self, query: &QueryParameters) -> Phase {
        let rows = 6_000_000.0 * self.scale_factor;
        let mut phase =
            Phase::new("lineorder", PhaseKind::Probe, rows).compute_ns(self.time_per_tuple_ns);
        let mut kept = 1.0;
        for (column, share) in query.filters {
            phase = phase.access(self.fact_column(column, rows, kept));
            kept *= share;
        }
        for (dimension, share) in query.probes {
            let table = format!("hash({})", dimension.name());
            phase = phase.access(self.fact_column(dimension.key(), rows, kept));
            phase = phase.access(Access::probe(
                table,
                kept,
                self.table_bytes(*dimension, *share),
            ));
            kept *= share;
        }
        for column in query.measures {
            phase = phase.access(self.fact_column(column, rows, kept));
        }
        // Groups are taken to have a cache line each.
        let group_bytes = query.groups * LINE_BYTES as u64;
        phase.access(
            Access::probe("groups", kept, group_bytes)
                .with_op(Op::Update)
                .with_class(StructureClass::GroupTable),
        )
    }

    fn fact_column(&self, column: &str, rows: f64, kept: f64) -> Access {
        self.column(&format!("lineorder.{column}"), rows, kept)
    }

    fn column(&self, structure: &str, rows: f64, kept: f64) -> Access {
        let touched = lines_touched(kept, LINE_BYTES / self.width);
        Access::sequential_read(structure, self.width * touched, (rows * self.width) as u64)
    }

    /// Size of the hash table: keys and payloads of the rows that pass, at the load factor.
    fn table_bytes(&self, dimension: Dimension, share: f64) -> u64 {
        (dimension.rows(self.scale_factor) * share * SLOTS_PER_ENTRY * 2.0 * self.width) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of fact rows in the result, from the paper's table of filter factors (O'Neil et al.,
    /// 2009).
    const PAPER: [f64; 13] = [
        0.0195,
        0.00065,
        0.000075,
        1.0 / 125.0,
        1.0 / 625.0,
        1.0 / 5000.0,
        0.034,
        0.0014,
        0.000055,
        0.00000076,
        0.016,
        0.0046,
        0.000091,
    ];

    #[test]
    fn filter_factors_are_those_of_the_paper() {
        for ((name, phases), paper) in ssb_queries(1.0, 4, 1.0).iter().zip(PAPER) {
            let groups = phases.last().unwrap().accesses.last().unwrap();
            assert_eq!(groups.class, StructureClass::GroupTable);
            let change = groups.lines_per_tuple / paper - 1.0;
            assert!(
                change.abs() < 0.05,
                "{name}: {} rows in the answer per row, {paper} in the paper",
                groups.lines_per_tuple
            );
        }
    }

    #[test]
    fn cardinalities_are_those_of_the_paper() {
        assert_eq!(Dimension::Part.rows(1.0), 200_000.0);
        assert_eq!(Dimension::Part.rows(30.0), 1_000_000.0);
        assert_eq!(Dimension::Part.rows(100.0), 1_400_000.0);
        assert_eq!(Dimension::Customer.rows(30.0), 900_000.0);
        assert_eq!(Dimension::Supplier.rows(100.0), 200_000.0);
    }

    #[test]
    fn first_fact_column_is_read_whole_and_later_ones_in_part() {
        for (name, phases) in ssb_queries(10.0, 8, 1.0) {
            let fact = phases.last().unwrap();
            let columns: Vec<&Access> = fact
                .accesses
                .iter()
                .filter(|a| a.class == StructureClass::Column)
                .collect();
            assert_eq!(columns[0].lines_per_tuple, 8.0 / 64.0, "{name}");
            assert!(
                columns
                    .windows(2)
                    .all(|w| w[1].lines_per_tuple <= w[0].lines_per_tuple),
                "{name}"
            );
            assert!(
                columns.last().unwrap().lines_per_tuple < 8.0 / 64.0,
                "{name}"
            );
        }
    }

    #[test]
    fn dimension_tables_nearly_fit_the_cache_at_sf_30_as_published() {
        // Huang et al. (ADMS 2024) report that the hash tables nearly fit the 64 MB of last-level
        // cache.
        for (name, phases) in ssb_queries(30.0, 4, 1.0) {
            let tables = phases
                .last()
                .unwrap()
                .accesses
                .iter()
                .filter(|a| a.class == StructureClass::HashTable);
            let bytes: u64 = tables.map(|a| a.footprint_bytes).sum();
            assert!(bytes < 64 << 20, "{name}: {bytes} bytes of hash tables");
        }
    }

    #[test]
    fn sparse_rows_touch_few_lines_and_dense_rows_all() {
        assert_eq!(lines_touched(1.0, 16.0), 1.0);
        assert_eq!(lines_touched(0.0, 16.0), 0.0);
        assert!((lines_touched(0.001, 16.0) - 0.0159).abs() < 1e-4);
    }
}
