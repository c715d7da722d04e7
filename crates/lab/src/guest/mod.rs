//! The description of a guest: its kind, sizes, files, commands and the results to collect.

mod command;
pub(crate) mod init;
mod kind;
mod link;
pub(crate) mod machine;

use std::path::PathBuf;
use std::time::Duration;

use crate::LabError;
pub use command::GuestCommand;
pub use kind::{GuestKind, ParseGuestKindError};
pub use link::GuestLink;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The largest size accepted for a node, far above what QEMU can provide.
const MOST_BYTES: u64 = 64 << 40;
/// Alignment of CXL regions, and the size of Linux memory blocks in them.
const CXL_GRAIN_BYTES: u64 = 256 * MIB;
/// Size of the fixed memory window that the guest's CXL host bridge decodes.
pub(crate) const CXL_WINDOW_BYTES: u64 = 4 * GIB;

/// A file or folder of the host that is copied into the guest.
///
/// ELF programs bring their shared libraries and are stripped of symbols; folders are copied with
/// all they contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFile {
    /// Path on the host, of a file or a folder.
    pub host: PathBuf,
    /// Absolute path in the guest; `/bin` is in the guest's `PATH`.
    pub guest: String,
}

impl GuestFile {
    /// Copies `host` to the path `guest`.
    pub fn new(host: impl Into<PathBuf>, guest: impl Into<String>) -> GuestFile {
        GuestFile {
            host: host.into(),
            guest: guest.into(),
        }
    }
}

/// How a guest is built and what it gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestOptions {
    /// The memory layout, which also decides which modules are loaded.
    pub kind: GuestKind,
    /// Memory of node 0 in bytes, a multiple of 1 MiB and at least 256 MiB. The initramfs with all
    /// programs and files is in it too.
    pub dram_bytes: u64,
    /// Memory of node 1 or of the CXL device in bytes: a multiple of 1 MiB; for CXL a multiple of
    /// 256 MiB and at most 4 GiB.
    pub slow_bytes: u64,
    /// The host file that holds the CXL device's memory; `None` for memory that is lost when the
    /// guest ends.
    ///
    /// A missing file is created sparse; an existing one must have `slow_bytes` bytes. Later boots
    /// find the bytes as they were left, and guests that run at the same time share them: any
    /// number of [`GuestKind::CxlDevdax`], or one [`GuestKind::Cxl`], whose kernel then owns every
    /// byte.
    pub cxl_backing: Option<PathBuf>,
    /// A network link between this guest and another one; without it a guest has only `lo`.
    pub link: Option<GuestLink>,
    /// Where QEMU listens for commands of the QEMU Machine Protocol ([`crate::Qmp`]): a socket that
    /// it makes.
    pub qmp: Option<PathBuf>,
    /// Number of virtual CPUs, 1 to 64, all on node 0.
    pub cpus: u32,
    /// Whether each virtual CPU is emulated by its own host thread.
    ///
    /// With one thread for all, the guest has the same CPUs but is slower if several of them work
    /// at a time. QEMU occasionally crashes with several emulating threads, most often on a loaded
    /// host.
    pub thread_per_cpu: bool,
    /// Time limit for the commands, after which the guest is killed.
    ///
    /// It is counted from the start of the first command (in a group of guests: of the last guest's
    /// first command) to the guest's end. Time that the guest spends waiting for a host processor
    /// does not count. Booting has a separate limit.
    pub timeout: Duration,
    /// Files and folders to copy into the guest, in addition to busybox.
    pub files: Vec<GuestFile>,
    /// Absolute guest paths to copy back after the last command: files, folders and shell patterns,
    /// also under `/sys` and `/proc`.
    ///
    /// Missing ones are skipped.
    pub collect: Vec<String>,
    /// Words added to the kernel's command line, such as `numa_balancing=disable`.
    pub kernel_args: Vec<String>,
}

impl GuestOptions {
    /// The default sizes of `kind`: two CPUs emulated by one thread; 1.5 GiB and 1 GiB for
    /// [`GuestKind::TwoNodes`], else 2 GiB and a 512 MiB device; a limit of ten minutes.
    pub fn new(kind: GuestKind) -> GuestOptions {
        let (dram_bytes, slow_bytes) = match kind {
            GuestKind::TwoNodes => (3 * GIB / 2, GIB),
            GuestKind::Cxl | GuestKind::CxlDevdax | GuestKind::CxlDcd => (2 * GIB, 512 * MIB),
        };
        let timeout = Duration::from_secs(600);
        GuestOptions {
            kind,
            dram_bytes,
            slow_bytes,
            cxl_backing: None,
            link: None,
            qmp: None,
            cpus: 2,
            thread_per_cpu: false,
            timeout,
            files: Vec::new(),
            collect: Vec::new(),
            kernel_args: Vec::new(),
        }
    }

