//! Tables and columns of TPC-H with their sizes.
//!
//! Cardinalities and types: Transaction Processing Performance Council, "TPC Benchmark H, Standard
//! Specification, Revision 3", sections 1.4 (tables) and 4.2.5 (rows). Widths are those of plain
//! columns in memory: 8 bytes for identifiers and decimals, 4 for integers and dates, 1 for single
//! characters, and the average length plus 4 bytes of offset for text. Random text is taken at the
//! mean of its minimum and maximum length.

/// A column and the bytes of one value.
pub(super) struct Column {
    pub name: &'static str,
    pub width: f64,
}

/// A table, its rows at scale factor 1, and its columns.
pub(super) struct TableSchema {
    pub name: &'static str,
    pub rows: f64,
    pub columns: &'static [Column],
}

const fn id(name: &'static str) -> Column {
    Column { name, width: 8.0 }
}

const fn decimal(name: &'static str) -> Column {
    Column { name, width: 8.0 }
}

const fn small(name: &'static str) -> Column {
    Column { name, width: 4.0 }
}

const fn flag(name: &'static str) -> Column {
    Column { name, width: 1.0 }
}

const fn text(name: &'static str, length: f64) -> Column {
    Column {
        name,
        width: length + 4.0,
    }
}

/// The six tables that grow with the scale factor; nation and region (30 rows) are negligible.
pub(super) const TABLES: [TableSchema; 6] = [
    TableSchema {
        name: "lineitem",
        rows: 6_000_000.0,
        columns: &[
            id("l_orderkey"),
            id("l_partkey"),
            id("l_suppkey"),
            small("l_linenumber"),
            decimal("l_quantity"),
            decimal("l_extendedprice"),
            decimal("l_discount"),
            decimal("l_tax"),
            flag("l_returnflag"),
            flag("l_linestatus"),
            small("l_shipdate"),
            small("l_commitdate"),
            small("l_receiptdate"),
            text("l_shipinstruct", 12.0),
            text("l_shipmode", 4.3),
            text("l_comment", 26.5),
        ],
    },
    TableSchema {
        name: "orders",
        rows: 1_500_000.0,
        columns: &[
            id("o_orderkey"),
            id("o_custkey"),
            flag("o_orderstatus"),
            decimal("o_totalprice"),
            small("o_orderdate"),
            text("o_orderpriority", 8.4),
            text("o_clerk", 15.0),
            small("o_shippriority"),
            text("o_comment", 48.5),
        ],
    },
    TableSchema {
        name: "partsupp",
        rows: 800_000.0,
        columns: &[
            id("ps_partkey"),
            id("ps_suppkey"),
            small("ps_availqty"),
            decimal("ps_supplycost"),
            text("ps_comment", 123.5),
        ],
    },
    TableSchema {
        name: "part",
        rows: 200_000.0,
        columns: &[
            id("p_partkey"),
            text("p_name", 32.8),
            text("p_mfgr", 14.0),
            text("p_brand", 8.0),
            text("p_type", 20.6),
            small("p_size"),
            text("p_container", 7.6),
            decimal("p_retailprice"),
            text("p_comment", 13.5),
        ],
    },
    TableSchema {
        name: "customer",
        rows: 150_000.0,
        columns: &[
            id("c_custkey"),
            text("c_name", 18.0),
            text("c_address", 25.0),
            id("c_nationkey"),
            text("c_phone", 15.0),
            decimal("c_acctbal"),
            text("c_mktsegment", 9.0),
            text("c_comment", 72.5),
        ],
    },
    TableSchema {
        name: "supplier",
        rows: 10_000.0,
        columns: &[
            id("s_suppkey"),
            text("s_name", 18.0),
            text("s_address", 25.0),
            id("s_nationkey"),
            text("s_phone", 15.0),
            decimal("s_acctbal"),
            text("s_comment", 62.5),
        ],
    },
];

/// Table and width in bytes of a column; names are unique across TPC-H tables.
pub(super) fn column(name: &str) -> Option<(&'static TableSchema, f64)> {
    TABLES.iter().find_map(|table| {
        let column = table.columns.iter().find(|c| c.name == name)?;
        Some((table, column.width))
    })
}
