//! The extended protocol: statements that are described before they run, with parameters, and
//! portals that give some rows at a time.

use super::action::{self, Action};
use super::connection::{Answer, Connection, check_transaction, tag_of};
use super::copy_in;
use super::errors::error;
use super::messages::{complete, row_description};
use super::rows::{self, Encoded, PgRows, Shape, visible};
use super::running::{Part, Running};
use super::simple::{copy_out, forget};
use arrow::datatypes::{DataType, TimeUnit};
use arrow_pg::datatypes::df::deserialize_parameters;
use arrow_pg::datatypes::into_pg_type;
use async_trait::async_trait;
use datafusion::common::{ParamValues, ScalarValue};
use futures::{Sink, SinkExt, StreamExt, stream};
use pgwire::api::portal::{Format, Portal, PortalExecutionState};
use pgwire::api::query::ExtendedQueryHandler;
use pgwire::api::results::{FieldInfo, QueryResponse, Response, Tag};
use pgwire::api::stmt::QueryParser;
use pgwire::api::store::{Entry, PortalStore};
use pgwire::api::{ClientInfo, ClientPortalStore, DEFAULT_NAME, PgWireConnectionState, Type};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::data::{DataRow, NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Describe, Execute, PortalSuspended, Sync as PgSync,
    TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::{EmptyQueryResponse, ReadyForQuery, TransactionStatus};
use std::fmt::Debug;
use std::sync::Arc;
use tierloom_sql::{Described, Piece};

/// A statement that was prepared.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    text: String,
    piece: Piece,
    action: Action,
    described: Described,
    parameters: Vec<Type>,
}

pub(crate) struct Extended(pub Arc<Connection>);

/// Prepares the statements of a connection.
pub(crate) struct Preparing(Arc<Connection>);

#[async_trait]
impl QueryParser for Preparing {
    type Statement = Arc<Prepared>;

    async fn parse_sql<C>(
        &self,
        client: &C,
        sql: &str,
        types: &[Option<Type>],
    ) -> PgWireResult<Option<Arc<Prepared>>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        let Some(piece) = action::only_one(sql)? else {
            return Ok(None);
        };
        let action = self.0.action(client, &piece)?;
        let described = match &action {
            Action::Run => self.describe(sql, &piece, types).await?,
            _ => Described::default(),
        };
        let parameters = described
            .parameters
            .iter()
            .enumerate()
            .map(|(at, inferred)| {
                let given = types.get(at).cloned().flatten();
                given
                    .filter(|t| *t != Type::UNKNOWN)
                    .map_or_else(|| into_pg_type(inferred), Ok)
            });
        Ok(Some(Arc::new(Prepared {
            parameters: parameters.collect::<PgWireResult<_>>()?,
            text: sql.to_owned(),
            piece,
            action,
            described,
        })))
    }

    fn get_parameter_types(&self, prepared: &Arc<Prepared>) -> PgWireResult<Vec<Type>> {
        Ok(prepared.parameters.clone())
    }

    fn get_result_schema(
        &self,
        prepared: &Arc<Prepared>,
        format: Option<&Format>,
    ) -> PgWireResult<Vec<FieldInfo>> {
        let text = Format::UnifiedText;
        match (&prepared.described.columns, &prepared.action) {
            (Some(columns), _) => rows::fields(columns, format.unwrap_or(&text)),
            (None, Action::Show(name)) => {
                let field = FieldInfo::new(
                    name.clone(),
                    None,
                    None,
                    Type::TEXT,
                    pgwire::api::results::FieldFormat::Text,
                );
                Ok(vec![field])
            }
            (None, _) => Ok(Vec::new()),
        }
    }
}

impl Preparing {
    async fn describe(
        &self,
        text: &str,
        piece: &Piece,
        types: &[Option<Type>],
    ) -> PgWireResult<Described> {
        let given = types.iter().map(|t| t.as_ref().and_then(arrow_type));
        let session = &self.0.session;
        let lease = session.lease(false).await;
        let described = session.describe(lease, text, piece, given.collect());
        let described = described.await?;
        Ok(Described {
            columns: described.columns.map(|columns| visible(&columns)),
            parameters: described.parameters,
        })
    }
}

/// The type of a parameter that a client has named.
fn arrow_type(given: &Type) -> Option<DataType> {
    let micros =
        |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
    Some(match *given {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => DataType::Utf8,
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIMESTAMP => micros(None),
        Type::TIMESTAMPTZ => micros(Some("+00:00")),
        _ => return None,
    })
}

#[async_trait]
impl ExtendedQueryHandler for Extended {
    type Statement = Arc<Prepared>;
    type QueryParser = Preparing;

