//! Members that are DAX devices become larger and smaller, together with the device.
//!
//! The kernel cuts all mappings of a device that it resizes, on this host. So nobody here may have
//! the pool open meanwhile, this process included: it closes the pool, looks whether anybody still
//! has the device open, and opens the pool again. Other hosts have a device of their own for the
//! same memory, and notice nothing.

use std::path::{Path, PathBuf};

use tierloom_memory::DevdaxBackend;
use tierloom_topology::SystemFiles;

use super::{OpenOptions, Pool, ShrinkPlan};
use crate::PoolError;
use crate::dax::{DaxDevice, DaxResize, holders};
use crate::state::{HostEntry, HostState};

/// A member that is a device.
struct DeviceMember {
    path: PathBuf,
    /// Its name in sysfs.
    name: String,
}

impl OpenOptions {
    /// What [`OpenOptions::shrink_device`] would do; nothing is changed.
    ///
    /// # Errors
    /// As [`OpenOptions::shrink_device`], but for those that only trying it shows.
    pub fn shrink_device_plan(
        &self,
        path: &Path,
        index: u32,
        bytes: u64,
        files: &dyn SystemFiles,
    ) -> Result<(ShrinkPlan, DaxResize), PoolError> {
        let (pool, member) = self.open_alone(path, index)?;
        let plan = pool.shrink_plan(index, bytes)?;
        let resize = member.in_sysfs(files).plan(plan.member_bytes)?;
        Ok((plan, resize))
    }

    /// Makes a member that is a DAX device, and the device, at most so many bytes long.
    ///
    /// First all is checked, then tables move as in [`Pool::shrink_member`], and with the pool's
    /// commit the end of the device is no part of it any more. Then the device becomes smaller. If
    /// the kernel refuses that, the pool is smaller nevertheless; doing it again is right.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`] and [`Pool::shrink_member`]; [`PoolError::DeviceInUse`];
    /// [`PoolError::NotADevice`]; [`PoolError::Resize`].
    pub fn shrink_device(
        &self,
        path: &Path,
        index: u32,
        bytes: u64,
        files: &dyn SystemFiles,
    ) -> Result<(Pool, DaxResize), PoolError> {
        let (pool, member) = self.open_alone(path, index)?;
        let end = pool.shrink_plan(index, bytes)?.member_bytes;
        member.in_sysfs(files).plan(end)?;
        pool.shrink_member(index, bytes)?;
        self.resized(pool, &member, end, files)
    }

    /// What [`OpenOptions::grow_device`] would do; nothing is changed.
    ///
    /// # Errors
    /// As [`OpenOptions::grow_device`], but for those that only trying it shows.
    pub fn grow_device_plan(
        &self,
        path: &Path,
        index: u32,
        bytes: Option<u64>,
        files: &dyn SystemFiles,
    ) -> Result<DaxResize, PoolError> {
        let (_pool, member) = self.open_alone(path, index)?;
        let device = member.in_sysfs(files);
        let now = device.plan(0)?.from_bytes;
        Ok(device.plan(bytes.unwrap_or(now).max(now))?)
    }

    /// Makes a member that is a DAX device larger: to what the device has by now, or to so many
    /// bytes, for which the device becomes larger first.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`] and [`Pool::grow_member`]; [`PoolError::DeviceInUse`];
    /// [`PoolError::NotADevice`]; [`PoolError::Resize`].
    pub fn grow_device(
        &self,
        path: &Path,
        index: u32,
        bytes: Option<u64>,
        files: &dyn SystemFiles,
    ) -> Result<(Pool, DaxResize), PoolError> {
        let resize = self.grow_device_plan(path, index, bytes, files)?;
        let (pool, member) = self.open_alone(path, index)?;
        // More than the pool can have is refused before the device changes.
        pool.may_grow(index, resize.to_bytes)?;
        let (pool, resize) = self.resized(pool, &member, resize.to_bytes, files)?;
        pool.grow_member(index, resize.to_bytes)?;
        Ok((pool, resize))
    }

    /// Opens the pool as its manager, with no other user of it, or of the device, on this host.
    fn open_alone(&self, path: &Path, index: u32) -> Result<(Pool, DeviceMember), PoolError> {
        let pool = self.open(path).map_err(|error| match error {
            PoolError::Managed { .. } => in_use(path, &["another process".to_owned()]),
            error => error,
        })?;
        let member = pool.device(index)?;
        let sessions = pool.sessions_here();
        let own = std::process::id();
        let others = holders(&member.path, |process| process != own);
        match (sessions.is_empty(), others.is_empty()) {
            (true, true) => Ok((pool, member)),
            (true, false) => Err(in_use(path, &others)),
            (false, _) => Err(in_use(path, &sessions)),
        }
    }

    /// Closes the pool, resizes the device, and opens the pool again.
    fn resized(
        &self,
        pool: Pool,
        member: &DeviceMember,
        bytes: u64,
        files: &dyn SystemFiles,
    ) -> Result<(Pool, DaxResize), PoolError> {
        let path = pool.path();
        drop(pool);
        let holders = holders(&member.path, |_| true);
        if !holders.is_empty() {
            return Err(in_use(&path, &holders));
        }
        let resize = member.in_sysfs(files).resize(bytes)?;
        Ok((self.open(&path)?, resize))
    }
}

fn in_use(path: &Path, users: &[String]) -> PoolError {
    PoolError::DeviceInUse {
        path: path.to_owned(),
        users: users.join(", "),
    }
}

impl DeviceMember {
    fn in_sysfs<'d>(&'d self, files: &'d dyn SystemFiles) -> DaxDevice<'d> {
        DaxDevice::new(files, &self.name)
    }
}

impl Pool {
    /// The member of a number, if it is a device.
    fn device(&self, index: u32) -> Result<DeviceMember, PoolError> {
        let inner = self.inner();
        let member = inner.member(index)?;
        if !member.is_device() {
            return Err(PoolError::NotADevice {
                path: member.path.clone(),
            });
        }
        let device = DevdaxBackend::new(&member.path, 0)?;
        Ok(DeviceMember {
            path: member.path.clone(),
            name: device.device_name().to_owned(),
        })
    }

    /// Sessions of this machine that are alive without a manager: dead ones were cleared when the
    /// pool was opened.
    fn sessions_here(&self) -> Vec<String> {
        let inner = self.inner();
        let here = |host: &&HostEntry| {
            host.slot != inner.me.slot
                && host.state == HostState::Up
                && inner.is_of_this_kernel(host)
        };
        let sessions = inner.state.hosts.iter().filter(|h| h.client_on.is_some());
        sessions
            .filter(here)
            .map(|host| host.name.clone())
            .collect()
    }
}
