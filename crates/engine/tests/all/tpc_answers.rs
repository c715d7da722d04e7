//! TPC-H and TPC-DS: every result equals that of an independent engine on the same data.

use crate::common;
use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tierloom_engine::load::{ColumnPlacer, column_uses};
use tierloom_engine::tpc::load_tpc;
use tierloom_engine::{Engine, EngineOptions, PlacedTable};
use tierloom_memory::{PageSize, Placement};
use tierloom_placement::Policy;
use tierloom_topology::{NodeId, Topology};
use tierloom_tpc::{Benchmark, STORED_SCALE_FACTOR, compare, queries, stored_answer};
use tierloom_workloads::Silent;

/// Plain DataFusion on the generated batches themselves.
fn plain(benchmark: Benchmark) -> Engine {
    let engine = Engine::new(EngineOptions::plain(2)).unwrap();
    for table in benchmark.tables() {
        let source = benchmark.source(table, STORED_SCALE_FACTOR).unwrap();
        let batches: Vec<RecordBatch> = source.batches(8192, 2).map(Result::unwrap).collect();
        let table_provider = MemTable::try_new(source.schema(), vec![batches]).unwrap();
        engine
            .context()
            .register_table(*table, Arc::new(table_provider))
            .unwrap();
    }
    engine
}

/// Tables in placed columns on a machine with two simulated nodes, and an engine for them.
pub(crate) fn placed(benchmark: Benchmark) -> (Engine, Vec<Arc<PlacedTable>>, Topology) {
    let (backend, topology) = common::two_nodes();
    let mut placer = ColumnPlacer::new(backend, &topology, PageSize::Base, 2);
    let sources: Vec<_> = benchmark
        .tables()
        .iter()
        .map(|table| benchmark.source(table, STORED_SCALE_FACTOR).unwrap())
        .collect();
    let dram = |_: &str| Placement::bind(NodeId(0));
    let tables = load_tpc(&sources, 2, &mut placer, &dram, &Silent)
        .unwrap()
        .tables;
    (common::engine(&tables), tables, topology)
}

/// Moves the tables. Every column counts as read once, so that policies based on heat have
/// something to choose from.
fn place(tables: &[Arc<PlacedTable>], topology: &Topology, policy: &str) {
    let none = column_uses(tables, &BTreeMap::new());
    let reads = none
        .iter()
        .map(|u| (u.column.clone(), u.size_bytes))
        .collect();
    let decisions = policy
        .parse::<Policy>()
        .unwrap()
        .decide(&column_uses(tables, &reads));
    for table in tables {
        table
            .place(&decisions, topology, &AtomicBool::new(false))
            .unwrap();
    }
}

/// Failures by query.
fn wrong(engine: &Engine, benchmark: Benchmark) -> Vec<String> {
    let mut wrong = Vec::new();
    for query in queries(benchmark) {
        let stored = stored_answer(query, STORED_SCALE_FACTOR).unwrap();
        // Shown if an operator panics.
        eprintln!("{} {}", benchmark, query.id);
        let ran = engine
            .plan(query.id, &query.sql(STORED_SCALE_FACTOR))
            .and_then(|planned| engine.execute(query.id, &planned, &|| false));
        match ran {
            Ok(execution) => {
                let compared = compare(query.id, stored, &execution.batches);
                wrong.extend(compared.err().map(|e| e.to_string()));
            }
            Err(error) => wrong.push(format!("{}: {error}", query.id)),
        }
    }
    wrong
}

#[test]
fn plain_datafusion_answers_tpch_as_stored() {
    let wrong = wrong(&plain(Benchmark::TpcH), Benchmark::TpcH);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn plain_datafusion_answers_tpcds_as_stored() {
    let wrong = wrong(&plain(Benchmark::TpcDs), Benchmark::TpcDs);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn placed_columns_answer_tpch_as_stored_under_every_placement() {
    let (engine, tables, topology) = placed(Benchmark::TpcH);
    for policy in ["dram", "cxl", "3:2", "tier", "columns:23%"] {
        place(&tables, &topology, policy);
        let wrong = wrong(&engine, Benchmark::TpcH);
        assert!(wrong.is_empty(), "{policy}: {}", wrong.join("\n"));
    }
}

#[test]
fn placed_columns_answer_tpcds_as_stored_under_every_placement() {
    let (engine, tables, topology) = placed(Benchmark::TpcDs);
    for policy in ["3:2", "tier"] {
        place(&tables, &topology, policy);
        let wrong = wrong(&engine, Benchmark::TpcDs);
        assert!(wrong.is_empty(), "{policy}: {}", wrong.join("\n"));
    }
}
