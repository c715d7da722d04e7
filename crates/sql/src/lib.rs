//! SQL statements on placed tables: the layer between a shell and the engine.
//!
//! ```text
//!   script ── split ──► Piece ── recognise ──┬─ Tierloom: EXPLAIN PLACEMENT, SET tierloom.*, SHOW,
//!   (text, positions kept)                   │            ANALYZE, COPY
//!                                            └─ DataFusion: queries, views, CREATE TABLE AS, SET,
//! ...
//!                                                 │
//!   Source (CSV, Parquet, Arrow IPC) ──► placed tables ──► rows ──► Sink (terminal, BatchWriter)
//! ```
//! Nothing here reads a terminal or prints: rows go to a [`Sink`]; progress and cancellation go
//! through [`Watch`]. Errors carry line and column of the script ([`Position`]).

mod adaptive;
mod calendar;
mod checks;
mod error;
mod export;
mod forms;
mod free_memory;
mod generate;
mod load;
mod memory;
mod nesting;
mod pauses;
mod placement;
mod placement_plan;
mod prepared;
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

pub use calendar::check_calendar;
pub use error::{Position, SqlError};
pub use export::{BatchWriter, Format, WriteOptions};
pub use generate::Generated;
pub use run::{CollectedRows, Flow, Outcome, Silent, Sink, StatementTiming, Unit, Watch};
pub use script::{Piece, is_whole, split};
pub use session::{Loaded, SqlOptions, SqlSession, TableInfo};
pub use source::{CsvOptions, Source};
pub use whole_file::WholeFile;
