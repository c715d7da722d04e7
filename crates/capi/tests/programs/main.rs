//! Programs in other languages that use the headers and the libraries.

mod build;
mod c;
mod python;
