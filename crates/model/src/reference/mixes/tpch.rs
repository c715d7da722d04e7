//! The 22 queries of TPC-H as pipelines.
//!
//! Predicates, and hence selectivities, follow the query definitions and their default substitution
//! values (section 2.4 of the specification), over uniform columns. Plans are the usual ones of
//! pipelined engines: selections first, one hash table per filtered input, the largest table last.
//! Each column is read for the rows that are left when it is needed.

/// Sink of a pipeline: what its output rows are used for.
pub(super) enum Out {
    /// A hash table with this name and bytes per entry.
    Build(&'static str, f64),
    /// An aggregation with this number of groups, at every scale factor.
    Groups(f64),
    /// An aggregation with this number of groups at scale factor 1, proportional to it otherwise.
    ManyGroups(f64),
}

/// A pass over a table.
pub(super) struct Pipeline {
    pub table: &'static str,
    /// Columns of the filters, in order, with the selectivity of each.
    pub filters: &'static [(&'static str, f64)],
    /// Probes in order: key column, hash table, share of rows with a match.
    pub probes: &'static [(&'static str, &'static str, f64)],
    /// Columns read for the rows that are left.
    pub reads: &'static [&'static str],
    pub out: Out,
}

use Out::{Build, Groups, ManyGroups};

macro_rules! queries {
    ($($query:ident { $(
        $table:ident
        [$($filter:ident $selectivity:expr),*]
        [$($key:ident = $built:ident $matches:expr),*]
        [$($read:ident),*] -> $out:expr;
    )+ })+) => {
        /// Queries with their pipelines, in the order of the specification.
        pub(super) const QUERIES: [(&str, &[Pipeline]); 22] = [$((stringify!($query), &[$(Pipeline {
            table: stringify!($table),
            filters: &[$((stringify!($filter), $selectivity)),*],
            probes: &[$((stringify!($key), stringify!($built), $matches)),*],
            reads: &[$(stringify!($read)),*],
            out: $out,
        }),+])),+];
    };
}

