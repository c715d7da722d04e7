//! `LIKE` with text between two `%`, found by a search through the rows of a batch at once.
//!
//! DataFusion compares row by row, and makes a regular expression of a pattern with several texts,
//! such as `%special%requests%`. The rows of a placed column of text follow each other in memory:
//! one search for the longest text of the pattern runs through all of them, and only the rows in
//! which it is found are looked at. A text at the begin is looked for in the views first, which
//! have four bytes of every string.

mod expr;
mod pattern;
mod prefix;
mod rule;

pub(crate) use rule::TextPatterns;
