//! One file or folder per subcommand: its arguments (`args`) and its implementation.

pub mod bench;
pub mod calibrate;
pub mod characterize;
pub mod cost;
pub mod doctor;
pub mod generate;
pub mod lab;
pub mod machines;
pub mod predict;
pub mod report;
pub mod run;
pub mod sql;
pub mod topology;
pub mod tune;
pub mod validate;
