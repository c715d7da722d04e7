//! The tables of the benchmarks, each in the layout that suits its queries.

use crate::error::ClusterError;
use crate::map::TableRequest;
use crate::source::{RowSource, benchmark_of};
use tierloom_workloads::ssb::{self, SsbConfig};

/// The tables of a benchmark ("ssb", "tpch" or "tpcds") in the layout that suits its queries: facts
/// in shards by the key that joins them, everything else on every node.
///
/// # Errors
/// [`ClusterError::Input`] for another name, or a scale factor out of range.
pub fn benchmark_tables(
    name: &str,
    scale_factor: f64,
    shards: u32,
    replicas: u32,
) -> Result<Vec<TableRequest>, ClusterError> {
    let request = |table: &str, source: RowSource, by: Option<&str>| TableRequest {
        name: table.into(),
        source,
        by: by.map(Into::into),
        shards,
        replicas,
    };
    if name == "ssb" {
        SsbConfig::new(scale_factor, 1).map_err(ClusterError::input)?;
        let tables = ssb::tables().iter().map(|spec| {
            let source = RowSource::Ssb {
                table: spec.name.into(),
                scale_factor,
                seed: 1,
            };
            let by = (spec.name == "lineorder").then_some("lo_orderkey");
            request(spec.name, source, by)
        });
        return Ok(tables.collect());
    }
    let benchmark = benchmark_of(name)?;
    let mut tables = Vec::new();
    for table in benchmark.tables() {
        let source = benchmark.source(table, scale_factor);
        source.map_err(ClusterError::input)?;
        let source = RowSource::Tpc {
            benchmark: name.into(),
            table: (*table).into(),
            scale_factor,
        };
        tables.push(request(table, source, fact_key(table)));
    }
    Ok(tables)
}

/// The key by which a fact table of TPC-H or TPC-DS is sharded; `None` for other tables.
fn fact_key(table: &str) -> Option<&'static str> {
    Some(match table {
        "lineitem" => "l_orderkey",
        "orders" => "o_orderkey",
        "store_sales" => "ss_item_sk",
        "store_returns" => "sr_item_sk",
        "catalog_sales" => "cs_item_sk",
        "catalog_returns" => "cr_item_sk",
        "web_sales" => "ws_item_sk",
        "web_returns" => "wr_item_sk",
        "inventory" => "inv_item_sk",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_shard_their_facts_and_copy_everything_else() {
        for (name, facts, tables) in [("ssb", 1, 5), ("tpch", 2, 8), ("tpcds", 7, 24)] {
            let made = benchmark_tables(name, 0.01, 4, 1).unwrap();
            assert_eq!(made.len(), tables, "{name}");
            let sharded: Vec<_> = made.iter().filter(|table| table.by.is_some()).collect();
            assert_eq!(sharded.len(), facts, "{name}");
            for table in sharded {
                let by = table.by.as_deref().unwrap();
                assert!(table.source.column_type(by).unwrap().is_integer());
            }
        }
        assert!(benchmark_tables("tpcx", 1.0, 4, 1).is_err());
        assert!(benchmark_tables("ssb", -1.0, 4, 1).is_err());
    }

    #[test]
    fn a_missing_column_is_an_error_that_lists_the_columns() {
        let tables = benchmark_tables("ssb", 0.01, 1, 1).unwrap();
        let error = tables[1].source.column_type("none").unwrap_err();
        assert!(error.to_string().contains("there is no column none"));
    }
}
