//! What a host remembers of a device's dynamic capacity.

use std::time::Duration;

use uuid::Uuid;

use super::{DcCommand, DcEvent, DcExtent};

/// A chain that is not closed for so long is declined.
const CHAIN_LIMIT: Duration = Duration::from_secs(20);

/// How far an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DcState {
    /// The device was told that the host takes it.
    Accepting,
    /// It is the host's, and nobody uses it.
    Ready,
    /// Somebody uses it.
    InUse,
    /// Somebody uses it and shall let it go.
    AskedBack,
    /// The device was told that the host has let it go.
    GivingBack,
    /// The device took it away from whoever uses it.
    Lost,
}

/// Extents that appear and disappear together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DcAllocation {
    /// Its number: no other one of this machine ever has it.
    pub id: u64,
    /// Its tag; the null UUID if it has none.
    pub tag: Uuid,
    /// In the order of its addresses for the host.
    pub extents: Vec<DcExtent>,
    /// How far it is.
    pub state: DcState,
}

impl DcAllocation {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.extents
            .iter()
            .any(|extent| extent.overlaps(start, end))
    }

    fn is_within(&self, start: u64, end: u64) -> bool {
        let inside = |extent: &DcExtent| start <= extent.start && extent.end() <= end;
        self.extents.iter().all(inside)
    }
}

/// The state of dynamic capacity of one device, without input and output.
///
/// Records go in, commands come out; the caller sends these, one after another, and says what came
/// of each ([`DcMachine::answered`]).
#[derive(Debug, Clone)]
pub struct DcMachine {
    block_bytes: u64,
    /// Extents of the chain that is open, and when its first record came.
    chain: Vec<DcExtent>,
    since: Option<Duration>,
    /// The open chain is to be declined as a whole.
    refused: bool,
    allocations: Vec<DcAllocation>,
    next_id: u64,
}

impl DcMachine {
    /// The state of a host that has accepted `extents` before, as the device lists them (opcode
    /// 4801h). `block_bytes` is the unit of extents of the device.
    pub fn new(block_bytes: u64, extents: &[DcExtent]) -> Self {
        let mut machine = Self {
            block_bytes: block_bytes.max(1),
            chain: Vec::new(),
            since: None,
            refused: false,
            allocations: Vec::new(),
            next_id: 1,
        };
        for extent in extents {
            let same = |a: &&mut DcAllocation| !extent.tag.is_nil() && a.tag == extent.tag;
            match machine.allocations.iter_mut().find(same) {
                Some(allocation) => allocation.extents.push(*extent),
                None => machine.remember(vec![*extent], DcState::Ready),
            }
        }
        let all = machine.allocations.iter_mut();
        all.for_each(|allocation| allocation.extents.sort_by_key(|e| (e.sequence, e.start)));
        machine
    }

    /// All allocations, in the order in which they came.
    pub fn allocations(&self) -> &[DcAllocation] {
        &self.allocations
    }

    /// Takes a record of the device at a time of a clock that never goes back; returns what the
    /// device is to be told.
    pub fn event(&mut self, event: DcEvent, now: Duration) -> Vec<DcCommand> {
        match event {
            DcEvent::Add { extent, more } => self.add(extent, more, now),
            DcEvent::Release { start, bytes } => self.ask_back(start, start.saturating_add(bytes)),
            DcEvent::ForcedRelease { start, bytes } => {
                self.lose(start, start.saturating_add(bytes));
                Vec::new()
            }
        }
    }

    /// Lets time pass: a chain that stays open for too long is declined.
    pub fn tick(&mut self, now: Duration) -> Vec<DcCommand> {
        match self.since {
            Some(since) if now.saturating_sub(since) >= CHAIN_LIMIT => {
                self.end_chain();
                vec![DcCommand::Accept(Vec::new())]
            }
            _ => Vec::new(),
        }
    }

    fn add(&mut self, extent: DcExtent, more: bool, now: Duration) -> Vec<DcCommand> {
        let mut commands = self.tick(now);
        self.since.get_or_insert(now);
        self.refused |= !self.fits(&extent);
        self.chain.push(extent);
        if more {
            return commands;
        }
        let (mut extents, refused) = self.end_chain();
        extents.sort_by_key(|extent| (extent.sequence, extent.start));
        if refused || !is_complete(&extents) {
            commands.push(DcCommand::Accept(Vec::new()));
            return commands;
        }
        commands.push(DcCommand::Accept(extents.clone()));
        self.remember(extents, DcState::Accepting);
        commands
    }

    fn remember(&mut self, extents: Vec<DcExtent>, state: DcState) {
        self.allocations.push(DcAllocation {
            id: self.next_id,
            tag: extents.first().map_or(Uuid::nil(), |extent| extent.tag),
            extents,
            state,
        });
        self.next_id += 1;
    }

