//! Tables in a pool: written from placed columns once, and read in place from then on.
//!
//! ```text
//!   PlacedTable ── write ──► Draft: buffers and codes, one after the other   (crate pool)
//!                            content: where each column lies, its encoding   (JSON)
//!                            attachment: types, bounds, values of codes      (Arrow IPC)
//!   PlacedTable ◄─ attach ── Attached: regions over the mapped extents
//! ```
//! Nothing is copied, converted or read when a table is attached, except its content and
//! attachment. A column is checked against the table's checksums where its bytes are first used
//! (`guard`). Arrays whose validity Arrow has to check (strings, nested types) are made at that
//! moment, from bytes that were verified before.

mod attach;
mod content;
mod guard;
mod stored;
mod sweep;
mod write;

pub use attach::{PooledTable, Verification, attach};
pub use content::COLUMN_FORMAT;
pub(crate) use guard::{Guard, Guarded};
pub use guard::{PooledState, VerifiedBytes};
pub use sweep::Sweep;
pub use write::write;