    /// Number of host threads that emulate the guest's CPUs.
    pub(crate) fn threads(&self) -> usize {
        if self.thread_per_cpu {
            self.cpus as usize
        } else {
            1
        }
    }

    /// Checks all options before anything is downloaded or built.
    ///
    /// [`run`](crate::run) does this first.
    ///
    /// # Errors
    /// [`LabError::BadGuest`] for the first option that is out of range or does not fit the others.
    pub fn check(&self) -> Result<(), LabError> {
        let bad = |what: String| Err(LabError::BadGuest { what });
        if self.dram_bytes < 256 * MIB || !self.dram_bytes.is_multiple_of(MIB) {
            return bad(format!(
                "node 0 is to have {} bytes; it needs a multiple of 1 MiB, at least 256 MiB",
                self.dram_bytes
            ));
        }
        if self.slow_bytes == 0 || !self.slow_bytes.is_multiple_of(MIB) {
            return bad(format!(
                "node 1 is to have {} bytes; it needs a positive multiple of 1 MiB",
                self.slow_bytes
            ));
        }
        if self.kind.has_cxl()
            && (!self.slow_bytes.is_multiple_of(CXL_GRAIN_BYTES)
                || self.slow_bytes > CXL_WINDOW_BYTES)
        {
            return bad(format!(
                "the CXL device is to have {} bytes; it needs a multiple of 256 MiB, at most 4 GiB",
                self.slow_bytes
            ));
        }
        if let Some(path) = &self.cxl_backing
            && !self.kind.has_cxl()
        {
            return bad(format!(
                "the file {} is to back a CXL device and a guest of kind {} has none; choose cxl or cxl-devdax",
                path.display(),
                self.kind
            ));
        }
        self.link.as_ref().map_or(Ok(()), GuestLink::check)?;
        if self.dram_bytes.max(self.slow_bytes) > MOST_BYTES {
            return bad(format!(
                "a node is to have {} bytes; the most is 64 TiB",
                self.dram_bytes.max(self.slow_bytes)
            ));
        }
        if !(1..=64).contains(&self.cpus) {
            return bad(format!("{} CPUs; it needs 1 to 64", self.cpus));
        }
        for path in self
            .files
            .iter()
            .map(|file| &file.guest)
            .chain(&self.collect)
        {
            let plain = path.starts_with('/')
                && path.len() > 1
                && !path.split('/').any(|part| part == ".." || part == ".")
                && !path.contains(['\n', '\0']);
            if !plain {
                return bad(format!("{path:?} is no absolute guest path"));
            }
        }
        if let Some(word) = self
            .kernel_args
            .iter()
            .find(|word| word.is_empty() || word.contains(char::is_whitespace))
        {
            return bad(format!(
                "{word:?} is not one word for the kernel's command line"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_and_unknown_ones_list_the_choices() {
        for kind in GuestKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "cxl2".parse::<GuestKind>().unwrap_err().to_string();
        assert!(
            error.contains("two-nodes") && error.contains("cxl2"),
            "{error}"
        );
    }

    #[test]
    fn impossible_guests_are_refused_before_they_are_built() {
        type Change = fn(&mut GuestOptions);
        let changes: [(Change, &str); 11] = [
            (|o| o.dram_bytes = 1, "node 0"),
            (|o| o.slow_bytes = 0, "node 1"),
            (|o| o.slow_bytes = 300 * MIB, "256 MiB"),
            (|o| o.slow_bytes = 8 * GIB, "4 GiB"),
            (|o| o.dram_bytes = 1 << 62, "64 TiB"),
            (
                |o| {
                    o.kind = GuestKind::TwoNodes;
                    o.cxl_backing = Some("/tmp/device".into());
                },
                "/tmp/device",
            ),
            (
                |o| o.link = Some(GuestLink::listen("/s", "10.7.0.1")),
                "10.7.0.1/24",
            ),
            (|o| o.cpus = 0, "CPUs"),
            (|o| o.files.push(GuestFile::new("/x", "../x")), "guest path"),
            (|o| o.collect.push("/a/../b".into()), "guest path"),
            (|o| o.kernel_args.push("a b".into()), "one word"),
        ];
        for (change, part) in changes {
            let mut options = GuestOptions::new(GuestKind::Cxl);
            options.check().unwrap();
            change(&mut options);
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