    fn query_parser(&self) -> Arc<Preparing> {
        Arc::new(Preparing(Arc::clone(&self.0)))
    }

    async fn on_bind<C>(&self, client: &mut C, bind: Bind) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let name = bind.statement_name.as_deref().unwrap_or(DEFAULT_NAME);
        match client.portal_store().get_statement(name) {
            Some(Entry::Value(statement)) => {
                check_bind(&bind, statement.statement.parameters.len())?;
                let portal = Portal::try_new(&bind, statement)?;
                client.portal_store().put_portal(Arc::new(portal));
            }
            Some(Entry::Empty) => {
                check_bind(&bind, 0)?;
                let name = bind.portal_name.as_deref().unwrap_or(DEFAULT_NAME);
                client.portal_store().put_empty_portal(name);
            }
            None => return Err(PgWireError::StatementNotFound(name.to_owned())),
        }
        Ok(client
            .feed(Message::BindComplete(BindComplete::new()))
            .await?)
    }

    async fn on_describe<C>(&self, client: &mut C, describe: Describe) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let name = describe.name.as_deref().unwrap_or(DEFAULT_NAME);
        if describe.target_type != TARGET_TYPE_BYTE_STATEMENT {
            return self._on_describe(client, describe).await;
        }
        let (parameters, fields) = match client.portal_store().get_statement(name) {
            Some(Entry::Value(statement)) => {
                let prepared = &statement.statement;
                let fields = self.query_parser().get_result_schema(prepared, None)?;
                (prepared.parameters.iter().map(Type::oid).collect(), fields)
            }
            Some(Entry::Empty) => (Vec::new(), Vec::new()),
            None => return Err(PgWireError::StatementNotFound(name.to_owned())),
        };
        let parameters = ParameterDescription::new(parameters);
        client
            .feed(Message::ParameterDescription(parameters))
            .await?;
        let rows = match fields.is_empty() {
            true => Message::NoData(NoData::new()),
            false => row_description(&fields),
        };
        Ok(client.feed(rows).await?)
    }

    async fn on_execute<C>(&self, client: &mut C, execute: Execute) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        if !matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            return Err(PgWireError::NotReadyForQuery);
        }
        client.set_state(PgWireConnectionState::QueryInProgress);
        let name = execute.name.as_deref().unwrap_or(DEFAULT_NAME);
        match client.portal_store().get_portal(name) {
            Some(Entry::Value(portal)) => {
                // What is not a positive number means all rows.
                let most = usize::try_from(execute.max_rows).unwrap_or(0);
                self.execute(client, &portal, most).await?;
            }
            Some(Entry::Empty) => {
                let empty = Message::EmptyQueryResponse(EmptyQueryResponse::new());
                client.feed(empty).await?;
            }
            None => return Err(PgWireError::PortalNotFound(name.to_owned())),
        }
        // A copy goes on with what the client sends next.
        if !matches!(client.state(), PgWireConnectionState::CopyInProgress(_)) {
            client.set_state(PgWireConnectionState::ReadyForQuery);
        }
        Ok(())
    }

    async fn on_sync<C>(&self, client: &mut C, _: PgSync) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let status = client.transaction_status();
        // Portals live as long as their transaction; without one, until here.
        match status {
            TransactionStatus::Idle => client.portal_store().clear_portals(),
            _ => client.portal_store().rm_portal(DEFAULT_NAME),
        }
        let ready = Message::ReadyForQuery(ReadyForQuery::new(status));
        Ok(client.send(ready).await?)
    }

    async fn do_query<C>(
        &self,
        _: &mut C,
        _: &Portal<Self::Statement>,
        _: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        Err(error("XX000", "portals are run by on_execute"))
    }
}

/// Refuses values and formats that do not belong to the statement.
fn check_bind(bind: &Bind, parameters: usize) -> PgWireResult<()> {
    if bind.parameters.len() != parameters {
        return Err(error(
            "08P01",
            format!(
                "bind message supplies {} parameters, but the prepared statement requires {parameters}",
                bind.parameters.len()
            ),
        ));
    }
    let formats = bind.parameter_format_codes.len();
    if formats > 1 && formats != parameters {
        return Err(error(
            "08P01",
            format!("bind message has {formats} parameter formats but {parameters} parameters"),
        ));
    }
    Ok(())
}

