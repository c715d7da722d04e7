//! The programs that the tests use.

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

/// Installs what is missing where that needs no question (root on Debian), or names the packages.
pub fn needs(shell: &Shell) -> Result<()> {
    let missing: Vec<&str> = [
        ("cc", "gcc"),
        ("c++", "g++"),
        ("python3", "python3"),
        ("chromium", "chromium"),
        ("ip", "iproute2"),
        ("openssl", "openssl"),
        ("apt-get", "apt"),
        ("dpkg", "dpkg"),
    ]
    .into_iter()
    .filter(|(program, _)| {
        cmd!(shell, "sh -c")
            .arg(format!("command -v {program}"))
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
