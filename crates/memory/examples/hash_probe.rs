//! Lookups per second in a hash table larger than any cache, against what the machine's memory
//! allows.
//!
//! ```text
//! cargo run --release -p tierloom-memory --example hash_probe -- [MiB of table] [threads]
//! ``` The defaults are 2048 MiB and all CPUs. The table and the lines to read are in regions of
//! transparent huge pages, the keys in ordinary memory. Each round measures independent random
//! reads of 64-byte lines over the table's own bytes, a plain loop over keys on the same table, the
//! same with all keys absent, and the batched lookups. Half of the keys of the mixed runs are
//! absent. The results are medians of five alternating rounds.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use tierloom_kernels::access::{Access, Kernel, Operation, Places, SharedBytes};
use tierloom_kernels::hash::{Bucket, Builder, JoinTable, Layout, Links};
use tierloom_memory::{AnonymousNuma, PageSize, Placement, Region, RegionOptions};
use tierloom_topology::{SysRoot, Topology};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Lookups per thread and round.
const LOOKUPS: usize = 8 << 20;
const ROUNDS: usize = 5;
/// Multiples of an odd number: distinct keys, far apart and in no order.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let size_mib: usize = arguments.next().map_or(Ok(2048), |a| a.parse())?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads: usize = arguments.next().map_or(Ok(cpus), |a| a.parse())?;
    let keys = (size_mib << 20) / Bucket::SIZE_BYTES * 3;
    let layout = Layout::for_keys(keys);
    let topology = Topology::read(&SysRoot::host())?;
    let mut options = RegionOptions::new(
        "table",
        PageSize::Thp.round_up(layout.size_bytes()),
        Placement::kernel_default(),
    );
    options.page_size = PageSize::Thp;
    let mut region = Region::create(Arc::new(AnonymousNuma::new()), &topology, options)?;
    let mut report = Report::default();
    let start = Instant::now();
    build(&mut region, layout, keys, threads)?;
    println!(
        "table {:.2} GiB, {keys} keys, {threads} threads, built at {:.1} M keys/s",
        layout.size_bytes() as f64 / f64::from(1 << 30),
        keys as f64 / start.elapsed().as_secs_f64() / 1e6
    );
    for _ in 0..ROUNDS {
        report.add("random 64-byte lines", lines(&mut region, threads)?);
        let buckets = &Bucket::slice(region.as_slice())[..layout.buckets()];
        let table = JoinTable::new(layout, buckets);
        for (present_percent, what) in [(100, "all present"), (50, "half present"), (0, "absent")] {
            let probes: Vec<Vec<u64>> = (0..threads)
                .map(|thread| probe_keys(keys as u64, present_percent, thread as u64))
                .collect();
            report.add(
                &format!("plain loop, {what}"),
                lookups(&probes, |k, v| table.find_one_by_one(k, v)),
            );
            report.add(
                &format!("batched, {what}"),
                lookups(&probes, |k, v| table.find(k, v)),
            );
        }
    }
    report.print();
    Ok(())
}

fn build(region: &mut Region, layout: Layout, keys: usize, threads: usize) -> Result<(), Failure> {
    let links: Vec<AtomicU32> = Vec::new();
    let buckets = &mut Bucket::slice_mut(region.as_mut_slice())[..layout.buckets()];
    let builders = Builder::split(layout, threads, buckets, Links::new(&links));
    std::thread::scope(|scope| {
        let running: Vec<_> = builders
            .into_iter()
            .map(|mut builder| {
                scope.spawn(move || {
                    let mut batch = Vec::with_capacity(16 << 10);
                    for start in (0..keys).step_by(16 << 10) {
                        let end = keys.min(start + (16 << 10));
                        batch.clear();
                        batch.extend((start..end).map(|k| (k as u64).wrapping_mul(SPREAD)));
                        builder.insert_range(&batch, start as u32)?;
                    }
                    Ok::<(), tierloom_kernels::hash::SegmentFull>(())
                })
            })
            .collect();
        for thread in running {
            thread.join().map_err(|_| "a builder panicked")??;
        }
        Ok(())
    })
}

/// Random keys, this share of them present.
fn probe_keys(keys: u64, present_percent: u64, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(SPREAD) ^ 0x1234_5678;
    (0..LOOKUPS)
        .map(|_| {
            state = state
                .wrapping_mul(0xd134_2543_de82_ef95)
                .wrapping_add(0x9e37_79b9);
            let random = state >> 24;
            let absent = u64::from((random >> 20) % 100 >= present_percent);
            ((random % keys) + absent * keys).wrapping_mul(SPREAD)
        })
        .collect()
}

/// Lookups per second of all threads, each with its own keys.
fn lookups(probes: &[Vec<u64>], find: impl Fn(&[u64], &mut [u32]) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for keys in probes {
            let find = &find;
            scope.spawn(move || {
                let mut values = vec![0; 16 << 10];
                for batch in keys.chunks(values.len()) {
                    find(batch, &mut values);
                    std::hint::black_box(&values);
                }
            });
        }
    });
    (probes.len() * LOOKUPS) as f64 / start.elapsed().as_secs_f64()
}

/// Independent random line reads per second over the region, with the widest loads available.
fn lines(region: &mut Region, threads: usize) -> Result<f64, Failure> {
    let access = Access::random(Operation::Read);
    let kernel = Kernel::new(access)?;
    let memory = SharedBytes::new(region.as_mut_slice());
    let len = memory.len();
    let batch = (LOOKUPS * access.access_bytes).min(len);
    let start = Instant::now();
    let accesses: u64 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads as u64)
            .map(|worker| {
                let kernel = &kernel;
                scope.spawn(move || {
                    let mut places = Places::new(&access, len, 1, worker);
                    kernel.run(memory, 0..batch, &mut places).operations
                })
            })
            .collect();
        running.into_iter().filter_map(|t| t.join().ok()).sum()
    });
    Ok(accesses as f64 / start.elapsed().as_secs_f64())
}

/// Rates by name, in the order of their first round.
#[derive(Default)]
struct Report(Vec<(String, Vec<f64>)>);

impl Report {
    fn add(&mut self, name: &str, rate: f64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, rates)) => rates.push(rate),
            None => self.0.push((name.to_owned(), vec![rate])),
        }
    }

    fn print(&mut self) {
        let mut lines = None;
        let mut plain = f64::NAN;
        for (name, rates) in &mut self.0 {
            rates.sort_by(f64::total_cmp);
            let median = rates[rates.len() / 2];
            let lines = *lines.get_or_insert(median);
            print!(
                "{name:28} {:7.1} M/s ({:.1}-{:.1}), {:5.1}% of the lines",
                median / 1e6,
                rates[0] / 1e6,
                rates[rates.len() - 1] / 1e6,
                100.0 * median / lines
            );
            if name.starts_with("plain") {
                plain = median;
            } else if name.starts_with("batched") {
                print!(", {:.2} x the plain loop", median / plain);
            }
            println!();
        }
    }
}
