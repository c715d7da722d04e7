//! Switching the prefetchers of all CPUs, and restoring their registers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::registers::{FOLDER, file};
use super::{Control, PrefetchError, Registers, control};
use crate::apply::{SavedState, StateFile};
use tierloom_topology::saved_state::boot_id;

/// File name in the state directory.
const NAME: &str = "prefetchers.json";

/// Register values before Tierloom changed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRegisters {
    schema: String,
    /// Time of saving, RFC 3339.
    pub saved_at: String,
    /// Id of the boot that the values belong to; `None` if the kernel does not report one.
    pub boot_id: Option<String>,
    /// Number of the model-specific register.
    pub register: u32,
    /// Bits that are restored; all others keep their present value.
    pub mask: u64,
    /// Full value of the register on each CPU.
    pub values: BTreeMap<u32, u64>,
}

impl SavedState for SavedRegisters {
    const SCHEMA: &str = "tierloom-saved-prefetchers/1";

    fn schema(&self) -> &str {
        &self.schema
    }

    fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }
}

/// The state file for registers, next to the one for weights.
pub fn state_file(weights: &StateFile) -> StateFile {
    weights.beside(NAME)
}

/// The values saved in this boot; `None` if there are none.
///
/// At program start, a saved state means that an earlier program did not restore its changes.
///
/// # Errors
/// [`PrefetchError::State`] for a file that cannot be used.
pub fn saved(
    registers: &dyn Registers,
    state: &StateFile,
) -> Result<Option<SavedRegisters>, PrefetchError> {
    let saved = peek(state)?;
    Ok(saved.filter(|saved| !saved.is_of_another_boot(registers)))
}

/// The saved values, from any boot.
///
/// # Errors
/// Same as [`saved`].
pub fn peek(state: &StateFile) -> Result<Option<SavedRegisters>, PrefetchError> {
    Ok(state.read()?)
}

/// Register value of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuState {
    /// Number of the CPU.
    pub cpu: u32,
    /// Full value of the register.
    pub value: u64,
}

/// Register values of all CPUs; reads only.
///
/// # Errors
/// [`PrefetchError`]: missing driver, a register that faults, or no permission to read.
pub fn show(registers: &dyn Registers, control: &Control) -> Result<Vec<CpuState>, PrefetchError> {
    let register = control.register;
    let names = registers.names(FOLDER).unwrap_or_default();
    // The directory has other entries too, such as `microcode`.
    let mut cpus: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    cpus.sort_unstable();
    if cpus.is_empty() {
        return Err(PrefetchError::NoDriver {
            path: registers.full(&file(0)),
        });
    }
    let read = |cpu: u32| {
        let value = read(registers, cpu, register)?;
        Ok(CpuState { cpu, value })
    };
    cpus.into_iter().map(read).collect()
}

/// What [`switch`] has found and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switched {
    /// Register values before the call.
    pub before: Vec<CpuState>,
    /// Number of CPUs written; the others had the value already.
    pub written: usize,
    /// Time at which an earlier switch saved the state that is kept.
    ///
    /// `None` if there was no earlier state, whether or not this call saved one.
    pub kept_since: Option<String>,
}

/// Switches all prefetchers of all CPUs on or off; `now` is RFC 3339.
///
/// The register values are saved in `state` first, unless a state of this boot is there already.
///
/// # Errors
/// [`PrefetchError`]. If a CPU fails, those written before it are restored; after
/// [`PrefetchError::Halfway`], [`restore`] has to do that.
pub fn switch(
    registers: &dyn Registers,
    state: &StateFile,
    on: bool,
    now: &str,
) -> Result<Switched, PrefetchError> {
    let control = control(registers)?;
    // Read everything before a lock or state file is created: this detects most problems.
    show(registers, &control)?;
    let _lock = state.lock()?;
    switch_locked(registers, state, &control, on, now)
}

pub(super) fn switch_locked(
    registers: &dyn Registers,
    state: &StateFile,
    control: &Control,
    on: bool,
    now: &str,
) -> Result<Switched, PrefetchError> {
    let before = show(registers, control)?;
    let mask = control.mask();
    let wanted = |value: u64| if on { value & !mask } else { value | mask };
    let earlier = saved(registers, state)?;
    let changed = before.iter().filter(|c| wanted(c.value) != c.value);
    let changes: Vec<(u32, u64)> = changed.map(|c| (c.cpu, wanted(c.value))).collect();
    if changes.is_empty() {
        return Ok(Switched {
            before,
            written: 0,
            kept_since: earlier.map(|saved| saved.saved_at),
        });
    }
    // The first saved state has the original values; later switches must not overwrite it.
    if earlier.is_none() {
        state.save(&SavedRegisters {
            schema: SavedRegisters::SCHEMA.into(),
            saved_at: now.into(),
            boot_id: boot_id(registers),
            register: control.register,
            mask,
            values: before.iter().map(|c| (c.cpu, c.value)).collect(),
        })?;
    }
    if let Err(cause) = write_all(registers, control.register, &changes) {
        // The failed CPU is included: whether its write took effect is unknown.
        let of_change = |c: &&CpuState| changes.iter().any(|(cpu, _)| *cpu == c.cpu);
        let back: Vec<(u32, u64)> = before
            .iter()
            .filter(of_change)
            .map(|c| (c.cpu, c.value))
            .collect();
        let undone = undo(registers, control.register, &back);
        return Err(match undone {
            Ok(()) => {
                if earlier.is_none() {
                    state.forget()?;
                }
                cause
            }
            Err(source) => PrefetchError::Halfway {
                cause: Box::new(cause),
                source: Box::new(source),
                saved: state.path().to_owned(),
            },
        });
    }
    Ok(Switched {
        before,
        written: changes.len(),
        kept_since: earlier.map(|saved| saved.saved_at),
    })
}

