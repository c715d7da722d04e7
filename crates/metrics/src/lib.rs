//! The state of a running server: as JSON, for Prometheus and Grafana, as a page, and for a
//! terminal.
//!
//! ```text
//!  sql, serve ──► Snapshot ─┬─► exposition.rs   /metrics, read by Prometheus
//!                           ├─► JSON            /api/snapshot, read by the page and `tierloom top`
//!                           └─► screen.rs       what `tierloom top` shows
//!  counted.rs   statements, counted where they end
//!  dashboard.rs Grafana's dashboard and Prometheus' alerts, made from one table
//! ```
//! A snapshot is made when somebody asks for it. Nothing is sampled in the background, so a server
//! that nobody watches has no cost but that of the counts of statements.

mod counted;
mod dashboard;
mod exposition;
mod screen;
mod snapshot;

pub use counted::{Counted, Ended, Kind};
pub use dashboard::{alerts, dashboard};
pub use exposition::{CONTENT_TYPE, FAMILIES, Family, exposition};
pub use screen::screen;
pub use snapshot::{
    ClassUse, CountedSum, Decision, NodePart, NodeUse, SessionUse, Snapshot, StatementCount,
    TableUse, TrafficUse,
};

/// The page that shows snapshots as they change, for browsers; it loads nothing from elsewhere.
pub const PAGE: &str = include_str!("page.html");
