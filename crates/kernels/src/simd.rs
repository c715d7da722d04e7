//! Vector instruction sets, detected at run time.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Vector width of a loop, chosen at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Simd {
    /// 64-bit general registers; available on every processor.
    Scalar,
    /// 256-bit vectors: x86-64 with AVX2.
    Avx2,
    /// 512-bit vectors: x86-64 with AVX-512F. Loops that need further AVX-512 extensions check
    /// them.
    Avx512,
    /// 128-bit vectors: any aarch64 processor.
    Neon,
}

impl Simd {
    /// The widest width that this processor has.
    pub fn detect() -> Self {
        [Self::Avx512, Self::Avx2, Self::Neon]
            .into_iter()
            .find(|simd| simd.available())
            .unwrap_or(Self::Scalar)
    }

    /// Whether this processor has the instructions.
    pub fn available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            // Xeon Phi has the first without the second, which hash tables use.
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
            // Neon is part of every aarch64 processor that Linux runs on.
            Self::Neon => cfg!(target_arch = "aarch64"),
        }
    }

    /// This width if the processor has it, else `Scalar`.
    pub(crate) fn or_scalar(self) -> Self {
        if self.available() { self } else { Self::Scalar }
    }
}

impl fmt::Display for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        })
    }
}
