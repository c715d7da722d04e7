//! Plans as text: their ids and their JSON.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::RunPlan;

/// Bytes of the hash that make an id.
const ID_BYTES: usize = 8;

/// Why a text is not a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is not the JSON of a plan.
    #[error("not the JSON of a plan: {0}; give the `plan` of a record as it stands there")]
    Json(#[from] serde_json::Error),
    /// The id is not the plan's: somebody changed one of them.
    #[error(
        "the plan says its id is {said}, but it is {found}; if it was changed on purpose, take the id out"
    )]
    Id {
        /// The id in the text.
        said: String,
        /// The plan's id.
        found: String,
    },
}

impl RunPlan {
    /// The plan with its id set: 16 hexadecimal digits of SHA-256 over its JSON with sorted keys, without `id`, `file` and `line`.
    #[must_use]
    pub fn with_id(mut self) -> Self {
        self.id = self.own_id();
        self
    }

    /// As JSON. Numbers that are not finite become null; files cannot make such plans.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// A plan from JSON; an empty or missing id is filled in.
    ///
    /// # Errors
    /// [`PlanError`] if it is not a plan or carries the id of another one.
    pub fn from_json(mut json: Value) -> Result<Self, PlanError> {
        if let Value::Object(fields) = &mut json {
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
            for field in ["id", "file", "line"] {
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

/// JSON with the keys of each object sorted, whatever order the library keeps them in.
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
