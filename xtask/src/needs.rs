//! Checks that the programs that the tests use are installed.

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

/// Installs missing packages if that is possible without asking (root on Debian), or names them in
/// an error.
pub fn needs(shell: &Shell) -> Result<()> {
    disk(shell)?;
    // A command that succeeds if the program is there, and the package that contains it.
    let missing: Vec<&str> = [
        ("command -v cc", "gcc"),
        ("command -v c++", "g++"),
        ("command -v python3", "python3"),
        ("python3 -c 'import ensurepip, venv'", "python3-venv"),
        ("command -v chromium", "chromium"),
        ("command -v ip", "iproute2"),
        ("command -v openssl", "openssl"),
        ("command -v apt-get", "apt"),
        ("command -v dpkg", "dpkg"),
        ("command -v dpkg-buildpackage", "dpkg-dev"),
        ("command -v dh", "debhelper"),
        ("command -v fakeroot", "fakeroot"),
    ]
    .into_iter()
    .filter(|(look, _)| {
        cmd!(shell, "sh -c")
            .arg(look)
            .quiet()
            .ignore_stdout()
            .ignore_stderr()
            .run()
            .is_err()
    })
    .map(|(_, package)| package)
    .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let root = cmd!(shell, "id -u")
        .quiet()
        .read()
        .is_ok_and(|id| id.trim() == "0");
    if !root {
        bail!(
            "packages are missing; install them with: sudo apt-get install {}",
            missing.join(" ")
        );
    }
    eprintln!("installing {}", missing.join(" "));
    cmd!(shell, "apt-get update -q").run()?;
    cmd!(shell, "apt-get install -y -q --no-install-recommends")
        .args(missing)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()?;
    Ok(())
}

/// What the steps up to `tests` write into an empty `target` (12 GB on 2026-11-27), with some room
/// for temporary files. The steps after it have the room of test binaries if they need it.
const DISK_GIB: u64 = 14;

/// What is free on the disk of this repository.
///
/// # Errors
/// `df` does not say.
pub fn free_gib(shell: &Shell) -> Result<u64> {
    let free = cmd!(shell, "df --output=avail --block-size=1G .")
        .quiet()
        .read()?;
    Ok(free.lines().last().unwrap_or("").trim().parse()?)
}

/// Fails before the long builds if they could not end for want of disk.
///
/// A `target` that has something in it needs less: it is not judged.
fn disk(shell: &Shell) -> Result<()> {
    if shell.path_exists("target/debug/deps") {
        return Ok(());
    }
    let free_gib = free_gib(shell)?;
    if free_gib < DISK_GIB {
        bail!(
            "all tests need {DISK_GIB} GiB of disk below target, and {free_gib} GiB are free; \
             free some first"
        );
    }
    Ok(())
}
