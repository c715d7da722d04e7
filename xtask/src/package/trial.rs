//! Installs the packages in an empty system, uses them, removes them, and looks for what is left.

use crate::notes;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tierloom_testing::{Kind, Note};
use xshell::{Shell, cmd};

const OURS: [&str; 3] = ["tierloom", "libtierloom-c-dev", "libtierloom-c0"];

/// Installs, uses and removes the packages.
pub(super) fn try_packages(shell: &Shell, packages: &[PathBuf]) -> Result<()> {
    // Files of packages belong to root, and so does changing the root directory.
    if cmd!(shell, "id -u").quiet().read()? != "0" {
        let why = "only root can install packages in a system of its own";
        return note(shell, Kind::LeftOut, why);
    }
    let root = shell.current_dir().join("target/deb/root");
    shell.remove_path(&root)?;
    let system = System { shell, root };
    system.make(packages)?;
    let before = system.files()?;
    system.dpkg("--install", packages.iter().map(PathBuf::as_path))?;
    system.programs_run()?;
    system.pages_and_completions_are_there()?;
    system.programs_of_c_are_compiled()?;
    system.dpkg("--purge", OURS.iter().map(Path::new))?;
    let after = system.files()?;
    let left: Vec<_> = after.symmetric_difference(&before).collect();
    ensure!(left.is_empty(), "left behind or lost: {left:?}");
    Ok(())
}

fn note(shell: &Shell, kind: Kind, why: &str) -> Result<()> {
    eprintln!("{why}");
    Ok(Note::new(kind, "xtask debian", why).append(&notes::file(shell))?)
}

/// Whether a program of the Debian package of its name is there; it is noted if not.
fn is_installed(shell: &Shell, program: &str) -> Result<bool> {
    let version = cmd!(shell, "{program} --version").quiet().ignore_stdout();
    let found = version.run().is_ok();
    if !found {
        let why = format!("{program} is not installed (Debian: {program})");
        note(shell, Kind::LeftOut, &why)?;
    }
    Ok(found)
}

/// Checks the packages with lintian if it is there.
///
/// It takes minutes for a program that was built for tests, which is far larger than one for
/// users.
pub(super) fn lintian(shell: &Shell, packages: &[PathBuf]) -> Result<()> {
    if !is_installed(shell, "lintian")? {
        return Ok(());
    }
    // A root that builds for itself is what lintian warns of.
    Ok(cmd!(
        shell,
        "lintian --allow-root --fail-on error,warning {packages...}"
    )
    .run()?)
}

/// A system with the libraries of C and nothing else.
struct System<'a> {
    shell: &'a Shell,
    root: PathBuf,
}

