//! Reads the phases of whole workloads from the records of runs.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use tierloom_model::Phase;
use tierloom_placement::mixes::{ColumnSize, Mix, column_reads};
use tierloom_record::RecordSet;

/// The phases of every query in a file of records that has captured phases, in the order of the
/// file.
///
/// Of a query that was recorded several times, the last is used.
///
/// # Errors
/// Bad input: a file that cannot be read, has no captured phases, or has impossible ones.
pub fn phases_of_records(path: &Path) -> Result<Mix, Failure> {
    let set = RecordSet::read(path)?;
    let file = path.display();
    let mut order: Vec<String> = Vec::new();
    let mut found: BTreeMap<String, Vec<Phase>> = BTreeMap::new();
    let queries = set.runs.iter().flat_map(|run| &run.queries);
    for query in queries.filter(|q| q.phases.iter().any(|p| !p.is_idle())) {
        // Checked here because the model's error would not name the file.
        for phase in &query.phases {
            phase
                .check()
                .map_err(|e| Failure::input(format!("{file}: {}: {e}", query.query)))?;
        }
        if !found.contains_key(&query.query) {
            order.push(query.query.clone());
        }
        found.insert(query.query.clone(), query.phases.clone());
    }
    if order.is_empty() {
        return Err(Failure::input(format!(
            "{file}: no query in it has captured phases; records of runs under placement dram have them"
        )));
    }
    let take = |name: String| found.remove(&name).map(|phases| (name, phases));
    Ok(order.into_iter().filter_map(take).collect())
}

/// The columns that phases read, with the sizes that the phases give.
///
/// Columns that no query reads are unknown here, so a share of all columns is a share of those that
/// are read.
pub fn columns_of_phases(mix: &Mix) -> Vec<ColumnSize> {
    let reads = column_reads(mix);
    let of = |(column, (size_bytes, _)): (String, (u64, f64))| ColumnSize { column, size_bytes };
    reads.into_iter().map(of).collect()
}
