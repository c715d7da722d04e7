//! The seam to the registers.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;

use tierloom_topology::SysRoot;

use crate::apply::SystemFiles;

/// Folder of the CPUs' device files, below the root.
pub(super) const FOLDER: &str = "dev/cpu";

/// Model-specific registers of CPUs: those of the running machine, of a recorded tree, or a test's own that fail when told to.
pub trait Registers: SystemFiles {
    /// What a register of a CPU holds.
    ///
    /// # Errors
    /// The system's answer: the driver gives `EIO` for a register that faults.
    fn read_register(&self, cpu: u32, register: u32) -> io::Result<u64>;

    /// Writes a register of a CPU.
    ///
    /// # Errors
    /// The system's answer.
    fn write_register(&self, cpu: u32, register: u32, value: u64) -> io::Result<()>;
}

/// The device file of a CPU, below the root. Its offset is the number of the register; registers are 8 bytes, least significant first.
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
        // One write of 8 bytes, as the driver wants it.
        device.write_all_at(&value.to_le_bytes(), u64::from(register))
    }
}
