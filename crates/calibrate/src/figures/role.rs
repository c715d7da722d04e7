//! Roles of figures: what agreement with the model means.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a figure was used before it was compared with the model.
///
/// Only a [`Role::Check`] is a hold-out test of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Neither a number nor a definition of its experiment was chosen with it in view.
    Check,
    /// A fit used it.
    Fitted,
    /// A number or a definition was chosen by hand with it in view; its file says which.
    Chosen,
    /// Its modelled value follows by arithmetic from at most two fitted figures
    /// ([`crate::Arithmetic`]).
    Implied,
}

impl Role {
    /// All roles in the order of reports.
    pub const ALL: [Role; 4] = [Role::Check, Role::Fitted, Role::Chosen, Role::Implied];

    /// Name in files and records.
    pub fn name(self) -> &'static str {
        match self {
            Role::Check => "check",
            Role::Fitted => "fitted",
            Role::Chosen => "chosen",
            Role::Implied => "implied",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
