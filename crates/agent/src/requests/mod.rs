//! Requests and answers of another program: texts that this crate does not read.
//!
//! They go over a Unix socket, which the permissions of its file protect, or over TCP with token
//! and TLS as agents have.

mod client;
mod server;
#[cfg(test)]
mod tests;

pub use client::{RequestAddress, Requester};
pub use server::{Listen, Responder, check_socket, serve_requests};

/// What addresses of Unix sockets begin with.
const UNIX: &str = "unix:";
