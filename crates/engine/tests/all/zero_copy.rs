//! Operators read the regions themselves, without copies, if the layout allows it; staged columns
//! are copied.

use crate::common;
use arrow::array::{Array, ArrayRef, RecordBatch};
use std::sync::Arc;
use tierloom_engine::load::Encoding;
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

/// Whether all values of the column are in its regions.
fn inside(table: &PlacedTable, column: usize, batch: &RecordBatch) -> bool {
    let regions = table.columns()[column].regions();
    let values = table.columns()[column].size_bytes() > 0;
    values
        && buffer_addresses(batch.column(column))
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
            let placed = &table.columns()[column];
            assert_eq!(
                inside(&table, column, batch),
                placed.is_zero_copy(),
                "{name}.{} ({})",
                placed.name(),
                placed.encoding()
            );
        }
    }
}

#[test]
fn plain_columns_keys_of_strings_and_full_width_integers_are_never_copied() {
    let (backend, topology) = common::two_nodes();
    let plain = common::ssb_as(Arc::clone(&backend), &topology, 0.01, Encoding::Plain);
    for column in plain.iter().flat_map(|t| t.columns()) {
        assert!(column.is_zero_copy(), "{}", column.name());
    }
    let coded = common::ssb(backend, &topology, 0.01);
    let lineorder = table(&coded, "lineorder");
    let copied: Vec<&str> = lineorder
        .columns()
        .iter()
        .filter(|c| !c.is_zero_copy())
        .map(|c| c.name())
        .collect();
    for name in ["lo_orderpriority", "lo_shipmode", "lo_ordtotalprice"] {
        assert!(!copied.contains(&name), "{name} is decoded");
        let column = lineorder.columns().iter().find(|c| c.name() == name);
        assert!(
            column.unwrap().coded().is_some(),
            "{name} has codes all the same"
        );
    }
    assert!(table(&coded, "customer").columns()[1].is_zero_copy());
}

#[test]
fn batches_are_accounted_for_with_their_own_bytes() {
    let (backend, topology) = common::two_nodes();
    let plain = common::ssb_as(backend, &topology, 0.01, Encoding::Plain);
    let batch = table(&plain, "lineorder").columns()[0]
        .slice(100, 50)
        .unwrap();
    assert!(
        batch.get_buffer_memory_size() <= 50 * 4,
        "{} bytes for 50 integers",
        batch.get_buffer_memory_size()
    );
}

#[test]
fn a_staged_column_is_copied_and_the_others_are_not() {
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.01);
    let engine = common::engine(&tables);
    let table = table(&tables, "lineorder");
    let staged = table.schema().index_of("lo_orderpriority").unwrap();
    table.set_staging(staged, Staging::WorkingBuffer);
    let planned = engine.plan("staged", "select * from lineorder").unwrap();
    for batch in engine
        .execute("staged", &planned, &|| false)
        .unwrap()
        .batches
    {
        assert!(
            !inside(&table, staged, &batch),
            "a staged column must not point into the slow tier"
        );
        let shipmode = table.columns().len() - 1;
        assert!(inside(&table, shipmode, &batch));
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
