//! The schema of the five tables: columns, types, keys and value ranges.

use super::calendar::DATE_ROWS;
use crate::WorkloadError;
use ColumnType::{Dict8, Int32, Text};
use serde::Serialize;

/// How the values of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnType {
    /// 32-bit signed integers, four bytes per row.
    Int32,
    /// Text from a small fixed set: one byte per row and a dictionary.
    Dict8,
    /// Text of varying length: characters and offsets.
    Text,
}

/// Name, type and bounds of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnSpec {
    /// Name of the column, as the queries spell it.
    pub name: &'static str,
    /// How the values are stored.
    pub ty: ColumnType,
    /// Whether the column is part of the primary key; that of lineorder has two columns.
    pub primary_key: bool,
    /// The table and column that every value refers to; `None` if it is not a foreign key.
    pub foreign_key: Option<(&'static str, &'static str)>,
    /// Number of possible distinct values; `None` if it depends on the scale factor.
    pub distinct: Option<u64>,
    /// Smallest and largest possible integer; `None` if they depend on the scale factor.
    pub range: Option<(i64, i64)>,
}

impl ColumnSpec {
    const fn new(name: &'static str, ty: ColumnType) -> Self {
        Self {
            name,
            ty,
            primary_key: false,
            foreign_key: None,
            distinct: None,
            range: None,
        }
    }

    const fn key(mut self) -> Self {
        self.primary_key = true;
        self
    }

    const fn refers(mut self, table: &'static str, column: &'static str) -> Self {
        self.foreign_key = Some((table, column));
        self
    }

    const fn distinct(mut self, count: u64) -> Self {
        self.distinct = Some(count);
        self
    }

    const fn range(mut self, min: i64, max: i64) -> Self {
        self.range = Some((min, max));
        self
    }

    /// An integer column that takes every value from `min` to `max`.
    const fn every(name: &'static str, min: i64, max: i64) -> Self {
        Self::new(name, Int32)
            .range(min, max)
            .distinct((max - min + 1) as u64)
    }
}

/// Name and columns of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableSpec {
    /// Name of the table, as the queries spell it.
    pub name: &'static str,
    /// Columns, in the paper's order.
    pub columns: &'static [ColumnSpec],
}

