//! Cases that failed once: each is one file of `cases/` and holds its data, statements and rows.

use std::path::Path;
use tierloom_memory::router::TierAllocator;
use tierloom_sqlfuzz::case::Case;
use tierloom_sqlfuzz::panics;

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
                wrong.push(format!("{name}: {:?}: {}", failure.kind, failure.told))
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The generator, the engines and the comparison, without DuckDB: whatever the seed, no failure.
#[test]
fn random_statements_are_answered_as_plain_datafusion_answers_them() {
    panics::watch();
    let seed = tierloom_sqlfuzz::rng::drawn();
    println!("seed {seed}; again: cargo run -p tierloom-sqlfuzz -- --seed {seed} --cases 5");
    let folder = tempfile::tempdir().unwrap();
    let mut fuzzer = tierloom_sqlfuzz::fuzz::Fuzzer::new(seed, None, folder.path()).unwrap();
    for number in 0..5 {
        let found = fuzzer.case(number, &|| false).unwrap();
        assert!(
            found.is_none(),
            "seed {seed}, case {number}: {}",
            found.unwrap().told
        );
    }
    assert!(fuzzer.coverage.plans > 0);
}
