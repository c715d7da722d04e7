//! `cargo xtask deb` and `cargo xtask wheel`: packages of this repository, in `target/packages`.
//!
//! Each builds with a profile of cargo and packs the result. `cargo xtask test` packs what the
//! tests have built, installs it and tries it: steps `debian` and `python`.

mod deb;
mod stage;
mod trial;

use crate::everything::{build_tests, libraries};
use crate::wheel::{ENGINE, MODEL, install};
use anyhow::{Context, Result, bail, ensure};
use stage::Content;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Folder of finished packages.
const OUT: &str = "target/packages";
/// The profile of packages for users.
const PROFILE: &str = "dist";

const USAGE: &str = "usage: cargo xtask deb [--profile NAME | --binary FILE --libraries FOLDER] \
                     [--try]\n\
                     \x20      cargo xtask wheel [--model] [--profile NAME]";

/// What the arguments of `deb` and `wheel` say.
#[derive(Debug, Default, PartialEq)]
struct Args {
    profile: Option<String>,
    /// A program that was built before, instead of building one.
    binary: Option<PathBuf>,
    /// The folder with the C libraries of that build.
    libraries: Option<PathBuf>,
    /// Also install the packages in an empty system.
    tries: bool,
    /// The wheel of the model alone.
    model: bool,
}

impl Args {
    fn parse(words: &[String]) -> Result<Args> {
        let mut args = Args::default();
        let mut words = words.iter();
        while let Some(name) = words.next() {
            match name.as_str() {
                "--try" => {
                    args.tries = true;
                    continue;
                }
                "--model" => {
                    args.model = true;
                    continue;
                }
                _ => {}
            }
            let value = words.next();
            let value = value.with_context(|| format!("{name} has no value\n{USAGE}"))?;
            match name.as_str() {
                "--profile" => args.profile = Some(value.clone()),
                "--binary" => args.binary = Some(value.into()),
                "--libraries" => args.libraries = Some(value.into()),
                _ => bail!("unknown option {name}\n{USAGE}"),
            }
        }
        ensure!(
            args.binary.is_some() == args.libraries.is_some(),
            "--binary and --libraries go together\n{USAGE}"
        );
        ensure!(
            args.binary.is_none() || args.profile.is_none(),
            "--profile is for building, which --binary replaces\n{USAGE}"
        );
        Ok(args)
    }

    fn profile(&self) -> &str {
        self.profile.as_deref().unwrap_or(PROFILE)
    }
}

/// Whether this is a command that makes a package, and not a step; runs it then.
pub fn run(shell: &Shell, words: &[String]) -> Option<Result<()>> {
    let (command, rest) = words.split_first()?;
    match command.as_str() {
        "deb" => Some(Args::parse(rest).and_then(|args| debs(shell, &args))),
        "wheel" => Some(Args::parse(rest).and_then(|args| wheel(shell, &args))),
        _ => None,
    }
}

fn debs(shell: &Shell, args: &Args) -> Result<()> {
    ensure!(!args.model, "--model is for wheel\n{USAGE}");
    let content = match (&args.binary, &args.libraries) {
        (Some(binary), Some(libraries)) => Content::of(shell, binary, libraries)?,
        _ => built(shell, args.profile())?,
    };
    let out = shell.current_dir().join(OUT);
    let packages = deb::pack(shell, &content, "-Zxz", &out)?;
    for package in &packages {
        eprintln!("made {}", package.display());
    }
    if args.tries {
        trial::lintian(shell, &packages)?;
        trial::try_packages(shell, &packages)?;
    }
    Ok(())
}

/// Builds the program and the C libraries.
fn built(shell: &Shell, profile: &str) -> Result<Content> {
    let what = ["--package", "tierloom", "--features", "tierloom/serve"];
    let libraries = ["--package", "tierloom-capi"];
    cmd!(
        shell,
        "cargo build --locked --profile {profile} {what...} {libraries...}"
    )
    .run()?;
    let folder = match profile {
        "dev" => Path::new("target/debug").to_path_buf(),
        other => Path::new("target").join(other),
    };
    Content::of(shell, &folder.join("tierloom"), &folder)
}

fn wheel(shell: &Shell, args: &Args) -> Result<()> {
    ensure!(
        args.binary.is_none() && !args.tries,
        "--binary, --libraries and --try are for deb\n{USAGE}"
    );
    let python = install(shell)?;
    let maturin = python.with_file_name("maturin");
    let profile = args.profile();
    let package = if args.model { MODEL } else { ENGINE };
    let build = cmd!(
        shell,
        "{maturin} build --locked --profile {profile} --out {OUT}"
    );
    Ok(build.args(["--manifest-path", &package.manifest()]).run()?)
}

/// Packs what the tests' build has made, installs it in an empty system, tries it and removes it.
pub fn debian(shell: &Shell) -> Result<()> {
    // Also builds the program and the libraries, if `tests` did not.
    build_tests(shell, &["programs", "predict_cli"])?;
    let root = shell.current_dir();
    let program = root.join("target/debug/tierloom");
    let content = Content::of(shell, &program, &libraries(shell)?)?;
    let out = root.join("target/deb/tested");
    // Compressing takes longer than everything else.
    let packages = deb::pack(shell, &content, "-Zgzip -z1", &out)?;
    trial::try_packages(shell, &packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Args::parse(&words)
    }

    #[test]
    fn arguments_say_what_to_build_or_what_was_built() {
        assert_eq!(parse(&[]).unwrap().profile(), "dist");
        assert_eq!(parse(&["--profile", "dev"]).unwrap().profile(), "dev");
        let model = parse(&["--model", "--profile", "dev"]).unwrap();
        assert!(model.model && model.profile() == "dev");
        let both = parse(&["--binary", "b", "--libraries", "l"]).unwrap();
        assert_eq!(both.binary, Some(PathBuf::from("b")));
        for (words, part) in [
            (&["--profile"][..], "no value"),
            (&["--porfile", "dev"], "unknown option --porfile"),
            (&["--binary", "b"], "go together"),
            (
                &["--binary", "b", "--libraries", "l", "--profile", "dev"],
                "for building",
            ),
        ] {
            let told = parse(words).unwrap_err().to_string();
            assert!(told.contains(part) && told.contains("usage"), "{told}");
        }
    }
}
