//! Where things lie in a member. `docs/pool-format.md` has the table.

/// Both copies of the superblock, at the start of every member.
pub(crate) const SUPERBLOCK_BYTES: u64 = 4096;
pub(crate) const SUPERBLOCKS: [u64; 2] = [0, SUPERBLOCK_BYTES];

/// One line per host.
pub(crate) const HOST_LINES_START: u64 = 64 << 10;
pub(crate) const HOST_SLOTS: u16 = 1024;

/// Pages of banks: a page has the claim of the bank in its first line and a header per slot in the
/// next ones.
pub(crate) const BANKS_START: u64 = 1 << 20;
pub(crate) const BANK_PAGE: u64 = 4096;
pub(crate) const BANKS: u8 = 8;
pub(crate) const SLOTS: u8 = 4;

/// Payloads of all slots of all banks.
pub(crate) const PAYLOADS_START: u64 = 2 << 20;

/// Smallest extent.
pub(crate) const EXTENT_BYTES: u64 = 2 << 20;
/// Most extents of a pool: keeps the state small, and mappings below the kernel's limit.
pub(crate) const MOST_EXTENTS: u64 = 65_536;
/// Most members of a pool.
pub(crate) const MOST_MEMBERS: u32 = 64;

const LEAST_SLOT_BYTES: u64 = 64 << 10;
pub(crate) const MOST_SLOT_BYTES: u64 = 4 << 20;

/// The sizes that a pool chose at its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolLayout {
    pub(crate) extent_bytes: u64,
    pub(crate) slot_bytes: u64,
}

impl PoolLayout {
    /// For a pool of about so many bytes: it can grow to at least this, and as far as
    /// [`MOST_EXTENTS`] go.
    pub(crate) fn for_bytes(bytes: u64) -> Self {
        let mut extent_bytes = EXTENT_BYTES;
        while bytes / extent_bytes > MOST_EXTENTS && extent_bytes < 1 << 40 {
            extent_bytes *= 2;
        }
        // A run of the state takes about 12 bytes of text, and at worst every second extent is a
        // run of its own.
        let extents = (bytes / extent_bytes).min(MOST_EXTENTS);
        let slot_bytes = (LEAST_SLOT_BYTES / 2 + 8 * extents).next_power_of_two();
        let slot_bytes = slot_bytes.max(LEAST_SLOT_BYTES);
        Self {
            extent_bytes,
            slot_bytes,
        }
    }

    /// Whether these can be the sizes of a pool.
    pub(crate) fn is_sound(self) -> bool {
        let extent = self.extent_bytes;
        let slot = self.slot_bytes;
        (extent.is_power_of_two() && (EXTENT_BYTES..=1 << 40).contains(&extent))
            && (slot.is_power_of_two() && (LEAST_SLOT_BYTES..=MOST_SLOT_BYTES).contains(&slot))
    }

    /// Bytes of metadata of the first member.
    pub(crate) fn metadata_bytes(self) -> u64 {
        PAYLOADS_START + u64::from(BANKS) * u64::from(SLOTS) * self.slot_bytes
    }

    /// Where the extents of a member start.
    pub(crate) fn data_start(self, member: usize) -> u64 {
        let before = if member == 0 {
            self.metadata_bytes()
        } else {
            2 * SUPERBLOCK_BYTES
        };
        before.next_multiple_of(self.extent_bytes)
    }

    /// Extents of a member of so many bytes.
    pub(crate) fn extents(self, member: usize, bytes: u64) -> u64 {
        bytes.saturating_sub(self.data_start(member)) / self.extent_bytes
    }

    /// Bytes that a member needs for so many extents.
    pub(crate) fn member_bytes(self, member: usize, extents: u64) -> u64 {
        self.data_start(member)
            .saturating_add(extents.saturating_mul(self.extent_bytes))
    }

    pub(crate) fn payload(self, bank: u8, slot: u8) -> u64 {
        let index = u64::from(bank) * u64::from(SLOTS) + u64::from(slot);
        PAYLOADS_START + index * self.slot_bytes
    }
}

pub(crate) fn claim(bank: u8) -> u64 {
    BANKS_START + u64::from(bank) * BANK_PAGE
}

pub(crate) fn header(bank: u8, slot: u8) -> u64 {
    claim(bank) + 64 * (1 + u64::from(slot))
}

pub(crate) fn host_line(slot: u16) -> u64 {
    HOST_LINES_START + 64 * u64::from(slot)
}
