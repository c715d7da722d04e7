//! Plans as JSON, and the ids that are computed from it.
//!
//! The id identifies what is run, not where it was written: records of the same run from different
//! files or machines can be compared by it.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::RunPlan;

/// Bytes of the hash that form an id.
const ID_BYTES: usize = 8;

/// Why a JSON value was not accepted as a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The JSON does not have the structure of a plan.
    #[error("not the JSON of a plan: {0}; give the `plan` of a record unchanged")]
    Json(#[from] serde_json::Error),
    /// The id does not belong to the plan: one of them was changed.
    #[error(
        "the plan says its id is {said}, but it is {found}; if it was changed on purpose, take the id out"
    )]
    Id {
        /// The id that the JSON contains.
        said: String,
        /// The id computed from the plan.
        found: String,
    },
}

impl RunPlan {
    /// The plan with its id set.
    ///
    /// The id is 16 hexadecimal digits of SHA-256 over the plan's fields in sorted order, without
    /// `id`, `file`, `line` and `scale`. The names of the workload and its tasks are part of it.
    #[must_use]
    pub fn with_id(mut self) -> Self {
        self.id = self.own_id();
        self
    }

    /// The plan as JSON.
    ///
    /// Numbers that are not finite become null; workload files cannot produce such plans.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// Reads a plan from JSON; an empty or missing id is computed.
    ///
    /// # Errors
    /// [`PlanError::Json`] if the JSON is not a plan, [`PlanError::Id`] if it has the id of another
    /// one.
    pub fn from_json(mut json: Value) -> Result<Self, PlanError> {
        if let Value::Object(fields) = &mut json {
            // Plans written by hand need no id, but parsing requires the field.
            fields
                .entry("id")
                .or_insert_with(|| Value::String(String::new()));
        }
        let plan: Self = serde_json::from_value(json)?;
        let found = plan.own_id();
        if !plan.id.is_empty() && plan.id != found {
            return Err(PlanError::Id {
                said: plan.id,
                found,
            });
        }
        Ok(Self { id: found, ..plan })
    }

    fn own_id(&self) -> String {
        let mut json = self.to_json();
        if let Value::Object(fields) = &mut json {
            for field in ["id", "file", "line", "scale"] {
                fields.remove(field);
            }
        }
        let mut text = String::new();
        canonical(&json, &mut text);
        Sha256::digest(text.as_bytes())
            .iter()
            .take(ID_BYTES)
            .fold(String::new(), |mut id, byte| {
                // Writing to a string cannot fail.
                let _ = write!(id, "{byte:02x}");
                id
            })
    }
}

/// Writes `value` with the keys of each object sorted.
///
/// The result only feeds the hash and is not valid JSON. Sorting makes ids independent of the order
/// in which the JSON library keeps keys.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in fields {
                let _ = write!(text, "{key:?}:");
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        single => {
            let _ = write!(text, "{single}");
        }
    }
}
