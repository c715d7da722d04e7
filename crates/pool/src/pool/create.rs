//! Making a pool.

use std::path::Path;

use tierloom_memory::shared::Access;
use uuid::Uuid;

use super::{OpenOptions, Pool};
use crate::PoolError;
use crate::format::{Coherence, Superblock};
use crate::identity::Identity;
use crate::layout::{BANK_PAGE, BANKS, BANKS_START, HOST_LINES_START, HOST_SLOTS, PoolLayout};
use crate::layout::{MOST_EXTENTS, MOST_MEMBERS, SUPERBLOCK_BYTES, SUPERBLOCKS};
use crate::medium::{LINE, MappedMedium, Medium};
use crate::member::{self, Member};
use crate::state::{MemberEntry, PoolState};
use crate::store::{Place, found, random_uuid, wall_ns};

/// How a pool is made.
#[derive(Debug, Clone, Default)]
pub struct CreateOptions {
    /// Bytes of each new file; devices are taken whole.
    pub file_bytes: u64,
    /// Whether caches of all users are coherent; by default they are for files and not for devices.
    pub coherence: Option<Coherence>,
    /// Whether something else may be overwritten.
    pub overwrite: bool,
}

impl Pool {
    /// Makes a pool of files, which are made too, and of DAX devices; opens it with `open`.
    ///
    /// The first member has the metadata. After an error, files that were made are removed again.
    ///
    /// # Errors
    /// A path that exists (unless it may be overwritten), that is on a network file system or not
    /// permitted, or a size that is too small or too large.
    pub fn create(
        first: &Path,
        further: &[&Path],
        options: &CreateOptions,
        open: &OpenOptions,
    ) -> Result<Self, PoolError> {
        if further.len() >= MOST_MEMBERS as usize {
            return Err(PoolError::TooManyMembers { most: MOST_MEMBERS });
        }
        let paths: Vec<&Path> = std::iter::once(first)
            .chain(further.iter().copied())
            .collect();
        let mut made = Vec::new();
        let opened = create(&paths, options, open, &mut made).and_then(|()| open.open(first));
        if opened.is_err() {
            made.iter().for_each(|path| member::remove(path));
        }
        opened
    }
}

/// What [`Pool::create`] would make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct CreatePlan {
    /// Bytes for regions.
    pub capacity_bytes: u64,
    /// Bytes for the pool itself, at the start of its first member.
    pub metadata_bytes: u64,
    /// Bytes of an extent.
    pub extent_bytes: u64,
    /// Whether the caches of its users are coherent.
    pub coherence: Coherence,
}

impl CreateOptions {
    /// Checks what can be known before a pool is made of these members, and changes nothing.
    ///
    /// # Errors
    /// As [`Pool::create`], but for those that only trying it shows.
    pub fn plan(&self, first: &Path, further: &[&Path]) -> Result<CreatePlan, PoolError> {
        let mut sizes = Vec::new();
        let mut devices = false;
        for path in std::iter::once(&first).chain(further) {
            if std::fs::symlink_metadata(path).is_err() {
                sizes.push(self.file_bytes);
                continue;
            }
            let member = Member::open(path, Access::Read)?;
            check_empty(&member, self)?;
            devices |= member.is_device();
            sizes.push(match member.is_device() {
                true => member.bytes(),
                false => member.bytes().max(self.file_bytes),
            });
        }
        let total = sizes.iter().copied().fold(0, u64::saturating_add);
        let layout = PoolLayout::for_bytes(total);
        let mut extents = 0;
        for (index, bytes) in sizes.into_iter().enumerate() {
            extents += checked_extents(layout, index, bytes)?;
        }
        Ok(CreatePlan {
            capacity_bytes: extents * layout.extent_bytes,
            metadata_bytes: layout.data_start(0),
            extent_bytes: layout.extent_bytes,
            coherence: self.coherence(devices),
        })
    }

    fn coherence(&self, devices: bool) -> Coherence {
        let default = match devices {
            true => Coherence::None,
            false => Coherence::Host,
        };
        self.coherence.unwrap_or(default)
    }
}

/// Extents of a new member, at least one.
fn checked_extents(layout: PoolLayout, index: usize, bytes: u64) -> Result<u64, PoolError> {
    match layout.extents(index, bytes).min(MOST_EXTENTS) {
        0 => Err(PoolError::TooSmall {
            bytes,
            least_bytes: layout.member_bytes(index, 1),
        }),
        extents => Ok(extents),
    }
}

/// Refuses to overwrite something, unless that is allowed.
fn check_empty(member: &Member, options: &CreateOptions) -> Result<(), PoolError> {
    let head = member.head()?;
    let empty = match member.is_device() {
        true => head.iter().all(|byte| *byte == 0),
        false => member.bytes() == 0,
    };
    if empty || options.overwrite {
        return Ok(());
    }
    Err(PoolError::Occupied {
        path: member.path.clone(),
        found: member::describe(&head),
    })
}

