//! Calls of apt-get, apt-cache and dpkg with a private apt state, and parsers for their outputs.

use std::fs;
use std::path::{Path, PathBuf};

use super::sources::{FALLBACK_MIRROR, KEYRING, Mirror, Release, apt_conf, sources_list};
use crate::LabError;
use crate::host::{Finished, Host, Invocation, call};

const APT_FIX: &str = "the lab takes its packages with apt; install it, or run the lab on Debian";
const PARTS_OF_KERNEL: [&str; 3] = ["linux-binary-", "linux-modules-", "linux-base-"];
const DPKG_FIX: &str = "run: apt-get install dpkg";

/// A private apt state, all in one folder.
pub(super) struct Apt<'a> {
    pub(super) host: &'a mut dyn Host,
    pub(super) dir: PathBuf,
    pub(super) release: Release,
}

/// One package: the file name of its archive, and its name with version for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) archive: String,
    pub(super) label: String,
}

impl Apt<'_> {
    /// The folder of downloaded archives.
    ///
    /// They stay there until the kit is complete, so that an interrupted download resumes.
    pub(super) fn archives(&self) -> PathBuf {
        self.dir.join("cache/archives")
    }

    /// Writes the configuration and reads the package lists from the first mirror that works.
    pub(super) fn update(
        &mut self,
        mirrors: &[Mirror],
        progress: &mut dyn FnMut(&str),
    ) -> Result<Mirror, LabError> {
        self.write_state()?;
        let mut candidates = mirrors.to_vec();
        if candidates
            .iter()
            .all(|mirror| mirror.uri.trim_end_matches('/') != FALLBACK_MIRROR)
        {
            candidates.push(Mirror::plain(FALLBACK_MIRROR));
        }
        let keyring = Path::new(KEYRING).exists().then_some(KEYRING);
        let mut failures = Vec::new();
        for mirror in &candidates {
            let path = self.dir.join("sources.list");
            fs::write(&path, sources_list(&self.release, mirror, keyring))
                .map_err(LabError::io("write", &path))?;
            progress(&format!(
                "reading package lists of {} from {}",
                self.release.target(),
                mirror.uri
            ));
            let finished = self.apt("apt-get", &["update", "-q"])?;
            if finished.success {
                return Ok(mirror.clone());
            }
            failures.push(finished.detail());
        }
        Err(self.download_error(
            "read Debian's package lists",
            &candidates,
            failures.join("\n"),
        ))
    }

    /// The packages that installing `name` on an empty system would install, itself included.
    pub(super) fn closure(
        &mut self,
        name: &str,
        mirror: &Mirror,
    ) -> Result<Vec<Package>, LabError> {
        let target = self.release.target();
        let finished = self.apt(
            "apt-get",
            &["install", "-q", "--simulate", "-t", &target, name],
        )?;
        let packages = parse_simulation(&finished.stdout);
        if !finished.success || packages.is_empty() {
            return Err(self.download_error(
                &format!("find the package {name} in {target}"),
                std::slice::from_ref(mirror),
                finished.detail(),
            ));
        }
        Ok(packages)
    }

    /// The packages of the kernel that the meta package `name` depends on, its image first.
    ///
    /// Their names change with each version. From Linux 7 on, Debian's image is empty and depends
    /// on packages with the kernel, its modules, and the list of modules that it has built in.
    pub(super) fn kernel_behind(
        &mut self,
        name: &str,
        mirror: &Mirror,
    ) -> Result<Vec<String>, LabError> {
        let mut kernel = self.depends(name, &["linux-image-"], mirror)?;
        kernel.truncate(1);
        let Some(image) = kernel.first().cloned() else {
            let detail = "apt-cache names no package of a kernel".to_owned();
            return Err(self.no_kernel(name, mirror, detail));
        };
        kernel.extend(self.depends(&image, &PARTS_OF_KERNEL, mirror)?);
        Ok(kernel)
    }

    /// The dependencies of a package whose names begin with one of these prefixes.
    fn depends(
        &mut self,
        name: &str,
        prefixes: &[&str],
        mirror: &Mirror,
    ) -> Result<Vec<String>, LabError> {
        let target = self.release.target();
        let args = ["-t", &target, "depends", "--important", name];
        let finished = self.apt("apt-cache", &args)?;
        if !finished.success {
            return Err(self.no_kernel(name, mirror, finished.detail()));
        }
        Ok(parse_depends(&finished.stdout, prefixes))
    }

    fn no_kernel(&self, name: &str, mirror: &Mirror, detail: String) -> LabError {
        let target = self.release.target();
        let action = format!("find the kernel behind {name} in {target}");
        self.download_error(&action, std::slice::from_ref(mirror), detail)
    }

    /// Downloads `name` and all its dependencies.
    pub(super) fn download_closure(&mut self, name: &str, mirror: &Mirror) -> Result<(), LabError> {
        let target = self.release.target();
        let finished = self.apt(
            "apt-get",
            &[
                "install",
                "-q",
                "-y",
                "--download-only",
                "-t",
                &target,
                name,
            ],
        )?;
        if finished.success {
            Ok(())
        } else {
            Err(self.download_error(
                &format!("download {name}"),
                std::slice::from_ref(mirror),
                finished.detail(),
            ))
        }
    }

    /// Downloads single packages without their dependencies, and returns their names.
    pub(super) fn download_only(
        &mut self,
        names: &[&str],
        mirror: &Mirror,
    ) -> Result<Vec<Package>, LabError> {
        let target = self.release.target();
        let mut args = vec!["download", "-q", "-t", &target];
        args.extend(names);
        let mut listing = args.clone();
        listing.push("--print-uris");
        // apt leaves files that exist in the working folder out of this listing, so list from
        // another folder.
        let elsewhere = self.dir.join("log");
        let listed = self.apt_in(&elsewhere, "apt-get", &listing)?;
        let packages = parse_uris(&listed.stdout);
        let finished = if listed.success && packages.len() == names.len() {
            self.apt("apt-get", &args)?
        } else {
            Finished {
                success: false,
                ..listed
            }
        };
        if finished.success {
            return Ok(packages);
        }
        Err(self.download_error(
            &format!("download {}", names.join(" and ")),
            std::slice::from_ref(mirror),
            finished.detail(),
        ))
    }

    /// Unpacks `archive` into `root`; none of the package's scripts run.
    pub(super) fn unpack(&mut self, archive: &Path, root: &Path) -> Result<(), LabError> {
        let invocation =
            Invocation::new("dpkg").args(["-x".as_ref(), archive.as_os_str(), root.as_os_str()]);
        let finished = call(self.host, &invocation, DPKG_FIX)?;
        if finished.success {
            return Ok(());
        }
        let fix = format!(
            "check the free space of {} (about 400 MB are needed), then run the same command again",
            root.display()
        );
        Err(LabError::Tool {
            command: invocation.line(),
            status: finished.status.clone(),
            detail: finished.detail(),
            fix,
        })
    }

    fn write_state(&mut self) -> Result<(), LabError> {
        for dir in ["state/lists/partial", "cache/archives/partial", "log"] {
            let path = self.dir.join(dir);
            fs::create_dir_all(&path).map_err(LabError::io("create", &path))?;
        }
        let acquire = call(
            self.host,
            &Invocation::new("apt-config").args(["dump", "Acquire"]),
            APT_FIX,
        )?
        .stdout;
        for (name, text) in [
            ("apt.conf", apt_conf(&self.dir, &acquire)),
            ("status", String::new()),
        ] {
            let path = self.dir.join(name);
            fs::write(&path, text).map_err(LabError::io("write", &path))?;
        }
        Ok(())
    }

    fn apt(&mut self, program: &str, args: &[&str]) -> Result<Finished, LabError> {
        let archives = self.archives();
        self.apt_in(&archives, program, args)
    }

    fn apt_in(&mut self, dir: &Path, program: &str, args: &[&str]) -> Result<Finished, LabError> {
        let invocation = Invocation::new(program)
            .args(args)
            .env("APT_CONFIG", self.dir.join("apt.conf"))
            .env("DEBIAN_FRONTEND", "noninteractive")
            .cwd(dir);
        call(self.host, &invocation, APT_FIX)
    }

    fn download_error(&self, action: &str, mirrors: &[Mirror], detail: String) -> LabError {
        LabError::Download {
            action: action.into(),
            mirrors: mirrors.iter().map(|mirror| mirror.uri.clone()).collect(),
            detail,
        }
    }
}

