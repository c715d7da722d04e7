//! Subplans that occur several times in a plan run once.
//!
//! What a query names in `WITH` and uses twice, DataFusion plans twice. After all other rules,
//! aggregations and windows over the same rows are found again by comparing their operators
//! ([`same`]); all but the first become readers of its rows, which are kept until every place has
//! read them ([`exec`]). Filters on a part of the rows make subplans differ, and then each runs for
//! itself: so does a part of the rows that a runtime filter lets through.

mod exec;
mod rule;
mod same;

pub(crate) use rule::SharedSubplans;
pub(crate) use same::same;