    /// Whether an extent can be part of the open chain.
    fn fits(&self, extent: &DcExtent) -> bool {
        let whole = |bytes: u64| bytes.is_multiple_of(self.block_bytes);
        let (start, end) = (extent.start, extent.end());
        let taken = self.allocations.iter().filter(|a| a.state != DcState::Lost);
        let same_tag = |tag: Uuid| !tag.is_nil() && tag == extent.tag;
        extent.bytes > 0
            && whole(start)
            && whole(extent.bytes)
            && start.checked_add(extent.bytes).is_some()
            && self
                .chain
                .iter()
                .all(|e| e.tag == extent.tag && !e.overlaps(start, end))
            && taken
                .into_iter()
                .all(|a| !a.overlaps(start, end) && !same_tag(a.tag))
    }

    fn end_chain(&mut self) -> (Vec<DcExtent>, bool) {
        self.since = None;
        (
            std::mem::take(&mut self.chain),
            std::mem::take(&mut self.refused),
        )
    }

    /// A range is wanted back. Only whole allocations can go, so one that the range cuts stays as
    /// it is: the fabric manager can force it.
    fn ask_back(&mut self, start: u64, end: u64) -> Vec<DcCommand> {
        if self.chain.iter().any(|extent| extent.overlaps(start, end)) {
            self.refused = true;
        }
        let mut commands = Vec::new();
        for allocation in &mut self.allocations {
            if !allocation.is_within(start, end) {
                continue;
            }
            match allocation.state {
                DcState::Ready => {
                    allocation.state = DcState::GivingBack;
                    commands.push(DcCommand::GiveBack(allocation.extents.clone()));
                }
                DcState::InUse | DcState::Accepting => allocation.state = DcState::AskedBack,
                DcState::AskedBack | DcState::GivingBack | DcState::Lost => {}
            }
        }
        commands
    }

    fn lose(&mut self, start: u64, end: u64) {
        if self.chain.iter().any(|extent| extent.overlaps(start, end)) {
            self.refused = true;
        }
        self.allocations.retain_mut(|allocation| {
            if !allocation.overlaps(start, end) {
                return true;
            }
            let used = matches!(
                allocation.state,
                DcState::InUse | DcState::AskedBack | DcState::Lost
            );
            allocation.state = DcState::Lost;
            used
        });
    }

    /// The device has carried a command out, or has not. Returns what it is to be told next.
    pub fn answered(&mut self, command: &DcCommand, done: bool) -> Vec<DcCommand> {
        let (DcCommand::Accept(extents) | DcCommand::GiveBack(extents)) = command;
        let meant = |a: &DcAllocation| a.state != DcState::Lost && a.extents == *extents;
        let Some(index) = self.allocations.iter().position(meant) else {
            return Vec::new();
        };
        let allocation = &mut self.allocations[index];
        match (command, allocation.state, done) {
            (DcCommand::Accept(_), DcState::Accepting, true)
            | (DcCommand::GiveBack(_), DcState::GivingBack, false) => {
                allocation.state = DcState::Ready;
            }
            // Wanted back before anybody could use it.
            (DcCommand::Accept(_), DcState::AskedBack, true) => {
                allocation.state = DcState::GivingBack;
                return vec![DcCommand::GiveBack(extents.clone())];
            }
            (DcCommand::Accept(_), DcState::Accepting | DcState::AskedBack, false)
            | (DcCommand::GiveBack(_), DcState::GivingBack, true) => {
                self.allocations.remove(index);
            }
            _ => {}
        }
        Vec::new()
    }

    /// Begins to use an allocation. `false` if it is not ready.
    pub fn take(&mut self, id: u64) -> bool {
        let mut ready = self
            .allocations
            .iter_mut()
            .filter(|a| a.state == DcState::Ready);
        ready.find(|a| a.id == id).is_some_and(|allocation| {
            allocation.state = DcState::InUse;
            true
        })
    }

    /// Ends the use of an allocation; returns what the device is to be told.
    pub fn let_go(&mut self, id: u64) -> Vec<DcCommand> {
        let Some(index) = self.allocations.iter().position(|a| a.id == id) else {
            return Vec::new();
        };
        let allocation = &mut self.allocations[index];
        match allocation.state {
            DcState::Ready | DcState::InUse | DcState::AskedBack => {
                allocation.state = DcState::GivingBack;
                vec![DcCommand::GiveBack(allocation.extents.clone())]
            }
            // The device has it already.
            DcState::Lost => {
                self.allocations.remove(index);
                Vec::new()
            }
            DcState::Accepting | DcState::GivingBack => Vec::new(),
        }
    }
}

/// Whether all extents of a shared allocation are there: 0, 1, 2 and so on. Others have the number
/// 0.
fn is_complete(extents: &[DcExtent]) -> bool {
    let numbers = || extents.iter().map(|extent| usize::from(extent.sequence));
    numbers().all(|number| number == 0) || numbers().eq(0..extents.len())
}
