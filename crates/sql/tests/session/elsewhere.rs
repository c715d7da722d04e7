//! A session whose tables somebody else has: what goes there, what stays, and what is refused.

use super::{Number, run, session};
use arrow::array::{Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tierloom_sql::{Elsewhere, SqlError, SqlSession, TableSize};

fn numbers(values: Vec<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values)) as _)]).unwrap()
}

/// Has a table `there` and, later, `new`; answers every query on them with 42.
#[derive(Default)]
struct Somebody {
    /// 0: nothing was loaded since; 1: `new` was; 2: it does not answer.
    state: AtomicUsize,
    seen: AtomicUsize,
}

impl Elsewhere for Somebody {
    fn follow(&self, context: &SessionContext) -> Result<bool, SqlError> {
        let state = self.state.load(Ordering::SeqCst);
        if state == 2 {
            return Err(SqlError::failed("nobody answers"));
        }
        let names = ["there", "new"].into_iter().take(1 + state);
        for name in names.skip(self.seen.load(Ordering::SeqCst)) {
            // No row of it is ever read here.
            let empty = MemTable::try_new(numbers(vec![]).schema(), vec![vec![]]).unwrap();
            context.register_table(name, Arc::new(empty)).unwrap();
        }
        Ok(self.seen.swap(1 + state, Ordering::SeqCst) != 1 + state)
    }

    fn size_of(&self, table: &str) -> Option<TableSize> {
        let size = TableSize { rows: 7, bytes: 56 };
        ["there", "new"].contains(&table).then_some(size)
    }

    fn missing(&self, table: &str) -> Option<String> {
        (table == "lost").then(|| "shard 3 of lost is on node b (does not answer)".to_owned())
    }

    fn plan(&self, query: &LogicalPlan) -> Result<Option<Arc<dyn ExecutionPlan>>, SqlError> {
        if !query.display_indent().to_string().contains("TableScan") {
            return Ok(None);
        }
        let rows = numbers(vec![42]);
        let plan = MemorySourceConfig::try_new_exec(&[vec![rows.clone()]], rows.schema(), None);
        Ok(Some(plan.unwrap()))
    }

    fn placement(
        &self,
        _: &LogicalPlan,
        _: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<RecordBatch>, SqlError> {
        Ok(Some(numbers(vec![43])))
    }
}

fn with_somebody() -> (SqlSession, Arc<Somebody>) {
    let somebody = Arc::new(Somebody::default());
    let session = session().with_elsewhere(somebody.clone()).unwrap();
    (session, somebody)
}

#[test]
fn queries_on_tables_of_others_go_there_and_new_tables_are_found() {
    let (mut session, somebody) = with_somebody();
    assert_eq!(
        run(&mut session, "SELECT a FROM there").unwrap().number(),
        42
    );
    assert_eq!(run(&mut session, "SELECT 2 + 3").unwrap().number(), 5);
    let placed = run(&mut session, "EXPLAIN PLACEMENT SELECT a FROM there");
    assert_eq!(placed.unwrap().number(), 43);
    let prepared = "PREPARE p AS SELECT a FROM there WHERE a > $1; EXECUTE p(3)";
    assert_eq!(run(&mut session, prepared).unwrap().number(), 42);
    let listed = session.tables().into_iter();
    let listed = listed.filter(|table| table.kind == "table");
    let listed: Vec<_> = listed.map(|table| (table.name, table.rows)).collect();
    assert_eq!(listed, [("there".to_owned(), Some(7))]);
    run(&mut session, "SELECT a FROM new").unwrap_err();
    somebody.state.store(1, Ordering::SeqCst);
    assert_eq!(run(&mut session, "SELECT a FROM new").unwrap().number(), 42);
    somebody.state.store(2, Ordering::SeqCst);
    let error = run(&mut session, "SELECT a FROM there").unwrap_err();
    assert_eq!(error, SqlError::Failed("nobody answers".into()));
    somebody.state.store(1, Ordering::SeqCst);
    assert_eq!(
        run(&mut session, "SELECT a FROM there").unwrap().number(),
        42
    );
}

#[test]
fn what_needs_tables_or_settings_of_its_own_is_refused_and_changes_nothing() {
    let (mut session, _) = with_somebody();
    for (statement, what) in [
        ("CREATE TABLE t AS SELECT 1", "CREATE TABLE"),
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW"),
        ("INSERT INTO there VALUES (1)", "INSERT"),
        ("DROP TABLE there", "DROP TABLE"),
        ("SET tierloom.threads = 2", "SET tierloom.threads"),
        (
            "SET datafusion.execution.batch_size = 3",
            "SET datafusion.execution.batch_size",
        ),
        ("SHOW tierloom.*", "SHOW tierloom.*"),
        ("VACUUM there", "VACUUM"),
        (
            "EXPLAIN ANALYZE PLACEMENT SELECT 1",
            "EXPLAIN ANALYZE PLACEMENT",
        ),
        ("PREPARE p AS INSERT INTO there VALUES ($1)", "PREPARE"),
    ] {
        let Err(SqlError::Input { message, .. }) = run(&mut session, statement) else {
            panic!("{statement} is possible");
        };
        let begins = format!("{what} is not supported here");
        assert!(message.starts_with(&begins), "{statement}: {message}");
    }
    let lost = run(&mut session, "SELECT * FROM lost").unwrap_err();
    assert!(
        matches!(&lost, SqlError::Failed(why) if why.contains("shard 3")),
        "{lost:?}"
    );
    assert_eq!(
        session
            .tables()
            .iter()
            .filter(|t| t.kind != "system")
            .count(),
        1
    );
}
