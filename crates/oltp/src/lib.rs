//! Transactions on rows in placed memory: what placement means where work waits for itself.
//!
//! A [`Store`] has tables of fixed-size rows and B+-trees that find them. Its parts lie apart, each
//! with a placement of its own ([`StorePart`]): *main*, the rows as they were loaded or merged;
//! *heap*, the heads of rows and the versions that transactions write (the delta); leaves and inner
//! nodes of the indexes. Merging brings versions from the heap to main in the background.
//!
//! ```text
//!   tpcc ──┐                            ┌──> trees   leaves, inner nodes
//!   ycsb ──┴──> TxSession ──> Store ────┼──> heads, delta            heap
//!                   │                   └──> rows  <── merging       main
//!                   └──> RedoLog (group commit) ──> file ──> recovery
//!                        Checkpoints ─────────────> pool ──────┘
//! ```
//!
//! Transactions are serialisable ([`TxSession`] says how and why). There is no SQL here, and no
//! network: clients are threads, and transactions are functions.

mod capture;
mod checkpoint;
mod drive;
mod effect;
mod error;
mod head;
mod index;
mod log;
mod places;
mod recover;
mod row_bytes;
mod session;
mod store;
mod table;
pub mod tpcc;
mod traffic;
pub mod ycsb;

pub use capture::{Captured, CapturedLines};
pub use checkpoint::{Checkpoint, CheckpointTaken, Checkpoints};
pub use drive::{DriveOptions, DriveResult, KindResult, Transactions, drive};
pub use error::{Abort, OltpError};
pub use index::IndexSpec;
pub use log::{LogContents, LogUse, RedoLog, log_parts, read_log};
pub use places::{StoreMemory, StorePart};
pub use session::{TxSession, Waits};
pub use store::{Merging, Store};
pub use table::RowSpec;
pub use traffic::{IndexLines, LINE_BYTES, RowLines, StoreTraffic};

#[cfg(test)]
mod tests;
