//! The commands of `tierloom`, for its program and for the package of Python.
//!
//! Only what the two use is public; other programs use the libraries below.

// Where a name says everything, a doc comment would repeat it.
#![allow(missing_docs)]
// Who reads this documentation changes the commands, so links lead to their private parts too.
#![allow(rustdoc::private_intra_doc_links)]

/// Prints a line to stderr. One that cannot be written must not end the program with a panic: the
/// exit code says what happened.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub mod commands;
pub mod documents;
pub mod failure;
mod invocation;
mod output;
pub mod stop;
