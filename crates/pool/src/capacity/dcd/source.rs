//! Dynamic capacity as members for a pool.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tierloom_memory::Clock;
use tierloom_topology::SystemFiles;

use super::{DcCommand, DcEvent, DcExtent, DcMachine, DcState};
use crate::PoolError;
use crate::capacity::{CapacitySource, Offer, devices};

/// The way to a device with dynamic capacity.
pub trait DcMailbox {
    /// The oldest record that was not returned yet.
    ///
    /// # Errors
    /// The device cannot be reached.
    fn next_event(&mut self) -> io::Result<Option<DcEvent>>;

    /// Sends a command; `false` if the device refuses it.
    ///
    /// # Errors
    /// The device cannot be reached, and whether it has carried the command out is not known.
    fn send(&mut self, command: &DcCommand) -> io::Result<bool>;

    /// All extents that the host has accepted and not given back (opcode 4801h).
    ///
    /// # Errors
    /// The device cannot be reached.
    fn extents(&mut self) -> io::Result<Vec<DcExtent>>;

    /// The unit of extents in bytes (opcode 4800h).
    fn block_bytes(&self) -> u64;
}

/// Allocations of a device, each of which is a DAX device with its tag. Those without a tag are
/// accepted and used by nobody: no DAX device can be told to be theirs.
pub struct DcdSource<'f, M> {
    mailbox: M,
    files: &'f dyn SystemFiles,
    clock: Arc<dyn Clock>,
    machine: DcMachine,
    /// Allocations in use.
    members: BTreeMap<PathBuf, u64>,
}

impl<'f, M: DcMailbox> DcdSource<'f, M> {
    /// The capacity behind a mailbox; what was accepted before is ready.
    ///
    /// # Errors
    /// [`PoolError::Mailbox`].
    pub fn new(
        mut mailbox: M,
        files: &'f dyn SystemFiles,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PoolError> {
        let extents = mailbox.extents().map_err(unreachable)?;
        Ok(Self {
            machine: DcMachine::new(mailbox.block_bytes(), &extents),
            mailbox,
            files,
            clock,
            members: BTreeMap::new(),
        })
    }

    /// All allocations.
    pub fn machine(&self) -> &DcMachine {
        &self.machine
    }

    /// The way to the device.
    pub fn mailbox(&mut self) -> &mut M {
        &mut self.mailbox
    }

    /// Takes all records that there are, and answers them.
    fn poll(&mut self) -> Result<(), PoolError> {
        while let Some(event) = self.mailbox.next_event().map_err(unreachable)? {
            let commands = self.machine.event(event, self.clock.now());
            self.send(commands)?;
        }
        let late = self.machine.tick(self.clock.now());
        self.send(late)
    }

    fn send(&mut self, mut commands: Vec<DcCommand>) -> Result<(), PoolError> {
        while !commands.is_empty() {
            let command = commands.remove(0);
            let done = self.mailbox.send(&command).map_err(unreachable)?;
            commands.extend(self.machine.answered(&command, done));
        }
        Ok(())
    }

    fn of_state(&self, wanted: &[DcState]) -> Vec<u64> {
        let all = self.machine.allocations().iter();
        let found = all.filter(|allocation| wanted.contains(&allocation.state));
        found.map(|allocation| allocation.id).collect()
    }
}

fn unreachable(source: io::Error) -> PoolError {
    PoolError::Mailbox { source }
}

impl<M: DcMailbox> CapacitySource for DcdSource<'_, M> {
    fn describe(&self) -> String {
        "dynamic capacity of a CXL device".to_owned()
    }

    fn offers(&mut self) -> Result<Vec<Offer>, PoolError> {
        self.poll()?;
        let devices = devices(self.files);
        let mut offers = Vec::new();
        for id in self.of_state(&[DcState::Ready]) {
            let all = self.machine.allocations().iter();
            let tag = all.clone().find(|a| a.id == id).map(|a| a.tag);
            let tag = tag.filter(|tag| !tag.is_nil());
            let device = devices.iter().find(|d| tag.is_some() && d.tag == tag);
            // The kernel makes the device a moment after the allocation was accepted.
            let Some(device) = device else { continue };
            // Its name may still be that of a lost one, which the caller has not let go.
            if !self.members.contains_key(&device.path) && self.machine.take(id) {
                self.members.insert(device.path.clone(), id);
                offers.push(device.clone());
            }
        }
        Ok(offers)
    }

    fn asked_back(&mut self) -> Result<Vec<PathBuf>, PoolError> {
        self.poll()?;
        let wanted = self.of_state(&[DcState::AskedBack, DcState::Lost]);
        let members = self.members.iter().filter(|(_, id)| wanted.contains(id));
        Ok(members.map(|(path, _)| path.clone()).collect())
    }

    fn take_back(&mut self, member: &Path) -> Result<(), PoolError> {
        let Some(id) = self.members.remove(member) else {
            return Ok(());
        };
        let commands = self.machine.let_go(id);
        self.send(commands)
    }
}
