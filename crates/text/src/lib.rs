//! What users type and read, parsed and printed in one place.
//!
//! Every command accepts the same text for the same thing: sizes ([`Bytes`]), bandwidths
//! ([`GbPerSec`]), times ([`Seconds`]) and placements ([`Placement`], [`list`]). [`nearest`]
//! suggests what a mistyped word was meant to be, [`WholeFile`] writes files that are never seen
//! half-written, and [`Yaml`] is a YAML document with positions. [`words`] prints
//! numbers and lists for sentences.

mod bytes;
mod list;
mod nearest;
mod number;
mod placement;
mod quantity;
mod whole_file;
pub mod words;
mod yaml;

pub use bytes::{Bytes, BytesError};
pub use list::{ListError, continues, list, pieces};
pub use nearest::nearest;
pub use number::shown;
pub use placement::{MAX_WEIGHT, Place, Placement, PlacementError};
pub use quantity::{GbPerSec, GbPerSecError, Seconds, SecondsError};
pub use whole_file::WholeFile;
pub use yaml::{Yaml, read_yaml, yaml_problem};
