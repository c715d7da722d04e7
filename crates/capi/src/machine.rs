//! Machine profiles.

use crate::border::{free, guarded, guarded_or, hand_out, reference};
use crate::status::{Fault, tl_status};
use crate::string::tl_str;
use crate::text::{text_out, tl_text};
use tierloom_model::{Machine, profiles};

/// A machine profile; freed with `tl_machine_free`.
///
/// It never changes, so several threads may use one at once.
pub struct tl_machine {
    pub(crate) machine: Machine,
}

/// Number of machine profiles that are built in.
#[unsafe(no_mangle)]
pub extern "C" fn tl_machine_count() -> usize {
    guarded_or(0, || Ok(profiles::builtin_names().len()))
}

/// Name of a built-in profile, for numbers below `tl_machine_count`; empty for others.
///
/// The text is valid as long as the library is loaded. It has no zero byte at its end.
#[unsafe(no_mangle)]
pub extern "C" fn tl_machine_name(number: usize) -> tl_str {
    guarded_or(tl_str::EMPTY, || {
        let names = profiles::builtin_names();
        let name = names.get(number).ok_or_else(|| {
            Fault::argument(format!(
                "there is no machine {number}; there are {}",
                names.len()
            ))
        })?;
        Ok(tl_str::of(name))
    })
}

/// Loads a profile: a built-in one by its name, or a YAML file if the text contains a `/` or ends
/// in `.yaml` or `.yml`.
///
/// # Safety
/// `name` can be read, and a pointer can be written to `machine`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_machine_load(name: tl_str, machine: *mut *mut tl_machine) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let name = unsafe { name.read("name") }?;
        let loaded = tl_machine {
            machine: tierloom_predict::machine::load(name)?,
        };
        // SAFETY: as for this function.
        unsafe { hand_out(machine, loaded, "the place for the machine") }
    })
}

/// The profile as YAML, each number with its source.
///
/// # Safety
/// `machine` is a machine, and a pointer can be written to `yaml`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_machine_yaml(
    machine: *const tl_machine,
    yaml: *mut *mut tl_text,
) -> tl_status {
    guarded(|| {
        // SAFETY: as for this function.
        let machine = unsafe { reference(machine, "machine") }?;
        let text = machine.machine.to_yaml().map_err(Fault::failed)?;
        // SAFETY: as for this function.
        unsafe { text_out(yaml, text) }
    })
}

/// Frees a machine; null is fine.
///
/// # Safety
/// `machine` is null or a machine that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_machine_free(machine: *mut tl_machine) {
    // SAFETY: as for this function.
    unsafe { free(machine) }
}