impl Extended {
    async fn execute<C>(
        &self,
        client: &mut C,
        portal: &Portal<Arc<Prepared>>,
        most: usize,
    ) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Arc<Prepared>>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let state = portal.state();
        let mut state = state.lock().await;
        if matches!(*state, PortalExecutionState::Initial) {
            // If it fails, it has ended.
            *state = PortalExecutionState::Finished;
            match self.begin(client, portal, most).await? {
                Some(response) => *state = PortalExecutionState::Suspended(response),
                None => return Ok(()),
            }
        }
        let PortalExecutionState::Suspended(response) = &mut *state else {
            return complete(client, Tag::new("SELECT").with_rows(0)).await;
        };
        let mut sent = 0;
        loop {
            if most > 0 && sent == most {
                let suspended = Message::PortalSuspended(PortalSuspended::new());
                return Ok(client.feed(suspended).await?);
            }
            match response.data_rows.next().await {
                Some(Ok(row)) => client.feed(Message::DataRow(row)).await?,
                Some(Err(failed)) => {
                    *state = PortalExecutionState::Finished;
                    return Err(failed);
                }
                None => break,
            }
            sent += 1;
        }
        let tag = tag_of(&response.command_tag, true, Some(sent as u64));
        *state = PortalExecutionState::Finished;
        complete(client, tag).await
    }

    /// Starts a portal; `None` if it has ended already, because it has no rows.
    async fn begin<C>(
        &self,
        client: &mut C,
        portal: &Portal<Arc<Prepared>>,
        most: usize,
    ) -> PgWireResult<Option<QueryResponse>>
    where
        C: ClientInfo + ClientPortalStore + Sink<Message> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Arc<Prepared>>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let prepared = &portal.statement.statement;
        check_transaction(client, &prepared.action)?;
        match &prepared.action {
            Action::Run => return self.run(client, portal, most).await,
            Action::CopyOut(copy) => {
                copy_out(&self.0, client, &prepared.text, copy).await?;
                return Ok(None);
            }
            Action::CopyIn(copy) => {
                copy_in::begin(&self.0, client, &prepared.text, copy, true).await?;
                return Ok(None);
            }
            Action::Commit | Action::Rollback | Action::Discard(_) => forget(client),
            _ => {}
        }
        match self.0.act(client, &prepared.action).await? {
            Answer::Tag(tag) => complete(client, tag).await?,
            Answer::Row(_, row) => {
                client.feed(Message::DataRow(row)).await?;
                complete(client, Tag::new("SHOW")).await?;
            }
        }
        Ok(None)
    }

    async fn run<C>(
        &self,
        client: &mut C,
        portal: &Portal<Arc<Prepared>>,
        most: usize,
    ) -> PgWireResult<Option<QueryResponse>>
    where
        C: ClientInfo + Sink<Message> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<Message>>::Error>,
    {
        let prepared = &portal.statement.statement;
        let shape = Shape::Rows(portal.result_column_format.clone());
        let columns = prepared.described.columns.clone();
        let with_rows = columns.is_some();
        let (piece, text) = (prepared.piece.clone(), &prepared.text);
        let task = self.0.session.task(piece, text, values(portal)?)?;
        let lease = self.0.session.lease(with_rows && most > 0).await;
        let mut running = self.0.start(lease, task, PgRows::new(shape, columns))?;
        match running.next().await? {
            Some(Part::Columns(fields)) if with_rows => {
                let mut response = QueryResponse::new(fields, rows_of(running));
                response.set_command_tag(&prepared.piece.text);
                Ok(Some(response))
            }
            Some(Part::Done(outcome)) => {
                complete(client, tag_of(&prepared.piece.text, false, outcome.rows)).await?;
                Ok(None)
            }
            _ => Err(error(
                "0A000",
                "this statement has rows that could not be described; send it by the simple protocol",
            )),
        }
    }
}

/// The rows of a running statement.
fn rows_of(running: Running<PgRows>) -> impl futures::Stream<Item = PgWireResult<DataRow>> + Send {
    let none = Vec::new().into_iter();
    stream::try_unfold((running, none), |(mut running, mut rows)| async move {
        loop {
            if let Some(row) = rows.next() {
                return Ok(Some((row, (running, rows))));
            }
            match running.next().await? {
                Some(Part::Rows(Encoded::Rows(more))) => rows = more.into_iter(),
                Some(Part::Columns(_) | Part::Rows(_)) => {}
                Some(Part::Done(_)) | None => return Ok(None),
            }
        }
    })
}

/// The values that are bound to a portal's parameters.
fn values(portal: &Portal<Arc<Prepared>>) -> PgWireResult<Vec<ScalarValue>> {
    let prepared = &portal.statement.statement;
    let types: Vec<Option<&DataType>> = prepared.described.parameters.iter().map(Some).collect();
    match deserialize_parameters(portal, &types)? {
        ParamValues::List(values) => Ok(values.into_iter().map(|value| value.value).collect()),
        ParamValues::Map(_) => Err(error("08P01", "parameters without an order")),
    }
}
