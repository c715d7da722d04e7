//! The same tables in a session of Tierloom and in plain DataFusion, and their results side by
//! side.

use super::{Numbers, two_nodes};
use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::displayable;
use std::sync::Arc;
use tierloom_engine::load::{ColumnPlacer, Encoding, LoadOptions, load_batches};
use tierloom_engine::{Engine, EngineOptions, PlacedTable};
use tierloom_memory::{PageSize, Placement};
use tierloom_topology::NodeId;
use tierloom_workloads::Silent;

/// One batch of named columns, all nullable.
pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Rows with an id and two keys, each with NULLs.
pub fn keyed(rows: u64, values: u64, numbers: &mut Numbers) -> RecordBatch {
    let mut keys = || -> ArrayRef {
        let key = |_| (numbers.below(6) != 0).then(|| numbers.below(values) as i32);
        Arc::new(Int32Array::from_iter((0..rows).map(key)))
    };
    let (k, s) = (keys(), keys());
    let id: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows as i32));
    batch(vec![("id", id), ("k", k), ("s", s)])
}

/// `batches` as a placed table.
pub fn placed(name: &str, batches: &[RecordBatch], encoding: Encoding) -> Arc<PlacedTable> {
    let (backend, topology) = two_nodes();
    let mut placer =
        ColumnPlacer::new(backend, &topology, PageSize::Base, 2).with_encoding(encoding);
    let table = load_batches(
        name,
        batches[0].schema(),
        batches.iter().cloned().map(Ok),
        &mut placer,
        &|_| Placement::bind(NodeId(0)),
        &Silent,
        &LoadOptions::default(),
    );
    Arc::new(table.unwrap())
}

fn mem_table(engine: &Engine, name: &str, batches: &[RecordBatch]) {
    let table = MemTable::try_new(batches[0].schema(), vec![batches.to_vec()]).unwrap();
    let context = engine.context();
    context.register_table(name, Arc::new(table)).unwrap();
}

/// The result of a statement: its rows as sorted text, or its error; and its plan after it ran.
pub struct Ran {
    pub rows: Result<Vec<String>, String>,
    pub plan: String,
    pub notes: Vec<String>,
}

/// Two sessions with the same tables.
pub struct Both {
    pub ours: Engine,
    pub plain: Engine,
}

impl Both {
    /// Without tables, each with two workers.
    pub fn new() -> Self {
        Both {
            ours: Engine::new(EngineOptions::tuned(2)).unwrap(),
            plain: Engine::new(EngineOptions::plain(2)).unwrap(),
        }
    }

    /// Adds a table: placed in Tierloom's session, in memory in the other one.
    pub fn table(self, name: &str, batches: &[RecordBatch]) -> Self {
        self.tables(name, batches, batches)
    }

    /// Adds a placed table to Tierloom's session and another one of the same name to the plain one.
    pub fn tables(self, name: &str, ours: &[RecordBatch], plain: &[RecordBatch]) -> Self {
        let placed = placed(name, ours, Encoding::Auto);
        self.ours.register(&placed).unwrap();
        mem_table(&self.plain, name, plain);
        self
    }

    /// Adds a table in memory to both, with whatever layout its arrays have.
    pub fn unplaced(self, name: &str, batches: &[RecordBatch]) -> Self {
        mem_table(&self.ours, name, batches);
        mem_table(&self.plain, name, batches);
        self
    }

    /// The result of `sql` in Tierloom's session. It must be the same in plain DataFusion,
    /// including whether it fails, but not the error's text.
    pub fn same(&self, sql: &str) -> Ran {
        let (ours, plain) = (run(&self.ours, sql), run(&self.plain, sql));
        match (&ours.rows, &plain.rows) {
            (Err(_), Err(_)) => {}
            (ours_rows, plain_rows) => {
                assert_eq!(ours_rows, plain_rows, "{sql}\n{}", ours.plan);
            }
        }
        ours
    }

    /// Same as [`Both::same`], and a star join that did not fall back must have run it.
    pub fn same_fused(&self, sql: &str) -> Ran {
        let ran = self.same(sql);
        let fused = ran.plan.contains("StarExec") && !ran.plan.contains("fell back");
        assert!(fused, "{sql}\n{:?}\n{}", ran.notes, ran.plan);
        ran
    }

    /// Same as [`Both::same`], and no star join ran because of `reason`, found before or during
    /// execution.
    pub fn same_unfused(&self, sql: &str, reason: &str) -> Ran {
        let ran = self.same(sql);
        let said = ran
            .notes
            .iter()
            .chain([&ran.plan])
            .any(|n| n.contains(reason));
        assert!(said, "{sql}\n{:?}\n{}", ran.notes, ran.plan);
        let fused = ran.plan.contains("StarExec") && !ran.plan.contains("fell back");
        assert!(!fused, "{sql}\n{}", ran.plan);
        ran
    }
}

/// Plans and runs `sql`.
pub fn run(engine: &Engine, sql: &str) -> Ran {
    let planned = match engine.plan("query", sql) {
        Ok(planned) => planned,
        Err(error) => {
            return Ran {
                rows: Err(error.to_string()),
                plan: String::new(),
                notes: Vec::new(),
            };
        }
    };
    let notes = planned.notes();
    match engine.execute("query", &planned, &|| false) {
        Ok(done) => {
            let text = pretty_format_batches(&done.batches).unwrap().to_string();
            // The first line that is not a border has the names.
            let lines = text.lines().filter(|line| line.starts_with('|'));
            let mut rows: Vec<String> = lines.skip(1).map(str::to_owned).collect();
            rows.sort();
            Ran {
                rows: Ok(rows),
                plan: displayable(done.plan.as_ref()).indent(false).to_string(),
                notes,
            }
        }
        Err(error) => Ran {
            rows: Err(error.to_string()),
            plan: planned.display(),
            notes,
        },
    }
}