fn create<'p>(
    paths: &[&'p Path],
    options: &CreateOptions,
    open: &OpenOptions,
    made: &mut Vec<&'p Path>,
) -> Result<(), PoolError> {
    let mut members = Vec::new();
    for path in paths {
        let (member, new) = take(path, options)?;
        if new {
            made.push(path);
        }
        members.push(member);
    }
    let total = members
        .iter()
        .map(Member::bytes)
        .fold(0, u64::saturating_add);
    let layout = PoolLayout::for_bytes(total);
    let coherence = options.coherence(members.iter().any(Member::is_device));
    let identity = Identity::read(&open.root, open.host.as_deref(), coherence)?;
    let (pool, created_ns) = (random_uuid(), wall_ns());
    let mut entries = Vec::new();
    let mut blocks = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let extents = checked_extents(layout, index, member.bytes())?;
        let uuid = random_uuid();
        entries.push(entry(uuid, extents, &member.path));
        blocks.push(Superblock {
            pool,
            member: uuid,
            index: u32::try_from(index).unwrap_or(u32::MAX),
            layout,
            coherence,
            created_ns,
            member_bytes: member.bytes(),
        });
    }
    let state = PoolState::new(pool, identity.machine, entries);
    members[0].allocate(0, layout.metadata_bytes())?;
    let medium = MappedMedium::new(members[0].words(0, layout.metadata_bytes())?, true);
    clear(&medium);
    let place = Place {
        pool,
        layout,
        path: &members[0].path,
    };
    found(&place, &medium, &state)?;
    // The first member's superblock comes last: with it, there is a pool.
    for (member, block) in members.iter().zip(&blocks).skip(1).rev() {
        write_superblock(member, block)?;
    }
    put_superblock(&medium, &blocks[0]);
    Ok(())
}

pub(super) fn entry(uuid: Uuid, extents: u64, path: &Path) -> MemberEntry {
    MemberEntry {
        uuid,
        extents,
        path: path.to_owned(),
        removed: false,
        unknown: Default::default(),
    }
}

/// Opens a device, makes a file, or takes an existing one if that is allowed; locked. Also says
/// whether the file is new.
pub(super) fn take(path: &Path, options: &CreateOptions) -> Result<(Member, bool), PoolError> {
    let exists = std::fs::symlink_metadata(path).is_ok();
    if !exists {
        let member = Member::create(path, options.file_bytes)?;
        if let Err(error) = member.lock() {
            member::remove(path);
            return Err(error);
        }
        return Ok((member, true));
    }
    let mut member = Member::open(path, Access::Write)?;
    member.lock()?;
    check_empty(&member, options)?;
    member.set_bytes(options.file_bytes)?;
    Ok((member, false))
}

/// Removes what an earlier pool, or something else, has left in the lines.
fn clear(medium: &impl Medium) {
    let hosts = HOST_LINES_START..HOST_LINES_START + LINE * u64::from(HOST_SLOTS);
    let banks = BANKS_START..BANKS_START + BANK_PAGE * u64::from(BANKS);
    let superblocks = 0..2 * SUPERBLOCK_BYTES;
    for line in superblocks.chain(hosts).chain(banks).step_by(LINE as usize) {
        (line..line + LINE)
            .step_by(8)
            .for_each(|word| medium.store(word, 0));
        medium.flush(line);
    }
    medium.fence();
}

/// Writes both superblocks of a further member.
pub(super) fn write_superblock(member: &Member, block: &Superblock) -> Result<(), PoolError> {
    let bytes = match member.is_device() {
        true => crate::layout::EXTENT_BYTES,
        false => 2 * SUPERBLOCK_BYTES,
    };
    member.allocate(0, 2 * SUPERBLOCK_BYTES)?;
    let medium = MappedMedium::new(member.words(0, bytes)?, true);
    put_superblock(&medium, block);
    Ok(())
}

/// Writes both copies, the second one first, and of each the magic last: a copy with a magic is
/// whole.
pub(crate) fn put_superblock(medium: &impl Medium, block: &Superblock) {
    let bytes = block.encode();
    for start in SUPERBLOCKS.into_iter().rev() {
        medium.store(start, 0);
        medium.flush(start);
        medium.fence();
        let words = bytes.chunks(8).zip((start..).step_by(8));
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        words
            .skip(1)
            .for_each(|(chunk, at)| medium.store(at, word(chunk)));
        (start..start + SUPERBLOCK_BYTES)
            .step_by(LINE as usize)
            .for_each(|line| medium.flush(line));
        medium.fence();
        medium.store(start, word(&bytes[..8]));
        medium.flush(start);
        medium.fence();
    }
}
