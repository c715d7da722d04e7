//! The 24 tables of TPC-DS, by the crate `tpcdsgen`.

use crate::Part;
use arrow::datatypes::SchemaRef;
use tpcdsgen::config::{Scaling, Session, SessionBuilder, Table};
use tpcdsgen_arrow as batches;

macro_rules! tables {
    ($($name:literal => $table:ident, $arrow:ident;)+) => {
        /// The tables, largest first.
        pub(crate) const TABLES: &[&str] = &[$($name),+];

        fn of(table: &str) -> Option<Table> {
            match table {
                $($name => Some(Table::$table),)+
                _ => None,
            }
        }

        /// The schema of table `table`, one of [`TABLES`].
        pub(crate) fn schema(table: &str) -> SchemaRef {
            match table {
                $($name => batches::$arrow::schema_ref(),)+
                _ => SchemaRef::new(arrow::datatypes::Schema::empty()),
            }
        }

        /// Part `index` of `count`, with `index` from 0: a range of the generator's source rows,
        /// which for sales are orders.
        pub(crate) fn part(table: &str, scale_factor: f64, index: usize, count: usize, batch_rows: usize) -> Part {
            let Some(session) = session(scale_factor) else {
                return Box::new(std::iter::empty());
            };
            match table {
                $($name => {
                    let rows = session.get_scaling().get_row_count(source_of(Table::$table));
                    let (first, last) = range(rows, index as u64, count as u64);
                    if first > last {
                        return Box::new(std::iter::empty());
                    }
                    let all = batches::$arrow::new(session).with_batch_size(batch_rows);
                    if count == 1 {
                        Box::new(all)
                    } else {
                        Box::new(all.with_source_row_range(first, last))
                    }
                })+
                _ => Box::new(std::iter::empty()),
            }
        }
    };
}

tables! {
    "inventory" => Inventory, InventoryArrow;
    "store_sales" => StoreSales, StoreSalesArrow;
    "catalog_sales" => CatalogSales, CatalogSalesArrow;
    "web_sales" => WebSales, WebSalesArrow;
    "customer_demographics" => CustomerDemographics, CustomerDemographicsArrow;
    "store_returns" => StoreReturns, StoreReturnsArrow;
    "catalog_returns" => CatalogReturns, CatalogReturnsArrow;
    "web_returns" => WebReturns, WebReturnsArrow;
    "customer" => Customer, CustomerArrow;
    "customer_address" => CustomerAddress, CustomerAddressArrow;
    "date_dim" => DateDim, DateDimArrow;
    "time_dim" => TimeDim, TimeDimArrow;
    "item" => Item, ItemArrow;
    "catalog_page" => CatalogPage, CatalogPageArrow;
    "household_demographics" => HouseholdDemographics, HouseholdDemographicsArrow;
    "promotion" => Promotion, PromotionArrow;
    "reason" => Reason, ReasonArrow;
    "web_page" => WebPage, WebPageArrow;
    "web_site" => WebSite, WebSiteArrow;
    "income_band" => IncomeBand, IncomeBandArrow;
    "ship_mode" => ShipMode, ShipModeArrow;
    "store" => Store, StoreArrow;
    "call_center" => CallCenter, CallCenterArrow;
    "warehouse" => Warehouse, WarehouseArrow;
}

/// Whether parts of `table` can be made independently.
///
/// In a table that keeps history, a row copies values from the one before.
pub(crate) fn splits(table: &str) -> bool {
    matches!(
        table,
        "inventory"
            | "store_sales"
            | "catalog_sales"
            | "web_sales"
            | "store_returns"
            | "catalog_returns"
            | "web_returns"
            | "customer_demographics"
            | "customer"
            | "customer_address"
    )
}

/// The expected rows of `table`: exact except for sales and returns, whose line items per order and
/// share of returns are random.
pub(crate) fn expected_rows(table: &str, scale_factor: f64) -> u64 {
    let Some(known) = of(table) else { return 0 };
    let scaling = Scaling::new(scale_factor);
    let source_rows = scaling.get_row_count(source_of(known)) as f64;
    // Line items per order and share of returns, from the specification's row counts at SF 1
    // (TPC-DS, table 3-2).
    let rows_of_one = match table {
        "store_sales" => 2_880_404.0 / 240_000.0,
        "store_returns" => 287_514.0 / 240_000.0,
        "catalog_sales" => 1_441_548.0 / 160_000.0,
        "catalog_returns" => 144_067.0 / 160_000.0,
        "web_sales" => 719_384.0 / 60_000.0,
        "web_returns" => 71_763.0 / 60_000.0,
        _ => 1.0,
    };
    (source_rows * rows_of_one) as u64
}

/// The table whose rows the generator iterates over: returns are drawn while their orders are
/// generated again.
fn source_of(table: Table) -> Table {
    match table {
        Table::StoreReturns => Table::StoreSales,
        Table::CatalogReturns => Table::CatalogSales,
        Table::WebReturns => Table::WebSales,
        other => other,
    }
}

/// The generator's settings; `None` for a scale factor that it rejects, which [`crate::Source`]
/// prevents.
fn session(scale_factor: f64) -> Option<Session> {
    SessionBuilder::new()
        .with_scale_factor(scale_factor)
        .build()
        .ok()
}

/// First and last row of part `index` of `count`, of the rows 1 to `rows`.
fn range(rows: u64, index: u64, count: u64) -> (u64, u64) {
    (rows * index / count + 1, rows * (index + 1) / count)
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_cover_every_row_once() {
        for (rows, count) in [(0, 3), (1, 4), (10, 3), (240_000, 8)] {
            let mut next = 1;
            for index in 0..count {
                let (first, last) = range(rows, index, count);
                assert_eq!(first, next);
                next = last + 1;
            }
            assert_eq!(next, rows + 1);
        }
    }
}
