//! The folder that debhelper packs: what cargo built, and what the program says about itself.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// What is packed.
pub(super) struct Content {
    /// The program.
    pub binary: PathBuf,
    /// The C libraries.
    pub shared: PathBuf,
    pub archive: PathBuf,
}

impl Content {
    /// A program, and the libraries in a folder; all have to be there.
    pub(super) fn of(shell: &Shell, binary: &Path, libraries: &Path) -> Result<Content> {
        let root = shell.current_dir();
        let content = Content {
            binary: root.join(binary),
            shared: root.join(libraries).join("libtierloom_c.so"),
            archive: root.join(libraries).join("libtierloom_c.a"),
        };
        for file in [&content.binary, &content.shared, &content.archive] {
            ensure!(file.is_file(), "there is no {}", file.display());
        }
        Ok(content)
    }
}

/// Fills the folder `tree`.
pub(super) fn stage(shell: &Shell, content: &Content, tree: &Path) -> Result<()> {
    let staged = tree.join("staged");
    for folder in ["bin", "lib", "include", "completions", "examples", "terms"] {
        shell.create_dir(staged.join(folder))?;
    }
    cmd!(shell, "cp -r packaging/debian {tree}").run()?;
    programs(shell, content, &staged)?;
    own_words(shell, &content.binary, &staged)?;
    files(shell, &staged)?;
    let version = version(shell)?;
    let pc = shell.read_file("packaging/tierloom.pc.in")?;
    shell.write_file(
        staged.join("tierloom.pc.in"),
        pc.replace("@VERSION@", &version),
    )?;
    shell.write_file(tree.join("debian/changelog"), changelog(shell, &version)?)?;
    let copyright = copyright(shell)?;
    shell.write_file(tree.join("debian/copyright"), copyright)?;
    Ok(())
}

/// The binaries without the names for debuggers, which are most of a build for tests.
fn programs(shell: &Shell, content: &Content, staged: &Path) -> Result<()> {
    for (from, to) in [
        (&content.binary, "bin/tierloom"),
        (&content.shared, "lib/libtierloom_c.so.0"),
        (&content.archive, "lib/libtierloom_c.a"),
    ] {
        let to = staged.join(to);
        cmd!(shell, "strip --strip-debug -o {to} {from}")
            .quiet()
            .run()?;
    }
    Ok(())
}

/// Manual pages and completions, which the program makes from its arguments.
fn own_words(shell: &Shell, binary: &Path, staged: &Path) -> Result<()> {
    let man = staged.join("man");
    cmd!(shell, "{binary} manual --output {man}")
        .quiet()
        .run()?;
    for (of, file) in [
        ("bash", "tierloom"),
        ("zsh", "_tierloom"),
        ("fish", "tierloom.fish"),
    ] {
        let script = cmd!(shell, "{binary} completions {of}").quiet().output()?;
        shell.write_file(staged.join("completions").join(file), script.stdout)?;
    }
    Ok(())
}

/// Headers, examples and the terms of what is included.
fn files(shell: &Shell, staged: &Path) -> Result<()> {
    for header in shell.read_dir("crates/capi/include")? {
        shell.copy_file(header, staged.join("include"))?;
    }
    let examples = staged.join("examples");
    cmd!(
        shell,
        "cp -r examples/bench examples/papers examples/c {examples}"
    )
    .run()?;
    for (from, to) in [
        ("NOTICE", "NOTICE"),
        ("queries/TPC-EULA.txt", "terms/TPC-EULA.txt"),
        ("queries/tpch/README.md", "terms/TPC-H.md"),
        ("queries/tpcds/README.md", "terms/TPC-DS.md"),
        ("queries/ssb/README.md", "terms/SSB.md"),
    ] {
        shell.copy_file(from, staged.join(to))?;
    }
    shell.write_file(staged.join("CRATES"), crates(shell)?)?;
    Ok(())
}

/// Every crate that the program and the libraries are linked with, and its licence.
fn crates(shell: &Shell) -> Result<String> {
    let tree = cmd!(shell, "cargo tree --locked --edges normal --prefix none")
        .args(["--package", "tierloom", "--features", "tierloom/serve"])
        .args(["--package", "tierloom-capi", "--format", "{p}: {l}"])
        .quiet()
        .read()?;
    // Own crates are printed with their paths, crates that were printed before with a mark.
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    let others: BTreeSet<&str> = lines
        .filter(|line| !line.contains('/') || line.contains(": "))
        .filter(|line| !line.starts_with("tierloom"))
        .filter(|line| !line.is_empty())
        .collect();
    let mut text =
        String::from("Crates of Rust in this program and its C library, with licences:\n\n");
    for line in others {
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

fn version(shell: &Shell) -> Result<String> {
    let id = cmd!(shell, "cargo pkgid --package tierloom")
        .quiet()
        .read()?;
    let version = id
        .rsplit(['#', '@'])
        .next()
        .context("cargo gives no version")?;
    Ok(version.to_owned())
}

fn changelog(shell: &Shell, version: &str) -> Result<String> {
    let date = cmd!(shell, "git log -1 --format=%aD").quiet().read()?;
    let control = shell.read_file("packaging/debian/control")?;
    let maintainer = control
        .lines()
        .find_map(|line| line.strip_prefix("Maintainer: "))
        .context("packaging/debian/control names no maintainer")?;
    Ok(format!(
        "tierloom ({version}) unstable; urgency=medium\n\n  * Packed from the sources of this \
         version.\n\n -- {maintainer}  {date}\n"
    ))
}

/// The copyright file: its frame, with the text of NOTICE in its comment.
fn copyright(shell: &Shell) -> Result<String> {
    let notice = shell.read_file("NOTICE")?;
    let lines = notice.trim().lines().map(|line| match line.trim() {
        "" => " .".to_owned(),
        _ => format!(" {line}"),
    });
    let notice: Vec<String> = lines.collect();
    let frame = shell.read_file("packaging/copyright.in")?;
    Ok(frame.replace("@NOTICE@", &notice.join("\n")))
}
