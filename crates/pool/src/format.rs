//! The binary structures: superblock, claim, header and host line.

use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{PoolLayout, SUPERBLOCK_BYTES};

pub(crate) const FORMAT: u32 = 1;

pub(crate) const SUPERBLOCK_MAGIC: [u8; 8] = *b"TLPOOL\x01\0";
pub(crate) const CLAIM_MAGIC: u64 = u64::from_le_bytes(*b"TLCLAIM\x01");
pub(crate) const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"TLHEAD\x01\0");
pub(crate) const HOST_MAGIC: u64 = u64::from_le_bytes(*b"TLHOST\x01\0");
pub(crate) const MANIFEST_MAGIC: [u8; 8] = *b"TLREGN\x01\0";

/// CRC-64/NVME over several pieces, one after the other.
pub(crate) fn checksum(pieces: &[&[u8]]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize()
}

/// Whether processors of several hosts see each other's stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Coherence {
    /// All users are on one host: its caches are coherent. Files.
    Host,
    /// Several hosts without: lines are written back and dropped by instructions. Devices.
    None,
    /// Several hosts, kept coherent by the hardware (CXL 3, HDM-DB).
    Hardware,
}

impl Coherence {
    fn code(self) -> u32 {
        match self {
            Self::Host => 0,
            Self::None => 1,
            Self::Hardware => 2,
        }
    }

    fn of(code: u32) -> Option<Self> {
        [Self::Host, Self::None, Self::Hardware]
            .into_iter()
            .find(|known| known.code() == code)
    }
}

/// What never changes about a pool and a member, as the bytes have it.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    magic: [u8; 8],
    format: U32,
    coherence: U32,
    compat: U64,
    read_only_compat: U64,
    incompat: U64,
    pool: [u8; 16],
    member: [u8; 16],
    index: U32,
    banks: U32,
    slots: U32,
    host_slots: U32,
    extent_bytes: U64,
    slot_bytes: U64,
    created_ns: U64,
    member_bytes: U64,
    reserved: [u8; 3968],
    checksum: U64,
}

const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_BYTES as usize);

/// What never changes about a pool and a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) pool: Uuid,
    pub(crate) member: Uuid,
    /// Position of the member; 0 has the metadata.
    pub(crate) index: u32,
    pub(crate) layout: PoolLayout,
    pub(crate) coherence: Coherence,
    /// Wall clock at creation, ns since 1970; information only.
    pub(crate) created_ns: u64,
    /// Size of the member at its creation; information only.
    pub(crate) member_bytes: u64,
}

/// Why bytes are not a superblock that this program can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSuperblock {
    /// No magic: something else, or nothing.
    Foreign,
    /// The magic is there but the checksum does not hold.
    Damaged,
    /// Of a later format, or with features that this program does not know.
    Newer { format: u32, features: u64 },
    /// The checksum holds, but the values are impossible.
    Impossible,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut raw = RawSuperblock {
            magic: SUPERBLOCK_MAGIC,
            format: FORMAT.into(),
            coherence: self.coherence.code().into(),
            compat: 0.into(),
            read_only_compat: 0.into(),
            incompat: 0.into(),
            pool: self.pool.into_bytes(),
            member: self.member.into_bytes(),
            index: self.index.into(),
            banks: u32::from(crate::layout::BANKS).into(),
            slots: u32::from(crate::layout::SLOTS).into(),
            host_slots: u32::from(crate::layout::HOST_SLOTS).into(),
            extent_bytes: self.layout.extent_bytes.into(),
            slot_bytes: self.layout.slot_bytes.into(),
            created_ns: self.created_ns.into(),
            member_bytes: self.member_bytes.into(),
            reserved: [0; 3968],
            checksum: 0.into(),
        };
        let covered = &raw.as_bytes()[..SUPERBLOCK_BYTES as usize - 8];
        raw.checksum = checksum(&[covered]).into();
        raw.as_bytes().to_vec()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NoSuperblock> {
        let raw = RawSuperblock::ref_from_bytes(bytes).map_err(|_| NoSuperblock::Foreign)?;
        // A later format has another number in the magic's seventh byte, or in `format`.
        if raw.magic[..6] != SUPERBLOCK_MAGIC[..6] {
            return Err(NoSuperblock::Foreign);
        }
        let covered = &bytes[..SUPERBLOCK_BYTES as usize - 8];
        if checksum(&[covered]) != raw.checksum.get() {
            return Err(NoSuperblock::Damaged);
        }
        let features = raw.incompat.get() | raw.read_only_compat.get();
        let format = raw.format.get().max(raw.magic[6].into());
        if format > FORMAT || features != 0 {
            return Err(NoSuperblock::Newer { format, features });
        }
        let layout = PoolLayout {
            extent_bytes: raw.extent_bytes.get(),
            slot_bytes: raw.slot_bytes.get(),
        };
        let sizes = [raw.banks.get(), raw.slots.get(), raw.host_slots.get()];
        let coherence = Coherence::of(raw.coherence.get());
        match coherence {
            Some(coherence)
                if sizes == [8, 4, 1024] && layout.is_sound() && raw.magic == SUPERBLOCK_MAGIC =>
            {
                Ok(Self {
                    pool: Uuid::from_bytes(raw.pool),
                    member: Uuid::from_bytes(raw.member),
                    index: raw.index.get(),
                    layout,
                    coherence,
                    created_ns: raw.created_ns.get(),
                    member_bytes: raw.member_bytes.get(),
                })
            }
            _ => Err(NoSuperblock::Impossible),
        }
    }
}

