//! Passes the commit that the program is built from to the compiler, which records carry, and
//! linker options that make it smaller.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Linker options, each of which is used if a program that is linked with it runs here.
const SMALLER: [&str; 2] = [
    // Writes the addresses that are set when the program starts as a bitmap, not as a table with 24
    // bytes for each: 6 MB of 104. Linkers know it since lld 15 and binutils 2.38, and the dynamic
    // loader of the GNU C library since 2.36.
    "link-arg=-Wl,-z,pack-relative-relocs",
    // Keeps one copy of functions with the same instructions: 1.4 MB of 95. lld, gold and mold know
    // it. Addresses of functions need not differ in Rust.
    "link-arg=-Wl,--icf=all",
];

fn main() {
    name_commit();
    // Tests are linked often and copied nowhere.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        for option in SMALLER {
            if runs_when_linked_with(option).unwrap_or(false) {
                println!("cargo::rustc-{option}");
            }
        }
    }
}

/// Whether a program that is linked with `option` runs on this machine.
fn runs_when_linked_with(option: &str) -> Result<bool, Box<dyn Error>> {
    if env::var("TARGET")? != env::var("HOST")? {
        return Ok(false);
    }
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    let (source, program) = (folder.join("probe.rs"), folder.join("probe"));
    std::fs::write(
        &source,
        "static WORD: &str = \"probe\"; fn main() { print!(\"{WORD}\"); }",
    )?;
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mut compiler = Command::new(env::var("RUSTC")?);
    compiler.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    compiler.arg("-C").arg(option);
    compiler.arg("-o").arg(&program).arg(&source);
    Ok(compiler.output()?.status.success() && Command::new(&program).output()?.status.success())
}

fn name_commit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(args).output();
        output
            .ok()
            .filter(|o| o.status.success())
            .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
    };
    // Outside a git checkout the variable stays unset, and records carry no commit.
    if let Some(commit) = git(&["rev-parse", "HEAD"]) {
        println!("cargo::rustc-env=TIERLOOM_COMMIT={commit}");
    }
    // HEAD changes when another branch is checked out, the log on every commit.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
