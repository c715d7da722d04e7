//! Writes sample reports of made-up numbers for people to look at: `cargo run -p tierloom-report
//! --example sample_report -- FOLDER`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::error::Error;
use std::path::PathBuf;
use support::benches::{BenchSample, bench_sample};
use support::decisions::decisions_sample;
use support::{Sample, sample};
use tierloom_record::atomic_write;
use tierloom_report::{ReportOptions, compare, render, render_comparison};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(
        std::env::args()
            .nth(1)
            .ok_or("usage: sample_report FOLDER")?,
    );
    std::fs::create_dir_all(&folder)?;
    let options = ReportOptions::default();
    let before = sample();
    let after = Sample {
        seed: 2,
        factor: 0.97,
        ..Sample::default()
    }
    .set();
    let mut killed = Sample {
        here: &["dram"],
        ..Sample::default()
    }
    .set();
    killed.runs[0].summary = None;
    let benches = bench_sample();
    let faster = BenchSample {
        seed: 2,
        speed: 1.08,
    }
    .set();
    let pages = [
        ("report.html", render(&before, &options)?),
        ("killed.html", render(&killed, &options)?),
        ("bench.html", render(&benches, &options)?),
        ("decisions.html", render(&decisions_sample(), &options)?),
        (
            "bench-comparison.html",
            render_comparison(&compare(&benches, &faster), &benches, &faster, &options)?,
        ),
        (
            "comparison.html",
            render_comparison(&compare(&before, &after), &before, &after, &options)?,
        ),
    ];
    for (name, page) in pages {
        atomic_write(&folder.join(name), page.as_bytes())?;
        println!("{}", folder.join(name).display());
    }
    Ok(())
}
