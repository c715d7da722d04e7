//! Prints a machine as a tree, and records it.
//!
//! ```text
//! cargo run -p tierloom-topology --example tree [ROOT [RECORD_INTO]]
//! ```

use std::path::Path;
use std::process::ExitCode;

use tierloom_topology::{SysRoot, Topology, TopologyError, record, render};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().map_or_else(SysRoot::host, SysRoot::at);
    match show(&root, arguments.next().as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tree: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(root: &SysRoot, into: Option<&str>) -> Result<(), TopologyError> {
    print!("{}", render::tree(&Topology::read(root)?));
    if let Some(into) = into {
        let summary = record::record(root, Path::new(into), 16 << 20)?;
        eprintln!(
            "{} files, {} links, {} bytes in {into}",
            summary.files, summary.links, summary.size_bytes
        );
    }
    Ok(())
}
