//! State of the hardware prefetchers, from the model-specific register that controls them.
//!
//! Intel: register 0x1a4 (MISC_FEATURE_CONTROL), documented in the Software Developer's Manual,
//! volume 4. AMD: register 0xc0000108 (Prefetch Control), documented in the Processor Programming
//! References from family 19h on. In both, a bit that is set switches a prefetcher off.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use super::Fact;
use super::processor::{Processor, Vendor};
use crate::{IdSet, SysRoot};

/// A register, with the prefetcher that each bit switches off.
struct Control {
    register: u64,
    bits: &'static [(u32, &'static str)],
}

const INTEL: Control = Control {
    register: 0x1a4,
    bits: &[
        (0, "L2 streamer"),
        (1, "L2 adjacent line"),
        (2, "L1 data next line"),
        (3, "L1 data by instruction"),
        (5, "L2 adaptive multipath"),
    ],
};

const AMD: Control = Control {
    register: 0xc000_0108,
    bits: &[
        (0, "L1 stream"),
        (1, "L1 stride"),
        (2, "L1 region"),
        (3, "L2 stream"),
        (5, "L2 up/down"),
    ],
};

/// First AMD family with a documented register.
const AMD_FIRST_FAMILY: u32 = 0x19;

/// State of the prefetchers on all `online` CPUs.
pub(super) fn read(root: &SysRoot, online: &IdSet, processor: &Processor) -> Fact {
    let control = match processor.vendor() {
        Vendor::Intel => INTEL,
        Vendor::Amd if processor.family().is_none_or(|f| f >= AMD_FIRST_FAMILY) => AMD,
        Vendor::Amd => {
            return Fact::unknown(
                "AMD documents no register for it before family 19h (Zen 3); see the firmware setup",
            );
        }
        Vendor::Other => {
            return Fact::unknown(
                "no register for it is known on this processor; see the firmware setup",
            );
        }
    };
    let mut cpus_of: BTreeMap<u64, IdSet> = BTreeMap::new();
    for cpu in online.iter() {
        match register(root, cpu, control.register) {
            Ok(value) => {
                cpus_of.entry(value).or_default().insert(cpu);
            }
            Err(error) => {
                // The state of some CPUs only would look complete.
                return Fact::unknown(refusal(root, cpu, &control, &error, processor.is_guest()));
            }
        }
    }
    match cpus_of.iter().next() {
        None => Fact::unknown("no CPU is known to be online"),
        Some((value, _)) if cpus_of.len() == 1 => Fact::of(words(*value, &control)),
        Some(_) => {
            let one =
                |(value, cpus): (&u64, &IdSet)| format!("CPUs {cpus}: {}", words(*value, &control));
            Fact::of(cpus_of.iter().map(one).collect::<Vec<_>>().join("; "))
        }
    }
}

/// Reads a register from `/dev/cpu/N/msr`, where the offset is the register number.
fn register(root: &SysRoot, cpu: u32, register: u64) -> io::Result<u64> {
    let file = File::open(root.join(&format!("dev/cpu/{cpu}/msr")))?;
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, register)?;
    Ok(u64::from_le_bytes(bytes))
}

fn words(value: u64, control: &Control) -> String {
    let named = |(bit, name): &(u32, &'static str)| (value >> bit & 1 == 1).then_some(*name);
    let off: Vec<&str> = control.bits.iter().filter_map(named).collect();
    let register = control.register;
    match (off.is_empty(), value) {
        (true, 0) => format!("all on (register {register:#x} is 0)"),
        (true, _) => format!("documented ones on (register {register:#x} is {value:#x})"),
        (false, _) => format!(
            "off: {} (register {register:#x} is {value:#x})",
            off.join(", ")
        ),
    }
}

fn refusal(
    root: &SysRoot,
    cpu: u32,
    control: &Control,
    error: &io::Error,
    is_guest: Option<bool>,
) -> String {
    let path = format!("/dev/cpu/{cpu}/msr");
    match error.kind() {
        ErrorKind::NotFound if !root.is_host() => {
            "registers are not part of a recorded tree".to_owned()
        }
        ErrorKind::NotFound if is_guest == Some(true) => {
            format!(
                "there is no {path} (sudo modprobe msr), and the hypervisor may hide the register"
            )
        }
        ErrorKind::NotFound => format!("there is no {path} (sudo modprobe msr)"),
        ErrorKind::PermissionDenied => {
            format!("{path} cannot be read: {error} (run with sudo; CAP_SYS_RAWIO is needed)")
        }
        _ => format!(
            "register {:#x} cannot be read from {path}: {error} (the processor or its hypervisor does not offer it)",
            control.register
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_bit_is_a_prefetcher_that_is_off() {
        assert_eq!(words(0, &INTEL), "all on (register 0x1a4 is 0)");
        assert_eq!(
            words(0b1001, &INTEL),
            "off: L2 streamer, L1 data by instruction (register 0x1a4 is 0x9)"
        );
        assert_eq!(
            words(1 << 5, &AMD),
            "off: L2 up/down (register 0xc0000108 is 0x20)"
        );
    }

    #[test]
    fn undocumented_bits_are_shown_and_not_interpreted() {
        assert_eq!(
            words(1 << 40, &INTEL),
            "documented ones on (register 0x1a4 is 0x10000000000)"
        );
    }

    #[test]
    fn a_refused_register_names_its_fix() {
        let host = SysRoot::host();
        let refused = |kind| refusal(&host, 3, &INTEL, &io::Error::from(kind), Some(false));
        assert!(refused(ErrorKind::NotFound).contains("modprobe msr"));
        assert!(refused(ErrorKind::PermissionDenied).contains("CAP_SYS_RAWIO"));
        assert!(refused(ErrorKind::UnexpectedEof).contains("0x1a4"));
    }
}
