//! The host file behind a CXL device.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use crate::LabError;
use crate::guest::{GuestKind, GuestOptions};

/// The file behind a CXL device, with the right size and locked.
///
/// QEMU takes no lock itself, and two kernels that both used the device as their memory would crash
/// each other. Devdax guests therefore take a shared lock, a system-ram guest an exclusive one.
pub(super) struct Backing {
    _locked: Option<File>,
}

impl Backing {
    /// Creates the file of [`GuestOptions::cxl_backing`] if it is missing, checks its size, and
    /// locks it until this is dropped.
    pub(super) fn provide(options: &GuestOptions) -> Result<Backing, LabError> {
        let locked = options
            .cxl_backing
            .as_deref()
            .map(|path| open(path, options));
        Ok(Backing {
            _locked: locked.transpose()?,
        })
    }
}

fn open(path: &Path, options: &GuestOptions) -> Result<File, LabError> {
    let bad = |what: String| Err(LabError::BadGuest { what });
    if !path.exists() {
        create(path, options.slow_bytes)
            .map_err(LabError::io("make the CXL device's file", path))?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(LabError::io("open the CXL device's file", path))?;
    let found = file
        .metadata()
        .map_err(LabError::io("find the size of the CXL device's file", path))?;
    if !found.is_file() {
        return bad(format!(
            "{} is to hold the CXL device's memory and is no ordinary file",
            path.display()
        ));
    }
    if found.len() != options.slow_bytes {
        return bad(format!(
            "{} has {} bytes and the CXL device is to have {}; ask for that size, or remove the file and what it holds",
            path.display(),
            found.len(),
            options.slow_bytes
        ));
    }
    lock(&file, path, options.kind)?;
    Ok(file)
}

/// Creates the file under a temporary name and renames it once it has its size, so that a guest
/// starting at the same time never sees a file that is too short.
fn create(path: &Path, size_bytes: u64) -> io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let file = tempfile::NamedTempFile::new_in(dir)?;
    file.as_file().set_len(size_bytes)?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

fn lock(file: &File, path: &Path, kind: GuestKind) -> Result<(), LabError> {
    let taken = if kind == GuestKind::Cxl {
        file.try_lock()
    } else {
        file.try_lock_shared()
    };
    match taken {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(LabError::BadGuest {
            what: format!(
                "the CXL device in {} is in use, and a guest of kind cxl takes all of it for its kernel; share it among guests of kind cxl-devdax",
                path.display()
            ),
        }),
        // On a file system without locks the user has to know who uses the file.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => {
            Err(LabError::io("lock the CXL device's file", path)(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn options(kind: GuestKind, path: &Path) -> GuestOptions {
        let mut options = GuestOptions::new(kind);
        options.cxl_backing = Some(path.to_owned());
        options
    }

    #[test]
    fn a_new_device_is_sparse_and_an_old_one_keeps_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let options = options(GuestKind::CxlDevdax, &path);
        drop(Backing::provide(&options).unwrap());
        let made = std::fs::metadata(&path).unwrap();
        assert_eq!((made.len(), made.blocks()), (options.slow_bytes, 0));
        std::os::unix::fs::FileExt::write_all_at(
            &OpenOptions::new().write(true).open(&path).unwrap(),
            b"kept",
            4096,
        )
        .unwrap();
        drop(Backing::provide(&options).unwrap());
        let mut bytes = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&File::open(&path).unwrap(), &mut bytes, 4096)
            .unwrap();
        assert_eq!(&bytes, b"kept");
    }

    #[test]
    fn a_file_of_another_size_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        std::fs::write(&path, b"somebody's data").unwrap();
        let error = Backing::provide(&options(GuestKind::Cxl, &path))
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("15 bytes") && error.contains("536870912"),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"somebody's data");
        let error = Backing::provide(&options(GuestKind::Cxl, &dir.path().join("no/device")))
            .err()
            .unwrap();
        assert!(matches!(error, LabError::Io { .. }), "{error}");
    }

    #[test]
    fn two_kernels_never_own_one_device() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let devdax = options(GuestKind::CxlDevdax, &path);
        let system_ram = options(GuestKind::Cxl, &path);
        let first = Backing::provide(&devdax).unwrap();
        let second = Backing::provide(&devdax).unwrap();
        let error = Backing::provide(&system_ram).err().unwrap().to_string();
        assert!(error.contains("cxl-devdax"), "{error}");
        drop((first, second));
        let owner = Backing::provide(&system_ram).unwrap();
        for late in [&devdax, &system_ram] {
            assert!(Backing::provide(late).is_err(), "{}", late.kind);
        }
        drop(owner);
        Backing::provide(&devdax).unwrap();
    }
}
