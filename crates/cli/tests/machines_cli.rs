//! `tierloom machines`: every profile of the repository is built in and listed, and prints as a
//! file that loads again.

mod common;

use common::{repository, tierloom, tierloom_anywhere};
use std::fs;
use tierloom_model::Machine;

/// Names of the files in `machines/`.
fn names() -> Vec<String> {
    let files = fs::read_dir(repository().join("machines")).unwrap();
    let mut names: Vec<String> = files
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
        .map(|p| p.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn every_profile_of_the_repository_is_listed_once() {
    let list = tierloom_anywhere(&["machines"]).with_code(0);
    assert_eq!(list.stderr, "");
    let cells = |line: &str| {
        line.split('┆')
            .map(|c| c.trim_matches(['│', ' ']).to_owned())
            .collect::<Vec<_>>()
    };
    let mut listed: Vec<String> = list
        .stdout
        .lines()
        .filter(|l| l.contains('┆'))
        .skip(1)
        .map(|l| cells(l)[0].clone())
        .collect();
    listed.sort();
    assert!(names().len() >= 11);
    assert_eq!(listed, names(), "{}", list.stdout);
}

#[test]
fn a_printed_profile_loads_again_as_the_same_machine() {
    let folder = tempfile::tempdir().unwrap();
    for name in names() {
        let printed = tierloom(folder.path(), &["machines", &name])
            .with_code(0)
            .stdout;
        let file = repository().join("machines").join(format!("{name}.yaml"));
        let original = Machine::from_yaml(&fs::read_to_string(&file).unwrap(), &name).unwrap();
        assert_eq!(
            Machine::from_yaml(&printed, "printed").unwrap(),
            original,
            "{name}"
        );
        assert_eq!(original.name, name, "a profile is called like its file");
        fs::write(folder.path().join("mine.yaml"), &printed).unwrap();
        let again = tierloom(folder.path(), &["machines", "./mine.yaml"])
            .with_code(0)
            .stdout;
        assert_eq!(again, printed, "{name}");
    }
}
