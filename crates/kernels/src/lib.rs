//! Memory access loops and columnar kernels with SIMD dispatch at run time.
//!
//! [`access`] has the loops of the memory benchmarks; the other modules are building blocks of
//! query execution: hash tables, sorts, selections on code columns, copies and reads.
//! None of it knows about nodes or tiers: the kernels work on the bytes that they are given,
//! wherever these are.

pub mod access;
mod chase;
pub mod codes;
mod codes_decode;
mod codes_select;
mod codes_units;
mod copy;
pub mod hash;
mod line_store;
mod prefetch;
mod probe;
mod read;
mod rng;
mod rows;
pub mod select;
mod simd;
pub mod sort;
pub mod sums;
pub mod words;

pub use chase::{CHASE_GROUP_BYTES, ChaseRing, LINE_BYTES, MAX_CHASE_CHAINS};
pub use codes_decode::CodeValue;
pub use codes_select::{intersect, positions};
pub use codes_units::{MOST_DIGITS, count_units, decimal, range_of_units, units_of};
pub use copy::{CopyKind, copy, copy_with, parallel_fill_copy};
pub use line_store::{LINE_WORDS, LineStore, WordLine};
pub use prefetch::{prefetch_read, prefetch_write};
pub use probe::{StreamProbe, stream_probe};
pub use read::{sequential_read, sequential_read_with};
pub use rows::rows_in_range;
pub use simd::Simd;
