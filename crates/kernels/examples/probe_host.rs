//! Prints what [`tierloom_kernels::host_probe`] finds: `cargo run --release -p tierloom-kernels --example probe_host`.

use std::time::Duration;

fn main() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{:#?}",
        tierloom_kernels::host_probe(threads, Duration::from_millis(150))
    );
}
