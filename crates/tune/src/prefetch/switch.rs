//! Switching all CPUs, and putting back what their registers held.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::registers::{FOLDER, file};
use super::{Control, PrefetchError, Registers, control};
use crate::apply::{StateFile, boot_id};

/// The only version of the saved state.
const SCHEMA: &str = "tierloom-saved-prefetchers/1";
/// Its name in the state folder.
const NAME: &str = "prefetchers.json";

/// What the registers held before Tierloom wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRegisters {
    schema: String,
    /// When, RFC 3339.
    pub saved_at: String,
    /// The boot that the values belong to; `None` if the kernel does not tell.
    pub boot_id: Option<String>,
    /// The register.
    pub register: u32,
    /// The bits of it that are put back.
    pub mask: u64,
    /// What it held on each CPU.
    pub values: BTreeMap<u32, u64>,
}

impl SavedRegisters {
    /// Whether the machine was booted again since: the registers are as firmware sets them.
    pub fn is_of_another_boot(&self, registers: &dyn Registers) -> bool {
        matches!((&self.boot_id, boot_id(registers)), (Some(then), Some(now)) if *then != now)
    }
}

/// The file of the saved registers: in the folder of the saved weights.
pub fn state_file(weights: &StateFile) -> StateFile {
    weights.beside(NAME)
}

/// What is saved of this boot; `None` if nothing is. A program that starts can tell by it that an earlier one did not end well.
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

/// What is saved, of whatever boot.
///
/// # Errors
/// As [`saved`].
pub fn peek(state: &StateFile) -> Result<Option<SavedRegisters>, PrefetchError> {
    Ok(state.read_json(SCHEMA, |saved: &SavedRegisters| &saved.schema)?)
}

/// The register of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuState {
    /// The CPU.
    pub cpu: u32,
    /// What its register holds.
    pub value: u64,
}

/// What the registers of all CPUs hold. Reads only.
///
/// # Errors
/// [`PrefetchError`]: no driver, a register that faults, no right to read.
pub fn show(registers: &dyn Registers, control: &Control) -> Result<Vec<CpuState>, PrefetchError> {
    let register = control.register;
    let names = registers.names(FOLDER).unwrap_or_default();
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

/// What switching came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switched {
    /// What the registers held before.
    pub before: Vec<CpuState>,
    /// CPUs whose register was written; the others held it already.
    pub written: usize,
    /// When the state was saved that is kept from an earlier switch; `None` if it was saved now, or nothing had to be written.
    pub kept_since: Option<String>,
}

/// Switches all prefetchers of all CPUs on or off; what the registers held is saved in `state` first, unless a state of this boot is there. `now` is RFC 3339.
///
/// # Errors
/// [`PrefetchError`]. The CPUs that were written before one failed are put back; [`PrefetchError::Halfway`] leaves something to [`restore`].
pub fn switch(
    registers: &dyn Registers,
    state: &StateFile,
    on: bool,
    now: &str,
) -> Result<Switched, PrefetchError> {
    let control = control(registers)?;
    // First without touching anything: most of what can be wrong shows here.
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
    if earlier.is_none() {
        state.save(&SavedRegisters {
            schema: SCHEMA.into(),
            saved_at: now.into(),
            boot_id: boot_id(registers),
            register: control.register,
            mask,
            values: before.iter().map(|c| (c.cpu, c.value)).collect(),
        })?;
    }
    if let Err(cause) = write_all(registers, control.register, &changes) {
        // Those before it, and the one that failed: nobody knows what it took.
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

/// What putting back came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// No state is saved.
    Nothing,
    /// The machine was booted since, so the registers are as firmware sets them.
    Rebooted(SavedRegisters),
    /// What was (or with `do_it: false`, would be) written.
    Back {
        /// What was saved.
        saved: SavedRegisters,
        /// CPUs whose register differs from what was saved.
        differed: Vec<u32>,
        /// CPUs of the saved state that are gone.
        gone: Vec<u32>,
    },
}

/// Puts the saved values back and forgets them; with `do_it: false` only tells what that would write. Doing it again does nothing.
///
/// # Errors
/// [`PrefetchError`]; the saved state is kept then, and this can be tried again.
pub fn restore(
    registers: &dyn Registers,
    state: &StateFile,
    do_it: bool,
) -> Result<Restored, PrefetchError> {
    if peek(state)?.is_none() {
        return Ok(Restored::Nothing);
    }
    let _lock = do_it.then(|| state.lock()).transpose()?;
    restore_locked(registers, state, do_it)
}

pub(super) fn restore_locked(
    registers: &dyn Registers,
    state: &StateFile,
    do_it: bool,
) -> Result<Restored, PrefetchError> {
    let Some(saved) = peek(state)? else {
        return Ok(Restored::Nothing);
    };
    if saved.is_of_another_boot(registers) {
        if do_it {
            state.forget()?;
        }
        return Ok(Restored::Rebooted(saved));
    }
    let there = registers.names(FOLDER).unwrap_or_default();
    if there.is_empty() {
        return Err(PrefetchError::NoDriver {
            path: registers.full(&file(0)),
        });
    }
    let (mut changes, mut gone) = (Vec::new(), Vec::new());
    for (cpu, then) in &saved.values {
        if !there.iter().any(|name| *name == cpu.to_string()) {
            gone.push(*cpu);
            continue;
        }
        let now = read(registers, *cpu, saved.register)?;
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
    Ok(Restored::Back {
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

/// Writes CPU by CPU, then reads all back: threads of a core share their register.
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

/// Puts back what can be put back: CPUs that hold it already, because nothing was written, are not written.
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
