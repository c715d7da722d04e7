//! The C libraries of tierloom: `tierloom_model.h` predicts and tunes, `tierloom_region.h` places
//! memory. Both headers are generated from this crate and kept in `include/`.
//!
//! ```text
//!   C program ── tl_* ── border: catches panics, keeps the message ── predict, tune, memory
//! ```
//!
//! Rules that every function keeps:
//!
//! * A panic ends at the border and becomes `TL_PANIC`.
//! * Pointers are checked for null and alignment, texts for their size and UTF-8, structs for their
//!   field `size`. What cannot be checked (that a pointer points to what it should) is in the
//!   section "Safety" of each function.
//! * Handles are made by one function and freed by the one that is named `_free`, once.
//! * Nothing that is missing is reported as 0: it is a status, and `tl_last_error` says what to do.
//!
//! Names are those of C, in the header as in here.

// The names of types and constants are those that C programs see.
#![allow(non_camel_case_types)]

mod allocator;
mod audit;
mod border;
mod host;
mod machine;
mod predict;
mod region;
mod sized;
mod slice;
mod status;
mod string;
mod text;

pub use allocator::*;
pub use audit::*;
pub use machine::*;
pub use predict::*;
pub use region::*;
pub use slice::*;
pub use status::*;
pub use string::*;
pub use text::*;

/// Programs share handles between threads, which the compiler does not see.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<tl_machine>();
    shared::<tl_text>();
    shared::<tl_region>();
    shared::<tl_audit>();
    shared::<tl_allocator>();
};
