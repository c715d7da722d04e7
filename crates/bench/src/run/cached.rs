//! A remark on tasks whose accesses the caches can hold: their figures are not those of memory.

use tierloom_kernels::access::{Access, CacheOp, Operation};
use tierloom_record::{FITS_CACHES, Remark};
use tierloom_text::Bytes;
use tierloom_topology::Topology;

use crate::plan::{RunPlan, TaskPlan, Work};

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;

/// The remark on `task`, if the lines that it touches fit the largest caches of this machine.
///
/// Only for workloads of files: what the program itself plans may measure caches on purpose.
pub(super) fn remark(run: &RunPlan, task: &TaskPlan, topology: &Topology) -> Option<Remark> {
    if run.file.is_empty() {
        return None;
    }
    let touched_bytes = touched_bytes(task)?;
    let caches = &topology.cpus.caches;
    let level = caches.iter().map(|cache| cache.level).max()?;
    let last = caches.iter().filter(|cache| cache.level == level);
    let cache_bytes: u64 = last
        .map(|cache| cache.size_bytes * u64::from(cache.count))
        .sum();
    (touched_bytes <= cache_bytes).then(|| Remark {
        invalidates: false,
        text: format!(
            "{}: its accesses touch {}, which the L{level} cache of {} can hold: {FITS_CACHES}",
            task.name,
            Bytes(touched_bytes).rounded(),
            Bytes(cache_bytes).rounded(),
        ),
    })
}

/// Bytes of the lines that the accesses of a task touch; `None` where caches do not matter or are
/// what a chain or a chase is about.
fn touched_bytes(task: &TaskPlan) -> Option<u64> {
    let regions_bytes: u64 = task.regions.iter().map(|region| region.size_bytes).sum();
    match &task.work {
        Work::Throughput { access, .. } if !passes_caches(access) => {
            let places = regions_bytes / (access.stride_bytes as u64).max(1);
            let lines = (access.access_bytes as u64).div_ceil(LINE_BYTES);
            Some(regions_bytes.min(places * lines * LINE_BYTES))
        }
        Work::Operator { .. } => Some(regions_bytes),
        _ => None,
    }
}

/// Whether accesses leave nothing in the caches, or nothing to find there.
fn passes_caches(access: &Access) -> bool {
    let flushed = matches!(access.cache_op, CacheOp::Flush | CacheOp::FlushOpt);
    flushed || matches!(access.operation, Operation::StreamWrite | Operation::Nop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{LoadOptions, parse};

    fn touched(args: &str) -> Option<u64> {
        let text = format!("w: {{args: {{{args}}}}}");
        let read = parse(&text, "w.yaml", &LoadOptions::default()).unwrap();
        touched_bytes(&read.runs[0].tasks[0])
    }

    #[test]
    fn skipped_lines_are_not_touched_and_shared_ones_once() {
        let size = "memory_region_size: 256M";
        let read = |rest: &str| touched(&format!("operation: read, {size}, {rest}"));
        assert_eq!(read("access_size: 8, skip: 511"), Some(4 << 20));
        assert_eq!(read("access_size: 8, skip: 1"), Some(256 << 20));
        assert_eq!(read("access_size: 4K"), Some(256 << 20));
        assert_eq!(read("access_size: 128, stride: 4K"), Some(8 << 20));
        assert_eq!(read("cache_instruction: flush"), None);
        assert_eq!(touched(&format!("operation: stream-write, {size}")), None);
        assert_eq!(touched(&format!("measure: chase, {size}")), None);
        assert_eq!(
            touched("operator: radix-partition, tuples: 1M"),
            Some(16 << 20)
        );
    }
}
