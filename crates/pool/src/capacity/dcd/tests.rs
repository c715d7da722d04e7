//! The machine against an emulated device and fabric manager: what the host believes to have is
//! what the device has given it, whatever happens in which order.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tierloom_memory::Clock;
use tierloom_topology::SystemFiles;

use super::*;
use crate::capacity::CapacitySource;
use crate::tests::seed;

const BLOCK: u64 = 2 << 20;
const BLOCKS: u64 = 64;

fn extent(first: u64, blocks: u64, tag: u128) -> DcExtent {
    DcExtent {
        start: first * BLOCK,
        bytes: blocks * BLOCK,
        tag: Uuid::from_u128(tag),
        sequence: 0,
    }
}

fn numbered(first: u64, tag: u128, sequence: u16) -> DcExtent {
    DcExtent {
        sequence,
        ..extent(first, 1, tag)
    }
}

/// A device as QEMU's, and the fabric manager behind it.
#[derive(Debug, Default)]
struct Device {
    log: VecDeque<DcEvent>,
    /// Chains that were offered and not answered, oldest first.
    pending: VecDeque<Vec<DcExtent>>,
    accepted: Vec<DcExtent>,
    /// Answers to chains of which nothing was taken.
    declined: usize,
    /// Refuses the next command.
    refuses: bool,
    silent: bool,
}

impl Device {
    fn add(&mut self, extents: &[DcExtent]) {
        for (index, extent) in extents.iter().enumerate() {
            let more = index + 1 < extents.len();
            self.log.push_back(DcEvent::Add {
                extent: *extent,
                more,
            });
        }
        self.pending.push_back(extents.to_vec());
    }

    fn ask(&mut self, first: u64, blocks: u64) {
        self.log.push_back(DcEvent::Release {
            start: first * BLOCK,
            bytes: blocks * BLOCK,
        });
    }

    fn force(&mut self, first: u64, blocks: u64) {
        let (start, bytes) = (first * BLOCK, blocks * BLOCK);
        self.log.push_back(DcEvent::ForcedRelease { start, bytes });
        // The tag goes as a whole.
        let cut = |e: &DcExtent| e.overlaps(start, start + bytes);
        let tags: Vec<Uuid> = self
            .accepted
            .iter()
            .filter(|e| cut(e))
            .map(|e| e.tag)
            .collect();
        self.accepted.retain(|e| !tags.contains(&e.tag));
    }
}

impl DcMailbox for Device {
    fn next_event(&mut self) -> io::Result<Option<DcEvent>> {
        match self.silent {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(self.log.pop_front()),
        }
    }

    fn send(&mut self, command: &DcCommand) -> io::Result<bool> {
        if std::mem::take(&mut self.refuses) {
            if matches!(command, DcCommand::Accept(_)) {
                self.pending.pop_front();
            }
            return Ok(false);
        }
        match command {
            DcCommand::Accept(extents) => {
                let chain = self.pending.pop_front().expect("only chains are answered");
                assert!(
                    extents.iter().all(|e| chain.contains(e)),
                    "of the oldest chain"
                );
                assert!(
                    extents.is_empty() || extents.len() == chain.len(),
                    "whole or not"
                );
                self.declined += usize::from(extents.is_empty());
                self.accepted.extend(extents);
            }
            DcCommand::GiveBack(extents) => {
                assert!(
                    extents.iter().all(|e| self.accepted.contains(e)),
                    "it has them"
                );
                self.accepted.retain(|e| !extents.contains(e));
            }
        }
        Ok(true)
    }

    fn extents(&mut self) -> io::Result<Vec<DcExtent>> {
        Ok(self.accepted.clone())
    }

    fn block_bytes(&self) -> u64 {
        BLOCK
    }
}

#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _how_long: Duration) {}
}

/// A kernel that makes a DAX device of each allocation.
#[derive(Debug, Default)]
struct Kernel {
    tags: RefCell<BTreeMap<String, Uuid>>,
}

impl Kernel {
    fn shows(&self, name: &str, tag: u128) {
        let mut tags = self.tags.borrow_mut();
        tags.insert(name.to_owned(), Uuid::from_u128(tag));
    }
}

