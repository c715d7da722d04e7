//! GLOSSARY.md: every word is used, and none is there twice.

use super::Finding;
use super::source::Sources;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

const FILE: &str = "GLOSSARY.md";

pub(super) fn check(root: &Path, sources: &Sources) -> Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
    let others: Vec<String> = sources
        .rust()
        .chain(sources.markdown().filter(|f| f.path != Path::new(FILE)))
        .map(|file| file.text.to_lowercase())
        .collect();
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for word in words(line) {
            let mut add = |what| findings.push(Finding::new(Path::new(FILE), at + 1, what));
            if !others.iter().any(|text| text.contains(&word)) {
                add(format!("{word:?} is used nowhere"));
            }
            if !seen.insert(word.clone()) {
                add(format!("{word:?} is explained twice"));
            }
        }
    }
    Ok(findings)
}

/// The words that a row of the table explains: those in bold, without what stands in brackets.
fn words(row: &str) -> Vec<String> {
    let cell = row.strip_prefix("| **").and_then(|r| r.split_once("**"));
    let Some((words, _)) = cell else {
        return Vec::new();
    };
    let each = words.split([',', '/']).map(|word| {
        let plain = word.split('(').next().unwrap_or(word);
        plain.trim().to_lowercase()
    });
    each.filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_brackets_left_out() {
        let row = "| **memdev, region (CXL) / dax device** | a device |";
        assert_eq!(words(row), ["memdev", "region", "dax device"]);
        assert!(words("| word | meaning |").is_empty());
    }
}
