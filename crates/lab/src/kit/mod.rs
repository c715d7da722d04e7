//! The kit: QEMU with its libraries, a kernel with its modules, and a static busybox, unpacked from
//! Debian packages.
//!
//! QEMU runs with the kit's own libraries and loader, so the host needs neither QEMU nor a matching
//! C library. The kit appears in the cache by one rename, so an interrupted preparation never
//! leaves half of one behind.
//!
//! ```text
//!  <cache>/apt/                              private apt state, kept until the kit is ready
//!  <cache>/debian-<suite>-amd64-v1.partial/  being unpacked; the next preparation removes it
//!  <cache>/debian-<suite>-amd64-v1/          a complete kit
//! ```

mod apt;
mod sources;

#[cfg(test)]
mod tests;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::host::{Host, SystemHost};
use crate::{LabCache, LabError};
use apt::{Apt, Package};
use sources::{Mirror, Release, choose_release, find_mirrors};

/// Part of the folder's name; changes when the layout of a kit changes, so that old kits are not
/// used.
const LAYOUT: &str = "v1";
const MANIFEST: &str = "packages.txt";

/// The programs and images that guests are made from, all inside one folder of the cache.
#[derive(Debug, Clone)]
pub struct Kit {
    root: PathBuf,
    pub(crate) loader: PathBuf,
    pub(crate) library_dirs: Vec<PathBuf>,
    pub(crate) qemu: PathBuf,
    pub(crate) firmware_dirs: Vec<PathBuf>,
    pub(crate) kernel: PathBuf,
    pub(crate) modules: PathBuf,
    pub(crate) busybox: PathBuf,
    packages: Vec<String>,
    /// Whether repeated boots are reported in the summary of the test run.
    for_tests: bool,
}

impl Kit {
    /// The kit's folder, a child of the cache's.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every package of the kit as `name version`, sorted.
    pub fn packages(&self) -> &[String] {
        &self.packages
    }

    /// The guest kernel's release, such as `6.12.95+deb12-cloud-amd64`.
    pub fn kernel_release(&self) -> String {
        let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
        let file = name(&self.kernel).unwrap_or_default();
        match file.strip_prefix("vmlinuz-") {
            Some(release) => release.to_owned(),
            None => name(&self.modules).unwrap_or_default(),
        }
    }

    /// QEMU's package version, such as `1:10.0.2+ds-2`.
    pub fn qemu_version(&self) -> &str {
        self.packages
            .iter()
            .find_map(|package| package.strip_prefix("qemu-system-x86 "))
            .unwrap_or("unknown")
    }

    /// The same kit, for use in tests: [`note_retry`](Kit::note_retry) then records repeated boots.
    pub(crate) fn for_tests(mut self) -> Kit {
        self.for_tests = true;
        self
    }

    /// Records, for the summary of the test run, that a guest is booted again.
    pub(crate) fn note_retry(&self, reason: &str) {
        if self.for_tests {
            tierloom_testing::retried(reason);
        }
    }

    /// The folder that all processes using this cache share, for their lock files.
    pub(crate) fn shared_dir(&self) -> &Path {
        self.root.parent().unwrap_or(&self.root)
    }

