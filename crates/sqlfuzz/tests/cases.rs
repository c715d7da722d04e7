//! Cases that failed once. Each is a file in `cases/` with its data, statements and expected rows.

use std::path::Path;
use tierloom_memory::router::TierAllocator;
use tierloom_sqlfuzz::case::Case;
use tierloom_sqlfuzz::engines::{Duck, Rows};
use tierloom_sqlfuzz::fuzz::Fuzzer;
use tierloom_sqlfuzz::panics;
use tierloom_sqlfuzz::step::Does;
use tierloom_testing::seed;

#[global_allocator]
static ALLOCATOR: TierAllocator<mimalloc::MiMalloc> = TierAllocator::new(mimalloc::MiMalloc);

#[test]
fn what_was_answered_wrongly_once_is_answered_right() {
    panics::watch();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let files = std::fs::read_dir(&folder)
        .unwrap()
        .map(|f| f.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|f| f.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no cases in {}", folder.display());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let case = Case::read(&file).unwrap();
        match case.replay() {
            Ok(None) => {}
            Ok(Some(failure)) => {
                wrong.push(format!("{name}: {:?}: {}", failure.kind, failure.message))
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The generator, the engines and the comparison. There must be no failure, whatever the seed.
///
/// DuckDB takes part because plain DataFusion alone is wrong in about one case of two hundred, and
/// without a third engine such a case would count against Tierloom.
#[test]
fn random_statements_are_answered_as_other_engines_answer_them() {
    panics::watch();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sqlfuzz-venv/bin/python");
    if !python.exists() {
        return tierloom_testing::checked_nothing("no DuckDB; `cargo xtask sqlfuzz` installs it");
    }
    let seed = seed();
    let folder = tempfile::tempdir().unwrap();
    let duck = Duck::start(&python, folder.path()).unwrap();
    let mut fuzzer = Fuzzer::new(seed, Some(duck), folder.path()).unwrap();
    for number in 0..5 {
        if let Some(found) = fuzzer.case(number, &|| false).unwrap() {
            assert!(
                found.by_duck,
                "seed {seed}, case {number}: {}",
                found.message
            );
        }
    }
    assert!(fuzzer.coverage.plans > 0);
}

/// Drops the last row of each result of a query with a group-by.
fn without_last_row(sql: &str, mut rows: Rows) -> Rows {
    let last = rows.batches.iter_mut().rfind(|b| b.num_rows() > 0);
    if let Some(batch) = last.filter(|_| sql.contains("GROUP BY")) {
        *batch = batch.slice(0, batch.num_rows() - 1);
    }
    rows
}

/// Tests the fuzzer itself: a wrong result is found, and its case is shrunk and written.
///
/// The case passes when it is run again without the error.
#[test]
fn a_wrong_answer_is_found_made_small_and_written_down() {
    panics::watch();
    let seed = seed();
    let folder = tempfile::tempdir().unwrap();
    let fuzzer = Fuzzer::new(seed, None, folder.path()).unwrap();
    let mut fuzzer = fuzzer.spoiled(without_last_row);
    let found = (0..20).find_map(|number| fuzzer.case(number, &|| false).unwrap());
    let found = found.expect("no case of twenty has a group-by with rows");
    assert!(
        !found.by_duck && found.message.contains("rows"),
        "{}",
        found.message
    );
    let case = Case::read(&found.path).unwrap();
    // The other statements that are left make what the last one reads.
    let (query, before) = case.steps.split_last().unwrap();
    assert!(query.sql.contains("GROUP BY"), "{}", found.message);
    for (at, step) in before.iter().enumerate() {
        let name = match &step.does {
            Does::CreateTable(name, _) | Does::Change(name, _) => Some(name.as_str()),
            Does::Define => step.sql.strip_prefix("CREATE OR REPLACE VIEW "),
            Does::Query | Does::Own => None,
        };
        let name = name.and_then(|name| name.split(' ').next());
        let name = name.unwrap_or_else(|| panic!("not needed: {step:?}"));
        let mut later = case.steps[at + 1..].iter();
        assert!(later.any(|s| s.sql.contains(name)), "{:?}", case.steps);
    }
    let rows: usize = case.tables.iter().map(|t| t.rows()).sum();
    assert!(rows <= 3, "{rows} rows are left: {}", found.message);
    assert!(case.expected.as_ref().is_some_and(|rows| !rows.is_empty()));
    assert!(case.replay().unwrap().is_none());
}
