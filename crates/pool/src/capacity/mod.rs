//! Where the capacity of a pool comes from, and where it goes when the pool lets it go.

pub mod dcd;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use tierloom_topology::SystemFiles;
use uuid::Uuid;

use crate::PoolError;

/// A member that a source has for a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The file or device.
    pub path: PathBuf,
    /// Length that a file is to have at least; `None` for what it has.
    pub file_bytes: Option<u64>,
    /// Of a device with dynamic capacity: what its fabric manager calls it.
    pub tag: Option<Uuid>,
}

/// Yields members for a pool, and takes them back.
pub trait CapacitySource {
    /// What it is, for messages.
    fn describe(&self) -> String;

    /// Members that can be had now. Each is offered once, and is the caller's until it is given
    /// back ([`CapacitySource::take_back`]).
    ///
    /// # Errors
    /// The source cannot be asked.
    fn offers(&mut self) -> Result<Vec<Offer>, PoolError>;

    /// Members that the caller has and shall give back when it can.
    ///
    /// # Errors
    /// The source cannot be asked.
    fn asked_back(&mut self) -> Result<Vec<PathBuf>, PoolError>;

    /// Takes a member back that nobody uses any more.
    ///
    /// # Errors
    /// The source cannot be told.
    fn take_back(&mut self, member: &Path) -> Result<(), PoolError>;
}

/// A file or device that is there.
#[derive(Debug, Clone)]
pub struct FixedSource {
    offer: Option<Offer>,
}

impl FixedSource {
    /// The file or device at `path`; a file that is shorter gets so many bytes.
    pub fn new(path: &Path, file_bytes: Option<u64>) -> Self {
        let offer = Offer {
            path: path.to_owned(),
            file_bytes,
            tag: None,
        };
        Self { offer: Some(offer) }
    }
}

impl CapacitySource for FixedSource {
    fn describe(&self) -> String {
        "a member that is there".to_owned()
    }

    fn offers(&mut self) -> Result<Vec<Offer>, PoolError> {
        Ok(self.offer.take().into_iter().collect())
    }

    fn asked_back(&mut self) -> Result<Vec<PathBuf>, PoolError> {
        Ok(Vec::new())
    }

    fn take_back(&mut self, _member: &Path) -> Result<(), PoolError> {
        Ok(())
    }
}

/// A file that is made for the pool, and removed when it comes back.
#[derive(Debug, Clone)]
pub struct FileSource {
    offer: Option<Offer>,
}

impl FileSource {
    /// A file of so many bytes at `path`, where nothing is yet.
    pub fn new(path: &Path, bytes: u64) -> Self {
        let offer = Offer {
            path: path.to_owned(),
            file_bytes: Some(bytes),
            tag: None,
        };
        Self { offer: Some(offer) }
    }
}

impl CapacitySource for FileSource {
    fn describe(&self) -> String {
        "a file that is made".to_owned()
    }

    fn offers(&mut self) -> Result<Vec<Offer>, PoolError> {
        let offer = self.offer.take();
        let new = |offer: &Offer| std::fs::symlink_metadata(&offer.path).is_err();
        match offer {
            Some(offer) if !new(&offer) => Err(crate::error::refused(
                "create",
                &offer.path,
                std::io::ErrorKind::AlreadyExists.into(),
            )),
            offer => Ok(offer.into_iter().collect()),
        }
    }

    fn asked_back(&mut self) -> Result<Vec<PathBuf>, PoolError> {
        Ok(Vec::new())
    }

    fn take_back(&mut self, member: &Path) -> Result<(), PoolError> {
        match std::fs::remove_file(member) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(crate::error::refused("remove", member, error))
            }
            _ => Ok(()),
        }
    }
}

/// The DAX devices of a machine that can be mapped, as they come and go.
pub struct DaxSource<'f> {
    files: &'f dyn SystemFiles,
    /// Those that were offered, or that the caller had before.
    taken: Vec<PathBuf>,
    /// Only those with this tag.
    tag: Option<Uuid>,
}

impl<'f> DaxSource<'f> {
    /// All devices but those in `had`; with a tag only those that have it.
    pub fn new(files: &'f dyn SystemFiles, had: &[PathBuf], tag: Option<Uuid>) -> Self {
        Self {
            files,
            taken: had.to_owned(),
            tag,
        }
    }
}

impl CapacitySource for DaxSource<'_> {
    fn describe(&self) -> String {
        match self.tag {
            Some(tag) => format!("the DAX devices with uuid {tag}"),
            None => "the DAX devices in devdax mode".to_owned(),
        }
    }

    fn offers(&mut self) -> Result<Vec<Offer>, PoolError> {
        let mut offers = devices(self.files);
        offers.retain(|offer| !self.taken.contains(&offer.path));
        offers.retain(|offer| self.tag.is_none() || offer.tag == self.tag);
        self.taken
            .extend(offers.iter().map(|offer| offer.path.clone()));
        Ok(offers)
    }

    /// Those that are no longer there: their memory was taken away.
    fn asked_back(&mut self) -> Result<Vec<PathBuf>, PoolError> {
        let there = devices(self.files);
        let gone = |path: &&PathBuf| !there.iter().any(|offer| offer.path == **path);
        Ok(self.taken.iter().filter(gone).cloned().collect())
    }

    fn take_back(&mut self, member: &Path) -> Result<(), PoolError> {
        self.taken.retain(|path| path != member);
        Ok(())
    }
}

/// DAX devices in devdax mode with memory, by name; with their tags where the kernel has any.
fn devices(files: &dyn SystemFiles) -> Vec<Offer> {
    let names = files.names("sys/bus/dax/drivers/device_dax");
    let mut names = names.unwrap_or_default();
    names.retain(|name| name.starts_with("dax"));
    names.sort_unstable();
    let attribute = |name: &str, file: &str| {
        let text = files.read(&format!("sys/bus/dax/devices/{name}/{file}"));
        text.unwrap_or_default()
    };
    names.retain(|name| {
        attribute(name, "size")
            .parse()
            .is_ok_and(|bytes: u64| bytes > 0)
    });
    let offer = |name: &String| Offer {
        path: Path::new("/dev").join(name),
        file_bytes: None,
        tag: Uuid::try_parse(&attribute(name, "uuid"))
            .ok()
            .filter(|tag| !tag.is_nil()),
    };
    names.iter().map(offer).collect()
}
