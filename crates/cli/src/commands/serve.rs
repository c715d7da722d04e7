//! `tierloom serve`: tables for clients of PostgreSQL and Flight SQL.

#[allow(dead_code, reason = "a build without the server only reads them")]
mod args;
// A build without the server has this command only to say so.
#[cfg_attr(not(feature = "serve"), path = "serve/no_server.rs")]
mod server;

pub use args::Args;
pub use server::run;
