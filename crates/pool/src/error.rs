//! The error of everything here: what is wrong, where, and what to do.

use std::path::{Path, PathBuf};

use tierloom_text::Bytes;
use uuid::Uuid;

/// Why a pool cannot be made, opened, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The system refuses a file or device.
    #[error("cannot {action} {}: {source}; {next_step}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The member.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
        /// What helps.
        next_step: &'static str,
    },
    /// A DAX device cannot be used.
    #[error(transparent)]
    Device(#[from] tierloom_memory::MemoryError),
    /// A DAX device keeps its size.
    #[error(transparent)]
    Resize(#[from] crate::DaxSizeError),
    /// A device with dynamic capacity does not answer.
    #[error("the mailbox of a device with dynamic capacity cannot be used: {source}; see `dmesg`")]
    Mailbox {
        /// What the system says.
        source: std::io::Error,
    },
    /// The kernel cuts mappings of a device that it resizes.
    #[error(
        "{}: {users} on this host has the pool open, and resizing its device would cut that off; end it \
         (and `pool serve`) first", path.display()
    )]
    DeviceInUse {
        /// The first member.
        path: PathBuf,
        /// Who.
        users: String,
    },
    /// The member is a file.
    #[error("{} is a file and no DAX device; files are resized with the pool open", path.display())]
    NotADevice {
        /// The member.
        path: PathBuf,
    },
    /// The member is neither a file nor a DAX device.
    #[error("{} is {found}; name a file or a DAX device such as /dev/dax0.0", path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// Locks and caches of one host mean nothing on such a file system.
    #[error(
        "{} is on {kind}, which other hosts can change behind the caches and locks of this one; \
         use a file on tmpfs, hugetlbfs or a local disk, or a DAX device", path.display()
    )]
    NetworkFileSystem {
        /// The member.
        path: PathBuf,
        /// Name of the file system.
        kind: &'static str,
    },
    /// Extents cannot begin and end at the pages of the file system.
    #[error(
        "{} is on a hugetlbfs with pages of {}, and a pool is divided into pieces of 2 MiB; mount one \
         with smaller pages (`mount -t hugetlbfs -o pagesize=2M none DIR`)", path.display(), Bytes(*page_bytes)
    )]
    HugePageSize {
        /// The member.
        path: PathBuf,
        /// Bytes of a page.
        page_bytes: u64,
    },
    /// The system has not enough huge pages left.
    #[error(
        "{} needs {needed_pages} huge pages of {} at once, and {free_pages} can be had; {next_step}",
        path.display(), Bytes(*page_bytes)
    )]
    HugePages {
        /// The member.
        path: PathBuf,
        /// Pages of the range.
        needed_pages: u64,
        /// Bytes of a page.
        page_bytes: u64,
        /// Pages that nobody has and that are promised to nobody.
        free_pages: u64,
        /// What helps: the setting and the command.
        next_step: String,
    },
    /// The bytes are those of something else.
    #[error("{} is no pool: it holds {found}; check the path, or make a pool with `pool create`", path.display())]
    NotAPool {
        /// The member.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// `create` would overwrite something.
    #[error("{} already holds {found}; remove it first, or say that it may be overwritten (--force)", path.display())]
    Occupied {
        /// The member.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// A later version of Tierloom made the pool.
    #[error(
        "{} has pool format {format} with features {features:#x}, and this program knows format 1 \
         without features; use the version of Tierloom that made it, or a later one", path.display()
    )]
    Newer {
        /// The member.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// Bits of features that a program must know.
        features: u64,
    },
    /// Metadata have changed that nobody has written.
    #[error(
        "{}: {what} at byte {offset} is damaged; the newest state cannot be told for sure: restore \
         the pool from its sources, or open the newest state that is whole (--skip-damaged)",
        path.display()
    )]
    Damaged {
        /// The member.
        path: PathBuf,
        /// Which structure.
        what: &'static str,
        /// Where it starts in the member.
        offset: u64,
    },
    /// No state is there, although the superblock is.
    #[error("{} has the superblock of a pool but no state: its memory was lost or cleared; make the pool anew", path.display())]
    NoState {
        /// The member.
        path: PathBuf,
    },
    /// The checksum of the state holds, but it contradicts itself.
    #[error(
        "{}: the state of generation {generation} is whole but impossible: {what}; this is a fault of Tierloom: \
         please report it, and make the pool anew", path.display()
    )]
    Impossible {
        /// The first member.
        path: PathBuf,
        /// Which state.
        generation: u64,
        /// The contradiction.
        what: String,
    },
    /// A path names a member of this pool that belongs elsewhere, or of another pool.
    #[error("{} is {found}, and {expected} was expected there; name the right file or device", path.display())]
    WrongMember {
        /// The path.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The member ends before its extents do.
    #[error("{} has {} and needs {}: it was truncated; make it as long as it was", path.display(), Bytes(*found_bytes), Bytes(*needed_bytes))]
    Truncated {
        /// The member.
        path: PathBuf,
        /// Its size now.
        found_bytes: u64,
        /// What its extents need.
        needed_bytes: u64,
    },
    /// Another process is the manager.
    #[error(
        "{} is open in another process; end that one first, or let `pool serve` have it: then \
         several processes can use it", path.display()
    )]
    Managed {
        /// The first member.
        path: PathBuf,
    },
    /// There is no manager to join.
    #[error("{}: nobody serves this pool; start `pool serve` on it", path.display())]
    NotServed {
        /// The first member.
        path: PathBuf,
    },
    /// The manager does not answer.
    #[error("{}: the manager cannot be reached: {why}; see whether `pool serve` still runs", path.display())]
    Unreachable {
        /// The first member.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// The manager does not do what it was asked for.
    #[error("{message}")]
    Refused {
        /// Its error.
        message: String,
        /// Whether that is bad input.
        is_bad_input: bool,
    },
    /// Another host's processes may open the pool.
    #[error(
        "{} belongs to host {home}, and this is {here}; open it there, or take it over if that host is down for sure",
        path.display()
    )]
    OtherHome {
        /// The first member.
        path: PathBuf,
        /// Name of the home host.
        home: String,
        /// Name of this host.
        here: String,
    },
    /// The host that is to be replaced still shows signs of life.
    #[error("{}: host {host} is alive, it renewed its lease a moment ago; stop it first", path.display())]
    Alive {
        /// The first member.
        path: PathBuf,
        /// The host.
        host: String,
    },
    /// The machine does not say which one it is.
    #[error("this machine has no identity (/etc/machine-id): give the host a name (--host NAME)")]
    NoIdentity,
    /// Another manager has taken over, or is about to.
    #[error(
        "this process is no longer the manager of the pool (epoch {epoch}, there is a claim of epoch {newer}); \
         whether the last change was made is known at the new manager"
    )]
    Fenced {
        /// Epoch of this process.
        epoch: u64,
        /// The higher one.
        newer: u64,
    },
    /// A request of a host that was fenced, or of an earlier process on it.
    #[error(
        "host slot {slot} with incarnation {incarnation:#x} is not (or no longer) part of the pool; open the pool again"
    )]
    StaleHost {
        /// The host's slot.
        slot: u16,
        /// What the request says.
        incarnation: u64,
    },
    /// A request arrives after a later one of the same process.
    #[error("request {request} arrives after request {last} of the same process, and is not made")]
    LateRequest {
        /// Its number.
        request: u64,
        /// That of the last one.
        last: u64,
    },
    /// All slots for hosts, or all banks of managers, are taken.
    #[error("the pool has no {what} left for another host; fence hosts that are gone")]
    NoSlot {
        /// What is missing.
        what: &'static str,
    },
    /// The state does not fit into a slot.
    #[error(
        "the state of the pool would have {bytes} bytes, and its slots have {slot_bytes}; drop regions, \
         or make a pool with a larger --size"
    )]
    StateTooLarge {
        /// Encoded size.
        bytes: usize,
        /// Bytes of a slot.
        slot_bytes: u64,
    },
    /// Not enough free extents.
    #[error(
        "the pool has {} free of {}, and {} are needed ({} in quarantine); grow the pool or drop a region",
        Bytes(*free_bytes), Bytes(*capacity_bytes), Bytes(*needed_bytes), Bytes(*quarantined_bytes)
    )]
    Full {
        /// What was asked for, in whole extents.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
        /// What cannot be given out until a host is back or known to be down.
        quarantined_bytes: u64,
        /// The pool's size.
        capacity_bytes: u64,
    },
    /// Something behind the end that a member shall have cannot move.
    #[error("the member cannot become that small: {what} is behind its new end; {next_step}")]
    Immovable {
        /// What lies there.
        what: String,
        /// What helps.
        next_step: &'static str,
    },
    /// The pool cannot become that large.
    #[error("a pool with extents of {} can have {} at most; make a new pool of the larger size", Bytes(*extent_bytes), Bytes(*most_bytes))]
    TooLarge {
        /// Bytes of an extent.
        extent_bytes: u64,
        /// Most bytes of all members together.
        most_bytes: u64,
    },
    /// The size cannot be that of a member.
    #[error("{} is too small for a member of the pool: the least is {}", Bytes(*bytes), Bytes(*least_bytes))]
    TooSmall {
        /// What was asked for.
        bytes: u64,
        /// Metadata and one extent.
        least_bytes: u64,
    },
    /// The first member cannot be removed.
    #[error(
        "member 0 has the pool's own data and cannot be removed; remove others, or load the \
         tables into another pool"
    )]
    FirstMember,
    /// The pool has as many members as it can have.
    #[error("a pool has {most} members at most; grow one of them")]
    TooManyMembers {
        /// Their largest number.
        most: u32,
    },
    /// No such table.
    #[error("the pool has no table `{name}`; it has {existing}")]
    UnknownTable {
        /// As given.
        name: String,
        /// The names of all tables.
        existing: String,
    },
    /// No such region, or it is not in a state for that.
    #[error("region {id} is {found}, and {expected} is needed")]
    RegionState {
        /// Number of the region.
        id: u64,
        /// What it is.
        found: &'static str,
        /// What it would have to be.
        expected: &'static str,
    },
    /// The name cannot be that of a table or host.
    #[error("`{}` is no name: it must have 1 to 255 bytes and no control characters", name.escape_debug())]
    BadName {
        /// As given.
        name: String,
    },
    /// The manifest is larger than what was reserved for it.
    #[error(
        "the manifest of `{name}` has {bytes} bytes, and {reserved_bytes} were reserved; reserve more"
    )]
    ManifestTooLarge {
        /// The table.
        name: String,
        /// Encoded size.
        bytes: u64,
        /// Bytes before the data.
        reserved_bytes: u64,
    },
    /// The manifest of a table does not hold what its state says.
    #[error(
        "the manifest of table `{name}` (region {id}) is damaged: {what}; drop the table and load it again"
    )]
    ManifestDamaged {
        /// The table.
        name: String,
        /// Number of its region.
        id: u64,
        /// What is wrong.
        what: String,
    },
    /// Bytes of a table are not those that were sealed.
    #[error("table `{name}` (region {id}) is damaged in bytes {from} to {to} of its data")]
    DataDamaged {
        /// The table.
        name: String,
        /// Number of its region.
        id: u64,
        /// First byte of the chunk in the data.
        from: u64,
        /// One past its last byte.
        to: u64,
    },
    /// Pages were gone when they were read or written.
    #[error("pages of {what} are gone: its file was made shorter, or the memory failed (`dmesg`)")]
    LostPages {
        /// A table, or the pool's own data.
        what: String,
    },
    /// What was written did not arrive in memory.
    #[error(
        "bytes {from} to {to} of table `{name}` read back otherwise than they were written; check the device (`dmesg`, `cxl list --media-errors`)"
    )]
    ReadBack {
        /// The table.
        name: String,
        /// First byte of the chunk in the data.
        from: u64,
        /// One past its last byte.
        to: u64,
    },
    /// The range is not inside the table's data.
    #[error("bytes {from} to {to} are outside of the {bytes} bytes of table `{name}`")]
    OutOfRange {
        /// The table.
        name: String,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
        /// Bytes of the data.
        bytes: u64,
    },
    /// No member has this number, or path.
    #[error("the pool has no member {member}; it has {existing}")]
    UnknownMember {
        /// As given.
        member: String,
        /// What it has.
        existing: String,
    },
    /// No host has this name.
    #[error("the pool has no host `{name}`; it has {existing}")]
    UnknownHost {
        /// As given.
        name: String,
        /// The names of all hosts.
        existing: String,
    },
    /// A member of the pool was not found.
    #[error("member {index} ({member}) of the pool was not found at {}: {why}; name its path", path.display())]
    MissingMember {
        /// Position of the member.
        index: usize,
        /// Its UUID.
        member: Uuid,
        /// Where it was last.
        path: PathBuf,
        /// What is there.
        why: String,
    },
}

