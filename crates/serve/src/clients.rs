//! Everybody who is connected: cancel requests find their statement here, and the system table
//! `tierloom_sessions` lists them.

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::common::Result;
use pgwire::api::cancel::CancelHandler;
use pgwire::messages::cancel::CancelRequest;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq;
use tierloom_engine::SystemRows;
use tierloom_sql::Watch;

/// Why a statement is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Why {
    /// Its client asked for it, or is gone.
    Asked = 1,
    /// It took longer than `statement_timeout`.
    TooLong,
    /// The server ends.
    Ending,
}

/// A statement that runs.
pub(crate) struct Statement {
    pub text: String,
    pub since: SystemTime,
    stop: AtomicBool,
    why: AtomicU8,
    deadline: Option<Instant>,
}

impl Statement {
    pub fn new(text: &str, deadline: Option<Instant>) -> Arc<Self> {
        Arc::new(Statement {
            text: text.to_owned(),
            since: SystemTime::now(),
            stop: AtomicBool::new(false),
            why: AtomicU8::new(0),
            deadline,
        })
    }

    pub fn end(&self, why: Why) {
        // The first reason counts.
        let _ = self
            .why
            .compare_exchange(0, why as u8, Ordering::SeqCst, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
    }

    pub fn why(&self) -> Why {
        match self.why.load(Ordering::SeqCst) {
            why if why == Why::TooLong as u8 => Why::TooLong,
            why if why == Why::Ending as u8 => Why::Ending,
            _ => Why::Asked,
        }
    }
}

impl Watch for Statement {
    fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    fn stopped(&self) -> bool {
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            self.end(Why::TooLong);
        }
        self.stop.load(Ordering::Relaxed)
    }
}

/// A connected client.
pub(crate) struct Client {
    pub pid: i32,
    key: Vec<u8>,
    pub user: String,
    pub address: String,
    pub since: SystemTime,
    pub application: Mutex<String>,
    /// Statements that run, in the order in which they began; some have ended.
    running: Mutex<Vec<Weak<Statement>>>,
}

impl Client {
    pub fn new(pid: i32, key: &[u8], user: &str, address: String, application: String) -> Self {
        Client {
            pid,
            key: key.to_vec(),
            user: user.to_owned(),
            address,
            since: SystemTime::now(),
            application: Mutex::new(application),
            running: Mutex::default(),
        }
    }

    pub fn runs(&self, statement: &Arc<Statement>) {
        let mut running = lock(&self.running);
        running.retain(|statement| statement.strong_count() > 0);
        running.push(Arc::downgrade(statement));
    }

    /// The statement that began last, if it runs.
    pub fn statement(&self) -> Option<Arc<Statement>> {
        lock(&self.running).iter().rev().find_map(Weak::upgrade)
    }

    /// Whether a statement runs.
    pub fn is_active(&self) -> bool {
        self.statement().is_some()
    }

    /// Stops all statements.
    fn end_all(&self, why: Why) {
        for statement in lock(&self.running).iter().filter_map(Weak::upgrade) {
            statement.end(why);
        }
    }

    /// What it calls itself.
    pub fn application(&self) -> String {
        lock(&self.application).clone()
    }
}

/// All clients by number.
#[derive(Default, Clone)]
pub(crate) struct Clients(Arc<Mutex<BTreeMap<i32, Arc<Client>>>>);

/// A place among the clients; free again when dropped.
pub(crate) struct Place {
    clients: Clients,
    pub client: Arc<Client>,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.clients.0).remove(&self.client.pid);
        self.client.end_all(Why::Asked);
    }
}

impl Clients {
    /// Adds a client; `None` if there are `most` already.
    pub fn add(&self, client: Client, most: usize) -> Option<Place> {
        let mut all = lock(&self.0);
        if all.len() >= most {
            return None;
        }
        let client = Arc::new(client);
        all.insert(client.pid, Arc::clone(&client));
        Some(Place {
            clients: self.clone(),
            client,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// All of them by number, each with its running statement.
    pub fn all(&self) -> Vec<(Arc<Client>, Option<Arc<Statement>>)> {
        let all: Vec<Arc<Client>> = lock(&self.0).values().cloned().collect();
        let with_statement = all.into_iter().map(|client| {
            let statement = client.statement();
            (client, statement)
        });
        with_statement.collect()
    }

    /// Stops all statements.
    pub fn end_all(&self) {
        for client in lock(&self.0).values() {
            client.end_all(Why::Ending);
        }
    }

    fn schema() -> SchemaRef {
        let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        Arc::new(Schema::new(vec![
            Field::new("pid", DataType::Int32, false),
            text("user_name", false),
            text("application_name", false),
            text("client_address", false),
            Field::new("connected_at", time.clone(), false),
            text("state", false),
            text("statement", true),
            Field::new("statement_started_at", time, true),
        ]))
    }
}

#[async_trait]
impl CancelHandler for Clients {
    async fn on_cancel_request(&self, request: CancelRequest) {
        let client = lock(&self.0).get(&request.pid).cloned();
        let Some(client) = client else { return };
        // In constant time: the key is what keeps others from cancelling.
        if bool::from(client.key.ct_eq(&request.secret_key.to_bytes()))
            && let Some(statement) = client.statement()
        {
            statement.end(Why::Asked);
        }
    }
}

impl SystemRows for Clients {
    fn schema(&self) -> SchemaRef {
        Clients::schema()
    }

    fn rows(&self) -> Result<RecordBatch> {
        let (all, running): (Vec<Arc<Client>>, Vec<_>) = self.all().into_iter().unzip();
        let text = |of: &dyn Fn(&Client) -> String| -> ArrayRef {
            Arc::new(all.iter().map(|c| Some(of(c))).collect::<StringArray>())
        };
        let states = running.iter().map(|running| match running {
            Some(_) => Some("active"),
            None => Some("idle"),
        });
        let texts = running.iter().map(|s| s.as_ref().map(|s| s.text.as_str()));
        let since = all.iter().map(|c| Some(micros(c.since)));
        let started = running.iter().map(|s| s.as_ref().map(|s| micros(s.since)));
        let times = |times: Vec<Option<i64>>| -> ArrayRef {
            Arc::new(TimestampMicrosecondArray::from(times).with_timezone("+00:00"))
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(all.iter().map(|c| Some(c.pid)).collect::<Int32Array>()),
            text(&|c| c.user.clone()),
            text(&Client::application),
            text(&|c| c.address.clone()),
            times(since.collect()),
            Arc::new(states.collect::<StringArray>()),
            Arc::new(texts.collect::<StringArray>()),
            times(started.collect()),
        ];
        Ok(RecordBatch::try_new(Clients::schema(), columns)?)
    }
}

/// Microseconds since 1970, as the engine's timestamps count.
pub(crate) fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a single assignment, insertion or removal.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
