//! One file or folder per subcommand: its arguments (`args`) and its implementation.

pub mod agents;
pub mod bench;
pub mod calibrate;
pub mod characterize;
pub mod cluster;
pub mod cost;
pub mod doctor;
pub mod generate;
pub mod lab;
pub mod machines;
pub mod manual;
pub mod pool;
pub mod predict;
pub mod report;
pub mod run;
pub mod serve;
// A build without the SQL engine has this command only to say so.
#[cfg_attr(not(feature = "sql"), path = "sql/no_engine.rs")]
pub mod sql;
pub mod top;
pub mod topology;
pub mod tune;
pub mod validate;
