//! Documentation: it is built without warnings, and its examples run.
//!
//! `cargo doc` would check all dependencies once more, those of DataFusion for minutes. `cargo test
//! --doc` uses what was built for the tests. It calls this program in the place of rustdoc, which
//! documents a crate before it runs the crate's examples.

use crate::everything::EVERYTHING;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use xshell::{Shell, cmd};

/// Set where cargo calls this program as rustdoc; the folder for what rustdoc writes.
const AS_RUSTDOC: &str = "TIERLOOM_XTASK_DOCUMENTS_TO";

/// Options of rustdoc about examples, with a value each.
const OF_EXAMPLES: [&str; 3] = ["--test-run-directory", "--test-args", "--test-runtool"];

/// Documents the libraries and this program, and runs the examples of the libraries.
///
/// Libraries of Python, which have no examples, are left out.
pub fn doc(shell: &Shell) -> Result<()> {
    cmd!(
        shell,
        "cargo doc --package xtask --bin xtask --no-deps --quiet"
    )
    .env("RUSTDOCFLAGS", "-D warnings")
    .run()?;
    let this = std::env::current_exe().context("where this program is")?;
    Ok(
        cmd!(shell, "cargo test {EVERYTHING...} --doc --no-fail-fast")
            .env("RUSTDOC", this)
            .env(AS_RUSTDOC, shell.current_dir().join("target/doc"))
            .run()?,
    )
}

/// Whether cargo has called this program as rustdoc; how that ended.
pub fn as_rustdoc() -> Option<Result<()>> {
    let folder = std::env::var_os(AS_RUSTDOC)?;
    let given: Vec<String> = std::env::args().skip(1).collect();
    Some(documented_and_run(Path::new(&folder), &given))
}

fn documented_and_run(folder: &Path, given: &[String]) -> Result<()> {
    if let Some(arguments) = without_examples(given) {
        let folder = ["--out-dir".as_ref(), folder.as_os_str()];
        rustdoc(
            Command::new("rustdoc")
                .args(arguments)
                .args(["-D", "warnings"])
                .args(folder),
        )?;
    }
    rustdoc(Command::new("rustdoc").args(given))
}

fn rustdoc(command: &mut Command) -> Result<()> {
    let ended = command.env_remove(AS_RUSTDOC).status();
    let ended = ended.context("rustdoc does not start")?;
    match ended.success() {
        true => Ok(()),
        false => bail!("rustdoc failed, {ended}"),
    }
}

/// Arguments that document a crate, of those that run its examples; `None` for others.
fn without_examples(given: &[String]) -> Option<Vec<&str>> {
    given.iter().find(|argument| *argument == "--test")?;
    let mut given = given.iter().map(String::as_str);
    let mut arguments = Vec::new();
    while let Some(argument) = given.next() {
        match argument {
            "--test" => {}
            of_examples if OF_EXAMPLES.contains(&of_examples) => drop(given.next()),
            other => arguments.push(other),
        }
    }
    Some(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_documented_as_its_examples_are_run() {
        let given = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let run = given(
            "--edition=2024 --crate-name a --test src/lib.rs --test-run-directory /r --extern b=c",
        );
        let documents = [
            "--edition=2024",
            "--crate-name",
            "a",
            "src/lib.rs",
            "--extern",
            "b=c",
        ];
        assert_eq!(without_examples(&run).unwrap(), documents);
        assert_eq!(without_examples(&given("-vV")), None);
    }

    #[test]
    fn a_wrong_link_fails_and_a_right_one_leaves_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let documents = |link: &str| {
            let source = folder.path().join("lib.rs");
            std::fs::write(
                &source,
                format!("//! See [`{link}`].\n/// One.\npub fn one() {{}}\n"),
            )
            .unwrap();
            let given = [
                "--edition=2024",
                "--crate-type",
                "lib",
                "--crate-name",
                "linked",
            ];
            let mut given: Vec<_> = given.map(str::to_owned).into();
            given.extend([source.display().to_string(), "--test".to_owned()]);
            documented_and_run(&folder.path().join("doc"), &given)
        };
        documents("one").unwrap();
        assert!(folder.path().join("doc/linked/index.html").exists());
        assert!(documents("two").is_err());
    }
}