/// The words of a cache line. The first is a magic number, the last a checksum.
pub(crate) type Line = [u64; 8];

/// The checksum of a line at its place in a pool.
pub(crate) fn line_checksum(pool: Uuid, offset: u64, line: &Line) -> u64 {
    let words: Vec<u8> = line[..7].iter().flat_map(|w| w.to_le_bytes()).collect();
    checksum(&[pool.as_bytes(), &offset.to_le_bytes(), &words])
}

/// A finished commit: which state is in a slot's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) payload_checksum: u64,
    /// Incarnation of the manager; information only.
    pub(crate) incarnation: u64,
    /// Wall clock, ns since 1970; information only.
    pub(crate) wall_ns: u64,
}

impl Header {
    /// The line, with its checksum still to come.
    pub(crate) fn line(&self) -> Line {
        let Header {
            epoch,
            generation,
            payload_bytes,
            payload_checksum,
            incarnation,
            wall_ns,
        } = *self;
        [
            HEADER_MAGIC,
            epoch,
            generation,
            payload_bytes,
            payload_checksum,
            incarnation,
            wall_ns,
            0,
        ]
    }

    pub(crate) fn of(line: &Line) -> Self {
        Self {
            epoch: line[1],
            generation: line[2],
            payload_bytes: line[3],
            payload_checksum: line[4],
            incarnation: line[5],
            wall_ns: line[6],
        }
    }
}

/// The checksum of a payload in its slot: an old one, or one of another slot, does not hold.
pub(crate) fn payload_checksum(
    pool: Uuid,
    offset: u64,
    epoch: u64,
    generation: u64,
    payload: &[u8],
) -> u64 {
    let place = [offset, epoch, generation, payload.len() as u64];
    let place: Vec<u8> = place.iter().flat_map(|word| word.to_le_bytes()).collect();
    checksum(&[pool.as_bytes(), &place, payload])
}

/// "From now on the manager is me": what a manager writes before it reads the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) epoch: u64,
    pub(crate) incarnation: u64,
    /// Wall clock, ns since 1970; information only.
    pub(crate) wall_ns: u64,
}

impl Claim {
    pub(crate) fn line(&self) -> Line {
        let Claim {
            epoch,
            incarnation,
            wall_ns,
        } = *self;
        [CLAIM_MAGIC, epoch, incarnation, wall_ns, 0, 0, 0, 0]
    }

    pub(crate) fn of(line: &Line) -> Self {
        Self {
            epoch: line[1],
            incarnation: line[2],
            wall_ns: line[3],
        }
    }
}

/// A sign of life of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostLine {
    pub(crate) incarnation: u64,
    /// Grows with every renewal.
    pub(crate) counter: u64,
    /// Whether the host left in an orderly way.
    pub(crate) left: bool,
    /// Wall clock, ns since 1970; information only.
    pub(crate) wall_ns: u64,
}

impl HostLine {
    pub(crate) fn line(&self) -> Line {
        let state = u64::from(self.left);
        let (incarnation, counter) = (self.incarnation, self.counter);
        let wall_ns = self.wall_ns;
        [HOST_MAGIC, incarnation, counter, state, wall_ns, 0, 0, 0]
    }

    pub(crate) fn of(line: &Line) -> Self {
        Self {
            incarnation: line[1],
            counter: line[2],
            left: line[3] == 1,
            wall_ns: line[4],
        }
    }
}
