//! What a guest is: its kind, its size, what goes in, what is run, what comes back.

pub(crate) mod init;
pub(crate) mod machine;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::LabError;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The most a node can be asked to have; far more than QEMU will give.
const MOST_BYTES: u64 = 64 << 40;
/// CXL regions and memory blocks come in this size.
const CXL_GRAIN_BYTES: u64 = 256 * MIB;
/// Size of the fixed memory window that the guest's CXL host bridge decodes.
pub(crate) const CXL_WINDOW_BYTES: u64 = 4 * GIB;

/// The memory layouts a guest can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GuestKind {
    /// Node 0 with all CPUs, node 1 with memory only, and an HMAT that says 100 ns and 100 GiB/s for node 0, 250 ns and 30 GiB/s for node 1
    /// (settings that the kernel shows, not properties of the emulated memory).
    TwoNodes,
    /// Node 0 with all CPUs, and one CXL type-3 device with volatile memory: a RAM region is made over it and comes online as node 1, movable.
    Cxl,
}

impl GuestKind {
    /// Every kind.
    pub const ALL: [GuestKind; 2] = [GuestKind::TwoNodes, GuestKind::Cxl];

    /// The name that [`FromStr`] takes.
    pub fn name(self) -> &'static str {
        match self {
            GuestKind::TwoNodes => "two-nodes",
            GuestKind::Cxl => "cxl",
        }
    }
}

impl fmt::Display for GuestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A guest kind that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no guest kind {given:?}; there are: two-nodes, cxl")]
pub struct ParseGuestKindError {
    /// What was given.
    pub given: String,
}

impl FromStr for GuestKind {
    type Err = ParseGuestKindError;

    fn from_str(text: &str) -> Result<GuestKind, ParseGuestKindError> {
        GuestKind::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| ParseGuestKindError {
                given: text.to_owned(),
            })
    }
}

/// A file or folder of the host that goes into the guest. ELF programs bring their shared libraries and lose their symbols; folders go whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFile {
    /// Where it is on the host.
    pub host: PathBuf,
    /// Its absolute path in the guest; `/bin` is in the guest's `PATH`.
    pub guest: String,
}

impl GuestFile {
    /// `host` as `guest`.
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
    /// The memory layout.
    pub kind: GuestKind,
    /// Memory of node 0 in bytes, a multiple of 1 MiB. It also holds the programs and files that go in.
    pub dram_bytes: u64,
    /// Memory of node 1 in bytes: a multiple of 1 MiB, for [`GuestKind::Cxl`] of 256 MiB and at most 4 GiB.
    pub slow_bytes: u64,
    /// Virtual CPUs, all on node 0.
    pub cpus: u32,
    /// Time from QEMU's start to its end, after which it is killed.
    pub timeout: Duration,
    /// What goes in beside busybox.
    pub files: Vec<GuestFile>,
    /// Absolute guest paths (files, folders, shell patterns; also under `/sys` and `/proc`) to bring back after the last command.
    pub collect: Vec<String>,
    /// Words added to the kernel's command line, such as `numa_balancing=disable`.
    pub kernel_args: Vec<String>,
}

impl GuestOptions {
    /// The usual sizes of `kind`: two CPUs; 1.5 GiB and 1 GiB, or 2 GiB and a 512 MiB device; ten minutes.
    pub fn new(kind: GuestKind) -> GuestOptions {
        let (dram_bytes, slow_bytes) = match kind {
            GuestKind::TwoNodes => (3 * GIB / 2, GIB),
            GuestKind::Cxl => (2 * GIB, 512 * MIB),
        };
        let timeout = Duration::from_secs(600);
        GuestOptions {
            kind,
            dram_bytes,
            slow_bytes,
            cpus: 2,
            timeout,
            files: Vec::new(),
            collect: Vec::new(),
            kernel_args: Vec::new(),
        }
    }

    /// Refuses what cannot become a guest, before anything is downloaded or built; [`run`](crate::run) begins with it.
    ///
    /// # Errors
    /// [`LabError::BadGuest`] with what is wrong.
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
        if self.kind == GuestKind::Cxl
            && (!self.slow_bytes.is_multiple_of(CXL_GRAIN_BYTES)
                || self.slow_bytes > CXL_WINDOW_BYTES)
        {
            return bad(format!(
                "the CXL device is to have {} bytes; it needs a multiple of 256 MiB, at most 4 GiB",
                self.slow_bytes
            ));
        }
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

/// One command to run in the guest. Commands run as root, one after another, each whatever the ones before returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestCommand {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Additions to the environment.
    pub env: Vec<(String, String)>,
    /// Whether output is also shown on the console while the command runs. The emulated serial line is slow: say no for large outputs.
    pub echo: bool,
}

impl GuestCommand {
    /// A program with its arguments.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> GuestCommand {
        GuestCommand {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            echo: true,
        }
    }

    /// A script for busybox's shell.
    pub fn shell(script: impl Into<String>) -> GuestCommand {
        GuestCommand::new(["/bin/sh".to_owned(), "-c".to_owned(), script.into()])
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> GuestCommand {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Keeps the output off the console; it comes back all the same.
    pub fn quiet(mut self) -> GuestCommand {
        self.echo = false;
        self
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        let bad = |what: String| Err(LabError::BadGuest { what });
        if self.argv.first().is_none_or(String::is_empty) {
            return bad("a command without a program".into());
        }
        if self
            .argv
            .iter()
            .chain(self.env.iter().map(|(_, value)| value))
            .any(|word| word.contains('\0'))
        {
            return bad(format!("a NUL byte in the command {:?}", self.argv));
        }
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match self.env.iter().find(|(name, _)| !is_name(name)) {
            Some((name, _)) => bad(format!("{name:?} is no name of an environment variable")),
            None => Ok(()),
        }
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
        let changes: [(Change, &str); 9] = [
            (|o| o.dram_bytes = 1, "node 0"),
            (|o| o.slow_bytes = 0, "node 1"),
            (|o| o.slow_bytes = 300 * MIB, "256 MiB"),
            (|o| o.slow_bytes = 8 * GIB, "4 GiB"),
            (|o| o.dram_bytes = 1 << 62, "64 TiB"),
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

    #[test]
    fn commands_that_no_shell_can_start_are_refused() {
        assert!(GuestCommand::new(Vec::<String>::new()).check().is_err());
        assert!(GuestCommand::new([""]).check().is_err());
        assert!(GuestCommand::new(["a\0b"]).check().is_err());
        assert!(GuestCommand::new(["a"]).env("1X", "v").check().is_err());
        GuestCommand::shell("exit 1")
            .env("RUST_BACKTRACE", "1")
            .check()
            .unwrap();
    }
}
