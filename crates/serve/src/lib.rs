//! SQL sessions over the PostgreSQL protocol and Flight SQL.
//!
//! ```text
//!  socket ─ pgwire ─► startup.rs   who may connect (access.rs), TLS (tls.rs)
//!                 ├─► simple.rs    statements of a text, one after the other
//!                 ├─► extended.rs  prepared statements, parameters, portals
//!                 └─► clients.rs   cancel requests
//!                        │ database.rs: names of three parts; floats.rs: FLOAT
//!                        │ addresses.rs: ranges of ctid
//!                        │ action.rs: BEGIN, SET, SHOW, COPY ... or a statement of the engine
//!                        │ copy_in.rs: rows from the client (arriving.rs, fields.rs,
//!                        │ binary_rows.rs)
//!                        │ catalog.rs: questions about the catalog (pg_catalog/, prepare.rs,
//!                        │ rewrite.rs, key_rows.rs, information.rs)
//!                        ▼
//!                     running.rs   a thread with the session ── bounded channel ──► rows
//!
//!  socket ─ tonic ──► flight/      Flight SQL (idle.rs: connections that send nothing end)
//!  socket ─ axum ───► http.rs      metrics (idle.rs)
//! ```
//! Sockets have a runtime of their own: a query that keeps all workers of the engine busy delays
//! neither a cancel request nor another connection.

mod access;
mod action;
mod addresses;
mod arriving;
mod binary_rows;
mod catalog;
mod clients;
mod connection;
mod copy;
mod copy_in;
mod database;
mod errors;
mod extended;
mod fields;
mod flight;
mod floats;
mod function;
mod http;
mod idle;
mod information;
mod intervals;
mod json;
mod key_rows;
mod listen;
mod messages;
mod options;
mod peer;
mod pg_catalog;
mod prepare;
mod rewrite;
mod rows;
mod running;
mod session;
mod session_functions;
mod simple;
mod startup;
mod syntax;
mod tls;
mod tokens;
mod traffic;
mod variables;

pub use access::{PASSWORD_VARIABLE, Passwords, read_token};
pub use http::MetricsOptions;
pub use listen::{Reached, serve};
pub use options::{Address, ServeOptions};
pub use tls::Certificate;

/// Why a server did not start or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// An option or a file that it names; nothing was started.
    #[error("{0}")]
    Input(String),
    /// The system refused something.
    #[error("{0}")]
    Failed(String),
}

impl ServeError {
    fn input(message: impl std::fmt::Display) -> Self {
        ServeError::Input(message.to_string())
    }

    fn failed(message: impl std::fmt::Display) -> Self {
        ServeError::Failed(message.to_string())
    }
}
