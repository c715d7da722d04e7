//! What stops prefetchers from being switched.

use std::io;
use std::path::PathBuf;

use super::Registers;
use super::registers::file;
use crate::apply::ApplyError;

const LOCKDOWN: &str = "sys/kernel/security/lockdown";
const ALLOW_WRITES: &str = "sys/module/msr/parameters/allow_writes";

/// Why prefetchers were not switched or not put back. Every message names the file or value and the next step.
#[derive(Debug, thiserror::Error)]
pub enum PrefetchError {
    /// Another processor than those whose register is known.
    #[error(
        "it is not known how the prefetchers of this processor are switched: {processor}; known are Intel's Core and Xeon lines from Nehalem on and AMD's from Zen 3 on; switch them in the firmware's set-up"
    )]
    NotKnown {
        /// The processor.
        processor: String,
    },
    /// The driver of the registers is not there.
    #[error("{path} is not there: the driver of the registers is not loaded; run `modprobe msr`")]
    NoDriver {
        /// The file that is missing.
        path: PathBuf,
    },
    /// The register cannot be reached from here.
    #[error(
        "register {register:#x} faults on CPU {cpu}: {source}; hypervisors hide it from their guests: run it on the host, and on the host look whether the firmware has locked the register"
    )]
    Faults {
        /// The CPU.
        cpu: u32,
        /// The register.
        register: u32,
        /// The system's answer.
        source: io::Error,
    },
    /// The kernel is locked down.
    #[error(
        "cannot {action} {path}: {source}; the kernel is locked down ({lockdown}), as it is with Secure Boot: switch that off in the firmware's set-up"
    )]
    LockedDown {
        /// "read" or "write".
        action: &'static str,
        /// The device file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What the kernel says of it.
        lockdown: String,
    },
    /// The driver lets nobody write.
    #[error(
        "cannot write {path}: {source}; the driver forbids writes: `echo on > {parameter}`, or boot with msr.allow_writes=on"
    )]
    WritesOff {
        /// The device file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// The driver's parameter.
        parameter: PathBuf,
    },
    /// This process may not.
    #[error(
        "cannot {action} {path}: {source}; run it as root, or with the capability CAP_SYS_RAWIO"
    )]
    NotAllowed {
        /// "read" or "write".
        action: &'static str,
        /// The device file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another failure of a file.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A write succeeded, but the register holds something else.
    #[error(
        "register {register:#x} of CPU {cpu} holds {found:#x} after {wanted:#x} was written: the hypervisor or another program changes it too; stop that and try again"
    )]
    NotTaken {
        /// The CPU.
        cpu: u32,
        /// The register.
        register: u32,
        /// What was written.
        wanted: u64,
        /// What was read.
        found: u64,
    },
    /// Some CPUs were switched, then one was not, and the others could not be put back.
    #[error(
        "{cause}; putting the CPUs before it back failed too: {source}; what they held is saved in {saved}, `tierloom tune --restore --yes` puts it back"
    )]
    Halfway {
        /// What failed first.
        cause: Box<PrefetchError>,
        /// What failed then.
        source: Box<PrefetchError>,
        /// Where the old values are.
        saved: PathBuf,
    },
    /// The saved state cannot be used.
    #[error(transparent)]
    State(#[from] ApplyError),
}

impl PrefetchError {
    /// Whether another request would do on this machine (exit code 2), rather than that the machine failed (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::NotKnown { .. } | Self::NoDriver { .. } | Self::Faults { .. } => true,
            Self::State(error) => error.is_bad_input(),
            _ => false,
        }
    }

    /// The reason why a register was not read or written.
    pub(super) fn of(
        registers: &dyn Registers,
        action: &'static str,
        (cpu, register): (u32, u32),
        source: io::Error,
    ) -> Self {
        /// The driver's answer for a register that faults.
        const EIO: i32 = 5;
        let path = registers.full(&file(cpu));
        let lockdown = registers.read(LOCKDOWN).unwrap_or_default();
        let forbidden = registers.read(ALLOW_WRITES).is_ok_and(|text| text == "off");
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

/// The kernel puts what holds into brackets: `none [integrity] confidentiality`.
fn is_locked(lockdown: &str) -> bool {
    lockdown.contains('[') && !lockdown.contains("[none]")
}