impl SystemFiles for Kernel {
    fn names(&self, _folder: &str) -> io::Result<Vec<String>> {
        Ok(self.tags.borrow().keys().cloned().collect())
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let name = path.rsplit('/').nth(1).unwrap_or_default();
        match self.tags.borrow().get(name) {
            Some(tag) if path.ends_with("/uuid") => Ok(tag.to_string()),
            Some(_) => Ok(BLOCK.to_string()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn may_write(&self, _path: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn write(&self, _path: &str, _text: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn full(&self, path: &str) -> PathBuf {
        Path::new("/").join(path)
    }
}

fn source(kernel: &Kernel) -> DcdSource<'_, Device> {
    DcdSource::new(Device::default(), kernel, Arc::new(Hand::default())).unwrap()
}

fn states(source: &DcdSource<'_, Device>) -> Vec<DcState> {
    let all = source.machine().allocations().iter();
    all.map(|allocation| allocation.state).collect()
}

#[test]
fn an_allocation_is_a_member_from_its_device_until_the_device_has_it_back() {
    let kernel = Kernel::default();
    let mut source = source(&kernel);
    source.mailbox().add(&[extent(8, 2, 7), extent(0, 4, 7)]);
    // Accepted at once; a member when the kernel shows its device.
    assert_eq!(source.offers().unwrap(), []);
    assert_eq!(
        (states(&source), source.mailbox().accepted.len()),
        (vec![DcState::Ready], 2)
    );
    kernel.shows("dax0.1", 7);
    let offers = source.offers().unwrap();
    assert_eq!(offers.len(), 1);
    assert_eq!(offers[0].path, Path::new("/dev/dax0.1"));
    assert_eq!(offers[0].tag, Some(Uuid::from_u128(7)));
    assert_eq!(source.offers().unwrap(), [], "only once");
    // A part of it cannot go; all of it is asked for, and goes when the pool has let it go.
    source.mailbox().ask(0, 4);
    assert_eq!(source.asked_back().unwrap(), [""; 0].map(PathBuf::from));
    source.mailbox().ask(0, 16);
    assert_eq!(source.asked_back().unwrap(), [Path::new("/dev/dax0.1")]);
    assert_eq!(source.mailbox().accepted.len(), 2, "it is in use");
    source.take_back(Path::new("/dev/dax0.1")).unwrap();
    assert_eq!(
        (states(&source), source.mailbox().accepted.len()),
        (vec![], 0)
    );
    assert_eq!(source.asked_back().unwrap(), [""; 0].map(PathBuf::from));
}

#[test]
fn what_nobody_uses_goes_back_at_once_and_what_is_forced_away_is_told() {
    let kernel = Kernel::default();
    let mut source = source(&kernel);
    source.mailbox().add(&[extent(0, 4, 1)]);
    source.mailbox().add(&[extent(4, 4, 2)]);
    source.mailbox().add(&[extent(8, 4, 0)]);
    kernel.shows("dax0.1", 1);
    assert_eq!(
        source.offers().unwrap().len(),
        1,
        "no device, no tag, no member"
    );
    source.mailbox().ask(0, BLOCKS);
    assert_eq!(source.asked_back().unwrap(), [Path::new("/dev/dax0.1")]);
    assert_eq!(source.mailbox().accepted, [extent(0, 4, 1)]);
    source.mailbox().force(1, 1);
    assert_eq!(source.asked_back().unwrap(), [Path::new("/dev/dax0.1")]);
    assert_eq!(states(&source), [DcState::Lost]);
    // The same memory comes again, for the same tag, while the old use has not ended.
    source.mailbox().add(&[extent(0, 4, 1)]);
    source.asked_back().unwrap();
    assert_eq!(states(&source), [DcState::Lost, DcState::Ready]);
    source.take_back(Path::new("/dev/dax0.1")).unwrap();
    assert_eq!(states(&source), [DcState::Ready]);
    assert_eq!(
        source.mailbox().accepted,
        [extent(0, 4, 1)],
        "the new one stays"
    );
}

#[test]
fn chains_that_are_mixed_cut_overlapping_or_late_are_declined_as_a_whole() {
    let bad: [&[DcExtent]; 7] = [
        &[extent(8, 1, 5), extent(9, 1, 6)],
        &[extent(8, 2, 5), extent(9, 1, 5)],
        &[extent(8, 1, 5), extent(1, 1, 5)],
        &[extent(8, 1, 1)],
        &[numbered(8, 5, 0), numbered(9, 5, 2)],
        &[DcExtent {
            bytes: BLOCK + 1,
            ..extent(8, 1, 5)
        }],
        &[DcExtent {
            start: u64::MAX - BLOCK + 1,
            ..extent(8, 2, 5)
        }],
    ];
    for chain in bad {
        let kernel = Kernel::default();
        let mut source = source(&kernel);
        source.mailbox().add(&[extent(0, 4, 1)]);
        source.mailbox().add(chain);
        source
            .mailbox()
            .add(&[numbered(17, 3, 1), numbered(16, 3, 0)]);
        source.offers().unwrap();
        let device = source.mailbox();
        assert_eq!((device.declined, device.pending.len()), (1, 0), "{chain:?}");
        assert_eq!(device.accepted.len(), 3, "{chain:?}");
        let last = &source.machine().allocations()[1];
        assert_eq!(
            last.extents,
            [numbered(16, 3, 0), numbered(17, 3, 1)],
            "in order"
        );
    }
    // The rest of a chain does not come.
    let mut machine = DcMachine::new(BLOCK, &[]);
    let open = DcEvent::Add {
        extent: extent(0, 1, 1),
        more: true,
    };
    assert_eq!(machine.event(open, Duration::from_secs(1)), []);
    assert_eq!(machine.tick(Duration::from_secs(20)), []);
    let declined = [DcCommand::Accept(Vec::new())];
    assert_eq!(machine.tick(Duration::from_secs(21)), declined);
    assert_eq!(machine.tick(Duration::from_secs(90)), []);
    assert_eq!(machine.allocations(), []);
    // Part of an open chain is asked for again.
    assert_eq!(machine.event(open, Duration::from_secs(91)), []);
    let release = DcEvent::Release {
        start: 0,
        bytes: BLOCK,
    };
    assert_eq!(machine.event(release, Duration::from_secs(92)), []);
    let last = DcEvent::Add {
        extent: extent(1, 1, 1),
        more: false,
    };
    assert_eq!(machine.event(last, Duration::from_secs(93)), declined);
}

#[test]
fn what_the_device_refuses_is_as_it_was_before() {
    let kernel = Kernel::default();
    let mut source = source(&kernel);
    source.mailbox().add(&[extent(0, 4, 1)]);
    source.mailbox().refuses = true;
    source.offers().unwrap();
    assert_eq!(states(&source), []);
    source.mailbox().add(&[extent(0, 4, 1)]);
    kernel.shows("dax0.1", 1);
    assert_eq!(source.offers().unwrap().len(), 1);
    source.mailbox().refuses = true;
    source.take_back(Path::new("/dev/dax0.1")).unwrap();
    assert_eq!(states(&source), [DcState::Ready], "still the host's");
    // Wanted back between the acceptance and its answer.
    let mut machine = DcMachine::new(BLOCK, &[]);
    let add = DcEvent::Add {
        extent: extent(0, 1, 1),
        more: false,
    };
    let accept = machine.event(add, Duration::ZERO).remove(0);
    let release = DcEvent::Release {
        start: 0,
        bytes: BLOCK,
    };
    assert_eq!(machine.event(release, Duration::ZERO), []);
    let back = vec![DcCommand::GiveBack(vec![extent(0, 1, 1)])];
    assert_eq!(machine.answered(&accept, true), back);
    assert_eq!(machine.answered(&back[0], true), []);
    assert_eq!(machine.allocations(), []);
    source.mailbox().silent = true;
    let error = source.offers().unwrap_err();
    assert!(error.to_string().contains("mailbox"), "{error}");
}

/// The host has what the device says that it has, and every chain was answered.
fn agrees(source: &mut DcdSource<'_, Device>) {
    let held = source.machine().allocations().iter();
    let held = held.filter(|allocation| allocation.state != DcState::Lost);
    let mut held: Vec<DcExtent> = held.flat_map(|a| a.extents.clone()).collect();
    let mut given = source.mailbox().accepted.clone();
    held.sort_unstable();
    given.sort_unstable();
    assert_eq!(held, given);
    assert!(source.mailbox().pending.is_empty());
    let apart = held.windows(2).all(|two| two[0].end() <= two[1].start);
    assert!(apart, "{held:?}");
}

#[test]
fn random_histories_of_a_fabric_manager_leave_host_and_device_in_agreement() {
    let mut rng = seed::rng("dynamic capacity");
    let (mut used, mut lost, mut declined) = (0, 0, 0);
    for _ in 0..60 {
        let kernel = Kernel::default();
        let mut source = source(&kernel);
        let mut members: Vec<PathBuf> = Vec::new();
        for step in 0..120_u128 {
            let (first, blocks) = (rng.u64(0..BLOCKS), rng.u64(1..12));
            match rng.u8(0..10) {
                0..4 => {
                    let tag = 1 + step % 7;
                    let count = rng.u64(1..4);
                    let chain = (0..count).map(|n| extent(first + 2 * n, 1 + n % 2, tag));
                    source.mailbox().add(&chain.collect::<Vec<_>>());
                    kernel.shows(&format!("dax0.{tag}"), tag);
                }
                4..6 => source.mailbox().ask(first, blocks * 4),
                6 => source.mailbox().force(first, blocks),
                7 => source.mailbox().refuses = rng.bool(),
                8 if !members.is_empty() => {
                    let member = members.swap_remove(rng.usize(0..members.len()));
                    source.take_back(&member).unwrap();
                }
                _ => {
                    // The host is started anew, and with it all that used the memory.
                    let device = std::mem::take(source.mailbox());
                    members.clear();
                    let clock = Arc::new(Hand::default());
                    source = DcdSource::new(device, &kernel, clock).unwrap();
                }
            }
            let offers = source.offers().unwrap().into_iter();
            for path in offers.map(|offer| offer.path) {
                assert!(!members.contains(&path), "{path:?} is in use");
                members.push(path);
            }
            used = used.max(members.len());
            for member in source.asked_back().unwrap() {
                assert!(members.contains(&member), "{member:?}");
                if rng.bool() {
                    members.retain(|other| *other != member);
                    source.take_back(&member).unwrap();
                }
            }
            lost += states(&source)
                .iter()
                .filter(|s| **s == DcState::Lost)
                .count();
            agrees(&mut source);
        }
        declined += source.mailbox().declined;
        for member in members {
            source.take_back(&member).unwrap();
        }
        source.mailbox().refuses = false;
        source.mailbox().ask(0, BLOCKS * 2);
        source.offers().unwrap();
        assert_eq!(source.mailbox().accepted, [], "all of it can go back");
    }
    // So that the history has everything in it.
    assert!(
        used > 2 && lost > 0 && declined > 0,
        "{used} {lost} {declined}"
    );
}
