//! A session whose pool others change between its statements.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use std::sync::Arc;
use tierloom_engine::EngineOptions;
use tierloom_engine::load::{ColumnPlacer, LoadOptions, load_batches};
use tierloom_engine::pooled::{self, Verification};
use tierloom_memory::{FakeBackend, FakeNode, MemoryBackend, PageSize, Placement, fake_topology};
use tierloom_pool::{Connect, CreateOptions, ManagerLink, OpenOptions, Pool, PoolServer};
use tierloom_sql::{CollectedRows, Silent, SqlError, SqlOptions, SqlSession, split};
use tierloom_topology::{NodeId, Topology};

/// A manager in this process.
#[derive(Debug, Clone)]
struct Here(Arc<PoolServer>);

impl Connect for Here {
    fn connect(&self, _: &str) -> Result<Box<dyn ManagerLink>, String> {
        Ok(Box::new(self.clone()))
    }
}

impl ManagerLink for Here {
    fn call(&mut self, request: &str) -> Result<String, String> {
        Ok(self.0.answer(request))
    }
}

fn one_node() -> (Arc<dyn MemoryBackend>, Topology) {
    let node = FakeNode {
        node: 0,
        cpus: 2,
        memory_bytes: 4 << 30,
    };
    let backend = FakeBackend::with_nodes(&[(0, 4 << 30)]);
    (Arc::new(backend), fake_topology(&[node]).unwrap())
}

/// Makes a table of one column `n`, or replaces it.
fn write(pool: &Pool, name: &str, values: &[i64]) {
    let (backend, topology) = one_node();
    let mut placer = ColumnPlacer::new(backend, &topology, PageSize::Base, 2);
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
    let table = load_batches(
        name,
        schema,
        std::iter::once(Ok(batch)),
        &mut placer,
        &|_| Placement::bind(NodeId(0)),
        &tierloom_workloads::Silent,
        &LoadOptions::default(),
    );
    let finished = pooled::write(pool, name, &table.unwrap(), serde_json::json!({}));
    pool.seal_together(vec![finished.unwrap()]).unwrap();
}

fn run(session: &mut SqlSession, script: &str) -> Result<Vec<i64>, SqlError> {
    let mut rows = CollectedRows::default();
    for piece in split(script).unwrap() {
        session.run(&piece, &mut rows, &Silent::default())?;
    }
    let columns = rows.batches.iter().map(|batch| batch.column(0));
    let values = columns.flat_map(|c| c.as_primitive::<Int64Type>().values().to_vec());
    Ok(values.collect())
}

#[test]
fn every_statement_begins_with_the_tables_that_the_pool_has_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let create = CreateOptions {
        file_bytes: 64 << 20,
        ..CreateOptions::default()
    };
    let options = OpenOptions::default();
    let manager = Pool::create(&path, &[], &create, &options).unwrap();
    let server = Arc::new(manager.serve("here", &options).unwrap());
    let empty = manager.space();
    let client = options.join(&path, Arc::new(Here(server))).unwrap();
    let (backend, topology) = one_node();
    let mut session = SqlSession::new(SqlOptions {
        engine: EngineOptions::tuned(2),
        topology,
        page_size: PageSize::Base,
        placement: "dram".parse().unwrap(),
        backend,
    })
    .unwrap();
    session.use_pool(client, Verification::FirstUse).unwrap();
    session.attach_pool(&Silent::default()).unwrap();
    let of_t = "select sum(n) from t";
    let sum = |session: &mut SqlSession| run(session, of_t);
    assert!(sum(&mut session).is_err());
    write(&manager, "t", &[1, 2, 3]);
    assert_eq!(sum(&mut session).unwrap(), [6]);
    write(&manager, "t", &[10, 20]);
    assert_eq!(sum(&mut session).unwrap(), [30]);
    run(&mut session, "create view v as select max(n) from t").unwrap();
    run(&mut session, "create table own as select 7 as n").unwrap();
    write(&manager, "t", &[5, 4]);
    write(&manager, "own", &[1]);
    assert_eq!(run(&mut session, "select * from v").unwrap(), [5]);
    assert_eq!(run(&mut session, "select n from own").unwrap(), [7]);
    // Between two statements of one script too.
    assert_eq!(sum(&mut session).unwrap(), [9]);
    manager.drop_table("t").unwrap();
    manager.drop_table("own").unwrap();
    let error = sum(&mut session).unwrap_err().to_string();
    assert!(error.contains('t'), "{error}");
    assert_eq!(run(&mut session, "select n from own").unwrap(), [7]);
    assert_eq!(manager.space(), empty, "what was dropped is free at once");
}
