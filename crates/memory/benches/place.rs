//! Placing 1 GiB (reserve, prefault under a bind, fill) against a plain memcpy into freshly mapped
//! pages of the same size, in alternation in one process. Prints the rates and the median of the
//! ratios; above 1, placing is faster than the plain copy.
//!
//! `cargo bench -p tierloom-memory` runs it; `-- --quick` is a smoke run on 64 MiB.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tierloom_kernels::parallel_fill_copy;
use tierloom_memory::{
    AnonymousNuma, MIB, Mapping, MemoryBackend, MemoryError, PageSize, Placement, Region,
    RegionOptions, Run,
};
use tierloom_topology::{NodeId, SysRoot, Topology};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Bench {
    topology: Topology,
    placement: Placement,
    source: Vec<u8>,
}

impl Bench {
    /// Seconds of a plain, one-thread memcpy into a fresh anonymous mapping of base pages.
    fn plain(&self) -> Result<f64> {
        let start = Instant::now();
        let mut mapping = Mapping::anonymous(self.source.len(), PageSize::Base)
            .map_err(|errno| format!("mmap: errno {errno}"))?;
        mapping
            .as_mut_slice()
            .copy_from_slice(black_box(&self.source));
        black_box(mapping.as_slice());
        Ok(start.elapsed().as_secs_f64())
    }

    /// Seconds of placing and filling a region.
    fn placed(&self, page_size: PageSize, threads: usize) -> std::result::Result<f64, MemoryError> {
        let start = Instant::now();
        let options = RegionOptions::new("bench", self.source.len(), self.placement.clone());
        let options = RegionOptions {
            page_size,
            threads,
            ..options
        };
        let mut region = Region::create(Arc::new(AnonymousNuma::new()), &self.topology, options)?;
        parallel_fill_copy(region.as_mut_slice(), black_box(&self.source), threads);
        black_box(region.as_slice());
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Prefaults the runs of 3:2 in base pages with one thread, setting the policy for every run. All
/// runs go to one node, so this works on any machine and shows the cost of the policy calls.
fn weighted_runs(bench: &Bench, node: NodeId) -> Result<f64> {
    let backend = AnonymousNuma::new();
    let pages = (bench.source.len() / PageSize::Base.bytes()) as u64;
    let layout = Placement::weighted(vec![(node, 3), (NodeId(node.0 + 1), 2)])?;
    let start = Instant::now();
    let mapping = backend.reserve("runs", bench.source.len(), PageSize::Base)?;
    // Alternating with no node makes the thread's policy change for each run, as two nodes would.
    let mut runs = layout.runs(pages, 0).map(|run| Run {
        node: run.node.filter(|of_run| *of_run == node),
        ..run
    });
    backend.populate(&mapping, PageSize::Base, &mut runs)?;
    black_box(mapping.as_slice());
    Ok(start.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (size_bytes, rounds) = if quick {
        (64 * MIB, 3)
    } else {
        (1024 * MIB, 7)
    };
    let topology = Topology::read(&SysRoot::host())?;
    let node = *topology
        .memory_nodes()
        .first()
        .ok_or("this machine shows no node with memory")?;
    let source: Vec<u8> = (0..size_bytes).map(|index| index as u8).collect();
    let bench = Bench {
        topology,
        placement: Placement::bind(node),
        source,
    };
    println!(
        "{} MiB bound to node {node}, {rounds} alternating rounds, measured",
        size_bytes / MIB
    );
    println!(
        "{:>6} {:>8} {:>12} {:>12} {:>22}",
        "pages", "threads", "plain GB/s", "placed GB/s", "ratio min/median/max"
    );
    for page_size in [PageSize::Base, PageSize::Thp] {
        for threads in [1, 2] {
            let (mut plain, mut placed) = (Vec::new(), Vec::new());
            // Not measured: a virtual machine may get its memory from the host only on first use.
            bench.placed(page_size, threads)?;
            for _ in 0..rounds {
                plain.push(bench.plain()?);
                placed.push(bench.placed(page_size, threads)?);
            }
            let mut ratios: Vec<f64> = plain
                .iter()
                .zip(&placed)
                .map(|(plain, placed)| plain / placed)
                .collect();
            ratios.sort_by(f64::total_cmp);
            let rate = |seconds| size_bytes as f64 / median(seconds) / 1e9;
            println!(
                "{:>6} {threads:>8} {:>12.2} {:>12.2} {:>8.2} {:>6.2} {:>6.2}",
                page_size.to_string(),
                rate(plain),
                rate(placed),
                ratios[0],
                ratios[rounds / 2],
                ratios[rounds - 1],
            );
        }
    }
    let seconds = (0..rounds)
        .map(|_| weighted_runs(&bench, node))
        .collect::<Result<Vec<f64>>>()?;
    let whole = (0..rounds)
        .map(|_| prefault_only(&bench))
        .collect::<Result<Vec<f64>>>()?;
    let rate = |seconds| size_bytes as f64 / median(seconds) / 1e9;
    println!(
        "prefault only, 4k, 1 thread: {:.2} GB/s in one run, {:.2} GB/s in runs of 3 and 2 pages",
        rate(whole),
        rate(seconds)
    );
    Ok(())
}

/// Prefaults everything in one run.
fn prefault_only(bench: &Bench) -> Result<f64> {
    let start = Instant::now();
    let options = RegionOptions {
        threads: 1,
        ..RegionOptions::new("bench", bench.source.len(), bench.placement.clone())
    };
    let region = Region::create(Arc::new(AnonymousNuma::new()), &bench.topology, options)?;
    black_box(region.as_slice());
    Ok(start.elapsed().as_secs_f64())
}
