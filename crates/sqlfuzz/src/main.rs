//! `tierloom-sqlfuzz`: random SQL on random data, Tierloom against plain DataFusion and DuckDB.
//!
//! Exit codes: 0 nothing found, 1 something found, 2 bad input.

use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tierloom_memory::router::TierAllocator;
use tierloom_sqlfuzz::case::Case;
use tierloom_sqlfuzz::engines::Duck;
use tierloom_sqlfuzz::fuzz::Fuzzer;
use tierloom_sqlfuzz::memory::{self, Growth, MOST_GROWTH_MIB};
use tierloom_sqlfuzz::{FuzzError, panics};

/// Same as in `tierloom` itself: operator memory is routed below mimalloc.
#[global_allocator]
static ALLOCATOR: TierAllocator<mimalloc::MiMalloc> = TierAllocator::new(mimalloc::MiMalloc);

/// Runs random SQL on random data in Tierloom, plain DataFusion and DuckDB, and compares the rows.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Args {
    /// Stop after this many seconds; 60 if neither hours nor cases are given.
    #[arg(long, conflicts_with = "hours")]
    seconds: Option<u64>,
    /// Stop after this many hours.
    #[arg(long)]
    hours: Option<f64>,
    /// Seed of all random choices; if it is not given, a random one is used and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after this many cases of about 40 statements each.
    #[arg(long)]
    cases: Option<u64>,
    /// Number of the first case.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run one case file instead.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Stop after this many failures.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Count cases in which only DuckDB differs as failures too.
    #[arg(long)]
    strict: bool,
    /// Python interpreter with the module duckdb; "none" runs without DuckDB.
    #[arg(long, default_value = "target/sqlfuzz-venv/bin/python")]
    python: PathBuf,
    /// Folder for the files of failing cases.
    #[arg(long, default_value = "target/sqlfuzz")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    panics::watch();
    let done = match &args.replay {
        Some(file) => replay(file),
        None => fuzz(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn replay(file: &Path) -> Result<bool, FuzzError> {
    let failure = Case::read(file)?.replay()?;
    match &failure {
        None => println!("{}: as expected", file.display()),
        Some(failure) => println!(
            "{}: {:?}: {}",
            file.display(),
            failure.kind,
            failure.message
        ),
    }
    Ok(failure.is_none())
}

fn fuzz(args: &Args) -> Result<bool, FuzzError> {
    let folder = tempfile::tempdir().map_err(FuzzError::io("temporary folder"))?;
    let duck = match args.python.as_os_str().to_str() {
        Some("none") => None,
        _ => Some(Duck::start(&args.python, folder.path())?),
    };
    let seed = args.seed.unwrap_or_else(tierloom_sqlfuzz::rng::drawn);
    println!("seed {seed}");
    let start = Instant::now();
    let seconds = args.seconds.or(args.hours.map(|h| (h * 3_600.0) as u64));
    let seconds = seconds.or(args.cases.is_none().then_some(60));
    let until = seconds.map(|s| start + Duration::from_secs(s));
    let stop = || until.is_some_and(|until| Instant::now() > until);
    let mut fuzzer = Fuzzer::new(seed, duck, &args.out)?;
    let (mut failures, mut by_duck) = (0, 0);
    let mut growth = Growth::default();
    let mut number = args.first;
    while !stop() && failures < args.failures && args.cases.is_none_or(|n| number < args.first + n)
    {
        if let Some(failure) = fuzzer.case(number, &stop)? {
            let counts = args.strict || !failure.by_duck;
            let word = if counts {
                failures += 1;
                "FAILED"
            } else {
                by_duck += 1;
                "differs from DuckDB:"
            };
            println!("{word} {}\n    {}", failure.path.display(), failure.message);
        }
        number += 1;
        let now = memory::resident_mib();
        if growth.add(now) {
            println!("memory: {now} MiB after case {}", number - 1);
        }
    }
    let time = start.elapsed().as_secs_f64();
    let queries = fuzzer.coverage.events.get("queries").copied().unwrap_or(0);
    println!("{}", fuzzer.coverage.report());
    let cases = number - args.first;
    println!(
        "{cases} cases, {queries} queries in {time:.0} s: {:.0} a second",
        queries as f64 / time
    );
    let mut fine = failures == 0;
    println!("memory: {} MiB at most after a case", growth.most());
    if let Some((first, last)) = growth.least() {
        println!("memory: at least {first} MiB after each of the first cases, {last} of the last");
        if growth.is_leak() {
            println!("FAILED: memory grew by more than {MOST_GROWTH_MIB} MiB");
            fine = false;
        }
    }
    if let Some(most) = &fuzzer.largest {
        println!(
            "memory: {} MiB at most within a statement, {} MiB after it; case {}:\n    {}\n    {:?}",
            most.peak_mib, most.after_mib, most.case, most.sql, most.options
        );
    }
    println!(
        "seed {seed}: {failures} failures, {by_duck} other answers that DuckDB alone gives otherwise"
    );
    Ok(fine)
}
