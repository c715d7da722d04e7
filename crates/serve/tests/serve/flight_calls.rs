//! Calls of Flight beside those of its drivers: columns before anything runs, announcements in
//! steps, several rows of parameters, keys.

use super::flight::{both, over, python, rows};
use super::support::{Server, printed, session};
use arrow::array::{Int64Array, RecordBatch};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandGetExportedKeys, CommandGetPrimaryKeys, CommandPreparedStatementQuery,
    CommandStatementQuery, ProstMessageExt,
};
use arrow_flight::{Action, FlightDescriptor};
use futures::TryStreamExt;
use prost::Message;
use std::sync::Arc;
use tonic::Code;

fn asks(text: &str) -> FlightDescriptor {
    let query = CommandStatementQuery {
        query: text.into(),
        transaction_id: None,
    };
    FlightDescriptor::new_cmd(query.as_any().encode_to_vec())
}

#[test]
fn columns_are_known_without_running_a_statement() {
    let server = Server::with(both(), session());
    over(&server, async |channel| {
        let mut low = FlightServiceClient::new(channel.clone());
        let mut client = FlightSqlServiceClient::new(channel.clone());
        for text in [
            "SELECT a, b FROM t",
            "SELECT b, count(*) FROM t GROUP BY b",
            "SHOW server_version",
        ] {
            let schema = low.get_schema(asks(text)).await.unwrap().into_inner();
            let schema = arrow::datatypes::Schema::try_from(&schema).unwrap();
            let info = client.execute(text.into(), None).await.unwrap();
            assert_eq!(schema, info.try_decode_schema().unwrap(), "{text}");
            assert!(!schema.fields().is_empty(), "{text}");
        }
        // Nothing has happened when somebody has asked for the columns of a change.
        let schema = low.get_schema(asks("DELETE FROM t")).await.unwrap();
        let schema = arrow::datatypes::Schema::try_from(&schema.into_inner()).unwrap();
        assert!(schema.fields().is_empty());
        let info = client
            .execute("SELECT a FROM t".into(), None)
            .await
            .unwrap();
        let left = rows(&mut client, info).await;
        assert_eq!(left.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
        for wrong in ["SELECT )", "SELECT * FROM nothing", ""] {
            let told = low.get_schema(asks(wrong)).await.unwrap_err();
            let is_clear = [Code::InvalidArgument, Code::NotFound].contains(&told.code());
            assert!(is_clear, "{wrong}: {told}");
        }
        for rubbish in [Vec::new(), vec![0xff; 40]] {
            let told = low.get_schema(FlightDescriptor::new_cmd(rubbish)).await;
            assert!(!told.unwrap_err().message().contains("panic"));
        }
    });
}

#[test]
fn an_announcement_in_steps_is_complete_at_once() {
    let server = Server::with(both(), session());
    over(&server, async |channel| {
        let mut low = FlightServiceClient::new(channel.clone());
        let poll = low.poll_flight_info(asks("SELECT a FROM t")).await.unwrap();
        let poll = poll.into_inner();
        assert_eq!((poll.flight_descriptor, poll.progress), (None, Some(1.0)));
        let mut client = FlightSqlServiceClient::new(channel);
        let all = rows(&mut client, poll.info.unwrap()).await;
        assert_eq!(all.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
        let told = low.poll_flight_info(asks("SELECT * FROM nothing")).await;
        assert_eq!(told.unwrap_err().code(), Code::NotFound);
    });
}

#[test]
fn a_query_runs_once_for_each_row_of_parameters() {
    let server = Server::with(both(), session());
    over(&server, async |channel| {
        let mut client = FlightSqlServiceClient::new(channel.clone());
        let text = "SELECT a * 10 + $1 AS s FROM t WHERE a <= $1 ORDER BY a";
        let mut prepared = client.prepare(text.into(), None).await.unwrap();
        let values: Arc<Int64Array> = Arc::new(vec![2, 0, 3, 1].into());
        let batch = RecordBatch::try_from_iter([("p", values as _)]).unwrap();
        prepared.set_parameters(batch).unwrap();
        let info = prepared.execute().await.unwrap();
        let mut sums = Vec::new();
        for batch in rows(&mut client, info).await {
            let column = batch.column(0).as_any().downcast_ref::<Int64Array>();
            sums.extend(column.unwrap().values().iter().copied());
        }
        assert_eq!(sums, [12, 22, 13, 23, 33, 11]);
        prepared.close().await.unwrap();
        // Without values there is one error.
        let mut low = FlightServiceClient::new(channel);
        let request = ActionCreatePreparedStatementRequest {
            query: text.into(),
            transaction_id: None,
        };
        let action = Action::new("CreatePreparedStatement", request.as_any().encode_to_vec());
        let answers = low.do_action(action).await.unwrap().into_inner();
        let answers: Vec<_> = answers.try_collect().await.unwrap();
        let made = Any::decode(answers[0].body.clone()).unwrap();
        let made: ActionCreatePreparedStatementResult = made.unpack().unwrap().unwrap();
        let unbound = CommandPreparedStatementQuery {
            prepared_statement_handle: made.prepared_statement_handle,
        };
        let unbound = FlightDescriptor::new_cmd(unbound.as_any().encode_to_vec());
        let told = low.get_flight_info(unbound.clone()).await.unwrap_err();
        assert_eq!(told.code(), Code::FailedPrecondition, "{told}");
        // Its columns are known all the same.
        let schema = low.get_schema(unbound).await.unwrap().into_inner();
        let schema = arrow::datatypes::Schema::try_from(&schema).unwrap();
        assert_eq!(schema.field(0).name(), "s");
    });
}

#[test]
fn primary_keys_are_listed_in_their_order_and_there_are_no_foreign_keys() {
    let server = Server::with(both(), session());
    over(&server, async |channel| {
        let mut client = FlightSqlServiceClient::new(channel);
        for text in [
            "CREATE SCHEMA shop",
            "CREATE TABLE shop.lines (a INT, b INT, c INT, CONSTRAINT pair PRIMARY KEY (c, a))",
        ] {
            client.execute_update(text.into(), None).await.unwrap();
        }
        let info = client.get_primary_keys(CommandGetPrimaryKeys {
            catalog: None,
            db_schema: Some("shop".into()),
            table: "lines".into(),
        });
        let info = info.await.unwrap();
        let keys = rows(&mut client, info).await;
        let text = |column: usize, row: usize| {
            let column = keys[0].column(column);
            arrow::util::display::array_value_to_string(column, row).unwrap()
        };
        let key = |row| (text(3, row), text(4, row), text(5, row));
        let of = |column: &str, place: &str| (column.into(), "pair".into(), place.into());
        assert_eq!(keys[0].num_rows(), 2);
        assert_eq!((key(0), key(1)), (of("c", "1"), of("a", "2")));
        let info = client.get_exported_keys(CommandGetExportedKeys {
            catalog: None,
            db_schema: Some("shop".into()),
            table: "lines".into(),
        });
        let info = info.await.unwrap();
        let none = rows(&mut client, info).await;
        assert_eq!(none.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    });
}

#[test]
fn drivers_bind_several_rows_and_ingest_a_table_without_rows() {
    let server = Server::with(both(), session());
    let Some(output) = python(
        &server,
        &["pyarrow as pa"],
        r#"
with connect() as c, c.cursor() as cur:
    cur.execute("SELECT a, b FROM t WHERE a = ?", pa.table({"p": pa.array([3, 1], pa.int64())}))
    assert cur.fetchall() == [(3, None), (1, "one")]
    empty = pa.schema({"a": pa.int64(), "b": pa.string()}).empty_table()
    # The driver sends nothing for a table without batches, not even its name: one clear error.
    try:
        cur.adbc_ingest("fresh", empty, mode="create")
        assert False
    except adbc_driver_manager.Error as error:
        assert "one batch without rows" in str(error), str(error)
    one = pa.RecordBatch.from_pylist([], schema=empty.schema)
    cur.adbc_ingest("fresh", one, mode="create")
    cur.execute("SELECT count(*), count(a), count(b) FROM fresh")
    assert cur.fetchone() == (0, 0, 0)
print("done")
"#,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}
