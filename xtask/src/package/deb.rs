//! Debian packages: debhelper packs a folder in which everything is built already.

use super::stage::{Content, stage};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Makes the packages and returns their paths in `out`.
pub(super) fn pack(
    shell: &Shell,
    content: &Content,
    compression: &str,
    out: &Path,
) -> Result<Vec<PathBuf>> {
    let folder = shell.current_dir().join("target/deb/build");
    shell.remove_path(&folder)?;
    let tree = folder.join("tierloom");
    stage(shell, content, &tree)?;
    {
        let _inside = shell.push_dir(&tree);
        let built = cmd!(shell, "dpkg-buildpackage --build=binary --no-sign")
            .env("COMPRESSION", compression)
            // debhelper marks files as changed at the time of the last entry of the changelog.
            .env("LC_ALL", "C.UTF-8")
            .quiet()
            .output();
        let built = built.context(
            "the packages cannot be made; they need apt-get install debhelper dpkg-dev fakeroot",
        )?;
        let told = String::from_utf8_lossy(&built.stderr).into_owned();
        ensure!(built.status.success(), "dpkg-buildpackage failed:\n{told}");
    }
    shell.create_dir(out)?;
    let mut packages = Vec::new();
    for file in shell.read_dir(&folder)? {
        if file.extension().is_some_and(|ending| ending == "deb") {
            shell.copy_file(&file, out)?;
            packages.push(out.join(file.file_name().context("a file without a name")?));
        }
    }
    ensure!(
        packages.len() == 3,
        "expected three packages, made {packages:?}"
    );
    // Ten times as large as the packages. After a failure it stays, to look for the cause.
    shell.remove_path(&folder)?;
    Ok(packages)
}
