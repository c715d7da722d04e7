//! SQL statements on placed tables: what lies between a shell and the engine.
//!
//! ```text
//!   script ── split ──► Piece ── recognise ──┬─ Tierloom's own: EXPLAIN PLACEMENT, SET tierloom.*, SHOW, ANALYZE, COPY
//!   (text, places kept)                      └─ DataFusion's: queries, views, CREATE TABLE AS, DROP, SET, ...
//!                                                  │
//!   Source (CSV, Parquet, Arrow IPC files) ──► placed tables ◄─┘        rows ──► Sink (terminal, BatchWriter, WholeFile)
//! ```
//! Nothing here reads a terminal or prints: rows go to a [`Sink`], progress and the wish to stop come and go through [`Watch`].
//! Errors of statements carry the line and column of the script ([`Place`]).

mod adaptive;
mod checks;
mod error;
mod export;
mod forms;
mod free_memory;
mod generate;
mod load;
mod memory;
mod nesting;
mod placement;
mod placement_plan;
mod run;
mod script;
mod session;
mod settings;
mod source;
mod statement;
mod system;
mod tables;
mod temp;
mod views;
mod whole_file;

pub use error::{Place, SqlError};
pub use export::{BatchWriter, Format, WriteOptions};
pub use generate::Generated;
pub use run::{Flow, Kept, Outcome, Silent, Sink, Timing, Unit, Watch};
pub use script::{Piece, is_whole, split};
pub use session::{Loaded, SqlOptions, SqlSession, TableInfo};
pub use source::{CsvOptions, Source};
pub use whole_file::WholeFile;
