//! Prefetchers that are restored automatically.

use std::sync::Arc;

use tierloom_topology::saved_state::StateLock;

use super::switch::{restore_locked, saved, switch_locked};
use super::{Control, PrefetchError, Registers, control};
use crate::apply::StateFile;

/// Switches the hardware prefetchers between phases of work.
pub trait Prefetchers: Send {
    /// Switches them for all CPUs: `false` is off, `true` restores the original state.
    ///
    /// # Errors
    /// [`PrefetchError`]; either the CPUs are as before the call, or their original values are
    /// saved.
    fn set(&mut self, on: bool) -> Result<(), PrefetchError>;
}

/// Restores the prefetchers when dropped.
///
/// If the program is killed before that, [`super::restore`] does it. The guard holds the lock, so
/// no other process can switch prefetchers meanwhile.
pub struct PrefetchGuard {
    registers: Arc<dyn Registers + Send + Sync>,
    state: StateFile,
    control: Control,
    now: String,
    found: Option<String>,
    is_off: bool,
    _lock: StateLock,
}

impl PrefetchGuard {
    /// Switches all prefetchers of all CPUs off; `now` is RFC 3339.
    ///
    /// # Errors
    /// Same as [`PrefetchGuard::ready`] and [`super::switch`]; nothing is switched then.
    pub fn switch_off(
        registers: Arc<dyn Registers + Send + Sync>,
        state: StateFile,
        now: &str,
    ) -> Result<Self, PrefetchError> {
        let mut guard = Self::ready(registers, state, now)?;
        guard.set(false)?;
        Ok(guard)
    }

    /// Checks that the prefetchers can be switched, and takes the lock; nothing is written yet.
    ///
    /// # Errors
    /// [`PrefetchError`]: unknown register, missing driver, no permission to read, or a lock held
    /// by another process.
    pub fn ready(
        registers: Arc<dyn Registers + Send + Sync>,
        state: StateFile,
        now: &str,
    ) -> Result<Self, PrefetchError> {
        let control = control(&*registers)?;
        // Fails where registers cannot be read, before a lock file is created.
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

    /// Time at which an earlier program saved a state and did not restore it, if one did.
    ///
    /// Restoring goes back to that state.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    /// Register of the processor, with its bits.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Restores everything now; unlike dropping, it can report errors.
    ///
    /// # Errors
    /// [`PrefetchError`]; the original values then stay saved.
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
            // A destructor cannot return the error; the saved state allows a later restore.
            eprintln!(
                "prefetchers stay off: {error}; `tierloom tune --restore --yes` puts them back"
            );
        }
    }
}
