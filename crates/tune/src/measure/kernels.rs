//! What represents a phase in a measurement: an access loop, a chase, or a database operator.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{Access, Operation};
use tierloom_model::Op;
use tierloom_model::reference::work::{Chase, RandomAccess, Stream, Work};

use super::phase::{KernelPhase, Runs};
use super::{MeasureError, operators, queries};

/// What represents `work`, called `name`, in a measurement with `workers` threads.
///
/// All structures together have at most `region_bytes`, whatever sizes the work has.
///
/// # Errors
/// [`MeasureError::Parameter`] for a parameter that no operator has.
pub fn measured_as(
    name: &str,
    work: &Work,
    region_bytes: u64,
    workers: u32,
) -> Result<KernelPhase, MeasureError> {
    let bytes = region_bytes as f64;
    let in_order = Access::sequential;
    let (what, work, runs) = match work {
        Work::Read(stream) => (
            "reads of 64 B in order",
            Work::Read(Stream {
                bytes,
                ..stream.clone()
            }),
            Runs::Access(wide(in_order(Operation::Read), stream.simd)),
        ),
        Work::Write(stream) => (
            "cached stores of 64 B in order",
            Work::Write(Stream {
                bytes,
                ..stream.clone()
            }),
            Runs::Access(wide(in_order(Operation::Write), stream.simd)),
        ),
        Work::NtWrite(stream) => (
            "non-temporal vector stores of 64 B in order",
            Work::NtWrite(Stream {
                bytes,
                ..stream.clone()
            }),
            Runs::Access(in_order(Operation::StreamWrite)),
        ),
        // The loop copies the first half of the region to the second.
        Work::Copy(stream) => (
            "copies of 64 B in order",
            Work::Copy(Stream {
                bytes: bytes / 2.0,
                ..stream.clone()
            }),
            Runs::Access(wide(in_order(Operation::Copy), stream.simd)),
        ),
        Work::Random(random) => (
            "accesses at random places",
            Work::Random(RandomAccess {
                footprint_bytes: bytes,
                ..random.clone()
            }),
            Runs::Access(at_random(name, random)?),
        ),
        Work::Chase(chase) => (
            "loads of which each needs the one before",
            Work::Chase(Chase {
                footprint_bytes: bytes,
                ..chase.clone()
            }),
            Runs::Chase,
        ),
        other => match queries::of(other, region_bytes) {
            Some((work, runs)) => {
                return Ok(KernelPhase {
                    name: name.to_owned(),
                    what: runs.what(),
                    work,
                    runs: Runs::Queries(runs),
                });
            }
            None => return operators::of(name, other, region_bytes, workers),
        },
    };
    Ok(KernelPhase {
        name: name.to_owned(),
        what: what.to_owned(),
        work,
        runs,
    })
}

/// The access with vectors, or eight bytes at a time.
fn wide(access: Access, simd: bool) -> Access {
    match simd {
        true => access,
        false => Access {
            simd: Simd::Scalar,
            ..access
        },
    }
}

fn at_random(name: &str, random: &RandomAccess) -> Result<Access, MeasureError> {
    let operation = match random.op {
        Op::Read => Operation::Read,
        Op::NtWrite => Operation::StreamWrite,
        Op::Write | Op::Update => Operation::Write,
    };
    let bytes = random.access_bytes as usize;
    let access = Access {
        access_bytes: bytes,
        stride_bytes: bytes,
        ..Access::random(operation)
    };
    if bytes as f64 != random.access_bytes || access.check().is_err() {
        return Err(MeasureError::Parameter {
            phase: name.to_owned(),
            parameter: "access_bytes",
            given: random.access_bytes.to_string(),
            expected: "a power of two from 64 to 64K".into(),
        });
    }
    Ok(access)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{KNOWN, named};

    #[test]
    fn every_known_phase_has_something_that_can_run_and_be_priced() {
        for name in KNOWN {
            for workers in [1, 2, 48] {
                let work = named(name).unwrap();
                let phase = measured_as(name, &work, 64 << 20, workers).unwrap();
                match &phase.runs {
                    Runs::Access(access) => access.check().unwrap(),
                    Runs::Chase | Runs::Queries(_) => {}
                    Runs::Operator { operator, phase } => {
                        operator.check().unwrap();
                        let known = |phase: &str| operator.phase_names().contains(&phase);
                        assert!(phase.is_none_or(known), "{name}");
                    }
                }
                let phases = phase.work.phases(workers).unwrap();
                assert!(phases.iter().all(|p| p.tuples > 0.0), "{name}");
                assert_eq!(phase.work.name(), name, "the same work, at other sizes");
            }
        }
    }

    #[test]
    fn random_accesses_keep_their_size_and_operation() {
        let random = RandomAccess {
            access_bytes: 256.0,
            op: Op::NtWrite,
            ..Default::default()
        };
        let phase = measured_as("random", &Work::Random(random), 1 << 20, 1).unwrap();
        let Runs::Access(access) = phase.runs else {
            panic!("no access");
        };
        assert_eq!(
            (access.operation, access.access_bytes),
            (Operation::StreamWrite, 256)
        );
        let odd = RandomAccess {
            access_bytes: 100.0,
            ..Default::default()
        };
        let error = measured_as("random", &Work::Random(odd), 1 << 20, 1).unwrap_err();
        assert!(error.to_string().contains("access_bytes=100"), "{error}");
    }
}
