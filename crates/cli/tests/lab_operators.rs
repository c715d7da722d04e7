//! Operator memory in real guests with two memory nodes: the pages of joins and groups are on the node of their class, and the account agrees with the
//! kernel's.
//!
//! The first run downloads about 75 MB of Debian packages; `TIERLOOM_LAB=skip` leaves the guests out.
#![cfg(feature = "sql")]

use serde_json::Value;
use tierloom_lab::{
    GuestCommand, GuestFile, GuestKind, GuestOptions, GuestOutcome, kit_for_tests, run,
};

/// Bytes from which on a class counts as a big structure.
const BIG_BYTES: u64 = 1 << 20;

fn boot(kind: GuestKind, commands: &[GuestCommand]) -> Option<GuestOutcome> {
    let kit = kit_for_tests()
        .unwrap_or_else(|error| panic!("{error}\n(TIERLOOM_LAB=skip leaves the guests out)"))?;
    let mut options = GuestOptions::new(kind);
    // The kernel must leave pages where they are while they are counted.
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

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

/// Checks the audit of a run whose classes all belong on node 1; answers the bytes of its big structures.
fn big_structures_are_on_node_1(audit: &Value) -> u64 {
    let peak = &audit["peak"];
    let (held, kernel) = (number(&peak["held_bytes"]), number(&peak["kernel_bytes"]));
    assert!(
        kernel.abs_diff(held) as f64 <= 0.05 * kernel as f64,
        "held {held}, the kernel says {kernel}: {audit:#}"
    );
    let mut big = 0;
    for class in peak["classes"].as_array().unwrap() {
        let on_nodes = class["by_node"].as_array().unwrap();
        let on = |node: u64| -> u64 {
            on_nodes
                .iter()
                .filter(|pair| number(&pair[0]) == node)
                .map(|pair| number(&pair[1]))
                .sum()
        };
        let all: u64 = on_nodes.iter().map(|pair| number(&pair[1])).sum();
        if all >= BIG_BYTES {
            assert!(on(1) as f64 >= 0.95 * all as f64, "{class:#}");
            big += all;
        }
    }
    big
}

#[test]
#[ignore = "boots a guest for several minutes; run it with `--ignored`"]
fn big_structures_are_on_the_node_of_their_class_and_the_account_is_the_kernels() {
    let queries = [
        "q1.1", "q1.2", "q1.3", "q2.1", "q2.2", "q2.3", "q3.1", "q3.2", "q3.3", "q3.4", "q4.1",
        "q4.2", "q4.3",
    ];
    // One run per query: an audit is of the highest peak of its process.
    let script = |query: &str| {
        format!(
            "tierloom run ssb --sf 0.3 --placement dram --repeat 2 --queries {query} --jsonl \
             --operator-memory join=1,aggregation=1,sort=1,repartition=1,temp=1,result=1,other=1 \
             --memory-audit /run/audit.json >/dev/null && cat /run/audit.json"
        )
    };
    let commands: Vec<GuestCommand> = queries
        .iter()
        .map(|query| GuestCommand::shell(script(query)).quiet())
        .collect();
    let Some(outcome) = boot(GuestKind::TwoNodes, &commands) else {
        return;
    };
    let mut big = 0;
    for command in &outcome.commands {
        let audit: Value = serde_json::from_str(&command.stdout_text()).unwrap();
        big += big_structures_are_on_node_1(&audit);
    }
    assert!(big >= BIG_BYTES, "no query had a big structure: {big}");
}