/// Parses the `Inst name (version origin [arch])` lines of a simulated install.
fn parse_simulation(text: &str) -> Vec<Package> {
    let parse = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
        let inner = rest.split_once('(')?.1.split(')').next()?;
        let version = inner.split_whitespace().next()?;
        let arch = inner.rsplit_once('[')?.1.split(']').next()?;
        // apt escapes the colon of an epoch in archive names.
        let archive = format!("{name}_{}_{arch}.deb", version.replace(':', "%3a"));
        Some(Package {
            archive,
            label: format!("{name} {version}"),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Parses the `'uri' archive size checksum` lines of `--print-uris`.
fn parse_uris(text: &str) -> Vec<Package> {
    let parse = |line: &str| {
        let archive = line
            .strip_prefix('\'')?
            .split_once("' ")?
            .1
            .split_whitespace()
            .next()?;
        let mut parts = archive.strip_suffix(".deb")?.split('_');
        let label = format!("{} {}", parts.next()?, parts.next()?.replace("%3a", ":"));
        Some(Package {
            archive: archive.to_owned(),
            label,
        })
    };
    text.lines().filter_map(parse).collect()
}

/// The dependencies in apt-cache's output that begin with one of the prefixes.
fn parse_depends(text: &str, prefixes: &[&str]) -> Vec<String> {
    let names = text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches('|');
        Some(line.strip_prefix("Depends:")?.trim())
    });
    let of_kernel = names.filter(|name| prefixes.iter().any(|p| name.starts_with(p)));
    of_kernel.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_in_a_version_does_not_lose_the_archive() {
        let text = "NOTE: x\nInst gcc (12 Debian:12 [amd64]) []\nInst libattr1 (1:2.5.1-4 Debian:12.12/oldstable [amd64]) []\nInst seabios [1.0] (1.16.3-2~bpo12+1 Debian Backports:stable-backports [all])\nConf libattr1 (1:2.5.1-4 Debian:12 [amd64])\n";
        let archives: Vec<String> = parse_simulation(text)
            .into_iter()
            .map(|package| package.archive)
            .collect();
        assert_eq!(
            archives,
            [
                "gcc_12_amd64.deb",
                "libattr1_1%3a2.5.1-4_amd64.deb",
                "seabios_1.16.3-2~bpo12+1_all.deb"
            ]
        );
    }

    #[test]
    fn uri_listings_give_archives_and_labels() {
        let text = "'http://m/pool/b/busybox-static_1.35.0_amd64.deb' busybox-static_1%3a1.35.0_amd64.deb 928 SHA256:ab\nnoise\n'cut\n";
        assert_eq!(
            parse_uris(text),
            [Package {
                archive: "busybox-static_1%3a1.35.0_amd64.deb".into(),
                label: "busybox-static 1:1.35.0".into()
            }]
        );
    }

    #[test]
    fn the_kernel_behind_the_meta_package_is_found() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-base\n |Depends: linux-image-6.12.95+deb12-cloud-amd64\n";
        assert_eq!(
            parse_depends(text, &["linux-image-"]),
            ["linux-image-6.12.95+deb12-cloud-amd64"]
        );
        assert!(parse_depends("", &["linux-image-"]).is_empty());
    }
}
