//! Which crate may use which: only those of layers below its own.

use super::Finding;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// From the bottom up. A crate is in the lowest layer that its dependencies allow.
///
/// Crates are split by what they cost to build: nothing below `engine` builds the SQL engine.
pub(super) const LAYERS: [&[&str]; 10] = [
    &["agent", "corrections", "kernels", "testing", "text", "tpc"],
    &[
        "lab",
        "model",
        "planner",
        "star",
        "topology",
        "tree",
        "workloads",
    ],
    &["counters", "memory", "operators", "record"],
    &[
        "allocator",
        "bench",
        "calibrate",
        "placement",
        "pool",
        "report",
    ],
    // Nothing above shares what `oltp` stores and captures with the engine.
    &["oltp", "predict"],
    &["engine", "tune"],
    &["capi", "cluster", "sql", "suite"],
    &["cli", "sqlfuzz", "sqlsuite"],
    &["python-calls"],
    &["python", "python-model"],
];

/// The only crates that may hold unsafe code, and so have lints of their own.
const UNSAFE: [&str; 3] = ["capi", "kernels", "memory"];

pub(super) fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut findings = Vec::new();
    for package in packages {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let manifest = Path::new(manifest).strip_prefix(root).unwrap_or(root);
        if let Some(name) = folder(manifest) {
            findings.extend(arrows(manifest, name, &package["dependencies"]));
            findings.extend(lints(root, manifest, name)?);
        }
    }
    Ok(findings)
}

/// The folder's name, for crates below `crates`.
fn folder(manifest: &Path) -> Option<&str> {
    let folder = manifest.strip_prefix("crates").ok()?.parent()?;
    folder.to_str()
}

fn arrows(manifest: &Path, name: &str, dependencies: &Value) -> Vec<Finding> {
    let Some(own) = layer(name) else {
        let what = "is in no layer: see xtask/src/tidy/arrows.rs";
        return vec![Finding::new(manifest, 0, what)];
    };
    let dependencies = dependencies.as_array().into_iter().flatten();
    let upwards = dependencies.filter_map(|dependency| {
        // Tests may use what they like: they are nobody's dependency.
        if dependency["kind"] == "dev" {
            return None;
        }
        let path = PathBuf::from(dependency["path"].as_str()?);
        let other = path.file_name()?.to_str()?;
        (layer(other).is_none_or(|layer| layer >= own)).then(|| {
            let what = format!("{name} may not use {other}, which is not in a layer below it");
            Finding::new(manifest, 0, what)
        })
    });
    upwards.collect()
}

/// Every crate has the lints of the workspace, which forbid unsafe code, but for the three.
fn lints(root: &Path, manifest: &Path, name: &str) -> Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join(manifest))?;
    let shared = text.contains("[lints]\nworkspace = true");
    Ok(match (shared, UNSAFE.contains(&name)) {
        (false, false) => vec![Finding::new(
            manifest,
            0,
            "has not the lints of the workspace, which forbid unsafe code",
        )],
        _ => Vec::new(),
    })
}
