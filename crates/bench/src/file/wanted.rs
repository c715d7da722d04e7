//! What every task has, whatever it does: name, role, host and vector width.

use tierloom_kernels::Simd;

use crate::plan::TaskRole;

use super::error::Position;
use super::settings::Reader;
use super::values::one_of;

/// What the workload says about a task outside its arguments.
#[derive(Debug, Clone)]
pub(super) struct Wanted<'n> {
    pub(super) name: &'n str,
    /// Position of the task in the file.
    pub(super) place: Position,
    /// The role, unless the arguments set one.
    pub(super) role: TaskRole,
    /// Whether it is the only task; then keys that do not apply to it are errors.
    ///
    /// With several tasks, a key in the workload's `args:` may be meant for the others.
    pub(super) alone: bool,
}

/// The role of a task.
pub(super) fn role(wanted: &Wanted<'_>, reader: &mut Reader<'_, '_, '_>) -> Option<TaskRole> {
    reader.or("role", wanted.role, |text| {
        one_of(
            text,
            &[
                ("main", TaskRole::Main),
                ("background", TaskRole::Background),
            ],
        )
    })
}

/// The name of the host that runs a task, if it is another one.
pub(super) fn host(reader: &mut Reader<'_, '_, '_>) -> Option<Option<String>> {
    reader.optional("host", |text| Ok(text.to_owned()))
}

/// The vector width, as typed or the one of the machine.
pub(super) fn simd(reader: &mut Reader<'_, '_, '_>, default: Simd) -> Option<Simd> {
    reader.or("simd", default, |text| {
        one_of(
            text,
            &[
                ("auto", default),
                ("scalar", Simd::Scalar),
                ("avx2", Simd::Avx2),
                ("avx512", Simd::Avx512),
                ("neon", Simd::Neon),
            ],
        )
    })
}
