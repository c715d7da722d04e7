//! SQL statements on placed tables: the layer between a shell and the engine.
//!
//! ```text
//!   script ── split ──► Piece ── recognise ──┬─ Tierloom: EXPLAIN PLACEMENT, SET tierloom.*, SHOW,
//!   (text, positions kept)                   │            ANALYZE, COPY
//!                                            ├─ change: INSERT, UPDATE, DELETE, ALTER, TRUNCATE
//!                                            └─ DataFusion: queries, views, CREATE TABLE AS, SET,
//! ...
//!                                                 │
//!   Source (CSV, Parquet, Arrow IPC) ──► placed tables ──► rows ──► Sink (terminal, BatchWriter)
//! ```
//! Tables may also be elsewhere: then queries on them become one operator, which others do
//! ([`Elsewhere`]).
//!
//! Nothing here reads a terminal or prints: rows go to a [`Sink`]; progress and cancellation go
//! through [`Watch`]. Errors carry line and column of the script ([`Position`]).

mod adaptive;
mod admission;
mod calendar;
mod catalog;
mod change;
mod checks;
mod copy;
mod counts;
mod declarations;
mod described;
mod elsewhere;
mod error;
mod execute;
mod export;
mod format;
mod forms;
mod generate;
mod ingest;
mod load;
mod memory;
mod nesting;
mod opaque;
mod parameters;
mod pauses;
mod placement;
mod placement_plan;
mod planner;
mod pool;
mod prepared;
mod queries_only;
mod replay;
mod run;
mod script;
mod session;
mod sessions;
mod set;
mod settings;
mod shared;
mod snapshot;
mod source;
mod staged;
mod statement;
mod storage;
mod swapping;
mod system;
mod tables;
mod temporary;
mod views;
mod whole_file;
mod work;

pub use admission::AdmissionOptions;
pub use calendar::check_calendar;
pub use catalog::TableInfo;
pub use declarations::{Declaration, Declarations, DeclaredCheck, DeclaredKey};
pub use described::Described;
pub use elsewhere::{Elsewhere, TableSize};
pub use error::{Position, SqlError};
pub use export::BatchWriter;
pub use format::{Format, WriteOptions};
pub use generate::Generated;
pub use ingest::{Destination, IfThere};
pub use opaque::Opaque;
pub use parameters::{WithValues, numbered};
pub use pauses::{in_pieces, is_in_pieces, with_pauses};
pub use pool::{Origin, PoolTable};
pub use run::{CollectedRows, Flow, NoRows, Outcome, Silent, Sink, StatementTiming, Unit, Watch};
pub use script::{Piece, is_whole, split};
pub use session::{Loaded, SqlOptions, SqlSession};
pub use sessions::SharedEngine;
pub use source::{CsvOptions, Source, in_views, with_views};
pub use staged::{Staged, staged};
pub use statement::is_word;
pub use whole_file::WholeFile;
