//! The size of a DAX device, which root changes through sysfs.
//!
//! The kernel does it only while no driver has the device, and taking the driver away cuts every
//! mapping of it on this host: whoever touches one afterwards gets SIGBUS. If a process keeps it
//! open over this, nobody can open it afterwards (ENXIO; seen with Linux 6.12), so [`holders`] is
//! asked first. The bytes stay in the memory. What is cut off belongs to the region of the device
//! again, where another device can be made of it.

mod error;
mod holders;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;

use tierloom_text::Bytes;
use tierloom_topology::SystemFiles;

pub use error::DaxSizeError;
pub(crate) use holders::holders;

const DEVICES: &str = "sys/bus/dax/devices";
const DRIVER: &str = "sys/bus/dax/drivers/device_dax";

/// A DAX device in devdax mode, by its name in sysfs.
#[derive(Clone, Copy)]
pub(crate) struct DaxDevice<'f> {
    files: &'f dyn SystemFiles,
    name: &'f str,
}

/// What a new size would take, or took.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DaxResize {
    /// Name of the device in sysfs.
    pub device: String,
    /// Its size before, in bytes.
    pub from_bytes: u64,
    /// Its size afterwards, in bytes; equal if nothing has to be done.
    pub to_bytes: u64,
}

impl<'f> DaxDevice<'f> {
    pub(crate) fn new(files: &'f dyn SystemFiles, name: &'f str) -> Self {
        Self { files, name }
    }

    /// Checks what can be known before anything is changed. A size that is no multiple of the
    /// device's alignment is rounded up.
    ///
    /// # Errors
    /// [`DaxSizeError`], but for [`DaxSizeError::Step`].
    pub(crate) fn plan(self, bytes: u64) -> Result<DaxResize, DaxSizeError> {
        let align = self.number("align")?.max(1);
        let from_bytes = self.number("size")?;
        let plan = DaxResize {
            device: self.name.to_owned(),
            from_bytes,
            to_bytes: bytes.next_multiple_of(align),
        };
        if plan.to_bytes == from_bytes {
            return Ok(plan);
        }
        let more_bytes = plan.to_bytes.saturating_sub(from_bytes);
        // Beside the device's directory, which is a link.
        let available_bytes = self.number("../dax_region/available_size")?;
        if more_bytes > available_bytes {
            return Err(DaxSizeError::NoRoom {
                device: self.name.to_owned(),
                more: Bytes(more_bytes),
                available: Bytes(available_bytes),
            });
        }
        if !self.is_bound()? {
            return Err(DaxSizeError::OtherMode {
                device: self.name.to_owned(),
            });
        }
        for file in [
            self.attribute("size"),
            format!("{DRIVER}/unbind"),
            format!("{DRIVER}/bind"),
        ] {
            self.files
                .may_write(&file)
                .map_err(|source| self.forbidden(&file, source))?;
        }
        Ok(plan)
    }

    /// Gives the device its new size. It has its driver again afterwards, also after an error if
    /// the kernel lets it.
    ///
    /// # Errors
    /// [`DaxSizeError`].
    pub(crate) fn resize(self, bytes: u64) -> Result<DaxResize, DaxSizeError> {
        let plan = self.plan(bytes)?;
        if plan.to_bytes == plan.from_bytes {
            return Ok(plan);
        }
        self.step(&format!("{DRIVER}/unbind"), self.name)?;
        let sized = self.step(&self.attribute("size"), &plan.to_bytes.to_string());
        let bound = self.step(&format!("{DRIVER}/bind"), self.name);
        sized?;
        bound?;
        let found = self.number("size")?;
        match found == plan.to_bytes && self.is_bound()? {
            true => Ok(plan),
            false => Err(DaxSizeError::NotMade {
                device: self.name.to_owned(),
                wanted: Bytes(plan.to_bytes),
                found: Bytes(found),
            }),
        }
    }

    fn attribute(self, name: &str) -> String {
        format!("{DEVICES}/{}/{name}", self.name)
    }

    fn number(self, name: &str) -> Result<u64, DaxSizeError> {
        let file = self.attribute(name);
        let text = self.files.read(&file);
        let unreadable = |why: String| DaxSizeError::Unreadable {
            device: self.name.to_owned(),
            file: self.files.full(&file),
            why,
        };
        let text = text.map_err(|error| unreadable(error.to_string()))?;
        let number = text.parse();
        number.map_err(|_| unreadable(format!("it holds `{}`", text.escape_debug())))
    }

    fn is_bound(self) -> Result<bool, DaxSizeError> {
        let names = self.files.names(DRIVER);
        let names = names.map_err(|error| DaxSizeError::Unreadable {
            device: self.name.to_owned(),
            file: self.files.full(DRIVER),
            why: error.to_string(),
        })?;
        Ok(names.iter().any(|name| name == self.name))
    }

    fn step(self, file: &str, text: &str) -> Result<(), DaxSizeError> {
        self.files
            .write(file, text)
            .map_err(|source| DaxSizeError::Step {
                device: self.name.to_owned(),
                file: self.files.full(file),
                text: text.to_owned(),
                source,
            })
    }

    fn forbidden(self, file: &str, source: std::io::Error) -> DaxSizeError {
        DaxSizeError::Forbidden {
            device: self.name.to_owned(),
            file: self.files.full(file),
            next_step: match source.kind() {
                ErrorKind::NotFound => "its kind of device has a fixed size",
                _ => "run as root; the devices of NVDIMMs have a fixed size",
            },
            source,
        }
    }
}