impl TableSpec {
    /// The column with that name; `None` if there is none.
    pub fn column(&self, name: &str) -> Option<&'static ColumnSpec> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// Smallest and largest date key.
const DATE_RANGE: (i64, i64) = (19_920_101, 19_981_230);

/// An integer column that refers to the date table.
const fn date_reference(name: &'static str) -> ColumnSpec {
    ColumnSpec::new(name, Int32)
        .refers("date", "d_datekey")
        .distinct(DATE_ROWS as u64)
        .range(DATE_RANGE.0, DATE_RANGE.1)
}

/// lineorder: one row per line of an order; prices in cents, discount and tax in per cent.
const LINEORDER: &[ColumnSpec] = &[
    ColumnSpec::new("lo_orderkey", Int32).key(),
    ColumnSpec::every("lo_linenumber", 1, 7).key(),
    ColumnSpec::new("lo_custkey", Int32).refers("customer", "c_custkey"),
    ColumnSpec::new("lo_partkey", Int32).refers("part", "p_partkey"),
    ColumnSpec::new("lo_suppkey", Int32).refers("supplier", "s_suppkey"),
    date_reference("lo_orderdate"),
    ColumnSpec::new("lo_orderpriority", Dict8).distinct(5),
    ColumnSpec::every("lo_shippriority", 0, 0),
    ColumnSpec::every("lo_quantity", 1, 50),
    // Ranges of money follow from the price formula and the ranges of quantity, discount and tax.
    ColumnSpec::new("lo_extendedprice", Int32).range(90_000, 10_495_000),
    ColumnSpec::new("lo_ordtotalprice", Int32).range(81_000, 79_342_200),
    ColumnSpec::every("lo_discount", 0, 10),
    ColumnSpec::new("lo_revenue", Int32).range(81_000, 10_495_000),
    ColumnSpec::new("lo_supplycost", Int32).range(54_000, 125_940),
    ColumnSpec::every("lo_tax", 0, 8),
    date_reference("lo_commitdate"),
    ColumnSpec::new("lo_shipmode", Dict8).distinct(7),
];

const CUSTOMER: &[ColumnSpec] = &[
    ColumnSpec::new("c_custkey", Int32).key(),
    ColumnSpec::new("c_name", Text),
    ColumnSpec::new("c_address", Text),
    ColumnSpec::new("c_city", Text).distinct(250),
    ColumnSpec::new("c_nation", Text).distinct(25),
    ColumnSpec::new("c_region", Text).distinct(5),
    ColumnSpec::new("c_phone", Text),
    ColumnSpec::new("c_mktsegment", Text).distinct(5),
];

const SUPPLIER: &[ColumnSpec] = &[
    ColumnSpec::new("s_suppkey", Int32).key(),
    ColumnSpec::new("s_name", Text),
    ColumnSpec::new("s_address", Text),
    ColumnSpec::new("s_city", Text).distinct(250),
    ColumnSpec::new("s_nation", Text).distinct(25),
    ColumnSpec::new("s_region", Text).distinct(5),
    ColumnSpec::new("s_phone", Text),
];

const PART: &[ColumnSpec] = &[
    ColumnSpec::new("p_partkey", Int32).key(),
    ColumnSpec::new("p_name", Text).distinct(92 * 92),
    ColumnSpec::new("p_mfgr", Text).distinct(5),
    ColumnSpec::new("p_category", Text).distinct(25),
    ColumnSpec::new("p_brand1", Text).distinct(1000),
    ColumnSpec::new("p_color", Text).distinct(92),
    ColumnSpec::new("p_type", Text).distinct(150),
    ColumnSpec::every("p_size", 1, 50),
    ColumnSpec::new("p_container", Text).distinct(40),
];

const DATE: &[ColumnSpec] = &[
    ColumnSpec::new("d_datekey", Int32)
        .key()
        .distinct(DATE_ROWS as u64)
        .range(DATE_RANGE.0, DATE_RANGE.1),
    ColumnSpec::new("d_date", Text).distinct(DATE_ROWS as u64),
    ColumnSpec::new("d_dayofweek", Text).distinct(7),
    ColumnSpec::new("d_month", Text).distinct(12),
    ColumnSpec::every("d_year", 1992, 1998),
    ColumnSpec::new("d_yearmonthnum", Int32)
        .distinct(84)
        .range(199_201, 199_812),
    ColumnSpec::new("d_yearmonth", Text).distinct(84),
    ColumnSpec::every("d_daynuminweek", 1, 7),
    ColumnSpec::every("d_daynuminmonth", 1, 31),
    ColumnSpec::every("d_daynuminyear", 1, 366),
    ColumnSpec::every("d_monthnuminyear", 1, 12),
    ColumnSpec::every("d_weeknuminyear", 1, 53),
    ColumnSpec::new("d_sellingseason", Text).distinct(5),
    ColumnSpec::every("d_lastdayinweekfl", 0, 1),
    ColumnSpec::every("d_lastdayinmonthfl", 0, 1),
    ColumnSpec::every("d_holidayfl", 0, 1),
    ColumnSpec::every("d_weekdayfl", 0, 1),
];

static TABLES: [TableSpec; 5] = [
    TableSpec {
        name: "lineorder",
        columns: LINEORDER,
    },
    TableSpec {
        name: "customer",
        columns: CUSTOMER,
    },
    TableSpec {
        name: "supplier",
        columns: SUPPLIER,
    },
    TableSpec {
        name: "part",
        columns: PART,
    },
    TableSpec {
        name: "date",
        columns: DATE,
    },
];

/// All tables, the fact table first.
pub fn tables() -> &'static [TableSpec] {
    &TABLES
}

/// The table with that name.
///
/// # Errors
/// [`WorkloadError::UnknownTable`] with all names.
pub fn table(name: &str) -> Result<&'static TableSpec, WorkloadError> {
    TABLES
        .iter()
        .find(|table| table.name == name)
        .ok_or_else(|| WorkloadError::UnknownTable {
            kind: "table",
            name: name.to_owned(),
            known: TABLES.map(|table| table.name).join(", "),
        })
}
