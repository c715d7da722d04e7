//! Real clients of PostgreSQL against a server in this process: what they get, and what the server
//! survives.

mod faults;
mod programs;
mod psql;
mod support;
