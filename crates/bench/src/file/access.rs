//! The access of a task.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{
    Access, AccessError, CacheOp, Distribution, LineState, Operation, Order,
};

use super::chain;
use super::settings::{Reader, Setting};
use super::task::{LINE_BYTES, Wanted};
use super::values::{self, one_of, size_bytes, whole};
use super::words::{Measure, Mode, ModeOrder, Verb};

/// CXL-Bench's access size; it has no latency of it, so those have a line.
const DEFAULT_ACCESS_BYTES: u64 = 256;
/// CXL-Bench's skew.
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

/// The access, and what CXL-Bench does to a line before timing it.
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
    // Single accesses at random places go to lines of their own, as in CXL-Bench.
    let own_line = matches!(order, Order::Random(_)) && (latency || operation.is_atomic());
    let natural = if own_line {
        access_bytes.max(LINE_BYTES)
    } else {
        access_bytes
    };
    let prefetch_bytes = reader.or("prefetch_distance", 0, size_bytes)?;
    let simd = reader.or("simd", default_simd, |text| {
        one_of(
            text,
            &[
                ("auto", default_simd),
                ("scalar", Simd::Scalar),
                ("avx2", Simd::Avx2),
                ("avx512", Simd::Avx512),
                ("neon", Simd::Neon),
            ],
        )
    })?;
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
        // A skip makes the stride.
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
        return Some(natural.max((skip + 1).saturating_mul(access_bytes)));
    }
    reader.or("stride", natural, size_bytes)
}

/// The region has room for at least one access (copies need one in each half).
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
    let setting: Option<Setting<'_>> = ["stride", "skip", "access_size", "memory_region_size"]
        .into_iter()
        .find_map(|name| reader.settings.get(name));
    let message = format!(
        "no access fits: {} apart in a region of {}",
        values::bytes_text(access.stride_bytes as u64),
        values::bytes_text(region_bytes)
    );
    match setting {
        Some(setting) => reader.wrong(setting, message),
        None => reader.problems.push(wanted.place, message),
    }
    None
}
