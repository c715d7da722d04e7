//! Kinds of guests.

use std::fmt;
use std::str::FromStr;

/// The memory layouts a guest can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GuestKind {
    /// Node 0 with all CPUs, node 1 with memory only, and an HMAT with 100 ns and 100 GiB/s for
    /// node 0, 250 ns and 30 GiB/s for node 1.
    ///
    /// The kernel reports these values; the emulated memory does not have them.
    TwoNodes,
    /// Node 0 with all CPUs, and one CXL type-3 device with volatile memory, whose RAM region comes
    /// online as node 1 in `ZONE_MOVABLE`.
    Cxl,
    /// The same device and region in devdax mode: programs map `/dev/dax0.0`.
    ///
    /// Linux uses none of its memory and changes no byte of it.
    CxlDevdax,
    /// A CXL type-3 device of which all memory is dynamic capacity, in two regions: a fabric
    /// manager adds extents while the guest runs, which is the host with QMP
    /// ([`GuestOptions::qmp`](super::GuestOptions)).
    ///
    /// Linux knows no such devices yet, so no CXL driver is loaded. Programs reach the device's
    /// registers through `/dev/mem`.
    CxlDcd,
}

impl GuestKind {
    /// All kinds, in the order in which help texts list them.
    pub const ALL: [GuestKind; 4] = [
        GuestKind::TwoNodes,
        GuestKind::Cxl,
        GuestKind::CxlDevdax,
        GuestKind::CxlDcd,
    ];

    /// The name in options and output, which [`FromStr`] accepts.
    pub fn name(self) -> &'static str {
        match self {
            GuestKind::TwoNodes => "two-nodes",
            GuestKind::Cxl => "cxl",
            GuestKind::CxlDevdax => "cxl-devdax",
            GuestKind::CxlDcd => "cxl-dcd",
        }
    }

    /// Whether guests of this kind have a CXL device.
    pub fn has_cxl(self) -> bool {
        match self {
            GuestKind::TwoNodes => false,
            GuestKind::Cxl | GuestKind::CxlDevdax | GuestKind::CxlDcd => true,
        }
    }
}

impl fmt::Display for GuestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for text that names no guest kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no guest kind {given:?}; there are: two-nodes, cxl, cxl-devdax, cxl-dcd")]
pub struct ParseGuestKindError {
    /// The text that was given.
    pub given: String,
}

impl FromStr for GuestKind {
    type Err = ParseGuestKindError;

    fn from_str(text: &str) -> Result<GuestKind, ParseGuestKindError> {
        GuestKind::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| ParseGuestKindError {
                given: text.to_owned(),
            })
    }
}