impl PoolError {
    /// Whether the request cannot be fulfilled as it was made, whatever the machine does.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Refused { is_bad_input, .. } => *is_bad_input,
            Self::Resize(error) => error.is_bad_input(),
            Self::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            Self::Device(_)
            | Self::NotAFile { .. }
            | Self::NotADevice { .. }
            | Self::NetworkFileSystem { .. }
            | Self::HugePageSize { .. }
            | Self::NotAPool { .. }
            | Self::Occupied { .. }
            | Self::Newer { .. }
            | Self::WrongMember { .. }
            | Self::MissingMember { .. }
            | Self::OtherHome { .. }
            | Self::NoIdentity
            | Self::TooLarge { .. }
            | Self::TooSmall { .. }
            | Self::TooManyMembers { .. }
            | Self::FirstMember
            | Self::UnknownTable { .. }
            | Self::UnknownMember { .. }
            | Self::UnknownHost { .. }
            | Self::BadName { .. }
            | Self::OutOfRange { .. } => true,
            Self::HugePages { .. }
            | Self::Damaged { .. }
            | Self::NoState { .. }
            | Self::Impossible { .. }
            | Self::Truncated { .. }
            | Self::Managed { .. }
            | Self::DeviceInUse { .. }
            | Self::Mailbox { .. }
            | Self::NotServed { .. }
            | Self::Unreachable { .. }
            | Self::Alive { .. }
            | Self::Fenced { .. }
            | Self::StaleHost { .. }
            | Self::LateRequest { .. }
            | Self::NoSlot { .. }
            | Self::StateTooLarge { .. }
            | Self::Full { .. }
            | Self::Immovable { .. }
            | Self::RegionState { .. }
            | Self::ManifestTooLarge { .. }
            | Self::ManifestDamaged { .. }
            | Self::DataDamaged { .. }
            | Self::LostPages { .. }
            | Self::ReadBack { .. } => false,
        }
    }
}

/// The error of a file or device for what the system says.
pub(crate) fn refused(action: &'static str, path: &Path, source: std::io::Error) -> PoolError {
    let next_step = match source.kind() {
        std::io::ErrorKind::NotFound => {
            "check the path, or make a pool with `tierloom pool create`"
        }
        std::io::ErrorKind::AlreadyExists => "choose another path",
        std::io::ErrorKind::PermissionDenied => "run as its owner, or ask for the permission",
        std::io::ErrorKind::ReadOnlyFilesystem => "mount its file system for writing",
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "free some space, or use another file system"
        }
        std::io::ErrorKind::OutOfMemory => "free some memory, or raise the limit of mappings",
        _ => "see `dmesg` for more",
    };
    PoolError::Io {
        action,
        path: path.to_owned(),
        source,
        next_step,
    }
}
