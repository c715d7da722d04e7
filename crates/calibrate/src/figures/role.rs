//! What a figure's agreement with the model is worth.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a figure was used before it was compared. Only a [`Role::Check`] says how good the model's
/// numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// No number and no definition of its question was chosen with it in view.
    Check,
    /// A fit used it.
    Fitted,
    /// A number or a definition was chosen by hand with it in view; its file says which.
    Chosen,
    /// What the model says follows from at most two fitted figures by arithmetic
    /// ([`crate::Arithmetic`]).
    Implied,
}

impl Role {
    /// All roles in reading order.
    pub const ALL: [Role; 4] = [Role::Check, Role::Fitted, Role::Chosen, Role::Implied];

    /// Its name in files and records.
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
