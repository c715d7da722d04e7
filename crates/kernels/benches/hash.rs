//! Hash tables: `cargo bench -p tierloom-kernels --bench hash`.
//!
//! Tables have 16 MiB (in the last-level cache of large machines) and 256 MiB (in none); half of
//! the keys looked up are present. For tables of 2 GiB and more on huge pages, compared with the
//! machine's random line reads, use `cargo run --release -p tierloom-memory --example hash_probe`.

use divan::Bencher;
use divan::counter::ItemsCount;
use std::sync::atomic::AtomicU32;
use tierloom_kernels::hash::{Bucket, Builder, GroupTable, JoinTable, Layout, Links};

const LOOKUPS: usize = 1 << 20;
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

fn main() {
    divan::main();
}

/// Small tables if benchmarks are only tried out.
fn keys_of(mib: usize) -> usize {
    let mib = if std::env::args().any(|argument| argument == "--test") {
        1
    } else {
        mib
    };
    (mib << 20) / Bucket::SIZE_BYTES * 3
}

fn keys(count: usize) -> Vec<u64> {
    (0..count as u64).map(|k| k.wrapping_mul(ODD)).collect()
}

/// Random keys, every other one absent.
fn probes(present: usize) -> Vec<u64> {
    let mut state = 1_u64;
    (0..LOOKUPS)
        .map(|_| {
            state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(ODD);
            ((state >> 20) % (2 * present as u64)).wrapping_mul(ODD)
        })
        .collect()
}

fn built(keys: &[u64], buckets: &mut [Bucket], layout: Layout) {
    let links: Vec<AtomicU32> = Vec::new();
    let builders = Builder::split(layout, 1, buckets, Links::new(&links));
    for mut builder in builders {
        assert!(builder.insert_range(keys, 0).is_ok());
    }
}

fn find(bencher: Bencher, mib: usize, look: impl Fn(&JoinTable<'_>, &[u64], &mut [u32]) + Sync) {
    let keys = keys(keys_of(mib));
    let layout = Layout::for_keys(keys.len());
    let mut buckets = vec![Bucket::EMPTY; layout.buckets()];
    built(&keys, &mut buckets, layout);
    let table = JoinTable::new(layout, &buckets);
    let probes = probes(keys.len());
    let mut values = vec![0; 16 << 10];
    bencher.counter(ItemsCount::new(LOOKUPS)).bench_local(|| {
        for batch in probes.chunks(values.len()) {
            look(&table, batch, &mut values);
        }
        divan::black_box(values[0])
    });
}

#[divan::bench(args = [16, 256], sample_count = 15)]
fn find_batched(bencher: Bencher, mib: usize) {
    find(bencher, mib, |table, keys, values| table.find(keys, values));
}

#[divan::bench(args = [16, 256], sample_count = 15)]
fn find_one_by_one(bencher: Bencher, mib: usize) {
    find(bencher, mib, |table, keys, values| {
        table.find_one_by_one(keys, values);
    });
}

#[divan::bench(args = [16, 256], sample_count = 5)]
fn build(bencher: Bencher, mib: usize) {
    let keys = keys(keys_of(mib));
    let layout = Layout::for_keys(keys.len());
    let mut buckets = vec![Bucket::EMPTY; layout.buckets()];
    bencher
        .counter(ItemsCount::new(keys.len()))
        .bench_local(|| {
            buckets.fill(Bucket::EMPTY);
            built(&keys, &mut buckets, layout);
        });
}

#[divan::bench(args = [16, 256], sample_count = 5)]
fn group(bencher: Bencher, mib: usize) {
    let groups = keys_of(mib);
    let layout = Layout::for_keys(groups);
    let probes: Vec<u64> = probes(groups / 2);
    bencher
        .counter(ItemsCount::new(LOOKUPS))
        .with_inputs(|| GroupTable::new(layout, vec![Bucket::EMPTY; layout.buckets()]))
        .bench_local_values(|mut table| {
            let (mut ids, mut seen) = (vec![0; LOOKUPS], Vec::new());
            table.assign(&probes, &mut ids, &mut seen)
        });
}
