//! Access kernels that represent phases.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{Access, Operation};
use tierloom_model::Op;
use tierloom_model::reference::work::{Filter, RandomAccess, Stream, Work};

use super::MeasureError;

/// Phases measured by default.
///
/// They use each kernel once: a scan without output is a read, an aggregation accesses memory as a
/// build does.
pub const USUAL: [&str; 6] = ["scan", "write", "nt-write", "filter", "build", "probe"];

/// A phase with the access kernel that represents it.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelPhase {
    /// Name of the phase.
    pub name: String,
    /// Description of the kernel for users.
    pub what: &'static str,
    /// Work that the model computes: that of the kernel, not of the whole phase.
    pub work: Work,
    /// Access pattern that the kernel executes.
    pub access: Access,
}

/// The kernel that represents `phase`, on a region of `region_bytes`.
///
/// # Errors
/// [`MeasureError::NoKernel`] for phases such as partitioning, whose access pattern no kernel has.
pub fn kernel_of(phase: &str, region_bytes: u64) -> Result<KernelPhase, MeasureError> {
    let bytes = region_bytes as f64;
    let stream = Stream {
        bytes,
        ..Stream::default()
    };
    let random = |op| {
        Work::Random(RandomAccess {
            op,
            footprint_bytes: bytes,
            ..RandomAccess::default()
        })
    };
    let filter = Work::Filter(Filter {
        bytes,
        ..Filter::default()
    });
    let scalar = Access {
        simd: Simd::Scalar,
        access_bytes: 8,
        stride_bytes: 8,
        ..Access::sequential(Operation::Read)
    };
    let in_order = Access::sequential;
    let anywhere = Access::random;
    let (what, work, access) = match phase {
        "scan" | "read" => (
            "vector reads of 64 B in order; the memory side of a scan that writes nothing",
            Work::Read(stream),
            in_order(Operation::Read),
        ),
        "write" => (
            "cached vector stores of 64 B in order",
            Work::Write(stream),
            in_order(Operation::Write),
        ),
        "nt-write" => (
            "non-temporal vector stores of 64 B in order",
            Work::NtWrite(stream),
            in_order(Operation::StreamWrite),
        ),
        // The kernel copies the first half of the region to the second.
        "copy" => (
            "vector copies of 64 B in order",
            Work::Copy(Stream {
                bytes: bytes / 2.0,
                ..stream
            }),
            in_order(Operation::Copy),
        ),
        "filter" => ("scalar reads of 8 B in order", filter, scalar),
        "probe" | "random" => (
            "reads of 64 B at random places; the memory side of a probe without its input",
            random(Op::Read),
            anywhere(Operation::Read),
        ),
        "build" | "aggregate" => (
            "cached stores of 64 B at random places: a line read and written back each, as when rows are inserted, without their input",
            random(Op::Write),
            anywhere(Operation::Write),
        ),
        other => {
            return Err(MeasureError::NoKernel {
                phase: other.to_owned(),
            });
        }
    };
    Ok(KernelPhase {
        name: phase.to_owned(),
        what,
        work,
        access,
    })
}

#[cfg(test)]
mod tests {
    use super::super::MEASURABLE;
    use super::*;

    #[test]
    fn every_measurable_phase_has_a_kernel_that_can_run_and_be_priced() {
        for name in MEASURABLE {
            let phase = kernel_of(name, 64 << 20).unwrap();
            phase.access.check().unwrap();
            assert!(
                phase.work.phases(2).unwrap().iter().all(|p| p.tuples > 0.0),
                "{name}"
            );
        }
        assert!(USUAL.iter().all(|name| MEASURABLE.contains(name)));
    }

    #[test]
    fn a_phase_without_a_kernel_says_which_have_one() {
        let text = kernel_of("partition", 1 << 20).unwrap_err().to_string();
        assert!(
            text.contains("partition") && text.contains("nt-write"),
            "{text}"
        );
    }
}
