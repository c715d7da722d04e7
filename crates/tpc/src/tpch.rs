//! The eight tables of TPC-H, by the crate `tpchgen`.

use crate::Part;
use arrow::datatypes::SchemaRef;
use tpchgen::generators as rows;
use tpchgen_arrow as batches;

/// The tables, largest first.
pub(crate) const TABLES: [&str; 8] = [
    "lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region",
];

macro_rules! tables {
    ($($name:literal => $rows:ident, $arrow:ident;)+) => {
        /// The schema of table `table`, one of [`TABLES`].
        pub(crate) fn schema(table: &str) -> SchemaRef {
            match table {
                $($name => batches::$arrow::schema_ref(),)+
                _ => SchemaRef::new(arrow::datatypes::Schema::empty()),
            }
        }

        /// Part `index` of `count`, with `index` from 0.
        pub(crate) fn part(table: &str, scale_factor: f64, index: usize, count: usize, batch_rows: usize) -> Part {
            let (part, parts) = (index as i32 + 1, count as i32);
            match table {
                $($name => Box::new(
                    batches::$arrow::new(rows::$rows::new(scale_factor, part, parts)).with_batch_size(batch_rows),
                ),)+
                _ => Box::new(std::iter::empty()),
            }
        }
    };
}

tables! {
    "lineitem" => LineItemGenerator, LineItemArrow;
    "orders" => OrderGenerator, OrderArrow;
    "partsupp" => PartSuppGenerator, PartSuppArrow;
    "part" => PartGenerator, PartArrow;
    "customer" => CustomerGenerator, CustomerArrow;
    "supplier" => SupplierGenerator, SupplierArrow;
    "nation" => NationGenerator, NationArrow;
    "region" => RegionGenerator, RegionArrow;
}

/// The number of rows in the specification (TPC-H, clause 4.2.5): SF times the rows at SF 1, except
/// for the two tables of fixed size.
///
/// `lineitem` has 6,001,215 rows at SF 1.
pub(crate) fn expected_rows(table: &str, scale_factor: f64) -> u64 {
    let at_one = match table {
        "lineitem" => 6_001_215.0,
        "orders" => 1_500_000.0,
        "partsupp" => 800_000.0,
        "part" => 200_000.0,
        "customer" => 150_000.0,
        "supplier" => 10_000.0,
        "nation" => return 25,
        "region" => return 5,
        _ => return 0,
    };
    // Keeps a rounding error of the product from costing a row.
    (at_one * scale_factor + 1e-6) as u64
}
