//! Text output for users: the topology as a tree, and a diagnosis as a table.

mod doctor;
mod lines;
mod sections;

use crate::Topology;
use lines::Branch;

pub use doctor::doctor_table;

/// The topology as a tree of text lines.
///
/// It has CPUs, tiers with their nodes, CXL devices, huge pages, kernel settings, limits and notes.
///
/// The text depends only on `topology` and ends with a line feed.
pub fn tree(topology: &Topology) -> String {
    let mut top = Branch::new(sections::title(topology));
    top.push(sections::cpus(topology));
    top.extend(sections::tiers(topology));
    top.extend(sections::cxl(topology));
    top.push(sections::huge_pages(topology));
    top.push(sections::weighted_interleave(topology));
    top.push(sections::numa_balancing(topology));
    top.push(sections::limits(topology));
    top.extend(sections::notes(topology));
    top.to_text()
}
