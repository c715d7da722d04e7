//! The program and the package of Python have their dependencies with the same features, so that
//! `pip install` after the first build does not compile DataFusion once more.

use super::Finding;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use xshell::{Shell, cmd};

/// The program and the package.
const BOTH: [&str; 2] = ["tierloom", "tierloom-python"];

/// The allocator: in a library that is loaded later, its variables of threads are others. Only the
/// program's and the package's own crates are built on it.
const OTHER: [&str; 2] = ["libmimalloc-sys", "mimalloc"];

/// Dependencies whose features differ.
pub fn check(shell: &Shell) -> Result<Vec<Finding>> {
    let [program, package] = BOTH.map(|name| -> Result<String> {
        let format = "{p} [{f}]";
        let edges = ["--edges", "normal", "--prefix", "none", "--format", format];
        Ok(cmd!(
            shell,
            "cargo tree --quiet --locked --package {name} {edges...}"
        )
        .read()?)
    });
    let found = differences(&program?, &package?).into_iter();
    Ok(found
        .map(|what| Finding::new(Path::new("Cargo.toml"), 0, what))
        .collect())
}

fn differences(program: &str, package: &str) -> Vec<String> {
    let (program, package) = (features(program), features(package));
    let in_both = program.iter().filter_map(|(name, one)| {
        let other = package.get(name).filter(|other| *other != one)?;
        let is_known = OTHER
            .iter()
            .any(|known| name.split(' ').next() == Some(known));
        (!is_known).then(|| {
            format!(
                "{name} has the features {one} in {} and {other} in {}",
                BOTH[0], BOTH[1]
            )
        })
    });
    in_both.collect()
}

/// The features of each package, by name and version; those of the repository are told by their
/// path, and may differ.
fn features(tree: &str) -> BTreeMap<&str, &str> {
    let lines = tree.lines().filter(|line| !line.contains(" (/"));
    let split = lines.filter_map(|line| line.trim_end_matches(" (*)").rsplit_once(" ["));
    split
        .map(|(name, features)| (name, features.trim_end_matches(']')))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_with_other_features_are_found_and_repeated_lines_are_not() {
        let program = "tierloom v0.1.0 (/r/crates/cli) [sql]\narrow v59.3.2 [csv]\n\
                       mimalloc v0.1.52 []\nserde v1.0.0 [std]\nserde v1.0.0 [std] (*)\n";
        let package = "tierloom v0.1.0 (/r/crates/cli) []\narrow v59.3.2 [csv,ffi]\n\
                       mimalloc v0.1.52 [local_dynamic_tls]\nserde v1.0.0 [std] (*)\n\
                       pyo3 v0.29.3 [abi3]\n";
        let found = differences(program, package);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("arrow v59.3.2") && found[0].contains("csv,ffi"),
            "{found:?}"
        );
    }
}
