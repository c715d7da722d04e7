//! Every test file of DataFusion as one test, in a separate process with a time limit.
//!
//! `--bless` shortens the list of records that are not compared; it never makes it longer.

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tierloom_memory::router::TierAllocator;
use tierloom_sqlsuite::{
    FileReport, Reason, Skips, Suite, SuiteError, blessed, count_records, find, run_file,
};

/// The allocator of the `tierloom` program, so that operator memory is routed as it is there.
#[global_allocator]
static ALLOCATOR: TierAllocator<mimalloc::MiMalloc> = TierAllocator::new(mimalloc::MiMalloc);

/// Time limit for one file.
const LIMIT: Duration = Duration::from_secs(600);

/// Memory limit for the process of one file; two run at a time.
const MEMORY_BYTES: u64 = 2 << 30;

/// The first argument of a process that runs one file.
const ONE_FILE: &str = "--one-file";

type Reports = Arc<Mutex<BTreeMap<String, FileReport>>>;

fn main() -> ExitCode {
    let mut given: Vec<String> = std::env::args().collect();
    if given.get(1).is_some_and(|first| first == ONE_FILE) {
        return one_file(&given[2..]);
    }
    let bless = given.iter().any(|argument| argument == "--bless");
    given.retain(|argument| argument != "--bless");
    let mut arguments = Arguments::from_iter(given);
    arguments.test_threads = arguments.test_threads.or(Some(2));
    match all_files(&arguments, bless) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder for files of this test.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("sqlsuite")
}

fn list_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("skipped.yaml")
}

fn all_files(arguments: &Arguments, bless: bool) -> Result<ExitCode, SuiteError> {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let suite = Arc::new(find(&lock, &folder().join("registry"))?);
    let text = std::fs::read_to_string(list_path());
    let text = text.map_err(|e| SuiteError::List(e.to_string()))?;
    let list = Arc::new(Skips::parse(&text)?);
    let reports = Reports::default();
    let mut trials = vec![version_trial(&suite, &list)];
    for name in list.folders.keys() {
        trials.push(folder_trial(name, &suite, &list)?);
    }
    let mut names = suite.names()?;
    // The longest files first, so that none of them runs alone at the end.
    names.sort_by_key(|name| !name.starts_with("tpch/"));
    for name in names {
        if !list.folders.keys().any(|folder| name.starts_with(folder)) {
            trials.push(file_trial(name, &suite, &list, &reports));
        }
    }
    let start = Instant::now();
    let conclusion = libtest_mimic::run(arguments, trials);
    let reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
    if !arguments.list {
        print_totals(&reports, start.elapsed());
    }
    if bless {
        return write_list(&list, &suite.version, &reports);
    }
    Ok(conclusion.exit_code())
}

/// Checks that the list was created with this version of the suite.
fn version_trial(suite: &Suite, list: &Skips) -> Trial {
    let (listed, found) = (list.version.clone(), suite.version.clone());
    Trial::test("the_list_is_of_this_version", move || {
        if listed == found {
            return Ok(());
        }
        Err(
            format!("the list is of {listed}, the suite of {found}: make it anew with --bless")
                .into(),
        )
    })
}

/// Checks that a folder that is not run has as many files and records as the list says.
fn folder_trial(name: &str, suite: &Arc<Suite>, list: &Skips) -> Result<Trial, SuiteError> {
    let (name, suite) = (name.to_owned(), Arc::clone(suite));
    let listed = list.folders[&name].clone();
    let names = suite.names()?;
    Ok(Trial::test(format!("{name} (not run)"), move || {
        let inside: Vec<&String> = names.iter().filter(|n| n.starts_with(&name)).collect();
        let mut records = 0;
        for file in &inside {
            records += count_records(&suite, file)?;
        }
        let found = (inside.len() as u64, records);
        if found == (listed.files, listed.records) {
            return Ok(());
        }
        let (files, records) = found;
        Err(format!("{files} files with {records} records, the list has others").into())
    }))
}

fn file_trial(name: String, suite: &Arc<Suite>, list: &Arc<Skips>, reports: &Reports) -> Trial {
    let (suite, list, reports) = (Arc::clone(suite), Arc::clone(list), Arc::clone(reports));
    Trial::test(name.clone(), move || {
        let report = in_own_process(&name, &suite)?;
        let judged = list.judge(&name, &report);
        let peak_bytes = report.peak_bytes;
        let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.insert(name, report);
        if peak_bytes > MEMORY_BYTES {
            return Err(format!("{} MiB of memory", peak_bytes >> 20).into());
        }
        Ok(judged?)
    })
}

