//! Checks that the programs that the tests use are installed.

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

/// Installs missing packages if that is possible without asking (root on Debian), or names them in
/// an error.
pub fn needs(shell: &Shell) -> Result<()> {
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
