//! Sizes of devices in a recorded sysfs tree, with a kernel that refuses what the real one does.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tierloom_topology::{SysRoot, SystemFiles};

use super::*;

const MIB: u64 = 1 << 20;
const REGION: &str = "sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0";

/// The tree of a guest with a region of 512 MiB in one device, as Linux 6.12 shows it, and what
/// that kernel does with writes.
struct Recorded {
    tree: tempfile::TempDir,
    /// Writes so far.
    written: RefCell<Vec<String>>,
    /// The write that fails, counted from 0, with this.
    fails: Cell<Option<(usize, Errno)>>,
}

impl Recorded {
    fn new() -> Self {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        fs::create_dir_all(at(REGION).join("dax0.0")).unwrap();
        fs::create_dir_all(at(REGION).join("dax_region")).unwrap();
        fs::create_dir_all(at(DEVICES)).unwrap();
        fs::create_dir_all(at(DRIVER)).unwrap();
        let device = at(REGION).join("dax0.0");
        for (path, text) in [
            (device.join("size"), "536870912\n"),
            (device.join("align"), "2097152\n"),
            (at(REGION).join("dax_region/available_size"), "0\n"),
            (at(DRIVER).join("bind"), ""),
            (at(DRIVER).join("unbind"), ""),
        ] {
            fs::write(path, text).unwrap();
        }
        symlink(&device, at(DEVICES).join("dax0.0")).unwrap();
        symlink(&device, at(DRIVER).join("dax0.0")).unwrap();
        Self {
            tree,
            written: RefCell::default(),
            fails: Cell::new(None),
        }
    }

    fn root(&self) -> SysRoot {
        SysRoot::at(self.tree.path())
    }

    fn link(&self) -> PathBuf {
        self.tree.path().join(DRIVER).join("dax0.0")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.tree.path().join(REGION).join(name)
    }

    fn read_number(&self, name: &str) -> u64 {
        let text = fs::read_to_string(self.file(name)).unwrap();
        text.trim().parse().unwrap()
    }

    /// What the kernel does with a size: `dev_dax_resize` in `drivers/dax/bus.c`.
    fn set_size(&self, text: &str) -> Result<(), Errno> {
        let size: u64 = text.parse().map_err(|_| Errno::INVAL)?;
        if self.link().exists() {
            return Err(Errno::BUSY);
        }
        if !size.is_multiple_of(2 * MIB) {
            return Err(Errno::INVAL);
        }
        let total = self.read_number("dax0.0/size") + self.read_number("dax_region/available_size");
        let rest = total.checked_sub(size).ok_or(Errno::NOSPC)?;
        fs::write(self.file("dax0.0/size"), format!("{size}\n")).unwrap();
        fs::write(self.file("dax_region/available_size"), format!("{rest}\n")).unwrap();
        Ok(())
    }

    fn is_bound(&self) -> bool {
        self.link().exists()
    }
}

impl SystemFiles for Recorded {
    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        self.root().names(folder)
    }

    fn read(&self, path: &str) -> io::Result<String> {
        self.root().read(path)
    }

    fn may_write(&self, path: &str) -> io::Result<()> {
        self.root().may_write(path)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let number = self.written.borrow().len();
        self.written.borrow_mut().push(format!("{name} {text}"));
        if let Some((_, errno)) = self.fails.get().filter(|fails| fails.0 == number) {
            return Err(errno.into());
        }
        match name {
            "unbind" if self.is_bound() => fs::remove_file(self.link()),
            "bind" if !self.is_bound() && self.read_number("dax0.0/size") > 0 => {
                symlink(self.file("dax0.0"), self.link())
            }
            "size" => self.set_size(text).map_err(io::Error::from),
            _ => Err(Errno::NODEV.into()),
        }
    }

    fn full(&self, path: &str) -> PathBuf {
        Path::new("/").join(path)
    }
}

