//! Published workloads as phases, for checking the model and for showing how verdicts move.

pub mod ssb;
pub mod work;
