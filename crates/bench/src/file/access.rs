//! The memory access of a task: operation, order, size, stride and vector width.
//!
//! Values are read here and checked as a whole by [`Access::check`], which knows the limits of the
//! kernels.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{
    Access, AccessError, CacheOp, Distribution, LineState, Operation, Order,
};

use super::settings::{Argument, Reader};
use super::values::{self, one_of, size_bytes, whole};
use super::wanted::{Wanted, simd};
use super::words::{Measure, Mode, ModeOrder, Verb};
use super::{LINE_BYTES, chain};

/// CXL-Bench's default access size; it has no default for latency, which uses one cache line.
const DEFAULT_ACCESS_BYTES: u64 = 256;
/// CXL-Bench's default exponent of the Zipf distribution.
const DEFAULT_ZIPF_ALPHA: f64 = 0.9;

pub(super) fn order(
    reader: &mut Reader<'_, '_, '_>,
    mode: Option<Mode>,
    measure: Measure,
    verb: Verb,
) -> Option<Order> {
    let zipf = reader.or("random_distribution", false, |text| {
        one_of(text, &[("uniform", false), ("zipf", true)])
    })?;
    let alpha = reader.or("zipf_alpha", DEFAULT_ZIPF_ALPHA, values::number)?;
    let atomic = matches!(verb, Verb::Access(operation) if operation.is_atomic());
    let kind = mode.map_or_else(
        || match measure {
            Measure::Latency => ModeOrder::Random,
            _ if atomic => ModeOrder::Random,
            _ => ModeOrder::Ascending,
        },
        |mode| mode.order,
    );
    Some(match kind {
        ModeOrder::Ascending => Order::Ascending,
        ModeOrder::Descending => Order::Descending,
        ModeOrder::Random if !zipf => Order::Random(Distribution::Uniform),
        ModeOrder::Random | ModeOrder::Zipf => Order::Random(Distribution::Zipf { alpha }),
    })
}

/// Reads the access and the state that a line is brought into before a timed access.
///
/// CXL-Bench expresses that state by the cache instruction; `line` overrides it.
pub(super) fn access(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    measure: Measure,
    operation: Operation,
    order: Order,
    default_simd: Simd,
) -> Option<(Access, LineState)> {
    let latency = measure == Measure::Latency;
    let (mut cache_op, no_cache) = reader.or(
        "cache_instruction",
        (CacheOp::None, false),
        chain::cache_instruction,
    )?;
    // "nocache" is a property of the store here, so the operation changes.
    let operation = match operation {
        Operation::Write if no_cache => Operation::StreamWrite,
        Operation::Copy if no_cache => Operation::StreamCopy,
        Operation::Mix { read_percent, .. } if no_cache => Operation::Mix {
            read_percent,
            stream: true,
        },
        other => other,
    };
    let mut line = LineState::AsIs;
    // For latency, CXL-Bench flushes the line before a timed read and loads it before a timed
    // write, so the instruction of a read is not part of the access.
    if latency && matches!(operation, Operation::Read | Operation::StreamRead) {
        if matches!(cache_op, CacheOp::Flush | CacheOp::FlushOpt) {
            line = LineState::Flushed;
        }
        cache_op = CacheOp::None;
    } else if latency && matches!(operation, Operation::Write | Operation::StreamWrite) {
        line = LineState::Preloaded;
    }
    let default_bytes = match operation {
        _ if operation.is_atomic() => 8,
        _ if latency => LINE_BYTES,
        _ => DEFAULT_ACCESS_BYTES,
    };
    let access_bytes = reader.or("access_size", default_bytes, size_bytes)?;
    // Random latency and atomic accesses each go to a separate line, as in CXL-Bench.
    let own_line = matches!(order, Order::Random(_)) && (latency || operation.is_atomic());
    let natural = if own_line {
        access_bytes.max(LINE_BYTES)
    } else {
        access_bytes
    };
    let prefetch_bytes = reader.or("prefetch_distance", 0, size_bytes)?;
    let simd = simd(reader, default_simd)?;
    let access = Access {
        operation,
        order,
        access_bytes: access_bytes as usize,
        stride_bytes: stride(reader, access_bytes, natural)? as usize,
        cache_op,
        prefetch_bytes: prefetch_bytes as usize,
        simd,
    };
    if let Err(error) = access.check() {
        let (key, problem) = match &error {
            AccessError::Invalid { field, problem } => (*field, problem.clone()),
            AccessError::Unsupported { .. } => ("operation", error.to_string()),
        };
        // The stride may have been given as `skip`: the message has to name the key in the file.
        let key = if key == "stride" && reader.settings.has("skip") {
            "skip"
        } else {
            key
        };
        match reader.settings.get(key) {
            Some(setting) => reader.wrong(setting, problem),
            None => reader
                .problems
                .push(wanted.place, format!("{key}: {problem}")),
        }
        return None;
    }
    Some((access, line))
}

fn stride(reader: &mut Reader<'_, '_, '_>, access_bytes: u64, natural: u64) -> Option<u64> {
    if reader.not_both(
        "stride",
        "skip",
        "skipping k records is a stride of (k + 1) records",
    ) {
        return None;
    }
    if reader.settings.has("skip") {
        let skip = reader.value("skip", |text| whole(text, 0..=1 << 30))?;
        // CXL-Bench counts skipped records; a stride counts from start to start.
        return Some(natural.max((skip + 1).saturating_mul(access_bytes)));
    }
    reader.or("stride", natural, size_bytes)
}

/// Checks that the region has room for at least one access.
///
/// A copy needs room for one in each half.
pub(super) fn check_fits(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    access: &Access,
    region_bytes: u64,
) -> Option<()> {
    let span = match access.operation {
        Operation::Copy | Operation::StreamCopy => region_bytes / 2,
        _ => region_bytes,
    };
    if span >= access.stride_bytes as u64 {
        return Some(());
    }
    let setting: Option<Argument<'_>> = ["stride", "skip", "access_size", "memory_region_size"]
        .into_iter()
        .find_map(|name| reader.settings.get(name));
    let message = format!(
        "no access fits: {} apart in a region of {}",
        tierloom_text::Bytes(access.stride_bytes as u64),
        tierloom_text::Bytes(region_bytes)
    );
    match setting {
        Some(setting) => reader.wrong(setting, message),
        None => reader.problems.push(wanted.place, message),
    }
    None
}
