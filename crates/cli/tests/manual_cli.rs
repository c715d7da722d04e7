//! Completions and manual pages: they name every command, and the shell can read them.

mod common;

use common::{tierloom, tierloom_anywhere};
use std::process::Command;

/// Commands as `--help` lists them.
fn commands() -> Vec<String> {
    let help = tierloom_anywhere(&["--help"]).with_code(0).stdout;
    let listed = help.split("Commands:").nth(1).unwrap().lines();
    let names = listed.take_while(|line| !line.starts_with("Options:"));
    let first = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = first.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn completions_are_scripts_that_the_shell_takes_and_name_every_command() {
    let script = tierloom_anywhere(&["completions", "bash"])
        .with_code(0)
        .stdout;
    for command in commands() {
        assert!(
            script.contains(&format!("tierloom,{command})")),
            "{command}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tierloom");
    std::fs::write(&file, script).unwrap();
    let read = Command::new("bash").arg("-n").arg(&file).status().unwrap();
    assert!(read.success());
    let error = tierloom_anywhere(&["completions", "cmd"])
        .with_code(2)
        .stderr;
    assert!(error.contains("bash"), "{error}");
}

#[test]
fn every_command_has_a_manual_page_and_a_file_is_no_folder_for_them() {
    let folder = tempfile::tempdir().unwrap();
    tierloom(folder.path(), &["manual", "-o", "pages"]).with_code(0);
    for command in commands() {
        let page = folder.path().join(format!("pages/tierloom-{command}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(
            text.contains(".TH") && text.contains("SYNOPSIS"),
            "{command}"
        );
    }
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = tierloom(folder.path(), &["manual", "-o", "file"])
        .with_code(1)
        .stderr;
    assert!(error.contains("file"), "{error}");
}
