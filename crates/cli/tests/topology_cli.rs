//! `tierloom topology` and `tierloom doctor` on recorded machines and on this one.

mod common;

use common::{RECORDED, contents, recorded, tierloom, tierloom_anywhere};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

fn topology(args: &[&str]) -> String {
    let ended = tierloom_anywhere(&[&["topology"], args].concat()).with_code(0);
    assert_eq!(ended.stderr, "", "nothing to tell");
    ended.stdout
}

fn json(args: &[&str]) -> Value {
    let text = topology(&[args, &["--json"]].concat());
    serde_json::from_str(&text).expect("one JSON document and nothing else")
}

fn tiers(topology: &Value) -> Vec<(String, Vec<u64>, String)> {
    let ids = |tier: &Value| {
        let nodes = tier["nodes"].as_array().expect("nodes").iter();
        nodes.map(|n| n.as_u64().expect("an id")).collect()
    };
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let all = topology["tiers"].as_array().expect("tiers").iter();
    all.map(|t| (text(&t["kind"]), ids(t), text(&t["reason"])))
        .collect()
}

#[test]
fn recorded_machines_are_drawn_as_one_tree() {
    for machine in RECORDED {
        let root = recorded(machine);
        let tree = topology(&["--sysroot", &root]).replace(&root, "[root]");
        insta::assert_snapshot!(format!("tree-{machine}"), tree);
    }
}

#[test]
fn json_and_tree_tell_of_the_same_nodes_and_tiers() {
    for machine in RECORDED {
        let root = recorded(machine);
        let tree = topology(&["--sysroot", &root]);
        let json = json(&["--sysroot", &root]);
        let nodes = json["nodes"].as_array().unwrap();
        assert!(!nodes.is_empty(), "{machine}");
        for node in nodes {
            let begins = format!("─ node {}: ", node["id"]);
            assert_eq!(
                tree.matches(&begins).count(),
                1,
                "{machine}: {begins}\n{tree}"
            );
        }
        for (kind, _, reason) in tiers(&json) {
            assert!(
                tree.contains(&format!("{kind}: {reason}")),
                "{machine}: {kind}\n{tree}"
            );
        }
    }
}

#[test]
fn tiers_named_by_the_user_win_and_say_so() {
    let root = recorded("server-2s-4cxl");
    let named = ["--sysroot", &root, "--tiers", "dram=0;remote=1"];
    let shown = tiers(&json(&named));
    let by_user: Vec<_> = shown
        .iter()
        .filter(|t| t.2 == "set by the user")
        .map(|t| (t.0.as_str(), t.1.as_slice()))
        .collect();
    assert_eq!(by_user, [("dram", &[0][..]), ("remote", &[1])]);
    assert!(
        shown
            .iter()
            .any(|t| t.0 == "cxl" && t.2 != "set by the user"),
        "{shown:?}"
    );
    let tree = topology(&named);
    assert_eq!(tree.matches("set by the user").count(), 2, "{tree}");
    assert!(!topology(&named[..2]).contains("set by the user"));
}

#[test]
fn a_recording_read_back_is_the_same_machine() {
    for machine in RECORDED {
        let folder = tempfile::tempdir().unwrap();
        let root = recorded(machine);
        let made = tierloom(
            folder.path(),
            &["topology", "--sysroot", &root, "--record", "copy"],
        )
        .with_code(0);
        assert!(
            made.stderr.contains("recorded ") && made.stderr.contains("into copy"),
            "{}",
            made.stderr
        );
        let again = tierloom(folder.path(), &["topology", "--sysroot", "copy"]).with_code(0);
        assert_eq!(
            again.stdout.replace("copy/", ""),
            made.stdout.replace(&format!("{root}/"), ""),
            "{machine}"
        );
    }
}

#[test]
fn this_machine_can_be_recorded_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let live = tierloom(folder.path(), &["topology", "--json", "--record", "copy"]).with_code(0);
    let again = tierloom(folder.path(), &["topology", "--json", "--sysroot", "copy"]).with_code(0);
    let [live, again] = [&live, &again].map(|e| serde_json::from_str::<Value>(&e.stdout).unwrap());
    // Free memory changes all the time; the tiers of the machine do not.
    assert_eq!(tiers(&live), tiers(&again));
    for same in ["kernel_release", "cpu_model"] {
        assert_eq!(live[same], again[same], "{same}");
    }
    let total = |t: &Value| {
        t["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n["mem_total_bytes"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(total(&live), total(&again));
}

#[test]
fn a_recording_never_mixes_with_what_is_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("full")).unwrap();
    fs::write(folder.path().join("full/mine"), "x").unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    let before = contents(folder.path());
    let root = recorded("vm-1node");
    for (into, says) in [("full", "not empty"), ("file", "file")] {
        let ended = tierloom(
            folder.path(),
            &["topology", "--sysroot", &root, "--record", into],
        );
        assert!(matches!(ended.code, Some(1 | 2)), "{ended:?}");
        assert!(ended.one_error().contains(says), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
    assert!(contents(folder.path()) == before, "files were changed");
}

/// Checks the abilities and returns the states that occur.
fn check_abilities(args: &[&str]) -> BTreeSet<String> {
    let ended = tierloom_anywhere(&[&["doctor", "--json"], args].concat()).with_code(0);
    let abilities: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    assert!(abilities.len() >= 10, "{}", ended.stdout);
    let filled = |value: &Value| value.as_str().is_some_and(|t| t.trim().len() > 3);
    let mut states = BTreeSet::new();
    for ability in &abilities {
        let state = ability["state"].as_str().unwrap();
        assert!(["yes", "no", "limited"].contains(&state), "{ability}");
        assert!(filled(&ability["finding"]), "{ability}");
        if state == "no" {
            assert!(
                filled(&ability["cause"]) && filled(&ability["fix"]),
                "{ability}"
            );
        }
        states.insert(state.to_owned());
    }
    let table = tierloom_anywhere(&[&["doctor"], args].concat())
        .with_code(0)
        .stdout;
    let count = |what: &str| abilities.iter().filter(|a| a["state"] == what).count();
    let totals = format!(
        "{} yes, {} limited, {} no",
        count("yes"),
        count("limited"),
        count("no")
    );
    assert!(table.trim_end().ends_with(&totals), "{totals}\n{table}");
    let fixes = abilities.iter().filter(|a| !a["fix"].is_null()).count();
    assert_eq!(table.matches("fix: ").count(), fixes, "{table}");
    states
}

#[test]
fn every_missing_ability_of_this_machine_comes_with_a_cause_and_a_fix() {
    let states = check_abilities(&[]);
    assert!(states.contains("yes"), "some ability is there: {states:?}");
}

#[test]
fn every_missing_ability_of_recorded_machines_comes_with_a_cause_and_a_fix() {
    for machine in RECORDED {
        check_abilities(&["--sysroot", &recorded(machine)]);
    }
}
