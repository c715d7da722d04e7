//! Tests of the protocol on a simulated memory, and of the pool on real files.

mod bytes;
mod clients;
mod crashes;
mod golden;
mod histories;

mod managers;

mod pool;
mod removal;
mod removed_files;
pub(crate) mod seed;
mod shrink;
mod sim;
