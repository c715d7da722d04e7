//! Prefetchers that come back by themselves.

use std::fs::File;
use std::sync::Arc;

use super::switch::{restore_locked, saved, switch_locked};
use super::{Control, PrefetchError, Registers, control};
use crate::apply::StateFile;

/// Whoever switches the hardware prefetchers between phases of work.
pub trait Prefetchers: Send {
    /// Switches them for all CPUs: off, or as they were.
    ///
    /// # Errors
    /// [`PrefetchError`]; the CPUs are then as before the call, or what they held is saved.
    fn set(&mut self, on: bool) -> Result<(), PrefetchError>;
}

/// Prefetchers that were switched off and come back when this goes, or with [`super::restore`] if the program does not live so long. While it
/// lives no other one can switch them.
pub struct PrefetchGuard {
    registers: Arc<dyn Registers + Send + Sync>,
    state: StateFile,
    control: Control,
    now: String,
    found: Option<String>,
    is_off: bool,
    _lock: File,
}

impl PrefetchGuard {
    /// Switches all prefetchers of all CPUs off. `now` is RFC 3339.
    ///
    /// # Errors
    /// [`PrefetchError`]: those of [`super::switch`]; nothing is switched then.
    pub fn switch_off(
        registers: Arc<dyn Registers + Send + Sync>,
        state: StateFile,
        now: &str,
    ) -> Result<Self, PrefetchError> {
        let mut guard = Self::ready(registers, state, now)?;
        guard.set(false)?;
        Ok(guard)
    }

    /// Finds out whether they can be switched, and holds the lock; nothing is written yet.
    ///
    /// # Errors
    /// [`PrefetchError`]: no register that is known, no driver, no right to read it, another program that holds the lock.
    pub fn ready(
        registers: Arc<dyn Registers + Send + Sync>,
        state: StateFile,
        now: &str,
    ) -> Result<Self, PrefetchError> {
        let control = control(&*registers)?;
        super::show(&*registers, &control)?;
        let lock = state.lock()?;
        let earlier = saved(&*registers, &state)?;
        Ok(PrefetchGuard {
            registers,
            state,
            control,
            now: now.into(),
            found: earlier.map(|saved| saved.saved_at),
            is_off: false,
            _lock: lock,
        })
    }

    /// When the state was saved that an earlier program left behind; `None` if there is none. That state is the one that comes back.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    /// The register and its bits.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Puts everything back now; dropping does the same but cannot tell what failed.
    ///
    /// # Errors
    /// [`PrefetchError`]; what the registers held stays saved then.
    pub fn restore(mut self) -> Result<(), PrefetchError> {
        self.set(true)
    }
}

impl Prefetchers for PrefetchGuard {
    fn set(&mut self, on: bool) -> Result<(), PrefetchError> {
        if on {
            restore_locked(&*self.registers, &self.state, true)?;
        } else {
            switch_locked(
                &*self.registers,
                &self.state,
                &self.control,
                false,
                &self.now,
            )?;
        }
        self.is_off = !on;
        Ok(())
    }
}

impl Drop for PrefetchGuard {
    fn drop(&mut self) {
        if self.is_off
            && let Err(error) = self.set(true)
        {
            // There is nobody to hand it to; the saved state is still there.
            eprintln!(
                "prefetchers stay off: {error}; `tierloom tune --restore --yes` puts them back"
            );
        }
    }
}
