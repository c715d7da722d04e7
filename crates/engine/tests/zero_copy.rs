//! Operators see the regions themselves, not copies; staged columns are copies.

mod common;

use arrow::array::{Array, ArrayRef, RecordBatch};
use std::sync::Arc;
use tierloom_engine::{PlacedTable, Staging};

fn buffer_addresses(array: &ArrayRef) -> Vec<(usize, usize)> {
    array
        .to_data()
        .buffers()
        .iter()
        .map(|b| (b.as_ptr() as usize, b.len()))
        .collect()
}

fn table(tables: &[Arc<PlacedTable>], name: &str) -> Arc<PlacedTable> {
    Arc::clone(tables.iter().find(|t| t.name() == name).unwrap())
}

fn inside(table: &PlacedTable, column: usize, batch: &RecordBatch) -> bool {
    let regions = table.columns()[column].regions();
    buffer_addresses(batch.column(column))
        .iter()
        .filter(|(_, len)| *len > 0)
        .all(|(address, len)| {
            regions
                .iter()
                .any(|r| r.contains(*address) && r.contains(address + len - 1))
        })
}

#[test]
fn every_buffer_that_a_scan_hands_out_lies_in_its_columns_regions() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let engine = common::engine(&tables);
    for name in ["lineorder", "customer", "supplier", "part", "date"] {
        let table = table(&tables, name);
        let planned = engine.plan(name, &format!("select * from {name}")).unwrap();
        let batches = engine.execute(name, &planned, &|| false).unwrap().batches;
        assert_eq!(
            batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
            table.rows()
        );
        for (batch, column) in batches
            .iter()
            .flat_map(|b| (0..b.num_columns()).map(move |c| (b, c)))
        {
            assert!(
                inside(&table, column, batch),
                "{name}.{} was copied",
                table.columns()[column].name()
            );
        }
    }
}

#[test]
fn a_staged_column_is_copied_and_the_others_are_not() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let engine = common::engine(&tables);
    let table = table(&tables, "lineorder");
    table.set_staging(0, Staging::WorkingBuffer);
    let planned = engine.plan("staged", "select * from lineorder").unwrap();
    for batch in engine
        .execute("staged", &planned, &|| false)
        .unwrap()
        .batches
    {
        assert!(
            !inside(&table, 0, &batch),
            "a staged column must not point into the slow tier"
        );
        assert!(inside(&table, 1, &batch));
    }
}

#[test]
fn a_result_keeps_its_memory_after_the_tables_are_gone() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let engine = common::engine(&tables);
    let planned = engine.plan("keep", "select d_datekey from date").unwrap();
    let batches = engine.execute("keep", &planned, &|| false).unwrap().batches;
    drop((planned, engine, tables));
    let first = batches[0]
        .column(0)
        .as_any()
        .downcast_ref::<arrow::array::Int32Array>()
        .unwrap()
        .value(0);
    assert_eq!(first, 19_920_101);
}

#[test]
fn a_limit_reads_no_more_rows_than_it_must() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let engine = common::engine(&tables);
    let planned = engine
        .plan("limit", "select lo_orderkey from lineorder limit 10")
        .unwrap();
    let rows: usize = engine
        .execute("limit", &planned, &|| false)
        .unwrap()
        .batches
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!(rows, 10);
}
