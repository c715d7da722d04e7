//! Typed access to the keys of one mapping.

use super::{Mistake, Node, Value, typed};
use crate::error::one_of;
use serde::Deserialize;

/// A mapping that was checked to have allowed keys only.
pub(crate) struct Fields<'a> {
    node: &'a Node,
}

impl<'a> Fields<'a> {
    /// Checks that `node` is a mapping without keys other than `allowed`.
    pub fn of(node: &'a Node, allowed: &[&str]) -> Result<Self, Mistake> {
        let Value::Map(entries) = &node.value else {
            let keys = allowed.join(", ");
            let problem = format!("is {}", node.kind());
            return Err(Mistake::new(
                node.line,
                problem,
                format!("a mapping with keys of {keys}"),
            ));
        };
        for (key, _) in entries {
            let name = key.as_text().unwrap_or_default();
            if !allowed.contains(&name) {
                let known = one_of(name, allowed.iter().copied());
                return Err(Mistake::new(
                    key.line,
                    format!("unknown key {name:?}"),
                    known,
                ));
            }
        }
        Ok(Fields { node })
    }

    pub fn line(&self) -> u64 {
        self.node.line
    }

    pub fn get(&self, key: &str) -> Option<&'a Node> {
        self.node.get(key)
    }

    pub fn need(&self, key: &str, what: &str) -> Result<&'a Node, Mistake> {
        self.get(key)
            .ok_or_else(|| Mistake::new(self.line(), format!("`{key}` is missing"), what))
    }

    /// The value under `key` as a `T`; `None` if the key is missing.
    pub fn typed<T: Deserialize<'a>>(&self, key: &str) -> Result<Option<T>, Mistake> {
        match self.get(key) {
            None => Ok(None),
            Some(node) => typed(node).map(Some).map_err(|e| e.under(key)),
        }
    }

    /// The value under `key` as a `T`; `what` describes it in the error for a missing key.
    pub fn needed<T: Deserialize<'a>>(&self, key: &str, what: &str) -> Result<T, Mistake> {
        let node = self.need(key, what)?;
        typed(node).map_err(|e| e.under(key))
    }

    /// The number under `key`, which must be above 0; `None` if the key is missing.
    pub fn positive(&self, key: &str) -> Result<Option<f64>, Mistake> {
        let number: Option<f64> = self.typed(key)?;
        match (number, self.get(key)) {
            (Some(n), Some(node)) if n <= 0.0 => {
                Err(Mistake::new(node.line, format!("is {n}"), "a number above 0").under(key))
            }
            _ => Ok(number),
        }
    }

    /// Items of the list under `key`; none if the key is missing.
    pub fn list(&self, key: &str) -> Result<&'a [Node], Mistake> {
        match self.get(key).map(|node| (node, &node.value)) {
            None => Ok(&[]),
            Some((_, Value::List(items))) => Ok(items),
            Some((node, _)) => {
                Err(Mistake::new(node.line, format!("is {}", node.kind()), "a list").under(key))
            }
        }
    }

    /// Names under `key`: a single one, or a list.
    pub fn names(&self, key: &str) -> Result<Vec<String>, Mistake> {
        match self.get(key).map(|node| &node.value) {
            None => Ok(Vec::new()),
            Some(Value::Text(name)) => Ok(vec![name.clone()]),
            Some(_) => self
                .typed::<Vec<String>>(key)
                .map(Option::unwrap_or_default),
        }
    }

    /// Rejects a file of another schema.
    pub fn schema(&self, wanted: &str) -> Result<(), Mistake> {
        let node = self.need("schema", &format!("{wanted:?}"))?;
        if node.as_text() == Some(wanted) {
            return Ok(());
        }
        let problem = format!("is {}", node.kind());
        Err(Mistake::new(node.line, problem, format!("{wanted:?}")).under("schema"))
    }
}
