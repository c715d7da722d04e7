//! The commands of Flight SQL.

use super::actions;
use super::arrivals::parameters;
use super::entrance::{Greeting, handshake, session_of};
use super::ingest;
use super::listings::{Listing, listed};
use super::results::{Messages, messages_of};
use super::sessions::Sessions;
use super::statements;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{DoPutError, FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementIngest, CommandStatementQuery, CommandStatementUpdate,
    DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{Action, ActionType, FlightDescriptor, FlightInfo, HandshakeRequest, Ticket};
use futures::stream;
use prost::Message;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// A query that was stopped (`ActionCancelQueryResult`).
const CANCELLED: i32 = 1;

/// Answers the commands of all clients.
pub(super) struct Service(Arc<Sessions>);

type Informed = Result<Response<FlightInfo>, Status>;
type Given = Result<Response<Messages>, Status>;

impl Service {
    pub fn new(sessions: Arc<Sessions>) -> Self {
        Service(sessions)
    }
}

/// Announces a list.
async fn inform(
    listing: impl Listing + ProstMessageExt + Clone,
    request: Request<FlightDescriptor>,
) -> Informed {
    let session = session_of(&request)?;
    let batch = listed(&session.client, listing.clone()).await?;
    let ticket = listing.as_any().encode_to_vec();
    let info = statements::info(batch.schema_ref(), ticket, request.into_inner())?;
    Ok(Response::new(info))
}

/// Gives a list.
async fn give(listing: impl Listing, request: Request<Ticket>) -> Given {
    let session = session_of(&request)?;
    let batch = listed(&session.client, listing).await?;
    Ok(Response::new(messages_of(batch)))
}

/// What a client is told of rows that a statement has changed.
fn counted(rows: Option<u64>) -> i64 {
    i64::try_from(rows.unwrap_or(0)).unwrap_or(i64::MAX)
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Greeting>, Status> {
        handshake(&self.0, request).await
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        without_transaction(&query.transaction_id)?;
        let session = session_of(&request)?;
        let info = statements::announced(&session, &query.query, request.into_inner());
        Ok(Response::new(info.await?))
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        let session = session_of(&request)?;
        let handle = &query.prepared_statement_handle;
        let info = statements::announced_prepared(&session, handle, request.into_inner());
        Ok(Response::new(info.await?))
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Given {
        let session = session_of(&request)?;
        let rows = statements::rows(&session, &ticket.statement_handle).await?;
        Ok(Response::new(rows))
    }

    async fn do_put_statement_update(
        &self,
        update: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        without_transaction(&update.transaction_id)?;
        let session = session_of(&request)?;
        let rows = statements::update(&session, &update.query).await?;
        Ok(counted(rows))
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = session_of(&request)?;
        let rows = ingest::ingest(&session, command, request.into_inner()).await?;
        Ok(counted(Some(rows)))
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let session = session_of(&request)?;
        let rows = parameters(request.into_inner()).await?;
        let handle = query.prepared_statement_handle;
        session.store.bind(&handle, rows.unwrap_or_default())?;
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(handle),
        })
    }

    async fn do_put_prepared_statement_update(
        &self,
        update: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = session_of(&request)?;
        let rows = parameters(request.into_inner()).await?;
        let handle = update.prepared_statement_handle;
        let rows = statements::update_prepared(&session, &handle, rows).await?;
        Ok(counted(rows))
    }

    async fn do_put_error_callback(
        &self,
        _: Request<PeekableFlightDataStream>,
        wrong: DoPutError,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        let told = match wrong {
            // The Go driver of ADBC sends nothing at all for a table without batches.
            DoPutError::MissingCommand => {
                "no command came: a table without batches may have been ingested; give one batch \
                 without rows, or CREATE TABLE"
                    .to_owned()
            }
            other => other.to_string(),
        };
        Err(Status::invalid_argument(told))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        without_transaction(&query.transaction_id)?;
        let session = session_of(&request)?;
        statements::prepare(&session, &query.query).await
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let session = session_of(&request)?;
        session.store.close(&query.prepared_statement_handle)
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let session = session_of(&request)?;
        let info = FlightInfo::decode(query.info);
        let info = info.map_err(|e| Status::invalid_argument(e.to_string()))?;
        actions::cancel(&session, Some(info))?;
        Ok(ActionCancelQueryResult { result: CANCELLED })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let body = actions::act(&self.0, &request)?;
        let result = arrow_flight::Result::new(body);
        Ok(Response::new(Box::pin(stream::iter([Ok(result)]))))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        Some(actions::known())
    }

    /// Facts about the server do not change while it runs.
    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}

    async fn get_flight_info_catalogs(
        &self,
        list: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_catalogs(&self, list: CommandGetCatalogs, request: Request<Ticket>) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_schemas(
        &self,
        list: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_schemas(&self, list: CommandGetDbSchemas, request: Request<Ticket>) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_tables(
        &self,
        list: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_tables(&self, list: CommandGetTables, request: Request<Ticket>) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_table_types(
        &self,
        list: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_table_types(
        &self,
        list: CommandGetTableTypes,
        request: Request<Ticket>,
    ) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_sql_info(
        &self,
        list: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_sql_info(&self, list: CommandGetSqlInfo, request: Request<Ticket>) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_primary_keys(
        &self,
        list: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_primary_keys(
        &self,
        list: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_exported_keys(
        &self,
        list: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_exported_keys(
        &self,
        list: CommandGetExportedKeys,
        request: Request<Ticket>,
    ) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_imported_keys(
        &self,
        list: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_imported_keys(
        &self,
        list: CommandGetImportedKeys,
        request: Request<Ticket>,
    ) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_cross_reference(
        &self,
        list: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_cross_reference(
        &self,
        list: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> Given {
        give(list, request).await
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        list: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Informed {
        inform(list, request).await
    }

    async fn do_get_xdbc_type_info(
        &self,
        list: CommandGetXdbcTypeInfo,
        request: Request<Ticket>,
    ) -> Given {
        give(list, request).await
    }
}

/// Refuses what belongs to a transaction: there are none.
pub(super) fn without_transaction(id: &Option<bytes::Bytes>) -> Result<(), Status> {
    match id {
        None => Ok(()),
        Some(_) => Err(Status::unimplemented(
            "there are no transactions: every statement takes effect whole or not at all",
        )),
    }
}
