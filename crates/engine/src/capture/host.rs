//! What memory costs on the machine that runs the queries.

use super::HostCosts;
use crate::PlacedTable;
use std::sync::Arc;
use tierloom_kernels::{StreamProbe, stream_probe};

/// Columns that the probe reads: enough for a median, few enough to add no noticeable time.
const PROBED_COLUMNS: usize = 5;

/// Measures the read bandwidth over a few columns of the largest of `tables`.
pub fn probe(tables: &[Arc<PlacedTable>], threads: usize) -> StreamProbe {
    let fact = tables.iter().max_by_key(|table| table.size_bytes());
    let columns = fact.into_iter().flat_map(|table| table.columns());
    let regions = columns.flat_map(|column| column.regions());
    let parts: Vec<&[u8]> = regions.map(|r| r.as_slice()).take(PROBED_COLUMNS).collect();
    stream_probe(&parts, threads)
}

impl HostCosts {
    /// The costs of queries on `tables` with `threads` workers, by what [`probe`] found.
    pub fn of(probe: &StreamProbe, tables: &[Arc<PlacedTable>], threads: usize) -> Self {
        let mut rates = probe.read_gbps_all_threads.clone();
        rates.sort_by(f64::total_cmp);
        let median = rates.get(rates.len() / 2).copied();
        HostCosts {
            // GB/s are bytes per ns; each worker has its share of them.
            stream_ns_per_byte: median.map_or(0.0, |rate| threads as f64 / rate),
            working_set_bytes: tables.iter().map(|table| table.size_bytes()).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_streams_its_share_of_the_median_rate() {
        let probe = |rates: &[f64]| StreamProbe {
            read_gbps_one_thread: vec![9.0],
            read_gbps_all_threads: rates.to_vec(),
            footprint_bytes: 1,
        };
        let cost = |rates: &[f64]| HostCosts::of(&probe(rates), &[], 4).stream_ns_per_byte;
        assert_eq!(cost(&[16.0, 2.0, 8.0]), 0.5);
        assert_eq!(cost(&[]), 0.0, "what was not measured costs nothing");
    }
}