#[test]
fn a_device_is_resized_without_a_driver_and_has_it_again() {
    let files = Recorded::new();
    let device = DaxDevice::new(&files, "dax0.0");
    let plan = device.plan(255 * MIB).unwrap();
    assert_eq!((plan.from_bytes, plan.to_bytes), (512 * MIB, 256 * MIB));
    assert!(files.written.borrow().is_empty(), "a plan changes nothing");
    assert_eq!(device.resize(255 * MIB).unwrap(), plan);
    let written = ["unbind dax0.0", "size 268435456", "bind dax0.0"];
    assert_eq!(*files.written.borrow(), written);
    assert!(files.is_bound());
    assert_eq!(files.read_number("dax_region/available_size"), 256 * MIB);
    let grown = device.resize(512 * MIB).unwrap();
    assert_eq!((grown.from_bytes, grown.to_bytes), (256 * MIB, 512 * MIB));
    assert!(files.is_bound());
    files.written.borrow_mut().clear();
    device.resize(512 * MIB).unwrap();
    assert!(files.written.borrow().is_empty(), "it has that size");
}

#[test]
fn what_cannot_be_is_known_before_the_device_loses_its_driver() {
    let files = Recorded::new();
    let device = DaxDevice::new(&files, "dax0.0");
    let error = device.resize(513 * MIB).unwrap_err();
    assert!(error.is_bad_input());
    let text = error.to_string();
    assert!(
        text.contains("2 MiB more") && text.contains("0 B left"),
        "{text}"
    );
    let missing = DaxDevice::new(&files, "dax1.0").resize(MIB).unwrap_err();
    assert!(missing.to_string().contains("dax1.0/align"), "{missing}");
    fs::write(files.file("dax0.0/size"), "much\n").unwrap();
    let garbled = device.resize(MIB).unwrap_err();
    assert!(garbled.to_string().contains("`much`"), "{garbled}");
    fs::write(files.file("dax0.0/size"), "536870912\n").unwrap();
    fs::remove_file(files.link()).unwrap();
    let unbound = device.resize(256 * MIB).unwrap_err();
    assert!(unbound.to_string().contains("devdax mode"), "{unbound}");
    assert!(files.written.borrow().is_empty());
}

#[test]
fn whichever_step_the_kernel_refuses_the_device_has_a_driver_or_the_error_says_how() {
    for number in 0..3 {
        let files = Recorded::new();
        files.fails.set(Some((number, Errno::BUSY)));
        let device = DaxDevice::new(&files, "dax0.0");
        let error = device.resize(256 * MIB).unwrap_err();
        assert!(!error.is_bad_input());
        let text = error.to_string();
        assert!(text.contains("drivers/device_dax/bind"), "{text}");
        // Only where binding itself is refused it has none.
        assert_eq!(files.is_bound(), number != 2, "{text}");
        let size = files.read_number("dax0.0/size");
        assert_eq!(size == 512 * MIB, number != 2, "{text}");
    }
}

#[test]
fn a_size_that_somebody_else_changes_meanwhile_is_not_taken_for_the_own() {
    struct Racing(Recorded);
    impl SystemFiles for Racing {
        fn names(&self, folder: &str) -> io::Result<Vec<String>> {
            self.0.names(folder)
        }
        fn read(&self, path: &str) -> io::Result<String> {
            self.0.read(path)
        }
        fn may_write(&self, path: &str) -> io::Result<()> {
            self.0.may_write(path)
        }
        fn write(&self, path: &str, text: &str) -> io::Result<()> {
            self.0.write(path, text)?;
            if path.ends_with("/size") {
                fs::write(self.0.file("dax0.0/size"), "2097152\n")?;
            }
            Ok(())
        }
        fn full(&self, path: &str) -> PathBuf {
            self.0.full(path)
        }
    }
    let files = Racing(Recorded::new());
    let error = DaxDevice::new(&files, "dax0.0")
        .resize(256 * MIB)
        .unwrap_err();
    assert!(error.to_string().contains("has 2 MiB"), "{error}");
}
