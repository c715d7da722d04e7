use super::*;
use arrow::array::{Int64Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::{Constraint, DFSchema};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::prelude::*;

fn table(columns: &[&str], rows: i64) -> Arc<MemTable> {
    let values = |at: usize| (0..rows).map(|row| row * 7 % (3 + at as i64)).collect();
    let column = |at: usize| Arc::new(Int64Array::from_iter_values::<Vec<i64>>(values(at))) as _;
    let columns = columns.iter().enumerate().map(|(at, c)| (*c, column(at)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    let keys = Constraints::new_unverified(vec![Constraint::PrimaryKey(vec![0])]);
    Arc::new(table.with_constraints(keys))
}

fn context() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(1);
    let context = SessionContext::new_with_config(config);
    let t = table(&["k", "a", "b", "c d", "E"], 11);
    context.register_table("t", t).unwrap();
    context
        .register_table("u", table(&["k", "a", "x", "y"], 5))
        .unwrap();
    context
}

async fn read(context: &SessionContext, sql: &str) -> Result<LogicalPlan> {
    read_statement(&context.state(), sql).await
}

async fn answer(context: &SessionContext, plan: LogicalPlan) -> String {
    let rows = context.execute_logical_plan(plan).await;
    let rows = rows.unwrap().collect().await.unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

/// The numbers of columns that the scans of a statement's first plan give.
async fn widths(sql: &str) -> Vec<usize> {
    let mut widths = Vec::new();
    let plan = read(&context(), sql).await.unwrap();
    plan.each_of_all(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node {
            let schema: &DFSchema = &scan.projected_schema;
            widths.push(schema.fields().len());
            let projection = scan.projection.as_ref().map(Vec::len);
            let all = scan.source.schema().fields().len();
            assert_eq!(projection.unwrap_or(all), schema.fields().len(), "{sql}");
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })
    .unwrap();
    widths
}

#[tokio::test]
async fn scans_have_the_columns_that_may_be_meant() {
    for (sql, expected) in [
        ("select a from t", vec![2]),
        // A name that needs quotes and one in capitals.
        ("select \"E\", \"c d\" from t", vec![2]),
        ("select count(*) from u", vec![1]),
        ("select * from t", vec![5]),
        ("select * from t, (select x from u)", vec![5, 1]),
        ("select u.* from u join t using (k)", vec![4, 5]),
        (
            "select a from t where exists (select * from u where u.x = b)",
            vec![3, 2],
        ),
        ("select a from t natural join u", vec![5, 4]),
        ("select p, q from u as u(p, q, r, s)", vec![4]),
        ("with w as (select * from u) select x from w", vec![4]),
        ("select a, 1e3 from t", vec![5]),
        (
            "select x from u union all select k from t where a in (select y from u)",
            vec![4, 4, 3],
        ),
    ] {
        let mut found = widths(sql).await;
        found.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(found, expected, "{sql}");
    }
}

#[tokio::test]
async fn errors_name_all_columns_and_keys_still_say_what_depends_on_them() {
    let context = context();
    let error = read(&context, "select nothing from u").await.unwrap_err();
    assert!(error.to_string().contains("u.y"), "{error}");
    let plan = read(&context, "select k, x, sum(y) from u group by k").await;
    assert!(answer(&context, plan.unwrap()).await.contains("sum(u.y)"));
    assert!(
        read(&context, "select x, sum(y) from u group by a")
            .await
            .is_err()
    );
}

fn column() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["t.k", "b", "\"c d\"", "u.a", "x", "y", "t.A", "\"E\""])
}

fn select() -> impl Strategy<Value = String> {
    let list = prop_oneof![
        Just("*".to_owned()),
        Just("t.*, u.k".to_owned()),
        Just("count(*)".to_owned()),
        prop::collection::vec(column(), 1..4).prop_map(|names| {
            let named = names
                .iter()
                .enumerate()
                .map(|(i, n)| format!("{n} as c{i}"));
            named.collect::<Vec<_>>().join(", ")
        }),
    ];
    let from = prop::sample::select(vec![
        "t, u",
        "t join u using (k)",
        "t natural join u",
        "(select * from t) t, u",
        "t left join (select k, a, x, y from u) u on t.k = u.k",
        "t cross join u as u(k, a, x, y)",
    ]);
    let test = prop_oneof![
        column().prop_map(|name| format!("{name} > 1")),
        column().prop_map(|n| format!("exists (select * from u v where v.x = {n})")),
        column().prop_map(|n| format!("{n} in (select a from t w where w.b < 3)")),
    ];
    (list, from, test)
        .prop_map(|(list, from, test)| format!("select {list} from {from} where {test}"))
}

proptest! {
    #[test]
    fn answers_are_those_of_plans_with_all_columns(sql in select()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let context = context();
            let all = match context.state().create_logical_plan(&sql).await {
                Ok(plan) => plan,
                Err(error) => {
                    let ours = read(&context, &sql).await.unwrap_err();
                    assert_eq!(ours.to_string(), error.to_string(), "{sql}");
                    return;
                }
            };
            let plan = read(&context, &sql).await.unwrap();
            assert_eq!(plan.schema(), all.schema(), "{sql}");
            assert_eq!(answer(&context, plan).await, answer(&context, all).await, "{sql}");
        });
    }
}
