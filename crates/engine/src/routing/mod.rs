//! Routes operator memory to the tier of its class.
//!
//! ```text
//!   physical plan         the same plan, each node wrapped
//!   HashJoinExec          [HashJoinExec]    while its stream is polled: class join
//!     scan dimension        [scan]          class other
//!     scan fact             [scan]          class other; once it returns rows, the join
//!                                           allocates its output, no longer its build side
//! ```
//! The allocator's router (`tierloom_memory::router`) assigns each large allocation to the class
//! that the thread is in. A rule that runs last wraps each operator ([`RouteOperators`]). To
//! everybody else a wrapped operator looks unchanged: same name, text, children, properties and
//! metrics. Tasks inherit the class of the operator that spawns them.

mod exec;
mod explain;
mod operator;
mod options;
mod rule;
mod stream;
mod table;
mod tracer;

pub(crate) use exec::tallies_of;
pub use explain::{explain_analyze, placement_of_execution};
pub use options::{RoutingOptions, start};
pub use rule::RouteOperators;
pub use table::{TIER_MEMORY, TierMemoryTable};
pub use tierloom_memory::router::PlaceSpec;
