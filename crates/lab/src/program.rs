//! Programs under test: finding their shared libraries, and stripping them before they go into a
//! guest.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::LabError;
use crate::host::{Host, Invocation, call};

/// Programs larger than this are stripped of symbols first: while the kernel unpacks the initramfs,
/// the guest's memory holds them twice.
const STRIP_ABOVE_BYTES: u64 = 4 << 20;

/// The shared libraries and the loader that a dynamic program needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Linkage {
    /// `(soname, file on the host)`
    pub(crate) libraries: Vec<(String, PathBuf)>,
    /// The dynamic loader, at the path that the program's ELF header names.
    pub(crate) loader: Option<PathBuf>,
}

/// Whether `path` begins with the ELF magic number.
pub(crate) fn is_elf(path: &Path) -> Result<bool, LabError> {
    let mut magic = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4).read_to_end(&mut magic))
        .map_err(LabError::io("read", path))?;
    Ok(magic == b"\x7fELF")
}

/// The permission bits of `path`.
pub(crate) fn mode(path: &Path) -> Result<u32, LabError> {
    Ok(fs::metadata(path)
        .map_err(LabError::io("stat", path))?
        .permissions()
        .mode()
        & 0o777)
}

/// The libraries that `path` is linked against, from `ldd`.
///
/// Libraries that it opens with `dlopen` are not found.
pub(crate) fn linkage(host: &mut dyn Host, path: &Path) -> Result<Linkage, LabError> {
    let finished = call(
        host,
        &Invocation::new("ldd").args([path]),
        "run: apt-get install libc-bin",
    )?;
    let is_static = finished.stderr.contains("not a dynamic executable")
        || finished.stdout.contains("statically linked");
    if is_static {
        return Ok(Linkage::default());
    }
    if !finished.success {
        return Err(LabError::Program {
            path: path.to_owned(),
            reason: format!("ldd failed: {}", finished.detail()),
        });
    }
    parse_ldd(&finished.stdout).map_err(|reason| LabError::Program {
        path: path.to_owned(),
        reason,
    })
}

fn parse_ldd(text: &str) -> Result<Linkage, String> {
    let mut linkage = Linkage::default();
    for line in text.lines().map(str::trim) {
        let without_address = line
            .rsplit_once(" (0x")
            .map_or(line, |(before, _)| before)
            .trim();
        match without_address.split_once(" => ") {
            Some((name, "not found")) => {
                return Err(format!(
                    "its library {name} is not on this host; install it or set LD_LIBRARY_PATH"
                ));
            }
            Some((name, file)) if name.starts_with('/') => {
                linkage.loader = Some(if file.starts_with('/') {
                    name.into()
                } else {
                    file.into()
                })
            }
            Some((name, file)) if file.starts_with('/') => {
                linkage.libraries.push((name.to_owned(), file.into()))
            }
            None if without_address.starts_with('/') => {
                linkage.loader = Some(without_address.into())
            }
            // The kernel's vDSO (linux-vdso.so.1), which is no file, and empty lines.
            _ => {}
        }
    }
    Ok(linkage)
}

/// A copy of `path` without symbols, in `scratch`, if the file is large and `strip` works; else
/// `path` itself.
pub(crate) fn stripped(
    host: &mut dyn Host,
    path: &Path,
    scratch: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<PathBuf, LabError> {
    let size = fs::metadata(path)
        .map_err(LabError::io("stat", path))?
        .len();
    if size <= STRIP_ABOVE_BYTES {
        return Ok(path.to_owned());
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    let copy = scratch.join(name);
    let invocation = Invocation::new("strip").args([
        "--strip-all".as_ref(),
        "-o".as_ref(),
        copy.as_os_str(),
        path.as_os_str(),
    ]);
    match call(host, &invocation, "run: apt-get install binutils") {
        Ok(finished) if finished.success && copy.exists() => Ok(copy),
        outcome => {
            let why = outcome.map_or_else(|error| error.to_string(), |finished| finished.detail());
            tell(&format!(
                "taking {} with its symbols ({} MiB): {why}",
                path.display(),
                size >> 20
            ));
            Ok(path.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SystemHost;
    use crate::host::fake::{FakeHost, failure, success};

    const LDD: &str = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";

    #[test]
    fn libraries_and_loader_are_read_and_the_vdso_is_not() {
        let linkage = parse_ldd(LDD).unwrap();
        let names: Vec<&str> = linkage
            .libraries
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["libgcc_s.so.1", "libc.so.6"]);
        assert_eq!(linkage.loader, Some("/lib64/ld-linux-x86-64.so.2".into()));
    }

    #[test]
    fn a_missing_library_is_an_error_on_the_host_not_in_the_guest() {
        let error = parse_ldd("\tlibnuma.so.1 => not found\n").unwrap_err();
        assert!(error.contains("libnuma.so.1"), "{error}");
    }

    #[test]
    fn static_programs_need_nothing() {
        let mut plain = FakeHost::new(|_| failure("\tnot a dynamic executable"));
        assert_eq!(
            linkage(&mut plain, Path::new("/p")).unwrap(),
            Linkage::default()
        );
        let mut pie = FakeHost::new(|_| success("\tstatically linked\n"));
        assert_eq!(
            linkage(&mut pie, Path::new("/p")).unwrap(),
            Linkage::default()
        );
        let mut broken = FakeHost::new(|_| failure("ldd: exited with unknown exit code (139)"));
        assert!(linkage(&mut broken, Path::new("/p")).is_err());
    }

    #[test]
    fn a_real_dynamic_program_is_understood() {
        let own = std::env::current_exe().unwrap();
        assert!(is_elf(&own).unwrap());
        assert!(!is_elf(Path::new("/etc/os-release")).unwrap());
        let linkage = linkage(&mut SystemHost, &own).unwrap();
        assert!(
            linkage
                .libraries
                .iter()
                .any(|(name, file)| name.starts_with("libc.so") && file.exists()),
            "{linkage:?}"
        );
        assert!(linkage.loader.is_some_and(|loader| loader.exists()));
    }

    #[test]
    fn without_strip_the_program_goes_as_it_is_and_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let big = dir.path().join("big");
        File::create(&big)
            .unwrap()
            .set_len(STRIP_ABOVE_BYTES + 1)
            .unwrap();
        let mut host = FakeHost::new(|_| Err(std::io::ErrorKind::NotFound.into()));
        let mut lines = Vec::new();
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(
            stripped(&mut host, &big, scratch.path(), &mut |line| lines
                .push(line.to_owned()))
            .unwrap(),
            big
        );
        assert!(lines[0].contains("binutils"), "{lines:?}");
    }
}
