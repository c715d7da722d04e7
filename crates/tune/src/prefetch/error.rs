//! Errors of switching hardware prefetchers.

use std::io;
use std::path::PathBuf;

use tierloom_topology::saved_state::SavedStateError;

use super::Registers;
use super::registers::file;
use crate::apply::ApplyError;

const LOCKDOWN: &str = "sys/kernel/security/lockdown";
const ALLOW_WRITES: &str = "sys/module/msr/parameters/allow_writes";

/// Why prefetchers were not switched or restored; each message has the next step.
#[derive(Debug, thiserror::Error)]
pub enum PrefetchError {
    /// The processor's register is not known.
    #[error(
        "it is not known how the prefetchers of this processor are switched: {processor}; known are Intel's Core and Xeon lines from Nehalem on and AMD's from Zen 3 on; switch them in the firmware's set-up"
    )]
    NotKnown {
        /// Model name, vendor, family and model of the processor.
        processor: String,
    },
    /// The driver `msr` is not loaded.
    #[error("{path} is not there: the driver of the registers is not loaded; run `modprobe msr`")]
    NoDriver {
        /// Path of the missing device file.
        path: PathBuf,
    },
    /// The register faults, as in virtual machines.
    #[error(
        "register {register:#x} faults on CPU {cpu}: {source}; hypervisors hide it from their guests: run it on the host, and on the host look whether the firmware has locked the register"
    )]
    Faults {
        /// Number of the CPU.
        cpu: u32,
        /// Number of the register.
        register: u32,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The kernel is locked down, which forbids access to the registers.
    #[error(
        "cannot {action} {path}: {source}; the kernel is locked down ({lockdown}), as it is with Secure Boot: switch that off in the firmware's set-up"
    )]
    LockedDown {
        /// Failed operation, "read" or "write".
        action: &'static str,
        /// Path of the CPU's device file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
        /// Contents of the kernel's lockdown file.
        lockdown: String,
    },
    /// The driver is configured to reject writes.
    #[error(
        "cannot write {path}: {source}; the driver forbids writes: `echo on > {parameter}`, or boot with msr.allow_writes=on"
    )]
    WritesOff {
        /// Path of the CPU's device file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
        /// Path of the driver's parameter `allow_writes`.
        parameter: PathBuf,
    },
    /// This process lacks the privilege.
    #[error(
        "cannot {action} {path}: {source}; run it as root, or with the capability CAP_SYS_RAWIO"
    )]
    NotAllowed {
        /// Failed operation, "read" or "write".
        action: &'static str,
        /// Path of the CPU's device file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Any other failed file operation.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// Failed operation, "read" or "write".
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A write succeeded, but reading back gave another value.
    #[error(
        "register {register:#x} of CPU {cpu} holds {found:#x} after {wanted:#x} was written: the hypervisor or another program changes it too; stop that and try again"
    )]
    NotTaken {
        /// Number of the CPU.
        cpu: u32,
        /// Number of the register.
        register: u32,
        /// Value that was written.
        wanted: u64,
        /// Value that was read back.
        found: u64,
    },
    /// A CPU could not be switched, and the CPUs switched before it could not be restored.
    #[error(
        "{cause}; putting the CPUs before it back failed too: {source}; what they held is saved in {saved}, `tierloom tune --restore --yes` puts it back"
    )]
    Halfway {
        /// The error that stopped the switching.
        cause: Box<PrefetchError>,
        /// The error that stopped the restoring.
        source: Box<PrefetchError>,
        /// Path of the saved values.
        saved: PathBuf,
    },
    /// The saved state cannot be used, saved or locked.
    #[error(transparent)]
    State(#[from] ApplyError),
}

impl PrefetchError {
    /// Whether the request was wrong (exit code 2) rather than the machine at fault (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::NotKnown { .. } | Self::NoDriver { .. } | Self::Faults { .. } => true,
            Self::State(error) => error.is_bad_input(),
            _ => false,
        }
    }

    /// Classifies a failed register access, so that the message names the right remedy.
    pub(super) fn of(
        registers: &dyn Registers,
        action: &'static str,
        (cpu, register): (u32, u32),
        source: io::Error,
    ) -> Self {
        /// Returned by the driver for a register that faults.
        const EIO: i32 = 5;
        let path = registers.full(&file(cpu));
        let lockdown = registers.read(LOCKDOWN).unwrap_or_default();
        let forbidden = registers.read(ALLOW_WRITES).is_ok_and(|text| text == "off");
        // `ErrorKind` has no variant for EIO.
        match source.kind() {
            _ if source.raw_os_error() == Some(EIO) => Self::Faults {
                cpu,
                register,
                source,
            },
            io::ErrorKind::NotFound => Self::NoDriver { path },
            io::ErrorKind::PermissionDenied if is_locked(&lockdown) => Self::LockedDown {
                action,
                path,
                source,
                lockdown,
            },
            io::ErrorKind::PermissionDenied if action == "write" && forbidden => Self::WritesOff {
                path,
                source,
                parameter: registers.full(ALLOW_WRITES),
            },
            io::ErrorKind::PermissionDenied => Self::NotAllowed {
                action,
                path,
                source,
            },
            _ => Self::Io {
                action,
                path,
                source,
            },
        }
    }
}

/// Whether the kernel is locked down.
///
/// The file has the active mode in brackets, as in `none [integrity] confidentiality`.
fn is_locked(lockdown: &str) -> bool {
    lockdown.contains('[') && !lockdown.contains("[none]")
}

impl From<SavedStateError> for PrefetchError {
    fn from(error: SavedStateError) -> Self {
        Self::State(error.into())
    }
}
