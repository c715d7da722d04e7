//! Exceptions from the rules, in `xtask/tidy.yaml`.

use super::Finding;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const FILE: &str = "xtask/tidy.yaml";

/// As the file has them: names by rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    /// Files that may be longer, and why.
    long_files: BTreeMap<String, String>,
    /// Functions, as `file: name`, that may be longer, and why.
    long_functions: BTreeMap<String, String>,
    /// Names of types that a layer has more than once.
    types_named_twice: BTreeSet<String>,
    /// Public items, as `crate::name`, that nothing but tests uses, and why they stay.
    used_by_tests_alone: BTreeMap<String, String>,
}

/// A rule that has exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    LongFile,
    LongFunction,
    TypeNamedTwice,
    UsedByTestsAlone,
}

pub(crate) struct Known {
    left: BTreeSet<(Rule, String)>,
    all: BTreeSet<(Rule, String)>,
}

impl Known {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
        let lists: Lists = serde_saphyr::from_str(&text).context(FILE)?;
        let files = lists.long_files.into_keys().map(|n| (Rule::LongFile, n));
        let functions = lists.long_functions.into_keys();
        let functions = functions.map(|n| (Rule::LongFunction, n));
        let types = lists.types_named_twice.into_iter();
        let types = types.map(|n| (Rule::TypeNamedTwice, n));
        let tests = lists.used_by_tests_alone.into_keys();
        let tests = tests.map(|n| (Rule::UsedByTestsAlone, n));
        let all: BTreeSet<_> = files.chain(functions).chain(types).chain(tests).collect();
        Ok(Known {
            left: all.clone(),
            all,
        })
    }

    /// Whether `name` is an exception from `rule`.
    pub(crate) fn excuses(&mut self, rule: Rule, name: &str) -> bool {
        let entry = (rule, name.to_owned());
        self.left.remove(&entry);
        self.all.contains(&entry)
    }

    /// Exceptions that nothing needed.
    pub(crate) fn unused(&self) -> Vec<Finding> {
        let unused = self.left.iter().map(|(rule, name)| {
            let what = format!("{rule:?}: {name:?} is no longer an exception: take it off");
            Finding::new(&PathBuf::from(FILE), 0, what)
        });
        unused.collect()
    }
}
