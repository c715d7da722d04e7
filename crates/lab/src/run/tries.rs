//! Repeats a boot if the emulator failed, from the same state of the CXL devices.

use super::kept::SavedFile;
use crate::guest::GuestOptions;
use crate::{EmulatorFault, Kit, LabError};

/// Maximum number of boots of one guest, the first one included.
pub(super) const TRIES: u32 = 4;

/// The attempts of one guest or of one group of guests.
pub(super) struct Tries<'a> {
    kit: &'a Kit,
    kept: Vec<SavedFile>,
    faults: Vec<EmulatorFault>,
    most: u32,
}

impl<'a> Tries<'a> {
    /// Saves the content of the guests' CXL devices, so that each attempt starts from it.
    pub(super) fn new<'b>(
        kit: &'a Kit,
        guests: impl IntoIterator<Item = &'b GuestOptions>,
        most: u32,
    ) -> Result<Tries<'a>, LabError> {
        let mut paths: Vec<_> = guests
            .into_iter()
            .filter_map(|options| options.cxl_backing.as_deref())
            .collect();
        paths.sort_unstable();
        paths.dedup();
        let kept: Result<_, LabError> = paths.into_iter().map(SavedFile::of).collect();
        Ok(Tries {
            kit,
            kept: kept?,
            faults: Vec::new(),
            most,
        })
    }

    /// Records a failed attempt and returns a message, if another one is to follow.
    ///
    /// # Errors
    /// Returns `error` if it is not a failure of the emulator, or if there must be no further
    /// attempt; it then has the number of attempts.
    pub(super) fn again(&mut self, error: LabError) -> Result<String, LabError> {
        let Some(fault) = error.emulator_fault().cloned() else {
            return Err(error);
        };
        let reason = fault.reason();
        self.faults.push(fault);
        let made = self.faults.len() as u32;
        if made >= self.most || !self.put_devices_back()? {
            return Err(after(error, made));
        }
        self.kit.note_retry(&reason);
        Ok(format!(
            "lab: the emulator failed: {reason}; booting again, try {} of {}",
            made + 1,
            self.most
        ))
    }

    /// The failures of the attempts before the successful one.
    pub(super) fn faults(self) -> Vec<EmulatorFault> {
        self.faults
    }

    fn put_devices_back(&self) -> Result<bool, LabError> {
        for kept in &self.kept {
            if !kept.put_back()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// `error` with the number of attempts filled in.
fn after(mut error: LabError, made: u32) -> LabError {
    match &mut error {
        LabError::Emulator { tries, .. } => *tries = made,
        LabError::Together { source, .. } => {
            if let LabError::Emulator { tries, .. } = source.as_mut() {
                *tries = made;
            }
        }
        _ => {}
    }
    error
}
