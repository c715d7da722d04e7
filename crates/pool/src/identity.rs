//! Which machine this is, and since when it runs.

use std::path::Path;

use crate::PoolError;
use crate::format::Coherence;
use crate::state::check_name;

/// A machine as the pool knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// For people.
    pub(crate) name: String,
    /// The same after a restart of the machine, another on every other machine.
    pub(crate) machine: String,
    /// Another after every restart of the machine: its caches are then empty.
    pub(crate) boot: String,
}

/// The machine of a pool that only one kernel can have open: a copied or moved file is at home
/// wherever it is, and locks say who has it.
const LOCAL: &str = "local";

impl Identity {
    /// Of the machine whose system files are below `root`; `host` replaces what they say.
    pub(crate) fn read(
        root: &Path,
        host: Option<&str>,
        coherence: Coherence,
    ) -> Result<Self, PoolError> {
        let read = |path: &str| {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        if let Some(host) = host {
            check_name(host)?;
        }
        let machine = match (coherence, host) {
            (Coherence::Host, _) => Some(LOCAL.to_owned()),
            (_, Some(host)) => Some(format!("host:{host}")),
            _ => read("etc/machine-id")
                .map(|id| format!("machine:{id}"))
                .or_else(|| read("sys/class/dmi/id/product_uuid").map(|id| format!("dmi:{id}"))),
        };
        let name = host.map(str::to_owned);
        let name = name.or_else(|| read("proc/sys/kernel/hostname"));
        Ok(Self {
            name: name.unwrap_or_else(|| LOCAL.to_owned()),
            machine: machine.ok_or(PoolError::NoIdentity)?,
            // Without it nothing is known about the caches: this boot is no other boot.
            boot: read("proc/sys/kernel/random/boot_id").unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(root: &Path, host: Option<&str>, coherence: Coherence) -> Result<Identity, PoolError> {
        Identity::read(root, host, coherence)
    }

    #[test]
    fn a_machine_without_identity_needs_a_name_where_other_hosts_see_the_pool() {
        let root = tempfile::tempdir().unwrap();
        let none = Coherence::None;
        assert!(matches!(
            read(root.path(), None, none),
            Err(PoolError::NoIdentity)
        ));
        assert_eq!(
            read(root.path(), Some("db7"), none).unwrap().machine,
            "host:db7"
        );
        assert!(read(root.path(), Some("a\nb"), none).is_err());
        assert_eq!(
            read(root.path(), None, Coherence::Host).unwrap().machine,
            LOCAL
        );
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/machine-id"), "0123\n").unwrap();
        assert_eq!(
            read(root.path(), None, none).unwrap().machine,
            "machine:0123"
        );
    }
}