/// Runs a file in a separate process and folder, so that a hang or an abort does not affect the
/// others.
fn in_own_process(name: &str, suite: &Suite) -> Result<FileReport, Failed> {
    let scratch = tempfile::tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(ONE_FILE).arg(&suite.root).arg(&suite.version);
    command.arg(name).arg(scratch.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let out = reader(child.stdout.take());
    let errors = reader(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(format!("not done after {} s", LIMIT.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let (out, errors) = (text_of(out), text_of(errors));
    if !status.success() {
        return Err(format!("the process ended with {status}: {errors}").into());
    }
    let mut report: FileReport = serde_json::from_str(&out)?;
    report.seconds = start.elapsed().as_secs_f64();
    let kept = folder().join("reports").join(name.replace('/', "-"));
    if let Some(parent) = kept.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(
        kept.with_extension("json"),
        serde_json::to_string_pretty(&report)?,
    )?;
    Ok(report)
}

type Reading = std::thread::JoinHandle<String>;

fn reader(pipe: Option<impl Read + Send + 'static>) -> Option<Reading> {
    let mut pipe = pipe?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before the pipe broke is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

fn text_of(reading: Option<Reading>) -> String {
    reading.and_then(|r| r.join().ok()).unwrap_or_default()
}

/// The main function of the process for one file; it writes its report to stdout.
fn one_file(arguments: &[String]) -> ExitCode {
    let [root, version, name, folder] = arguments else {
        eprintln!("expected the folder of the suite, its version, a file and a folder");
        return ExitCode::from(2);
    };
    let suite = Suite {
        version: version.clone(),
        root: PathBuf::from(root),
    };
    let (name, folder) = (name.clone(), PathBuf::from(folder));
    // Some statements are deeply nested; the shell plans on a large stack for the same reason.
    let run = std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(move || run_file(&suite, &name, &folder));
    let report = run.map(|thread| thread.join());
    match report {
        Ok(Ok(Ok(mut report))) => {
            report.peak_bytes = peak_bytes();
            match serde_json::to_string(&report) {
                Ok(text) => println!("{text}"),
                Err(error) => eprintln!("{error}"),
            }
            ExitCode::SUCCESS
        }
        Ok(Ok(Err(error))) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

/// Peak memory of this process, bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn print_totals(reports: &BTreeMap<String, FileReport>, time: Duration) {
    let sum = |of: &dyn Fn(&FileReport) -> u64| reports.values().map(of).sum::<u64>();
    println!(
        "{} files, {} records, {} s",
        reports.len(),
        sum(&|r| r.records),
        time.as_secs()
    );
    println!("  equal           {:>6}", sum(&|r| r.equal));
    println!("    on placed     {:>6}", sum(&|r| r.placed));
    println!("  without rows    {:>6}", sum(&|r| r.without_rows));
    println!("  errors as shown {:>6}", sum(&|r| r.errors));
    println!("  set up by plain {:>6}", sum(&|r| r.set_up));
    println!(
        "  different       {:>6}",
        sum(&|r| r.different.len() as u64)
    );
    println!("  not compared    {:>6}", sum(&FileReport::not_compared));
    for (reason, what) in Reason::ALL {
        let count = sum(&|r| r.skipped.get(&reason).copied().unwrap_or(0));
        println!("    {:<13} {count:>6}  {what}", reason.key());
    }
    let slowest = reports
        .iter()
        .max_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds));
    if let Some((name, report)) = slowest {
        println!("  slowest: {name}, {:.1} s", report.seconds);
    }
    let largest = reports.iter().max_by_key(|(_, report)| report.peak_bytes);
    if let Some((name, report)) = largest {
        println!("  most memory: {name}, {} MiB", report.peak_bytes >> 20);
    }
}

fn write_list(
    list: &Skips,
    version: &str,
    reports: &BTreeMap<String, FileReport>,
) -> Result<ExitCode, SuiteError> {
    match blessed(list, version, reports) {
        Ok(new) => {
            let wrong = |source| SuiteError::File {
                what: list_path().display().to_string(),
                source,
            };
            std::fs::write(list_path(), new.text()).map_err(wrong)?;
            println!("wrote {}", list_path().display());
            Ok(ExitCode::SUCCESS)
        }
        Err(message) => {
            eprintln!("{message}");
            Ok(ExitCode::FAILURE)
        }
    }
}