impl System<'_> {
    fn make(&self, packages: &[PathBuf]) -> Result<()> {
        let (shell, root) = (self.shell, &self.root);
        for folder in ["usr/lib64", "usr/lib", "usr/bin", "usr/sbin", "tmp"] {
            shell.create_dir(root.join(folder))?;
        }
        // Of another package, so that dpkg does not remove the folder with the last program in it.
        shell.write_file(root.join("usr/bin/other"), "")?;
        for name in ["lib", "lib64", "bin", "sbin"] {
            let (to, from) = (format!("usr/{name}"), root.join(name));
            cmd!(shell, "ln -s {to} {from}").quiet().run()?;
        }
        for folder in ["info", "updates", "triggers"] {
            shell.create_dir(root.join("var/lib/dpkg").join(folder))?;
        }
        // Packages that ours depend on, as they are on this machine: dpkg checks their versions.
        let mut status = String::new();
        for name in dependencies(shell, packages)? {
            let stanza = cmd!(shell, "dpkg-query --status {name}").quiet().read()?;
            status += &format!("{stanza}\n\n");
        }
        shell.write_file(root.join("var/lib/dpkg/status"), status)?;
        self.libraries()
    }

    /// Copies the libraries that programs of this machine use.
    fn libraries(&self) -> Result<()> {
        let (shell, binary) = (self.shell, "target/debug/tierloom");
        let binary = if shell.path_exists(binary) {
            binary
        } else {
            "/usr/bin/env"
        };
        let used = cmd!(shell, "ldd {binary}").quiet().read()?;
        // Also for programs of C that use the library alone.
        let more = [
            "libm.so.6",
            "libdl.so.2",
            "libpthread.so.0",
            "libgcc_s.so.1",
            "libc.so.6",
        ];
        let named = cmd!(shell, "ldconfig -p").quiet().read()?;
        let more = more.iter().filter_map(|name| {
            let line = named
                .lines()
                .find(|line| line.trim().starts_with(&format!("{name} ")))?;
            Some(line.split("=> ").nth(1)?.to_owned())
        });
        let paths = used.lines().filter_map(|line| {
            let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
            Some(path.to_owned())
        });
        for path in paths.chain(more) {
            let to = self.root.join(path.trim_start_matches('/'));
            shell.create_dir(to.parent().context("a library without a folder")?)?;
            cmd!(shell, "cp --dereference {path} {to}").quiet().run()?;
        }
        Ok(())
    }

    fn dpkg<'p>(&self, action: &str, what: impl Iterator<Item = &'p Path>) -> Result<()> {
        let root = &self.root;
        let done = cmd!(self.shell, "dpkg --root={root} {action}")
            .args(what)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .ignore_status()
            .output()?;
        // It warns of the packages whose lists of files are not here, which is no news.
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.success(), "dpkg {action} failed:\n{told}");
        Ok(())
    }

    /// Output of a program inside.
    fn inside(&self, words: &[&str]) -> Result<String> {
        let root = &self.root;
        Ok(cmd!(self.shell, "chroot {root}")
            .args(words)
            .quiet()
            .read()?)
    }

    fn programs_run(&self) -> Result<()> {
        let said = self.inside(&["/usr/bin/tierloom", "--version"])?;
        ensure!(said.starts_with("tierloom "), "--version says {said:?}");
        let predict = ["predict", "--machine", "nus24", "--work", "probe", "--json"];
        let said = self.inside(&[&["/usr/bin/tierloom"][..], &predict].concat())?;
        let document: serde_json::Value = serde_json::from_str(&said)?;
        let rate = &document["predictions"][0]["result"]["tuples_per_s"]["value"];
        ensure!(
            rate.as_f64().is_some_and(|rate| rate > 0.0),
            "predict says {said}"
        );
        Ok(())
    }

    fn pages_and_completions_are_there(&self) -> Result<()> {
        let page = self.root.join("usr/share/man/man1/tierloom.1.gz");
        let text = cmd!(self.shell, "gzip -dc {page}").quiet().read()?;
        ensure!(
            text.contains("tierloom"),
            "{} is no manual page",
            page.display()
        );
        match cmd!(self.shell, "man --pager=cat --local-file {page}")
            .quiet()
            .read()
        {
            Ok(shown) => ensure!(shown.contains("SYNOPSIS"), "man shows {shown}"),
            Err(_) => note(
                self.shell,
                Kind::LeftOut,
                "man is not installed (Debian: man-db)",
            )?,
        }
        for file in [
            "usr/share/bash-completion/completions/tierloom",
            "usr/share/zsh/vendor-completions/_tierloom",
            "usr/share/fish/vendor_completions.d/tierloom.fish",
            "usr/share/doc/tierloom/copyright",
            "usr/share/doc/tierloom/NOTICE",
        ] {
            ensure!(self.root.join(file).is_file(), "{file} was not installed");
        }
        Ok(())
    }

    /// The example with the headers and the file of pkg-config that were installed.
    fn programs_of_c_are_compiled(&self) -> Result<()> {
        let (shell, root) = (self.shell, &self.root);
        if !is_installed(shell, "pkg-config")? {
            return Ok(());
        }
        let multiarch = cmd!(shell, "dpkg-architecture -qDEB_HOST_MULTIARCH")
            .quiet()
            .read()?;
        let folder = root.join("usr/lib").join(multiarch).join("pkgconfig");
        let flags = cmd!(shell, "pkg-config --cflags --libs tierloom")
            // What is left out because a compiler looks there anyway would be on this machine.
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1")
            .env("PKG_CONFIG_LIBDIR", folder)
            .env("PKG_CONFIG_SYSROOT_DIR", root)
            .read()?;
        let program = root.join("tmp/predict");
        cmd!(
            shell,
            "cc -std=c11 -Wall -Werror examples/c/predict.c -o {program}"
        )
        .args(flags.split_whitespace())
        .run()?;
        let said = self.inside(&["/tmp/predict"])?;
        ensure!(said.contains("rows/s"), "the example says {said}");
        shell.remove_path(&program)?;
        Ok(())
    }

    /// All files but dpkg's own.
    fn files(&self) -> Result<BTreeSet<String>> {
        let _inside = self.shell.push_dir(&self.root);
        let found = cmd!(self.shell, "find . -not -path ./var/*")
            .quiet()
            .read()?;
        Ok(found.lines().map(str::to_owned).collect())
    }
}

/// Names of the other packages that these depend on.
fn dependencies(shell: &Shell, packages: &[PathBuf]) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for package in packages {
        let depends = cmd!(shell, "dpkg-deb --field {package} Depends")
            .quiet()
            .read()?;
        let first = depends
            .split(',')
            .filter_map(|one| one.split_whitespace().next());
        names.extend(first.map(str::to_owned));
    }
    names.retain(|name| !OURS.contains(&name.as_str()));
    ensure!(
        names.contains("libc6"),
        "dependencies were not computed: {names:?}"
    );
    Ok(names)
}