    /// A kit in which a shell script takes QEMU's place; see `run/fake_qemu.sh`.
    ///
    /// Its kernel has every module built in.
    #[cfg(test)]
    pub(crate) fn played(root: &Path, script: &str) -> Kit {
        let modules = root.join("lib/modules/1");
        fs::create_dir_all(modules.join("kernel")).unwrap();
        let built_in = ["cxl_acpi", "cxl_pci", "cxl_mem", "device_dax", "dax_cxl"];
        let built_in = built_in.map(|name| format!("kernel/{name}.ko")).join("\n");
        fs::write(modules.join("modules.builtin"), built_in).unwrap();
        let file = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("usr/bin/qemu-system-x86_64", script);
        file("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "");
        for name in ["boot/vmlinuz-1", "bin/busybox", MANIFEST] {
            file(name, "");
        }
        let mut kit = Kit::open(root).unwrap();
        kit.loader = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/run/fake_qemu.sh");
        kit
    }

    /// Opens an unpacked kit.
    ///
    /// # Errors
    /// [`LabError::IncompleteKit`] if a required file is missing.
    fn open(root: &Path) -> Result<Kit, LabError> {
        let manifest = root.join(MANIFEST);
        let packages = fs::read_to_string(&manifest).map_err(|_| missing(root, MANIFEST))?;
        let one_of = |what: &str, names: &[&str]| {
            names
                .iter()
                .map(|name| root.join(name))
                .find(|path| path.exists())
                .ok_or_else(|| missing(root, what))
        };
        let all_of = |names: &[&str]| {
            names
                .iter()
                .map(|name| root.join(name))
                .filter(|path| path.exists())
                .collect::<Vec<_>>()
        };
        // Debian 13 moved files from /lib to /usr/lib; dpkg -x makes no links between the two.
        let modules = ["lib/modules", "usr/lib/modules"]
            .iter()
            .find_map(|dir| newest(&root.join(dir), ""))
            .ok_or_else(|| missing(root, "kernel modules"))?;
        // From Linux 7 on, Debian's kernel lies beside its modules.
        let kernel = newest(&root.join("boot"), "vmlinuz-")
            .or_else(|| Some(modules.join("vmlinuz")).filter(|path| path.exists()))
            .ok_or_else(|| missing(root, "boot/vmlinuz"))?;
        Ok(Kit {
            loader: one_of(
                "dynamic loader",
                &[
                    "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
                    "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
                ],
            )?,
            library_dirs: all_of(&["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"]),
            qemu: one_of("QEMU", &["usr/bin/qemu-system-x86_64"])?,
            firmware_dirs: all_of(&["usr/share/qemu", "usr/share/seabios"]),
            kernel,
            modules,
            busybox: one_of("static busybox", &["bin/busybox", "usr/bin/busybox"])?,
            packages: packages.lines().map(str::to_owned).collect(),
            root: root.to_owned(),
            for_tests: false,
        })
    }
}

fn missing(root: &Path, what: &str) -> LabError {
    LabError::IncompleteKit {
        root: root.to_owned(),
        missing: what.to_owned(),
    }
}

/// The entry of `dir` that begins with `prefix` and comes last in name order.
fn newest(dir: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .max()
}

/// Makes sure that `cache` has a complete kit, and returns it.
///
/// The first call downloads about 75 MB of Debian packages (QEMU 10, kernel 6.12, busybox and
/// QEMU's libraries) and unpacks them (about 200 MB); later calls use no network. An interrupted
/// download resumes with the next call. `TIERLOOM_LAB_SUITE` overrides the Debian release that the
/// packages come from. No privilege is needed.
///
/// # Errors
/// [`LabError::UnsupportedHost`], [`LabError::MissingTool`], [`LabError::Download`],
/// [`LabError::Tool`], [`LabError::IncompleteKit`] and [`LabError::Io`]; each names the next step.
pub fn prepare(cache: &LabCache, progress: &mut dyn FnMut(&str)) -> Result<Kit, LabError> {
    if env::consts::ARCH != "x86_64" {
        let reason = format!(
            "guests are x86-64 and this host is {}, which is not supported yet",
            env::consts::ARCH
        );
        return Err(LabError::UnsupportedHost {
            reason,
            fix: "run the lab on an x86-64 machine".into(),
        });
    }
    let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let release = choose_release(
        &os_release,
        env::var("TIERLOOM_LAB_SUITE")
            .ok()
            .filter(|suite| !suite.is_empty())
            .as_deref(),
    )?;
    let mirrors = find_mirrors(&apt_source_files(Path::new("/etc/apt")), &release.codename);
    prepare_with(cache, &mut SystemHost, release, &mirrors, progress)
}

fn apt_source_files(etc: &Path) -> Vec<(String, String)> {
    let mut paths = vec![etc.join("sources.list")];
    if let Ok(entries) = fs::read_dir(etc.join("sources.list.d")) {
        let mut parts: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .collect();
        parts.sort();
        paths.extend(parts.into_iter().filter(|path| {
            path.extension()
                .is_some_and(|ext| ext == "list" || ext == "sources")
        }));
    }
    paths
        .into_iter()
        .filter_map(|path| {
            Some((
                path.to_string_lossy().into_owned(),
                fs::read_to_string(&path).ok()?,
            ))
        })
        .collect()
}

fn prepare_with(
    cache: &LabCache,
    host: &mut dyn Host,
    release: Release,
    mirrors: &[Mirror],
    progress: &mut dyn FnMut(&str),
) -> Result<Kit, LabError> {
    let root = cache
        .dir()
        .join(format!("debian-{}-amd64-{LAYOUT}", release.codename));
    // No lock is needed here: a complete kit never changes.
    if root.exists() {
        return Kit::open(&root);
    }
    let _lock = cache.lock(progress)?;
    // Another process may have completed the kit while this one waited for the lock.
    if root.exists() {
        return Kit::open(&root);
    }
    let mut apt = Apt {
        host,
        dir: cache.dir().join("apt"),
        release,
    };
    let packages = download(&mut apt, mirrors, progress)?;
    let partial = root.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)
            .map_err(LabError::io("remove a half-made kit in", &partial))?;
    }
    fs::create_dir_all(&partial).map_err(LabError::io("create", &partial))?;
    progress(&format!(
        "unpacking {} packages into {}",
        packages.len(),
        root.display()
    ));
    for package in &packages {
        apt.unpack(&apt.archives().join(&package.archive), &partial)?;
    }
    let mut labels: Vec<&str> = packages
        .iter()
        .map(|package| package.label.as_str())
        .collect();
    labels.sort_unstable();
    labels.dedup();
    let manifest = partial.join(MANIFEST);
    fs::write(&manifest, labels.join("\n") + "\n").map_err(LabError::io("write", &manifest))?;
    // Check the kit before the rename makes it visible to other processes.
    Kit::open(&partial)?;
    fs::rename(&partial, &root).map_err(LabError::io("put in place", &root))?;
    // The archives are not needed any more; if removing them fails, only disk space is lost.
    let _ = fs::remove_dir_all(&apt.dir);
    let kit = Kit::open(&root)?;
    progress(&format!(
        "the lab is ready: QEMU {}, Linux {}",
        kit.qemu_version(),
        kit.kernel_release()
    ));
    Ok(kit)
}

fn download(
    apt: &mut Apt<'_>,
    mirrors: &[Mirror],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Package>, LabError> {
    let mirror = apt.update(mirrors, progress)?;
    let kernel = apt.kernel_behind("linux-image-cloud-amd64", &mirror)?;
    let mut packages = apt.closure("qemu-system-x86", &mirror)?;
    progress(&format!(
        "downloading QEMU with its libraries ({} packages, about 40 MB)",
        packages.len()
    ));
    apt.download_closure("qemu-system-x86", &mirror)?;
    progress(&format!(
        "downloading {} and busybox-static (about 35 MB)",
        kernel[0]
    ));
    let mut names: Vec<&str> = kernel.iter().map(String::as_str).collect();
    names.push("busybox-static");
    packages.extend(apt.download_only(&names, &mirror)?);
    Ok(packages)
}
