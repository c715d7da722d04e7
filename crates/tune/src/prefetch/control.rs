//! Registers that control the hardware prefetchers of a processor.

use super::PrefetchError;
use crate::apply::SystemFiles;

const CPUINFO: &str = "proc/cpuinfo";

/// Models of Intel's family 6 with a known register: cores from Nehalem to Granite Rapids.
///
/// Atom cores and Xeon Phi use other bits. Bits 0 to 3 follow Intel, "Disclosure of Hardware
/// Prefetcher Control on Some Intel Processors" (2014), and the tables of model-specific registers
/// in volume 4 of the Software Developer's Manual.
const INTEL: [u32; 34] = [
    0x1a, 0x1e, 0x1f, 0x2e, 0x25, 0x2c, 0x2f, 0x2a, 0x2d, 0x3a, 0x3e, 0x3c, 0x3f, 0x45, 0x46, 0x3d,
    0x47, 0x4f, 0x56, 0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0x8f, 0xcf,
    0xad, 0xae,
];

const INTEL_REGISTER: u32 = 0x1a4;
const INTEL_BITS: &[(u32, &str)] = &[
    (0, "L2 stream"),
    (1, "L2 adjacent line"),
    (2, "L1 next line"),
    (3, "L1 by instruction"),
];

/// Zen 3 and newer.
///
/// The register is PrefetchControl in the Processor Programming References of families 19h and 1Ah.
/// Bit 4 is reserved; bits from 6 on select the aggressiveness of prefetching.
const AMD_FAMILIES: [u32; 2] = [0x19, 0x1a];
const AMD_REGISTER: u32 = 0xc000_0108;
const AMD_BITS: &[(u32, &str)] = &[
    (0, "L1 stream"),
    (1, "L1 stride"),
    (2, "L1 region"),
    (3, "L2 stream"),
    (5, "L2 up/down"),
];

/// Register of a processor, with the bits that switch prefetchers off (1 is off).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Model name, vendor, family and model of the processor, for users.
    pub processor: String,
    /// Number of the model-specific register.
    pub register: u32,
    /// Each bit with the name of the prefetcher that it switches off.
    pub bits: &'static [(u32, &'static str)],
}

impl Control {
    /// Mask of all bits that switch a prefetcher off.
    pub fn mask(&self) -> u64 {
        self.bits.iter().map(|(bit, _)| 1_u64 << bit).sum()
    }

    /// Names of the prefetchers that are on with this register value.
    pub fn on(&self, value: u64) -> Vec<&'static str> {
        let is_on = |bit: u32| value & (1 << bit) == 0;
        let on = self.bits.iter().filter(|(bit, _)| is_on(*bit));
        on.map(|(_, name)| *name).collect()
    }
}

/// The register for the processor described in `/proc/cpuinfo`.
///
/// # Errors
/// [`PrefetchError::NotKnown`] for a processor without a known register; [`PrefetchError::Io`] if
/// `/proc/cpuinfo` cannot be read.
pub fn control(files: &dyn SystemFiles) -> Result<Control, PrefetchError> {
    let text = files.read(CPUINFO).map_err(|source| PrefetchError::Io {
        action: "read",
        path: files.full(CPUINFO),
        source,
    })?;
    let field = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(name, _)| name.trim() == key)
            .map_or("", |(_, value)| value.trim())
    };
    let number = |key: &str| field(key).parse::<u32>().ok();
    let (vendor, family, model) = (field("vendor_id"), number("cpu family"), number("model"));
    let processor = format!(
        "{} (vendor {}, family {}, model {})",
        or_unknown(field("model name")),
        or_unknown(vendor),
        family.map_or("unknown".into(), |f| f.to_string()),
        model.map_or("unknown".into(), |m| m.to_string())
    );
    // Unknown processors are rejected: the register may have another meaning there.
    match (vendor, family, model) {
        ("GenuineIntel", Some(6), Some(model)) if INTEL.contains(&model) => Ok(Control {
            processor,
            register: INTEL_REGISTER,
            bits: INTEL_BITS,
        }),
        ("AuthenticAMD", Some(family), _) if AMD_FAMILIES.contains(&family) => Ok(Control {
            processor,
            register: AMD_REGISTER,
            bits: AMD_BITS,
        }),
        _ => Err(PrefetchError::NotKnown { processor }),
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}
