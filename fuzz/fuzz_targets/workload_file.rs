//! Any text is a workload file or is refused; what is read is the same twice and survives JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tierloom_bench::dry_run::rows;
use tierloom_bench::file::{LoadOptions, parse};
use tierloom_bench::plan::RunPlan;

/// Runs that are looked at closely; a matrix may have many more, all alike.
const CLOSELY: usize = 50;

fuzz_target!(|text: &str| {
    let options = LoadOptions::default();
    let read = parse(text, "fuzz.yaml", &options);
    let Ok(workloads) = &read else { return };
    let runs = &workloads.runs[..workloads.runs.len().min(CLOSELY)];
    rows(runs);
    for run in runs {
        let json = run.to_json().to_string();
        let json = serde_json::from_str(&json).expect("the JSON of a plan is JSON");
        assert_eq!(
            &RunPlan::from_json(json).expect("its JSON makes a plan"),
            run
        );
    }
    if workloads.runs.len() <= CLOSELY {
        assert_eq!(read, parse(text, "fuzz.yaml", &options));
    }
});