/// What [`restore`] has done, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoredRegisters {
    /// There is no saved state.
    Nothing,
    /// The machine was rebooted, so firmware has set the registers anew.
    Rebooted(SavedRegisters),
    /// Values written, or with `do_it: false` the values that would be written.
    Back {
        /// Values that were saved before the first change.
        saved: SavedRegisters,
        /// CPUs whose register differed from the saved value.
        differed: Vec<u32>,
        /// CPUs of the saved state that no longer exist.
        gone: Vec<u32>,
    },
}

/// Restores the saved values and deletes them; with `do_it: false` only computes the writes.
///
/// A second call finds nothing to do.
///
/// # Errors
/// [`PrefetchError`]; the saved state is then kept, and the call can be repeated.
pub fn restore(
    registers: &dyn Registers,
    state: &StateFile,
    do_it: bool,
) -> Result<RestoredRegisters, PrefetchError> {
    if peek(state)?.is_none() {
        return Ok(RestoredRegisters::Nothing);
    }
    // A dry run writes nothing, not even a lock file.
    let _lock = do_it.then(|| state.lock()).transpose()?;
    restore_locked(registers, state, do_it)
}

pub(super) fn restore_locked(
    registers: &dyn Registers,
    state: &StateFile,
    do_it: bool,
) -> Result<RestoredRegisters, PrefetchError> {
    let Some(saved) = peek(state)? else {
        return Ok(RestoredRegisters::Nothing);
    };
    if saved.is_of_another_boot(registers) {
        if do_it {
            state.forget()?;
        }
        return Ok(RestoredRegisters::Rebooted(saved));
    }
    let there = registers.names(FOLDER).unwrap_or_default();
    if there.is_empty() {
        return Err(PrefetchError::NoDriver {
            path: registers.full(&file(0)),
        });
    }
    let (mut changes, mut gone) = (Vec::new(), Vec::new());
    for (cpu, then) in &saved.values {
        // CPUs can go offline between switching and restoring.
        if !there.iter().any(|name| *name == cpu.to_string()) {
            gone.push(*cpu);
            continue;
        }
        let now = read(registers, *cpu, saved.register)?;
        // Other bits may have changed since, for reasons that are not known here.
        let back = (now & !saved.mask) | (then & saved.mask);
        if back != now {
            changes.push((*cpu, back));
        }
    }
    if do_it {
        write_all(registers, saved.register, &changes)?;
        state.forget()?;
    }
    let differed = changes.into_iter().map(|(cpu, _)| cpu).collect();
    Ok(RestoredRegisters::Back {
        saved,
        differed,
        gone,
    })
}

fn read(registers: &dyn Registers, cpu: u32, register: u32) -> Result<u64, PrefetchError> {
    registers
        .read_register(cpu, register)
        .map_err(|source| PrefetchError::of(registers, "read", (cpu, register), source))
}

/// Writes CPU by CPU, then reads all back.
///
/// Reading back waits for all writes, because the threads of a core share the register.
fn write_all(
    registers: &dyn Registers,
    register: u32,
    changes: &[(u32, u64)],
) -> Result<(), PrefetchError> {
    for (cpu, value) in changes {
        registers
            .write_register(*cpu, register, *value)
            .map_err(|source| PrefetchError::of(registers, "write", (*cpu, register), source))?;
    }
    for (cpu, wanted) in changes {
        let found = read(registers, *cpu, register)?;
        if found != *wanted {
            return Err(PrefetchError::NotTaken {
                cpu: *cpu,
                register,
                wanted: *wanted,
                found,
            });
        }
    }
    Ok(())
}

/// Restores the given values, skipping CPUs that have them already.
fn undo(
    registers: &dyn Registers,
    register: u32,
    back: &[(u32, u64)],
) -> Result<(), PrefetchError> {
    let mut changes = Vec::new();
    for (cpu, then) in back {
        if read(registers, *cpu, register)? != *then {
            changes.push((*cpu, *then));
        }
    }
    write_all(registers, register, &changes)
}
