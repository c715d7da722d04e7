//! Published workloads as phases, to check the model and to show how conclusions change with the
//! machine.

pub mod mixes;
pub mod ssb;
pub mod work;
