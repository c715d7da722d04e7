//! The manifest of a table: what its bytes are, and a checksum for each chunk of them.
//!
//! It lies at the start of the region's first extent. The state has its checksum, and it has those
//! of the chunks, so that every byte of a table is covered by the chain that starts at a header.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{MANIFEST_MAGIC, checksum};
use crate::state::{Extents, ManifestRef};

const FORMAT: &str = "tierloom-region/1";

/// Bytes that one checksum covers.
pub(crate) const CHUNK_BYTES: u64 = 2 << 20;

/// For the fields that the pool itself adds, the longest name included.
const OWN_BYTES: u64 = 4096;
/// Text of one run at most.
const RUN_BYTES: u64 = 32;
/// Data start at a page.
const PAGE: u64 = 4096;

#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawManifest {
    magic: [u8; 8],
    json_bytes: U64,
    attachment_bytes: U64,
    chunks: U64,
    data_start: U64,
    data_bytes: U64,
    reserved: U64,
    checksum: U64,
}

const HEAD: usize = size_of::<RawManifest>();
const _: () = assert!(HEAD == 64);

/// The JSON part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) format: String,
    pub(crate) pool: Uuid,
    pub(crate) region: u64,
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) chunk_bytes: u64,
    /// As the state has them, so that the table could be found without it.
    pub(crate) runs: Vec<Extents>,
    /// What the caller says about the data.
    pub(crate) content: Value,
}

/// Where a table is and what it is called.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'s> {
    pub(crate) pool: Uuid,
    pub(crate) region: u64,
    pub(crate) uuid: Uuid,
    pub(crate) name: &'s str,
    pub(crate) runs: &'s [Extents],
    /// Offset of the data in the region.
    pub(crate) data_start: u64,
    pub(crate) data_bytes: u64,
}

/// A manifest that was read and holds.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) content: Value,
    pub(crate) attachment: Vec<u8>,
    pub(crate) data_start: u64,
    pub(crate) data_bytes: u64,
    /// Checksum per chunk.
    pub(crate) chunks: Vec<u64>,
}

/// Bytes to reserve before the data.
pub(crate) fn reserved_bytes(data_bytes: u64, content_bytes: u64, extent_bytes: u64) -> u64 {
    let chunks = data_bytes.div_ceil(CHUNK_BYTES);
    let fixed = HEAD as u64 + OWN_BYTES + 8 * chunks;
    let without_runs = fixed.saturating_add(content_bytes);
    let extents = data_bytes.saturating_add(without_runs) / extent_bytes + 2;
    let bytes = without_runs.saturating_add(RUN_BYTES.saturating_mul(extents));
    bytes.saturating_add(PAGE - 1) / PAGE * PAGE
}

/// Checksum per chunk of a table's data.
pub(crate) fn chunk_checksums(data: &[u8]) -> Vec<u64> {
    let chunks = data.chunks(CHUNK_BYTES as usize);
    chunks.map(|chunk| checksum(&[chunk])).collect()
}

/// Encodes a manifest; returns it and what the state has to say about it.
pub(crate) fn encode(
    subject: &Subject<'_>,
    content: &Value,
    attachment: &[u8],
    chunks: &[u64],
) -> Result<(Vec<u8>, ManifestRef), serde_json::Error> {
    let json = serde_json::to_vec(&Description {
        format: FORMAT.to_owned(),
        pool: subject.pool,
        region: subject.region,
        uuid: subject.uuid,
        name: subject.name.to_owned(),
        chunk_bytes: CHUNK_BYTES,
        runs: subject.runs.to_vec(),
        content: content.clone(),
    })?;
    let mut head = RawManifest {
        magic: MANIFEST_MAGIC,
        json_bytes: (json.len() as u64).into(),
        attachment_bytes: (attachment.len() as u64).into(),
        chunks: (chunks.len() as u64).into(),
        data_start: subject.data_start.into(),
        data_bytes: subject.data_bytes.into(),
        reserved: 0.into(),
        checksum: 0.into(),
    };
    let table: Vec<u8> = chunks
        .iter()
        .flat_map(|chunk| chunk.to_le_bytes())
        .collect();
    let body = [json.as_slice(), attachment, &table].concat();
    let sum = whole_checksum(subject.pool, subject.uuid, &head, &body);
    head.checksum = sum.into();
    let bytes = [head.as_bytes(), &body].concat();
    let reference = ManifestRef {
        bytes: bytes.len() as u64,
        checksum: sum,
    };
    Ok((bytes, reference))
}

fn whole_checksum(pool: Uuid, region: Uuid, head: &RawManifest, body: &[u8]) -> u64 {
    let head = &head.as_bytes()[..HEAD - 8];
    checksum(&[pool.as_bytes(), region.as_bytes(), head, body])
}

/// Reads the manifest at the start of a region.
///
/// # Errors
/// What does not hold.
pub(crate) fn decode(
    region: &[u8],
    pool: Uuid,
    uuid: Uuid,
    expected: ManifestRef,
) -> Result<Manifest, String> {
    let whole = usize::try_from(expected.bytes).ok();
    let bytes = whole.and_then(|bytes| region.get(..bytes));
    let bytes = bytes.ok_or("it is longer than its region")?;
    let (head, body) = RawManifest::ref_from_prefix(bytes).map_err(|_| "it is too short")?;
    let sum = whole_checksum(pool, uuid, head, body);
    if head.magic != MANIFEST_MAGIC || sum != head.checksum.get() || sum != expected.checksum {
        return Err("its checksum does not hold".to_owned());
    }
    // From here on the bytes are those that were sealed: what is wrong was wrong then.
    let lengths = [&head.json_bytes, &head.attachment_bytes, &head.chunks];
    let [json, attachment, chunks] = lengths.map(|length| length.get());
    let table = chunks.checked_mul(8);
    let sum = table.and_then(|table| json.checked_add(attachment)?.checked_add(table));
    let (data_start, data_bytes) = (head.data_start.get(), head.data_bytes.get());
    let end = data_start.checked_add(data_bytes);
    if sum != Some(body.len() as u64)
        || chunks != data_bytes.div_ceil(CHUNK_BYTES)
        || data_start < expected.bytes
        || end.is_none_or(|end| end > region.len() as u64)
    {
        return Err("its lengths contradict each other".to_owned());
    }
    let (json, rest) = body.split_at(json as usize);
    let (attachment, table) = rest.split_at(attachment as usize);
    let description: Description =
        serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if description.format != FORMAT || description.chunk_bytes != CHUNK_BYTES {
        return Err(format!("its format is `{}`", description.format));
    }
    let word = |bytes: &[u8]| U64::read_from_bytes(bytes).map_or(0, U64::get);
    Ok(Manifest {
        content: description.content,
        attachment: attachment.to_vec(),
        data_start,
        data_bytes,
        chunks: table.chunks_exact(8).map(word).collect(),
    })
}
