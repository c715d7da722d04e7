//! What a session remembers between requests: statements with a ticket, and prepared ones.

use super::super::action::Action;
use super::super::clients::{Statement, Why, lock};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use tierloom_sql::Piece;
use tonic::Status;

/// Statements with a ticket that a session remembers; the oldest is forgotten first.
const MOST_TICKETS: usize = 1_000;
const MOST_TICKET_BYTES: usize = 16 << 20;

/// Prepared statements of one session.
const MOST_PREPARED: usize = 1_000;

/// A statement with a ticket.
#[derive(Clone)]
pub(super) enum Ticketed {
    /// Runs when its rows are asked for.
    Query {
        piece: Piece,
        /// Values for its parameters; it runs once for each row of them.
        rows: Vec<Vec<ScalarValue>>,
        /// The columns that were announced.
        columns: SchemaRef,
    },
    /// Has run; these are its rows.
    Rows(RecordBatch),
    /// Has run, and has no rows.
    Done,
}

impl Ticketed {
    fn bytes(&self) -> usize {
        match self {
            Ticketed::Query { piece, rows, .. } => {
                let values = rows.iter().flatten().map(ScalarValue::size);
                piece.text.len() + values.sum::<usize>()
            }
            Ticketed::Rows(_) | Ticketed::Done => 0,
        }
    }
}

/// A prepared statement.
#[derive(Clone)]
pub(super) struct Prepared {
    pub text: String,
    pub piece: Piece,
    pub action: Action,
    pub parameters: Vec<DataType>,
    /// The columns that were announced; `None` if it has no rows.
    pub columns: Option<SchemaRef>,
    /// Rows of values that are bound to its parameters.
    pub bound: Vec<Vec<ScalarValue>>,
}

#[derive(Default)]
struct Kept {
    tickets: BTreeMap<u64, Ticketed>,
    /// Numbers of tickets in the order in which they were given.
    order: Vec<u64>,
    prepared: BTreeMap<u64, Prepared>,
    running: Vec<(u64, Weak<Statement>)>,
}

/// The statements of a session.
#[derive(Default)]
pub(super) struct Store(Mutex<Kept>);

impl Store {
    /// Keeps a statement; its number, which a ticket carries.
    pub fn add(&self, statement: Ticketed) -> Result<u64, Status> {
        let number = number()?;
        let mut kept = lock(&self.0);
        kept.tickets.insert(number, statement);
        kept.order.push(number);
        let mut bytes: usize = kept.tickets.values().map(Ticketed::bytes).sum();
        while kept.order.len() > MOST_TICKETS || (bytes > MOST_TICKET_BYTES && kept.order.len() > 1)
        {
            let oldest = kept.order.remove(0);
            if let Some(forgotten) = kept.tickets.remove(&oldest) {
                bytes -= forgotten.bytes();
            }
        }
        Ok(number)
    }

    /// The statement of a ticket.
    pub fn ticketed(&self, handle: &[u8]) -> Result<(u64, Ticketed), Status> {
        let number = read(handle)?;
        let found = lock(&self.0).tickets.get(&number).cloned();
        found.map(|found| (number, found)).ok_or_else(unknown)
    }

    /// Remembers that the statement of a ticket runs.
    pub fn runs(&self, number: u64, statement: &Arc<Statement>) {
        let mut kept = lock(&self.0);
        kept.running.retain(|(_, s)| s.strong_count() > 0);
        kept.running.push((number, Arc::downgrade(statement)));
    }

    /// Stops what runs for a ticket, which then is not taken any more.
    ///
    /// # Errors
    /// A ticket that is not of this session, or was stopped before.
    pub fn cancel(&self, handle: &[u8]) -> Result<(), Status> {
        let number = read(handle)?;
        let mut kept = lock(&self.0);
        let known = kept.tickets.remove(&number).is_some();
        kept.order.retain(|other| *other != number);
        // Forgotten at once, though they take a moment to end: a second request finds nothing.
        let of_it = kept.running.extract_if(.., |(of, _)| *of == number);
        let running: Vec<_> = of_it.filter_map(|(_, s)| s.upgrade()).collect();
        for statement in &running {
            statement.end(Why::Asked);
        }
        match known || !running.is_empty() {
            true => Ok(()),
            false => Err(unknown()),
        }
    }

    /// Keeps a prepared statement; its number.
    ///
    /// # Errors
    /// There are too many.
    pub fn prepare(&self, prepared: Prepared) -> Result<u64, Status> {
        let number = number()?;
        let mut kept = lock(&self.0);
        if kept.prepared.len() >= MOST_PREPARED {
            return Err(Status::resource_exhausted(format!(
                "the session has {MOST_PREPARED} prepared statements; close some"
            )));
        }
        kept.prepared.insert(number, prepared);
        Ok(number)
    }

    pub fn prepared(&self, handle: &[u8]) -> Result<Prepared, Status> {
        let number = read(handle)?;
        let found = lock(&self.0).prepared.get(&number).cloned();
        found.ok_or_else(unknown)
    }

    /// Binds rows of values to the parameters of a prepared statement.
    pub fn bind(&self, handle: &[u8], rows: Vec<Vec<ScalarValue>>) -> Result<(), Status> {
        let number = read(handle)?;
        let mut kept = lock(&self.0);
        let prepared = kept.prepared.get_mut(&number).ok_or_else(unknown)?;
        prepared.bound = rows;
        Ok(())
    }

    pub fn close(&self, handle: &[u8]) -> Result<(), Status> {
        let number = read(handle)?;
        let closed = lock(&self.0).prepared.remove(&number);
        closed.map(drop).ok_or_else(unknown)
    }
}

/// A number that nobody guesses.
fn number() -> Result<u64, Status> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(super::status::internal)?;
    Ok(u64::from_be_bytes(bytes))
}

fn read(handle: &[u8]) -> Result<u64, Status> {
    let bytes = handle.try_into().map_err(|_| unknown())?;
    Ok(u64::from_be_bytes(bytes))
}

fn unknown() -> Status {
    Status::not_found(
        "the session has no statement of this handle; it was closed or is of another session",
    )
}
