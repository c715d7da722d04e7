//! TPC-H and TPC-DS: every answer equals that of an independent engine on the same data.

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use std::sync::Arc;
use tierloom_engine::{Engine, EngineOptions};
use tierloom_tpc::{Benchmark, STORED_SCALE_FACTOR, compare, queries, stored_answer};

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

/// What goes wrong, by query.
fn wrong(engine: &Engine, benchmark: Benchmark) -> Vec<String> {
    let mut wrong = Vec::new();
    for query in queries(benchmark) {
        let stored = stored_answer(query, STORED_SCALE_FACTOR).unwrap();
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
