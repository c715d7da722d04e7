//! Calls of Flight that are no commands of Flight SQL: columns before anything runs, and
//! announcements that are asked for in steps. Others go on to the commands.

use super::entrance::session_of;
use super::results::encoded;
use super::service::{Service, without_transaction};
use super::statements;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Any, Command};
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

/// Answers all calls of all clients.
pub(super) struct Front(pub Service);

/// What an answer to a call is.
type Answer<T> = Result<Response<T>, Status>;

impl Front {
    /// The columns of what a descriptor stands for.
    async fn columns(&self, request: Request<FlightDescriptor>) -> Result<SchemaResult, Status> {
        let session = session_of(&request)?;
        let command = Any::decode(request.get_ref().cmd.clone());
        let command = command.ok().map(Command::try_from);
        let columns = match command {
            Some(Ok(Command::CommandStatementQuery(query))) => {
                without_transaction(&query.transaction_id)?;
                statements::columns(&session, &query.query).await?
            }
            Some(Ok(Command::CommandPreparedStatementQuery(query))) => {
                let handle = &query.prepared_statement_handle;
                statements::columns_of_prepared(&session, handle).await?
            }
            // Lists are made and announced without running anything.
            _ => {
                let info = self.0.get_flight_info(request).await?.into_inner();
                return Ok(SchemaResult {
                    schema: info.schema,
                });
            }
        };
        Ok(SchemaResult {
            schema: encoded(&columns)?,
        })
    }
}

#[tonic::async_trait]
impl FlightService for Front {
    type HandshakeStream = <Service as FlightService>::HandshakeStream;
    type ListFlightsStream = <Service as FlightService>::ListFlightsStream;
    type DoGetStream = <Service as FlightService>::DoGetStream;
    type DoPutStream = <Service as FlightService>::DoPutStream;
    type DoExchangeStream = <Service as FlightService>::DoExchangeStream;
    type DoActionStream = <Service as FlightService>::DoActionStream;
    type ListActionsStream = <Service as FlightService>::ListActionsStream;

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        self.columns(request).await.map(Response::new)
    }

    /// Queries run when their rows are read, so an announcement is complete at once.
    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        let info = self.0.get_flight_info(request).await?.into_inner();
        let complete = PollInfo::new().with_info(info).try_with_progress(1.0);
        let complete = complete.map_err(super::status::internal)?;
        Ok(Response::new(complete))
    }

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        self.0.handshake(request).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.0.list_flights(request).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.0.get_flight_info(request).await
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        self.0.do_get(request).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.0.do_put(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        self.0.do_exchange(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        self.0.do_action(request).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        self.0.list_actions(request).await
    }
}
