//! Operator memory in a real guest with two memory nodes: the pages of joins and groups are on the
//! node of their class, and the router's accounting agrees with the kernel's.
//!
//! The first run downloads about 75 MB of Debian packages; `TIERLOOM_LAB=skip` skips the guest.
#![cfg(feature = "sql")]

use serde_json::Value;
use tierloom_lab::{
    GuestCommand, GuestFile, GuestKind, GuestOptions, GuestOutcome, kit_for_tests, run,
};

/// Every class on the node without CPUs.
const EVERYTHING: &str = "join=1,aggregation=1,sort=1,repartition=1,temp=1,result=1,other=1";
/// Largest accepted difference between two accounts of the same memory.
const TOLERANCE: f64 = 0.05;

fn boot(kind: GuestKind, commands: &[GuestCommand]) -> Option<GuestOutcome> {
    let kit = kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"))?;
    let mut options = GuestOptions::new(kind);
    // Automatic NUMA balancing would move pages while they are counted.
    options.kernel_args.push("numa_balancing=disable".into());
    let binary = env!("CARGO_BIN_EXE_tierloom");
    options.files.push(GuestFile::new(binary, "/bin/tierloom"));
    let outcome = run(&kit, &options, commands, &mut |line| {
        eprintln!("[{kind}] {line}");
    })
    .unwrap_or_else(|error| panic!("{kind}: {error}"));
    for command in &outcome.commands {
        assert_eq!(
            command.exit_code,
            0,
            "{:?}\n{}\n{}",
            command.argv,
            command.stderr_text(),
            command.stdout_text()
        );
    }
    Some(outcome)
}

/// Runs a workload and prints its audit.
fn audited(workload: &str) -> GuestCommand {
    let script = format!(
        "tierloom run {workload} --placement dram --repeat 1 --jsonl --operator-memory {EVERYTHING} \
         --memory-audit /run/audit.json >/dev/null && cat /run/audit.json"
    );
    GuestCommand::shell(script).quiet()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

fn agree(ours: u64, kernels: u64, audit: &Value) {
    assert!(
        ours.abs_diff(kernels) as f64 <= TOLERANCE * kernels as f64,
        "counted {ours}, the kernel says {kernels}: {audit:#}"
    );
}

/// The bytes of one peak by class, after checking that all of it is on node 1 and that the
/// accounting agrees with both of the kernel's.
fn checked(audit: &Value) -> Vec<(String, u64)> {
    let peak = &audit["peak"];
    // Blocks in use and kept, compared with the kernel's total of the range (`numa_maps`).
    let held = number(&peak["held_bytes"]);
    agree(held, number(&peak["kernel_bytes"]), audit);
    let (mut present, mut classes) = (0, Vec::new());
    for class in peak["classes"].as_array().unwrap() {
        let on_nodes = class["by_node"].as_array().unwrap();
        let bytes = |pair: &Value| number(&pair[1]);
        let all: u64 = on_nodes.iter().map(bytes).sum();
        let wanted = on_nodes.iter().filter(|pair| number(&pair[0]) == 1);
        let on_1: u64 = wanted.map(bytes).sum();
        assert!(on_1 as f64 >= 0.95 * all as f64, "{class:#}");
        present += all;
        classes.push((class["class"].as_str().unwrap().to_owned(), all));
    }
    // Blocks in use, compared with the kernel's answer for every page (`move_pages`).
    agree(number(&peak["accounted_bytes"]), present, audit);
    classes
}

/// The largest number of bytes of a class at the peak of any query of a run, or of those in `only`
/// unless that is empty; checks all peaks.
fn most_of(run: &Value, only: &[&str], class: &str) -> u64 {
    let queries = run["queries"].as_array().unwrap();
    assert_eq!(run["events"].as_array().map(Vec::len), Some(0), "{run:#}");
    let peaks = queries.iter().map(|q| (&q["query"], checked(q)));
    let asked = peaks.filter(|(query, _)| only.is_empty() || only.iter().any(|q| *query == q));
    let of_class = asked.flat_map(|(_, peak)| peak.into_iter().filter(|(name, _)| name == class));
    of_class.map(|(_, bytes)| bytes).max().unwrap_or(0)
}

#[test]
fn big_structures_are_on_the_node_of_their_class_and_the_account_is_the_kernels() {
    const JOINS: &str = "tpch --sf 0.05 --queries q3,q5,q9,q12,q18,q21";
    let commands = [
        audited("ssb --sf 0.05 --plain-operators"),
        audited(JOINS),
        audited(&format!("{JOINS} --plain-operators")),
    ];
    let Some(outcome) = boot(GuestKind::TwoNodes, &commands) else {
        return;
    };
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let runs: Vec<Value> = outcome
        .commands
        .iter()
        .map(|command| read(&command.stdout_text()))
        .collect();
    // Runs on Tierloom's operators and on DataFusion's: each has an entry per query, and one for
    // what came before them.
    let queries = |run: &Value| run["queries"].as_array().unwrap().len();
    assert_eq!(runs.iter().map(queries).collect::<Vec<_>>(), [14, 7, 7]);
    // q3 and q12 are star joins, with orders as a dimension; those of SSB look up codes in tables
    // that are smaller than large blocks. The others are far above the limit.
    let stars = ["q03", "q12"];
    for (run, only, class, at_least) in [
        (0, &[][..], "join", 512 << 10),
        (1, &stars[..], "aggregation", 1 << 20),
        (1, &[], "join", 4 << 20),
        (1, &[], "aggregation", 8 << 20),
        (2, &[], "join", 4 << 20),
    ] {
        let most = most_of(&runs[run], only, class);
        assert!(most >= at_least, "run {run}, {only:?} {class}: {most}");
    }
}
