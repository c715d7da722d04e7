//! Parts of timestamps by arithmetic on their ticks.
//!
//! DataFusion 55 makes a calendar date of every timestamp to read its hour, its day of the week or
//! its month: a group-by of hours spent three quarters of its time on that. Here `date_part`,
//! `date_trunc`, casts to dates and sums with constant intervals are arithmetic on the ticks, for
//! timestamps without a time zone in the years that all units share. What is beyond, and every
//! other part or type, is left to the functions that these take the place of.

mod civil;
mod constant;
mod functions;
mod rule;
mod ticks;

pub(crate) use constant::{constant_seconds, part_of};
pub use functions::calendar_functions;
pub(crate) use rule::CalendarFunctions;
pub(crate) use ticks::ticks_of;