// table [filter selectivity] [key = hash table, share with a match] [columns read] -> sink
queries! {
    q1 {
        lineitem [l_shipdate 0.98] []
            [l_returnflag, l_linestatus, l_quantity, l_extendedprice, l_discount, l_tax]
            -> Groups(4.0);
    }
    q2 {
        part [p_size 0.02, p_type 0.2] [] [p_partkey, p_mfgr] -> Build("part", 32.0);
        supplier [s_nationkey 0.2] [] [s_suppkey, s_name, s_address, s_phone, s_acctbal, s_comment]
            -> Build("supplier", 160.0);
        partsupp [] [ps_partkey = part 0.004, ps_suppkey = supplier 0.2] [ps_supplycost]
            -> ManyGroups(460.0);
    }
    q3 {
        customer [c_mktsegment 0.2] [] [c_custkey] -> Build("customer", 8.0);
        orders [o_orderdate 0.486] [o_custkey = customer 0.2] [o_orderkey, o_shippriority]
            -> Build("orders", 24.0);
        lineitem [l_shipdate 0.539] [l_orderkey = orders 0.01] [l_extendedprice, l_discount]
            -> ManyGroups(11_600.0);
    }
    q4 {
        orders [o_orderdate 0.038] [] [o_orderkey, o_orderpriority] -> Build("orders", 24.0);
        lineitem [l_commitdate 1.0, l_receiptdate 0.632] [l_orderkey = orders 0.038] []
            -> Groups(5.0);
    }
    q5 {
        customer [c_nationkey 0.2] [] [c_custkey] -> Build("customer", 16.0);
        orders [o_orderdate 0.152] [o_custkey = customer 0.2] [o_orderkey] -> Build("orders", 16.0);
        supplier [] [] [s_suppkey, s_nationkey] -> Build("supplier", 16.0);
        lineitem [] [l_orderkey = orders 0.03, l_suppkey = supplier 0.04]
            [l_extendedprice, l_discount] -> Groups(5.0);
    }
    q6 {
        lineitem [l_shipdate 0.152, l_discount 0.273, l_quantity 0.46] [] [l_extendedprice]
            -> Groups(1.0);
    }
    q7 {
        supplier [s_nationkey 0.08] [] [s_suppkey] -> Build("supplier", 16.0);
        customer [c_nationkey 0.08] [] [c_custkey] -> Build("customer", 16.0);
        orders [] [o_custkey = customer 0.08] [o_orderkey] -> Build("orders", 16.0);
        lineitem [l_shipdate 0.304] [l_suppkey = supplier 0.08, l_orderkey = orders 0.08]
            [l_extendedprice, l_discount] -> Groups(4.0);
    }
    q8 {
        part [p_type 1.0 / 150.0] [] [p_partkey] -> Build("part", 8.0);
        customer [c_nationkey 0.2] [] [c_custkey] -> Build("customer", 8.0);
        orders [o_orderdate 0.304] [o_custkey = customer 0.2] [o_orderkey] -> Build("orders", 16.0);
        supplier [] [] [s_suppkey, s_nationkey] -> Build("supplier", 16.0);
        lineitem []
            [l_partkey = part 1.0 / 150.0, l_orderkey = orders 0.061, l_suppkey = supplier 1.0]
            [l_extendedprice, l_discount] -> Groups(2.0);
    }
    q9 {
        part [p_name 0.055] [] [p_partkey] -> Build("part", 8.0);
        partsupp [] [ps_partkey = part 0.055] [ps_suppkey, ps_supplycost]
            -> Build("partsupp", 24.0);
        supplier [] [] [s_suppkey, s_nationkey] -> Build("supplier", 16.0);
        orders [] [] [o_orderkey, o_orderdate] -> Build("orders", 16.0);
        lineitem [] [l_partkey = part 0.055, l_suppkey = partsupp 1.0, l_orderkey = orders 1.0]
            [l_extendedprice, l_discount, l_quantity] -> Groups(175.0);
    }
    q10 {
        orders [o_orderdate 0.038] [] [o_orderkey, o_custkey] -> Build("orders", 16.0);
        lineitem [l_returnflag 0.247] [l_orderkey = orders 0.075] [l_extendedprice, l_discount]
            -> ManyGroups(38_000.0);
        customer [] [c_custkey = orders 0.25] [c_name, c_acctbal, c_phone, c_address, c_comment]
            -> ManyGroups(38_000.0);
    }
    q11 {
        supplier [s_nationkey 0.04] [] [s_suppkey] -> Build("supplier", 8.0);
        partsupp [] [ps_suppkey = supplier 0.04] [ps_partkey, ps_availqty, ps_supplycost]
            -> ManyGroups(30_000.0);
    }
    q12 {
        lineitem [l_receiptdate 0.152, l_shipmode 0.286, l_commitdate 0.25, l_shipdate 0.48] []
            [l_orderkey] -> Build("lineitem", 16.0);
        orders [] [o_orderkey = lineitem 0.02] [o_orderpriority] -> Groups(2.0);
    }
    q13 {
        orders [o_comment 0.989] [] [o_custkey] -> ManyGroups(100_000.0);
        customer [] [] [c_custkey] -> Groups(42.0);
    }
    q14 {
        part [] [] [p_partkey, p_type] -> Build("part", 16.0);
        lineitem [l_shipdate 0.0125] [l_partkey = part 1.0] [l_extendedprice, l_discount]
            -> Groups(1.0);
    }
    q15 {
        lineitem [l_shipdate 0.0378] [] [l_suppkey, l_extendedprice, l_discount]
            -> ManyGroups(10_000.0);
        supplier [] [] [s_suppkey] -> Groups(1.0);
    }
    q16 {
        supplier [s_comment 0.0005] [] [s_suppkey] -> Build("supplier", 8.0);
        part [p_size 0.16, p_brand 0.96, p_type 0.967] [] [p_partkey] -> Build("part", 40.0);
        partsupp [] [ps_partkey = part 0.148] [ps_suppkey] -> ManyGroups(118_000.0);
    }
    q17 {
        part [p_brand 0.04, p_container 0.025] [] [p_partkey] -> Build("part", 16.0);
        lineitem [] [l_partkey = part 0.001] [l_quantity, l_extendedprice] -> ManyGroups(200.0);
    }
    q18 {
        lineitem [] [] [l_orderkey, l_quantity] -> ManyGroups(1_500_000.0);
        orders [] [] [o_orderkey] -> Build("orders", 32.0);
        lineitem [] [l_orderkey = orders 0.00004] [l_quantity] -> ManyGroups(57.0);
    }
    q19 {
        part [p_brand 0.12, p_container 0.1, p_size 0.2] [] [p_partkey] -> Build("part", 32.0);
        lineitem [l_shipinstruct 0.25, l_shipmode 0.286, l_quantity 0.4] [l_partkey = part 0.0024]
            [l_extendedprice, l_discount] -> Groups(1.0);
    }
    q20 {
        part [p_name 0.011] [] [p_partkey] -> Build("part", 8.0);
        lineitem [l_shipdate 0.152] [l_partkey = part 0.011] [l_suppkey, l_quantity]
            -> ManyGroups(8_500.0);
        partsupp [] [ps_partkey = part 0.011] [ps_suppkey, ps_availqty] -> ManyGroups(8_500.0);
        supplier [s_nationkey 0.04] [] [s_suppkey, s_name, s_address] -> Groups(180.0);
    }
    q21 {
        supplier [s_nationkey 0.04] [] [s_suppkey, s_name] -> Build("supplier", 32.0);
        lineitem [l_commitdate 1.0, l_receiptdate 0.632] [l_suppkey = supplier 0.04] [l_orderkey]
            -> Build("lineitem", 24.0);
        orders [o_orderstatus 0.487] [o_orderkey = lineitem 0.1] [] -> Build("orders", 8.0);
        lineitem [] [l_orderkey = orders 0.05] [l_suppkey] -> ManyGroups(70_000.0);
        lineitem [l_commitdate 1.0, l_receiptdate 0.632] [l_orderkey = orders 0.05] [l_suppkey]
            -> ManyGroups(70_000.0);
    }
    q22 {
        customer [c_phone 0.28, c_acctbal 0.5] [] [c_custkey] -> Build("customer", 24.0);
        orders [] [o_custkey = customer 0.14] [] -> Groups(7.0);
    }
}
