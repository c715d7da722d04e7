//! Access to model-specific registers, as a trait so that tests can substitute it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

use tierloom_topology::SysRoot;

use crate::apply::SystemFiles;

/// Directory of the CPUs' device files, relative to the system root.
pub(super) const FOLDER: &str = "dev/cpu";

/// Model-specific registers of CPUs.
///
/// Implemented by the running system and recorded trees ([`SysRoot`]), and by tests that inject
/// failures.
pub trait Registers: SystemFiles {
    /// Value of a register on one CPU.
    ///
    /// # Errors
    /// The error of the operating system; the driver returns `EIO` for a register that faults.
    fn read_register(&self, cpu: u32, register: u32) -> io::Result<u64>;

    /// Writes a register of one CPU.
    ///
    /// # Errors
    /// The error of the operating system, as for reading.
    fn write_register(&self, cpu: u32, register: u32, value: u64) -> io::Result<()>;
}

/// Path of a CPU's device file, relative to the system root.
///
/// The file offset is the register number; values are 8 bytes, little-endian.
pub(super) fn file(cpu: u32) -> String {
    format!("{FOLDER}/{cpu}/msr")
}

impl Registers for SysRoot {
    fn read_register(&self, cpu: u32, register: u32) -> io::Result<u64> {
        let device = OpenOptions::new().read(true).open(self.join(&file(cpu)))?;
        let mut bytes = [0; 8];
        device.read_exact_at(&mut bytes, u64::from(register))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn write_register(&self, cpu: u32, register: u32, value: u64) -> io::Result<()> {
        let device = OpenOptions::new().write(true).open(self.join(&file(cpu)))?;
        // The driver accepts a register only as a single write of 8 bytes.
        device.write_all_at(&value.to_le_bytes(), u64::from(register))
    }
}
